"""Steps and differences of configurations are like the configuration that they begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.errors import DtypeError, QuaternionError, ShapeError
from gridgen.runtime import lie

BODY = """<robot name="body"><link name="trunk"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link></robot>"""


@pytest.fixture(scope="module")
def robot() -> gridgen.Robot:
    """A free body: nq = 7, nv = 6."""
    return gridgen.load(BODY, floating_base=True, backend="cpu")


def from_numpy(array: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(array)


def from_jax(array: np.ndarray) -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(array)


LIBRARIES = [np.asarray, from_numpy, from_jax]


def states(robot: gridgen.Robot, dtype: str, count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    q, v = robot.random_configuration(rng, count), rng.normal(size=(count, robot.nv))
    return q.astype(dtype), v.astype(dtype)


@pytest.mark.parametrize("library", LIBRARIES)
def test_results_have_the_type_and_the_library_of_the_first_argument(
    robot: gridgen.Robot, library: Callable[[np.ndarray], Any], dtype: str
) -> None:
    q, v = states(robot, dtype)
    space = robot._description.space
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
    expected = lie.difference(space, q, there).astype(dtype)
    np.testing.assert_array_equal(np.asarray(back), expected)
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
