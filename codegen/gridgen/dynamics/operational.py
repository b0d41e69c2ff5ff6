"""Operational space: inertia and bias of a robot at a frame.

With the Jacobian J of the frame, Lambda = (J M^-1 J^T)^-1. The factorization M = L^T D L in the
order of the tree gives J M^-1 J^T = Y^T D^-1 Y with Y = L^-T J^T. Y is zero where branches of the
tree are independent.

Source: Khatib 1987.
"""

from __future__ import annotations

from gridgen.dynamics.constraints import weighted_products
from gridgen.dynamics.crba import factorized
from gridgen.dynamics.frames import Rows, jacobian, jacobian_dot_qd
from gridgen.dynamics.linear import BranchSolver, finish_in_place, ldlt, ldlt_solve
from gridgen.dynamics.rnea import inverse_dynamics
from gridgen.dynamics.state import State
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import dot


class _Frame:
    """The factors of M and of J M^-1 J^T."""

    def __init__(self, state: State, frame: str, reference: str, rows: int = 6) -> None:
        scalars = state.scalars
        self.J = jacobian(state, frame, reference)[:rows]
        self.mass = factorized(state)
        self.Y, _, A = weighted_products([list(row) for row in self.J], self.mass, scalars)
        self.inverse = ldlt(A, one=scalars.constant(1.0), scalars=scalars)


def operational_space_inertia(state: State, frame: str, reference: str) -> Rows:
    """Return Lambda, 6 x 6: the wrench that a frame takes for its acceleration.

    Args:
        frame:     the frame's name.
        reference: one of ``REFERENCES``.
    """
    return BranchSolver(_Frame(state, frame, reference).inverse, state.scalars).inverse()


def point_inertia(state: State, frame: str, reference: str) -> Rows:
    """Return Lambda of a frame's origin alone, 3 x 3; see ``operational_space_inertia``."""
    return BranchSolver(_Frame(state, frame, reference, rows=3).inverse, state.scalars).inverse()


def dynamically_consistent_inverse(state: State, frame: str, reference: str) -> Rows:
    """Return M^-1 J^T Lambda, nv x 6; see ``operational_space_inertia``."""
    found = _Frame(state, frame, reference)
    responses = [finish_in_place(found.mass, y) for y in found.Y]
    return [ldlt_solve(found.inverse, row) for row in zip(*responses, strict=True)]


def operational_space_bias(state: State, frame: str, reference: str) -> list[Scalar]:
    """Return Lambda (J M^-1 h - dJ/dt qd), six scalars, with the bias forces h.

    Arguments as in ``operational_space_inertia`` and ``bias_forces``.
    """
    state = state.on_fixed_base.without("f_ext")
    found = _Frame(state, frame, reference)
    h, drift = inverse_dynamics(state), jacobian_dot_qd(state, frame, reference)
    state.scalars.begin("solve", -1)
    free = ldlt_solve(found.mass, h)
    right = [dot(row, free) - rest for row, rest in zip(found.J, drift, strict=True)]
    return ldlt_solve(found.inverse, right)
