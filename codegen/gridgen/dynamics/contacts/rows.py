"""Rows of soft constraints: their velocities, forces and stiffness at given accelerations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.dynamics.constraints import Rows
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Matrix, dot

#: A square that is zero for float32 too.
TINY = 1e-30


@dataclass
class Row:
    """A constraint on a joint or a tendon: a limit, or dry friction.

    Attributes:
        velocities: indices of the joint's velocities.
        factors:  of the velocities; 1 or -1 if there is one.
        offset:   -aref.
        D:        inverse regularizer; zero where the constraint does not act.
        loss:     most force of dry friction; ``None`` for a limit.
        R:        regularizer of dry friction.
        joint:    name of the joint, of a limit.
        distance: from a limit less its margin; the limit acts where it is negative.
        is_scaled: whether a single factor may be another one than 1 and -1.
    """

    velocities: Sequence[int]
    factors: Sequence[Scalar]
    offset: Scalar
    D: Scalar
    loss: Scalar | None = None
    R: float = 0.0
    joint: str = ""
    distance: Scalar = 0.0
    is_scaled: bool = False

    @property
    def offsets(self) -> list[Scalar]:
        """-aref of each row."""
        return [self.offset]

    def rates(self, v: Sequence[Scalar]) -> list[Scalar]:
        """Return J v."""
        return [dot(self.factors, [v[j] for j in self.velocities])]

    def add_torques(self, total: list[Scalar], forces: Sequence[Scalar]) -> None:
        """Add J^T f to joint torques."""
        for j, factor in zip(self.velocities, self.factors, strict=True):
            total[j] = total[j] + factor * forces[0]

    def add_stiffness(self, H: Rows, stiffness: Rows) -> None:
        """Add J^T C J to the lower triangle of a matrix."""
        if len(self.velocities) == 1 and not self.is_scaled:
            (j,) = self.velocities
            H[j][j] = H[j][j] + stiffness[0][0]
            return
        for at, i in enumerate(self.velocities):
            pulled = stiffness[0][0] * self.factors[at]
            for j, factor in zip(self.velocities[: at + 1], self.factors, strict=False):
                H[i][j] = H[i][j] + pulled * factor

    def response(self, residuals: Sequence[Scalar], scalars: Scalars) -> tuple[list[Scalar], Rows]:
        """Return the forces and the stiffness C at residuals J a - aref."""
        (residual,), zero = residuals, scalars.constant(0.0)
        if self.loss is None:
            D = scalars.select(residual, self.D, zero)
            return [-(D * residual)], [[D]]
        most = self.loss * self.R
        force, D = -(self.D * residual), self.D
        for test, bound in ((residual + most, self.loss), (most - residual, -self.loss)):
            force = scalars.select(test, bound, force)
            D = scalars.select(test, zero, D)
        return [force], [[D]]


@dataclass
class Block:
    """Rows that act together: of an equality constraint, or as a subclass has it.

    Attributes:
        rows:    of the Jacobian of a velocity of a point, or of an angular velocity too.
        columns: the velocities that move it, parents first.
        axes:    rows that turn these velocities to those of the constraint.
        offsets: -aref of each row.
        D:       inverse regularizers; zero where the constraint does not act.
    """

    rows: Rows
    columns: Sequence[int]
    axes: Rows
    offsets: list[Scalar]
    D: list[Scalar]

    def rates(self, v: Sequence[Scalar]) -> list[Scalar]:
        """Return J v."""
        moving = [v[j] for j in self.columns]
        here = [dot([row[j] for j in self.columns], moving) for row in self.rows]
        return [dot(axis, here) for axis in self.axes]

    def add_torques(self, total: list[Scalar], forces: Sequence[Scalar]) -> None:
        """Add J^T f to joint torques."""
        wrench = [dot(column, forces) for column in zip(*self.axes, strict=True)]
        for j in self.columns:
            total[j] = total[j] + dot([row[j] for row in self.rows], wrench)

    def add_stiffness(self, H: Rows, stiffness: Rows) -> None:
        """Add J^T C J to the lower triangle of a matrix."""
        axes = list(zip(*self.axes, strict=True))
        CF = list(zip(*([dot(c, column) for column in axes] for c in stiffness), strict=True))
        W = [[dot(a, b) for b in CF] for a in axes]
        for at, j in enumerate(self.columns):
            own = [row[j] for row in self.rows]
            pulled = [dot(w, own) for w in W]
            for i in self.columns[at:]:
                H[i][j] = H[i][j] + dot([row[i] for row in self.rows], pulled)

    def response(self, residual: Sequence[Scalar], scalars: Scalars) -> tuple[list[Scalar], Rows]:
        """Return the forces and the stiffness C at residuals."""
        C = [[scalars.constant(0.0)] * len(residual) for _ in residual]
        for k, D in enumerate(self.D):
            C[k][k] = D
        return [-(D * r) for D, r in zip(self.D, residual, strict=True)], C


@dataclass(frozen=True)
class Cone:
    """How a point of a contact yields, in axes of a normal and its tangents; the normal is first.

    Attributes:
        D:        inverse regularizer of the normal, and of the others or of the pyramid's edges.
        friction: coefficients of the tangential rows.
        mu:       of the regularized elliptic cone; ``None`` for a pyramid.
    """

    D: list[Scalar]
    friction: list[Scalar]
    mu: Scalar | None

    def response(self, residual: Sequence[Scalar], scalars: Scalars) -> tuple[list[Scalar], Rows]:
        """Return the forces and the stiffness C at residuals, in the contact's axes."""
        if self.mu is not None:
            return self._elliptic(residual, scalars)
        zero = scalars.constant(0.0)
        count = len(residual)
        force, C = [zero] * count, [[zero] * count for _ in range(count)]
        edges = [(0, scalars.constant(1.0))] if count == 1 else []
        edges = edges or [(k, s * mu) for k, mu in enumerate(self.friction, 1) for s in (1.0, -1.0)]
        for k, mu in edges:
            along = residual[0] + mu * residual[k] if k else residual[0]
            D = scalars.select(along, self.D[-1], zero)
            pull = -(D * along)
            force[0], C[0][0] = force[0] + pull, C[0][0] + D
            if k:
                force[k] = force[k] + mu * pull
                C[0][k] = C[k][0] = C[0][k] + mu * D
                C[k][k] = C[k][k] + mu * mu * D
        return force, C

    def _elliptic(self, residual: Sequence[Scalar], scalars: Scalars) -> tuple[list[Scalar], Rows]:
        mu: Scalar = self.mu
        factors = [mu, *self.friction]
        U = [factor * r for factor, r in zip(factors, residual, strict=True)]
        N, square = U[0], dot(U[1:], U[1:])
        T = scalars.sqrt(scalars.select(square - TINY, scalars.constant(TINY), square))
        zero, one = scalars.constant(0.0), scalars.constant(1.0)
        is_free, is_stuck = mu * T - N, mu * N + T
        quadratic = scalars.select(is_free, zero, scalars.select(is_stuck, one, zero))
        slips = scalars.select(is_free, zero, scalars.select(is_stuck, zero, one))
        weight = slips * self.D[0] / (mu * mu * (1.0 + mu * mu))
        back = weight * (N - mu * T)
        unit = [entry / T for entry in U[1:]]
        gradient = [back, *(-(mu * back * u) for u in unit)]
        D = [quadratic * d for d in self.D]
        force = [
            -(factor * slope + d * r)
            for factor, slope, d, r in zip(factors, gradient, D, residual, strict=True)
        ]
        count = len(residual)
        C = [[zero] * count for _ in range(count)]
        C[0][0] = weight * mu * mu + D[0]
        ratio = mu * N / T
        across = weight * (mu * mu - ratio)
        for k, u in enumerate(unit, 1):
            C[0][k] = C[k][0] = -(weight * mu * u) * factors[0] * factors[k]
            for m, other in enumerate(unit[:k], 1):
                entry = weight * ratio * u * other
                if m == k:
                    entry = entry + across
                C[k][m] = C[m][k] = entry * factors[k] * factors[m]
            C[k][k] = C[k][k] + D[k]
        return force, C


@dataclass
class Point(Block):
    """A point of a contact.

    Attributes:
        cone:     how it yields.
        back:     rotation of the rows' axes to those of the base; ``None`` for these.
        distance: beyond the margin; the point acts where it is negative.
    """

    cone: Cone
    back: Matrix | None
    distance: Scalar

    def response(self, residual: Sequence[Scalar], scalars: Scalars) -> tuple[list[Scalar], Rows]:
        """Return the forces and the stiffness C at residuals, in the contact's axes."""
        return self.cone.response(residual, scalars)
