"""Calls that are validated once and made many times."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NoReturn

from gridgen.backends.cuda.failures import ERRORS, raise_device_error
from gridgen.errors import DeviceError, DtypeError, OptionError, ShapeError
from gridgen.functions.calls import Solutions
from gridgen.functions.types import Array
from gridgen.naming import show
from gridgen.runtime.arrays.arguments import Call, checked_call, results_given
from gridgen.runtime.arrays.layout import address
from gridgen.runtime.arrays.libraries import (
    check_no_capture,
    gpu_of,
    has_own_stream,
    is_immutable,
    namespace,
    on_gpu,
)
from gridgen.runtime.arrays.staging import Operand, overlapping
from gridgen.runtime.arrays.streams import caller_streams, captured, first_adopted
from gridgen.runtime.arrays.validation import acceptance, validate
from gridgen.runtime.calls.compiled import chunks
from gridgen.runtime.calls.evaluation import Evaluator, is_streamed
from gridgen.runtime.calls.resolved import Evaluation, Resolved
from gridgen.runtime.module.description import Module


class Bound:
    """A call with validated arguments; see ``Robot.bind``.

    It holds references to its arrays and its scratch memory. The caller must hold a reference to it
    until the computation is complete, and as long as a graph that captured it exists.

    Args:
        label:   description, for its representation.
        compute: computes the results.
        answer:  result of a call.
        gpu:     index of its GPU, for errors.
        references: further objects that must stay in memory.
        is_on_cupys_stream: whether CuPy's current stream alone orders its work on a GPU.
    """

    def __init__(
        self,
        label: str,
        compute: Callable[[], object],
        answer: Any,
        gpu: int | None,
        references: Any,
        is_on_cupys_stream: bool,
    ) -> None:
        self._label = label
        self._gpu = gpu
        self._compute = compute
        self._answer = answer
        self._references = references
        self._is_on_cupys_stream = is_on_cupys_stream

    def __call__(self) -> Any:
        """Compute the results from the current content of the arguments.

        Returns:
            the given ``out``, else the array of the results, or a tuple of arrays: the same arrays
            in every call.

        Raises:
            QuaternionError: on the CPU, a quaternion is too far from unit norm.
            DeviceError:     the GPU has failed, or lacks memory for copies of NumPy arrays.
        """
        try:
            self._compute()
        except ERRORS as error:
            raise_device_error(error, self._gpu)
            raise
        return self._answer

    def then(self, *others: Bound) -> Bound:
        """Return one call for this and other calls in sequence: on a GPU, one CUDA graph.

        A graph requires that CuPy's stream orders all calls. Calls with PyTorch tensors are
        launched one by one, and so are all calls while the caller's stream is captured.

        Args:
            others: bound calls, of any robots, with arrays on the same device.

        Returns:
            a bound call, which returns a tuple of their results.

        Raises:
            OptionError: they compute on different devices.
            DeviceError: a stream is being captured.
        """
        every = (self, *others)
        if len({one._gpu for one in every}) > 1:
            where = ", ".join("CPU" if one._gpu is None else f"GPU {one._gpu}" for one in every)
            raise OptionError(f"calls in a row are on {where}: bind them to arrays on one device")
        computes = [one._compute for one in every]
        compute = partial(_in_turn, computes)
        if self._gpu is not None and all(one._is_on_cupys_stream for one in every):
            compute = partial(_launched, self._gpu, _graph(self._gpu, computes), compute)
        label, answer = "; ".join(one._label for one in every), tuple(o._answer for o in every)
        return Bound(label, compute, answer, self._gpu, every, self._is_on_cupys_stream)

    def __repr__(self) -> str:
        return f"<Bound {self._label}>"

    def __reduce__(self) -> NoReturn:
        """Raise: addresses are not valid in another process or for copies of the arrays."""
        raise OptionError(
            f"a bound call ({self._label}) holds the addresses of its arrays and cannot be pickled "
            "or copied: pickle the robot, and bind where the arrays are"
        )


class Binder:
    """Makes bound calls of a robot's functions."""

    def __init__(self, module: Module, evaluator: Evaluator) -> None:
        self._description, self._evaluator = module.description, evaluator

    def bind(self, resolved: Resolved) -> Bound:
        """Return the bound call of a function.

        Raises:
            the errors of ``Robot.bind``.
        """
        if resolved.evaluation in _UNBOUND:
            raise OptionError(_UNBOUND[resolved.evaluation])
        _check_mutable(resolved.inputs)
        kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
        values = (*inputs.values(), *results_given(out))
        streams, first = caller_streams(values), kernel.first
        with first_adopted(inputs[first], first, values) as q, _settled(q):
            call = checked_call(self._description, kernel, inputs, q, out, resolved.settings)
            _check_in_place(call)
            compute, references = self._computation(call, resolved.backend)
            label = f"{kernel.key.function} of {show(self._description.name)}, batch {call.states}"
            answer = call.answer
        if resolved.fused is not None:
            answer = resolved.fused.answer(answer)
        if kernel.key.function == "inverse_kinematics":
            answer = Solutions(*answer)
        is_on_cupys_stream = streams is nullcontext
        if not is_on_cupys_stream:
            compute = partial(_in_context, streams, compute)
        return Bound(label, compute, answer, gpu_of(call.q), (references, call), is_on_cupys_stream)

    def _computation(self, call: Call, backend: str | None) -> tuple[Callable[[], object], Any]:
        """Return a function that computes a call, and the objects that must stay in memory."""
        if not call.states:
            return _nothing, None
        general, q = partial(self._validated, call, backend), call.q
        if is_streamed(call.arrays, self._evaluator.compiled.target(q, backend)):
            return general, None
        robot = self._description
        compiled = self._evaluator.compiled.find(call.kernel, q, backend, call.states)
        direct, scratch = compiled.direct, None
        tests: list[Callable[[], bool]] = []
        is_at_once = False
        if direct and direct.direct and call.states <= direct.at_once:
            direct.make(call.states)
            launch: Callable[[], object] = partial(direct.direct, *call.arrays)
            is_at_once = True
        else:
            like = call.like if has_own_stream(call.like) else q
            scratch = compiled.scratch(call.states, like, call.trail)
            numbers = call.numbers((*call.inputs, *call.outputs))
            parts = [*chunks(numbers, call.states, q.dtype.itemsize, scratch)]
            launches = [compiled.kernel.prepare(*part) for part in parts]
            launch = launches[0] if len(launches) == 1 else partial(_in_turn, launches)
            if direct and robot.space.turning:
                tests.append(partial(direct.has_unit_quaternions, *parts[0]))
        if on_gpu(q):
            return launch, scratch
        # Compiled code that reads NumPy arrays validates quaternions itself.
        accepts = acceptance(robot, call.kernel.inputs, unit_quaternions=not direct)
        if accepts is not None:
            read = [item.array if item.is_read else None for item in call.inputs]
            tests.append(partial(accepts, read))
        if is_at_once:
            launch = partial(_directly, launch, general)
        return partial(_tested, tests, launch, general) if tests else launch, scratch

    def _validated(self, call: Call, backend: str | None) -> None:
        """Compute a call with full validation of its numbers."""
        for name, item in zip(call.kernel.inputs, call.inputs, strict=True):
            if item.is_read:
                validate(self._description, name, item.array)
        self._evaluator.evaluate_checked(call, backend)


# Evaluations without a bound form, with the error message.
_UNBOUND: Mapping[Evaluation, str] = {
    "frames": "the module's only kernel is for all frames, and a bound call makes no copies: "
    "omit frames, or use gridgen.load()",
}


@contextmanager
def _settled(q: Array) -> Iterator[None]:
    """Wait for pending work on a GPU, so that calls on any stream read complete results.

    Raises:
        DeviceError: during a capture, which does not permit synchronization.
    """
    check_no_capture(q, "bind would wait for it; bind before the capture begins")
    yield
    if on_gpu(q):
        namespace(q).cuda.get_current_stream().synchronize()


def _check_mutable(inputs: dict[str, Array | None]) -> None:
    """Raise for immutable arrays."""
    for name, value in inputs.items():
        if is_immutable(value):
            raise DtypeError(
                f"{name} is a JAX array, which is immutable, so that a bound call "
                "would compute the same again: call the function, or give another array"
            )


def _check_in_place(call: Call) -> None:
    """Raise unless a kernel can use all arrays of a call without copies.

    Raises:
        ShapeError: an array needs a copy.
    """
    if call.copied:
        name = call.copied[0]
        raise ShapeError(
            f"{name} has axes {call.lead} that cannot be merged in memory, and a bound call "
            "makes no copies: give a contiguous array"
        )
    names = list(call.kernel.inputs)
    single = len(call.outputs) == 1
    for i, item in enumerate(call.outputs):
        out = "out" if single else f"out[{i}]"
        if found := overlapping(item, call.inputs):
            raise ShapeError(
                f"{out} overlaps {names[found[0]]}, for which a plain call makes a copy, and a "
                "bound call makes none: give an array of its own"
            )
        _check_seen(out, item)
    for name, item in zip(names, call.inputs, strict=True):
        _check_seen(name, item)


def _check_seen(name: str, item: Operand) -> None:
    if item.seen is None:
        raise ShapeError(
            f"{name} cannot be used without a copy (strides "
            f"{item.array.strides}, address {address(item.array):#x}), and a bound call makes no "
            f"copies: give a contiguous array"
        )


def _nothing() -> None:
    """Compute zero states."""


def _in_turn(launches: list[Callable[[], object]]) -> None:
    for launch in launches:
        launch()


def _graph(gpu: int, computes: Sequence[Callable[[], object]]) -> Any:
    """Return calls as a CUDA graph, or ``None`` if a graph does not support them.

    Raises:
        DeviceError: the current stream is being captured.
    """
    cuda = sys.modules["cupy"].cuda
    with cuda.Device(gpu):
        if cuda.get_current_stream().is_capturing():
            raise DeviceError("a stream is being captured: put calls in a row before that begins")
        with cuda.Stream(non_blocking=True) as stream:
            return captured(stream, computes)


def _launched(gpu: int, graph: Any, otherwise: Callable[[], object]) -> None:
    """Launch a graph, or the calls one by one during a capture."""
    cuda = sys.modules["cupy"].cuda
    with cuda.Device(gpu):
        stream = cuda.get_current_stream()
        if graph is None or stream.is_capturing():
            otherwise()
        else:
            graph.launch(stream)


def _in_context(
    context: Callable[[], AbstractContextManager[Any]], compute: Callable[[], object]
) -> None:
    with context():
        compute()


def _tested(
    tests: Sequence[Callable[[], bool]],
    launch: Callable[[], object],
    general: Callable[[], object],
) -> None:
    """Launch if the inputs pass tests."""
    for test in tests:
        if not test():
            general()
            return
    launch()


def _directly(launch: Callable[[], object], general: Callable[[], object]) -> None:
    """Call compiled code, which validates quaternions and declines non-unit ones."""
    if launch() is not True:
        general()
