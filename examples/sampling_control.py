"""Control an arm by sampling: model predictive path integral control (MPPI).

    python examples/sampling_control.py [--urdf robots/arm7.urdf] [--samples 4096] [--steps 300]

Each step of control tries many trajectories of the joints, each by a rollout in which position
servos track it. Their mean, weighted by the cost, is the new plan (``mppi.py``).
``walking.py`` makes a quadruped walk in the same way.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mppi import MPPI, Array

import gridgen

ROOT = Path(__file__).resolve().parents[1]
#: Steps of a rollout, and the time of each [s]; the cost reads every LOOK-th state.
HORIZON, DT, LOOK = 64, 0.01, 8
#: Deviation of the sampled joint positions [rad], temperature of the weights [m].
DEVIATION, TEMPERATURE = 0.15, 0.01
#: Gains of the servos for a unit of each joint's inertia [1/s^2, 1/s]; share of the effort limits.
STIFFNESS, DAMPING, SHARE = 100.0, 20.0, 0.8
#: The hand has arrived within this distance [m], at this speed of every joint [rad/s].
NEAR, SLOW = 0.01, 0.3


@dataclass
class Result:
    """Distances of the hand from the target after each step of control [m], and the controller."""

    distances: list[float]
    controller: MPPI


def load(urdf: Path) -> gridgen.Robot:
    """Return an arm with position servos, whose gains are those of each joint's inertia."""
    plain = gridgen.load(urdf)
    inertias = np.diag(plain.mass_matrix(plain.neutral()))
    servos = [
        {"joint": name, "kind": "position", "kp": STIFFNESS * m, "kv": DAMPING * m,
         "forcerange": (-SHARE * limit, SHARE * limit)}
        for name, m, limit in zip(plain.joint_names, inertias, plain.effort_limits, strict=True)
    ]  # fmt: skip
    return gridgen.load(urdf, joint_dynamics=True, actuators=servos)


def control(
    robot: gridgen.Robot, samples: int, steps: int, seed: int = 0, log: bool = False
) -> Result:
    """Move the hand of an arm to a random point that it can reach.

    Args:
        robot:   the arm, with position servos.
        samples: rollouts for each step of control.
        steps:   steps of control at most.
        seed:    of all random numbers.
        log:     whether to print the distances.
    """
    q, qd = robot.neutral().astype(np.float32), np.zeros(robot.nv, np.float32)
    hand = robot.frame_names[-1]
    reached = robot.random_configuration(np.random.default_rng(seed), 1).astype(np.float32)
    target = robot.forward_kinematics(reached, [hand])[0, 0, :3, 3]

    def distance(q: Array) -> Array:
        away: Array = robot.forward_kinematics(q, [hand])[..., 0, :3, 3] - target
        return np.linalg.norm(away, axis=-1)

    def cost(q: Array, qd: Array) -> Array:
        away = distance(q[:, 1:])
        return away.mean(axis=1) + away[:, -1] + 0.01 * np.square(qd[:, -1]).sum(axis=-1)

    u = np.linspace(0.0, 1.0, HORIZON, dtype=np.float32)
    basis = np.stack([np.sin(0.5 * np.pi * u), np.sin(np.pi * u)], axis=1)  # begins at zero
    plan = np.tile(q, (HORIZON, 1))
    controller = MPPI(
        robot, plan, basis, DEVIATION, TEMPERATURE, samples, cost, DT, seed, store_every=LOOK
    )
    distances: list[float] = []
    while len(distances) < steps:
        gravity = robot.gravity_forces(q)
        controller.update(q, qd, gravity)
        q, qd = robot.step(q, qd, gravity, DT, ctrl=controller.plan[0], integrator="implicit")
        controller.shift()
        distances.append(float(distance(q)))
        if log and len(distances) % 10 == 1:
            print(f"{DT * len(distances):5.2f} s: {1e3 * distances[-1]:6.1f} mm from the target")
        if distances[-1] < NEAR and np.abs(qd).max() < SLOW:
            break
    return Result(distances, controller)


def main() -> None:
    """Control the arm of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--urdf", type=Path, default=ROOT / "robots" / "arm7.urdf")
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    robot = load(options.urdf)
    result = control(robot, options.samples, options.steps, log=True)
    rate = options.samples * HORIZON / np.median(result.controller.seconds)
    print(
        f"{1e3 * result.distances[-1]:.1f} mm from the target after "
        f"{DT * len(result.distances):.2f} s; {rate / 1e6:.1f} million steps of the arm "
        f"in a second, {options.samples} trajectories of {HORIZON} steps each time"
    )


if __name__ == "__main__":
    main()
