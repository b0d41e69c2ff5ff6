"""Pictures of a report for the templates: coordinates in pixels, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.model.kinematic_tree import KinematicTree
from gridgen.report import pictures
from gridgen.report.facts import BATCHES, Speed
from gridgen.schedules.team.plan import ScanPlan

#: Most bodies for which rounds are drawn.
MAX_DRAWN = 128
#: Heights of a line of the tree, a round and a level; distance between two bodies of a round.
_LINE, _ROUND, _LEVEL, _BODY = 20, 44, 14, 14
#: Left edge of the rounds, right of their names; width of the longest bar of the levels.
_LEFT, _WIDEST = 60, 560
#: Left, bottom, width and height of the plot of speeds.
_FIELD = (60.0, 280.0, 440.0, 260.0)
#: Least distance of the names of curves.
_APART = 14.0


@dataclass(frozen=True)
class Label:
    """A text at a position, followed by ``note`` in a quieter color."""

    x: str
    y: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class Dot:
    """A dot; its color shows the kind of joint."""

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
    """Shapes, and the size of the picture."""

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
    dots, paths, width = [], [], 0.0
    for node in pictures.tree_nodes(robot):
        body = robot.bodies[node.index]
        x, y = 6 + node.x, 10 + _LINE * node.y
        paths.append(f"M{6 + node.up_x:g} {10 + _LINE * node.up:g}V{y:g}H{x:g}")
        dots.append(Dot(f"{x:g}", f"{y:g}", f"{node.radius:.1f}", body.kind))
        note = f"{body.name}, {body.mass:.3g} kg" + (", mimics" if body.mimics else "")
        labels.append(Label(f"{x + 14:g}", f"{y + 4:g}", body.joint, note))
        width = max(width, x + 26 + 7.3 * len(body.joint) + 6.3 * len(note))
    return Picture(f"{width:.0f}", str(_LINE * (len(robot.bodies) + 1)), labels, dots, paths)


def grids(robot: KinematicTree) -> list[Picture]:
    """Return the sparsity of matrices, one pixel per entry."""
    return [
        Picture(
            str(pattern.shape[1]),
            str(pattern.shape[0]),
            bars=[
                Bar(str(at), str(row), str(count), "1") for row, at, count in pictures.runs(pattern)
            ],
            title=title,
            note=f"{pattern.mean():.0%} filled",
        )
        for title, pattern in pictures.patterns(robot).items()
    ]


def rounds(robot: KinematicTree, plan: ScanPlan | None) -> Picture | None:
    """Return the rounds of a scan, bodies from left to right; None for large robots."""
    if plan is None or len(robot.bodies) > MAX_DRAWN or not plan.rounds:
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
    """Return a bar for each level, as long as its number of bodies."""
    counts = [len(level) for level in robot.levels]
    bars, labels = [], []
    for number, count in enumerate(counts):
        width = _WIDEST * count / max(counts)
        bars.append(Bar("0", str(_LEVEL * number), f"{width:.1f}", str(_LEVEL - 2)))
        if len(counts) <= MAX_DRAWN // 2:
            labels.append(Label(f"{width + 6:.1f}", str(_LEVEL * number + 10), str(count)))
    return Picture("640", str(_LEVEL * len(counts) + 4), labels, bars=bars)


def speed(speeds: Sequence[Speed]) -> Picture | None:
    """Return states per second over the number of states, both axes logarithmic."""
    left, bottom, width, height = _FIELD
    curves, ticks = pictures.curves(speeds)
    if not curves:
        return None
    lines = [
        " ".join(f"{left + width * x:.1f},{bottom - height * y:.1f}" for x, y in curve)
        for curve in curves
    ]
    rules = [f"M{left:g} {bottom - height * share:.1f}h{width:g}" for share, _ in ticks]
    labels = [Label("8", f"{bottom + 4 - height * share:.1f}", label) for share, label in ticks]
    for batch, (x, _) in zip(BATCHES, curves[0], strict=True):
        labels.append(Label(f"{left - 8 + width * x:.1f}", f"{bottom + 20:g}", f"{batch:,}"))
    ends = [height * (1.0 - curve[-1][1]) for curve in curves]
    below = -_APART
    for index in sorted(range(len(ends)), key=ends.__getitem__):  # names at the lines, apart
        below = max(ends[index], below + _APART)
        y = bottom - height + 4 + below
        labels.append(Label(f"{left + width + 6:g}", f"{y:.1f}", speeds[index].function))
    labels.append(Label(f"{left + width / 2 - 40:g}", f"{bottom + 42:g}", "", "states per call"))
    labels.append(Label("8", "12", "", "states per second"))
    return Picture("690", "330", labels, rules=rules, curves=lines)
