"""Tests of frameworks, each where it is installed; double precision in JAX."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [f"test_{name}_*.py" for name in ("jax", "torch") if find_spec(name) is None]


@pytest.fixture
def x64() -> Iterator[None]:
    import jax

    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield
