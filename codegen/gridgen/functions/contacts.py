"""Dynamics with soft contacts, and actuators; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    Controlled,
    Results,
    Sensed,
    Soft,
    Unpack,
    Writable,
)


def _algorithm(name: str) -> Algorithm:
    return Algorithm(
        f"contacts.forward.{name}",
        "MuJoCo's soft constraints, Newton's method, Todorov 2014",
        refusals=("of_no_contacts", "of_a_singular_mass_matrix"),
        in_loops=False,
    )


class ContactDynamics(Calls):
    """Dynamics with soft contacts and actuators."""

    @function(
        "Forward dynamics with soft contacts: joint accelerations and contact forces",
        ("qdd", "contact_forces"),
        _algorithm("contact_forward_dynamics"),
        is_default=False,
        solves=True,
    )
    def contact_forward_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike | None,
        *,
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Soft],
    ) -> Results:
        """Return the joint accelerations of a robot on the ground, and the contact forces.

        The constraints are MuJoCo's: contacts, limits of joints, equality constraints and, for a
        robot with ``joint_dynamics``, dry friction (docs/contacts.md).

        Args:
            q:         joint positions   (B, nq)  [rad or m]
            qd:        joint velocities  (B, nv)  [rad/s or m/s]
            tau:       joint torques     (B, nv)  [N m or N]; ``None`` with ``ctrl``: 0
            out:       arrays for the results.
            friction:  coefficient of each contact's tangents (k,) or (B, k). Default: the file's.
            ctrl:      control of each actuator (nu,) or (B, nu). Default: 0.
            radii:     radius of each contact's shape (k,) or (B, k) [m]. Default: the file's.
            terrain:   height field, a result of ``gridgen.terrain`` (n,) or (B, n), for robots
                       that touch one. Default: that of ``contact``, or of the file.
            tolerance: relative error of the torques at which the iterations end (1,) or (B, 1).
            active:    1 for each equality constraint that holds, 0 for others (k,) or (B, k).

        Returns:
            qdd:            (B, nv) [rad/s^2 or m/s^2]
            contact_forces: (B, p, 3), on each point, in world axes [N]. On a plane, a
                            sphere or an ellipsoid has one point, a capsule two, a cylinder or
                            a box four. A pair has one, or two for capsules with the setting
                            ``parallel``, with the force on its second shape.

        Raises:
            ModelError: the robot has no contacts, or its mass matrix is singular.

        Source: MuJoCo's documentation, chapter Computation; Todorov 2014.
        """
        results: Results = self._call(
            Request("contact_forward_dynamics", (q, qd, tau), out, options)
        )
        return results

    @function(
        "Residual of the accelerations with soft contacts",
        ("torque_error",),
        _algorithm("contact_residual"),
        is_default=False,
        solves=True,
    )
    def contact_residual(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike | None,
        *,
        out: Writable | None = None,
        **options: Unpack[Soft],
    ) -> Array:
        """Return the error of the joint torques at the result of ``contact_forward_dynamics``.

        Iterations end where it is at most ``tolerance``, or ten times that where rounding prevents
        less. Calls on the CPU warn once if they end by their number. It is 1 or more if more pairs
        touch than ``max_pairs`` of the option ``contact``.

        Returns:
            torque_error: |M a - b - J^T f| / sqrt(|b|^2 + |J^T f|^2), b the torques without
                          constraints, in the norm of the inverse diagonal of M (B,) [1]
        """
        return self._call(Request("contact_residual", (q, qd, tau), out, options))

    @function(
        "Joint torques of actuators",
        ("tau",),
        Algorithm(
            "actuators.actuator_torques",
            "MuJoCo's documentation, chapter Computation",
            refusals=("of_no_actuators",),
            in_loops=False,
        ),
        is_default=False,
    )
    def actuator_torques(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Controlled],
    ) -> Array:
        """Return the joint torques of a robot's actuators, MuJoCo's ``qfrc_actuator``.

        ``step``, ``rollout`` and ``contact_forward_dynamics`` add them to ``tau``
        (docs/actuators.md). Other functions take them as ``tau``.

        Args:
            q:       joint positions   (B, nq)  [rad or m]
            qd:      joint velocities  (B, nv)  [rad/s or m/s]
            ctrl:    control of each actuator (nu,) or (B, nu). Default: 0.

        Returns:
            tau: (B, nv) [N m or N]

        Raises:
            ModelError: the robot has no actuators.

        Source: MuJoCo's documentation, chapter Computation.
        """
        return self._call(Request("actuator_torques", (q, qd), out, options))

    @function(
        "Numbers of the sensors",
        ("sensordata",),
        Algorithm(
            "sensors.sensors",
            "MuJoCo's documentation, XML reference, sensor",
            refusals=("of_no_sensors",),
            in_loops=False,
        ),
        is_default=False,
        solves=True,
    )
    def sensors(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike | None = None,
        *,
        out: Writable | None = None,
        **options: Unpack[Sensed],
    ) -> Array:
        """Return the numbers of a robot's sensors, MuJoCo's ``sensordata``.

        ``sensor_slices`` has the place of each sensor (docs/howto/sensors.md). The accelerations
        and contact forces are those of ``step`` at its start. The world is at rest.

        Args:
            q:       joint positions   (B, nq)  [rad or m]
            qd:      joint velocities  (B, nv)  [rad/s or m/s]
            tau:     joint torques     (B, nv)  [N m or N]; by default 0
            ctrl:    control of each actuator (nu,) or (B, nu). Default: 0.

        Returns:
            sensordata: (B, n), in the order of ``sensor_names``. Quaternions are (w, x, y, z) in
                        either convention, and vectors have the axes that MuJoCo's have.

        Raises:
            ModelError: the robot has no sensors.

        Source: MuJoCo's documentation, XML reference, sensor.
        """
        return self._call(Request("sensors", (q, qd, tau), out, options))
