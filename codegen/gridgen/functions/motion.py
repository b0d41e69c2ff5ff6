"""Motion in time; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from gridgen.functions.calls import Calls, Request, RolloutSettings
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    Driven,
    Integrator,
    Keep,
    NumberLike,
    ThreadSchedule,
    Unpack,
    Writable,
)

#: Integrators as generated text names them.
INTEGRATORS = {
    "semi_implicit": "semi-implicit Euler method",
    "euler": "explicit Euler method",
    "rk4": "Runge-Kutta method of order four",
    "implicit": "semi-implicit Euler method with implicit damping",
}
_REFUSALS = ("of_a_singular_mass_matrix",)


class Motion(Calls):
    """Motion in time."""

    @function(
        "Time step: the state after a time with constant joint torques",
        ("q_next", "qd_next"),
        {
            "semi_implicit": Algorithm(
                "integrators.semi_implicit",
                "semi-implicit Euler method, forward dynamics of articulated bodies",
                refusals=_REFUSALS,
                title=INTEGRATORS["semi_implicit"],
            ),
            "euler": Algorithm(
                "integrators.euler",
                "Euler method, forward dynamics of articulated bodies",
                refusals=_REFUSALS,
                title=INTEGRATORS["euler"],
            ),
            "rk4": Algorithm(
                "integrators.rk4",
                "Runge-Kutta method of order four, on Lie groups (Munthe-Kaas 1999)",
                refusals=_REFUSALS,
                title=INTEGRATORS["rk4"],
            ),
            "implicit": Algorithm(
                "integrators.implicit",
                "semi-implicit Euler method with M + dt D, D the damping",
                refusals=_REFUSALS,
                title=INTEGRATORS["implicit"],
            ),
        },
        solves=True,
    )
    def step(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        dt: NumberLike,
        *,
        integrator: Integrator = "semi_implicit",
        schedule: ThreadSchedule = "auto",
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Driven],
    ) -> tuple[Array, Array]:
        """Return the state after a time step in which the efforts stay what they are.

        The configuration moves along a velocity as in ``integrate``: a floating base stays on its
        manifold, quaternions keep unit norm.

        Args:
            q:          joint positions   (B, nq)  [rad or m]
            qd:         joint velocities  (B, nv)  [rad/s or m/s]
            tau:        joint efforts     (B, nv)  [N m or N]
            dt:         length of the step, a number or (B,)  [s]
            integrator: ``semi_implicit``, the new velocities move the configuration; ``euler``,
                        the old ones do; ``rk4``, of order four, with four times the work;
                        ``implicit``, as ``semi_implicit`` with the damping of the new velocities,
                        which may be stiff: M + dt D takes the place of M. D is that of the URDF,
                        which counts with ``joint_dynamics=True``, or ``damping``.
            schedule:   ``thread``, which is what ``auto`` means.
            out:        arrays for the results.
            options:    as in ``inverse_dynamics``: gravity, wrenches and the base's motion stay
                        what they are during the step.

        Returns:
            q_next:  joint positions at the end   (B, nq)
            qd_next: joint velocities at the end  (B, nv)

        Raises:
            ModelError: the mass matrix is singular.
            others as ``inverse_dynamics``.
        """
        state: tuple[Array, Array] = self._call(
            Request("step", (q, qd, tau, dt), out, options, schedule, integrator)
        )
        return state

    @function(
        "Linearization of a time step by the state and the joint torques",
        ("A", "B"),
        {
            name: Algorithm(
                f"linearization.{name}",
                f"chain rule along step_{name}",
                refusals=_REFUSALS,
                title=title,
            )
            for name, title in INTEGRATORS.items()
        },
        is_default=False,
        solves=True,
    )
    def step_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        dt: NumberLike,
        *,
        integrator: Integrator = "semi_implicit",
        schedule: ThreadSchedule = "auto",
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Driven],
    ) -> tuple[Array, Array]:
        """Return the derivatives of ``step`` by the state and by the efforts, analytically.

        States differ by x = (``difference`` of positions, difference of velocities), 2 nv numbers:
        the state at the end of a step changes by A x + B u, where the one at its beginning changes
        by x and the efforts by u. Wrenches stay what they are in the frames of their links; Coulomb
        friction counts as constant.

        Arguments and errors as in ``step``.

        Returns:
            A: (B, 2 nv, 2 nv)
            B: (B, 2 nv, nv)
        """
        found: tuple[Array, Array] = self._call(
            Request("step_gradient", (q, qd, tau, dt), out, options, schedule, integrator)
        )
        return found

    @function(results=("A", "B"), in_time=True)
    def rollout_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        dt: NumberLike,
        *,
        substeps: int = 1,
        integrator: Integrator = "semi_implicit",
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Driven],
    ) -> tuple[Array, Array]:
        """Return A and B of ``step_gradient`` for every step of trajectories.

        All steps are one batch of one kernel. ``bind`` takes ``step_gradient``, with the same axes.

        Args:
            q:          joint positions at the beginning of each step (B, T, nq), or as ``rollout``
                        returns them (B, T + 1, nq); without B for one trajectory, as all others.
            qd:         joint velocities likewise.
            tau:        joint efforts of each step (B, T, nv).
            dt:         length of the steps, a number, (B,) or (B, T).
            substeps:   as in ``rollout``: derivatives of each step, through all of its parts.
            integrator: as in ``step``.
            out:        arrays for the results.
            options:    as in ``step``, with a batch axis (B, ...) or (B, T, ...).

        Returns:
            A: (B, T, 2 nv, 2 nv)
            B: (B, T, 2 nv, nv)

        Raises:
            OptionError: ``substeps`` is no count.
            others as ``step``.
        """
        backend = options.pop("backend", None)
        arrays = {"q": q, "qd": qd, "tau": tau, "dt": dt, **options}
        kept = {"integrator": integrator, "backend": backend}
        found: tuple[Array, Array] = self._linearized(
            "rollout_gradient", arrays, kept, substeps, out
        )
        return found

    @function(
        "Rollout: the states of a trajectory",
        ("q_path", "qd_path"),
        {
            name: Algorithm(source=f"as step_{name}, from state to state", title=title)
            for name, title in INTEGRATORS.items()
        },
        solves=True,
    )
    def rollout(
        self,
        q0: ArrayLike,
        qd0: ArrayLike,
        tau: ArrayLike,
        dt: NumberLike,
        *,
        substeps: int = 1,
        keep: Keep = "all",
        integrator: Integrator = "semi_implicit",
        feedback: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        effort_limits: bool = False,
        return_efforts: bool = False,
        schedule: ThreadSchedule = "auto",
        out: tuple[Writable, ...] | None = None,
        **options: Unpack[Driven],
    ) -> tuple[Array, ...]:
        """Return the states that efforts lead to, step by step, computed by one kernel.

        The numbers are those of ``step``, called again and again, bit for bit. Limits of positions
        and velocities are not enforced: joints move on through them. A state that becomes infinite
        or NaN stays so, and reaches no other.

        Args:
            q0:            joint positions at the beginning   (B, nq), or with more axes in place of
                           B  [rad or m]
            qd0:           joint velocities at the beginning  (B, nv)  [rad/s or m/s]; as of ``q0``,
                           one for all states where another array has B
            tau:           joint efforts of each of T steps   (B, T, nv), or (T, nv) for all states
                           [N m or N]
            dt:            time of a step, a number or (B,)  [s]
            substeps:      so many steps of the integrator, of dt / substeps each and with the same
                           efforts, make one step.
            keep:          ``all``, the beginning and the state after every step; ``last``, that
                           after the last step; a number k, the beginning and every k-th state,
                           where k divides T.
            integrator:    as in ``step``.
            feedback:      gains K (nv, 2 nv), positions (nq,) and velocities (nv,) to be followed,
                           each of them also with T in front, and (B, T) before that, where 1 stands
                           for B or T: ``tau`` + K x is applied, where x has the
                           ``difference(q, q_ref)`` and ``qd_ref - qd`` at the beginning of a step.
            effort_limits: clamp what is applied to the robot's ``effort_limits``.
            return_efforts: return the efforts, too, that are applied, by a controller or clamped.
            schedule:      ``thread``, which is what ``auto`` means.
            out:           arrays for the results, of any strides.
            options:       as in ``inverse_dynamics``; those with a batch axis may have T behind it,
                           but for ``params``, ``armature`` and ``damping``.

        Returns:
            q_path:  joint positions   (B, T + 1, nq); (B, nq) for the ``last``
            qd_path: joint velocities  (B, T + 1, nv); (B, nv)
            tau_path, if it is asked for: joint efforts  (B, T, nv), whatever is kept

        Raises:
            OptionError: ``substeps``, ``keep`` or ``feedback`` make no sense.
            others as ``step``.
        """
        course = RolloutSettings(substeps, keep, feedback, effort_limits, return_efforts)
        path: tuple[Array, ...] = self._call(
            Request(
                "rollout", (q0, qd0, tau, dt), out, options, schedule, integrator, course=course
            )
        )
        return path
