"""``python -m gridgen.papers``: processes that send messages, and one of them that dies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gridgen
from helpers.robots import OWN
from helpers.scan import serial_chain

MPIRUN = shutil.which(
    "mpirun", path=os.pathsep.join((str(Path(sys.executable).parent), os.defpath))
)
needs_mpi = pytest.mark.skipif(MPIRUN is None, reason="there is no mpirun")
#: As root, and with more processes than cores.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
MODULE = ("-m", "gridgen.papers")
# A process that dies, or fails, some blocks after the ten by which the latency is measured.
SCRIPT = """\
import os, signal, sys, time
from gridgen.papers import __main__ as command
from gridgen.papers import stages
blocks, compute = [], stages.BackwardStage.__call__
def last(self, *arguments):
    blocks.append(arguments)
    if len(blocks) == 14:
        print("at", time.monotonic(), flush=True)
        {what}
    compute(self, *arguments)
stages.BackwardStage.__call__ = last
sys.exit(command.main())
"""


def start(processes, *words):
    pytest.importorskip("mpi4py")
    command = (MPIRUN, "-n", str(processes), sys.executable, *map(str, words))
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **ENVIRONMENT}
    )


def saved(path, robot, *lead):
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.normal(size=(3, *lead, robot.nv))
    np.savez(path, q=q, qd=qd, qdd=qdd)
    flat = (array.reshape(-1, robot.nv) for array in (q, qd, qdd))
    return robot.inverse_dynamics(*flat).reshape(*lead, robot.nv)


@needs_mpi
@pytest.mark.parametrize(("processes", "lead"), [(2, (1,)), (3, (2, 7)), (5, (1000,))])
def test_processes_compute_the_efforts_in_order(processes, lead, tmp_path):
    expected = saved(tmp_path / "t.npz", gridgen.load(OWN / "arm6.urdf"), *lead)
    words = (*MODULE, OWN / "arm6.urdf", tmp_path / "t.npz", "-o", tmp_path / "o.npz")
    result = start(processes, *words, "--block", "64")
    assert result.returncode == 0, result.stderr
    assert "samples/s" in result.stdout
    tau = np.load(tmp_path / "o.npz")["tau"]
    assert_allclose(tau, expected, atol=1e-12 * np.abs(expected).max())


@needs_mpi
@pytest.mark.exhaustive
@pytest.mark.parametrize("joints", [12, 18])
@pytest.mark.parametrize("split", ["1+1", "2+1", "2+2", "3+2"])
def test_long_chains_are_split_as_asked(joints, split, tmp_path):
    (tmp_path / "chain.urdf").write_text(serial_chain(joints, 7), encoding="utf-8")
    expected = saved(tmp_path / "t.npz", gridgen.load(tmp_path / "chain.urdf"), 1000)
    words = (*MODULE, tmp_path / "chain.urdf", tmp_path / "t.npz", "-o", tmp_path / "o.npz")
    result = start(sum(map(int, split.split("+"))), *words, "--split", split)
    assert result.returncode == 0, result.stderr
    tau = np.load(tmp_path / "o.npz")["tau"]
    assert_allclose(tau, expected, atol=1e-12 * np.abs(expected).max())


@needs_mpi
@pytest.mark.parametrize("what", ["os.kill(os.getpid(), signal.SIGKILL)", "1 / 0"])
def test_the_run_ends_with_a_process_that_dies(what, tmp_path):
    saved(tmp_path / "t.npz", gridgen.load(OWN / "arm6.urdf"), 1000)
    (tmp_path / "script.py").write_text(SCRIPT.format(what=what), encoding="utf-8")
    words = (tmp_path / "script.py", OWN / "arm6.urdf", tmp_path / "t.npz", "-o")
    result = start(3, *words, tmp_path / "o.npz", "--block", "64", "--split", "2+1")
    assert result.returncode != 0
    assert time.monotonic() - float(result.stdout.partition("at ")[2].split()[0]) < 10
    assert sorted(file.name for file in tmp_path.iterdir()) == ["script.py", "t.npz"]


@needs_mpi
@pytest.mark.parametrize(
    ("processes", "words", "message"),
    [
        (1, (), "requires at least 2 processes"),
        (3, ("--split", "1+1"), "3 in total"),
        (2, ("--block", "0"), "--block is 0"),
        (2, ("--floating-base",), "q has shape"),
        (
            2,
            ("--mapping", "size:=2"),
            "mappings is {'size': '2'}, but the robot is not a xacro file",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_once(processes, words, message, tmp_path):
    saved(tmp_path / "t.npz", gridgen.load(OWN / "arm6.urdf"), 3)
    own = (OWN / "arm6.urdf", tmp_path / "t.npz", "-o", tmp_path / "o.npz")
    result = start(processes, *MODULE, *own, *words)
    assert result.returncode == 2, result.stderr
    assert result.stderr.count(message) == 1
    assert not (tmp_path / "o.npz").exists()


def test_the_command_says_what_to_install(tmp_path):
    """As on a machine without MPI, whatever is installed here."""
    (tmp_path / "mpi4py.py").write_text("raise ImportError('no MPI')", encoding="utf-8")
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    words = (OWN / "arm6.urdf", tmp_path / "t.npz", "-o", tmp_path / "o.npz")
    result = subprocess.run(
        (sys.executable, *MODULE, *map(str, words)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert result.returncode == 2
    assert "pip install 'grid-gen[mpi]'" in result.stderr
