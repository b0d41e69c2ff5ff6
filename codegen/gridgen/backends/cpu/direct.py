"""Call a compiled function with NumPy arrays directly from the interpreter.

``gridgen_call.h`` is the C++ side. The interpreter creates the function object from the address of
the compiled code, so neither Python headers nor an extension module are required.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from gridgen.backends.cpu.units import PREFIX, States
from gridgen.backends.interface import Arguments, FormKernel
from gridgen.functions.types import Dtype

#: Takes inputs and outputs. True: computed. Bytes: the kernel's arguments (``as_arguments``), for a
#: batch to divide among threads. None: declined, the arrays need full validation.
DirectCall = Callable[..., bytes | Literal[True] | None]


@runtime_checkable
class DirectKernel(FormKernel, Protocol):
    """A compiled function that accepts NumPy arrays directly."""

    direct: DirectCall | None  #: the function, or None if this interpreter does not support it.
    at_once: int  #: maximum number of states that ``direct`` computes itself.

    def has_unit_quaternions(self, arguments: Arguments, batch: int) -> bool:
        """Return whether all quaternions have unit norm up to rounding, or are NaN."""


_HEAD = object.__basicsize__  # bytes before the own fields of an object
_read_number = ctypes.c_int64.from_address
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
        ("one", ctypes.c_void_p),
        ("many", ctypes.c_void_p),
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


def set_entry(library: ctypes.CDLL, prefix: str, states: States, entry: Any) -> None:
    """Set the code that the direct function of a library calls for one state, or for many."""
    interpreter = _Interpreter.in_dll(library, f"{prefix}_interpreter")
    setattr(interpreter, states, ctypes.cast(entry, ctypes.c_void_p).value)


def direct_call(library: ctypes.CDLL, dtype: Dtype, prefix: str = PREFIX) -> DirectCall | None:
    """Return the direct function of a library, ``None`` for an unsupported interpreter."""
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


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Return the address of an array's first element; NumPy's own attributes take 4 us."""
    if _is_supported():
        return _read_number(id(array) + _HEAD).value
    return int(array.__array_interface__["data"][0])


def as_arguments(packed: bytes) -> Arguments:
    """Return the arguments of a kernel from their bytes, as a direct call returns them."""
    return (ctypes.c_int64 * (len(packed) // 8)).from_buffer_copy(packed)


def keep(value: object) -> None:
    """Make an object immortal, because compiled code stores its address.

    A module variable is not sufficient: the interpreter frees it at exit, before the last functions
    that use the address.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


@functools.cache
def _is_supported() -> bool:
    """Return whether the memory layout of array objects matches ``gridgen_call.h``."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    array = np.zeros((2, 3, 5))[:, 1:, ::2]
    fields = _NumpyArray.from_address(id(array) + object.__basicsize__)
    return bool(
        fields.axes == array.ndim
        and fields.data == array.__array_interface__["data"][0]
        and tuple(fields.shape[: array.ndim]) == array.shape
        and tuple(fields.strides[: array.ndim]) == array.strides
        and fields.dtype == id(array.dtype)
        and fields.flags & 0xFFFF == array.flags.num & 0xFFFF
    )
