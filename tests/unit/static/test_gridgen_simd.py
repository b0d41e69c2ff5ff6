"""gridgen_simd.h: blocks of states loaded from and stored to arrays of any strides."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np
import pytest

DTYPES = [np.float32, np.float64]
SIZES = [1, 3, 4, 7, 18]  # those that driver.cpp compiles
LAYOUTS = ["rows", "padded rows", "columns", "padded columns", "strided", "reversed"]
FILL = -77.0


class Fence:
    """Memory whose first byte follows, and whose last byte precedes, a page no one may touch."""

    def __init__(self) -> None:
        self.size = 16 * mmap.PAGESIZE
        self.memory = mmap.mmap(-1, self.size + 2 * mmap.PAGESIZE)
        self.inside = np.frombuffer(self.memory, np.uint8)[mmap.PAGESIZE : -mmap.PAGESIZE]
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            for page in (
                self.inside.ctypes.data - mmap.PAGESIZE,
                self.inside.ctypes.data + self.size,
            ):
                size = ctypes.c_size_t(mmap.PAGESIZE)
                assert libc.mprotect(ctypes.c_void_p(page), size, 0) == 0

    def array(self, count: int, dtype: type, edge: str) -> np.ndarray:
        """An array filled with FILL that ends, or begins, at the fence."""
        size = count * np.dtype(dtype).itemsize
        assert size <= self.size
        inside = self.inside[:size] if edge == "front" else self.inside[self.size - size :]
        array = inside.view(dtype)
        array[:] = FILL
        return array


@pytest.fixture(scope="module")
def fences() -> tuple[Fence, Fence]:
    return Fence(), Fence()


def arrange(layout: str, states: int, n: int, allocate) -> tuple[np.ndarray, np.ndarray]:
    """An array of shape (states, n) in this layout, and all of the memory under it."""
    shape = {
        "rows": (states, n),
        "padded rows": (states, n + 3),
        "columns": (n, states),
        "padded columns": (n, states + 2),
        "strided": (states, 2 * n + 1),
        "reversed": (states, n),
    }[layout]
    memory = allocate(shape[0] * shape[1])
    grid = memory.reshape(shape)
    array = {
        "rows": grid,
        "padded rows": grid[:, :n],
        "columns": grid.T,
        "padded columns": grid[:, :states].T,
        "strided": grid[:, : 2 * n : 2],
        "reversed": grid[::-1],
    }[layout]
    return array, memory


@pytest.mark.parametrize("way", ["copy", "stream"])
@pytest.mark.parametrize("edge", ["front", "back"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_exactly_the_states_given_are_copied(driver, fences, dtype, n, edge, way):
    values = np.random.default_rng(7).normal(size=(3 * driver.width(dtype), n)).astype(dtype)
    for source_layout, target_layout in zip(LAYOUTS, LAYOUTS[2:] + LAYOUTS[:2], strict=True):
        for states in range(1, len(values) + 1):
            (source, _), (target, memory) = (
                arrange(layout, states, n, lambda count, f=fence: f.array(count, dtype, edge))
                for layout, fence in zip((source_layout, target_layout), fences, strict=True)
            )
            source[:] = values[:states]
            begin = states // 4
            driver.call(way, n, [source, target], begin, states)
            np.testing.assert_array_equal(target[begin:], values[begin:states])
            target[begin:] = FILL
            assert (memory == FILL).all(), "numbers beside the states were written"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_components_in_one_place_are_equal(driver, fences, dtype, layout):
    places = [0, 1, 1, 2, 0, 1, 2]  # as in driver.cpp
    for states in range(1, 3 * driver.width(dtype) + 1):
        source = np.random.default_rng(states).normal(size=(states, 3)).astype(dtype)
        target, memory = arrange(
            layout, states, 7, lambda count: fences[1].array(count, dtype, "back")
        )
        driver.call("share", 3, [source, target], 0, states)
        np.testing.assert_array_equal(target, source[:, places])
        target[:] = FILL
        assert (memory == FILL).all(), "numbers beside the states were written"


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_state_without_batch_stride_fills_every_lane(driver, fences, dtype, n):
    width = driver.width(dtype)
    row = fences[0].array(n, dtype, "back")
    row[:] = np.arange(n)
    one_for_all = np.broadcast_to(row, (width, n))
    target = np.full((2 * width + 1, n), FILL, dtype)
    driver.call("copy", n, [one_for_all, target], 0, len(target))
    np.testing.assert_array_equal(target, np.broadcast_to(row, target.shape))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_spare_lanes_repeat_the_last_state(driver, dtype, layout):
    n, width = 7, driver.width(dtype)
    for count in range(1, width + 1):
        source, _ = arrange(layout, count + 2, n, lambda size: np.zeros(size, dtype))
        source[:] = np.random.default_rng(count).normal(size=source.shape)
        block = np.empty((n, width), dtype)
        driver.call("load", n, [source, block], 2, count)
        lanes = np.minimum(np.arange(width), count - 1)
        np.testing.assert_array_equal(block, source[2 + lanes].T)
