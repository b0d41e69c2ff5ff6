"""A robot is copied, pickled and sent to other processes; compiled code is found again."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen.errors import OptionError
from gridgen.robot import open_module

STATES = np.random.default_rng(8).uniform(-2, 2, (5, 2))
MODULE = Path(__file__).resolve().parents[3] / "generated" / "two_link" / "__init__.py"


def pickled(value: object) -> object:
    return pickle.loads(pickle.dumps(value))


def computed(robot: gridgen.Robot) -> np.ndarray:
    return robot.inverse_dynamics(STATES, STATES, STATES)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_computes_the_same_and_compiles_nothing(
    two_link: gridgen.Robot,
    monkeypatch: pytest.MonkeyPatch,
    duplicate: Callable[[gridgen.Robot], gridgen.Robot],
) -> None:
    expected = computed(two_link)
    monkeypatch.setattr("gridgen.backends.cpu.compiler._run", None)
    other = duplicate(two_link)
    np.testing.assert_array_equal(computed(other), expected)
    np.testing.assert_array_equal(duplicate(two_link.inverse_dynamics)(*[STATES] * 3), expected)
    assert other.frame_names == two_link.frame_names


def test_what_is_hung_on_a_robot_is_copied_too(two_link: gridgen.Robot) -> None:
    robot = copy.copy(two_link)
    robot.gains = [1.0]
    other = copy.deepcopy(robot)
    assert other.gains == robot.gains
    assert other.gains is not robot.gains


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_bound_calls_have_no_copies(
    two_link: gridgen.Robot, duplicate: Callable[[object], object]
) -> None:
    bound = two_link.bind("mass_matrix", STATES)
    with pytest.raises(
        OptionError, match=r"bound call \(mass_matrix .* pickle the robot, and bind"
    ):
        duplicate(bound)


def test_a_generated_module_is_copied_by_its_folder() -> None:
    robot = pickled(open_module(str(MODULE)))
    assert robot.name == "two_link"
    state = np.zeros(2)
    np.testing.assert_array_equal(robot.difference(state, robot.integrate(state, state)), state)


def test_a_module_whose_folder_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(gridgen.ModelError, match=r"model\.json: cannot be read .*: run grid-gen"):
        open_module(str(tmp_path / "gone" / "__init__.py"))


def test_a_spawned_process_computes_with_a_robot(two_link: gridgen.Robot) -> None:
    expected = computed(two_link)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply(two_link.inverse_dynamics, (STATES, STATES, STATES))
        np.testing.assert_array_equal(result, expected)
        with pytest.raises(gridgen.UrdfError, match="<robot>"):
            pool.apply_async(gridgen.load, ("<robot/>",)).get(60)


@pytest.mark.parametrize(
    "error",
    [gridgen.UrdfError("no link", "arm.urdf", 3), gridgen.UrdfError("no link", "arm.urdf")],
)
def test_an_error_comes_back_from_a_pool(error: gridgen.UrdfError) -> None:
    other = pickled(error)
    assert (str(other), other.source, other.line) == (str(error), error.source, error.line)
