"""Kernels that the tests of this folder compile are kept between runs, as pytest's cache is."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from gridgen.backends import emulated
from gridgen.backends.cache import FOLDER_VARIABLE
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


@pytest.fixture(params=["reference", "cpu"])
def evaluate(request: pytest.FixtureRequest) -> Evaluate:
    """Evaluate a function of a robot in float64, by name, on one target after the other."""
    return {"reference": evaluate_on_reference, "cpu": evaluate_on_cpu}[request.param]
