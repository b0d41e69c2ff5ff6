"""XLA's calls on a CPU: one handler for all functions, which it identifies by number."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridgen.backends import backend
from gridgen.backends.cpu.backend import MIN_SHARE, CpuBackend, thread_count
from gridgen.backends.cpu.direct import keep
from gridgen.backends.cpu.units import BLOCK
from gridgen.errors import DeviceError
from gridgen.frameworks.jax.operations import (
    MAX_ARRAYS,
    Operation,
    Request,
    Target,
    handler,
    number_of,
)
from gridgen.functions.arrays import configurations
from gridgen.functions.types import Dtype
from gridgen.runtime.configurations import NORM_TOLERANCE
from gridgen.runtime.parameters import ROUNDINGS_LEFT, TOLERANCE

_HANDLER = "gridgen_cpu", "gridgen_xla_cpu.cpp", "cpu"


class _Kernel(ctypes.Structure):
    """gridgen::Kernel of the handler."""

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("number", ctypes.c_int64),
        ("entry", ctypes.c_void_p),
        ("take_parts", ctypes.c_void_p),
        ("close", ctypes.c_void_p),
        ("has_unit_quaternions", ctypes.c_void_p),
        ("robot", ctypes.c_char_p),
        ("numbers", ctypes.c_void_p),
        ("quaternions", ctypes.c_void_p),
        ("inputs", ctypes.c_int64),
        ("arrays", ctypes.c_int64),
        ("configurations", ctypes.c_int64),
        ("is_double", ctypes.c_int64),
        ("most_threads", ctypes.c_int64),
        ("block", ctypes.c_int64),
        ("share", ctypes.c_double),
        ("tolerance", ctypes.c_double),
        ("per_state", ctypes.c_double),
        ("params", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("own_rows", ctypes.c_void_p),
        ("links", ctypes.c_void_p),
        ("row_tolerance", ctypes.c_double),
        ("row_left", ctypes.c_double),
        ("world", ctypes.c_int64),
        ("terrain", ctypes.c_int64),
    )


# The handler reads them for the life of the process.
_KEPT: dict[int, tuple[Any, ...]] = {}
keep(_KEPT)


def _attributes(request: Request) -> dict[str, Any]:
    """Return the handler's attributes for a call: the number of a kernel."""
    return {"kernel": np.int64(_known_number(request.operation, request.dtype))}


def _known_number(operation: Operation, dtype: Dtype) -> int:
    """Return the handler's number of a kernel, which is compiled when necessary.

    It is the same in every process that has the same code.
    """
    record, module = operation.kernel, operation.module
    cpu = backend("cpu")
    assert isinstance(cpu, CpuBackend)
    library, prefix = cpu.library(module.sources(record), record.name, dtype)
    parameters = module.description.parameters
    is_checked = parameters.are_checked and "params" in record.inputs
    number = number_of(library.read_bytes(), f"{prefix}{'_checked' if is_checked else ''}")
    if number in _KEPT:
        return number
    shapes = [*record.inputs.values(), *record.outputs.values()]
    if len(shapes) > MAX_ARRAYS:
        raise DeviceError(
            f"{record.name} has {len(shapes)} arrays; XLA passes {MAX_ARRAYS} at most"
        )
    code = ctypes.CDLL(str(library))
    places = {name: i for i, name in enumerate(record.inputs)}
    quaternions = [joint.quaternion.start for joint in module.description.space.turning]
    kernel = _Kernel(
        number=number,
        entry=_address(code[f"{prefix}_entry"]),
        take_parts=_address(code[f"{prefix}_take_parts"]),
        close=_address(code[f"{prefix}_close"]),
        has_unit_quaternions=_address(code[f"{prefix}_has_unit_quaternions"]),
        robot=module.description.name.encode("ascii", "backslashreplace"),
        inputs=len(record.inputs),
        arrays=len(shapes),
        configurations=len(configurations(record.inputs)),
        is_double=dtype == "float64",
        most_threads=thread_count(),
        block=BLOCK,
        share=MIN_SHARE,
        tolerance=NORM_TOLERANCE,
        params=places["params"] if is_checked else -1,
        row_tolerance=TOLERANCE,
        row_left=ROUNDINGS_LEFT,
        world=places.get("world", -1),
        terrain=places.get("terrain", -1),
    )
    numbers, turns = _words(map(math.prod, shapes)), _words((*quaternions, -1))
    kernel.numbers, kernel.quaternions = map(ctypes.addressof, (numbers, turns))
    stored: list[Any] = [code, kernel, numbers, turns]
    if is_checked:
        own = np.ascontiguousarray(parameters.own["params"])
        names = [name.encode("ascii", "backslashreplace") for name in parameters.names]
        links = (ctypes.c_char_p * len(names))(*names)
        kernel.rows, kernel.own_rows, kernel.links = len(own), own.ctypes.data, _address(links)
        stored += own, links
    _KEPT[number] = tuple(stored)
    handler(*_HANDLER).gridgen_add(ctypes.byref(kernel))
    return number


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def _words(values: Any) -> ctypes.Array[ctypes.c_int64]:
    words: Sequence[int] = tuple(values)
    return (ctypes.c_int64 * len(words))(*words)


def _scratch(operation: Operation) -> int:
    """Return 0: loops use the stack for scratch numbers, one pack of states at a time."""
    return 0


#: The handler for kernels on a CPU.
TARGET = Target(_HANDLER[0], _attributes, _scratch, lambda scratch, states, itemsize: states)
