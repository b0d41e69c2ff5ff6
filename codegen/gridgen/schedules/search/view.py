"""Data of the templates of searches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridgen.dynamics.frames import pose
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.inverse_kinematics import SearchIteration, moving_velocities
from gridgen.dynamics.state import State
from gridgen.functions.arrays import configurations
from gridgen.functions.calls import FLOOR, STARTS, TO_REST
from gridgen.kernel import Kernel
from gridgen.model.tree import KinematicTree
from gridgen.naming import number_literal
from gridgen.schedules.views import (
    FunctionView,
    TableView,
    array_view,
    braces,
    called,
    definition,
    wrapped,
)
from gridgen.symbolic.scalars import FloatScalars

#: Numbers of a pose at a start.
POSE_ROW = 13
#: Limit of positions without one.
NO_LIMIT = 1e30


@dataclass(frozen=True)
class SearchView(FunctionView):
    """One search, and its entry points.

    Attributes:
        title:  what it computes, lines.
        called: name of the program of an iteration.
        tables: its starts, and the poses of the frames there.
        traits: definitions for its entry points, in lines.
    """

    title: tuple[str, ...]
    called: str
    tables: tuple[TableView, ...]
    traits: tuple[str, ...]

    scope = ""  #: namespace of its traits.

    @property
    def parameters(self) -> Sequence[str]:
        """The parameters of its kernel, in lines."""
        inputs = (f"gridgen::Input<T> {array.name}" for array in self.inputs)
        outputs = (f"gridgen::Output<T> {array.name}" for array in self.outputs)
        return wrapped([*inputs, *outputs, "long long n)"])

    @property
    def body(self) -> Sequence[str]:
        """The call in its kernel, in lines."""
        names = ("n", *(array.name for array in self.arrays))
        return called(f"gridgen::run_searches<T, {self.name}_traits>", names)


def search_view(tree: KinematicTree, kernel: Kernel) -> SearchView:
    """Describe a search of a robot."""
    (key,) = kernel.calls
    iteration = computation_of(tree, key)
    assert isinstance(iteration, SearchIteration)
    joints, starts = starts_of(tree, iteration.frames)
    poses = np.zeros((STARTS, POSE_ROW))
    if iteration.frames:
        poses = poses_at(tree, starts, iteration.frames)
    tables = (
        _table("Configurations where it starts", f"{kernel.name}_starts", starts[:, joints].T),
        _table("The poses of the frames there", f"{kernel.name}_poses", poses.T),
    )
    return SearchView(
        name=kernel.name,
        source=kernel.source,
        inputs=tuple(array_view(name, shape) for name, shape in kernel.inputs.items()),
        outputs=tuple(array_view(name, shape) for name, shape in kernel.outputs.items()),
        title=tuple(f"{kernel.title}.".splitlines()),
        called=key.name,
        tables=tables,
        traits=tuple(_traits(tree, kernel, iteration.targets, joints)),
    )


def _traits(
    tree: KinematicTree, kernel: Kernel, poses: int, joints: Sequence[int]
) -> Iterator[str]:
    """Yield definitions that entry points read."""
    shapes = (*kernel.inputs.values(), *kernel.outputs.values())
    numbers = {
        "inputs": len(kernel.inputs),
        "configurations": len(configurations(kernel.inputs)),
        "nq": tree.nq,
        "poses": poses,
        "count": STARTS,
        "joint_count": len(joints),
    }
    words = ", ".join(f"{name} = {value}" for name, value in numbers.items())
    yield from definition(f"gridgen::Axes axes[] = {braces(map(braces, shapes))}")
    yield from definition(f"int {words}")
    for name, limits in (("lower", tree.lower_limits), ("upper", tree.upper_limits)):
        literals = (number_literal(min(max(limit, -NO_LIMIT), NO_LIMIT)) for limit in limits)
        yield from definition(f"double {name}[] = {braces(literals)}")
    yield from definition(f"double floors[] = {braces(FLOOR.values())}, to_rest = {TO_REST}")
    yield from definition(f"int joints[] = {braces(joints)}")


def _table(comment: str, name: str, rows: NDArray[np.float64]) -> TableView:
    words = [number_literal(float(value)) for value in rows.flat]
    declaration = f"template <class R> GRIDGEN_TABLE R {name}[{len(words)}]"
    return TableView(comment, declaration, tuple(wrapped(words)))


def starts_of(tree: KinematicTree, frames: Sequence[str]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the elements of q that differ, and configurations of low discrepancy.

    Joints are within their limits and within pi [rad] of zero or of the nearer limit; others as in
    the neutral configuration. The points are an R sequence, Roberts 2018.
    """
    moving = set(moving_velocities(tree, frames))
    starts = np.tile(neutral_within_limits(tree), (STARTS, 1))
    joints = [
        body.q_index
        for body in tree.bodies
        if body.joint_type.nq == 1 and not body.mimics and body.v_index in moving
    ]
    ratio = _generalized_golden_ratio(max(len(joints), 1))
    for j, place in enumerate(joints):
        low, high = _range(tree.lower_limits[place], tree.upper_limits[place])
        share = (0.5 + np.arange(1, STARTS + 1) * ratio ** -(j + 1)) % 1.0
        starts[:, place] = low + (high - low) * share
    return joints, starts


def neutral_within_limits(tree: KinematicTree) -> NDArray[np.float64]:
    """Return the configuration within the limits that is nearest to the neutral one."""
    q = np.clip(np.zeros(tree.nq), tree.lower_limits, tree.upper_limits)
    q[[place + 3 for place in tree.quaternions]] = 1.0
    return q


def _range(lower: float, upper: float) -> tuple[float, float]:
    """Return the limits of starts."""
    middle = min(max(0.0, lower), upper)
    return max(lower, middle - math.pi), min(upper, middle + math.pi)


def _generalized_golden_ratio(count: int) -> float:
    """Return the root x > 1 of x^(count + 1) = x + 1."""
    x = 2.0
    for _ in range(64):
        x = (1.0 + x) ** (1.0 / (count + 1))
    return x


def poses_at(
    tree: KinematicTree, starts: NDArray[np.float64], frames: Sequence[str]
) -> NDArray[np.float64]:
    """Return the poses of frames at configurations: three rows, and the square of the position."""
    found = []
    state = State(tree, FloatScalars(), list(starts.T))
    for name in frames:
        for row in pose(state, name)[:3]:
            found += [np.broadcast_to(entry, len(starts)) for entry in row]
        x, y, z = found[-9], found[-5], found[-1]
        found.append(x * x + y * y + z * z)
    return np.stack(found, axis=1)
