"""Forward dynamics on two processors at once (Yang, Wu, Pan (prefix sums) Algorithm 3).

The articulated inertias depend on the positions alone; their recursion has no parallel form, so the
CPU computes them. Meanwhile the GPU computes the bias forces. The inertias are copied to the GPU,
which computes the rest with scans. Without a GPU the emulated backend replaces it, in a thread of
its own.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from dataclasses import replace
from typing import Any

from gridgen.backends import target_for
from gridgen.backends.cpu.backend import CpuKernel
from gridgen.backends.cuda.failures import failures
from gridgen.errors import DeviceError
from gridgen.functions.types import Array, ArrayLike
from gridgen.kernel import Kernel, KernelKey
from gridgen.papers.halves import ACCELERATIONS, BIAS, INERTIAS
from gridgen.papers.pipeline import PaperCalls
from gridgen.papers.stream_task import StreamTask, task_of
from gridgen.robot import Robot
from gridgen.runtime.arrays.arguments import Call, checked_call, results_given
from gridgen.runtime.arrays.layout import address
from gridgen.runtime.arrays.libraries import memory_of, on_gpu
from gridgen.runtime.arrays.staging import Operand, numbers_of, operand
from gridgen.runtime.arrays.streams import first_adopted
from gridgen.runtime.calls.compiled import arguments_of, check_memory
from gridgen.runtime.calls.resolved import Resolved

#: Computes the inertias, for any target of the rest.
_HOST = target_for("host")
#: States per chunk, whose inertias are copied together; bounds their memory.
STATES = 1024


class Hybrid(PaperCalls):
    """Forward dynamics of a robot on two processors.

    Args:
        robot: a robot of ``gridgen.load``.

    Raises:
        OptionError: the robot is that of a generated module.
    """

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self._transfers: dict[tuple[int, int, Any], _Transfer] = {}
        self._lock = threading.Lock()

    def forward_dynamics(
        self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike, *, out: Any = None, **options: Any
    ) -> Array:
        """Return the joint accelerations.

        Arrays on a GPU use that GPU. For others the emulated backend replaces it.

        Args:
            q:       joint positions (B, nq) [rad or m].
            qd:      joint velocities (B, nv) [rad/s or m/s].
            tau:     joint torques (B, nv) [N m or N].
            out:     array for the result.
            options: optional inputs of ``Robot.forward_dynamics``.

        Returns:
            qdd: joint accelerations (B, nv) [rad/s^2 or m/s^2].

        Raises:
            ModelError:  the robot has mimic joints.
            DeviceError: a stream is being captured into a CUDA graph.
            others as of ``Robot.forward_dynamics``.
        """
        # The kernel of the thread schedule declares the arrays.
        method = KernelKey("forward_dynamics", "aba")
        kernel, inputs = self.arguments(method, {"q": q, "qd": qd, "tau": tau}, options)
        others = (*inputs.values(), *results_given(out))
        with first_adopted(inputs[kernel.first], kernel.first, others) as first:
            call = checked_call(self.description, kernel, inputs, first, out)
            target = self.evaluator.compiled.target(first, None)
            check_memory(first, target)
            bias = self.kernels.find(replace(BIAS, inputs=kernel.key.inputs))

            def run(operands: list[Operand], states: int) -> None:
                for begin in range(0, states, STATES):
                    *given, qdd = _rows(call, operands, begin)
                    self._run(bias, dict(zip(kernel.inputs, given, strict=True)), qdd)

            return self.evaluator.computed(call, target, run)

    def _run(self, bias: Kernel, arrays: dict[str, Array], qdd: Array) -> None:
        """Compute some states."""
        q = arrays["q"]
        teams = target_for(memory_of(q), teams=True).name
        known = arrays | (self._on_gpu if on_gpu(q) else self._on_cpu)(bias, arrays, teams)
        rest = self.kernels.find(ACCELERATIONS)
        self.evaluator.evaluate(Resolved(rest, _inputs(rest, known), teams, qdd))

    def _on_cpu(self, bias: Kernel, arrays: dict[str, Array], teams: str) -> dict[str, Array]:
        """Compute both halves of some states, one of them in a thread."""
        from concurrent.futures import ThreadPoolExecutor  # its import would slow module starts

        evaluate, carried = self.evaluator.evaluate, self.kernels.find(INERTIAS)
        with ThreadPoolExecutor(1) as pool:
            efforts = pool.submit(evaluate, Resolved(bias, _inputs(bias, arrays), teams))
            inertias = evaluate(Resolved(carried, _inputs(carried, arrays), _HOST.name))
            return {"h": efforts.result(), "articulated": inertias}

    def _on_gpu(self, bias: Kernel, arrays: dict[str, Array], teams: str) -> dict[str, Array]:
        """Enqueue both parts of some states, including the CPU's, and their combination.

        Raises:
            DeviceError: the current stream is being captured into a graph, whose launches would
                         share host memory.
        """
        import cupy

        now = cupy.cuda.get_current_stream()
        if now.is_capturing():
            raise DeviceError(
                "the hybrid schedule computes on the CPU too, which is not captured in a CUDA "
                'graph: capture schedule="thread" or "scan"'
            )
        carried = self.kernels.find(INERTIAS)
        needed = {
            name: cupy.ascontiguousarray(array) for name, array in _inputs(carried, arrays).items()
        }
        q = needed["q"]
        shape = (*q.shape[:-1], *carried.outputs["articulated"])
        inertias = cupy.empty(shape, q.dtype)
        with self._lock:
            key = q.device.id, failures(q.device.id), q.dtype
            transfer = self._transfers.get(key)
            if transfer is None:
                transfer = self._transfers[key] = _Transfer()
        try:
            with self._lock:
                there_and_back = self._inertias(transfer, carried, needed, inertias, now)
            efforts = self.evaluator.evaluate(Resolved(bias, _inputs(bias, arrays), teams))
            now.wait_event(there_and_back)
        except BaseException:
            # Also after an exception: no copy may use freed memory.
            try:
                transfer.stream.synchronize()
            except RuntimeError:  # the device has failed
                pass
            raise
        return {"h": efforts, "articulated": inertias}

    def _inertias(
        self,
        transfer: _Transfer,
        carried: Kernel,
        given: dict[str, Array],
        target: Array,
        now: Any,
    ) -> Any:
        """Enqueue the computation of inertias on the CPU; quaternions of a GPU are not validated.

        Returns:
            the event after the copy of the result.
        """
        found = transfer.buffer("inertias", target)
        sources = {name: transfer.buffer(name, array) for name, array in given.items()}
        q = sources["q"]
        operands = [operand(sources[name], len(shape)) for name, shape in carried.inputs.items()]
        operands.append(operand(found, len(carried.outputs["articulated"])))
        kernel = self.evaluator.compiled.find(carried, q, _HOST.name).kernel
        assert isinstance(kernel, CpuKernel)
        task = task_of(kernel, arguments_of(numbers_of(operands)), 1 if q.ndim == 1 else len(q))
        copies = [(array, sources[name]) for name, array in given.items()]
        return transfer.enqueue(copies, task, (found, target), now)


def _rows(call: Call, operands: list[Operand], begin: int) -> list[Array]:
    """Return the rows of some states; an array of one state unchanged."""
    if not call.lead:
        return [item.array for item in operands]
    return [item.part(begin, begin + STATES) for item in operands]


def _inputs(kernel: Kernel, arrays: dict[str, Array]) -> dict[str, Array | None]:
    """Return the arrays that a kernel reads, in its order."""
    return {name: arrays[name] for name in kernel.inputs}


class _Transfer:
    """A second stream, in which the CPU computes on pinned memory.

    Attributes:
        stream: the stream.
    """

    def __init__(self) -> None:
        import cupy

        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._buffers: dict[str, Array] = {}
        # Tasks stay in memory until the events of their results are complete.
        self._under_way: deque[tuple[Any, StreamTask]] = deque()
        # Before the memory is freed, and before the interpreter exits.
        weakref.finalize(self, _settle, self.stream)

    def enqueue(
        self,
        given: list[tuple[Array, Array]],
        task: StreamTask,
        result: tuple[Array, Array],
        now: Any,
    ) -> Any:
        """Copy arrays to the host, compute there, and copy the result to the GPU.

        The stream orders successive calls, so all calls share the pinned memory.

        Returns:
            the event after the copy of the result.
        """
        while self._under_way and self._under_way[0][0].done:
            self._under_way.popleft()
        self.stream.wait_event(now.record())
        for array, target in given:
            array.data.copy_to_host_async(address(target), array.nbytes, self.stream)
        task.enqueue(self.stream.ptr)
        found, target = result
        target.data.copy_from_host_async(address(found), found.nbytes, self.stream)
        arrived = self.stream.record()
        self._under_way.append((arrived, task))
        return arrived

    def buffer(self, name: str, like: Array) -> Array:
        """Return pinned memory for an array, from earlier calls if large enough."""
        import cupyx

        if name not in self._buffers or self._buffers[name].size < like.size:
            self.stream.synchronize()  # copies of earlier calls may be pending
            self._buffers[name] = cupyx.empty_pinned(like.size, like.dtype)
        return self._buffers[name][: like.size].reshape(like.shape)


def _settle(last: Any) -> None:
    """Wait for the pending work of a stream, if its device still works."""
    with contextlib.suppress(RuntimeError):
        last.synchronize()
