"""Two other algorithms of forward dynamics with constraints, to count and to compare.

Both eliminate joints from articulated-body inertias; gridgen factorizes the mass matrix instead.
``recursive_delassus`` propagates the wrench of each row towards the base, which gives the Delassus
matrix in O(n + m^2 d) (PV-OSIMr of Sathya and Carpentier). ``constrained_aba`` adds the constraints
as stiff inertias to the bodies and needs no matrix of them (proxPV); a loop couples two bodies
until one of them is eliminated. Both take the arguments of ``constrained_forward_dynamics``, for
robots with joints of one velocity, without mimic joints, and at most a free root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gridgen.check import random_states
from gridgen.dynamics.aba import ArticulatedInertia, rigid_inertia, rigid_inertias
from gridgen.dynamics.constraints import ITERATIONS, Constraints, Forces, Rows, turning_rows
from gridgen.dynamics.frames import in_canonical
from gridgen.dynamics.kinematics import all_motions, each
from gridgen.dynamics.linear import Factorization, begin_in_place, finish_in_place, ldlt
from gridgen.dynamics.mass import Mass
from gridgen.dynamics.reference import evaluate_reference
from gridgen.dynamics.rnea import add_joint_dynamics, body_forces
from gridgen.dynamics.state import Numbers, State
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    Matrix,
    Motion,
    Vector,
    Wrench,
    add,
    apply,
    cross,
    dot,
    neg,
    scale,
    split,
    sub,
    transpose,
)

_PAIRS = [(i, j) for i in range(3) for j in range(i, 3)]


@dataclass(frozen=True)
class End:
    """A body that a constraint holds: axes of the rows in the body's, its point, and a sign."""

    body: int
    R: Matrix
    arm: Vector
    sign: float

    def wrench(self, force: Numbers) -> Wrench:
        """Return the wrench on the body of forces in the rows."""
        f = apply(self.R, tuple(force[:3]))  # type: ignore[arg-type]
        n = cross(self.arm, f)
        if len(force) == 6:
            n = add(n, apply(self.R, tuple(force[3:])))  # type: ignore[arg-type]
        return (f, n) if self.sign > 0.0 else (neg(f), neg(n))

    def rates(self, motion: Motion, rows: int) -> list[Scalar]:
        """Return the rows' share of a motion of the body."""
        back, (v, w) = transpose(self.R), motion
        own = [*apply(back, add(v, cross(w, self.arm))), *(apply(back, w) if rows == 6 else ())]
        return own if self.sign > 0.0 else [-entry for entry in own]


class _Joints:
    """What both algorithms begin with, and what they do at a joint."""

    def __init__(self, state: State, tau: Numbers) -> None:
        self.state, self.tree, self.scalars = state, state.tree, state.scalars
        self.zero, self.one = self.scalars.constant(0.0), self.scalars.constant(1.0)
        motions = all_motions(state)
        self.placed = state.placed
        self.bias: list[Any] = body_forces(state, each(state.tree, motions))
        losses = self.scalars.table("loss", self.tree.nv, self.zero)
        losses = add_joint_dynamics(state, losses)
        self.effort = [a - b for a, b in zip(tau, losses, strict=True)]
        self.constraints = Constraints(state)
        self.rest = self.constraints.rest(motions)
        self.ends = [self._ends(held) for held in self.constraints.held]
        self.inertias = rigid_inertias(state)

    def _ends(self, held: Any) -> list[End]:
        found = []
        frames = (held.constraint.link, held.constraint.to)
        for frame, pose, sign in zip(frames, held.poses, (1.0, -1.0), strict=True):
            if frame.body >= 0:
                R = transpose(pose.R)
                at_link = in_canonical(self.constraints.state, frame).r
                arm = at_link if sign > 0.0 else apply(R, sub(held.link.p, pose.p))
                found.append(End(frame.body, R, arm, sign))
        return found

    def factors_of_free(self, inertia: ArticulatedInertia) -> Factorization:
        """Return the factors of a free body's inertia."""
        rows = [list(inertia.column(axis)) for axis in range(6)]
        return ldlt(rows, one=self.one)

    def joint(self, index: int) -> tuple[list[Scalar], list[Scalar], Scalar, int | None]:
        """Return U, the gain U / D, 1 / D and the axis without armature of a joint."""
        body, inertia = self.tree.bodies[index], self.inertias[index]
        U = body.joint_type.combined(inertia.column, 0)
        (felt,) = body.joint_type.projected(split(U))
        own = self.tree.armature[body.v_index]
        inverse = self.one / (felt + self.scalars.constant(own))
        gain = [entry * inverse for entry in U]
        loose = None if own else body.joint_type.axes[0]
        if loose is not None:
            gain[loose] = self.one
        return U, gain, inverse, loose

    def across(
        self, index: int, wrench: Wrench, gain: Any, loose: Any, u: Scalar, effort: Scalar
    ) -> Wrench:
        """Return the wrench on the parent of one on a body, with the joint's share u."""
        whole = [a + b * u for a, b in zip((*wrench[0], *wrench[1]), gain, strict=True)]
        if loose is not None:
            whole[loose] = effort
        return self.placed[index].force_to_parent(*split(whole))

    def added(self, sum_of: Any, wrench: Wrench) -> Wrench:
        """Return a sum of wrenches; None is nothing."""
        return wrench if sum_of is None else (add(sum_of[0], wrench[0]), add(sum_of[1], wrench[1]))


def recursive_delassus(state: State, tau: Numbers) -> tuple[list[Scalar], list[Scalar]]:
    """Return accelerations and forces; the Delassus matrix by propagated wrenches."""
    work = _Joints(state, tau)
    tree, scalars = state.tree, state.scalars
    zero, size = work.zero, len(work.rest)
    held: list[dict[int, Wrench]] = [{} for _ in tree.bodies]
    start = 0
    for ends, one in zip(work.ends, work.constraints.held, strict=True):
        for k in range(len(one.rows)):
            unit = [work.one if k == j else zero for j in range(len(one.rows))]
            for end in ends:
                held[end.body][start + k] = end.wrench(unit)
        start += len(one.rows)
    Y = [[zero] * tree.nv for _ in range(size)]
    inverse, z = [zero] * tree.nv, [zero] * tree.nv
    joints: list[Any] = [None] * len(tree.bodies)
    for index in reversed(range(len(tree.bodies))):
        scalars.begin("articulated", index)
        body, bias = tree.bodies[index], work.bias[index]
        v = body.v_index
        if body.joint_type.is_free:
            joints[index] = factors = work.factors_of_free(work.inertias[index])
            wrench = zip(work.effort[v : v + 6], (*bias[0], *bias[1]), strict=True)
            z[v : v + 6] = begin_in_place(factors, [a - b for a, b in wrench])
            inverse[v : v + 6] = factors.inverse
            for row, (f, n) in held[index].items():
                Y[row][v : v + 6] = begin_in_place(factors, [*f, *n])
            continue
        U, gain, inverse[v], loose = work.joint(index)
        joints[index] = gain
        effort, project = work.effort[v], body.joint_type.projected
        z[v] = effort - project(bias)[0]
        for row, wrench in held[index].items():
            (Y[row][v],) = project(wrench)
        if body.parent < 0:
            continue
        inertia = work.inertias[index].across_joint(U, gain, zero, loose)
        work.inertias[body.parent] += inertia.to_parent(work.placed[index])
        up = work.across(index, bias, gain, loose, z[v], effort)
        work.bias[body.parent] = work.added(work.bias[body.parent], up)
        for row, wrench in held[index].items():
            up = work.across(index, wrench, gain, loose, -Y[row][v], zero)
            held[body.parent][row] = work.added(held[body.parent].get(row), up)
    scaled = [[a * b for a, b in zip(y, inverse, strict=True)] for y in Y]
    A = [[zero] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            A[i][j] = A[j][i] = dot(scaled[i], Y[j])
    b = [-(g + dot(y, z)) for g, y in zip(work.rest, scaled, strict=True)]
    f = Forces(work.constraints, A).solve(b)
    for y, force in zip(Y, f, strict=True):
        z = [a + force * entry for a, entry in zip(z, y, strict=True)]
    qdd, change = [zero] * tree.nv, [((zero,) * 3, (zero,) * 3)] * len(tree.bodies)
    for index, body in enumerate(tree.bodies):
        scalars.begin("acceleration", index)
        v = body.v_index
        if body.joint_type.is_free:
            qdd[v : v + 6] = finish_in_place(joints[index], z[v : v + 6])
            change[index] = split(qdd[v : v + 6])
            continue
        above = change[body.parent] if body.parent >= 0 else ((zero,) * 3, (zero,) * 3)
        moved = work.placed[index].motion_to_body(*above)
        qdd[v] = z[v] * inverse[v] - dot(joints[index], (*moved[0], *moved[1]))
        change[index] = body.joint_type.added(moved, (qdd[v],))
    return qdd, work.constraints.turned(f)


class _Coupled:
    """Inertias of bodies, and the 6 x 6 blocks by which loops couple two of them."""

    def __init__(self, inertias: list[ArticulatedInertia]) -> None:
        self.inertias = inertias
        self._blocks: dict[tuple[int, int], Rows] = {}

    def add(self, i: int, j: int, block: Rows) -> None:
        """Add a block with rows of body i and columns of body j, and its transpose."""
        if i == j:
            block = [[block[a][b] + block[b][a] for b in range(6)] for a in range(6)]
            M = tuple(block[a][b] for a, b in _PAIRS)
            H = tuple(tuple(row[3:]) for row in block[:3])
            moments = tuple(block[a + 3][b + 3] for a, b in _PAIRS)
            self.inertias[i] += ArticulatedInertia(M, H, moments)  # type: ignore[arg-type]
            return
        if i < j:
            i, j, block = j, i, [list(column) for column in zip(*block, strict=True)]
        old = self._blocks.get((i, j))
        if old is not None:
            block = [
                [a + b for a, b in zip(*rows, strict=True)] for rows in zip(old, block, strict=True)
            ]
        self._blocks[i, j] = block

    def taken(self, index: int) -> dict[int, Rows]:
        """Remove and return the blocks with rows of a body, by the other body."""
        found = {}
        for i, j in [pair for pair in self._blocks if index in pair]:
            block = self._blocks.pop((i, j))
            rows = block if i == index else [list(column) for column in zip(*block, strict=True)]
            found[j if i == index else i] = rows
        return found


def constrained_aba(state: State, tau: Numbers) -> tuple[list[Scalar], list[Scalar]]:
    """Return accelerations and forces; the scales of ``proximal`` are constants of the robot."""
    work = _Joints(state, tau)
    tree, scalars = state.tree, state.scalars
    zero, coupled = work.zero, _Coupled(work.inertias)
    rows = [len(held.rows) for held in work.constraints.held]
    starts = [sum(rows[:number]) for number in range(len(rows))]
    scalars.begin("stiff", -1)
    given = work.constraints.given
    mu = [one * scale for one, scale in zip(given("proximal"), _scales(tree), strict=True)]
    numbers = zip(given("active"), given("compliance"), mu, strict=True)
    stiff = [active / (compliance + own) for active, compliance, own in numbers]
    for ends, at, count in zip(work.ends, starts, rows, strict=True):
        _stiffen(coupled, ends, stiff[at : at + count], scalars)
    joints: list[Any] = [None] * len(tree.bodies)
    for index in reversed(range(len(tree.bodies))):
        scalars.begin("articulated", index)
        body = tree.bodies[index]
        others = coupled.taken(index)
        if body.joint_type.is_free:
            assert not others, "a free joint is eliminated last"
            joints[index] = work.factors_of_free(work.inertias[index])
            continue
        joints[index] = _eliminated(work, coupled, index, others)
    f, drive = [zero] * len(work.rest), [-g for g in work.rest]
    qdd = [zero] * tree.nv
    for iteration in range(ITERATIONS):
        bias: list[Any] = work.bias if iteration == 0 else [None] * len(tree.bodies)
        effort = work.effort if iteration == 0 else [zero] * tree.nv
        pushed = [share * entry for share, entry in zip(stiff, drive, strict=True)]
        for ends, at, count in zip(work.ends, starts, rows, strict=True):
            for end in ends:
                f_end, n_end = end.wrench(pushed[at : at + count])
                bias[end.body] = work.added(bias[end.body], (neg(f_end), neg(n_end)))
        changes = _passes(work, joints, bias, effort, qdd)
        new = list(pushed)
        for ends, at, count in zip(work.ends, starts, rows, strict=True):
            for end in ends:
                for k, rate in enumerate(end.rates(changes[end.body], count)):
                    new[at + k] = new[at + k] - stiff[at + k] * rate
        f = [a + b for a, b in zip(f, new, strict=True)]
        drive = [share * entry for share, entry in zip(mu, new, strict=True)]
    return qdd, work.constraints.turned(f)


@lru_cache
def _scales(tree: KinematicTree) -> list[float]:
    """Return for each row the mean diagonal entry of the Delassus matrix, of the same unit."""
    (A,) = evaluate_reference(tree, "delassus", random_states(tree, 20, np.random.default_rng(0)))
    turns, diagonal = np.array(turning_rows(tree)), np.einsum("bii->i", A) / len(A)
    return [float(diagonal[turns == unit].mean()) for unit in turns]


def _stiffen(
    coupled: _Coupled, ends: Sequence[End], stiffness: Sequence[Scalar], scalars: Scalars
) -> None:
    """Add K^T K times a stiffness, the inertia of a point mass and of a ball at its place."""
    rows, stiff = len(stiffness), stiffness[0]
    for end in ends:
        (x, y, z), h = end.arm, scale(stiff, end.arm)
        xx, yy, zz = x * h[0], y * h[1], z * h[2]
        moments = [yy + zz, -(x * h[1]), -(x * h[2]), xx + zz, -(y * h[2]), xx + yy]
        if rows == 6:
            moments = [m + stiffness[3] if k in (0, 3, 5) else m for k, m in enumerate(moments)]
        coupled.inertias[end.body] += rigid_inertia(Mass(stiff, h, tuple(moments)), scalars)  # type: ignore[arg-type]
    if len(ends) == 2:
        zero = scalars.constant(0.0)
        units = [[stiffness[j] if k == j else zero for k in range(rows)] for j in range(rows)]
        ones = [[scalars.constant(float(k == j)) for k in range(rows)] for j in range(rows)]
        left = [[*f, *n] for f, n in (ends[0].wrench(unit) for unit in units)]
        right = [[*f, *n] for f, n in (ends[1].wrench(one) for one in ones)]
        block = [[dot(a, b) for b in zip(*right, strict=True)] for a in zip(*left, strict=True)]
        coupled.add(ends[0].body, ends[1].body, block)


def _eliminated(work: _Joints, coupled: _Coupled, index: int, others: dict[int, Rows]) -> Any:
    """Eliminate a joint; return its gain, 1 / D, loose axis and the gains of coupled bodies."""
    body, zero = work.tree.bodies[index], work.zero
    U, gain, inverse, loose = work.joint(index)
    felt = {
        other: [body.joint_type.projected(split(column))[0] for column in zip(*block, strict=True)]
        for other, block in others.items()
    }
    gains = {other: [entry * inverse for entry in row] for other, row in felt.items()}
    if body.parent >= 0:
        rest = work.inertias[index].across_joint(U, gain, zero, loose)
        coupled.inertias[body.parent] += rest.to_parent(work.placed[index])
        for other, block in others.items():
            left = [
                [zero if a == loose else block[a][b] - U[a] * gains[other][b] for a in range(6)]
                for b in range(6)
            ]
            columns = [work.placed[index].force_to_parent(*split(column)) for column in left]
            moved = [[*f, *n] for f, n in columns]
            coupled.add(body.parent, other, [list(row) for row in zip(*moved, strict=True)])
    for number, (one, row) in enumerate(felt.items()):
        taken = ArticulatedInertia(
            tuple(-(row[a] * gains[one][b]) for a, b in _PAIRS),  # type: ignore[arg-type]
            tuple(tuple(-(row[a] * gains[one][b + 3]) for b in range(3)) for a in range(3)),  # type: ignore[arg-type]
            tuple(-(row[a + 3] * gains[one][b + 3]) for a, b in _PAIRS),  # type: ignore[arg-type]
        )
        coupled.inertias[one] += taken
        for two in list(felt)[:number]:
            coupled.add(one, two, [[-(a * b) for b in gains[two]] for a in row])
    return gain, inverse, loose, gains


def _passes(
    work: _Joints, joints: Sequence[Any], bias: list[Any], effort: list[Scalar], qdd: list[Scalar]
) -> list[Motion]:
    """Add to the accelerations what wrenches cause; return the changes of the bodies' motions."""
    tree, scalars, zero = work.tree, work.scalars, work.zero
    shares: list[Any] = [None] * len(tree.bodies)
    for index in reversed(range(len(tree.bodies))):
        scalars.begin("articulated", index)
        body, wrench = tree.bodies[index], bias[index]
        v = body.v_index
        if wrench is None:
            continue
        if body.joint_type.is_free:
            pairs = zip(effort[v : v + 6], (*wrench[0], *wrench[1]), strict=True)
            shares[index] = begin_in_place(joints[index], [a - b for a, b in pairs])
            continue
        gain, _, loose, gains = joints[index]
        shares[index] = u = effort[v] - body.joint_type.projected(wrench)[0]
        for other, own in gains.items():
            bias[other] = work.added(bias[other], split([entry * u for entry in own]))
        if body.parent >= 0:
            up = work.across(index, wrench, gain, loose, u, effort[v])
            bias[body.parent] = work.added(bias[body.parent], up)
    still = ((zero,) * 3, (zero,) * 3)
    changes: list[Motion] = [still] * len(tree.bodies)
    for index, body in enumerate(tree.bodies):
        scalars.begin("acceleration", index)
        v, u = body.v_index, shares[index]
        if body.joint_type.is_free:
            rates = finish_in_place(joints[index], u)
            changes[index] = split(rates)
        else:
            gain, inverse, _, gains = joints[index]
            above = changes[body.parent] if body.parent >= 0 else still
            moved = work.placed[index].motion_to_body(*above)
            rate = (zero if u is None else u * inverse) - dot(gain, (*moved[0], *moved[1]))
            for other, own in gains.items():
                rate = rate - dot(own, (*changes[other][0], *changes[other][1]))
            rates = [rate]
            changes[index] = body.joint_type.added(moved, (rate,))
        qdd[v : v + body.nv] = [a + b for a, b in zip(qdd[v : v + body.nv], rates, strict=True)]
    return changes
