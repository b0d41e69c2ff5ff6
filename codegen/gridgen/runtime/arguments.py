"""The arguments of a call, checked once and looked at once: what kernels and copies then go by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridgen.errors import DtypeError, ShapeError
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import ARRAYS, DEFAULTED, configurations
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.naming import show_value
from gridgen.runtime.arrays import check_dtype, check_like, result_arrays
from gridgen.runtime.defaults import default, number
from gridgen.runtime.description import Description
from gridgen.runtime.libraries import adopt, namespace, restored
from gridgen.runtime.staging import Operand, operand, result_operands

# One number for all states, whatever its type: it is read in that of the states.
_SINGLE = (float, int, np.floating, np.integer)
_SPREADING = {name for name, row in FUNCTIONS.items() if row.spreads}


class Call(NamedTuple):
    """One evaluation: arguments that have been checked, and memory for the results.

    Attributes:
        kernel:  what computes it.
        inputs:  its arrays in the kernel's order, defaults filled in.
        outputs: arrays for the results, the caller's own where there are such.
        batch:   number of states; ``None`` for one without a batch axis.
        like:    the argument whose library the results shall have.
        out:     what the caller gave for the results.
    """

    kernel: Kernel
    inputs: list[Operand]
    outputs: list[Operand]
    batch: int | None
    like: Any
    out: Any

    @property
    def q(self) -> Array:
        """The adopted first argument."""
        return self.inputs[0].array

    @property
    def configurations(self) -> list[str]:
        """The names of the first inputs, those that are configurations."""
        return configurations(self.kernel.inputs)

    @property
    def arrays(self) -> list[Array]:
        """All arrays: of the inputs, and for the results."""
        return [item.array for item in (*self.inputs, *self.outputs)]

    @property
    def states(self) -> int:
        """The number of states."""
        return 1 if self.batch is None else self.batch

    @property
    def answer(self) -> Any:
        """What the caller gets, when the results have been computed."""
        if self.out is not None:
            return self.out
        results = [restored(item.array, self.like) for item in self.outputs]
        return results[0] if len(results) == 1 else tuple(results)


def results_given(out: Any) -> tuple[Any, ...]:
    """Return what a caller gave for results, one by one."""
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def checked_call(
    description: Description, kernel: Kernel, inputs: dict[str, Array | None], q: Array, out: Any
) -> Call:
    """Check the arguments of a kernel, and make room for results.

    Args:
        description: the robot's.
        kernel: whose arguments they are.
        inputs: arguments by name, in the kernel's order; ``None`` for the default.
        q:      the first of them, adopted.
        out:    array for the result; a tuple for a kernel with several.

    Raises:
        ShapeError, DtypeError, DeviceError: an argument does not fit.
        ParameterError: no body has the inertia of a row of ``params``.
    """
    first = kernel.first
    check_dtype(q, first)
    arrays = {
        name: q if name == first else adopted(description, name, shape, inputs[name], q, first)
        for name, shape in kernel.inputs.items()
    }
    arrays = spread(kernel, arrays, namespace(q))
    batch = arrays[first].shape[0] if arrays[first].ndim > len(kernel.inputs[first]) else None
    given = []
    for name, shape in kernel.inputs.items():
        check_shape(description.name, kernel, name, arrays[name], batch)
        given.append(operand(arrays[name], len(shape)))
    lead = () if batch is None else (batch,)
    shapes = {name: (*lead, *shape) for name, shape in kernel.outputs.items()}
    results = result_arrays(out, shapes, q)
    axes = [len(shape) for shape in kernel.outputs.values()]
    if out is None:
        outputs = list(map(operand, results, axes))
    else:
        outputs = result_operands(results, axes, given)
    return Call(kernel, given, outputs, batch, inputs[first], out)


def adopted(
    description: Description,
    name: str,
    shape: tuple[int, ...],
    value: Array | None,
    q: Array,
    first: str,
) -> Array:
    """Return an input as an array with the type and the device of the first one.

    Args:
        description: the robot's.
        name:  of the input.
        shape: of one state.
        value: what the caller gave; ``None`` for the default.
        q:     the first argument, adopted.
        first: its name.

    Raises:
        DtypeError, DeviceError: it has another type or lies elsewhere.
        ParameterError: no body has the inertia of a row of ``params``.
    """
    if value is None and name in DEFAULTED:
        return default(name, shape, q, description.parameters.own.get(name))
    if not shape and isinstance(value, _SINGLE) and not isinstance(value, bool):
        return number(_as_float(value, name), name, q)
    array = adopt(value, name, q)
    check_dtype(array, name)
    check_like(array, name, q, first)
    if name == "params":
        description.parameters.check(array)
    return array


def _as_float(value: Any, name: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise DtypeError(f"{name} is {show_value(value)}: {error}") from None


def spread(kernel: Kernel, arrays: dict[str, Array], xp: Any) -> dict[str, Array]:
    """Return the inputs of a function in which one state may go with many of the others.

    Each has a batch axis, if one has it.

    Args:
        kernel: whose inputs they are.
        arrays: the inputs by name.
        xp:     their library.
    """
    if kernel.key.function not in _SPREADING:
        return arrays
    whole = [arrays[n] for n, shape in kernel.inputs.items() if arrays[n].ndim == len(shape) + 1]
    if not whole:
        return arrays
    return {
        name: xp.broadcast_to(array, (whole[0].shape[0], *array.shape))
        if array.shape == kernel.inputs[name]
        else array
        for name, array in arrays.items()
    }


def check_shape(robot: str, kernel: Kernel, name: str, array: Array, batch: int | None) -> None:
    """Raise unless an input has the shape that a batch of the first one asks for.

    Args:
        robot:  its name.
        kernel: whose input it is.
        name:   of the input.
        array:  the input.
        batch:  states of the first one; ``None`` for one without a batch axis.

    Raises:
        ShapeError: it has another.
    """
    there, shape = array.shape, kernel.inputs[name]
    if there == (shape if batch is None else (batch, *shape)):
        return
    is_shared = ARRAYS[name].shared
    if not (is_shared and there == shape):
        needed = _wanted(kernel, name, batch, is_shared)
        raise ShapeError(f"{name} has shape {there}; {robot} needs {needed}")


def _wanted(kernel: Kernel, name: str, batch: int | None, is_shared: bool) -> str:
    shape, first = kernel.inputs[name], kernel.first
    if name == first:
        return f"(B, {', '.join(map(str, shape))}) or {shape}"
    if batch is None:
        return f"{shape} for one state, as {first} has no batch axis"
    shared = f" or {shape}" if is_shared else ""
    return f"{(batch, *shape)}{shared}, as {first} has {batch} states"
