"""Regressors of inertial parameters; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    InGravity,
    OnBase,
    Options,
    Results,
    Unpack,
    Writable,
)


class Regressors(Calls):
    """Regressors: joint torques and energies as linear functions of the inertial parameters."""

    @function(
        "Regressor of inverse dynamics: tau = Y times the inertial parameters",
        ("Y",),
        Algorithm(
            "regressor.joint_torque_regressor",
            "wrenches of single parameters along the joints' axes, Atkeson, An and Hollerbach 1986",
        ),
        is_default=False,
    )
    def joint_torque_regressor(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[OnBase],
    ) -> Array:
        """Return the regressor of inverse dynamics: tau = Y params.

        Each body has ten parameters: mass m, first moment m c (3), and Ixx, Ixy, Iyy, Ixz, Iyz, Izz
        about the origin of the link frame, in its axes, as in Pinocchio. Bodies are in the order of
        ``body_names`` and include the links on fixed joints. Y params excludes damping, friction,
        armature and external wrenches.

        Args:
            q:       joint positions       (B, nq)  [rad or m]
            qd:      joint velocities      (B, nv)  [rad/s or m/s]
            qdd:     joint accelerations   (B, nv)  [rad/s^2 or m/s^2]

        Returns:
            Y: (B, nv, 10 n_bodies), row i is for joint torque i; zero for bodies that joint i does
            not move

        Source: Atkeson, An and Hollerbach 1986.
        """
        return self._call(Request("joint_torque_regressor", (q, qd, qdd), out, options))

    @function(
        "Gradient of the regressor of inverse dynamics",
        ("dY_dq", "dY_dqd", "dY_dqdd"),
        Algorithm(
            "regressor.joint_torque_regressor_gradient",
            "changes of the wrenches of single parameters along the joints' axes",
        ),
        is_default=False,
    )
    def joint_torque_regressor_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        out: tuple[Writable, Writable, Writable] | None = None,
        **options: Unpack[OnBase],
    ) -> Results:
        """Return the derivatives of Y by positions, velocities and accelerations.

        The tangent space is that of ``inverse_dynamics_gradient``. For the gradient of a
        number that depends on Y, such as the cost of an exciting trajectory, ``vjp`` of
        ``joint_torque_regressor`` costs far less.

        Returns:
            dY_dq, dY_dqd, dY_dqdd: (B, nv, 10 n_bodies, nv) each, [torque, parameter, direction].
        """
        gradients: Results = self._call(
            Request("joint_torque_regressor_gradient", (q, qd, qdd), out, options)
        )
        return gradients

    @function(
        "Regressors of the generalized momentum M qd and of its rate",
        ("Yp", "Yr"),
        Algorithm(
            "regressor.momentum_regressor",
            "momenta of single parameters along the joints' axes and along their rates",
        ),
        is_default=False,
    )
    def momentum_regressor(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[InGravity],
    ) -> Results:
        """Return the regressors of the generalized momentum M qd and of its rate.

        The momentum is Yp params. Its derivative in time is tau + Yr params, with Yr params =
        C^T qd - g, the Coriolis matrix C and the torques of gravity g. Neither reads accelerations:
        momentum observers, identification and adaptive control integrate Yr instead. The world is
        at rest. The parameters are those of ``joint_torque_regressor``; damping, friction, armature
        and external wrenches count as parts of tau.

        Args:
            q:       joint positions   (B, nq)  [rad or m]
            qd:      joint velocities  (B, nv)  [rad/s or m/s]

        Returns:
            Yp, Yr: (B, nv, 10 n_bodies) each
        """
        regressors: Results = self._call(Request("momentum_regressor", (q, qd), out, options))
        return regressors

    @function(
        "Regressor of the kinetic energy in the world",
        ("y",),
        Algorithm("regressor.kinetic_energy_regressor", "energies of single parameters"),
        is_default=False,
    )
    def kinetic_energy_regressor(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the regressor of the kinetic energy: energy = y params. The world is at rest.

        The parameters are those of ``joint_torque_regressor``; y params excludes the energy
        of armatures.

        Args:
            q:       joint positions   (B, nq)  [rad or m]
            qd:      joint velocities  (B, nv)  [rad/s or m/s]
            options: ``backend``.

        Returns:
            y: (B, 10 n_bodies)
        """
        return self._call(Request("kinetic_energy_regressor", (q, qd), out, options))

    @function(
        "Regressor of the potential energy",
        ("y",),
        Algorithm("regressor.potential_energy_regressor", "energies of single parameters"),
        is_default=False,
    )
    def potential_energy_regressor(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[InGravity]
    ) -> Array:
        """Return the regressor of the potential energy: energy = y params.

        The parameters are those of ``joint_torque_regressor``, the energy is zero for a center of
        mass at the world origin.

        Args:
            q:       joint positions (B, nq) [rad or m]

        Returns:
            y: (B, 10 n_bodies)
        """
        return self._call(Request("potential_energy_regressor", (q,), out, options))
