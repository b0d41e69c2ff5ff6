"""What a backend takes of a module's text."""

from __future__ import annotations

import ctypes

import pytest

from gridgen.backends.interface import (
    DEFAULT_SHARED_BYTES,
    THREAD_SCHEDULE,
    Dtype,
    Launch,
    Rows,
    Sources,
    ThreadLaunch,
    launch_of,
)
from gridgen.backends.layouts import LayoutKernel, in_any_layout

FILES = {
    "arm.cu": '#include "arm.cuh"\n',
    "arm.cuh": '#pragma once\n#include <cmath>\n#ifdef A\n  #  include "math.cuh"\n#endif\n',
    "arm_simd.h": '#include "call.h"\n#include "arm.cuh"\n',
    "call.h": '#\tinclude"math.cuh"\n',
    "math.cuh": '#include "arm.cuh"\n',  # a circle ends
    "model.json": '{"#include": "arm.cu"}',
}


def test_a_unit_takes_what_it_includes_and_nothing_else():
    sources = Sources("arm", FILES)
    gpu = sources.included_by('#include "elsewhere.h"\n#include "arm.cu"\n')
    assert sorted(gpu.files) == ["arm.cu", "arm.cuh", "math.cuh"]
    cpu = sources.included_by('#define X\n#include "arm_simd.h"\nint x;\n')
    assert sorted(cpu.files) == ["arm.cuh", "arm_simd.h", "call.h", "math.cuh"]
    assert cpu.files.items() <= FILES.items()
    assert sources.included_by("int x;").files == {}


def test_a_kernel_with_arrays_in_rows_has_two_forms():
    sources = Sources("arm", FILES, rows={"f": ROWS})
    assert sources.forms("f") == (False, True)
    assert sources.forms("g") == (False,)
    assert isinstance(in_any_layout(sources, "f", lambda rows: rows), LayoutKernel)
    assert in_any_layout(sources, "g", lambda rows: rows) is False


@pytest.mark.parametrize("threads", [1, 1024])
def test_a_block_has_one_thread_to_1024(threads):
    assert Launch(threads, 1).threads_per_block == threads


def test_the_digest_of_a_unit_follows_its_files_alone():
    def digest(unit: str, **changes: str) -> str:
        files = FILES | {name.replace("__", "."): text for name, text in changes.items()}
        return Sources("arm", files).included_by(f'#include "{unit}"').digest

    assert digest("arm.cu") == digest("arm.cu", call__h="changed", arm_simd__h="changed")
    assert digest("arm.cu") != digest("arm.cu", math__cuh="changed")
    assert digest("arm_simd.h") != digest("arm_simd.h", call__h="changed")
    assert digest("arm.cu") != digest("arm_simd.h")


def test_units_with_the_same_includes_share_one_digest():
    sources = Sources("arm", FILES)
    first, second = (sources.included_by(f'#include "arm.cu"\nint x{i};') for i in range(2))
    assert first is second


# -- arrays in rows -----------------------------------------------------------------------------

#: A row of 7 numbers, one of 3 that states may share, a row of 49.
ROWS = Rows((7, 0, 49), 56)
IN_ROWS = ((4096, 7, 1), (4100, 0, 1), (8192, 49, 1))


def packed(*arrays: tuple[int, int, int]) -> ctypes.Array[ctypes.c_int64]:
    numbers = [number for array in arrays for number in array]
    return (ctypes.c_int64 * len(numbers))(*numbers)


def test_arrays_are_rows_where_states_lie_one_behind_the_other() -> None:
    q, gravity, M = IN_ROWS
    assert ROWS.are(packed(q, gravity, M))
    assert ROWS.are(packed(q, (4100, 3, 1), M))
    others = [(4096, 8, 1), (4096, 1, 1000), (4100, 7, 1), (4096, 0, 1)]
    assert not any(ROWS.are(packed(other, gravity, M)) for other in others)
    assert not ROWS.are(packed(q, (4100, 0, 2), M))
    assert not ROWS.are(packed(q, gravity, (8200, 49, 1)))


def test_each_form_is_made_when_it_is_needed() -> None:
    made: list[bool] = []
    called: list[tuple[bool, int]] = []

    def make(are_rows: bool):
        made.append(are_rows)
        return lambda arguments, batch: called.append((are_rows, batch))

    kernel = LayoutKernel(ROWS, make)
    in_columns = packed((4096, 1, 5), *IN_ROWS[1:])
    for arguments, batch in ((packed(*IN_ROWS), 5), (in_columns, 6), (packed(*IN_ROWS), 7)):
        kernel(arguments, batch)
    assert made == [True, False]
    assert called == [(True, 5), (False, 6), (True, 7)]


def test_the_form_follows_the_addresses_of_each_enqueued_call() -> None:
    enqueued: list[tuple[bool, int]] = []

    class Stream:
        def __init__(self, are_rows: bool) -> None:
            self.are_rows = are_rows

        def __call__(self, arguments, batch) -> None: ...
        def prepare(self, arguments, batch) -> None: ...
        def prepare_anywhere(self, arguments, batch):
            return lambda addresses, stream: enqueued.append((self.are_rows, stream))

    enqueue = LayoutKernel(ROWS, Stream).prepare_anywhere(packed(*IN_ROWS), 5)
    for stream, first in enumerate((4096, 4100, 8192)):
        enqueue((first, 4100, 8192), stream)
    assert enqueued == [(True, 0), (False, 1), (True, 2)]


@pytest.mark.parametrize(
    ("batch", "threads"), [(1, 32), (16_895, 32), (16_896, 128), (1 << 20, 128)]
)
def test_few_states_are_spread_over_many_blocks(batch: int, threads: int) -> None:
    launch = THREAD_SCHEDULE.of(batch)
    assert (launch.threads_per_block, launch.states_per_block) == (threads, threads)


@pytest.mark.parametrize(("state_bytes", "threads"), [(384, 128), (388, 64), (772, 32), (1536, 32)])
def test_a_block_takes_no_more_shared_memory_than_any_device_grants(
    state_bytes: int, threads: int
) -> None:
    launch = ThreadLaunch(state_bytes).of(1 << 20)
    assert (launch.threads_per_block, launch.shared_bytes) == (threads, threads * state_bytes)
    assert launch.shared_bytes <= DEFAULT_SHARED_BYTES


@pytest.mark.parametrize(
    ("capability", "parks"), [(80, False), (89, False), (90, True), (120, False)]
)
def test_values_are_parked_where_there_is_much_memory(capability: int, parks: bool) -> None:
    sources = Sources("robot", {}, rows={"f": Rows((7, 49), 56, parked=10)})

    def shared_bytes(dtype: Dtype, *, rows: bool) -> int:
        arch = f"compute_{capability}"
        return launch_of(sources, "f", dtype, rows=rows, arch=arch).of(1).shared_bytes

    assert shared_bytes("float32", rows=True) == 32 * 4 * (56 + 10 * parks)
    assert shared_bytes("float32", rows=False) == 32 * 4 * 10 * parks
    assert shared_bytes("float64", rows=False) == 0
