"""Backpropagation through rollouts: one kernel makes states anew from checkpoints and goes back.

Of a trajectory about sqrt(T) states are kept as checkpoints, and the kernel has room for the states
of the steps between two of them. A CPU works on a pack of states from end to beginning before the
next, so that room for all steps is a part of its cache, and the beginning is the only checkpoint.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from gridgen.backends.failures import ERRORS, raise_clearly
from gridgen.errors import ShapeError
from gridgen.functions.arrays import cotangent
from gridgen.functions.calls import Course, CourseWords
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.runtime.arrays.arguments import adopted, are_one, results_given
from gridgen.runtime.arrays.layout import on_device, result_arrays
from gridgen.runtime.arrays.libraries import adopt, gpu_of, namespace
from gridgen.runtime.arrays.streams import caller_streams
from gridgen.runtime.calls.evaluation import PACK_BYTES, Evaluator
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.module.description import Module
from gridgen.runtime.rollouts.arguments import Argument, feedback_of, kept_of, nothing
from gridgen.runtime.rollouts.call import Given, RolloutCall, course_words
from gridgen.runtime.rollouts.rollout import Rollouts

# The most that a CPU keeps of a pack of states on the way there [bytes]: a part of the second level
# of the cache.
_NEAR_BYTES = 256 << 10


class RolloutPullbacks:
    """The ways back along the rollouts of one robot.

    Args:
        module:    the robot's description and kernels.
        evaluator: compiles kernels.
    """

    def __init__(self, module: Module, evaluator: Evaluator) -> None:
        self._description = module.description
        self._evaluator = evaluator
        self._rollouts = Rollouts(module, evaluator)

    def evaluate(self, kernel: Kernel, resolved: Resolved, cotangents: Any, results: Any) -> Any:
        """Check the arguments, and compute the derivatives by some of them.

        Args:
            kernel:     goes back.
            resolved:      the rollout as it would be called; its ``out`` is for the derivatives.
            cotangents: derivatives by its results.
            results:    what it returned, if that is known.

        Raises:
            ShapeError, DtypeError, DeviceError: an argument does not fit.
            OptionError: as of the rollout.
        """
        first, course = resolved.inputs["q0"], resolved.course
        assert course is not None
        bars = by_name("cotangents", resolved.kernel, cotangents, cotangent)
        known = None if results is None else by_name("results", resolved.kernel, results, str)
        followed = feedback_of(course).values()
        others = (*bars.values(), *(known or {}).values(), *results_given(resolved.out))
        try:
            with caller_streams((*resolved.inputs.values(), *followed, *others))():
                q = adopt(first, "q0")
                with on_device(q):
                    call = self._checked(kernel, resolved, q, course, bars, known)
                    self._rollouts.run(call, resolved.backend)
                    return call.answer
        except ERRORS as error:
            raise_clearly(error, gpu_of(first))
            raise

    def _checked(
        self,
        kernel: Kernel,
        resolved: Resolved,
        q: Array,
        course: Course,
        bars: dict[str, Any],
        known: dict[str, Any] | None,
    ) -> RolloutCall:
        """Return the call of the kernel that goes back; states are made for it if need be."""
        given = self._rollouts.given(resolved.kernel, resolved.inputs, q, course)
        every, moments = kept_of(course, given.steps)
        words = course_words(course, given.steps, every, moments)
        paths = [self._path(kernel, name, bars[name], q, given, moments) for name in bars]
        outputs = self._outputs(kernel, given, q, resolved.out)
        if known is not None and moments is not None:
            made = [self._path(kernel, name, known[name], q, given, moments) for name in known]
            words = words._replace(between=every)
        else:
            words = words._replace(between=self._between(resolved, q, words))
            made = self._checkpoints(kernel, resolved, given, q, words)
        rest = [
            item if item.is_read else nothing(item.name, item.axes, made[0].array)
            for item in given.inputs[len(made) :]
        ]
        inputs = (*made, *rest, *paths)
        return RolloutCall(
            kernel, inputs, outputs, words, given.lead, resolved.inputs["q0"], resolved.out
        )

    def _path(
        self, kernel: Kernel, name: str, value: Any, q: Array, given: Given, moments: int | None
    ) -> Argument:
        """Return an array like a result of the rollout; ``None`` is zero."""
        shape = kernel.inputs[name]
        wanted = given.shape(moments, shape)
        if value is None:
            value = namespace(q).zeros(wanted, dtype=q.dtype)
        array = adopted(self._description, name, shape, value, q, "q0")
        if array.shape != wanted:
            raise ShapeError(
                f"{name} has shape {array.shape}; as tau and keep are given it needs {wanted}"
            )
        if len(given.lead) > 1 and not are_one(array, len(given.lead)):
            array = namespace(array).array(array, order="C")
        return given.result(name, array, moments, shape)

    def _outputs(self, kernel: Kernel, given: Given, q: Array, out: Any) -> tuple[Argument, ...]:
        """Return room for the derivatives: an axis of time for whatever has one."""
        times: dict[str, int | None] = dict.fromkeys(kernel.outputs)
        for item in given.inputs:
            has_time = item.lead > bool(given.lead)
            times[cotangent(item.name)] = item.array.shape[item.lead - 1] if has_time else None
        times[cotangent("tau")] = given.steps
        shapes = {n: given.shape(times[n], shape) for n, shape in kernel.outputs.items()}
        results = result_arrays(out, shapes, q)
        found = []
        for (name, shape), array in zip(kernel.outputs.items(), results, strict=True):
            item = given.result(name, array, times[name], shape)
            # One for all steps is their sum.
            is_one = times[name] == 1 and name != cotangent("tau")
            found.append(replace(item, time=None) if is_one else item)
        return tuple(found)

    def _between(self, resolved: Resolved, q: Array, words: CourseWords) -> int:
        """Return how many steps there shall be between checkpoints."""
        steps, substeps = words.steps, words.substeps
        size = math.prod(q.shape[-1:]) + math.prod(resolved.kernel.inputs["qd0"])
        is_near = steps * substeps * size * PACK_BYTES <= _NEAR_BYTES
        if is_near and not self._evaluator.target(q, resolved.backend).teams:
            return max(steps, 1)
        return max(math.isqrt(max(steps - 1, 0) // substeps) + 1, 1)

    def _checkpoints(
        self, kernel: Kernel, resolved: Resolved, given: Given, q: Array, words: CourseWords
    ) -> list[Argument]:
        """Return states of the way there: the beginning, and those that have yet to be made."""
        names = [*kernel.inputs][:2]
        count = -(-words.steps // words.between)
        if count <= 1:
            beginning = zip(names, given.inputs, strict=False)
            return [replace(item, name=name) for name, item in beginning]
        shapes = [given.shape(count, kernel.inputs[name]) for name in names]
        outputs = tuple(
            given.result(name, namespace(q).empty(shape, dtype=q.dtype), count, shape[-1:])
            for name, shape in zip(names, shapes, strict=True)
        )
        there = words._replace(
            steps=(count - 1) * words.between, every=words.between, begins=1, between=0
        )
        call = RolloutCall(
            resolved.kernel, given.inputs, outputs, there, given.lead, resolved.inputs["q0"], None
        )
        self._rollouts.run(call, resolved.backend)
        return [*outputs]


def by_name(what: str, kernel: Kernel, values: Any, named: Any) -> dict[str, Any]:
    """Return arrays like a kernel's results by name."""
    names = [*kernel.outputs]
    several = list(values) if isinstance(values, (tuple, list)) and len(names) > 1 else [values]
    if len(several) != len(names):
        raise ShapeError(
            f"{what} are {len(several)} arrays; {kernel.key.function} has {len(names)} results: "
            f"{', '.join(names)}"
        )
    return {named(name): value for name, value in zip(names, several, strict=True)}
