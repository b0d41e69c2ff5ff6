"""The nearest of many pairs of shapes: these alone are rows of the solver.

A pair then costs its distance, in place of rows that the solver evaluates in every iteration. The
shapes of the nearest pairs are selected by their numbers, which are constant where the results have
derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gridgen.dynamics.constraints import Constraints
from gridgen.dynamics.contacts.touching import FAR, Ends, Touch, apart, meeting, shape_at
from gridgen.model.soft import Contact, Solid
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import Vector, constants

#: Half of the segment in place of a sphere [m], where others are capsules.
_DOT = (1e-12, 0.0, 0.0)


@dataclass(frozen=True)
class Nearest:
    """One of the nearest pairs.

    Attributes:
        contact:  one of those that it may be; they differ in shapes and sliding friction alone.
        touch:    its point.
        friction: sliding friction.
        weight:   approximate inverse inertia of both links.
        shares:   1 of the contact that it is, 0 of others, by the number of the contact.
    """

    contact: Contact
    touch: Touch
    friction: Scalar
    weight: Scalar
    shares: dict[int, Scalar]


def kind_of(contact: Contact) -> tuple[object, ...]:
    """Return what the nearest pairs of a list have in common."""
    softness = contact.softness, contact.friction_solref, contact.margin
    return contact.condim, contact.ratio, *contact.friction[2:], *softness


def nearest(
    frame: Constraints, numbers: Sequence[int], weight_of: Callable[[Solid], float]
) -> tuple[list[Nearest], Scalar]:
    """Return the nearest pairs among contacts of one kind, and the distance of the next one.

    Args:
        frame:     of the robot in a state.
        numbers:   of the contacts, more than the robot's ``max_pairs``.
        weight_of: approximate inverse inertia of a shape's link.
    """
    tree, scalars, model = frame.tree, frame.scalars, frame.tree.contact_model
    scalars.begin("contact", -1)
    known = {number: model.contacts[number] for number in numbers}
    every = dict.fromkeys(solid for one in known.values() for solid in one.solids)
    solids = sorted(every, key=lambda solid: solid.body)
    place = {solid: k for k, solid in enumerate(solids)}
    pairs = {n: [place[solid] for solid in one.solids] for n, one in known.items()}
    numbers = sorted(numbers, key=pairs.__getitem__)
    lines = [[*tree.ancestors(s.body)[::-1], s.body] if s.body >= 0 else [-1] for s in solids]
    roots = {line[0] for line in lines}
    root = roots.pop() if len(roots) == 1 else -1
    axes = root if root >= 0 and tree.bodies[root].joint_type.is_free else -1
    shapes = [shape_at(frame, solid, axes) for solid in solids]
    if any(edges for _, edges in shapes):
        dot = constants(_DOT, scalars)
        shapes = [(center, edges or [dot]) for center, edges in shapes]
    squares = [max(max(solid.half_lengths), _DOT[0]) ** 2 for solid in solids]
    radii = frame.state.given["radii"]
    fixed = [scalars.constant(solid.radii[0]) for solid in solids]

    slots: list[tuple[Scalar, Scalar]] = []
    rest = scalars.constant(FAR)
    for n, number in enumerate(numbers):
        here, there = pairs[number]
        known_squares = [squares[there], squares[here]] if shapes[0][1] else None
        length = apart((shapes[there], shapes[here]), scalars, known_squares)[2]
        (distance,) = scalars.hold([length - fixed[there] - radii[number]])
        index = scalars.constant(float(n))
        for k, (other, before) in enumerate(slots):
            test = distance - other
            slots[k] = tuple(
                scalars.select(test, a, b) for a, b in ((distance, other), (index, before))
            )
            distance, index = (
                scalars.select(test, a, b) for a, b in ((other, distance), (before, index))
            )
        if len(slots) < model.max_pairs:
            slots.append((distance, index))
        else:
            rest = scalars.select(distance - rest, distance, rest)

    bodies = sorted({body for line in lines for body in line if body >= 0})
    found = []
    for _, index in slots:
        places = [
            _picked(index, [scalars.constant(float(pairs[n][side])) for n in numbers], scalars)
            for side in (0, 1)
        ]
        ends: list[Ends] = [
            (
                _vector(at, [center for center, _ in shapes], scalars),
                [_vector(at, [own[0] for _, own in shapes], scalars)] if shapes[0][1] else [],
            )
            for at in places[::-1]
        ]
        radius = _picked(index, [radii[n] for n in numbers], scalars)
        path = []
        for body in bodies:
            on = [scalars.constant(float(body in line)) for line in lines]
            if body != axes:
                here, there = (_picked(at, on, scalars) for at in places)
                path.append((body, here - there))
        weights = [scalars.constant(weight_of(solid)) for solid in solids]
        first, second = (_picked(at, weights, scalars) for at in places)
        one, zero = scalars.constant(1.0), scalars.constant(0.0)
        between = [index - (n + 0.5) for n in range(len(numbers) - 1)]
        steps = [zero, *(scalars.select(test, one, zero) for test in between), one]
        found.append(
            Nearest(
                known[numbers[0]],
                meeting(frame, axes, path, ends, (_picked(places[1], fixed, scalars), radius)),
                _picked(index, [frame.state.given["friction"][n] for n in numbers], scalars),
                first + second,
                {number: steps[n + 1] - steps[n] for n, number in enumerate(numbers)},
            )
        )
    return found, rest


def _vector(index: Scalar, vectors: Sequence[Vector], scalars: Scalars) -> Vector:
    x, y, z = (_picked(index, entries, scalars) for entries in zip(*vectors, strict=True))
    return x, y, z


def _picked(index: Scalar, values: Sequence[Scalar], scalars: Scalars) -> Scalar:
    """Return the value of an index, by comparisons where values change."""
    found = values[-1]
    for n in range(len(values) - 2, -1, -1):
        if values[n] is not values[n + 1]:
            found = scalars.select(index - (n + 0.5), values[n], found)
    return found
