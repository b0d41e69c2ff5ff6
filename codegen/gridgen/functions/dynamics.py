"""The dynamics of a robot: every function is declared here or in a module beside, and nowhere else.

A declaration is a method of ``Robot`` with its record: what an editor shows, what is computed, and
what a module, the command line, documents, benchmarks and tests know of it.
"""

from __future__ import annotations

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    Damped,
    Driven,
    ForwardDynamicsSchedule,
    Heavy,
    Inertial,
    InverseDynamicsSchedule,
    Method,
    Schedule,
    Unpack,
    Weighted,
    Writable,
)

_BOTH = ("thread", "scan")


class Dynamics(Calls):
    """Efforts, accelerations and inertias."""

    @function(
        "Inverse dynamics: joint torques that produce given accelerations",
        ("tau",),
        Algorithm(
            "rnea.inverse_dynamics",
            "recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 1 and 2",
            (*_BOTH, "pipeline"),
        ),
    )
    def inverse_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        schedule: InverseDynamicsSchedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Driven],
    ) -> Array:
        """Return the joint efforts that produce ``qdd``.

        Args:
            q:                 joint positions       (B, nq)  [rad or m]
            qd:                joint velocities      (B, nv)  [rad/s or m/s]
            qdd:               joint accelerations   (B, nv)  [rad/s^2 or m/s^2]
            schedule:          ``thread``, one state for each GPU thread or SIMD lane; ``scan``,
                               one body for each GPU thread, for few states of many bodies;
                               ``auto`` is ``thread``; on a GPU what is taken to be faster for
                               the batch (``plan``). ``pipeline``, a block of GPU threads for each
                               trajectory: q (B, T, nq) or (T, nq) and so on, tau likewise.
            out:               array for the result.
            gravity:           free fall             (3,) or (B, 3)  [m/s^2]; (0, 0, -9.81)
            f_ext:             wrench (f, n) on each body at its link frame, in its axes
                                                     (B, n_bodies, 6)  [N, N m]
            base_velocity:     twist (v, w) of the base          (6,) or (B, 6)  [m/s, rad/s]
            base_acceleration: its derivative                    (6,) or (B, 6)
            params:            of a robot loaded with links in ``parameters``: their inertias,
                               a row each                (n, 10) or (B, n, 10)
            armature:          of one loaded with it, added to the diagonal of the mass
                               matrix                            (nv,) or (B, nv)
            damping:           of one loaded with it, viscous    (nv,) or (B, nv)
            backend:           ``auto``, ``cpu``, ``cuda`` or ``emulated``; overrides the robot's.

        Returns:
            tau: joint efforts (B, nv) [N m or N]

        Raises:
            ShapeError, DtypeError, DeviceError: an argument does not fit; nothing was computed.
            ParameterError: on the CPU, no body has the inertia of a row of ``params``.
            OptionError: a number is given that this robot does not take as an input.

        Source: recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 1 and 2.
        """
        return self._call(Request("inverse_dynamics", (q, qd, qdd), out, options, schedule))

    @function(
        "Bias forces: Coriolis, centrifugal and gravity torques",
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
        **options: Unpack[Damped],
    ) -> Array:
        """Return the efforts of Coriolis, centrifugal, gravity and external forces.

        Arguments as in ``inverse_dynamics``, whose result it is for ``qdd`` = 0.

        Returns:
            h: (B, nv) [N m or N]
        """
        return self._call(Request("bias_forces", (q, qd), out, options, schedule))

    @function(
        "Gravity forces: joint torques that hold the robot at rest",
        ("tau",),
        Algorithm("gravity.gravity_forces", "weights of subtrees about the joints' axes"),
    )
    def gravity_forces(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Heavy]
    ) -> Array:
        """Return the efforts that hold the robot still under gravity.

        Args:
            q:       joint positions (B, nq) [rad or m]
            out:     array for the result.
            options: ``gravity``, free fall in the base frame, ``params`` as in
                     ``inverse_dynamics``, and ``backend``.

        Returns:
            tau: generalized gravity (B, nv) [N m or N]; ``bias_forces`` for zero velocities.
        """
        return self._call(Request("gravity_forces", (q,), out, options))

    @function(
        "Coriolis matrix: C qd are the Coriolis and centrifugal torques",
        ("C",),
        Algorithm(
            "coriolis.coriolis_matrix",
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
        """Return the Coriolis matrix: C qd are the Coriolis and centrifugal efforts.

        That with which dM/dt - 2 C is skew-symmetric, Pinocchio's, on a base at rest.

        Args:
            q:       joint positions   (B, nq)  [rad or m]
            qd:      joint velocities  (B, nv)  [rad/s or m/s]
            out:     array for the result.
            options: ``params`` as in ``inverse_dynamics``, and ``backend``.

        Returns:
            C: (B, nv, nv), row i the effort i.
        """
        return self._call(Request("coriolis_matrix", (q, qd), out, options))

    @function(
        "Forward dynamics: joint accelerations that given torques produce",
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
                "mass matrix and its factorization, Yang, Wu, Pan (prefix sums) eq. 6",
                ("thread",),
                ("of_a_singular_mass_matrix",),
            ),
            # Described, and refused, where their kernels are.
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
        schedule: ForwardDynamicsSchedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Driven],
    ) -> Array:
        """Return the joint accelerations that ``tau`` produces.

        Args:
            q:        joint positions   (B, nq)  [rad or m]
            qd:       joint velocities  (B, nv)  [rad/s or m/s]
            tau:      joint efforts     (B, nv)  [N m or N]
            method:   ``aba`` (articulated bodies), ``crba`` (mass matrix and its factorization),
                      ``jsiia`` (mass matrix from inverse dynamics in parallel), ``cfa`` (constraint
                      forces), both of teams of threads: for a GPU or the backend ``emulated``;
                      ``auto`` is ``aba``, or ``crba`` for a robot with mimic joints.
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
        return self._call(Request("forward_dynamics", (q, qd, tau), out, options, schedule, method))

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
        **options: Unpack[Inertial],
    ) -> Array:
        """Return the joint-space inertia matrix, symmetric, both triangles filled.

        Args:
            q:        joint positions (B, nq) [rad or m]
            schedule: as in ``inverse_dynamics``.
            out:      array for the result.
            options:  ``params`` and ``armature`` as in ``inverse_dynamics``, and ``backend``.

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
            _BOTH,
            ("of_a_singular_mass_matrix",),
        ),
        solves=True,
    )
    def mass_matrix_inverse(
        self,
        q: ArrayLike,
        *,
        schedule: Schedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Inertial],
    ) -> Array:
        """Return the inverse of the joint-space inertia matrix, symmetric, both triangles filled.

        Arguments as in ``mass_matrix``.

        Returns:
            Minv: (B, nv, nv)

        Raises:
            ModelError: the mass matrix is singular.
        """
        return self._call(Request("mass_matrix_inverse", (q,), out, options, schedule))
