"""NumPy arrays, and batches beyond a device's memory, on a pretended GPU: parts, lanes, failures."""

from __future__ import annotations

import contextlib
import inspect
import sys

import numpy as np
import pytest

import gridgen
from gridgen.check import random_states
from gridgen.runtime import evaluation, staging, streaming
from pretend_cupy.errors import MisuseError
from pretend_cupy.installation import installed
from pretend_cupy.schedules import schedule
from scan_for_tests import ROBOTS, tree_of

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

#: States of a call, and bytes of a part: of inverse dynamics of arm7 in float32 18 states.
STATES, PART_BYTES = 80, 18 * 4 * 28


@pytest.fixture
def machine(request):
    """A machine with the kernels that NVRTC makes; a parameter names its schedule."""
    with installed(schedule(getattr(request, "param", "late"))) as machine:
        yield machine


on_every_schedule = pytest.mark.parametrize("machine", ["late", "early", "1", "2"], indirect=True)


@pytest.fixture
def cupy(machine):
    return sys.modules["cupy"]


@pytest.fixture
def arm(machine, monkeypatch):
    monkeypatch.setattr(streaming, "PART_BYTES", PART_BYTES)
    return gridgen.load(ROBOTS / "arm7.urdf", backend="cuda")


def states(*names, count=STATES, dtype="float32"):
    """Return random states of the arm."""
    drawn = random_states(tree_of("arm7"), count, np.random.default_rng(7))
    return [drawn[name].astype(dtype) for name in names]


def on_gpu(arm, cupy, *arguments, **options):
    """Return inverse dynamics, computed in one launch."""
    arrays = [cupy.asarray(array) for array in arguments]
    given = {name: cupy.asarray(array) for name, array in options.items()}
    return cupy.asnumpy(arm.inverse_dynamics(*arrays, **given))


@on_every_schedule
def test_numpy_arrays_give_the_bits_of_one_launch(cupy, arm, machine):
    q, qd, qdd, gravity = states("q", "qd", "qdd", "gravity")
    expected = on_gpu(arm, cupy, q, qd, qdd)
    result = arm.inverse_dynamics(q, qd, qdd)
    assert type(result) is np.ndarray
    assert np.array_equal(result, expected)
    assert not machine.work.pending
    for own in (gravity, gravity[0]):
        expected = on_gpu(arm, cupy, q, qd, qdd, gravity=own)
        assert np.array_equal(arm.inverse_dynamics(q, qd, qdd, gravity=own), expected)
