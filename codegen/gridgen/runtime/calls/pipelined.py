"""Inverse dynamics along trajectories; each GPU block computes one, sample by sample."""

from __future__ import annotations

from typing import Any

from gridgen.backends.along import TrajectoryKernel
from gridgen.errors import ShapeError
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.runtime.arrays.arguments import leading_axes, over_time
from gridgen.runtime.arrays.layout import result_arrays
from gridgen.runtime.arrays.libraries import adopt, namespace, on_gpu, restored
from gridgen.runtime.arrays.staging import Operand, numbers_of
from gridgen.runtime.arrays.streams import first_adopted
from gridgen.runtime.calls.chunks import arguments_of
from gridgen.runtime.calls.evaluation import Evaluator
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.module.description import RobotRecord


class Pipelined:
    """The functions of one robot along trajectories.

    Args:
        description: the robot's description.
        evaluator:   compiles kernels.
    """

    def __init__(self, description: RobotRecord, evaluator: Evaluator) -> None:
        self._description, self._evaluator = description, evaluator

    def evaluate(self, resolved: Resolved) -> Any:
        """Validate the arguments, compile the kernel when necessary, and run it.

        Args:
            resolved: the call. Its inputs broadcast to (B, T, ...) as in NumPy; gravity, the motion
                      of the base and robot parameters may also be (B, ...).
        """
        kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
        first, (result,) = kernel.first, kernel.outputs
        with first_adopted(inputs[first], first, (*inputs.values(), out)) as q:
            flat = {
                name: value if value is None else adopt(value, name, q)
                for name, value in inputs.items()
            }
            given = {name: s for name, s in kernel.inputs.items() if flat[name] is not None}
            paths = {name: shape for name, shape in given.items() if not ARRAYS[name].shared}
            lead = leading_axes(self._description.name, paths, flat)
            if len(lead) not in (1, 2):
                raise ShapeError(
                    f"{first} has shape {q.shape}; {self._description.name} needs a row for "
                    f"every sample, (B, T, {q.shape[-1]}) or (T, {q.shape[-1]})"
                )
            for name, shape in given.items():
                flat[name] = _flat(name, flat[name], lead, shape)
            found = self._computed(kernel, flat, lead[-1], resolved.backend)
            found = found.reshape(*lead, *kernel.outputs[result])
            if out is None:
                return restored(found, inputs[first])
            (room,) = result_arrays(out, {result: found.shape}, q)
            room[...] = found.get() if on_gpu(found) and not on_gpu(room) else found
        return out

    def _computed(
        self, kernel: Kernel, inputs: dict[str, Array | None], samples: int, backend: str | None
    ) -> Array:
        """Return the joint torques (N, nv) of consecutive samples; inputs have N rows each."""
        evaluator = self._evaluator
        call = evaluator.checked(kernel, inputs, inputs[kernel.first], None)

        def run(operands: list[Operand], batch: int) -> None:
            compiled = evaluator.compiled(kernel, operands[0].array, backend).kernel
            assert isinstance(compiled, TrajectoryKernel)
            compiled.of(samples)(arguments_of(numbers_of(operands)), batch)

        return evaluator.computed(call, evaluator.target(call.q, backend), run)


def _flat(name: str, array: Array, lead: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Return an array with one axis for trajectories and samples; shared arrays unchanged."""
    whole = over_time(name, array, lead, shape, namespace(array), once=ARRAYS[name].shared)
    if whole is None:
        wanted = ", ".join(map(str, (*lead, *shape)))
        raise ShapeError(f"{name} has shape {array.shape}; with q as given it needs ({wanted})")
    return whole.reshape(-1, *shape) if whole.ndim > len(shape) else whole
