"""Identify the masses of an arm from where it went, by gradients through rollouts, in PyTorch.

    python examples/identify_masses.py [--urdf robots/arm7.urdf] [--motions 64] [--updates 300]

The masses of the real arm are not those of its file: each body is lighter or heavier by some
factor. The arm starts at rest, known torques move it against a controller that holds it, and
encoders measure positions and velocities with noise. PyTorch's Adam finds the factors. A rollout
predicts the motion for the current masses; one kernel backpropagates the prediction error through
all of its steps to them. The error that remains at the end is the noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import gridgen

ROOT = Path(__file__).resolve().parents[1]
Tensor = torch.Tensor
#: Steps of a motion, and the length of each [s].
STEPS, DT = 50, 0.01
#: Bounds of the real masses, as factors of those of the file.
LIGHTEST, HEAVIEST = 0.6, 1.6
#: Number of sines in the torques, and the acceleration of a joint by them [rad/s^2, m/s^2].
SINES, ACCELERATION = 4, 15.0
#: The controller of each joint: its frequency [1/s] and its damping, for the masses of the file.
STIFFNESS, DAMPING = 8.0, 1.0
#: Of Adam, at the beginning; the rate falls to zero.
RATE = 0.03


class Measured(NamedTuple):
    """Measurements of some motions.

    Attributes:
        q0:    positions at the beginning (B, nq), at rest.
        tau:   torques of each step (B, T, nv).
        q:     positions along the way, measured (B, T + 1, nq).
        qd:    velocities along the way, measured (B, T + 1, nv).
        noise: standard deviations of both [rad, rad/s].
    """

    q0: Tensor
    tau: Tensor
    q: Tensor
    qd: Tensor
    noise: tuple[float, float]


def smallest_inertia(robot: gridgen.Robot, q: np.ndarray) -> np.ndarray:
    """Return what each joint moves at least, while the others are free (nv,) [kg m^2 or kg]."""
    inverses = robot.mass_matrix_inverse(q)
    return 1.0 / np.diagonal(inverses, axis1=1, axis2=2).max(axis=0)


def torques(robot: gridgen.Robot, q0: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return torques (B, T, nv): gravity forces at the first configuration, and sines."""
    held = robot.gravity_forces(q0)
    size = ACCELERATION * smallest_inertia(robot, q0)
    time = np.arange(STEPS)[:, None] / STEPS
    waves = np.zeros((len(q0), STEPS, robot.nv))
    for wave in range(1, SINES + 1):
        phase = rng.uniform(0.0, 2.0 * np.pi, (len(q0), 1, robot.nv))
        waves += np.sin(wave * np.pi * time + phase) / SINES
    return held[:, None] + size * waves


def moved(robot: gridgen.Robot, params: Any, q0: Any, tau: Any) -> Any:
    """Return where the arm that has ``params`` goes: positions, velocities (B, T + 1, nv)."""
    inertia = smallest_inertia(robot, np.asarray(q0))
    stiff, calm = STIFFNESS**2 * inertia, 2.0 * DAMPING * STIFFNESS * inertia
    gains = np.hstack([np.diag(stiff), np.diag(calm)])
    rest = np.zeros(robot.nv)
    if isinstance(q0, Tensor):
        gains, rest = torch.from_numpy(gains), torch.from_numpy(rest)
    held = (gains, q0[:, None], rest)
    return robot.rollout(q0, 0.0 * q0, tau, DT, feedback=held, params=params)


def measure(
    robot: gridgen.Robot, params: np.ndarray, motions: int, rng: np.random.Generator
) -> Measured:
    """Move the arm that has ``params``, and measure it."""
    q0 = robot.random_configuration(rng, motions)
    tau, noise = torques(robot, q0, rng), (1e-3, 1e-2)
    paths = moved(robot, params, q0, tau)
    pairs = zip(paths, noise, strict=True)
    noisy = (path + size * rng.normal(size=path.shape) for path, size in pairs)
    return Measured(*map(torch.from_numpy, (q0, tau, *noisy)), noise)


def missed(robot: gridgen.Robot, params: Tensor, data: Measured) -> Tensor:
    """Return the mean square of what an arm that has ``params`` misses; of noise alone it is 1."""
    q, qd = moved(robot, params, data.q0, data.tau)
    errors = ((q - data.q) / data.noise[0], (qd - data.qd) / data.noise[1])
    return torch.cat(errors, dim=-1)[:, 1:].square().mean()


def identify(robot: gridgen.Robot, data: Measured, updates: int) -> tuple[Tensor, list[float]]:
    """Return the factors of the masses that fit, and what was missed on the way there."""
    file = torch.from_numpy(robot.parameters())
    logarithms = torch.zeros(
        len(file), dtype=file.dtype, requires_grad=True
    )  # masses stay positive
    adam = torch.optim.Adam([logarithms], lr=RATE)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, updates)
    losses: list[float] = []
    for _ in range(updates):
        adam.zero_grad()
        # A body of the same shape whose density is another: all ten of its parameters go along.
        loss = missed(robot, logarithms.exp()[:, None] * file, data)
        loss.log().backward()  # what is missed falls by orders of magnitude
        adam.step()
        falling.step()
        losses.append(loss.item())
    return logarithms.exp().detach(), losses


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Measure, identify, print how well that went, and return it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--urdf", type=Path, default=ROOT / "robots" / "arm7.urdf")
    parser.add_argument("--motions", type=int, default=64)
    parser.add_argument("--updates", type=int, default=300)
    given = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    robot = gridgen.load(given.urdf, parameters="all")
    real = rng.uniform(LIGHTEST, HEAVIEST, len(robot.parameter_names))
    data = measure(robot, real[:, None] * robot.parameters(), given.motions, rng)
    found, losses = identify(robot, data, given.updates)
    print(f"{robot.name}: {given.motions} motions of {STEPS * DT:g} s")
    print(f"what is missed, in squares of the noise: {losses[0]:.4g} -> {losses[-1]:.4g}")
    print(f"{'body':>12} {'file [kg]':>10} {'real [kg]':>10} {'found [kg]':>10} {'error':>8}")
    masses = zip(robot.parameter_names, robot.parameters()[:, 0], real, found.tolist(), strict=True)
    for name, mass, true, factor in masses:
        error = 100.0 * (factor / true - 1.0)
        print(f"{name:>12} {mass:10.3f} {mass * true:10.3f} {mass * factor:10.3f} {error:7.2f}%")
    return {"real": real, "found": found.numpy(), "losses": losses}


if __name__ == "__main__":
    main()
