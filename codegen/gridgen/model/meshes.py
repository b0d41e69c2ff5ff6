"""Spheres and capsules that cover the collision shapes of a robot, meshes included."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from gridgen.errors import UrdfError
from gridgen.model.cover import EXCESS, cover, covering, moved_by
from gridgen.model.description import Mesh, RobotDescription
from gridgen.model.readers.packages import library
from gridgen.naming import one_line, show

#: The excess that is tried first, the largest one, and the ratio of those that follow.
COARSE, _COARSEST, _FINER = 0.064, 0.5, 1.25
# Cells around a mesh, whose centers may be those of spheres.
_CELLS = 30_000
# Directions whose farthest points are drawn of a mesh.
_DIRECTIONS = 100


def spheres_of_links(
    description: RobotDescription, excess: float = EXCESS
) -> dict[str, list[tuple[float, ...]]]:
    """Return spheres and capsules that cover the collision shapes of each link, meshes included.

    Args:
        description: the robot.
        excess:      largest distance by which a sphere protrudes [m].

    Raises:
        UrdfError: a file of a mesh is missing or cannot be read.
    """
    found = {}
    for link in description.links:
        spheres = [sphere for shape in link.shapes if shape for sphere in covering(shape, excess)]
        for mesh in link.meshes:
            spheres += _of_mesh(description.source, mesh, excess)
        if spheres:
            found[link.name] = spheres
    return found


def fewer_spheres(
    description: RobotDescription, most: int
) -> tuple[dict[str, list[tuple[float, ...]]], float]:
    """Return at most a number of spheres that cover the links, with the least excess that has them.

    More, with a large excess, if the links have more shapes. Arguments and errors as of
    ``spheres_of_links``.
    """
    found, excess = spheres_of_links(description, COARSE), COARSE
    while excess > EXCESS and _count(found) <= most:
        finer = max(excess / _FINER, EXCESS)
        other = spheres_of_links(description, finer)
        if _count(other) > most:
            break
        found, excess = other, finer
    while _count(found) > most and excess < _COARSEST:
        excess *= _FINER
        found = spheres_of_links(description, excess)
    return found, excess


def _count(found: dict[str, list[tuple[float, ...]]]) -> int:
    return sum(map(len, found.values()))


def _of_mesh(source: str, mesh: Mesh, excess: float) -> list[tuple[float, ...]]:
    trimesh = library("trimesh", source, "spheres of meshes require")
    tree = library("scipy.spatial", source, "spheres of meshes require").cKDTree
    vertices, faces = mesh.triangles or _read(trimesh, source, mesh)
    points, _ = trimesh.remesh.subdivide_to_size(vertices, faces, 0.125 * excess, max_iter=30)
    # One point in each cell of a twelfth of the excess.
    _, one = np.unique(np.floor(points / (excess / 12.0)).astype(int), axis=0, return_index=True)
    surface, apart = points[one], (0.125 / math.sqrt(3.0) + math.sqrt(3.0) / 12.0) * excess
    nearest = tree(surface)
    low, high = vertices.min(axis=0) - excess, vertices.max(axis=0) + excess
    cell = max(0.5 * excess, float(np.cbrt(np.prod(high - low) / _CELLS)))
    axes = [np.arange(a, b + cell, cell) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    gaps = nearest.query(grid)[0] - apart
    is_inside = _is_inside(gaps > 0.5 * math.sqrt(3.0) * cell)
    own = cover(surface, apart, grid[is_inside], gaps[is_inside], excess)
    array = np.array(own)
    uncovered = np.min([np.linalg.norm(points - s[:3], axis=1) - s[3] for s in array], axis=0) > 0.0
    assert not uncovered.any(), "the spheres do not cover the mesh"
    return moved_by(mesh.pose, own)


def outline_of(source: str, mesh: Mesh) -> Any | None:
    """Return the points (n, 3) of a mesh that are farthest in some directions, in its link's frame.

    ``None`` if trimesh is not installed or the file cannot be read.
    """
    try:
        vertices = mesh.triangles[0] if mesh.triangles else _vertices(source, mesh)
    except UrdfError:
        return None
    turn = math.pi * (3.0 - math.sqrt(5.0))  # directions of a spiral on the sphere
    k = np.arange(_DIRECTIONS)
    z = 1.0 - (2.0 * k + 1.0) / _DIRECTIONS
    side = np.sqrt(1.0 - z * z)
    directions = np.stack([side * np.cos(turn * k), side * np.sin(turn * k), z])
    farthest = vertices[np.unique((vertices @ directions).argmax(axis=0))]
    return farthest @ np.array(mesh.pose.rotation).T + np.array(mesh.pose.translation)


def _vertices(source: str, mesh: Mesh) -> Any:
    return _read(library("trimesh", source, "meshes require"), source, mesh)[0]


def _read(trimesh: Any, source: str, mesh: Mesh) -> tuple[Any, Any]:
    """Return the vertices and the faces of a mesh's file."""
    path = _path(source, mesh.file)
    try:
        loaded = trimesh.load(path, force="mesh")
        vertices, faces = np.array(loaded.vertices) * mesh.scale, np.array(loaded.faces)
    except Exception as error:
        raise UrdfError(f"mesh {path}: {one_line(error)}", source) from error
    if not len(faces):
        raise UrdfError(f"mesh {path} has no faces", source)
    return vertices, faces


def _is_inside(is_apart: Any) -> Any:
    """Return the cells apart from a surface that no path outside of it reaches."""
    outside = np.zeros_like(is_apart)
    outside[0] = is_apart[0]
    while True:
        grown = outside.copy()
        for axis in range(3):
            for step in (1, -1):
                moved = np.roll(outside, step, axis)
                edge = [slice(None)] * 3
                edge[axis] = slice(0, 1) if step > 0 else slice(-1, None)
                moved[tuple(edge)] = False
                grown |= moved
        grown &= is_apart
        if (grown == outside).all():
            return is_apart & ~outside
        outside = grown


def _path(source: str, file: str) -> Path:
    """Return the path of a mesh: relative to the robot's file, or in a ROS package above it."""
    name = file.removeprefix("file://")
    folder = Path(source).absolute().parent
    if not file.startswith("package://"):
        places = [folder / name]
    else:
        name = file.removeprefix("package://")
        roots = [Path(one) for one in os.environ.get("ROS_PACKAGE_PATH", "").split(":") if one]
        places = [above / name for above in (*folder.parents, folder, *roots)]
        places += [one.parent / name for one in roots]
    for place in places:
        if place.is_file():
            return place
    raise UrdfError(
        f"no file of the mesh {show(file)}; the nearest folder tried is {show(str(places[0]))}: "
        "set ROS_PACKAGE_PATH, or correct the name",
        source,
    )
