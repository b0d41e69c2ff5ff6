"""Functions of the host in a stream: called in a thread of the driver, when their turn has come.

Whoever waits for a full stream may hold the interpreter's lock meanwhile. So it is held here while
a function runs, and one that does not end without it is reported.
"""

from __future__ import annotations

import ctypes
import time

from fake_gpu.errors import MisuseError
from fake_gpu.machine import machine
from fake_gpu.streams import ExternalStream
from fake_gpu.work import Operation

#: How long a function may take while somebody holds the interpreter's lock [s].
PATIENCE = 10.0

_HOLDING, _LETTING_GO = ctypes.PyDLL(None), ctypes.CDLL(None)


class _Time(ctypes.Structure):
    """timespec."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def launch_host_function(stream: int, function: int, argument: int) -> int:
    """Enqueue a call of ``void function(void* argument)``: `cuLaunchHostFunc`.

    Of pinned memory it is known what the function writes.

    Args:
        stream:   the stream's pointer.
        function: its address.
        argument: what it is given, an address.

    Returns:
        0, as CUDA does where all is well.
    """
    pinned = machine().pinned

    def run(operation: Operation) -> None:
        with pinned.written_by(operation):
            _call(function, argument)

    queue = ExternalStream(stream).queue
    pinned.note_function(queue.enqueue("function of the host", run, on_host=True))
    return 0


def _call(function: int, argument: int) -> None:
    """Call a function in a thread that Python does not know, with the interpreter's lock held.

    Raises:
        MisuseError: it does not end.
    """
    thread = ctypes.c_void_p()
    address = ctypes.byref(thread)
    call, given = ctypes.c_void_p(function), ctypes.c_void_p(argument)
    if status := _HOLDING.pthread_create(address, None, call, given):
        raise OSError(status, "no thread")
    until = time.time() + PATIENCE
    limit = _Time(int(until), int(1e9 * (until % 1)))
    if _HOLDING.pthread_timedjoin_np(thread, None, ctypes.byref(limit)):
        _LETTING_GO.pthread_join(thread, None)
        raise MisuseError(
            "a function of a stream waits for the interpreter's lock, which somebody may hold who "
            "waits for room in the stream"
        )
