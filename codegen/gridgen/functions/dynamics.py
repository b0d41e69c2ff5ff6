"""The dynamics of a robot: every function is declared here, and nowhere else.

A declaration is a method of ``Robot`` with its record: what an editor shows, what is computed, and
what a module, the command line, documents, benchmarks and tests know of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridgen.functions.calls import Calls
from gridgen.functions.record import Method as Algorithm
from gridgen.functions.record import function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    ForwardDynamicsSchedule,
    Loaded,
    Method,
    Options,
    Schedule,
    Writable,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

_BOTH = ("thread", "scan")


class Dynamics(Calls):
    """Efforts, accelerations and inertias."""

    @function(
        "Inverse dynamics: joint efforts that produce given accelerations",
        ("tau",),
        Algorithm(
            "rnea.inverse_dynamics",
            "recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 1 and 2",
            _BOTH,
        ),
    )
    def inverse_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        schedule: Schedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Loaded],
    ) -> Array:
        """Return the joint efforts that produce ``qdd``.

        Args:
            q:                 joint positions       (B, nq)  [rad or m]
            qd:                joint velocities      (B, nv)  [rad/s or m/s]
            qdd:               joint accelerations   (B, nv)  [rad/s^2 or m/s^2]
            schedule:          ``thread``, one state for each GPU thread or SIMD lane; ``scan``,
                               one body for each GPU thread, for few states of many bodies;
                               ``auto`` is ``thread``; ``scan`` for derivatives and M^-1 of robots
                               with more than 20 velocities on a GPU.
            out:               array for the result.
            gravity:           free fall             (3,) or (B, 3)  [m/s^2]; (0, 0, -9.81)
            f_ext:             wrench (f, n) on each body at its link frame, in its axes
                                                     (B, n_bodies, 6)  [N, N m]
            base_velocity:     twist (v, w) of the base          (6,) or (B, 6)  [m/s, rad/s]
            base_acceleration: its derivative                    (6,) or (B, 6)
            backend:           ``auto``, ``cpu``, ``cuda`` or ``emulated``; overrides the robot's.

        Returns:
            tau: joint efforts (B, nv) [N m or N]

        Raises:
            ShapeError, DtypeError, DeviceError: an argument does not fit; nothing was computed.

        Source: recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 1 and 2.
        """
        return self._call("inverse_dynamics", (q, qd, qdd), out, options, schedule)

    @function(
        "Bias forces: Coriolis, centrifugal and gravity efforts",
        ("tau",),
        Algorithm(
            "rnea.bias_forces",
            "recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 5",
            _BOTH,
        ),
    )
    def bias_forces(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        schedule: Schedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Loaded],
    ) -> Array:
        """Return the efforts of Coriolis, centrifugal, gravity and external forces.

        Arguments as in ``inverse_dynamics``, whose result it is for ``qdd`` = 0.

        Returns:
            h: (B, nv) [N m or N]
        """
        return self._call("bias_forces", (q, qd), out, options, schedule)

    @function(
        "Forward dynamics: joint accelerations that given efforts produce",
        ("qdd",),
        {
            "aba": Algorithm(
                "aba.forward_dynamics_aba",
                "articulated bodies, Yang, Wu, Pan (prefix sums) eq. 7 and 8",
                ("thread", "scan", "hybrid"),
                ("of_a_singular_mass_matrix", "of_mimic_joints"),
            ),
            "crba": Algorithm(
                "crba.forward_dynamics_crba",
                "mass matrix and its factorisation, Yang, Wu, Pan (prefix sums) eq. 6",
                ("thread",),
                ("of_a_singular_mass_matrix",),
            ),
            "jsiia": Algorithm(
                "",
                "mass matrix by inverse dynamics, Yang, Wu, Pan (prefix sums) Algorithm 2",
                ("scan",),
            ),
            "cfa": Algorithm(
                "",
                "constraint forces, Yang, Wu, Pan (GPU scheme) Algorithms 1 and 2",
                ("scan",),
            ),
        },
        solves=True,
    )
    def forward_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        *,
        method: Method = "auto",
        schedule: ForwardDynamicsSchedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Loaded],
    ) -> Array:
        """Return the joint accelerations that ``tau`` produces.

        Args:
            q:        joint positions   (B, nq)  [rad or m]
            qd:       joint velocities  (B, nv)  [rad/s or m/s]
            tau:      joint efforts     (B, nv)  [N m or N]
            method:   ``aba`` (articulated bodies), ``crba`` (mass matrix and its factorisation),
                      ``jsiia`` (mass matrix from inverse dynamics in parallel), ``cfa`` (constraint
                      forces); ``auto`` is ``aba``, or ``crba`` for a robot with mimic joints.
            schedule: as in ``inverse_dynamics``; also ``hybrid`` (``aba`` alone), the inertias on
                      the CPU while the GPU computes the bias efforts.
            out:      array for the result.
            options:  as in ``inverse_dynamics``.

        Returns:
            qdd: joint accelerations (B, nv) [rad/s^2 or m/s^2]

        Raises:
            ModelError: the mass matrix is singular, or the method does not fit the robot.

        Source: Yang, Wu, Pan (prefix sums) eq. 7 and 8 (``aba``), eq. 6 (``crba``).
        """
        return self._call("forward_dynamics", (q, qd, tau), out, options, schedule, method)

    @function(
        "Mass matrix: joint-space inertia",
        ("M",),
        Algorithm(
            "crba.mass_matrix", "composite rigid bodies, Featherstone 2008, chapter 6", _BOTH
        ),
    )
    def mass_matrix(
        self,
        q: ArrayLike,
        *,
        schedule: Schedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the joint-space inertia matrix, symmetric, both triangles filled.

        Args:
            q:        joint positions (B, nq) [rad or m]
            schedule: as in ``inverse_dynamics``.
            out:      array for the result.
            backend:  overrides the robot's.

        Returns:
            M: (B, nv, nv) [kg m^2, kg m or kg]

        Source: composite rigid bodies, Featherstone 2008, chapter 6.
        """
        return self._call("mass_matrix", (q,), out, options, schedule)

    @function(
        "Inverse of the mass matrix",
        ("Minv",),
        Algorithm(
            "minverse.mass_matrix_inverse",
            "factorisation with the sparsity of the tree, Featherstone 2008, chapter 6",
            _BOTH,
            ("of_a_singular_mass_matrix",),
        ),
        outgrows_thread=True,
        solves=True,
    )
    def mass_matrix_inverse(
        self,
        q: ArrayLike,
        *,
        schedule: Schedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the inverse of the joint-space inertia matrix, symmetric, both triangles filled.

        Arguments as in ``mass_matrix``.

        Returns:
            Minv: (B, nv, nv)

        Raises:
            ModelError: the mass matrix is singular.
        """
        return self._call("mass_matrix_inverse", (q,), out, options, schedule)


class Derivatives(Calls):
    """Derivatives of the dynamics."""

    @function(
        "Gradient of inverse dynamics by positions and velocities",
        ("dtau_dq", "dtau_dqd"),
        Algorithm(
            "derivatives.inverse_dynamics_gradient",
            "Plancher et al. (GRiD) Algorithm 2; Singh, Russell and Wensing 2022",
            _BOTH,
        ),
        outgrows_thread=True,
    )
    def inverse_dynamics_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        schedule: Schedule = "auto",
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Loaded],
    ) -> tuple[Array, Array]:
        """Return the derivatives of the joint efforts by positions and velocities, analytically.

        Arguments as in ``inverse_dynamics``. Positions change in the tangent space: for a free
        joint by a displacement in the body's own frame (Pinocchio's convention).

        Returns:
            dtau_dq, dtau_dqd: (B, nv, nv) each, row i the effort i.

        Source: Plancher et al. (GRiD) Algorithm 2; Singh, Russell and Wensing 2022.
        """
        gradients: tuple[Array, Array] = self._call(
            "inverse_dynamics_gradient", (q, qd, qdd), out, options, schedule
        )
        return gradients

    @function(
        "Gradient of forward dynamics by positions, velocities and efforts",
        ("dqdd_dq", "dqdd_dqd", "dqdd_dtau"),
        Algorithm(
            "derivatives.forward_dynamics_gradient",
            "-M^-1 times the gradient of inverse dynamics, Plancher et al. (GRiD)",
            _BOTH,
            ("of_a_singular_mass_matrix",),
        ),
        outgrows_thread=True,
        solves=True,
    )
    def forward_dynamics_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        *,
        schedule: Schedule = "auto",
        out: tuple[Writable, Writable, Writable] | None = None,
        **options: Unpack[Loaded],
    ) -> tuple[Array, Array, Array]:
        """Return the derivatives of the accelerations by positions, velocities and efforts.

        Arguments as in ``forward_dynamics``; tangent space as in ``inverse_dynamics_gradient``.

        Returns:
            dqdd_dq, dqdd_dqd, dqdd_dtau: (B, nv, nv) each, row i the acceleration i.

        Raises:
            ModelError: the mass matrix is singular.

        Source: -M^-1 times the gradient of inverse dynamics at the acceleration, Plancher et al.
        (GRiD).
        """
        gradients: tuple[Array, Array, Array] = self._call(
            "forward_dynamics_gradient", (q, qd, tau), out, options, schedule
        )
        return gradients

    @function(
        "Second derivatives of inverse dynamics, and the derivative of the mass matrix",
        ("d2tau_dqdq", "d2tau_dqddqd", "d2tau_dqdqd", "dM_dq"),
        Algorithm(
            "second_order.inverse_dynamics_second_order",
            "Singh, Russell and Wensing, second-order derivatives of rigid-body dynamics",
            _BOTH,
            ("of_free_joints",),
        ),
        is_default=False,
        outgrows_thread=True,
    )
    def inverse_dynamics_second_order(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        schedule: Schedule = "auto",
        out: tuple[Writable, Writable, Writable, Writable] | None = None,
        **options: Unpack[Loaded],
    ) -> tuple[Array, Array, Array, Array]:
        """Return the second derivatives of the joint efforts, and the derivative of M.

        Arguments as in ``inverse_dynamics``; for robots without free joints.

        Returns:
            d2tau_dqdq, d2tau_dqddqd, d2tau_dqdqd, dM_dq: (B, nv, nv, nv) each, indexed
            [effort, q, q], [effort, qd, qd], [effort, q, qd] and [row, column, q].

        Raises:
            ModelError: the robot has a free joint.
        """
        cubes: tuple[Array, Array, Array, Array] = self._call(
            "inverse_dynamics_second_order", (q, qd, qdd), out, options, schedule
        )
        return cubes
