"""How XLA calls functions on a CPU: one handler for all, which knows them by their numbers."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gridgen.backends import Sources, backend
from gridgen.backends.cache import BuildCache
from gridgen.backends.compiler import shared_library
from gridgen.backends.cpu import LEAST_SHARE, CpuBackend, thread_count
from gridgen.backends.units import BLOCK, FLAGS
from gridgen.errors import DeviceError
from gridgen.frameworks.jax.operations import Operation, Target
from gridgen.functions.arrays import configurations
from gridgen.runtime.configurations import NORM_TOLERANCE
from gridgen.template_root import static_text

# What XLA calls the handler.
_NAME = "gridgen_cpu"
_HEADER, _UNIT = "gridgen_xla.h", "gridgen_xla_cpu.cpp"
_INTERFACE = "xla_ffi_c_api.h"
# Arrays of a call that the handler has room for.
_MOST_ARRAYS = 48


class _Kernel(ctypes.Structure):
    """gridgen::Kernel of the handler."""

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("number", ctypes.c_int64),
        ("entry", ctypes.c_void_p),
        ("take_parts", ctypes.c_void_p),
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
    )


# The handler reads them as long as the process lives.
_KEPT: dict[int, tuple[Any, ...]] = {}


def _add_kernel(operation: Operation, dtype: Any) -> np.int64:
    """Return the number by which the handler knows a kernel, compiled if need be.

    It is the same in every process that has the same code.
    """
    record, module = operation.kernel, operation.module
    cpu = backend("cpu")
    assert isinstance(cpu, CpuBackend)
    library, prefix = cpu.library(module.sources(record), record.name, dtype)
    number = _number(library, prefix)
    if number in _KEPT:
        return np.int64(number)
    shapes = [*record.inputs.values(), *record.outputs.values()]
    if len(shapes) > _MOST_ARRAYS:
        raise DeviceError(
            f"{record.name} has {len(shapes)} arrays; XLA is handed {_MOST_ARRAYS} at most"
        )
    code = ctypes.CDLL(str(library))
    quaternions = [joint.quaternion.start for joint in module.description.space.free]
    kernel = _Kernel(
        number=number,
        entry=_address(code[f"{prefix}_entry"]),
        take_parts=_address(code[f"{prefix}_take_parts"]),
        has_unit_quaternions=_address(code[f"{prefix}_has_unit_quaternions"]),
        robot=module.description.name.encode("ascii", "backslashreplace"),
        inputs=len(record.inputs),
        arrays=len(shapes),
        configurations=len(configurations(record.inputs)),
        is_double=dtype == "float64",
        most_threads=thread_count(),
        block=BLOCK,
        share=LEAST_SHARE,
        tolerance=NORM_TOLERANCE,
    )
    numbers, places = _words(map(math.prod, shapes)), _words((*quaternions, -1))
    kernel.numbers, kernel.quaternions = map(ctypes.addressof, (numbers, places))
    _KEPT[number] = code, kernel, numbers, places
    _handler().gridgen_add(ctypes.byref(kernel))
    return np.int64(number)


def _number(library: Path, prefix: str) -> int:
    """Return a number for a function of a library, which others of the same content have too."""
    digest = hashlib.blake2s(library.read_bytes() + prefix.encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def _words(values: Any) -> ctypes.Array[ctypes.c_int64]:
    words: Sequence[int] = tuple(values)
    return (ctypes.c_int64 * len(words))(*words)


@functools.cache
def _handler() -> ctypes.CDLL:
    """Return the library of the handler, which XLA has been told of."""
    handler = ctypes.CDLL(str(compiled_handler(_UNIT)))
    jax.ffi.register_ffi_target(_NAME, jax.ffi.pycapsule(handler.gridgen_call), platform="cpu")
    return handler


def compiled_handler(unit: str) -> Path:
    """Return the library made of one file of a handler, for the JAX that is installed."""
    interface = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    files = {
        _HEADER: static_text(_HEADER),
        _INTERFACE: interface.read_text(encoding="utf-8"),
    }
    return shared_library(
        Sources("gridgen", files), "the handler for XLA", static_text(unit), FLAGS, BuildCache()
    )


#: How XLA calls kernels on a CPU.
TARGET = Target(_NAME, _add_kernel)
