"""Launch cache: skip validation for argument layouts that were seen before.

All arrays are NumPy's, or all CuPy's, or all PyTorch's tensors on a GPU that are numbers and
nothing beside them. Shape, strides, type and device of every array decide what is checked of them,
but for one thing: whether results overlap arguments, which takes the addresses. The launch has been
prepared, and is told these.
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
from gridgen.runtime.arrays.layout import address, extent
from gridgen.runtime.arrays.libraries import current_handle, has_own_stream, namespace
from gridgen.runtime.calls.chunks import arguments_of

# Layouts that are kept for a robot; beyond, it begins anew.
_MOST = 256

# Numbers for all states; what else is no array has its own way.
_NUMBERS = (float, int)

_numpy_layout = attrgetter("shape", "strides", "dtype", "flags.num")
_cupy_layout = attrgetter("shape", "strides", "dtype", "device.id")

_Key = tuple[Any, ...]


class Layout(NamedTuple):
    """What is known of a call.

    Attributes:
        enqueue:   computes it, told where the arrays lie.
        addresses: those of the arrays, and what else the kernel is given in their places.
        given:     the places of the arrays that a caller gives, with their places among those; the
                   addresses of the others stay.
        unread:    the places of arrays that no kernel reads, which lie where the first does.
        spans:     the place of each array, and from its address to the first that it takes and to
                   the one after the last [bytes].
        inputs:    how many of them are inputs.
        shapes:    of the results.
        address:   returns where an array lies.
        is_tensor: whether the arrays are PyTorch's.
        on_host:   whether they are NumPy's.
        kept:      the others, whose addresses stay.
    """

    enqueue: Enqueue
    addresses: list[int]
    given: list[tuple[int, int]]
    unread: list[int]
    spans: list[tuple[int, int, int]]
    inputs: int
    shapes: Sequence[tuple[int, ...]]
    address: Callable[[Any], int]
    is_tensor: bool
    on_host: bool
    kept: list[Any]

    def computed(self, values: Sequence[Any], out: Any) -> Any | None:
        """Return the results of a call with this layout, or ``None`` if it has its own way.

        Args:
            values: the inputs, ``None`` for the default.
            out:    what the caller gave for the results.
        """
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
        except RuntimeError:  # a tensor without memory of its own: one that PyTorch maps over
            return None
        if out is not None and self._may_overlap(addresses):
            return None
        self.enqueue(addresses, 0 if self.on_host else current_handle(q))
        return results

    def _may_overlap(self, addresses: list[int]) -> bool:
        """Tell whether a result may share memory with another array."""
        places = [(addresses[i] + begin, addresses[i] + end) for i, begin, end in self.spans]
        for i in range(self.inputs, len(places)):
            begin, end = places[i]
            if any(begin < other[1] and other[0] < end for other in places[:i]):
                return True
        return False


class LaunchCache(dict[_Key, Layout]):
    """The layouts of earlier calls of a robot's functions, by what ``layout_key`` returns."""

    def note(
        self,
        key: _Key,
        values: Sequence[Any],
        call: Call,
        kernel: Any,
        launch: Callable[[list[int]], None],
    ) -> None:
        """Remember a call; one that takes copies, or scratch memory of a GPU, is forgotten.

        Args:
            key:    as ``layout_key`` gives it.
            values: the inputs, ``None`` for the default.
            call:   the call, which has been computed.
            kernel: what has computed it; on a GPU, without scratch memory.
            launch: computes it on the CPU, from what the kernel is given.
        """
        operands = [*call.inputs, *call.outputs]
        if not call.states or call.copied or any(item.seen is None for item in operands):
            return
        numbers = call.numbers(operands)
        on_host = type(values[0]) is np.ndarray
        if on_host:
            enqueue = _with_addresses(numbers, launch)
        elif isinstance(kernel, StreamKernel):
            enqueue = kernel.prepare_anywhere(arguments_of(numbers), call.states)
        else:
            return
        spans, given, unread, kept, place = [], [], [], [], 0
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
                kept.append(item.array)
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
            kept,
        )


def _with_addresses(numbers: list[int], launch: Callable[[list[int]], None]) -> Enqueue:
    def enqueue(addresses: Sequence[int], stream: int) -> None:
        now = numbers.copy()
        now[::3] = addresses
        launch(now)

    return enqueue


def layout_key(
    function: str, values: Sequence[Any], out: Any, course: RolloutSettings | None = None
) -> _Key | None:
    """Return what calls have in common that are alike, or ``None`` for one that has its own way.

    Args:
        function: name of the kernel.
        values:   the inputs, ``None`` for the default.
        out:      what the caller gave for the results.
        course:   how a rollout goes.
    """
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
    if course is None:
        return key
    said = course.substeps, course.keep, course.effort_limits
    key = *key, *said, *map(type, said)
    try:
        hash(key)
    except TypeError:  # a list in place of a number
        return None
    return key


def _array_layouts(
    values: Sequence[Any], kind: type, look: Callable[[Any], Any]
) -> list[Any] | None:
    """Return what arrays look like, or ``None`` if something else is among them."""
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
    """Return what tensors look like that hold numbers and nothing beside them, else ``None``.

    Not a gradient, or a sign to be changed. Within forward differentiation none is looked at: to
    ask each for its tangent takes as long as all else.
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
