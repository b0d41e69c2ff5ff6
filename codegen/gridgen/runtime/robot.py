"""A robot's functions over batches of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gridgen.errors import OptionError
from gridgen.kernel import KernelKey
from gridgen.naming import show_value
from gridgen.runtime.description import Module
from gridgen.runtime.evaluation import check_choice
from gridgen.runtime.hybrid import HybridDynamics
from gridgen.runtime.kinematics import Kinematics
from gridgen.runtime.libraries import adopt
from gridgen.runtime.types import (
    Array,
    ArrayLike,
    BackendChoice,
    ForwardDynamicsSchedule,
    Method,
    Schedule,
    Writable,
)

#: Schedules of each method of forward dynamics; the first is what ``auto`` means.
FORWARD_DYNAMICS_SCHEDULES = {
    "aba": ("thread", "scan", "hybrid"),
    "crba": ("thread",),
    "jsiia": ("scan",),
    "cfa": ("scan",),
}
#: Schedules of the functions that have both.
SCHEDULES = ("thread", "scan")
#: Velocities of the largest robot whose derivatives one GPU thread computes unasked: beyond,
#: such a program outgrows a thread's registers, and NVRTC's patience (docs/gradients.md).
MOST_OF_A_THREAD = 20


class Robot(Kinematics):
    """One robot's dynamics, compiled function by function when first called.

    Arrays hold one state per row, (B, n), with any strides; one state may be given without the
    batch axis, and is answered without it. float32 and float64 are computed as such; all arrays of
    a call share their type. Results have the library and the device of ``q``, and may overwrite an
    argument. Tensors that require a gradient, traced arrays and masked ones are refused. In every
    function that takes ``q``, a free joint's quaternion within 1e-3 of unit norm is normalised, any
    other refused. Arrays on a GPU are not looked at, for no call shall wait for the device: their
    quaternions must be of unit norm.

    Args:
        module:  the robot's description and source text.
        backend: ``cpu``, ``cuda`` or ``emulated``; ``auto`` is ``cuda`` for arrays on a GPU,
                 otherwise ``cpu``.
    """

    def __init__(self, module: Module, backend: BackendChoice = "auto") -> None:
        super().__init__(module, backend)
        self._hybrid = HybridDynamics(self._evaluator)

    def __repr__(self) -> str:
        base = "floating" if self.floating_base else "fixed"
        return f"<Robot {self.name!r}: {len(self.body_names)} bodies, {base} base, nv = {self.nv}>"

    # -- what is known of the robot -----------------------------------------------------------

    @property
    def name(self) -> str:
        """Name in the URDF."""
        return self._description.name

    @property
    def floating_base(self) -> bool:
        """Whether the root moves freely: q begins with x y z qx qy qz qw."""
        return self._description.floating_base

    @property
    def nq(self) -> int:
        """Number of joint positions."""
        return self._description.nq

    @property
    def nv(self) -> int:
        """Number of joint velocities."""
        return self._description.nv

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Moving joints, in the order of their bodies."""
        return self._description.joint_names

    @property
    def body_names(self) -> tuple[str, ...]:
        """Moving bodies by the link that their joint carries, parents first."""
        return self._description.body_names

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Every link of the URDF, also those merged into a body by a fixed joint."""
        return self._description.frame_names

    @property
    def parents(self) -> tuple[int, ...]:
        """Parent of each body, -1 for the base."""
        return self._description.parents

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Bodies by their distance from the base."""
        return self._description.levels

    @property
    def lower_limits(self) -> tuple[float, ...]:
        """Lower position limits, nq [rad or m]."""
        return self._description.lower_limits

    @property
    def upper_limits(self) -> tuple[float, ...]:
        """Upper position limits, nq [rad or m]."""
        return self._description.upper_limits

    @property
    def effort_limits(self) -> tuple[float, ...]:
        """Effort limits, nv [N m or N]."""
        return self._description.effort_limits

    @property
    def velocity_limits(self) -> tuple[float, ...]:
        """Velocity limits, nv [rad/s or m/s]."""
        return self._description.velocity_limits

    @property
    def total_mass(self) -> float:
        """Mass of all moving bodies [kg]."""
        return self._description.total_mass

    # -- dynamics -----------------------------------------------------------------------------

    def inverse_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        gravity: ArrayLike | None = None,
        f_ext: ArrayLike | None = None,
        base_velocity: ArrayLike | None = None,
        base_acceleration: ArrayLike | None = None,
        schedule: Schedule = "auto",
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the joint efforts that produce ``qdd``.

        Args:
            q:                 joint positions       (B, nq)  [rad or m]
            qd:                joint velocities      (B, nv)  [rad/s or m/s]
            qdd:               joint accelerations   (B, nv)  [rad/s^2 or m/s^2]
            gravity:           free fall             (3,) or (B, 3)  [m/s^2]; (0, 0, -9.81)
            f_ext:             wrench (f, n) on each body at its link frame, in its axes
                                                     (B, n_bodies, 6)  [N, N m]
            base_velocity:     twist (v, w) of the base          (6,) or (B, 6)  [m/s, rad/s]
            base_acceleration: its derivative                    (6,) or (B, 6)
            schedule:          ``thread``, one state for each GPU thread or SIMD lane; ``scan``,
                               one body for each GPU thread, for few states of many bodies;
                               ``auto`` is ``thread``; ``scan`` for derivatives and M^-1 of robots
                               with more than 20 velocities on a GPU.
            backend:           overrides the robot's.
            out:               array for the result.

        Returns:
            tau: joint efforts (B, nv) [N m or N]

        Raises:
            ShapeError, DtypeError, DeviceError: an argument does not fit; nothing was computed.

        Source: recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 1 and 2.
        """
        kernel = _scheduled(KernelKey("inverse_dynamics"), schedule, SCHEDULES)
        inputs = {"q": q, "qd": qd, "qdd": qdd, "gravity": gravity}
        loads = (f_ext, base_velocity, base_acceleration)
        return self._evaluate(kernel, inputs, loads, backend, out)

    def bias_forces(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        gravity: ArrayLike | None = None,
        f_ext: ArrayLike | None = None,
        base_velocity: ArrayLike | None = None,
        base_acceleration: ArrayLike | None = None,
        schedule: Schedule = "auto",
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the efforts of Coriolis, centrifugal, gravity and external forces.

        Arguments as in ``inverse_dynamics``, whose result it is for ``qdd`` = 0.

        Returns:
            h: (B, nv) [N m or N]
        """
        kernel = _scheduled(KernelKey("bias_forces"), schedule, SCHEDULES)
        inputs = {"q": q, "qd": qd, "gravity": gravity}
        loads = (f_ext, base_velocity, base_acceleration)
        return self._evaluate(kernel, inputs, loads, backend, out)

    def forward_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        *,
        method: Method = "auto",
        gravity: ArrayLike | None = None,
        f_ext: ArrayLike | None = None,
        base_velocity: ArrayLike | None = None,
        base_acceleration: ArrayLike | None = None,
        schedule: ForwardDynamicsSchedule = "auto",
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the joint accelerations that ``tau`` produces.

        Args:
            q:                 joint positions   (B, nq)  [rad or m]
            qd:                joint velocities  (B, nv)  [rad/s or m/s]
            tau:               joint efforts     (B, nv)  [N m or N]
            method:            ``aba`` (articulated bodies), ``crba`` (mass matrix and its
                               factorisation), ``jsiia`` (mass matrix from inverse dynamics in
                               parallel), ``cfa`` (constraint forces); ``auto`` is ``aba``, or
                               ``crba`` for a robot with mimic joints.
            gravity:           as in ``inverse_dynamics``
            f_ext:             as in ``inverse_dynamics``
            base_velocity:     as in ``inverse_dynamics``
            base_acceleration: as in ``inverse_dynamics``
            schedule:          as in ``inverse_dynamics``; also ``hybrid`` (``aba`` alone), the
                               inertias on the CPU while the GPU computes the bias efforts
            backend:           as in ``inverse_dynamics``
            out:               as in ``inverse_dynamics``

        Returns:
            qdd: joint accelerations (B, nv) [rad/s^2 or m/s^2]

        Raises:
            ModelError: the mass matrix is singular, or the method does not fit the robot.

        Source: Yang, Wu, Pan (prefix sums) eq. 7 and 8 (``aba``), eq. 6 (``crba``).
        """
        check_choice("method", method, ("auto", *FORWARD_DYNAMICS_SCHEDULES))
        if method == "auto":
            has_aba = KernelKey("forward_dynamics", "aba").name in self._description.functions
            method = "aba" if has_aba else "crba"
        inputs = {"q": q, "qd": qd, "tau": tau, "gravity": gravity}
        loads = (f_ext, base_velocity, base_acceleration)
        of_thread = KernelKey("forward_dynamics", method)
        kernel = _scheduled(of_thread, schedule, FORWARD_DYNAMICS_SCHEDULES[method])
        if kernel.schedule == "hybrid":
            whole = self._loaded(of_thread, inputs, loads)
            return self._hybrid.forward_dynamics(whole, inputs, backend, out)
        return self._evaluate(kernel, inputs, loads, backend, out)

    def mass_matrix(
        self,
        q: ArrayLike,
        *,
        schedule: Schedule = "auto",
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the joint-space inertia matrix, symmetric, both triangles filled.

        Args:
            q:        joint positions (B, nq) [rad or m]
            schedule: as in ``inverse_dynamics``.
            backend:  overrides the robot's.
            out:      array for the result.

        Returns:
            M: (B, nv, nv) [kg m^2, kg m or kg]

        Source: composite rigid bodies, Featherstone 2008, chapter 6.
        """
        kernel = _scheduled(KernelKey("mass_matrix"), schedule, SCHEDULES)
        return self._evaluator.evaluate(kernel.name, {"q": q}, backend, out)

    def mass_matrix_inverse(
        self,
        q: ArrayLike,
        *,
        schedule: Schedule = "auto",
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the inverse of the joint-space inertia matrix, symmetric, both triangles filled.

        Args:
            q:        joint positions (B, nq) [rad or m]
            schedule: as in ``inverse_dynamics``.
            backend:  overrides the robot's.
            out:      array for the result.

        Returns:
            Minv: (B, nv, nv)

        Raises:
            ModelError: the mass matrix is singular.
        """
        kernel = self._scheduled_derivatives(KernelKey("mass_matrix_inverse"), schedule, q, backend)
        return self._evaluator.evaluate(kernel.name, {"q": q}, backend, out)

    def inverse_dynamics_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        gravity: ArrayLike | None = None,
        f_ext: ArrayLike | None = None,
        base_velocity: ArrayLike | None = None,
        base_acceleration: ArrayLike | None = None,
        schedule: Schedule = "auto",
        backend: BackendChoice | None = None,
        out: tuple[Writable, Writable] | None = None,
    ) -> tuple[Array, Array]:
        """Return the derivatives of the joint efforts by positions and velocities, analytically.

        Arguments as in ``inverse_dynamics``. Positions change in the tangent space: for a free
        joint by a displacement in the body's own frame (Pinocchio's convention).

        Returns:
            dtau_dq, dtau_dqd: (B, nv, nv) each, row i the effort i.

        Source: Plancher et al. (GRiD) Algorithm 2; Singh, Russell and Wensing 2022.
        """
        kernel = self._scheduled_derivatives(
            KernelKey("inverse_dynamics_gradient"), schedule, q, backend
        )
        inputs = {"q": q, "qd": qd, "qdd": qdd, "gravity": gravity}
        loads = (f_ext, base_velocity, base_acceleration)
        gradients: tuple[Array, Array] = self._evaluate(kernel, inputs, loads, backend, out)
        return gradients

    def forward_dynamics_gradient(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        *,
        gravity: ArrayLike | None = None,
        f_ext: ArrayLike | None = None,
        base_velocity: ArrayLike | None = None,
        base_acceleration: ArrayLike | None = None,
        schedule: Schedule = "auto",
        backend: BackendChoice | None = None,
        out: tuple[Writable, Writable, Writable] | None = None,
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
        kernel = self._scheduled_derivatives(
            KernelKey("forward_dynamics_gradient"), schedule, q, backend
        )
        inputs = {"q": q, "qd": qd, "tau": tau, "gravity": gravity}
        loads = (f_ext, base_velocity, base_acceleration)
        gradients: tuple[Array, Array, Array] = self._evaluate(kernel, inputs, loads, backend, out)
        return gradients

    def inverse_dynamics_second_order(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        gravity: ArrayLike | None = None,
        f_ext: ArrayLike | None = None,
        base_velocity: ArrayLike | None = None,
        base_acceleration: ArrayLike | None = None,
        schedule: Schedule = "auto",
        backend: BackendChoice | None = None,
        out: tuple[Writable, Writable, Writable, Writable] | None = None,
    ) -> tuple[Array, Array, Array, Array]:
        """Return the second derivatives of the joint efforts, and the derivative of M.

        Arguments as in ``inverse_dynamics``; for robots without free joints.

        Returns:
            d2tau_dqdq, d2tau_dqddqd, d2tau_dqdqd, dM_dq: (B, nv, nv, nv) each, indexed
            [effort, q, q], [effort, qd, qd], [effort, q, qd] and [row, column, q].

        Raises:
            ModelError: the robot has a free joint.
        """
        kernel = self._scheduled_derivatives(
            KernelKey("inverse_dynamics_second_order"), schedule, q, backend
        )
        inputs = {"q": q, "qd": qd, "qdd": qdd, "gravity": gravity}
        loads = (f_ext, base_velocity, base_acceleration)
        cubes: tuple[Array, Array, Array, Array] = self._evaluate(
            kernel, inputs, loads, backend, out
        )
        return cubes

    # -- evaluation ---------------------------------------------------------------------------

    @property
    def functions(self) -> dict[str, str]:
        """The compiled functions behind the methods, by their names in the C++ files.

        A kernel of the scan schedule is listed with the function of the thread schedule that
        computes the same, any other with itself.
        """
        return {
            name: name if shape.scan is None else shape.scan.computes
            for name, shape in self._description.functions.items()
        }

    def evaluate(
        self,
        function: str,
        arrays: Mapping[str, Array],
        *,
        backend: BackendChoice | None = None,
    ) -> Array:
        """Run a function by the name it has in the C++ files.

        Args:
            function: one of ``functions``.
            arrays:   its inputs by name; further entries are ignored.
            backend:  overrides the robot's.

        Raises:
            ModelError:  there is no such function.
            OptionError: ``function`` is no name, or ``arrays`` no mapping.
        """
        if not isinstance(function, str):
            raise OptionError(f"function is {show_value(function)}; give a name (all: functions)")
        if not isinstance(arrays, Mapping):
            raise OptionError(f"arrays is of type {type(arrays).__name__}; give arrays by name")
        inputs = {name: arrays.get(name) for name in self._evaluator.shapes(function).inputs}
        return self._evaluator.evaluate(function, inputs, backend)

    def _evaluate(
        self,
        kernel: KernelKey,
        inputs: dict[str, Array | None],
        loads: tuple[Array | None, Array | None, Array | None],
        backend: str | None,
        out: Array | None,
    ) -> Array:
        """Evaluate a function, with external loads if any is given."""
        kernel = self._loaded(kernel, inputs, loads)
        return self._evaluator.evaluate(kernel.name, inputs, backend, out)

    def _scheduled_derivatives(
        self, function: KernelKey, schedule: str, q: Array, backend: str | None
    ) -> KernelKey:
        """Return the kernel of a function whose straight-line program is long for large robots."""
        kernel = _scheduled(function, schedule, SCHEDULES)
        if schedule == "auto" and self.nv > MOST_OF_A_THREAD:
            target = self._evaluator.target(adopt(q, "q"), backend)
            return _scheduled(function, "scan", SCHEDULES) if target.prefers_teams else kernel
        return kernel

    def _loaded(
        self,
        kernel: KernelKey,
        inputs: dict[str, Array | None],
        loads: tuple[Array | None, Array | None, Array | None],
    ) -> KernelKey:
        """Return the variant of a kernel that the loads take, and add them to its inputs."""
        if loads[0] is loads[1] is loads[2] is None:
            return kernel
        inputs.update(zip(self._description.loads, loads, strict=True))
        return replace(kernel, loaded=True)


def _scheduled(function: KernelKey, schedule: str, choices: tuple[str, ...]) -> KernelKey:
    """Return the kernel that a function has under a schedule."""
    check_choice("schedule", schedule, ("auto", *choices))
    return replace(function, schedule=choices[0] if schedule == "auto" else schedule)
