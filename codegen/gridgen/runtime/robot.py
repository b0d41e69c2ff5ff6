"""A robot's functions over batches of states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from functools import partial
from typing import Any

from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS, Declared, Function
from gridgen.functions.arrays import OPTIONAL_INPUTS
from gridgen.functions.types import REFERENCES, Array, BackendChoice
from gridgen.kernel import Kernel, KernelKey
from gridgen.naming import show, show_value, similar
from gridgen.runtime import lie
from gridgen.runtime.arrays import on_host
from gridgen.runtime.description import Module
from gridgen.runtime.evaluation import Evaluator, check_choice
from gridgen.runtime.hybrid import HybridDynamics
from gridgen.runtime.libraries import adopt

#: Velocities of the largest robot whose derivatives and M^-1 one GPU thread computes unasked:
#: beyond, such a program outgrows a thread's registers, and NVRTC's patience (docs/gradients.md).
MOST_OF_A_THREAD = 20

#: Computes a kernel's results, from the kernel, its inputs by name, the backend and ``out``.
Compute = Callable[[Kernel, "dict[str, Array | None]", "str | None", "Array | None"], Any]


class Robot(Declared):
    """One robot's dynamics, compiled function by function when first called.

    Arrays hold one state per row, (B, n), with any strides; one state may be given without the
    batch axis, and is answered without it. float32 and float64 are computed as such; all arrays of
    a call share their type. Results have the library and the device of ``q``, and may overwrite an
    argument. Tensors that require a gradient, traced arrays and masked ones are refused. In every
    function that takes ``q``, a free joint's quaternion within 1e-3 of unit norm is normalised, any
    other refused. Arrays on a GPU are not looked at, for no call shall wait for the device: their
    quaternions must be of unit norm.

    The functions are declared in ``gridgen.functions``.

    Args:
        module:  the robot's description and source text.
        backend: ``cpu``, ``cuda`` or ``emulated``; ``auto`` is ``cuda`` for arrays on a GPU,
                 otherwise ``cpu``.
    """

    def __init__(self, module: Module, backend: BackendChoice = "auto") -> None:
        self._module, self._backend = module, backend
        self._description = module.description
        self._evaluator = Evaluator(module, backend)
        self._hybrid = HybridDynamics(module, self._evaluator)
        self._chosen: dict[tuple[Any, ...], tuple[Kernel, Compute]] = {}

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

    # -- calls --------------------------------------------------------------------------------

    @property
    def functions(self) -> dict[str, str]:
        """The compiled functions behind the methods, by their names in the C++ files.

        A kernel of another schedule is listed with that of the thread schedule that computes the
        same, which a generated module may lack; those of the thread schedule with themselves.
        """
        return {name: kernel.same.name for name, kernel in self._module.kernels.by_name.items()}

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
        return self._evaluator.evaluate(kernel, inputs, backend)

    def _call(
        self,
        function: str,
        arrays: tuple[Array, ...],
        out: Array | None,
        options: Any,
        schedule: str = "auto",
        method: str = "auto",
        frame: str | None = None,
        reference: str = "",
    ) -> Any:
        """Compute a function; see ``Calls._call``."""
        row = FUNCTIONS[function]
        backend = options.pop("backend", None)
        given: tuple[str, ...] = ()
        if options:
            _check_known(row, options)
            given = _inputs_given(options)
        if row.outgrows_thread and schedule == "auto" and self.nv > MOST_OF_A_THREAD:
            target = self._evaluator.target(adopt(arrays[0], "q"), backend)
            schedule = "scan" if target.prefers_teams else schedule
        wanted = (function, schedule, method, frame, reference, given)
        try:
            kernel, compute = self._chosen[wanted]
        except (KeyError, TypeError):  # not called yet; or a list in place of a name
            kernel, compute = self._chosen[wanted] = self._choose(row, *wanted[1:])
        inputs = dict(zip(kernel.inputs, arrays, strict=False))
        for name in kernel.inputs:
            if name not in inputs:
                inputs[name] = options.get(name)
        return compute(kernel, inputs, backend, out)

    def _choose(
        self,
        row: Function,
        schedule: str,
        method: str,
        frame: str | None,
        reference: str,
        given: tuple[str, ...],
    ) -> tuple[Kernel, Compute]:
        """Return the kernel whose arrays a call has, and what computes with it."""
        method = self._method(row, method, schedule)
        schedules = row.methods[method].schedules
        check_choice("schedule", schedule, ("auto", *schedules))
        ident = ""
        if row.of_frame:
            check_choice("reference", reference, REFERENCES)
            ident = self._description.frame_idents[self._frame_index(frame)]
        key = KernelKey(row.name, method, frame=ident, reference=reference, inputs=given)
        find = self._module.kernels.find
        chosen = schedules[0] if schedule == "auto" else schedule
        if chosen == "hybrid":
            return find(key), self._hybrid.forward_dynamics
        return find(replace(key, schedule=chosen)), self._evaluator.evaluate

    def _method(self, row: Function, method: str, schedule: str) -> str:
        """Return the algorithm that a call wants; ``auto`` is the first that the robot can have."""
        if "" in row.methods:
            return ""
        check_choice("method", method, ("auto", *row.methods))
        if method != "auto":
            return method
        if schedule == "auto":
            fit = [name for name, one in row.methods.items() if one.algorithm]
        else:
            fit = [name for name, one in row.methods.items() if schedule in one.schedules]
        if not fit:
            every = dict.fromkeys(name for one in row.methods.values() for name in one.schedules)
            check_choice("schedule", schedule, ("auto", *every))
        for name in fit:
            laid = row.methods[name].schedules[0] if schedule == "auto" else schedule
            if KernelKey(row.name, name, laid).name not in self._module.kernels.refusals:
                return name
        return fit[0]

    def _call_on_host(self, function: str, arrays: dict[str, Array], *others: Any) -> Array:
        """Compute a function that has no generated code; see ``Calls._call_on_host``."""
        compute = partial(getattr(lie, function), self._description.space)
        return on_host(compute, **arrays) if arrays else compute(*others)

    # -- names --------------------------------------------------------------------------------

    def _frame_indices(self, frames: Iterable[str]) -> list[int]:
        if isinstance(frames, (str, bytes, Set)) or not isinstance(frames, Iterable):
            raise OptionError(f"frames is {show_value(frames)}; give a list of the names of links")
        return [self._frame_index(name) for name in frames]

    def _frame_index(self, name: object) -> int:
        names = self._description.frame_names
        if not isinstance(name, str):
            raise OptionError(
                f"frame is {show_value(name)}; give the name of one link (all: frame_names)"
            )
        if name not in names:
            near = ", ".join(map(show, similar(name, names) or names[:3]))
            raise OptionError(
                f"{show(self._description.name)} has no frame {show(name)}; the nearest are {near} "
                "(all: frame_names)"
            )
        return names.index(name)


def _check_known(row: Function, options: Mapping[str, Any]) -> None:
    """Raise for a keyword argument that a function does not have, as Python does."""
    for name in options:
        if name not in row.options:
            raise TypeError(f"Robot.{row.name}() got an unexpected keyword argument {name!r}")


def _inputs_given(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which optional inputs keyword arguments are of."""
    return tuple(
        name
        for name, optional in OPTIONAL_INPUTS.items()
        if any(options.get(array) is not None for array in optional.arrays)
    )
