"""Dynamics: declarations of public functions.

A declaration is a method of ``Robot`` with a record. The record defines the algorithms and the data
that generated modules, the command line, the manual, benchmarks and tests use. Every function is
declared in one module of this package.
"""

from __future__ import annotations

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    Damped,
    Driven,
    DynamicsSchedule,
    Heavy,
    Inertial,
    Method,
    Unpack,
    WarpSchedule,
    Weighted,
    Writable,
)

_SCHEDULES = ("thread", "warp")
_INVERSE_SCHEDULES = ("thread", "scan", "warp")


class Dynamics(Calls):
    """Joint torques, accelerations and inertias."""

    @function(
        "Inverse dynamics: joint torques that produce given accelerations",
        ("tau",),
        Algorithm(
            "rnea.inverse_dynamics",
            "recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 1 and 2",
            _INVERSE_SCHEDULES,
        ),
    )
    def inverse_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        schedule: DynamicsSchedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Driven],
    ) -> Array:
        """Return the joint torques that produce the accelerations ``qdd``.

        Args:
            q:                 joint positions       (B, nq)  [rad or m]
            qd:                joint velocities      (B, nv)  [rad/s or m/s]
            qdd:               joint accelerations   (B, nv)  [rad/s^2 or m/s^2]
            schedule:          ``thread``: one state per GPU thread or SIMD lane. ``scan`` and
                               ``warp``: one body per GPU thread, for small batches of robots with
                               many bodies, in the frames of the bodies or in that of the base.
                               ``auto``: ``thread``, or on a GPU the schedule that ``plan``
                               estimates to be the fastest.
            gravity:           acceleration of free fall in the world, by default
                               that of an MJCF file or a model of Pinocchio, otherwise
                               (0, 0, -9.81)                     (3,) or (B, 3)  [m/s^2]
            f_ext:             wrench (f, n) on each body at its link frame, in its axes
                                                     (B, n_bodies, 6)  [N, N m]
            base_velocity:     twist (v, w) of the base in the base frame
                                                                 (6,) or (B, 6)  [m/s, rad/s]
            base_acceleration: derivative of this twist, component by component
                                                                 (6,) or (B, 6)  [m/s^2, rad/s^2]
            params:            inertial parameters, one row for each link in the robot's
                               ``parameters``            (n, 10) or (B, n, 10)
            armature:          values added to the diagonal of the mass matrix, for a robot that
                               was loaded with ``armature`` in ``parameters``
                                                                 (nv,) or (B, nv)
            damping:           viscous damping, for a robot that was loaded with ``damping`` in
                               ``parameters``                    (nv,) or (B, nv)
            joint_friction:    dry friction, for a robot that was loaded with ``joint_friction``
                               in ``parameters``                 (nv,) or (B, nv)
            backend:           ``auto``, ``cpu``, ``cuda`` or ``emulated``; overrides the robot's.

        Returns:
            tau: joint torques (B, nv) [N m or N]

        Raises:
            ShapeError, DtypeError, DeviceError: an argument is invalid; nothing was computed.
            ParameterError: a row of ``params`` is physically inconsistent (CPU only).
            OptionError: the robot does not have a parameter as an input.

        Source: recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 1 and 2.
        """
        return self._call(Request("inverse_dynamics", (q, qd, qdd), out, options, schedule))

    @function(
        "Bias forces: Coriolis, centrifugal and gravity torques",
        ("tau",),
        Algorithm(
            "rnea.bias_forces",
            "recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 5",
            _INVERSE_SCHEDULES,
        ),
    )
    def bias_forces(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        schedule: DynamicsSchedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Damped],
    ) -> Array:
        """Return the joint torques of Coriolis, centrifugal, gravity and external forces.

        Equal to ``inverse_dynamics`` for ``qdd`` = 0.

        Returns:
            h: (B, nv) [N m or N]
        """
        return self._call(Request("bias_forces", (q, qd), out, options, schedule))

    @function(
        "Gravity forces: joint torques that hold the robot at rest",
        ("tau",),
        Algorithm("energy.gravity_forces", "weights of subtrees about the joints' axes"),
    )
    def gravity_forces(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Heavy]
    ) -> Array:
        """Return the joint torques that hold the robot at rest under gravity.

        Args:
            q:       joint positions (B, nq) [rad or m]

        Returns:
            tau: (B, nv) [N m or N]; equal to ``bias_forces`` for zero velocities
        """
        return self._call(Request("gravity_forces", (q,), out, options))

    @function(
        "Coriolis matrix: C qd are the Coriolis and centrifugal torques",
        ("C",),
        Algorithm(
            "derivatives.coriolis_matrix",
            "Echeandia and Wensing 2021, with the answers of subtrees to changes of motion",
        ),
    )
    def coriolis_matrix(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Weighted],
    ) -> Array:
        """Return the Coriolis matrix C: C qd are the Coriolis and centrifugal torques.

        dM/dt - 2 C is skew-symmetric; C is equal to Pinocchio's. The world is at rest.

        Args:
            q:       joint positions   (B, nq)  [rad or m]
            qd:      joint velocities  (B, nv)  [rad/s or m/s]

        Returns:
            C: (B, nv, nv), row i is for joint torque i
        """
        return self._call(Request("coriolis_matrix", (q, qd), out, options))

    @function(
        "Forward dynamics: joint accelerations that given torques produce",
        ("qdd",),
        {
            "aba": Algorithm(
                "aba.forward_dynamics_aba",
                "articulated bodies, Yang, Wu, Pan (prefix sums) eq. 7 and 8",
                _INVERSE_SCHEDULES,
                ("of_a_singular_mass_matrix", "of_mimic_joints"),
            ),
            "crba": Algorithm(
                "crba.forward_dynamics_crba",
                "mass matrix and its factorization, Yang, Wu, Pan (prefix sums) eq. 6",
                ("thread", "warp"),
                ("of_a_singular_mass_matrix",),
            ),
            # The modules of their kernels have their sources and restrictions.
            "jsiia": Algorithm(schedules=("scan",)),
            "cfa": Algorithm(schedules=("scan",), is_backward_stable=False),
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
        schedule: DynamicsSchedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Driven],
    ) -> Array:
        """Return the joint accelerations that the joint torques ``tau`` produce.

        Args:
            q:        joint positions   (B, nq)  [rad or m]
            qd:       joint velocities  (B, nv)  [rad/s or m/s]
            tau:      joint torques     (B, nv)  [N m or N]
            method:   ``aba``: articulated bodies. ``crba``: mass matrix and its factorization.
                      ``jsiia``: mass matrix from inverse dynamics in parallel. ``cfa``: constraint
                      forces. The last two use teams of threads: on a GPU or with the backend
                      ``emulated``. ``auto``: ``aba``, or ``crba`` for a robot with mimic joints.

        Returns:
            qdd: joint accelerations (B, nv) [rad/s^2 or m/s^2]

        Raises:
            ModelError: the mass matrix is singular, or the method does not support the robot.

        Source: Yang, Wu, Pan (prefix sums) eq. 7 and 8 (``aba``), eq. 6 (``crba``).
        """
        return self._call(Request("forward_dynamics", (q, qd, tau), out, options, schedule, method))

    @function(
        "Mass matrix: joint-space inertia",
        ("M",),
        Algorithm(
            "crba.mass_matrix", "composite rigid bodies, Featherstone 2008, chapter 6", _SCHEDULES
        ),
    )
    def mass_matrix(
        self,
        q: ArrayLike,
        *,
        schedule: WarpSchedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Inertial],
    ) -> Array:
        """Return the joint-space inertia matrix, with both triangles filled.

        Args:
            q:        joint positions (B, nq) [rad or m]

        Returns:
            M: (B, nv, nv) [kg m^2, kg m or kg]

        Source: composite rigid bodies, Featherstone 2008, chapter 6.
        """
        return self._call(Request("mass_matrix", (q,), out, options, schedule))

    @function(
        "Inverse of the mass matrix",
        ("Minv",),
        Algorithm(
            "minverse.mass_matrix_inverse",
            "factorization with the sparsity of the tree, Featherstone 2008, chapter 6",
            _SCHEDULES,
            ("of_a_singular_mass_matrix",),
        ),
        solves=True,
    )
    def mass_matrix_inverse(
        self,
        q: ArrayLike,
        *,
        schedule: WarpSchedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Inertial],
    ) -> Array:
        """Return the inverse of the joint-space inertia matrix, with both triangles filled.

        Returns:
            Minv: (B, nv, nv)

        Raises:
            ModelError: the mass matrix is singular.
        """
        return self._call(Request("mass_matrix_inverse", (q,), out, options, schedule))
