"""Data of the templates of the scan schedule: the robot and its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from gridgen.dynamics.mass import constant_mass
from gridgen.functions.arrays import ARRAYS, BODY_PARAMETERS, PARAMETERS
from gridgen.kernel import Kernel
from gridgen.model.tree import Body, KinematicTree
from gridgen.schedules.scan.kernels import ScanKernel
from gridgen.schedules.team.plan import AT_ONCE, ScanPlan, array_starts, pair_starts, pairs
from gridgen.schedules.team.schedule import TeamKernel
from gridgen.schedules.views import (
    FunctionView,
    TableView,
    array_view,
    indices_text,
    lists_text,
    numbers_text,
    rows_text,
)
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


@dataclass(frozen=True)
class RoundView:
    """One round of a scan."""

    index: int  #: of the round.
    next: int  #: index of the next round.
    last: bool  #: whether it is the last round.
    most: int  #: length of the longest list of descendants of a body in this round.


@dataclass(frozen=True)
class ScanView:
    """The robot, as kernels of the scan schedule use it."""

    team: str  #: the type of a state's team, for a scalar ``T``.
    layout: str  #: how states map to threads, one line.
    bodies: int  #: number of bodies.
    tables: tuple[TableView, ...]  #: the robot's constants.
    rounds: tuple[RoundView, ...]  #: of a scan.
    spans: int  #: stored placements: over 1, 2, 4, ... joints.
    deepest: int  #: the deepest level; that of the children of the base is 0.
    most_children: int  #: of one body.
    most_followers: int  #: of one joint.
    columns: int  #: number of inverse dynamics that compute the mass matrix.
    freedoms: int  #: most velocities of one body.
    row_capacity: int  #: most numbers in the rows of the mass matrix of one body.
    at_once_float32: int  #: inverse dynamics that a lane computes at once.
    at_once_float64: int  #: the same in float64.
    kinds: frozenset[str]  #: kinds of its joints.
    has_free: bool  #: whether a joint is free.
    holds_free: bool  #: whether a free joint with armature has a parent body.
    has_mimic: bool  #: whether a joint mimics another.
    has_losses: bool  #: whether a joint has damping or friction.
    has_armature: bool  #: whether a joint has an armature.
    given: dict[str, bool]  #: parameters of the robot that are inputs of each state.
    row_numbers: int  #: of a row of ``params``.
    has_second_derivatives: bool  #: whether a kernel computes second derivatives.
    pairs: int  #: number of pairs of a body and itself or an ancestor.
    barrier: str  #: the statement that synchronizes a team's lanes.


@dataclass(frozen=True)
class TeamFunctionView(FunctionView):
    """A device function that a team computes."""

    reads: dict[str, bool]  #: whether it reads an array, by name.
    #: offset of an observed quantity: the numbers of each body that precede it.
    before: dict[str, int]


@dataclass(frozen=True)
class ScanFunctionView(TeamFunctionView):
    """One device function and its kernel, ``<name>_kernel``."""

    title: tuple[str, ...]  #: description of the computation and its source, as lines.
    part: str  #: the template of the device function.
    observed: int  #: numbers of each body that an observer records.
    parks_effort: bool  #: whether lanes save the joint torques in shared memory during scans.
    parked_inertia: int  #: offset of the saved inertias.
    merged: bool  #: whether the two scans toward the root are one.
    memory: dict[str, int]  #: offsets of the arrays in a team's memory, by name.
    memory_numbers: int  #: numbers in a team's memory.
    has_workspace: bool  #: whether this memory is a workspace instead of shared memory.
    exchanged: int  #: numbers of shared memory before them.
    threads: int  #: of a block, at most.


def scan_view(plan: ScanPlan, kernels: Iterable[ScanKernel] = ()) -> ScanView:
    """Describe the robot and the schedule."""
    has_second_derivatives = any(kernel.memory for kernel in kernels)
    tree = plan.tree
    given = {name: name in tree.parameters for name in PARAMETERS}
    rounds = tuple(
        RoundView(k, k + 1, k == plan.rounds - 1, max(map(len, plan.below[k])))
        for k in range(plan.rounds)
    )
    return ScanView(
        team=_team(plan),
        layout=f"{team_lanes(plan)}, {_states(plan)} a block",
        bodies=plan.bodies,
        tables=(
            *scan_tables(plan),
            *(second_derivative_tables(tree) if has_second_derivatives else ()),
        ),
        rounds=rounds,
        spans=max(plan.rounds, 1),
        deepest=len(tree.levels) - 1,
        most_children=max(map(len, tree.children)),
        most_followers=max(map(len, plan.followers)),
        columns=plan.columns_in_all,
        freedoms=max(plan.rows),
        row_capacity=plan.row_capacity,
        at_once_float32=AT_ONCE["float32"],
        at_once_float64=AT_ONCE["float64"],
        kinds=frozenset(body.kind for body in tree.bodies),
        has_free=any(body.joint_type.is_free for body in tree.bodies),
        holds_free=any(
            b.joint_type.is_free and b.parent >= 0 and (given["armature"] or any(b.armature))
            for b in tree.bodies
        ),
        has_mimic=tree.has_mimic,
        has_losses=given["damping"] or any(body.damping or body.friction for body in tree.bodies),
        has_armature=given["armature"] or any(tree.armature),
        given=given,
        row_numbers=BODY_PARAMETERS,
        has_second_derivatives=has_second_derivatives,
        pairs=pair_starts(tree)[-1],
        barrier="__syncwarp();" if plan.on_warp else "__syncthreads();",
    )


def scan_function_view(plan: ScanPlan, kernel: Kernel, row: ScanKernel) -> ScanFunctionView:
    """Describe one kernel of the scan schedule, or of a schedule derived from it."""
    return ScanFunctionView(
        **vars(team_function_view(kernel, row)),
        title=tuple(f"{kernel.title} ({kernel.source}).".splitlines()),
        part=f"{kernel.key.schedule}/{row.part}.jinja",
        observed=sum(size for _, size in row.observed),
        parks_effort=row.parks_effort,
        parked_inertia=row.parks,
        merged=row.merged,
        memory=array_starts(plan.tree, row.memory),
        memory_numbers=plan.memory_numbers(row),
        has_workspace=plan.workspace_numbers(row) is not None,
        exchanged=plan.exchanged_numbers(row),
        threads=plan.threads_of(row),
    )


def team_function_view(kernel: Kernel, row: TeamKernel) -> TeamFunctionView:
    """Describe the device function of a kernel of any team."""
    return TeamFunctionView(
        name=kernel.name,
        source=kernel.source,
        inputs=tuple(array_view(name, shape) for name, shape in kernel.inputs.items()),
        outputs=tuple(array_view(name, shape) for name, shape in kernel.outputs.items()),
        reads={array: array in kernel.inputs for array in ARRAYS},
        before=_preceding(row.observed),
    )


def _preceding(observed: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return the offset of each observed quantity among the numbers of a body, by symbol."""
    starts = accumulate((size for _, size in observed), initial=0)
    return {symbol: start for (symbol, _), start in zip(observed, starts, strict=False)}


def _team(plan: ScanPlan) -> str:
    if plan.on_warp:
        return f"WarpTeam<T, {plan.bodies}, {plan.width}>"
    return f"BlockTeam<T, {plan.bodies}, {plan.threads}, {plan.piece}>"


def team_lanes(plan: ScanPlan) -> str:
    """Return which lanes compute a state, in words."""
    if plan.on_warp:
        return f"{plan.width} lanes of a warp for each state"
    return f"{plan.threads} lanes for each state"


def _states(plan: ScanPlan) -> str:
    return f"{plan.states_per_block} states" if plan.on_warp else "one state"
