"""Height fields: the triangle below a point, found by a query (``symbolic/memory.py``).

A terrain is one array: numbers of rows and columns, x and y of the first point, spacings along x
and y, then the heights by rows. The diagonal of a cell from its first point to the opposite one
divides it into two triangles, as in MuJoCo. The terrain is constant for derivatives; the height of
a point above a triangle is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.functions.arrays import TERRAIN_HEAD
from gridgen.symbolic.memory import Query
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Vector, scale

#: Height of the terrain beyond its edges [m]; as in the C++ function.
BELOW = -1e6


def above(point: Vector, terrain: Sequence[Scalar], scalars: Scalars) -> tuple[Scalar, Vector]:
    """Return the distance of a point from the plane of the triangle below it, and the normal."""
    x, y, height, slope_x, slope_y = scalars.query(_TRIANGLE, point[:2], terrain)
    up = point[2] - (height + (slope_x * (point[0] - x) + slope_y * (point[1] - y)))
    one = scalars.constant(1.0)
    inverse = one / scalars.sqrt(one + (slope_x * slope_x + slope_y * slope_y))
    return up * inverse, scale(inverse, (-slope_x, -slope_y, one))


def _triangles(numbers: Sequence[Any], terrain: Sequence[Any]) -> list[NDArray[Any]]:
    """Return the first point of the cell below each point, and the slopes of the triangle."""
    shape = np.broadcast_shapes(*map(np.shape, (*numbers, *terrain)))
    x, y, *array = (np.broadcast_to(entry, shape).reshape(-1) for entry in (*numbers, *terrain))
    rows, columns = int(array[0][0]), int(array[1][0])
    start_x, start_y, step_x, step_y = array[2:TERRAIN_HEAD]
    u, v = (x - start_x) / step_x, (y - start_y) / step_y
    column = np.clip(np.nan_to_num(u), 0, columns - 2).astype(int)
    row = np.clip(np.nan_to_num(v), 0, rows - 2).astype(int)
    heights = np.stack(array[TERRAIN_HEAD:]).reshape(rows, columns, -1)
    here = np.arange(len(x))
    a, b, c, d = (heights[row + i, column + j, here] for i in (0, 1) for j in (0, 1))
    is_below = u - column > v - row  # the diagonal
    slope_x = np.where(is_below, b - a, d - c) / step_x
    slope_y = np.where(is_below, d - b, c - a) / step_y
    is_out = np.minimum(np.minimum(u, columns - 1 - u), np.minimum(v, rows - 1 - v)) < 0.0
    found = [start_x + column * step_x, start_y + row * step_y, np.where(is_out, BELOW, a)]
    found += [np.where(is_out, 0.0, slope) for slope in (slope_x, slope_y)]
    return [entry.reshape(shape) for entry in found]


_TRIANGLE = Query(
    "triangle_below",
    (),
    ("terrain",),
    ("cell_x", "cell_y", "cell_height", "slope_x", "slope_y"),
    60,
    _triangles,
)
