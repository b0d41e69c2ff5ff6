"""The emulated backend on small kernels: results and diagnoses."""

import subprocess
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gridgen.backends.cache import BuildCache
from gridgen.backends.interface import Launch
from gridgen.errors import CompileError, InternalError, OptionError
from helpers.emulated import KERNELS, call, sources

RANDOM = np.random.default_rng(7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 32, 256])
def test_a_block_reduces_in_dynamic_shared_memory(
    cache: BuildCache, threads: int, dtype: type[np.floating[Any]]
) -> None:
    # Integers of this size have exact sums in any order; rows come from a larger, strided array.
    x = RANDOM.integers(-50, 50, (5, 2 * threads)).astype(dtype)[:, ::2]
    total = np.zeros((5, 1), dtype)
    call(cache, "block_sum", [x, total], Launch(threads, 1, threads * x.itemsize))
    assert_array_equal(total[:, 0], x.sum(axis=1))


@pytest.mark.parametrize("warps", [1, 4])
def test_a_warp_scans_by_shuffles(cache: BuildCache, warps: int) -> None:
    x = RANDOM.integers(-50, 50, (6, 32)).astype(np.float64)
    sums = np.zeros_like(x)
    call(cache, "warp_scan", [x, sums], Launch(32 * warps, warps))
    assert_array_equal(sums, np.cumsum(x, axis=1))


def test_groups_of_lanes_meet_under_masks_of_their_own(cache: BuildCache) -> None:
    x = np.arange(100.0, 132.0).reshape(32, 1)
    y = np.zeros((32, 4))
    call(cache, "partial_masks", [x, y], Launch(32, 32))
    lane = np.arange(32)
    low, high = lane[:20], lane[20:]
    assert_array_equal(y[:20, 0], 100 + np.minimum(low + 1, 19))
    assert_array_equal(y[:20, 1], sum(1 << k for k in range(0, 20, 3)))
    assert_array_equal(y[:20, 2], 1)
    assert_array_equal(y[:20, 3], 100 + low // 4 * 4 + low // 4 % 4)
    assert_array_equal(y[20:, 0], 100 + (high ^ 1))
    assert_array_equal(y[20:, 1], 6)
    assert_array_equal(y[20:, 2], 31)
    assert_array_equal(y[20:, 3], np.where(high % 4 >= 2, high - 2, high))


def test_threads_that_have_returned_are_not_waited_for(cache: BuildCache) -> None:
    x = RANDOM.integers(0, 9, (150, 1)).astype(np.float64)
    y = np.zeros((150, 2))
    call(cache, "early_exit", [x, y], Launch(64, 64))
    last = x[[63] * 64 + [127] * 64 + [149] * 22]
    assert_array_equal(y[:, :1], x - last)
    assert_array_equal(y[:, 1], [32 + 1000] * 64 + [32] * 64 + [11] * 22)


def test_static_shared_memory_of_a_template(cache: BuildCache) -> None:
    x = RANDOM.integers(0, 9, (200, 1)).astype(np.float32)
    y = np.zeros_like(x)
    call(cache, "warp_exchange", [x, y], Launch(128, 128))
    swapped = x.reshape(-1, 2)[:, ::-1].reshape(-1, 1)
    assert_array_equal(y, swapped + 10 * x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shared_memory_is_poisoned_before_every_block(
    cache: BuildCache, dtype: type[np.floating[Any]]
) -> None:
    y = np.zeros((3, 3), dtype)
    call(cache, "uninitialized", [y], Launch(33, 1, 33 * y.itemsize))
    assert np.isnan(y[:, :2]).all()
    assert_array_equal(y[:, 2], np.full(3, 0x7FF4DEAD, dtype))


def test_atomics_of_all_blocks_add_up(cache: BuildCache) -> None:
    x = RANDOM.integers(0, 5, (1000, 1)).astype(np.float64)
    counts = np.zeros((5, 1))
    call(cache, "histogram", [x, counts], Launch(256, 256), batch=1000)
    assert_array_equal(counts[:, 0], np.bincount(x[:, 0].astype(int), minlength=5))


def test_no_states_take_no_launch(cache: BuildCache) -> None:
    call(cache, "histogram", [np.zeros((0, 1)), np.zeros((0, 1))], Launch(256, 256))


def test_a_deadlock_is_reported_with_the_lines_where_threads_wait(cache: BuildCache) -> None:
    with pytest.raises(InternalError) as caught:
        call(cache, "stuck", [np.zeros((1, 1))], Launch(64, 64))
    line = 1 + KERNELS[: KERNELS.index("if (threadIdx.x < 16) __syncwarp();")].count("\n")
    message = str(caught.value)
    assert "toy::stuck_kernel (float64): deadlock: every thread waits" in message
    assert f"toy.cu:{line}: __syncwarp is reached by lanes 0x0000ffff of mask 0xffffffff" in message
    assert f"toy.cu:{line + 1}: __syncthreads is reached by 48 of 64 threads" in message


def test_warps_hand_over_what_they_have_found(cache: BuildCache) -> None:
    x = np.random.default_rng(0).normal(size=(5, 32))
    y = np.full_like(x, np.nan)
    call(cache, "handed_over", [x, y], Launch(64, 64))
    assert_array_equal(y, x[:, ::-1])


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("barrier_wait(1, 64)", "barrier_wait(1, 96)", "calls for 96 threads while"),
        ("barrier_wait(2, 64)", "barrier_wait(16, 64)", "names barrier 16 of 64 threads"),
        ("barrier_wait(1, 64)", "barrier_wait(3, 64)", "deadlock: .*at barrier [123]"),
        ("if (state + 1 < n) ", "", "every thread has returned.*of 64 threads at barrier 2"),
    ],
)
def test_wrong_barriers_of_some_threads_are_reported(
    cache: BuildCache, right: str, wrong: str, message: str
) -> None:
    text = KERNELS.replace(right, wrong)
    assert text != KERNELS
    arrays = [np.zeros((5, 32)), np.zeros((5, 32))]
    with pytest.raises(InternalError, match=f"(?s){message}"):
        call(cache, "handed_over", arrays, Launch(64, 64), text=text)


def test_a_barrier_in_divergent_code_is_reported(cache: BuildCache) -> None:
    with pytest.raises(InternalError, match=r"must not stand in divergent code"):
        call(cache, "divergent", [np.zeros((1, 1))], Launch(32, 32))


def test_a_lane_outside_its_own_mask_is_reported(cache: BuildCache) -> None:
    text = KERNELS.replace("if (threadIdx.x < 16) __syncwarp();", "__syncwarp(0x3);")
    with pytest.raises(InternalError, match=r"by lane \d+, which its mask 0x00000003 does not"):
        call(cache, "stuck", [np.zeros((1, 1))], Launch(32, 32), text=text)


def test_different_operations_under_one_mask_are_reported(cache: BuildCache) -> None:
    text = KERNELS.replace(
        "if (threadIdx.x < 16) __syncwarp();",
        "if (threadIdx.x < 16) __syncwarp(); else __ballot_sync(0xffffffffu, 1);",
    )
    with pytest.raises(InternalError, match=r"of the same mask 0xffffffff wait in"):
        call(cache, "stuck", [np.zeros((1, 1))], Launch(32, 32), text=text)


def test_a_wrong_number_of_arrays_is_reported(cache: BuildCache) -> None:
    with pytest.raises(InternalError, match="the kernel takes 1 arrays, but 2 are given"):
        call(cache, "stuck", [np.zeros((1, 1))] * 2, Launch(32, 32))


def test_a_block_has_at_most_1024_threads() -> None:
    with pytest.raises(OptionError, match="threads per block is 2048; CUDA allows 1 to 1024"):
        Launch(2048, 1)


def test_a_compile_error_names_the_line_of_the_kernel_file(cache: BuildCache) -> None:
    text = KERNELS.replace("T* dynamic = ", "T* dynamic = undeclared + ")
    line = 1 + text[: text.index("undeclared")].count("\n")
    with pytest.raises(CompileError, match=rf"uninitialized \(float64\).*toy\.cu:{line}: "):
        call(cache, "uninitialized", [np.zeros((1, 3))], Launch(33, 1), text=text)


def test_debuggers_find_the_kernel_file(cache: BuildCache) -> None:
    call(cache, "histogram", [np.zeros((0, 1)), np.zeros((0, 1))], Launch(32, 32))
    libraries = list(cache.folder.glob("*/kernel"))
    assert libraries
    for library in libraries:
        assert (library.parent / "toy.cu").is_file()
        assert str(library.parent).encode() in library.read_bytes()
        assert b"building-" not in library.read_bytes()


def test_no_symbol_is_shared_between_two_libraries(cache: BuildCache) -> None:
    """Two robots' static shared variables may have one name; they must not become one variable."""
    call(cache, "uninitialized", [np.zeros((1, 3))], Launch(33, 1, 33 * 8))
    for library in cache.folder.glob("*/kernel"):
        names = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True)
        assert "toy" not in names.stdout


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize(
    "function",
    ["block_sum", "warp_scan", "partial_masks", "early_exit", "warp_exchange", "histogram"],
)
def test_nvrtc_takes_the_same_text(cache: BuildCache, function: str, arch: str) -> None:
    pytest.importorskip("cupy")
    from gridgen.backends.cuda.compiler import compile_kernel

    compile_kernel(sources(), function, "float32", arch, cache)
