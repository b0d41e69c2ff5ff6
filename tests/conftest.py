"""What holds for all tests: where helpers and kernels are, which tests run, on what compiler."""

from __future__ import annotations

import gc
import hashlib
import inspect
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Makes the helper modules of this folder importable from every test, in any import mode.
sys.path.insert(0, str(Path(__file__).parent))

from gridgen.backends.cache import FOLDER_VARIABLE
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.progress import QUIET_VARIABLE

# Tests allocate millions of objects, almost none in a circle: Python's collector takes a third of
# the time by default. Its limit stays below that of `gridgen.modules`, which tests compare.
gc.set_threshold(1_000_000, *gc.get_threshold()[1:])

# A slow machine would add reports to the output that tests compare.
os.environ[QUIET_VARIABLE] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share",
        metavar="K/N",
        help="run only the Kth of N shares of the tests that are chosen; K is counted modulo N",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make no cases that `-m "not exhaustive"` deselects: they are two of three."""
    if metafunc.config.option.markexpr != "not exhaustive":
        return
    every = metafunc.definition.get_closest_marker("exhaustive") is None
    parametrize = metafunc.parametrize

    def without_exhaustive(
        names: Any, cases: Any, *args: Any, ids: Any = None, **more: Any
    ) -> None:
        cases = list(cases)
        kept = [k for k, case in enumerate(cases) if every and not is_exhaustive(case)] or [0]
        if ids is not None and not callable(ids):
            every_id = list(ids)
            ids = [every_id[k] for k in kept]
        parametrize(names, [cases[k] for k in kept if cases], *args, ids=ids, **more)

    metafunc.parametrize = without_exhaustive  # type: ignore[method-assign]


def is_exhaustive(case: object) -> bool:
    """Tell whether a case, of parameters or with marks, is exhaustive."""
    return any(mark.name == "exhaustive" for mark in getattr(case, "marks", ()))


def pytest_collection_finish() -> None:
    """Search modules and tests, which stay, for circles no more."""
    gc.freeze()


@pytest.hookimpl(trylast=True)  # what markers and keywords leave out is not looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave one share of the tests, and each test once where it is skipped."""
    leave_one_share(config, items)
    items[:] = once_for_each_test(items)


def leave_one_share(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave one share of the tests; a test stays in its share whatever others come or go."""
    if not (share := config.getoption("share")):
        return
    number, count = map(int, share.split("/"))
    kept, left_out = [], []
    for item in items:
        digest = hashlib.sha256(item.nodeid.encode()).digest()
        mine = int.from_bytes(digest[:8], "big") % count == number % count
        (kept if mine else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


#: Why a case of a test with ``@refused`` is skipped.
REFUSED = "robots that cannot have the function"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a case against which ``@refused(why)`` has a reason: its robot cannot have it.

    Only the worker that would run it asks why: the reason may be an operation count.
    """
    if (mark := item.get_closest_marker("refused")) is None:
        return
    (why,) = mark.args
    names = inspect.signature(why).parameters
    if why(**{name: item.callspec.params[name] for name in names}):
        pytest.skip(REFUSED)


def once_for_each_test(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases, of those that ``skipif`` leaves out one for each test and reason."""
    kept: dict[tuple[str, ...], pytest.Item] = {}
    for item in items:
        marks = item.iter_markers("skipif")
        reasons = [mark.kwargs["reason"] for mark in marks if mark.args[:1] == (True,)]
        key = (of_all_cases(item.nodeid), *reasons) if reasons else (item.nodeid,)
        kept.setdefault(key, item)
    return list(kept.values())


def of_all_cases(nodeid: str) -> str:
    """Return the name of a test without the parameters of its case."""
    return nodeid.partition("[")[0]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print why tests were skipped, and keep which: another environment may have what they need.

    `pytest @.pytest_cache/d/skipped/tests.txt` runs them there.
    """
    reasons = {
        report: str(report.longrepr[2]).removeprefix("Skipped: ").partition(": ")[0]
        for report in terminalreporter.stats.get("skipped", [])
    }
    if reasons:
        terminalreporter.section("skipped", sep="=")
    for reason, count in Counter(reasons.values()).most_common():
        terminalreporter.line(f"{count:5}  {reason}")
    skipped = [report for report, reason in reasons.items() if reason != REFUSED]
    if cache := getattr(config, "cache", None):
        names = sorted({of_all_cases(report.nodeid) for report in skipped})
        text = "".join(f"{name}\n" for name in names)
        (cache.mkdir("skipped") / "tests.txt").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Keep what tests compile, in one folder for all workers, apart from the user's own cache.

    `pytest --cache-clear` empties it.
    """
    cache = getattr(pytestconfig, "cache", None)
    folder = cache.mkdir("kernels") if cache else tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)  # pytest makes it as the umask says
    with pytest.MonkeyPatch.context() as patch:
        if FOLDER_VARIABLE not in os.environ:
            patch.setenv(FOLDER_VARIABLE, str(folder))
        yield


@pytest.fixture
def few_objects() -> None:
    """Spare what the test collects all that earlier tests have left: a second with every search."""
    gc.freeze()


@pytest.fixture
def traced_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace what is loaded, whether or not its text is kept: the generator is changed."""
    monkeypatch.setattr("gridgen.modules.cached_sources", lambda make, **parts: make())


@pytest.fixture
def alarm() -> Iterator[Callable[..., bool]]:
    """Return what calls a function, with a signal handler that raises after so many seconds.

    It tells whether the handler has raised.
    """

    def expire(number: int, frame: object) -> None:
        raise TimeoutError

    def called(seconds: float, function: Callable[..., Any], *arguments: Any) -> bool:
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                function(*arguments)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except TimeoutError:
            return True
        return False

    before = signal.signal(signal.SIGALRM, expire)
    gc.disable()  # what is raised in its callbacks reaches nobody
    yield called
    gc.enable()
    signal.signal(signal.SIGALRM, before)


def compiler_is_zig() -> bool:
    return any("zig" in word for word in host_compiler().command)


@pytest.fixture(scope="session")
def syntax_only() -> tuple[str, ...]:
    """Flags for a look at the syntax alone; skips where the compiler cannot."""
    if compiler_is_zig():
        pytest.skip("Zig compiles all that it reads")
    return ("-fsyntax-only",)


@pytest.fixture(scope="session")
def sanitizers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where the compiler cannot check for races and stray accesses; GCC and Clang can."""
    if compiler_is_zig():
        pytest.skip("Zig's sanitizers do not know the fibers of the emulation")
    folder = tmp_path_factory.mktemp("sanitizers")
    (folder / "empty.cpp").write_text("int main() {}\n")
    for name in ("thread", "address,undefined"):
        command = [*host_compiler().command, f"-fsanitize={name}", str(folder / "empty.cpp")]
        result = subprocess.run(
            [*command, "-o", str(folder / "empty")], check=False, capture_output=True
        )
        if result.returncode:
            pytest.skip(f"the compiler has no -fsanitize={name}")
