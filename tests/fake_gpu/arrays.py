"""Arrays in device memory: `cupy.ndarray`.

A NumPy array that views the memory provides shapes, strides and types. Only enqueued operations
read and write it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fake_gpu.machine import Device, machine
from fake_gpu.order import Place
from fake_gpu.pool import Allocation
from fake_gpu.streams import current_queue, get_current_stream
from fake_gpu.transfers import MemoryPointer
from fake_gpu.work import Operation

Shape = tuple[int, ...]


class DeviceContext:
    """A device: `cupy.cuda.Device`, and a context in which it is the current one."""

    def __init__(self, number: int | None = None) -> None:
        self.id = machine().current.device if number is None else number
        machine().of_number(self.id)
        self._outer: list[int] = []

    def __enter__(self) -> DeviceContext:
        self._outer.append(machine().current.device)
        machine().current.device = self.id
        return self

    def __exit__(self, *error: object) -> None:
        machine().current.device = self._outer.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceContext) and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    def __int__(self) -> int:
        return self.id

    def use(self) -> None:
        """Make this the current device."""
        machine().current.device = self.id

    def synchronize(self) -> None:
        """Wait for all operations of the device."""
        from fake_gpu.streams import synchronize

        synchronize(machine().of_number(self.id))

    @property
    def compute_capability(self) -> str:
        """The compute capability, without the dot."""
        return str(machine().settings.capability)

    @property
    def attributes(self) -> dict[str, int]:
        """Attributes of the device by CuPy's names."""
        return dict(machine().settings.attributes)


class ndarray:
    """An array in device memory.

    Args:
        device:     the device.
        allocation: memory of the array.
        view:       NumPy array that views the memory.
    """

    __array_ufunc__ = None

    def __init__(self, device: Device, allocation: Allocation, view: NDArray[Any]) -> None:
        self._device = device
        self._view = view
        self.data = MemoryPointer(device, int(view.ctypes.data), allocation)

    dtype = property(lambda self: self._view.dtype)
    shape = property(lambda self: self._view.shape)
    strides = property(lambda self: self._view.strides)
    ndim = property(lambda self: self._view.ndim)
    size = property(lambda self: self._view.size)
    nbytes = property(lambda self: self._view.nbytes)
    itemsize = property(lambda self: self._view.itemsize)
    flags = property(lambda self: self._view.flags)

    @property
    def device(self) -> DeviceContext:
        """The device of the array."""
        return DeviceContext(self._device.number)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "strides": self.strides,
            "data": (self.data.ptr, False),
            "stream": get_current_stream().ptr or 1,
            "version": 3,
        }

    def __array__(self, *args: Any, **options: Any) -> NDArray[Any]:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct "
            "a NumPy array explicitly."
        )

    def place(self) -> Place:
        """Return the words of the elements."""
        block = self.data.mem.block
        begin = self.data.ptr - block.address
        return Place.of_elements(block, begin, self.shape, self.strides, self.itemsize)

    # -- views ------------------------------------------------------------------------------------

    def _viewed(self, view: NDArray[Any]) -> ndarray:
        return ndarray(self._device, self.data.mem, view)

    def __getitem__(self, index: Any) -> ndarray:
        if is_basic(index):
            # With an ellipsis an element is an array too: it is not read yet.
            return self._viewed(self._view[with_ellipsis(index)])
        index = on_host(index)
        shape = np.broadcast_to(np.empty((), bool), self.shape)[index].shape
        return computed("elements", lambda x: x[index], shape, self.dtype, self)

    def transpose(self, *axes: int) -> ndarray:
        """Return a view with permuted axes."""
        return self._viewed(self._view.transpose(*axes))

    T = property(transpose)

    def reshape(self, *shape: Any) -> ndarray:
        """Return the elements in another shape; a copy unless they are contiguous."""
        extents = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        source = self if self._view.flags.c_contiguous else self.copy()
        return source._viewed(source._view.reshape(extents))

    # -- copies -----------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> ndarray:
        """Return a copy."""
        return computed("copy", lambda x: x, self.shape, self.dtype, self)

    def astype(self, dtype: DTypeLike, copy: bool = True) -> ndarray:
        """Return the elements in another type."""
        kind = np.dtype(dtype)
        if not copy and kind == self.dtype:
            return self
        return computed("conversion", lambda x: x.astype(kind), self.shape, kind, self)

    def get(self, stream: Any = None) -> NDArray[Any]:
        """Return the elements as a NumPy array; the host waits for them."""
        with self.device:
            source = self if self._view.flags.c_contiguous else self.copy()
            result = np.empty(self.shape, self.dtype)
            if result.size:
                source.data.copy_to_host_async(result.ctypes.data, result.nbytes, stream)
            return result

    def set(self, values: NDArray[Any]) -> None:
        """Copy a NumPy array into this one."""
        source = np.ascontiguousarray(np.broadcast_to(values, self.shape), self.dtype)
        target = self if self._view.flags.c_contiguous else self.copy()
        if source.size:
            target.data.copy_from_host_async(source.ctypes.data, source.nbytes)
        if target is not self:
            self[...] = target

    def fill(self, value: Any) -> None:
        """Set all elements to a number."""
        self[...] = value

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            uploaded = empty(value.shape, self.dtype)
            uploaded.set(value)
            value = uploaded
        given = (value,) if isinstance(value, ndarray) else ()
        if is_basic(index):
            target, index = self[index], ...
        else:
            target, index = self, on_host(index)

        number = None if given else value  # enqueued operations must not hold arrays

        def assign(view: NDArray[Any], *values: Any) -> None:
            view[index] = values[0] if values else number

        enqueue("assignment", assign, target, *given)

    # -- numbers ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[ndarray]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def any(self, axis: Any = None) -> ndarray:
        """Return whether any element is true."""
        return reduced(np.any, self, axis)

    def all(self, axis: Any = None) -> ndarray:
        """Return whether all elements are true."""
        return reduced(np.all, self, axis)

    def max(self, axis: Any = None) -> ndarray:
        """Return the largest element."""
        return reduced(np.max, self, axis)

    def min(self, axis: Any = None) -> ndarray:
        """Return the smallest element."""
        return reduced(np.min, self, axis)

    def sum(self, axis: Any = None) -> ndarray:
        """Return the sum of the elements."""
        return reduced(np.sum, self, axis)


def _give_operators() -> None:
    """Define NumPy's elementwise operators."""
    two = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor")
    compare = ("eq", "ne", "lt", "le", "gt", "ge")
    for name in (*two, *compare):
        function = getattr(operator, name)
        special = f"__{name.strip('_')}__"
        setattr(ndarray, special, lambda a, b, f=function: elementwise(f, a, b))
        if name in two:
            reflected = f"__r{name.strip('_')}__"
            setattr(ndarray, reflected, lambda a, b, f=function: elementwise(f, b, a))
    for name in ("neg", "abs", "invert"):
        function = getattr(operator, name)
        setattr(ndarray, f"__{name}__", lambda a, f=function: elementwise(f, a))
    ndarray.__hash__ = None  # type: ignore[assignment]


_give_operators()


def empty(shape: int | Sequence[int], dtype: DTypeLike = float, order: str = "C") -> ndarray:
    """Return a new array on the current device, for use in the current stream."""
    kind = np.dtype(dtype)
    extents = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    size = int(np.prod(extents, dtype=np.int64)) * kind.itemsize
    device = machine().device
    device.check()
    label = f"{kind} array {extents}"
    grow = partial(refuse_in_captures, device)
    allocation = device.pool.allocate(size, current_queue().ptr, label, grow=grow)
    begin = allocation.block.address - device.pool.region.begin
    view = np.ndarray(extents, kind, device.pool.region.bytes, begin, order=order)  # type: ignore[call-overload]
    return ndarray(device, allocation, view)


def refuse_in_captures(device: Device) -> None:
    """Raise during a capture in mode "global", in which CUDA does not allocate memory.

    Raises:
        CUDARuntimeError: a stream is being captured so.
    """
    for queue in device.queues.values():
        if queue.capture and queue.capture.mode == "global":
            queue.capture.refuse("cudaErrorStreamCaptureUnsupported")


def enqueue(label: str, run: Callable[..., None], target: ndarray, *operands: ndarray) -> None:
    """Enqueue a function that writes an array, in the current stream.

    Args:
        label:    description.
        run:      function of the NumPy views of the target and the operands.
        target:   array that it writes.
        operands: arrays that it reads.

    Raises:
        ValueError: an array is not on the current device.
    """
    device = machine().device
    for array in (target, *operands):
        if array._device is not device:
            raise ValueError(
                f"Array device must be same as the current device: array device = "
                f"{array._device.number} while current = {device.number}"
            )
    views = [array._view for array in (target, *operands)]

    def work(operation: Operation) -> None:
        run(*views)

    reads = [array.place() for array in operands]
    current_queue().enqueue(label, work, reads, [target.place()])


def computed(
    label: str, function: Callable[..., Any], shape: Shape, dtype: DTypeLike, *operands: ndarray
) -> ndarray:
    """Return a new array with the result of a function of NumPy arrays."""
    result = empty(shape, dtype)

    def run(target: NDArray[Any], *views: NDArray[Any]) -> None:
        target[...] = function(*views)

    enqueue(label, run, result, *operands)
    return result


def elementwise(function: Callable[..., Any], *operands: Any) -> ndarray:
    """Return the result of an elementwise function of arrays and numbers."""
    arrays = [item for item in operands if isinstance(item, ndarray)]
    if any(isinstance(item, np.ndarray) and item.ndim for item in operands):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    shape = np.broadcast_shapes(*(array.shape for array in arrays))

    # Enqueued operations must not hold references to arrays.
    numbers = [None if isinstance(item, ndarray) else item for item in operands]

    def on_views(*views: Any) -> Any:
        left = iter(views)
        values = [next(left) if number is None else number for number in numbers]
        with np.errstate(all="ignore"):
            return function(*values)

    dtype = on_views(*(np.ones(1, array.dtype) for array in arrays)).dtype
    label = getattr(function, "__name__", "function")
    return computed(label, on_views, shape, dtype, *arrays)


def reduced(function: Callable[..., Any], array: ndarray, axis: Any = None) -> ndarray:
    """Return the reduction of all elements, or along an axis."""
    shape = function(np.broadcast_to(np.ones((), bool), array.shape), axis=axis).shape
    dtype = function(np.ones(1, array.dtype)).dtype
    label = function.__name__
    return computed(label, lambda x: function(x, axis=axis), shape, dtype, array)


def is_basic(index: Any) -> bool:
    """Return whether an index results in a view."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None or part is ... or isinstance(part, (int, np.integer, slice)) for part in parts
    )


def with_ellipsis(index: Any) -> tuple[Any, ...]:
    """Return an index with an ellipsis, so that elements remain arrays."""
    parts = index if isinstance(index, tuple) else (index,)
    return parts if any(part is ... for part in parts) else (*parts, ...)


def on_host(index: Any) -> Any:
    """Return an index with NumPy arrays in place of arrays on a device."""
    if isinstance(index, tuple):
        return tuple(on_host(part) for part in index)
    return index.get() if isinstance(index, ndarray) else index
