"""Array arguments: validation, and addresses and strides for kernels."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from gridgen.backends.cpu.direct import address_of
from gridgen.errors import DeviceError, DtypeError, ShapeError
from gridgen.functions.types import Array, Dtype
from gridgen.kernel import Shape
from gridgen.runtime.arrays.libraries import adopt, namespace, on_gpu, restored, target

#: Element types of kernels, by their spelling, in native byte order.
DTYPES: dict[np.dtype[Any], Dtype] = {
    np.dtype("float32"): "float32",
    np.dtype("float64"): "float64",
}


def check_dtype(array: Array, name: str) -> None:
    """Raise unless an array has a floating-point type of the kernels."""
    dtype = array.dtype
    if dtype not in DTYPES:
        raise DtypeError(
            f"{name} has dtype {dtype}; use float32 or float64: {name}.astype(numpy.float64), in "
            f"PyTorch {name}.double()"
        )


def check_like(
    array: Array, name: str, first: Array, first_name: str = "q", *, host_too: bool = False
) -> None:
    """Raise unless an array has the type and the device of the first argument.

    Raises:
        DtypeError, DeviceError: it has another type or device.
    """
    if array.dtype != first.dtype:
        raise DtypeError(
            f"{name} has dtype {array.dtype}, {first_name} has {first.dtype}: give both the same"
        )
    gpus = [item.device.id if on_gpu(item) else None for item in (array, first)]
    if gpus[0] != gpus[1] and not (host_too and gpus[0] is None):
        places = ["the CPU" if gpu is None else f"GPU {gpu}" for gpu in gpus]
        raise DeviceError(f"{name} is on {places[0]}, {first_name} on {places[1]}: move one")


def address(array: Array) -> int:
    """Return the address of an array's first element."""
    if isinstance(array, np.ndarray):
        return address_of(array)
    return int(array.data.ptr)


def seen_in_place(array: Array, axes: int, time: int | None = None) -> tuple[int, ...] | None:
    """Return address and strides of an array for a kernel, or ``None`` if it needs a copy.

    Address, batch stride and component stride; for arrays with a time axis also (stride in time, 0,
    0). Strides count elements; that of components has 32 bits.

    Args:
        array: (B, ...) or (...), with ``axes`` trailing axes of one state.
        axes:  0 for a number of each state, 1 for a vector, 2 for a matrix, ...
        time:  number of time axes, 1 or 0; ``None`` for an array without a time stride.
    """
    itemsize = array.dtype.itemsize
    strides = array.strides
    batch = strides[0] if len(strides) > axes else 0
    own = axes if not time else axes - time
    component = strides[-1] if own else itemsize
    if own > 1:
        shape = array.shape
        for axis in range(2, own + 1):
            whole = strides[1 - axis] * shape[1 - axis]
            if shape[-axis] > 1 and strides[-axis] != whole:
                return None
    aligned = on_gpu(array) or array.flags.aligned
    is_far = abs(component) >= itemsize << 31
    if batch % itemsize or component % itemsize or not aligned or is_far:
        return None
    seen = address(array), batch // itemsize, component // itemsize
    if time is None:
        return seen
    step = strides[-own - 1] if time else 0
    return None if step % itemsize else (*seen, step // itemsize, 0, 0)


def spread(
    array: Array, shape: Shape, lead: tuple[int, ...], xp: Any, *, alone: bool = True
) -> Array:
    """Return an array with all leading axes."""
    own = array.ndim - len(shape)
    if array.shape[:own] == lead or (alone and not own):
        return array
    return xp.broadcast_to(array, (*lead, *shape))


def broadcast(shapes: Iterable[Shape]) -> Shape | None:
    """Return the broadcast shape as in NumPy, ``None`` if the shapes are not compatible.

    Pure Python, because PyTorch's compiler traces it.
    """
    axes: list[int] = []
    for shape in shapes:
        axes = [1] * (len(shape) - len(axes)) + axes
        for place, extent in enumerate(reversed(shape), start=1):
            if axes[-place] == 1:
                axes[-place] = extent
            elif extent != 1 and extent != axes[-place]:
                return None
    return tuple(axes)


def extent(array: Array) -> tuple[int, int]:
    """Return the first address of an array and the one after its last."""
    begin = address(array)
    if not array.size:
        return begin, begin
    end = begin + array.dtype.itemsize
    for count, stride in zip(array.shape, array.strides, strict=True):
        if stride > 0:
            end += (count - 1) * stride
        else:
            begin += (count - 1) * stride
    return begin, end


def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two extents overlap."""
    return one[0] < other[1] and other[0] < one[1]


def is_same_place(one: Array, other: Array) -> bool:
    """Return whether two arrays of one shape have the same elements in memory."""
    are_together = on_gpu(one) == on_gpu(other) and one.strides == other.strides
    return are_together and address(one) == address(other)


_NOWHERE_ELSE = nullcontext()


def on_device(array: Array) -> AbstractContextManager[Any]:
    """Return a context in which the GPU of an adopted array is the current one."""
    if not on_gpu(array):
        return _NOWHERE_ELSE
    cuda, device = namespace(array).cuda, array.device.id
    if cuda.runtime.getDevice() == device:
        return _NOWHERE_ELSE
    context: AbstractContextManager[Any] = cuda.Device(device)
    return context


def result_arrays(out: Any, shapes: dict[str, tuple[int, ...]], q: Array) -> list[Array]:
    """Return the caller's array for each result, validated.

    Args:
        out:    the caller's argument: an array for one result, a tuple or list for several; NumPy
                arrays too where ``q`` is on a GPU.
        shapes: shapes of the results, by name.
        q:      the adopted first argument.
    """
    if len(shapes) == 1:
        given = {"out": out}
    elif isinstance(out, (tuple, list)) and len(out) == len(shapes):
        given = {f"out[{i}]": array for i, array in enumerate(out)}
    else:
        raise ShapeError(f"out must be a tuple of {len(shapes)} arrays, for {', '.join(shapes)}")
    results = {name: target(array, name) for name, array in given.items()}
    for (name, array), (result, shape) in zip(results.items(), shapes.items(), strict=True):
        if array.shape != shape:
            raise ShapeError(f"{name} has shape {array.shape}; {result} has {shape}")
        check_like(array, name, q, host_too=True)
    _check_apart(results)
    return list(results.values())


def _check_apart(results: dict[str, Array]) -> None:
    """Raise if two elements of the caller's output arrays share memory."""
    names = list(results)
    for i, name in enumerate(names):
        if not _is_spread(results[name]):
            raise ShapeError(
                f"{name} has elements that share memory (strides {results[name].strides}); give an "
                "array with distinct elements"
            )
        for other in names[:i]:
            if meet(extent(results[name]), extent(results[other])) and np.shares_memory(
                _place(results[name]), _place(results[other])
            ):
                raise ShapeError(f"{other} and {name} share memory; give each an array of its own")


def _is_spread(array: Array) -> bool:
    """Return whether each axis of an array steps beyond the extent of axes with smaller steps."""
    reach = array.dtype.itemsize
    axes = zip(array.strides, array.shape, strict=True)
    for step, extent in sorted((abs(stride), extent) for stride, extent in axes if extent > 1):
        if step < reach:
            return not array.size
        reach += step * (extent - 1)
    return True


def _place(array: Array) -> npt.NDArray[Any]:
    """Return a NumPy array at the address of an array, for comparison only, not for reading."""
    if not on_gpu(array):
        return np.asarray(array)
    kind = {"version": 3, "shape": array.shape, "typestr": array.dtype.str}
    place = {**kind, "data": (address(array), True), "strides": array.strides}
    return np.asarray(SimpleNamespace(__array_interface__=place))


def array_like(numbers: npt.NDArray[np.float64], like: Array) -> Array:
    """Return numbers as an array with the type, the library and the device of another.

    Raises:
        DtypeError, DeviceError: ``like`` is not a valid argument of functions.
    """
    like = like.detach() if hasattr(like, "detach") else like  # its numbers are not used
    given = adopt(like, "like")
    check_dtype(given, "like")
    with on_device(given):
        return restored(namespace(given).asarray(numbers, dtype=given.dtype), like)
