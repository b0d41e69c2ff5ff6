"""Backpropagation through rollouts against differences of rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridgen.errors import GridGenError, OptionError, ShapeError
from numerics.robots import load_robot, urdf_path

STATES, TIMES = 3, 7  # three checkpoints, the last with fewer steps behind it


def case(name: str, floating: bool) -> tuple[Any, list[np.ndarray], tuple[np.ndarray, ...]]:
    robot = load_robot(urdf_path(name), floating_base=floating, armature=0.1)
    rng = np.random.default_rng(len(name))
    qd, tau = rng.normal(size=(STATES, robot.nv)), rng.normal(size=(STATES, TIMES, robot.nv))
    q = robot.random_configuration(rng, STATES)
    weights = [rng.normal(size=(STATES, TIMES + 1, size)) for size in (robot.nq, robot.nv)]
    return robot, [q, qd, tau], tuple(weights)


@pytest.mark.parametrize(
    ("name", "floating", "integrator"),
    [("gripper", False, "semi_implicit"), ("cart_pole", True, "rk4")],
)
def test_differences_of_rollouts(name: str, floating: bool, integrator: str) -> None:
    robot, arguments, weights = case(name, floating)
    gravity = np.array([1.0, 2.0, -9.0])
    options = {"integrator": integrator, "gravity": gravity}

    def number(*point: np.ndarray) -> Any:
        paths = robot.rollout(*point, 0.02, **options)
        return sum(np.sum(w * path) for w, path in zip(weights, paths, strict=True))

    found = robot.rollout_vjp(*arguments, 0.02, weights, **options)
    for place, bar in enumerate(found):
        assert bar.shape == arguments[place].shape
        move = 1e-6 * np.random.default_rng(place).normal(size=bar.shape)
        ahead, behind = [*arguments], [*arguments]
        ahead[place], behind[place] = arguments[place] + move, arguments[place] - move
        slope = (number(*ahead) - number(*behind)) / 2.0
        assert np.sum(bar * move) == pytest.approx(slope, rel=1e-6)


def test_one_rollout_and_one_step() -> None:
    robot, (q, qd, tau), weights = case("gripper", False)
    every = robot.rollout_vjp(q, qd, tau, 0.01, weights)
    alone = robot.rollout_vjp(q[0], qd[0], tau[0], 0.01, [w[0] for w in weights])
    for bar, one in zip(every, alone, strict=True):
        np.testing.assert_array_equal(bar[0], one)
    short = robot.rollout_vjp(q, qd, tau[:, :1], 0.01, [w[:, :2] for w in weights])
    ends = [w[:, 1] for w in weights]
    step = robot.vjp("step", ends, q, qd, tau[:, 0], 0.01, wrt=("q", "qd", "tau"))
    np.testing.assert_array_equal(short[2][:, 0], step[2])
    np.testing.assert_array_equal(short[0], step[0] + weights[0][:, 0])


@pytest.mark.parametrize(
    ("error", "change", "words"),
    [
        (OptionError, {"cotangents": np.zeros((3, 8, 4))}, "two arrays"),
        (ShapeError, {"cotangents": (np.zeros((3, 7, 2)),) * 2}, r"cotangents\[0\]"),
        (ShapeError, {"tau": np.zeros((3, 2))}, "T steps"),
        (ShapeError, {"tau": np.zeros((3, 0, 2))}, "T steps"),
        (ShapeError, {"gravity": np.zeros((3, 7, 3))}, "same in all steps"),
    ],
)
def test_what_is_wrong_is_named(
    error: type[GridGenError], change: dict[str, Any], words: str
) -> None:
    robot = load_robot(urdf_path("two_link"))
    given = {"tau": np.zeros((3, 7, 2)), "cotangents": (np.zeros((3, 8, 2)),) * 2, **change}
    start = np.zeros((3, 2)), np.zeros((3, 2))
    tau, cotangents = given.pop("tau"), given.pop("cotangents")
    with pytest.raises(error, match=words):
        robot.rollout_vjp(*start, tau, 0.01, cotangents, **given)


def test_a_keyword_that_it_lacks_is_refused_as_python_does() -> None:
    robot = load_robot(urdf_path("two_link"))
    start, tau = np.zeros((3, 2)), np.zeros((3, 7, 2))
    with pytest.raises(TypeError, match=r"rollout_vjp\(\) got an unexpected .* 'substeps'"):
        robot.rollout_vjp(start, start, tau, 0.01, (tau, tau), substeps=2)
