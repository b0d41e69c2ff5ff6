"""The processor time of `make test`, with that of its set-up, by what takes it.

    python benchmarks/suite.py --output benchmarks/results/tables/suite.csv

One worker runs the tests, with an empty cache; the time is that of the process and of the compilers
that it starts. It hardly depends on what else the machine does, unlike a time on the clock. If some
tests are named, their rows in the table are renewed.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from machine import description

from gridgen.user_cache import FOLDER_VARIABLE

ROOT = Path(__file__).resolve().parents[1]
SETUP = "set-up: the environment and its packages"
START = "start of pytest, collection of the tests"
ALL = "**all**"


def seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Record:
    """A plugin of pytest: processor times and numbers of tests, by folder and by test."""

    def __init__(self) -> None:
        self.before = seconds()
        self.times: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.slowest: Counter[str] = Counter()

    def lap(self) -> float:
        """Return the time since the last call."""
        last, self.before = self.before, seconds()
        return self.before - last

    def pytest_collection_finish(self) -> None:
        self.times[START] += self.lap()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        folder, *parts = item.path.relative_to(ROOT).parent.parts
        name = "/".join((folder, *parts[:2]))
        elapsed = self.lap()
        self.times[name] += elapsed
        self.tests[name] += call.when == "setup"
        self.slowest[item.nodeid] += elapsed


def time_of_setup(extras: str) -> float:
    """Return the processor time in which `make test` sets up its environment."""
    before = seconds()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--no-compile"]
        subprocess.run([*install, "--editable", f".[{extras}]"], cwd=ROOT, check=True)
    return seconds() - before


def rows_of(path: Path | None) -> dict[str, tuple[int, float]]:
    """Return the rows of a table except the heading and the sum."""
    if path is None or not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.reader(file)][1:]
    return {name: (int(count or 0), float(time)) for name, count, time in rows if name != ALL}


def main(arguments: Sequence[str]) -> int:
    """Measure, print the slowest tests, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tests", nargs="*", help="folders whose tests run; all by default")
    parser.add_argument("--extras", help="set up an environment too, with these extras")
    parser.add_argument("--output", type=Path, help="write the table to this file, as CSV")
    options = parser.parse_args(arguments)
    setup = time_of_setup(options.extras) if options.extras else 0.0
    record = Record()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder
        status = pytest.main(["-q", "-n", "0", *(options.tests or ["tests"])], plugins=[record])
    for test, time in record.slowest.most_common(25):
        print(f"{time:7.1f} s  {test}")
    found = {name: (record.tests[name], time) for name, time in record.times.items()}
    if options.tests:
        del found[START]
        found = rows_of(options.output) | found
    if setup:
        found[SETUP] = (0, setup)
    rows = sorted(found.items(), key=lambda row: -row[1][1])
    tests, times = (sum(row[1][k] for row in rows) for k in (0, 1))
    table = [(name, count or "", round(time)) for name, (count, time) in rows]
    table.append((ALL, tests, round(times)))
    print(*(f"{time:7} s  {name}, {count} tests" for name, count, time in table), sep="\n")
    if options.output:
        with options.output.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("folder", "tests", f"s, {description()['processor']}"))
            writer.writerows(table)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
