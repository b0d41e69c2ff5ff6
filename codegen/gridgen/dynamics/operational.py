"""Operational space: inertia and bias of a robot at a frame.

With the Jacobian J of the frame, Lambda = (J M^-1 J^T)^-1. The factorization M = L^T D L in the
order of the tree gives J M^-1 J^T = Y^T D^-1 Y with Y = L^-T J^T. Y is zero where branches of the
tree are independent.

Source: Khatib 1987.
"""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.dynamics.constraints import factorized, weighted_products
from gridgen.dynamics.frames import Rows, jacobian, jacobian_dot_qd
from gridgen.dynamics.kinematics import BaseMotion, placements
from gridgen.dynamics.linear import Factorization, finish_in_place, ldlt, ldlt_solve
from gridgen.dynamics.minverse import BranchSolver
from gridgen.dynamics.rnea import inverse_dynamics_at
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.branches import Branches
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import dot


class _Frame:
    """The factors of M and of J M^-1 J^T."""

    def __init__(
        self,
        tree: KinematicTree,
        q: Sequence[Scalar],
        frame: str,
        reference: str,
        scalars: Scalars,
        rows: int = 6,
    ) -> None:
        self.J = jacobian(tree, q, frame, reference, scalars)[:rows]
        self.placed = placements(tree, q, scalars)
        self.mass = factorized(tree, self.placed, scalars)
        self.Y, _, A = weighted_products([list(row) for row in self.J], self.mass, scalars)
        line = Branches(range(-1, rows - 1))
        self.inverse: Factorization = ldlt(A, line, scalars.constant(1.0), scalars)


def operational_space_inertia(
    tree: KinematicTree, q: Sequence[Scalar], frame: str, reference: str, scalars: Scalars
) -> Rows:
    """Return Lambda, 6 x 6: the wrench that a frame takes for its acceleration.

    Args:
        tree:      the robot.
        q:         joint positions, nq scalars [rad or m].
        frame:     the frame's name.
        reference: one of ``REFERENCES``.
        scalars:   the kind of number.
    """
    found = _Frame(tree, q, frame, reference, scalars)
    return BranchSolver(found.inverse, scalars).inverse()


def point_inertia(
    tree: KinematicTree, q: Sequence[Scalar], frame: str, reference: str, scalars: Scalars
) -> Rows:
    """Return Lambda of a frame's origin alone, 3 x 3; see ``operational_space_inertia``."""
    found = _Frame(tree, q, frame, reference, scalars, rows=3)
    return BranchSolver(found.inverse, scalars).inverse()


def dynamically_consistent_inverse(
    tree: KinematicTree, q: Sequence[Scalar], frame: str, reference: str, scalars: Scalars
) -> Rows:
    """Return M^-1 J^T Lambda, nv x 6; see ``operational_space_inertia``."""
    found = _Frame(tree, q, frame, reference, scalars)
    responses = [finish_in_place(found.mass, y) for y in found.Y]
    return [ldlt_solve(found.inverse, row) for row in zip(*responses, strict=True)]


def operational_space_bias(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    frame: str,
    reference: str,
    base: BaseMotion,
    scalars: Scalars,
) -> list[Scalar]:
    """Return Lambda (J M^-1 h - dJ/dt qd), six scalars, with the bias forces h.

    Arguments as in ``operational_space_inertia`` and ``bias_forces``.
    """
    found = _Frame(tree, q, frame, reference, scalars)
    h = inverse_dynamics_at(tree, found.placed, qd, None, base, scalars, None)
    drift = jacobian_dot_qd(tree, q, qd, frame, reference, scalars)
    scalars.begin("solve", -1)
    free = ldlt_solve(found.mass, h)
    right = [dot(row, free) - rest for row, rest in zip(found.J, drift, strict=True)]
    return ldlt_solve(found.inverse, right)
