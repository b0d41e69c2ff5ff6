"""A library reads a file in a child process, with limits on time and memory.

A compiler of models or an evaluator of expressions can be made to crash, to run for ever or to
fill the memory by a file of a few lines. Only the child process ends then.
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
"""Longest time that a child process may run."""

MEMORY = 4 * 2**30
"""Most memory that it may allocate [bytes]."""

_OUT_OF_MEMORY = 3
"""Exit status of a child process for which that was not enough."""

# Isolated (-I), and with the paths of this process: nothing is imported from elsewhere.
_CHILD = (
    "import pickle, sys\n"
    "sys.path[:] = pickle.load(sys.stdin.buffer)\n"
    "from gridgen.model.readers.limited import serve\n"
    "serve()"
)


def run_limited(
    function: Callable[..., Any], *arguments: Any, source: str, what: str, advice: str
) -> Any:
    """Return what a function returns, which runs in a child process.

    Args:
        function:  of a module; its arguments and its result can be pickled.
        arguments: its arguments.
        source:    what a message calls the file.
        what:      who does the work, in a message: ``MuJoCo``.
        advice:    what to do where it fails.

    Raises:
        GridGenError: the one that the function raises.
        UrdfError:    it takes more than ``SECONDS`` or ``MEMORY``, or the child process crashes.
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
        problem = f"cannot be run in a process of its own ({error.strerror or error})"
    else:
        if done.returncode == 0:
            result, raised = pickle.loads(done.stdout)
            if raised is not None:
                raise raised
            return result
        problem = _problem(done.returncode)
    raise UrdfError(f"{what} {problem} on this file; {advice}", source)


def _problem(status: int) -> str:
    """Return what became of a child process that gave no answer."""
    if status == _OUT_OF_MEMORY:
        return f"needs more than {MEMORY / 2**30:g} GiB of memory"
    if status == -signal.SIGXCPU:
        return f"takes more than {SECONDS:g} s of all processors"
    if status < 0:
        with suppress(ValueError):
            return f"crashes ({signal.Signals(-status).name})"
    return f"fails (exit status {status})"


def serve() -> None:
    """Answer the one request of ``run_limited``, in its child process."""
    # What a library prints is no answer.
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
    """Bound what this process may take; a system that has no such limit keeps none."""
    import resource

    # The time of all processors ends a child process whose parent is gone.
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
