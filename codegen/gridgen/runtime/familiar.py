"""Calls with arrays like those of an earlier call: what was found then holds again.

All of them are CuPy's, or all PyTorch's tensors on a GPU that are numbers and nothing beside them.
Shape, strides, type and device of every array decide what is checked of them, but for one thing:
whether results overlap arguments, which takes the addresses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from gridgen.backends import Kernel
from gridgen.backends.failures import failures
from gridgen.runtime.arguments import Call, results_given
from gridgen.runtime.arrays import extent
from gridgen.runtime.libraries import (
    current_stream,
    has_own_stream,
    is_plain_tensor,
    namespace,
)
from gridgen.runtime.staging import numbers_of
from gridgen.runtime.turns import arguments_of

# Layouts that are kept for a robot; beyond, it begins anew.
_MOST = 256

_Key = tuple[Any, ...]


class _Layout(NamedTuple):
    """What is known of a call.

    Attributes:
        kernel:  computes it.
        numbers: what the kernel sees of the arrays: address, batch stride, component stride.
        given:   which of them a caller gives; the addresses of the others stay.
        inputs:  how many of them are inputs.
        begins:  from the address of each array to the first that it takes [bytes].
        ends:    to the one after the last.
        shapes:  of the results.
        batch:   number of states.
    """

    kernel: Kernel
    numbers: list[int]
    given: tuple[int, ...]
    inputs: int
    begins: list[int]
    ends: list[int]
    shapes: list[tuple[int, ...]]
    batch: int


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
        of_tensors = has_own_stream(q)
        if out is not None:
            arrays = [*values, *results_given(out)]
        else:
            if of_tensors:
                made = [q.new_empty(shape) for shape in layout.shapes]
            else:
                made = [namespace(q).empty(shape, dtype=q.dtype) for shape in layout.shapes]
            arrays = [*values, *made]
        numbers = layout.numbers.copy()
        try:
            for i in layout.given:
                numbers[3 * i] = arrays[i].data_ptr() if of_tensors else arrays[i].data.ptr
        except RuntimeError:  # a tensor without memory of its own: one that PyTorch maps over
            return None
        if out is not None and _may_overlap(layout, numbers[::3]):
            return None
        if of_tensors:
            with current_stream(q):
                layout.kernel(arguments_of(numbers), layout.batch)
        else:
            layout.kernel(arguments_of(numbers), layout.batch)
        if out is not None:
            return out
        return made[0] if len(made) == 1 else tuple(made)

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
        numbers = numbers_of(operands)
        places = [extent(item.array) for item in operands]
        addresses = numbers[::3]
        if len(self._layouts) >= _MOST:
            self._layouts.clear()
        self._layouts[key] = _Layout(
            kernel,
            numbers,
            tuple(i for i in range(len(operands)) if i >= len(values) or values[i] is not None),
            len(values),
            [begin - address for (begin, _), address in zip(places, addresses, strict=True)],
            [end - address for (_, end), address in zip(places, addresses, strict=True)],
            call.result_shapes,
            call.states,
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
    parts: tuple[Any, ...] | None
    q = values[0]
    if type(q) is cupy.ndarray:
        describe, device = _array_parts, q.device.id
    elif is_plain_tensor(q):
        describe, device = _tensor_parts, q.device.index
    else:
        return None
    if cupy.cuda.runtime.getDevice() != device:
        return None
    key: list[Any] = [function, isinstance(out, (tuple, list)), failures(device), describe]
    for value in (*values, *results_given(out)):
        if value is None:
            key.append(None)
        elif (parts := describe(value, type(q))) is not None:
            key += parts
        else:
            return None
    return tuple(key)


def _array_parts(value: Any, kind: Any) -> tuple[Any, ...] | None:
    """Return what a CuPy array looks like, or ``None`` for something else."""
    if type(value) is not kind:
        return None
    return value.shape, value.strides, value.dtype, value.device.id


def _tensor_parts(value: Any, kind: Any) -> tuple[Any, ...] | None:
    """Return what a tensor looks like, or ``None`` for something else, also beside its numbers."""
    if type(value) is not kind or not is_plain_tensor(value):
        return None
    return value.shape, value.stride(), value.dtype, value.device


def _may_overlap(layout: _Layout, addresses: list[int]) -> bool:
    """Tell whether a result may share memory with another array."""
    begins, ends = layout.begins, layout.ends
    for i in range(layout.inputs, len(addresses)):
        begin, end = addresses[i] + begins[i], addresses[i] + ends[i]
        for j in range(i):
            if begin < addresses[j] + ends[j] and addresses[j] + begins[j] < end:
                return True
    return False
