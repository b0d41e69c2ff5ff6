"""Calls with arrays like those of an earlier call: what was found then holds again.

All of them are CuPy's, or all PyTorch's tensors on a GPU that are numbers and nothing beside them.
Shape, strides, type and device of every array decide what is checked of them, but for one thing:
whether results overlap arguments, which takes the addresses. The launch has been prepared, and is
told these.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from gridgen.backends.failures import failures
from gridgen.backends.interface import Enqueue, Kernel, StreamKernel
from gridgen.runtime.arrays.arguments import Call, results_given
from gridgen.runtime.arrays.layout import extent
from gridgen.runtime.arrays.libraries import current_handle, has_own_stream, namespace
from gridgen.runtime.arrays.staging import numbers_of
from gridgen.runtime.calls.chunks import arguments_of

# Layouts that are kept for a robot; beyond, it begins anew.
_MOST = 256

_Key = tuple[Any, ...]


class _Layout(NamedTuple):
    """What is known of a call.

    Attributes:
        enqueue:   computes it, told where the arrays lie.
        addresses: those of the arrays.
        given:     which of them a caller gives; the addresses of the others stay.
        inputs:    how many of them are inputs.
        begins:    from the address of each array to the first that it takes [bytes].
        ends:      to the one after the last.
        shapes:    of the results.
        tensors:   whether the arrays are PyTorch's.
    """

    enqueue: Enqueue
    addresses: list[int]
    given: tuple[int, ...]
    inputs: int
    begins: list[int]
    ends: list[int]
    shapes: list[tuple[int, ...]]
    tensors: bool


class FamiliarCalls:
    """The layouts of earlier calls of a robot's functions."""

    def __init__(self) -> None:
        self._layouts: dict[_Key, _Layout] = {}

    def computed(self, key: _Key, values: Sequence[Any], out: Any) -> Any | None:
        """Return the results of a call like an earlier one, or ``None`` if there was none.

        Args:
            key:    as ``layout_key`` gives it.
            values: the inputs, ``None`` for the default.
            out:    what the caller gave for the results.
        """
        layout = self._layouts.get(key)
        if layout is None:
            return None
        q = values[0]
        results = out
        if out is not None:
            arrays = [*values, *results_given(out)]
        else:
            if layout.tensors:
                made = [q.new_empty(shape) for shape in layout.shapes]
            else:
                empty, dtype = namespace(q).empty, q.dtype
                made = [empty(shape, dtype=dtype) for shape in layout.shapes]
            arrays = [*values, *made]
            results = made[0] if len(made) == 1 else tuple(made)
        addresses = layout.addresses.copy()
        try:
            if layout.tensors:
                for i in layout.given:
                    addresses[i] = arrays[i].data_ptr()
            else:
                for i in layout.given:
                    addresses[i] = arrays[i].data.ptr
        except RuntimeError:  # a tensor without memory of its own: one that PyTorch maps over
            return None
        if out is not None and _may_overlap(layout, addresses):
            return None
        layout.enqueue(addresses, current_handle(q))
        return results

    def note(self, key: _Key, values: Sequence[Any], call: Call, kernel: Kernel) -> None:
        """Remember a call that takes no scratch memory; one that takes copies is forgotten.

        Args:
            key:    as ``layout_key`` gives it.
            values: the inputs, ``None`` for the default: that is kept elsewhere, for good.
            call:   the call, which has been computed.
            kernel: what has computed it.
        """
        operands = [*call.inputs, *call.outputs]
        if not call.states or call.copied or any(item.seen is None for item in operands):
            return
        if not isinstance(kernel, StreamKernel):
            return
        numbers = numbers_of(operands)
        places = [extent(item.array) for item in operands]
        addresses = numbers[::3]
        if len(self._layouts) >= _MOST:
            self._layouts.clear()
        self._layouts[key] = _Layout(
            kernel.prepare_anywhere(arguments_of(numbers), call.states),
            addresses,
            tuple(i for i in range(len(operands)) if i >= len(values) or values[i] is not None),
            len(values),
            [begin - address for (begin, _), address in zip(places, addresses, strict=True)],
            [end - address for (_, end), address in zip(places, addresses, strict=True)],
            call.result_shapes,
            has_own_stream(values[0]),
        )


def layout_key(function: str, values: Sequence[Any], out: Any) -> _Key | None:
    """Return what calls have in common that are alike, or ``None`` for one that has its own way.

    Args:
        function: name of the kernel.
        values:   the inputs, ``None`` for the default.
        out:      what the caller gave for the results.
    """
    cupy: Any = sys.modules.get("cupy")
    if cupy is None:
        return None
    q, arrays = values[0], (*values, *results_given(out))
    if type(q) is cupy.ndarray:
        device, layouts = q.device.id, _array_layouts(arrays, cupy)
    elif has_own_stream(q):
        device, layouts = q.device.index, _tensor_layouts(arrays, sys.modules["torch"])
    else:
        return None
    if layouts is None or cupy.cuda.runtime.getDevice() != device:
        return None
    return function, isinstance(out, (tuple, list)), failures(device), type(q), *layouts


def _array_layouts(values: Sequence[Any], cupy: Any) -> list[Any] | None:
    """Return what CuPy's arrays look like, or ``None`` if something else is among them."""
    kind, found = cupy.ndarray, list[Any]()
    for value in values:
        if type(value) is kind:
            found += value.shape, value.strides, value.dtype, value.device.id
        elif value is None:
            found.append(None)
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
    kind, strided, found = torch.Tensor, torch.strided, list[Any]()
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


def _may_overlap(layout: _Layout, addresses: list[int]) -> bool:
    """Tell whether a result may share memory with another array."""
    begins, ends = layout.begins, layout.ends
    for i in range(layout.inputs, len(addresses)):
        begin, end = addresses[i] + begins[i], addresses[i] + ends[i]
        for j in range(i):
            if begin < addresses[j] + ends[j] and addresses[j] + begins[j] < end:
                return True
    return False
