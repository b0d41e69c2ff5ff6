"""Spheres that stand for links in queries of distance, and pairs of links that may touch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import OptionError
from gridgen.model.cover import covering
from gridgen.model.description import RobotDescription, suggestion
from gridgen.model.kinematic_tree import Body, Frame, LinkSpheres, Sphere, SphereModel
from gridgen.model.pose import apply, transpose
from gridgen.naming import show, show_value
from gridgen.options import PRIMITIVES, RobotOptions
from gridgen.symbolic.scalars import FloatScalars

#: Random configurations in which pairs of links are tested.
SAMPLES = 4096

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
    spheres: list[Sphere] = []
    for sphere in listed:
        numbers = [*sphere] if isinstance(sphere, (list, tuple)) else []
        if (
            len(numbers) != 4
            or not all(
                isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)
                for x in numbers
            )
            or numbers[3] <= 0.0
        ):
            raise OptionError(
                f"{where}: link {show(frame.name)} has {show_value(sphere)}; give (x, y, z, "
                "radius), finite, with a positive radius [m]"
            )
        x, y, z = apply(frame.rotation, (numbers[0], numbers[1], numbers[2]))
        px, py, pz = frame.translation
        point = (x + px, y + py, z + pz)
        if frame.body >= 0:
            point = apply(transpose(bodies[frame.body].link_rotation), point)
        spheres.append((*map(float, point), float(numbers[3])))  # type: ignore[arg-type]
    return LinkSpheres(frame.name, frame.body, tuple(spheres), bound_of(spheres))


def bound_of(spheres: Sequence[Sphere]) -> Sphere:
    """Return a small sphere around spheres: the center moves to the farthest, in ever less steps.

    Source: Badoiu and Clarkson 2003.
    """
    if len(spheres) == 1:
        return spheres[0]
    array = np.array(spheres)
    centers, radii = array[:, :3], array[:, 3]
    center = centers.mean(axis=0)

    def reach() -> Points:
        found: Points = np.linalg.norm(centers - center, axis=1) + radii
        return found

    for step in range(1, 200):
        far = centers[int(np.argmax(reach()))]
        center = center + (far - center) / (step + 1)
    return (*center.tolist(), float(reach().max()) * (1.0 + 1e-6))


def _of_shapes(frame: Frame) -> list[Sphere]:
    return [sphere for shape in frame.shapes if shape for sphere in covering(shape)]


def _pairs(
    where: str,
    model: SphereModel,
    allowed: Any,
    bodies: Sequence[Body],
    limits: tuple[Sequence[float], Sequence[float]],
    named: Mapping[str, Frame],
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of links that may touch, the nearest first."""
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
    centers = [_at(place, link, link.spheres) for link in model.links]
    bounds = [_at(place, link, (link.bound,))[:, 0] for link in model.links]
    found = []
    for a, b in every:
        one, other = model.links[a], model.links[b]
        reach = one.bound[3] + other.bound[3]
        near = np.flatnonzero(np.linalg.norm(bounds[a] - bounds[b], axis=1) < reach)
        gaps = np.linalg.norm(centers[a][near, :, None] - centers[b][near, None], axis=3)
        gaps -= np.add.outer([s[3] for s in one.spheres], [s[3] for s in other.spheres])
        touching = int((gaps.reshape(len(near), -1).min(axis=1) < 0.0).sum()) if len(near) else 0
        if allowed is not None or 0 < touching < SAMPLES:
            found.append((-len(near), (a, b)))
    return tuple(pair for _, pair in sorted(found))


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
        R, p = (_stacked(entries) for entries in (turn, slide))
        above = poses[body.parent + 1]
        here = np.array(body.rotation)
        R, p = here @ R, (here @ p[..., None])[..., 0] + np.array(body.translation)
        poses.append((above[0] @ R, (above[0] @ p[..., None])[..., 0] + above[1]))
    return poses


def _stacked(entries: Any) -> Points:
    """Return nested tuples of numbers of all samples as an array, samples first."""
    flat = np.asarray(np.broadcast_arrays(*_leaves(entries), np.zeros(SAMPLES))[:-1])
    shape = (3, 3) if isinstance(entries[0], (tuple, list)) else (3,)
    return flat.T.reshape(SAMPLES, *shape)


def _leaves(entries: Any) -> list[Any]:
    if not isinstance(entries, (tuple, list)):
        return [entries]
    return [leaf for entry in entries for leaf in _leaves(entry)]


def _at(place: list[tuple[Any, Any]], link: LinkSpheres, spheres: Sequence[Sphere]) -> Points:
    R, p = place[link.body + 1]
    points = np.array(spheres)[:, :3]
    turned = np.einsum("...ij,kj->...ki", R, points) + p[..., None, :]
    return np.broadcast_to(turned, (SAMPLES, len(spheres), 3))
