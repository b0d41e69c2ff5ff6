"""Quadrupeds walk, each to its own command: an animated SVG picture, and a page to look around.

    python examples/wall.py [--robots 24] [--seconds 2] [--figure wall.svg] [--page wall.html]

Each robot walks by sampling-based control as in ``walking.py``, simulated with contacts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plants
import quadruped
from numpy.typing import NDArray
from walking import AHEAD, DT, Walker

import gridgen

Points = NDArray[np.float64]
#: Pictures of a second; time of the first steps, which the picture leaves out [s].
RATE, BEFORE = 12.5, 1.0
#: Columns, width and height of a robot in the picture [pixels]; pixels of a meter.
COLUMNS, WIDTH, HEIGHT, SCALE = 6, 150, 110, 170.0
#: Angles of the view: about the vertical, and above the ground [rad].
TURN, RISE = 0.5, 0.25
COLORS = ("#1f6feb", "#c2570c", "#1a7f37", "#7c3aed", "#b08800", "#0f766e")
LEGS = ("FL", "FR", "RL", "RR")


def commands(count: int, rng: np.random.Generator) -> Points:
    """Return forward and lateral velocities [m/s] and yaw rates [rad/s], (count, 3)."""
    return rng.uniform((0.3, -0.15, -0.4), (0.8, 0.15, 0.4), (count, 3))


def walked(robot: gridgen.Robot, command: Sequence[float], seconds: float, samples: int) -> Points:
    """Return the configurations of a robot that walks, (T, nq), at ``RATE``."""
    plant = plants.Own(robot, quadruped.URDF)
    walker, path = Walker(robot, command, samples), []
    for step in range(round((BEFORE + seconds) / (AHEAD * DT))):
        for target in walker.step(plant.q, plant.qd):
            plant.move(target, DT)
        if step * AHEAD * DT >= BEFORE and step % round(1 / (RATE * AHEAD * DT)) == 0:
            path.append(plant.q)
    return np.array(path, float)


def seen(poses: Points, q: Points) -> tuple[Points, Points]:
    """Return origins of links on the picture (T, links, 2), and the way of the trunk (T,) [m].

    The view moves and turns with the robot.
    """
    x, y, z, w = q[:, 3:7].T
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    angle = TURN - yaw
    at = poses[:, :, :3, 3] - q[:, None, :3] * (1, 1, 0)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    across, along = c * at[..., 0] - s * at[..., 1], s * at[..., 0] + c * at[..., 1]
    up = np.cos(RISE) * at[..., 2] + np.sin(RISE) * along
    place = np.stack([WIDTH / 2 + SCALE * across, HEIGHT - 25 - SCALE * up], axis=-1)
    steps = np.linalg.norm(np.diff(q[:, :2], axis=0), axis=1)
    return place, np.concatenate([[0.0], np.cumsum(steps)])


def line(points: Points, seconds: float, words: str) -> str:
    """Return a polyline that moves through points (T, n, 2)."""
    values = [" ".join(f"{x:.0f},{y:.0f}" for x, y in now) for now in points]
    return (
        f'<polyline points="{values[0]}" {words}><animate attributeName="points" '
        f'dur="{seconds:g}s" repeatCount="indefinite" values="{";".join(values)}"/></polyline>'
    )


def drawn(robot: gridgen.Robot, q: Points, index: int, seconds: float) -> str:
    """Return a robot of the wall."""
    links = [f"{leg}_{part}" for leg in LEGS for part in ("hip", "thigh", "calf", "foot")]
    place, way = seen(robot.forward_kinematics(q, links), q)
    legs = place.reshape(len(q), len(LEGS), 4, 2)
    color, at = COLORS[index % len(COLORS)], (index % COLUMNS * WIDTH, index // COLUMNS * HEIGHT)
    shift = ";".join(f"{SCALE * x:.0f}" for x in way)
    ground = (
        f'<path d="M8 {HEIGHT - 21}h{WIDTH - 16}" stroke="#9aa5b1" stroke-width="2" '
        f'stroke-dasharray="14 8"><animate attributeName="stroke-dashoffset" dur="{seconds:g}s" '
        f'repeatCount="indefinite" values="{shift}"/></path>'
    )
    thick = 'fill="none" stroke-linecap="round" stroke-linejoin="round" stroke-width="6"'
    far, near = (
        [line(legs[:, k], seconds, f'stroke="{color}" {thick} opacity="{opacity}"') for k in some]
        for some, opacity in (((0, 2), 0.45), ((1, 3), 1.0))
    )
    trunk = line(
        legs[:, [0, 1, 3, 2, 0], 0], seconds,
        f'fill="{color}" stroke="{color}" stroke-width="10" stroke-linejoin="round"',
    )  # fmt: skip
    parts = "\n".join([ground, *far, trunk, *near])
    return f'<g transform="translate({at[0]} {at[1]})">\n{parts}\n</g>'


def picture(robot: gridgen.Robot, paths: Sequence[Points], seconds: float) -> str:
    """Return the wall as an animated SVG picture."""
    rows = -(-len(paths) // COLUMNS)
    size = f"{COLUMNS * WIDTH} {rows * HEIGHT}"
    robots = "\n".join(drawn(robot, q, k, seconds) for k, q in enumerate(paths))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img">\n'
        f"<title>Quadrupeds walk, simulated by grid-gen</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#ffffff"/>\n{robots}\n</svg>\n'
    )


def main(arguments: list[str] | None = None) -> Any:
    """Walk, write the files, print the distances, and return the paths, (robots, T, nq)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--figure", help="SVG file to write")
    parser.add_argument("--page", help="HTML file to write: robot.animate")
    options = parser.parse_args(arguments)
    robot = quadruped.load()
    paths = []
    for command in commands(options.robots, np.random.default_rng(0)):
        paths.append(walked(robot, command, options.seconds, options.samples))
        distance = np.linalg.norm(paths[-1][-1, :2] - paths[-1][0, :2])
        print("command {:5.2f} {:5.2f} {:5.2f}: walked {:.2f} m".format(*command, distance))
    if options.figure:
        Path(options.figure).write_text(picture(robot, paths, options.seconds), encoding="utf-8")
    if options.page:
        robot.animate(np.array(paths), 1 / RATE, options.page, spacing=1.5, force=True)
    return np.array(paths)


if __name__ == "__main__":
    main()
