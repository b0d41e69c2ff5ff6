"""The emulated backend's kernels as programs: what the sanitizers see, and what they do not."""

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from gridgen.backends.cache import BuildCache
from gridgen.backends.interface import Launch
from helpers.emulated import KERNELS, call, standalone
from helpers.standalone import Sanitizer

RANDOM = np.random.default_rng(7)

# Correct kernels: arguments and launch.
TOYS: dict[str, tuple[list[NDArray[Any]], Launch]] = {
    "block_sum": ([RANDOM.normal(size=(2, 64)), np.zeros((2, 1))], Launch(64, 1, 64 * 8)),
    "warp_scan": ([RANDOM.normal(size=(3, 32)), np.zeros((3, 32))], Launch(64, 2)),
    "partial_masks": ([RANDOM.normal(size=(32, 1)), np.zeros((32, 4))], Launch(32, 32)),
    "early_exit": ([RANDOM.normal(size=(50, 1)), np.zeros((50, 2))], Launch(32, 32)),
    "warp_exchange": ([RANDOM.normal(size=(70, 1)), np.zeros((70, 1))], Launch(64, 64)),
}


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize(
    ("function", "sanitize"),
    [
        *((function, "thread") for function in TOYS),
        ("block_sum", "address,undefined"),
        ("partial_masks", "address,undefined"),
    ],
)
def test_a_correct_kernel_has_no_report(
    cache: BuildCache, function: str, sanitize: Sanitizer
) -> None:
    arrays, launch = TOYS[function]
    run = standalone(cache, function, arrays, launch, sanitize)
    assert (run.status, run.report) == (0, "")
    expected = [array.copy() for array in arrays]
    call(cache, function, expected, launch)
    for computed, array in zip(run.arrays, expected, strict=True):
        assert_array_equal(computed, array)


def line_of(function: str, statement: str, occurrence: int) -> int:
    """Return the line of one barrier of a function."""
    places = re.finditer(re.escape(statement), KERNELS[KERNELS.index(function) :])
    start = KERNELS.index(function) + [place.start() for place in places][occurrence]
    return 1 + KERNELS[:start].count("\n")


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize(
    ("function", "place", "statement", "occurrence"),
    [
        ("block_sum", "block_sum_kernel", "__syncthreads();", 0),
        ("early_exit", "early_exit_kernel", "__syncthreads();", 0),
        ("warp_exchange", "T neighbor", "__syncwarp();", 0),
        ("warp_exchange", "T neighbor", "__syncwarp();", 1),
    ],
)
def test_a_missing_barrier_is_a_race(
    cache: BuildCache, function: str, place: str, statement: str, occurrence: int
) -> None:
    arrays, launch = TOYS[function]
    barrier = ("toy.cu", line_of(place, statement, occurrence))
    run = standalone(cache, function, arrays, launch, "thread", leave_out=barrier)
    assert run.status == 66
    assert "WARNING: ThreadSanitizer: data race" in run.report
    assert "toy.cu" in run.report


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize(
    "instead", ["__shfl_sync(0xffffffffu, 0, 0);", "__ballot_sync(0xffffffffu, 1);"]
)
def test_shuffles_and_votes_do_not_order_memory(cache: BuildCache, instead: str) -> None:
    text = KERNELS.replace("__syncwarp();\n    const T result", f"{instead}\n    const T result")
    assert text != KERNELS
    arrays, launch = TOYS["warp_exchange"]
    run = standalone(cache, "warp_exchange", arrays, launch, "thread", text)
    assert run.status == 66
    assert "WARNING: ThreadSanitizer: data race" in run.report


@pytest.mark.usefixtures("sanitizers")
def test_a_warp_barrier_does_not_order_other_warps(cache: BuildCache) -> None:
    """All warps share one bookkeeping; none of its locks may pass for a barrier of the block."""
    text = KERNELS.replace("__syncthreads();\n        if (t < half)", "__syncwarp(); if (t < half)")
    assert text != KERNELS
    arrays, launch = TOYS["block_sum"]
    run = standalone(cache, "block_sum", arrays, launch, "thread", text)
    assert "WARNING: ThreadSanitizer: data race" in run.report


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize("beyond", [1, 200])
def test_an_access_beyond_shared_memory_is_reported(cache: BuildCache, beyond: int) -> None:
    run = standalone(
        cache,
        "out_of_bounds",
        [np.zeros((1, 1))],
        Launch(32, 1000),
        "address,undefined",
        batch=beyond,
    )
    assert run.status != 0
    assert re.search(r"toy\.cu:\d+:\d+: runtime error: index \d+ out of bounds", run.report)


@pytest.mark.usefixtures("sanitizers")
def test_an_access_beyond_dynamic_shared_memory_is_reported(cache: BuildCache) -> None:
    arrays, _ = TOYS["block_sum"]
    launch = Launch(64, 1, 64 * 8 - 1)
    run = standalone(cache, "block_sum", arrays, launch, "address,undefined")
    assert run.status == 66
    assert "AddressSanitizer: heap-buffer-overflow" in run.report


def test_a_program_reports_a_deadlock(cache: BuildCache) -> None:
    run = standalone(cache, "stuck", [np.zeros((1, 1))], Launch(64, 64))
    assert run.status == 3
    assert "deadlock: every thread waits" in run.report
    assert run.arrays == ()
