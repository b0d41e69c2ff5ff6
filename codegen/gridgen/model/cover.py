"""Spheres that together cover a solid and protrude from it by no more than a given excess.

A grid of cells covers the solid. A sphere around a point inside, with the depth of the point plus
the excess as radius, protrudes by at most the excess. Greedily, the next sphere is the one that
covers the most cells that no sphere covers yet; a cell is covered as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridgen.model.description import Shape

#: Default excess [m].
EXCESS = 0.02
#: Most cells of a solid.
MOST_CELLS = 2000

Points = NDArray[np.float64]
Sphere = tuple[float, float, float, float]
#: Returns lower bounds of the absolute value of the signed distance of points, with its sign;
#: negative inside. The argument is half the diagonal of the cells around the points.
Distance = Callable[[Points, float], Points]


def covering(shape: Shape, excess: float = EXCESS) -> list[Sphere]:
    """Return spheres that cover a collision shape, in the frame of its link.

    Args:
        shape:  the shape; a sphere is returned as it is, a capsule as a chain of spheres.
        excess: largest distance by which a sphere protrudes [m].
    """
    half, radii = np.array(shape.half_lengths), np.array(shape.radii)
    if not half.any() and radii.min() == radii.max():
        own = [(0.0, 0.0, 0.0, float(radii[0]))] if radii[0] > 0.0 else []
    elif not half[:2].any() and radii.min() == radii.max() > 0.0:
        own = _along(float(half[2]), float(radii[0]), excess)
    else:
        own = cover(lambda points, _: _distance(half, radii, points), half + radii, excess)
    rotation = np.array(shape.pose.rotation)
    centers = np.array([sphere[:3] for sphere in own]).reshape(-1, 3) @ rotation.T
    centers += np.array(shape.pose.translation)
    return [(*center, sphere[3]) for center, sphere in zip(centers.tolist(), own, strict=True)]


def _along(half: float, radius: float, excess: float) -> list[Sphere]:
    """Return spheres that cover a capsule, with centers on its axis."""
    reach = math.sqrt((radius + excess) ** 2 - radius**2)
    count = math.ceil(half / reach) + 1
    own = math.hypot(radius, half / (count - 1))
    return [(0.0, 0.0, half * (2.0 * k / (count - 1) - 1.0), own) for k in range(count)]


def _distance(half: Points, radii: Points, points: Points) -> Points:
    """Return lower bounds of the distances of points to a box plus an ellipsoid."""
    if not half.any():
        scaled: Points = np.linalg.norm(points / np.maximum(radii, 1e-9), axis=1) - 1.0
        return scaled * float(radii.min())
    if radii[2] < radii[0]:  # a cylinder
        across = np.hypot(points[:, 0], points[:, 1]) - radii[0]
        beyond = np.stack([across, np.abs(points[:, 2]) - half[2]], axis=1)
        round_by = 0.0
    else:
        beyond, round_by = np.abs(points) - half, float(radii[0])
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=1)
    found: Points = outside + np.minimum(beyond.max(axis=1), 0.0) - round_by
    return found


def cover(
    distance: Distance, reach: Points, excess: float, center: Points | float = 0.0
) -> list[Sphere]:
    """Return spheres that cover a solid.

    Args:
        distance: signed distances to the solid.
        reach:    half lengths of a box around the solid.
        excess:   largest distance by which a sphere protrudes [m]; more for a solid of more than
                  ``MOST_CELLS`` cells.
        center:   center of the box.
    """
    cell = excess / math.sqrt(3.0)
    while True:
        counts = np.maximum(np.ceil(2.0 * reach / cell), 1.0).astype(int)
        if counts.prod() <= 40 * MOST_CELLS:
            axes = [(np.arange(n) + 0.5) * cell - 0.5 * n * cell for n in counts]
            points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3) + center
            half = 0.5 * math.sqrt(3.0) * cell
            depths = distance(points, half)
            is_in = depths <= half
            if is_in.sum() <= MOST_CELLS:
                break
        cell *= 1.1
    # Twice half a diagonal: the sphere around a cell at the surface covers this cell.
    points, radii = points[is_in], max(excess, 2.0 * half) * (1.0 + 1e-9) - depths[is_in]
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    covers = gaps + half <= radii[:, None]
    left, counts = np.ones(len(points), bool), covers.sum(axis=1)
    chosen: list[int] = []
    while left.any():
        chosen.append(int(np.argmax(counts)))
        new = left & covers[chosen[-1]]
        left &= ~new
        counts -= covers[:, new].sum(axis=1)
    for one in [*chosen]:  # without those that later ones made redundant
        others = [other for other in chosen if other != one]
        if others and covers[others].any(axis=0).all():
            chosen = others
    return [(*points[k].tolist(), float(radii[k])) for k in chosen]
