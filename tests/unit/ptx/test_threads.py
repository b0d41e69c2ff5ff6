"""What threads of translated PTX do together, and with memory; and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fake_gpu.ptx.executable import LaunchError, PtxLibrary
from fake_gpu.ptx.parser import PtxError
from gridgen.errors import InternalError
from helpers.ptx import HEAD, kernel_text, run

#: %mine is the address of the thread's own four words of the array.
MINE = """
    .reg .b64 %mine;
    mad.wide.u32 %mine, %tid, 16, %out;
"""
SHUFFLES = (
    MINE
    + """
    .reg .b32 %value, %got<4>;
    .reg .pred %in<4>;
    mul.lo.u32 %value, %tid, 10;
    shfl.sync.idx.b32 %got0|%in0, %value, 5, 31, -1;
    shfl.sync.up.b32 %got1|%in1, %value, 3, 0, -1;
    shfl.sync.down.b32 %got2|%in2, %value, 1, 6175, -1;
    shfl.sync.bfly.b32 %got3|%in3, %value, 16, 31, 0xffffffff;
    @!%in1 mov.b32 %got1, 7777;
    @!%in2 mov.b32 %got2, 8888;
    st.global.v4.u32 [%mine], {%got0, %got1, %got2, %got3};
"""
)


def words(threads: int) -> np.ndarray:
    return np.zeros((threads, 4), np.uint32)


def test_lanes_shuffle_within_their_warp() -> None:
    got = run(kernel_text(SHUFFLES), words(96), 96)
    thread = np.arange(96)
    lane = thread % 32
    assert_array_equal(got[:, 0], 10 * (thread - lane + 5))
    assert_array_equal(got[:, 1], np.where(lane < 3, 7777, 10 * (thread - 3)))
    # 6175 is 0x181f: segments of eight lanes.
    assert_array_equal(got[:, 2], np.where(lane % 8 == 7, 8888, 10 * (thread + 1)))
    assert_array_equal(got[:, 3], 10 * (thread ^ 16))


def test_a_block_meets_at_a_barrier_and_shares_memory() -> None:
    """Each thread reads what one of another warp wrote, in every block anew."""
    body = (
        MINE
        + """
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mad.lo.s32 %r2, %r0, 1000, %tid;
    shl.b32 %r3, %tid, 2;
    mov.u32 %r4, slots;
    add.s32 %r5, %r4, %r3;
    ld.shared.u32 %r7, [%r5];
    st.shared.u32 [%r5], %r2;
    bar.sync 0;
    sub.s32 %r6, 63, %tid;
    mov.u64 %rd1, slots;
    cvta.shared.u64 %rd0, %rd1;
    mul.wide.u32 %rd2, %r6, 4;
    add.s64 %rd3, %rd0, %rd2;
    ld.u32 %r6, [%rd3];
    mul.wide.u32 %rd2, %r0, 1024;
    add.s64 %rd3, %mine, %rd2;
    st.global.v2.b32 [%rd3], {%r6, %r7};
"""
    )
    text = kernel_text(body, ".shared .align 4 .b8 slots[256];\n")
    got = run(text, words(128), 64, grid=2).reshape(2, 64, 4)
    for block in range(2):
        assert_array_equal(got[block, :, 0], 1000 * block + 63 - np.arange(64))
    assert np.isnan(got[:, :, 1].astype(np.uint32).view(np.float32)).all()


def test_dynamic_shared_memory_lies_behind_what_is_declared() -> None:
    body = (
        MINE
        + """
    .reg .b32 %r<4>;
    mov.u32 %r0, slots;
    mov.u32 %r1, dynamic;
    sub.u32 %r2, %r1, %r0;
    st.shared.u32 [dynamic+12], %r2;
    ld.shared.u32 %r3, [%r1+12];
    st.global.u32 [%mine], %r3;
"""
    )
    before = ".shared .align 8 .b8 slots[24];\n.extern .shared .align 16 .b8 dynamic[];\n"
    assert run(kernel_text(body, before), words(1), 1, shared_bytes=16)[0, 0] == 32
    with pytest.raises(InternalError, match=r"st\.shared\.u32 of address 0x2c, .* beyond"):
        run(kernel_text(body, before), words(1), 1, shared_bytes=12)


def test_threads_branch_each_their_way() -> None:
    """Thread t goes t times round a loop; odd ones leave it by the other branch."""
    body = (
        MINE
        + """
    .reg .b32 %r<4>;
    .reg .pred %p<3>;
    mov.u32 %r0, 0;
    mov.u32 %r1, 0;
    and.b32 %r2, %tid, 1;
    setp.ne.s32 %p1, %r2, 0;
$next:
    setp.ge.u32 %p0, %r0, %tid;
    @%p0 bra $done;
    add.s32 %r1, %r1, %r0;
    add.s32 %r0, %r0, 1;
    bra.uni $next;
$done:
    @!%p1 bra $even;
    add.s32 %r1, %r1, 10000;
$even:
    @%p1 st.global.u32 [%mine+4], %r1;
    @!%p1 st.global.u32 [%mine+8], %r1;
"""
    )
    got = run(kernel_text(body), words(40), 40)
    thread = np.arange(40)
    sums, odd = thread * (thread - 1) // 2, thread % 2 == 1
    assert_array_equal(got[:, 1], np.where(odd, sums + 10000, 0))
    assert_array_equal(got[:, 2], np.where(odd, 0, sums))


CALLED = """
.func (.param .align 4 .b8 result[8]) both(.param .b32 a, .param .align 8 .b8 b[16])
{
    .reg .b32 %r<4>;
    ld.param.u32 %r0, [a];
    ld.param.u32 %r1, [b+8];
    add.s32 %r2, %r0, %r1;
    sub.s32 %r3, %r0, %r1;
    st.param.b32 [result+0], %r2;
    st.param.b32 [result+4], %r3;
    ret;
}
"""
CALLING = (
    MINE
    + """
    .reg .b32 %r<4>;
    { // callseq 0, 0
    .param .b32 param0;
    st.param.b32 [param0+0], %tid;
    .param .align 8 .b8 param1[16];
    st.param.b32 [param1+8], 100;
    .param .align 4 .b8 retval0[8];
    call.uni (retval0),
    both,
    (
    param0,
    param1
    );
    ld.param.b32 %r0, [retval0+0];
    ld.param.b32 %r1, [retval0+4];
    }
    st.global.v2.u32 [%mine], {%r0, %r1};
"""
)


def test_functions_take_and_give_structures() -> None:
    got = run(kernel_text(CALLING, CALLED), words(3), 3)
    assert_array_equal(got[:, 0], np.arange(3) + 100)
    assert_array_equal(got[:, 1].astype(np.int32), np.arange(3) - 100)


def test_local_memory_is_a_threads_own_and_holds_nothing_at_first() -> None:
    body = (
        MINE
        + """
    .local .align 16 .b8 depot[32];
    .reg .b64 %SP, %SPL;
    .reg .f32 %f<2>;
    mov.u64 %SPL, depot;
    cvta.local.u64 %SP, %SPL;
    cvta.to.local.u64 %SPL, %SP;
    st.local.u32 [%SPL+4], %tid;
    bar.warp.sync -1;
    ld.local.v2.f32 {%f0, %f1}, [%SPL];
    st.global.v2.f32 [%mine], {%f0, %f1};
"""
    )
    got = run(kernel_text(body), words(32), 32)
    assert np.isnan(got[:, 0].copy().view(np.float32)).all()
    assert_array_equal(got[:, 1], np.arange(32))


def test_tables_parts_of_registers_and_votes() -> None:
    body = (
        MINE
        + """
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .reg .pred %p<2>;
    mul.wide.u32 %rd0, %tid, 2;
    mov.u64 %rd1, table;
    add.s64 %rd1, %rd1, %rd0;
    ld.const.s16 %r0, [%rd1];
    mov.b64 %rd2, {%r0, 9};
    { .reg .b32 low; mov.b64 {low, %r1}, %rd2; }
    setp.lt.s32 %p0, %r0, 0;
    vote.sync.ballot.b32 %r2, %p0, -1;
    vote.sync.any.pred %p1, %p0, -1;
    selp.b32 %r3, 50, 60, %p1;
    st.global.v4.u32 [%mine], {%r0, %r1, %r2, %r3};
"""
    )
    table = ".const .align 2 .b8 table[8] = {1, 0, 254, 255, 0, 1};\n"
    got = run(kernel_text(body, table), words(4), 4).astype(np.int32)
    assert_array_equal(got[:, 0], [1, -2, 256, 0])
    assert_array_equal(got[:, 1:], [[9, 0b0010, 50]] * 4)


def test_all_threads_add_to_one_number() -> None:
    body = """
    .reg .f32 %f<2>;
    .reg .b32 %r<2>;
    atom.global.add.f32 %f0, [%out], 0f3F800000;
    cvt.rzi.u32.f32 %r0, %f0;
    red.global.max.u32 [%out+4], %r0;
"""
    got = run(kernel_text(body), words(1), 64, grid=2)
    assert got[0, :1].view(np.float32) == 128
    assert got[0, 1] == 127


@pytest.mark.parametrize(
    ("instruction", "what"),
    [
        ("ex2.approx.f32 %f, %f;", r"ex2\.approx\.f32 is not supported"),
        ("add.ftz.f32 %f, %f, %f;", r"add\.ftz\.f32 is not supported"),
        ("cvt.f32.s32 %f, %tid;", r"cvt\.f32\.s32 is not supported"),
        ("bar.sync 1;", r"bar\.sync 1 is not known"),
        ("ld.global.f128 %f, [%out];", r"ld\.global\.f128 is not supported"),
        ("call.uni printed, (f);", "printed: this text has no such function"),
        ("add.f32 %f, %f;", "has 2 operands, and should have 3"),
        ("mov.u32 %tid, %clock;", '"%clock" is not known'),
        ("add.f32 %f, %f, %tid2;", '"%tid2" is not known'),
        ("add.s64 %out, %out, %tid;", r'"%tid" is \.b32, which is read as \.s64'),
        ("mov.b64 %tid, %out;", r'"%tid" is \.b32, which cannot hold \.b64'),
        ("a b c;", "a is not supported"),
    ],
)
def test_what_is_not_known_is_refused_by_name_and_line(instruction: str, what: str) -> None:
    text = kernel_text(f"    .reg .f32 %f;\n    {instruction}")
    line = 1 + text[: text.index(instruction)].count("\n")
    with pytest.raises(PtxError, match=rf"kernel\.ptx:{line}: .*{what}"):
        PtxLibrary(text)


def test_an_address_that_is_not_aligned_is_reported() -> None:
    body = "    .reg .f32 %f<4>;\n    ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%out+4];"
    text = kernel_text(body)
    line = 1 + text[: text.index("ld.global.v4")].count("\n")
    with pytest.raises(
        InternalError, match=rf"kernel\.ptx:{line}: ld\.global\.v4\.f32 of .* not a"
    ):
        run(text, words(4), 1)


def test_a_barrier_that_not_all_reach_is_reported() -> None:
    body = "    .reg .pred %p;\n    setp.lt.u32 %p, %tid, 16;\n    @%p bar.warp.sync -1;"
    text = kernel_text(body + "\n    bar.sync 0;")
    with pytest.raises(
        InternalError, match=r"bar\.warp\.sync is reached by lanes 0x0000ffff of mask"
    ):
        run(text, words(1), 64)


def test_a_launch_that_cuda_would_refuse_is_refused() -> None:
    head = ".visible .entry few(.param .align 8 .b8 array[24], .param .u32 n)\n.maxntid 32, 1, 1\n"
    library = PtxLibrary(f"{HEAD}{head}{{\n    ret;\n}}\n")
    assert library.entries == ("few",)
    parameters = [bytes(24), struct.pack("<I", 3)]
    library.launch("few", 1, 32, 0, parameters)
    with pytest.raises(LaunchError, match="a block of 33 threads; it takes 1 to 32"):
        library.launch("few", 1, 33, 0, parameters)
    with pytest.raises(LaunchError, match=r"parameters of \[24\] bytes; it takes \[24, 4\]"):
        library.launch("few", 1, 32, 0, parameters[:1])
    with pytest.raises(LaunchError, match="a grid of 0 blocks"):
        library.launch("few", 0, 32, 0, parameters)
    with pytest.raises(LaunchError, match="no kernel many; there are few"):
        library.launch("many", 1, 32, 0, parameters)
