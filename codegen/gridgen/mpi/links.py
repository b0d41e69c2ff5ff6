"""MPI messages between processes."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from gridgen.errors import GridGenError
from gridgen.mpi.stage import Block

#: Messages in flight between two processes: one is filled while the other is sent.
BUFFERS = 2
INSTALL = "pip install 'grid-gen[mpi]', or install mpi4py for the MPI of this machine"


def require_mpi() -> Any:
    """Return MPI, initialized.

    Raises:
        GridGenError: mpi4py is not installed, or does not find MPI.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise GridGenError(
            f"a pipeline of processes requires MPI and mpi4py ({why}): {INSTALL}"
        ) from error
    return MPI


class MpiLinks:
    """Messages to and from the other processes; see ``stage.Links``."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._sent: dict[int, deque[tuple[Any, Block]]] = {}
        self._expected: list[Any] = []

    def send(self, message: Block, to: int) -> None:
        """Send a block of numbers; see ``Links``."""
        waiting = self._sent.setdefault(to, deque())
        if len(waiting) == BUFFERS:
            waiting.popleft()[0].Wait()
        copy = np.array(message, order="C")
        # A synchronous send completes when the receiver accepts it: the sender cannot run ahead.
        waiting.append((self._comm.Issend(copy, to), copy))

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Block:
        """Wait for the next block from a process; see ``Links``."""
        found = np.empty(shape, dtype)
        self._comm.Recv(found, source)
        return found

    def expect(self, out: Block, source: int) -> None:
        """Receive a later block from a process into an array; complete after ``finish``."""
        self._expected.append(self._comm.Irecv(out, source))

    def finish(self) -> None:
        """Wait for all sent and expected messages."""
        for waiting in self._sent.values():
            while waiting:
                waiting.popleft()[0].Wait()
        while self._expected:
            self._expected.pop().Wait()
