"""Distances between the spheres of a robot, and to obstacles.

A search finds the nearest pair (``symbolic/query.py``), in C++ with a broad phase: a sphere around
all spheres of a link decides for many pairs at once. The distance of that pair is then computed
once more, from the configuration, and is differentiable: almost everywhere its derivative is that
of the minimum.

A soft minimum of distances d is -t log sum exp(-d / t). A search sums the terms that count, another
one their derivatives by the centers of the spheres.

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
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.dynamics.frames import body_poses
from gridgen.dynamics.state import State
from gridgen.functions.arrays import GRID_HEAD, WORLD_HEAD, WORLD_SIZES
from gridgen.model.kinematic_tree import SphereModel
from gridgen.symbolic.memory import Constants
from gridgen.symbolic.query import Query
from gridgen.symbolic.scalars import FloatScalars, Scalar, Scalars
from gridgen.symbolic.spatial import Vector, add, apply, constants, cross, dot, scale, sub

#: Distance of a robot that has no pair, or from a world without obstacles [m].
FAR = 1e9
#: Numbers of the record of an obstacle that a search returns.
RECORD = 12
#: Least length of a vector that is divided by it [m].
_TINY = 1e-15
_BOXES, _HALF_SPACES, _GRID = 2, 3, 4
Numbers = NDArray[Any]


def self_distance(state: State) -> tuple[Scalar, Scalar]:
    """Return the smallest signed distance between links that may touch, and the pair."""
    tree, scalars, centers = state.tree, state.scalars, _centers(state)
    scalars.begin("distance", -1)
    query = _pair_query(tree.spheres)
    first, second, reach, pair = scalars.query(query, _flat(centers), ())
    used = sorted({link for pair in tree.spheres.pairs for link in pair})
    firsts = tree.spheres.firsts
    spheres = [k for link in used for k in range(firsts[link], firsts[link + 1])]
    a, b = (_chosen(centers, spheres, index, scalars) for index in (first, second))
    return _length(sub(a, b), scalars) - reach, pair


def world_distance(state: State, world: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
    """Return the smallest signed distance of moving links to obstacles, and the nearest sphere."""
    tree, scalars, centers = state.tree, state.scalars, _centers(state)
    scalars.begin("distance", -1)
    sphere, radius, kind, *record = scalars.query(_world_query(tree.spheres), _flat(centers), world)
    spheres = range(tree.spheres.firsts[tree.spheres.moving])
    point = _chosen(centers, [*spheres], sphere, scalars)
    distance = _from_capsule(point, record, scalars)
    for number, of in ((_BOXES, _from_box), (_HALF_SPACES, _from_half_space), (_GRID, _from_grid)):
        before = kind - scalars.constant(number - 0.5)
        distance = scalars.select(before, distance, of(point, record, scalars))
    return distance - radius, sphere


def soft_self_distance(state: State, temperature: Sequence[Scalar]) -> Scalar:
    """Return the soft minimum of the distances of all pairs of spheres that may touch."""
    return _soft(state, _soft_pair_query(state.tree.spheres), temperature, ())


def soft_world_distance(
    state: State, world: Sequence[Scalar], temperature: Sequence[Scalar]
) -> Scalar:
    """Return the soft minimum of the distances of all moving spheres to all obstacles."""
    return _soft(state, _soft_world_query(state.tree.spheres), temperature, world)


def _soft(
    state: State, query: Query, temperature: Sequence[Scalar], world: Sequence[Scalar]
) -> Scalar:
    scalars, centers = state.scalars, _flat(_centers(state))
    scalars.begin("distance", -1)
    (found,) = scalars.query(query, [*centers, *temperature], world)
    return found


def collision_free(state: State, world: Sequence[Scalar], margin: Sequence[Scalar]) -> Scalar:
    """Return 1 if links and obstacles are at least a margin [m] apart, otherwise 0."""
    tree, scalars, centers = state.tree, state.scalars, _centers(state)
    scalars.begin("distance", -1)
    (free,) = scalars.query(_free_query(tree.spheres), [*_flat(centers), *margin], world)
    return free


def _centers(state: State) -> list[Vector]:
    """Return the centers of all spheres in the base frame, then those around each link."""
    poses, scalars, links = body_poses(state), state.scalars, state.tree.spheres.links

    def at(body: int, sphere: Sequence[float]) -> Vector:
        point = constants((sphere[0], sphere[1], sphere[2]), scalars)
        return point if body < 0 else add(poses[body].p, apply(poses[body].R, point))

    found = []
    for link in links:
        scalars.begin("spheres", link.body)
        found += [at(link.body, sphere) for sphere in link.spheres]
    scalars.begin("spheres", -1)
    return found + [at(link.body, link.bound) for link in links]


def _flat(centers: Sequence[Vector]) -> list[Scalar]:
    return [entry for center in centers for entry in center]


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
    """Return radii, first spheres of the links, and pairs."""
    radii = [sphere[3] for link in model.links for sphere in link.spheres]
    radii += [link.bound[3] for link in model.links]
    pairs = [link for pair in model.pairs for link in pair]
    return (
        Constants("radii", tuple(map(float, radii))),
        Constants("link_spheres", (len(model.links), model.moving, *model.firsts)),
        Constants("link_pairs", (len(model.pairs), *pairs)),
    )


def _pair_count(model: SphereModel) -> int:
    sizes = [len(link.spheres) for link in model.links]
    return sum(sizes[a] * sizes[b] for a, b in model.pairs)


@lru_cache(maxsize=16)
def _pair_query(model: SphereModel) -> Query:
    names = ("first", "second", "reach", "pair")
    radii, links, pairs = _tables(model)
    return Query(
        "nearest_pair",
        (radii, links, pairs),
        (),
        names,
        8 * _pair_count(model),
        lambda numbers, _: _nearest_pair(model, numbers),
    )


@lru_cache(maxsize=16)
def _world_query(model: SphereModel) -> Query:
    names = ("sphere", "radius", "kind", *(f"record_{k}" for k in range(RECORD)))
    radii, links, _ = _tables(model)
    return Query(
        "nearest_obstacle",
        (radii, links),
        ("world",),
        names,
        100 * model.firsts[model.moving],
        lambda numbers, world: _nearest_obstacle(model, numbers, world)[1],
    )


@lru_cache(maxsize=16)
def _free_query(model: SphereModel) -> Query:
    return Query(
        "are_apart",
        _tables(model),
        ("world",),
        ("free",),
        8 * _pair_count(model) + 100 * model.firsts[model.moving],
        lambda numbers, world: _are_apart(model, numbers, world),
    )


@lru_cache(maxsize=16)
def _soft_pair_query(model: SphereModel) -> Query:
    tables, work = _tables(model), 25 * _pair_count(model)
    names = tuple(f"slope_{k}" for k in range(3 * model.firsts[-1]))
    gradient = Query(
        "soft_pair_slopes", tables, (), names, 2 * work, lambda x, _: _soft_pairs(model, x)[1]
    )
    return Query(
        "soft_pairs", tables, (), ("soft",), work, lambda x, _: _soft_pairs(model, x)[0], gradient
    )


@lru_cache(maxsize=16)
def _soft_world_query(model: SphereModel) -> Query:
    tables, work = _tables(model)[:2], 200 * model.firsts[model.moving]
    names = tuple(f"slope_{k}" for k in range(3 * model.firsts[model.moving]))
    gradient = Query(
        "soft_obstacle_slopes",
        tables,
        ("world",),
        names,
        2 * work,
        lambda x, world: _soft_obstacles(model, x, world)[1],
    )
    return Query(
        "soft_obstacles",
        tables,
        ("world",),
        ("soft",),
        work,
        lambda x, world: _soft_obstacles(model, x, world)[0],
        gradient,
    )


def _shape(numbers: Sequence[Numbers]) -> tuple[int, ...]:
    return np.broadcast_shapes(*map(np.shape, numbers))


def _columns(numbers: Sequence[Numbers], shape: tuple[int, ...]) -> Numbers:
    """Return numbers as an array with one row each."""
    return np.stack([np.broadcast_to(x, shape).reshape(-1) for x in numbers])


def _gaps(model: SphereModel, numbers: Sequence[Numbers]) -> tuple[Numbers, Numbers, Numbers]:
    """Return signed distances of pairs of spheres; first, second, sum of radii, pair; vectors."""
    centers = _columns(numbers[: 3 * model.firsts[-1]], _shape(numbers))
    centers = centers.reshape(model.firsts[-1], 3, -1)
    radii = [sphere[3] for link in model.links for sphere in link.spheres]
    rows = [
        (i, j, radii[i] + radii[j], pair)
        for pair, (a, b) in enumerate(model.pairs)
        for i in range(model.firsts[a], model.firsts[a + 1])
        for j in range(model.firsts[b], model.firsts[b + 1])
    ]
    table = np.array(rows or [(0, 0, -FAR, 0)])
    i, j = table[:, :2].astype(int).T
    between = centers[i] - centers[j]
    gaps: Numbers = np.linalg.norm(between, axis=1) - table[:, 2:3]
    return gaps, table, between


def _nearest_pair(model: SphereModel, numbers: Sequence[Numbers]) -> list[Numbers]:
    """Return the nearest pair of spheres by trying all."""
    gaps, table, _ = _gaps(model, numbers)
    shape = _shape(numbers)
    return [column.reshape(shape) for column in table[gaps.argmin(axis=0)].T]


def _soft_minimum(distances: Numbers, temperature: Numbers) -> tuple[Numbers, Numbers]:
    """Return the soft minimum over the first axis, and its derivatives by the distances."""
    least = distances.min(axis=0)
    terms = np.exp((least - distances) / temperature)
    total = terms.sum(axis=0)
    return least - temperature * np.log(total), terms / total


def _soft_pairs(
    model: SphereModel, numbers: Sequence[Numbers]
) -> tuple[list[Numbers], list[Numbers]]:
    """Return the soft minimum of all pairs of spheres, and its derivatives by the centers."""
    *centers, temperature = numbers
    gaps, table, between = _gaps(model, centers)
    shape = _shape(numbers)
    found, weights = _soft_minimum(gaps, _columns([temperature], shape)[0])
    lengths = np.maximum(np.linalg.norm(between, axis=1), _TINY)
    change = between * (weights / lengths)[:, None]
    slopes = np.zeros((model.firsts[-1], *change.shape[1:]))
    np.add.at(slopes, table[:, 0].astype(int), change)
    np.subtract.at(slopes, table[:, 1].astype(int), change)
    return [found.reshape(shape)], [row.reshape(shape) for row in slopes.reshape(-1, len(found))]


def _distances(
    model: SphereModel, numbers: Sequence[Numbers], world: Sequence[Numbers], axis: int = 0
) -> Iterator[tuple[int, Numbers, Numbers]]:
    """Yield the kind, the record of each sphere and the distances (B, spheres) of each obstacle.

    Distances are complex, with a small step of the centers along an axis.
    """
    count, shape = model.firsts[model.moving], _shape([*numbers, *world])
    batch = math.prod(shape)
    centers = _columns(numbers[: 3 * count], shape).reshape(count, 3, batch).transpose(2, 0, 1)
    radii = np.array([s[3] for link in model.links for s in link.spheres])[:count]
    for kind, record in _obstacles(_columns(world, shape).T, centers) if count else ():
        record = np.broadcast_to(record, (batch, count, RECORD))
        of = (_from_capsule, _from_capsule, _from_box, _from_half_space, _from_grid)[kind]
        point = [np.moveaxis(centers, 2, 0)[k] + 1e-30j * (k == axis) for k in range(3)]
        yield kind, record, of(tuple(point), [*np.moveaxis(record, 2, 0)], FloatScalars()) - radii


def _soft_obstacles(
    model: SphereModel, numbers: Sequence[Numbers], world: Sequence[Numbers]
) -> tuple[list[Numbers], list[Numbers]]:
    """Return the soft minimum of all spheres and obstacles, its derivatives by the centers."""
    *centers, temperature = numbers
    shape, count = _shape([*numbers, *world]), model.firsts[model.moving]
    every = [
        np.array([d.T for *_, d in _distances(model, centers, world, axis)]) for axis in range(3)
    ]
    if not every[0].size:
        return [np.full(shape, FAR)], [np.zeros(shape)] * (3 * count)
    flat = np.real(every[0]).reshape(-1, math.prod(shape))
    found, weights = _soft_minimum(flat, _columns([temperature], shape)[0])
    weights = weights.reshape(every[0].shape)
    slopes = [(weights * np.imag(one) / 1e-30).sum(axis=0) for one in every]
    rows = np.stack(slopes, axis=1).reshape(3 * count, *shape)
    return [found.reshape(shape)], [*rows]


def _nearest_obstacle(
    model: SphereModel, numbers: Sequence[Numbers], world: Sequence[Numbers]
) -> tuple[Numbers, list[Numbers]]:
    """Return the smallest distance, and the nearest sphere and obstacle, by trying all."""
    shape = _shape([*numbers, *world])
    batch = math.prod(shape)
    radii = np.array([s[3] for link in model.links for s in link.spheres])
    best, here = np.full(batch, FAR), np.arange(batch)
    found = np.zeros((batch, 3 + RECORD))
    found[:, 2], found[:, 6] = _HALF_SPACES, -FAR
    for kind, record, distances in _distances(model, numbers, world):
        distances = np.real(distances)
        sphere = distances.argmin(axis=1)
        nearest = distances[here, sphere]
        made = np.column_stack([sphere, radii[sphere], np.full(batch, kind), record[here, sphere]])
        found = np.where((nearest < best)[:, None], made, found)
        best = np.minimum(nearest, best)
    return best.reshape(shape), [column.reshape(shape) for column in found.T]


def _obstacles(rows: Numbers, centers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yield the kind and the record, (B, 1 or spheres, RECORD), of each obstacle."""
    counts, start = rows[0, :WORLD_HEAD].astype(int), WORLD_HEAD
    for kind, size in enumerate(WORLD_SIZES):
        for _ in range(counts[kind]):
            own = rows[:, start : start + size]
            start += size
            if kind == 0:
                own = own[:, [0, 1, 2, 0, 1, 2, 3]]
            yield kind, np.pad(own, ((0, 0), (0, RECORD - own.shape[1])))[:, None]
    if (extents := counts[4:7]).all():
        yield _GRID, _cells(rows[:, start:], extents, centers)


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
