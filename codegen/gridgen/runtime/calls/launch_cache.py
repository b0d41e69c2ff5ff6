"""Launch cache: skip validation for argument layouts that were seen before.

All arrays are NumPy's, or all CuPy's, or all plain PyTorch tensors on a GPU. Shape, strides, type
and device of every array determine the result of validation, except for one check: results that
overlap arguments, which depends on the addresses. A cached launch only needs the addresses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numpy as np

from gridgen.backends.cuda.failures import failures
from gridgen.backends.interface import Enqueue, StreamKernel
from gridgen.functions.arrays import FEEDBACK
from gridgen.functions.calls import RolloutSettings
from gridgen.runtime.arrays.arguments import Call, results_given
from gridgen.runtime.arrays.ends import SharedNumbers
from gridgen.runtime.arrays.layout import address, extent
from gridgen.runtime.arrays.libraries import current_handle, has_own_stream, namespace
from gridgen.runtime.calls.chunks import arguments_of

# Layouts that a robot caches; the cache is cleared beyond that.
_MOST = 256

# Scalars for all states; other arguments that are not arrays are not cached.
_NUMBERS = (float, int, SharedNumbers)

_numpy_layout = attrgetter("shape", "strides", "dtype", "flags.num")
_cupy_layout = attrgetter("shape", "strides", "dtype", "device.id")

_Key = tuple[Any, ...]


class Layout(NamedTuple):
    """Cached data of a call."""

    enqueue: Enqueue  #: computes it, from the addresses of the arrays.
    addresses: list[int]  #: addresses of the arrays, and other launch arguments in their positions.
    #: positions of the arrays that a caller gives, with their positions among the arguments; the
    #: other addresses do not change.
    given: list[tuple[int, int]]
    #: positions of arrays that no kernel reads; they have the first one's device.
    unread: list[int]
    #: position of each array, and the offsets from its address to its first byte and to its end
    #: [bytes].
    spans: list[tuple[int, int, int]]
    inputs: int  #: number of inputs among them.
    shapes: Sequence[tuple[int, ...]]  #: shapes of the results.
    address: Callable[[Any], int]  #: returns the address of an array.
    is_tensor: bool  #: whether the arrays are PyTorch's.
    on_host: bool  #: whether they are NumPy's.
    fixed: list[Any]  #: the other arrays, whose addresses do not change.

    def computed(self, values: Sequence[Any], out: Any) -> Any | None:
        """Return the results of a call with this layout, or ``None`` if it cannot compute them."""
        q, results = values[0], out
        if out is not None:
            arrays = [*values, *results_given(out)]
        else:
            if self.is_tensor:
                made = [q.new_empty(shape) for shape in self.shapes]
            else:
                empty, dtype = namespace(q).empty, q.dtype
                made = [empty(shape, dtype=dtype) for shape in self.shapes]
            arrays = [*values, *made]
            results = made[0] if len(made) == 1 else tuple(made)
        addresses, begin = self.addresses.copy(), self.address
        try:
            for place, i in self.given:
                addresses[place] = begin(arrays[i])
            for place in self.unread:
                addresses[place] = addresses[0]
        except RuntimeError:  # a tensor without its own memory, under a transform of PyTorch
            return None
        if out is not None and self._may_overlap(addresses):
            return None
        self.enqueue(addresses, 0 if self.on_host else current_handle(q))
        return results

    def _may_overlap(self, addresses: list[int]) -> bool:
        """Return whether a result may share memory with another array."""
        places = [(addresses[i] + begin, addresses[i] + end) for i, begin, end in self.spans]
        for i in range(self.inputs, len(places)):
            begin, end = places[i]
            if any(begin < other[1] and other[0] < end for other in places[:i]):
                return True
        return False


class LaunchCache(dict[_Key, Layout]):
    """The layouts of earlier calls of a robot's functions, by ``layout_key``."""

    def note(
        self,
        key: _Key,
        values: Sequence[Any],
        call: Call,
        kernel: Any,
        launch: Callable[[list[int]], None],
    ) -> None:
        """Cache a call unless it needs copies, or scratch memory of a GPU."""
        operands = [*call.inputs, *call.outputs]
        if not call.states or call.copied or any(item.seen is None for item in operands):
            return
        numbers = call.numbers(operands, call.states)
        on_host = type(values[0]) is np.ndarray
        if on_host:
            enqueue = _with_addresses(numbers, launch)
        elif isinstance(kernel, StreamKernel):
            enqueue = kernel.prepare_anywhere(arguments_of(numbers), call.states)
        else:
            return
        spans, given, unread, fixed, place = [], [], [], [], 0
        names = (*call.kernel.inputs, *call.kernel.outputs)
        for i, (item, name) in enumerate(zip(operands, names, strict=True)):
            begin, end = extent(item.array)
            at = numbers[3 * place]
            spans.append((place, begin - at, end - at))
            if i >= len(values) or hasattr(values[i], "shape"):
                given.append((place, i))
            elif values[i] is None and name in FEEDBACK:
                unread.append(place)
            else:
                fixed.append(item.array)
            place += len(item.seen or ()) // 3
        is_tensor = has_own_stream(values[0])
        whereabouts = methodcaller("data_ptr") if is_tensor else attrgetter("data.ptr")
        if len(self) >= _MOST:
            self.clear()
        self[key] = Layout(
            enqueue,
            numbers[::3],
            given,
            unread,
            spans,
            len(values),
            call.result_shapes,
            address if on_host else whereabouts,
            is_tensor,
            on_host,
            fixed,
        )


def _with_addresses(numbers: list[int], launch: Callable[[list[int]], None]) -> Enqueue:
    def enqueue(addresses: Sequence[int], stream: int) -> None:
        now = numbers.copy()
        now[::3] = addresses
        launch(now)

    return enqueue


def layout_key(
    function: str, values: Sequence[Any], out: Any, settings: RolloutSettings | None = None
) -> _Key | None:
    """Return the cache key of a call, or ``None`` for one that cannot be cached."""
    cupy: Any = sys.modules.get("cupy")
    q, arrays = values[0], (*values, *results_given(out))
    device: int | None = None
    if type(q) is np.ndarray:
        layouts = _array_layouts(arrays, np.ndarray, _numpy_layout)
    elif cupy is None:
        return None
    elif type(q) is cupy.ndarray:
        device, layouts = q.device.id, _array_layouts(arrays, cupy.ndarray, _cupy_layout)
    elif has_own_stream(q):
        device, layouts = q.device.index, _tensor_layouts(arrays, sys.modules["torch"])
    else:
        return None
    if layouts is None:
        return None
    if device is not None:
        if cupy.cuda.runtime.getDevice() != device:
            return None
        layouts.append(failures(device))
    key = function, isinstance(out, (tuple, list)), type(q), *layouts
    if settings is None:
        return key
    said = settings.substeps, settings.keep, settings.effort_limits
    key = *key, *said, *map(type, said)
    try:
        hash(key)
    except TypeError:  # a list instead of a number
        return None
    return key


def _array_layouts(
    values: Sequence[Any], kind: type, look: Callable[[Any], Any]
) -> list[Any] | None:
    """Return the layouts of arrays, or ``None`` if an argument has another type."""
    found: list[Any] = []
    for value in values:
        if type(value) is kind:
            found.append(look(value))
        elif value is None or type(value) in _NUMBERS:
            found += type(value), value
        else:
            return None
    return found


def _tensor_layouts(values: Sequence[Any], torch: Any) -> list[Any] | None:
    """Return the layouts of plain tensors, else ``None``.

    Tensors with a gradient or a pending negation are not plain. Within forward differentiation the
    result is ``None``: reading each tangent would take as long as the rest of the call.
    """
    if getattr(torch.autograd.forward_ad, "_current_level", 0) >= 0:
        return None
    kind, strided = torch.Tensor, torch.strided
    found: list[Any] = []
    for value in values:
        if value is None:
            found.append(None)
        elif type(value) is not kind or value.requires_grad or value.is_neg():
            return None
        elif value.layout is not strided:
            return None
        else:
            found += value.shape, value.stride(), value.dtype, value.device
    return found
