"""Facts -> HTML: one file, whatever names a robot has. Views of the templates are made here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from gridgen.errors import ModelError
from gridgen.report import drawing, pictures
from gridgen.report.facts import BATCHES, GPU_BATCH, Cost, Facts, GpuCost
from gridgen.schedules.team.plan import ScanPlan, plan_scan
from gridgen.template_root import template_root


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text:  what it says.
        kind:  its class: ``name`` of a function, ``good``, ``bad``, a color; nothing for a number.
        share: of a bar in place of text, 0 to 100.
    """

    text: str
    kind: str = ""
    share: str = ""


@dataclass(frozen=True)
class Table:
    """A table: headings, and rows of as many cells."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@cache
def _environment() -> jinja2.Environment:
    # Names come from files of strangers: all but the page's own style and script is escaped.
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_root() / "report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )


def render_page(facts: Facts) -> str:
    """Return the page."""
    tree = facts.tree
    plan = _plan(facts)
    view = {
        "title": tree.name,
        "subtitle": f"{tree.source} - grid-gen {facts.version}",
        "chips": _chips(facts),
        "remarks": tree.remarks,
        "refusals": tuple(facts.refused.items()),
        "scene": _script_data(pictures.scene(tree)),
        "tree": drawing.tree(tree),
        "joints": _joints(facts),
        "grids": drawing.grids(tree),
        "costs": _costs(facts.costs),
        "plan": _plan_words(facts, plan),
        "rounds": drawing.rounds(tree, plan),
        "levels": drawing.levels(tree),
        "gpu": _gpu(facts.gpu),
        "gpu_note": _gpu_note(facts),
        "accuracy": _accuracy(facts),
        "speed": drawing.speed(facts.speeds),
        "speeds": _speeds(facts),
    }
    return _environment().get_template("page.html.jinja").render(view)


def _script_data(data: Any) -> Markup:
    """Return data for a script element, which no name in it can end."""
    text = json.dumps(data)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _plan(facts: Facts) -> ScanPlan | None:
    """Return how a team of threads shares the bodies out, for robots that one can compute."""
    try:
        return plan_scan(facts.tree)
    except ModelError:
        return None


def _chips(facts: Facts) -> list[tuple[str, str]]:
    tree = facts.tree
    return [
        ("bodies", str(len(tree.bodies))),
        ("levels", str(len(tree.levels))),
        ("nq", str(tree.nq)),
        ("nv", str(tree.nv)),
        ("mass", f"{tree.total_mass:.4g} kg"),
        ("base", "floating" if tree.bodies[0].joint_type.is_free else "fixed"),
        ("links", str(len(tree.frames))),
    ]


def _joints(facts: Facts) -> Table:
    tree = facts.tree
    headings = (
        *("body", "joint", "kind", "link", "q", "lower", "upper", "effort", "velocity"),
        *("damping", "friction", "armature"),
    )
    rows = []
    for index, body in enumerate(tree.bodies):
        limits = (
            tree.lower_limits[body.q_index],
            tree.upper_limits[body.q_index],
            tree.effort_limits[body.v_index],
            tree.velocity_limits[body.v_index],
        )
        has_limits = body.nv == 1 and not body.mimics
        cells = [str(index), body.joint, body.kind, body.name, str(body.q_index)]
        cells += [f"{limit:.4g}" if has_limits else "" for limit in limits]
        cells += [f"{x:.3g}" for x in (body.damping, body.friction, body.armature[0])]
        rows.append(_cells(cells))
    return Table(headings, rows)


def _costs(costs: Sequence[Cost]) -> Table:
    has_loops = not all(cost.dense for cost in costs)
    headings = (
        *("function", "operations", "without the robot's numbers", "removed", "left"),
        "instructions",
        *(("loops",) if has_loops else ()),
    )
    rows = []
    for cost in costs:
        left = Cell("", "bar", f"{100 * (1 - cost.removed):.1f}")
        compared = (Cell(f"{cost.dense:,}"), Cell(f"{cost.removed:.0%}"), left)
        rows.append(
            [
                Cell(cost.function, "name"),
                Cell(f"{cost.operations:,}"),
                *(compared if cost.dense else (Cell(""),) * 3),
                Cell(f"{cost.instructions:,}"),
                *((Cell("" if cost.dense else "yes"),) if has_loops else ()),
            ]
        )
    return Table(headings, rows)


def _plan_words(facts: Facts, plan: ScanPlan | None) -> str:
    if plan is None:
        return "A team of threads has no room for so many bodies."
    lanes = plan.width if plan.on_warp else plan.threads
    bodies = "one body" if plan.share == 1 else f"{plan.share} bodies"
    return (
        f"Here {lanes} threads with {bodies} in each, and {plan.rounds} rounds in place of "
        f"{len(facts.tree.levels)} levels."
    )


def _gpu(costs: Sequence[GpuCost]) -> Table:
    headings = (
        *("kernel, float32", "GPU", "bytes", "registers", "spilled", "stack"),
        *("predicted, a state", "bound by", "of the ceiling"),
    )
    rows = []
    for cost in costs:
        made = cost.compiled[-1] if cost.compiled else None
        compiled = ["not compiled", "", ""]
        if made is not None:
            spilled = made.spill_stores + made.spill_loads
            compiled = [str(made.registers), f"{spilled} B", f"{made.stack} B"]
        cells = [cost.arch, f"{cost.bytes:.0f}", *compiled, f"{1e9 * cost.seconds:.3g} ns"]
        cells += [cost.bound, f"{cost.share:.0%}"]
        rows.append([Cell(cost.function, "name"), *_cells(cells)])
    return Table(headings, rows)


def _gpu_note(facts: Facts) -> str:
    devices = ", ".join(dict.fromkeys(cost.device for cost in facts.gpu))
    note = (
        f"Times are predicted, not measured: {GPU_BATCH:,} states in one launch on {devices}. The "
        "ceiling is the time that moving the arrays, or the arithmetic, would take alone."
    )
    return f"{note} Not compiled here: {facts.without_nvrtc}" if facts.without_nvrtc else note


def _accuracy(facts: Facts) -> Table:
    headings = ("function", "type", "worst relative error", "tolerance", "verdict")
    rows = []
    for row in facts.comparisons:
        verdict = Cell("ok", "good") if row.passed else Cell("out of tolerance", "bad")
        numbers = _cells([row.dtype, f"{row.error:.1e}", f"{row.tolerance:.0e}"])
        rows.append([Cell(row.function, "name"), *numbers, verdict])
    return Table(headings, rows)


def _speeds(facts: Facts) -> Table:
    headings = ("states a second, float32", *(f"{batch:,}" for batch in BATCHES))
    rows = []
    for number, speed in enumerate(facts.speeds):
        rates = (f"{batch / speed.seconds[batch]:.3g}" for batch in BATCHES)
        rows.append([Cell(speed.function, f"name c{number}"), *_cells(rates)])
    return Table(headings, rows)


def _cells(texts: Iterable[str]) -> list[Cell]:
    return [Cell(text) for text in texts]
