"""Array arguments: where they come from, what is allowed, and what a kernel sees of them.

NumPy and CuPy arrays are used in place. Arrays of other libraries (PyTorch, JAX) come in through
DLPack without a copy, and results go back to the library of the first argument.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gridgen.backends import Dtype
from gridgen.errors import DeviceError, DtypeError, ShapeError

Array = Any  # numpy.ndarray, cupy.ndarray, torch.Tensor, jax.Array

#: Element types that kernels know, by their spelling; byte order is the machine's.
DTYPES: dict[np.dtype[Any], Dtype] = {
    np.dtype("float32"): "float32",
    np.dtype("float64"): "float64",
}
_CPU, _CUDA = 1, 2  # device types of DLPack


def adopt(value: Array, name: str) -> Array:
    """Return an argument as a NumPy or CuPy array that shares its memory.

    A sequence of numbers becomes a new float64 array.

    Args:
        value: the argument.
        name:  its name, for errors.

    Raises:
        DtypeError:  it holds no numbers.
        DeviceError: it lies on a device that NumPy and CuPy cannot reach.
    """
    if isinstance(value, np.ndarray) or _is_cupy(value):
        return value
    if hasattr(value, "__dlpack__"):
        if hasattr(value, "detach"):  # a tensor that records gradients does not export itself
            value = value.detach()
        kind = int(value.__dlpack_device__()[0])
        if kind == _CPU:
            return np.from_dlpack(value)
        if kind == _CUDA:
            return importlib.import_module("cupy").from_dlpack(value)
        raise DeviceError(f"{name} lies on a device of DLPack type {kind}; use the CPU or CUDA")
    if hasattr(value, "__cuda_array_interface__"):
        return importlib.import_module("cupy").asarray(value)
    if value is None:  # NumPy would make it a NaN
        raise DtypeError(f"{name} is None; give an array of numbers")
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"{name} is not an array of numbers: {error}") from error


def returner(value: Array) -> Callable[[Array], Array]:
    """Return the function that hands a result to the library of ``value``."""
    library = type(value).__module__.partition(".")[0]
    if library == "torch":
        return lambda result: importlib.import_module("torch").from_dlpack(result)
    if library in ("jax", "jaxlib"):
        return lambda result: importlib.import_module("jax").numpy.from_dlpack(result)
    return lambda result: result


def is_native(value: Array) -> bool:
    """Tell whether results need no way back: NumPy, CuPy and sequences."""
    return isinstance(value, (np.ndarray, list, tuple)) or _is_cupy(value)


def on_gpu(array: Array) -> bool:
    """Tell whether an adopted array lies in GPU memory."""
    return not isinstance(array, np.ndarray)


def check_dtype(array: Array, name: str, wanted: Any = None) -> None:
    """Raise unless an array has a floating-point type the kernels know, or the one wanted."""
    dtype = array.dtype
    if dtype not in DTYPES:
        raise DtypeError(
            f"{name} has dtype {dtype}; use float32 or float64: {name}.astype(numpy.float64)"
        )
    if wanted is not None and dtype != wanted:
        raise DtypeError(f"{name} has dtype {dtype}, q has {wanted}: give both the same")


def address(array: Array) -> int:
    """Return the address of an array's first element."""
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


def in_place_strides(array: Array, axes: int) -> tuple[int, int] | None:
    """Return batch and component stride in elements, or ``None`` if a kernel needs a copy.

    Args:
        array: (B, ...) or (...), with ``axes`` trailing axes of one state.
        axes:  0 for a number of each state, 1 for a vector, 2 for a matrix, ...
    """
    itemsize = array.dtype.itemsize
    strides = array.strides
    batch = strides[0] if array.ndim > axes else 0
    component = strides[-1] if axes else itemsize
    for axis in range(2, axes + 1):
        whole = strides[1 - axis] * array.shape[1 - axis]
        if array.shape[-axis] > 1 and strides[-axis] != whole:
            return None
    aligned = on_gpu(array) or array.flags.aligned
    if batch % itemsize or component % itemsize or not aligned:
        return None
    return batch // itemsize, component // itemsize


def namespace(array: Array) -> Any:
    """Return the library of an adopted array: NumPy or CuPy."""
    if on_gpu(array):
        import cupy

        return cupy
    return np


def result_targets(out: Any, names: tuple[str, ...]) -> tuple[Array | None, ...]:
    """Return the array that the caller gives for each result, or ``None``s."""
    if out is None:
        return (None,) * len(names)
    if len(names) == 1:
        return (out,)
    if not isinstance(out, (tuple, list)) or len(out) != len(names):
        raise ShapeError(f"out must be {len(names)} arrays, for {', '.join(names)}")
    return tuple(out)


def result_array(target: Array | None, name: str, shape: tuple[int, ...], q: Array) -> Array:
    """Return the array for a result: the caller's, checked, or a new one."""
    if target is None:
        return namespace(q).empty(shape, dtype=q.dtype)
    array = adopt(target, "out")
    if array.shape != shape:
        raise ShapeError(f"out has shape {array.shape}; {name} has {shape}")
    if array.dtype != q.dtype:
        raise DtypeError(f"out has dtype {array.dtype}, q has {q.dtype}: give both the same")
    if on_gpu(array) != on_gpu(q):
        raise DeviceError("out and q are on different devices: move one")
    if not on_gpu(array) and not array.flags.writeable:
        raise DtypeError("out is read-only; give an array that can be written")
    return array


def _is_cupy(value: Array) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)
