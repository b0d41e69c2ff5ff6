"""Mass matrix by composite rigid bodies (CRBA), and forward dynamics from its factorization."""

from __future__ import annotations

from gridgen.dynamics.linear import Factorization, ldlt, solve_in_place
from gridgen.dynamics.mass import Mass, body_mass
from gridgen.dynamics.rnea import inverse_dynamics
from gridgen.dynamics.state import Numbers, State
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Wrench, dot


def mass_matrix(state: State) -> list[list[Scalar]]:
    """Return the joint-space inertia matrix, nv x nv, symmetric, zero between branches."""
    tree, scalars = state.tree, state.scalars
    composite, M = composite_masses(state), state.matrix("M")
    for index in tree.outward():
        body = tree.bodies[index]
        for k, (slide, spin) in enumerate(body.joint_type.subspace(scalars)):
            scalars.begin("column", index)
            wrench = composite[index].wrench(slide, spin)
            _fill_column(state, index, k, wrench, M)
    add_armature(state, M)
    return M


def add_armature(state: State, M: list[list[Scalar]]) -> None:
    """Add the armatures to the diagonal of the mass matrix."""
    tree = state.tree
    for j in tree.velocities.outward():
        if state.has("armature", j):
            M[j][j] = M[j][j] + state.own("armature", j)


def add_damping(state: State, M: list[list[Scalar]], step: Scalar | None) -> None:
    """Add ``step`` times the damping to a matrix's diagonal."""
    if step is None:
        return
    for j in state.tree.velocities.outward():
        if state.has("damping", j):
            M[j][j] = M[j][j] + step * state.own("damping", j)


def composite_masses(state: State) -> list[Mass]:
    """Return the mass of every subtree as one rigid body, in the frame of its root body."""
    tree, placed, scalars = state.tree, state.placed, state.scalars
    composite = scalars.table("mass", len(tree.bodies))
    for index in tree.outward():
        scalars.begin("composite", index)
        composite[index] = body_mass(state, index)
    for index in tree.inward():
        parent = tree.bodies[index].parent
        if parent >= 0:
            scalars.begin("composite", index)
            carried = composite[index].to_parent(placed[index])
            composite[parent] = (composite[parent] + carried).keep(parent, scalars)
    return composite


def _fill_column(
    state: State, index: int, axis: int, wrench: Wrench, M: list[list[Scalar]]
) -> None:
    """Propagate the wrench of one joint's unit acceleration to the root, projecting on each joint.

    The row and column of a mimic joint add to those of its leader, times the multiplier; the pair
    (leader, follower) counts twice on the diagonal.
    """
    tree, placed, scalars = state.tree, state.placed, state.scalars
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
    """Project a wrench on a body on one axis of its joint."""
    (slide, spin), (f, n) = body.joint_type.subspace(scalars)[axis], wrench
    return dot(slide, f) + dot(spin, n)


def enter_pair(
    tree: KinematicTree, M: list[list[Scalar]], row: int, column: int, entry: Scalar
) -> None:
    """Add an entry between two joints to a symmetric matrix of zeros, on both sides.

    A leader and its follower share one entry, which receives the value twice.
    """
    if tree.has_mimic:
        M[row][column] = M[row][column] + entry
        M[column][row] = M[column][row] + entry
    else:
        M[row][column] = M[column][row] = entry


def factorized(state: State, M: list[list[Scalar]] | None = None) -> Factorization:
    """Return the factors L^T D L of the mass matrix, or of ``M``, which is overwritten."""
    scalars = state.scalars
    M = mass_matrix(state) if M is None else M
    scalars.begin("solve", -1)
    return ldlt(M, state.tree.velocities, scalars.constant(1.0), scalars)


def forward_dynamics_crba(
    state: State, tau: Numbers, damping_step: Scalar | None = None
) -> list[Scalar]:
    """Return the joint accelerations M^-1 (tau - bias), with the factorization M = L^T D L.

    Arguments and result as in ``gridgen.dynamics.aba.forward_dynamics_aba``. Mimic joints are
    supported. Source: Yang, Wu, Pan (prefix sums) eq. 6.
    """
    tree, scalars = state.tree, state.scalars
    bias, M = inverse_dynamics(state), mass_matrix(state)
    add_damping(state, M, damping_step)
    scalars.begin("solve", -1)
    right = scalars.table("qdd", tree.nv)
    for j in tree.velocities.outward():
        right[j] = tau[j] - bias[j]
    factors = ldlt(M, tree.velocities, scalars.constant(1.0), scalars)
    return solve_in_place(factors, right)
