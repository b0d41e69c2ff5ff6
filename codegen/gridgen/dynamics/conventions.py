"""MuJoCo's coordinates of a free joint, converted where inputs and outputs enter a program.

MuJoCo orders a quaternion w x y z. Its linear velocity is in the world's axes, its acceleration is
the derivative of that, and a change of q is a translation in world axes and a rotation in body
axes. T turns the linear part: natural velocity = T velocity, torque = T^T natural torque. Dynamics
is the same in every uniformly moving frame, hence gradients follow from those at v = 0 with the
linear acceleration as a part of gravity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gridgen.functions.arrays import ARRAYS, configurations
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.joints import FREE
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Vector, add, apply, cross, sub, transpose

Inputs = Mapping[str, Sequence[Scalar]]
#: Computes a function in natural coordinates: its name, inputs -> results.
Evaluate = Callable[[str, Inputs], Sequence[Any]]

_LINEAR = ("integrate", "difference", "interpolate")
#: Functions that are converted.
SUPPORTED = frozenset(
    (
        *("inverse_dynamics", "bias_forces", "gravity_forces", "forward_dynamics", "mass_matrix"),
        *("mass_matrix_inverse", "inverse_dynamics_gradient", "forward_dynamics_gradient"),
        *("forward_kinematics", "jacobian", "operational_space_inertia", "point_inertia"),
        *("dynamically_consistent_inverse", "delassus", "center_of_mass", "centroidal_inertia"),
        *("center_of_mass_jacobian", "centroidal_momentum_matrix", "centroidal_momentum"),
        *("kinetic_energy", "potential_energy", "kinetic_energy_regressor"),
        *("potential_energy_regressor", "joint_torque_regressor", "self_distance"),
        *("world_distance", "soft_self_distance", "soft_world_distance", "collision_free"),
        *_LINEAR,
    )
)
_GRADIENTS = ("inverse_dynamics_gradient", "forward_dynamics_gradient")


def refusal(tree: KinematicTree, function: str, inputs: Sequence[str] = ()) -> str | None:
    """Return why a function is not available in MuJoCo's convention, or ``None``."""
    if tree.mujoco_base is None:
        return None
    if function not in SUPPORTED:
        return (
            f"{function} of a floating base is not available in MuJoCo's convention: load the "
            "robot without convention="
        )
    if function in _GRADIENTS and "base_motion" in inputs:
        return "MuJoCo's convention has no gradients on a moving base: omit its motion"
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
    return _Conversion(tree, x, scalars, evaluate).results(function, outputs)


class _Conversion:
    def __init__(
        self, tree: KinematicTree, x: Inputs, scalars: Scalars, evaluate: Evaluate
    ) -> None:
        assert tree.mujoco_base is not None
        body = tree.bodies[tree.mujoco_base]
        self._q, self._v, self._nv = body.q_index, body.v_index, tree.nv
        self._x, self._scalars, self._evaluate = x, scalars, evaluate
        self._zero = scalars.constant(0.0)
        self._none: Vector = (self._zero,) * 3
        found = dict(x)
        places = configurations(x)
        for name in places:
            found[name] = self._with_quaternion(x[name], (1, 2, 3, 0))
        position = found[places[0]]
        coordinates = [position[self._q + k] for k in range(7)]
        self._R, _ = FREE.transform(tree.mujoco_base, coordinates, scalars)
        for name in x:
            if ARRAYS[name].shape == ("nv",):
                found[name] = self._with(x[name], apply(transpose(self._R), self._linear(x[name])))
        self._natural = found
        self._drift = self._none
        if "qd" in x:
            qd = found["qd"]
            spin = qd[self._v + 3], qd[self._v + 4], qd[self._v + 5]
            self._drift = cross(spin, self._linear(qd))
        if "qdd" in x:
            linear = sub(self._linear(found["qdd"]), self._drift)
            found["qdd"] = self._with(found["qdd"], linear)

    def _linear(self, values: Any, start: int | None = None) -> Any:
        start = self._v if start is None else start
        return values[start], values[start + 1], values[start + 2]

    def _with(self, values: Any, linear: Any, start: int | None = None, count: int = 0) -> Any:
        """Return a copy of values with another linear part."""
        start = self._v if start is None else start
        entries = [values[k] for k in range(count or self._nv)]
        entries[start : start + 3] = linear
        return entries

    def _with_quaternion(self, q: Sequence[Scalar], order: Sequence[int]) -> list[Scalar]:
        entries = [q[k] for k in range(len(q))]
        start = self._q + 3
        entries[start : start + 4] = [q[start + k] for k in order]
        return entries

    def results(self, function: str, outputs: Sequence[str]) -> list[Any]:
        """Return the results in MuJoCo's coordinates."""
        x = self._natural
        if function in _GRADIENTS:
            return self._gradient(function)
        if function == "bias_forces":
            zeros = [self._zero] * self._nv
            qdd = self._with(zeros, sub(self._none, self._drift))
            natural = self._evaluate("inverse_dynamics", {**x, "qdd": qdd})
        else:
            natural = self._evaluate(function, x)
        if function == "forward_dynamics":
            (qdd,) = natural
            natural = [self._with(qdd, add(self._linear(qdd), self._drift))]
        if function in _LINEAR:
            return [self._moved(function, natural[0])]
        pairs = zip(outputs, natural, strict=True)
        return [self._turned(result, ARRAYS[name].shape) for name, result in pairs]

    def _moved(self, function: str, natural: Any) -> Any:
        """Return a result of steps, on which positions move along straight lines."""
        x, start = self._x, self._q
        if function == "difference":
            change = sub(self._linear(x["q1"], start), self._linear(x["q0"], start))
            return self._with(natural, change)
        if function == "integrate":
            position = add(self._linear(x["q"], start), self._linear(x["v"]))
        else:
            first, last = (self._linear(x[name], start) for name in ("q0", "q1"))
            share = sub(last, first)
            position = add(first, tuple(x["u"][0] * entry for entry in share))
        end = self._with(natural, position, start, len(natural))
        return self._with_quaternion(end, (3, 0, 1, 2))

    def _gradient(self, function: str) -> list[Any]:
        """Return derivatives by q and qd, and by the torques."""
        x, v = dict(self._natural), self._v
        x["qd"] = self._with(x["qd"], self._none)
        if is_inverse := function == "inverse_dynamics_gradient":
            field = sub(self._linear(x["gravity"], 0), self._linear(self._x["qdd"]))
            x["qdd"], x["gravity"] = self._with(x["qdd"], self._none), field
        primal = "inverse_dynamics" if is_inverse else "forward_dynamics"
        (value,) = self._evaluate(primal, x)
        by_q, by_qd, *others = self._evaluate(function, x)
        by_q, by_qd = ([[*row] for row in matrix] for matrix in (by_q, by_qd))
        for row in by_qd:
            row[v : v + 3] = self._none
        units = [[self._scalars.constant(float(k == axis)) for k in range(3)] for axis in range(3)]
        for axis, (a, b, c) in enumerate(units):
            unit = a, b, c
            if not is_inverse:  # the torque is constant in world axes
                force = cross(self._linear(x["tau"]), unit)
                for row, inverse in zip(by_q, others[0], strict=True):
                    share = [inverse[v + k] * entry for k, entry in enumerate(force)]
                    row[v + 3 + axis] = row[v + 3 + axis] + (share[0] + share[1] + share[2])
            for k, entry in enumerate(cross(unit, self._linear(value))):
                by_q[v + k][v + 3 + axis] = by_q[v + k][v + 3 + axis] + entry
        return [self._turned(matrix, ("nv", "nv")) for matrix in (by_q, by_qd, *others)]

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
