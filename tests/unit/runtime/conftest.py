"""A small robot on the ``cpu`` backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import gridgen
from gridgen.backends.cache import FOLDER_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture(scope="session")
def urdf() -> Path:
    """A robot with nq = nv = 2."""
    return Path(__file__).resolve().parents[3] / "robots" / "two_link.urdf"


@pytest.fixture(scope="session")
def two_link(urdf: Path, _kernel_cache: None) -> gridgen.Robot:
    """That robot, its functions compiled once for all tests."""
    return gridgen.load(urdf, backend="cpu")


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> str:
    return request.param
