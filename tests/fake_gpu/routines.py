"""Functions of `cupy` that create, rearrange and compare arrays."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fake_gpu.arrays import DeviceContext, elementwise, empty, ndarray
from fake_gpu.machine import machine


def asnumpy(array: Any) -> NDArray[Any]:
    """Return an array as a NumPy array; the host waits for it."""
    return array.get() if isinstance(array, ndarray) else np.asarray(array)


def array(
    value: Any, dtype: DTypeLike = None, copy: bool | None = True, order: str = "K"
) -> ndarray:
    """Return an array with the given values, a new one unless ``copy`` is false."""
    if hasattr(value, "__cuda_array_interface__") and not isinstance(value, ndarray):
        value = _foreign(value)
    if isinstance(value, ndarray):
        kind = value.dtype if dtype is None else np.dtype(dtype)
        is_laid_out = order in "KA" or value.flags.c_contiguous
        return value if not copy and kind == value.dtype and is_laid_out else value.astype(kind)
    given = np.asarray(value, dtype)
    result = empty(given.shape, given.dtype)
    result.set(given)
    return result


def asarray(value: Any, dtype: DTypeLike = None, order: str = "K") -> ndarray:
    """Return an array with the given values, without a copy of such an array."""
    return array(value, dtype, copy=False, order=order)


def ascontiguousarray(value: Any, dtype: DTypeLike = None) -> ndarray:
    """Return a contiguous array with the given values."""
    return array(value, dtype, copy=False, order="C")


def full(shape: int | Sequence[int], value: Any, dtype: DTypeLike = None) -> ndarray:
    """Return an array with one value in all elements."""
    result = empty(shape, np.asarray(value).dtype if dtype is None else dtype)
    result.fill(value)
    return result


def zeros(shape: int | Sequence[int], dtype: DTypeLike = float) -> ndarray:
    """Return an array of zeros."""
    return full(shape, 0, dtype)


def ones(shape: int | Sequence[int], dtype: DTypeLike = float) -> ndarray:
    """Return an array of ones."""
    return full(shape, 1, dtype)


def zeros_like(like: ndarray, dtype: DTypeLike = None) -> ndarray:
    """Return an array of zeros with the shape of another."""
    return zeros(like.shape, dtype or like.dtype)


def arange(*limits: Any, dtype: DTypeLike = None) -> ndarray:
    """Return evenly spaced numbers."""
    return array(np.arange(*limits, dtype=dtype))


def broadcast_to(value: ndarray, shape: Sequence[int]) -> ndarray:
    """Return an array that repeats another's elements without a copy."""
    return value._viewed(np.broadcast_to(value._view, tuple(shape)))


def moveaxis(value: ndarray, source: Any, target: Any) -> ndarray:
    """Return a view with moved axes."""
    return value._viewed(np.moveaxis(value._view, source, target))


def tile(value: ndarray, times: Sequence[int]) -> ndarray:
    """Return an array that repeats another along each axis; new axes come first."""
    extents = (1,) * (len(times) - value.ndim) + value.shape
    source = value.reshape(tuple(part for extent in extents for part in (1, extent)))
    pairs = list(zip(times, extents, strict=True))
    spread = broadcast_to(source, [part for pair in pairs for part in pair])
    return spread.copy().reshape(tuple(n * extent for n, extent in pairs))


def isnan(value: ndarray) -> ndarray:
    """Return which elements are NaN."""
    return elementwise(np.isnan, value)


def assert_array_equal(a: Any, b: Any, **options: Any) -> None:
    """Raise unless arrays are equal."""
    np.testing.assert_array_equal(asnumpy(a), asnumpy(b), **options)


def assert_allclose(a: Any, b: Any, rtol: float = 1e-7, atol: float = 0, **options: Any) -> None:
    """Raise unless arrays are nearly equal."""
    np.testing.assert_allclose(asnumpy(a), asnumpy(b), rtol=rtol, atol=atol, **options)


def _foreign(value: Any) -> ndarray:
    """Return an array that shares the device memory of another library's array."""
    interface = value.__cuda_array_interface__
    address = interface["data"][0]
    device = next(
        device
        for device in machine().devices
        if device.pool.region.begin <= address < device.pool.region.end
    )
    kind, region = np.dtype(interface["typestr"]), device.pool.region
    view = np.ndarray(
        interface["shape"], kind, region.bytes, address - region.begin, interface["strides"]
    )
    # The reference to the other array keeps its memory allocated, as in CuPy.
    owner = SimpleNamespace(block=device.pool.find(address), of=value)
    with DeviceContext(device.number):
        return ndarray(device, owner, view)  # type: ignore[arg-type]
