"""Computed-torque control of an arm at 1 kHz, in Python, and the time of a control step.

    python examples/computed_torque.py [--urdf robots/arm7.urdf] [--seconds 4] [--payload 1.0]

The controller has a model of the arm, but not of the payload in its hand. Inverse dynamics of the
desired acceleration, corrected by the error, follows the trajectory within hundredths of a radian.
A bound call checks its arrays once, so that a step of control is a few microseconds of Python and
the kernel.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float64]
ROOT = Path(__file__).resolve().parents[1]
#: Length of a step of control [s], and natural frequency of the error, critically damped [1/s].
DT, FREQUENCY = 1e-3, 25.0


@dataclass
class Result:
    """Result of a run of control.

    Attributes:
        errors:    largest deviation of a joint in each step [rad].
        latencies: time of each step of control, the plant left out [s].
    """

    errors: Array
    latencies: Array


def reference(t: float, nv: int) -> tuple[Array, Array, Array]:
    """Return desired positions, velocities and accelerations: a swing in every joint."""
    rates = 1.0 + 0.3 * np.arange(nv)
    position = 0.5 * np.sin(rates * t)
    return position, 0.5 * rates * np.cos(rates * t), -rates * rates * position


def run(urdf: Path, seconds: float, payload: float) -> Result:
    """Follow the reference with an arm that has a payload in its last link.

    Args:
        urdf:    the arm.
        seconds: how long [s].
        payload: mass of the payload, at the origin of the last link [kg].
    """
    known = gridgen.load(urdf)
    hand = known.body_names[-1]
    plant = gridgen.load(urdf, parameters=hand)
    params = plant.parameters()
    params += gridgen.inertia(mass=payload, com=[0.0, 0.0, 0.0], inertia=np.zeros((3, 3)))

    q, qd, _ = (x.copy() for x in reference(0.0, known.nv))
    desired, tau = np.zeros(known.nv), np.zeros(known.nv)
    control = known.bind("inverse_dynamics", q, qd, desired, out=tau)
    errors, latencies = [], []
    for step in range(round(seconds / DT)):
        q_ref, qd_ref, qdd_ref = reference(step * DT, known.nv)
        start = time.perf_counter()
        desired[:] = qdd_ref + 2.0 * FREQUENCY * (qd_ref - qd) + FREQUENCY**2 * (q_ref - q)
        control()
        latencies.append(time.perf_counter() - start)
        errors.append(np.abs(q - q_ref).max())
        q[:], qd[:] = plant.step(q, qd, tau, DT, params=params)
    return Result(np.array(errors), np.array(latencies))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--urdf", type=Path, default=ROOT / "robots" / "arm7.urdf")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--payload", type=float, default=1.0)
    arguments = parser.parse_args()
    result = run(arguments.urdf, arguments.seconds, arguments.payload)
    settled = result.errors[len(result.errors) // 2 :]
    middle, late, worst = 1e6 * np.quantile(result.latencies, [0.5, 0.99, 1.0])
    print(f"tracking error: {1e3 * settled.max():.2f} mrad at most, payload {arguments.payload} kg")
    print(f"a step of control: {middle:.1f} us (median), {late:.1f} (99 %), {worst:.1f} (worst)")


if __name__ == "__main__":
    main()
