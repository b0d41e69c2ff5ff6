"""Frames, center of mass, momentum and energies; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.functions.calls import Calls, Request, SearchSettings, Solutions
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    AtFrame,
    BackendChoice,
    Heavy,
    Inertial,
    Reference,
    Results,
    Unpack,
    Weighted,
    Writable,
)


class Frames(Calls):
    """Poses and Jacobians of the links."""

    @function(
        "Forward kinematics: poses of all frames",
        ("poses",),
        Algorithm(
            "frames.forward_kinematics",
            "products of placements, Yang, Wu, Pan (prefix sums) eq. 1",
        ),
    )
    def forward_kinematics(
        self,
        q: ArrayLike,
        frames: str | Sequence[str] | None = None,
        *,
        out: Writable | None = None,
        **options: Unpack[AtFrame],
    ) -> Array:
        """Return the poses of link frames in the world.

        Args:
            q:       joint positions (B, nq) [rad or m]
            frames:  name of a link (merged links included) or list of names; by default all of
                     ``frame_names``. The kernel computes only these frames. A generated module
                     has one kernel for all frames and copies the requested ones.
            offset:  pose of a tool in each of the frames, which replaces them, homogeneous, (4, 4)
                     or (B, 4, 4) [1 and m]. Default: the frames themselves.
            backend: overrides the robot's.

        Returns:
            poses: homogeneous transforms (B, n_frames, 4, 4), x_world = pose x_link [1 and m];
            (B, 4, 4) for a single name.

        Raises:
            OptionError: a frame is unknown; the message lists similar names.
        """
        return self._call(Request("forward_kinematics", (q,), out, options, frame=frames))

    @function(
        "Jacobian",
        ("J",),
        Algorithm("frames.jacobian", "joint axes as the frame sees them"),
        is_default=False,
    )
    def jacobian(
        self,
        q: ArrayLike,
        frame: str | Sequence[str],
        reference: Reference = "local",
        *,
        out: Writable | None = None,
        **options: Unpack[AtFrame],
    ) -> Array:
        """Return the Jacobian J of a link frame: its twist (v, w) is J qd.

        Args:
            q:         joint positions (B, nq) [rad or m]
            frame:     name of a link (merged links included) or list of names.
            reference: reference frame of the twist: ``local`` (link frame), ``world`` (world axes,
                       velocity of the point at its origin) or ``local_world_aligned`` (origin of
                       the link, axes of the world).
            backend:   overrides the robot's.

        Returns:
            J: (B, 6, nv); (B, n, 6, nv) for a list of n names

        Raises:
            OptionError: the frame is unknown; the message lists similar names.
            ModelError:  the generated module does not have the frame.
        """
        return self._call(Request("jacobian", (q,), out, options, frame=frame, reference=reference))

    @function(
        "Derivative of the Jacobian",
        ("dJ_dq",),
        Algorithm("frames.jacobian_gradient", "products of joint axes", in_loops=False),
        is_default=False,
    )
    def jacobian_gradient(
        self,
        q: ArrayLike,
        frame: str | Sequence[str],
        reference: Reference = "local",
        *,
        out: Writable | None = None,
        **options: Unpack[AtFrame],
    ) -> Array:
        """Return the derivative of the Jacobian of a link frame by the positions.

        It contains the second derivatives of the frame's pose. The derivative by a free joint is in
        its tangent space, that of ``integrate_gradient``.

        Returns:
            dJ_dq: (B, 6, nv, nv), entry [row, column, q]; (B, n, 6, nv, nv) for a list of n names
        """
        return self._call(
            Request("jacobian_gradient", (q,), out, options, frame=frame, reference=reference)
        )

    @function(
        "Derivative of the Jacobian times qd,",
        ("drift",),
        Algorithm("frames.jacobian_dot_qd", "acceleration of the frame for zero qdd"),
        is_default=False,
        cancels=True,
    )
    def jacobian_dot_qd(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        frame: str | Sequence[str],
        reference: Reference = "local",
        *,
        out: Writable | None = None,
        **options: Unpack[AtFrame],
    ) -> Array:
        """Return the time derivative of the Jacobian of a link frame, times ``qd``.

        Returns:
            drift: (B, 6); (B, n, 6) for a list of n names [m/s^2, rad/s^2]
        """
        return self._call(
            Request("jacobian_dot_qd", (q, qd), out, options, frame=frame, reference=reference)
        )

    @function(results=("q", "success", "residual"), cancels=True)
    def inverse_kinematics(
        self,
        targets: ArrayLike,
        frames: str | Sequence[str],
        *,
        q0: ArrayLike | None = None,
        rest: ArrayLike | None = None,
        pose_weights: ArrayLike | None = None,
        num_starts: int = 32,
        iterations: int = 20,
        tolerance: tuple[float, float] = (1e-4, 1e-3),
        return_all: bool = False,
        out: tuple[Writable, Writable, Writable] | None = None,
        backend: BackendChoice | None = None,
    ) -> Solutions:
        """Return joint positions within the limits at which frames have target poses.

        One kernel iterates by the Levenberg-Marquardt method from several starts, until one leads
        to a solution. The starts are a sequence of low discrepancy between the position limits;
        those where the frames are nearest to the targets come first. Joints that move no frame
        stay. The result for a target does not depend on the others. A solution also fulfills the
        robot's constraints that are active by default and have a target.

        Args:
            targets:      poses of the frames in the world, homogeneous (B, n, 4, 4) for a list of n
                          frames, (B, 4, 4) for the name of one [1 and m].
            frames:       name of a link (merged links included), or list of names.
            q0:           first start (B, nq) or (nq,), clamped to the limits, for example the last
                          solution of a trajectory [rad or m]; also the position of a floating base
                          in other starts.
            rest:         rest posture (B, nq) or (nq,): motions that do not change the poses lead
                          towards it; the default of ``q0``.
            pose_weights: factors of the position and of the orientation error of each frame, (n, 2)
                          or (B, n, 2), or (2,) for all; 0 omits one. Default: 1.
            num_starts:   most starts, 1 to 128; ``q0`` or ``rest`` is one more.
            iterations:   most iterations from a start.
            tolerance:    largest position error [m] and largest orientation error [rad] of a
                          solution.
            return_all:   return where each start leads. Otherwise the first solution, or without
                          one the positions of least cost.
            out:          arrays for the results; ``success`` then consists of numbers.
            backend:      overrides the robot's.

        Returns:
            a record of ``q`` (B, nq), ``success`` (B,), and ``residual`` (B, 2), the largest
            position error [m] and orientation error [rad] of a frame or a constraint,
            2 sin(angle / 2). With ``return_all`` they have an axis of starts,
            (B, num_starts, ...).

        Raises:
            OptionError: a frame is unknown, or an option is invalid.
            ModelError:  no joint moves a frame.
            ShapeError, DtypeError, DeviceError: an argument is invalid.

        Source: Sugihara 2011.
        """
        settings = SearchSettings(
            q0, rest, pose_weights, num_starts, iterations, tolerance, return_all, out, backend
        )
        return self._searched(targets, frames, settings)


class WholeBody(Calls):
    """Center of mass, momentum and energies."""

    @function(
        "Center of mass",
        ("com",),
        Algorithm(
            "energy.center_of_mass",
            "first moments of composite bodies",
            refusals=("of_no_mass",),
        ),
    )
    def center_of_mass(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Weighted]
    ) -> Array:
        """Return the center of mass in the world.

        Args:
            q:       joint positions (B, nq) [rad or m]

        Returns:
            com: (B, 3) [m]
        """
        return self._call(Request("center_of_mass", (q,), out, options))

    @function(
        "Jacobian of the center of mass",
        ("Jcom",),
        Algorithm(
            "energy.center_of_mass_jacobian",
            "first moments of composite bodies",
            refusals=("of_no_mass",),
        ),
    )
    def center_of_mass_jacobian(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Weighted]
    ) -> Array:
        """Return the Jacobian of the center of mass in the world.

        Returns:
            Jcom: (B, 3, nv)
        """
        return self._call(Request("center_of_mass_jacobian", (q,), out, options))

    @function(
        "Centroidal momentum matrix: joint velocities to momentum about the center of mass",
        ("Ag",),
        Algorithm(
            "centroidal.centroidal_momentum_matrix",
            "momenta of subtrees for unit velocities",
            refusals=("of_no_mass",),
        ),
    )
    def centroidal_momentum_matrix(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Weighted]
    ) -> Array:
        """Return the centroidal momentum matrix Ag: the centroidal momentum is Ag qd.

        Args:
            q:       joint positions (B, nq) [rad or m]

        Returns:
            Ag: (B, 6, nv), linear rows first, about the center of mass in world axes
        """
        return self._call(Request("centroidal_momentum_matrix", (q,), out, options))

    @function(
        "Centroidal momentum in the world",
        ("hg",),
        Algorithm(
            "centroidal.centroidal_momentum",
            "momenta of the bodies, carried to the world origin",
            refusals=("of_no_mass",),
        ),
    )
    def centroidal_momentum(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Weighted],
    ) -> Array:
        """Return the momentum about the center of mass. The world is at rest.

        Args:
            q:       joint positions   (B, nq)  [rad or m]
            qd:      joint velocities  (B, nv)  [rad/s or m/s]

        Returns:
            hg: (B, 6), linear part first, in world axes [kg m/s, kg m^2/s]
        """
        return self._call(Request("centroidal_momentum", (q, qd), out, options))

    @function(
        "Time derivative of the centroidal momentum matrix",
        ("dAg",),
        Algorithm(
            "centroidal.centroidal_momentum_matrix_derivative",
            "rates of the momenta of subtrees for unit velocities",
            refusals=("of_no_mass",),
        ),
        is_default=False,
    )
    def centroidal_momentum_matrix_derivative(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Weighted],
    ) -> Array:
        """Return the time derivative of the centroidal momentum matrix Ag.

        The rate of the momentum is Ag qdd + dAg qd.

        Returns:
            dAg: (B, 6, nv), as Ag of ``centroidal_momentum_matrix``
        """
        return self._call(Request("centroidal_momentum_matrix_derivative", (q, qd), out, options))

    @function(
        "Gradient of the centroidal momentum and of its rate",
        ("dhg_dq", "dhgdot_dq", "dhgdot_dqd"),
        Algorithm(
            "centroidal.centroidal_dynamics_gradient",
            "changes of the wrenches that joints transmit, Singh, Russell and Wensing 2022",
            refusals=("of_no_mass",),
        ),
        is_default=False,
    )
    def centroidal_dynamics_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        out: tuple[Writable, Writable, Writable] | None = None,
        **options: Unpack[Weighted],
    ) -> Results:
        """Return the derivatives of the centroidal momentum and of its rate.

        The rate hgdot = Ag qdd + dAg qd is the sum of all external wrenches about the center of
        mass, gravity included. Its derivative by qdd is Ag. The world is at rest; tangent space as
        in ``inverse_dynamics_gradient``.

        Args:
            q:       joint positions      (B, nq)  [rad or m]
            qd:      joint velocities     (B, nv)  [rad/s or m/s]
            qdd:     joint accelerations  (B, nv)  [rad/s^2 or m/s^2]

        Returns:
            dhg_dq, dhgdot_dq, dhgdot_dqd: (B, 6, nv) each, linear rows first

        Source: Singh, Russell and Wensing 2022.
        """
        gradients: Results = self._call(
            Request("centroidal_dynamics_gradient", (q, qd, qdd), out, options)
        )
        return gradients

    @function(
        "Rotational inertia of the robot about its center of mass",
        ("Ig",),
        Algorithm(
            "centroidal.centroidal_inertia",
            "composite bodies, about the center of mass",
            refusals=("of_no_mass",),
        ),
        is_default=False,
    )
    def centroidal_inertia(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Weighted]
    ) -> Array:
        """Return the rotational inertia of the robot as one rigid body.

        Returns:
            Ig: (B, 3, 3), about the center of mass in world axes [kg m^2]
        """
        return self._call(Request("centroidal_inertia", (q,), out, options))

    @function(
        "Kinetic energy in the world",
        ("energy",),
        Algorithm("energy.kinetic_energy", "sum over the bodies"),
    )
    def kinetic_energy(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Inertial],
    ) -> Array:
        """Return the kinetic energy. The world is at rest.

        Returns:
            energy: (B,) [J]
        """
        return self._call(Request("kinetic_energy", (q, qd), out, options))

    @function(
        "Potential energy, zero for a center of mass at the world origin",
        ("energy",),
        Algorithm("energy.potential_energy", "first moments of composite bodies"),
    )
    def potential_energy(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Heavy]
    ) -> Array:
        """Return the potential energy, zero for a center of mass at the world origin.

        Returns:
            energy: (B,) [J]
        """
        return self._call(Request("potential_energy", (q,), out, options))
