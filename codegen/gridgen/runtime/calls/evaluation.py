"""From arguments to results: prepared calls, validation, memory, launches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from gridgen.backends import Target
from gridgen.backends.cuda.failures import ERRORS, raise_device_error
from gridgen.errors import DtypeError
from gridgen.functions.calls import Request
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.runtime.arrays import staging
from gridgen.runtime.arrays.arguments import Call, checked_call, results_given
from gridgen.runtime.arrays.layout import on_device, result_arrays
from gridgen.runtime.arrays.libraries import (
    adopt,
    check_no_capture,
    gpu_of,
    has_own_stream,
    is_traced,
    on_gpu,
)
from gridgen.runtime.arrays.staging import Batch, Operand, Run, run_in_place
from gridgen.runtime.arrays.streaming import run_streamed
from gridgen.runtime.arrays.streams import caller_streams, first_adopted
from gridgen.runtime.calls.compiled import CompiledKernels
from gridgen.runtime.calls.prepared import Key, PreparedCalls, layout_key
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.configurations import needs_normalizing, normalize
from gridgen.runtime.module.description import Module
from gridgen.runtime.planning.planner import Planner

# The fields of a request that select its kernel, in addition to its options.
_words_of = attrgetter("function", "schedule", "method", "frame", "reference")

#: Evaluates calls with arguments that JAX traces, from the module and the call.
Traced = Callable[[Module, Resolved], Any]


def refuse_traced(module: Module, resolved: Resolved) -> Any:
    """Raise for arguments that JAX traces."""
    raise DtypeError(f"JAX traces an argument of {resolved.kernel.name}; give arrays with numbers")


class Evaluator:
    """Evaluates the functions of one module, each compiled at its first call.

    Args:
        module:  the robot's description and source text.
        backend: ``auto``, ``cpu``, ``cuda`` or ``emulated``.
        planner: selects launches; by default from its times.
        traced:  evaluates calls with arguments that JAX traces.

    Attributes:
        planner: the planner.
        traced:  evaluates calls with arguments that JAX traces.
        compiled: the compiled kernels.
    """

    def __init__(
        self,
        module: Module,
        backend: str,
        planner: Planner | None = None,
        traced: Traced = refuse_traced,
    ) -> None:
        self._module = module
        self._description = module.description
        self.planner, self.traced = planner or Planner(module), traced
        self.compiled = CompiledKernels(module, backend, self.planner)
        self._prepared = PreparedCalls(module.description)

    def forget(self) -> None:
        """Discard plans and loaded kernels: new times may have been measured."""
        self.planner.forget()
        self.compiled.forget()
        self._prepared.clear()

    # -- calls --------------------------------------------------------------------------------

    def repeated(self, request: Request) -> Any | None:
        """Return the results of a request like an earlier one with NumPy arrays, else ``None``."""
        arrays, options = request.arrays, request.options
        words = (  # as `_words_of`, and faster
            request.function,
            request.schedule,
            request.method,
            request.frame,
            request.reference,
            arrays[0].dtype,
        )
        try:
            prepared = self._prepared.get((*words, *options) if options else words)
        except TypeError:  # a list of frames
            return None
        if prepared is None:
            return None
        names, rest, check, launch, shared = prepared
        if options:
            if any([value is None for value in options.values()]):
                return None
            rest = tuple(map(options.get, names, rest))
        if shared or check is not None:
            results = prepared.results([*arrays, *rest], request.out)
        else:
            results = launch(arrays + rest, request.out)
        if self.compiled.not_converged:
            self.compiled.warn_if_not_converged()
        return results

    def evaluate(self, resolved: Resolved) -> Any:
        """Validate the arguments, compile the kernel when necessary, and run it.

        Returns:
            the result; a tuple for several results, a named one for fused functions.
        """
        kernel, out, settings = resolved.kernel, resolved.out, resolved.settings
        values = [*resolved.inputs.values()]
        first, results, key = values[0], None, None
        try:
            if resolved.backend is None:
                if settings is None and type(first) is np.ndarray:
                    prepared = self._prepared.get((kernel.name, first.dtype))
                    if prepared is not None:
                        results = prepared.results(values, out)
                if results is None:
                    key = layout_key(kernel.name, values, out, settings)
                    if key is not None and (prepared := self._prepared.get(key)) is not None:
                        results = prepared.results(values, out)
            if results is None:
                results = self._evaluate(resolved, key)
        except ERRORS as error:
            raise_device_error(error, gpu_of(first))
            raise
        if self.compiled.not_converged:
            self.compiled.warn_if_not_converged()
        if resolved.request is not None:
            self._note(resolved.request, kernel)
        return results if resolved.fused is None else resolved.fused.answer(results)

    def evaluate_frames(self, resolved: Resolved) -> Any:
        """Return the results of some frames from the kernel of all frames."""
        kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
        chosen = (..., resolved.frames, slice(None), slice(None))
        every = self.evaluate(replace(resolved, out=None))
        if out is None:
            return every[chosen]
        first, (result,) = kernel.first, kernel.outputs
        with first_adopted(inputs[first], first, (*inputs.values(), out)) as q:
            found = adopt(every, result)[chosen]
            (target,) = result_arrays(out, {result: found.shape}, q)
            target[...] = found.get() if on_gpu(found) and not on_gpu(target) else found
        return out

    def _evaluate(self, resolved: Resolved, key: Key | None) -> Any:
        """Evaluate with arrays that need full validation; prepare for calls with the same key."""
        kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
        values = tuple(inputs.values())
        if any(map(is_traced, values)):
            return self.traced(self._module, resolved)
        # Memory is allocated, and kernels are launched, on the caller's stream of q's device.
        with caller_streams((*values, *results_given(out)))():
            q = adopt(inputs[kernel.first], kernel.first)
            with on_device(q):
                call = checked_call(self._description, kernel, inputs, q, out, resolved.settings)
                results = self.evaluate_checked(call, resolved.backend)
        if key is not None and call.states:
            if not is_streamed(call.arrays, self.compiled.target(q, None)):
                compiled = self.compiled.find(kernel, q, None, call.states)
                self._prepared.note(key, values, call, compiled)
        return results

    def _note(self, request: Request, kernel: Kernel) -> None:
        """Compute later requests like one with NumPy arrays without resolving them, if possible."""
        dtype, options = request.arrays[0].dtype, request.options
        prepared = self._prepared.get((kernel.name, dtype))
        if prepared is not None:
            key, names, rest = (*_words_of(request), dtype, *options), *prepared[:2]
            count = len(request.arrays)
            self._prepared.add(key, prepared._replace(names=names[count:], rest=rest[count:]))

    # -- validated calls ----------------------------------------------------------------------

    def evaluate_checked(self, call: Call, backend_name: str | None = None) -> Any:
        """Run the kernel of a validated call; as ``evaluate``."""
        target = self.compiled.target(call.q, backend_name)
        return self.computed(call, target, functools.partial(self._run, call, backend_name))

    def computed(self, call: Call, target: Target, run: Run) -> Any:
        """Return the results of a call on arrays of any layout, on any device.

        Args:
            call:   its arguments; quaternions may be nearly normalized.
            target: the target that computes it.
            run:    computes states of inputs and outputs on the target's device.
        """
        if not call.states:
            return call.answer
        inputs, space = call.inputs, self._description.space
        # Validating numbers on a GPU would synchronize every call.
        if space.turning and not on_gpu(call.q):
            inputs = [*inputs]
            for i, name in call.configurations:
                if needs_normalizing(space, inputs[i].array, name):
                    adjust = functools.partial(normalize, space)
                    inputs[i] = inputs[i]._replace(seen=None, adjust=adjust)
        compute = run_streamed if is_streamed(call.arrays, target) else run_in_place
        part_bytes = None if call.settings is None else staging.ROLLOUT_PART_BYTES
        names = tuple(call.kernel.inputs)
        compute(run, Batch(names, inputs, call.outputs, call.states, part_bytes))
        return call.answer

    def _run(
        self, call: Call, backend_name: str | None, operands: list[Operand], batch: int
    ) -> None:
        """Compute some states of arrays on the kernel's device."""
        q = operands[0].array
        compiled = self.compiled.find(call.kernel, q, backend_name, call.states)
        like = call.like if has_own_stream(call.like) else q
        if like is q and (compiled.takes_memory or (call.trail and compiled.is_given_scratch)):
            refusal = f"{call.kernel.name} takes memory that a graph would not keep; bind the call"
            check_no_capture(q, refusal)
        compiled.launch(batch, like, call.trail, call.numbers(operands))


def is_streamed(arrays: Iterable[Array], target: Target) -> bool:
    """Return whether a GPU computes with arrays that are partly on the host."""
    return target.arrays == "device" and not all(map(on_gpu, arrays))
