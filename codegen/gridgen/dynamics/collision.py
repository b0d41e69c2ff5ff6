"""Distances between the spheres and capsules of a robot, and to obstacles.

A search finds the nearest pair (``symbolic/memory.py``), in C++ with a broad phase: a sphere around
all spheres of a link decides for many pairs at once. The distance of that pair is then computed
once more, from the configuration, and is differentiable: almost everywhere its derivative is that
of the minimum.

A capsule is a sphere with an axis. Its nearest point is constant along the axis where the distance
has a first derivative, since the distance does not depend on it to the first order.

A soft minimum of distances d is -t log sum exp(-d / t). A search sums the terms that count, another
one their derivatives by the centers and the axes of the spheres.

A world is one array: the numbers of spheres, capsules, boxes and half-spaces, the three extents of
a grid of signed distances and an unused number, then the obstacles:

* sphere: center, radius
* capsule: both ends, radius
* box: center, quaternion x y z w, half lengths
* half-space: outward normal, distance of its plane from the origin
* grid: first point, spacing, values by x, y, z
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.dynamics.frames import body_poses
from gridgen.dynamics.state import State
from gridgen.functions.arrays import GRID_HEAD, WORLD_HEAD, WORLD_SIZES
from gridgen.model.kinematic_tree import SphereModel
from gridgen.model.spheres import axes_of, places_on_axes
from gridgen.symbolic.memory import Constants, Query
from gridgen.symbolic.scalars import FloatScalars, Scalar, Scalars
from gridgen.symbolic.spatial import Vector, add, apply, constants, cross, dot, scale, sub

#: Distance of a robot that has no pair, or from a world without obstacles [m].
FAR = 1e9
#: Numbers of the record of an obstacle that a search returns.
RECORD = 12
#: Least length of a vector that is divided by it [m].
_TINY = 1e-15
_BOXES, _HALF_SPACES, _GRID = 2, 3, 4
#: Factor of the radius of a capsule in a grid, where spheres half a radius apart cover it.
WIDE = 1.031
Numbers = NDArray[Any]


def self_distance(state: State) -> tuple[Scalar, Scalar]:
    """Return the smallest signed distance between links that may touch, and the pair."""
    tree, scalars, centers = state.tree, state.scalars, _centers(state)
    scalars.begin("distance", -1)
    query = _pair_query(tree.spheres)
    first, second, reach, pair, *places = scalars.query(query, _flat(centers), ())
    used = sorted({link for pair in tree.spheres.pairs for link in pair})
    firsts = tree.spheres.firsts
    spheres = [k for link in used for k in range(firsts[link], firsts[link + 1])]
    a, b = (
        _nearest(tree.spheres, centers, spheres, index, place, scalars)
        for index, place in zip((first, second), places, strict=True)
    )
    return _length(sub(a, b), scalars) - reach, pair


def world_distance(state: State, world: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
    """Return the smallest signed distance of moving links to obstacles, and the nearest sphere."""
    tree, scalars, centers = state.tree, state.scalars, _centers(state)
    scalars.begin("distance", -1)
    query = _world_query(tree.spheres)
    sphere, radius, kind, place, *record = scalars.query(query, _flat(centers), world)
    spheres = [*range(tree.spheres.firsts[tree.spheres.moving])]
    point = _nearest(tree.spheres, centers, spheres, sphere, place, scalars)
    distance = _from_capsule(point, record, scalars)
    for number, of in ((_BOXES, _from_box), (_HALF_SPACES, _from_half_space), (_GRID, _from_grid)):
        before = kind - scalars.constant(number - 0.5)
        distance = scalars.select(before, distance, of(point, record, scalars))
    return distance - radius, sphere


def soft_self_distance(state: State, temperature: Sequence[Scalar]) -> Scalar:
    """Return the soft minimum of the distances of all pairs of spheres that may touch."""
    return _soft(state, temperature)


def soft_world_distance(
    state: State, world: Sequence[Scalar], temperature: Sequence[Scalar]
) -> Scalar:
    """Return the soft minimum of the distances of all moving spheres to all obstacles."""
    return _soft(state, temperature, world)


def _soft(
    state: State, temperature: Sequence[Scalar], world: Sequence[Scalar] | None = None
) -> Scalar:
    scalars, centers = state.scalars, _flat(_centers(state))
    scalars.begin("distance", -1)
    query = _soft_query(state.tree.spheres, world is not None)
    (found,) = scalars.query(query, [*centers, *temperature], () if world is None else world)
    return found


def collision_free(state: State, world: Sequence[Scalar], margin: Sequence[Scalar]) -> Scalar:
    """Return 1 if links and obstacles are at least a margin [m] apart, otherwise 0."""
    tree, scalars, centers = state.tree, state.scalars, _centers(state)
    scalars.begin("distance", -1)
    (free,) = scalars.query(_free_query(tree.spheres), [*_flat(centers), *margin], world)
    return free


def _centers(state: State) -> list[Vector]:
    """Return the centers of all spheres in the world, half axes, centers of the bounds."""
    poses, scalars, links = body_poses(state), state.scalars, state.tree.spheres.links

    def turned(body: int, vector: NDArray[np.float64]) -> Vector:
        own = constants((float(vector[0]), float(vector[1]), float(vector[2])), scalars)
        return own if body < 0 else apply(poses[body].R, own)

    def at(body: int, point: Any) -> Vector:
        own = turned(body, point)
        return own if body < 0 else add(poses[body].p, own)

    found, half = [], []
    for link in links:
        scalars.begin("spheres", link.body)
        centers, axes, _ = axes_of(link.spheres)
        found += [at(link.body, center) for center in centers]
        half += [turned(link.body, axis) for axis in axes if axis.any()]
    scalars.begin("spheres", -1)
    return found + half + [at(link.body, link.bound) for link in links]


def _flat(centers: Sequence[Vector]) -> list[Scalar]:
    return [entry for center in centers for entry in center]


def _nearest(
    model: SphereModel,
    centers: Sequence[Vector],
    spheres: Sequence[int],
    index: Scalar,
    place: Scalar,
    scalars: Scalars,
) -> Vector:
    """Return the point at a place on the axis of a sphere whose index is a result."""
    found = _chosen(centers, spheres, index, scalars)
    if not model.capsules:
        return found
    axes = [constants((0.0, 0.0, 0.0), scalars)] * model.firsts[-1]
    for k, axis in zip(model.capsules, centers[model.firsts[-1] :], strict=False):
        axes[k] = axis
    return add(found, scale(place, _chosen(axes, spheres, index, scalars)))


def _chosen(
    centers: Sequence[Vector], spheres: Sequence[int], index: Scalar, scalars: Scalars
) -> Vector:
    """Return the center with an index that is a result."""
    found = centers[spheres[0]]
    for k in spheres[1:]:
        after = scalars.constant(k - 0.5) - index
        found = tuple(scalars.select(after, a, b) for a, b in zip(centers[k], found, strict=True))
    return found


# -- distances of a point, differentiable --------------------------------------------------------


def _length(v: Vector, scalars: Scalars) -> Scalar:
    return scalars.sqrt(dot(v, v))


def _positive(value: Scalar, scalars: Scalars) -> Scalar:
    return scalars.select(value, scalars.constant(0.0), value)


def _least(a: Scalar, b: Scalar, scalars: Scalars) -> Scalar:
    return scalars.select(a - b, a, b)


def _from_capsule(point: Vector, record: Sequence[Scalar], scalars: Scalars) -> Scalar:
    """Return the distance from a capsule; the ends of that of a sphere are equal."""
    start, axis = tuple(record[:3]), sub(tuple(record[3:6]), tuple(record[:3]))
    arm, one = sub(point, start), scalars.constant(1.0)
    square = dot(axis, axis)
    tiny = scalars.constant(1e-30)
    along = _positive(dot(arm, axis) / scalars.select(square - tiny, one, square), scalars)
    along = _least(along, one, scalars)
    return _length(sub(arm, scale(along, axis)), scalars) - record[6]


def _from_box(point: Vector, record: Sequence[Scalar], scalars: Scalars) -> Scalar:
    x, y, z, w = record[3:7]
    arm = sub(point, tuple(record[:3]))
    axis = (-x, -y, -z)
    twice = scale(scalars.constant(2.0), cross(axis, arm))
    own = add(add(arm, scale(w, twice)), cross(axis, twice))
    beyond = [
        scalars.select(entry, -entry, entry) - half
        for entry, half in zip(own, record[7:10], strict=True)
    ]
    inside = -_least(_least(-beyond[0], -beyond[1], scalars), -beyond[2], scalars)
    out = [_positive(entry, scalars) for entry in beyond]
    square = out[0] * out[0] + out[1] * out[1] + out[2] * out[2]
    outside = scalars.sqrt(scalars.select(-square, square, scalars.constant(1.0)))
    return scalars.select(-square, outside, inside)


def _from_half_space(point: Vector, record: Sequence[Scalar], scalars: Scalars) -> Scalar:
    return dot(tuple(record[:3]), point) - record[3]


def _from_grid(point: Vector, record: Sequence[Scalar], scalars: Scalars) -> Scalar:
    """Return the value of a cell: its first point, the inverse spacing, and values at corners."""
    one = scalars.constant(1.0)
    parts = []
    for entry, start in zip(point, record[:3], strict=True):
        part = _positive((entry - start) * record[3], scalars)
        parts.append(_least(part, one, scalars))
    values = list(record[4:12])
    for part in parts:
        half = len(values) // 2
        values = [a + part * (b - a) for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0]


# -- searches ------------------------------------------------------------------------------------


def _tables(model: SphereModel) -> tuple[Constants, ...]:
    """Return radii and half lengths of axes, first spheres and axes of the links, and pairs."""
    _, axes, radii = axes_of([sphere for link in model.links for sphere in link.spheres])
    capsules = [*model.capsules]
    sizes = [
        *radii,
        *np.linalg.norm(axes[capsules], axis=1),
        *(link.bound[3] for link in model.links),
    ]
    pairs = [link for pair in model.pairs for link in pair]
    numbers = np.full(len(radii) if capsules else 0, -1)
    numbers[capsules] = len(radii) + np.arange(len(capsules))
    links = (len(model.links), model.moving, *model.firsts, *numbers.tolist())
    return (
        Constants("radii", tuple(map(float, sizes))),
        Constants("link_spheres", links),
        Constants("link_pairs", (len(model.pairs), *pairs)),
    )


def _function(model: SphereModel, name: str) -> str:
    return f"{name}<T, {len(model.capsules)}>" if model.capsules else f"{name}<T>"


def _slopes(model: SphereModel) -> tuple[str, ...]:
    return tuple(f"slope_{k}" for k in range(3 * (model.firsts[-1] + len(model.capsules))))


def _pair_count(model: SphereModel) -> int:
    sizes = [len(link.spheres) for link in model.links]
    return sum(sizes[a] * sizes[b] for a, b in model.pairs)


@lru_cache(maxsize=16)
def _pair_query(model: SphereModel) -> Query:
    names = ("first", "second", "reach", "pair", "place", "other")
    radii, links, pairs = _tables(model)
    return Query(
        _function(model, "nearest_pair"),
        (radii, links, pairs),
        (),
        names,
        8 * _pair_count(model),
        lambda numbers, _: _nearest_pair(model, numbers),
    )


@lru_cache(maxsize=16)
def _world_query(model: SphereModel) -> Query:
    names = ("sphere", "radius", "kind", "place", *(f"record_{k}" for k in range(RECORD)))
    radii, links, _ = _tables(model)
    return Query(
        _function(model, "nearest_obstacle"),
        (radii, links),
        ("world",),
        names,
        100 * model.firsts[model.moving],
        lambda numbers, world: _nearest_obstacle(model, numbers, world)[1],
    )


@lru_cache(maxsize=16)
def _free_query(model: SphereModel) -> Query:
    return Query(
        _function(model, "are_apart"),
        _tables(model),
        ("world",),
        ("free",),
        8 * _pair_count(model) + 100 * model.firsts[model.moving],
        lambda numbers, world: _are_apart(model, numbers, world),
    )


@lru_cache(maxsize=16)
def _soft_query(model: SphereModel, of_world: bool) -> Query:
    """Return the search of a soft minimum, with that of its derivatives."""
    arrays: tuple[str, ...] = ()
    name, tables = "pair", _tables(model)
    work, found = 25 * _pair_count(model), _soft_pairs
    if of_world:
        name, tables, arrays = "obstacle", tables[:2], ("world",)
        work, found = 200 * model.firsts[model.moving], _soft_obstacles
    gradient = Query(
        _function(model, f"soft_{name}_slopes"),
        tables,
        arrays,
        _slopes(model),
        2 * work,
        lambda numbers, world: found(model, numbers, world)[1],
    )
    return Query(
        _function(model, f"soft_{name}s"),
        tables,
        arrays,
        ("soft",),
        work,
        lambda numbers, world: found(model, numbers, world)[0],
        gradient,
    )


def _shape(numbers: Sequence[Numbers]) -> tuple[int, ...]:
    return np.broadcast_shapes(*map(np.shape, numbers))


def _columns(numbers: Sequence[Numbers], shape: tuple[int, ...]) -> Numbers:
    """Return numbers as an array with one row each."""
    return np.stack([np.broadcast_to(x, shape).reshape(-1) for x in numbers])


def _axes(
    model: SphereModel, numbers: Sequence[Numbers], shape: tuple[int, ...]
) -> tuple[Numbers, Numbers, Numbers]:
    """Return centers and half axes of spheres (spheres, B, 3), and radii (spheres,)."""
    count, capsules = model.firsts[-1], [*model.capsules]
    rows = _columns(numbers[: 3 * (count + len(capsules))], shape).reshape(-1, 3, math.prod(shape))
    rows = np.moveaxis(rows, 1, 2)
    axes = np.zeros((count, *rows.shape[1:]))
    axes[capsules] = rows[count:]
    return rows[:count], axes, axes_of([s for link in model.links for s in link.spheres])[2]


def _gaps(
    model: SphereModel, numbers: Sequence[Numbers]
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return distances of pairs; first, second, sum of radii, pair; vectors; places on axes."""
    centers, axes, radii = _axes(model, numbers, _shape(numbers))
    rows = [
        (i, j, radii[i] + radii[j], pair)
        for pair, (a, b) in enumerate(model.pairs)
        for i in range(model.firsts[a], model.firsts[a + 1])
        for j in range(model.firsts[b], model.firsts[b + 1])
    ]
    table = np.array(rows or [(0, 0, -FAR, 0)])
    i, j = table[:, :2].astype(int).T
    between, places = centers[i] - centers[j], np.zeros((2, len(table), centers.shape[1]))
    if model.capsules:
        places = np.stack(places_on_axes(between, axes[i], axes[j]))
        between = between + places[0, ..., None] * axes[i] - places[1, ..., None] * axes[j]
    gaps: Numbers = np.linalg.norm(between, axis=2) - table[:, 2:3]
    return gaps, table, between, places


def _nearest_pair(model: SphereModel, numbers: Sequence[Numbers]) -> list[Numbers]:
    """Return the nearest pair of spheres by trying all."""
    gaps, table, _, places = _gaps(model, numbers)
    shape, nearest = _shape(numbers), gaps.argmin(axis=0)
    rows = *table[nearest].T, *np.take_along_axis(places, nearest[None, None], axis=1)[:, 0]
    return [row.reshape(shape) for row in rows]


def _soft_minimum(distances: Numbers, temperature: Numbers) -> tuple[Numbers, Numbers]:
    """Return the soft minimum over the first axis, and its derivatives by the distances."""
    least = distances.min(axis=0)
    terms = np.exp((least - distances) / temperature)
    total = terms.sum(axis=0)
    return least - temperature * np.log(total), terms / total


def _soft_pairs(
    model: SphereModel, numbers: Sequence[Numbers], world: Sequence[Numbers]
) -> tuple[list[Numbers], list[Numbers]]:
    """Return the soft minimum of all pairs of spheres, and its derivatives by their numbers."""
    *centers, temperature = numbers
    gaps, table, between, places = _gaps(model, centers)
    shape = _shape(numbers)
    found, weights = _soft_minimum(gaps, _columns([temperature], shape)[0])
    change = between * (weights / np.maximum(np.linalg.norm(between, axis=2), _TINY))[..., None]
    slopes, turns = np.zeros((2, model.firsts[-1], *change.shape[1:]))
    for k, way in enumerate((change, -change)):
        index = table[:, k].astype(int)
        np.add.at(slopes, index, way)
        np.add.at(turns, index, places[k, ..., None] * way)
    return [found.reshape(shape)], _rows(model, slopes, turns, shape)


def _rows(
    model: SphereModel, slopes: Numbers, turns: Numbers, shape: tuple[int, ...]
) -> list[Numbers]:
    """Return derivatives by centers and axes, (spheres, B, 3), as a list of numbers."""
    every = np.concatenate([slopes, turns[[*model.capsules]]])
    return [row.reshape(shape) for row in np.moveaxis(every, 2, 1).reshape(-1, math.prod(shape))]


def _distances(
    model: SphereModel, numbers: Sequence[Numbers], world: Sequence[Numbers], axis: int = 0
) -> Iterator[tuple[int, Numbers, Numbers, Numbers, Numbers]]:
    """Yield the kind, the record of each sphere, radii, distances and places of each obstacle.

    All are (B, spheres). Distances are complex, with a small step of the centers along an axis.
    """
    count, shape = model.firsts[model.moving], _shape([*numbers, *world])
    centers, axes, radii = _axes(model, numbers, shape)
    centers, axes = (array[:count].transpose(1, 0, 2) for array in (centers, axes))
    radii = np.broadcast_to(radii[:count], centers.shape[:2])
    moved = 1e-30j * np.eye(3)[axis]
    for kind, record_at in _obstacles(_columns(world, shape).T) if count else ():
        of = (_from_capsule, _from_capsule, _from_box, _from_half_space, _from_grid)[kind]

        def at(
            place: Numbers, step: Numbers, of: Any = of, record_at: Any = record_at
        ) -> tuple[Numbers, Numbers]:
            points = centers + place[..., None] * axes
            record = np.broadcast_to(record_at(points), (*points.shape[:2], RECORD))
            moving = tuple(np.moveaxis(points + step, 2, 0))
            return record, of(moving, [*np.moveaxis(record, 2, 0)], FloatScalars())

        place, own = np.zeros(radii.shape), radii
        if model.capsules:
            if kind in (_BOXES, _GRID):
                place = (_place_in_box, _place_in_grid)[kind == _GRID](at, axes, radii)
            else:
                place = _place(kind, record_at(centers), centers, axes)
            own = np.where(axes.any(axis=2) & (kind == _GRID), WIDE * radii, radii)
        record, distances = at(place, moved)
        yield kind, record, own, distances - own, place


def _place(kind: int, record: Numbers, centers: Numbers, axes: Numbers) -> Numbers:
    """Return the places on axes that are nearest to a sphere, a capsule or a half-space."""
    if kind == _HALF_SPACES:
        return np.where((record[..., :3] * axes).sum(axis=-1) < 0.0, 1.0, -1.0)
    start, end = record[..., :3], record[..., 3:6]
    return places_on_axes(centers - (start + end) / 2, axes, (end - start) / 2)[0]


def _place_in_box(at: Any, axes: Numbers, radii: Numbers) -> Numbers:
    """Return the places on axes that are nearest to a convex obstacle, by bisection."""
    low, high = -np.ones(radii.shape), np.ones(radii.shape)
    for _ in range(60):
        middle = (low + high) / 2
        falls = np.imag(at(middle, 1e-30j * axes)[1]) < 0.0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return high


def _place_in_grid(at: Any, axes: Numbers, radii: Numbers) -> Numbers:
    """Return the places of the nearest points, half a radius apart, of capsules in a grid."""
    steps = np.maximum(np.ceil(4.0 * np.linalg.norm(axes, axis=2) / radii - 1e-3), 1.0)
    found = -np.ones(radii.shape)
    best = np.real(at(found, 0.0 * axes)[1])
    for k in range(1, int(steps.max()) + 1):
        place = 2.0 * np.minimum(k / steps, 1.0) - 1.0
        other = np.real(at(place, 0.0 * axes)[1])
        found = np.where(other < best, place, found)
        best = np.minimum(other, best)
    return found


def _soft_obstacles(
    model: SphereModel, numbers: Sequence[Numbers], world: Sequence[Numbers]
) -> tuple[list[Numbers], list[Numbers]]:
    """Return the soft minimum of all spheres and obstacles, its derivatives by their numbers."""
    *centers, temperature = numbers
    shape, count = _shape([*numbers, *world]), model.firsts[-1]
    every = [[*_distances(model, centers, world, axis)] for axis in range(3)]
    if not every[0]:
        return [np.full(shape, FAR)], [np.zeros(shape)] * len(_slopes(model))
    distances = np.array([[one[3] for one in each] for each in every])
    flat = np.moveaxis(np.real(distances[0]), 1, 2)
    found, weights = _soft_minimum(
        flat.reshape(-1, flat.shape[-1]), _columns([temperature], shape)[0]
    )
    change = np.moveaxis(weights.reshape(flat.shape), 1, 2) * np.imag(distances) / 1e-30
    slopes, turns = np.zeros((2, count, flat.shape[-1], 3))
    moving = model.firsts[model.moving]
    slopes[:moving] = change.sum(axis=1).transpose(2, 1, 0)
    places = np.array([one[4] for one in every[0]])
    turns[:moving] = (change * places).sum(axis=1).transpose(2, 1, 0)
    return [found.reshape(shape)], _rows(model, slopes, turns, shape)


def _nearest_obstacle(
    model: SphereModel, numbers: Sequence[Numbers], world: Sequence[Numbers]
) -> tuple[Numbers, list[Numbers]]:
    """Return the smallest distance, and the nearest sphere and obstacle, by trying all."""
    shape = _shape([*numbers, *world])
    batch = math.prod(shape)
    best, here = np.full(batch, FAR), np.arange(batch)
    found = np.zeros((batch, 4 + RECORD))
    found[:, 2], found[:, 7] = _HALF_SPACES, -FAR
    is_bad = np.zeros(batch, bool)
    for kind, record, radii, distances, place in _distances(model, numbers, world):
        distances = np.real(distances)
        is_bad |= np.isnan(distances).any(axis=1)
        sphere = distances.argmin(axis=1)
        at = here, sphere
        made = np.column_stack([sphere, radii[at], np.full(batch, kind), place[at], record[at]])
        found = np.where((distances[at] < best)[:, None], made, found)
        best = np.fmin(distances[at], best)
    best[is_bad] = found[is_bad, 1] = np.nan
    return best.reshape(shape), [column.reshape(shape) for column in found.T]


def _obstacles(rows: Numbers) -> Iterator[tuple[int, Callable[[Numbers], Numbers]]]:
    """Yield the kind and a function of points that returns the records of each obstacle."""
    counts, start = rows[0, :WORLD_HEAD].astype(int), WORLD_HEAD
    for kind, size in enumerate(WORLD_SIZES):
        for _ in range(counts[kind]):
            own = rows[:, start : start + size]
            start += size
            if kind == 0:
                own = own[:, [0, 1, 2, 0, 1, 2, 3]]
            record = np.pad(own, ((0, 0), (0, RECORD - own.shape[1])))[:, None]
            yield kind, lambda _, record=record: record  # type: ignore[misc]
    if (extents := counts[4:7]).all():
        yield _GRID, partial(_cells, rows[:, start:], extents)


def _cells(rows: Numbers, extents: Numbers, centers: Numbers) -> Numbers:
    """Return the record of the cell around each sphere."""
    at = (centers - rows[:, None, :3]) / rows[:, None, 3:4]
    cell = np.clip(at.astype(int), 0, extents - 2)
    record = np.zeros((*centers.shape[:2], RECORD))
    record[..., :3] = rows[:, None, :3] + cell * rows[:, None, 3:4]
    record[..., 3] = 1.0 / rows[:, None, 3]
    values = rows[:, GRID_HEAD : GRID_HEAD + extents.prod()].reshape(len(rows), *extents)
    batch = np.arange(len(rows))[:, None]
    for corner in range(8):
        x, y, z = (cell[..., axis] + (corner >> (2 - axis) & 1) for axis in range(3))
        record[..., 4 + corner] = values[batch, x, y, z]
    return record


def _are_apart(
    model: SphereModel, numbers: Sequence[Numbers], world: Sequence[Numbers]
) -> list[Numbers]:
    """Return 1 if nothing is nearer than the margin, the last number, otherwise 0."""
    *centers, margin = numbers
    gaps = _gaps(model, centers)[0]
    least = gaps.min(axis=0).reshape(_shape(centers))
    least = np.minimum(least, _nearest_obstacle(model, centers, world)[0])
    return [np.where(least >= margin, 1.0, 0.0)]
