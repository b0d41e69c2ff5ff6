"""From the call of a function to the kernel that serves it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS, GENERATED, Declared, Function
from gridgen.functions.arrays import OPTIONAL_INPUTS, PARAMETERS
from gridgen.functions.calls import Course
from gridgen.functions.parts import Part, key_of, optional_inputs_of, read_parts
from gridgen.functions.types import REFERENCES, Array, ArrayLike, Driven, Unpack
from gridgen.kernel import WITH_EFFORTS, Kernel, KernelKey
from gridgen.naming import show, show_value, similar
from gridgen.runtime import configurations
from gridgen.runtime.arrays import DTYPES, array_like, on_device, result_arrays
from gridgen.runtime.description import Module
from gridgen.runtime.evaluation import Evaluator, check_choice
from gridgen.runtime.libraries import adopt, is_traced, on_gpu
from gridgen.runtime.over_time import check_efforts
from gridgen.runtime.places import host_place, place_of
from gridgen.runtime.several import Several
from gridgen.runtime.streams import caller_streams
from gridgen.runtime.trajectories import linearised

#: Answers a call, from the kernel, its inputs by name, the backend and ``out``.
Answer = Callable[[Kernel, "dict[str, Array | None]", "str | None", Any], Any]
#: Likewise that of a rollout, which has a course.
RolloutAnswer = Callable[[Kernel, "dict[str, Array | None]", Course, "str | None", Any], Any]


class Dispatched(Declared):
    """The functions of a robot, each call handed to what answers it.

    Args:
        module:    the robot's description and kernels.
        evaluator: knows which backend computes.
        answer:    answers calls, but for those of the hybrid and pipeline schedules.
        hybrid:    answers these, with the kernel of the thread schedule.
        pipelined: answers those of the pipeline schedule.
        rollout:   answers calls of rollouts.
    """

    def __init__(
        self,
        module: Module,
        evaluator: Evaluator,
        answer: Answer,
        hybrid: Answer,
        pipelined: Answer,
        rollout: RolloutAnswer,
    ) -> None:
        self._module = module
        self._description = module.description
        self._evaluator = evaluator
        self._answer, self._answer_rollout = answer, rollout
        self._answers = {"hybrid": hybrid, "pipeline": pipelined}
        self._planner = evaluator.planner
        self._planned_before: dict[tuple[Any, ...], tuple[str, str]] = {}
        self._methods_on_host: bool | None = None
        self._numpy_on_gpu = evaluator.target(np.empty(0), None).prefers_teams
        self._chosen: dict[tuple[Any, ...], tuple[Kernel, Answer]] = {}
        self._several: dict[tuple[Any, ...], Several] = {}

    def _forget(self) -> None:
        """Plan anew in the calls to come."""
        self._evaluator.forget()
        self._planned_before.clear()
        self._methods_on_host = None

    def _call(
        self,
        function: str,
        arrays: tuple[Array, ...],
        out: Array | None,
        options: Any,
        schedule: str = "auto",
        method: str = "auto",
        frame: str | Sequence[str] | None = None,
        reference: str = "",
        course: Course | None = None,
    ) -> Any:
        """Answer a call of a function; see ``Calls``."""
        if type(arrays[0]) is not np.ndarray:
            framework = self._transformed(arrays, options)
            if framework is not None:
                return framework.call(
                    self, function, arrays, out, options, schedule, method, frame, reference, course
                )
        row = FUNCTIONS[function]
        if frame is not None and not isinstance(frame, str):
            frame = listed_frames(frame)
        backend = options.pop("backend", None)
        given: tuple[str, ...] = ()
        if options:
            self._check_known(row, options)
            given = _inputs_given(options)
        if row.has_teams and isinstance(schedule, str) and schedule == "auto":
            method, schedule = self._planned(row, method, arrays[0], backend)
        variant = WITH_EFFORTS if course is not None and check_efforts(course) else ""
        wanted = (function, schedule, method, frame, reference, given, variant)
        try:
            kernel, answer = self._chosen[wanted]
        except (KeyError, TypeError):  # not called yet; or a list in place of a name
            kernel, answer = self._chosen[wanted] = self._choose(row, *wanted[1:])
        inputs: dict[str, Any] = kernel.nothing.copy()
        for name, array in zip(inputs, arrays, strict=False):
            inputs[name] = array
        for name in options:
            if name in inputs:
                inputs[name] = options[name]
        if course is not None:
            return self._answer_rollout(kernel, inputs, course, backend, out)
        return answer(kernel, inputs, backend, out)

    def _transformed(self, arrays: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Return the framework that answers a call, or ``None`` if it is to be computed here."""
        return None

    def _chosen_for(self, row: Function, *wanted: Any) -> tuple[Kernel, Answer]:
        """Return what ``_choose`` does, remembered."""
        key = (row.name, *wanted)
        if key not in self._chosen:
            self._chosen[key] = self._choose(row, *wanted)
        return self._chosen[key]

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
        keywords: dict[str, Any] = options  # type: ignore[assignment]
        if arrays and type(arrays[0]) is not np.ndarray:
            framework = self._transformed(arrays, keywords)
            if framework is not None:
                return framework.compute(self, functions, arrays, out, keywords)
        backend = keywords.pop("backend", None)
        given = _inputs_given(keywords) if keywords else ()
        try:
            several = self._several[functions, given]
        except (KeyError, TypeError):  # not called yet; or a list
            several = self._choose_several(functions, given)
        if keywords:
            several.check_options(keywords)
            self._check_parameters(keywords)
        inputs = several.inputs(arrays, keywords)
        room = None if out is None else several.flat(out)
        return self._regrouped(self._answer(several.kernel, inputs, backend, room), several)

    def _choose_several(self, functions: Sequence[str], given: tuple[str, ...]) -> Several:
        """Return what a call of ``compute`` means, and remember it."""
        parts = self._read_parts(functions)
        can_read = optional_inputs_of(parts)
        key = key_of(parts, tuple(name for name in given if name in can_read))
        found = Several(parts, self._module.kernels.find(key))
        self._several[tuple(functions), given] = found
        return found

    def _read_parts(self, functions: object) -> tuple[Part, ...]:
        """Return the parts that a user names; see ``read_parts``."""
        known = self._description
        idents = dict(zip(known.frame_names, known.frame_idents, strict=True))
        return read_parts(functions, idents, self._method_unasked)

    def _method_unasked(self, row: Function) -> str:
        """Return the algorithm that a name without one means among several."""
        if row.method_word != "method":
            return next(iter(row.methods))
        return self._method(row, "auto", "thread")

    def _regrouped(self, results: Any, several: Several) -> Any:
        """Return what a kernel answered, as results of several functions."""
        return several.answer(results)

    def _check_known(self, row: Function, options: Mapping[str, Any]) -> None:
        """Raise for a keyword argument that a function does not have, as Python does."""
        for name in options:
            if name not in row.options:
                raise TypeError(f"Robot.{row.name}() got an unexpected keyword argument {name!r}")
        self._check_parameters(options)

    def _check_parameters(self, options: Mapping[str, Any]) -> None:
        """Raise for numbers of the robot that are no inputs of it."""
        parameters = self._description.parameters
        for name in PARAMETERS:
            if options.get(name) is not None and name not in parameters.own:
                raise OptionError(parameters.refusal(name))

    def _planned(
        self, row: Function, method: str, q: Array, backend: str | None
    ) -> tuple[str, str]:
        """Return method and schedule that ``auto`` means for ``q``, as the caller gave it.

        Batches up to the same power of two are served alike, so that little has to be remembered.
        """
        is_numpy = backend is None and type(q) is np.ndarray and not self._numpy_on_gpu
        if is_numpy and not (len(row.methods) > 1 and self._chooses_on_host()):
            return method, "auto"
        shape = getattr(q, "shape", None)
        if not isinstance(shape, tuple):
            return method, "auto"
        if is_traced(q):
            return method, "thread"
        states = shape[0] if len(shape) == 2 else math.prod(shape[:-1])
        rounds = max(states - 1, 0).bit_length()
        device = str(getattr(q, "device", None))
        wanted = (row.name, method, backend, type(q), device, getattr(q, "dtype", None), rounds)
        try:
            return self._planned_before[wanted]
        except (KeyError, TypeError):  # not called yet; or a list in place of a name
            found = self._planned_anew(row, method, q, backend, 1 << rounds)
            self._planned_before[wanted] = found
            return found

    def _chooses_on_host(self) -> bool:
        """Tell whether ``auto`` may mean several methods on this CPU."""
        if self._methods_on_host is None:
            profile = self._planner.profile(host_place())
            self._methods_on_host = profile is not None and profile.any_method
        return self._methods_on_host

    def _planned_anew(
        self, row: Function, method: str, q: Array, backend: str | None, batch: int
    ) -> tuple[str, str]:
        """Return method and schedule of what is taken for the fastest."""
        with caller_streams((q,))():
            q = adopt(q, row.arguments[0])
        target = self._evaluator.target(q, backend)
        if target.prefers_teams:
            place = place_of(q)
        elif target.name == "cpu" and self._chooses_on_host():
            place = host_place()
        else:
            return method, "auto"
        key = KernelKey(row.name, self._method(row, method, "auto"))
        dtype = DTYPES.get(q.dtype, "float64")
        found = self._planner.choice(key, row, batch, place, dtype, method == "auto")
        return (found.method or method, found.schedule) if found else (method, "auto")

    def _offered_unasked(self) -> list[str]:
        """Return the functions without words that the robot has and that nobody need ask for."""
        every = (FUNCTIONS[name] for name in GENERATED)
        rows = [row for row in every if row.is_default and not row.of_frame]
        refusals, has = self._module.kernels.refusals, self._module.kernels.has
        keys = {row.name: KernelKey(row.name, self._method_unasked(row)) for row in rows}
        return [name for name, key in keys.items() if key.name not in refusals and has(key)]

    def _kernel_of_call(
        self,
        row: Function,
        q: Array,
        backend: str | None,
        method: str,
        frame: str | Sequence[str] | None,
        reference: str,
    ) -> Kernel:
        """Return the kernel of a call whose first array is ``q``."""
        schedule = "auto"
        if "" in row.methods:
            method = "auto"
        elif row.method_word != "method" and method == "auto":
            method = next(iter(row.methods))
        if row.has_teams:
            method, schedule = self._planned(row, method, q, backend)
        if not row.of_frame and not row.has_frames:
            frame = None
        elif frame is not None and not isinstance(frame, str):
            frame = listed_frames(frame)
        reference = reference if row.of_frame else ""
        return self._choose(row, schedule, method, frame, reference, (), "")[0]

    def _choose(
        self,
        row: Function,
        schedule: str,
        method: str,
        frame: str | tuple[str, ...] | None,
        reference: str,
        given: tuple[str, ...],
        variant: str,
    ) -> tuple[Kernel, Answer]:
        """Return the kernel whose arrays a call has, and what answers with it."""
        method = self._method(row, method, schedule)
        schedules = row.methods[method].schedules
        check_choice("schedule", schedule, ("auto", *schedules))
        key = KernelKey(row.name, method, variant=variant, inputs=given)
        find = self._module.kernels.find
        if row.of_frame or (row.has_frames and frame is not None):
            return self._find_frames(row, key, frame, reference)
        chosen = schedules[0] if schedule == "auto" else schedule
        # The hybrid schedule takes what its kernels need from the arguments of the thread's.
        kernel = find(key if chosen == "hybrid" else replace(key, schedule=chosen))
        return kernel, self._answers.get(chosen, self._answer)

    def _find_frames(
        self, row: Function, key: KernelKey, frame: object, reference: str
    ) -> tuple[Kernel, Answer]:
        """Return the kernel of a frame, or of several, and what answers with it."""
        kernels, whole = self._module.kernels, key
        key = self._of_frames(row, key, frame, reference)
        if row.of_frame or kernels.has(key):
            return kernels.find(key), self._answer
        names = [frame] if isinstance(frame, str) else frame
        indices = [self._frame_index(name) for name in names]  # type: ignore[attr-defined]
        chosen = indices[0] if isinstance(frame, str) else indices
        return kernels.find(whole), partial(self._answer_some, chosen)

    def _of_frames(self, row: Function, key: KernelKey, frame: object, reference: str) -> KernelKey:
        """Return a kernel's key for a frame, or for an axis of several."""
        if row.of_frame:
            check_choice("reference", reference, REFERENCES)
        if isinstance(frame, tuple):
            parts = tuple(self._of_frames(row, key.plain, name, reference) for name in frame)
            return replace(key, parts=parts)
        ident = self._description.frame_idents[self._frame_index(frame)]
        return replace(key, frame=ident, reference=reference)

    def _answer_some(
        self,
        indices: int | list[int],
        kernel: Kernel,
        inputs: dict[str, Array | None],
        backend: str | None,
        out: Any,
    ) -> Any:
        """Answer for some frames by the kernel of all."""
        if out is None:
            return self._answer(kernel, inputs, backend, None)[..., indices, :, :]
        first, (result,) = kernel.first, kernel.outputs
        with caller_streams((*inputs.values(), out))():
            q = adopt(inputs[first], first)
            with on_device(q):
                every = self._answer(kernel, {**inputs, first: q}, backend, None)
                found = every[..., indices, :, :]
                (room,) = result_arrays(out, {result: found.shape}, q)
                room[...] = found.get() if on_gpu(found) and not on_gpu(room) else found
        return out

    def _method(self, row: Function, method: str, schedule: str) -> str:
        """Return the algorithm that a call wants; ``auto`` is the first that the robot can have."""
        if "" in row.methods:
            return ""
        if row.method_word != "method":  # each has a meaning of its own: none is the best
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

    def _linearised(
        self, function: str, arrays: dict[str, Any], options: Any, substeps: int, out: Any
    ) -> Any:
        """Linearise every step of trajectories; see ``Calls``."""
        row = FUNCTIONS[function]
        self._check_known(row, {n: value for n, value in arrays.items() if n not in row.arguments})
        given = {n: value for n, value in arrays.items() if value is not None or n in row.arguments}
        step, gradient = partial(self.step, **options), partial(self.step_gradient, **options)
        return linearised(self._description, step, gradient, given, substeps, out)

    def _configuration(self, function: str, like: Array | None, *others: Any) -> Array:
        """Make configurations, with no generated code; see ``Calls``."""
        q = getattr(configurations, function)(self._description.space, *others)
        return q if like is None else array_like(q, like)

    # -- names --------------------------------------------------------------------------------

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


def listed_frames(frames: object) -> tuple[Any, ...]:
    """Return a list of frames as what can be remembered."""
    if isinstance(frames, (bytes, Set)) or not isinstance(frames, Iterable):
        raise OptionError(
            f"frame is {show_value(frames)}; give the name of one link (all: frame_names)"
        )
    if not (listed := tuple(frames)):
        raise OptionError("the list of frames is empty; give the names of links (all: frame_names)")
    return listed


def _inputs_given(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which optional inputs keyword arguments are of."""
    return tuple(
        name
        for name, optional in OPTIONAL_INPUTS.items()
        if any(options.get(array) is not None for array in optional.arrays)
    )
