"""A small robot on the ``cpu`` backend."""

from __future__ import annotations

from pathlib import Path

import pytest

import gridgen
from helpers.gpu import Gpu, pretended


@pytest.fixture(scope="session")
def urdf() -> Path:
    """A robot with nq = nv = 2."""
    return Path(__file__).resolve().parents[3] / "robots" / "two_link.urdf"


@pytest.fixture(scope="session")
def two_link(urdf: Path) -> gridgen.Robot:
    """That robot, its functions compiled once for all tests."""
    return gridgen.load(urdf, backend="cpu")


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, urdf: Path) -> Gpu:
    """That robot on a GPU that is pretended."""
    return pretended(monkeypatch, urdf)
