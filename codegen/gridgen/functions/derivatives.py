"""Derivatives of the dynamics; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    Damped,
    Driven,
    Results,
    Schedule,
    Unpack,
    WarpSchedule,
    Writable,
)

_SCHEDULES = ("thread", "warp")
_REFUSALS = ("of_a_singular_mass_matrix",)


class Derivatives(Calls):
    """Derivatives of the dynamics."""

    @function(
        "Gradient of inverse dynamics by positions and velocities",
        ("dtau_dq", "dtau_dqd"),
        Algorithm(
            "derivatives.inverse_dynamics_gradient",
            "Plancher et al. (GRiD) Algorithm 2; Singh, Russell and Wensing 2022",
            _SCHEDULES,
        ),
    )
    def inverse_dynamics_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        schedule: WarpSchedule = "auto",
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Damped],
    ) -> Results:
        """Return the analytical derivatives of the joint torques by position and velocity.

        A derivative by position is a derivative in the
        tangent space. For a free joint, the displacement is in the body frame, as in Pinocchio.

        Returns:
            dtau_dq, dtau_dqd: (B, nv, nv) each, row i belongs to joint torque i.

        Source: Plancher et al. (GRiD) Algorithm 2; Singh, Russell and Wensing 2022.
        """
        gradients: Results = self._call(
            Request("inverse_dynamics_gradient", (q, qd, qdd), out, options, schedule)
        )
        return gradients

    @function(
        "Gradient of forward dynamics by positions, velocities and torques",
        ("dqdd_dq", "dqdd_dqd", "dqdd_dtau"),
        Algorithm(
            "derivatives.forward_dynamics_gradient",
            "-M^-1 times the gradient of inverse dynamics, Plancher et al. (GRiD)",
            _SCHEDULES,
            _REFUSALS,
        ),
        solves=True,
    )
    def forward_dynamics_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        *,
        schedule: WarpSchedule = "auto",
        out: tuple[Writable, Writable, Writable] | None = None,
        **options: Unpack[Driven],
    ) -> Results:
        """Return the derivatives of the accelerations by positions, velocities and torques.

        The tangent space is that of ``inverse_dynamics_gradient``.

        Returns:
            dqdd_dq, dqdd_dqd, dqdd_dtau: (B, nv, nv) each, row i is for acceleration i.

        Raises:
            ModelError: the mass matrix is singular.

        Source: -M^-1 times the gradient of inverse dynamics at the acceleration, Plancher et al.
        (GRiD).
        """
        gradients: Results = self._call(
            Request("forward_dynamics_gradient", (q, qd, tau), out, options, schedule)
        )
        return gradients

    @function(
        "Second derivatives of inverse dynamics, and the derivative of the mass matrix",
        ("d2tau_dqdq", "d2tau_dqddqd", "d2tau_dqdqd", "dM_dq"),
        Algorithm(
            "second_order.inverse_dynamics_second_order",
            "Singh, Russell and Wensing, second-order derivatives of rigid-body dynamics",
            ("thread", "scan"),
        ),
        is_default=False,
    )
    def inverse_dynamics_second_order(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        schedule: Schedule = "auto",
        out: tuple[Writable, Writable, Writable, Writable] | None = None,
        **options: Unpack[Damped],
    ) -> Results:
        """Return the second derivatives of the joint torques and the derivative of M.

        The last index is the direction in which entries of
        ``inverse_dynamics_gradient`` change. Positions of a free joint do not commute, so its part
        of d2tau_dqdq is not symmetric in q and q. Only ``thread`` supports free joints.

        Returns:
            d2tau_dqdq, d2tau_dqddqd, d2tau_dqdqd, dM_dq: (B, nv, nv, nv) each, indexed
            [torque, q, q], [torque, qd, qd], [torque, q, qd] and [row, column, q].
        """
        cubes: Results = self._call(
            Request("inverse_dynamics_second_order", (q, qd, qdd), out, options, schedule)
        )
        return cubes

    @function(
        "Second derivatives of forward dynamics",
        ("d2qdd_dqdq", "d2qdd_dqddqd", "d2qdd_dqdqd", "d2qdd_dqdtau"),
        Algorithm(
            "second_order.forward_dynamics_second_order",
            "solutions with M for the second derivatives of inverse dynamics, Singh, Russell and "
            "Wensing",
            refusals=_REFUSALS,
        ),
        is_default=False,
        solves=True,
    )
    def forward_dynamics_second_order(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        *,
        out: tuple[Writable, Writable, Writable, Writable] | None = None,
        **options: Unpack[Driven],
    ) -> Results:
        """Return the second derivatives of the joint accelerations.

        The tangent space is that of ``inverse_dynamics_second_order``. The other second
        derivatives are zero. A weighted sum of them costs far less: ``forward_dynamics_hessian``.

        Returns:
            d2qdd_dqdq, d2qdd_dqddqd, d2qdd_dqdqd, d2qdd_dqdtau: (B, nv, nv, nv) each, indexed
            [acceleration, q, q], [acceleration, qd, qd], [acceleration, q, qd] and
            [acceleration, q, tau].

        Source: -M^-1 times the second derivatives of inverse dynamics, Singh, Russell and Wensing.
        """
        cubes: Results = self._call(
            Request("forward_dynamics_second_order", (q, qd, tau), out, options)
        )
        return cubes

    @function(
        "Hessian of a weighted sum of the joint accelerations",
        ("H",),
        Algorithm(
            "hessians.forward_dynamics_hessian",
            "second derivatives of inverse dynamics, summed before they are formed",
            refusals=_REFUSALS,
        ),
        is_default=False,
        solves=True,
        cancels=True,
    )
    def forward_dynamics_hessian(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        multipliers: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Driven],
    ) -> Array:
        """Return the Hessian of multipliers . qdd in (q, qd, tau).

        It is the contraction of ``forward_dynamics_second_order`` with ``multipliers`` (B, nv), as
        an exact Hessian of a Lagrangian needs it. Other arguments, tangent space and errors as
        there.

        Returns:
            H: (B, 3 nv, 3 nv), symmetric; rows and columns for q, qd and tau. Of a free joint it
               is in exponential coordinates: the symmetric part of that contraction.
        """
        return self._call(
            Request("forward_dynamics_hessian", (q, qd, tau, multipliers), out, options)
        )
