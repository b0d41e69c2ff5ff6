from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from gridgen import user_cache
from gridgen.backends.cpu import compiler
from gridgen.backends.cpu import processor as processor_module
from gridgen.backends.cpu.backend import (
    THREADS_VARIABLE,
    Code,
    CpuBackend,
    CpuKernel,
    Share,
    Workers,
    thread_count,
)
from gridgen.backends.cpu.units import BLOCK
from gridgen.backends.interface import Sources
from gridgen.errors import CompileError, GridGenWarning, OptionError
from gridgen.papers.stream_task import runner, task_of


def states(batch: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(7).integers(-9, 9, (batch, 2)).astype(dtype)


def expected(x: np.ndarray) -> np.ndarray:
    return (x[:, :1] * x[:, :1] + 3 * x[:, 1:2]).astype(x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [0, 1, 63, 64, 65, 1000])
def test_a_kernel_computes_every_state(toy, pack, dtype, batch):
    kernel = CpuBackend(threads=3).kernel(toy, "evaluate", dtype)
    x = states(batch, dtype)
    y = np.full((batch, 1), np.nan, dtype)
    kernel(pack(x, y), batch)
    np.testing.assert_array_equal(y, expected(x))


def test_a_kernel_reads_and_writes_any_strides(toy, pack):
    kernel = CpuBackend(threads=1).kernel(toy, "evaluate", "float64")
    x = np.asfortranarray(states(100, "float64"))[::-2]
    y = np.zeros((50, 3))[:, 1:2]
    kernel(pack(x, y), 50)
    np.testing.assert_array_equal(y, expected(x))


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("batch", [65, 128, 129, 1000, 4096])
def test_a_long_batch_is_divided_among_threads(toy, pack, threads, batch):
    kernel = CpuBackend(threads=threads).kernel(toy, "evaluate_slowly", "float64")
    x = states(batch, "float64")
    for _ in range(3):  # the first call measures, later ones know
        y = np.full((batch, 1), np.nan)
        kernel(pack(x, y), batch)
        np.testing.assert_array_equal(y, expected(x))


@pytest.mark.parametrize("batch", [0, 1, BLOCK, 5000])
def test_a_task_computes_every_state(toy, pack, batch):
    kernel = CpuBackend(threads=3).kernel(toy, "evaluate_slowly", "float64")
    x, y = states(batch, "float64"), np.full((batch, 1), np.nan)
    task = task_of(kernel, pack(x, y), batch)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(runner())(ctypes.addressof(task.task))
    np.testing.assert_array_equal(y, expected(x))


class Recorder:
    """Stands for compiled code: records what is computed, with a clock of its own."""

    def __init__(self, monkeypatch, seconds: float) -> None:
        self.calls: list[tuple[int, int]] = []
        self.caller = threading.current_thread()
        self.seconds = seconds
        self.now = 0.0
        self.lock = threading.Lock()
        monkeypatch.setattr("gridgen.backends.cpu.backend.perf_counter", lambda: self.now)

    def __call__(self, arguments, begin: int, end: int, batch: int) -> None:
        self.now += (end - begin) * self.seconds
        self.calls.append((begin, end))

    def kernel(self, threads: int) -> CpuKernel:
        """Return a kernel that this code computes."""
        code = Code(self, self.take_parts, None, self.close)
        return CpuKernel(lambda states: code, Workers(threads))

    def take_parts(self, arguments, share: Share, batch: int) -> None:
        """Of the caller, computes one part; the helpers leave it the first and compute the rest."""
        caller = threading.current_thread() is self.caller
        if not caller:
            self.wait_for_caller()
        with self.lock:
            while share.next < share.end:
                begin, share.next = share.next, share.next + share.part
                end = min(begin + share.part, share.end)
                self(arguments, begin, end, batch)
                share.left -= end - begin
                if caller:
                    break

    def close(self, share: Share) -> None:
        """Wait for the helpers."""
        while share.left:
            time.sleep(0.001)

    def wait_for_caller(self) -> None:
        while not self.calls:
            time.sleep(0.001)


def test_parts_are_contiguous_whole_blocks_and_all_computed_on_return(monkeypatch):
    code = Recorder(monkeypatch, seconds=1e-6)
    kernel = code.kernel(4)
    kernel(None, BLOCK + 1)  # is the measurement
    for batch in (1000, 70 * BLOCK, 100_000):
        code.calls.clear()
        kernel(None, batch)
        begins, ends = zip(*sorted(code.calls), strict=True)
        assert begins[0] == 0
        assert ends == (*begins[1:], batch)
        assert not any(begin % BLOCK for begin in begins)
        assert len(begins) >= min(batch // BLOCK, 4 * 16)


def test_the_first_division_computes_the_measured_block_once(monkeypatch):
    code = Recorder(monkeypatch, seconds=2e-6)
    code.kernel(2)(None, 65 + 128)
    assert sorted(code.calls) == [(0, 64), (64, 128), (128, 192), (192, 193)]


@pytest.mark.parametrize(("threads", "seconds"), [(4, 1e-9), (1, 1.0)])
def test_a_short_batch_or_a_single_thread_stays_with_the_caller(monkeypatch, threads, seconds):
    code = Recorder(monkeypatch, seconds)
    kernel = code.kernel(threads)
    kernel(None, 1000)
    code.calls.clear()
    kernel(None, 1000)
    assert code.calls == [(0, 1000)]


def test_a_helper_that_comes_late_touches_nothing(toy, pack):
    kernel = CpuBackend(threads=2).kernel(toy, "evaluate_slowly", "float64")
    release, idle = threading.Event(), threading.Event()
    workers = kernel._workers
    workers.hand_out(release.wait)  # keeps the only helper busy
    x, y = states(2000, "float64"), np.full((2000, 1), np.nan)
    releases = threading.Timer(60.0, release.set)  # else a caller that waits would do so for ever
    releases.start()
    for _ in range(3):
        kernel(pack(x, y), 2000)
        assert not release.is_set(), "the caller waited for a helper that had nothing to do"
        np.testing.assert_array_equal(y, expected(x))
        y[:] = np.nan
    releases.cancel()
    release.set()
    workers.hand_out(idle.set)
    idle.wait()  # the late helpers have run
    assert np.isnan(y).all()


def test_an_interrupted_call_writes_nothing_any_more(toy, pack, alarm):
    kernel, batch = CpuBackend(threads=4).kernel(toy, "evaluate_slowly", "float64"), 6_000
    x, y = states(batch, "float64"), np.zeros((batch, 1))
    kernel(pack(x, y), batch)
    begin = time.perf_counter()
    kernel(pack(x, y), batch)
    taken, interrupted = time.perf_counter() - begin, 0
    for fraction in np.linspace(0.05, 1.0, 20):
        if alarm(taken * fraction, kernel, pack(x, y), batch):
            y[:] = -1.0
            interrupted += 1
            time.sleep(taken / 4)
            assert (y == -1.0).all()
    assert interrupted
    kernel(pack(x, y), batch)
    np.testing.assert_array_equal(y, expected(x))


def test_a_call_that_is_interrupted_as_it_wakes_helpers(toy, pack, monkeypatch):
    """Helpers are computing by then, even one that the caller has never heard of."""
    kernel, batch = CpuBackend(threads=4).kernel(toy, "evaluate_slowly", "float64"), 6_000
    x, y = states(batch, "float64"), np.zeros((batch, 1))
    kernel(pack(x, y), batch)
    hand_out, left = kernel._workers.hand_out, []

    def interrupted(*given):
        """Hand out as long as that is left to do, then raise."""
        if left.pop(0):
            hand_out(*given)
        if not left:
            time.sleep(0.001)  # the helpers begin
            raise TimeoutError

    monkeypatch.setattr(kernel._workers, "hand_out", interrupted)
    for hands_out in ([True], [True, False], [True, True, True]):
        left[:] = hands_out
        with pytest.raises(TimeoutError):
            kernel(pack(x, y), batch)
        y[:] = -1.0
        time.sleep(0.01)
        assert (y == -1.0).all()


def test_calls_from_many_threads_at_once(toy, pack):
    kernel = CpuBackend(threads=2).kernel(toy, "evaluate_slowly", "float64")
    x = states(2000, "float64")
    results = [np.full((2000, 1), np.nan) for _ in range(6)]
    callers = [threading.Thread(target=kernel, args=(pack(x, y), 2000)) for y in results]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for y in results:
        np.testing.assert_array_equal(y, expected(x))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*JAX is multithreaded:RuntimeWarning")
def test_a_forked_child_starts_its_own_threads(toy, pack):
    kernel = CpuBackend(threads=2).kernel(toy, "evaluate_slowly", "float64")
    x, y = states(2000, "float64"), np.full((2000, 1), np.nan)
    kernel(pack(x, y), 2000)
    kernel(pack(x, y), 2000)

    def child() -> None:
        y[:] = np.nan
        kernel(pack(x, y), 2000)
        os._exit(0 if np.array_equal(y, expected(x)) else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(20)
    assert process.exitcode == 0


def test_a_second_process_or_backend_does_not_compile(toy, counter):
    CpuBackend().kernel(toy, "evaluate", "float32")
    CpuBackend().kernel(toy, "evaluate", "float32")
    assert counter.compilations == 1
    CpuBackend().kernel(toy, "evaluate", "float64")
    assert counter.compilations == 2


def test_a_changed_text_is_compiled_anew(toy, pack, counter):
    x = states(1, "float64")
    for factor in (3, 5):
        text = toy.files["toy.cuh"].replace("T(3)", f"T({factor})")
        changed = replace(toy, files={**toy.files, "toy.cuh": text})
        y = np.zeros((1, 1))
        CpuBackend().kernel(changed, "evaluate", "float64")(pack(x, y), 1)
        assert y[0, 0] == x[0, 0] ** 2 + factor * x[0, 1]
    assert counter.compilations == 2


def test_a_damaged_library_is_compiled_anew(toy, pack, counter, cache_folder):
    CpuBackend().kernel(toy, "evaluate", "float64")
    (library,) = cache_folder.glob("*/kernel.so")
    # A new file, as this process still runs the old one.
    content = library.read_bytes()
    library.unlink()
    library.write_bytes(content[:1000])
    x, y = states(1, "float64"), np.zeros((1, 1))
    CpuBackend().kernel(toy, "evaluate", "float64")(pack(x, y), 1)
    np.testing.assert_array_equal(y, expected(x))
    assert counter.compilations == 2


@pytest.fixture
def without_compiler(monkeypatch):
    """Return a function that takes all compilers away."""

    def remove(named: str = "") -> None:
        monkeypatch.setenv(compiler.COMPILER_VARIABLE, named)
        monkeypatch.setenv("PATH", "")
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        compiler._find_compiler.cache_clear()

    yield remove
    compiler._find_compiler.cache_clear()


@pytest.mark.parametrize("named", ["", "/usr/bin/gone", "/bin/false", 'g++ "'])
def test_a_cached_function_needs_no_compiler(toy, pack, counter, without_compiler, named):
    CpuBackend().kernel(toy, "evaluate", "float64")
    without_compiler(named)
    x, y = states(1, "float64"), np.zeros((1, 1))
    CpuBackend().kernel(toy, "evaluate", "float64")(pack(x, y), 1)
    np.testing.assert_array_equal(y, expected(x))
    with pytest.raises(CompileError, match="CXX"):
        CpuBackend().kernel(toy, "evaluate", "float32")


@pytest.mark.parametrize(
    ("processor", "serves"),
    [
        (["vendor_id : X", "model : 1", "stepping : 2", "flags : fpu avx2 fma pti"], True),
        (["vendor_id : X", "model : 1", "stepping : 3", "flags : fpu avx2 avx512f fma"], True),
        (["vendor_id : X", "model : 1", "stepping : 2", "flags : fpu avx2 pti"], False),
        (["vendor_id : X", "model : 2", "stepping : 2", "flags : fpu avx2 fma pti"], False),
        (["CPU part : 1", "Features : fp asimd"], False),
        ([], False),
    ],
)
def test_without_a_compiler_only_code_for_such_a_processor_serves(
    toy, tmp_path, monkeypatch, without_compiler, processor, serves
):
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor_module, "PROCESSORS", file)
    file.write_text("vendor_id : X\nmodel : 1\nstepping : 2\nflags : fpu avx2 fma pti\n")
    CpuBackend().kernel(toy, "evaluate", "float64")
    without_compiler()
    file.write_text("\n".join(processor))
    expectation = contextlib.nullcontext() if serves else pytest.raises(CompileError)
    with expectation:
        CpuBackend().kernel(toy, "evaluate", "float64")


def test_a_compiler_without_room_is_no_bug(toy, tmp_path, monkeypatch):
    script = tmp_path / "full"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *-shared*) echo "ld: No space left on device" >&2; exit 1;; esac\n'
        'echo "#define __cplusplus 1"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv(compiler.COMPILER_VARIABLE, str(script))
    user_cache._warn_once.cache_clear()
    with (
        pytest.warns(GridGenWarning, match="No space left on device"),
        pytest.raises(CompileError, match=r"No space left on device.*free disk space") as caught,
    ):
        CpuBackend().kernel(toy, "evaluate", "float64")
    assert "bug" not in str(caught.value)


def test_threads_compile_a_function_once(toy, counter):
    threads = [
        threading.Thread(target=CpuBackend().kernel, args=(toy, "evaluate", "float64"))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.compilations == 1


PROCESS = """
import ctypes, json, sys
from gridgen.backends.cpu.backend import CpuBackend
from gridgen.backends.interface import Sources
kernel = CpuBackend(threads=1).kernel(Sources("toy", json.load(sys.stdin)), "evaluate", "float64")
x, y = (ctypes.c_double * 2)(2.0, 5.0), (ctypes.c_double * 1)()
kernel((ctypes.c_int64 * 6)(ctypes.addressof(x), 2, 1, ctypes.addressof(y), 1, 1), 1)
assert y[0] == 19.0, y[0]
"""


def test_processes_compile_the_same_robot_once(toy, counter, cache_folder):
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS], stdin=subprocess.PIPE) for _ in range(3)
    ]
    for process in processes:
        process.stdin.write(json.dumps(toy.files).encode())
        process.stdin.close()
    assert [process.wait(300) for process in processes] == [0, 0, 0]
    assert len(list(cache_folder.glob("*/kernel.so"))) == 1
    assert counter.compilations == 1


def test_a_refused_text_is_reported_with_its_source(toy, cache_folder):
    text = toy.files["toy.cuh"].replace("x0 * x0", "x0 * x7")
    broken = replace(toy, files={**toy.files, "toy.cuh": text})
    with pytest.raises(CompileError) as caught:
        CpuBackend().kernel(broken, "evaluate", "float32")
    first, *excerpt, last = str(caught.value).splitlines()
    assert first.startswith('robot "toy", function evaluate (float32): ')
    assert "rejected the generated code: toy.cuh:" in first
    assert "x7" in first
    assert [line[0] for line in excerpt] == [" ", ">", " "]
    assert excerpt[1].endswith("|     return x0 * x7 + T(3) * x1;")
    assert "bug in gridgen, please report" in last
    (kept,) = (cache_folder / "failed").iterdir()
    assert str(kept) in last
    assert (kept / "toy.cuh").read_text() == text
    assert (kept / "unit.cpp").exists()


def test_only_the_function_asked_for_is_instantiated(toy):
    text = toy.files["toy_simd.h"].replace("volatile T sum", "typename T::none sum")
    partly = Sources("toy", {**toy.files, "toy_simd.h": text})
    CpuBackend().kernel(partly, "evaluate", "float32")


def test_the_number_of_threads(monkeypatch):
    monkeypatch.delenv(THREADS_VARIABLE, raising=False)
    assert thread_count() >= 1
    monkeypatch.setenv(THREADS_VARIABLE, "5")
    assert thread_count() == 5
    for wrong in ("0", "-1", "many"):
        monkeypatch.setenv(THREADS_VARIABLE, wrong)
        with pytest.raises(OptionError, match=f'NUM_THREADS is "{wrong}"'):
            thread_count()
    with pytest.raises(OptionError, match="threads is 0"):
        CpuBackend(threads=0)
