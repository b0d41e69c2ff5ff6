"""Points where the shapes of a contact touch, or are nearest, as in MuJoCo."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gridgen.dynamics.constraints import Constraints
from gridgen.dynamics.contacts.rows import TINY
from gridgen.dynamics.contacts.terrain import above
from gridgen.dynamics.frames import Pose, in_canonical
from gridgen.model.kinematic_tree import Frame
from gridgen.model.soft import Contact, HeightField, Plane, Solid
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    Vector,
    add,
    apply,
    constants,
    cross,
    dot,
    matmul,
    scale,
    sub,
    transpose,
)

#: Segments with a smaller squared sine of their angle, times their half lengths, are parallel.
PARALLEL = 1e-15
#: Distance of a point that does not exist [m].
FAR = 1e6
#: Of a point: its distance from a plane, with the plane's normal and tangents.
Surface = Callable[[Vector], tuple[Scalar, Vector, Sequence[Vector]]]


@dataclass(frozen=True)
class Touch:
    """A point of a contact.

    Attributes:
        axes:     body whose axes the vectors are in; -1 is the base.
        path:     joints that move the solid relative to the other shape, with their signs.
        point:    the point.
        distance: between the shapes.
        normal:   from the other shape to the solid.
        tangents: of the contact; the normal is their cross product.
    """

    axes: int
    path: Sequence[tuple[int, float]]
    point: Vector
    distance: Scalar
    normal: Vector
    tangents: Sequence[Vector]


def touches(frame: Constraints, contact: Contact, radius: Scalar) -> Iterator[Touch]:
    """Yield the points of a contact; a point of shapes that are apart is between them.

    Args:
        frame:   of the robot in a state.
        contact: the contact.
        radius:  of its solid.
    """
    frame.scalars.begin("contact", contact.solid.body)
    if isinstance(contact.other, Solid):
        yield from _between(frame, contact, contact.other, radius)
    else:
        yield from _on_ground(frame, contact.solid, contact.other, radius)


def _pose(frame: Constraints, solid: Solid, axes: int) -> Pose:
    here = Frame(solid.link, solid.body, solid.pose.rotation, solid.pose.translation)
    placed = in_canonical(frame.state, here)
    return frame.pose(axes, solid.body).child(placed)


def _on_ground(
    frame: Constraints, solid: Solid, ground: Plane | HeightField, radius: Scalar
) -> Iterator[Touch]:
    scalars = frame.scalars
    axes, path = frame.path(solid.body, -1)
    pose = _pose(frame, solid, axes)
    surface = (
        _plane(frame, ground, axes) if isinstance(ground, Plane) else _terrain(frame, ground, axes)
    )
    _, normal, _ = surface(pose.p)
    rod = _edges(solid, pose, scalars) if solid.edges == 1 and solid.is_round else []
    if solid.is_round:
        corners = _corners(solid, pose, normal, scalars)
    else:
        find = _on_rims if solid.is_cylinder else _lowest
        corners, radius = find(solid, pose, normal, radius, scalars), scalars.constant(0.0)
    for corner in corners:
        center = add(pose.p, corner)
        distance, normal, turned = surface(center)
        for edge in rod:
            turned = _along(normal, edge, turned, scalars)
        distance = distance - radius
        point = sub(center, scale(radius + 0.5 * distance, normal))
        yield Touch(axes, path, point, distance, normal, turned)


def _plane(frame: Constraints, plane: Plane, axes: int) -> Surface:
    scalars, height = frame.scalars, frame.scalars.constant(-plane.height)
    normal = constants(plane.normal, scalars)
    turned: Sequence[Vector] = [constants(axis, scalars) for axis in tangents(plane.normal)]
    if axes >= 0:
        base = frame.pose(-1, axes)
        height = height + dot(normal, base.p)
        normal, *turned = (apply(transpose(base.R), axis) for axis in (normal, *turned))
    return lambda point: (dot(normal, point) + height, normal, turned)


def _terrain(frame: Constraints, field: HeightField, axes: int) -> Surface:
    scalars = frame.scalars
    world = frame.pose(-1, axes)  # its rows are the axes of the base
    first, second, third = (constants(row, scalars) for row in field.pose.rotation)
    own = transpose((first, second, third))
    turn = matmul(own, world.R)
    origin = apply(own, sub(world.p, constants(field.pose.translation, scalars)))

    def surface(point: Vector) -> tuple[Scalar, Vector, Sequence[Vector]]:
        place = add(origin, apply(turn, point))
        distance, normal = above(place, frame.state.given["terrain"], scalars)
        normal = apply(transpose(turn), normal)
        return distance, normal, _turned(world.R, normal, scalars)

    return surface


def _along(
    normal: Vector, edge: Vector, otherwise: Sequence[Vector], scalars: Scalars
) -> Sequence[Vector]:
    """Return tangents, the first along a segment."""
    first = sub(edge, scale(dot(normal, edge), normal))
    square = dot(first, first)
    test = square - TINY
    length = scalars.sqrt(scalars.select(test, scalars.constant(1.0), square))
    x, y, z = (
        scalars.select(test, a, b / length) for a, b in zip(otherwise[0], first, strict=True)
    )
    return (x, y, z), cross(normal, (x, y, z))


def _edges(solid: Solid, pose: Pose, scalars: Scalars) -> list[Vector]:
    """Return half of each edge of a solid."""
    return [
        scale(scalars.constant(length), column)
        for length, column in zip(solid.half_lengths, transpose(pose.R), strict=True)
        if length > 0.0
    ]


def _corners(solid: Solid, pose: Pose, normal: Vector, scalars: Scalars) -> list[Vector]:
    """Return the corners of a box that are nearest to a plane, from its center.

    Of each pair of opposite corners, the lower one.
    """
    edges = _edges(solid, pose, scalars)
    if not edges:
        return [constants((0.0, 0.0, 0.0), scalars)]
    if len(edges) == 1:
        return [edges[0], scale(scalars.constant(-1.0), edges[0])]
    corners = []
    for signs in ((1, 1, 1), (1, 1, -1), (1, -1, 1), (1, -1, -1)):
        corner = edges[0]
        for sign, edge in zip(signs[1:], edges[1:], strict=False):
            corner = add(corner, edge) if sign > 0 else sub(corner, edge)
        up = dot(normal, corner)
        x, y, z = (scalars.select(up, x, -x) for x in corner)
        corners.append((x, y, z))
    return corners


def _on_rims(
    solid: Solid, pose: Pose, normal: Vector, radius: Scalar, scalars: Scalars
) -> list[Vector]:
    """Return points on the rims of a cylinder, from its center.

    The lowest points of both rims, and two more of the lower rim that make a triangle there.
    """
    side, _, axis = transpose(pose.R)
    up = dot(normal, axis)
    x, y, z = (scalars.select(up, a, -a) for a in axis)
    axis, up = (x, y, z), scalars.select(up, up, -up)
    down = sub(scale(up, axis), normal)
    first, second = _along(axis, down, (side,), scalars)
    half = scale(scalars.constant(solid.half_lengths[2]), axis)
    rim, back = scale(radius, first), add(half, scale(-0.5 * radius, first))
    other = scale(scalars.constant(math.sqrt(0.75)) * radius, second)
    return [add(half, rim), sub(rim, half), add(back, other), sub(back, other)]


def _lowest(
    solid: Solid, pose: Pose, normal: Vector, radius: Scalar, scalars: Scalars
) -> list[Vector]:
    """Return the lowest point of an ellipsoid, from its center."""
    axes = [
        scale(scalars.constant(own / solid.radii[0]) * radius, column)
        for own, column in zip(solid.radii, transpose(pose.R), strict=True)
    ]
    ups = [dot(normal, axis) for axis in axes]
    size = scalars.sqrt(dot(ups, ups))
    x, y, z = (-(dot(ups, along) / size) for along in zip(*axes, strict=True))
    return [(x, y, z)]


def _between(frame: Constraints, contact: Contact, other: Solid, radius: Scalar) -> Iterator[Touch]:
    """Yield the contacts of spheres around the nearest points of two shapes."""
    scalars, solid = frame.scalars, contact.solid
    axes, path = frame.path(solid.body, other.body)
    poses = [_pose(frame, one, axes) for one in (other, solid)]
    reach = scalars.constant(other.radii[0]) + radius

    def touch(center: Vector, normal: Vector, length: Scalar) -> Touch:
        distance = length - reach
        point = sub(center, scale(radius + 0.5 * distance, normal))
        turned = _turned(frame.pose(-1, axes).R, normal, scalars)
        return Touch(axes, path, point, distance, normal, turned)

    if solid.edges == 3:
        center = poses[0].p
        inner = apply(transpose(poses[1].R), sub(center, poses[1].p))
        toward, length = _to_box(inner, solid, scalars)
        normal = apply(poses[1].R, toward)
        yield touch(add(center, scale(length, normal)), normal, length)
        return
    (_, first), (_, second) = ends = [
        (pose.p, _edges(one, pose, scalars))
        for one, pose in zip((other, solid), poses, strict=True)
    ]

    def at(shifts: Sequence[Scalar]) -> Touch:
        start, center = (
            add(p, scale(shift, edges[0])) if edges else p
            for (p, edges), shift in zip(ends, shifts, strict=True)
        )
        apart = sub(center, start)
        square = dot(apart, apart)
        length = scalars.sqrt(scalars.select(square - TINY, scalars.constant(TINY), square))
        return touch(center, scale(1.0 / length, apart), length)

    between = sub(poses[0].p, poses[1].p)
    shifts = _nearest(between, first, second, scalars)
    if not contact.is_parallel:
        yield at(shifts)
        return
    test, pairs = _of_parallels(between, first[0], second[0], scalars)
    yield at([scalars.select(test, x, y) for x, y in zip(pairs[0], shifts, strict=True)])
    found = at(pairs[1])
    yield replace(found, distance=scalars.select(test, found.distance, scalars.constant(FAR)))


def _turned(world: Sequence[Vector], normal: Vector, scalars: Scalars) -> Sequence[Vector]:
    """Return MuJoCo's tangents of a contact, for the axes of the base."""
    up = dot(world[1], normal)
    test = scalars.select(up, -up, up) - 0.5
    x, y, z = (scalars.select(test, a, b) for a, b in zip(world[1], world[2], strict=True))
    return _along(normal, (x, y, z), ((x, y, z),), scalars)


def _to_box(point: Vector, box: Solid, scalars: Scalars) -> tuple[Vector, Scalar]:
    """Return the direction from a point to the nearest one of a box's surface, and the length.

    The direction of a point in the box is into the box, and its length is negative.
    """
    one, zero = scalars.constant(1.0), scalars.constant(0.0)
    gaps, apart, inward = [], [], []
    for k, (x, half) in enumerate(zip(point, box.half_lengths, strict=True)):
        sign = scalars.select(-x, -one, one)
        gaps.append(scalars.constant(half) + sign * x)
        apart.append(scalars.select(gaps[k], sign * -gaps[k], zero))
        inward.append(tuple(sign if k == row else zero for row in range(3)))
    square = dot(apart, apart)
    test = square - TINY
    length = scalars.sqrt(scalars.select(test, one, square))
    normal, gap = inward[0], gaps[0]
    for other, face in zip(gaps[1:], inward[1:], strict=True):
        closer = other - gap
        normal = tuple(scalars.select(closer, a, b) for a, b in zip(face, normal, strict=True))
        gap = scalars.select(closer, other, gap)
    x, y, z = (scalars.select(test, a, b / length) for a, b in zip(normal, apart, strict=True))
    return (x, y, z), scalars.select(test, -gap, length)


def _nearest(
    apart: Vector, first: Sequence[Vector], second: Sequence[Vector], scalars: Scalars
) -> tuple[Scalar, Scalar]:
    """Return the nearest points of two segments, from -1 to 1; 0 for the middle, and for a point.

    Args:
        apart:   the center of the first less that of the second.
        first:   half of the first segment; empty for a point.
        second:  half of the second one.
        scalars: of the computation.
    """
    one, zero = scalars.constant(1.0), scalars.constant(0.0)
    if not second:
        along = -dot(first[0], apart) / dot(first[0], first[0]) if first else zero
        return _clipped(along, scalars), zero
    if not first:
        return zero, _clipped(dot(second[0], apart) / dot(second[0], second[0]), scalars)
    (u, a), b, (v, c) = _products(apart, first[0], second[0])
    determinant = a * c - b * b
    test = determinant - PARALLEL
    x = scalars.select(test, zero, (c * u - b * v) / scalars.select(test, one, determinant))
    y = _clipped((v - b * _clipped(x, scalars)) / c, scalars)
    return _clipped((u - b * y) / a, scalars), y


def _of_parallels(
    apart: Vector, first: Vector, second: Vector, scalars: Scalars
) -> tuple[Scalar, list[tuple[Scalar, Scalar]]]:
    """Return a negative number where segments are parallel, and the ends of what both share.

    Arguments and points as of ``_nearest``, of two segments.
    """
    one = scalars.constant(1.0)
    (u, a), b, (v, c) = _products(apart, first, second)
    ends = [_clipped((u - b * y) / a, scalars) for y in (one, -one)]
    return a * c - b * b - PARALLEL, [(x, _clipped((v - b * x) / c, scalars)) for x in ends]


def _products(
    apart: Vector, first: Vector, second: Vector
) -> tuple[tuple[Scalar, Scalar], Scalar, tuple[Scalar, Scalar]]:
    """Return the products of two segments with their distance, and with each other."""
    of_first, of_second = -dot(first, apart), dot(second, apart)
    return (of_first, dot(first, first)), -dot(first, second), (of_second, dot(second, second))


def _clipped(x: Scalar, scalars: Scalars) -> Scalar:
    """Return a number between -1 and 1."""
    one = scalars.constant(1.0)
    return scalars.select(x - one, scalars.select(x + one, -one, x), one)


def tangents(normal: Sequence[float]) -> tuple[Vector, Vector]:
    """Return MuJoCo's tangents of a contact with a constant normal."""
    x = np.array(normal)
    y = np.array((0.0, 1.0, 0.0) if abs(x[1]) < 0.5 else (0.0, 0.0, 1.0))
    y -= (x @ y) * x
    y /= np.linalg.norm(y)
    return tuple(y.tolist()), tuple(np.cross(x, y).tolist())
