"""What the functions make of quaternions that are not of unit norm."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest

import gridgen
from gridgen.backends.cpu.backend import CpuBackend
from gridgen.errors import QuaternionError
from gridgen.runtime import configurations
from gridgen.runtime.arrays import staging
from helpers.robots import exhaustive_cases

COUNT = 150  # more than one thread's share, more than one block
_BODY = """<link name="{name}"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="2"/>
<inertia ixx="1" ixy="0.1" ixz="0" iyy="2" iyz="0.2" izz="1.5"/></inertial></link>"""
# The base is free, and so is a body on its arm.
URDF = f"""<robot name="two_free">{"".join(_BODY.format(name=n) for n in ("root", "arm", "ball"))}
<joint name="elbow" type="revolute"><parent link="root"/><child link="arm"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" effort="9" velocity="9"/></joint>
<joint name="throw" type="floating"><parent link="arm"/><child link="ball"/>
<origin xyz="1 0 0"/></joint></robot>"""
QUATERNIONS = (slice(3, 7), slice(11, 15))
# What rounding leaves of the norm when a state is written down in an element type.
UNITS = {"float32": 1e-7, "float64": 1e-15}


@pytest.fixture(scope="module")
def robot(_kernel_cache: None) -> gridgen.Robot:
    return gridgen.load(URDF, floating_base=True, backend="cpu")


@pytest.fixture
def states(robot: gridgen.Robot, dtype: str) -> list[np.ndarray]:
    """Return q, qd, qdd; every function that the tests call has been compiled by then."""
    rng = np.random.default_rng(3)
    q = robot.random_configuration(rng, COUNT)
    x = [q, *rng.normal(size=(2, COUNT, robot.nv))]
    x = [value.astype(dtype) for value in x]
    robot.inverse_dynamics(*x)
    return x


class Exported:
    """An array of a library that shares memory by DLPack: it goes the general way."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


WAYS = [lambda q: q, Exported, np.asfortranarray, lambda q: q[::-1].copy()[::-1]]


def test_the_robot_has_both_quaternions(robot: gridgen.Robot) -> None:
    assert robot.nq == 15
    assert robot.neutral()[[6, 14]].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", QUATERNIONS)
@pytest.mark.parametrize("factor", [0.99905, 1.00095, 1 + 3e-6])
def test_nearly_unit_quaternions_are_normalized(
    robot: gridgen.Robot, states: list[np.ndarray], dtype: str, way, where: slice, factor: float
) -> None:
    q, qd, qdd = states
    expected = robot.inverse_dynamics(q, qd, qdd)
    off = q.copy()
    off[70, where] *= factor
    before = off.copy()
    result = robot.inverse_dynamics(way(off), qd, qdd)
    np.testing.assert_array_equal(off, before)
    largest = np.abs(expected[70]).max()
    np.testing.assert_allclose(result[70], expected[70], rtol=0, atol=50 * UNITS[dtype] * largest)
    others = np.arange(COUNT) != 70
    np.testing.assert_array_equal(result[others], expected[others])
    np.testing.assert_array_equal(robot.inverse_dynamics(off[70], qd[70], qdd[70]), result[70])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", QUATERNIONS)
@pytest.mark.parametrize("factor", [0.0, 0.9989, 1.0011, 2.0, 1e30, -2.0])
def test_any_other_quaternion_is_refused_and_nothing_is_written(
    robot: gridgen.Robot, states: list[np.ndarray], way, where: slice, factor: float
) -> None:
    q, qd, qdd = states
    q[123, where] *= factor
    name = {3: "root_joint", 11: "throw"}[where.start]
    told = (
        rf"two_free: state 123: the quaternion of joint '{name}' has norm "
        rf"{re.escape(f'{abs(factor):.4g}')}.*q\[{where.start}:{where.stop}\]: divide it"
    )
    out = np.full_like(qd, 7.0)
    with pytest.raises(QuaternionError, match=told):
        robot.inverse_dynamics(way(q), qd, qdd, out=out)
    np.testing.assert_array_equal(out, 7.0)
    with pytest.raises(QuaternionError, match="state 0: "):
        robot.inverse_dynamics(q[123], qd[123], qdd[123], out=out[123])
    np.testing.assert_array_equal(out, 7.0)


def test_a_norm_that_overflows_is_refused(
    robot: gridgen.Robot, states: list[np.ndarray], dtype: str
) -> None:
    q, qd, qdd = states
    q[5, 3] = np.finfo(dtype).max
    with pytest.raises(QuaternionError, match="state 5: "):
        robot.inverse_dynamics(q, qd, qdd)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", QUATERNIONS)
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_reach_the_results_of_their_state(
    robot: gridgen.Robot, states: list[np.ndarray], way, where: slice, poison: float
) -> None:
    q, qd, qdd = states
    expected = robot.inverse_dynamics(q, qd, qdd)
    q[17, where.start + 1] = poison
    result = robot.inverse_dynamics(way(q), qd, qdd)
    others = np.arange(COUNT) != 17
    np.testing.assert_array_equal(result[others], expected[others])
    assert np.isnan(result[17, :6]).all()
    assert np.isnan(
        robot.inverse_dynamics(
            way(q)[17:18] if way is not Exported else q[17:18], qd[17:18], qdd[17:18]
        )[0, :6]
    ).all()


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("forward_dynamics", 3),
        ("bias_forces", 2),
        ("mass_matrix", 1),
        ("mass_matrix_inverse", 1),
        *exhaustive_cases(("inverse_dynamics_gradient", 3), ("forward_dynamics_gradient", 3)),
        ("forward_kinematics", 1),
        ("center_of_mass", 1),
        ("center_of_mass_jacobian", 1),
        ("kinetic_energy", 2),
        ("potential_energy", 1),
    ],
)
def test_every_function_does_so(robot: gridgen.Robot, function: str, arguments: int) -> None:
    rng = np.random.default_rng(8)
    q = robot.random_configuration(rng, 9)
    x = [q, *rng.normal(size=(2, 9, robot.nv))][:arguments]
    call = getattr(robot, function)
    expected, near, far = np.asarray(call(*x)), q.copy(), q.copy()
    near[4, 11:15] *= 1.0009
    far[4, 11:15] *= 1.0011
    for _ in range(2):  # compiled by the first call at the latest
        largest = np.abs(expected).max()
        result = np.asarray(call(near, *x[1:]))
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12 * largest)
        with pytest.raises(QuaternionError, match="state 4: "):
            call(far, *x[1:])


def test_a_jacobian_does_so(robot: gridgen.Robot) -> None:
    q = robot.random_configuration(np.random.default_rng(8), 9)
    expected = robot.jacobian(q, "ball", "world")
    q[4, 3:7] *= 1.0009
    np.testing.assert_allclose(robot.jacobian(q, "ball", "world"), expected, rtol=0, atol=1e-12)
    q[4, 3:7] *= 1.0009
    with pytest.raises(QuaternionError):
        robot.jacobian(q, "ball", "world")


def test_unit_quaternions_are_not_looked_at_twice(
    robot: gridgen.Robot, states: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridgen.runtime.calls.evaluation.needs_normalizing", None)
    for count in (1, 64, COUNT):
        robot.inverse_dynamics(*(value[:count] for value in states))


def test_rounding_alone_is_left_as_it_is(robot: gridgen.Robot, dtype: str) -> None:
    """Quaternions that were normalized in their own type are never copied."""
    q = robot.random_configuration(np.random.default_rng(0), 100_000).astype(dtype)
    space = robot._description.space
    assert not configurations.needs_normalizing(space, q)
    for where in QUATERNIONS:
        q[:, where] *= np.asarray(1.5, dtype)
        q[:, where] /= np.linalg.norm(q[:, where], axis=1, keepdims=True)
    assert not configurations.needs_normalizing(space, q)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("state", [0, 65, 5333, 9999])
def test_threads_that_share_the_looking_find_every_state(
    monkeypatch: pytest.MonkeyPatch, threads: int, state: int
) -> None:
    monkeypatch.setattr("gridgen.backends.cpu.backend._CHECK", 1.0)  # divide every batch
    backend = CpuBackend(threads=threads)
    monkeypatch.setattr("gridgen.runtime.calls.compiled.backend", lambda name: backend)
    robot = gridgen.load(URDF, floating_base=True, backend="cpu")
    q = np.tile(robot.neutral(), (10_000, 1))
    out = robot.potential_energy(q)
    out[:] = 7.0
    q[state, 14] = 1.1
    with pytest.raises(QuaternionError, match=f"state {state}: "):
        robot.potential_energy(q, out=out)
    np.testing.assert_array_equal(out, 7.0)


def test_the_state_is_named_in_a_large_batch(robot: gridgen.Robot) -> None:
    q = np.tile(robot.neutral(), (configurations._STATES + 10, 1))
    q[configurations._STATES + 3, 14] = 2.0
    with pytest.raises(QuaternionError, match=f"state {configurations._STATES + 3}: .*norm 2,"):
        robot.potential_energy(q)


def test_normalizing_takes_little_memory(robot: gridgen.Robot) -> None:
    q = np.tile(robot.neutral(), (1 << 20, 1))
    q[5, 14] = 1.0005
    out = np.empty(len(q))
    robot.potential_energy(q[:1])
    tracemalloc.start()
    try:
        robot.potential_energy(q, out=out)
        assert tracemalloc.get_traced_memory()[1] < 2 * staging.PART_BYTES
    finally:
        tracemalloc.stop()
