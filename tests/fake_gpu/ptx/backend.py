"""A backend in the place of the emulated one: NVRTC compiles, and what it makes is run."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace

import numpy as np

from fake_gpu.ptx.executable import PtxLibrary
from gridgen.backends import TARGETS
from gridgen.backends.emulated import EmulatedBackend
from gridgen.backends.interface import (
    THREAD_SCHEDULE,
    AnyLaunch,
    Arguments,
    Backend,
    Dtype,
    Kernel,
    Sources,
)
from gridgen.backends.layouts import in_any_layout
from gridgen.backends.nvrtc import compile_kernel

#: The oldest that NVRTC compiles for: PTX that every GPU of today runs.
ARCHITECTURE = "compute_75"
# Bytes of an array as a kernel is given it: address, batch stride and component stride.
_STRIDED = 24
#: To be put in the place of the emulated one in ``TARGETS``.
PTX_TARGET = replace(TARGETS["emulated"], backend="fake_gpu.ptx.backend:PtxBackend")


class PtxBackend(Backend):
    """Compiles kernels to PTX as for a GPU, and runs them on NumPy arrays."""

    @staticmethod
    def require() -> None:
        """Raise ``CompileError`` unless there is a C++ compiler."""
        EmulatedBackend.require()

    def kernel(
        self, sources: Sources, function: str, dtype: Dtype, launch: AnyLaunch = THREAD_SCHEDULE
    ) -> Kernel:
        """Return ``function`` of the module, compiled for ``dtype``, to be launched as told."""
        itemsize = np.dtype(dtype).itemsize

        def made(launch: AnyLaunch, are_rows: bool) -> PtxKernel:
            compiled = compile_kernel(sources, function, dtype, ARCHITECTURE, rows=are_rows)
            library = PtxLibrary(compiled.image.decode())
            return PtxKernel(library, compiled.entry, launch)

        return in_any_layout(sources, function, itemsize, launch, made)


class PtxKernel:
    """A kernel that is launched as the cuda backend launches it.

    Args:
        library:  holds the kernel.
        entry:    its name there.
        launch:   threads, states and shared memory of a block.
    """

    def __init__(self, library: PtxLibrary, entry: str, launch: AnyLaunch) -> None:
        self._launch = launch
        self._run = functools.partial(library.launch, entry)

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see :class:`gridgen.backends.interface.Kernel`."""
        if not batch:
            return
        launch = self._launch.of(batch)
        strided = bytes(arguments)
        arrays = [strided[at : at + _STRIDED] for at in range(0, len(strided), _STRIDED)]
        parameters = [*arrays, batch.to_bytes(8, sys.byteorder)]
        self._run(launch.blocks(batch), launch.threads_per_block, launch.shared_bytes, parameters)
