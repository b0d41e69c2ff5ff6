"""A robot's functions over batches of states."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import OptionError
from gridgen.frameworks import (
    answer_traced,
    is_differentiated,
    is_transformed,
    register_operators,
    torch_calls,
)
from gridgen.frameworks.trajectories import linearized
from gridgen.functions import (
    COMPILED,
    FUNCTIONS,
    CompiledName,
    Declared,
    FunctionName,
)
from gridgen.functions.arrays import BEGINNING_AND_TORQUES
from gridgen.functions.calls import Request, RolloutSettings, SearchSettings, Solutions
from gridgen.functions.types import (
    Array,
    ArrayLike,
    BackendChoice,
    Driven,
    Dtype,
    Integrator,
    NumberLike,
    StoreEvery,
    Unpack,
)
from gridgen.functions.worlds import as_world
from gridgen.kernel import Kernel
from gridgen.naming import check_choice, hint, show_value
from gridgen.runtime import configurations
from gridgen.runtime.arrays.layout import DTYPES, array_like
from gridgen.runtime.calls.bound import Binder, Bound
from gridgen.runtime.calls.compiled import check_batch, warm_up
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.calls.products import Products
from gridgen.runtime.calls.resolved import Evaluation, Resolved
from gridgen.runtime.calls.resolver import Resolver
from gridgen.runtime.calls.search import solutions
from gridgen.runtime.configurations import path_free
from gridgen.runtime.exports import Drawn, Exported
from gridgen.runtime.module.description import Keyframe, Module, register
from gridgen.runtime.module.files import FolderModule
from gridgen.runtime.planning.devices import place_named
from gridgen.runtime.planning.planner import Plan
from gridgen.runtime.planning.tune import BATCHES, Tuned, TunedDevice, TuneSelection, tune


class Robot(Declared, Drawn, Exported):
    """A robot's functions, each compiled at its first call.

    Arrays hold one state per row, (B, n), with any strides; any number of leading axes, (..., n),
    including none, is valid. Leading axes of all arguments broadcast as in NumPy, so one argument
    can serve all states. All arrays of a call share one element type, float32 or float64. Results
    have the library and the device of ``q``, and may overwrite an argument.

    Calls that PyTorch or JAX transforms become differentiable operations of that framework. Masked
    arrays raise DtypeError. Every function of ``q`` normalizes quaternions within 1e-3 of unit
    norm; any other raises QuaternionError. GPU arrays are not validated: that would synchronize the
    device. Their quaternions must have unit norm.

    ``gridgen.functions`` declares the functions.

    Args:
        module:  the robot's description and source text.
        backend: ``cpu``, ``cuda`` or ``emulated``; ``auto`` is ``cuda`` for arrays on a GPU,
                 otherwise ``cpu``.
    """

    def __init__(self, module: Module, backend: BackendChoice = "auto") -> None:
        self._module, self._description = module, module.description
        self._backend = backend
        evaluator = self._evaluator = Evaluator(module, backend, traced=answer_traced)
        #: Finds the kernels of calls.
        self.resolver = Resolver(module, evaluator)
        self._binder = Binder(module, evaluator)
        self._products = Products(module, evaluator, self.resolver)
        self._evaluations: dict[Evaluation, Callable[[Resolved], Any]] = {
            "kernel": evaluator.evaluate,
            "frames": evaluator.evaluate_frames,
        }
        #: Name of the robot in a framework's graphs: its name and a digest of its functions.
        self.handle = self._describe_shortly()
        register(self)
        register_operators()

    def _describe_shortly(self) -> str:
        kernels = self._module.kernels.identity
        unchecked = () if self._description.parameters.are_checked else ("unchecked",)
        text = "\n".join((self._description.digest, self._backend, *unchecked, kernels))
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without the compiled functions: the copy loads them from the cache."""
        arguments = (self._module, self._backend)
        own = vars(type(self)(*arguments))
        return type(self), arguments, {k: v for k, v in vars(self).items() if k not in own}

    def __repr__(self) -> str:
        base = "floating base" if self.floating_base else "fixed base"
        if more := len(self._description.space.free) - self.floating_base:
            base += f" and {more} free joint{'s' * (more > 1)}"
        return f"<Robot {self.name!r}: {len(self.body_names)} bodies, {base}, nv = {self.nv}>"

    def __getattr__(self, name: str) -> Any:
        """Raise for an unknown attribute: the message knows the names of other libraries."""
        near = "" if name.startswith("_") else hint(name, dir(type(self)))
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(f"{message}; {near}" if near else message, name=name, obj=self)

    # -- description of the robot -------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the robot in its file."""
        return self._description.name

    @property
    def floating_base(self) -> bool:
        """Whether the first body is on a free joint, of the file or of ``floating_base=True``.

        Then q begins with x y z qx qy qz qw, unless ``order`` puts other joints first.
        """
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
    def nu(self) -> int:
        """Number of controls: of the actuators."""
        return len(self.actuator_names)

    @property
    def keyframes(self) -> dict[str, Keyframe]:
        """Keyframes of an MJCF file by name, with ``q``, ``qd`` and ``ctrl`` of the robot.

        One without a name is ``key2``, with its index in the file.
        """
        return {
            name: Keyframe(**{kind: np.array(numbers, float) for kind, numbers in values.items()})
            for name, values in self._description.keyframes.items()
        }

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the moving joints, in the order of their bodies."""
        return self._description.joint_names

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the moving bodies, parents first: each is the link that a joint moves."""
        return self._description.body_names

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Every link of the file, including links merged into a body by a fixed joint."""
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
    def lower_limits(self) -> NDArray[np.float64]:
        """Lower position limits, (nq,) [rad or m]."""
        return np.array(self._description.lower_limits)

    @property
    def upper_limits(self) -> NDArray[np.float64]:
        """Upper position limits, (nq,) [rad or m]."""
        return np.array(self._description.upper_limits)

    @property
    def effort_limits(self) -> NDArray[np.float64]:
        """Effort limits, (nv,) [N m or N]."""
        return np.array(self._description.effort_limits)

    @property
    def velocity_limits(self) -> NDArray[np.float64]:
        """Velocity limits, (nv,) [rad/s or m/s]."""
        return np.array(self._description.velocity_limits)

    @property
    def total_mass(self) -> float:
        """Mass of all moving bodies [kg]."""
        return self._description.total_mass

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Links, or moving bodies, with a row of ``params``, in the order of rows."""
        return self._description.parameters.names

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """Names of the constraints, in the order of ``active``."""
        return self._description.constraint_names

    @property
    def contact_names(self) -> tuple[str, ...]:
        """Names of the contacts, in the order of ``friction``."""
        return self._description.contact_names

    @property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the actuators, in the order of ``ctrl``."""
        return self._description.actuator_names

    @property
    def sensor_names(self) -> tuple[str, ...]:
        """Names of the sensors, in the order of their numbers."""
        return tuple(name for name, _ in self._description.sensors)

    @property
    def sensor_slices(self) -> dict[str, slice]:
        """Place of each sensor's numbers in the results of ``sensors``, by name."""
        sizes = [size for _, size in self._description.sensors]
        ends = itertools.accumulate(sizes)
        return {
            name: slice(end - size, end)
            for name, size, end in zip(self.sensor_names, sizes, ends, strict=True)
        }

    @property
    def sphere_links(self) -> tuple[str, ...]:
        """Link of each sphere, in the order of ``sphere`` of ``world_distance``."""
        return self._description.sphere_links

    @property
    def self_collision_pairs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of links that may touch, in the order of ``pair`` of ``self_distance``."""
        return self._description.self_collision_pairs

    def path_free(self, paths: ArrayLike, world: Any = None, margin: NumberLike = 0.0) -> Array:
        """Return whether all configurations of paths are free, as ``collision_free`` tests them.

        Few points of each path are tested first, then those between them on the paths that are
        still free. Small batches, and arrays of JAX, are tested at once. Waits for a GPU.

        Args:
            paths:  joint positions along each path (B, T, nq) [rad or m]
            world:  obstacles of all paths or of each: a result of ``gridgen.world``, or a
                    dictionary of its arguments.
            margin: least distance, one number or (B,) [m].

        Returns:
            free: (B,) bool, whether no configuration of the path collides.

        Raises:
            ModelError:  the robot was loaded without spheres.
            OptionError: obstacles have another shape.
            ShapeError:  an array has another shape.
        """
        return path_free(self.collision_free, paths, as_world(world, paths), margin)

    def parameters(self, name: str = "params") -> NDArray[np.float64]:
        """Return the default of an input: the numbers of the file, or those of the options.

        Args:
            name: ``params`` (n, 10), rows in the order of ``parameter_names``; ``armature``,
                  ``damping`` or ``joint_friction`` (nv,); for constraints, ``active``,
                  ``compliance``, ``proximal``, ``restitution`` or ``weights`` (k,), or
                  ``stabilization`` (k, 2) and ``offsets`` (k, 4, 4).

        Raises:
            OptionError: the robot was loaded without it in ``parameters``.
        """
        return self._description.parameters.default(name)

    def check_parameters(self, params: Array) -> None:
        """Raise unless every row has the mass and inertia of some body, or the file's values.

        Calls with arrays on the CPU run this check, unless the robot was loaded with
        ``check_parameters=False``. GPU arrays are copied to the host.

        Args:
            params: inertial parameters, (n, 10) or (B, n, 10).

        Raises:
            ParameterError: a row is not physically valid; the message names its index.
            ShapeError:     the number of rows is not the number of links.
            DtypeError:     the elements are neither float32 nor float64.
            OptionError:    the robot takes no ``params``.
        """
        self._description.parameters.default("params")
        self._description.parameters.check(params, is_requested=True)

    # -- calls --------------------------------------------------------------------------------

    @property
    def functions(self) -> dict[str, str]:
        """The compiled functions behind the methods, by their names in the C++ files.

        Each kernel maps to the kernel of the thread schedule that computes the same result, which
        a generated module may lack.
        """
        return {name: kernel.same.name for name, kernel in self.kernels.items()}

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The records of these functions, by the same names."""
        return self._module.kernels.by_name

    def _call(self, request: Request) -> Any:
        arrays = request.arrays
        if type(arrays[0]) is np.ndarray:
            if request.settings is None:
                found = self._evaluator.repeated(request)
                if found is not None:
                    return found
        elif is_transformed(arrays[0], (*arrays[1:], *request.options.values())):
            return torch_calls().call(self, request)
        return self._run(self.resolver.resolve(request))

    def _run(self, resolved: Resolved) -> Any:
        """Compute a call."""
        return self._evaluations[resolved.evaluation](resolved)

    def _linearized(
        self, function: str, arrays: dict[str, Any], options: Any, substeps: int, out: Any
    ) -> Any:
        row = FUNCTIONS[function]
        others = {name: value for name, value in arrays.items() if name not in row.arguments}
        self.resolver.check_known(row, others)
        given = {n: value for n, value in arrays.items() if value is not None or n in row.arguments}
        step, gradient = partial(self.step, **options), partial(self.step_gradient, **options)
        return linearized(self._description, step, gradient, given, substeps, out)

    def _searched(self, targets: Any, frames: Any, settings: SearchSettings) -> Solutions:
        resolved = self.resolver.resolve_search(targets, frames, settings)
        if is_differentiated(settings.q0 if frames is None else targets):
            return solutions(torch_calls().search(self, resolved))
        return solutions(self._run(resolved))

    def _configuration(self, function: str, like: Array | None, *others: Any) -> Array:
        q = getattr(configurations, function)(self._description.space, *others)
        return q if like is None else array_like(q, like)

    def compute(
        self,
        functions: Sequence[str],
        *arrays: ArrayLike,
        out: Sequence[Any] | None = None,
        **options: Unpack[Driven],
    ) -> Any:
        """Return the results of several functions from one kernel, with common terms computed once.

            M, h, J = robot.compute(("mass_matrix", "bias_forces", "jacobian:hand"), q, qd)

        Args:
            functions: names of functions. A colon separates a name from its further arguments:
                       the link and the reference of ``jacobian`` and ``jacobian_dot_qd``, the link
                       of ``forward_kinematics``, or the method of ``forward_dynamics``.
            arrays:    the arguments of these functions, each once, in the order q, qd, qdd, tau.
            out:       an entry for each function, of the form that the function itself takes.
            options:   keyword arguments of any of the functions, such as ``gravity``, and
                       ``backend``.

        Returns:
            a named tuple with the result of each function, in the order of ``functions``. The
            entry of a function with several results is a tuple of arrays.

        Raises:
            OptionError: a function is unknown or given twice; arrays are missing or too many.
            ModelError:  the robot does not support a function, or the module lacks it.
            Also the errors of the functions.
        """
        keywords = cast("dict[str, Any]", options)
        if arrays and is_transformed(arrays[0], (*arrays[1:], *keywords.values())):
            return torch_calls().compute(self, functions, arrays, out, keywords)
        return self._run(self.resolver.resolve_fused(functions, arrays, out, keywords))

    def evaluate(
        self,
        function: str,
        arrays: Mapping[str, Array],
        *,
        backend: BackendChoice | None = None,
    ) -> Array:
        """Run a function by its name in the C++ files.

        Args:
            function: one of ``functions``.
            arrays:   the inputs of the function by name; other entries have no effect.
            backend:  overrides the robot's backend.

        Returns:
            the result, or a tuple of arrays for several.

        Raises:
            ModelError:  the function does not exist.
            OptionError: ``function`` is not a string, or ``arrays`` is not a mapping.
        """
        if not isinstance(function, str):
            raise OptionError(f"function is {show_value(function)}; give a name (all: functions)")
        if not isinstance(arrays, Mapping):
            raise OptionError(f"arrays is of type {type(arrays).__name__}; give arrays by name")
        kernel = self._module.kernels.named(function)
        inputs = {name: arrays.get(name) for name in kernel.inputs}
        if kernel.is_over_time and kernel.key.wrt:
            return self._products.rollout(kernel, arrays, backend)
        settings = RolloutSettings() if kernel.is_over_time else None
        return self._run(Resolved(kernel, inputs, backend, None, settings))

    def plan(
        self,
        function: FunctionName | list[str] | tuple[str, ...],
        *,
        batch: int,
        device: str = "cpu",
        dtype: Dtype = "float32",
        frame: str | Sequence[str] | None = None,
        reference: str = "local",
    ) -> Plan:
        """Explain which schedule and method ``auto`` selects for a call.

        The plan prints as a table of all candidates with their times: those of ``tune`` where it
        was called on the device; otherwise, for a GPU, predictions from operation counts and
        published figures. Nothing is compiled or run.

        Args:
            function:  name of a function, such as ``forward_dynamics``; or a list, as of
                       ``compute``.
            batch:     number of states, at least 1.
            device:    ``cpu``, this machine's; ``cuda``, the current GPU; or the architecture of
                       any GPU, such as ``sm_90``.
            dtype:     ``float32`` or ``float64``.
            frame:     name of a link, or a list of names, for functions of a frame.
            reference: the axes that represent the result.

        Returns:
            the chosen kernel, all candidates and the reason.

        Raises:
            OptionError: an argument is not one of the choices.
            ModelError:  the robot does not support the function.
            DeviceError: ``device`` is ``cuda`` and no GPU is available.
        """
        row, key = self.resolver.planned_key(function, frame, reference)
        check_choice("dtype", dtype, tuple(DTYPES.values()))
        check_batch(batch)
        if not isinstance(device, str):
            raise OptionError(f"device is {show_value(device)}; give cpu or sm_90, for example")
        return self._evaluator.planner.plan(key, row, batch, place_named(device), dtype)

    def tune(
        self,
        *,
        device: TunedDevice = "cuda",
        functions: Sequence[FunctionName] = (),
        batches: Sequence[int] = BATCHES,
        dtypes: Sequence[Dtype] = ("float32", "float64"),
        any_method: bool = False,
    ) -> Tuned:
        """Benchmark the schedules and methods that ``auto`` selects from, for its later selections.

        The times are cached in the user's folder, per robot, device and driver, for all processes.
        Arrays are in C order. Each function takes some seconds, plus the compilation of its
        kernels.

        Args:
            device:     ``cuda``, the current GPU, or ``cpu``.
            functions:  names of functions; by default all functions of default modules that have
                        several candidates. Functions of a frame are not measured.
            batches:    numbers of states; batches that exceed the memory are skipped.
            dtypes:     element types.
            any_method: let ``method="auto"`` select the fastest method. Its results differ from
                        those of the most accurate method by rounding, more so in float32.

        Returns:
            the times and the selections of ``auto``; prints as a table.

        Raises:
            OptionError:  an argument is not one of the choices.
            DeviceError:  no GPU is available.
            ModelError:   the robot does not support a function.
            GridGenError: the times cannot be cached.
        """
        for option, given in (("functions", functions), ("batches", batches), ("dtypes", dtypes)):
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise OptionError(f"{option} is {show_value(given)}; give a list")
        selection = TuneSelection(
            device, tuple(functions), tuple(batches), tuple(dtypes), any_method
        )
        tuned = tune(self._module, selection)
        self.resolver.forget()
        return tuned

    def compile(
        self,
        functions: CompiledName | Sequence[CompiledName] = (),
        *,
        dtype: Dtype | Sequence[Dtype] = ("float32", "float64"),
        backend: BackendChoice | None = None,
        batch: int | None = None,
        method: str = "auto",
        frame: str | Sequence[str] | None = None,
        reference: str = "local",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Compile functions now instead of at their first call.

            robot.compile(["forward_dynamics", "mass_matrix"], dtype="float32")

        Compiles in parallel on all cores. Cached kernels are not compiled again.

        Args:
            functions: names of functions; by default all functions of a default module that the
                       robot supports, except those of a link.
            dtype:     an element type, or a list of them.
            backend:   as in a call; the default is the robot's, or ``cpu`` if that is ``auto``.
            batch:     number of states of later calls, which may determine the schedule. On the
                       CPU, 1 compiles the code for one state. The default is code for any number.
            method:    method of ``forward_dynamics``; integrator of ``step`` and similar functions.
                       The default is that of a call.
            frame:     link for the functions of a link, or a list of links for one kernel.
            reference: as in a call.
            progress:  called with a text for each kernel; by default the standard error shows
                       them if they take long.

        Raises:
            OptionError:  an argument is not one of the choices.
            ModelError:   the robot does not support a function, or the module lacks it.
            CompileError: the compiler is missing, or rejects the source text.
            DeviceError:  no GPU is available.
        """
        listed = [functions] if isinstance(functions, str) else list(functions)
        dtypes = [dtype] if isinstance(dtype, str) else list(dtype)
        for name in listed:
            check_choice("function", name, COMPILED)
        for one in dtypes:
            check_choice("dtype", one, tuple(DTYPES.values()))
        if batch is not None:
            check_batch(batch)
        resolver = self.resolver
        launches = [
            (
                resolver.kernel_of_call(FUNCTIONS[name], like, backend, method, frame, reference),
                like,
            )
            for name in listed or resolver.offered_by_default()
            for like in (
                np.broadcast_to(np.zeros((), one), (batch or 1, self.nq)) for one in dtypes
            )
        ]
        warm_up(self._evaluator.compiled, launches, batch or 0, backend, progress)

    def bind(
        self, function: CompiledName | list[str] | tuple[str, ...], *arguments: Any, **options: Any
    ) -> Bound:
        """Return a call with validated arguments, which computes on the same arrays each time.

            bound = robot.bind("inverse_dynamics", q, qd, qdd, out=tau)
            bound()  # reads q, qd and qdd as they are now; returns tau

        A bound call validates no layout of an array and allocates no results. On a GPU it only
        launches kernels, on the current stream of the library of ``q``, and can be captured in a
        CUDA graph; NumPy arrays are copied in each call. Arrays that a plain call would copy raise
        an error. On the CPU each call validates the numbers of its inputs as a plain call does:
        nearly unit quaternions are normalized in a copy, others raise QuaternionError.

        Args:
            function:  name of a function; or a list, as of ``compute``.
            arguments: arguments of the function. Arguments that are not arrays are read once, now.
            options:   keyword arguments of the function. Without ``out``, results are allocated
                       now, and every call returns the same arrays. Those of
                       ``inverse_kinematics`` have ``success`` in numbers.

        Raises:
            OptionError: the function has no kernel.
            ShapeError:  a kernel cannot use an array without a copy, or a result overlaps an
                         argument.
            DtypeError:  an argument is a JAX array, which is immutable.
            DeviceError: a stream is being captured; bind before the capture.
            Also the errors of the function.
        """
        return self._binder.bind(self.resolver.resolve_named(function, *arguments, **options))

    def vjp(
        self,
        function: str,
        cotangents: Any,
        *arguments: Any,
        wrt: Sequence[str] | None = None,
        results: Any = None,
        **options: Any,
    ) -> Any:
        """Return a vector-Jacobian product: the backward pass of a function.

            q_bar, qd_bar, qdd_bar = robot.vjp("inverse_dynamics", tau_bar, q, qd, qdd)

        ``tau_bar`` contains the derivatives of a scalar with respect to the function's results.
        The product contains its derivatives with respect to the arguments. One kernel computes
        them for all states without forming a matrix. Derivatives are with respect to the entries
        of ``q``. Quaternions count as normalized, so changes of their norm have no effect.
        ``inverse_dynamics_gradient`` and similar functions use tangent vectors instead.

        Args:
            function:   name of a function or of a product. The product ``inverse_dynamics:vjp``
                        is with respect to the arguments that are not optional,
                        ``inverse_dynamics:vjp:q,qd`` to those listed. Its arguments are those of
                        ``vjp`` after the name: cotangents, then the function's arguments.
            cotangents: an array shaped like each result, a tuple of arrays for several results;
                        ``None`` is zero.
            arguments:  arguments of the function.
            wrt:        names of the arguments to differentiate by, in their order, including given
                        optional inputs; by default the arguments that are not optional.
            results:    the function's results for these arguments, if known: they halve the time of
                        the derivative of ``forward_dynamics``.
            options:    keyword arguments of the function; ``out`` takes the derivatives,
                        ``schedule`` is ``thread``.

        Returns:
            an array for each name of ``wrt``, with the argument's shape for all states; a tuple of
            arrays for several names.

        Raises:
            OptionError: the function or an argument does not exist.
            ModelError:  the module lacks the product; for a ``jvp`` of a ``vjp`` the robot is too
                         large.
            Also the errors of the function.

        Source: reverse differentiation; for accelerations through inverse dynamics, whose
        derivative at the solution is -M times theirs, Plancher et al. (GRiD).
        """
        return self._products.vjp(function, cotangents, arguments, wrt, results, options)

    def jvp(
        self,
        function: str,
        tangents: Any,
        *arguments: Any,
        wrt: Sequence[str] | None = None,
        results: Any = None,
        **options: Any,
    ) -> Any:
        """Return results and a Jacobian-vector product: the directional derivative of the results.

            tau, tau_tangent = robot.jvp("inverse_dynamics", (u, None, w), q, qd, qdd)

        Given the derivatives ``tangents`` of the arguments with respect to a scalar, return those
        of the results in addition to the results. One kernel computes both for all states without
        forming a matrix, in the coordinates of ``vjp``, whose transpose this is.

        Args:
            function:  name of a function, or of a product such as ``rollout_vjp``.
            tangents:  an array shaped like each argument of ``wrt``, a tuple of arrays for several;
                       ``None`` is zero.
            arguments: arguments of the function.
            wrt:       names of the arguments that change; by default those of ``vjp``.
            results:   the function's results for these arguments, if known: only the derivative of
                       ``forward_dynamics`` uses them, in half the time.
            options:   keyword arguments of the function; ``out`` is a pair, for the results and
                       their tangents, ``schedule`` is ``thread``.

        Returns:
            (results, tangents): an array each, or a tuple of arrays for several results.

        Raises:
            the errors of ``vjp``.

        Source: forward differentiation; for accelerations through inverse dynamics.
        """
        return self._products.jvp(function, tangents, arguments, wrt, results, options)

    def rollout_vjp(
        self,
        q0: ArrayLike,
        qd0: ArrayLike,
        tau: ArrayLike,
        dt: NumberLike,
        cotangents: tuple[ArrayLike, ArrayLike],
        *,
        substeps: int = 1,
        store_every: StoreEvery = 1,
        integrator: Integrator = "semi_implicit",
        feedback: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        effort_limits: bool = False,
        wrt: Sequence[str] = BEGINNING_AND_TORQUES,
        results: tuple[ArrayLike, ArrayLike] | None = None,
        **options: Any,
    ) -> Any:
        """Return the backward pass of ``rollout``, computed by one kernel.

        The kernel goes from the last step to the first with the pullback of ``step``. It recomputes
        states from about sqrt(T) checkpoints. Coordinates are those of ``vjp``.

        Args:
            q0:            initial joint positions (B, nq).
            qd0:           initial joint velocities (B, nv).
            tau:           joint torques of each step (B, T, nv), or (T, nv) for all states.
            dt:            duration of a step, a number or (B,).
            cotangents:    derivatives of a scalar with respect to ``q_path`` and ``qd_path``, with
                           the shapes that ``rollout`` returns for these arguments.
            substeps:      integrator steps per step.
            store_every:   number of steps between stored states, or ``last``.
            integrator:    integration method, see ``step``.
            feedback:      gains and references; the derivatives include the controller.
            effort_limits: whether torques are clamped; the derivatives of clamped ones are zero.
            wrt:           the arguments to differentiate by, in order: any of q0, qd0, tau, dt,
                           gravity, and of further inputs that are given.
            results:       the results of ``rollout``, if known: their states are not recomputed.
            options:       further inputs of ``rollout``; ``out`` takes the derivatives.

        Returns:
            the derivatives for each name of ``wrt``, for all states: q0_bar (B, nq), qd0_bar
            (B, nv), tau_bar (B, T, nv); for arguments without a time axis, the sum over steps.

        Raises:
            OptionError: ``wrt`` has another name.
            ShapeError:  ``cotangents`` are not two arrays as described.
            ModelError:  the module lacks the product.
            Also the errors of ``rollout``.
        """
        self.resolver.check_known(FUNCTIONS["rollout"], options, "rollout_vjp")
        options |= {
            "substeps": substeps,
            "store_every": store_every,
            "integrator": integrator,
            "feedback": feedback,
            "effort_limits": effort_limits,
        }
        return self._products.vjp("rollout", cotangents, (q0, qd0, tau, dt), wrt, results, options)


def open_module(file: str) -> Robot:
    """Return the robot of the generated module with this ``__file__``."""
    return Robot(FolderModule(Path(file).resolve().parent))
