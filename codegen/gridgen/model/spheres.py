"""Spheres and capsules that stand for links, and pairs of links that may touch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import OptionError
from gridgen.model.cover import covering
from gridgen.model.description import RobotDescription, suggestion
from gridgen.model.kinematic_tree import (
    CAPSULE,
    Body,
    Capsule,
    Frame,
    LinkSpheres,
    Sphere,
    SphereModel,
)
from gridgen.model.pose import add, apply, transpose
from gridgen.naming import show, show_value
from gridgen.option_values import PRIMITIVES
from gridgen.options import RobotOptions
from gridgen.symbolic.scalars import FloatScalars

#: Random configurations in which pairs of links are tested.
SAMPLES = 4096
# States that one test tests: about those of a SIMD pack.
_LANES = 16
# A capsule with a shorter axis is a sphere [m].
_SHORTEST, _LARGEST = 1e-9, 1e18

Points = NDArray[np.float64]


def place_spheres(
    description: RobotDescription,
    options: RobotOptions,
    bodies: Sequence[Body],
    frames: Sequence[Frame],
    limits: tuple[Sequence[float], Sequence[float]],
) -> SphereModel:
    """Return the spheres of a robot, and the pairs of links that may touch.

    Args:
        description: the robot.
        options:     of the robot.
        bodies:      of its tree.
        frames:      of its tree.
        limits:      lower and upper limits of q.

    Raises:
        OptionError: a link is unknown, a sphere is invalid, or no link has one.
    """
    where, given = f"{description.source}: spheres", options.spheres
    named = {frame.name: frame for frame in frames}
    if given == PRIMITIVES:
        given = {frame.name: found for frame in frames if (found := _of_shapes(frame))}
        if not given:
            raise OptionError(
                f"{where}: no link has a box, sphere, cylinder or capsule as collision shape: give "
                "spheres by link, or a file of `grid-gen spheres`"
            )
    assert isinstance(given, Mapping)
    links = []
    for name, listed in given.items():
        if name not in named:
            raise OptionError(f"{where}: no link {show(name)}{suggestion(name, named)}")
        if listed:
            links.append(_placed(where, named[name], listed, bodies))
    links.sort(key=lambda link: link.body < 0)
    model = SphereModel(tuple(links))
    return SphereModel(
        model.links, _pairs(where, model, options.allowed_collisions, bodies, limits, named)
    )


def _placed(
    where: str, frame: Frame, listed: Sequence[Sequence[float]], bodies: Sequence[Body]
) -> LinkSpheres:
    """Return the spheres of a link in the canonical frame of its body."""

    def placed(x: float, y: float, z: float) -> tuple[float, ...]:
        point = add(apply(frame.rotation, (x, y, z)), frame.translation)
        if frame.body >= 0:
            point = apply(transpose(bodies[frame.body].link_rotation), point)
        return tuple(map(float, point))

    spheres: list[Any] = []
    for sphere in listed:
        numbers = [*sphere] if isinstance(sphere, (list, tuple)) else []
        if (
            len(numbers) not in (4, CAPSULE)
            or not all(
                isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) <= _LARGEST
                for x in numbers
            )
            or numbers[-1] <= 0.0
        ):
            raise OptionError(
                f"{where}: link {show(frame.name)} has {show_value(sphere)}; give (x, y, z, "
                "radius), or both ends of a capsule's axis and its radius, finite (to "
                f"{_LARGEST:g}), with a positive radius [m]"
            )
        if len(numbers) == CAPSULE and math.dist(numbers[:3], numbers[3:6]) < _SHORTEST:
            numbers = numbers[3:]
        ends = [placed(*numbers[k : k + 3]) for k in range(0, len(numbers) - 1, 3)]
        spheres.append((*chain.from_iterable(ends), float(numbers[-1])))
    return LinkSpheres(frame.name, frame.body, tuple(spheres), bound_of(spheres))


def axes_of(spheres: Sequence[Sphere | Capsule]) -> tuple[Points, Points, Points]:
    """Return the centers of spheres (n, 3), half of their axes (n, 3), and radii (n,)."""
    starts, ends = (np.array([s[at:][:3] for s in spheres]) for at in (0, -4))
    return (starts + ends) / 2, (ends - starts) / 2, np.array([s[-1] for s in spheres])


def places_on_axes(between: Points, axes: Points, others: Points) -> tuple[Points, Points]:
    """Return where axes are nearest to each other, from -1 to 1 along each.

    Args:
        between: vectors between the centers (..., 3).
        axes:    half of the first axes (..., 3); a sphere has zero.
        others:  half of the second axes (..., 3).

    Source: Ericson 2005.
    """
    ab, ar, br = (
        (x * y).sum(axis=-1) for x, y in ((axes, others), (axes, between), (others, between))
    )
    aa, bb = (np.maximum((x * x).sum(axis=-1), 1e-30) for x in (axes, others))
    square = aa * bb
    s = np.clip((ab * br - ar * bb) / np.maximum(square - ab * ab, 1e-12 * square), -1.0, 1.0)
    t = np.clip((ab * s + br) / bb, -1.0, 1.0)
    return np.clip((ab * t - ar) / aa, -1.0, 1.0), t


def bound_of(spheres: Sequence[Sphere | Capsule]) -> Sphere:
    """Return a small sphere around spheres: its center moves to the farthest in smaller steps.

    Source: Badoiu and Clarkson 2003.
    """
    centers, axes, radii = axes_of(spheres)
    if len(spheres) == 1:
        return (*centers[0].tolist(), float(radii[0] + np.linalg.norm(axes[0])))
    centers, radii = np.concatenate([centers - axes, centers + axes]), np.tile(radii, 2)
    center = centers.mean(axis=0)

    def reach() -> Points:
        found: Points = np.linalg.norm(centers - center, axis=1) + radii
        return found

    for step in range(1, 200):
        far = centers[int(np.argmax(reach()))]
        center = center + (far - center) / (step + 1)
    return (*center.tolist(), float(reach().max()) * (1.0 + 1e-6))


def _of_shapes(frame: Frame) -> list[tuple[float, ...]]:
    return [sphere for shape in frame.shapes if shape for sphere in covering(shape)]


def _pairs(
    where: str,
    model: SphereModel,
    allowed: Any,
    bodies: Sequence[Body],
    limits: tuple[Sequence[float], Sequence[float]],
    named: Mapping[str, Frame],
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of links that may touch; those that touch most often per test come first."""
    excluded = set()
    for pair in allowed or ():
        for name in pair:
            if name not in named:
                raise OptionError(
                    f"{where}: allowed_collisions has {show(name)}, no link"
                    f"{suggestion(name, named)}"
                )
        excluded.add(frozenset(pair))

    def moves(a: int, b: int) -> bool:
        """Whether a joint between two links, not adjacent ones, moves them apart."""
        one, other = model.links[a], model.links[b]
        if one.body == other.body or frozenset((one.name, other.name)) in excluded:
            return False
        parents = {-1: -2} | {index: body.parent for index, body in enumerate(bodies)}
        is_adjacent = parents[one.body] == other.body or parents[other.body] == one.body
        return not is_adjacent or allowed is not None

    every = [pair for pair in combinations(range(len(model.links)), 2) if moves(*pair)]
    if not every:
        return ()
    place = _sampled(bodies, limits)
    own = [axes_of(link.spheres) for link in model.links]
    centers, ends = (
        [_at(place, link, c + k * h) for link, (c, h, _) in zip(model.links, own, strict=True)]
        for k in (0, 1)
    )
    bounds = [_at(place, link, [link.bound[:3]])[:, 0] for link in model.links]
    found = []
    for a, b in every:
        one, other = model.links[a], model.links[b]
        reach = one.bound[3] + other.bound[3]
        near = np.flatnonzero(np.linalg.norm(bounds[a] - bounds[b], axis=1) < reach)
        between = centers[a][near, :, None] - centers[b][near, None]
        if any(len(sphere) == CAPSULE for sphere in (*one.spheres, *other.spheres)):
            first = (ends[a] - centers[a])[near, :, None]
            second = (ends[b] - centers[b])[near, None]
            s, t = places_on_axes(between, first, second)
            between = between + s[..., None] * first - t[..., None] * second
        gaps = np.linalg.norm(between, axis=3) - np.add.outer(own[a][2], own[b][2])
        touching = int((gaps.reshape(len(near), -1).min(axis=1) < 0.0).sum()) if len(near) else 0
        if allowed is not None or 0 < touching < SAMPLES:
            each = len(one.spheres) * (1.0 + len(other.spheres) / 2.0)
            tests = 1.0 + min(1.0, _LANES * len(near) / SAMPLES) * each
            found.append((-touching / tests, -len(near), (a, b)))
    return tuple(pair for *_, pair in sorted(found))


def _sampled(
    bodies: Sequence[Body], limits: tuple[Sequence[float], Sequence[float]]
) -> list[tuple[Any, Any]]:
    """Return rotations and translations of the bodies in random configurations."""
    rng = np.random.default_rng(0)
    columns: list[Any] = []
    for low, high in zip(*limits, strict=True):
        known = math.isfinite(low) and math.isfinite(high)
        columns.append(rng.uniform(*((low, high) if known else (-math.pi, math.pi)), SAMPLES))
    scalars, poses = FloatScalars(), [(np.eye(3), np.zeros(3))]
    for index, body in enumerate(bodies):
        joint = body.joint_type
        position = columns[body.q_index : body.q_index + joint.nq]
        if body.mimics:
            position = [body.multiplier * position[0] + body.offset]
        if joint.quaternion is not None:
            first = joint.quaternion
            size = np.sqrt(sum(x**2 for x in position[first : first + 4]))
            position = [x / size if k >= first else x for k, x in enumerate(position)]
        turn, slide = joint.transform(index, position, scalars)
        R, p = _stacked(chain.from_iterable(turn), 3, 3), _stacked(slide, 3)
        above = poses[body.parent + 1]
        here = np.array(body.rotation)
        R, p = here @ R, (here @ p[..., None])[..., 0] + np.array(body.translation)
        poses.append((above[0] @ R, (above[0] @ p[..., None])[..., 0] + above[1]))
    return poses


def _stacked(entries: Iterable[Any], *shape: int) -> Points:
    """Return numbers of all samples as an array, samples first."""
    columns = [np.broadcast_to(entry, SAMPLES) for entry in entries]
    return np.stack(columns, axis=-1).reshape(SAMPLES, *shape)


def _at(place: list[tuple[Any, Any]], link: LinkSpheres, points: Any) -> Points:
    R, p = place[link.body + 1]
    turned = np.einsum("...ij,kj->...ki", R, np.array(points)) + p[..., None, :]
    return np.broadcast_to(turned, (SAMPLES, len(points), 3))
