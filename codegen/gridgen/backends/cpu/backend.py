"""The ``cpu`` backend: SIMD code from the host's C++ compiler, parallel over blocks of states."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple

from gridgen.backends import TARGETS
from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import host_compiler, shared_library
from gridgen.backends.cpu.direct import DirectCall, direct_call, set_entry
from gridgen.backends.cpu.units import BLOCK, FLAGS, PREFIX, States, symbol, translation_unit
from gridgen.backends.interface import (
    THREAD_SCHEDULE,
    AnyLaunch,
    Arguments,
    Backend,
    Launch,
    Sources,
)
from gridgen.errors import CompileError, DeviceError, OptionError
from gridgen.functions.types import Dtype
from gridgen.progress import announced

THREADS_VARIABLE = "GRIDGEN_NUM_THREADS"

# Minimum work for an additional thread, which takes 20 to 60 us to start [s].
MIN_SHARE = 80e-6
# Chunks of a batch per thread, for load balancing.
_PARTS = 16

# Approximate time to check a state's quaternion [s].
_CHECK = 2e-9

# Thread limit of ``limited_threads``, per thread.
_limit = threading.local()

_Task = tuple[Callable[..., object], tuple[Any, ...]]


class CpuBackend(Backend):
    """Backend that compiles with the host's C++ compiler and runs on the host's cores.

    Args:
        threads: maximum threads per batch; by default ``$GRIDGEN_NUM_THREADS``, else the number of
                 cores available to this process.
        cache:   cache of compiled libraries; by default in the user's cache folder.
    """

    def __init__(self, *, threads: int | None = None, cache: BuildCache | None = None) -> None:
        self._workers = Workers(thread_count() if threads is None else threads)
        self._cache = cache or BuildCache()

    @staticmethod
    def require() -> None:
        """Raise ``CompileError`` unless a C++ compiler is available."""
        host_compiler()

    def kernel(
        self,
        sources: Sources,
        function: str,
        dtype: Dtype,
        launch: AnyLaunch = THREAD_SCHEDULE,
        batch: int = 0,
    ) -> CpuKernel:
        """Return ``function`` of the module, compiled for ``dtype``.

        A ``batch`` of one compiles the code for one state alone.

        Raises:
            DeviceError: the function runs one team of GPU threads per state.
        """
        if isinstance(launch, Launch):
            others = " or ".join(f'"{other.name}"' for other in TARGETS.values() if other.teams)
            raise DeviceError(
                f"{function} runs one team of GPU threads per state, which the cpu backend does "
                f"not support: use backend={others}, or omit schedule= and method="
            )
        load = partial(self._load, sources, function, dtype)
        kernel = CpuKernel(load, self._workers)
        kernel.make(batch)
        return kernel

    def _load(self, sources: Sources, function: str, dtype: Dtype, states: States) -> Code:
        """Return the code of a function for one state, or for many."""
        with announced(f"compiling {function} of {sources.robot} for cpu"):
            path, prefix = self.library(sources, function, dtype, states)
        library = ctypes.CDLL(str(path))
        number = ctypes.c_longlong
        pointer, share = ctypes.c_void_p, ctypes.POINTER(Share)
        return Code(
            _function(library[f"{prefix}_entry"], pointer, number, number, number),
            _function(library[f"{prefix}_take_parts"], pointer, share, number),
            _function(library[f"{prefix}_check_parts"], pointer, share),
            _function(library[f"{prefix}_close"], share),
            direct_call(library, dtype, prefix),
            partial(set_entry, library, prefix),
            _flag(library[f"{prefix}_not_converged"]),
        )

    def library(
        self, sources: Sources, function: str, dtype: Dtype, states: States = "many"
    ) -> tuple[Path, str]:
        """Return the library with a function, and the prefix of the function's symbols.

        The library is the module's own, with code for any number of states, or the cached or newly
        compiled ``translation_unit``.
        """
        built = sources.built
        if built is not None and (path := built.library(function, dtype)) is not None:
            return path, symbol(sources.robot, function, dtype)
        unit = translation_unit(sources.robot, function, dtype, states)
        try:
            path = shared_library(sources, f"{function} ({dtype})", unit, FLAGS, self._cache)
        except CompileError as error:
            if built is None or not (lack := built.lack(function, dtype)):
                raise
            raise CompileError(f"{lack}; {error}") from error
        return path, PREFIX


def _function(function: Any, *types: Any) -> Any:
    """Set the argument types of a library function without a result, and return it."""
    function.argtypes, function.restype = types, None
    return function


def _flag(find: Any) -> ctypes.c_int:
    """Return the flag at the address that a library function returns."""
    find.restype = ctypes.c_void_p
    return ctypes.c_int.from_address(find())


class Share(ctypes.Structure):
    """Remaining states of a batch that threads share; see ``gridgen_share.h``."""

    _fields_ = (
        ("next", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("part", ctypes.c_int64),
        ("left", ctypes.c_int64),
        ("off", ctypes.c_int64),
    )


class Code(NamedTuple):
    """Compiled code of a function, which runs without the interpreter lock."""

    entry: Callable[[Arguments, int, int, int], None]  #: computes states [begin, end) of a batch.
    #: computes chunks of a shared batch until none remains.
    take_parts: Callable[[Arguments, Share, int], None]
    #: checks chunks of a shared batch for quaternions without unit norm.
    check_parts: Callable[[Arguments, Share], None]
    close: Callable[[Share], None]  #: cancels the remaining chunks and waits for the running ones.
    direct: DirectCall | None = None  #: the function for NumPy arrays.
    #: sets the entry that ``direct`` calls for one state, or for many.
    set_entry: Callable[[States, Any], None] = lambda states, entry: None
    #: 1 after iterations that ended before all states had converged.
    not_converged: ctypes.c_int | None = None


class CpuKernel:
    """A compiled function: code for many states, in SIMD packs, and code for one state.

    Each is compiled when calls need it. A call of one state uses what there is.

    Args:
        load:    returns the code for "one" or "many" states, compiled if necessary.
        workers: threads for large batches.

    Attributes:
        at_once: maximum number of states that ``direct`` computes itself.
        not_converged: flags: 1 after iterations that ended before all states had converged.
    """

    at_once = BLOCK

    def __init__(self, load: Callable[[States], Code], workers: Workers) -> None:
        self._load = load
        self._codes: dict[States, Code] = {}
        self.not_converged: list[ctypes.c_int] = []
        self._workers = workers
        # A batch up to this size is never divided among threads.
        self._undivided = BLOCK if workers.threads > 1 else sys.maxsize
        self._seconds_per_state: float | None = None

    def make(self, batch: int) -> None:
        """Compile the code for calls of this number of states; see ``FormKernel``."""
        states: States = "one" if batch == 1 else "many"
        if states in self._codes:
            return
        code = self._codes[states] = self._load(states)
        codes = [*self._codes.items()]  # another thread may add its own
        for known, other in codes:
            for _, one in codes:
                one.set_entry(known, other.entry)
        if code.not_converged is not None:
            code.not_converged.value = 0
            self.not_converged.append(code.not_converged)

    def _code(self, batch: int) -> Code:
        """Return the code for a call, compiled if there is none."""
        codes = self._codes
        if batch == 1 and "one" in codes:
            return codes["one"]
        if "many" not in codes:
            self.make(batch)
        return codes["many" if "many" in codes else "one"]

    @property
    def direct(self) -> DirectCall | None:
        """The function for NumPy arrays, if the interpreter supports it."""
        return next((code.direct for code in self._codes.values()), None)

    @property
    def entry(self) -> Callable[[Arguments, int, int, int], None]:
        """The code that computes states [begin, end) of a batch."""
        return self._code(BLOCK).entry

    def __call__(self, arguments: Arguments, batch: int) -> None:
        """Compute ``batch`` states; see :class:`gridgen.backends.interface.RunnableKernel`."""
        if batch <= self._undivided:
            self._code(batch).entry(arguments, 0, batch, batch)
        else:
            self._divide(arguments, batch)

    def prepare(self, arguments: Arguments, batch: int) -> Callable[[], None]:
        """Return a function that computes the same states; see ``RunnableKernel``."""
        self.make(batch)
        if batch <= self._undivided:
            return partial(self._code(batch).entry, arguments, 0, batch, batch)
        return partial(self._divide, arguments, batch)

    def has_unit_quaternions(self, arguments: Arguments, batch: int) -> bool:
        """Return whether all quaternions have unit norm up to rounding, or are NaN."""
        threads = self._threads(batch, _CHECK)
        share = _shared(0, batch, threads)
        self._compute(threads, share, self._code(batch).check_parts, arguments, share)
        return not share.off

    def _divide(self, arguments: Arguments, batch: int) -> None:
        begin, code = 0, self._code(batch)
        if self._seconds_per_state is None:
            # Measure the time per state with the first block.
            start = perf_counter()
            code.entry(arguments, 0, BLOCK, batch)
            self._seconds_per_state = (perf_counter() - start) / BLOCK
            begin = BLOCK
        threads = self._threads(batch - begin, self._seconds_per_state)
        start = perf_counter()
        if threads == 1:
            code.entry(arguments, begin, batch, batch)
        else:
            share = _shared(begin, batch, threads)
            self._compute(threads, share, code.take_parts, arguments, share, batch)
        # Use the minimum: disturbances only increase a measured time.
        seconds = (perf_counter() - start) * threads / (batch - begin)
        self._seconds_per_state = min(seconds, self._seconds_per_state)

    def _compute(
        self, threads: int, share: Share, take: Callable[..., None], *arguments: Any
    ) -> None:
        """Compute the chunks of a batch in threads.

        On return or exception (such as from a signal handler), no thread accesses the arrays.
        """
        close = next(iter(self._codes.values())).close
        try:
            for _ in range(1, threads):
                self._workers.hand_out(take, *arguments)
            take(*arguments)
        finally:
            # A single call of compiled code: Python handles a signal after it, not between others.
            close(share)

    def _threads(self, states: int, seconds_per_state: float) -> int:
        """Return the number of threads for a number of states."""
        useful = int(states * seconds_per_state / MIN_SHARE)
        return max(1, min(self._workers.at_most, -(-states // BLOCK), useful))


def _shared(begin: int, end: int, threads: int) -> Share:
    """Return the shared state for states [begin, end)."""
    states = end - begin
    return Share(begin, end, BLOCK * max(1, states // (threads * _PARTS * BLOCK)), states)


class Workers:
    """Thread pool that persists between calls, started on demand and again in a forked child.

    Args:
        threads: maximum threads per batch, including the caller's.
    """

    def __init__(self, threads: int) -> None:
        # One queue per process: a fork copies the queue but not the threads. No Python locks (such
        # as in concurrent.futures): a signal handler that raises can leave them locked forever.
        self._of_process: dict[int, tuple[SimpleQueue[_Task | None], list[int]]] = {}
        self.threads = threads
        if threads < 1:
            raise OptionError(f"threads is {threads}; it must be at least 1")

    @property
    def at_most(self) -> int:
        """Maximum number of threads for a call from this thread."""
        return min(self.threads, getattr(_limit, "threads", self.threads))

    def hand_out(self, function: Callable[..., object], *arguments: Any) -> None:
        """Submit a function to the pool; it is not called if no thread can be started."""
        tasks, running = self._of_process.setdefault(os.getpid(), (SimpleQueue(), []))
        if len(running) < self.threads - 1:
            with suppress(RuntimeError):
                running.append(start_new_thread(_serve, (tasks,)))
        if running:
            tasks.put((function, arguments))

    def __del__(self) -> None:
        """End the threads."""
        for tasks, running in self._of_process.values():
            for _ in running:
                tasks.put(None)


def _serve(tasks: SimpleQueue[_Task | None]) -> None:
    """Call submitted functions until a None."""
    while (task := tasks.get()) is not None:
        function, arguments = task
        function(*arguments)


@contextmanager
def limited_threads(most: int) -> Iterator[None]:
    """Limit calls from this thread to ``most`` threads, including this thread."""
    before = getattr(_limit, "threads", None)
    _limit.threads = most
    try:
        yield
    finally:
        if before is None:
            del _limit.threads
        else:
            _limit.threads = before


def thread_count() -> int:
    """Return the number of threads: ``$GRIDGEN_NUM_THREADS``, else the number of available cores.

    Raises:
        OptionError: the variable is not a positive integer.
    """
    if text := os.environ.get(THREADS_VARIABLE):
        if not text.isdecimal() or int(text) < 1:
            raise OptionError(f'${THREADS_VARIABLE} is "{text}"; it must be an integer >= 1')
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
