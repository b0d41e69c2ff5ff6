"""Array arguments: what is allowed, and what a kernel sees of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from gridgen.errors import DeviceError, DtypeError, ShapeError
from gridgen.functions.types import Array, Dtype
from gridgen.kernel import Shape
from gridgen.runtime.arrays.libraries import adopt, namespace, on_gpu, restored, target

#: Element types that kernels know, by their spelling; byte order is the machine's.
DTYPES: dict[np.dtype[Any], Dtype] = {
    np.dtype("float32"): "float32",
    np.dtype("float64"): "float64",
}


def check_dtype(array: Array, name: str) -> None:
    """Raise unless an array has a floating-point type the kernels know."""
    dtype = array.dtype
    if dtype not in DTYPES:
        raise DtypeError(
            f"{name} has dtype {dtype}; use float32 or float64: {name}.astype(numpy.float64), in "
            f"PyTorch {name}.double()"
        )


def check_like(
    array: Array, name: str, first: Array, first_name: str = "q", *, host_too: bool = False
) -> None:
    """Raise unless an array has the type of the first argument, and lies where that lies.

    Args:
        array:      the array.
        name:       its name.
        first:      the first argument.
        first_name: its name.
        host_too:   whether it may lie on the host where the first is on a GPU.

    Raises:
        DtypeError, DeviceError: it has another type, or lies elsewhere.
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
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


def seen_in_place(array: Array, axes: int, time: int | None = None) -> tuple[int, ...] | None:
    """Return what a kernel sees of an array, or ``None`` if it needs a copy.

    Address, batch stride and component stride; of what may differ from step to step of a rollout
    also (stride in time, 0, 0). Strides are counted in elements; that of components has 32 bits.

    Args:
        array: (B, ...) or (...), with ``axes`` trailing axes of one state.
        axes:  0 for a number of each state, 1 for a vector, 2 for a matrix, ...
        time:  how many of these are of time, 1 or 0; ``None`` for an array without a stride in it.
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
    """Return an array with the leading axes of all.

    Args:
        array: what to broadcast.
        shape: of one state.
        lead:  the axes before that.
        xp:    the library of the array.
        alone: whether an array of one state stays what it is.
    """
    own = array.ndim - len(shape)
    if array.shape[:own] == lead or (alone and not own):
        return array
    return xp.broadcast_to(array, (*lead, *shape))


def broadcast(shapes: Iterable[Shape]) -> Shape | None:
    """Return what NumPy broadcasts shapes to, ``None`` if they do not fit.

    In Python alone, for PyTorch's compiler reads it.
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
    """Return the addresses between which an array lies."""
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
    """Tell whether two extents have an address in common."""
    return one[0] < other[1] and other[0] < one[1]


def is_same_place(one: Array, other: Array) -> bool:
    """Tell whether two arrays of one shape have the same elements in memory."""
    are_together = on_gpu(one) == on_gpu(other) and one.strides == other.strides
    return are_together and address(one) == address(other)


_NOWHERE_ELSE = nullcontext()


def on_device(array: Array) -> AbstractContextManager[Any]:
    """Return a context in which the GPU where an adopted array lies is the current one."""
    if not on_gpu(array):
        return _NOWHERE_ELSE
    cuda, device = namespace(array).cuda, array.device.id
    if cuda.runtime.getDevice() == device:
        return _NOWHERE_ELSE
    context: AbstractContextManager[Any] = cuda.Device(device)
    return context


def result_arrays(out: Any, shapes: dict[str, tuple[int, ...]], q: Array) -> list[Array]:
    """Return an array for each result: the caller's, checked, or a new one.

    Args:
        out:    what the caller gave: an array for one result, a tuple or list of them for several;
                NumPy arrays too where ``q`` is on a GPU.
        shapes: of the results, by name.
        q:      the adopted first argument.
    """
    if out is None:
        return [namespace(q).empty(shape, dtype=q.dtype) for shape in shapes.values()]
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
    """Raise if two elements of the caller's arrays for results are one in memory."""
    names = list(results)
    for i, name in enumerate(names):
        if not _is_spread(results[name]):
            raise ShapeError(
                f"{name} has elements that share memory (strides {results[name].strides}); give an "
                "array that has room for each"
            )
        for other in names[:i]:
            if meet(extent(results[name]), extent(results[other])) and np.shares_memory(
                _place(results[name]), _place(results[other])
            ):
                raise ShapeError(f"{other} and {name} share memory; give each an array of its own")


def _is_spread(array: Array) -> bool:
    """Tell whether each axis of an array steps over all that the axes of smaller steps reach."""
    reach = array.dtype.itemsize
    axes = zip(array.strides, array.shape, strict=True)
    for step, extent in sorted((abs(stride), extent) for stride, extent in axes if extent > 1):
        if step < reach:
            return not array.size
        reach += step * (extent - 1)
    return True


def _place(array: Array) -> npt.NDArray[Any]:
    """Return a NumPy array that lies where an array lies, to be compared but not to be read."""
    if not on_gpu(array):
        return np.asarray(array)
    kind = {"version": 3, "shape": array.shape, "typestr": array.dtype.str}
    place = {**kind, "data": (address(array), True), "strides": array.strides}
    return np.asarray(SimpleNamespace(__array_interface__=place))


def array_like(numbers: npt.NDArray[np.float64], like: Array) -> Array:
    """Return numbers as an array of the type, the library and the device of another.

    Raises:
        DtypeError, DeviceError: it is no array that functions take.
    """
    like = like.detach() if hasattr(like, "detach") else like  # its numbers count for nothing
    given = adopt(like, "like")
    check_dtype(given, "like")
    with on_device(given):
        return restored(namespace(given).asarray(numbers, dtype=given.dtype), like)
