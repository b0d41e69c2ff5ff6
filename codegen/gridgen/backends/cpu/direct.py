"""Calling a compiled function with NumPy arrays straight from the interpreter.

``gridgen_call.h`` holds the other half. The function object is made by the interpreter itself from
the address of the compiled code, so neither a Python header nor an extension module is needed.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from gridgen.backends.cpu.units import PREFIX
from gridgen.backends.interface import Arguments, RunnableKernel
from gridgen.functions.types import Dtype

#: Takes inputs and outputs. True: computed. Bytes: the kernel's arguments (``as_arguments``), for a
#: batch worth dividing. None: declined, something about the arrays needs a closer look.
DirectCall = Callable[..., bytes | Literal[True] | None]


@runtime_checkable
class DirectKernel(RunnableKernel, Protocol):
    """A compiled function that may be called with NumPy arrays, and tells more about them.

    Attributes:
        direct:  the function, where this interpreter offers it.
        at_once: the most states that ``direct`` computes itself.
    """

    direct: DirectCall | None
    at_once: int

    def has_unit_quaternions(self, arguments: Arguments, batch: int) -> bool:
        """Tell whether the quaternions of all states have unit norm up to rounding, or are NaN."""


_FASTCALL = 0x80  # METH_FASTCALL: arguments arrive as a C array


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Interpreter(ctypes.Structure):
    """gridgen::Interpreter."""

    _fields_ = (
        ("head", ctypes.c_int64),
        ("array_type", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("done", ctypes.c_void_p),
        ("declined", ctypes.c_void_p),
        ("own", ctypes.c_void_p),
        ("make_bytes", ctypes.c_void_p),
    )


class _NumpyArray(ctypes.Structure):
    """gridgen::NumpyArray."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("axes", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


def direct_call(library: ctypes.CDLL, dtype: Dtype, prefix: str = PREFIX) -> DirectCall | None:
    """Return the function of a library, or ``None`` where this interpreter does not offer it.

    Args:
        library: made from ``gridgen.backends.cpu.units.translation_unit``.
        dtype:   its element type.
        prefix:  what its names begin with.
    """
    if not _is_supported():
        return None
    python = ctypes.pythonapi
    interpreter = _Interpreter.in_dll(library, f"{prefix}_interpreter")
    interpreter.head = object.__basicsize__
    interpreter.array_type = id(np.ndarray)
    interpreter.dtype = id(np.dtype(dtype))
    interpreter.done = id(True)
    interpreter.declined = id(None)
    interpreter.own = ctypes.cast(python.Py_IncRef, ctypes.c_void_p).value
    interpreter.make_bytes = ctypes.cast(python.PyBytes_FromStringAndSize, ctypes.c_void_p).value

    function = ctypes.cast(library[f"{prefix}_call"], ctypes.c_void_p).value
    method = _Method(b"gridgen_call", function, _FASTCALL, None)
    make = python.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.POINTER(_Method), ctypes.c_void_p, ctypes.c_void_p)
    call: DirectCall = make(ctypes.byref(method), None, None)
    keep(method)  # the function has its address
    return call


def as_arguments(packed: bytes) -> Arguments:
    """Return the arguments of a kernel from their bytes, as a direct call returns them."""
    return (ctypes.c_int64 * (len(packed) // 8)).from_buffer_copy(packed)


def keep(value: object) -> None:
    """Keep what compiled code has the address of as long as the process lives.

    A variable of a module would not: the interpreter frees it as it ends, before the last functions
    that have the address.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


@functools.cache
def _is_supported() -> bool:
    """Tell whether array objects look as ``gridgen_call.h`` reads them; no other way is safe."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    array = np.zeros((2, 3, 5))[:, 1:, ::2]
    seen = _NumpyArray.from_address(id(array) + object.__basicsize__)
    return bool(
        seen.axes == array.ndim
        and seen.data == array.__array_interface__["data"][0]
        and tuple(seen.shape[: array.ndim]) == array.shape
        and tuple(seen.strides[: array.ndim]) == array.strides
        and seen.dtype == id(array.dtype)
        and seen.flags & 0xFFFF == array.flags.num & 0xFFFF
    )
