"""Time integration; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridgen.functions.calls import Calls, Request, RolloutSettings
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    Driven,
    ExplicitIntegrator,
    Integrator,
    Moving,
    NumberLike,
    Results,
    StoreEvery,
    ThreadSchedule,
    Unpack,
    WarpSchedule,
    Writable,
)

#: Integrators: their titles in generated code, and their sources.
_SOURCES = {
    "semi_implicit": (
        "semi-implicit Euler method",
        "semi-implicit Euler method, forward dynamics of articulated bodies",
    ),
    "euler": ("explicit Euler method", "Euler method, forward dynamics of articulated bodies"),
    "rk4": (
        "Runge-Kutta method of order four",
        "Runge-Kutta method of order four, on Lie groups (Munthe-Kaas 1999)",
    ),
    "implicit": (
        "semi-implicit Euler method with implicit damping",
        "semi-implicit Euler method with M + dt D, D the damping",
    ),
    "midpoint": (
        "explicit midpoint method",
        "explicit midpoint method, forward dynamics of articulated bodies",
    ),
    "trapezoidal": (
        "explicit trapezoidal method",
        "Heun's method, forward dynamics of articulated bodies",
    ),
    "constant_acceleration": (
        "constant accelerations during the step",
        "Taylor series of order two, forward dynamics of articulated bodies",
    ),
    "variational": (
        "variational midpoint method",
        "discrete Euler-Lagrange equations of the midpoint rule, Marsden and West 2001",
    ),
}
INTEGRATORS = {name: title for name, (title, _) in _SOURCES.items()}
#: Numbers of evaluations of those that evaluate forward dynamics several times.
MULTI_STAGE = {"midpoint": 2, "trapezoidal": 2, "rk4": 4}
#: Those with Hessians of steps, and with loops.
_EXPLICIT = tuple(name for name in INTEGRATORS if name != "variational")


def _refusals(integrator: str, *others: str) -> tuple[str, ...]:
    of_method = () if integrator in _EXPLICIT else ("of_variational_steps",)
    if integrator == "implicit":
        of_method = ("of_coupled_damping",)
    return ("of_a_singular_mass_matrix", *others, *of_method)


def _schedules(integrator: str) -> tuple[str, ...]:
    """Return the schedules of a step: teams evaluate forward dynamics once."""
    has_teams = integrator not in MULTI_STAGE and integrator != "variational"
    return ("thread", "warp") if has_teams else ("thread",)


class Motion(Calls):
    """Motion in time."""

    @function(
        "Time step: the state after a time with constant joint torques",
        ("q_next", "qd_next"),
        {
            name: Algorithm(
                f"integrators.{name}",
                source,
                _schedules(name),
                _refusals(name),
                title=title,
                in_loops=name in _EXPLICIT,
            )
            for name, (title, source) in _SOURCES.items()
        },
        solves=True,
    )
    def step(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike | None,
        dt: NumberLike,
        *,
        integrator: Integrator = "semi_implicit",
        schedule: WarpSchedule = "auto",
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Moving],
    ) -> Results:
        """Return the state after a time step with constant joint torques.

        Configurations move by ``integrate``: a floating base stays on its manifold, and
        quaternions have unit norm. A robot with constraints has the accelerations of
        ``constrained_forward_dynamics``; with ``active=0``, those without constraints. A robot with
        contacts has those of ``contact_forward_dynamics``. A robot with actuators adds
        ``actuator_torques`` to ``tau``. All inputs are constant during the step.

        Args:
            q:          joint positions   (B, nq)  [rad or m]
            qd:         joint velocities  (B, nv)  [rad/s or m/s]
            tau:        joint torques     (B, nv)  [N m or N]; ``None`` with ``ctrl``: 0
            dt:         length of the step, a number or (B,)  [s]
            integrator: ``semi_implicit``: the new velocities move the configuration. ``euler``:
                        the old velocities do. ``rk4``: Runge-Kutta method of order four, at four
                        times the cost. ``implicit``: ``semi_implicit`` with implicit damping, for
                        stiff damping: M + dt D replaces M. D is ``damping`` or the damping of the
                        URDF, which requires ``joint_dynamics=True``. ``midpoint``: the rates at the
                        middle of the step, ``trapezoidal``: the mean of those at both ends; both of
                        order two, at twice the cost. ``constant_acceleration``: the positions
                        follow the initial accelerations too. ``variational``: the midpoint rule of
                        discrete mechanics, of order two, at eight times the cost: it conserves
                        momenta, and its energy does not drift.
            schedule:   ``thread``, or ``warp`` for integrators that evaluate forward dynamics once.

        Returns:
            q_next:  joint positions at the end of the step   (B, nq)  [rad or m]
            qd_next: joint velocities at the end of the step  (B, nv)  [rad/s or m/s]

        Raises:
            ModelError: the mass matrix is singular.
            Also the errors of ``inverse_dynamics``.
        """
        state: Results = self._call(
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
                _schedules(name),
                _refusals(name, "of_contacts_in_the_world"),
                title=INTEGRATORS[name],
                in_loops=name in _EXPLICIT,
            )
            for name in INTEGRATORS
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
        schedule: WarpSchedule = "auto",
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Moving],
    ) -> Results:
        """Return the analytical derivatives of ``step`` by the state and by the joint torques.

        Changes of a state are vectors x of 2 nv numbers: the ``difference`` of the positions and
        the difference of the velocities. If the state changes by x and the torques by u, the next
        state changes by A x + B u. External wrenches are constant in the link frames. Coulomb
        friction without ``friction_width`` is treated as constant. Those by ``ctrl`` are products
        of ``jvp`` and ``vjp`` of ``step``.

        Derivatives of ``variational`` are exact where its iterations
        converge; robots whose program would exceed 300,000 operations raise ``ModelError``.

        Returns:
            A: (B, 2 nv, 2 nv)
            B: (B, 2 nv, nv)
        """
        found: Results = self._call(
            Request("step_gradient", (q, qd, tau, dt), out, options, schedule, integrator)
        )
        return found

    @function(
        "Hessian of a time step, weighted with a costate",
        ("H",),
        {
            name: Algorithm(
                f"hessians.{name}",
                f"second derivatives along step_{name}, summed before they are formed",
                refusals=_refusals(name, "of_constraints", "of_contacts", "of_actuators"),
                title=INTEGRATORS[name],
                in_loops=name not in MULTI_STAGE,
            )
            for name in _EXPLICIT
        },
        is_default=False,
        solves=True,
        cancels=True,
    )
    def step_hessian(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        dt: NumberLike,
        costate: ArrayLike,
        *,
        integrator: ExplicitIntegrator = "semi_implicit",
        schedule: ThreadSchedule = "auto",
        out: Writable | None = None,
        **options: Unpack[Driven],
    ) -> Array:
        """Return the Hessian of a time step, weighted with a costate.

        Differential dynamic programming needs it: ``costate`` is the gradient of the value function
        at the next state. H is the derivative of the row costate [A B] of ``step_gradient`` by the
        state and the torques. For a free joint it is the symmetric part of that derivative, in
        exponential coordinates of both states: those of ``integrate`` and ``difference``.

        Args:
            costate:    weights of the next state (B, 2 nv): ``difference`` of positions, velocities
            integrator: one of ``step``, without ``variational``. Those that evaluate forward
                        dynamics several times support small robots: of at most 300,000 operations.

        Returns:
            H: (B, 3 nv, 3 nv), symmetric; rows and columns for q, qd and tau.
        """
        return self._call(
            Request("step_hessian", (q, qd, tau, dt, costate), out, options, schedule, integrator)
        )

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
        **options: Unpack[Moving],
    ) -> Results:
        """Return A and B of ``step_gradient`` for every step of trajectories.

        One kernel computes all steps as one batch. To bind such a call, pass the name
        ``step_gradient`` and arrays with the same axes to ``bind``.

        Args:
            q:          joint positions at the start of each step (B, T, nq), or the result of
                        ``rollout`` (B, T + 1, nq)  [rad or m]. For a single trajectory, omit the
                        axis B of all arguments.
            qd:         joint velocities with the same axes  [rad/s or m/s].
            tau:        joint torques of each step (B, T, nv)  [N m or N].
            dt:         length of the steps, a number, (B,) or (B, T)  [s].
            substeps:   integrator steps per step; A and B are the derivatives of the whole step.
            options:    inputs of ``step``, with batch axes (B, ...) or (B, T, ...).

        Returns:
            A: (B, T, 2 nv, 2 nv)
            B: (B, T, 2 nv, nv)

        Raises:
            OptionError: ``substeps`` is not a count.
            Also the errors of ``step``.
        """
        backend = options.pop("backend", None)
        arrays = {"q": q, "qd": qd, "tau": tau, "dt": dt, **options}
        other = {"integrator": integrator, "backend": backend}
        found: Results = self._linearized("rollout_gradient", arrays, other, substeps, out)
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
        tau: ArrayLike | None,
        dt: NumberLike,
        *,
        substeps: int = 1,
        store_every: StoreEvery = 1,
        integrator: Integrator = "semi_implicit",
        feedback: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        effort_limits: bool = False,
        return_efforts: bool = False,
        stop_when: Mapping[str, object] | None = None,
        record: Sequence[str] = (),
        schedule: ThreadSchedule = "auto",
        out: tuple[Writable, ...] | None = None,
        **options: Unpack[Moving],
    ) -> Results:
        """Return the states of trajectories under given joint torques, computed by one kernel.

        The results are bitwise equal to those of repeated calls of ``step``; with ``record``, up
        to rounding. Velocity limits are not enforced, position limits softly for a robot with
        contacts. A trajectory that reaches an infinite or NaN state does not affect others.

        Args:
            q0:            initial joint positions   (B, nq), or with several batch axes
                           [rad or m]
            qd0:           initial joint velocities  (B, nv)  [rad/s or m/s]. ``q0`` and ``qd0``
                           without batch axes apply to the whole batch.
            tau:           joint torques of each of T steps  (B, T, nv), or (T, nv) for the whole
                           batch  [N m or N]
            dt:            length of a step, a number or (B,)  [s]
            substeps:      integrator steps per step, of dt / substeps each, with the same torques.
            store_every:   states to return. A number k that divides T: the initial state and the
                           state after every k steps. ``last``: the final state only.
            feedback:      gains K (nv, 2 nv), reference positions (nq,) and reference velocities
                           (nv,). Each may have an axis T or axes (B, T) in front, with extents 1
                           for broadcasting. The torques are ``tau`` + K x, where x consists of
                           ``difference(q, q_ref)`` and ``qd_ref - qd`` at the start of a step.
            effort_limits: clamp the torques to the robot's ``effort_limits``.
            return_efforts: also return the applied torques, after feedback and clamping.
            stop_when:     ranges beyond which a state ends: (low, high), ``None`` for no bound, for
                           the name of a joint [rad or m] and the ``height`` of a floating base [m];
                           the largest ``tilt`` of its z axis [rad]; the least ``self_distance``
                           [m]. A state is tested before the first step and after every one. When it
                           has ended or is NaN, it does not move any more.
            record:        functions to evaluate at the start of every step, by names as of
                           ``compute``: ``contact_forward_dynamics``, ``self_distance``. Their
                           arguments are q, qd, tau; their results are zero after the end.
            schedule:      ``thread``; ``auto`` selects it.
            out:           output arrays, with any strides.
            options:       inputs of ``step``. Arrays with a batch axis may have an axis T after it,
                           except the robot's parameters: ``active`` is (k,), (B, k), or (B, T, k)
                           or (1, T, k) for a schedule of contacts. ``ctrl`` has the axes of
                           ``tau``, or none.

        Returns:
            q_path:   joint positions   (B, T / k + 1, nq); (B, nq) for ``last``  [rad or m]
            qd_path:  joint velocities  (B, T / k + 1, nv); (B, nv) for ``last``  [rad/s or m/s]
            tau_path: applied torques   (B, T, nv)  [N m or N], with ``return_efforts``
            ends:     with ``stop_when``, steps until a state ended, T + 1 if it did not  (B,)
            then the results of each function of ``record``, (B, T, ...).

        Raises:
            OptionError: ``substeps``, ``store_every``, ``feedback``, ``stop_when`` or ``record`` is
                invalid.
            Also the errors of ``step``.
        """
        settings = RolloutSettings(
            substeps, store_every, feedback, effort_limits, return_efforts, stop_when, record
        )
        path: Results = self._call(
            Request(
                "rollout", (q0, qd0, tau, dt), out, options, schedule, integrator, settings=settings
            )
        )
        return path
