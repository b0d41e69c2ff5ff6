"""XLA's launches on a GPU: kernels compiled by NVRTC, one handler, XLA's stream.

Requires the driver's library only, neither nvcc nor CUDA's runtime; NVRTC only for kernels that are
not in the cache.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.direct import as_arguments, keep
from gridgen.backends.cuda.backend import architecture
from gridgen.backends.cuda.compiler import CompiledKernel, compile_kernel, supported_capabilities
from gridgen.backends.interface import Rows, launch_of, optin_shared_bytes
from gridgen.cost.devices import device_of
from gridgen.errors import DeviceError
from gridgen.frameworks.jax.operations import Operation, Request, Target, handler, number_of
from gridgen.runtime.calls.compiled import launched_states

_HANDLER = "gridgen_cuda", "gridgen_xla_cuda.cpp", "CUDA"
_DRIVERS = ("libcuda.so.1", "nvcuda.dll")
# gridgen::Driver of the handler: the functions of the driver, in order.
_FUNCTIONS = (
    "cuCtxGetCurrent",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuGetErrorName",
)


class _Kernel(ctypes.Structure):
    """gridgen::Kernel of the handler."""

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("number", ctypes.c_int64),
        ("driver", ctypes.c_void_p),
        ("image", ctypes.c_char_p),
        ("entry", ctypes.c_char_p),
        ("shared", ctypes.c_int64),
        ("loaded", ctypes.c_void_p),
        ("is_loading", ctypes.c_char),
    )


# The handler reads them for the life of the process.
_COMPILED: dict[int, Any] = {}
keep(_COMPILED)


def _attributes(request: Request) -> dict[str, Any]:
    """Return the handler's attributes for a call."""
    record, states = request.operation.kernel, request.states
    sources = request.operation.module.sources(record)
    # Scratch numbers of neighboring states of a launch are adjacent.
    strides = [*request.strides, *((1, request.launched) if request.scratch else ())]
    has_rows = True in sources.forms(record.name)
    are_rows = has_rows and _are_rows(sources.rows[record.name], request.strides)
    kernel, arch = (sources, record.name, request.dtype), _architecture()
    compiled = compile_kernel(*kernel, arch, BuildCache(), rows=are_rows)
    launch = launch_of(*kernel, rows=are_rows, arch=arch)
    placed = launch.of(states)
    words = (
        *(states, request.launched, placed.states_per_block),
        *(placed.threads_per_block, placed.shared_bytes),
    )
    return {
        "kernel": np.int64(_number(compiled, optin_shared_bytes(launch))),
        "launch": np.array(words, np.int64),
        "strides": np.array(strides, np.int64),
    }


def _scratch(operation: Operation) -> int:
    """Return the scratch numbers per state of a kernel's loops."""
    record = operation.kernel
    return operation.module.sources(record).scratch.get(record.name, 0)


def _launched(scratch: int, states: int, itemsize: int) -> int:
    """Return the states of a launch of a kernel with loops."""
    return launched_states(scratch, states, itemsize, _filling())


def _are_rows(rows: Rows, strides: Sequence[int]) -> bool:
    """Return whether arrays are rows; XLA aligns them to 16 bytes."""
    words = array("q")
    for batch, component in zip(strides[::2], strides[1::2], strict=True):
        words.extend((0, batch, component))
    return rows.are(as_arguments(words.tobytes()))


def _number(compiled: CompiledKernel, shared: int) -> int:
    """Return the handler's number of a kernel."""
    number = number_of(compiled.image, compiled.entry)
    if number not in _COMPILED:
        driver = _driver()
        kernel = _Kernel(
            number=number,
            driver=ctypes.addressof(driver),
            image=compiled.image,
            entry=compiled.entry.encode(),
            shared=shared,
        )
        _COMPILED[number] = kernel, compiled, driver
        handler(*_HANDLER).gridgen_add(ctypes.byref(kernel))
    return number


@functools.cache
def _architecture() -> str:
    """Return the architecture to compile for: that of JAX's first GPU."""
    capability = str(jax.devices("cuda")[0].compute_capability)
    return architecture(int(capability.replace(".", "")), supported_capabilities())


@functools.cache
def _filling() -> int:
    """Return the threads that fill JAX's first GPU."""
    like = device_of(_architecture())
    sms: int = getattr(jax.devices("cuda")[0], "core_count", like.sms)
    return replace(like, sms=sms).filling


@functools.cache
def _driver() -> ctypes.Array[ctypes.c_void_p]:
    """Return the addresses of the driver's functions."""
    for name in _DRIVERS:
        try:
            driver = ctypes.CDLL(name)
        except OSError:
            continue
        found = (ctypes.cast(getattr(driver, one), ctypes.c_void_p) for one in _FUNCTIONS)
        return (ctypes.c_void_p * len(_FUNCTIONS))(*(one.value for one in found))
    raise DeviceError(f"none of {', '.join(_DRIVERS)} is installed: install NVIDIA's driver")


#: The handler for kernels on a GPU.
TARGET = Target(_HANDLER[0], _attributes, _scratch, _launched)
