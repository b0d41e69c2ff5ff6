"""From the call of a function to the kernel that serves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any

import numpy as np

from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS, Declared, Function
from gridgen.functions.arrays import OPTIONAL_INPUTS
from gridgen.functions.calls import Course
from gridgen.functions.types import REFERENCES, Array
from gridgen.kernel import Kernel, KernelKey
from gridgen.naming import show, show_value, similar
from gridgen.runtime import configurations
from gridgen.runtime.arrays import DTYPES, array_like
from gridgen.runtime.description import Module
from gridgen.runtime.evaluation import Evaluator, check_choice
from gridgen.runtime.libraries import adopt
from gridgen.runtime.places import host_place, place_of
from gridgen.runtime.streams import caller_streams

#: Answers a call, from the kernel, its inputs by name, the backend and ``out``.
Answer = Callable[[Kernel, "dict[str, Array | None]", "str | None", Any], Any]
#: Likewise that of a rollout, which has a course.
RolloutAnswer = Callable[[Kernel, "dict[str, Array | None]", Course, "str | None", Any], Any]


class Dispatched(Declared):
    """The functions of a robot, each call handed to what answers it.

    Args:
        module:    the robot's description and kernels.
        evaluator: knows which backend computes.
        answer:    answers calls, but for those of the hybrid schedule.
        hybrid:    answers these, with the kernel of the thread schedule.
        rollout:   answers calls of rollouts.
    """

    def __init__(
        self,
        module: Module,
        evaluator: Evaluator,
        answer: Answer,
        hybrid: Answer,
        rollout: RolloutAnswer,
    ) -> None:
        self._module = module
        self._description = module.description
        self._evaluator = evaluator
        self._answer, self._answer_hybrid, self._answer_rollout = answer, hybrid, rollout
        self._planner = evaluator.planner
        self._planned_before: dict[tuple[Any, ...], tuple[str, str]] = {}
        self._methods_on_host: bool | None = None
        self._numpy_on_gpu = evaluator.target(np.empty(0), None).prefers_teams
        self._chosen: dict[tuple[Any, ...], tuple[Kernel, Answer]] = {}

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
        frame: str | None = None,
        reference: str = "",
        course: Course | None = None,
    ) -> Any:
        """Answer a call of a function; see ``Calls``."""
        row = FUNCTIONS[function]
        backend = options.pop("backend", None)
        given: tuple[str, ...] = ()
        if options:
            _check_known(row, options)
            given = _inputs_given(options)
        if row.has_teams and isinstance(schedule, str) and schedule == "auto":
            method, schedule = self._planned(row, method, arrays[0], backend)
        wanted = (function, schedule, method, frame, reference, given)
        try:
            kernel, answer = self._chosen[wanted]
        except (KeyError, TypeError):  # not called yet; or a list in place of a name
            kernel, answer = self._chosen[wanted] = self._choose(row, *wanted[1:])
        inputs = dict(zip(kernel.inputs, arrays, strict=False))
        for name in kernel.inputs:
            if name not in inputs:
                inputs[name] = options.get(name)
        if course is not None:
            return self._answer_rollout(kernel, inputs, course, backend, out)
        return answer(kernel, inputs, backend, out)

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
        rounds = max(shape[0] - 1, 0).bit_length() if len(shape) > 1 else 0
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

    def _choose(
        self,
        row: Function,
        schedule: str,
        method: str,
        frame: str | None,
        reference: str,
        given: tuple[str, ...],
    ) -> tuple[Kernel, Answer]:
        """Return the kernel whose arrays a call has, and what answers with it."""
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
            return find(key), self._answer_hybrid
        return find(replace(key, schedule=chosen)), self._answer

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

    def _configuration(self, function: str, like: Array | None, *others: Any) -> Array:
        """Make configurations, with no generated code; see ``Calls``."""
        q = getattr(configurations, function)(self._description.space, *others)
        return q if like is None else array_like(q, like)

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
