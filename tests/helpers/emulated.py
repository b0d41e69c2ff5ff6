"""Small team kernels on the emulated backend, in this process or in standalone programs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.backends.cache import BuildCache
from gridgen.backends.emulated.backend import EmulatedBackend
from gridgen.backends.interface import Launch, Sources
from gridgen.functions.types import Dtype
from helpers.standalone import Sanitizer, StandaloneRun, run_standalone

STATIC = Path(__file__).parents[2] / "templates" / "static"
KERNELS = (Path(__file__).parents[1] / "unit" / "backends" / "toy_teams.cu").read_text()


def sources(text: str = KERNELS) -> Sources:
    headers = {path.name: path.read_text() for path in STATIC.glob("*.*h")}
    return Sources("toy", {**headers, "toy.cu": text})


def call(
    cache: BuildCache,
    function: str,
    arrays: Sequence[NDArray[Any]],
    launch: Launch,
    batch: int | None = None,
    text: str = KERNELS,
) -> None:
    """Run a kernel in this process, without copies of the arrays."""
    dtype: Dtype = "float32" if arrays[0].dtype == np.float32 else "float64"
    kernel = EmulatedBackend(cache=cache).kernel(sources(text), function, dtype, launch)
    triples = [
        number
        for array in arrays
        for number in (array.ctypes.data, *(stride // array.itemsize for stride in array.strides))
    ]
    kernel((ctypes.c_int64 * len(triples))(*triples), len(arrays[-1]) if batch is None else batch)


def standalone(
    cache: BuildCache,
    function: str,
    arrays: Sequence[NDArray[Any]],
    launch: Launch,
    sanitize: Sanitizer | None = None,
    text: str = KERNELS,
    batch: int | None = None,
    leave_out: tuple[str, int] | None = None,
) -> StandaloneRun:
    return run_standalone(
        sources(text),
        function,
        "float64",
        arrays,
        launch,
        batch=batch,
        sanitize=sanitize,
        leave_out=leave_out,
        cache=cache,
    )
