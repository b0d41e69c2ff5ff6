"""Data of the templates of the constraint-force algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gridgen.dynamics.cfa import PASSES
from gridgen.dynamics.mobility import constant_mobility
from gridgen.kernel import Kernel
from gridgen.model.tree import Body
from gridgen.schedules.cfa.plan import CfaPlan, Update
from gridgen.schedules.scan.view import TeamFunctionView, team_function_view, team_lanes
from gridgen.schedules.team.schedule import TeamKernel
from gridgen.schedules.views import TableView, indices_text, numbers_text, rows_text

_SHORTEST_INT = 1 << 15


@dataclass(frozen=True)
class CfaView:
    """The system of the kernels."""

    size: int  #: rows of a block.
    joints: int  #: joints that have a block.
    couplings: int  #: blocks off the diagonal.
    rounds: int  #: rounds of elimination.
    passes: int  #: solutions: the first and its refinements.
    numbers: int  #: numbers that a team shares.
    body_numbers: int  #: those of each body among them, without its joint.
    threads: int  #: of a block, at most.
    on_warp: bool  #: whether a state uses a part of a warp.
    layout: str  #: how states map to threads, one line.
    tables: tuple[TableView, ...]  #: the constants.


@dataclass(frozen=True)
class KernelView:
    """One kernel around a device function."""

    name: str  #: ``<name>_kernel``.
    title: tuple[str, ...]  #: description of the computation and its source, as lines.
    observed: bool  #: whether it records intermediate quantities.
    watch: str  #: the observer that it passes to the device function.


@dataclass(frozen=True)
class CfaFunctionView(TeamFunctionView):
    """One device function and its kernels."""

    kernels: tuple[KernelView, ...]  #: around it.


def cfa_view(plan: CfaPlan) -> CfaView:
    """Describe the system."""
    return CfaView(
        size=plan.size,
        joints=len(plan.elimination.order),
        couplings=len(plan.elimination.couplings),
        rounds=len(plan.elimination.rounds),
        passes=PASSES,
        numbers=plan.numbers,
        body_numbers=plan.body_numbers,
        threads=plan.threads,
        on_warp=plan.scan.on_warp,
        layout=team_lanes(plan.scan),
        tables=tuple(_tables(plan)),
    )


def cfa_function_view(kernel: Kernel, row: TeamKernel, observed: bool) -> CfaFunctionView:
    """Describe one kernel and, if requested, the one that records intermediate quantities."""
    name = kernel.name
    title = tuple(f"{kernel.title} ({kernel.source}).".splitlines())
    kernels = [KernelView(name, title, False, "gridgen::scan::Unwatched{}")]
    if observed:
        numbers = sum(size for _, size in row.observed)
        same = f"The same with intermediate quantities: {numbers} numbers of each body."
        watch = "gridgen::scan::Recorder<T, scan::bodies>{trace[team.state]}"
        kernels.append(KernelView(f"{name}_observed", (same,), True, watch))
    return CfaFunctionView(**vars(team_function_view(kernel, row)), kernels=tuple(kernels))


def _tables(plan: CfaPlan) -> Iterable[TableView]:
    tree, elimination = plan.tree, plan.elimination
    place = {body: at for at, body in enumerate(elimination.order)}
    if "params" not in tree.parameters:
        yield numbers_text(
            "Links: 1 / mass, center of mass, inverse of the inertia about it: xx, xy, xz, yy, yz, "
            "zz",
            "mobilities",
            [_mobility(body) for body in tree.bodies],
        )
    bodies = range(len(tree.bodies))
    yield _indices(
        "Place of each body's joint; -1: no block", "places", [place.get(i, -1) for i in bodies]
    )
    yield _indices("The body at each place", "order", elimination.order)
    if any(tree.armature):
        yield from _armature_tables(plan)
    yield _indices(
        "First place of each round",
        "round_starts",
        [0, *(r.positions.stop for r in elimination.rounds)],
    )
    yield _indices("First coupling of each place", "coupling_starts", elimination.first)
    yield _indices("Row place of each coupling", "rows", [a for a, _ in elimination.couplings])
    yield _indices(
        "Column place of each coupling", "columns", [b for _, b in elimination.couplings]
    )
    yield _indices(
        "The link of each coupling; -1: fill-in",
        "links",
        elimination.original,
    )
    squares = [r.diagonal for r in elimination.rounds]
    products = [r.coupled for r in elimination.rounds]
    yield from _updates("Remaining diagonal blocks", "square", squares)
    yield _indices(
        "The couplings whose squares are subtracted",
        "squared",
        [p.left for updates in squares for u in updates for p in u.products],
    )
    yield from _updates("Updated couplings", "product", products)
    targets = [update.target for updates in products for update in updates]
    yield _indices("Updated couplings", "product_targets", targets)
    pairs = [p for updates in products for u in updates for p in u.products]
    yield _indices(
        "Left factors of the subtracted products", "product_lefts", [p.left for p in pairs]
    )
    yield _indices("Right factors of the same", "product_rights", [p.right for p in pairs])


def _updates(what: str, name: str, rounds: Sequence[Sequence[Update]]) -> Iterable[TableView]:
    updates = [update for listed in rounds for update in listed]
    yield _indices(
        f"{what}: the first of each round",
        f"{name}_rounds",
        list(accumulate(map(len, rounds), initial=0)),
    )
    yield _indices(
        "Start of each list",
        f"{name}_starts",
        list(accumulate((len(u.products) for u in updates), initial=0)),
    )


def _armature_tables(plan: CfaPlan) -> Iterable[TableView]:
    compliances: list[tuple[float, ...]] = []
    known: list[list[int]] = []
    for body in plan.elimination.order:
        found = {unknown.axis: unknown.compliance for unknown in plan.unknowns[body]}
        axes = _joint_order(plan.tree.bodies[body])
        compliances.append(tuple(found.get(axis, 0.0) for axis in axes))
        known.append([int(axis not in found) for axis in axes])
    yield numbers_text(
        "1 / armature of each component of a joint's wrench", "compliances", compliances
    )
    yield rows_text(
        "Components determined by the joint torque", "known", list(zip(*known, strict=True))
    )


def _joint_order(body: Body) -> tuple[int, ...]:
    """Return the order of components of ``to_joint_order`` in gridgen_blocks.cuh."""
    order, axis = list(range(6)), body.joint_type.axes[-1]
    order[axis], order[5] = 5, axis
    return tuple(order)


def _mobility(body: Body) -> tuple[float, ...]:
    link = constant_mobility(body)
    return (link.inverse_mass, *link.center, *link.inverse_inertia)


def _indices(comment: str, name: str, values: Sequence[int]) -> TableView:
    """Return a table of indices; C++ has no array without elements."""
    values = values or [-1]
    return indices_text(comment, name, values, "short" if max(values) < _SHORTEST_INT else "int")
