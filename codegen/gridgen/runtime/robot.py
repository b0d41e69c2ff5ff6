"""A robot's functions over batches of states: checks, memory, dispatch to a backend."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gridgen.backends import Backend, Kernel, backend
from gridgen.backends.direct import DirectCall, as_arguments
from gridgen.errors import DeviceError, DtypeError, ModelError, OptionError, ShapeError
from gridgen.runtime.arrays import (
    DTYPES,
    Array,
    address,
    adopt,
    check_dtype,
    in_place_strides,
    is_native,
    on_gpu,
    returner,
)
from gridgen.runtime.description import FunctionShape

if TYPE_CHECKING:
    from gridgen.runtime.module import Module

STANDARD_GRAVITY = (0.0, 0.0, -9.81)
BACKENDS = ("auto", "cpu", "cuda", "emulated")
METHODS = ("auto", "aba", "crba")
SCHEDULES = ("auto", "thread")
# Inputs that may be one vector for the whole batch.
_SHARED = frozenset({"gravity", "base_velocity", "base_acceleration"})
_NO_LOADS = (None, None, None)
_LOADS = ("f_ext", "base_velocity", "base_acceleration")


class _Direct(NamedTuple):
    """A compiled function that reads NumPy arrays itself."""

    call: DirectCall
    kernel: Kernel
    result_shape: tuple[int, ...]
    gravity: Array


class Robot:
    """One robot's dynamics, compiled function by function when first called.

    Arrays hold one state per row, (B, n), with any strides; one state may be given without the
    batch axis, and is answered without it. float32 and float64 are computed as such; all arrays of
    a call share their type. Results have the library and the device of ``q``.

    Args:
        module:  the robot's description and source text.
        backend: ``cpu``, ``cuda`` or ``emulated``; ``auto`` is ``cuda`` for arrays on a GPU,
                 otherwise ``cpu``.
    """

    def __init__(self, module: Module, backend: str = "auto") -> None:
        if backend not in BACKENDS:
            raise OptionError(f'backend is "{backend}"; choose one of {", ".join(BACKENDS)}')
        self._module = module
        self._backend = backend
        self._description = module.description
        self._kernels: dict[tuple[str, str, str], Kernel] = {}
        self._constants: dict[tuple[str, str], Array] = {}
        self._direct: dict[tuple[str, Any], _Direct] = {}

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
        q: Array,
        qd: Array,
        qdd: Array,
        *,
        gravity: Array | None = None,
        f_ext: Array | None = None,
        base_velocity: Array | None = None,
        base_acceleration: Array | None = None,
        schedule: str = "auto",
        backend: str | None = None,
        out: Array | None = None,
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
            schedule:          ``auto`` or ``thread``.
            backend:           overrides the robot's.
            out:               array for the result.

        Returns:
            tau: joint efforts (B, nv) [N m or N]

        Raises:
            ShapeError, DtypeError, DeviceError: an argument does not fit; nothing was computed.

        Source: recursive Newton-Euler, S0 eq. 1 and 2.
        """
        _check_choice("schedule", schedule, SCHEDULES)
        loads = (f_ext, base_velocity, base_acceleration)
        inputs = {"q": q, "qd": qd, "qdd": qdd, "gravity": gravity}
        return self._evaluate("inverse_dynamics", inputs, loads, backend, out)

    def bias_forces(
        self,
        q: Array,
        qd: Array,
        *,
        gravity: Array | None = None,
        f_ext: Array | None = None,
        base_velocity: Array | None = None,
        base_acceleration: Array | None = None,
        schedule: str = "auto",
        backend: str | None = None,
        out: Array | None = None,
    ) -> Array:
        """Return the efforts of Coriolis, centrifugal, gravity and external forces.

        Arguments as in ``inverse_dynamics``, whose result it is for ``qdd`` = 0.

        Returns:
            h: (B, nv) [N m or N]
        """
        _check_choice("schedule", schedule, SCHEDULES)
        inputs = {"q": q, "qd": qd, "gravity": gravity}
        loads = (f_ext, base_velocity, base_acceleration)
        return self._evaluate("bias_forces", inputs, loads, backend, out)

    def forward_dynamics(
        self,
        q: Array,
        qd: Array,
        tau: Array,
        *,
        method: str = "auto",
        gravity: Array | None = None,
        f_ext: Array | None = None,
        base_velocity: Array | None = None,
        base_acceleration: Array | None = None,
        schedule: str = "auto",
        backend: str | None = None,
        out: Array | None = None,
    ) -> Array:
        """Return the joint accelerations that ``tau`` produces.

        Args:
            q:                 joint positions   (B, nq)  [rad or m]
            qd:                joint velocities  (B, nv)  [rad/s or m/s]
            tau:               joint efforts     (B, nv)  [N m or N]
            method:            ``aba`` (articulated bodies), ``crba`` (mass matrix and its
                               factorisation); ``auto`` is ``aba``, or ``crba`` for a robot with
                               mimic joints.
            gravity:           as in ``inverse_dynamics``
            f_ext:             as in ``inverse_dynamics``
            base_velocity:     as in ``inverse_dynamics``
            base_acceleration: as in ``inverse_dynamics``
            schedule:          as in ``inverse_dynamics``
            backend:           as in ``inverse_dynamics``
            out:               as in ``inverse_dynamics``

        Returns:
            qdd: joint accelerations (B, nv) [rad/s^2 or m/s^2]

        Raises:
            ModelError: the mass matrix is singular, or the method does not fit the robot.

        Source: S0 eq. 7 and 8 (``aba``), eq. 6 (``crba``).
        """
        _check_choice("schedule", schedule, SCHEDULES)
        _check_choice("method", method, METHODS)
        if method == "auto":
            method = "aba" if "forward_dynamics_aba" in self._description.functions else "crba"
        inputs = {"q": q, "qd": qd, "tau": tau, "gravity": gravity}
        loads = (f_ext, base_velocity, base_acceleration)
        return self._evaluate(f"forward_dynamics_{method}", inputs, loads, backend, out)

    def mass_matrix(
        self,
        q: Array,
        *,
        schedule: str = "auto",
        backend: str | None = None,
        out: Array | None = None,
    ) -> Array:
        """Return the joint-space inertia matrix, symmetric, both triangles filled.

        Args:
            q:        joint positions (B, nq) [rad or m]
            schedule: ``auto`` or ``thread``.
            backend:  overrides the robot's.
            out:      array for the result.

        Returns:
            M: (B, nv, nv) [kg m^2, kg m or kg]

        Source: composite rigid bodies, Featherstone 2008, chapter 6.
        """
        _check_choice("schedule", schedule, SCHEDULES)
        return self._evaluate("mass_matrix", {"q": q}, _NO_LOADS, backend, out)

    # -- evaluation ---------------------------------------------------------------------------

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the compiled functions behind the methods, as in the C++ files."""
        return tuple(self._description.functions)

    def evaluate(
        self, function: str, arrays: Mapping[str, Array], *, backend: str | None = None
    ) -> Array:
        """Run a function by the name it has in the C++ files.

        Args:
            function: one of ``functions``.
            arrays:   its inputs by name; further entries are ignored.
            backend:  overrides the robot's.
        """
        inputs = {name: arrays[name] for name in self._shapes(function).inputs}
        return self._evaluate(function, inputs, _NO_LOADS, backend, None)

    def _evaluate(
        self,
        function: str,
        inputs: dict[str, Array | None],
        loads: tuple[Array | None, Array | None, Array | None],
        backend_name: str | None,
        out: Array | None,
    ) -> Array:
        """Check the arguments, compile the function if need be, and run it."""
        if not (loads[0] is loads[1] is loads[2] is None):
            function += "_ext"
            inputs.update(zip(_LOADS, loads, strict=True))
        if backend_name is None:
            result = self._evaluate_directly(function, inputs, out)
            if result is not None:
                return result
        shapes = self._shapes(function)
        q = adopt(inputs["q"], "q")
        check_dtype(q, "q")
        batch = q.shape[0] if q.ndim == len(shapes.inputs["q"]) + 1 else None
        arrays = [
            self._argument(name, shape, inputs[name], q, batch)
            for name, shape in shapes.inputs.items()
        ]
        ((result_name, result_shape),) = shapes.outputs.items()
        full_shape = result_shape if batch is None else (batch, *result_shape)
        result, copy_back = _output(out, result_name, full_shape, len(result_shape), q, arrays)
        count = 1 if batch is None else batch
        if count:
            self._run(function, shapes, [*arrays, result], backend_name, q, count)
        if copy_back is not None:
            copy_back[...] = result
        if out is not None:
            return out
        return result if is_native(inputs["q"]) else returner(inputs["q"])(result)

    def _evaluate_directly(
        self, function: str, inputs: dict[str, Array | None], out: Array | None
    ) -> Array | None:
        """Run a compiled function on NumPy arrays that need no adaptation, or return ``None``.

        The compiled code checks types, shapes and strides itself; what it declines, the general
        way examines and explains.
        """
        q = inputs["q"]
        if type(q) is not np.ndarray:
            return None
        entry = self._direct.get((function, q.dtype))
        if entry is None:
            return None
        result = np.empty(q.shape[:-1] + entry.result_shape, q.dtype) if out is None else out
        if inputs.get("gravity", entry) is None:
            inputs["gravity"] = entry.gravity
        arguments = entry.call(*inputs.values(), result)
        if arguments is True:
            return result
        if arguments is None:
            return None
        entry.kernel(as_arguments(arguments), len(q))
        return result

    def _shapes(self, function: str) -> FunctionShape:
        shapes = self._description.functions.get(function)
        if shapes is None:
            why = self._description.refusals.get(
                function,
                "this module was generated without it: run grid-gen again, and see --functions",
            )
            raise ModelError(f"{self.name}: no {function}: {why}")
        return shapes

    def _argument(
        self, name: str, shape: tuple[int, ...], value: Array | None, q: Array, batch: int | None
    ) -> Array:
        """Return one input as an array that a kernel can read, checked against ``q``."""
        if value is None:
            return self._constant(name, shape, q)
        if isinstance(value, (list, tuple)) and name != "q":
            array = _namespace(q).asarray(value, dtype=q.dtype)
        else:
            array = adopt(value, name)
        check_dtype(array, name, q.dtype)
        if on_gpu(array) != on_gpu(q):
            where = ("CPU", "GPU")
            raise DeviceError(
                f"{name} is on the {where[on_gpu(array)]}, q on the {where[on_gpu(q)]}: move one"
            )
        wanted = shape if batch is None else (batch, *shape)
        if array.shape != wanted and not (name in _SHARED and array.shape == shape):
            raise ShapeError(
                f"{name} has shape {array.shape}; {self.name} needs {_wanted(name, shape, batch)}"
            )
        if in_place_strides(array, len(shape)) is None:
            array = _namespace(q).array(array, order="C")
        return array

    def _constant(self, name: str, shape: tuple[int, ...], q: Array) -> Array:
        """Return the default of an input: one state, read by the whole batch."""
        device = q.device.id if on_gpu(q) else "cpu"
        key = (name, f"{device} {DTYPES[q.dtype]}")
        if key not in self._constants:
            default = STANDARD_GRAVITY if name == "gravity" else np.zeros(shape)
            self._constants[key] = _namespace(q).asarray(default, dtype=q.dtype)
        return self._constants[key]

    def _run(
        self,
        function: str,
        shapes: FunctionShape,
        arrays: list[Array],
        backend_name: str | None,
        q: Array,
        batch: int,
    ) -> None:
        arguments = (ctypes.c_int64 * (3 * len(arrays)))()
        axes = [len(shape) for shape in (*shapes.inputs.values(), *shapes.outputs.values())]
        for i, array in enumerate(arrays):
            strides = in_place_strides(array, axes[i])
            assert strides is not None
            arguments[3 * i : 3 * i + 3] = [address(array), *strides]
        self._kernel(function, q, backend_name)(arguments, batch)

    def _kernel(self, function: str, q: Array, backend_name: str | None) -> Kernel:
        chosen = backend_name or self._backend
        if chosen == "auto":
            chosen = "cuda" if on_gpu(q) else "cpu"
        key = (function, DTYPES[q.dtype], chosen)
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._compile(function, q, chosen)
            self._kernels[key] = kernel
            if chosen == "cpu" and self._backend in ("auto", "cpu"):
                self._offer_directly(function, q, kernel)
        elif on_gpu(q) != (chosen == "cuda"):
            raise _wrong_device(chosen)
        return kernel

    def _offer_directly(self, function: str, q: Array, kernel: Kernel) -> None:
        """Note a function that can be called without the general way's checks."""
        call = getattr(kernel, "direct", None)
        if call is not None:
            ((_, shape),) = self._shapes(function).outputs.items()
            gravity = self._constant("gravity", (3,), q)
            self._direct[function, q.dtype] = _Direct(call, kernel, shape, gravity)

    def _compile(self, function: str, q: Array, chosen: str) -> Kernel:
        _check_choice("backend", chosen, BACKENDS)
        if on_gpu(q) != (chosen == "cuda"):
            raise _wrong_device(chosen)
        target: Backend = backend(chosen)
        return target.kernel(self._module.sources(function), function, DTYPES[q.dtype])


def _output(
    out: Array | None,
    name: str,
    shape: tuple[int, ...],
    axes: int,
    q: Array,
    inputs: list[Array],
) -> tuple[Array, Array | None]:
    """Return the array to compute into, and the user's if the result must be copied there."""
    if out is None:
        return _namespace(q).empty(shape, dtype=q.dtype), None
    target = adopt(out, "out")
    if target.shape != shape:
        raise ShapeError(f"out has shape {target.shape}; {name} has {shape}")
    if target.dtype != q.dtype:
        raise DtypeError(f"out has dtype {target.dtype}, q has {q.dtype}: give both the same")
    if on_gpu(target) != on_gpu(q):
        raise DeviceError("out and q are on different devices: move one")
    if not on_gpu(target) and not target.flags.writeable:
        raise DtypeError("out is read-only; give an array that can be written")
    # An input that is overwritten while later states still read it would spoil them.
    xp = _namespace(q)
    overlaps = any(xp.may_share_memory(target, array) for array in inputs)
    if overlaps or in_place_strides(target, axes) is None:
        return xp.empty(shape, dtype=q.dtype), target
    return target, None


def _namespace(array: Array) -> Any:
    """Return the library of an adopted array: NumPy or CuPy."""
    if on_gpu(array):
        import cupy

        return cupy
    return np


def _wanted(name: str, shape: tuple[int, ...], batch: int | None) -> str:
    if batch is None:
        return f"{shape} for one state, as q has no batch axis"
    shared = f" or {shape}" if name in _SHARED else ""
    if name == "q":
        return f"(B, {', '.join(map(str, shape))}) or {shape}"
    return f"{(batch, *shape)}{shared}, as q has {batch} states"


def _wrong_device(chosen: str) -> DeviceError:
    if chosen == "cuda":
        return DeviceError('backend "cuda" needs arrays on the GPU: cupy.asarray(q), ...')
    return DeviceError(f'backend "{chosen}" needs arrays on the CPU: cupy.asnumpy(q), ...')


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise OptionError(f'{option} is "{value}"; choose one of {", ".join(choices)}')
