"""What the templates of the scan schedule see: names, and tables as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

from gridgen.dynamics.arrays import ARRAYS, array_size
from gridgen.dynamics.functions import FUNCTIONS
from gridgen.model.tree import Body, KinematicTree
from gridgen.schedules.scan import Lists, ScanPlan
from gridgen.schedules.scan_functions import SCAN_FUNCTIONS, ScanFunction

#: Inverse dynamics of one state that a lane computes at once: as many as its registers hold.
AT_ONCE = {"float32": 4, "float64": 2}

_COLUMNS = 96  # of a line of numbers, without its indentation


@dataclass(frozen=True)
class TableView:
    """A constant array.

    Attributes:
        comment:     what it holds, one line.
        declaration: ``__device__ const short kinds[7]``.
        lines:       the initialiser.
    """

    comment: str
    declaration: str
    lines: tuple[str, ...]


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


def scan_view(plan: ScanPlan) -> ScanView:
    """Describe the robot and the schedule."""
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
        tables=tuple(_tables(plan)),
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
    yield _indices("Joints: revolute, prismatic or free", "kinds", [kinds[b.kind] for b in bodies])
    yield _indices("First coordinate of each joint", "q_indices", [b.q_index for b in bodies])
    yield _indices("First velocity of each joint", "v_indices", [b.v_index for b in bodies])
    yield _indices("Levels", "levels", [b.level for b in bodies])
    yield _rows("Ancestors 1, 2, 4, ... joints above; -1: none", "above", plan.above)
    yield from _lists("Descendants exactly 1, 2, 4, ... joints below", "below", plan.below)
    yield _indices("Column of each body's first velocity", "columns", plan.columns)
    yield _indices("Rows of the mass matrix that each lane keeps", "rows", plan.rows)
    yield _indices("Body that keeps the row of each velocity", "owners", plan.owners)
    yield _indices("One past the last body coupled with each body", "row_ends", plan.row_ends)
    yield from _optional_tables(plan)


def _optional_tables(plan: ScanPlan) -> Iterable[TableView]:
    tree, bodies = plan.tree, plan.tree.bodies
    if tree.has_mimic:
        yield numbers_text(
            "Each joint's position is multiplier q + offset",
            "mimics",
            [(body.multiplier, body.offset) for body in bodies],
        )
        yield _indices("Whether each joint follows another", "follows", [b.mimics for b in bodies])
        yield from _lists("Joints that follow each joint", "followers", [plan.followers])
    if any(body.damping or body.friction for body in bodies):
        losses = [(body.damping, body.friction) for body in bodies]
        yield numbers_text("Viscous damping and Coulomb friction of each joint", "losses", losses)
    if any(tree.armature):
        yield numbers_text("Armature of each velocity", "armatures", [(a,) for a in tree.armature])


def _inertia(body: Body) -> tuple[float, ...]:
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia
    return (body.mass, *body.first_moment, xx, xy, xz, yy, yz, zz)


def numbers_text(comment: str, name: str, columns: Sequence[tuple[float, ...]]) -> TableView:
    """Return a table of numbers: one row for each component, so that lanes read neighbours."""
    rows = [[repr(value) for value in row] for row in zip(*columns, strict=True)]
    return TableView(
        comment,
        f"template <class T> __device__ const T {name}[{len(rows)}][{len(columns)}]",
        tuple(braced(rows)),
    )


def _indices(comment: str, name: str, values: Sequence[int]) -> TableView:
    return TableView(
        comment,
        f"__device__ const short {name}[{len(values)}]",
        tuple(wrapped([str(int(value)) for value in values])),
    )


def _rows(comment: str, name: str, rows: Sequence[Sequence[int]]) -> TableView:
    text = [[str(value) for value in row] for row in rows]
    declaration = f"__device__ const short {name}[{len(rows)}][{len(rows[0])}]"
    return TableView(comment, declaration, tuple(braced(text)))


def _lists(comment: str, name: str, tables: Sequence[Lists]) -> Iterable[TableView]:
    """Return the starts of all lists, one row for each table, and the members of all."""
    lengths = [len(members) for lists in tables for members in lists]
    starts = list(accumulate(lengths, initial=0))
    count = len(tables[0])
    rows = [starts[k * count : (k + 1) * count + 1] for k in range(len(tables))]
    yield _rows(f"{comment}: where each body's list starts", f"{name}_starts", rows)
    members = [member for lists in tables for listed in lists for member in listed]
    yield _indices(f"{comment}: the lists", f"{name}_members", members or [-1])


def braced(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of words as lines of a nested initialiser."""
    lines = []
    for row in rows:
        first, *rest = wrapped(row, _COLUMNS - 3)
        block = ["{" + first, *(" " + line for line in rest)]
        block[-1] += "},"
        lines += block
    return lines


def wrapped(words: Sequence[str], columns: int = _COLUMNS) -> list[str]:
    """Return words, separated by commas, as lines of bounded length."""
    lines: list[str] = []
    line = ""
    for position, word in enumerate(words):
        word += "," if position < len(words) - 1 else ""
        if line and len(line) + 1 + len(word) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


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
    return {
        "robot": robot,
        "scan": scan_view(plan),
        "functions": [scan_function_view(plan, name) for name in functions],
        "observed": observed,
    }
