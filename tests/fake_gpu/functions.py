"""Host functions in a stream, which a thread of the driver calls.

A thread that waits for a full stream may hold the GIL. Hence the fake holds it while a function
runs, and reports a function that waits for it.
"""

from __future__ import annotations

import ctypes
import time

from fake_gpu.errors import MisuseError
from fake_gpu.machine import machine
from fake_gpu.streams import ExternalStream
from fake_gpu.work import Operation

#: Longest time of a function while the GIL is held [s].
PATIENCE = 10.0

_HOLDING, _LETTING_GO = ctypes.PyDLL(None), ctypes.CDLL(None)


class _Time(ctypes.Structure):
    """``struct timespec``."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def launch_host_function(stream: int, function: int, argument: int) -> int:
    """Enqueue a call of ``void function(void* argument)``: `cuLaunchHostFunc`.

    Writes of the function to pinned memory are recorded.

    Args:
        stream:   pointer of the stream.
        function: address of the function.
        argument: argument of the function, an address.

    Returns:
        0, CUDA's code for success.
    """
    pinned = machine().pinned

    def run(operation: Operation) -> None:
        with pinned.written_by(operation):
            _call(function, argument)

    queue = ExternalStream(stream).queue
    pinned.note_function(queue.enqueue("function of the host", run, on_host=True))
    return 0


def _call(function: int, argument: int) -> None:
    """Call a function in a thread outside Python while this thread holds the GIL.

    Raises:
        MisuseError: the function does not return in time.
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
            "a host function in a stream waits for the GIL; a thread that waits for the stream may "
            "hold it"
        )
