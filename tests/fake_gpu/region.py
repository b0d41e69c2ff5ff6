"""Address space that can be touched only while it is open."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

# Python 3.10 has no name for the last.
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
_LIBC = ctypes.CDLL(None, use_errno=True)


class Region:
    """A device's memory: pages that fault under whoever is not let in.

    Its bytes are all ones where nothing has been written: NaNs, as numbers.

    Args:
        size: bytes, a multiple of the page; only those that are used take memory.

    Attributes:
        used: bytes from the beginning on that are used.
    """

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, size, flags=_FLAGS)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self.begin = int(self.bytes.ctypes.data)
        self.end = self.begin + size
        self.used = 0
        self._openings = 0
        self._protect(0, size, 0)

    def use(self, size: int) -> None:
        """Let the first ``size`` bytes of the region be used."""
        page = mmap.PAGESIZE
        used = -(-size // page) * page
        if used > self.used:
            self._protect(self.used, used, mmap.PROT_READ | mmap.PROT_WRITE)
            self.bytes[self.used : used] = 0xFF
            if not self._openings:
                self._protect(self.used, used, 0)
            self.used = used

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let the region be read and written."""
        if not self._openings:
            self._protect(0, self.used, mmap.PROT_READ | mmap.PROT_WRITE)
        self._openings += 1
        try:
            yield
        finally:
            self._openings -= 1
            if not self._openings:
                self._protect(0, self.used, 0)

    def _protect(self, begin: int, end: int, protection: int) -> None:
        if begin == end:
            return
        address, size = ctypes.c_void_p(self.begin + begin), ctypes.c_size_t(end - begin)
        if _LIBC.mprotect(address, size, protection):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
