"""Array shapes of a function for batches of any rank, for operations of frameworks.

The axes of one state come last; a rollout's state has a time axis. The leading axes are the batch.
All arguments have the same batch, except arguments of one state, which serve all states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from gridgen.errors import ShapeError
from gridgen.functions.arrays import ARRAYS, CONSTANT_IN_TIME, TIME_FIRST, closed
from gridgen.functions.calls import RolloutSettings
from gridgen.functions.record import Function
from gridgen.kernel import Kernel
from gridgen.runtime.arrays.layout import broadcast
from gridgen.runtime.arrays.times import stored_steps

Shape = tuple[int, ...]


class Batch(NamedTuple):
    """A batch of states of a function."""

    axes: Shape  #: extents of the batch; none for one state.
    inputs: dict[str, Shape]  #: shapes of one state of the given arrays, by name.
    outputs: dict[str, Shape]  #: shapes of one state of the results, by name.
    alone: frozenset[str]  #: inputs without a batch, which serve all states.

    @property
    def size(self) -> int:
        """The number of states."""
        return math.prod(self.axes)

    def flat(self, name: str, array: Any) -> Any:
        """Return an input or the cotangent of a result with one axis for the batch."""
        if name in self.alone or len(self.axes) < 2:
            return array
        return array.reshape(self.size, *array.shape[len(self.axes) :])

    def restored(self, result: Any) -> Any:
        """Return a result for a flat batch with all axes of the batch."""
        return result if len(self.axes) < 2 else result.reshape(*self.axes, *result.shape[1:])


def arrays_of(row: Function) -> tuple[str, ...]:
    """Return all arrays that a function reads: its arguments, then its optional inputs."""
    return (*row.arguments, *(name for name in row.options if name in ARRAYS))


def expanded(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return tensors with all leading axes, broadcast as in NumPy; those of one state unchanged.

    Args:
        given: the tensors by name; incompatible ones are unchanged, for a later error. All are
               unchanged while ``torch.jit.trace`` records shapes as tensors.
    """
    if torch.jit.is_tracing():
        return {**given}
    leads = {n: one.shape[: max(one.dim() - len(ARRAYS[n].shape), 0)] for n, one in given.items()}
    if (axes := broadcast(leads.values())) is None:
        return {**given}
    return {
        name: one
        if not leads[name] or leads[name] == axes
        else one.expand(*axes, *one.shape[len(leads[name]) :])
        for name, one in given.items()
    }


def states_of(
    kernel: Kernel, row: Function, shapes: Mapping[str, Shape], settings: RolloutSettings | None
) -> dict[str, Shape]:
    """Return the shapes of a kernel's arrays for one state."""
    states = {**kernel.inputs, **kernel.outputs}
    if settings is None:
        return states
    tau, batch = shapes["tau"], len(shapes[kernel.first]) - 1
    times = tau[-2] if len(tau) > 1 else 0
    _, moments = stored_steps(settings, times)
    for name in row.results:
        states[name] = states[name] if moments is None else (moments, *states[name])
    for name, shape in shapes.items():
        is_over_time = len(shape) - len(states[name]) > batch
        if name in TIME_FIRST or (is_over_time and name not in CONSTANT_IN_TIME):
            states[name] = (times, *states[name])
    return states


def batch_of(
    robot: str,
    kernel: Kernel,
    row: Function,
    shapes: Mapping[str, Shape],
    settings: RolloutSettings | None,
) -> Batch:
    """Return the batch of a call's arrays.

    Raises:
        ShapeError: an array lacks the axes of one state, or has another batch.
    """
    states = states_of(kernel, row, shapes, settings)
    inputs = {name: closed(states[name], shape) for name, shape in shapes.items()}
    batches = {name: _axes(robot, name, shape, inputs[name]) for name, shape in shapes.items()}
    widest = max(batches, key=lambda name: len(batches[name]))
    axes = batches[widest]
    for name, own in batches.items():
        if own and own != axes:
            raise ShapeError(
                f"{name} has shape {tuple(shapes[name])}; {robot} needs {(*axes, *states[name])} "
                f"or {states[name]}, as {widest} has shape {tuple(shapes[widest])}"
            )
    alone_ones = frozenset(name for name, own in batches.items() if axes and not own)
    return Batch(axes, inputs, {name: states[name] for name in kernel.outputs}, alone_ones)


def _axes(robot: str, name: str, shape: Sequence[int], state: Shape) -> Shape:
    """Return the leading axes of an array, before those of one state."""
    count = len(shape) - len(state)
    if count < 0 or tuple(shape[count:]) != state:
        axes = ", ".join(("*", *map(str, state)))
        raise ShapeError(f"{name} has shape {tuple(shape)}; {robot} needs ({axes})")
    return tuple(shape[:count])
