"""Backward pass of rollouts: one kernel recomputes states from checkpoints.

About sqrt(T) states of a trajectory are checkpoints, and the kernel's scratch memory holds the
states between two of them. A CPU computes one pack of states over all steps before the next pack.
The scratch memory for all steps fits into its cache, so the initial state is the only checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gridgen.errors import ShapeError
from gridgen.functions.arrays import cotangent
from gridgen.functions.calls import RolloutSettings
from gridgen.functions.types import Array
from gridgen.kernel import Kernel, Shape
from gridgen.runtime.arrays.arguments import Call, adopted, are_one, checked_inputs, results_given
from gridgen.runtime.arrays.defaults import default
from gridgen.runtime.arrays.layout import extent, is_same_place, meet, on_device, result_arrays
from gridgen.runtime.arrays.libraries import adopt, namespace, on_gpu
from gridgen.runtime.arrays.staging import Operand, operand
from gridgen.runtime.arrays.streams import caller_streams, first_adopted
from gridgen.runtime.arrays.times import stored_steps
from gridgen.runtime.calls.compiled import PACK_BYTES
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.module.description import RobotRecord


class Outputs:
    """Output arrays of the caller, validated before the computation.

    Args:
        out:    one array per result.
        shapes: shapes of the results, by name, for one state.
        lead:   leading axes.
        first:  the first argument of the call, unchanged.
        name:   name of the first argument.

    Raises:
        ShapeError, DtypeError, DeviceError: an array is not compatible, or overlaps another.
    """

    def __init__(
        self, out: Sequence[Any], shapes: Mapping[str, Shape], lead: Shape, first: Array, name: str
    ) -> None:
        self._given, self._first, q = out, first, adopt(first, name)
        full = {result: (*lead, *shape) for result, shape in shapes.items()}
        self._arrays = result_arrays(out[0] if len(out) == len(full) == 1 else out, full, q)

    def meets(self, read: Mapping[str, Any]) -> bool:
        """Return whether one of the arrays shares memory with the inputs of kernels."""
        there = [extent(adopt(value, name)) for name, value in read.items() if value is not None]
        return any(meet(extent(array), other) for array in self._arrays for other in there)

    def fill(self, found: Iterable[Any]) -> None:
        """Copy results into the arrays, except results that are already in them."""
        for target, result in zip(self._arrays, found, strict=True):
            with caller_streams((self._first, *self._given, result))():
                numbers = adopt(result, "results")
                with on_device(numbers):
                    if not is_same_place(target, numbers):
                        is_brought = on_gpu(numbers) and not on_gpu(target)
                        target[...] = numbers.get() if is_brought else numbers


def one_by_one(*several: Any) -> tuple[Any, ...]:
    """Return results, each an array or a tuple of arrays, as a flat tuple of arrays."""
    return tuple(array for results in several for array in results_given(results))


def by_name(what: str, function: str, values: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return positional arrays by name."""
    names = [*names]
    several = list(values) if isinstance(values, (tuple, list)) and len(names) > 1 else [values]
    if len(several) != len(names):
        raise ShapeError(
            f"{what} are {len(several)} arrays; {function} takes {len(names)} here: "
            f"{', '.join(names)}"
        )
    return dict(zip(names, several, strict=True))


# Most bytes of scratch memory that a CPU uses for the states of a pack: a part of the second-level
# cache.
_NEAR_BYTES = 256 << 10


class RolloutPullbacks:
    """The backward passes of one robot's rollouts."""

    def __init__(self, description: RobotRecord, evaluator: Evaluator) -> None:
        self._description, self._evaluator = description, evaluator

    def evaluate(self, kernel: Kernel, resolved: Resolved, cotangents: Any, results: Any) -> Any:
        """Validate the arguments, and compute the derivatives by some of them.

        Raises:
            ShapeError, DtypeError, DeviceError: an argument is not compatible.
            OptionError: as of the rollout.
        """
        first, settings, there = resolved.inputs["q0"], resolved.settings, resolved.kernel
        assert settings is not None
        function, names = there.key.function, ["q_path", "qd_path"]
        bars = by_name("cotangents", function, cotangents, names)
        if settings.stop_when is not None and isinstance(results, tuple):
            results = results[:2]
        known = {} if results is None else by_name("results", function, results, names)
        others = (*bars.values(), *known.values(), *results_given(resolved.out))
        bars = {cotangent(name): bar for name, bar in bars.items()}
        with first_adopted(first, "q0", (*resolved.inputs.values(), *others)) as q:
            call = self._checked(kernel, resolved, q, settings, bars, known)
            return self._evaluator.evaluate_checked(call, resolved.backend)

    def _checked(
        self,
        kernel: Kernel,
        resolved: Resolved,
        q: Array,
        settings: RolloutSettings,
        bars: dict[str, Any],
        known: dict[str, Any],
    ) -> Call:
        """Return the call of the backward kernel, with states recomputed when necessary."""
        there = checked_inputs(self._description, resolved.kernel, resolved.inputs, q, settings)
        words = there.settings
        assert words is not None
        every, moments = stored_steps(settings, words.steps)
        is_known = bool(known) and moments is not None
        between = every if is_known else self._between(there, resolved.backend)
        back = there._replace(kernel=kernel, settings=words._replace(between=between), copied=())
        paths = [self._path(back, name, bar, moments) for name, bar in bars.items()]
        if is_known:
            made = [self._path(back, name, path, moments) for name, path in known.items()]
        else:
            made = self._checkpoints(there, back, resolved.backend)
        call = back._replace(inputs=[*made, *there.inputs[len(made) :], *paths])
        # Add a time axis to arrays that have one; the derivative of a constant is a sum over steps.
        return call.with_results(resolved.out, {cotangent(n): m for n, m in there.times.items()})

    def _path(self, back: Call, name: str, value: Any, moments: int | None) -> Operand:
        """Return an array shaped like a result of the rollout; ``None`` is zero."""
        shape, q = back.kernel.inputs[name], back.q
        expected = (*back.lead, *(() if moments is None else (moments,)), *shape)
        if value is None:
            value = namespace(q).broadcast_to(default(name, shape, q), expected)
        array = adopted(self._description, name, shape, value, q, "q0")
        if array.shape != expected:
            raise ShapeError(
                f"{name} has shape {array.shape}; with these tau and store_every it needs "
                f"{expected}"
            )
        if len(back.lead) > 1 and not are_one(array, len(back.lead)):
            array = namespace(array).array(array, order="C")
        return back.laid(name, shape, array)

    def _between(self, there: Call, backend: str | None) -> int:
        """Return the number of steps between checkpoints."""
        assert there.settings is not None
        steps, substeps = there.settings.steps, there.settings.substeps
        size = sum(math.prod(there.kernel.inputs[name]) for name in ("q0", "qd0"))
        is_near = steps * substeps * size * PACK_BYTES <= _NEAR_BYTES
        if is_near and not self._evaluator.compiled.target(there.q, backend).teams:
            return max(steps, 1)
        return max(math.isqrt(max(steps - 1, 0) // substeps) + 1, 1)

    def _checkpoints(self, there: Call, back: Call, backend: str | None) -> list[Operand]:
        """Return the checkpoints: the initial state, and arrays for the others."""
        words = back.settings
        assert words is not None
        count = -(-words.steps // words.between)
        if count <= 1:
            return [operand(item.array, item.axes, 0) for item in there.inputs[:2]]
        steps = (count - 1) * words.between
        words = words._replace(steps=steps, every=words.between, begins=1, between=0)
        moments = {"q_path": count, "qd_path": count}
        call = there._replace(settings=words).with_results(None, moments)
        self._evaluator.evaluate_checked(call, backend)
        return [*call.outputs[:2]]
