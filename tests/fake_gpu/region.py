"""Address space that is accessible only while it is open."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

# Python 3.10 does not define the last one.
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
_LIBC = ctypes.CDLL(None, use_errno=True)


class Region:
    """Memory of a device: pages that fault unless the region is open.

    Uninitialized bytes are 0xFF: NaNs.

    Args:
        size: size [bytes], a multiple of the page size; only the used part allocates memory.

    Attributes:
        used: size of the used part, at the beginning [bytes].
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
        """Extend the used part to ``size`` bytes."""
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
        """Permit reads and writes."""
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
