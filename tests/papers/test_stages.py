"""Stages of the two chains give the efforts of inverse dynamics, however they are cut."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gridgen.check import random_states
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import DtypeError, GridGenError, OptionError, ShapeError
from gridgen.modules import TracedModule
from gridgen.papers.layout import (
    Weights,
    best_layout,
    cut,
    laid_out,
    message_numbers,
    modeled,
    weights_of,
)
from gridgen.papers.model import Machine, Split
from gridgen.papers.stages import Stages, run_blocks, stage_of
from gridgen.papers.trajectory import Trajectory, read_trajectory, write_torques
from helpers.scan import tree_of
from numerics.robots import load_tree, urdf_path

GRAVITY = (0.0, 0.0, -9.81)
MACHINE = Machine(operation=1e-9, start=1e-6, message=1e-5)


class Queues:
    """Messages within a process, which keep what was sent until it is asked for."""

    def __init__(self, queues, process):
        self._queues, self._process = queues, process

    def send(self, message, to):
        self._queues[self._process, to].append(np.array(message))

    def receive(self, shape, dtype, source):
        found = self._queues[source, self._process].popleft().reshape(shape)
        assert found.dtype == dtype
        return found

    def finish(self):
        pass


class ReferenceStages(Stages):
    """Stages computed by NumPy, which takes no compiler."""

    def run(self, kernel, samples, rows, **given):
        own = {name: getattr(samples, name)[rows] for name in ("q", "qd", "qdd")}
        arrays = {"gravity": GRAVITY, **own}
        for name in kernel.inputs.keys() - arrays.keys():
            arrays[name] = given[name].reshape(len(own["q"]), *kernel.inputs[name])
        return evaluate_reference(self.tree, kernel.key, arrays)


def efforts(stages, layout, samples, block):
    """Return what the stages compute one after the other, in this process."""
    queues = defaultdict(deque)
    blocks = samples.blocks(block)
    for process in range(layout.collector + 1):
        run_blocks(stage_of(stages, layout, process), samples, blocks, Queues(queues, process))
    found = queues.pop((layout.collector, 0))
    assert not any(queues.values())
    return np.concatenate(found)


def trajectory(tree, samples, dtype=np.float64):
    x = random_states(tree, samples, np.random.default_rng(samples))
    return Trajectory(*(x[name].astype(dtype) for name in ("q", "qd", "qdd")), lead=(samples,))


def reference(tree, samples):
    arrays = {"q": samples.q, "qd": samples.qd, "qdd": samples.qdd, "gravity": GRAVITY}
    return evaluate_reference(tree, "inverse_dynamics", arrays)[0]


TREES = {
    "arm6": lambda: load_tree(urdf_path("arm6")),
    "12 joints": lambda: tree_of("chain 12"),
    "18 joints": lambda: tree_of("chain 18"),
    "floating tree": lambda: load_tree(urdf_path("quadruped"), floating_base=True),
    "mimic": lambda: load_tree(urdf_path("gripper"), joint_dynamics=True, armature=0.1),
    "prismatic": lambda: load_tree(urdf_path("cart_pole"), floating_base=True, armature=0.1),
}


@pytest.mark.parametrize("name", TREES)
def test_every_split_gives_the_efforts(name):
    tree = TREES[name]()
    stages, weights = ReferenceStages(tree, TracedModule(tree)), weights_of(tree)
    samples = trajectory(tree, 7)
    expected = reference(tree, samples)
    most = min(len(tree.bodies), 4)
    for forward in range(1, most + 1):
        for backward in range(1, most + 1):
            layout = laid_out(weights, Split(forward, backward))
            found = efforts(stages, layout, samples, block=3)
            assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_trajectories_of_any_length_come_back_in_order(count):
    tree = TREES["arm6"]()
    stages, samples = ReferenceStages(tree, TracedModule(tree)), trajectory(tree, count)
    layout = laid_out(weights_of(tree), Split(2, 1))
    expected = reference(tree, samples)
    found = efforts(stages, layout, samples, block=256)
    assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_stages_give_the_efforts(dtype):
    tree = TREES["arm6"]()
    samples = trajectory(tree, 37, dtype)
    layout = laid_out(weights_of(tree), Split(2, 1))
    found = efforts(Stages(tree, TracedModule(tree)), layout, samples, block=16)
    expected = reference(tree, samples)
    assert found.dtype == dtype
    assert_allclose(found, expected, atol=50 * np.finfo(dtype).eps * np.abs(expected).max())


@pytest.mark.parametrize("weights", [(1,), (3, 1, 1, 1), (1, 9, 1, 1, 5, 2), (2, 2, 2, 2, 2, 2, 2)])
def test_the_heaviest_part_is_as_light_as_can_be(weights):
    for parts in range(1, len(weights) + 1):
        found = cut(weights, parts)
        assert [i for part in found for i in part] == list(range(len(weights)))
        assert all(found)
        assert len(found) == parts
        least = min(
            max(sum(weights[a:b]) for a, b in zip((0, *ends), (*ends, len(weights)), strict=True))
            for ends in combinations(range(1, len(weights)), parts - 1)
        )
        assert max(sum(weights[i] for i in part) for part in found) == least


def test_the_layout_is_that_with_the_most_samples_in_a_second():
    weights = Weights((10,) * 6, (5,) * 6)
    layout = best_layout(weights, 3, 256, MACHINE)
    assert layout.split == Split(2, 1)
    assert layout.backward == (range(6),)
    other = modeled(laid_out(weights, Split(1, 2)), weights, 256)
    assert modeled(layout, weights, 256).interval(MACHINE) < other.interval(MACHINE)


def test_a_serial_arm_hands_on_nine_numbers():
    """72 bytes in double precision, as in the paper; and 6 for each body that was computed."""
    tree = TREES["12 joints"]()
    layout = laid_out(weights_of(tree), Split(2, 1))
    assert message_numbers(tree, layout) == max(9 + 6 * len(layout.forward[0]), 6 * 6, 12)


@pytest.mark.parametrize(
    ("processes", "message"), [(1, "requires at least 2 processes"), (13, "12 processes")]
)
def test_processes_that_are_of_no_use_are_refused(processes, message):
    weights = Weights((1,) * 6, (1,) * 6)
    with pytest.raises(OptionError, match=message):
        best_layout(weights, processes, 1, MACHINE)


def test_files_are_read_and_written_whole(tmp_path):
    tree = TREES["arm6"]()
    arrays = {name: np.ones((2, 5, 6)) for name in ("q", "qd", "qdd")}
    path = tmp_path / "trajectory.npz"
    np.savez(path, **arrays)
    read = read_trajectory(path, tree)
    assert read.q.shape == (10, 6)
    assert read.lead == (2, 5)
    write_torques(tmp_path / "torques.npz", np.ones((2, 5, 6)))
    assert np.load(tmp_path / "torques.npz")["tau"].shape == (2, 5, 6)
    with pytest.raises(GridGenError, match="cannot be written"):
        write_torques(tmp_path / "nowhere" / "torques.npz", np.ones(1))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["torques.npz", "trajectory.npz"]


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"qd": None}, GridGenError, "no array qd"),
        ({"qdd": np.ones((4, 6))}, ShapeError, r"qdd has shape \(4, 6\)"),
        ({"qd": np.ones((5, 6), np.float32)}, DtypeError, "qd has dtype float32"),
        ({"q": np.ones(6)}, ShapeError, r"q has shape \(6,\)"),
        ({"q": np.ones((5, 6), int)}, DtypeError, "q has dtype int64"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, changed, error, message):
    arrays = {name: np.ones((5, 6)) for name in ("q", "qd", "qdd")} | changed
    path = tmp_path / "trajectory.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(error, match=message):
        read_trajectory(path, TREES["arm6"]())


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 no archive"])
def test_what_is_no_archive_is_refused(tmp_path, content):
    path = tmp_path / "trajectory.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GridGenError, match="trajectory"):
        read_trajectory(path, TREES["arm6"]())
