"""PyTorch's side of the fake: a CPU build of PyTorch whose tensors may lie in a device's memory.

A tensor is on a device if its memory is. A dispatch mode enqueues the operations of such tensors in
PyTorch's current stream; views need none. Memory comes from PyTorch's own allocator: its graphs own
what is allocated during their capture.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)
from torch.utils._pytree import tree_flatten, tree_map

from fake_gpu.arrays import ndarray
from fake_gpu.capture import Graph
from fake_gpu.machine import Device, machine
from fake_gpu.order import Place
from fake_gpu.pool import Block
from fake_gpu.streams import Queue, Stream, default_queue, synchronize
from fake_gpu.work import Operation

Tensor = Any

_DEVICE = torch._C.TensorBase.device
#: Operations that return a view although their schema does not say so.
_VIEWS = ("aten::_unsafe_view",)
#: Operations that only allocate.
_EMPTY = ("aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided")
_graphs = itertools.count(1)


def device_of(tensor: Tensor) -> Device | None:
    """Return the device whose memory a tensor is in, if any."""
    try:
        begin = tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # a tensor without memory
        return None
    for device in machine().devices:
        if device.pool.region.begin <= begin < device.pool.region.end:
            return device
    return None


def to_array(tensor: Tensor) -> ndarray:
    """Return a tensor's memory as an array: `cupy.from_dlpack`."""
    device = device_of(tensor)
    assert device is not None
    offset = tensor.data_ptr() - device.pool.region.begin
    dtype = _numpy_type(tensor.dtype)
    strides = [step * dtype.itemsize for step in tensor.stride()]
    view = np.ndarray(tuple(tensor.shape), dtype, device.pool.region.bytes, offset, strides)
    return ndarray(device, _Borrowed(tensor, device), view)  # type: ignore[arg-type]


def from_array(array: Any) -> Tensor:
    """Return an array's memory as a tensor: `torch.from_dlpack`."""
    with _disable_current_modes():
        if not isinstance(array, ndarray):
            return _from_dlpack(array)
        steps = [step // array.itemsize for step in array.strides]
        offset = array.data.ptr - array.data.mem.block.address
        dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
        return _tensor(array.data.mem, offset, array.shape, steps, dtype)


class _Borrowed:
    """The allocation of a tensor."""

    def __init__(self, tensor: Tensor, device: Device) -> None:
        self.block = device.pool.find(tensor.untyped_storage().data_ptr())
        self._tensor = tensor


class _Owner:
    """The owner of a tensor's memory, by NumPy's array interface."""

    def __init__(self, allocation: Any) -> None:
        block: Block = allocation.block
        self._allocation = allocation
        self.__array_interface__ = {
            "shape": (block.size,),
            "typestr": "|u1",
            "data": (block.address, False),
            "version": 3,
        }


def _tensor(
    allocation: Any, offset: int, shape: Sequence[int], strides: Sequence[int], dtype: Any
) -> Tensor:
    whole = torch.from_numpy(np.asarray(_Owner(allocation)))
    return whole[offset:].view(dtype).as_strided(tuple(shape), tuple(strides))


def _numpy_type(dtype: Any) -> np.dtype[Any]:
    with _disable_current_modes():
        return torch.empty(0, dtype=dtype).numpy().dtype


# -- streams and graphs ---------------------------------------------------------------------------


class CudaStream:
    """A stream: `torch.cuda.Stream`."""

    def __init__(self, queue: Queue | None = None) -> None:
        self.queue = queue or Stream(non_blocking=True).queue
        self.cuda_stream = self.queue.ptr

    def synchronize(self) -> None:
        """Wait for all operations in the stream."""
        self.queue.synchronize()

    def wait_stream(self, other: CudaStream) -> None:
        """Order later operations after those of another stream."""
        from fake_gpu.streams import Event

        event = Event()
        event.operations, event.capture = list(other.queue.frontier()), other.queue.capture
        self.queue.wait_for(event)


_current: list[CudaStream] = []
# The private pool of the graph that is being captured.
_capturing: list[str] = []


def current_stream(device: Any = None) -> CudaStream:
    """Return the current stream: `torch.cuda.current_stream`."""
    return _current[-1] if _current else CudaStream(default_queue(machine().devices[0]))


@contextmanager
def on_stream(stream: CudaStream) -> Iterator[None]:
    """Make a stream the current one: `torch.cuda.stream`."""
    _current.append(stream)
    try:
        yield
    finally:
        _current.pop()


class CudaGraph:
    """A graph: `torch.cuda.CUDAGraph`."""

    def __init__(self) -> None:
        self.graph: Graph | None = None

    def replay(self) -> None:
        """Launch the graph in the current stream."""
        assert self.graph is not None
        queue = current_stream().queue
        self.graph.launch(_stream_of(queue))


@contextmanager
def capturing(graph: CudaGraph, capture_error_mode: str = "global") -> Iterator[None]:
    """Capture work in a stream of its own: `torch.cuda.graph`."""
    synchronize(machine().device)
    stream = CudaStream()
    with on_stream(stream):
        _stream_of(stream.queue).begin_capture(mode=capture_error_mode)
        _capturing.append(f"graph {next(_graphs)}")
        try:
            yield
        finally:
            _capturing.pop()
            graph.graph = _stream_of(stream.queue).end_capture()


def _stream_of(queue: Queue) -> Stream:
    stream = Stream(null=True)
    stream._queue = queue
    return stream


# -- operations -----------------------------------------------------------------------------------


class DeviceMode(TorchDispatchMode):
    """Enqueues the operations of tensors on a device."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation; see ``TorchDispatchMode``."""
        kwargs = dict(kwargs or {})
        if func.namespace == "gridgen":
            with self:
                return _implementations()[func](*args, **kwargs)
        given, _ = tree_flatten((args, kwargs))
        tensors = [x for x in given if isinstance(x, torch.Tensor)]
        there = next((device for x in tensors if (device := device_of(x))), None)
        target = kwargs.get("device")
        if target is not None and torch.device(target).type == "cuda":
            there = machine().devices[torch.device(target).index or 0]
        elif target is not None and there is not None and torch.device(target).type == "cpu":
            return _on_host(there, func, args, kwargs)
        if there is None:
            return func(*args, **kwargs)
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        return _enqueued(there, func, args, kwargs)


@cache
def _implementations() -> dict[Any, Callable[..., Any]]:
    """Return what grid-gen's operators do for plain tensors."""
    from gridgen.frameworks.torch.operators import OPERATORS

    found, waiting = {}, list(OPERATORS.values())
    while waiting:
        one: Any = waiting.pop()
        found[one.call] = one._evaluated
        waiting += [getattr(one, kind) for kind in ("vjp", "jvp") if one._has_product(kind)]
    return found


def _enqueued(device: Device, func: Any, args: Any, kwargs: Any) -> Any:
    schema = func._schema
    alias = [one.alias_info for one in schema.arguments]
    written = [a is not None and a.is_write for a in alias]
    if any(one.alias_info and not one.alias_info.is_write for one in schema.returns):
        return func(*args, **kwargs)
    if schema.name in _VIEWS:
        return func(*args, **kwargs)
    if any(written):
        targets = [x for x, is_target in zip(args, written, strict=False) if is_target]
        if not all(map(device_of, targets)):  # a copy to the host
            return _on_host(device, func, args, kwargs)
        _enqueue(device, func, args, kwargs, ())
        return targets[0] if len(targets) == 1 else tuple(targets)
    try:
        meta = tree_map(_as_meta, (args, {**kwargs, **_on_meta(kwargs)}))
        made = func(*meta[0], **meta[1])
    except (NotImplementedError, RuntimeError):  # its shape or value depends on numbers
        return _on_host(device, func, args, kwargs)
    results = tree_map(lambda x: _empty(device, x) if isinstance(x, torch.Tensor) else x, made)
    if schema.name not in _EMPTY:
        outputs = [x for x in tree_flatten(results)[0] if isinstance(x, torch.Tensor)]
        _enqueue(device, func, args, kwargs, outputs)
    return results


def _as_meta(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def _on_meta(kwargs: Any) -> dict[str, Any]:
    return {"device": torch.device("meta")} if "device" in kwargs else {}


def _empty(device: Device, like: Tensor) -> Tensor:
    """Return new memory for a tensor like one without memory."""
    spans = [(n - 1) * step for n, step in zip(like.shape, like.stride(), strict=True) if n]
    size = (sum(spans) + 1) * like.dtype.itemsize
    cache = _capturing[-1] if _capturing else "torch"
    owner = f"{like.dtype} tensor {tuple(like.shape)}"
    allocation = device.pool.allocate(size, current_stream().queue.ptr, owner, cache)
    return _tensor(allocation, 0, like.shape, like.stride(), like.dtype)


def _enqueue(device: Device, func: Any, args: Any, kwargs: Any, outputs: Sequence[Tensor]) -> None:
    """Enqueue an operation, whose results are written to ``outputs`` or to its arguments."""
    given = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
    read = [_place(device, x) for x in given if device_of(x) and x.numel()]
    is_in_place = not outputs
    written = [_place(device, x) for x in (given[:1] if is_in_place else outputs) if x.numel()]
    if is_in_place and func._schema.name in ("aten::copy_", "aten::zero_", "aten::fill_"):
        read = read[1:]
    # Without references to the tensors, whose memory may be freed before the operation runs.
    raw = tree_map(lambda x: _raw(device, x), (tuple(args), kwargs))
    targets = [_raw(device, x) for x in outputs]

    def run(_: Operation) -> None:
        with _disable_current_modes(), torch.no_grad():
            found = func(*raw[0], **raw[1])
            if targets:
                results = found if isinstance(found, (tuple, list)) else (found,)
                for target, result in zip(targets, results, strict=True):
                    target.copy_(result)

    current_stream().queue.enqueue(func._schema.name, run, read, written)


def _raw(device: Device, value: Any) -> Any:
    """Return a tensor at the same memory that does not own it; a copy of one on the host."""
    if not isinstance(value, torch.Tensor):
        return value
    if device_of(value) is None:
        return value.detach().clone()
    if not value.numel():
        return torch.empty(value.shape, dtype=value.dtype)
    offset = value.data_ptr() - device.pool.region.begin
    whole = torch.from_numpy(device.pool.region.bytes)
    return (
        whole[offset : offset + _span(value)]
        .view(value.dtype)
        .as_strided(value.shape, value.stride())
    )


def _span(value: Tensor) -> int:
    steps = sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
    return (steps + 1) * value.dtype.itemsize


def _place(device: Device, value: Tensor) -> Place:
    block, size = device.pool.find(value.untyped_storage().data_ptr()), value.dtype.itemsize
    strides = tuple(step * size for step in value.stride())
    begin = value.data_ptr() - block.address
    return Place.of_elements(block, begin, tuple(value.shape), strides, size)


def _on_host(device: Device, func: Any, args: Any, kwargs: Any) -> Any:
    """Wait for the current stream, and run an operation whose result the host reads."""
    current_stream().queue.synchronize()
    with device.pool.region.open(), _disable_current_modes(), torch.no_grad():
        found = func(*args, **kwargs)
        is_same = isinstance(found, torch.Tensor) and device_of(found) is not None
        return found.clone() if is_same else found


# -- installation ---------------------------------------------------------------------------------

_from_dlpack, _repr = torch.from_dlpack, torch.Tensor.__repr__


def _cpu(tensor: Tensor) -> Tensor:
    """Return a copy on the host: `torch.Tensor.cpu`."""
    device = device_of(tensor)
    return tensor if device is None else _on_host(device, torch.clone, (tensor,), {})


def _cuda(tensor: Tensor) -> Tensor:
    """Return a copy on the first device: `torch.Tensor.cuda`."""
    return torch.ops.aten._to_copy.default(tensor, device=torch.device("cuda", 0))


def _shown(tensor: Tensor, **options: Any) -> str:
    """Return a representation that waits for no device."""
    device = device_of(tensor)
    if device is None:
        return str(_repr(tensor, **options))
    return f"<{tensor.dtype} tensor {tuple(tensor.shape)} on fake GPU {device.number}>"


def _device(tensor: Tensor) -> Any:
    device = device_of(tensor)
    return _DEVICE.__get__(tensor) if device is None else torch.device("cuda", device.number)


def _foreign_modes() -> int:
    return sum(not isinstance(one, DeviceMode) for one in _get_current_dispatch_mode_stack())


def _sleep(cycles: int) -> None:
    current_stream().queue.enqueue("sleep", lambda operation: None)


@contextmanager
def installed(cupy: Any) -> Iterator[None]:
    """Let PyTorch find the devices of the machine, and CuPy's fake find its tensors."""
    cuda: dict[str, Any] = {
        "_lazy_init": lambda: None,
        "_sleep": _sleep,
        "CUDAGraph": CudaGraph,
        "Stream": CudaStream,
        "current_stream": current_stream,
        "graph": capturing,
        "is_available": lambda: True,
        "stream": on_stream,
        "synchronize": lambda: synchronize(machine().device),
    }
    patches: list[AbstractContextManager[Any]] = [
        *(mock.patch.object(torch.cuda, name, value) for name, value in cuda.items()),
        mock.patch.object(torch.Tensor, "device", property(_device), create=True),
        mock.patch.object(
            torch.Tensor, "is_cuda", property(lambda x: device_of(x) is not None), create=True
        ),
        mock.patch.object(torch.Tensor, "cpu", _cpu, create=True),
        mock.patch.object(torch.Tensor, "cuda", _cuda, create=True),
        mock.patch.object(torch.Tensor, "__repr__", _shown),
        mock.patch.object(torch, "from_dlpack", from_array),
        mock.patch.object(torch._C, "_len_torch_dispatch_stack", _foreign_modes),
        mock.patch.object(cupy, "from_dlpack", to_array, create=True),
        DeviceMode(),
    ]
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield
