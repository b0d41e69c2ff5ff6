"""The processor time of `make test`, with that of its set-up, by what takes it.

    python benchmarks/suite.py --extras test,cuda12 --output benchmarks/results/tables/suite.csv

Workers run the tests as `make test` does, with an empty cache; each measures its own time and that
of the compilers that it starts. It hardly depends on what else the machine does, unlike a time on
the clock. If some tests are named, their rows in the table are renewed.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from machine import description

from gridgen.user_cache import FOLDER_VARIABLE

ROOT = Path(__file__).resolve().parents[1]
SETUP = "set-up: the environment and its packages"
PYTEST = "pytest: its start in each worker, collection of the tests, reports"
ALL = "**all**"
#: The key of a time in the report of a test.
TIME = "processor seconds"


def seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Laps:
    """A plugin of a worker: adds to each report of a test the time that it took."""

    def __init__(self) -> None:
        self.before = 0.0

    def pytest_runtest_logstart(self) -> None:
        self.before = seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        before, self.before = self.before, seconds()
        report.user_properties = [(TIME, self.before - before)]
        return report


class Sums:
    """A plugin of the process that starts the workers: times and numbers of tests, by folder."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.slowest: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = "/".join(Path(report.nodeid.partition("::")[0]).parent.parts[:3])
        elapsed = dict(report.user_properties)[TIME]
        self.times[folder] += elapsed
        self.tests[folder] += report.when == "setup"
        self.slowest[report.nodeid] += elapsed


def pytest_configure(config: pytest.Config) -> None:
    """Measure in each worker: pytest loads this file there too."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Laps())


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
    parser.add_argument("--slowest", type=int, default=25, help="number of tests to print")
    options = parser.parse_args(arguments)
    setup = time_of_setup(options.extras) if options.extras else 0.0
    # Else every process that a test starts would compile its modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sums = Sums()
    before = seconds()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder
        workers = ["-p", "suite", "-n", "auto", "--dist", "worksteal"]
        status = pytest.main(["-q", *workers, *(options.tests or ["tests"])], plugins=[sums])
    whole = seconds() - before
    for test, time in sums.slowest.most_common(options.slowest):
        print(f"{time:7.1f} s  {test}")
    found = {name: (sums.tests[name], time) for name, time in sums.times.items()}
    if options.tests:
        found = rows_of(options.output) | found
    else:
        found[PYTEST] = (0, whole - sums.times.total())
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
