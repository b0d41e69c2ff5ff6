"""Compilation of PTX for the host, and launches of its kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fake_gpu.ptx.translator import translate
from gridgen.backends.cache import BuildCache
from gridgen.backends.emulated import backend as emulated
from gridgen.backends.interface import Launch, Sources

_HEADER = "ptx_thread.h"
_HEADER_TEXT = (Path(__file__).parent / _HEADER).read_text(encoding="utf-8")
# No optimization: NVRTC has optimized the PTX. Signed integers wrap around, as in PTX.
_FLAGS = (
    "-std=c++17",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fwrapv",
    "-fvisibility=hidden",
    "-fPIC",
)
_ALIGNMENT = 16  # of parameters [bytes]; the widest access of PTX


class Watched(NamedTuple):
    """Record of reads and writes of a launch.

    Attributes:
        begin: address of the first word.
        marks: one entry per word of four bytes, with flags ``READ`` and ``WRITTEN``.
    """

    begin: int
    marks: NDArray[np.uint8]


READ, WRITTEN = 1, 2
_WORD = 4
_NOTHING = Watched(0, np.zeros(0, np.uint8))


class LaunchError(ValueError):
    """A launch that CUDA rejects."""


class PtxLibrary:
    """Kernels of a PTX text, which run on host memory.

    The cache stores the library by its C++ text.

    Args:
        ptx: the text.

    Raises:
        PtxError:     the text is not PTX, or contains an unsupported instruction.
        CompileError: there is no C++ compiler.
    """

    def __init__(self, ptx: str) -> None:
        self._translation = translate(ptx)
        self._kernels = self._translation.module.entries
        #: Names of the kernels in the text.
        self.entries: tuple[str, ...] = tuple(self._kernels)
        sources = Sources("ptx", {_HEADER: _HEADER_TEXT})
        text = self._translation.text
        self._entry = emulated.load_unit(sources, "ptx", text, _FLAGS, BuildCache())

    def layout(self, entry: str) -> list[tuple[int, int]]:
        """Return bytes and alignment of each parameter of a kernel."""
        return [(found.bytes, found.alignment) for found in self._kernels[entry].parameters]

    def launch(
        self,
        entry: str,
        grid: int,
        block: int,
        shared_bytes: int,
        parameters: Sequence[bytes],
        watched: Watched = _NOTHING,
    ) -> None:
        """Run a kernel on a one-dimensional grid to completion.

        Args:
            entry:        name of the kernel.
            grid:         number of blocks.
            block:        threads per block.
            shared_bytes: dynamic shared memory per block.
            parameters:   bytes of each parameter, in order; with host addresses.
            watched:      record of accesses.

        Raises:
            LaunchError:   CUDA rejects the launch.
            InternalError: the kernel fails: a deadlock, or an unaligned address.
            DeviceError:   this machine has too little memory.
        """
        kernel = self._kernels.get(entry)
        if kernel is None:
            raise LaunchError(f"no kernel {entry}; there are {', '.join(self.entries)}")
        if not 1 <= grid < 1 << 31:
            raise LaunchError(f"{entry}: a grid of {grid} blocks")
        if not 1 <= block <= kernel.block:
            raise LaunchError(f"{entry}: a block of {block} threads; it takes 1 to {kernel.block}")
        sizes = [len(parameter) for parameter in parameters]
        expected = [parameter.bytes for parameter in kernel.parameters]
        if sizes != expected:
            raise LaunchError(f"{entry}: parameters of {sizes} bytes; it takes {expected}")
        memory, addresses = _laid_out(parameters)
        shared = self._translation.shared_bytes + shared_bytes
        launched = (ctypes.addressof(addresses), self.entries.index(entry), shared)
        marks = watched.marks
        seen = (watched.begin, _WORD * marks.size, marks.ctypes.data)
        arguments = (ctypes.c_int64 * 6)(*launched, *seen)
        emulated.EmulatedKernel(self._entry, Launch(block, 1, shared), entry)(arguments, grid)
        del memory  # `addresses` points into it


def _laid_out(
    parameters: Sequence[bytes],
) -> tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_uint64]]:
    """Return memory with all parameters, and the address of each."""
    offsets, end = [], 0
    for parameter in parameters:
        offsets.append(end)
        end += -(-len(parameter) // _ALIGNMENT) * _ALIGNMENT
    memory = ctypes.create_string_buffer(end + _ALIGNMENT)
    begin = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
    for offset, parameter in zip(offsets, parameters, strict=True):
        ctypes.memmove(begin + offset, parameter, len(parameter))
    addresses = (ctypes.c_uint64 * max(len(offsets), 1))(*(begin + offset for offset in offsets))
    return memory, addresses
