"""Run a third-party reader in a child process, with time and memory limits.

A malicious file of a few lines can crash a model compiler, or make it run forever or exhaust the
memory. The child process isolates such failures.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gridgen.errors import GridGenError, UrdfError

SECONDS = 60.0
"""Time limit of the child process [s]."""

MEMORY = 4 * 2**30
"""Memory limit of the child process [bytes]."""

_OUT_OF_MEMORY = 3
"""Exit status of a child process that exceeds ``MEMORY``."""

# Isolated mode (-I) with this process's sys.path: modules come from the same locations.
_CHILD = (
    "import pickle, sys\n"
    "sys.path[:] = pickle.load(sys.stdin.buffer)\n"
    "from gridgen.model.readers.limited import serve\n"
    "serve()"
)


def run_limited(
    function: Callable[..., Any], *arguments: Any, source: str, what: str, advice: str
) -> Any:
    """Call a function in a child process and return its result.

    Args:
        function:  module-level function with picklable arguments and result.
        arguments: arguments of the function.
        source:    name of the file in messages.
        what:      name of the library in messages, such as ``MuJoCo``.
        advice:    remedy in messages.

    Raises:
        GridGenError: raised by the function.
        UrdfError:    the call exceeds ``SECONDS`` or ``MEMORY``, or the child process crashes.
    """
    # Each thread of a library would reserve address space, which the limit counts.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    paths = pickle.dumps([path for path in sys.path if isinstance(path, str)])
    request = pickle.dumps((SECONDS, MEMORY, function, arguments))
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _CHILD],
            input=paths + request,
            stdout=subprocess.PIPE,
            timeout=SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        problem = f"takes more than {SECONDS:g} s"
    except OSError as error:
        problem = f"cannot run in a separate process ({error.strerror or error})"
    else:
        if done.returncode == 0:
            result, raised = pickle.loads(done.stdout)
            if raised is not None:
                raise raised
            return result
        problem = _problem(done.returncode)
    raise UrdfError(f"{what} {problem} on this file; {advice}", source)


def _problem(status: int) -> str:
    """Return the failure of a child process, for a message."""
    if status == _OUT_OF_MEMORY:
        return f"needs more than {MEMORY / 2**30:g} GiB of memory"
    if status == -signal.SIGXCPU:
        return f"takes more than {SECONDS:g} s on all processors"
    if status < 0:
        with suppress(ValueError):
            return f"crashes ({signal.Signals(-status).name})"
    return f"fails (exit status {status})"


def serve() -> None:
    """Serve the request of ``run_limited`` in its child process."""
    # Redirect prints of the library away from the pipe that returns the result.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    seconds, memory, function, arguments = pickle.load(sys.stdin.buffer)
    _limit(seconds, memory)
    result: Any = None
    raised: GridGenError | None = None
    try:
        result = function(*arguments)
    except GridGenError as error:
        raised = error
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
    pickle.dump((result, raised), answers)
    answers.close()


def _limit(seconds: float, memory: int) -> None:
    """Limit this process's memory and processor time where the system supports it."""
    import resource

    # The limit on processor time ends a child process whose parent is gone.
    processors = int(seconds) * (os.cpu_count() or 1)
    for limit, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, max(processors, 1)),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (lowest, hard))
