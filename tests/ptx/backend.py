"""A backend in the place of the emulated one: NVRTC compiles, and what it makes is run."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from gridgen.backends import TARGETS
from gridgen.backends.cuda import launches
from gridgen.backends.emulated import EmulatedBackend
from gridgen.backends.interface import THREAD_SCHEDULE, Arguments, Backend, Dtype, Launch, Sources
from gridgen.backends.nvrtc import compile_kernel
from ptx.library import PtxLibrary

#: The oldest that NVRTC compiles for: PTX that every GPU of today runs.
ARCHITECTURE = "compute_75"
#: To be put in the place of the emulated one in ``TARGETS``.
PTX_TARGET = replace(TARGETS["emulated"], backend="ptx.backend:PtxBackend")


class PtxBackend(Backend):
    """Compiles kernels to PTX as for a GPU, and runs them on NumPy arrays."""

    @staticmethod
    def require() -> None:
        """Raise ``CompileError`` unless there is a C++ compiler."""
        EmulatedBackend.require()

    def kernel(
        self, sources: Sources, function: str, dtype: Dtype, launch: Launch = THREAD_SCHEDULE
    ) -> PtxKernel:
        """Return ``function`` of the module, compiled for ``dtype``, to be launched as told."""
        compiled = compile_kernel(sources, function, dtype, ARCHITECTURE)
        library = PtxLibrary(compiled.image.decode())
        return PtxKernel(library, compiled.entry, np.dtype(dtype).itemsize, launch)


class PtxKernel:
    """A kernel that is launched as the cuda backend launches it.

    Args:
        library:  holds the kernel.
        entry:    its name there.
        itemsize: bytes of one array element.
        launch:   threads, states and shared memory of a block.
    """

    def __init__(self, library: PtxLibrary, entry: str, itemsize: int, launch: Launch) -> None:
        self._launch = launch
        self._itemsize = itemsize
        self._run = functools.partial(library.launch, entry)

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see :class:`gridgen.backends.interface.Kernel`."""
        launch = self._launch
        for grid, values in launches(arguments, batch, self._itemsize, launch.states_per_block):
            parameters = [value.tobytes() for value in values]
            self._run(grid, launch.threads_per_block, launch.shared_bytes, parameters)
