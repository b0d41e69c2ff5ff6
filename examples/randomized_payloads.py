"""Simulate thousands of arms, each with a payload, armature and damping of its own.

    python examples/randomized_payloads.py [--urdf robots/arm7.urdf] [--link hand] [--arms 4096]

A controller moves each arm from one posture to another by computed torque. It uses the model of the
file, but each simulated arm has a payload in its hand and other motors. All arms are one batch: the
parameters that differ are inputs of one compiled kernel.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float64]
ROOT = Path(__file__).resolve().parents[1]
#: Gains of the controller [1/s^2, 1/s]; its time step [s]; the heaviest payload [kg].
STIFFNESS, DAMPING, STEP, HEAVIEST = 100.0, 20.0, 2e-3, 2.0


def payloads(arms: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the masses of random boxes (arms,), and their rows of parameters (arms, 10)."""
    mass = rng.uniform(0.0, HEAVIEST, arms)
    com = rng.normal([0.0, 0.0, 0.1], 0.03, (arms, 3))
    width, depth, height = rng.uniform(0.02, 0.2, (3, arms)) ** 2
    moments = mass / 12.0 * np.array([depth + height, width + height, width + depth])
    return mass, gridgen.inertia(mass, com, moments.T[..., None] * np.eye(3))


def differing(robot: gridgen.Robot, rng: np.random.Generator, boxes: Array) -> dict[str, Array]:
    """Return the numbers of every arm: the link with its box, armature and damping."""
    shape = (len(boxes), robot.nv)
    return {
        "params": robot.parameters() + boxes[:, None],
        "armature": robot.parameters("armature") * rng.uniform(0.5, 2.0, shape),
        "damping": robot.parameters("damping") * rng.uniform(0.5, 2.0, shape),
    }


def simulate(robot: gridgen.Robot, arms: dict[str, Array], goal: Array, steps: int) -> Array:
    """Return where the arms are after a number of steps, (arms, nq)."""
    q = np.zeros((len(arms["params"]), robot.nq))
    qd = np.zeros((len(q), robot.nv))
    for _ in range(steps):
        # The controller has the numbers of the file, the arms have their own.
        desired = STIFFNESS * (goal - q) - DAMPING * qd
        tau = robot.inverse_dynamics(q, qd, desired)
        qd = qd + STEP * robot.forward_dynamics(q, qd, tau, **arms)
        q = q + STEP * qd
    return q


def main(arguments: list[str] | None = None) -> None:
    """Simulate, and print how far the hands end from where they should."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--urdf", type=Path, default=ROOT / "robots" / "arm7.urdf")
    parser.add_argument("--link", default="hand", help="what holds the payload")
    parser.add_argument("--arms", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)

    robot = gridgen.load(
        options.urdf,
        parameters=[options.link, "armature", "damping"],
        joint_dynamics=True,
        armature=0.05,
    )
    masses, boxes = payloads(options.arms, rng)
    arms = differing(robot, rng, boxes)
    lower, upper = (
        np.clip(limits, -1.5, 1.5) for limits in (robot.lower_limits, robot.upper_limits)
    )
    goal = lower + rng.uniform(0.3, 0.7, robot.nq) * (upper - lower)

    simulate(robot, arms, goal, 1)  # compiles two functions
    start = time.perf_counter()
    q = simulate(robot, arms, goal, options.steps)
    seconds = time.perf_counter() - start
    steps = options.arms * options.steps
    print(f"{robot.name}: {options.arms} arms, {options.steps} steps of {1e3 * STEP:g} ms")
    print(f"{seconds:.2f} s, {steps / seconds / 1e6:.2f} million steps a second")

    hands, there = (robot.forward_kinematics(at, [options.link]) for at in (q, goal))
    missed = 1e3 * np.linalg.norm(hands[:, 0, :3, 3] - there[0, :3, 3], axis=-1)
    print(f"{'payload [kg]':>14} {'arms':>6} {'mean error [mm]':>16} {'worst [mm]':>11}")
    edges = np.linspace(0.0, HEAVIEST, 5)
    for least, most in pairwise(edges):
        chosen = missed[(masses >= least) & (masses < most)]
        if chosen.size:
            share = f"{least:.1f} to {most:.1f}"
            print(f"{share:>14} {chosen.size:6} {chosen.mean():16.2f} {chosen.max():11.2f}")


if __name__ == "__main__":
    main()
