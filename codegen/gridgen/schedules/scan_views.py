"""What the templates of the scan schedule see: names, and tables as lines of text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

from gridgen.dynamics.arrays import ARRAYS, array_size
from gridgen.dynamics.functions import FUNCTIONS
from gridgen.model.tree import Body, KinematicTree
from gridgen.schedules.gradient_tables import curvature_tables, gradient_tables
from gridgen.schedules.scan import ScanPlan
from gridgen.schedules.scan_functions import SCAN_FUNCTIONS, ScanFunction
from gridgen.schedules.scan_memory import Branches, array_starts, axis_starts, pair_starts
from gridgen.schedules.tables import (
    TableView,
    indices_text,
    lists_text,
    numbers_text,
    rows_text,
)

#: Inverse dynamics of one state that a lane computes at once: as many as its registers hold.
AT_ONCE = {"float32": 4, "float64": 2}


@dataclass(frozen=True)
class RoundView:
    """One round of a scan.

    Attributes:
        index: of the round.
        next:  of the round after it.
        last:  whether there is none.
        most:  longest list of descendants that a body collects in this round.
    """

    index: int
    next: int
    last: bool
    most: int


@dataclass(frozen=True)
class ScanView:
    """The robot as scan kernels see it.

    Attributes:
        team:         the type of a state's team, for a scalar ``T``.
        threads:      of a block.
        layout:       how states are laid over threads, one line.
        bodies:       number of bodies.
        tables:       the robot's constants.
        rounds:       of a scan.
        spans:        placements that are kept: over 1, 2, 4, ... joints.
        deepest:      the deepest level; that of the children of the base is 0.
        most_children: of one body.
        most_followers: of one joint.
        columns:      inverse dynamics that the mass matrix takes.
        freedoms:     most velocities of one body.
        room:         most numbers in the rows of the mass matrix of one body.
        at_once_float32: inverse dynamics that a lane computes at once.
        at_once_float64: the same with twice as long numbers.
        has_prismatic: whether a joint slides.
        has_free:     whether a joint is free.
        has_mimic:    whether a joint follows another.
        has_losses:   whether a joint has damping or friction.
        has_armature: whether a joint has an armature.
        has_damping:  whether a joint has damping.
        has_gradients: whether a kernel computes derivatives or inverses.
        has_curvature: whether a kernel computes second derivatives.
        pairs:        of a body and one on its way to the base, or itself.
        axes:         of all joints.
        deepest_velocity: most velocities on the way of one to the base.
        barrier:      the statement at which a team's lanes meet.
    """

    team: str
    threads: int
    layout: str
    bodies: int
    tables: tuple[TableView, ...]
    rounds: tuple[RoundView, ...]
    spans: int
    deepest: int
    most_children: int
    most_followers: int
    columns: int
    freedoms: int
    room: int
    at_once_float32: int
    at_once_float64: int
    has_prismatic: bool
    has_free: bool
    has_mimic: bool
    has_losses: bool
    has_armature: bool
    has_damping: bool
    has_gradients: bool
    has_curvature: bool
    pairs: int
    axes: int
    deepest_velocity: int
    barrier: str


@dataclass(frozen=True)
class ScanArrayView:
    """One argument of a kernel; fields as ``gridgen.emit.views.ArrayView``."""

    name: str
    size: int
    text: str
    unit: str


@dataclass(frozen=True)
class ScanFunctionView:
    """One kernel.

    Attributes:
        name:     of the device function; its kernel is ``<name>_kernel``.
        title:    what it computes, and where that is described, as lines.
        source:   where the algorithm is described.
        part:     the template of the device function.
        inputs:   arrays read.
        outputs:  arrays written.
        reads:    whether it reads an array, by name.
        before:   where a watcher finds a quantity: the numbers of each body that precede it.
        observed: numbers of each body that a watcher is told.
        merged:   whether the two scans towards the root are one.
        memory:   where the arrays that a team keeps start, by name.
        memory_numbers: numbers that a team keeps.
        has_workspace: whether it keeps them in a workspace, not in shared memory.
        exchanged: numbers of shared memory before them.
        threads:  of a block, at most.
    """

    name: str
    title: tuple[str, ...]
    source: str
    part: str
    inputs: tuple[ScanArrayView, ...]
    outputs: tuple[ScanArrayView, ...]
    reads: dict[str, bool]
    before: dict[str, int]
    observed: int
    merged: bool
    memory: dict[str, int]
    memory_numbers: int
    has_workspace: bool
    exchanged: int
    threads: int


def scan_view(plan: ScanPlan, functions: Iterable[str] = ()) -> ScanView:
    """Describe the robot and the schedule.

    Args:
        plan:      the schedule.
        functions: names of the kernels that there are to be.
    """
    kernels = [SCAN_FUNCTIONS[name] for name in functions]
    has_gradients = any(kernel.memory for kernel in kernels)
    has_curvature = any("above" in kernel.memory for kernel in kernels)
    tree = plan.tree
    kinds = {body.kind for body in tree.bodies}
    rounds = tuple(
        RoundView(k, k + 1, k == plan.rounds - 1, max(map(len, plan.below[k])))
        for k in range(plan.rounds)
    )
    return ScanView(
        team=_team(plan),
        threads=plan.threads,
        layout=_layout(plan),
        bodies=plan.bodies,
        tables=(
            *_tables(plan),
            *(gradient_tables(tree) if has_gradients else ()),
            *(curvature_tables(tree) if has_curvature else ()),
        ),
        rounds=rounds,
        spans=max(plan.rounds, 1),
        deepest=len(tree.levels) - 1,
        most_children=max(map(len, tree.children)),
        most_followers=max(map(len, plan.followers)),
        columns=plan.columns_in_all,
        freedoms=max(plan.rows),
        room=plan.room,
        at_once_float32=AT_ONCE["float32"],
        at_once_float64=AT_ONCE["float64"],
        has_prismatic="prismatic" in kinds,
        has_free="free" in kinds,
        has_mimic=tree.has_mimic,
        has_losses=any(body.damping or body.friction for body in tree.bodies),
        has_armature=any(tree.armature),
        has_damping=any(body.damping for body in tree.bodies),
        has_gradients=has_gradients,
        has_curvature=has_curvature,
        pairs=pair_starts(tree)[-1],
        axes=axis_starts(tree)[-1],
        deepest_velocity=max(Branches(tree).depths),
        barrier="__syncwarp();" if plan.on_warp else "__syncthreads();",
    )


def scan_function_view(plan: ScanPlan, name: str) -> ScanFunctionView:
    """Describe one kernel, a name in ``SCAN_FUNCTIONS``."""
    function: ScanFunction = SCAN_FUNCTIONS[name]
    spec = FUNCTIONS[function.computes]
    sizes = [size for _, size in function.observed]
    starts = accumulate(sizes, initial=0)
    return ScanFunctionView(
        name=name,
        title=tuple(f"{spec.title} ({function.source}).".splitlines()),
        source=function.source,
        part=f"parts/{function.part}.jinja",
        inputs=tuple(_array_view(plan.tree, array) for array in spec.inputs),
        outputs=tuple(_array_view(plan.tree, array) for array in spec.outputs),
        reads={array: array in spec.inputs for array in ARRAYS},
        before={
            symbol: start for (symbol, _), start in zip(function.observed, starts, strict=False)
        },
        observed=sum(sizes),
        merged=function.merged,
        memory=array_starts(plan.tree, function.memory),
        memory_numbers=plan.memory_numbers(name),
        has_workspace=plan.workspace_numbers(name) is not None,
        exchanged=plan.exchanged_numbers(name),
        threads=plan.threads_of(name),
    )


def _array_view(tree: KinematicTree, name: str) -> ScanArrayView:
    return ScanArrayView(name, array_size(name, tree), *ARRAYS[name])


def _team(plan: ScanPlan) -> str:
    if plan.on_warp:
        return f"WarpTeam<T, {plan.bodies}, {plan.width}>"
    return f"BlockTeam<T, {plan.bodies}, {plan.threads}, {plan.piece}>"


def _layout(plan: ScanPlan) -> str:
    if plan.on_warp:
        return (
            f"{plan.width} lanes of a warp for each state, {plan.states_per_block} states a block"
        )
    return f"{plan.threads} lanes for each state, one state a block"


# -- tables -----------------------------------------------------------------------------------


def _tables(plan: ScanPlan) -> Iterable[TableView]:
    bodies = plan.tree.bodies
    yield numbers_text(
        "Placements in the parents at q = 0: E by rows, r [m]",
        "rest_placements",
        [(*chain.from_iterable(body.rotation), *body.translation) for body in bodies],
    )
    yield numbers_text(
        "Mass [kg], first moment [kg m], rotational inertia [kg m^2]: xx, xy, xz, yy, yz, zz",
        "inertias",
        [_inertia(body) for body in bodies],
    )
    yield numbers_text(
        "Rotations from the canonical frames to the links' frames, by rows",
        "link_rotations",
        [tuple(chain.from_iterable(body.link_rotation)) for body in bodies],
    )
    kinds = {"revolute": 0, "prismatic": 1, "free": 2}
    yield indices_text(
        "Joints: revolute, prismatic or free", "kinds", [kinds[b.kind] for b in bodies]
    )
    yield indices_text("First coordinate of each joint", "q_indices", [b.q_index for b in bodies])
    yield indices_text("First velocity of each joint", "v_indices", [b.v_index for b in bodies])
    yield indices_text("Levels", "levels", [b.level for b in bodies])
    yield rows_text("Ancestors 1, 2, 4, ... joints above; -1: none", "above", plan.above)
    yield from lists_text("Descendants exactly 1, 2, 4, ... joints below", "below", plan.below)
    yield indices_text("Column of each body's first velocity", "columns", plan.columns)
    yield indices_text("Rows of the mass matrix that each lane keeps", "rows", plan.rows)
    yield indices_text("Body that keeps the row of each velocity", "owners", plan.owners)
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
            "Whether each joint follows another", "follows", [b.mimics for b in bodies]
        )
        yield from lists_text("Joints that follow each joint", "followers", [plan.followers])
    if any(body.damping or body.friction for body in bodies):
        losses = [(body.damping, body.friction) for body in bodies]
        yield numbers_text("Viscous damping and Coulomb friction of each joint", "losses", losses)
    if any(tree.armature):
        yield numbers_text("Armature of each velocity", "armatures", [(a,) for a in tree.armature])


def _inertia(body: Body) -> tuple[float, ...]:
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia
    return (body.mass, *body.first_moment, xx, xy, xz, yy, yz, zz)


def scan_template_view(
    plan: ScanPlan, robot: Any, functions: Iterable[str], *, observed: bool = False
) -> dict[str, Any]:
    """Return the fields of ``kernels/robot_scan.cuh.jinja``.

    Args:
        plan:      the schedule.
        robot:     the ``RobotView`` that the banner shows.
        functions: names in ``SCAN_FUNCTIONS``.
        observed:  also make the kernels that record intermediate quantities.
    """
    functions = tuple(functions)
    return {
        "robot": robot,
        "scan": scan_view(plan, functions),
        "functions": [scan_function_view(plan, name) for name in functions],
        "observed": observed,
    }
