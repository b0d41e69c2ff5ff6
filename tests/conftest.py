"""What holds for all tests: where helpers and kernels are, which tests run, on what compiler."""

from __future__ import annotations

import gc
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Makes the helper modules of this folder importable from every test, in any import mode.
sys.path.insert(0, str(Path(__file__).parent))

from gridgen.backends.cache import FOLDER_VARIABLE
from gridgen.backends.compiler import host_compiler


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share",
        metavar="K/N",
        help="run only the Kth of N shares of the tests that are chosen; K is counted modulo N",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
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


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Keep what tests compile, in one folder for all workers, apart from the user's own cache.

    `pytest --cache-clear` empties it.
    """
    cache = getattr(pytestconfig, "cache", None)
    folder = cache.mkdir("kernels") if cache else tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        if FOLDER_VARIABLE not in os.environ:
            patch.setenv(FOLDER_VARIABLE, str(folder))
        yield


@pytest.fixture
def traced_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace what is loaded, whether or not its text is kept: the generator is changed."""
    monkeypatch.setattr("gridgen.stages.kept_sources", lambda make, **parts: make())


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


@pytest.fixture(scope="session")
def sanitizers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where the compiler cannot check for races and stray accesses; GCC and Clang can."""
    folder = tmp_path_factory.mktemp("sanitizers")
    (folder / "empty.cpp").write_text("int main() {}\n")
    for name in ("thread", "address,undefined"):
        command = [*host_compiler().command, f"-fsanitize={name}", str(folder / "empty.cpp")]
        result = subprocess.run(
            [*command, "-o", str(folder / "empty")], check=False, capture_output=True
        )
        if result.returncode:
            pytest.skip(f"the compiler has no -fsanitize={name}")
