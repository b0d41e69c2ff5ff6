"""Forward dynamics by articulated-body inertias (Yang, Wu, Pan (prefix sums) eq. 7 and 8).

The recursion is relative to the bias motion, the motion with zero joint accelerations: its forces
are the bias forces of the articulated bodies, and the algorithm solves for the differences of the
accelerations. The velocity-product terms of the textbook form (Ia c, v x* I v) then vanish, and the
algorithm shares its outward pass with inverse dynamics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gridgen.dynamics.kinematics import body_motions
from gridgen.dynamics.linear import Factorization, ldlt, ldlt_solve
from gridgen.dynamics.mass import Mass, body_mass
from gridgen.dynamics.refusals import of_mimic_joints
from gridgen.dynamics.rnea import add_joint_dynamics, body_forces
from gridgen.dynamics.state import Numbers, State
from gridgen.errors import ModelError
from gridgen.model.kinematic_tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    Matrix,
    Motion,
    Placement,
    Symmetric,
    Vector,
    Wrench,
    add,
    apply,
    constants,
    dot,
    full,
    scale,
    skew_times,
    split,
    sub,
    symmetric,
    times_skew,
    transpose,
)

SixBySix = tuple[tuple[Scalar, ...], ...]


@dataclass(frozen=True)
class ArticulatedInertia:
    """The symmetric 6x6 map from acceleration (v, w) to wrench (f, n), by blocks.

    Attributes:
        M: linear acceleration to force [kg].
        H: angular acceleration to force [kg m].
        I: angular acceleration to moment [kg m^2].
    """

    M: Symmetric
    H: Matrix
    I: Symmetric  # noqa: E741 (the textbook's name)

    def __add__(self, other: ArticulatedInertia) -> ArticulatedInertia:
        """Return the sum."""
        return ArticulatedInertia(
            _sum(self.M, other.M),
            tuple(_sum(a, b) for a, b in zip(self.H, other.H, strict=True)),  # type: ignore[arg-type]
            _sum(self.I, other.I),
        )

    def keep(self, index: int, scalars: Scalars) -> ArticulatedInertia:
        """Name the entries."""
        return ArticulatedInertia(
            scalars.keep("M", index, self.M),
            scalars.keep("H", index, self.H),
            scalars.keep("I", index, self.I),
        )

    def flat(self) -> list[Scalar]:
        """Return the 21 entries in order."""
        return [*self.M, *(entry for row in self.H for entry in row), *self.I]

    @classmethod
    def read(cls, values: Sequence[Scalar]) -> ArticulatedInertia:
        """Return the inertia of ``flat`` entries."""
        rows = (tuple(values[k : k + 3]) for k in (6, 9, 12))
        return cls(tuple(values[:6]), tuple(rows), tuple(values[15:21]))  # type: ignore[arg-type]

    def column(self, axis: int) -> tuple[Scalar, ...]:
        """Return column ``axis`` of the 6x6 matrix (0-2 linear, 3-5 angular)."""
        if axis < 3:
            return (*full(self.M)[axis], *self.H[axis])
        return (*(row[axis - 3] for row in self.H), *full(self.I)[axis - 3])

    def wrench(self, v: Vector, w: Vector) -> Wrench:
        """Return the wrench (f, n) for the acceleration (v, w)."""
        f = add(apply(full(self.M), v), apply(self.H, w))
        return f, add(apply(transpose(self.H), v), apply(full(self.I), w))

    def across_joint(
        self, U: Numbers, gain: Numbers, zero: Scalar, loose: int | None = None
    ) -> ArticulatedInertia:
        """Return the articulated inertia across a joint: A - U gain^T (prefix sums eq. 7).

        Args:
            U:     column of the joint's axis, six entries.
            gain:  U / D.
            zero:  the scalar zero.
            loose: axis of a joint without armature; the row of this axis becomes exactly zero.
        """

        def remain(i: int, j: int, value: Scalar) -> Scalar:
            return zero if loose in (i, j) else value - U[i] * gain[j]

        places = [(i, j) for i in range(3) for j in range(i, 3)]
        M = tuple(remain(i, j, entry) for (i, j), entry in zip(places, self.M, strict=True))
        I = tuple(  # noqa: E741
            remain(i + 3, j + 3, entry) for (i, j), entry in zip(places, self.I, strict=True)
        )
        H = tuple(
            tuple(remain(i, j + 3, entry) for j, entry in enumerate(row))
            for i, row in enumerate(self.H)
        )
        return ArticulatedInertia(M, H, I)  # type: ignore[arg-type]

    def solve(self, armature: Numbers, wrench: Numbers) -> list[Scalar]:
        """Return the acceleration x of a free body: (A + diag(armature)) x = wrench."""
        return ldlt_solve(self._factors(armature), wrench)

    def inverse(self, armature: Numbers, scalars: Scalars) -> SixBySix:
        """Return (A + diag(armature))^-1."""
        factors = self._factors(armature)
        unit = [[scalars.constant(float(i == j)) for j in range(6)] for i in range(6)]
        return tuple(tuple(ldlt_solve(factors, wrench)) for wrench in unit)

    def _factors(self, armature: Numbers) -> Factorization:
        rows = [list(self.column(axis)) for axis in range(6)]
        for axis in range(6):
            rows[axis][axis] = rows[axis][axis] + armature[axis]
        return ldlt(rows)

    def let_go(self, armature: Numbers, inverse: SixBySix) -> ArticulatedInertia:
        """Return the articulated inertia across a free joint: R - R (A + R)^-1 R.

        The armature R alone couples the body to its parent. Without armature on an axis, the row
        of this axis is exactly zero.

        Args:
            armature: diagonal of R.
            inverse:  inverse of A + R.
        """

        def remain(i: int, j: int) -> Scalar:
            if i != j:
                return -(armature[i] * armature[j] * inverse[i][j])
            # R_i - R_i^2 / (A + R)_ii would cancel for a large armature.
            return armature[i] * dot(inverse[i], self.column(i))

        places = [(i, j) for i in range(3) for j in range(i, 3)]
        M = tuple(remain(i, j) for i, j in places)
        I = tuple(remain(i + 3, j + 3) for i, j in places)  # noqa: E741
        H = tuple(tuple(remain(i, j + 3) for j in range(3)) for i in range(3))
        return ArticulatedInertia(M, H, I)  # type: ignore[arg-type]

    def to_parent(self, placed: Placement) -> ArticulatedInertia:
        """Return the inertia in the parent's frame (X^T Ia X of prefix sums eq. 7)."""
        M = placed.symmetric_to_parent(self.M)
        H = placed.matrix_to_parent(self.H)
        I = placed.symmetric_to_parent(self.I)  # noqa: E741
        # Shift of the origin by r: v_body = v - [r] w and n = n_body + [r] f.
        r = placed.r
        shifted = tuple(map(sub, H, times_skew(full(M), r)))
        moment = transpose(skew_times(r, H))
        arm = skew_times(r, shifted)  # type: ignore[arg-type]
        I_parent = [[full(I)[i][j] + arm[i][j] + moment[i][j] for j in range(3)] for i in range(3)]
        return ArticulatedInertia(M, shifted, symmetric(I_parent))  # type: ignore[arg-type]


@dataclass(frozen=True)
class ArticulatedJoint:
    """Results of the inward pass for one velocity of a joint.

    Attributes:
        gain: U / D, six entries.
        rate: u / D, the joint acceleration if the parent moves as in the bias motion.
    """

    gain: tuple[Scalar, ...]
    rate: Scalar


AxisJoints = tuple[ArticulatedJoint, ...]
"""Results of the inward pass for each velocity of a joint that is not free."""


@dataclass(frozen=True)
class FreeJoint:
    """Results of the inward pass for a free joint.

    Attributes:
        rate:     joint acceleration if the parent moves as in the bias motion.
        armature: diagonal that the joint adds to the inertia of its body; empty if the body
                  exerts no inertial force on its parent.
        inverse:  inverse of the sum.
    """

    rate: tuple[Scalar, ...]
    armature: tuple[Scalar, ...] = ()
    inverse: SixBySix = ()

    def passed_on(self, effort: Numbers) -> Wrench:
        """Return the wrench propagated to the parent: joint force minus inertia of the armature."""
        if not self.armature:
            return split(effort)
        taken = zip(effort, self.armature, self.rate, strict=True)
        return split([given - own * rate for given, own, rate in taken])


def forward_dynamics_aba(
    state: State, tau: Numbers, damping_step: Scalar | None = None
) -> list[Scalar]:
    """Return the joint accelerations for the generalized forces ``tau``.

    Args:
        tau:          generalized forces, nv scalars [N m or N].
        damping_step: time step [s] of implicit damping D, which acts on the velocities at the end
                      of the step: M + damping_step D replaces M. ``None`` for explicit damping.

    Returns:
        qdd: joint accelerations, nv scalars [rad/s^2 or m/s^2].

    Raises:
        ModelError: the robot has mimic joints.
    """
    tree, scalars = state.tree, state.scalars
    refuse_mimic(tree, "forward_dynamics_aba")
    forces = body_forces(state, body_motions(state))
    losses = scalars.table("loss", tree.nv, scalars.constant(0.0))
    losses = add_joint_dynamics(state, losses)
    return articulated_passes(state, forces, tau, losses, damping_step=damping_step)


def refuse_mimic(tree: KinematicTree, algorithm: str) -> None:
    """Raise ``ModelError`` for a robot with mimic joints."""
    if (reason := of_mimic_joints(tree)) is not None:
        raise ModelError(f"{tree.source}: no {algorithm}: {reason}")


def articulated_passes(
    state: State,
    bias: list[Wrench],
    tau: Numbers,
    losses: Numbers,
    articulated: list[ArticulatedInertia] | None = None,
    damping_step: Scalar | None = None,
) -> list[Scalar]:
    """Return the joint accelerations that ``tau`` adds to the bias motion.

    Args:
        bias:         wrench on each body in the bias motion; overwritten.
        losses:       joint torques to subtract from ``tau``, nv scalars.
        articulated:  articulated inertia of every body, if already known.
        damping_step: as in ``forward_dynamics_aba``.
    """
    tree, placed, scalars = state.tree, state.placed, state.scalars
    inertias = rigid_inertias(state) if articulated is None else articulated
    joints = scalars.table("joint", len(tree.bodies))
    for index in tree.inward():
        body, inertia = tree.bodies[index], inertias[index]
        scalars.begin("articulated", index)
        effort = [tau[body.v_index + k] - losses[body.v_index + k] for k in range(body.nv)]
        joints[index], transmitted, (f, n) = eliminate(
            state, index, inertia, bias[index], effort, damping_step
        )
        if body.parent >= 0:
            f, n = placed[index].force_to_parent(f, n)
            f, n = add(bias[body.parent][0], f), add(bias[body.parent][1], n)
            bias[body.parent] = (
                scalars.keep("f", body.parent, f),
                scalars.keep("n", body.parent, n),
            )
            if transmitted is not None and articulated is None:
                total = inertias[body.parent] + transmitted.to_parent(placed[index])
                inertias[body.parent] = total.keep(body.parent, scalars)
    return _outward(state, joints)


def rigid_inertias(state: State) -> list[ArticulatedInertia]:
    """Return the spatial inertia of every single body."""
    tree, scalars = state.tree, state.scalars
    inertias = scalars.table("inertia", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("articulated", index)
        inertias[index] = rigid_inertia(body_mass(state, index), scalars)
    return inertias


def rigid_inertia(mass: Mass, scalars: Scalars) -> ArticulatedInertia:
    """Return a rigid body's spatial inertia."""
    (x, y, z), m, zero = mass.h, mass.m, scalars.constant(0.0)
    return ArticulatedInertia(
        (m, zero, zero, m, zero, m),
        ((zero, z, -y), (-z, zero, x), (y, -x, zero)),  # f = w x h = -[h] w
        mass.I,
    )


def eliminate(
    state: State,
    index: int,
    inertia: ArticulatedInertia,
    bias: Wrench,
    effort: Numbers,
    damping_step: Scalar | None = None,
) -> tuple[AxisJoints | FreeJoint, ArticulatedInertia | None, Wrench]:
    """Project one joint's motion out of the inertia and the bias force (prefix sums eq. 7).

    Args:
        index:        index of the body that the joint moves.
        inertia:      articulated inertia of the body.
        bias:         wrench on the body in the bias motion.
        effort:       joint torque, one scalar per velocity of the joint.
        damping_step: as in ``forward_dynamics_aba``.

    Returns:
        the joint's terms of the outward pass; the inertia and the wrench propagated to the parent,
        about the body's origin. The inertia is ``None`` for a free body without armature.
    """
    tree, scalars = state.tree, state.scalars
    body = tree.bodies[index]
    if body.joint_type.is_free:
        own_axes, holds = free_armature(state, body, damping_step)
        right = [given - entry for given, entry in zip(effort, (*bias[0], *bias[1]), strict=True)]
        if not holds:  # the joint transmits only its own force to the parent
            free = FreeJoint(tuple(inertia.solve(own_axes, right)))
            return free, None, free.passed_on(effort)
        whole = inertia.inverse(own_axes, scalars)
        free = FreeJoint(tuple(dot(row, right) for row in whole), own_axes, whole)
        return free, inertia.let_go(own_axes, whole), free.passed_on(effort)
    joints: list[ArticulatedJoint] = []
    for k in reversed(range(body.nv)):  # as if a massless body were between two axes
        one, inertia, bias = eliminate_axis(state, index, k, inertia, bias, effort[k], damping_step)
        joints.insert(0, one)
    return tuple(joints), inertia, bias


def eliminate_axis(
    state: State,
    index: int,
    k: int,
    inertia: ArticulatedInertia,
    bias: Wrench,
    effort: Scalar,
    damping_step: Scalar | None = None,
) -> tuple[ArticulatedJoint, ArticulatedInertia, Wrench]:
    """Project velocity ``k`` of a joint out of the inertia and the bias force; see ``eliminate``.

    The inertia and the bias force are without the joint's later velocities.
    """
    scalars, body = state.scalars, state.tree.bodies[index]
    own = joint_inertia(state, body.v_index + k, damping_step)
    joint, (f, n), which = body.joint_type, bias, "xyz"[k] if body.nv > 1 else ""
    loose = joint.component(k) if own is None else None
    U = joint.combined(inertia.column, k)
    felt, taken = joint.projected(split(U))[k], joint.projected(bias)[k]
    D = scalars.keep(f"D{which}", index, felt + (scalars.constant(0.0) if own is None else own))
    u = scalars.keep(f"u{which}", index, effort - taken)
    inverse = scalars.keep(f"inverse{which}", index, 1.0 / D)
    gain = [entry * inverse for entry in U]
    if loose is not None:
        gain[loose] = scalars.constant(1.0)
    gain = list(scalars.keep(f"G{which}", index, tuple(gain)))
    rate = scalars.keep(f"rate{which}", index, u * inverse)

    rest = inertia.across_joint(U, gain, scalars.constant(0.0), loose)
    f, n = add(f, scale(rate, (U[0], U[1], U[2]))), add(n, scale(rate, (U[3], U[4], U[5])))
    if loose is not None:
        full_wrench = [*f, *n]
        full_wrench[loose] = effort
        f, n = split(full_wrench)
    return ArticulatedJoint(tuple(gain), rate), rest, (f, n)


def joint_inertia(state: State, velocity: int, step: Scalar | None) -> Scalar | None:
    """Return the armature and the inertia that implicit damping adds; ``None`` if both are zero.

    Args:
        velocity: index of the joint's velocity.
        step:     length of the time step [s]; ``None`` for explicit damping.
    """
    own = state.own("armature", velocity)
    if step is not None and state.has("damping", velocity):
        return own + step * state.own("damping", velocity)
    return own if state.has("armature", velocity) else None


def free_armature(
    state: State, body: Body, damping_step: Scalar | None = None
) -> tuple[tuple[Scalar, ...], bool]:
    """Return the diagonal that a free joint adds to the inertia of its body.

    Returns:
        six numbers, and whether they couple the body to a parent.
    """
    places = range(body.v_index, body.v_index + 6)
    entries = [joint_inertia(state, velocity, damping_step) for velocity in places]
    zero = state.scalars.constant(0.0)
    holds = any(own is not None for own in entries) and body.parent >= 0
    return tuple(zero if own is None else own for own in entries), holds


def _outward(state: State, joints: Sequence[Any]) -> list[Scalar]:
    """Compute the joint accelerations from the base outwards (prefix sums eq. 8)."""
    tree, placed, scalars = state.tree, state.placed, state.scalars
    qdd: list[Scalar] = scalars.table("qdd", tree.nv)
    change = scalars.table("change", len(tree.bodies))  # acceleration over that of the bias motion
    nothing = constants((0.0, 0.0, 0.0), scalars)
    for index in tree.outward():
        body, joint = tree.bodies[index], joints[index]
        scalars.begin("acceleration", index)
        v, w = (nothing, nothing) if body.parent < 0 else change[body.parent]
        v, w = placed[index].motion_to_body(v, w)
        rates, (v, w) = accelerate(body, joint, v, w)
        if body.nv == 1:
            rates = (scalars.keep("qdd", index, rates[0]),)
        for axis, rate in enumerate(rates):
            qdd[body.v_index + axis] = rate
        change[index] = (scalars.keep("dv", index, v), scalars.keep("dw", index, w))
    return qdd


def accelerate(
    body: Body, joint: AxisJoints | FreeJoint, v: Vector, w: Vector
) -> tuple[tuple[Scalar, ...], Motion]:
    """Return the acceleration of a joint, and the acceleration of its body.

    Args:
        body:  the body that the joint moves.
        joint: the joint's terms from the inward pass.
        v:     linear acceleration of the parent relative to the bias motion, in the body's frame.
        w:     angular acceleration of the parent, likewise.
    """
    if isinstance(joint, FreeJoint):
        total = joint.rate
        if joint.armature:
            felt = [own * entry for own, entry in zip(joint.armature, (*v, *w), strict=True)]
            total = tuple(
                rate + dot(row, felt) for rate, row in zip(total, joint.inverse, strict=True)
            )
        return tuple(a - b for a, b in zip(total, (*v, *w), strict=True)), split(total)
    rates: list[Scalar] = []
    for k, one in enumerate(joint):
        rate = one.rate
        for gain, entry in zip(one.gain, (*v, *w), strict=True):
            rate = rate - gain * entry
        rates.append(rate)
        v, w = body.joint_type.added((v, w), (rate,), k)
    return tuple(rates), (v, w)


def _sum(a: Numbers, b: Numbers) -> tuple[Scalar, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))
