"""Kernels that the tests of this folder compile are kept between runs, as pytest's cache is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from gridgen.backends import emulated
from gridgen.backends.cache import FOLDER_VARIABLE
from gridgen.backends.compiler import host_compiler
from numerics.robots import Evaluate, evaluate_on_cpu, evaluate_on_reference


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    # One folder for all workers of pytest-xdist; `pytest --cache-clear` empties it.
    cache = getattr(pytestconfig, "cache", None)
    folder = cache.mkdir("kernels") if cache else tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        if FOLDER_VARIABLE not in os.environ:
            patch.setenv(FOLDER_VARIABLE, str(folder))
        yield


@pytest.fixture(autouse=True)
def _no_debug_records(monkeypatch: pytest.MonkeyPatch) -> None:
    # No one steps through these kernels, and compilers take a third longer with -g.
    flags = tuple(flag for flag in emulated.FLAGS if flag != "-g")
    monkeypatch.setattr(emulated, "FLAGS", flags)


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


@pytest.fixture(params=["reference", "cpu"])
def evaluate(request: pytest.FixtureRequest) -> Evaluate:
    """Evaluate a function of a robot in float64, by name, on one target after the other."""
    return {"reference": evaluate_on_reference, "cpu": evaluate_on_cpu}[request.param]
