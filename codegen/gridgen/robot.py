"""A robot's functions over batches of states."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import OptionError
from gridgen.frameworks import answer_traced, is_transformed, register_operators, torch_calls
from gridgen.frameworks.trajectories import linearized
from gridgen.functions import FUNCTIONS, GENERATED, Declared, Function, FunctionName
from gridgen.functions.arrays import BEGINNING_AND_TORQUES
from gridgen.functions.calls import Request, RolloutSettings
from gridgen.functions.parts import key_of
from gridgen.functions.record import Algorithm
from gridgen.functions.types import (
    Array,
    ArrayLike,
    BackendChoice,
    Driven,
    Dtype,
    Integrator,
    Keep,
    NumberLike,
    Unpack,
)
from gridgen.kernel import Kernel, KernelKey
from gridgen.naming import show_value
from gridgen.runtime import configurations
from gridgen.runtime.arrays.layout import DTYPES, array_like
from gridgen.runtime.calls.bound import Binder, Bound
from gridgen.runtime.calls.evaluation import Evaluator, check_choice
from gridgen.runtime.calls.hybrid import HybridDynamics
from gridgen.runtime.calls.pipelined import Pipelined
from gridgen.runtime.calls.products import Products
from gridgen.runtime.calls.resolved import Resolved, Way
from gridgen.runtime.calls.resolver import Resolver, listed_frames
from gridgen.runtime.drawings import Drawn
from gridgen.runtime.module import registry
from gridgen.runtime.module.description import Module
from gridgen.runtime.module.files import FolderModule
from gridgen.runtime.module.warm_up import check_batch, warm_up
from gridgen.runtime.planning.devices import place_named
from gridgen.runtime.planning.planner import Plan
from gridgen.runtime.planning.tune import BATCHES, Tuned, TunedDevice, TuneSelection, tune


class Robot(Declared, Drawn):
    """One robot's dynamics, compiled function by function when first called.

    Arrays hold one state per row, (B, n), with any strides; states may have several axes, (..., n),
    or none. These leading axes of all arguments are broadcast as NumPy does, so that an argument
    of one state serves all, and results have the axes that come out. float32 and float64 are
    computed as such; all arrays of a call share their type. Results have the library and the device
    of ``q``, and may overwrite an argument. What PyTorch or JAX transforms becomes an operation of
    theirs, with derivatives; masked arrays are refused. In every function that takes ``q``, a free
    joint's quaternion within 1e-3 of unit norm is normalized, any other refused. Arrays on a GPU
    are not validated, which would synchronize the device: their quaternions must be of unit norm.

    The functions are declared in ``gridgen.functions``.

    Args:
        module:  the robot's description and source text.
        backend: ``cpu``, ``cuda`` or ``emulated``; ``auto`` is ``cuda`` for arrays on a GPU,
                 otherwise ``cpu``.
    """

    def __init__(self, module: Module, backend: BackendChoice = "auto") -> None:
        self._module, self._description = module, module.description
        self._backend = backend
        evaluator = self._evaluator = Evaluator(module, backend, traced=answer_traced)
        #: What finds the kernels of calls.
        self.resolver = Resolver(module, evaluator)
        self._hybrid = HybridDynamics(module, evaluator)
        self._binder = Binder(module, evaluator)
        self._products = Products(module, evaluator, self.resolver)
        self._ways: dict[Way, Callable[[Resolved], Any]] = {
            "kernel": evaluator.evaluate,
            "frames": evaluator.evaluate_frames,
            "several": evaluator.evaluate_fused,
            "hybrid": self._hybrid.forward_dynamics,
            "pipeline": Pipelined(module.description, evaluator).evaluate,
        }
        #: What graphs of a framework call the robot by: its name, and a digest of what it computes.
        self.handle = self._describe_shortly()
        registry.note(self)
        register_operators()

    def _describe_shortly(self) -> str:
        kernels = sorted(self._module.kernels.by_name)
        unchecked = () if self._description.parameters.are_checked else ("unchecked",)
        text = "\n".join((self._description.digest, self._backend, *unchecked, *kernels))
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without what is compiled: the copy finds that in the cache again."""
        arguments = (self._module, self._backend)
        own = vars(type(self)(*arguments))
        return type(self), arguments, {k: v for k, v in vars(self).items() if k not in own}

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

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Links, or moving bodies, that have a row of ``params``, in the order of rows."""
        return self._description.parameters.names

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """Constraints of the robot, in the order of ``active``."""
        return self._description.constraint_names

    def parameters(self, name: str = "params") -> NDArray[np.float64]:
        """Return what an input is that a call does not give: numbers of the URDF, or the options'.

        Args:
            name: ``params`` (n, 10), rows in the order of ``parameter_names``; ``armature`` or
                  ``damping`` (nv,); of constraints, ``active``, ``compliance``, ``proximal``,
                  ``restitution``,
                  ``weights`` (k,) or ``stabilization`` (k, 2).

        Raises:
            OptionError: the robot was loaded without it in ``parameters``.
        """
        return self._description.parameters.default(name)

    def check_parameters(self, params: Array) -> None:
        """Raise unless some body has the mass and inertia of every row, or the URDF.

        Calls with arrays on the CPU do so themselves, unless the robot was loaded with
        ``check_parameters=False``; arrays on a GPU are fetched for it.

        Args:
            params: (n, 10) or (B, n, 10).

        Raises:
            ParameterError: a row is no body's; the message has its place.
            ShapeError:     there is not one row for each link.
            DtypeError:     they are not of float32 or float64.
            OptionError:    the robot takes no ``params``.
        """
        self._description.parameters.default("params")
        self._description.parameters.check(params, is_asked=True)

    # -- calls --------------------------------------------------------------------------------

    @property
    def functions(self) -> dict[str, str]:
        """The compiled functions behind the methods, by their names in the C++ files.

        A kernel of another schedule is listed with that of the thread schedule that computes the
        same, which a generated module may lack; those of the thread schedule with themselves.
        """
        return {name: kernel.same.name for name, kernel in self.kernels.items()}

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The records of these functions, by the same names."""
        return self._module.kernels.by_name

    def _call(self, request: Request) -> Any:
        arrays = request.arrays
        if type(arrays[0]) is np.ndarray:
            if request.course is None:
                found = self._evaluator.at_once(request)
                if found is not None:
                    return found
        elif is_transformed(arrays[0], (*arrays[1:], *request.options.values())):
            return torch_calls().call(self, request)
        resolved = self.resolver.resolve(request, offer=True)
        return self._ways[resolved.way](resolved)

    def _run(self, resolved: Resolved) -> Any:
        """Compute a call."""
        return self._ways[resolved.way](resolved)

    def _linearized(
        self, function: str, arrays: dict[str, Any], options: Any, substeps: int, out: Any
    ) -> Any:
        row = FUNCTIONS[function]
        others = {name: value for name, value in arrays.items() if name not in row.arguments}
        self.resolver.check_known(row, others)
        given = {n: value for n, value in arrays.items() if value is not None or n in row.arguments}
        step, gradient = partial(self.step, **options), partial(self.step_gradient, **options)
        return linearized(self._description, step, gradient, given, substeps, out)

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
        """Return several results, computed in one: what they have in common is computed once.

            M, h, J = robot.compute(("mass_matrix", "bias_forces", "jacobian:hand"), q, qd)

        Args:
            functions: names of functions. After a colon comes what else a function is called with:
                       the link, and after another colon the reference, of ``jacobian`` and
                       ``jacobian_dot_qd``; a link of ``forward_kinematics``; the method of
                       ``forward_dynamics``.
            arrays:    all that these functions take, each once: q, qd, qdd, tau, as far as they are
                       needed.
            out:       an entry for each function, as it would be given to the function.
            options:   the keyword arguments of any of them, ``gravity`` for one; and ``backend``.

        Returns:
            a named tuple with the result of each function, in the order of ``functions``; a tuple
            of arrays where a function returns several.

        Raises:
            OptionError: a function is unknown, or there twice; arrays are missing or too many.
            ModelError:  the robot cannot have one of them, or a module was generated without.
            others as the functions'.
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
        kernel = self._module.kernels.named(function)
        inputs = {name: arrays.get(name) for name in kernel.inputs}
        if kernel.calls and kernel.key.wrt:
            return self._products.rollout(kernel, arrays, backend)
        course = RolloutSettings() if kernel.calls else None
        return self._run(Resolved(kernel, inputs, backend, None, course))

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
        """Return what ``method="auto"`` and ``schedule="auto"`` mean for a call, and why.

        Printed, it is a table of everything that the call could use, with its times: predicted from
        work that has been counted and published figures of the device, or measured, where ``tune``
        has been called on it. Nothing is compiled or run.

        Args:
            function:  name of a function: ``forward_dynamics``; or several, as of ``compute``.
            batch:     number of states, at least 1.
            device:    ``cpu``, this machine's; ``cuda``, the current GPU; or the architecture of a
                       GPU that need not be there: ``sm_90``.
            dtype:     ``float32`` or ``float64``.
            frame:     name of the link, or a list of some, of a function of frames.
            reference: the axes that the link is seen in.

        Raises:
            OptionError: an argument is not one of those offered.
            ModelError:  the robot cannot have the function.
            DeviceError: there is no GPU to be the current one.
        """
        row, key = self._planned_key(function, frame, reference)
        check_choice("dtype", dtype, tuple(DTYPES.values()))
        check_batch(batch)
        if not isinstance(device, str):
            raise OptionError(f"device is {show_value(device)}; give cpu or sm_90, for example")
        return self._evaluator.planner.plan(key, row, batch, place_named(device), dtype)

    def _planned_key(
        self, function: Any, frame: str | Sequence[str] | None, reference: str
    ) -> tuple[Function, KernelKey]:
        """Return what ``plan`` is asked about: the function, or one that stands for several."""
        if isinstance(function, (tuple, list)):
            parts = self.resolver.read_parts(function)
            name = ", ".join(part.name for part in parts)
            row = replace(parts[0].row, name=name, methods={"": Algorithm("several")})
            return row, key_of(parts)
        check_choice("function", function, GENERATED)
        row = FUNCTIONS[function]
        method = next(iter(row.methods))
        if row.method_word == "method":
            method = self.resolver.method(row, "auto", "auto")
        key = KernelKey(function, method)
        if row.of_frame or (row.has_frames and frame is not None):
            wanted = frame if frame is None or isinstance(frame, str) else listed_frames(frame)
            key = self.resolver.key_of_frames(row, key, wanted, reference)
        return row, key

    def tune(
        self,
        *,
        device: TunedDevice = "cuda",
        functions: Sequence[FunctionName] = (),
        batches: Sequence[int] = BATCHES,
        dtypes: Sequence[Dtype] = ("float32", "float64"),
        any_method: bool = False,
    ) -> Tuned:
        """Measure what ``auto`` chooses from, and choose by that from now on.

        The times are kept in the user's folder, for this robot on this device under this driver:
        all processes find them there. Arrays lie in rows. It takes some seconds for each function,
        and the time to compile every kernel.

        Args:
            device:     ``cuda``, the current GPU, or ``cpu``.
            functions:  names of functions; by default all that are generated unasked and that there
                        is a choice for. Those of a frame are not measured.
            batches:    numbers of states; those for which there is no memory are left out.
            dtypes:     element types.
            any_method: let ``method="auto"`` be whichever is fastest. Its results differ from those
                        of the most accurate one by rounding, which is more of it in float32.

        Returns:
            the times, and what ``auto`` takes by them; printed, a table.

        Raises:
            OptionError:  an argument is not one of those offered.
            DeviceError:  there is no GPU.
            ModelError:   the robot cannot have a function.
            GridGenError: the times cannot be kept.
        """
        for option, given in (("functions", functions), ("batches", batches), ("dtypes", dtypes)):
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise OptionError(f"{option} is {show_value(given)}; give a list")
        wanted = TuneSelection(device, tuple(functions), tuple(batches), tuple(dtypes), any_method)
        tuned = tune(self._module, wanted)
        self.resolver.forget()
        return tuned

    def compile(
        self,
        functions: FunctionName | Sequence[FunctionName] = (),
        *,
        dtype: Dtype | Sequence[Dtype] = ("float32", "float64"),
        backend: BackendChoice | None = None,
        batch: int = 1,
        method: str = "auto",
        frame: str | Sequence[str] | None = None,
        reference: str = "local",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Compile functions now, which else are when they are first called.

            robot.compile(["forward_dynamics", "mass_matrix"], dtype="float32")

        As many are compiled at a time as there are cores. What is in the cache is not compiled.

        Args:
            functions: names of functions; by default all that are generated unasked and that the
                       robot has, but for those of a link.
            dtype:     an element type, or several.
            backend:   as in a call; without it, and where the robot names none, ``cpu``.
            batch:     number of states of the calls to come, which may decide the schedule.
            method:    of ``forward_dynamics``; the integrator of ``step`` and its like. By default
                       what a call takes.
            frame:     link of the functions of a link, or several for one kernel.
            reference: as in a call.
            progress:  called with words for each kernel; by default they are shown on a terminal.

        Raises:
            OptionError:  an argument is not one of those offered.
            ModelError:   the robot cannot have a function, or a module was generated without it.
            CompileError: the compiler is missing, or refused the text.
            DeviceError:  there is no GPU.
        """
        listed = [functions] if isinstance(functions, str) else list(functions)
        dtypes = [dtype] if isinstance(dtype, str) else list(dtype)
        for name in listed:
            check_choice("function", name, GENERATED)
        for one in dtypes:
            check_choice("dtype", one, tuple(DTYPES.values()))
        check_batch(batch)
        resolver = self.resolver
        wanted = [
            (
                resolver.kernel_of_call(FUNCTIONS[name], like, backend, method, frame, reference),
                like,
            )
            for name in listed or resolver.offered_unasked()
            for like in (np.broadcast_to(np.zeros((), one), (batch, self.nq)) for one in dtypes)
        ]
        warm_up(self._evaluator, wanted, backend, progress)

    def bind(
        self, function: FunctionName | list[str] | tuple[str, ...], *arguments: Any, **options: Any
    ) -> Bound:
        """Return a call that is checked now, and computes the same arrays anew whenever it is made.

            bound = robot.bind("inverse_dynamics", q, qd, qdd, out=tau)
            bound()  # with what q, qd and qdd hold now; tau is also what it returns

        A call of it looks at no array and takes no memory; on a GPU it launches kernels on the
        current stream of the library of ``q``, does nothing else, and may be captured in a CUDA
        graph. What a plain call copies is refused. On the CPU quaternions are looked at in each
        call: those that are nearly of unit norm are normalized in a copy, others refused.

        Args:
            function:  the name of a function; or several, as of ``compute``.
            arguments: those of the function. What is no array is read once, now.
            options:   its keyword arguments. Without ``out``, room for results is made now, and
                       every call returns the same array.

        Raises:
            OptionError: no kernel is behind the function, or it is one that a call waits for
                         (``schedule="hybrid"``).
            ShapeError:  a kernel cannot work on an array in place, or a result overlaps an
                         argument.
            DtypeError:  an argument is a JAX array, whose numbers never change.
            DeviceError: a stream is being captured; bind before.
            others as the function's.
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
        """Return a vector-Jacobian product: what backpropagation through a function takes.

            q_bar, qd_bar, qdd_bar = robot.vjp("inverse_dynamics", tau_bar, q, qd, qdd)

        Where ``tau_bar`` has the derivatives of a number by the function's results, these are the
        number's derivatives by the arguments. One kernel computes them for all states, and forms no
        matrix. Positions change coordinate by coordinate, as arrays do, and quaternions count as
        normalized: what changes their norm alone changes nothing. ``inverse_dynamics_gradient`` and
        its like have tangent vectors instead.

        Args:
            function:   the name of a function; or of a product, ``inverse_dynamics:vjp``, which is
                        one by the arguments named, ``inverse_dynamics:vjp:q,qd``, by default those
                        that are not optional. Its arguments are what ``vjp`` takes after the
                        name: cotangents, and those of the function.
            cotangents: an array like each of its results, a tuple of them for several; ``None`` is
                        zero.
            arguments:  those of the function.
            wrt:        names of the arguments to differentiate by, optional inputs that are given
                        included, in their order; by default those that are not optional.
            results:    what the function returned for these arguments, if that is known: with it
                        the derivative of ``forward_dynamics`` takes half the time.
            options:    keyword arguments of the function; ``out`` is for what is returned here,
                        ``schedule`` is ``thread``.

        Returns:
            an array for each name of ``wrt``, of the argument's shape for all states; a tuple of
            them for several.

        Raises:
            OptionError: there is no such function or argument.
            ModelError:  a module was generated without it; for a ``jvp`` of a ``vjp`` the robot is
                         too large.
            others as the function's.

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
        """Return results and a Jacobian-vector product: how the results change in a direction.

            tau, tau_tangent = robot.jvp("inverse_dynamics", (u, None, w), q, qd, qdd)

        Where ``tangents`` have the derivatives of the arguments by a number, the second result has
        those of the results. One kernel computes both for all states, and forms no matrix.
        Coordinates as in ``vjp``, of which it is the transpose.

        Args:
            function:  the name of a function, or of a product, as in ``vjp``.
            tangents:  an array like each of the arguments of ``wrt``, a tuple of them for several;
                       ``None`` for what does not change.
            arguments: those of the function.
            wrt:       names of the arguments that change, as in ``vjp``.
            results:   what the function returned for these arguments, if that is known; of use to
                       ``forward_dynamics`` alone, whose derivative takes half the time with it.
            options:   keyword arguments of the function; ``out`` is a pair, for the results and for
                       their tangents, ``schedule`` is ``thread``.

        Returns:
            (results, tangents): an array each, or a tuple of arrays for several results.

        Raises:
            as ``vjp``.

        Source: forward differentiation; for accelerations as ``vjp``.
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
        keep: Keep = "all",
        integrator: Integrator = "semi_implicit",
        feedback: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        effort_limits: bool = False,
        wrt: Sequence[str] = BEGINNING_AND_TORQUES,
        results: tuple[ArrayLike, ArrayLike] | None = None,
        **options: Any,
    ) -> Any:
        """Return what backpropagation through ``rollout`` takes: ``vjp`` of it.

        One kernel goes back from the last step to the first, each step by the pullback of ``step``.
        States on the way are made anew from about sqrt(T) that are kept. Coordinates as in ``vjp``.

        Args:
            q0:            joint positions at the beginning (B, nq).
            qd0:           joint velocities at the beginning (B, nv).
            tau:           joint efforts of each step (B, T, nv), or (T, nv) for all states.
            dt:            time of a step, a number or (B,).
            cotangents:    derivatives of a number by ``q_path`` and ``qd_path``, shaped as
                           ``rollout`` with these arguments returns them.
            substeps:      as in ``rollout``.
            keep:          as in ``rollout``.
            integrator:    as in ``rollout``.
            feedback:      as in ``rollout``; the way back goes through the controller.
            effort_limits: as in ``rollout``: by what is clamped the derivative is zero.
            wrt:           the arguments to differentiate by, in order: any of q0, qd0, tau, dt,
                           gravity, and of further inputs that are given.
            results:       what ``rollout`` returned, if that is known: states that were kept are
                           not made anew.
            options:       as in ``rollout``; ``out`` is for what is returned here.

        Returns:
            for each name of ``wrt`` the number's derivatives, for all states: q0_bar (B, nq),
            qd0_bar (B, nv), tau_bar (B, T, nv); of what has no axis of time, the sum over steps.

        Raises:
            OptionError: ``wrt`` names something else.
            ShapeError:  ``cotangents`` are not two arrays as described.
            ModelError:  as ``vjp``.
            others as ``rollout``.
        """
        for name in options:
            if name not in FUNCTIONS["rollout"].options:
                raise TypeError(f"Robot.rollout_vjp() got an unexpected keyword argument {name!r}")
        options |= {
            "substeps": substeps,
            "keep": keep,
            "integrator": integrator,
            "feedback": feedback,
            "effort_limits": effort_limits,
        }
        return self._products.vjp("rollout", cotangents, (q0, qd0, tau, dt), wrt, results, options)


def open_module(file: str) -> Robot:
    """Return the robot of the generated module whose ``__file__`` is given."""
    return Robot(FolderModule(Path(file).resolve().parent))
