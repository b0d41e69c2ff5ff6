"""Forward dynamics on two processors at once (Yang, Wu, Pan (prefix sums) Algorithm 3).

The articulated inertias follow from the positions alone, by a recursion that has no parallel form:
the CPU computes them. At the same time the GPU computes the bias efforts. The inertias are copied
over, and what remains are scans on the GPU. Without a GPU the emulated backend stands in for it, in
a thread of its own.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from gridgen.backends import target_for
from gridgen.cost.hybrid import STATES
from gridgen.errors import DeviceError, ModelError
from gridgen.functions.steps import ACCELERATIONS, BIAS, INERTIAS
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.runtime.arguments import Call, results_given
from gridgen.runtime.arrays import on_device
from gridgen.runtime.description import Module
from gridgen.runtime.evaluation import Evaluator, check_memory
from gridgen.runtime.libraries import adopt, memory_of, on_gpu
from gridgen.runtime.staging import Operand
from gridgen.runtime.streams import caller_streams

#: What computes the inertias, wherever the rest is computed.
_HOST = target_for("host")


class HybridDynamics:
    """Forward dynamics with its halves on two processors.

    Args:
        module:    the robot's kernels.
        evaluator: computes the halves.
    """

    def __init__(self, module: Module, evaluator: Evaluator) -> None:
        self._kernels = module.kernels
        self._evaluator = evaluator
        self._transfer: dict[tuple[int, Any], _Transfer] = {}
        self._lock = threading.Lock()

    def forward_dynamics(
        self,
        kernel: Kernel,
        inputs: dict[str, Array | None],
        backend: str | None,
        out: Array | None,
    ) -> Array:
        """Return the joint accelerations.

        Args:
            kernel:  that of the thread schedule, with the same optional inputs.
            inputs:  its arguments by name; ``None`` for the default.
            backend: overrides the robot's: ``cuda`` for arrays on a GPU; any other means the CPU,
                      with the emulated backend in place of a GPU.
            out:     array for the result.
        """
        with caller_streams((*inputs.values(), *results_given(out)))():
            q = adopt(inputs[kernel.first], kernel.first)
            with on_device(q):
                call = self._evaluator.checked(kernel, inputs, q, out)
                check_memory(q, self._evaluator.target(q, backend))
                bias = self._bias(kernel)

                def run(operands: list[Operand], states: int) -> None:
                    for begin in range(0, states, STATES):
                        *given, qdd = _rows(call, operands, begin)
                        self._run(bias, dict(zip(kernel.inputs, given, strict=True)), qdd)

                return self._evaluator.computed(call, run)

    def _bias(self, kernel: Kernel) -> Kernel:
        """Return the kernel of the bias efforts with the same optional inputs."""
        key = replace(BIAS, inputs=kernel.key.inputs)
        try:
            return self._kernels.find(key)
        except ModelError as error:
            wanted = f"{kernel.key.function},{BIAS.function}"
            raise ModelError(
                f'{error} (schedule="hybrid" needs it: --functions {wanted})'
            ) from error

    def _run(self, bias: Kernel, arrays: dict[str, Array], qdd: Array) -> None:
        """Compute some states."""
        q = arrays["q"]
        teams = target_for(memory_of(q), teams=True).name
        given = {name: arrays[name] for name in bias.inputs}
        halves = (self._on_gpu if on_gpu(q) else self._on_cpu)(bias, given, teams)
        known = {"q": q, "tau": arrays["tau"]} | halves
        rest = self._kernels.find(ACCELERATIONS)
        self._evaluator.evaluate(rest, known, teams, qdd)

    def _on_cpu(self, bias: Kernel, given: dict[str, Array], teams: str) -> dict[str, Array]:
        """Compute both halves of some states, one of them in a thread."""
        from concurrent.futures import ThreadPoolExecutor  # costs the start of every module time

        evaluate, carried = self._evaluator.evaluate, self._kernels.find(INERTIAS)
        with ThreadPoolExecutor(1) as beside:
            efforts = beside.submit(evaluate, bias, dict(given), teams)
            inertias = evaluate(carried, {"q": given["q"]}, _HOST.name)
            return {"h": efforts.result(), "articulated": inertias}

    def _on_gpu(self, bias: Kernel, given: dict[str, Array], teams: str) -> dict[str, Array]:
        """Compute both halves of some states, and enqueue what brings them together.

        Raises:
            DeviceError: the current stream is being captured into a graph, without the CPU's half.
        """
        import cupy

        now = cupy.cuda.get_current_stream()
        if now.is_capturing():
            raise DeviceError(
                'schedule="hybrid" computes on the CPU too, which a CUDA graph cannot: capture '
                'schedule="thread" or "scan"'
            )
        q = cupy.ascontiguousarray(given["q"])
        carried = self._kernels.find(INERTIAS)
        shape = (*q.shape[:-1], *carried.outputs["articulated"])
        inertias = cupy.empty(shape, q.dtype)
        # One call at a time fills the buffers; the GPU may still be busy with the last one's.
        with self._lock:
            transfer = self._transfer.get((q.device.id, q.dtype))
            if transfer is None:
                transfer = self._transfer[q.device.id, q.dtype] = _Transfer()
            fetched, positions = transfer.fetch(q, now)
            efforts = self._evaluator.evaluate(bias, dict(given), teams)  # enqueued, not awaited
            fetched.synchronize()
            computed = transfer.room("inertias", shape, q.dtype)
            self._evaluator.evaluate(carried, {"q": positions}, _HOST.name, computed)
            transfer.send(computed, inertias, now)
        return {"h": efforts, "articulated": inertias}


def _rows(call: Call, operands: list[Operand], begin: int) -> list[Array]:
    """Return what arrays hold of some states; one state alone is all that there is."""
    if call.batch is None:
        return [item.array for item in operands]
    return [item.part(begin, begin + STATES) for item in operands]


class _Transfer:
    """A stream beside the caller's, and pinned memory: copies run while both processors work."""

    def __init__(self) -> None:
        import cupy

        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._rooms: dict[str, Array] = {}

    def room(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return pinned memory, that of the last call if it is large enough."""
        import cupyx

        size = 1
        for extent in shape:
            size *= extent
        if name not in self._rooms or self._rooms[name].size < size:
            self._rooms[name] = cupyx.empty_pinned(size, dtype)
        return self._rooms[name][:size].reshape(shape)

    def fetch(self, array: Array, now: Any) -> tuple[Any, Array]:
        """Copy an array from the GPU; return the event of its arrival, and where it arrives.

        Whoever waits for that has waited for the last call's copies too: one stream makes them all.
        """
        self._stream.wait_event(now.record())
        target = self.room("positions", array.shape, array.dtype)
        array.data.copy_to_host_async(target.ctypes.data, array.nbytes, self._stream)
        return self._stream.record(), target

    def send(self, source: Array, target: Array, now: Any) -> None:
        """Copy an array to the GPU, which does nothing more in stream ``now`` before it is there.

        The room for it has been there since ``fetch``.
        """
        target.data.copy_from_host_async(source.ctypes.data, source.nbytes, self._stream)
        now.wait_event(self._stream.record())
