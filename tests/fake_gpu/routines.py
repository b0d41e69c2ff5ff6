"""Functions that make, rearrange and compare arrays, as `cupy` has them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fake_gpu.arrays import DeviceContext, elementwise, empty, ndarray
from fake_gpu.machine import machine


def asnumpy(array: Any) -> NDArray[Any]:
    """Return a NumPy array with the numbers of an array; the host waits for them."""
    return array.get() if isinstance(array, ndarray) else np.asarray(array)


def array(
    value: Any, dtype: DTypeLike = None, copy: bool | None = True, order: str = "K"
) -> ndarray:
    """Return an array with given numbers, a new one unless ``copy`` is false."""
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
    """Return an array with given numbers, the given one if it is such an array."""
    return array(value, dtype, copy=False, order=order)


def ascontiguousarray(value: Any, dtype: DTypeLike = None) -> ndarray:
    """Return an array with given numbers, one after the other."""
    return array(value, dtype, copy=False, order="C")


def full(shape: int | Sequence[int], value: Any, dtype: DTypeLike = None) -> ndarray:
    """Return an array with one number everywhere."""
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
    """Return an array of zeros of another's shape."""
    return zeros(like.shape, dtype or like.dtype)


def arange(*limits: Any, dtype: DTypeLike = None) -> ndarray:
    """Return evenly spaced numbers."""
    return array(np.arange(*limits, dtype=dtype))


def broadcast_to(value: ndarray, shape: Sequence[int]) -> ndarray:
    """Return an array that repeats another's elements without a copy."""
    return value._viewed(np.broadcast_to(value._view, tuple(shape)))


def moveaxis(value: ndarray, source: Any, target: Any) -> ndarray:
    """Return an array with axes in other places."""
    return value._viewed(np.moveaxis(value._view, source, target))


def tile(value: ndarray, times: Sequence[int]) -> ndarray:
    """Return an array that repeats another so many times along each axis, new ones in front."""
    extents = (1,) * (len(times) - value.ndim) + value.shape
    source = value.reshape(tuple(part for extent in extents for part in (1, extent)))
    pairs = list(zip(times, extents, strict=True))
    spread = broadcast_to(source, [part for pair in pairs for part in pair])
    return spread.copy().reshape(tuple(n * extent for n, extent in pairs))


def isnan(value: ndarray) -> ndarray:
    """Return which elements are no numbers."""
    return elementwise(np.isnan, value)


def assert_array_equal(a: Any, b: Any, **options: Any) -> None:
    """Raise unless arrays hold the same numbers."""
    np.testing.assert_array_equal(asnumpy(a), asnumpy(b), **options)


def assert_allclose(a: Any, b: Any, rtol: float = 1e-7, atol: float = 0, **options: Any) -> None:
    """Raise unless arrays hold nearly the same numbers."""
    np.testing.assert_allclose(asnumpy(a), asnumpy(b), rtol=rtol, atol=atol, **options)


def _foreign(value: Any) -> ndarray:
    """Return an array that shares the memory of another library's, which lies on some device."""
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
    # As long as the other array lives, so does its memory; CuPy holds that array for this.
    owner = SimpleNamespace(block=device.pool.find(address), of=value)
    with DeviceContext(device.number):
        return ndarray(device, owner, view)  # type: ignore[arg-type]
