"""Programs that start others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gridgen.backends.process import run


def test_what_a_program_says_is_returned():
    words = ["sh", "-c", "echo out; echo err >&2; echo $A; exit 3"]
    result = run(words, {"A": "b", "PATH": os.environ["PATH"]})
    assert (result.returncode, result.stdout, result.stderr) == (3, "out\nb\n", "err\n")


PROGRAM = """
import os, signal, sys
from gridgen.backends.process import run
from gridgen.backends.process import side_by_side
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it
words = ["sh", "-c", f"sleep 1000 & echo $! > {sys.argv[1]}; wait"]
if sys.argv[2] == "main":
    run(words, os.environ)
else:
    list(side_by_side({"": lambda: run(words, os.environ)}, print))
"""


@pytest.mark.parametrize(
    ("thread", "number"),
    [("main", signal.SIGINT), ("main", signal.SIGTERM), ("pool", signal.SIGTERM)],
)
def test_a_signal_ends_all_that_a_program_has_started(tmp_path, thread, number):
    file = tmp_path / "number"
    words = [sys.executable, "-c", PROGRAM, file, thread]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = wait_for(lambda: file.exists() and file.read_text().strip())
    process.send_signal(number)
    status = process.wait(60)
    assert status == -number if number == signal.SIGTERM else status != 0
    wait_for(lambda: has_ended(int(started)))


def wait_for(condition):
    for _ in range(6000):
        if result := condition():
            return result
        time.sleep(0.01)
    raise AssertionError("a minute has passed")


def has_ended(number: int) -> bool:
    """Tell whether a process is gone, or waits to be buried by whatever adopted it."""
    status = Path(f"/proc/{number}/stat")
    if Path("/proc/self/stat").exists():
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False
