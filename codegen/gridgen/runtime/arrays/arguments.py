"""The arguments of a call, validated once, in the form for kernels and copies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gridgen.errors import DtypeError, ShapeError
from gridgen.functions.arrays import (
    CONSTANT_IN_TIME,
    DEFAULTED,
    FEEDBACK,
    OPEN,
    closed,
    configurations,
)
from gridgen.functions.calls import RolloutSettings, RolloutWords
from gridgen.functions.types import Array
from gridgen.functions.worlds import check_length
from gridgen.kernel import Kernel, Shape
from gridgen.naming import show_value
from gridgen.runtime.arrays.defaults import default, number
from gridgen.runtime.arrays.layout import check_dtype, check_like, result_arrays, spread
from gridgen.runtime.arrays.libraries import adopt, empty, has_own_stream, namespace, restored
from gridgen.runtime.arrays.staging import Operand, apart, numbers_of, operand
from gridgen.runtime.arrays.times import (
    SharedNumbers,
    followed_in,
    in_time,
    rollout_words,
    stored_steps,
    without_time,
)
from gridgen.runtime.arrays.validation import validate
from gridgen.runtime.module.description import RobotRecord

# Scalars for all states, of any type: converted to the type of the states.
_SINGLE = (float, int, np.floating, np.integer)
_NO_TIMES: Mapping[str, int] = MappingProxyType({})


class Call(NamedTuple):
    """One evaluation: validated arguments, and arrays for the results."""

    kernel: Kernel  #: kernel of the call.
    #: its arrays in the kernel's order, including defaults; arrays for one state have no leading
    #: axes, except the first.
    inputs: list[Operand]
    #: the leading axes: none, one of states, or several, which are merged in the arrays of
    #: ``inputs`` and ``outputs``.
    lead: tuple[int, ...]
    like: Any  #: the argument that determines the library of the results.
    #: names of the inputs that are copies, because their leading axes cannot be merged in memory.
    copied: tuple[str, ...] = ()
    settings: RolloutWords | None = None  #: rollout options.
    #: extents of the time axes of inputs that were given with one.
    times: Mapping[str, int] = _NO_TIMES
    outputs: Sequence[Operand] = ()  #: arrays for the results, including the caller's.
    out: Any = None  #: the caller's argument for the results; of tensors, also new ones.
    result_shapes: Sequence[Shape] = ()  #: shapes of the results for the caller.

    @property
    def q(self) -> Array:
        """The adopted first argument."""
        return self.inputs[0].array

    @property
    def configurations(self) -> list[tuple[int, str]]:
        """Indices and names of the inputs that are configurations."""
        names, known = [*self.kernel.inputs], configurations(self.kernel.inputs)
        return [(names.index(name), name) for name in known]

    @property
    def arrays(self) -> list[Array]:
        """All arrays: of the inputs, and for the results."""
        return [item.array for item in (*self.inputs, *self.outputs)]

    @property
    def states(self) -> int:
        """The number of states."""
        states: int = math.prod(self.lead)
        return states

    def numbers(self, operands: Iterable[Operand]) -> list[int]:
        """Return the launch arguments of the kernel for arrays that it can use."""
        numbers = numbers_of(operands)
        if self.settings is not None:
            pairs = zip(self.settings[::2], self.settings[1::2], strict=True)
            numbers += [number for first, second in pairs for number in (first, 0, second)]
        return numbers

    @property
    def trail(self) -> int:
        """The numbers per state that the backward pass stores between two checkpoints."""
        if self.settings is None or not self.kernel.key.wrt:
            return 0
        size = sum(math.prod(self.kernel.inputs[name]) for name in ("q_path", "qd_path"))
        return self.settings.between * self.settings.substeps * size

    @property
    def answer(self) -> Any:
        """The caller's results, after the computation."""
        if self.out is not None:
            return self.out
        pairs = zip(self.outputs, self.result_shapes, strict=True)
        return self.kernel.answer(
            [restored(item.array.reshape(shape), self.like) for item, shape in pairs]
        )

    def with_results(self, out: Any, moments: Mapping[str, int | None] | None = None) -> Call:
        """Return the call with arrays for the results.

        Args:
            out:     the caller's argument for the results.
            moments: of a rollout, the time extents of results; ``None`` without a time axis.
        """
        lead, states = self.lead, self.kernel.outputs
        shapes = {name: (*lead, *shape) for name, shape in states.items()}
        if moments:
            for name in states:
                if (extent := moments.get(name)) is not None:
                    shapes[name] = (*lead, extent, *states[name])
        given = out
        if out is None:
            like = self.like if has_own_stream(self.like) else self.q
            made = [empty(shape, like) for shape in shapes.values()]
            arrays = [adopt(array, name) for name, array in zip(shapes, made, strict=True)]
            if like is not self.q:
                given = self.kernel.answer(made)
        else:
            arrays = result_arrays(out, shapes, self.q)
        pairs = zip(states.items(), arrays, strict=True)
        outputs = [self.laid(name, shape, array) for (name, shape), array in pairs]
        outputs = outputs if out is None else apart(outputs, self.inputs)
        return Call(*self[:7], outputs, given, [*shapes.values()])  # faster than _replace

    def laid(self, name: str, shape: Shape, array: Array) -> Operand:
        """Return an array of the call with its leading axes, and a time axis if it has one.

        Raises:
            ShapeError: the leading axes cannot be merged in memory.
        """
        axes, count = len(shape), len(self.lead)
        if count > 1:
            array = with_one_axis(array, count)
        if self.settings is None:
            return operand(array, axes)
        has_time = array.ndim > axes + bool(count)
        if has_time and array.shape[-axes - 1] == 1:  # constant in time: a kernel sums over steps
            array, has_time = without_time(array, axes), False
        return operand(array, axes + has_time, None if name in CONSTANT_IN_TIME else has_time)


def results_given(out: Any) -> tuple[Any, ...]:
    """Return the caller's output arrays as a tuple."""
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def checked_call(
    description: RobotRecord,
    kernel: Kernel,
    inputs: dict[str, Array | None],
    q: Array,
    out: Any,
    settings: RolloutSettings | None = None,
) -> Call:
    """Validate the arguments of a kernel, and allocate results.

    Raises:
        ShapeError, DtypeError, DeviceError: an argument is not compatible.
        ParameterError: a row of ``params`` is not physically valid.
        OptionError: ``substeps``, ``store_every`` or ``feedback`` are invalid.
    """
    call = checked_inputs(description, kernel, inputs, q, settings)
    if settings is None or call.settings is None:
        return call.with_results(out)
    _, stored = stored_steps(settings, call.settings.steps)
    moments: dict[str, int | None] = dict.fromkeys(kernel.outputs, call.settings.steps)
    moments |= {"q_path": stored, "qd_path": stored, "ends": None}
    return call.with_results(out, moments)


def checked_inputs(
    description: RobotRecord,
    kernel: Kernel,
    inputs: dict[str, Array | None],
    q: Array,
    settings: RolloutSettings | None,
) -> Call:
    """Validate the inputs of a kernel; see ``checked_call``."""
    first, shapes, robot = kernel.first, kernel.inputs, description.name
    check_dtype(q, first)
    followed = FEEDBACK if settings is None else followed_in(inputs)
    arrays = {
        name: q if name == first else adopted(description, name, shape, inputs[name], q, first)
        for name, shape in shapes.items()
        if settings is None or name not in FEEDBACK or name in followed
    }
    words, steps, times, timed = None, 0, _NO_TIMES, _NO_TIMES
    if settings is None:
        lead = leading_axes(robot, shapes, arrays)
    else:
        arrays, lead, steps, times, timed = in_time(robot, shapes, arrays)
        words = rollout_words(settings, steps, follows=bool(followed))
    xp, count = namespace(q), len(lead)
    unread: Operand | None = None
    if len(arrays) < len(shapes):  # arrays that are not read get the first state's address
        unread = operand(q[(slice(1),) * (q.ndim - 1)], q.ndim, 0)._replace(is_read=False)
    operands: list[Operand] = []
    copied: list[str] = []
    for name, shape in shapes.items():
        if unread and name not in arrays:
            operands.append(unread)
            continue
        shape = closed(shape, arrays[name].shape)
        own = (steps, *shape) if name in timed else shape
        array = spread(arrays[name], own, lead, xp, alone=name != first)
        if count > 1 and array.ndim > len(own):
            if not are_one(array, count):
                copied.append(name)
            array = array.reshape(math.prod(lead), *own)
        time = None if words is None or name in CONSTANT_IN_TIME else len(own) - len(shape)
        operands.append(operand(array, len(own), time))
    return Call(kernel, operands, lead, inputs[first], tuple(copied), words, times)


def leading_axes(
    robot: str, shapes: Mapping[str, Shape], arrays: Mapping[str, Array]
) -> tuple[int, ...]:
    """Return the leading axes of several arrays, broadcast as in NumPy.

    Raises:
        ShapeError: an array lacks the axes of a state, or its leading axes are not compatible.
    """
    lead: tuple[int, ...] = ()
    widest = ""
    for name, shape in shapes.items():
        there = arrays[name].shape
        count = len(there) - len(shape)
        if count < 0 or there[count:] != closed(shape, there):
            raise ShapeError(f"{name} has shape {there}; {robot} needs {_expected(shape)}")
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


def _expected(shape: Shape) -> str:
    text = ", ".join("n" if extent == OPEN else str(extent) for extent in shape)
    return f"(B, {text}) or ({text}{',' * (len(shape) == 1)})" if shape else "(B,) or one number"


def are_one(array: Array, count: int) -> bool:
    """Return whether the first axes of an array can be merged in memory."""
    axes = [axis for axis in range(count) if array.shape[axis] != 1]
    strides, shape = array.strides, array.shape
    return not array.size or all(strides[i] == strides[j] * shape[j] for i, j in pairwise(axes))


def with_one_axis(array: Array, count: int) -> Array:
    """Return an output array with one axis in place of its first ones.

    Raises:
        ShapeError: the axes cannot be merged in memory.
    """
    if not are_one(array, count):
        raise ShapeError(
            f"an array for results has strides {array.strides}, by which its first {count} axes "
            "cannot be taken as one: give an array in which states follow one another"
        )
    return array.reshape(math.prod(array.shape[:count]), *array.shape[count:])


def adopted(
    description: RobotRecord,
    name: str,
    shape: tuple[int, ...],
    value: Array | None,
    q: Array,
    first: str,
) -> Array:
    """Return an input as an array with the type and the device of the first one.

    Raises:
        DtypeError, DeviceError: it has another type or device.
        OptionError, ParameterError, ShapeError: as of ``validate``.
    """
    if value is None and name in DEFAULTED:
        return default(name, shape, q, description.parameters.own.get(name))
    if isinstance(value, SharedNumbers):
        return number(value, name, q, shape)
    if not shape and isinstance(value, _SINGLE) and not isinstance(value, bool):
        single = _as_float(value, name)
        validate(description, name, np.asarray(single))
        return number(single, name, q)
    array = adopt(value, name, q)
    check_dtype(array, name)
    check_like(array, name, q, first)
    check_length(name, array)
    validate(description, name, array)
    return array


def _as_float(value: Any, name: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise DtypeError(f"{name} is {show_value(value)}: {error}") from None
