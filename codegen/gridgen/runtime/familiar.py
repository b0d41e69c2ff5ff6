"""Calls with CuPy arrays like those of an earlier call: what was found then holds again.

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
from gridgen.runtime.libraries import namespace
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
        if out is None:
            q = values[0]
            made = [namespace(q).empty(shape, dtype=q.dtype) for shape in layout.shapes]
            arrays = [*values, *made]
        else:
            arrays = [*values, *results_given(out)]
        numbers = layout.numbers.copy()
        for i in layout.given:
            numbers[3 * i] = arrays[i].data.ptr
        if out is not None and _may_overlap(layout, numbers[::3]):
            return None
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
        if not call.states or any(item.seen is None for item in operands):
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
            [item.array.shape for item in call.outputs],
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
    q = values[0]
    if cupy is None or type(q) is not cupy.ndarray:
        return None
    if cupy.cuda.runtime.getDevice() != q.device.id:
        return None
    key: list[Any] = [function, isinstance(out, (tuple, list)), failures(q.device.id)]
    for value in (*values, *results_given(out)):
        if type(value) is cupy.ndarray:
            key += (value.shape, value.strides, value.dtype, value.device.id)
        elif value is None:
            key.append(None)
        else:
            return None
    return tuple(key)


def _may_overlap(layout: _Layout, addresses: list[int]) -> bool:
    """Tell whether a result may share memory with another array."""
    begins, ends = layout.begins, layout.ends
    for i in range(layout.inputs, len(addresses)):
        begin, end = addresses[i] + begins[i], addresses[i] + ends[i]
        for j in range(i):
            if begin < addresses[j] + ends[j] and addresses[j] + begins[j] < end:
                return True
    return False
