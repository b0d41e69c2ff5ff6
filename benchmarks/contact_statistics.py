"""Accelerations, forces and rollouts with soft contacts: differences from MuJoCo.

    python benchmarks/contact_statistics.py [--models hopper] [--states 1000] [--samples 400]

The first table compares accelerations, and the force of each contact, in states that the torques
of a policy reached, where MuJoCo's solver has converged. The second compares 500 steps
under a policy with noise, of different seeds for the two: means, standard deviations, and p-values
of Kolmogorov-Smirnov tests.
"""

from __future__ import annotations

import argparse
from typing import Any

import mujoco
import numpy as np
from contacts import model_of, own, start_of
from machine import description
from scipy.stats import ks_2samp

import gridgen
from gridgen.model.readers.mujoco import from_model
from gridgen.model.tree import build_tree
from gridgen.options import RobotOptions
from helpers.contacts import (
    contacts_of,
    forces_at_points,
    has_converged,
    iterate_to_the_end,
    local,
)

STEPS, EVERY = 500, 10
#: Largest torque of each joint [N m], by model; others have the first.
SIZES = {"": 15.0, "hopper": 30.0, "walker2d_v5": 30.0, "half_cheetah": 20.0, "humanoid": 40.0}
NAMES = ("height", "speed", "contact time")


class Case:
    """A model with its policy: each torque pulls to the initial posture, swings, and has noise."""

    def __init__(self, name: str) -> None:
        self.name, self.model = name, model_of(name)
        model = self.model
        self.robot = gridgen.load(model, contact=True, joint_dynamics=True, backend="cpu")
        self.rest = start_of(model)
        is_hand = model.jnt_limited.all()
        self.roots = 0 if is_hand else 6 if model.jnt_type[0] == 0 else 3
        joints = model.nv - self.roots
        rng = np.random.default_rng(1)
        self.phases = rng.uniform(0.0, 2.0 * np.pi, joints)
        self.size = SIZES.get(name.split()[0], SIZES[""])
        self.mixing = 0.1 * rng.normal(size=(joints, joints))
        self.up = 2 if self.roots == 6 else 1

    def torques(self, q: np.ndarray, qd: np.ndarray, t: int, noise: np.ndarray) -> np.ndarray:
        """Return the torques of a step for states by rows."""
        joints = len(self.phases)
        away = q[:, -joints:] - self.rest[-joints:]
        wave = 0.5 * np.sin(0.05 * t + self.phases)
        pull = -4.0 * away + away @ self.mixing - 0.2 * qd[:, -joints:] + wave + 0.5 * noise
        tau = np.zeros((len(q), self.model.nv))
        tau[:, self.roots :] = self.size * np.tanh(pull)
        return tau

    def starts(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return states of MuJoCo near the initial one."""
        q = np.tile(self.rest, (count, 1))
        q[:, -len(self.phases) :] += 0.05 * rng.normal(size=(count, len(self.phases)))
        return q, 0.05 * rng.normal(size=(count, self.model.nv))

    def ours(self, count: int, seed: int) -> np.ndarray:
        """Return (height, speed, contact time) of rollouts in float32."""
        rng, model = np.random.default_rng(seed), self.model
        q, qd = own(model, np.hstack([np.zeros((count, 1)), *self.starts(count, rng)]))
        q, qd = q.astype(np.float32), qd.astype(np.float32)
        options: dict[str, Any] = {"gravity": model.opt.gravity.astype(np.float32)}
        options |= {"integrator": "implicit", "record": ("contact_forward_dynamics",)}
        height, speed, touches = np.zeros((3, count))
        for t in range(STEPS):
            tau = self.torques(q, qd, t, rng.normal(size=(count, len(self.phases))))
            q, qd, _, forces = self.robot.rollout(
                q,
                qd,
                tau[:, None].astype(np.float32),
                float(model.opt.timestep),
                store_every="last",
                **options,
            )
            height += q[:, self.up] / STEPS
            speed += np.linalg.norm(qd[:, :3], axis=1) / STEPS
            touches += (forces != 0.0).any(axis=(1, 2, 3)) / STEPS
        return np.array([height, speed, touches])

    def theirs(self, count: int, seed: int) -> tuple[np.ndarray, list[tuple[np.ndarray, ...]]]:
        """Return the same of MuJoCo, and some of the states and torques."""
        rng, model = np.random.default_rng(seed), self.model
        data, seen = mujoco.MjData(model), []
        found = np.zeros((3, count))
        first = int(mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS)
        for k, (q, qd) in enumerate(zip(*self.starts(count, rng), strict=True)):
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = q, qd
            for t in range(STEPS):
                noise = rng.normal(size=(1, len(self.phases)))
                tau = self.torques(data.qpos[None], data.qvel[None], t, noise)[0]
                data.qfrc_applied[:] = tau
                if t % EVERY == k % EVERY:
                    seen.append((data.qpos.copy(), data.qvel.copy(), tau))
                mujoco.mj_step(model, data)
                touches = (data.efc_force[data.efc_type >= first] != 0.0).any()
                size = np.linalg.norm(data.qvel[:3])
                found[:, k] += np.array([data.qpos[self.up], size, touches]) / STEPS
        return found, seen

    def errors(self, seen: list[tuple[np.ndarray, ...]], count: int) -> list[float]:
        """Return the states, contacts of each, and largest relative errors of float64, float32."""
        model, data = self.model, mujoco.MjData(self.model)
        iterate_to_the_end(model)
        rows, expected, contacts, touches = [], [], [], 0
        for k in np.random.default_rng(0).permutation(len(seen)):
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = seen[k]
            data.qacc_warmstart[:] = 0.0
            mujoco.mj_forward(model, data)
            if data.ncon and has_converged(model, data):
                rows.append(k)
                expected.append(local(model, data, data.qacc, shifted=True))
                contacts.append(contacts_of(model, data))
                touches += data.ncon
            if len(rows) == count:
                break
        q, qd, tau = (np.array([seen[k][i] for k in rows]) for i in range(3))
        q, qd = own(model, np.hstack([np.zeros((len(q), 1)), q, qd]))
        options = RobotOptions(contact=True, joint_dynamics=True)
        each = forces_at_points(build_tree(from_model(model), options), q, contacts)
        others = np.array(expected), each.reshape(len(q), -1)
        found: list[float] = [len(rows), touches / len(rows)]
        for dtype in (np.float64, np.float32):
            arrays = (array.astype(dtype) for array in (q, qd, tau))
            gravity = model.opt.gravity.astype(dtype)
            qdd, forces = self.robot.contact_forward_dynamics(*arrays, gravity=gravity)
            for array, other in zip((qdd, forces.reshape(len(q), -1)), others, strict=True):
                scale = np.maximum(np.abs(other).max(axis=1, keepdims=True), 1.0)
                found.append(float((np.abs(array - other) / scale).max()))
        return found


def row(*cells: object) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    models = ("hopper", "half_cheetah", "walker2d_v5", "ant", "humanoid")
    parser.add_argument(
        "--models", nargs="*", default=[*models, "quadruped elliptic", "hand", "hand elliptic"]
    )
    parser.add_argument("--states", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=400)
    options = parser.parse_args()
    print(f"{description()['date']}, mujoco {mujoco.__version__}\n")
    heads = ("mean and deviation", "MuJoCo's", "p")
    first = [
        row("model", "states", "contacts", *("accelerations", "forces") * 2),
        row(*["---"] * 7),
    ]
    second = [row("model", *(f"{n}: {h}" for n in NAMES for h in heads)), row(*["---"] * 10)]
    for name in options.models:
        case = Case(name)
        theirs, seen = case.theirs(options.samples, 1)
        ours = case.ours(options.samples, 2)
        counts = case.errors(seen, options.states)
        first.append(row(name, counts[0], f"{counts[1]:.1f}", *(f"{e:.0e}" for e in counts[2:])))
        cells = []
        for one, other in zip(ours, theirs, strict=True):
            cells += [f"{x.mean():.3f} ± {x.std():.3f}" for x in (one, other)]
            cells.append(f"{ks_2samp(one, other).pvalue:.2f}")
        second.append(row(name, *cells))
        print(first[-1], second[-1], sep="\n", flush=True)
    print("", *first, "", *second, sep="\n")


if __name__ == "__main__":
    main()
