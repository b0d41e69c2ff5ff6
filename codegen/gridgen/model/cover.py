"""Spheres that together cover a solid's surface and protrude by no more than a given excess.

A sphere around a point inside, with the depth of the point plus the excess as radius, protrudes by
at most the excess. Greedily, the next sphere is the one that covers the most points of the surface
that no sphere covers yet. The points are dense: a point counts as covered if a sphere also covers
the surface around it, up to the next points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.model.description import Shape
from gridgen.model.pose import Pose

#: Default excess [m].
EXCESS = 0.02
#: Most points inside, and of the surface, that may be centers.
MAX_INSIDE, MAX_OUTSIDE = 1500, 300
# Points of a surface in an excess; fewer on a large solid, whose excess is larger then.
_POINTS, _MAX_POINTS = 6.0, 20_000

Points = NDArray[np.float64]
Sphere = tuple[float, float, float, float]


def covering(shape: Shape, excess: float = EXCESS) -> list[tuple[float, ...]]:
    """Return spheres that cover a collision shape, or a capsule, in the frame of its link.

    Args:
        shape:  the shape; a sphere and a capsule are returned as they are.
        excess: largest distance by which a sphere protrudes [m].
    """
    own = _covered(tuple(shape.half_lengths), tuple(shape.radii), excess)
    return moved_by(shape.pose, own)


def moved_by(pose: Pose, spheres: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    """Return spheres and capsules in the outer frame of a pose."""
    rotation, found = np.array(pose.rotation), []
    for *points, radius in spheres:
        turned = np.reshape(points, (-1, 3)) @ rotation.T + np.array(pose.translation)
        found.append((*turned.reshape(-1).tolist(), radius))
    return found


@lru_cache(maxsize=64)
def _covered(
    half_lengths: tuple[float, ...], own_radii: tuple[float, ...], excess: float
) -> Sequence[tuple[float, ...]]:
    """Return spheres or a capsule in the frame of a shape; legs of a robot have equal ones."""
    half, radii = np.array(half_lengths), np.array(own_radii)
    if not half.any() and radii.min() == radii.max():
        return [(0.0, 0.0, 0.0, float(radii[0]))] if radii[0] > 0.0 else []
    if not half[:2].any() and radii.min() == radii.max() > 0.0:
        return [(0.0, 0.0, -float(half[2]), 0.0, 0.0, float(half[2]), float(radii[0]))]
    rng = np.random.default_rng(0)
    area = 8.0 * sum(a * b for a, b in zip(half + radii, np.roll(half + radii, 1), strict=True))
    excess = max(excess, _POINTS * math.sqrt(area / _MAX_POINTS))
    surface = _surface(half, radii, excess / _POINTS)
    inside = rng.uniform(-1.0, 1.0, (4 * MAX_INSIDE, 3)) * (half + radii)
    depths = -_distance(half, radii, inside)
    is_in = depths > 0.0
    return cover(surface, 0.75 * excess / _POINTS, inside[is_in], depths[is_in], excess)


def _surface(half: Points, radii: Points, step: float) -> Points:
    """Return points of a box, a cylinder or an ellipsoid, at most ``step`` apart."""

    def line(length: float) -> Points:
        return np.linspace(-length, length, math.ceil(2.0 * length / step) + 1)

    def grid(*axes: Points) -> Points:
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))

    if radii.any():
        around = math.pi * float(radii.max())
        turns = np.linspace(0.0, 2.0 * math.pi, math.ceil(2.0 * around / step) + 1)
        if not half.any():
            angles = grid(turns, np.linspace(0.0, math.pi, math.ceil(around / step) + 1))
            across = np.sin(angles[:, 1])
            sides = [across * np.cos(angles[:, 0]), across * np.sin(angles[:, 0])]
            return np.column_stack([*sides, np.cos(angles[:, 1])]) * radii
        rings = np.linspace(0.0, radii[0], math.ceil(radii[0] / step) + 1)
        parts = [grid(turns, radii[:1], line(half[2])), grid(turns, rings, half[2:] * (-1.0, 1.0))]
        angles = np.concatenate(parts)
        sides = [angles[:, 1] * np.cos(angles[:, 0]), angles[:, 1] * np.sin(angles[:, 0])]
        return np.column_stack([*sides, angles[:, 2]])
    axes = [line(length) for length in half]
    ends = [length * np.array([-1.0, 1.0]) for length in half]
    faces = (grid(*axes[:k], ends[k], *axes[k + 1 :]) for k in range(3))
    return np.concatenate([*faces])


def _distance(half: Points, radii: Points, points: Points) -> Points:
    """Return lower bounds of the distances of points to a box plus an ellipsoid."""
    if not half.any():
        scaled: Points = np.linalg.norm(points / np.maximum(radii, 1e-9), axis=-1) - 1.0
        return scaled * float(radii.min())
    if radii[2] < radii[0]:  # a cylinder
        across = np.hypot(points[..., 0], points[..., 1]) - radii[0]
        beyond = np.stack([across, np.abs(points[..., 2]) - half[2]], axis=-1)
        round_by = 0.0
    else:
        beyond, round_by = np.abs(points) - half, float(radii[0])
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=-1)
    found: Points = outside + np.minimum(beyond.max(axis=-1), 0.0) - round_by
    return found


def cover(
    surface: Points, apart: float, inside: Points, depths: Points, excess: float
) -> list[Sphere]:
    """Return spheres that cover a surface.

    Args:
        surface: points of the surface (n, 3).
        apart:   each point of the surface is nearer than this to one of them [m].
        inside:  points inside (m, 3), possible centers.
        depths:  lower bounds of their distances to the surface [m].
        excess:  largest distance by which a sphere protrudes, more than ``apart`` [m].
    """
    rng = np.random.default_rng(0)
    some = rng.permutation(len(inside))[:MAX_INSIDE]
    few = rng.permutation(len(surface))[:MAX_OUTSIDE]
    centers = np.concatenate([inside[some], surface[few]])
    radii = excess + np.concatenate([depths[some], np.zeros(len(few))])
    left, chosen = np.ones(len(surface), bool), []
    while left.any():
        covers = np.array(
            [
                np.einsum("ij,ij->i", surface - c, surface - c) <= (r - apart) ** 2
                for c, r in zip(centers, radii, strict=True)
            ]
        )
        counts = covers[:, left].sum(axis=1)
        while left.any() and counts.max() > 0:
            best = int(np.argmax(counts))
            chosen.append((covers[best], (*centers[best].tolist(), float(radii[best]))))
            new = left & covers[best]
            left &= ~new
            counts -= covers[:, new].sum(axis=1)
        centers = surface[left][:MAX_OUTSIDE]
        radii = np.full(len(centers), excess)
    return [sphere for _, sphere in _needed(chosen)]


def _needed(chosen: list[tuple[Any, Sphere]]) -> list[tuple[Any, Sphere]]:
    """Return the spheres without those that later ones made redundant."""
    times = np.sum([covers for covers, _ in chosen], axis=0)
    selected = []
    for covers, sphere in chosen:
        if (times[covers] > 1).all():
            times = times - covers
        else:
            selected.append((covers, sphere))
    return selected
