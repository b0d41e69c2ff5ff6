"""Prepared calls: skip validation, except for numbers, for keys that were seen before.

The layout of a call's arrays determines the result of validation, except for two checks: the
numbers of some inputs, and results that overlap arguments, which depends on the addresses. Compiled
code that reads NumPy arrays itself validates their layout too; its key has only the type of ``q``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numpy as np

from gridgen.backends.cpu.direct import DirectKernel, address_of, as_arguments
from gridgen.backends.cuda.failures import failures
from gridgen.backends.interface import Enqueue, StreamKernel
from gridgen.functions.arrays import BOUNDS, FEEDBACK, OPEN
from gridgen.functions.calls import RolloutSettings
from gridgen.functions.types import Array
from gridgen.runtime.arrays.arguments import Call, results_given
from gridgen.runtime.arrays.defaults import default, number
from gridgen.runtime.arrays.layout import extent
from gridgen.runtime.arrays.libraries import (
    current_handle,
    empty,
    has_own_stream,
    namespace,
    on_gpu,
)
from gridgen.runtime.arrays.staging import Operand
from gridgen.runtime.arrays.times import SharedNumbers
from gridgen.runtime.arrays.validation import acceptance, number_test
from gridgen.runtime.calls.compiled import Compiled, arguments_of
from gridgen.runtime.module.description import RobotRecord

# Calls that a robot caches; the cache is cleared beyond that.
_MAX = 1024

# Scalars for all states, which become arrays; other arguments that are not arrays are not cached.
_SHARED = (float, SharedNumbers)

_numpy_layout = attrgetter("shape", "strides", "dtype", "flags.num")
_cupy_layout = attrgetter("shape", "strides", "dtype", "device.id")

Key = tuple[Any, ...]
#: Computes a call from its inputs in the kernel's order and ``out``; ``None`` if it declines.
Launch = Callable[[Any, Any], Any]


class Prepared(NamedTuple):
    """A call that was validated, for later calls with the same key."""

    #: its inputs in the kernel's order; by the key of a request, those after its positional arrays.
    names: tuple[str, ...]
    rest: tuple[Array | None, ...]  #: their defaults, if compiled code needs them as arguments.
    #: returns whether inputs have valid numbers; ``None`` if all numbers are valid.
    check: Callable[[Sequence[Any]], bool] | None
    launch: Launch  #: computes it.
    #: index, name and shape of the inputs that may be numbers for all states, with a test of these.
    shared: Sequence[tuple[int, str, tuple[int, ...], Callable[[Any], bool]]]

    def results(self, values: list[Any], out: Any) -> Any | None:
        """Return the results of a call, or ``None`` if it needs full validation.

        Args:
            values: its inputs in the kernel's order; those of other types are replaced.
            out:    arrays for the results.
        """
        _, _, check, launch, shared = self  # faster than by name
        for i, name, shape, is_valid in shared:
            if type(value := values[i]) in _SHARED:
                if not is_valid(value):
                    return None
                values[i] = number(value, name, values[0], shape)
        if check is not None and not check(values):
            return None
        return launch(values, out)


class PreparedCalls(dict[Key, Prepared]):
    """The prepared calls of one robot.

    The key of a layout of arrays is ``layout_key``. That of compiled code, which reads the layout
    itself, is the name of a kernel and the type of ``q``, or the words of a request.

    Args:
        robot: the robot.
    """

    def __init__(self, robot: RobotRecord) -> None:
        self._robot = robot

    def note(self, key: Key, values: Sequence[Any], call: Call, compiled: Compiled) -> None:
        """Prepare for calls like one, unless it needs copies or scratch memory of a GPU.

        Args:
            key:      its key.
            values:   its inputs, as the caller gave them.
            call:     the call.
            compiled: its kernel.
        """
        on_host = type(values[0]) is np.ndarray
        direct, inputs = (call.kernel.name, call.q.dtype), call.kernel.inputs
        if on_host and compiled.direct and compiled.direct.direct and direct not in self:
            if not any(OPEN in shape for shape in inputs.values()):
                own = self._robot.parameters.own
                defaults = {
                    name: default(name, shape, call.q, own.get(name))
                    for name, shape in inputs.items()
                    if name == "gravity" or name in own
                }
                has_quaternions = bool(self._robot.space.turning)
                launch = _direct_launch(call, compiled.direct, defaults, has_quaternions)
                self._note(direct, call, launch, defaults, unit_quaternions=False)
                return
        operands = [*call.inputs, *call.outputs]
        if call.copied or any(item.seen is None for item in operands):
            return
        on_stream = isinstance(compiled.kernel, StreamKernel) and not compiled.takes_scratch
        if on_host or on_stream:
            launch = _layout_launch(values, call, compiled, operands)
            self._note(key, call, launch, {}, unit_quaternions=True)

    def _note(
        self,
        key: Key,
        call: Call,
        launch: Launch,
        defaults: Mapping[str, Array],
        *,
        unit_quaternions: bool,
    ) -> None:
        """Store a call with its key and launch, which may require unit quaternions."""
        inputs, check = call.kernel.inputs, None
        if not on_gpu(call.q):  # validating numbers would synchronize the device
            check = acceptance(self._robot, inputs, unit_quaternions=unit_quaternions)
        shared = [
            (i, name, shape, number_test(self._robot, name))
            for i, (name, shape) in enumerate(inputs.items())
            if not shape or name in BOUNDS
        ]
        rest = tuple(map(defaults.get, inputs))
        self.add(key, Prepared(tuple(inputs), rest, check, launch, shared))

    def add(self, key: Key, prepared: Prepared) -> None:
        """Store a prepared call."""
        if len(self) >= _MAX:
            self.clear()
        self[key] = prepared


def _direct_launch(
    call: Call, kernel: DirectKernel, defaults: Mapping[str, Array], has_quaternions: bool
) -> Launch:
    """Return a launch of compiled code that reads NumPy arrays itself.

    It validates types, shapes, strides and quaternions, and declines arrays that it cannot read.
    """
    compute, order = kernel.direct, [*call.kernel.inputs]
    assert compute is not None
    filled = [(order.index(name), array) for name, array in defaults.items()]
    shapes = tuple(call.kernel.outputs.values())
    is_single, shape, dtype = len(shapes) == 1, shapes[0], call.q.dtype
    made, kind, empty = tuple.__new__, call.kernel.result_type, np.empty

    def launch(values: Any, out: Any) -> Any:
        for i, array in filled:
            if values[i] is None:
                values[i] = array
        q = values[0]
        if is_single:
            results = empty(q.shape[:-1] + shape, dtype) if out is None else out
            arguments = compute(*values, results)
        elif out is None:
            lead = q.shape[:-1]
            results = made(kind, [empty(lead + shape, dtype) for shape in shapes])
            arguments = compute(*values, *results)
        elif isinstance(out, (tuple, list)):
            results = out
            arguments = compute(*values, *results)
        else:
            return None
        if arguments is None:
            return None
        if arguments is not True:  # a batch for several threads
            packed = as_arguments(arguments)
            if has_quaternions and not kernel.has_unit_quaternions(packed, len(q)):
                return None
            kernel(packed, len(q))
        return results

    return launch


def _layout_launch(
    values: Sequence[Any], call: Call, compiled: Compiled, operands: Sequence[Operand]
) -> Launch:
    """Return a launch for arrays of one layout, which needs their addresses alone."""
    numbers = call.numbers(operands)
    first, enqueue = values[0], None
    on_host, is_tensor = type(first) is np.ndarray, has_own_stream(first)
    if on_host:
        like = np.empty(0, call.q.dtype)
        launch = partial(compiled.launch, call.states, like, call.trail)
        enqueue = _with_addresses(numbers, launch)
    else:
        assert isinstance(compiled.kernel, StreamKernel), "noted for no other"
        enqueue = compiled.kernel.prepare_anywhere(arguments_of(numbers), call.states)
    # The position of each array among the addresses, its first byte and its end from there [bytes].
    spans: list[tuple[int, int, int]] = []
    # Positions of the arrays that a caller gives, with their indices among the arguments; of those
    # that no kernel reads, which have the first one's address. The others do not change.
    given: list[tuple[int, int]] = []
    unread: list[int] = []
    fixed: list[Array] = []
    place = 0
    names = (*call.kernel.inputs, *call.kernel.outputs)
    for i, (item, name) in enumerate(zip(operands, names, strict=True)):
        begin, end = extent(item.array)
        spans.append((place, begin - numbers[3 * place], end - numbers[3 * place]))
        if i >= len(values) or values[i] is not None:
            given.append((place, i))
        elif name in FEEDBACK:
            unread.append(place)
        else:
            fixed.append(item.array)
        place += len(item.seen or ()) // 3
    addresses, shapes, count = numbers[::3], call.result_shapes, len(values)
    answer = call.kernel.answer
    whereabouts = methodcaller("data_ptr") if is_tensor else attrgetter("data.ptr")
    xp, dtype = namespace(call.q), call.q.dtype
    make = empty if is_tensor else lambda shape, _: xp.empty(shape, dtype)
    begin_of: Callable[[Any], int] = address_of if on_host else whereabouts

    def computed(values: list[Any], out: Any, fixed: Any = fixed) -> Any:
        q, results = values[0], out
        if out is None:
            made = [make(shape, q) for shape in shapes]
            results = answer(made)
            arrays = [*values, *made]
        else:
            arrays = [*values, *results_given(out)]
        now = addresses.copy()
        try:
            for place, i in given:
                now[place] = begin_of(arrays[i])
        except RuntimeError:  # a tensor without its own memory, under a transform of PyTorch
            return None
        for place in unread:
            now[place] = now[0]
        if out is not None and _may_overlap(now, spans, count):
            return None
        enqueue(now, 0 if on_host else current_handle(q))
        return results

    return computed


def _may_overlap(
    addresses: Sequence[int], spans: Sequence[tuple[int, int, int]], inputs: int
) -> bool:
    """Return whether a result may share memory with another array."""
    places = [(addresses[i] + begin, addresses[i] + end) for i, begin, end in spans]
    for i in range(inputs, len(places)):
        begin, end = places[i]
        if any(begin < other[1] and other[0] < end for other in places[:i]):
            return True
    return False


def _with_addresses(numbers: list[int], launch: Callable[[list[int]], None]) -> Enqueue:
    def enqueue(addresses: Sequence[int], stream: int) -> None:
        now = numbers.copy()
        now[::3] = addresses
        launch(now)

    return enqueue


def layout_key(
    function: str, values: Sequence[Any], out: Any, settings: RolloutSettings | None = None
) -> Key | None:
    """Return the key of a call by the layouts of its arrays, or ``None`` if there is none."""
    cupy: Any = sys.modules.get("cupy")
    q, arrays = values[0], (*values, *results_given(out))
    device: int | None = None
    if type(q) is np.ndarray:
        layouts = _array_layouts(arrays, np.ndarray, _numpy_layout)
    elif cupy is None:
        return None
    elif type(q) is cupy.ndarray:
        device, layouts = q.device.id, _array_layouts(arrays, cupy.ndarray, _cupy_layout)
    elif has_own_stream(q):
        device, layouts = q.device.index, _tensor_layouts(arrays, sys.modules["torch"])
    else:
        return None
    if layouts is None:
        return None
    if device is not None:
        if cupy.cuda.runtime.getDevice() != device:
            return None
        layouts.append(failures(device))
    key = function, isinstance(out, (tuple, list)), type(q), *layouts
    if settings is None:
        return key
    said = settings.substeps, settings.store_every, settings.effort_limits
    key = *key, *said, *map(type, said)
    try:
        hash(key)
    except TypeError:  # a list instead of a number
        return None
    return key


def _array_layouts(
    values: Sequence[Any], kind: type, look: Callable[[Any], Any]
) -> list[Any] | None:
    """Return the layouts of arrays, or ``None`` if an argument has another type."""
    found: list[Any] = []
    for value in values:
        if type(value) is kind:
            found.append(look(value))
        elif value is None or type(value) in _SHARED:
            found.append(type(value))
        else:
            return None
    return found


def _tensor_layouts(values: Sequence[Any], torch: Any) -> list[Any] | None:
    """Return the layouts of plain tensors, else ``None``.

    Tensors with a gradient or a pending negation are not plain. Within forward differentiation the
    result is ``None``: reading each tangent would take as long as the rest of the call.
    """
    if getattr(torch.autograd.forward_ad, "_current_level", 0) >= 0:
        return None
    kind, strided = torch.Tensor, torch.strided
    found: list[Any] = []
    for value in values:
        if value is None:
            found.append(None)
        elif type(value) is not kind or value.requires_grad or value.is_neg():
            return None
        elif value.layout is not strided:
            return None
        else:
            found += value.shape, value.stride(), value.dtype, value.device
    return found
