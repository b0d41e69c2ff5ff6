"""Forward dynamics by articulated-body inertias (Yang, Wu, Pan (prefix sums) eq. 7 and 8).

The recursion is written about the bias motion, that of zero joint accelerations: the forces of that
motion enter as the bias forces of the articulated bodies, and the accelerations found are
differences to it. The velocity-product terms of the textbook form (Ia c, v x* I v) then vanish, and
the algorithm shares its outward pass with inverse dynamics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gridgen.dynamics.kinematics import BaseMotion, body_motions, placements
from gridgen.dynamics.linear import Factorization, ldlt, ldlt_solve
from gridgen.dynamics.mass import Mass, body_mass
from gridgen.dynamics.parameters import armature, damping_in_time, has_armature
from gridgen.dynamics.refusals import of_mimic_joints
from gridgen.dynamics.rnea import add_joint_dynamics, body_forces
from gridgen.errors import ModelError
from gridgen.model.kinematic_tree import Body, KinematicTree
from gridgen.symbolic.branches import Branches
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    Matrix,
    Motion,
    Placement,
    Symmetric,
    Vector,
    Wrench,
    add,
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
    """The symmetric 6x6 map from motion (v, w) to wrench (f, n), by blocks.

    Attributes:
        M: linear to linear [kg].
        H: angular motion to force [kg m].
        I: angular to angular [kg m^2].
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

    def column(self, axis: int) -> tuple[Scalar, ...]:
        """Return column ``axis`` of the 6x6 matrix (0-2 linear, 3-5 angular)."""
        if axis < 3:
            return (*full(self.M)[axis], *self.H[axis])
        return (*(row[axis - 3] for row in self.H), *full(self.I)[axis - 3])

    def across_joint(
        self, U: Sequence[Scalar], gain: Sequence[Scalar], zero: Scalar, loose: int | None = None
    ) -> ArticulatedInertia:
        """Return what remains when a joint gives way: A - U gain^T (prefix sums eq. 7).

        Args:
            U:     the column of the joint's axis, six entries.
            gain:  U / D.
            zero:  the number zero of the scalars.
            loose: the axis of a joint without armature. What remains cannot resist its motion at
                   all: that row is exactly zero.
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

    def solve(self, armature: Sequence[Scalar], wrench: Sequence[Scalar]) -> list[Scalar]:
        """Return the acceleration x of a free body: (A + diag(armature)) x = wrench."""
        return ldlt_solve(self._factors(armature), wrench)

    def inverse(self, armature: Sequence[Scalar], scalars: Scalars) -> SixBySix:
        """Return (A + diag(armature))^-1."""
        factors = self._factors(armature)
        unit = [[scalars.constant(float(i == j)) for j in range(6)] for i in range(6)]
        return tuple(tuple(ldlt_solve(factors, wrench)) for wrench in unit)

    def _factors(self, armature: Sequence[Scalar]) -> Factorization:
        rows = [list(self.column(axis)) for axis in range(6)]
        for axis in range(6):
            rows[axis][axis] = rows[axis][axis] + armature[axis]
        return ldlt(rows, Branches(range(-1, 5)))

    def let_go(self, armature: Sequence[Scalar], inverse: SixBySix) -> ArticulatedInertia:
        """Return what remains when a free joint gives way: R - R (A + R)^-1 R.

        Only armature R holds the body. On an axis without, what remains is exactly zero.

        Args:
            armature: the diagonal of R.
            inverse:  of A + R.
        """

        def remain(i: int, j: int) -> Scalar:
            if i != j:
                return -(armature[i] * armature[j] * inverse[i][j])
            # R_i - R_i^2 / (A + R)_ii would cancel where the armature is large.
            return armature[i] * dot(inverse[i], self.column(i))

        places = [(i, j) for i in range(3) for j in range(i, 3)]
        M = tuple(remain(i, j) for i, j in places)
        I = tuple(remain(i + 3, j + 3) for i, j in places)  # noqa: E741
        H = tuple(tuple(remain(i, j + 3) for j in range(3)) for i in range(3))
        return ArticulatedInertia(M, H, I)  # type: ignore[arg-type]

    def to_parent(self, placed: Placement) -> ArticulatedInertia:
        """Return the inertia as the parent feels it (X^T Ia X of prefix sums eq. 7)."""
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
    """What the outward pass needs of a joint.

    Attributes:
        gain: U / D, six entries, one for a joint of one degree of freedom.
        rate: u / D, the joint acceleration of a parent that moves as in the bias motion.
    """

    gain: tuple[Scalar, ...]
    rate: Scalar


@dataclass(frozen=True)
class FreeJoint:
    """What the outward pass needs of a free joint.

    Attributes:
        rate:     the joint acceleration of a parent that moves as in the bias motion.
        armature: what the joint adds to the diagonal of its body's inertia; nothing where no
                  carrier feels the body.
        inverse:  of the sum.
    """

    rate: tuple[Scalar, ...]
    armature: tuple[Scalar, ...] = ()
    inverse: SixBySix = ()

    def passed_on(self, effort: Sequence[Scalar]) -> Wrench:
        """Return the wrench that the carrier feels: the effort less what the armature takes."""
        if not self.armature:
            return split(effort)
        taken = zip(effort, self.armature, self.rate, strict=True)
        return split([given - own * rate for given, own, rate in taken])


def forward_dynamics_aba(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> list[Scalar]:
    """Return the joint accelerations that ``tau`` produces.

    Returns:
        qdd: joint accelerations, nv scalars [rad/s^2 or m/s^2].

    Raises:
        ModelError: the robot has mimic joints.
    """
    return accelerations_aba(tree, q, qd, tau, base, scalars, f_ext)


def accelerations_aba(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
    damping_step: Scalar | None = None,
) -> list[Scalar]:
    """Return the joint accelerations where the damping may be that of later velocities.

    ``damping_step`` is the time [s] at whose end velocities meet the damping D, so that
    M + damping_step D takes the place of M; ``None`` for the damping of now.
    """
    refuse_mimic(tree, "forward_dynamics_aba")
    placed = placements(tree, q, scalars)
    motions = body_motions(tree, placed, qd, None, base, scalars)
    forces = body_forces(tree, motions, f_ext, scalars)
    losses = scalars.table("loss", tree.nv, scalars.constant(0.0))
    losses = add_joint_dynamics(tree, losses, qd, None, scalars)
    return articulated_passes(tree, placed, forces, tau, losses, scalars, damping_step=damping_step)


def refuse_mimic(tree: KinematicTree, algorithm: str) -> None:
    """Raise for a robot whose joints are not independent."""
    if (reason := of_mimic_joints(tree)) is not None:
        raise ModelError(f"{tree.source}: no {algorithm}: {reason}")


def articulated_passes(
    tree: KinematicTree,
    placed: Sequence[Placement],
    bias: list[Wrench],
    tau: Sequence[Scalar],
    losses: Sequence[Scalar],
    scalars: Scalars,
    articulated: list[ArticulatedInertia] | None = None,
    damping_step: Scalar | None = None,
) -> list[Scalar]:
    """Return the accelerations by which ``tau`` and ``bias`` change the bias motion.

    Args:
        placed:      placement of every body in its parent.
        bias:        wrench that each body takes in the bias motion; used up.
        losses:      what of them is lost before it moves anything, nv scalars.
        articulated: inertia of every body with all that it carries, where it is known already.
        damping_step: as in ``accelerations_aba``.
    """
    inertias = rigid_inertias(tree, scalars) if articulated is None else articulated
    joints = scalars.table("joint", len(tree.bodies))
    for index in tree.inward():
        body, inertia = tree.bodies[index], inertias[index]
        scalars.begin("articulated", index)
        effort = [tau[body.v_index + k] - losses[body.v_index + k] for k in range(body.nv)]
        joints[index], transmitted, (f, n) = eliminate(
            tree, index, inertia, bias[index], effort, scalars, damping_step
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
    return _outward(tree, placed, joints, scalars)


def rigid_inertias(tree: KinematicTree, scalars: Scalars) -> list[ArticulatedInertia]:
    """Return the inertia of every body by itself."""
    inertias = scalars.table("inertia", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("articulated", index)
        inertias[index] = rigid_inertia(body_mass(tree, index, scalars), scalars)
    return inertias


def rigid_inertia(mass: Mass, scalars: Scalars) -> ArticulatedInertia:
    """Return the inertia of a body none of whose joints gives way."""
    (x, y, z), m, zero = mass.h, mass.m, scalars.constant(0.0)
    return ArticulatedInertia(
        (m, zero, zero, m, zero, m),
        ((zero, z, -y), (-z, zero, x), (y, -x, zero)),  # f = w x h = -[h] w
        mass.I,
    )


def eliminate(
    tree: KinematicTree,
    index: int,
    inertia: ArticulatedInertia,
    bias: Wrench,
    effort: Sequence[Scalar],
    scalars: Scalars,
    damping_step: Scalar | None = None,
) -> tuple[ArticulatedJoint | FreeJoint, ArticulatedInertia | None, Wrench]:
    """Remove the freedom of one joint from the inertia and the bias force (prefix sums eq. 7).

    Args:
        index:        of the body that the joint moves.
        inertia:      of the body with all that it carries.
        bias:         wrench that it takes in the bias motion.
        effort:       of the joint, one scalar for each of its velocities.
        damping_step: as in ``accelerations_aba``.

    Returns:
        what the outward pass needs of the joint; the inertia and the wrench that the carrier feels,
        about the body's origin. Of a free body without armature it feels no inertia: ``None``.
    """
    body = tree.bodies[index]
    if body.joint_type.is_free:
        return _let_go(tree, index, inertia, bias, effort, scalars, damping_step)
    (tau,) = effort
    own = armature(tree, body.v_index, scalars)  # inertia of the joint itself
    is_loose = not has_armature(tree, body.v_index)
    damping = damping_in_time(tree, body, body.v_index, damping_step, scalars)
    if damping is not None:
        own, is_loose = own + damping, False
    joint, (f, n) = body.joint_type, bias
    loose = joint.axis if is_loose else None
    U = joint.combined(inertia.column)
    (felt,), (taken,) = joint.projected(split(U)), joint.projected(bias)
    D = scalars.keep("D", index, felt + own)
    u = scalars.keep("u", index, tau - taken)
    inverse = scalars.keep("inverse", index, 1.0 / D)
    gain = [entry * inverse for entry in U]
    if loose is not None:
        gain[loose] = scalars.constant(1.0)
    gain = list(scalars.keep("G", index, tuple(gain)))
    rate = scalars.keep("rate", index, u * inverse)

    rest = inertia.across_joint(U, gain, scalars.constant(0.0), loose)
    f, n = add(f, scale(rate, (U[0], U[1], U[2]))), add(n, scale(rate, (U[3], U[4], U[5])))
    if loose is not None:
        full_wrench = [*f, *n]
        full_wrench[loose] = tau
        f, n = split(full_wrench)
    return ArticulatedJoint(tuple(gain), rate), rest, (f, n)


def _let_go(
    tree: KinematicTree,
    index: int,
    inertia: ArticulatedInertia,
    bias: Wrench,
    effort: Sequence[Scalar],
    scalars: Scalars,
    damping_step: Scalar | None,
) -> tuple[FreeJoint, ArticulatedInertia | None, Wrench]:
    """Remove the six freedoms of a free joint; as ``eliminate``."""
    body = tree.bodies[index]
    armature, holds = free_armature(tree, body, scalars, damping_step)
    right = [given - entry for given, entry in zip(effort, (*bias[0], *bias[1]), strict=True)]
    if not holds:
        # The joint lets the body go: nothing of it is felt by its carrier but the effort.
        joint = FreeJoint(tuple(inertia.solve(armature, right)))
        return joint, None, joint.passed_on(effort)
    inverse = inertia.inverse(armature, scalars)
    joint = FreeJoint(tuple(dot(row, right) for row in inverse), armature, inverse)
    return joint, inertia.let_go(armature, inverse), joint.passed_on(effort)


def free_armature(
    tree: KinematicTree, body: Body, scalars: Scalars, damping_step: Scalar | None = None
) -> tuple[tuple[Scalar, ...], bool]:
    """Return what a free joint adds to the diagonal of its body's inertia.

    Returns:
        six numbers, and whether a carrier feels the body by them.
    """
    holds = False
    entries = []
    for velocity in (body.v_index + axis for axis in range(6)):
        own = armature(tree, velocity, scalars)
        damping = damping_in_time(tree, body, velocity, damping_step, scalars)
        if has_armature(tree, velocity) or damping is not None:
            holds = True
        entries.append(own if damping is None else own + damping)
    return tuple(entries), holds and body.parent >= 0


def _outward(
    tree: KinematicTree,
    placed: Sequence[Placement],
    joints: Sequence[Any],
    scalars: Scalars,
) -> list[Scalar]:
    """Find the joint accelerations from the base outwards (prefix sums eq. 8)."""
    qdd: list[Scalar] = scalars.table("qdd", tree.nv)
    change = scalars.table("change", len(tree.bodies))  # acceleration over that of the bias motion
    nothing = constants((0.0, 0.0, 0.0), scalars)
    for index in tree.outward():
        body, joint = tree.bodies[index], joints[index]
        scalars.begin("acceleration", index)
        v, w = (nothing, nothing) if body.parent < 0 else change[body.parent]
        v, w = placed[index].motion_to_body(v, w)
        rates, (v, w) = accelerate(body, joint, v, w)
        if body.joint_type.nv == 1:
            rates = (scalars.keep("qdd", index, rates[0]),)
        for axis, rate in enumerate(rates):
            qdd[body.v_index + axis] = rate
        change[index] = (scalars.keep("dv", index, v), scalars.keep("dw", index, w))
    return qdd


def accelerate(
    body: Body, joint: ArticulatedJoint | FreeJoint, v: Vector, w: Vector
) -> tuple[tuple[Scalar, ...], Motion]:
    """Return the acceleration of a joint, and that of its body.

    Args:
        body:  whose joint it is.
        joint: what is known of the joint.
        v:     linear acceleration of the carrier over that of the bias motion, in the body's frame.
        w:     angular one.
    """
    if isinstance(joint, FreeJoint):
        total = joint.rate
        if joint.armature:
            felt = [own * entry for own, entry in zip(joint.armature, (*v, *w), strict=True)]
            total = tuple(
                rate + dot(row, felt) for rate, row in zip(total, joint.inverse, strict=True)
            )
        return tuple(a - b for a, b in zip(total, (*v, *w), strict=True)), split(total)
    rate = joint.rate
    for gain, entry in zip(joint.gain, (*v, *w), strict=True):
        rate = rate - gain * entry
    return (rate,), body.joint_type.added((v, w), (rate,))


def _sum(a: Sequence[Scalar], b: Sequence[Scalar]) -> tuple[Scalar, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))
