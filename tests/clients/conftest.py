"""Tests of what other libraries use of grid-gen; each needs its library (the extra ``clients``)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from helpers.robots import OWN


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a program of examples/, which may import others of that folder."""
    monkeypatch.syspath_prepend(str(OWN.parent / "examples"))
    return importlib.import_module
