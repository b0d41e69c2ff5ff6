"""Code for one state, in scalar registers, and for many, in packs: same bits, made on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.backends.cpu.backend import CpuBackend
from helpers.robots import joint_text, link_text, robot_text

#: A branch with a slide, a skew axis and a free joint that is not the first one.
BRANCHED = robot_text(
    *(link_text(name, com="0.1 -0.05 0.2") for name in ("base", "a", "b", "c", "d")),
    joint_text("turn", "base", "a", axis="0.6 -0.48 0.64", rpy="0.1 0.2 0.3"),
    joint_text("slide", "a", "b", "prismatic", axis="0 -1 0"),
    joint_text("free", "a", "c", "floating"),
    joint_text("end", "c", "d", axis="1 0 0", rpy="0 0.7 0"),
)
BATCH = 5


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the codes that are compiled, or found in the cache, from now on."""
    found: list[str] = []
    load = CpuBackend._load

    def noted(self: CpuBackend, sources: Any, function: str, dtype: Any, states: Any) -> Any:
        found.append(f"{function} {states}")
        return load(self, sources, function, dtype, states)

    monkeypatch.setattr(CpuBackend, "_load", noted)
    return found


def inputs(robot: gridgen.Robot, dtype: str) -> list[np.ndarray]:
    """Return q, qd and tau of some states."""
    rng = np.random.default_rng(3)
    q = robot.random_configuration(rng, BATCH)
    return [x.astype(dtype) for x in (q, *rng.normal(size=(2, BATCH, robot.nv)))]


def same(one: Any, many: Any) -> None:
    """Compare the results of state 3 with those of all states."""
    for x, y in zip(*(r if isinstance(r, tuple) else (r,) for r in (one, many)), strict=True):
        np.testing.assert_array_equal(x, y[3])


@pytest.mark.parametrize(
    ("function", "dtype"),
    [("inverse_dynamics", "float64"), ("mass_matrix_inverse", "float32")],
)
def test_one_state_has_the_bits_of_many(function: str, dtype: str, loaded: list[str]) -> None:
    robot = gridgen.load(BRANCHED, backend="cpu")
    call = getattr(robot, function)
    states = inputs(robot, dtype)[: 3 if function == "inverse_dynamics" else 1]
    one = call(*(x[3] for x in states))
    assert [name.split()[1] for name in loaded] == ["one"]
    wide = np.full((*one.shape[:-1], 2 * robot.nv), np.nan, dtype)
    strided = call(*(np.repeat(x[3], 2)[::2] for x in states), out=wide[..., ::2])
    assert len(loaded) == 1
    many = call(*states)
    assert [name.split()[1] for name in loaded] == ["one", "many"]
    same(one, many)
    same(strided, many)
    assert np.isnan(wide[..., 1::2]).all()
    call(*(x[3:4] for x in states))
    assert len(loaded) == 2


def test_a_rollout_of_one_state_too(urdf: Path) -> None:
    robot = gridgen.load(urdf, backend="cpu")
    q, qd, tau = inputs(robot, "float32")
    times = np.repeat(tau[:, None], 3, axis=1)
    one = robot.rollout(q[3], qd[3], times[3], 0.01)
    strided = robot.rollout(q[3], qd[3], np.repeat(times[3], 2, axis=1)[:, ::2], 0.01)
    many = robot.rollout(q, qd, times, 0.01)
    same(one, many)
    same(strided, many)


@pytest.mark.exhaustive
def test_a_search_of_one_state_too(urdf: Path) -> None:
    robot = gridgen.load(urdf, backend="cpu")
    q, tip = inputs(robot, "float32")[0], robot.frame_names[-1]
    poses = robot.forward_kinematics(q, tip)
    solution = robot.inverse_kinematics(poses[3], tip, num_starts=4)
    every = robot.inverse_kinematics(poses, tip, num_starts=4)
    for x, y in ((solution.q, every.q), (solution.residual, every.residual)):
        np.testing.assert_array_equal(x, y[3])


def test_one_state_uses_the_code_that_is_there_until_it_is_bound(loaded: list[str]) -> None:
    robot = gridgen.load(BRANCHED, backend="cpu")
    states = inputs(robot, "float64")
    robot.compile("bias_forces", dtype="float64")
    assert loaded == ["bias_forces many"]
    many = robot.bias_forces(*states[:2])
    same(robot.bias_forces(*(x[3] for x in states[:2])), many)
    assert len(loaded) == 1
    same(robot.bind("bias_forces", *(x[3:4] for x in states[:2]))()[0], many)
    assert loaded == ["bias_forces many", "bias_forces one"]
    gridgen.load(BRANCHED, backend="cpu").compile("bias_forces", dtype="float64", batch=1)
    assert loaded[2:] == ["bias_forces one"]
