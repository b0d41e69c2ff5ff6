"""A replacement of the emulated backend that runs the PTX of NVRTC."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace

from fake_gpu.ptx.executable import PtxLibrary
from gridgen.backends import TARGETS
from gridgen.backends.cuda.compiler import compile_kernel
from gridgen.backends.emulated.backend import EmulatedBackend
from gridgen.backends.interface import (
    THREAD_SCHEDULE,
    AnyLaunch,
    Arguments,
    Backend,
    RunnableKernel,
    Sources,
    launch_of,
)
from gridgen.backends.layouts import in_any_layout
from gridgen.functions.types import Dtype

# Bytes of an array argument: address, batch stride and component stride.
_STRIDED = 24


class PtxBackend(Backend):
    """Compiles kernels to PTX and runs them on NumPy arrays."""

    #: The oldest architecture of NVRTC; current GPUs run its PTX.
    arch = "compute_75"

    @staticmethod
    def require() -> None:
        """Raise ``CompileError`` unless there is a C++ compiler."""
        EmulatedBackend.require()

    def kernel(
        self,
        sources: Sources,
        function: str,
        dtype: Dtype,
        launch: AnyLaunch = THREAD_SCHEDULE,
        batch: int = 0,
    ) -> RunnableKernel:
        """Return ``function`` of the module, compiled for ``dtype``, with its launch."""

        def made(are_rows: bool) -> PtxKernel:
            compiled = compile_kernel(sources, function, dtype, self.arch, rows=are_rows)
            library = PtxLibrary(compiled.image.decode())
            laid = launch_of(sources, function, dtype, launch, rows=are_rows, arch=self.arch)
            return PtxKernel(library, compiled.entry, laid)

        return in_any_layout(sources, function, made)


class ParkingPtxBackend(PtxBackend):
    """Backend for GPUs on which kernels spill values to shared memory."""

    arch = "compute_90"


class PairingPtxBackend(PtxBackend):
    """Backend for GPUs on which a thread computes two states."""

    arch = "compute_100"


#: Replacements of the emulated target in ``TARGETS``, by architecture; the last one alone has
#: threads with two states.
*_PLAIN, PAIRING = (
    (backend.arch, replace(TARGETS["emulated"], backend=f"{__name__}:{backend.__name__}"))
    for backend in (PtxBackend, ParkingPtxBackend, PairingPtxBackend)
)
PTX_TARGETS = dict(_PLAIN)


class PtxKernel:
    """A kernel with the arguments of the cuda backend.

    Args:
        library:  library of the kernel.
        entry:    name in the library.
        launch:   threads, states and shared memory of a block.
    """

    def __init__(self, library: PtxLibrary, entry: str, launch: AnyLaunch) -> None:
        self._launch = launch
        self._run = functools.partial(library.launch, entry)

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see :class:`gridgen.backends.interface.RunnableKernel`."""
        if not batch:
            return
        launch = self._launch.of(batch)
        strided = bytes(arguments)
        arrays = [strided[at : at + _STRIDED] for at in range(0, len(strided), _STRIDED)]
        parameters = [*arrays, batch.to_bytes(8, sys.byteorder)]
        self._run(launch.blocks(batch), launch.threads_per_block, launch.shared_bytes, parameters)
