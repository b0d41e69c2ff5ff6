"""A long function in parts, compiled: it computes what it computes in one piece."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

import gridgen
from gridgen.check import random_states
from gridgen.model.tree import KinematicTree
from gridgen.modules import TracedModule
from gridgen.robot import Robot
from gridgen.symbolic.parts import SplitProgram, split_program
from gridgen.symbolic.program import Program
from helpers.robots import exhaustive
from numerics.robots import Arrays, load_tree, urdf_path

FUNCTION = "inverse_dynamics_gradient"
ROBOT = urdf_path("quadruped")
#: Whole SIMD packs and a part of one, more than one block of states.
STATES = 71


def load() -> Robot:
    return gridgen.load(ROBOT, floating_base=True, backend="cpu")


pytestmark = pytest.mark.usefixtures("traced_anew")


@pytest.fixture(scope="module")
def in_parts() -> Robot:
    return load()


@pytest.fixture
def in_one_piece(monkeypatch: pytest.MonkeyPatch, traced_anew: None) -> Iterator[Robot]:
    monkeypatch.setattr("gridgen.schedules.thread.plan.split_program", lambda program: None)
    return load()


def states(dtype: str) -> Arrays:
    x = random_states(load_tree(ROBOT, True), STATES, np.random.default_rng(4))
    return {key: value.astype(dtype) for key, value in x.items()}


@pytest.mark.parametrize("dtype", ["float32", *exhaustive("float64")])
def test_parts_compute_what_one_piece_computes(
    in_parts: Robot, in_one_piece: Robot, dtype: str
) -> None:
    x = states(dtype)
    results = in_parts.evaluate(FUNCTION, x), in_one_piece.evaluate(FUNCTION, x)
    for result, expected in zip(*results, strict=True):
        assert result.dtype == dtype
        # A compiler may fuse a product and a sum in one text that the other text keeps apart.
        limit = 8 * np.finfo(dtype).eps * np.abs(expected).max()
        np.testing.assert_allclose(result, expected, rtol=0, atol=limit)


@pytest.mark.parametrize("dtype", ["float32", *exhaustive("float64")])
def test_a_state_has_the_same_result_wherever_it_stands(in_parts: Robot, dtype: str) -> None:
    x = states(dtype)
    batch = in_parts.evaluate(FUNCTION, x)
    for i in (0, 1, 16, STATES - 1):
        single = in_parts.evaluate(FUNCTION, {key: value[i : i + 1] for key, value in x.items()})
        for result, expected in zip(single, batch, strict=True):
            np.testing.assert_array_equal(result[0], expected[i])


@pytest.mark.usefixtures("in_one_piece")
def test_the_texts_differ_as_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = load_tree(ROBOT, True)
    assert f"{FUNCTION}_part_" not in text(tree)
    monkeypatch.undo()
    assert f"{FUNCTION}_part_2<T, In, Out, Out2>(" in text(tree)


def text(tree: KinematicTree, function: str = FUNCTION) -> str:
    module = TracedModule(tree)
    return "\n".join(module.sources(module.kernels.named(function)).files.values())


def in_short_parts(program: Program) -> SplitProgram | None:
    return split_program(program, longest_part=400, longest_whole=0)


@pytest.mark.parametrize("dtype", ["float32", *exhaustive("float64")])
def test_parts_of_several_packs_compute_what_one_pack_computes(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    x = states(dtype)
    function = "forward_dynamics_aba"
    results = []
    for packs in (0, 4):
        monkeypatch.setattr("gridgen.schedules.thread.view._packs", lambda *_, packs=packs: packs)
        monkeypatch.setattr("gridgen.schedules.thread.plan.split_program", in_short_parts)
        robot = load()
        few = [{key: a[:count] for key, a in x.items()} for count in (1, 16, 65, STATES)]
        results.append([robot.evaluate(function, each) for each in few])
    assert all(map(np.array_equal, *results))


def test_long_programs_of_few_values_compute_several_packs_a_part() -> None:
    humanoid = load_tree(urdf_path("humanoid"), True)
    assert re.search(r"packs = 4;", text(humanoid, "inverse_dynamics"))
    assert not re.search(r"packs = [2-9]", text(load_tree(ROBOT, True)))
