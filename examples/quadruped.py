"""A quadruped on the ground, for the programs in this folder: feet, stance, servos, trot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gridgen

Array = NDArray[np.float32]
URDF = Path(__file__).resolve().parents[1] / "robots" / "quadruped.urdf"
#: Links of the feet, their radius [m] and friction; inertia of the motors at the joints [kg m^2].
FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
RADIUS, FRICTION, ARMATURE = 0.02, 0.8, 0.01
#: Joint positions in the stance [rad]; gains of the position servos [N m/rad, N m s/rad].
STANCE = np.tile(np.array([0.0, 0.75, -1.5], np.float32), len(FEET))
STIFFNESS, DAMPING = 40.0, 1.0
#: Trot: time of a stride [s], height of a swing [m], phases of the feet.
STRIDE, SWING, PHASES = 0.5, 0.06, np.array([0.0, 0.5, 0.5, 0.0], np.float32)
#: Forward and lateral velocity [m/s], yaw rate [rad/s].
COMMAND = (0.5, 0.0, 0.0)
#: Largest magnitude of an observation; the robot has fallen below this height of the trunk [m].
MAX_OBSERVATION, FALLEN = 100.0, 0.15
#: Time of a picture [s].
PICTURE = 0.04


def load(urdf: Path = URDF) -> gridgen.Robot:
    """Return the robot with spheres at its feet, which touch the ground, and position servos."""
    ground = [{"link": foot, "radius": RADIUS, "friction": FRICTION} for foot in FEET]
    plain = gridgen.load(urdf)
    servos = [
        {"joint": name, "kind": "position", "kp": STIFFNESS, "kv": DAMPING,
         "forcerange": (-limit, limit)}
        for name, limit in zip(plain.joint_names, plain.effort_limits, strict=True)
    ]  # fmt: skip
    return gridgen.load(
        urdf, floating_base=True, joint_dynamics=True, armature=ARMATURE, ground=ground,
        actuators=servos,
    )  # fmt: skip


def standing(robot: gridgen.Robot) -> Array:
    """Return the configuration in which the feet touch the ground, shape (nq,)."""
    q: Array = robot.neutral().astype(np.float32)
    q[7:] = STANCE
    q[2] = RADIUS - robot.forward_kinematics(q, FEET)[:, 2, 3].min()
    return q


def foot_heights(times: NDArray[Any]) -> Array:
    """Return the heights of the feet's origins in a trot, (..., 4), at times [s], (...)."""
    phases = times[..., None].astype(np.float32) / np.float32(STRIDE) + PHASES
    return np.float32(RADIUS) + SWING * np.maximum(0.0, np.sin(2 * np.pi * phases))


def vertical(q: Array) -> Array:
    """Return the vertical in the axes of the trunk, (B, 3)."""
    x, y, z, w = q[:, 3:7].T
    return np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1)


def observations(q: Array, qd: Array, actions: Array, times: NDArray[Any]) -> Array:
    """Return what a policy reads: vertical, velocities, joints, last actions, clock, (B, 47)."""
    phase = 2 * np.pi / STRIDE * times[:, None]
    joints = q[:, 7:] - STANCE, 0.05 * qd[:, 6:]
    parts = vertical(q), qd[:, :6], *joints, actions, np.sin(phase), np.cos(phase)
    return np.clip(np.hstack(parts).astype(np.float32), -MAX_OBSERVATION, MAX_OBSERVATION)


def rewards(
    robot: gridgen.Robot, q: Array, qd: Array, changes: Array, times: NDArray[Any], command: Array
) -> NDArray[np.float64]:
    """Return at most 1.5 for the velocity; less where steps are no trot, and for shaking, (B,).

    Args:
        robot:   the robot.
        q:       configurations.
        qd:      velocities.
        changes: of the actions.
        times:   in the trot [s].
        command: desired velocity, as ``COMMAND``.
    """
    error = np.square(qd[:, [0, 1, 5]] - command)
    feet = robot.forward_kinematics(q, FEET)[:, :, 2, 3] - foot_heights(times)
    good = np.exp(-4 * error[:, :2].sum(axis=1)) + 0.5 * np.exp(-4 * error[:, 2])
    bad = 20 * np.square(feet).sum(axis=1) + 0.5 * np.square(vertical(q)[:, :2]).sum(axis=1)
    bad += 0.5 * np.square(qd[:, 2]) + 0.01 * np.square(changes).sum(axis=1)
    bad += 5 * np.square(q[:, 2] - standing(robot)[2])
    return (good - bad).astype(np.float64)


def write_clip(path: str, pictures: list[NDArray[np.uint8]]) -> None:
    """Write pictures as a GIF, with the colors of the first one."""
    from PIL import Image

    first, *others = map(Image.fromarray, pictures)
    colors = first.quantize(48)
    others = [picture.quantize(palette=colors, dither=Image.Dither.NONE) for picture in others]
    colors.save(path, save_all=True, append_images=others, duration=1e3 * PICTURE, loop=0)


def walk(
    plant: Any,
    controller: Callable[[Array, Array], Array],
    period: float,
    seconds: float,
    command: Sequence[float] = COMMAND,
    clip: str | None = None,
) -> Array:
    """Let a robot walk, print how well, and return its velocities and heights, (steps, 4).

    Args:
        plant:      a simulation of ``plants.py``.
        controller: (q, qd) -> targets of the servos for the next steps, (n, 12).
        period:     time of the n steps [s].
        seconds:    time of all steps.
        command:    desired velocity, as ``COMMAND``.
        clip:       GIF to write, of MuJoCo's pictures.
    """
    height = plant.q[2]
    states: list[list[float]] = []
    pictures: list[NDArray[np.uint8]] = []
    while period * len(states) < seconds and plant.q[2] > FALLEN:
        targets = controller(plant.q, plant.qd)
        for target in targets:
            plant.move(target, period / len(targets))
        states.append([*plant.qd[[0, 1, 5]], plant.q[2]])
        if clip and period * len(states) > PICTURE * len(pictures):
            pictures.append(plant.picture())
    if clip:
        write_clip(clip, pictures)
    found = np.array(states)
    late, end = found[len(found) // 5 :], "walked" if plant.q[2] > FALLEN else "fell after"
    print(f"{end} {period * len(found):.2f} s, simulated by {type(plant).__name__}")
    rows = zip(
        ("forward", "lateral", "yaw rate", "height"), (*command, height), late.T, strict=True
    )
    for name, goal, values in rows:  # [m/s], [m/s], [rad/s], [m]
        print(f"{name:8} {goal:6.3f}: mean {values.mean():6.3f}, deviation {values.std():.3f}")
    return found
