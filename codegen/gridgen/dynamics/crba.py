"""Mass matrix by composite rigid bodies, and forward dynamics by its factorization."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.kinematics import BaseMotion, placements
from gridgen.dynamics.linear import ldlt, solve_in_place
from gridgen.dynamics.mass import Mass, body_mass
from gridgen.dynamics.parameters import armature, has_armature, own_damping
from gridgen.dynamics.rnea import inverse_dynamics_at
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Placement, Wrench, dot


def mass_matrix(tree: KinematicTree, q: Sequence[Scalar], scalars: Scalars) -> list[list[Scalar]]:
    """Return the joint-space inertia matrix, nv x nv, symmetric, zero between branches."""
    return mass_matrix_at(tree, placements(tree, q, scalars), scalars)


def mass_matrix_at(
    tree: KinematicTree, placed: Sequence[Placement], scalars: Scalars
) -> list[list[Scalar]]:
    """Return the joint-space inertia matrix where the placements of the bodies are known."""
    composite = composite_masses(tree, placed, scalars)
    M = scalars.matrix("M", tree.nv, tree.nv, zeros=not tree.couples_all)
    for index in tree.outward():
        body = tree.bodies[index]
        for k, (slide, spin) in enumerate(body.joint_type.subspace(scalars)):
            scalars.begin("column", index)
            wrench = composite[index].wrench(slide, spin)
            _fill_column(tree, placed, index, k, wrench, M, scalars)
    add_armature(tree, M, scalars)
    return M


def add_armature(tree: KinematicTree, M: list[list[Scalar]], scalars: Scalars) -> None:
    """Add the armatures to the diagonal of a mass matrix."""
    for j in tree.velocities.outward():
        if has_armature(tree, j):
            M[j][j] = M[j][j] + armature(tree, j, scalars)


def add_damping(tree: KinematicTree, M: list[list[Scalar]], step: Scalar, scalars: Scalars) -> None:
    """Add ``step`` times the damping to the diagonal of a matrix, followers' to leaders'."""
    for index in tree.outward():
        body = tree.bodies[index]
        if damping := own_damping(tree, body):
            factor = body.multiplier * body.multiplier if body.mimics else 1.0
            j = body.v_index
            M[j][j] = M[j][j] + step * scalars.constant(factor * damping)
    if "damping" in tree.given:
        for j in tree.velocities.outward():
            M[j][j] = M[j][j] + step * tree.given["damping"][j]


def composite_masses(
    tree: KinematicTree, placed: Sequence[Placement], scalars: Scalars
) -> list[Mass]:
    """Return the mass of every subtree, whose joints do not move, about its body's frame."""
    composite = scalars.table("mass", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("composite", index)
        composite[index] = body_mass(tree, index, scalars)
    for index in tree.inward():
        parent = tree.bodies[index].parent
        if parent >= 0:
            scalars.begin("composite", index)
            carried = composite[index].to_parent(placed[index])
            composite[parent] = (composite[parent] + carried).keep(parent, scalars)
    return composite


def _fill_column(
    tree: KinematicTree,
    placed: Sequence[Placement],
    index: int,
    axis: int,
    wrench: Wrench,
    M: list[list[Scalar]],
    scalars: Scalars,
) -> None:
    """Carry the wrench of one joint's unit acceleration to the root; each joint reads its share.

    A follower's row and column fall on its leader's, with its multiplier; the pair (leader,
    follower) then counts twice on the diagonal.
    """
    tip = tree.bodies[index]
    column = tip.v_index + axis
    for k in range(axis + 1):
        entry, row = _share(tip, k, wrench, scalars), tip.v_index + k
        if tip.mimics:
            entry = scalars.constant(tip.multiplier**2) * entry
        if k == axis:
            M[row][row] = M[row][row] + entry if tree.has_mimic else entry
        else:
            enter_pair(tree, M, row, column, entry)
    carried = scalars.carry("wrench", wrench)
    for below in tree.climb(index):
        scalars.begin("column", index)
        carried.value = wrench = placed[below].force_to_parent(*carried.value)
        body = tree.bodies[tree.bodies[below].parent]
        for k in range(body.nv):
            entry = _share(body, k, wrench, scalars)
            if body.mimics or tip.mimics:
                factor = scalars.constant(body.multiplier) * scalars.constant(tip.multiplier)
                entry = factor * entry
            enter_pair(tree, M, body.v_index + k, column, entry)


def _share(body: Body, axis: int, wrench: Wrench, scalars: Scalars) -> Scalar:
    """Return what an axis of a joint takes of a wrench on its body."""
    (slide, spin), (f, n) = body.joint_type.subspace(scalars)[axis], wrench
    return dot(slide, f) + dot(spin, n)


def enter_pair(
    tree: KinematicTree, M: list[list[Scalar]], row: int, column: int, entry: Scalar
) -> None:
    """Add an entry between different joints to a symmetric matrix of zeros, on both sides.

    Those of a leader and its follower are one place, which takes it twice.
    """
    if tree.has_mimic:
        M[row][column] = M[row][column] + entry
        M[column][row] = M[column][row] + entry
    else:
        M[row][column] = M[column][row] = entry


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

    Result as in ``gridgen.dynamics.aba.forward_dynamics_aba``; mimic joints are allowed.

    Source: Yang, Wu, Pan (prefix sums) eq. 6.
    """
    return accelerations_crba(tree, q, qd, tau, base, scalars, f_ext)


def accelerations_crba(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Sequence[Scalar] | None = None,
    damping_step: Scalar | None = None,
) -> list[Scalar]:
    """Return the joint accelerations; as ``gridgen.dynamics.aba.accelerations_aba``."""
    placed = placements(tree, q, scalars)
    bias = inverse_dynamics_at(tree, placed, qd, None, base, scalars, f_ext)
    M = mass_matrix_at(tree, placed, scalars)
    if damping_step is not None:
        add_damping(tree, M, damping_step, scalars)
    scalars.begin("solve", -1)
    right = scalars.table("qdd", tree.nv)
    for j in tree.velocities.outward():
        right[j] = tau[j] - bias[j]
    factors = ldlt(M, tree.velocities, scalars.constant(1.0), scalars)
    return solve_in_place(factors, right)
