"""Messages between processes, by MPI."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from gridgen.errors import GridGenError
from gridgen.mpi.stage import Block

#: Messages from one process to another that may be on their way: one is filled while the other is
#: sent.
BUFFERS = 2
INSTALL = "pip install 'grid-gen[mpi]', or mpi4py beside the MPI that the machine has"


def require_mpi() -> Any:
    """Return MPI, initialized.

    Raises:
        GridGenError: mpi4py is not installed, or finds no MPI.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise GridGenError(
            f"a pipeline of processes needs MPI and mpi4py ({why}): {INSTALL}"
        ) from error
    return MPI


class MpiLinks:
    """Messages to and from the other processes; see ``stage.Links``.

    Args:
        comm: mpi4py's communicator of all processes.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._sent: dict[int, deque[tuple[Any, Block]]] = {}
        self._expected: list[Any] = []

    def send(self, message: Block, to: int) -> None:
        """Send a block of numbers; see ``Links``."""
        waiting = self._sent.setdefault(to, deque())
        if len(waiting) == BUFFERS:
            waiting.popleft()[0].Wait()
        kept = np.array(message, order="C")
        # Synchronous: it ends when the other one takes it, which keeps the sender from running on.
        waiting.append((self._comm.Issend(kept, to), kept))

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Block:
        """Wait for the next block from a process; see ``Links``."""
        found = np.empty(shape, dtype)
        self._comm.Recv(found, source)
        return found

    def expect(self, room: Block, source: int) -> None:
        """Have a later block from a process put into an array; it is there after ``finish``."""
        self._expected.append(self._comm.Irecv(room, source))

    def finish(self) -> None:
        """Wait until all has arrived that was sent, or is expected."""
        for waiting in self._sent.values():
            while waiting:
                waiting.popleft()[0].Wait()
        while self._expected:
            self._expected.pop().Wait()
