"""Constants of the robot that only kernels of derivatives and inverses read."""

from __future__ import annotations

from collections.abc import Iterable

from gridgen.model.tree import KinematicTree
from gridgen.schedules.tables import TableView, indices_text, lists_text, numbers_text
from gridgen.schedules.team.memory import Branches, axis_starts, pair_starts, pairs


def gradient_tables(tree: KinematicTree) -> Iterable[TableView]:
    """Return the tables, in the order of the generated text."""
    branches = Branches(tree)
    yield indices_text(
        "The previous velocity on the path to the base; -1: none",
        "branch_parents",
        branches.parents,
    )
    yield indices_text("Number of velocities before it", "branch_depths", branches.depths)
    yield indices_text("Packed rows: start of each", "branch_starts", branches.starts, "int")
    yield indices_text("One past the last descendant of each", "branch_ends", branches.ends)
    yield indices_text("The velocities sorted by depth", "branch_ordered", branches.ordered)
    yield indices_text("Start of each depth", "branch_levels", branches.levels)
    if any(body.damping for body in tree.bodies) and "damping" not in tree.parameters:
        coefficients = [(damping,) for damping in tree.damping]
        yield numbers_text("Viscous damping of each velocity", "dampings", coefficients)
    if tree.has_mimic:
        yield from _axis_tables(tree)


def second_derivative_tables(tree: KinematicTree) -> Iterable[TableView]:
    """Return the additional tables of kernels of second derivatives."""
    yield indices_text(
        "Pairs of a body and an ancestor: start of each body's",
        "pair_starts",
        pair_starts(tree)[:-1],
        "int",
    )
    found = pairs(tree)
    yield indices_text("The farther body of each pair", "pair_tips", [tip for tip, _ in found])
    yield indices_text("The nearer body", "pair_middles", [middle for _, middle in found])


def _axis_tables(tree: KinematicTree) -> Iterable[TableView]:
    """Return the tables that distinguish axes from velocities if there are mimic joints."""
    starts = axis_starts(tree)
    owners = [i for i, body in enumerate(tree.bodies) for _ in range(body.nv)]
    moved: list[list[int]] = [[] for _ in range(tree.nv)]
    for i, body in enumerate(tree.bodies):
        for c in range(body.nv):
            moved[body.v_index + c].append(starts[i] + c)
    ends = [tree.subtree(i).stop for i in range(len(tree.bodies))]
    yield indices_text("First axis of each body's joint", "axis_starts", starts[:-1])
    yield indices_text("The body of each axis", "axis_bodies", owners)
    yield indices_text("One past the last descendant of each", "subtree_ends", ends)
    lists = tuple(tuple(members) for members in moved)
    yield from lists_text("Axes that each velocity moves", "moved", [lists])
