"""Rollouts with soft contacts beside MuJoCo's own of the same model.

    python benchmarks/contacts.py [--models quadruped hopper] [--batch 4096] [--seconds 10]

One thread, both in one process, interleaved; least processor times. The states are those of MuJoCo
after some time on the ground, with random torques. grid-gen computes in float32, MuJoCo in float64
with the settings of its file.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any

os.environ.update(dict.fromkeys(("GRIDGEN_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import gymnasium
import mujoco
import numpy as np
from interleave import Call, interleaved
from machine import description
from mujoco import rollout

import gridgen

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from helpers.contact_models import hand
from helpers.robots import example_urdf

ROBOTS = Path(__file__).parents[1] / "robots"
ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
FEET = 4
#: Most pairs of links that touch at a time.
PAIRS = 4
#: States of MuJoCo's batch, the steps before and during the measurement, and MuJoCo's torques.
FEW, BEFORE, STEPS, TORQUE = 64, 200, 16, 1.0


def model_of(name: str) -> Any:
    """Return a model whose bodies touch the ground, pairs, or a ball and a block in a hand."""
    base, _, cone = name.partition(" ")
    if base == "hand":
        model = hand()
        model.opt.cone = int(cone == "elliptic")
    elif base in ("quadruped", "go2"):
        path = ROBOTS / "quadruped.urdf" if base == "quadruped" else example_urdf("go2")
        text = re.sub(r"<(visual|collision)\b.*?</\1>", "", path.read_text(), flags=re.DOTALL)
        spec = mujoco.MjSpec.from_string(text)
        spec.worldbody.first_body().add_freejoint()
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 1])
        for leg in ("FL", "FR", "RL", "RR"):
            spec.body(f"{leg}_calf").add_geom(size=[0.02, 0, 0], pos=[0, 0, -0.21])
        model = spec.compile()
        model.opt.cone = int(cone == "elliptic")
        model.qpos0[2] = 0.33
        model.qpos0[7:] = np.tile((0.0, 0.7, -1.4), FEET)
    else:
        model = mujoco.MjModel.from_xml_path(str(ASSETS / f"{base}.xml"))
    if base != "hand" and cone != "pairs":
        is_plane = model.geom_type == 0
        model.geom_contype[:], model.geom_conaffinity[:] = is_plane, ~is_plane
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return model


def start_of(model: Any) -> np.ndarray:
    """Return initial positions: those of the file, or of a hand around its ball."""
    is_hand = model.jnt_limited.all()
    return model.jnt_range.mean(axis=1) if is_hand else model.qpos0  # type: ignore[no-any-return]


def states(model: Any, rng: np.random.Generator, count: int = FEW) -> tuple[np.ndarray, float]:
    """Return full states of MuJoCo on the ground, and the mean number of contacts."""
    data, kind = mujoco.MjData(model), mujoco.mjtState.mjSTATE_FULLPHYSICS
    found, touches = np.empty((count, mujoco.mj_stateSize(model, kind))), 0
    for state in found:
        mujoco.mj_resetData(model, data)
        data.qpos[:] = start_of(model)
        for _ in range(BEFORE):
            data.qfrc_applied[6 * (model.jnt_type[0] == 0) :] = TORQUE * rng.normal()
            mujoco.mj_step(model, data)
        touches += data.ncon
        mujoco.mj_getState(model, data, state, kind)
    return found, touches / count


def own(model: Any, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and velocities of gridgen for states of MuJoCo."""
    q, qd = found[:, 1 : 1 + model.nq].copy(), found[:, 1 + model.nq :][:, : model.nv].copy()
    if model.jnt_type[0] == 0:
        q[:, 3:7] = np.roll(q[:, 3:7], -1, axis=1)
        for row, turn in zip(qd, found[:, 4:8], strict=True):
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, turn)
            row[:3] = R.reshape(3, 3).T @ row[:3]
    return q, qd


def calls(
    model: Any, batch: int, found: np.ndarray, pairs: int | None = None, dtype: str = "float32"
) -> tuple[dict[str, Call], Callable[[], float], int]:
    """Return calls of one type and of MuJoCo, their difference, and the number of contacts.

    A call of MuJoCo computes the ``FEW`` states ``found``, one of gridgen ``batch``.
    """
    rng = np.random.default_rng(1)
    contact = True if pairs is None else {"max_pairs": pairs}
    robot = gridgen.load(model, contact=contact, joint_dynamics=True, backend="cpu")
    tau = TORQUE * rng.normal(size=(FEW, STEPS, model.nv))
    tau[..., : 6 * (model.jnt_type[0] == 0)] = 0.0
    rows = np.arange(batch) % FEW
    rng.shuffle(rows)
    q, qd = own(model, found)
    inputs = [array[rows].astype(dtype) for array in (q, qd, tau)]
    gravity = model.opt.gravity.astype(dtype)
    call = partial(
        robot.rollout,
        *inputs,
        float(model.opt.timestep),
        integrator="implicit",
        store_every="last",
        gravity=gravity,
    )
    runner = rollout.Rollout(nthread=0)
    applied = int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)
    peer = partial(
        runner.rollout, model, mujoco.MjData(model), found, tau, control_spec=applied, nstep=STEPS
    )
    joints = slice(8 if model.jnt_type[0] == 0 else 1, 1 + model.nq)

    def error() -> float:
        ours, theirs = call()[0], peer()[0]
        own_joints = ours[:, -(joints.stop - joints.start) :]
        return float(np.abs(own_joints - theirs[rows, -1, joints]).max())

    return {"own": call, "MuJoCo": peer}, error, len(robot.contact_names)


def measure(name: str, batch: int, seconds: float) -> str:
    """Return a row of the table."""
    model = model_of(name)
    found, touches = states(model, np.random.default_rng(0))
    both, error, shapes = calls(model, batch, found, PAIRS if name.endswith("pairs") else None)
    difference = error()
    timings = interleaved(both, seconds, thread_time)
    ns = 1e9 * timings["own"].least / batch / STEPS
    other = 1e9 * timings["MuJoCo"].least / FEW / STEPS
    cells = (name, model.nv, shapes, f"{touches:.1f}", f"{ns:.0f}")
    cells += (f"{other:.0f}", f"{other / ns:.0f}", f"{difference:.0e}")  # type: ignore[assignment]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    models = ("hopper", "half_cheetah", "walker2d_v5", "quadruped pyramidal", "quadruped elliptic")
    others = ("ant", "humanoid", "humanoid pairs", "hand")
    parser.add_argument("--models", nargs="*", default=[*models, *others])
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    machine = description()
    print(f"{machine['date']}, {machine['processor']}, load {machine['load_at_the_start']:.1f};")
    print(f"mujoco {mujoco.__version__}; {options.batch} states, {STEPS} steps, one thread\n")
    print("| model | nv | shapes | contacts | ns a step | MuJoCo | ratio | difference of q |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.models:
        print(measure(name, options.batch, options.seconds), flush=True)


if __name__ == "__main__":
    main()
