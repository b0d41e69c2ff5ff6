"""Costs of a state and its joint torques, with gradients and Gauss-Newton Hessians.

A cost is a sum of terms: of a weight and a loss for each component of a residual. Its Hessian by
the state is the sum of a diagonal and of a dense part of the first components. The excess of a
state over its bounds ends a rollout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gridgen.dynamics.collision import self_distance
from gridgen.dynamics.computation import Computation, FunctionComputation, Inputs
from gridgen.dynamics.frames import body_poses
from gridgen.dynamics.state import Numbers, State
from gridgen.functions import FUNCTIONS
from gridgen.functions.record import POSE
from gridgen.kernel import KernelKey, Shape
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.rotations import logarithm_gradient, normalized, rotation_vector
from gridgen.symbolic.scalars import Scalar, Scalars, entries
from gridgen.symbolic.spatial import dot, matmul, transpose

#: The function of the key, and the variant that computes no derivatives.
TRAJECTORY_COST, VALUE = "trajectory_cost", "value"
LIMITS = ("lower_limits", "upper_limits")

Rows = Sequence[Sequence[Scalar]]


def turning_end(robot: Any) -> int:
    """Return the number of velocities up to the last one of a free or ball joint.

    Args:
        robot: a tree or a ``ConfigurationSpace``.
    """
    return max((joint.v_index + joint.nv for joint in robot.turning), default=0)


def extents(kind: str, tree: Any) -> tuple[int, int, int]:
    """Return the sizes of a residual and its target, and the first components that it couples.

    Args:
        kind: the residual.
        tree: a tree or a ``ConfigurationSpace``.
    """
    if kind == "q":  # the Hessian is diagonal apart from the block of each free or ball joint
        return tree.nv, tree.nq, turning_end(tree)
    fixed = {"position": (3, 3, tree.nv), "orientation": (3, 9, tree.nv)}
    fixed |= {"center_of_mass": (3, 3, tree.nv), "momentum": (6, 6, 2 * tree.nv)}
    return fixed.get(kind, (tree.nv, 0 if kind in LIMITS else tree.nv, 0))


def losses(loss: str, r: Scalar, width: Scalar, scalars: Scalars) -> tuple[Scalar, Scalar, Scalar]:
    """Return the loss of a residual, its first and its Gauss-Newton second derivative."""
    one, half, select = scalars.constant(1.0), scalars.constant(0.5), scalars.select
    if loss == "quadratic":
        return half * r * r, r, one
    if loss == "pseudo_huber":
        root = scalars.sqrt(one + (r / width) * (r / width))
        return width * width * (root - one), r / root, one / root
    if loss == "huber":
        size = select(r, -r, r)
        near, far = size - width, select(size - width, width, size)
        value = select(near, half * r * r, width * (far - half * width))
        return value, select(near, r, select(r, -width, width)), width / far
    near, far = (r - 2.0 * width) / width, select(r - width, width, r)
    value = select(r - width, half * (near * near - one), scalars.constant(0.0))
    slope = select(r - width, near / width, -one / far)
    return value - scalars.log(far), slope, one / (far * far)


@dataclass(frozen=True)
class CostComputation(Computation):
    """The cost of a state for a list of terms.

    Attributes:
        key:    key of its kernel. A part is a term: its function is the residual, its method the
                loss.
        frames: names of the frames by their identifiers.
    """

    key: KernelKey
    frames: dict[str, str]

    @property
    def title(self) -> str:
        """See ``Computation``."""
        derivatives = "" if self._is_value else ", its gradient and Gauss-Newton Hessian"
        terms = (f"{part.method} loss of {part.function}" for part in self.key.parts)
        return f"Cost of a state{derivatives}:\n" + ",\n".join(terms)

    @property
    def source(self) -> str:
        """See ``Computation``."""
        return "Gauss-Newton method, Nocedal and Wright 2006, section 10.3"

    @property
    def _is_value(self) -> bool:
        return self.key.variant == VALUE

    @property
    def plain_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return ("q", "qd", "tau", "cost_terms")

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return ("cost",) if self._is_value else ("cost", "l_x", "l_u", "l_uu", "l_xx")

    def shape(self, name: str, tree: KinematicTree) -> Shape:
        """See ``Computation``; ``l_xx`` has its diagonal first."""
        sizes = [extents(part.function, tree) for part in self.key.parts]
        if name == "cost_terms":
            return (sum(count + target + 1 for count, target, _ in sizes),)
        if name == "l_xx":
            return (2 * tree.nv + self.coupled(tree) ** 2,)
        return super().shape(name, tree)

    def coupled(self, tree: KinematicTree) -> int:
        """Return the number of rows of the dense part of the Hessian."""
        return max(extents(part.function, tree)[2] for part in self.key.parts)

    def refusal(self, tree: KinematicTree) -> str | None:
        """See ``Computation``."""
        for part in self.key.parts:
            for one in self._used(part, tree):
                if reason := one.refusal(tree):
                    return f"cost of {part.function}: {reason}"
        return None

    def _used(self, part: KernelKey, tree: KinematicTree) -> list[FunctionComputation]:
        """Return the functions of a term: its value, then its derivatives."""
        names = {
            "q": ("difference", "difference_gradient"),
            "center_of_mass": ("center_of_mass", "center_of_mass_jacobian"),
            "momentum": (
                *("centroidal_momentum", "centroidal_dynamics_gradient"),
                "centroidal_momentum_matrix",
            ),
        }.get(part.function, ())
        rows = [FUNCTIONS[name] for name in names]
        found = [
            FunctionComputation(KernelKey(row.name), row, next(iter(row.methods.values())))
            for row in rows
        ]
        if part.frame:
            axes = "local" if part.function == "orientation" else "local_world_aligned"
            row, frame = FUNCTIONS["jacobian"], self.frames[part.frame]
            key = KernelKey("forward_kinematics", frame=part.frame)
            found.append(FunctionComputation(key, POSE, POSE.algorithm, frame))
            key = KernelKey("jacobian", frame=part.frame, reference=axes)
            found.append(FunctionComputation(key, row, row.methods[""], frame))
        return [
            replace(one, parameters=tuple(n for n in one.row.parameters if n in tree.parameters))
            for one in (found[:1] if self._is_value else found)
        ]

    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """See ``Computation``."""
        nv, p, zero = tree.nv, self.coupled(tree), scalars.constant(0.0)
        cost = zero
        l_x, diagonal = [zero] * (2 * nv), [zero] * (2 * nv)
        l_u, l_uu = [zero] * nv, [zero] * nv
        dense = [[zero] * p for _ in range(p)]
        given = iter(x["cost_terms"])
        for part in self.key.parts:
            kind = part.function
            count, size, coupled = extents(kind, tree)
            scalars.begin("cost", -1)
            weights = [next(given) for _ in range(count)]
            target = [next(given) for _ in range(size)]
            width = next(given)
            for i, (r, row) in enumerate(self._residual(tree, x, scalars, part, target)):
                value, slope, curvature = losses(part.method, r, width, scalars)
                cost = cost + weights[i] * value
                slope, curvature = weights[i] * slope, weights[i] * curvature
                if kind == "tau":
                    l_u[i], l_uu[i] = l_u[i] + slope, l_uu[i] + curvature
                for a, entry in row.items():
                    l_x[a] = l_x[a] + entry * slope
                    if a >= coupled:
                        diagonal[a] = diagonal[a] + curvature
                        continue
                    for b, other in row.items():
                        if b <= a:
                            dense[a][b] = dense[b][a] = dense[a][b] + curvature * entry * other
        if self._is_value:
            return ([cost],)
        return [cost], l_x, l_u, l_uu, [*diagonal, *(entry for row in dense for entry in row)]

    def _residual(
        self,
        tree: KinematicTree,
        x: Inputs,
        scalars: Scalars,
        part: KernelKey,
        target: Sequence[Scalar],
    ) -> Sequence[tuple[Scalar, dict[int, Scalar]]]:
        """Return the components of a residual, with derivatives by the state that are not zero."""
        kind, nv, one = part.function, tree.nv, scalars.constant(1.0)
        q, qd = x["q"], x["qd"]
        has_rows = not self._is_value

        def paired(r: Sequence[Scalar], *blocks: Rows) -> Sequence[Any]:
            if not has_rows:
                return [(entry, {}) for entry in r]
            rows = ([e for block in blocks for e in block[i]] for i in range(len(r)))
            return [(e, dict(enumerate(row))) for e, row in zip(r, rows, strict=True)]

        if kind in ("qd", "tau"):
            begin = nv if kind == "qd" else 2 * nv
            pairs = enumerate(zip(x[kind], target, strict=True))
            return [(a - b, {begin + i: one} if begin < 2 * nv else {}) for i, (a, b) in pairs]
        if kind in LIMITS:
            sign = 1.0 if kind == "lower_limits" else -1.0
            places = {body.v_index: body.q_index for body in tree.bodies if body.nv == 1}
            limits = {i: getattr(tree, kind)[place] for i, place in places.items()}
            return [
                (sign * (q[places[i]] - limits[i]), {i: sign * one})
                if math.isfinite(limits.get(i, math.inf))
                else (one, {})
                for i in range(nv)
            ]
        own = {name: [*map(scalars.constant, entries(v))] for name, v in tree.parameters.items()}

        def results(used: FunctionComputation, state: Inputs) -> Sequence[Any]:
            return used.results(tree, {**own, **state}, scalars)

        evaluate = [partial(results, used) for used in self._used(part, tree)]
        if kind == "q":
            ends = {"q0": target, "q1": q}
            (r,) = evaluate[0](ends)
            if not has_rows:
                return paired(r)
            count = extents(kind, tree)[2]
            J = evaluate[1](ends)[1] if count else ()
            rows = [dict(enumerate(J[i][:count])) if i < count else {i: one} for i in range(nv)]
            return [*zip(r, rows, strict=True)]
        if kind in ("center_of_mass", "momentum"):
            state = {"q": q, "qd": qd} if kind == "momentum" else {"q": q}
            (found,) = evaluate[0](state)
            r = [a - b for a, b in zip(found, target, strict=True)]
            if not has_rows:
                return paired(r)
            if kind == "center_of_mass":
                return paired(r, *evaluate[1](state))
            by_q = evaluate[1]({**state, "qdd": [scalars.constant(0.0)] * nv})[0]
            return paired(r, by_q, *evaluate[2]({"q": q}))
        (pose,) = evaluate[0]({"q": q})
        J = evaluate[1]({"q": q})[0] if has_rows else ()
        if kind == "position":
            return paired([pose[i][3] - target[i] for i in range(3)], J[:3])
        R: Any = tuple(tuple(row[:3]) for row in pose[:3])
        goal: Any = tuple(tuple(target[3 * i : 3 * i + 3]) for i in range(3))
        turn, angle = rotation_vector(_quaternion(matmul(transpose(goal), R), scalars), scalars)
        if not has_rows:
            return paired(turn)
        none = (scalars.constant(0.0),) * 3
        inverse = [row[3:] for row in logarithm_gradient((none, turn), angle, scalars)[1][3:]]
        columns = [*zip(*J[3:], strict=True)]
        return paired(turn, [[dot(row, column) for column in columns] for row in inverse])


def _quaternion(R: Any, scalars: Scalars) -> Any:
    """Return the quaternion (x, y, z, w) of a rotation, by its largest element."""
    a, b, c = R[0][0], R[1][1], R[2][2]
    one, (x, y, z) = scalars.constant(1.0), (R[2][1], R[0][2], R[1][0])
    X, Y, Z = R[1][2], R[2][0], R[0][1]
    best = [x - X, y - Y, z - Z, one + a + b + c]
    largest = best[3]
    for k, row in enumerate(
        (
            [one + a - b - c, Z + z, Y + y, x - X],
            [Z + z, one - a + b - c, X + x, y - Y],
            [Y + y, X + x, one - a - b + c, z - Z],
        )
    ):
        test = largest - row[k]
        best = [scalars.select(test, new, old) for new, old in zip(row, best, strict=True)]
        largest = scalars.select(test, row[k], largest)
    return normalized(tuple(best), scalars)


def excess(state: State, q_range: Numbers, base_range: Numbers) -> Scalar:
    """Return zero for a state within its bounds, otherwise a positive number or NaN.

    Args:
        q_range:    least and largest value of each position; those of quaternions are not read.
        base_range: of the floating base, least and largest z coordinate of the origin in the
                    world, and least cosine of the angle between its z axis and that of the world.
    """
    state = _natural(state)
    scalars, tree, q = state.scalars, state.tree, state.q
    scalars.begin("excess", -1)
    zero = scalars.constant(0.0)
    quaternions = {start + k for start in tree.quaternions for k in range(4)}
    below = [
        term
        for j in range(tree.nq)
        if j not in quaternions
        for term in (q[j] - q_range[2 * j], q_range[2 * j + 1] - q[j])
    ]
    if tree.base is not None:
        pose = body_poses(state)[tree.base]
        low, high, upright = base_range
        below += [pose.p[2] - low, high - pose.p[2], pose.R[2][2] - upright]
    total = zero
    for term in below:  # a NaN is not negative, and remains
        total = total + scalars.select(-term, zero, -term)
    return total


def excess_apart(state: State, q_range: Numbers, base_range: Numbers, margin: Numbers) -> Scalar:
    """Return the same where links must also be a margin [m] apart."""
    scalars = state.scalars
    more = margin[0] - self_distance(_natural(state))[0]
    more = scalars.select(more, scalars.constant(0.0), more)
    return excess(state, q_range, base_range) + more


def _natural(state: State) -> State:
    """Return the state with quaternions in the order x, y, z, w."""
    if not state.world_axes:
        return state
    q = [state.q[j] for j in range(state.tree.nq)]
    for start in state.tree.quaternions:
        q[start : start + 4] = [*q[start + 1 : start + 4], q[start]]
    return replace(state, q=q, world_axes=False)
