"""Pictures of a report as the templates draw them: coordinates in pixels, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.model.kinematic_tree import KinematicTree
from gridgen.report import pictures
from gridgen.report.facts import BATCHES, Speed
from gridgen.schedules.team.plan import ScanPlan

#: Bodies up to which rounds are drawn, a line for each that hands something over.
MOST_DRAWN = 128
#: Heights of a line of the tree, of a round, of a level; distance of two bodies in a round.
_LINE, _ROUND, _LEVEL, _BODY = 20, 44, 8, 14
#: Where rounds begin, right of their names, and the widest bar of the levels.
_LEFT, _WIDEST = 60, 560
#: Left, bottom, width and height of the field of the speeds.
_FIELD = (60.0, 280.0, 440.0, 260.0)


@dataclass(frozen=True)
class Label:
    """A word at a place; ``note`` is said less loudly after it."""

    x: str
    y: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class Dot:
    """A dot; its color says what kind of joint it is."""

    x: str
    y: str
    radius: str
    kind: str


@dataclass(frozen=True)
class Bar:
    """A rectangle."""

    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True)
class Picture:
    """Shapes, and the size that they take."""

    width: str
    height: str
    labels: Sequence[Label] = ()
    dots: Sequence[Dot] = ()
    paths: Sequence[str] = ()
    bars: Sequence[Bar] = ()
    rules: Sequence[str] = ()
    curves: Sequence[str] = ()
    title: str = ""
    note: str = ""


def tree(robot: KinematicTree) -> Picture:
    """Return the tree, a line for each body."""
    labels = [Label("14", "14", robot.frames[0].name)]
    dots, paths = [], []
    for node in pictures.tree_nodes(robot):
        body = robot.bodies[node.index]
        x, y = 6 + node.x, 10 + _LINE * node.y
        paths.append(f"M{6 + node.up_x:g} {10 + _LINE * node.up:g}V{y:g}H{x:g}")
        dots.append(Dot(f"{x:g}", f"{y:g}", f"{node.radius:.1f}", body.kind))
        note = f"{body.name}, {body.mass:.3g} kg" + (", mimics" if body.mimics else "")
        labels.append(Label(f"{x + 14:g}", f"{y + 4:g}", body.joint, note))
    return Picture("640", str(_LINE * (len(robot.bodies) + 1)), labels, dots, paths)


def grids(robot: KinematicTree) -> list[Picture]:
    """Return where matrices have entries, a pixel each."""
    return [
        Picture(
            str(grid.size[1]),
            str(grid.size[0]),
            bars=[Bar(str(column), str(row), str(count), "1") for row, column, count in grid.runs],
            title=grid.title,
            note=f"{grid.filled:.0%} filled",
        )
        for grid in pictures.grids(robot)
    ]


def rounds(robot: KinematicTree, plan: ScanPlan | None) -> Picture | None:
    """Return the rounds of a scan, bodies from left to right; nothing for large robots."""
    if plan is None or len(robot.bodies) > MOST_DRAWN or not plan.rounds:
        return None
    labels, dots, paths = [], [], []
    at = [_LEFT + _BODY * index for index in range(len(robot.bodies))]
    for number in range(plan.rounds + 1):
        y = 12 + _ROUND * number
        kinds = (body.kind for body in robot.bodies)
        dots += [Dot(str(x), str(y), "3", kind) for x, kind in zip(at, kinds, strict=True)]
    for number, pairs in enumerate(pictures.rounds(plan)):
        top = 12 + _ROUND * number
        labels.append(Label("0", str(top + 24), f"round {number + 1}"))
        for above, body in pairs:
            curve = f"{at[above]} {top + 22} {at[body]} {top + 20} {at[body]} {top + _ROUND - 3}"
            paths.append(f"M{at[above]} {top}C{curve}")
    size = str(at[-1] + _BODY), str(_ROUND * plan.rounds + 20)
    return Picture(*size, labels, dots, paths)


def levels(robot: KinematicTree) -> Picture:
    """Return the number of bodies of each level as bars."""
    counts = [len(level) for level in robot.levels]
    bars, labels = [], []
    for number, count in enumerate(counts):
        width = _WIDEST * count / max(counts)
        bars.append(Bar("0", str(_LEVEL * number), f"{width:.1f}", str(_LEVEL - 2)))
        if len(counts) <= MOST_DRAWN // 2:
            labels.append(Label(f"{width + 6:.1f}", str(_LEVEL * number + 7), str(count)))
    return Picture("640", str(_LEVEL * len(counts) + 4), labels, bars=bars)


def speed(speeds: Sequence[Speed]) -> Picture | None:
    """Return states a second over the number of states, both axes logarithmic."""
    left, bottom, width, height = _FIELD
    curves, ticks = pictures.curves(speeds)
    if not curves:
        return None
    lines = [
        " ".join(f"{left + width * x:.1f},{bottom - height * y:.1f}" for x, y in curve.points)
        for curve in curves
    ]
    rules = [f"M{left:g} {bottom - height * share:.1f}h{width:g}" for share, _ in ticks]
    labels = [Label("8", f"{bottom + 4 - height * share:.1f}", label) for share, label in ticks]
    for batch, (x, _) in zip(BATCHES, curves[0].points, strict=True):
        labels.append(Label(f"{left - 8 + width * x:.1f}", f"{bottom + 20:g}", f"{batch:,}"))
    labels.append(Label(f"{left + width / 2 - 40:g}", f"{bottom + 42:g}", "", "states in a call"))
    labels.append(Label("8", "12", "", "states a second"))
    return Picture("560", "330", labels, rules=rules, curves=lines)
