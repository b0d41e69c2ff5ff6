"""The arguments of a call, checked once and looked at once: what kernels and copies then go by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gridgen.errors import DtypeError, ShapeError
from gridgen.functions.arrays import DEFAULTED, configurations
from gridgen.functions.types import Array
from gridgen.kernel import Kernel, Shape
from gridgen.naming import show_value
from gridgen.runtime.arrays.defaults import default, number
from gridgen.runtime.arrays.layout import check_dtype, check_like, result_arrays
from gridgen.runtime.arrays.libraries import adopt, namespace, restored
from gridgen.runtime.arrays.staging import Operand, operand, result_operands
from gridgen.runtime.module.description import Description
from gridgen.runtime.parameters import check_active

# One number for all states, whatever its type: it is read in that of the states.
_SINGLE = (float, int, np.floating, np.integer)


class Call(NamedTuple):
    """One evaluation: arguments that have been checked, and memory for the results.

    Attributes:
        kernel:  what computes it.
        inputs:  its arrays in the kernel's order, defaults filled in; what is given for one state
                 has no leading axes, but for the first.
        outputs: arrays for the results, the caller's own where there are such.
        lead:    the axes before those of one state: none, one of states, or several, which are
                 one in the arrays of ``inputs`` and ``outputs``.
        like:    the argument whose library the results shall have.
        out:     what the caller gave for the results.
        copied:  names of the inputs that are copies, because their leading axes are not one in
                 memory.
    """

    kernel: Kernel
    inputs: list[Operand]
    outputs: list[Operand]
    lead: tuple[int, ...]
    like: Any
    out: Any
    copied: tuple[str, ...] = ()

    @property
    def batch(self) -> int | None:
        """Number of states; ``None`` for one without a batch axis."""
        return math.prod(self.lead) if self.lead else None

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
        states: int = math.prod(self.lead)
        return states

    @property
    def result_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the results, as the caller gets them."""
        return [(*self.lead, *shape) for shape in self.kernel.outputs.values()]

    @property
    def answer(self) -> Any:
        """What the caller gets, when the results have been computed."""
        if self.out is not None:
            return self.out
        pairs = zip(self.outputs, self.result_shapes, strict=True)
        results = [restored(item.array.reshape(shape), self.like) for item, shape in pairs]
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
    lead = leading_axes(description.name, kernel.inputs, arrays)
    given, copied = [], []
    for name, shape in kernel.inputs.items():
        array = spread(arrays[name], shape, lead, namespace(q), alone=name != first)
        if len(lead) > 1 and array.shape != shape:
            if not are_one(array, len(lead)):
                copied.append(name)
            array = array.reshape(math.prod(lead), *shape)
        given.append(operand(array, len(shape)))
    shapes = {name: (*lead, *shape) for name, shape in kernel.outputs.items()}
    results = result_arrays(out, shapes, q)
    if len(lead) > 1:
        results = [with_one_axis(array, len(lead)) for array in results]
    axes = [len(shape) for shape in kernel.outputs.values()]
    if out is None:
        outputs = list(map(operand, results, axes))
    else:
        outputs = result_operands(results, axes, given)
    return Call(kernel, given, outputs, lead, inputs[first], out, tuple(copied))


def leading_axes(
    robot: str, shapes: Mapping[str, Shape], arrays: Mapping[str, Array]
) -> tuple[int, ...]:
    """Return the axes before those of one state, as NumPy broadcasts those of several arrays.

    Args:
        robot:  its name.
        shapes: of the arrays for one state, by name.
        arrays: all of them.

    Raises:
        ShapeError: an array has not the axes of a state, or its others do not fit.
    """
    lead: tuple[int, ...] = ()
    widest = ""
    for name, shape in shapes.items():
        there = arrays[name].shape
        count = len(there) - len(shape)
        if count < 0 or there[count:] != shape:
            raise ShapeError(f"{name} has shape {there}; {robot} needs {_wanted(shape)}")
        own = there[:count]
        if own and own != lead:
            try:
                lead = np.broadcast_shapes(lead, own) if lead else own
            except ValueError:
                raise ShapeError(
                    f"{name} has shape {there}; {robot} needs {(*lead, *shape)}, {shape} or what "
                    f"NumPy broadcasts to these, as {widest} has shape {arrays[widest].shape}"
                ) from None
            if own == lead:
                widest = name
    return lead


def _wanted(shape: Shape) -> str:
    return f"(B, {', '.join(map(str, shape))}) or {shape}" if shape else "(B,) or one number"


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


def are_one(array: Array, count: int) -> bool:
    """Tell whether the first axes of an array are one in memory."""
    axes = [axis for axis in range(count) if array.shape[axis] != 1]
    strides, shape = array.strides, array.shape
    return not array.size or all(strides[i] == strides[j] * shape[j] for i, j in pairwise(axes))


def with_one_axis(array: Array, count: int) -> Array:
    """Return an array for results with one axis in place of its first ones.

    Raises:
        ShapeError: they are not one in memory.
    """
    if not are_one(array, count):
        raise ShapeError(
            f"an array for results has strides {array.strides}, by which its first {count} axes "
            "cannot be taken as one: give an array in which states follow one another"
        )
    return array.reshape(math.prod(array.shape[:count]), *array.shape[count:])


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
    if name == "active":
        check_active(array)
    if name == "params":
        description.parameters.check(array)
    return array


def _as_float(value: Any, name: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise DtypeError(f"{name} is {show_value(value)}: {error}") from None


def fits(own: tuple[int, ...], lead: tuple[int, ...]) -> bool:
    """Tell whether NumPy broadcasts some axes to others."""
    pairs = zip(reversed(own), reversed(lead), strict=False)
    return len(own) <= len(lead) and all(extent in (1, most) for extent, most in pairs)
