"""Rollouts: from a call to the kernel that walks along the axis of time of its arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from gridgen.backends.failures import ERRORS, raise_clearly
from gridgen.backends.interface import Arguments
from gridgen.errors import ShapeError
from gridgen.functions.arrays import FEEDBACK
from gridgen.functions.calls import Course
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.runtime.arrays.arguments import adopted, results_given
from gridgen.runtime.arrays.layout import (
    check_dtype,
    meet,
    on_device,
    result_arrays,
)
from gridgen.runtime.arrays.libraries import (
    adopt,
    check_no_capture,
    gpu_of,
    is_traced,
    namespace,
    on_gpu,
)
from gridgen.runtime.arrays.streams import caller_streams
from gridgen.runtime.calls.chunks import Scratch, turns
from gridgen.runtime.calls.evaluation import Evaluator, is_streamed
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.configurations import needs_normalizing, normalize
from gridgen.runtime.module.description import Module
from gridgen.runtime.rollouts.arguments import (
    Argument,
    argument,
    batch_of,
    feedback_of,
    flattened,
    kept_of,
    nothing,
    wanted,
)
from gridgen.runtime.rollouts.call import Given, RolloutCall, course_words
from gridgen.runtime.rollouts.launch_cache import FamiliarRollouts, rollout_key
from gridgen.runtime.rollouts.streaming import run_rollout_streamed

#: Arguments with configurations in them.
_CONFIGURATIONS = ("q0", "q_path", "q_ref")


class Rollouts:
    """The rollouts of one robot.

    Args:
        module:    the robot's description and kernels.
        evaluator: compiles kernels.
    """

    def __init__(self, module: Module, evaluator: Evaluator) -> None:
        self._module, self._description = module, module.description
        self._evaluator = evaluator
        self._familiar = FamiliarRollouts()

    def evaluate(self, resolved: Resolved) -> Any:
        """Check the arguments, compile the kernel if need be, and run it."""
        try:
            return self._evaluate(resolved)
        except ERRORS as error:
            raise_clearly(error, gpu_of(resolved.inputs["q0"]))
            raise

    def _evaluate(self, resolved: Resolved) -> Any:
        kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
        backend, course = resolved.backend, resolved.course
        assert course is not None
        values = {**inputs, **feedback_of(course)}
        given = tuple(values.values())
        key = rollout_key(kernel, given, course, out) if backend is None else None
        if key is not None and (results := self._again(key, kernel, values, out)) is not None:
            return results
        if any(map(is_traced, given)):
            return self._evaluator.traced(self._module, resolved)
        with caller_streams((*given, *results_given(out)))():
            q = adopt(inputs["q0"], "q0")
            with on_device(q):
                call = self.checked(kernel, inputs, q, course, out)
                self.run(call, backend)
                on_host = self._evaluator.target(q, None).arrays == "host"
                if key is not None and on_host and len(call.lead) < 2:
                    self._familiar.note(key, values, call)
                return call.answer

    def _again(
        self, key: tuple[Any, ...], kernel: Kernel, values: dict[str, Any], out: Any
    ) -> Any | None:
        """Return the results of a rollout like an earlier one, or ``None``."""
        again = self._familiar.found(key, tuple(values.values()), out)
        if again is None:
            return None
        if (params := values.get("params")) is not None:
            if not self._description.parameters.are_accepted(params):
                return None
        space = self._description.space
        if space.free:
            for name in _CONFIGURATIONS:
                q = values.get(name)
                if q is not None and needs_normalizing(space, q.reshape(-1, space.nq), name):
                    return None
        compiled = self._evaluator.compiled(kernel, values["q0"], None)
        scratch = compiled.scratch(again.states, values["q0"])
        itemsize = values["q0"].dtype.itemsize
        for arguments, states in turns(again.numbers, again.states, itemsize, scratch):
            compiled.kernel(arguments, states)
        return tuple(again.results) if out is None else out

    def checked(
        self,
        kernel: Kernel,
        inputs: dict[str, Array | None],
        q: Array,
        course: Course,
        out: Any,
    ) -> RolloutCall:
        """Check the arguments of a rollout, and make room for results.

        Raises:
            OptionError: ``substeps``, ``keep`` or ``feedback`` make no sense.
            ShapeError, DtypeError, DeviceError: an argument does not fit.
        """
        given = self.given(kernel, inputs, q, course)
        every, moments = kept_of(course, given.steps)
        times = dict.fromkeys(kernel.outputs, moments) | {"tau_path": given.steps}
        shapes = {name: given.shape(times[name], shape) for name, shape in kernel.outputs.items()}
        results = result_arrays(out, shapes, q)
        outputs = tuple(
            given.result(name, array, times[name], shape)
            for (name, shape), array in zip(kernel.outputs.items(), results, strict=True)
        )
        words = course_words(course, given.steps, every, moments)
        return RolloutCall(
            kernel, given.inputs, outputs, words, given.lead, inputs["q0"], out, given.copied
        )

    def given(
        self, kernel: Kernel, inputs: dict[str, Array | None], q: Array, course: Course
    ) -> Given:
        """Check the inputs of a rollout; see ``checked``."""
        check_dtype(q, "q0")
        inputs = {**inputs, **feedback_of(course)}
        arrays = {
            name: q
            if name == "q0"
            else adopted(self._description, name, shape, inputs[name], q, "q0")
            for name, shape in kernel.inputs.items()
            if name not in FEEDBACK or inputs[name] is not None
        }
        robot = self._description.name
        arrays, several, copied = flattened(robot, kernel.inputs, arrays, namespace(q))
        batch, tau = batch_of(kernel.inputs, arrays), arrays["tau"]
        if tau.ndim < 2:
            raise ShapeError(
                f"tau has shape {tau.shape}; a rollout needs the efforts of every step, "
                f"{wanted('tau', kernel.inputs['tau'], batch, 'T')}"
            )
        steps = tau.shape[-2]
        given = tuple(
            argument(robot, name, shape, arrays[name], batch, steps)
            if name in arrays
            else nothing(name, shape, q)
            for name, shape in kernel.inputs.items()
        )
        lead = several or (() if batch is None else (batch,))
        return Given(given, lead, steps, copied)

    def run(self, call: RolloutCall, backend: str | None) -> None:
        """Compute a call; arrays that a kernel cannot work on are copied."""
        if not call.states:
            return
        if is_streamed(call.arrays, self._evaluator.target(call.q, backend)):
            run_rollout_streamed(call, self._adjustment, partial(self.run, backend=backend))
            return
        call = self._in_place(call)
        outputs = tuple(item.copy() if item.seen is None else item for item in call.outputs)
        for arguments, states, kernel in self.launches(call, outputs, backend):
            kernel(arguments, states)
        for target, item in zip(call.outputs, outputs, strict=True):
            if target.seen is None:
                target.array[...] = item.array

    def launches(
        self, call: RolloutCall, outputs: tuple[Argument, ...], backend: str | None
    ) -> Iterator[tuple[Any, int, Any]]:
        """Yield arguments, number of states and kernel of each launch."""
        compiled = self._evaluator.compiled(call.kernel, call.q, backend)
        if compiled.takes_memory or (call.trail and compiled.is_given_room):
            refusal = f"{call.kernel.name} takes memory that a graph would not keep; bind the call"
            check_no_capture(call.q, refusal)
        scratch = compiled.scratch(call.states, call.q, call.trail)
        for arguments, states in _turns(call, outputs, scratch):
            yield arguments, states, compiled.kernel

    def prepared(self, call: RolloutCall, backend: str | None) -> tuple[Callable[[], None], Any]:
        """Return what computes a call whenever it is called, and what it must keep in memory.

        Raises:
            ShapeError: an array takes a copy.
        """
        if not call.states:
            return _nothing_to_do, None
        compiled = self._evaluator.compiled(call.kernel, call.q, backend)
        if is_streamed(call.arrays, self._evaluator.target(call.q, backend)):
            return partial(self.run, call, backend), None
        if call.copied:
            raise ShapeError(
                f"{call.copied[0]} lies so that its axes {call.lead} are not one in memory, and a "
                "bound call makes no copies: give a contiguous array"
            )
        meeting = [item for item in call.inputs if _overlaps(item, call.outputs)]
        unseen = [item for item in (*call.inputs, *call.outputs) if item.seen is None]
        for item in (*meeting, *unseen):
            raise ShapeError(
                f"{item.name} overlaps a result, or lies so that no kernel can work on it in "
                "place, and a bound call makes no copies: give a contiguous array of its own"
            )
        scratch = compiled.scratch(call.states, call.q, call.trail)
        parts = _turns(call, call.outputs, scratch)
        launches = [compiled.kernel.prepare(*part) for part in parts]
        anyhow = partial(self.run, call, backend)

        def compute() -> None:
            if self._takes_normalizing(call):
                anyhow()
            else:
                for launch in launches:
                    launch()

        return compute, scratch

    def _in_place(self, call: RolloutCall) -> RolloutCall:
        """Return a call with copies of what its kernel cannot work on."""
        given = () if call.out is None else call.outputs  # new arrays overlap nothing
        inputs = tuple(self._readable(item, given) for item in call.inputs)
        return replace(call, inputs=inputs)

    def _readable(self, item: Argument, outputs: tuple[Argument, ...]) -> Argument:
        if adjust := self._adjustment(item):
            item = item.copy()
            adjust(item.array)
            return item
        return item.copy() if item.seen is None or _overlaps(item, outputs) else item

    def _adjustment(self, item: Argument) -> Callable[[Array], None] | None:
        """Return what brings quaternions of a copy to unit norm, if some are off."""
        space = self._description.space
        if not self._is_off(item):
            return None
        return lambda copy: normalize(space, copy.reshape(-1, space.nq))

    def _takes_normalizing(self, call: RolloutCall) -> bool:
        return any(map(self._is_off, call.inputs))

    def _is_off(self, item: Argument) -> bool:
        """Tell whether an array on the CPU has quaternions that are not of unit norm."""
        space = self._description.space
        if item.name not in _CONFIGURATIONS or not space.free or on_gpu(item.array):
            return False
        return needs_normalizing(space, item.array.reshape(-1, space.nq), item.name)


def _overlaps(item: Argument, outputs: tuple[Argument, ...]) -> bool:
    return any(meet(item.place, other.place) for other in outputs)


def _turns(
    call: RolloutCall, outputs: tuple[Argument, ...], scratch: Scratch | None
) -> Iterator[tuple[Arguments, int]]:
    words = [word for item in (*call.inputs, *outputs) for word in item.words()]
    return turns([*words, *call.course_numbers], call.states, call.q.dtype.itemsize, scratch)


def _nothing_to_do() -> None:
    """Compute no states."""
