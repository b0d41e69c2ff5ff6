"""What XLA calls: handlers, each a library compiled for the JAX that is installed."""

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

#: Arrays of a call that handlers have room for.
MOST_ARRAYS = 48

_HEADER, _INTERFACE = "gridgen_xla.h", "xla_ffi_c_api.h"


@dataclass(frozen=True)
class Request:
    """A call that a program of XLA is to make.

    Attributes:
        operation: what its kernel computes.
        dtype:     type of all arrays.
        states:    their number.
        strides:   of states and of components, for each array, inputs first.
        room:      numbers of a state in the memory that the kernel takes beside, its last array.
    """

    operation: Operation
    dtype: Dtype
    states: int
    strides: tuple[int, ...]
    room: int


class Target(NamedTuple):
    """How XLA calls kernels on one platform.

    Attributes:
        name:       what it calls the handler.
        attributes: has a kernel compiled, and returns what the handler is told of a call.
        room:       returns the numbers of a state that a kernel takes memory for.
    """

    name: str
    attributes: Callable[[Request], dict[str, Any]]
    room: Callable[[Operation], int]


def compiled_handler(unit: str) -> Path:
    """Return the library made of one file of ``templates/static``."""
    interface = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    files = {_HEADER: static_text(_HEADER), _INTERFACE: interface.read_text(encoding="utf-8")}
    return shared_library(
        Sources("gridgen", files), "the handler for XLA", static_text(unit), FLAGS, BuildCache()
    )
