"""Swing an arm up with motors that cannot lift it: iterative LQR within effort limits.

    python examples/swing_up.py [--share 0.15] [--seconds 3] [--iterations 300]

The arm hangs, and its motors must bring it upright with a share of the torques of the file: too
little to hold the stretched arm out. ``gridgen.ilqr`` finds torques within these limits, and gains
that follow the motion under disturbances.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

import gridgen
from gridgen import Cost

ARM = Path(__file__).resolve().parents[1] / "robots" / "arm6.urdf"
#: The first and the desired configuration [rad].
HANGING = np.array([0.0, -0.5 * np.pi, 0.0, 0.0, 0.0, 0.0])
STANDING = -HANGING
#: Length of a step [s].
DT = 0.02
WORDS: dict[str, Any] = {"integrator": "implicit", "effort_limits": True}


def weakened(urdf: Path, share: float) -> str:
    """Return the text of an arm whose motors have a share of their torques, without friction."""
    root = ElementTree.parse(urdf).getroot()
    for limit in root.findall("joint/limit"):
        limit.set("effort", repr(share * float(limit.get("effort", "inf"))))
    for dynamics in root.findall("joint/dynamics"):
        dynamics.set("friction", "0")  # which has no derivative where a joint turns back
    return ElementTree.tostring(root, encoding="unicode")


def swing_up(robot: gridgen.Robot, seconds: float, iterations: int) -> gridgen.IlqrResult:
    """Find a motion of the hanging arm that ends upright and at rest.

    Args:
        robot:      the arm.
        seconds:    length of the motion.
        iterations: largest number of backward passes.
    """
    effort = 0.3 * DT / np.array(robot.effort_limits) ** 2  # of torques as shares of the limits
    costs = [
        Cost("q", 0.1 * DT, 300.0, STANDING),
        Cost("qd", 0.3 * DT, 30.0),
        Cost("tau", effort),
    ]
    T = round(seconds / DT)
    rest = np.zeros(robot.nv)
    limits = {"iterations": iterations, "tolerance": 1e-3, "regularization": 3e-4}
    return gridgen.ilqr(robot, costs, HANGING, rest, T=T, dt=DT, **limits, **WORDS)


def replayed(
    robot: gridgen.Robot, motion: gridgen.IlqrResult, substeps: int, factor: float
) -> float:
    """Return the largest final error of a joint [rad] in finer steps than those of the plan.

    Args:
        robot:    the arm.
        motion:   the plan.
        substeps: of each step.
        factor:   of the gains.
    """
    feedback = factor * motion.gains, motion.q[:, :-1], motion.qd[:, :-1]
    q, _ = robot.rollout(
        *(HANGING, np.zeros(robot.nv), motion.tau, DT),
        substeps=substeps,
        store_every="last",
        feedback=feedback,
        **WORDS,
    )
    return float(np.abs(robot.difference(STANDING, q)).max())


def main(arguments: list[str] | None = None) -> tuple[gridgen.Robot, gridgen.IlqrResult]:
    """Swing the arm up, and print the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--share", type=float, default=0.15, help="of the torques of the file")
    parser.add_argument("--seconds", type=float, default=3.0, help="of the motion")
    parser.add_argument("--iterations", type=int, default=300, help="largest number")
    options = parser.parse_args(arguments)
    robot = gridgen.load(weakened(ARM, options.share), joint_dynamics=True)
    swing_up(robot, options.seconds, 1)  # compiles
    begin = time.perf_counter()
    motion = swing_up(robot, options.seconds, options.iterations)
    spent, passes = time.perf_counter() - begin, int(motion.iterations[0])
    print(f"{passes} iterations of {1e3 * spent / passes:.1f} ms, cost {motion.cost[0]:.3f}")

    needed = np.abs(robot.gravity_forces(motion.q[0])).max(axis=0)
    joint = int((needed / robot.effort_limits).argmax())
    print(
        f"{robot.joint_names[joint]}: holding the arm still takes up to {needed[joint]:.1f} N m "
        f"on the way, the motor gives {robot.effort_limits[joint]:.1f} N m"
    )
    error, speed = np.abs(motion.q[0, -1] - STANDING).max(), np.abs(motion.qd[0, -1]).max()
    print(f"final error: {1e3 * error:.1f} mrad, {1e3 * speed:.1f} mrad/s")
    without, with_gains = (replayed(robot, motion, 10, factor) for factor in (0.0, 1.0))
    print(
        f"in steps of {1e2 * DT:g} ms, with these torques alone: {without:.2f} rad; "
        f"with the gains: {with_gains:.3f} rad"
    )
    return robot, motion


if __name__ == "__main__":
    main()
