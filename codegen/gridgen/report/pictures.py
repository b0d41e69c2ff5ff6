"""Shapes of a report's pictures: where things stand; the templates draw them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.check import random_states
from gridgen.dynamics.functions import refusal
from gridgen.dynamics.reference import evaluate_reference
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.report.facts import BATCHES, Speed
from gridgen.schedules.team.plan import ScanPlan
from gridgen.symbolic.scalars import FloatScalars

#: Robots of more velocities have no pictures of matrices: entries would be thinner than a pixel.
MOST_VELOCITIES = 300
#: Largest radius of a dot that stands for a mass, and indentation of a level [pixels].
_DOT, _INDENT, _WIDEST = 7.0, 16.0, 320.0

Pattern = NDArray[np.bool_]


@dataclass(frozen=True)
class Node:
    """A body in the picture of the tree, one line each.

    Attributes:
        x, y:   of its dot, in lines and pixels of indentation.
        up:     line of the body that carries it, -1 for the base.
        radius: of its dot, by the cube root of its mass.
        index:  of the body.
    """

    x: float
    y: int
    up_x: float
    up: int
    radius: float
    index: int


def tree_nodes(tree: KinematicTree) -> list[Node]:
    """Return the tree as an indented list: bodies are in depth-first order already."""
    step = min(_INDENT, _WIDEST / len(tree.levels))
    heaviest = max(body.mass for body in tree.bodies) or 1.0
    nodes = []
    for index, body in enumerate(tree.bodies):
        above = 0.0 if body.parent < 0 else step * (tree.bodies[body.parent].level + 1)
        radius = 1.5 + (_DOT - 1.5) * math.cbrt(max(body.mass, 0.0) / heaviest)
        nodes.append(
            Node(step * (body.level + 1), index + 1, above, body.parent + 1, radius, index)
        )
    return nodes


def scene(tree: KinematicTree) -> dict[str, Any]:
    """Return the skeleton at q = 0, in the base frame, for the page's script.

    Bodies have the place of their joint, its axis, their center of mass and mass, and the number
    of the body below; frames are places of links.
    """
    rotations: list[NDArray[np.float64]] = []
    places: list[NDArray[np.float64]] = []
    bodies = []
    for index, body in enumerate(tree.bodies):
        outer, origin = (
            (np.eye(3), np.zeros(3))
            if body.parent < 0
            else (rotations[body.parent], places[body.parent])
        )
        place = origin + outer @ np.array(body.translation)
        rotation = outer @ np.array(body.rotation)
        if body.offset:
            turn, slide = body.joint_type.transform(index, [body.offset], FloatScalars())
            place, rotation = place + rotation @ np.array(slide), rotation @ np.array(turn)
        rotations.append(rotation)
        places.append(place)
        moment = np.array(body.first_moment)
        center = place + rotation @ (moment / body.mass if body.mass else 0.0 * moment)
        bodies.append(
            {
                "joint": body.joint,
                "link": body.name,
                "kind": body.kind,
                "parent": body.parent,
                "at": _rounded(place),
                "axis": _rounded(rotation[:, 2]),
                "center": _rounded(center),
                "mass": body.mass,
            }
        )
    frames = []
    for frame in tree.frames:
        at = np.array(frame.translation)
        if frame.body >= 0:
            link = np.array(tree.bodies[frame.body].link_rotation)
            at = places[frame.body] + rotations[frame.body] @ (link.T @ at)
        frames.append({"name": frame.name, "body": frame.body, "at": _rounded(at)})
    return {"bodies": bodies, "frames": frames}


def _rounded(vector: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 6) + 0.0 for value in vector]


@dataclass(frozen=True)
class Grid:
    """Where a matrix may have entries that are not zero.

    Attributes:
        title:  what it is.
        size:   (rows, columns).
        runs:   (row, first column, columns) of entries side by side.
        filled: the share of all entries.
    """

    title: str
    size: tuple[int, int]
    runs: tuple[tuple[int, int, int], ...]
    filled: float


def patterns(tree: KinematicTree) -> dict[str, Pattern]:
    """Return where matrices have entries that are not zero in a random state, by their names.

    The factor is L of M = L^T L, whose rows are zero but for ancestors (Featherstone 2005).
    """
    if tree.nv > MOST_VELOCITIES:
        return {}
    states = random_states(tree, 2, np.random.default_rng(0))
    (M,) = evaluate_reference(tree, "mass_matrix", states)
    factor = np.eye(tree.nv, dtype=bool)
    for velocity in tree.velocities.outward():
        for above in tree.velocities.climb(velocity):
            factor[velocity, tree.velocities.parent(above)] = True
    found = {"mass matrix M": (M != 0).any(axis=0), "its factor L": factor}
    gradients = {
        "inverse_dynamics_gradient": ("of efforts by q", "of efforts by qd"),
        "forward_dynamics_gradient": ("of accelerations by q", "of accelerations by qd"),
    }
    for function, titles in gradients.items():
        if refusal(tree, function) is None:
            results = evaluate_reference(tree, function, states)
            for title, result in zip(titles, results, strict=False):
                found[f"gradient {title}"] = (result != 0).any(axis=0)
    return found


def grids(tree: KinematicTree) -> list[Grid]:
    """Return the pictures of matrices."""
    return [grid(title, pattern) for title, pattern in patterns(tree).items()]


def grid(title: str, pattern: Pattern) -> Grid:
    """Return the picture of one matrix."""
    runs: list[tuple[int, int, int]] = []
    for row, entries in enumerate(pattern.tolist()):
        start = 0
        for column, entry in enumerate([*entries, False]):
            if not entry:
                if column > start:
                    runs.append((row, start, column - start))
                start = column + 1
    rows, columns = pattern.shape
    return Grid(title, (rows, columns), tuple(runs), float(pattern.mean()))


def rounds(plan: ScanPlan) -> list[list[tuple[int, int]]]:
    """Return, for each round of a scan, which body hands to which: (ancestor, body)."""
    return [
        [(above, body) for body, above in enumerate(table) if above >= 0]
        for table in plan.above[: plan.rounds]
    ]


@dataclass(frozen=True)
class Curve:
    """States a second over the number of states, both as shares of logarithmic axes."""

    function: str
    points: tuple[tuple[float, float], ...]
    rates: tuple[float, ...]


def curves(speeds: Sequence[Speed]) -> tuple[list[Curve], list[tuple[float, str]]]:
    """Return the curves, and the powers of ten of the vertical axis: (share, label)."""
    rates = [[batch / speed.seconds[batch] for batch in BATCHES] for speed in speeds]
    if not rates:
        return [], []
    low = math.floor(math.log10(min(map(min, rates))))
    high = math.ceil(math.log10(max(map(max, rates))))
    high = max(high, low + 1)
    last = math.log2(BATCHES[-1])

    def point(batch: int, rate: float) -> tuple[float, float]:
        return math.log2(batch) / last, (math.log10(rate) - low) / (high - low)

    drawn = [
        Curve(
            speed.function,
            tuple(point(batch, rate) for batch, rate in zip(BATCHES, those, strict=True)),
            tuple(those),
        )
        for speed, those in zip(speeds, rates, strict=True)
    ]
    labels = [((power - low) / (high - low), f"1e{power}") for power in range(low, high + 1)]
    return drawn, labels
