"""How the tests of this folder evaluate, and what they spare the compiler."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gridgen.backends.emulated import backend as emulated


@pytest.fixture(autouse=True)
def _no_debug_records(monkeypatch: pytest.MonkeyPatch) -> None:
    # No one steps through these kernels: compilers are spared debug records, and optimizing.
    flags = tuple(flag for flag in emulated.FLAGS if flag not in ("-g", "-O1"))
    monkeypatch.setattr(emulated, "FLAGS", flags)


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A fake GPU with the kernels that NVRTC makes; a parameter names its schedule.

    Half of the schedules run kernels for compute_90, which park values, half those for compute_75.
    """
    from fake_gpu.installation import installed
    from fake_gpu.schedules import schedule

    name = getattr(request, "param", "late")
    with installed(schedule(name), 76 if name in ("early", "2") else 91) as machine:
        yield machine


@pytest.fixture
def cupy(machine: Any) -> Any:
    """Return CuPy of the fake GPU."""
    return sys.modules["cupy"]
