"""Steps, differences and samples of configurations, against Pinocchio's."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pinocchio
import pytest

from dynamics_for_tests import load_tree, robot_path
from gridgen.errors import GridGenError, ShapeError
from gridgen.model.tree import KinematicTree
from gridgen.runtime.lie import (
    ConfigurationSpace,
    QuaternionError,
    configuration_space,
    difference,
    integrate,
    neutral,
    random_configuration,
)
from oracle_for_tests import Oracle
from robots_for_tests import joint_text, link_text, robot_text

STATES = 200

TOLERANCE = 1e-13
"""Quaternion products and five-term series in float64."""

ROBOTS = [("arm7", False), ("quadruped", True), ("talos_reduced", True)]


def finite(values):
    return [value if math.isfinite(value) else None for value in values]


def space_of(tree: KinematicTree) -> ConfigurationSpace:
    return configuration_space(
        {
            "name": tree.name,
            "nq": tree.nq,
            "nv": tree.nv,
            "joint_names": tree.joint_names,
            "joint_kinds": [body.kind for body in tree.bodies],
            "q_indices": [body.q_index for body in tree.bodies],
            "v_indices": [body.v_index for body in tree.bodies],
            "mimics": [body.mimics for body in tree.bodies],
            "lower_limits": finite(tree.lower_limits),
            "upper_limits": finite(tree.upper_limits),
        }
    )


@pytest.fixture(params=ROBOTS, ids=lambda case: case[0])
def robot(request: pytest.FixtureRequest) -> tuple[ConfigurationSpace, pinocchio.Model]:
    name, floating = request.param
    tree = load_tree(name, floating)
    return space_of(tree), Oracle(tree, robot_path(name)).model


@pytest.fixture
def quadruped() -> ConfigurationSpace:
    return space_of(load_tree("quadruped", floating=True))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_integrate_is_pinocchios(robot, rng):
    space, model = robot
    q = random_configuration(space, rng, STATES)
    # From far below the switch to the series to several turns.
    scale = rng.choice([1e-9, 1e-4, 0.1, 0.3, 1.0, 3.0], size=(STATES, 1))
    v = scale * rng.normal(size=(STATES, space.nv))
    wanted = [pinocchio.integrate(model, *state) for state in zip(q, v, strict=True)]
    np.testing.assert_allclose(integrate(space, q, v), wanted, rtol=0, atol=TOLERANCE)


def test_difference_is_pinocchios(robot, rng):
    space, model = robot
    q0, q1 = random_configuration(space, rng, STATES), random_configuration(space, rng, STATES)
    near = integrate(space, q0, 1e-3 * rng.normal(size=(STATES, space.nv)))
    for target in (q1, near):
        wanted = [pinocchio.difference(model, *state) for state in zip(q0, target, strict=True)]
        np.testing.assert_allclose(difference(space, q0, target), wanted, rtol=0, atol=1e-12)


def test_neutral_is_pinocchios(robot):
    space, model = robot
    assert np.array_equal(neutral(space), pinocchio.neutral(model))


@pytest.mark.parametrize(
    "angle", [0.0, 1e-12, 1e-6, 0.2499999, 0.2500001, 3.0, math.pi - 1e-9, math.pi]
)
def test_difference_undoes_integrate(quadruped, rng, angle):
    q = random_configuration(quadruped, rng, 50)
    v = rng.normal(size=(50, quadruped.nv))
    v[:, 3:6] *= angle / np.linalg.norm(v[:, 3:6], axis=1, keepdims=True)
    back = difference(quadruped, q, integrate(quadruped, q, v))
    if angle == math.pi:  # half a turn is the same in both directions
        near = integrate(quadruped, q, back)
        same = np.sum(near[:, 3:7] * integrate(quadruped, q, v)[:, 3:7], axis=1)
        np.testing.assert_allclose(np.abs(same), 1.0, rtol=0, atol=TOLERANCE)
    else:
        np.testing.assert_allclose(back, v, rtol=0, atol=1e-8 if angle > 3.1 else 1e-12)


def test_one_state_or_many(quadruped, rng):
    q = random_configuration(quadruped, rng, 5)
    v = rng.normal(size=(5, quadruped.nv))
    assert np.array_equal(integrate(quadruped, q[2], v[2]), integrate(quadruped, q, v)[2])
    assert np.array_equal(integrate(quadruped, q, v[0])[3], integrate(quadruped, q[3], v[0]))
    assert integrate(quadruped, q[0], v).shape == q.shape
    assert difference(quadruped, q[0], q[1]).shape == (quadruped.nv,)
    assert integrate(quadruped, q[:0], v[:0]).shape == (0, quadruped.nq)


def test_arguments_are_not_changed(quadruped, rng):
    q = random_configuration(quadruped, rng, 3)
    v = rng.normal(size=(3, quadruped.nv))
    before = q.copy(), v.copy()
    integrate(quadruped, q, v)
    difference(quadruped, q, q[::-1])
    assert np.array_equal(q, before[0])
    assert np.array_equal(v, before[1])


def test_quaternions_are_normalised_up_to_a_thousandth(quadruped, rng):
    q = random_configuration(quadruped, rng, 4)
    off = q.copy()
    off[2, 3:7] *= 1.0009
    zero = np.zeros((4, quadruped.nv))
    np.testing.assert_allclose(integrate(quadruped, off, zero), q, rtol=0, atol=1e-15)

    for factor, shown in ((1.01, "1.01"), (0.0, "0")):
        off[2, 3:7] = q[2, 3:7] * factor
        message = rf"state 2: the quaternion of joint 'root_joint' has norm {shown}.* q\[3:7\]"
        for call in (
            lambda: integrate(quadruped, off, zero),
            lambda: difference(quadruped, q, off),
        ):
            with pytest.raises(QuaternionError, match=message):
                call()
    assert issubclass(QuaternionError, GridGenError)


def test_wrong_shapes(quadruped):
    q, v = neutral(quadruped), np.zeros(quadruped.nv)
    with pytest.raises(ShapeError, match=r"v has shape \(19,\); .* needs \(B, 18\) or \(18,\)"):
        integrate(quadruped, q, q)
    with pytest.raises(ShapeError, match="q0 has shape"):
        difference(quadruped, v, q)
    with pytest.raises(ShapeError, match="q holds 2 states, v 3"):
        integrate(quadruped, np.tile(q, (2, 1)), np.tile(v, (3, 1)))


def test_samples_keep_to_the_limits(rng):
    text = robot_text(
        *(link_text(name) for name in "abcd"),
        joint_text("hinge", "a", "b", limit='<limit lower="0.5" upper="0.6"/>'),
        joint_text("wheel", "b", "c", "continuous"),
        joint_text("follower", "c", "d", extra='<mimic joint="hinge" multiplier="2"/>'),
    )
    space = space_of(load_tree(text, floating=True))
    q = random_configuration(space, rng, 4000)
    assert q.shape == (4000, 9)
    assert 0.5 <= q[:, 7].min() < 0.51
    assert 0.59 < q[:, 7].max() <= 0.6
    assert -math.pi <= q[:, 8].min() < -3.0
    assert 3.0 < q[:, 8].max() <= math.pi
    assert np.abs(q[:, :3]).max() <= 1.0
    np.testing.assert_allclose(np.linalg.norm(q[:, 3:7], axis=1), 1.0, rtol=0, atol=1e-15)
    # Uniform over rotations: no direction of the quaternion's sphere is preferred.
    moments = q[:, 3:7].T @ q[:, 3:7] / len(q)
    np.testing.assert_allclose(moments, np.eye(4) / 4, rtol=0, atol=0.02)
    again = random_configuration(space, np.random.default_rng(7), 4000)
    assert np.array_equal(again, q)


def test_nothing_of_the_generator_is_loaded():
    code = (
        "import sys, gridgen.runtime.lie\n"
        "loaded = {'sympy', 'lxml', 'jinja2', 'gridgen.model', 'gridgen.symbolic'}\n"
        "print(sorted(loaded & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_nan_reaches_its_own_state(quadruped, rng):
    q = random_configuration(quadruped, rng, 3)
    v = rng.normal(size=(3, quadruped.nv))
    expected = integrate(quadruped, q, v)
    poisoned = q.copy()
    poisoned[1, 3] = math.nan
    result = integrate(quadruped, poisoned, v)
    assert np.isnan(result[1, :7]).all()
    assert np.array_equal(result[[0, 2]], expected[[0, 2]])
    assert np.isnan(difference(quadruped, q, poisoned)[1, :6]).all()
