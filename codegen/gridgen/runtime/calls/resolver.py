"""From the request of a function to the kernel that serves it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from gridgen.errors import OptionError
from gridgen.functions import COMPILED, FUNCTIONS, GENERATED, Declared, Function
from gridgen.functions.arrays import OPTIONAL_INPUTS, PARAMETERS
from gridgen.functions.calls import Request, RolloutSettings, SearchSettings
from gridgen.functions.parts import (
    FusedPart,
    key_of,
    optional_inputs_of,
    read_parts,
    search_key,
)
from gridgen.functions.record import Algorithm
from gridgen.functions.types import REFERENCES, Array
from gridgen.kernel import WITH_EFFORTS, Kernel, KernelKey
from gridgen.naming import check_choice, show, show_value, similar, unknown_keyword
from gridgen.runtime.arrays.layout import DTYPES
from gridgen.runtime.arrays.libraries import adopt, is_traced
from gridgen.runtime.arrays.streams import caller_streams
from gridgen.runtime.arrays.times import SharedNumbers, bounds_of, check_efforts, feedback_of
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.calls.resolved import Evaluation, FusedFunctions, Resolved
from gridgen.runtime.calls.search import projection, search
from gridgen.runtime.module.description import Module
from gridgen.runtime.planning.devices import host_place, place_of

# The cache key of a choice.
_Words = tuple[Any, ...]


class _Requests(Declared):
    """The functions of a robot, as methods that return their requests."""

    def _call(self, request: Request) -> Any:
        return request

    def _linearized(self, function: str, *_: Any) -> Any:
        raise OptionError(f"{function} has no kernel of its own: call it")

    def _tested(self, request: Request) -> Any:
        return request

    def _searched(self, *given: Any) -> Any:
        return given

    def _configuration(self, function: str, *_: Any) -> Any:
        raise OptionError(f"{function} has no kernel: call it")


_REQUESTS = _Requests()


class Resolver:
    """Resolves the kernels of a robot's calls."""

    def __init__(self, module: Module, evaluator: Evaluator) -> None:
        self._module = module
        self._description = module.description
        self._evaluator = evaluator
        self._planner = evaluator.planner
        self._planned_before: dict[_Words, tuple[str, str]] = {}
        self._methods_on_host: bool | None = None
        # Whether calls with NumPy arrays have a choice; the first call determines it.
        self._numpy_is_planned = True
        self._numpy_on_gpu = evaluator.compiled.target(np.empty(0), None).prefers_teams
        self._chosen: dict[_Words, tuple[Kernel, Evaluation, Any]] = {}
        self._fused: dict[_Words, FusedFunctions] = {}
        self._searches: dict[tuple[str, ...], Kernel] = {}

    def forget(self) -> None:
        """Discard cached plans."""
        self._evaluator.forget()
        self._planned_before.clear()
        self._methods_on_host = None
        self._numpy_is_planned = True

    def resolve(self, request: Request) -> Resolved:
        """Return a call with its kernel.

        Raises:
            OptionError, ModelError: as of the function.
        """
        function, frame, settings = request.function, request.frame, request.settings
        schedule, method = request.schedule, request.method
        options: dict[str, Any] = request.options  # type: ignore[assignment]
        row = FUNCTIONS[function]
        frame = _hashable(frame)
        backend: str | None = None
        given: tuple[str, ...] = ()
        if options:
            backend = options.pop("backend", None)
            self.check_known(row, options)
            given = _inputs_given(options)
        q = request.arrays[0]
        is_planned = False
        if row.has_team_kernels and isinstance(schedule, str) and schedule == "auto":
            if self._numpy_is_planned or type(q) is not np.ndarray or backend is not None:
                is_planned = True
                method, schedule = self._planned(row, method, q, backend)
        words: _Words = (function, schedule, method, frame, request.reference, given)
        bounds: dict[str, SharedNumbers] = {}
        if settings is None:
            words = (*words, "")
        else:
            parts, bounds = self._calls(settings)
            words = (*words, WITH_EFFORTS if check_efforts(settings) else "", parts)
        try:
            kernel, evaluation, frames = self._chosen[words]
        except (KeyError, TypeError):  # the first call; or a list instead of a name
            kernel, evaluation, frames = self._chosen[words] = self._choose(row, *words[1:])
        inputs: dict[str, Any] = kernel.nothing.copy()
        for name, array in zip(inputs, request.arrays, strict=False):
            inputs[name] = array
        if options:
            inputs.update((name, options[name]) for name in options if name in inputs)
        resolved = Resolved(kernel, inputs, backend, request.out, settings, evaluation, frames)
        if settings is not None:
            inputs |= {**feedback_of(settings), **bounds}
        elif evaluation == "kernel" and not is_planned and backend is None:
            if type(q) is np.ndarray and frame is request.frame:  # not a list
                resolved.request = request
        return resolved

    def _calls(
        self, settings: RolloutSettings
    ) -> tuple[tuple[KernelKey, ...], dict[str, SharedNumbers]]:
        """Return what a rollout calls in addition to steps, and the bounds at which states end."""
        parts: tuple[KernelKey, ...] = ()
        if not (isinstance(settings.record, tuple) and not settings.record):
            listed = self.read_parts(settings.record)
            for part in listed:
                if others := set(part.row.arguments) - {"q", "qd", "tau"}:
                    raise OptionError(
                        f"record has {show(part.name)}, which needs {', '.join(sorted(others))}: "
                        "choose functions of q, qd and tau"
                    )
            parts = tuple(part.key for part in listed)
        if settings.stop_when is None:
            return parts, {}
        excess, bounds = bounds_of(self._description, settings.stop_when)
        return (*parts, excess), bounds

    def resolve_named(self, function: Any, *arguments: Any, **options: Any) -> Resolved:
        """Return a call with its kernel, by the function's name and its arguments."""
        if isinstance(function, (tuple, list)):
            out = options.pop("out", None)
            return self.resolve_fused(function, arguments, out, options)
        check_choice("function", function, COMPILED)
        request = getattr(_REQUESTS, function)(*arguments, **options)
        return self.resolve(request) if function in GENERATED else self.resolve_search(*request)

    def resolve_search(self, targets: Any, frames: Any, settings: SearchSettings) -> Resolved:
        """Return a call of inverse kinematics with its kernel.

        Raises:
            OptionError, ModelError: as of the function.
        """
        kernel = self.search_kernel(frames)
        if frames is None:
            return projection(kernel, settings)
        return search(self._description, kernel, targets, frames, settings)

    def search_kernel(self, frames: Any) -> Kernel:
        """Return the kernel of inverse kinematics for one frame, or for a list."""
        names: tuple[Any, ...] = ()  # of a projection
        if frames is not None:
            names = (frames,) if isinstance(frames, str) else listed_frames(frames)
        try:
            return self._searches[names]
        except (KeyError, TypeError):  # the first call; or no names
            idents = self._description.frame_idents
            key = search_key([idents[self.frame_index(name)] for name in names])
            return self._searches.setdefault(names, self._module.kernels.find(key))

    def kernel(self, row: Function, *words: Any) -> Kernel:
        """Return the kernel that declares a call's arrays; ``words`` as of ``_choose``."""
        key = (row.name, *words)
        if key not in self._chosen:
            self._chosen[key] = self._choose(row, *words)
        return self._chosen[key][0]

    def resolve_fused(
        self, functions: Sequence[str], arrays: Sequence[Any], out: Any, options: dict[str, Any]
    ) -> Resolved:
        """Return a call of ``Robot.compute`` with its kernel; arguments as there."""
        backend = options.pop("backend", None)
        given = _inputs_given(options) if options else ()
        try:
            fused = self._fused[functions, given]
        except (KeyError, TypeError):  # the first call; or a list
            fused = self.choose_fused(functions, given)
        if options:
            fused.check_options(options)
            self.check_parameters(options)
        inputs = fused.inputs(arrays, options)
        results = None if out is None else fused.flat(out)
        return Resolved(fused.kernel, inputs, backend, results, fused=fused)

    def choose_fused(self, functions: Sequence[str], given: tuple[str, ...]) -> FusedFunctions:
        """Return the fused functions of a call of ``compute``, and cache them."""
        parts = self.read_parts(functions)
        can_read = optional_inputs_of(parts)
        key = key_of(parts, tuple(name for name in given if name in can_read))
        found = FusedFunctions(parts, self._module.kernels.find(key))
        self._fused[tuple(functions), given] = found
        return found

    def read_parts(self, functions: object) -> tuple[FusedPart, ...]:
        """Return the fused functions that a user selects; see ``read_parts``."""
        known = self._description
        idents = dict(zip(known.frame_names, known.frame_idents, strict=True))
        return read_parts(functions, idents, self._default_method)

    def _default_method(self, row: Function, schedule: str = "thread") -> str:
        """Return the default algorithm of a function with several."""
        if row.method_word != "method":
            return next(iter(row.methods))
        return self.method(row, "auto", schedule)

    def check_known(self, row: Function, options: Mapping[str, Any], method: str = "") -> None:
        """Raise for a keyword argument that a function, or its method, lacks, as Python does."""
        for name in options:
            if name not in row.options:
                raise unknown_keyword(f"Robot.{method or row.name}", name, row.options)
        self.check_parameters(options)

    def check_parameters(self, options: Mapping[str, Any]) -> None:
        """Raise for robot parameters that are not inputs of the robot."""
        parameters = self._description.parameters
        for name in PARAMETERS:
            if options.get(name) is not None and name not in parameters.own:
                raise OptionError(parameters.refusal(name))

    def _planned(
        self, row: Function, method: str, q: Array, backend: str | None
    ) -> tuple[str, str]:
        """Return the method and schedule that ``auto`` selects for ``q``, the caller's array.

        Batches are rounded up to powers of two, which bounds the number of cached plans.
        """
        if backend is None and type(q) is np.ndarray and not self._numpy_on_gpu:
            self._numpy_is_planned = self._chooses_on_host()
            if not self._numpy_is_planned or len(row.methods) == 1:
                return method, "auto"
        shape = getattr(q, "shape", None)
        if not isinstance(shape, tuple):
            return method, "auto"
        if is_traced(q):
            return method, "thread"
        states = shape[0] if len(shape) == 2 else math.prod(shape[:-1])
        rounds = max(states - 1, 0).bit_length()
        device = str(getattr(q, "device", None))
        choice = (row.name, method, backend, type(q), device, getattr(q, "dtype", None), rounds)
        try:
            return self._planned_before[choice]
        except (KeyError, TypeError):  # the first call; or a list instead of a name
            found = self._planned_anew(row, method, q, backend, 1 << rounds)
            self._planned_before[choice] = found
            return found

    def _chooses_on_host(self) -> bool:
        """Return whether ``auto`` may select several methods on this CPU."""
        if self._methods_on_host is None:
            profile = self._planner.profile(host_place())
            self._methods_on_host = profile is not None and profile.any_method
        return self._methods_on_host

    def _planned_anew(
        self, row: Function, method: str, q: Array, backend: str | None, batch: int
    ) -> tuple[str, str]:
        """Return method and schedule with the shortest predicted time."""
        with caller_streams((q,))():
            q = adopt(q, row.arguments[0])
        target = self._evaluator.compiled.target(q, backend)
        if target.prefers_teams:
            place = place_of(q)
        elif target.name == "cpu" and self._chooses_on_host():
            place = host_place()
        else:
            return method, "auto"
        key = KernelKey(row.name, self.method(row, method, "auto"))
        dtype = DTYPES.get(q.dtype, "float64")
        found = self._planner.choice(key, row, batch, place, dtype, method == "auto")
        return (found.method or method, found.schedule) if found else (method, "auto")

    def planned_key(
        self, function: Any, frame: str | Sequence[str] | None, reference: str
    ) -> tuple[Function, KernelKey]:
        """Return the function to plan, or the one that represents fused functions; its key."""
        if isinstance(function, (tuple, list)):
            parts = self.read_parts(function)
            name = ", ".join(part.name for part in parts)
            row = replace(parts[0].row, name=name, methods={"": Algorithm("several")})
            return row, key_of(parts)
        check_choice("function", function, GENERATED)
        row = FUNCTIONS[function]
        key = KernelKey(function, self._default_method(row, "auto"))
        if row.of_frame or (row.has_frames and frame is not None):
            key = self.key_of_frames(row, key, _hashable(frame), reference)
        return row, key

    def offered_by_default(self) -> list[str]:
        """Return the robot's default functions, without those of a frame."""
        every = (FUNCTIONS[name] for name in GENERATED)
        rows = [row for row in every if row.is_default and not row.of_frame]
        refusals, has = self._module.kernels.refusals, self._module.kernels.has
        keys = {row.name: KernelKey(row.name, self._default_method(row)) for row in rows}
        return [name for name, key in keys.items() if key.name not in refusals and has(key)]

    def kernel_of_call(
        self,
        row: Function,
        q: Array,
        backend: str | None,
        method: str,
        frame: str | Sequence[str] | None,
        reference: str,
    ) -> Kernel:
        """Return the kernel of a call whose first array is ``q``."""
        if row.name not in GENERATED:
            return self.search_kernel(frame)
        schedule = "auto"
        if "" in row.methods:
            method = "auto"
        elif row.method_word != "method" and method == "auto":
            method = next(iter(row.methods))
        if row.has_team_kernels:
            method, schedule = self._planned(row, method, q, backend)
        named = _hashable(frame) if row.of_frame or row.has_frames else None
        reference = reference if row.of_frame else ""
        return self._choose(row, schedule, method, named, reference, (), "")[0]

    def _choose(
        self,
        row: Function,
        schedule: str,
        method: str,
        frame: str | tuple[str, ...] | None,
        reference: str,
        given: tuple[str, ...],
        variant: str,
        parts: tuple[KernelKey, ...] = (),
    ) -> tuple[Kernel, Evaluation, int | list[int] | None]:
        """Return the kernel of a call's arrays, its evaluation, and the indices of frames."""
        method = self.method(row, method, schedule)
        schedules = row.methods[method].schedules
        check_choice("schedule", schedule, ("auto", *schedules))
        key = KernelKey(row.name, method, variant=variant, inputs=given, parts=parts)
        find = self._module.kernels.find
        if row.of_frame or (row.has_frames and frame is not None):
            return self._find_frames(row, key, frame, reference)
        chosen = schedules[0] if schedule == "auto" else schedule
        return find(replace(key, schedule=chosen)), "kernel", None

    def _find_frames(
        self, row: Function, key: KernelKey, frame: object, reference: str
    ) -> tuple[Kernel, Evaluation, int | list[int] | None]:
        """Return the kernel of one, several or all frames, and the indices among all."""
        kernels, whole = self._module.kernels, key
        key = self.key_of_frames(row, key, frame, reference)
        if row.of_frame or kernels.has(key):
            return kernels.find(key), "kernel", None
        names = [frame] if isinstance(frame, str) else frame
        indices = [self.frame_index(name) for name in names]  # type: ignore[attr-defined]
        return kernels.find(whole), "frames", indices[0] if isinstance(frame, str) else indices

    def key_of_frames(
        self, row: Function, key: KernelKey, frame: object, reference: str
    ) -> KernelKey:
        """Return a kernel's key for a frame, or for a list of frames along an axis."""
        if row.of_frame:
            check_choice("reference", reference, REFERENCES)
        if isinstance(frame, tuple):
            parts = tuple(self.key_of_frames(row, key.plain, name, reference) for name in frame)
            return replace(key, parts=parts)
        ident = self._description.frame_idents[self.frame_index(frame)]
        return replace(key, frame=ident, reference=reference)

    def method(self, row: Function, method: str, schedule: str) -> str:
        """Return the algorithm of a call; ``auto`` is the first that the robot supports."""
        if "" in row.methods:
            return ""
        if row.method_word != "method":  # the methods differ in results: none is the best
            check_choice(row.method_word, method, tuple(row.methods))
            return method
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

    # -- names --------------------------------------------------------------------------------

    def frame_index(self, name: object) -> int:
        """Return the index of a frame in ``frame_names``."""
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


def _hashable(frame: Any) -> Any:
    """Return the frames of a call, a list of them as a tuple."""
    return frame if frame is None or isinstance(frame, str) else listed_frames(frame)


def listed_frames(frames: object) -> tuple[Any, ...]:
    """Return a list of frames as a hashable value."""
    is_number = isinstance(frames, np.ndarray) and not frames.ndim
    if is_number or isinstance(frames, (bytes, Set)) or not isinstance(frames, Iterable):
        raise OptionError(
            f"frame is {show_value(frames)}; give the name of one link (all: frame_names)"
        )
    if not (listed := tuple(frames)):
        raise OptionError("the list of frames is empty; give the names of links (all: frame_names)")
    return listed


def _inputs_given(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the optional inputs among keyword arguments."""
    return tuple(
        name
        for name, optional in OPTIONAL_INPUTS.items()
        if any(options.get(array) is not None for array in optional.arrays)
    )
