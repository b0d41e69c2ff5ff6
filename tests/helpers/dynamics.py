"""Random states, complex steps and traces for the tests of dynamics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gridgen.dynamics.state import State
from gridgen.errors import GridGenWarning
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.options import RobotOptions
from gridgen.symbolic.expr import Expr, reachable
from gridgen.symbolic.scalars import FloatScalars
from gridgen.symbolic.trace import TraceScalars
from helpers.robots import SCREWS, described, example_urdf

ROBOTS = Path(__file__).parents[2] / "robots"
GRAVITY = (0.0, 0.0, -9.81)
COMPLEX_STEP = 1e-30

Array = npt.NDArray[np.float64]


def robot_path(name: str) -> str | Path:
    """Return the URDF file of one of the project's robots, or of example-robot-data."""
    if name == "screws":
        return SCREWS
    own = ROBOTS / f"{name}.urdf"
    return own if own.exists() else example_urdf(name)


def load_tree(source: str, floating: bool = False, **options: Any) -> KinematicTree:
    """Return the tree of a robot by name, or of a URDF text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        text = source if source.lstrip().startswith("<") else str(robot_path(source))
        return build_tree(described(text), RobotOptions(floating_base=floating, **options))


def random_states(
    tree: KinematicTree, count: int, seed: int = 0
) -> tuple[Array, Array, Array, Array]:
    """Return q, qd, qdd and tau of random states, one per row; quaternions have unit norm."""
    rng = np.random.default_rng(seed)
    q = rng.uniform(-1.5, 1.5, (count, tree.nq))
    for start in tree.quaternions:
        turn = q[:, start : start + 4]
        turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    qd, qdd, tau = rng.uniform(-1.0, 1.0, (3, count, tree.nv))
    return q, qd, qdd, tau


def random_loads(tree: KinematicTree, seed: int = 0) -> dict[str, Any]:
    """Return random base motion, gravity and external wrenches of a state."""
    rng = np.random.default_rng(seed)
    gravity, velocity, acceleration = rng.normal(size=3), rng.normal(size=6), rng.normal(size=6)
    return {
        "gravity": tuple(gravity),
        "base_velocity": tuple(velocity),
        "base_acceleration": tuple(acceleration),
        "f_ext": list(rng.normal(size=6 * len(tree.bodies))),
    }


def state_of(tree: KinematicTree, *arrays: npt.NDArray[Any], **given: Any) -> State:
    """Return the state of ``q`` and ``qd``, of shape (B, n), and what else is given, on numbers."""
    return State(tree, FloatScalars(), *map(columns, arrays), **given)


def state_at(
    tree: KinematicTree, inputs: dict[str, Array], scalars: FloatScalars | None = None
) -> tuple[State, dict[str, list[Array]]]:
    """Return the state that arrays (B, ...) describe by name, and the columns of all arrays."""
    rows = {name: list(array.reshape(len(array), -1).T) for name, array in inputs.items()}
    return State.of(tree, scalars or FloatScalars(), rows), rows


def numbers(result: Any, count: int) -> Array:
    """Return nested lists of scalars for ``count`` states as an array (count, ...)."""
    if isinstance(result, (list, tuple)):
        return np.stack([numbers(entry, count) for entry in result], axis=1)
    return np.broadcast_to(np.asarray(result), (count,))


def tangent_steps(
    tree: KinematicTree, q: npt.NDArray[Any], velocity: int
) -> npt.NDArray[np.complex128]:
    """Return states (B, nq) moved along one velocity by an imaginary step."""
    moved = q.astype(complex)
    step = 1j * COMPLEX_STEP
    for body in tree.bodies:
        if body.mimics or not body.v_index <= velocity < body.v_index + body.nv:
            continue
        if body.nv == 1:
            moved[:, body.q_index] += step
            continue
        first = body.q_index + body.joint_type.quaternion
        x, y, z, w = (q[:, first + k] for k in range(4))
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        axis = velocity - body.v_index - body.nv
        if axis < -3:
            moved[:, body.q_index : body.q_index + 3] += step * turn[:, axis + 6].T
        else:
            # q (1, e step / 2): the columns of the quaternion's left multiplication.
            column = [(w, z, -y, -x), (-z, w, x, -y), (y, -x, w, -z)][axis]
            moved[:, first : first + 4] += 0.5 * step * np.stack(column, axis=1)
    return moved


def complex_step(
    function: Callable[..., Any], moved: Sequence[npt.NDArray[np.complex128]], *others: Array
) -> Array:
    """Return the derivatives of a function by complex steps, in the last axis.

    All steps are one batch: ``function`` receives the concatenated ``moved`` arguments and
    repeated ``others``.
    """
    steps, states = len(moved), len(moved[0])
    tiled = [np.tile(other, (steps, 1)) for other in others]
    value = numbers(function(np.concatenate(moved), *tiled), steps * states)
    parts = np.imag(value).reshape(steps, states, *value.shape[1:]) / COMPLEX_STEP
    return np.moveaxis(parts, 0, -1)


def velocity_steps(qd: Array) -> list[npt.NDArray[np.complex128]]:
    """Return one array of velocities per component, with an imaginary step in it."""
    return [qd + 1j * COMPLEX_STEP * np.eye(qd.shape[1])[k] for k in range(qd.shape[1])]


def position_steps(tree: KinematicTree, q: Array) -> list[npt.NDArray[np.complex128]]:
    """Return one array of configurations per velocity, with an imaginary step along it."""
    return [tangent_steps(tree, q, velocity) for velocity in range(tree.nv)]


def columns(array: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return the columns of an argument (B, n), the scalars of an algorithm."""
    return list(array.T)


def assert_close(actual: Array, expected: Array, tolerance: float, what: str) -> None:
    """Assert that arrays are equal up to a tolerance, relative to the largest expected entry."""
    assert actual.shape == expected.shape, what
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-300)
    error = float(np.abs(actual - expected).max(initial=0.0)) / scale
    assert error <= tolerance, f"{what}: relative error {error:.3g}"


def trace(tree: KinematicTree, algorithm: Callable[..., Any], *inputs: str) -> tuple[Any, Any]:
    """Return the result of an algorithm of a state and other inputs, and its trace."""
    scalars = TraceScalars()
    arrays = {name: scalars.inputs(name, tree.nq if name == "q" else tree.nv) for name in inputs}
    state = State.of(tree, scalars, {**arrays, "gravity": GRAVITY})
    return algorithm(state, *(arrays[n] for n in inputs if n not in ("q", "qd"))), scalars


def operations(result: Any, scalars: TraceScalars) -> int:
    """Return the number of operations that compute nested lists of nodes."""
    nodes: list[Expr] = []

    def collect(value: Any) -> None:
        if isinstance(value, (list, tuple)):
            for entry in value:
                collect(entry)
        else:
            nodes.append(scalars.graph.lift(value))

    collect(result)
    return sum(node.op not in ("const", "input") for node in reachable(nodes))
