"""Identify the inertial parameters and the friction of an arm from noisy measurements.

    python examples/identification.py [--urdf robots/arm7.urdf] [--states 4000] [--noise 0.05]

The arm of the file replaces a real one: it moves along random sums of sines, and its joint torques
are measured with noise. The torques are linear in the unknown parameters:

    tau = Y[..., columns] base + d qd + c sign(qd)

with the base parameters, and each joint's damping d and friction c. Weighted least squares find all
of them. They are compared with the file's, in units of their standard deviations, and then used to
predict the torques of a motion that was not measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float64]
ROOT = Path(__file__).resolve().parents[1]
#: Sines of a motion, and its length [s]: as many whole periods fit.
SINES, SECONDS = 5, 20.0


def motion(robot: gridgen.Robot, count: int, rng: np.random.Generator) -> tuple[Array, ...]:
    """Return positions, velocities and accelerations (count, nv) along sums of sines."""
    time = np.linspace(0.0, SECONDS, count, endpoint=False)[:, None, None]
    rate = 2.0 * np.pi / SECONDS * np.arange(1, SINES + 1)[:, None]
    sine, cosine = rng.normal(size=(2, SINES, robot.nv)) / SINES
    q = (sine * np.sin(rate * time) + cosine * np.cos(rate * time)).sum(axis=1)
    qd = (rate * (sine * np.cos(rate * time) - cosine * np.sin(rate * time))).sum(axis=1)
    qdd = -(rate**2 * (sine * np.sin(rate * time) + cosine * np.cos(rate * time))).sum(axis=1)
    return q, qd, qdd


def equations(
    robot: gridgen.Robot, found: gridgen.BaseParameters, q: Array, qd: Array, qdd: Array
) -> Array:
    """Return what the unknowns are multiplied by, (B, nv, unknowns)."""
    Y = robot.joint_torque_regressor(q, qd, qdd)[..., found.columns]
    each = np.eye(robot.nv)
    return np.concatenate([Y, qd[..., None] * each, np.sign(qd)[..., None] * each], axis=-1)


def identify(A: Array, tau: Array, deviations: Array) -> tuple[Array, Array]:
    """Return the weighted least-squares solution and its standard deviations.

    Args:
        A:          (B, nv, unknowns)
        tau:        (B, nv), measured.
        deviations: (nv) standard deviations of the noise.
    """
    weighted = (A / deviations[:, None]).reshape(-1, A.shape[-1])
    solution = np.linalg.lstsq(weighted, (tau / deviations).reshape(-1), rcond=None)[0]
    spread = np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted)))
    return solution, spread


def main(arguments: list[str] | None = None) -> None:
    """Simulate measurements, identify, and print how well that went."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--urdf", type=Path, default=ROOT / "robots" / "arm7.urdf")
    parser.add_argument("--states", type=int, default=4000, help="measured states")
    parser.add_argument("--noise", type=float, default=0.05, help="share of the torques")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)

    robot = gridgen.load(options.urdf, joint_dynamics=True)
    found = gridgen.base_parameters(robot)
    print(f"{robot.name}: {len(found.names)} inertial parameters, {len(found)} identifiable")

    q, qd, qdd = motion(robot, options.states, rng)
    exact = robot.inverse_dynamics(q, qd, qdd)
    deviations = options.noise * exact.std(axis=0)
    tau = exact + rng.normal(size=exact.shape) * deviations

    A = equations(robot, found, q, qd, qdd)
    solution, spread = identify(A, tau, deviations)
    # Without noise the same equations give what there was to be found.
    truth, _ = identify(A, exact, deviations)

    names = [found.names[column] for column in found.columns]
    names += [f"{joint} {word}" for word in ("damping", "friction") for joint in robot.joint_names]
    print(f"{'parameter':>24} {'true':>10} {'found':>10} {'error':>9} {'deviations':>11}")
    for name, true, value, one in zip(names, truth, solution, spread, strict=True):
        error = value - true
        print(f"{name:>24} {true:10.4f} {value:10.4f} {error:9.4f} {error / one:11.2f}")

    q, qd, qdd = motion(robot, 1000, rng)
    exact = robot.inverse_dynamics(q, qd, qdd)
    missed = equations(robot, found, q, qd, qdd) @ solution - exact
    shares = 100.0 * np.sqrt((missed**2).mean(axis=0)) / exact.std(axis=0)
    print(f"another motion's torques: error in % (noise {100 * options.noise:g} %):")
    print("  " + "  ".join(f"{share:.2f}" for share in shares))


if __name__ == "__main__":
    main()
