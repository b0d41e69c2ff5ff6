"""Corners of convex hulls that touch a plane, found by a query (``symbolic/memory.py``).

The lowest corner touches the plane, and those of its most parallel face with it: up to four that
are below the plane and below the hull's origin, as in MuJoCo 4.0. The corners are constant in the
frame of their shape, also for derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.model.hulls import MAX_CORNERS, Hull
from gridgen.model.pose import Vector3
from gridgen.symbolic.memory import Constants, Query
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Vector

#: Distance of corners that do not touch [m]; as in the C++ function.
_AWAY = 1e6


def lowest_face(
    hulls: Sequence[Hull], number: float, normal: Vector, height: Scalar, scalars: Scalars
) -> list[Vector]:
    """Return the corners of a hull that touch a plane, in the hull's frame.

    Corners in place of missing ones are far above the plane.

    Args:
        hulls:   of the robot.
        number:  of the hull.
        normal:  of the plane, toward the hull, in the hull's frame.
        height:  of the hull's origin above the plane, less the distance at which corners touch.
        scalars: of the computation.
    """
    operands = [*normal, height, scalars.constant(number)]
    found = scalars.query(_query(tuple(hulls)), operands, ())
    return [(found[k], found[k + 1], found[k + 2]) for k in range(0, 3 * MAX_CORNERS, 3)]


@lru_cache(maxsize=16)
def _query(hulls: tuple[Hull, ...]) -> Query:
    names = [f"{axis}_of_corner_{k}" for k in range(MAX_CORNERS) for axis in "xyz"]
    most = max(len(hull.corners) for hull in hulls)
    return Query(
        "lowest_face",
        _tables(hulls),
        (),
        tuple(names),
        8 * most + 200,
        lambda numbers, _: _lowest_faces(hulls, numbers),
    )


def _tables(hulls: Sequence[Hull]) -> tuple[Constants, Constants]:
    """Return corners and normals, and the faces at each corner.

    The faces: number of hulls, first corner of each, and of none; first record of each corner, and
    of none; records of a face: number of its normal, and its corners, -1 for none.
    """
    corners, normals, records = list[Vector3](), list[Vector3](), list[int]()
    firsts, begins, count = [0], [0], 0
    for hull in hulls:
        first, before = firsts[-1], len(normals)
        for facets in hull.facets:
            for face, around in facets:
                rest = [-1] * (MAX_CORNERS - len(around))
                records += [before + face, *(first + corner for corner in around), *rest]
            count += len(facets)
            begins.append(count)
        corners += hull.corners
        normals += hull.normals
        firsts.append(len(corners))
    reals = tuple(float(x) for vector in (*corners, *normals) for x in vector)
    return Constants("hulls", reals), Constants(
        "hull_faces", (len(hulls), *firsts, *begins, *records)
    )


def _lowest_faces(hulls: Sequence[Hull], numbers: Sequence[Any]) -> list[NDArray[Any]]:
    """Return the results of the query in several states."""
    shape = np.broadcast_shapes(*map(np.shape, numbers))
    rows = np.stack([np.broadcast_to(one, shape).reshape(-1) for one in numbers], axis=-1)
    found = np.zeros((3 * MAX_CORNERS, len(rows)), rows.dtype)
    for state, (*normal, height, number) in enumerate(rows):
        hull = hulls[int(number)]
        ups = hull.points @ normal
        facets = hull.facets[int(np.argmin(ups))]
        slopes = [np.dot(hull.normals[face], normal) for face, _ in facets]
        _, around = facets[int(np.argmin(slopes))]
        own = np.tile(_AWAY * np.array(normal), (MAX_CORNERS, 1))
        for k, corner in enumerate(around):
            if k == 0 or max(ups[corner], ups[corner] + height) <= 0.0:
                own[k] = hull.points[corner]
        found[:, state] = own.ravel()
    return [one.reshape(shape) for one in found]
