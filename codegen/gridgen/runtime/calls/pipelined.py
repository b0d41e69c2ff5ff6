"""Inverse dynamics along trajectories, each on a block of a GPU that goes from sample to sample."""

from __future__ import annotations

from typing import Any

from gridgen.backends.along import AlongKernel
from gridgen.backends.failures import ERRORS, raise_clearly
from gridgen.errors import ShapeError
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.runtime.arrays.arguments import fits, leading_axes
from gridgen.runtime.arrays.layout import on_device, result_arrays
from gridgen.runtime.arrays.libraries import adopt, gpu_of, namespace, on_gpu, restored
from gridgen.runtime.arrays.staging import Operand, numbers_of
from gridgen.runtime.arrays.streams import caller_streams
from gridgen.runtime.calls.chunks import arguments_of
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.module.description import Description


class Pipelined:
    """The functions of one robot along trajectories.

    Args:
        description: of the robot.
        evaluator:   compiles kernels.
    """

    def __init__(self, description: Description, evaluator: Evaluator) -> None:
        self._description, self._evaluator = description, evaluator

    def evaluate(self, resolved: Resolved) -> Any:
        """Check the arguments, compile the kernel if need be, and run it.

        Args:
            resolved: the call. Its inputs are (B, T, ...) or what NumPy broadcasts to it; gravity,
                      the motion of the base and numbers of the robot also (B, ...).
        """
        try:
            return self._evaluate(resolved)
        except ERRORS as error:
            raise_clearly(error, gpu_of(resolved.inputs[resolved.kernel.first]))
            raise

    def _evaluate(self, resolved: Resolved) -> Any:
        kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
        backend = resolved.backend
        first, (result,) = kernel.first, kernel.outputs
        with caller_streams((*inputs.values(), out))():
            q = adopt(inputs[first], first)
            with on_device(q):
                flat = {
                    name: value if value is None else adopt(value, name, q)
                    for name, value in inputs.items()
                }
                paths = {n: s for n, s in kernel.inputs.items() if not ARRAYS[n].shared}
                paths = {name: shape for name, shape in paths.items() if flat[name] is not None}
                lead = leading_axes(self._description.name, paths, flat)
                if len(lead) not in (1, 2):
                    raise ShapeError(
                        f"{first} has shape {q.shape}; {self._description.name} needs a row for "
                        f"every sample, (B, T, {q.shape[-1]}) or (T, {q.shape[-1]})"
                    )
                for name, shape in kernel.inputs.items():
                    if flat[name] is not None:
                        flat[name] = _flat(name, flat[name], lead, shape)
                found = self._computed(kernel, flat, lead[-1], backend)
                found = found.reshape(*lead, *kernel.outputs[result])
                if out is None:
                    return restored(found, inputs[first])
                (room,) = result_arrays(out, {result: found.shape}, q)
                room[...] = found.get() if on_gpu(found) and not on_gpu(room) else found
        return out

    def _computed(
        self, kernel: Kernel, inputs: dict[str, Array | None], samples: int, backend: str | None
    ) -> Array:
        """Return the efforts of samples, of which so many follow each other; (N, ...) each."""
        evaluator = self._evaluator
        call = evaluator.checked(kernel, inputs, inputs[kernel.first], None)

        def run(operands: list[Operand], batch: int) -> None:
            compiled = evaluator.compiled(kernel, operands[0].array, backend).kernel
            assert isinstance(compiled, AlongKernel)
            compiled.of(samples)(arguments_of(numbers_of(operands)), batch)

        return evaluator.computed(call, evaluator.target(call.q, backend), run)


def _flat(name: str, array: Array, lead: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Return an array with one axis for trajectories and samples; what all share as it is."""
    own, state = array.shape[: array.ndim - len(shape)], array.shape[array.ndim - len(shape) :]
    is_shared = ARRAYS[name].shared
    if is_shared and array.shape == shape:
        return array
    if is_shared and own and own == lead[:-1]:
        array, own = array.reshape(*own, 1, *state), (*own, 1)
    if state != shape or not fits(own, lead):
        wanted = ", ".join(map(str, (*lead, *shape)))
        raise ShapeError(f"{name} has shape {array.shape}; with q as given it needs ({wanted})")
    return namespace(array).broadcast_to(array, (*lead, *shape)).reshape(-1, *shape)
