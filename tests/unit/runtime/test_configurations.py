"""Steps and differences of configurations are like the configuration that they begin with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.backends import BackendName
from gridgen.errors import DtypeError, QuaternionError, ShapeError
from helpers.robots import needs

BODY = """<robot name="body"><link name="trunk"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link></robot>"""


@pytest.fixture(scope="module")
def robot() -> gridgen.Robot:
    """A free body: nq = 7, nv = 6."""
    return gridgen.load(BODY, floating_base=True, backend="cpu")


def from_numpy(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array)


def from_jax(array: np.ndarray) -> Any:
    import jax

    return jax.numpy.asarray(array)


@pytest.fixture(autouse=True)
def x64(request: pytest.FixtureRequest) -> Iterator[None]:
    """Double precision in JAX, for those tests alone that have arrays of it."""
    if (
        from_jax
        not in getattr(request.node, "callspec", SimpleNamespace(params={})).params.values()
    ):
        yield
        return
    import jax

    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


RNG = np.random.default_rng(2)
LIBRARIES = [
    np.asarray,
    pytest.param(from_numpy, marks=needs("torch")),
    pytest.param(from_jax, marks=needs("jax")),
]


def states(robot: gridgen.Robot, dtype: str, count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    q, v = robot.random_configuration(rng, count), rng.normal(size=(count, robot.nv))
    return q.astype(dtype), v.astype(dtype)


@pytest.mark.parametrize("library", LIBRARIES)
def test_results_have_the_type_and_the_library_of_the_first_argument(
    robot: gridgen.Robot, library: Callable[[np.ndarray], Any], dtype: str
) -> None:
    q, v = states(robot, dtype)
    there = robot.integrate(q, v)
    for given in ((library(q), library(v)), (library(q), v), (library(q[0]), library(v))):
        end = robot.integrate(*given)
        assert type(end) is type(library(q))
        assert np.asarray(end).dtype == dtype
        np.testing.assert_array_equal(np.asarray(end)[0], there[0])
    end = robot.integrate(library(q), library(v[0]))
    np.testing.assert_array_equal(np.asarray(end)[0], there[0])
    end = robot.integrate(library(q), library(v))
    np.testing.assert_array_equal(np.asarray(end), there)
    back = robot.difference(library(q), end)
    assert type(back) is type(end)
    np.testing.assert_array_equal(np.asarray(back), robot.difference(q, there))
    halfway = robot.interpolate(library(q), end, 0.5)
    assert type(halfway) is type(end)
    np.testing.assert_array_equal(
        np.asarray(halfway), robot.interpolate(q, there, np.full(len(q), 0.5, dtype))
    )
    for begin in (robot.neutral(like=end), robot.random_configuration(RNG, 3, like=end)):
        assert type(begin) is type(end)
        assert np.asarray(begin).dtype == dtype
    one = robot.integrate(library(q[0]), library(v[0]))
    np.testing.assert_array_equal(np.asarray(one), there[0])


def test_a_step_feeds_the_next_call(robot: gridgen.Robot) -> None:
    q, v = states(robot, "float32")
    q = robot.integrate(q, robot.difference(q, robot.integrate(q, v)))
    assert robot.integrate(q, v).dtype == np.float32
    energy = robot.potential_energy(q)
    assert energy.dtype == np.float32


def test_numbers_take_the_type_of_the_configuration(robot: gridgen.Robot) -> None:
    q, v = states(robot, "float32")
    assert robot.integrate(q, v.tolist()).dtype == np.float32
    assert robot.integrate(q.tolist(), v.tolist()).dtype == np.float64
    assert robot.integrate(q[:0], v[:0]).shape == (0, 7)
    np.testing.assert_array_equal(robot.neutral(), [0, 0, 0, 0, 0, 0, 1])


def test_arguments_that_do_not_fit_are_refused(robot: gridgen.Robot) -> None:
    q, v = states(robot, "float64")
    for call, error, message in (
        (lambda: robot.integrate(q, v.astype("float32")), DtypeError, "v has dtype float32, q has"),
        (lambda: robot.difference(q, q.astype("float32")), DtypeError, "q1 has dtype .*, q0 has"),
        (lambda: robot.integrate(q.astype(int), v), DtypeError, "q has dtype int64; use float32"),
        (lambda: robot.integrate(q, [None] * 6), DtypeError, r"v\[0\] is None; give numbers"),
        (lambda: robot.difference(q, np.ma.array(q)), DtypeError, "q1 is a masked array"),
        (
            lambda: robot.integrate(q, v[:3]),
            ShapeError,
            r"v has shape \(3, 6\); body needs \(4, 6\)",
        ),
        (lambda: robot.integrate(2 * q, v), QuaternionError, "state 0: the quaternion of joint"),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
@pytest.mark.parametrize("angle", [0.0, 1e-30, 1e-9, 1e-4, 0.4999, 0.5001, 2.0, math.pi - 1e-3])
def test_steps_are_accurate_at_every_angle(
    robot: gridgen.Robot, dtype: str, angle: float, backend: BackendName
) -> None:
    """The way there and back costs a few roundings, of what is largest in it."""
    rng = np.random.default_rng(4)
    q = robot.random_configuration(rng, 40)
    v = rng.normal(size=(40, 6))
    v[:, 3:] *= angle / np.linalg.norm(v[:, 3:], axis=1, keepdims=True)
    q, v = q.astype(dtype), v.astype(dtype)
    end = robot.integrate(q, v, backend=backend)
    back = robot.difference(q, end, backend=backend)
    np.testing.assert_allclose(back, v, rtol=0, atol=40 * np.finfo(dtype).eps)
    norms = np.linalg.norm(end[:, 3:].astype(float), axis=1)
    np.testing.assert_allclose(norms, 1.0, rtol=0, atol=3 * np.finfo(dtype).eps)
    assert (np.sum(end[:, 3:] * q[:, 3:], axis=1) >= 0.0).all()
    length = robot.distance(q, end, backend=backend)
    np.testing.assert_allclose(length, np.linalg.norm(back, axis=1), rtol=1e-6)


def test_both_configurations_are_looked_at(robot: gridgen.Robot, dtype: str) -> None:
    q, v = states(robot, dtype)
    end = robot.integrate(q, v)
    expected = robot.difference(q, end)
    off = end.copy()
    off[2, 3:] *= 1.0009
    found = robot.difference(q, off)
    np.testing.assert_allclose(found, expected, rtol=0, atol=20 * np.finfo(dtype).eps)
    off[2, 3:] *= 1.01
    for pair in ((q, off), (off, q), (q, off[2]), (off[2], q)):
        with pytest.raises(QuaternionError, match=r"state \d: the quaternion .* at q[01]\[3:7\]"):
            robot.difference(*pair)
    out = np.empty_like(v)
    bound = robot.bind("difference", q, end, out=out)
    end[2, 3:] *= 1.0009
    np.testing.assert_allclose(bound(), expected, rtol=0, atol=20 * np.finfo(dtype).eps)
    end[2, 3:] *= 1.01
    with pytest.raises(QuaternionError, match=r"at q1\[3:7\]"):
        bound()


def test_nan_reaches_its_own_state(robot: gridgen.Robot) -> None:
    q, v = states(robot, "float64")
    expected = robot.integrate(q, v)
    poisoned = q.copy()
    poisoned[1, 3] = math.nan
    result = robot.integrate(poisoned, v)
    assert np.isnan(result[1]).all()
    np.testing.assert_array_equal(result[[0, 2, 3]], expected[[0, 2, 3]])
    assert np.isnan(robot.difference(q, poisoned)[1]).all()
