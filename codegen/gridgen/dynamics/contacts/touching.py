"""Points where the shapes of a contact touch, or are nearest, as in MuJoCo."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from gridgen.dynamics.constraints import Constraints
from gridgen.dynamics.contacts.hulls import lowest_face
from gridgen.dynamics.contacts.rows import TINY
from gridgen.dynamics.contacts.terrain import above
from gridgen.dynamics.frames import Pose
from gridgen.errors import InternalError
from gridgen.model.soft import POINTS, Contact, HeightField, Plane, ShapeKind, Solid
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
#: The center of a shape, and half of its segment, if it has one.
Ends = tuple[Vector, Sequence[Vector]]
#: The nearest point of a shape, the vector to it from that of another one, and how far it is.
Apart = tuple[Vector, Vector, Scalar]
#: Joints that move a shape relative to another one, with their signs.
Path = Sequence[tuple[int, Scalar]]
#: Distance of a point that does not exist, beyond all others [m].
FAR = 1e6
#: Of a point: its distance from a plane, with the plane's normal and tangents.
Surface = Callable[[Vector], tuple[Scalar, Vector, Sequence[Vector]]]


@dataclass(frozen=True)
class Touch:
    """A point of a contact.

    Attributes:
        axes:     body whose axes the vectors are in; -1 is the base.
        path:     joints that move the solid relative to the other shape, with their signs.
        distance: between the shapes.
        find:     computes the point, the normal from the other shape to the solid, and the tangents
                  of the contact; the normal is their cross product.
    """

    axes: int
    path: Path
    distance: Scalar
    find: Callable[[], tuple[Vector, Vector, Sequence[Vector]]]

    @cached_property
    def _found(self) -> tuple[Vector, Vector, Sequence[Vector]]:
        return self.find()

    @property
    def point(self) -> Vector:
        """The point."""
        return self._found[0]

    def rows(self, condim: int) -> tuple[Sequence[Vector], Sequence[Vector]]:
        """Return the axes of a contact's rows: of velocities, and of angular velocities."""
        around = (self._found[1], *self._found[2])
        return around[: min(condim, 3)], around[: max(condim - 3, 0)]


def touches(frame: Constraints, contact: Contact, radius: Scalar) -> Iterator[Touch]:
    """Yield the points of a contact; a point of shapes that are apart is between them.

    Args:
        frame:   of the robot in a state.
        contact: the contact.
        radius:  of its solid.
    """
    frame.scalars.begin("contact", contact.solid.body)
    touch = _TOUCHES.get(contact.kinds)
    if touch is None:
        raise InternalError(f"no points of a contact of {contact.kinds}")
    yield from touch(frame, contact, radius)


def distance_bound(frame: Constraints, contact: Contact, radius: Scalar) -> Scalar:
    """Return a number that is negative where a contact may act, from balls around its shapes."""
    scalars, (solid, other) = frame.scalars, (contact.solid, contact.other)
    axes, _ = frame.path(solid.body, -1)
    kind = contact.kinds[1]
    if kind is ShapeKind.HEIGHT_FIELD:
        return scalars.constant(-1.0)
    reach = scalars.constant(solid.reach + contact.margin)
    reach = reach + scalars.constant(solid.spread) * radius
    center = frame.shape(axes, solid).p
    if kind is ShapeKind.PLANE:
        return _plane(frame, other, axes)(center)[0] - reach  # type: ignore[arg-type]
    between = sub(center, frame.shape(axes, other).p)  # type: ignore[arg-type]
    reach = reach + scalars.constant(other.reach + other.spread * other.radii[0])  # type: ignore[union-attr]
    return dot(between, between) - reach * reach


def prepare(frame: Constraints, contact: Contact) -> None:
    """Compute what contacts with one ground have in common, before a loop over them."""
    axes, _ = frame.path(contact.solid.body, -1)
    kind = contact.kinds[1]
    if kind in (ShapeKind.PLANE, ShapeKind.HEIGHT_FIELD):
        _surface(frame, contact, axes)


def _on_ground(frame: Constraints, contact: Contact, radius: Scalar) -> Iterator[Touch]:
    """Yield the points of a shape on the ground."""
    scalars, solid = frame.scalars, contact.solid
    axes, path = frame.path(solid.body, -1)
    pose = frame.shape(axes, solid)
    shape, _ = contact.kinds
    surface = _surface(frame, contact, axes)
    height, normal, _ = surface(pose.p)
    rod = _edges(solid, pose, scalars) if shape is ShapeKind.CAPSULE else []
    if shape in _LOWEST:
        corners = _LOWEST[shape](solid, pose, normal, radius, scalars)
        radius = scalars.constant(0.0)
    elif shape is ShapeKind.HULL:
        below = height - radius - scalars.constant(contact.margin)
        corners = _of_face(frame, solid, pose, normal, below)
    else:
        corners = _corners(solid, pose, normal, scalars)
    for corner in corners:
        center = add(pose.p, corner)
        distance, normal, turned = surface(center)
        distance = distance - radius
        found = (center, distance, normal, turned)

        def find(found: Any = found, radius: Scalar = radius) -> tuple[Vector, Vector, Any]:
            center, distance, normal, turned = found
            for edge in rod:
                turned = _along(normal, edge, turned, scalars)
            return sub(center, scale(radius + 0.5 * distance, normal)), normal, turned

        yield Touch(axes, path, distance, find)


def _surface(frame: Constraints, contact: Contact, axes: int) -> Surface:
    """Return the surface of the ground of a contact."""
    find: Any = _plane if contact.kinds[1] is ShapeKind.PLANE else _terrain
    surface: Surface = find(frame, contact.other, axes)
    return surface


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
    first = _unit_or(sub(edge, scale(dot(normal, edge), normal)), otherwise[0], scalars)
    return first, cross(normal, first)


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


def _of_face(
    frame: Constraints, solid: Solid, pose: Pose, normal: Vector, height: Scalar
) -> list[Vector]:
    """Return the corners of a convex hull that touch a plane, from its origin."""
    assert solid.hull is not None
    hulls, own = frame.tree.contact_model.hulls, apply(transpose(pose.R), normal)
    corners = lowest_face(hulls, solid.hull.serial, own, height, frame.scalars)
    return [apply(pose.R, corner) for corner in corners]


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


def _of_segments(frame: Constraints, contact: Contact, radius: Scalar) -> Iterator[Touch]:
    """Yield the contacts of spheres around the nearest points of two spheres or capsules."""
    scalars, axes, path, radii, solids = _pair(frame, contact, radius)
    ends = [shape_at(frame, one, axes) for one in solids]
    if not contact.is_parallel:
        yield meeting(frame, axes, path, ends, radii)
        return
    (start, (first,)), (center, (second,)) = ends
    between = sub(start, center)
    shifts = _nearest(between, [first], [second], scalars)
    test, pairs = _of_parallels(between, first, second, scalars)
    at = [scalars.select(test, x, y) for x, y in zip(pairs[0], shifts, strict=True)]
    near, far = (_apart_at(ends, x, scalars) for x in (at, pairs[1]))
    normalized = partial(_normal, frame, axes, ends)
    yield _touch(frame, axes, path, near, radii, normalized)
    found = _touch(frame, axes, path, far, radii, normalized)
    yield replace(found, distance=scalars.select(test, found.distance, scalars.constant(FAR)))


def _of_solid_and_sphere(frame: Constraints, contact: Contact, radius: Scalar) -> Iterator[Touch]:
    """Yield the contact of a sphere at the point of a box or cylinder that is nearest to it."""
    scalars, axes, path, radii, solids = _pair(frame, contact, radius)
    ball, solid = (frame.shape(axes, one) for one in solids)
    own = apply(transpose(solid.R), sub(ball.p, solid.p))
    if contact.kinds[0] is ShapeKind.BOX:
        toward, length = _to_box(own, contact.solid, scalars)
    else:
        toward, length = _to_cylinder(own, contact.solid, radius, scalars)
        radii = radii[0], scalars.constant(0.0)
    normal = apply(solid.R, toward)
    nearest = add(ball.p, scale(length, normal))
    yield _touch(frame, axes, path, (nearest, normal, length), radii, lambda found: found)


def _pair(
    frame: Constraints, contact: Contact, radius: Scalar
) -> tuple[Scalars, int, Path, Sequence[Scalar], tuple[Solid, Solid]]:
    """Return the scalars, axes and path of a pair of shapes, its radii and shapes in order."""
    other: Solid = contact.other  # type: ignore[assignment]
    axes, path = frame.path(contact.solid.body, other.body)
    radii = frame.scalars.constant(other.radii[0]), radius
    return frame.scalars, axes, path, radii, (other, contact.solid)


def shape_at(frame: Constraints, solid: Solid, axes: int) -> Ends:
    """Return the center of a sphere or a capsule, and half of its segment if it has one."""
    pose = frame.shape(axes, solid)
    return pose.p, _edges(solid, pose, frame.scalars)


def apart(
    ends: Sequence[Ends], scalars: Scalars, squares: Sequence[float] | None = None
) -> tuple[Vector, Vector, Scalar]:
    """Return the nearest point of the second of two segments, from that of the first, how far.

    ``squares`` are those of half the lengths of segments, if they are known.
    """
    (start, first), (center, second) = ends
    return _apart_at(ends, _nearest(sub(start, center), first, second, scalars, squares), scalars)


def _apart_at(
    ends: Sequence[Ends], shifts: Sequence[Scalar], scalars: Scalars
) -> tuple[Vector, Vector, Scalar]:
    """Return the same of two points of the segments, from -1 to 1 along each."""
    start, center = (
        add(p, scale(shift, edges[0])) if edges else p
        for (p, edges), shift in zip(ends, shifts, strict=True)
    )
    between = sub(center, start)
    square = dot(between, between)
    length = scalars.sqrt(scalars.select(square - TINY, scalars.constant(TINY), square))
    return center, between, length


def meeting(
    frame: Constraints,
    axes: int,
    path: Path,
    ends: Sequence[Ends],
    radii: Sequence[Scalar],
) -> Touch:
    """Return the contact of two spheres or capsules; ``axes`` and ``path`` as in ``Touch``."""
    normalized = partial(_normal, frame, axes, ends)
    return _touch(frame, axes, path, apart(ends, frame.scalars), radii, normalized)


def _normal(frame: Constraints, axes: int, ends: Sequence[Ends], found: Apart) -> Apart:
    """Return a result of ``apart`` with a unit vector.

    Segments that cross have their cross product; others, and points that coincide, the first axis
    of the base. These are MuJoCo's directions, except of spheres with different third axes.
    """
    center, between, length = found
    scalars, otherwise = frame.scalars, frame.pose(-1, axes).R[0]
    if ends[0][1] and ends[1][1]:
        across = cross(ends[0][1][0], ends[1][1][0])
        otherwise = _unit_or(across, otherwise, scalars)
    test = dot(between, between) - TINY
    unit = zip(otherwise, scale(1.0 / length, between), strict=True)
    x, y, z = (scalars.select(test, a, b) for a, b in unit)
    return center, (x, y, z), length


def _unit_or(vector: Vector, otherwise: Vector, scalars: Scalars) -> Vector:
    """Return a vector of length one, another one in place of zero."""
    square = dot(vector, vector)
    test = square - TINY
    length = scalars.sqrt(scalars.select(test, scalars.constant(1.0), square))
    x, y, z = (scalars.select(test, a, b / length) for a, b in zip(otherwise, vector, strict=True))
    return x, y, z


def _touch(
    frame: Constraints,
    axes: int,
    path: Path,
    found: Apart,
    radii: Sequence[Scalar],
    normalized: Callable[[Apart], Apart],
) -> Touch:
    """Return the contact of two spheres, ``found`` from center to center as of ``apart``."""
    distance = found[2] - radii[0] - radii[1]

    def find() -> tuple[Vector, Vector, Sequence[Vector]]:
        center, normal, _ = normalized(found)
        point = sub(center, scale(radii[1] + 0.5 * distance, normal))
        return point, normal, _turned(frame.pose(-1, axes).R, normal, frame.scalars)

    return Touch(axes, path, distance, find)


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


def _to_cylinder(
    point: Vector, cylinder: Solid, radius: Scalar, scalars: Scalars
) -> tuple[Vector, Scalar]:
    """Return the same of a cylinder as ``_to_box`` of a box."""
    one, zero = scalars.constant(1.0), scalars.constant(0.0)
    x, y, z = point
    square = x * x + y * y
    test = square - TINY
    side = scalars.sqrt(scalars.select(test, one, square))
    outward = (scalars.select(test, one, x / side), scalars.select(test, zero, y / side))
    sign = scalars.select(z, -one, one)
    across = scalars.select(test, zero, side) - radius
    along = sign * z - scalars.constant(cylinder.half_lengths[2])
    # Beyond an edge; otherwise at an end, or at the side.
    square = across * across + along * along
    inside = scalars.select(across, across, scalars.select(along, along, square - TINY))
    length = scalars.sqrt(scalars.select(inside, one, square))
    at_end = across - along
    first = scalars.select(inside, scalars.select(at_end, zero, one), across / length)
    second = scalars.select(inside, scalars.select(at_end, one, zero), along / length)
    length = scalars.select(inside, scalars.select(at_end, along, across), length)
    first, second = -first, -(sign * second)
    return (first * outward[0], first * outward[1], second), length


def _nearest(
    apart: Vector,
    first: Sequence[Vector],
    second: Sequence[Vector],
    scalars: Scalars,
    squares: Sequence[float] | None = None,
) -> tuple[Scalar, Scalar]:
    """Return the nearest points of two segments, from -1 to 1; 0 for the middle, and for a point.

    Args:
        apart:   the center of the first less that of the second.
        first:   half of the first segment; empty for a point.
        second:  half of the second one.
        scalars: of the computation.
        squares: of half the lengths, if they are known.
    """
    one, zero = scalars.constant(1.0), scalars.constant(0.0)
    inverses: list[Scalar] = []
    if squares is None:
        a, c = (dot(own[0], own[0]) if own else zero for own in (first, second))
    else:
        a, c = map(scalars.constant, squares)
        inverses = [scalars.constant(1.0 / square) for square in squares]

    def over(x: Scalar, side: int) -> Scalar:
        return _clipped(x * inverses[side] if inverses else x / (a, c)[side], scalars)

    if not second:
        return (over(-dot(first[0], apart), 0) if first else zero), zero
    v = dot(second[0], apart)
    if not first:
        return zero, over(v, 1)
    u, b = -dot(first[0], apart), -dot(first[0], second[0])
    determinant = a * c - b * b
    test = determinant - PARALLEL
    x = scalars.select(test, zero, (c * u - b * v) / scalars.select(test, one, determinant))
    y = over(v - b * _clipped(x, scalars), 1)
    return over(u - b * y, 0), y


def _of_parallels(
    apart: Vector, first: Vector, second: Vector, scalars: Scalars
) -> tuple[Scalar, list[tuple[Scalar, Scalar]]]:
    """Return a negative number where segments are parallel, and the ends of what both share.

    Arguments and points as of ``_nearest``, of two segments.
    """
    one = scalars.constant(1.0)
    u, v, b = -dot(first, apart), dot(second, apart), -dot(first, second)
    a, c = dot(first, first), dot(second, second)
    ends = [_clipped((u - b * y) / a, scalars) for y in (one, -one)]
    return a * c - b * b - PARALLEL, [(x, _clipped((v - b * x) / c, scalars)) for x in ends]


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


#: Points of shapes on the ground that have no radius there.
_LOWEST = {ShapeKind.CYLINDER: _on_rims, ShapeKind.ELLIPSOID: _lowest}
#: The points of a contact, by the kinds of both shapes.
_TOUCHES: Mapping[tuple[ShapeKind, ShapeKind], Callable[..., Iterator[Touch]]] = {
    **{
        (first, second): _of_segments
        for first in (ShapeKind.SPHERE, ShapeKind.CAPSULE)
        for second in (ShapeKind.SPHERE, ShapeKind.CAPSULE)
    },
    (ShapeKind.BOX, ShapeKind.SPHERE): _of_solid_and_sphere,
    (ShapeKind.CYLINDER, ShapeKind.SPHERE): _of_solid_and_sphere,
    **{
        (shape, ground): _on_ground
        for shape, ground in POINTS
        if ground in (ShapeKind.PLANE, ShapeKind.HEIGHT_FIELD)
    },
}
