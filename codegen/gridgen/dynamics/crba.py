"""Mass matrix by composite rigid bodies, and forward dynamics by its factorisation."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.kinematics import BaseMotion, constants, placements
from gridgen.dynamics.linear import ldlt, ldlt_solve
from gridgen.dynamics.mass import Mass, body_mass
from gridgen.dynamics.rnea import bias_forces
from gridgen.dynamics.spatial import Placement, Vector, dot
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.joints import VELOCITIES, joint_form
from gridgen.symbolic.scalars import Scalar, Scalars


def mass_matrix(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> list[list[Scalar]]:
    """Return the joint-space inertia matrix, nv x nv, symmetric, zero between branches.

    Args:
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        scalars: the kind of number.
    """
    placed = placements(tree, q, scalars)
    composite = composite_masses(tree, placed, scalars)
    zero = scalars.constant(0.0)
    M = [[zero] * tree.nv for _ in range(tree.nv)]
    for index, body in enumerate(tree.bodies):
        for k, (slide, spin) in enumerate(_subspace(body)):
            scalars.begin("column", index)
            wrench = composite[index].wrench(constants(slide, scalars), constants(spin, scalars))
            _fill_column(tree, placed, index, body.v_index + k, wrench, M, scalars)
    for j, armature in enumerate(tree.armature):
        M[j][j] = M[j][j] + scalars.constant(armature)
    return M


def composite_masses(
    tree: KinematicTree, placed: Sequence[Placement], scalars: Scalars
) -> list[Mass]:
    """Return the mass of every subtree, whose joints do not move, about its body's frame."""
    composite = [body_mass(body, scalars) for body in tree.bodies]
    for index in reversed(range(len(tree.bodies))):
        parent = tree.bodies[index].parent
        if parent >= 0:
            scalars.begin("composite", index)
            carried = composite[index].to_parent(placed[index])
            composite[parent] = (composite[parent] + carried).keep(parent, scalars)
    return composite


def _subspace(body: Body) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(column[:3], column[3:]) for column in joint_form(body.kind).subspace]


def _fill_column(
    tree: KinematicTree,
    placed: Sequence[Placement],
    index: int,
    column: int,
    wrench: tuple[Vector, Vector],
    M: list[list[Scalar]],
    scalars: Scalars,
) -> None:
    """Carry the wrench of one joint's unit acceleration to the root; each joint reads its share.

    A follower's row and column fall on its leader's, with its multiplier; the pair (leader,
    follower) then counts twice on the diagonal.
    """
    at, (f, n) = index, wrench
    while True:
        body = tree.bodies[at]
        for row, (slide, spin) in enumerate(_subspace(body), start=body.v_index):
            if at == index and row > column:
                continue
            entry = dot(constants(slide, scalars), f) + dot(constants(spin, scalars), n)
            factor = body.multiplier * tree.bodies[index].multiplier
            if factor != 1.0:
                entry = scalars.constant(factor) * entry
            if row != column:
                M[row][column] = M[row][column] + entry
                M[column][row] = M[row][column]
            else:
                M[row][row] = M[row][row] + (entry if at == index else 2.0 * entry)
        if body.parent < 0:
            return
        f, n = placed[at].force_to_parent(f, n)
        at = body.parent
        scalars.begin("column", index)


def forward_dynamics_crba(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
) -> list[Scalar]:
    """Return the joint accelerations M^-1 (tau - bias) by M = L^T D L.

    Arguments and result as in ``gridgen.dynamics.aba.forward_dynamics_aba``; mimic joints allowed.

    Source: Yang, Wu, Pan (prefix sums) eq. 6.
    """
    bias = bias_forces(tree, q, qd, base, scalars, f_ext)
    M = mass_matrix(tree, q, scalars)
    scalars.begin("solve", -1)
    right = [effort - loss for effort, loss in zip(tau, bias, strict=True)]
    factors = ldlt(M, velocity_parents(tree), scalars.constant(1.0))
    return ldlt_solve(factors, right)


def velocity_parents(tree: KinematicTree) -> list[int | None]:
    """Return, for every velocity, the velocity before it on the way to the root, or ``None``.

    With mimic joints the branches of a tree couple, so every velocity follows the one before.
    """
    if tree.has_mimic:
        return [None, *range(tree.nv - 1)]
    parents: list[int | None] = [None] * tree.nv
    for body in tree.bodies:
        if body.parent >= 0:
            above = tree.bodies[body.parent]
            parents[body.v_index] = above.v_index + VELOCITIES[above.kind] - 1
        for k in range(1, VELOCITIES[body.kind]):
            parents[body.v_index + k] = body.v_index + k - 1
    return parents
