"""Facts -> HTML: one self-contained file. Builds the views that the templates render."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from gridgen.errors import ModelError
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.report import drawing, pictures
from gridgen.report.facts import BATCHES, GPU_BATCH, Cost, Facts, GpuCost
from gridgen.schedules.team.plan import ScanPlan, plan_scan
from gridgen.template_root import template_root
from gridgen.version import __version__


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str  #: its text.
    #: its CSS class: ``name`` of a function, ``good``, ``bad``, a color; empty for numbers.
    kind: str = ""
    share: str = ""  #: length of a bar instead of text, 0 to 100.


@dataclass(frozen=True)
class Table:
    """A table: headings, and rows of the same length."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def is_long(self) -> bool:
        """Whether the page folds it."""
        return len(self.rows) > 12


@cache
def _environment() -> jinja2.Environment:
    # Names come from untrusted files: escape everything except the page's own style and script.
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
    plan, scene = _plan(facts), pictures.scene(tree)
    view = {
        "title": tree.name,
        "subtitle": f"{PurePath(tree.source).name} - grid-gen {facts.version}",
        "chips": _chips(facts),
        "remarks": tree.remarks,
        "refusals": tuple(facts.refused.items()),
        "scene": script_data(scene),
        "undrawn": _undrawn(tree, scene),
        "masses": _masses(tree),
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
        "passed": sum(row.passed for row in facts.comparisons),
        "compared": len(facts.comparisons),
        "speed": drawing.speed(facts.speeds),
        "speeds": _speeds(facts),
    }
    return render_html("page.html.jinja", view)


def render_animation(tree: KinematicTree, motion: Mapping[str, Any]) -> str:
    """Return the page on which robots move; ``motion`` is the data of ``animation.js``."""
    scene = pictures.scene(tree)
    view = {
        "title": tree.name,
        "subtitle": f"{PurePath(tree.source).name} - grid-gen {__version__}",
        "scene": script_data(scene),
        "motion": script_data(motion),
        "undrawn": _undrawn(tree, scene),
    }
    return render_html("animation.html.jinja", view)


def _undrawn(tree: KinematicTree, scene: Mapping[str, Any]) -> int:
    """Return the number of collision shapes that are not drawn."""
    shapes = sum(shape is None for frame in tree.frames for shape in frame.shapes)
    return max(0, shapes - sum("points" in solid for solid in scene["solids"]))


def render_html(template: str, view: dict[str, Any]) -> str:
    """Return a page filled in with a view."""
    return _environment().get_template(template).render(view)


def script_data(data: Any) -> Markup:
    """Return JSON for a script element; escapes prevent a name from ending the element."""
    text = json.dumps(data)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _plan(facts: Facts) -> ScanPlan | None:
    """Return how a team of threads shares the bodies, None for a robot with too many."""
    try:
        return plan_scan(facts.tree)
    except ModelError:
        return None


def _chips(facts: Facts) -> list[tuple[str, str]]:
    tree = facts.tree
    total = tree.total_mass
    heaviest = max(tree.bodies, key=lambda body: body.mass)
    share = f", {heaviest.mass / total:.0%}" if total else ""
    distance, link = pictures.reach(tree)
    return [
        ("total mass", f"{total:.4g} kg"),
        ("heaviest body", f"{heaviest.name}: {heaviest.mass:.3g} kg{share}"),
        ("reach from the root link", f"about {distance:.3g} m, by {link}"),
        ("base", "floating" if tree.floating_base else "fixed"),
        *((name, str(number)) for name, number in (("nq", tree.nq), ("nv", tree.nv))),
        ("bodies", str(len(tree.bodies))),
        ("tree levels", str(len(tree.levels))),
        ("links", str(len(tree.frames))),
    ]


def _masses(tree: KinematicTree) -> Table:
    headings = ("link", "mass [kg]", "share", "center of mass [m]", "principal moments [kg m²]")
    rows = []
    for body in tree.bodies:
        cells = [f"{body.mass:.4g}", "", "", ""]
        if body.mass > 0.0:
            center, moments, _ = pictures.central_inertia(body)
            vectors = np.array(body.link_rotation) @ center, moments
            texts = (", ".join(f"{x + 0.0:.3g}" for x in vector.round(9)) for vector in vectors)
            cells[1:] = [f"{body.mass / tree.total_mass:.1%}", *texts]
        rows.append([Cell(body.name, "name"), *_cells(cells)])
    return Table(headings, rows)


def _joints(facts: Facts) -> Table:
    tree = facts.tree
    headings = (
        *("joint", "kind", "link", "q", "lower", "upper", "effort", "velocity"),
        *("damping", "friction", "armature"),
    )
    rows = []
    for body in tree.bodies:
        limits = (
            tree.lower_limits[body.q_index],
            tree.upper_limits[body.q_index],
            tree.effort_limits[body.v_index],
            tree.velocity_limits[body.v_index],
        )
        has_limits = body.nv == 1 and not body.mimics
        cells = [body.joint, body.kind, body.name, str(body.q_index)]
        cells += [f"{limit:.4g}" if has_limits else "" for limit in limits]
        losses = (body.damping, body.friction, body.armature[0])
        cells += [f"{x:.3g}" if x else "" for x in losses]
        rows.append(_cells(cells))
    return _table(headings, rows)


def _costs(costs: Sequence[Cost]) -> Table:
    headings = (
        *("function", "operations", "before specialization", "removed", "remaining"),
        *("with fused multiply-adds", "loops"),
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
                Cell("" if cost.dense else "yes"),
            ]
        )
    return _table(headings, rows)


def _plan_words(facts: Facts, plan: ScanPlan | None) -> str:
    if plan is None:
        return "The robot has too many bodies for a team of threads."
    lanes = plan.width if plan.on_warp else plan.threads
    bodies = "one body" if plan.share == 1 else f"{plan.share} bodies"
    return (
        f"For this robot: {lanes} threads with {bodies} each, {plan.rounds} rounds instead of "
        f"{len(facts.tree.levels)} levels."
    )


def _gpu(costs: Sequence[GpuCost]) -> Table:
    headings = (
        *("kernel, float32", "GPU", "bytes per state", "registers", "spills", "stack"),
        *("predicted time per state", "limited by", "of roofline bound"),
    )
    rows = []
    for cost in costs:
        compiled = ["", "", ""]
        for made in cost.compiled[-1:]:
            spilled = made.spill_stores + made.spill_loads
            compiled = [str(made.registers), f"{spilled} B", f"{made.stack} B"]
        cells = [cost.arch, f"{cost.bytes:.0f}", *compiled, f"{1e9 * cost.seconds:.3g} ns"]
        cells += [cost.bound, f"{cost.share:.0%}"]
        rows.append([Cell(cost.function, "name"), *_cells(cells)])
    return _table(headings, rows)


def _gpu_note(facts: Facts) -> str:
    devices = ", ".join(dict.fromkeys(cost.device for cost in facts.gpu))
    note = (
        f"Times are predicted, not measured: {GPU_BATCH:,} states in one launch on {devices}. The "
        "roofline bound is the longer of two times: of the memory traffic alone and of the "
        "arithmetic alone."
    )
    return f"{note} Not compiled here: {facts.without_nvrtc}" if facts.without_nvrtc else note


def _accuracy(facts: Facts) -> Table:
    headings = ("function", "type", "largest relative error", "tolerance", "result")
    rows = []
    for row in facts.comparisons:
        verdict = Cell("ok", "good") if row.passed else Cell("above tolerance", "bad")
        numbers = _cells([row.dtype, f"{row.error:.1e}", f"{row.tolerance:.0e}"])
        rows.append([Cell(row.function, "name"), *numbers, verdict])
    return Table(headings, rows)


def _speeds(facts: Facts) -> Table:
    headings = ("states per call, float32", *(f"{batch:,}" for batch in BATCHES))
    rows = []
    for number, speed in enumerate(facts.speeds):
        rates = (pictures.rate(batch / speed.seconds[batch]) for batch in BATCHES)
        rows.append([Cell(speed.function, f"name c{number}"), *_cells(rates)])
    return Table(headings, rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """Return a table without the columns that are empty."""
    shown = [k for k in range(len(headings)) if any(row[k].text or row[k].share for row in rows)]
    return Table([headings[k] for k in shown], [[row[k] for k in shown] for row in rows])


def _cells(texts: Iterable[str]) -> list[Cell]:
    return [Cell(text) for text in texts]
