"""Functions over Dask arrays: the bits of one call, whatever the chunks and the scheduler."""

from __future__ import annotations

import os
import pickle
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gridgen
from gridgen.backends.cpu.backend import Workers, limited_threads
from gridgen.errors import DtypeError, OptionError, ShapeError
from helpers.robots import OWN

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

from gridgen.dask import map_states, rollout  # noqa: E402

STATES = 1000


@pytest.fixture(scope="module")
def robot():
    return gridgen.load(OWN / "arm6.urdf")


@pytest.fixture(scope="module")
def states():
    """Three arrays (N, 6), and the same in chunks that do not fit each other."""
    whole = np.random.default_rng(0).normal(size=(3, STATES, 6))
    chunks = [(137, 4), (200, 6), (STATES, 1)]
    return whole, [da.from_array(a, chunks=c) for a, c in zip(whole, chunks, strict=True)]


def test_one_result(robot, states):
    whole, chunked = states
    gravity = np.array([1.0, 0.0, -3.0])
    found = map_states(robot, "forward_dynamics", *chunked, gravity=gravity)
    assert (found.shape, found.dtype, found.numblocks[1]) == ((STATES, 6), np.float64, 1)
    assert isinstance(found._meta, np.ndarray)
    assert_array_equal(found.compute(), robot.forward_dynamics(*whole, gravity=gravity))
    assert_array_equal(found[300:310].compute(), found.compute()[300:310])


def test_several_results_and_loads_in_chunks(robot, states):
    whole, chunked = states
    f_ext = np.random.default_rng(1).normal(size=(STATES, 6, 6))
    loads = {"f_ext": da.from_array(f_ext, chunks=(190, 3, 6))}
    A, B = map_states(robot, "step_gradient", *chunked, 1e-3, **loads)
    assert (A.shape, B.shape) == ((STATES, 12, 12), (STATES, 12, 6))
    for found, expected in zip(
        dask.compute(A, B), robot.step_gradient(*whole, 1e-3, f_ext=f_ext), strict=True
    ):
        assert_array_equal(found, expected)


def test_numbers_and_frames(robot, states):
    (q, qd, _), (chunked, rates, _) = states
    energy = map_states(robot, "kinetic_energy", chunked, rates)
    assert energy.shape == (STATES,)
    assert_array_equal(energy.compute(), robot.kinetic_energy(q, qd))
    frame = robot.frame_names[-1]
    J = map_states(robot, "jacobian", chunked, frame, reference="world")
    assert_array_equal(J.compute(), robot.jacobian(q, frame, reference="world"))


def test_rollouts(robot, states):
    (q, qd, _), (chunked, rates, _) = states
    tau = np.random.default_rng(2).normal(size=(STATES, 5, 6))
    paths = rollout(robot, chunked, rates, da.from_array(tau, chunks=(300, 2, 6)), 1e-3, "rk4")
    expected = robot.rollout(q, qd, tau, 1e-3, integrator="rk4")
    for found, path in zip(dask.compute(*paths), expected, strict=True):
        assert_array_equal(found, path)


def test_batches_of_unknown_length(robot, states):
    (q, _, _), (chunked, *_) = states
    some = chunked[chunked[:, 0] > 0]
    found = map_states(robot, "gravity_forces", some)
    assert_array_equal(found.compute(), robot.gravity_forces(q[q[:, 0] > 0]))


def test_nothing_is_computed_or_compiled_before_it_is_asked_for(states, tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path))
    robot = gridgen.load(OWN / "arm6.urdf")
    chunked = [da.map_blocks(lambda block: 1 / 0, a, meta=np.empty((0, 0))) for a in states[1]]
    assert map_states(robot, "forward_dynamics", *chunked).shape == (STATES, 6)
    assert not any(tmp_path.rglob("*.so"))


def test_what_does_not_fit_is_refused_at_once(robot, states):
    (q, *_), (chunked, rates, tau) = states
    for arguments, error, message in (
        ((q, rates, tau), OptionError, "of type ndarray; give a Dask array"),
        ((), OptionError, "is missing"),
        ((chunked, rates, tau[:5]), ShapeError, r"tau has shape \(5, 6\)"),
        ((chunked, rates, tau[:, :5]), ShapeError, r"tau has shape \(1000, 5\); arm6 needs \(N, 6"),
        ((chunked, rates, np.zeros(5)), ShapeError, r"tau has shape \(5,\); arm6 needs"),
        ((chunked, rates, np.zeros((4, 6))), ShapeError, "tau of one state, or a Dask array of 4"),
        ((chunked, rates, tau.astype(int)), DtypeError, "tau is of int64"),
        ((chunked, rates.astype("f4"), tau), DtypeError, "qd has dtype float32"),
    ):
        with pytest.raises(error, match=message):
            map_states(robot, "forward_dynamics", *arguments)
    with pytest.raises(OptionError, match="function is"):
        map_states(robot, "dynamics", chunked)
    with pytest.raises(OptionError, match=r"robot is of type NoneType; give one of gridgen\.load"):
        map_states(None, "mass_matrix", chunked)
    for efforts in (np.zeros(6), np.zeros((STATES, 4, 6))):
        with pytest.raises(ShapeError, match=r"tau has shape (?!.*\(0, )"):
            rollout(robot, chunked, rates, efforts, 1e-3)
    assert map_states(robot, "forward_dynamics", chunked, np.zeros(6), np.zeros(6)).shape == q.shape
    with pytest.raises(OptionError, match="out: results are Dask arrays"):
        map_states(robot, "gravity_forces", chunked, out=q)
    with pytest.raises(TypeError, match="tau"):
        map_states(robot, "forward_dynamics", chunked, rates)


def test_threads_are_limited_in_one_thread_alone():
    workers = Workers(8)
    with limited_threads(3):
        with limited_threads(1):
            assert workers.at_most == 1
            others = []
            thread = threading.Thread(target=lambda: others.append(workers.at_most))
            thread.start()
            thread.join()
        assert workers.at_most == 3
    assert (workers.at_most, others) == (8, [8])


def kill_once(block, marker):
    """Kill the process that gets here first."""
    if len(block):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return block
        os.kill(os.getpid(), 9)
    return block


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_loses_a_worker_and_computes_all_the_same(robot, states, tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    pytest.importorskip("zarr")
    (q, qd, tau), _ = states
    many = [np.tile(a, (20, 1)) for a in (q, qd, tau)]
    marker = str(tmp_path / "killed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        stored = []
        for name, array in zip(("q", "qd", "tau"), many, strict=True):
            da.to_zarr(da.from_array(array, chunks=(1000, 6)), str(tmp_path / f"{name}.zarr"))
            stored.append(da.from_zarr(str(tmp_path / f"{name}.zarr")))
        stored[0] = stored[0].map_blocks(kill_once, marker, meta=np.empty((0, 0)))
        found = map_states(robot, "forward_dynamics", *stored)
        found.to_zarr(str(tmp_path / "qdd.zarr"))
        assert os.path.exists(marker)
        result = da.from_zarr(str(tmp_path / "qdd.zarr")).compute()
    assert_array_equal(result, robot.forward_dynamics(*many))


def test_a_robot_that_has_arrived_is_kept(robot):
    from gridgen.dask import _arrived

    carried = pickle.dumps(robot)
    assert _arrived(carried) is _arrived(bytes(carried))
