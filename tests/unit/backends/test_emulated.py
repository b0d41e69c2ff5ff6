"""The emulated backend on small kernels: results, diagnoses, and what the sanitizers see."""

import ctypes
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from gridgen.backends.cache import BuildCache
from gridgen.backends.emulated import EmulatedBackend, Sanitizer, StandaloneRun, run_standalone
from gridgen.backends.interface import Dtype, Launch, Sources
from gridgen.errors import CompileError, InternalError, OptionError

STATIC = Path(__file__).parents[3] / "templates" / "static"

KERNELS = r"""
#include "gridgen_math.cuh"
#include "gridgen_shared.cuh"

namespace toy {

using gridgen::Strided;

__constant__ int offsets[2] = {0, 1};

// One state per block: the sum of its components, by halving, in dynamic shared memory.
template <class T>
__global__ void __launch_bounds__(1024)
block_sum_kernel(Strided<T> x, Strided<T> sum, long long n) {
    T* terms = gridgen::dynamic_shared<T>();
    const int t = threadIdx.x;
    const long long state = blockIdx.x;
    terms[t] = x.data[state * x.batch + t * x.component];
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) terms[t] += terms[t + half];
    }
    if (t == 0 && state < n) sum.data[state * sum.batch] = terms[0];
}

// One state per warp: running sums by shuffles.
template <class T>
__global__ void warp_scan_kernel(Strided<T> x, Strided<T> sums, long long n) {
    const int lane = threadIdx.x % warpSize;
    const long long state = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / warpSize;
    if (state >= n) return;
    T sum = x.data[state * x.batch + lane * x.component];
    for (int step = 1; step < warpSize; step *= 2) {
        const T before = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum += before;
    }
    sums.data[state * sums.batch + lane * sums.component] = sum;
}

// Two groups of lanes go different ways, each with its own mask; shuffles of every kind.
template <class T>
__global__ void partial_masks_kernel(Strided<T> x, Strided<T> y, long long n) {
    const int lane = threadIdx.x;
    const T value = x.data[lane];
    T result[4] = {0, 0, 0, 0};
    if (lane < 20) {
        const unsigned mask = 0xfffffu;
        result[0] = __shfl_down_sync(mask, value, lane < 19 ? 1 : 0);
        __syncwarp(mask);
        result[1] = T(__ballot_sync(mask, lane % 3 == 0));
        result[2] = T(__all_sync(mask, lane < 20) + 2 * __any_sync(mask, lane == 25));
        result[3] = __shfl_sync(mask, value, lane / 4, 4);
    } else {
        const unsigned mask = 0xfff00000u;
        result[0] = __shfl_xor_sync(mask, value, 1);
        result[1] = T(__popc(__ballot_sync(mask, lane % 2)));
        result[2] = T(__shfl_sync(mask, (long long)lane << 40, 31) >> 40);
        result[3] = T(__shfl_up_sync(mask, lane, 2, 4));
    }
    for (int k = 0; k < 4 && n > 0; ++k) y.data[lane * y.batch + k] = result[k];
}

// Threads beyond the batch leave at once; those that stay still meet.
template <class T>
__global__ void early_exit_kernel(Strided<T> x, Strided<T> y, long long n) {
    __shared__ T last;
    const long long state = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (state >= n) return;
    const T value = x[state][0];
    if (threadIdx.x == blockDim.x - 1 || state == n - 1) last = value;
    __syncthreads();
    y[state][0] = value - last;
    y[state][1] = T(__syncthreads_count(threadIdx.x % 2) + 1000 * __syncthreads_or(state == 0));
}

template <class T> __device__ __noinline__ T neighbour(T value) {
    __shared__ T slots[128];
    slots[threadIdx.x] = value;
    __syncwarp();
    const T result = slots[threadIdx.x ^ offsets[1]];
    __syncwarp();
    return result;
}

// Exchanges through static shared memory, twice through the same slots.
template <class T>
__global__ void warp_exchange_kernel(Strided<T> x, Strided<T> y, long long n) {
    const long long state = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    T value = neighbour(state < n ? x[state][0] : T(0));
    value += T(10) * neighbour(value);
    if (state < n) y[state][0] = value;
}

// What shared memory holds before anyone has written to it.
template <class T>
__global__ void uninitialised_kernel(Strided<T> y, long long n) {
    __shared__ T slots[33];
    __shared__ int index;
    T* dynamic = gridgen::dynamic_shared<T>();
    const int t = threadIdx.x;
    if (blockIdx.x < n && t == 32) {
        y[blockIdx.x][0] = slots[t];
        y[blockIdx.x][1] = dynamic[t];
        y[blockIdx.x][2] = T(index);
    }
    __syncthreads();
    slots[t] = dynamic[t] = T(t);
    index = 0;
}

template <class T>
__global__ void histogram_kernel(Strided<T> x, Strided<T> counts, long long n) {
    const long long state = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (state < n) atomicAdd(&counts.data[int(__ldg(&x.data[state]))], T(1));
}

template <class T>
__global__ void out_of_bounds_kernel(Strided<T> y, long long n) {
    __shared__ T slots[32];
    slots[threadIdx.x + n] = T(1);
    __syncthreads();
    y[0][0] = slots[0];
}

// Lanes 16 to 31 of the first warp never come to the meeting of all 32.
template <class T>
__global__ void stuck_kernel(Strided<T> y, long long n) {
    if (threadIdx.x < 16) __syncwarp();
    __syncthreads();
    y[0][0] = T(n);
}

template <class T>
__global__ void divergent_kernel(Strided<T> y, long long n) {
    if (threadIdx.x < 16) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    y[0][0] = T(n);
}

}  // namespace toy
"""

RANDOM = np.random.default_rng(7)


def sources(text: str = KERNELS) -> Sources:
    headers = {path.name: path.read_text() for path in STATIC.glob("*.*h")}
    return Sources("toy", {**headers, "toy.cu": text})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    return BuildCache(tmp_path_factory.mktemp("cache"))


def call(
    cache: BuildCache,
    function: str,
    arrays: Sequence[NDArray[Any]],
    launch: Launch,
    batch: int | None = None,
    text: str = KERNELS,
) -> None:
    """Run a kernel in this process, on arrays as they are."""
    dtype: Dtype = "float32" if arrays[0].dtype == np.float32 else "float64"
    kernel = EmulatedBackend(cache=cache).kernel(sources(text), function, dtype, launch)
    triples = [
        number
        for array in arrays
        for number in (array.ctypes.data, *(stride // array.itemsize for stride in array.strides))
    ]
    kernel((ctypes.c_int64 * len(triples))(*triples), len(arrays[-1]) if batch is None else batch)


def standalone(
    cache: BuildCache,
    function: str,
    arrays: Sequence[NDArray[Any]],
    launch: Launch,
    sanitize: Sanitizer | None = None,
    text: str = KERNELS,
    batch: int | None = None,
    leave_out: tuple[str, int] | None = None,
) -> StandaloneRun:
    return run_standalone(
        sources(text),
        function,
        "float64",
        arrays,
        launch,
        batch=batch,
        sanitize=sanitize,
        leave_out=leave_out,
        cache=cache,
    )


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
    call(cache, "uninitialised", [y], Launch(33, 1, 33 * y.itemsize))
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
    assert f"toy.cu:{line}: __syncwarp has met lanes 0x0000ffff of mask 0xffffffff" in message
    assert f"toy.cu:{line + 1}: __syncthreads has met 48 of 64 threads" in message


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
    with pytest.raises(CompileError, match=rf"uninitialised \(float64\).*toy\.cu:{line}: "):
        call(cache, "uninitialised", [np.zeros((1, 3))], Launch(33, 1), text=text)


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
    call(cache, "uninitialised", [np.zeros((1, 3))], Launch(33, 1, 33 * 8))
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
    from gridgen.backends.nvrtc import compile_kernel

    compile_kernel(sources(), function, "float32", arch, cache)


# ---- sanitizers --------------------------------------------------------------------------------


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
        ("warp_exchange", "T neighbour", "__syncwarp();", 0),
        ("warp_exchange", "T neighbour", "__syncwarp();", 1),
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
