"""Dynamics with constraints; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from gridgen.functions.calls import Calls, Request, SearchSettings, Solutions
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    BackendChoice,
    Constrained,
    Impulsive,
    InertialPlaced,
    Placed,
    Results,
    Supported,
    Unpack,
    Writable,
)

_REFUSALS = ("of_no_constraints", "of_a_singular_mass_matrix")


class ConstrainedDynamics(Calls):
    """Dynamics with constraints."""

    @function(
        "Delassus matrix: inverse inertia that the constraints' rows see, J Minv J^T",
        ("G",),
        Algorithm(
            "constraints.delassus",
            "factorization of the mass matrix, Featherstone 2008 chapter 8",
            refusals=_REFUSALS,
            in_loops=False,
        ),
        is_default=False,
        solves=True,
    )
    def delassus(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[InertialPlaced]
    ) -> Array:
        """Return the Delassus matrix of the robot's constraints, J Minv J^T.

        All constraints count as active. Rows are ordered as the robot's ``constraints``: 3 for a
        point, 6 for a frame (linear part first), 1 for a joint, in the axes of ``to``.

        Args:
            q:       joint positions (B, nq) [rad or m]
            out:     array for the result.

        Returns:
            G: (B, m, m), symmetric.

        Raises:
            ModelError: the robot has no constraints, or its mass matrix is singular.

        Source: Featherstone 2008, chapter 8.
        """
        return self._call(Request("delassus", (q,), out, options))

    @function(
        "Residual of the constraints",
        ("c",),
        Algorithm(
            "constraints.constraint_residual",
            "relative poses of links",
            refusals=("without_constraints",),
            in_loops=False,
        ),
        is_default=False,
        cancels=True,
    )
    def constraint_residual(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Placed]
    ) -> Array:
        """Return how far the constraints are from their targets, zero where they are fulfilled.

        Args:
            q:       joint positions (B, nq) [rad or m]
            out:     array for the result.

        Returns:
            c: (B, m), rows as of ``delassus``. Positions of points in ``to`` and of joints are less
            the target [m, rad]. A rotation from the target is a vector along its axis of length
            2 sin(angle / 2), which vanishes at pi too [rad]. Constraints in the world without a
            target have zeros. Inactive ones count.

        Raises:
            ModelError: the robot has no constraints.
        """
        return self._call(Request("constraint_residual", (q,), out, options))

    @function(
        "Jacobian of the constraints",
        ("Jc",),
        Algorithm(
            "constraints.constraint_jacobian",
            "joint axes as the constraints see them",
            refusals=("without_constraints",),
            in_loops=False,
        ),
        is_default=False,
    )
    def constraint_jacobian(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Placed]
    ) -> Array:
        """Return the derivative of ``constraint_residual``, in the tangent space of ``q``.

        Where a frame has its target orientation, and for points and joints everywhere, it is the
        Jacobian J of the dynamics: J qd is the velocity of ``link`` in ``to``. So it is for
        constraints without a target.

        Returns:
            Jc: (B, m, nv), rows as of ``delassus``.
        """
        return self._call(Request("constraint_jacobian", (q,), out, options))

    @function(results=("q", "success", "residual"), cancels=True)
    def project(
        self,
        q: ArrayLike,
        *,
        iterations: int = 100,
        tolerance: tuple[float, float] | None = None,
        out: tuple[Writable, Writable, Writable] | None = None,
        backend: BackendChoice | None = None,
    ) -> Solutions:
        """Return the nearest configuration within the limits that fulfills the constraints.

        It fulfills the constraints that are active by default and have a target, at the places of
        the robot's options. The distance is that of ``difference``: the displacement is orthogonal
        to all velocities that the constraints admit, unless a joint is at a limit. Joints that
        change no constraint stay. The solver is that of ``inverse_kinematics``, from ``q``.

        Args:
            q:          joint positions (B, nq) [rad or m]
            iterations: most iterations.
            tolerance:  largest distance [m] and largest rotation [rad] of a constraint. Default:
                        1e-8 in float64, 1e-5 in float32.
            out:        arrays for the results; ``success`` then consists of numbers.
            backend:    overrides the robot's.

        Returns:
            a record of ``q`` (B, nq), ``success`` (B,), and ``residual`` (B, 2), the largest
            distance [m] and rotation [rad] of a constraint, 2 sin(angle / 2).

        Raises:
            OptionError: an option is invalid, or a framework differentiates ``q``.
            ModelError:  the robot has no active constraint with a target.

        Source: Sugihara 2011.
        """
        settings = SearchSettings(q, q, None, 1, iterations, tolerance, False, out, backend)
        return self._searched(None, None, settings)

    @function(
        "Forward dynamics with constraints: joint accelerations and constraint forces",
        ("qdd", "forces"),
        Algorithm(
            "constraints.constrained_forward_dynamics",
            "factorization of the mass matrix and proximal iterations, Carpentier, Budhiraja and "
            "Mansard 2021",
            refusals=_REFUSALS,
            in_loops=False,
        ),
        is_default=False,
        solves=True,
    )
    def constrained_forward_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        *,
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Constrained],
    ) -> Results:
        """Return the joint accelerations of a robot with constraints, and their forces.

        Redundant constraints have the forces of least norm.

        Args:
            q:             joint positions   (B, nq)  [rad or m]
            qd:            joint velocities  (B, nv)  [rad/s or m/s]
            tau:           joint torques     (B, nv)  [N m or N]
            out:           arrays for the results.
            active:        1 for each constraint that holds, 0 for one that has no force
                           (k,) or (B, k). Default: that of the robot's options, otherwise 1.
            stabilization: gains of position and velocity of each constraint (k, 2) or (B, k, 2)
                           [1/s^2, 1/s]. Default: those of the robot's options, otherwise 0.
            compliance:    of each constraint, added to the diagonal of the Delassus matrix
                           (k,) or (B, k). Default: that of the robot's options, otherwise 0.
            proximal:      proximal term of each constraint, as a multiple of the mean diagonal
                           entry of the Delassus matrix, of the rows of forces or of moments
                           (k,) or (B, k). Default: the square root of the unit of rounding.
            offsets:       pose of each constraint's point or frame in its link, homogeneous
                           (k, 4, 4) or (B, k, 4, 4) [1 and m], for a robot loaded with
                           ``parameters="offsets"``. Default: that of the robot's options.

        Returns:
            qdd:    (B, nv) [rad/s^2 or m/s^2]
            forces: (B, m), of ``to`` (or the world) on ``link``, in the axes of ``to``, rows as of
                    ``delassus`` [N, N m]; of a joint, its torque or force.

        Raises:
            ModelError:     the robot has no constraints, or its mass matrix is singular.
            ParameterError: on the CPU, a number is not in the range of its input.

        Source: Carpentier, Budhiraja and Mansard 2021.
        """
        results: Results = self._call(
            Request("constrained_forward_dynamics", (q, qd, tau), out, options)
        )
        return results

    @function(
        "Gradient of forward dynamics with constraints by positions, velocities and torques",
        ("dqdd_dq", "dqdd_dqd", "dqdd_dtau", "dforces_dq", "dforces_dqd", "dforces_dtau"),
        Algorithm(
            "constraint_derivatives.constrained_forward_dynamics_gradient",
            "derivative of the equations, Carpentier, Budhiraja and Mansard 2021",
            refusals=_REFUSALS,
            in_loops=False,
        ),
        is_default=False,
        solves=True,
    )
    def constrained_forward_dynamics_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        *,
        out: tuple[Writable, ...] | None = None,
        **options: Unpack[Constrained],
    ) -> Results:
        """Return the derivatives of accelerations and constraint forces.

        The tangent space is that of ``inverse_dynamics_gradient``. Derivatives of forces are
        those of their components in the axes of ``to``. Forces of redundant constraints are not
        unique: their derivatives have least norm.

        Returns:
            dqdd_dq, dqdd_dqd, dqdd_dtau: (B, nv, nv) each, row i is for acceleration i.
            dforces_dq, dforces_dqd, dforces_dtau: (B, m, nv) each, row i is for force i.

        Raises:
            ModelError:     the robot has no constraints, or its mass matrix is singular.
            ParameterError: on the CPU, a number is not in the range of its input.

        Source: Carpentier, Budhiraja and Mansard 2021.
        """
        name = "constrained_forward_dynamics_gradient"
        results: Results = self._call(Request(name, (q, qd, tau), out, options))
        return results

    @function(
        "Impulse dynamics: joint velocities after an impact, and the constraints' impulses",
        ("qd_next", "impulses"),
        Algorithm(
            "constraints.impulse_dynamics",
            "factorization of the mass matrix and proximal iterations, Carpentier, Budhiraja and "
            "Mansard 2021",
            refusals=_REFUSALS,
            in_loops=False,
        ),
        is_default=False,
        solves=True,
    )
    def impulse_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Impulsive],
    ) -> Results:
        """Return the joint velocities after an impact with the active constraints.

        After the impact, the velocity of the constraints is J qd_next = -restitution J qd. A
        ``compliance`` R subtracts R times the impulse from it.

        Args:
            q:           joint positions            (B, nq)  [rad or m]
            qd:          joint velocities before    (B, nv)  [rad/s or m/s]
            out:         arrays for the results.
            restitution: 0 to 1 for each constraint (k,) or (B, k); by default 0.

        Returns:
            qd_next:  (B, nv) [rad/s or m/s]
            impulses: (B, m), as ``forces`` of ``constrained_forward_dynamics`` [N s, N m s]

        Raises:
            ModelError:     the robot has no constraints, or its mass matrix is singular.
            ParameterError: on the CPU, a number is not in the range of its input.
        """
        results: Results = self._call(Request("impulse_dynamics", (q, qd), out, options))
        return results

    @function(
        "Inverse dynamics with constraints: joint efforts and constraint forces",
        ("tau", "forces"),
        Algorithm(
            "constraints.constrained_inverse_dynamics",
            "recursive Newton-Euler, forces of least norm at the free joints",
            refusals=("of_no_constraints", "of_free_joints_that_nothing_holds"),
            in_loops=False,
        ),
        is_default=False,
        solves=True,
    )
    def constrained_inverse_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Supported],
    ) -> Results:
        """Return the joint torques and constraint forces that together produce ``qdd``.

        Free joints have no motors: forces of the active constraints replace them. These forces have
        the least weighted sum of squares. They are zero for a robot without a free joint.

        Args:
            q:        joint positions      (B, nq)  [rad or m]
            qd:       joint velocities     (B, nv)  [rad/s or m/s]
            qdd:      joint accelerations  (B, nv)  [rad/s^2 or m/s^2]
            out:      arrays for the results.
            weights:  weight of the squared forces of each constraint (k,) or (B, k); 1.

        Returns:
            tau:    (B, nv) [N m or N]; of a free joint 0, or the remainder that no force of
                    the active constraints produces.
            forces: (B, m), as of ``constrained_forward_dynamics`` [N, N m]

        Raises:
            ModelError:     the robot has no constraints.
            ParameterError: on the CPU, a number is not in the range of its input.
        """
        results: Results = self._call(
            Request("constrained_inverse_dynamics", (q, qd, qdd), out, options)
        )
        return results
