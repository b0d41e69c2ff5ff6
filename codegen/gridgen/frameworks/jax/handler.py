"""Handlers for XLA's calls, each a library compiled for the installed JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax

from gridgen.backends import Sources
from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import shared_library
from gridgen.backends.cpu.units import FLAGS
from gridgen.frameworks.jax.operations import Operation
from gridgen.functions.types import Dtype
from gridgen.template_root import static_text

#: Maximum number of a call's arrays.
MAX_ARRAYS = 48

_HEADER, _INTERFACE = "gridgen_xla.h", "xla_ffi_c_api.h"


@dataclass(frozen=True)
class Request:
    """A call of a program of XLA."""

    operation: Operation  #: operation of its kernel.
    dtype: Dtype  #: type of all arrays.
    states: int  #: number of states.
    strides: tuple[int, ...]  #: strides of states and of components, for each array, inputs first.
    room: int  #: scratch numbers per state, in the kernel's last array.


class Target(NamedTuple):
    """The handler of one platform."""

    name: str  #: name of the handler in XLA.
    #: compiles a kernel, and returns the handler's attributes for a call.
    attributes: Callable[[Request], dict[str, Any]]
    room: Callable[[Operation], int]  #: returns a kernel's scratch numbers per state.


def compiled_handler(unit: str) -> Path:
    """Return the library compiled from one file of ``templates/static``."""
    interface = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    files = {_HEADER: static_text(_HEADER), _INTERFACE: interface.read_text(encoding="utf-8")}
    return shared_library(
        Sources("gridgen", files), "the handler for XLA", static_text(unit), FLAGS, BuildCache()
    )
