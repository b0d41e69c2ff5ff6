"""Calls of pullbacks: vector-Jacobian products of whatever a robot's functions compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import FEEDBACK, cotangent
from gridgen.functions.calls import Course
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.naming import show, show_value, similar
from gridgen.runtime.description import Module
from gridgen.runtime.dispatch import Dispatched
from gridgen.runtime.evaluation import Evaluator, check_choice
from gridgen.runtime.rollout_pullback import Asked, RolloutPullbacks, by_name


def _asked_rollout(
    kernel: Kernel,
    inputs: dict[str, Array | None],
    course: Course,
    backend: str | None,
    out: Any,
) -> Asked:
    return Asked(kernel, inputs, backend, out, course)


class AskedFunctions(Dispatched):
    """A robot's functions, each of which returns what it would be answered from.

    Args:
        module:    the robot's.
        evaluator: the robot's.
    """

    def __init__(self, module: Module, evaluator: Evaluator) -> None:
        super().__init__(module, evaluator, Asked, Asked, _asked_rollout)

    def _frame_indices(self, frames: Iterable[str]) -> list[int]:
        raise OptionError(
            f"frames is {show_value(frames)}: the derivative is that of all frames; leave it out, "
            "and give zeros as cotangents of the others (frame_names)"
        )


class Pullbacks:
    """The pullbacks of a robot's functions.

    Args:
        module:    the robot's.
        evaluator: the robot's.
    """

    def __init__(self, module: Module, evaluator: Evaluator) -> None:
        self._module, self._evaluator = module, evaluator
        self._asked = AskedFunctions(module, evaluator)
        self._rollouts = RolloutPullbacks(module.description, evaluator)

    def vjp(
        self,
        function: str,
        cotangents: Any,
        arguments: Sequence[Any],
        wrt: Sequence[str] | None,
        results: Any,
        options: dict[str, Any],
    ) -> Any:
        """Return the cotangents of the arguments; see ``Robot.vjp``."""
        row = FUNCTIONS[function]
        if "method" in options:
            traced = (name for name, one in row.methods.items() if one.algorithm)
            check_choice("method", options["method"], ("auto", *traced))
        if row.has_teams:
            check_choice("schedule", options.get("schedule", "auto"), ("auto", "thread"))
            options["schedule"] = "thread"
        asked: Asked = getattr(self._asked, function)(*arguments, **options)
        if asked.kernel.key.parts:
            raise OptionError(f"{function} of several links has no vjp: ask for one link at a time")
        by = _checked_wrt(wrt, asked, row.arguments)
        kernel = self._module.kernels.find(replace(asked.kernel.key, wrt=by))
        if asked.course is not None:
            return self._rollouts.evaluate(kernel, asked, asked.course, cotangents, results)
        known = dict(asked.inputs)
        known |= by_name("cotangents", asked.kernel, cotangents, cotangent)
        if wanted := [name for name in asked.kernel.outputs if name in kernel.inputs]:
            if results is None:
                results = self._evaluator.evaluate(asked.kernel, dict(asked.inputs), asked.backend)
            known |= {
                name: value
                for name, value in by_name("results", asked.kernel, results, str).items()
                if name in wanted
            }
        inputs = {name: known[name] for name in kernel.inputs}
        return self._evaluator.evaluate(kernel, inputs, asked.backend, asked.out)

    def rollout(
        self, kernel: Kernel, arrays: Mapping[str, Any], course: Course, backend: str | None
    ) -> Any:
        """Return the derivatives that a way back computes, from arrays by name.

        Args:
            kernel:  goes back.
            arrays:  the inputs of the rollout, and the derivatives by its results.
            course:  how far it goes.
            backend: overrides the robot's.
        """
        there = self._module.kernels.find(replace(kernel.key, wrt=()))
        inputs = {name: arrays.get(name) for name in there.inputs}
        cotangents = tuple(arrays.get(cotangent(name)) for name in there.outputs)
        asked = Asked(there, inputs, backend, None, course)
        return self._rollouts.evaluate(kernel, asked, course, cotangents, None)


def _checked_wrt(
    wrt: Sequence[str] | None, asked: Asked, arguments: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names of the inputs to differentiate by, in the order of the kernel's inputs."""
    if wrt is None:
        return arguments
    names = [wrt] if isinstance(wrt, str) else [*wrt]
    inputs = [name for name in asked.kernel.inputs if name not in FEEDBACK]
    for name in names:
        if name in FEEDBACK:
            raise OptionError(
                f"wrt names {name}, of a controller: its derivatives follow from those by tau, to "
                "which K x is added: by K they are their products with x"
            )
        if name not in inputs:
            near = similar(str(name), inputs) or inputs
            raise OptionError(
                f"wrt names {show_value(name)}, which {asked.kernel.key.function} does not read "
                f"here; the nearest are {', '.join(map(show, near))}"
            )
    if len(set(names)) < len(names) or names != [name for name in inputs if name in names]:
        order = ", ".join(name for name in inputs if name in names)
        raise OptionError(f"wrt is {show_value(wrt)}; give each name once, in this order: {order}")
    if not names:
        raise OptionError(f"wrt is empty; name some of {', '.join(inputs)}")
    return tuple(names)
