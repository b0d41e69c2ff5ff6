"""MuJoCo's coordinates of a free joint, converted where inputs and outputs enter a program.

MuJoCo orders a quaternion w x y z. Its linear velocity is in the world's axes, its acceleration is
the derivative of that, and a change of q is a translation in world axes and a rotation in body
axes. R turns the linear part: velocity = R natural velocity, torque = R natural torque. Steps and
functions of configurations run in MuJoCo's coordinates (``State.world_axes``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gridgen.dynamics.state import Numbers, State
from gridgen.functions.arrays import ARRAYS, configurations
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.joints import FREE
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Matrix, Vector, add, apply, cross, sub, transpose

Inputs = Mapping[str, Sequence[Scalar]]
#: Computes a function in natural coordinates: its name, inputs -> results.
Evaluate = Callable[[str, Inputs], Sequence[Any]]

#: Functions whose algorithms run in MuJoCo's coordinates.
NATIVE = frozenset(
    (
        *("integrate", "difference", "interpolate", "distance", "integrate_gradient"),
        *("difference_gradient", "step", "step_gradient"),
    )
)
#: Gradients of accelerations.
_GRADIENTS = {
    "forward_dynamics_gradient": "forward_dynamics",
    "constrained_forward_dynamics_gradient": "constrained_forward_dynamics",
}
#: Functions that are converted.
SUPPORTED = NATIVE | frozenset(
    (
        *("inverse_dynamics", "bias_forces", "gravity_forces", "forward_dynamics", "mass_matrix"),
        *("mass_matrix_inverse", "inverse_dynamics_gradient"),
        *("forward_kinematics", "jacobian", "operational_space_inertia", "point_inertia"),
        *("dynamically_consistent_inverse", "delassus", "center_of_mass", "centroidal_inertia"),
        *("center_of_mass_jacobian", "centroidal_momentum_matrix", "centroidal_momentum"),
        *("kinetic_energy", "potential_energy", "kinetic_energy_regressor"),
        *("potential_energy_regressor", "joint_torque_regressor", "self_distance"),
        *("world_distance", "soft_self_distance", "soft_world_distance", "collision_free"),
        *("constrained_forward_dynamics", *_GRADIENTS, "constrained_inverse_dynamics"),
        *("impulse_dynamics", "contact_forward_dynamics", "contact_residual", "rollout"),
        *("excess", "excess_apart", "actuator_torques"),
    )
)


def refusal(tree: KinematicTree, function: str, inputs: Sequence[str] = ()) -> str | None:
    """Return why a function is not available in MuJoCo's convention, or ``None``."""
    if tree.mujoco_base is None:
        return None
    if function not in SUPPORTED:
        return (
            f"{function} of a floating base is not available in MuJoCo's convention: load the "
            "robot without convention="
        )
    if function == "inverse_dynamics_gradient" and "base_motion" in inputs:
        return (
            "MuJoCo's convention has no gradient of inverse dynamics on a moving base: omit its "
            "motion"
        )
    return None


def convert(
    tree: KinematicTree,
    function: str,
    outputs: Sequence[str],
    x: Inputs,
    scalars: Scalars,
    evaluate: Evaluate,
) -> Sequence[Any]:
    """Compute a function in MuJoCo's coordinates from an evaluation in natural ones."""
    return Conversion(tree, x, scalars).results(function, outputs, evaluate)


def natural(state: State, tau: Numbers) -> tuple[Conversion, State, Numbers]:
    """Return the conversion of a state and torques in MuJoCo's coordinates, and natural ones."""
    given = {"q": state.q, "qd": state.qd, "tau": tau}
    found = Conversion(state.tree, given, state.scalars)
    x = found.natural
    return found, replace(state, q=x["q"], qd=x["qd"], world_axes=False), x["tau"]


class Conversion:
    """From MuJoCo's coordinates of inputs to natural ones, and back."""

    def __init__(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> None:
        assert tree.mujoco_base is not None
        body, self._base = tree.bodies[tree.mujoco_base], tree.mujoco_base
        self._q, self._v, self._nv = body.q_index, body.v_index, tree.nv
        self._x, self._scalars = x, scalars
        self._zero = scalars.constant(0.0)
        self._none: Vector = (self._zero,) * 3
        found = dict(x)
        places = configurations(x)
        for name in places:
            found[name] = self._with_quaternion(x[name], (1, 2, 3, 0))
        self._R = self._rotation(found[places[0]])
        for name in x:
            if ARRAYS[name].shape == ("nv",):
                found[name] = self._with(x[name], apply(transpose(self._R), self._linear(x[name])))
        self.natural = found
        self._drift = self._none
        if "qd" in x:
            qd = found["qd"]
            spin = qd[self._v + 3], qd[self._v + 4], qd[self._v + 5]
            self._drift = cross(spin, self._linear(qd))
        if "qdd" in x:
            linear = sub(self._linear(found["qdd"]), self._drift)
            found["qdd"] = self._with(found["qdd"], linear)

    def _rotation(self, q: Numbers) -> Matrix:
        """Return the rotation of the base at a natural position."""
        place = [q[self._q + k] for k in range(7)]
        return FREE.transform(self._base, place, self._scalars)[0]

    def _linear(self, values: Any, start: int | None = None) -> Any:
        start = self._v if start is None else start
        return values[start], values[start + 1], values[start + 2]

    def _with(self, values: Any, linear: Any) -> list[Any]:
        """Return a copy of values with another linear part."""
        entries = [values[k] for k in range(self._nv)]
        entries[self._v : self._v + 3] = linear
        return entries

    def _with_quaternion(self, q: Sequence[Scalar], order: Sequence[int]) -> list[Scalar]:
        entries = [q[k] for k in range(len(q))]
        start = self._q + 3
        entries[start : start + 4] = [q[start + k] for k in order]
        return entries

    def results(self, function: str, outputs: Sequence[str], evaluate: Evaluate) -> list[Any]:
        """Return the results in MuJoCo's coordinates."""
        x = self.natural
        if function == "inverse_dynamics_gradient":
            return self._inverse_gradient(evaluate)
        if function in _GRADIENTS:
            qdd = evaluate(_GRADIENTS[function], x)[0]
            found = list(evaluate(function, x))
            return [*self.gradients(qdd, found[:3]), *self.gradients(None, found[3:])]
        if function == "bias_forces":
            zeros = [self._zero] * self._nv
            qdd = self._with(zeros, sub(self._none, self._drift))
            natural = evaluate("inverse_dynamics", {**x, "qdd": qdd})
        else:
            natural = evaluate(function, x)
        if outputs[0] == "qdd":
            return [self.acceleration(natural[0]), *natural[1:]]
        pairs = zip(outputs, natural, strict=True)
        return [self._turned(result, ARRAYS[name].shape) for name, result in pairs]

    def acceleration(self, qdd: Any) -> Any:
        """Return accelerations in MuJoCo's coordinates."""
        return self._turned(self._with(qdd, add(self._linear(qdd), self._drift)), ("nv",))

    def state(self, q: Any, qd: Any) -> tuple[list[Scalar], list[Scalar]]:
        """Return another state in MuJoCo's coordinates."""
        R = self._rotation(q)
        end = self._with_quaternion(q, (3, 0, 1, 2))
        return end, self._with(qd, apply(R, self._linear(qd)))

    def gradients(self, qdd: Any | None, found: Sequence[Any]) -> list[Any]:
        """Return derivatives by q, qd and the torques in MuJoCo's coordinates.

        Natural velocities and torques turn with the base: d(R^T x) = R^T dx + R^T x times the
        rotation. So does the result where it is an acceleration, ``qdd``.
        """
        if not found:
            return []
        by_q, by_qd, by_tau = ([list(row) for row in matrix] for matrix in found)
        v, tau = self._linear(self.natural["qd"]), self._linear(self.natural["tau"])
        for by, vector in ((by_qd, v), (by_tau, tau)):
            for row, given in zip(by_q, by, strict=True):
                self._add(row, cross(self._linear(given), vector))
        if qdd is not None:
            place = self._v
            spin = tuple(self.natural["qd"][place + 3 + k] for k in range(3))
            total = add(self._linear(qdd), self._drift)
            for k, unit in enumerate(self._units()):
                turned = cross(unit, spin)
                self._add(by_q[place + k], sub(cross(turned, v), cross(unit, total)))
                self._add(by_qd[place + k], turned, 0)
                self._add(by_qd[place + k], sub(self._none, cross(unit, v)))
        rows = "constraint_rows" if qdd is None else "nv"
        return [self._turned(matrix, (rows, "nv")) for matrix in (by_q, by_qd, by_tau)]

    def _add(self, row: Any, entries: Vector, start: int = 3) -> None:
        """Add to the columns of the base's rotation, or from ``start`` on."""
        for k, entry in enumerate(entries, self._v + start):
            row[k] = row[k] + entry

    def _units(self) -> list[Vector]:
        one, zero = self._scalars.constant(1.0), self._zero
        return [(one, zero, zero), (zero, one, zero), (zero, zero, one)]

    def _inverse_gradient(self, evaluate: Evaluate) -> list[Any]:
        """Return derivatives of inverse dynamics by q and qd.

        Dynamics is the same in every uniformly moving frame: the gradients follow from those at
        v = 0, with the linear acceleration as a part of gravity.
        """
        x, v = dict(self.natural), self._v
        x["qd"] = self._with(x["qd"], self._none)
        x["gravity"] = sub(self._linear(x["gravity"], 0), self._linear(self._x["qdd"]))
        x["qdd"] = self._with(x["qdd"], self._none)
        (value,) = evaluate("inverse_dynamics", x)
        by_q, by_qd = ([[*row] for row in m] for m in evaluate("inverse_dynamics_gradient", x))
        for row in by_qd:
            row[v : v + 3] = self._none
        for k, unit in enumerate(self._units()):
            self._add(by_q[v + k], cross(self._linear(value), unit))
        return [self._turned(matrix, ("nv", "nv")) for matrix in (by_q, by_qd)]

    def _turned(self, result: Any, shape: Sequence[str | int]) -> Any:
        """Return an array with its linear axes in the world's directions."""
        if not shape:
            return result
        if "nv" not in shape:
            return result
        if shape[0] != "nv":
            return [self._turned(entry, shape[1:]) for entry in result]
        rows = [self._turned(result[k], shape[1:]) for k in range(self._nv)]
        block = self._linear(rows)
        rows[self._v : self._v + 3] = [_combined(row, block) for row in self._R]
        return rows


def _combined(factors: Sequence[Scalar], arrays: Sequence[Any]) -> Any:
    """Return a sum of nested lists with factors."""
    if isinstance(arrays[0], (list, tuple)):
        return [_combined(factors, entries) for entries in zip(*arrays, strict=True)]
    a, b, c = (factor * array for factor, array in zip(factors, arrays, strict=True))
    return a + b + c
