"""MuJoCo's coordinates of joints, converted where inputs and outputs enter a program.

MuJoCo orders a quaternion w x y z. The rest is of a free joint. Its linear velocity is in the
world's axes, and its acceleration is the derivative of that. A change of q is a translation in
world axes and a rotation in body axes. R turns the linear part: velocity = R natural velocity,
torque = R natural torque. Steps and functions of configurations run in MuJoCo's coordinates
(``State.world_axes``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.sweep import Square
from gridgen.functions.arrays import ARRAYS, configurations
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.joints import FREE
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Matrix, Vector, add, apply, cross, dot, sub, transpose

Inputs = Mapping[str, Sequence[Scalar]]
#: Computes a function in natural coordinates: its name, inputs -> results.
Evaluate = Callable[[str, Inputs], Sequence[Any]]

#: Functions whose algorithms run in MuJoCo's coordinates.
NATIVE = frozenset(
    (
        *("integrate", "difference", "interpolate", "distance", "integrate_gradient"),
        *("difference_gradient", "step", "step_gradient", "step_hessian"),
    )
)
#: Gradients of accelerations.
_GRADIENTS = {
    "forward_dynamics_gradient": "forward_dynamics",
    "constrained_forward_dynamics_gradient": "constrained_forward_dynamics",
}
#: Second derivatives of dynamics, and the functions and first derivatives that they follow from.
_SECOND = {
    "inverse_dynamics_second_order": ("inverse_dynamics", "inverse_dynamics_gradient"),
    "forward_dynamics_second_order": ("forward_dynamics", "forward_dynamics_gradient"),
    "forward_dynamics_hessian": ("forward_dynamics", "forward_dynamics_gradient"),
}
#: Derivatives that do not depend on the base's linear motion, unless the base of the world moves.
_UNIFORM = ("inverse_dynamics_gradient", *_SECOND, "step_hessian")
#: Functions that are converted.
SUPPORTED = NATIVE | frozenset(
    (
        *("inverse_dynamics", "bias_forces", "gravity_forces", "forward_dynamics", "mass_matrix"),
        *("mass_matrix_inverse", "inverse_dynamics_gradient", *_SECOND),
        *("forward_kinematics", "jacobian", "operational_space_inertia", "point_inertia"),
        *("dynamically_consistent_inverse", "delassus", "center_of_mass", "centroidal_inertia"),
        *("center_of_mass_jacobian", "centroidal_momentum_matrix", "centroidal_momentum"),
        *("kinetic_energy", "potential_energy", "kinetic_energy_regressor"),
        *("potential_energy_regressor", "joint_torque_regressor", "self_distance"),
        *("world_distance", "soft_self_distance", "soft_world_distance", "collision_free"),
        *("constrained_forward_dynamics", *_GRADIENTS, "constrained_inverse_dynamics"),
        *("impulse_dynamics", "contact_forward_dynamics", "contact_residual", "rollout"),
        *("constraint_residual", "constraint_jacobian"),
        *("excess", "excess_apart", "actuator_torques", "sensors"),
    )
)


def refusal(tree: KinematicTree, function: str, inputs: Sequence[str] = ()) -> str | None:
    """Return why a function is not available in MuJoCo's convention, or ``None``."""
    if not tree.has_mujoco_quaternions:
        return None
    if function not in SUPPORTED:
        return (
            f"{function} of a robot with a free or ball joint in MuJoCo's convention: load the "
            "robot without convention="
        )
    if function in _UNIFORM and "base_motion" in inputs:
        return f"MuJoCo's convention has no {function} on a moving base: omit its motion"
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
    if function in _UNIFORM:
        x = _uniform(tree, x, scalars)
    return Conversion(tree, x, scalars).results(function, outputs, evaluate)


def natural(
    state: State, tau: Numbers, *, is_uniform: bool = False
) -> tuple[Conversion, State, Numbers]:
    """Return the conversion of a state and torques in MuJoCo's coordinates, and natural ones.

    Args:
        is_uniform: whether to return them in the frame that moves with the base's origin.
    """
    given: Inputs = {"q": state.q, "qd": state.qd, "tau": tau}
    if is_uniform:
        given = _uniform(state.tree, given, state.scalars)
    found = Conversion(state.tree, given, state.scalars)
    x = found.natural
    return found, replace(state, q=x["q"], qd=x["qd"], world_axes=False), x["tau"]


def _uniform(tree: KinematicTree, x: Inputs, scalars: Scalars) -> Inputs:
    """Return inputs in MuJoCo's coordinates, in the frame that moves with the base's origin.

    Dynamics is the same in every uniformly moving frame; an acceleration is a part of gravity.
    """
    found = dict(x)
    if tree.mujoco_base is None:
        return found
    start = tree.bodies[tree.mujoco_base].v_index
    for name in ("qd", "qdd"):
        if name in x:
            rest = range(start, start + 3)
            zero = scalars.constant(0.0)
            found[name] = [zero if k in rest else x[name][k] for k in range(tree.nv)]
    if "qdd" in x:
        linear = x["qdd"][start], x["qdd"][start + 1], x["qdd"][start + 2]
        found["gravity"] = sub((x["gravity"][0], x["gravity"][1], x["gravity"][2]), linear)
    return found


class Conversion:
    """From MuJoCo's coordinates of inputs to natural ones, and back."""

    def __init__(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> None:
        self._tree, self._base, self._nv = tree, tree.mujoco_base, tree.nv
        self._x, self._scalars = x, scalars
        self._zero = scalars.constant(0.0)
        self._none: Vector = (self._zero,) * 3
        self.natural = found = dict(x)
        places = configurations(x)
        for name in places:
            found[name] = self._with_quaternions(x[name], (1, 2, 3, 0))
        if self._base is None:
            return
        self._q, self._v = (getattr(tree.bodies[self._base], k) for k in ("q_index", "v_index"))
        self._R = self._rotation(found[places[0]])
        for name in x:
            if ARRAYS[name].shape == ("nv",):
                found[name] = self.force(x[name])
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
        return FREE.transform(self._base or 0, place, self._scalars)[0]

    def _linear(self, values: Any, start: int | None = None) -> Any:
        start = self._v if start is None else start
        return values[start], values[start + 1], values[start + 2]

    def _with(self, values: Any, linear: Any) -> list[Any]:
        """Return a copy of values with another linear part."""
        entries = [values[k] for k in range(self._nv)]
        entries[self._v : self._v + 3] = linear
        return entries

    def _with_quaternions(self, q: Sequence[Scalar], order: Sequence[int]) -> list[Scalar]:
        entries = [q[k] for k in range(len(q))]
        for start in self._tree.quaternions:
            entries[start : start + 4] = [q[start + k] for k in order]
        return entries

    def results(self, function: str, outputs: Sequence[str], evaluate: Evaluate) -> list[Any]:
        """Return the results in MuJoCo's coordinates."""
        x = self.natural
        if self._base is None:
            return [*evaluate(function, x)]
        if function == "inverse_dynamics_gradient":
            return self._inverse_gradient(evaluate)
        if function in _SECOND:
            value, gradient = (evaluate(name, x) for name in _SECOND[function])
            found = list(evaluate(function, x))
            if function == "forward_dynamics_hessian":
                return [self.hessian(found[0], value[0], gradient, x["multipliers"])]
            (M,) = evaluate("mass_matrix", x) if function[0] == "i" else (None,)
            return self._second_order(value[0], [*gradient], found, M)
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
        if self._base is None:
            return qdd
        return self._turned(self._with(qdd, add(self._linear(qdd), self._drift)), ("nv",))

    def force(self, tau: Numbers) -> Numbers:
        """Return generalized forces in natural coordinates."""
        if self._base is None:
            return tau
        return self._with(tau, apply(transpose(self._R), self._linear(tau)))

    def state(self, q: Any, qd: Any) -> tuple[list[Scalar], list[Scalar]]:
        """Return another state in MuJoCo's coordinates."""
        end = self._with_quaternions(q, (3, 0, 1, 2))
        if self._base is None:
            return end, [*qd]
        R = self._rotation(q)
        return end, self._with(qd, apply(R, self._linear(qd)))

    def gradients(self, qdd: Any | None, found: Sequence[Any]) -> list[Any]:
        """Return derivatives by q, qd and the torques in MuJoCo's coordinates.

        Natural velocities and torques turn with the base: d(R^T x) = R^T dx + R^T x times the
        rotation. So does the result where it is an acceleration, ``qdd``.
        """
        if not found or self._base is None:
            return [*found]
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

    def linearized(
        self, found: tuple[Square, Square], end: tuple[Numbers, Numbers]
    ) -> tuple[Square, Square]:
        """Return A and B of a step in MuJoCo's coordinates.

        Args:
            found: A and B in natural coordinates.
            end:   the natural state at the end.
        """
        if self._base is None:
            return found
        n, v, units = self._nv, self._v, self._units()
        A, B = ([[*row] for row in matrix] for matrix in found)
        qd, tau = (self._linear(self.natural[name]) for name in ("qd", "tau"))
        for a, b in zip(A, B, strict=True):
            slopes = cross(self._linear(a, n + v), qd), cross(self._linear(b), tau)
            self._add(a, add(*slopes))
        R, speed = self._rotation(end[0]), self._linear(end[1])
        for matrix in (A, B):
            spins = [matrix[v + 3 + k] for k in range(3)]
            turned = [cross(unit, speed) for unit in units]
            for i in range(3):
                factors = [one[i] for one in turned]
                row = _combined(factors, spins)
                matrix[n + v + i] = [x + y for x, y in zip(matrix[n + v + i], row, strict=True)]
            for start in (v, n + v):
                block = tuple(matrix[start : start + 3])
                matrix[start : start + 3] = [_combined(row, block) for row in R]
        for row in A:
            for start in (v, n + v):
                row[start : start + 3] = apply(self._R, self._linear(row, start))
        for row in B:
            row[v : v + 3] = apply(self._R, self._linear(row))
        return A, B

    def _add(self, row: Any, entries: Vector, start: int = 3) -> None:
        """Add to the columns of the base's rotation, or from ``start`` on."""
        for k, entry in enumerate(entries, self._v + start):
            row[k] = row[k] + entry

    def _units(self) -> list[Vector]:
        one, zero = self._scalars.constant(1.0), self._zero
        return [(one, zero, zero), (zero, one, zero), (zero, zero, one)]

    def _inverse_gradient(self, evaluate: Evaluate) -> list[Any]:
        """Return derivatives of inverse dynamics by q and qd."""
        x, v = self.natural, self._v
        (value,) = evaluate("inverse_dynamics", x)
        by_q, by_qd = ([[*row] for row in m] for m in evaluate("inverse_dynamics_gradient", x))
        for k, unit in enumerate(self._units()):
            self._add(by_q[v + k], cross(self._linear(value), unit))
        by_qd = self._cleared(by_qd, 2)
        return [self._turned(matrix, ("nv", "nv")) for matrix in (by_q, by_qd)]

    def _second_order(
        self, value: Any, gradient: list[Any], cubes: Sequence[Any], M: Any | None
    ) -> list[Any]:
        """Return second derivatives in MuJoCo's coordinates.

        Args:
            value:    natural torques, or accelerations.
            gradient: their derivatives.
            cubes:    their second derivatives.
            M:        mass matrix, of inverse dynamics; ``None`` for forward dynamics.
        """
        qq, vv, qv, last = ([[[*row] for row in rows] for rows in cube] for cube in cubes)
        by_q, by_qd, *by_tau = ([[*row] for row in matrix] for matrix in gradient)
        units, every, linear = self._units(), range(self._nv), range(self._v, self._v + 3)
        turns = [*enumerate(units, self._v + 3)]
        if by_tau:  # natural torques turn with the base
            (U,) = by_tau
            tau = self._linear(self.natural["tau"])
            for i in every:
                for j, one in turns:
                    turned = cross(tau, one)
                    by_q[i][j] = by_q[i][j] + dot(self._linear(U[i]), turned)
                    for k in every:
                        bent = dot(self._linear(last[i][k]), turned)
                        qq[i][j][k], qq[i][k][j] = qq[i][j][k] + bent, qq[i][k][j] + bent
                    for k, other in turns:
                        bent = cross(cross(tau, other), one)
                        qq[i][j][k] = qq[i][j][k] + dot(self._linear(U[i]), bent)
            for i in every:
                for j, one in turns:
                    for c, slope in zip(linear, cross(one, self._linear(U[i])), strict=True):
                        last[i][j][c] = last[i][j][c] + slope
        for j, one in turns:  # the linear axes of the result turn
            for k in every:
                terms: list[Any] = [(qq, by_q, j, k), (qq, by_q, k, j), (qv, by_qd, j, k)]
                terms.append((last, *by_tau, j, k) if M is None else (last, M, k, j))
                for cube, matrix, a, b in terms:
                    turned = cross(one, tuple(matrix[i][k] for i in linear))
                    for i, entry in zip(linear, turned, strict=True):
                        cube[i][a][b] = cube[i][a][b] + entry
                if M is not None:
                    row = cross(one, self._linear(M[k]))
                    for i, entry in zip(linear, row, strict=True):
                        last[k][i][j] = last[k][i][j] + entry
            for k, other in turns:
                turned = cross(other, cross(one, self._linear(value)))
                for i, entry in zip(linear, turned, strict=True):
                    qq[i][j][k] = qq[i][j][k] + entry
        cleared = self._cleared(qq, 2, 3), self._cleared(vv, 2, 3), self._cleared(qv, 2, 3)
        cubes = (*cleared, self._cleared(last, 2 if M is None else 3))
        return [self._turned(cube, ("nv",) * 3) for cube in cubes]

    def hessian(self, H: Square, qdd: Numbers, rates: Sequence[Square], weights: Numbers) -> Square:
        """Return the Hessian of a weighted sum of the accelerations in MuJoCo's coordinates.

        Args:
            H:       Hessian in natural coordinates.
            qdd:     accelerations.
            rates:   their derivatives by positions, velocities and torques.
            weights: natural ones.
        """
        if self._base is None:
            return H
        n, v, R, units = self._nv, self._v, self._R, self._units()
        H = [[H[i][j] for j in range(3 * n)] for i in range(3 * n)]
        turns, torques = [*enumerate(units, v + 3)], range(2 * n + v, 2 * n + v + 3)
        tau, p, a = (self._linear(x) for x in (self.natural["tau"], weights, qdd))
        slopes = [[entry for by in rates for entry in by[i]] for i in range(v, v + 3)]
        pushed = [dot(weights, [row[k] for row in rates[2]]) for k in range(v, v + 3)]
        force: Vector = (pushed[0], pushed[1], pushed[2])
        for k, unit in turns:
            turned = cross(tau, unit)
            for row in (*H, *slopes):
                row[k] = row[k] + dot([row[c] for c in torques], turned)
        for k, unit in turns:
            turned = cross(tau, unit)
            H[k] = [x + dot([H[c][j] for c in torques], turned) for j, x in enumerate(H[k])]
        for k, unit in turns:
            bent, pulled = cross(p, unit), cross(unit, force)
            for j in range(3 * n):
                self._both(H, k, j, dot(bent, [row[j] for row in slopes]))
            for c, entry in zip(torques, pulled, strict=True):
                self._both(H, k, c, entry)
            for j, other in turns[k - v - 3 :]:
                for x, y in ((force, tau), (a, p)):
                    double = dot(cross(cross(y, unit), other), x)
                    double = double + dot(cross(cross(y, other), unit), x)
                    if j == k:
                        H[k][k] = H[k][k] + 0.5 * double
                    else:
                        self._both(H, k, j, 0.5 * double)
        for start in (v, n + v):
            for k in range(start, start + 3):
                H[k] = [self._zero] * (3 * n)
                for row in H:
                    row[k] = self._zero
        for row in H:
            row[torques.start : torques.stop] = apply(R, tuple(row[c] for c in torques))
        block = tuple(H[c] for c in torques)
        H[torques.start : torques.stop] = [_combined(row, block) for row in R]
        return H

    def _both(self, H: Square, j: int, k: int, entry: Scalar) -> None:
        """Add an entry and its transpose, on the diagonal twice."""
        H[j][k] = H[j][k] + entry
        H[k][j] = H[k][j] + entry

    def _cleared(self, array: Any, *axes: int) -> Any:
        """Return an array without the entries of linear motion; axes from 1 on."""
        if not axes:
            return array
        rest = tuple(axis - 1 for axis in axes if axis > 1)
        if axes[0] > 1:
            return [self._cleared(entry, *rest) for entry in array]
        start = self._v
        return [
            self._none_like(entry) if start <= k < start + 3 else self._cleared(entry, *rest)
            for k, entry in enumerate(array)
        ]

    def _none_like(self, array: Any) -> Any:
        if isinstance(array, (list, tuple)):
            return [self._none_like(entry) for entry in array]
        return self._zero

    def _turned(self, result: Any, shape: Sequence[str | int]) -> Any:
        """Return an array with its linear axes in the world's directions."""
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
