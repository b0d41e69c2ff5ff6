"""Constants of the robot that all kernels on teams use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

from gridgen.dynamics.mass import constant_mass
from gridgen.model.tree import Body, KinematicTree
from gridgen.schedules.tables import (
    TableView,
    indices_text,
    lists_text,
    numbers_text,
    rows_text,
)
from gridgen.schedules.team.plan import ScanPlan, pair_starts, pairs
from gridgen.symbolic.joints import JOINT_TYPES
from gridgen.symbolic.scalars import FloatScalars


def scan_tables(plan: ScanPlan) -> Iterable[TableView]:
    """Return the tables, in the order of the generated text."""
    bodies = plan.tree.bodies
    yield numbers_text(
        "Placements in the parents at q = 0: E by rows, r [m]",
        "rest_placements",
        [(*chain.from_iterable(body.rotation), *body.translation) for body in bodies],
    )
    yield numbers_text(
        "Mass [kg], first moment [kg m], rotational inertia [kg m^2]: xx, xy, xz, yy, yz, zz",
        "masses",
        [_mass(body) for body in bodies],
    )
    yield numbers_text(
        "Rotations from the canonical frames to the links' frames, by rows",
        "link_rotations",
        [tuple(chain.from_iterable(body.link_rotation)) for body in bodies],
    )
    numbers = {kind: number for number, kind in enumerate(JOINT_TYPES)}
    found = sorted({(numbers[body.kind], body.kind) for body in bodies})
    joints = ", ".join(f"{number} {kind}" for number, kind in found)
    yield indices_text(f"Joints: {joints}", "kinds", [numbers[body.kind] for body in bodies])
    if any(pitches := [body.joint_type.pitch for body in bodies]):
        comment = "Pitch of each joint: translation per radian [m]"
        yield numbers_text(comment, "pitches", [(pitch,) for pitch in pitches])
    yield indices_text("First coordinate of each joint", "q_indices", [b.q_index for b in bodies])
    yield indices_text("First velocity of each joint", "v_indices", [b.v_index for b in bodies])
    yield indices_text("Levels", "levels", [b.level for b in bodies])
    yield rows_text("Ancestors 1, 2, 4, ... joints above; -1: none", "above", plan.above)
    yield from lists_text("Descendants exactly 1, 2, 4, ... joints below", "below", plan.below)
    yield indices_text("Column of each body's first velocity", "columns", plan.columns)
    yield indices_text("Rows of the mass matrix of each lane", "rows", plan.rows)
    yield indices_text("Body whose lane stores the row of each velocity", "owners", plan.owners)
    yield indices_text("One past the last body coupled with each body", "row_ends", plan.row_ends)
    yield from _optional_tables(plan)


def _optional_tables(plan: ScanPlan) -> Iterable[TableView]:
    tree, bodies = plan.tree, plan.tree.bodies
    if tree.has_mimic:
        yield numbers_text(
            "Each joint's position is multiplier q + offset",
            "mimics",
            [(body.multiplier, body.offset) for body in bodies],
        )
        yield indices_text(
            "Whether each joint mimics another", "follows", [b.mimics for b in bodies]
        )
        yield from lists_text("Joints that mimic each joint", "followers", [plan.followers])
    if "params" in tree.parameters:
        yield from _part_tables(bodies)
    if "damping" in tree.parameters or any(body.damping or body.friction for body in bodies):
        losses = [(body.damping, body.friction) for body in bodies]
        yield numbers_text("Viscous damping and Coulomb friction of each joint", "losses", losses)
    if any(tree.armature) and "armature" not in tree.parameters:
        yield numbers_text("Armature of each velocity", "armatures", [(a,) for a in tree.armature])


def second_derivative_tables(tree: KinematicTree) -> Iterable[TableView]:
    """Return the additional tables of kernels of second derivatives."""
    ends = [tree.subtree(i).stop for i in range(len(tree.bodies))]
    yield indices_text("One past the last descendant of each", "subtree_ends", ends)
    comment = "Pairs of a body and an ancestor: start of each body's"
    yield indices_text(comment, "pair_starts", pair_starts(tree)[:-1], "int")
    found = pairs(tree)
    yield indices_text("The farther body of each pair", "pair_tips", [tip for tip, _ in found])
    yield indices_text("The nearer body", "pair_middles", [middle for _, middle in found])
    if tree.has_mimic:
        moved: list[list[int]] = [[] for _ in range(tree.nv)]
        for i, body in enumerate(tree.bodies):
            moved[body.v_index].append(i)
        lists = tuple(tuple(members) for members in moved)
        yield from lists_text("Bodies whose joints each velocity moves", "moved", [lists])


def _part_tables(bodies: Sequence[Body]) -> Iterable[TableView]:
    """Return the placements of the frames in which rows of ``params`` are expressed."""
    parts = [part for body in bodies for part in body.parts]
    starts = accumulate((len(body.parts) for body in bodies), initial=0)
    yield indices_text(
        "Parts with masses as inputs: start of each body's", "part_starts", [*starts]
    )
    yield indices_text("The row of each", "part_rows", [part.row for part in parts])
    yield numbers_text(
        "Placements of their frames in the bodies': E by rows, r [m]",
        "part_placements",
        [(*chain.from_iterable(part.rotation), *part.translation) for part in parts],
    )


def _mass(body: Body) -> tuple[float, ...]:
    mass = constant_mass(body.rest if body.parts else body, FloatScalars())
    return (mass.m, *mass.h, *mass.I)
