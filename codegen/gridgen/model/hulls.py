"""Convex hulls of meshes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridgen.model.pose import Vector3

#: Most corners of a face that touch a plane.
MAX_CORNERS = 4


@dataclass(frozen=True)
class Hull:
    """A convex polyhedron.

    Attributes:
        corners: in the frame of its shape [m].
        faces:   corners of each face, counterclockwise from outside.
        normals: of each face, outward.
        serial:  number of the hull among those of a robot's contacts.
    """

    corners: tuple[Vector3, ...]
    faces: tuple[tuple[int, ...], ...]
    normals: tuple[Vector3, ...]
    serial: float = 0.0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.corners, self.faces, self.serial))

    @cached_property
    def reach(self) -> float:
        """The largest distance of a corner from the origin [m]."""
        return float(np.linalg.norm(self.points, axis=1).max())

    @cached_property
    def points(self) -> NDArray[np.float64]:
        """The corners, shape (n, 3)."""
        return np.array(self.corners)

    @cached_property
    def facets(self) -> tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]:
        """For each corner its faces, with the corners of each that may touch a plane with it.

        The first of these is the corner itself; the others follow in the order of the face.
        """
        found: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in self.corners]
        for number, face in enumerate(self.faces):
            for k, corner in enumerate(face):
                around = face[k:] + face[:k]
                if len(around) > MAX_CORNERS:
                    around = tuple(
                        around[place] for place in _quadrilateral(self.points[[*around]])
                    )
                found[corner].append((number, around))
        return tuple(map(tuple, found))


def _quadrilateral(points: NDArray[np.float64]) -> list[int]:
    """Return a large quadrilateral of the corners of a convex polygon, the first one among them.

    As in MuJoCo, the other corners advance, the last one first, while the area grows.
    """
    corners = points.tolist()

    def area(places: Sequence[int]) -> float:
        a, b, c, d = (corners[place % len(corners)] for place in places)
        first, second = ([y - x for x, y in zip(*ends, strict=True)] for ends in ((a, c), (b, d)))
        return math.hypot(
            first[1] * second[2] - first[2] * second[1],
            first[2] * second[0] - first[0] * second[2],
            first[0] * second[1] - first[1] * second[0],
        )

    places = [0, 1, 2, 3]
    size = area(places)

    def advance(k: int) -> bool:
        nonlocal size
        after = [place + (k == own) for own, place in enumerate(places)]
        if (found := area(after)) <= size:
            return False
        places[:], size = after, found
        return True

    while advance(3):
        while advance(2):
            pass
        while advance(1):
            pass
    return [place % len(points) for place in places]
