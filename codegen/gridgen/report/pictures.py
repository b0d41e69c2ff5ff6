"""Pictures of a report: their geometry, which templates and the page's script draw; plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.check import random_states
from gridgen.dynamics.functions import refusal
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import OptionError
from gridgen.model.description import Shape
from gridgen.model.kinematic_tree import Body, KinematicTree
from gridgen.model.meshes import outline_of
from gridgen.model.pose import IDENTITY, Pose, Vector3, matrix3, scale, transpose, vector3
from gridgen.naming import one_line
from gridgen.report.facts import BATCHES, Speed
from gridgen.schedules.team.plan import ScanPlan
from gridgen.symbolic.scalars import FloatScalars

#: Most velocities for pictures of matrices: beyond, an entry is smaller than a pixel.
MAX_VELOCITIES = 300
#: Largest radius of a dot, indentation of a level, and of all levels together [pixels].
_DOT, _INDENT, _WIDEST = 7.0, 16.0, 320.0

Pattern = NDArray[np.bool_]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Node:
    """A body in the picture of the tree, one line each."""

    x: float  #: indentation of its dot [pixels].
    y: int  #: line of its dot.
    up_x: float  #: indentation of its parent [pixels].
    up: int  #: line of its parent, 0 for the base.
    radius: float  #: radius of its dot, proportional to the cube root of the mass [pixels].
    index: int  #: index of the body.


def tree_nodes(tree: KinematicTree) -> list[Node]:
    """Return the tree as an indented list, in the order of the bodies (depth first)."""
    step = min(_INDENT, _WIDEST / len(tree.levels))
    heaviest = max(body.mass for body in tree.bodies) or 1.0
    nodes = []
    for index, body in enumerate(tree.bodies):
        above = 0.0 if body.parent < 0 else step * (tree.bodies[body.parent].level + 1)
        radius = 1.5 + (_DOT - 1.5) * math.cbrt(max(body.mass, 0.0) / heaviest)
        nodes.append(
            Node(step * (body.level + 1), index + 1, above, body.parent + 1, radius, index)
        )
    return nodes


def scene(tree: KinematicTree) -> dict[str, Any]:
    """Return the data of the page's script: bodies with their joints, frames and solids.

    Poses are [rotation, translation] in the canonical frame of a body, the base for -1. A joint
    turns about z by ``turn`` times its position and slides along z by ``slide`` times it, unless
    its coordinates from ``quaternion`` on are one. A solid
    is a box of half edges ``sides`` plus an ellipsoid of semi-axes ``radii``: an inertia
    ellipsoid, of the body's mass and inertia at uniform density, or a collision shape. That of a
    mesh is the convex hull of ``points``.
    """
    bodies: list[dict[str, Any]] = []
    solids: list[dict[str, Any]] = []
    for index, body in enumerate(tree.bodies):
        bodies.append(
            {
                "joint": body.joint,
                "link": body.name,
                "kind": body.kind,
                "parent": body.parent,
                "place": _pose(Pose(body.rotation, body.translation)),
                "q": body.q_index,
                "quaternion": body.joint_type.quaternion,
                "mimics": body.mimics,
                "mass": body.mass,
            }
        )
        if body.nv == 1:
            turn, slide = body.joint_type.transform(index, [1.0], FloatScalars())
            limits = tree.lower_limits[body.q_index], tree.upper_limits[body.q_index]
            lower, upper = (x if math.isfinite(x) and not body.mimics else None for x in limits)
            bodies[-1] |= {"multiplier": body.multiplier, "offset": body.offset}
            bodies[-1] |= {"turn": math.atan2(turn[1][0], turn[0][0]), "slide": float(slide[2])}
            bodies[-1] |= {"lower": lower, "upper": upper}
        if body.mass > 1e-9:  # radii of a lighter one may overflow
            center, moments, axes = central_inertia(body)
            squares = 2.5 / body.mass * (moments.sum() - 2.0 * moments)
            pose = Pose(matrix3(axes.ravel().tolist()), vector3(center.tolist()))
            radii = vector3(np.sqrt(np.maximum(squares, 0.0)).tolist())
            solids.append(_solid("inertia", index, Shape(pose, radii=radii)))
    frames = []
    for frame in tree.frames:
        turned = IDENTITY if frame.body < 0 else transpose(tree.bodies[frame.body].link_rotation)
        place = Pose(turned) @ Pose(frame.rotation, frame.translation)
        frames.append({"name": frame.name, "body": frame.body, "place": _pose(place)})
        for shape in filter(None, frame.shapes):
            own = replace(shape, pose=place @ shape.pose)
            solids.append(_solid("collision", frame.body, own))
        for points in filter(None.__ne__, (outline_of(tree.source, one) for one in frame.meshes)):
            own = points @ np.array(place.rotation).T + np.array(place.translation)
            drawn = {"points": own.round(4).tolist(), "at": own.mean(axis=0).round(4).tolist()}
            solids.append({"of": "collision", "body": frame.body, **drawn})
    return {"nq": tree.nq, "bodies": bodies, "frames": frames, "solids": solids}


def central_inertia(body: Body) -> tuple[Vector, Vector, Vector]:
    """Return a body's center of mass, principal moments and axes (columns), canonical frame."""
    c = np.array(body.first_moment) / body.mass
    about_center = np.array(body.inertia) - body.mass * (c @ c * np.eye(3) - np.outer(c, c))
    moments, axes = np.linalg.eigh(about_center)
    return c, moments, axes


def _solid(of: str, body: int, shape: Shape) -> dict[str, Any]:
    axes = transpose(shape.pose.rotation)
    sides, radii = (
        [
            _rounded(scale(length, axis))
            for length, axis in zip(lengths, axes, strict=True)
            if length
        ]
        for lengths in (shape.half_lengths, shape.radii)
    )
    return {
        "of": of,
        "body": body,
        "at": _rounded(shape.pose.translation),
        "sides": sides,
        "radii": radii,
    }


def _pose(pose: Pose) -> list[Any]:
    return [[_rounded(row) for row in pose.rotation], _rounded(pose.translation)]


def _rounded(vector: Vector3) -> list[float]:
    return [round(value, 12) + 0.0 for value in vector]


def reach(tree: KinematicTree) -> tuple[float, str]:
    """Return the largest distance of a link frame from the root link [m], and the link.

    The result of a random search within the joint limits; it may be a few percent too small.
    """
    lower, upper = np.maximum(tree.lower_limits, -np.pi), np.minimum(tree.upper_limits, np.pi)
    for body in tree.bodies:
        if body.joint_type.is_free:
            lower[body.q_index : body.q_index + 7] = body.joint_type.neutral
            upper[body.q_index : body.q_index + 7] = body.joint_type.neutral
    upper = np.maximum(lower, upper)
    rng = np.random.default_rng(0)
    best, width = rng.uniform(lower, upper, (256, tree.nq)), 0.25
    farthest, link = -1.0, 0
    for _ in range(8):
        for start in tree.quaternions:
            best[:, start : start + 4] /= np.linalg.norm(best[:, start : start + 4], axis=1)[
                :, None
            ]
        (poses,) = evaluate_reference(tree, "forward_kinematics", {"q": best})
        distances = np.linalg.norm(poses[:, :, :3, 3] - poses[:, :1, :3, 3], axis=-1)
        state, link = np.unravel_index(distances.argmax(), distances.shape)
        farthest = float(distances[state, link])
        steps = width * (upper - lower) * rng.normal(size=best.shape)
        steps[0], width = 0.0, width / 2
        best = np.clip(best[state] + steps, lower, upper)
    return farthest, tree.frames[link].name


def patterns(tree: KinematicTree) -> dict[str, Pattern]:
    """Return the sparsity patterns of matrices by their names, from random states.

    The factor is L of M = L^T L; a row is nonzero only at ancestors (Featherstone 2005).
    """
    if tree.nv > MAX_VELOCITIES:
        return {}
    states = random_states(tree, 2, np.random.default_rng(0))
    (M,) = evaluate_reference(tree, "mass_matrix", states)
    factor = np.eye(tree.nv, dtype=bool)
    for velocity in tree.velocities.outward():
        for above in tree.velocities.climb(velocity):
            factor[velocity, tree.velocities.parent(above)] = True
    found = {"mass matrix M": (M != 0).any(axis=0), "its factor L": factor}
    gradients = {
        "inverse_dynamics_gradient": ("of joint torques by q", "of joint torques by qd"),
        "forward_dynamics_gradient": ("of accelerations by q", "of accelerations by qd"),
    }
    for function, titles in gradients.items():
        if refusal(tree, function) is None:
            results = evaluate_reference(tree, function, states)
            for title, result in zip(titles, results, strict=False):
                found[f"gradient {title}"] = (result != 0).any(axis=0)
    return found


def runs(pattern: Pattern) -> list[tuple[int, int, int]]:
    """Return the runs of adjacent entries: (row, first column, number of columns)."""
    found: list[tuple[int, int, int]] = []
    for row, entries in enumerate(pattern.tolist()):
        start = 0
        for column, entry in enumerate([*entries, False]):
            if not entry:
                if column > start:
                    found.append((row, start, column - start))
                start = column + 1
    return found


def rounds(plan: ScanPlan) -> list[list[tuple[int, int]]]:
    """Return, for each round of a scan, the pairs that combine: (ancestor, body)."""
    return [
        [(above, body) for body, above in enumerate(table) if above >= 0]
        for table in plan.above[: plan.rounds]
    ]


Points = list[tuple[float, float]]


def rate(number: float) -> str:
    """Return a number of states per second as text: ``64 M/s``."""
    for size, unit in ((1e9, " G/s"), (1e6, " M/s"), (1e3, " k/s")):
        if number >= 0.9995 * size:
            return f"{float(f'{number / size:.3g}'):g}{unit}"
    return f"{float(f'{number:.3g}'):g}/s"


def curves(speeds: Sequence[Speed]) -> tuple[list[Points], list[tuple[float, str]]]:
    """Return curves of states per second over the number of states, and the vertical axis.

    Points are shares of logarithmic axes; the vertical one has its powers of ten: (share, label).
    """
    rates = [[batch / speed.seconds[batch] for batch in BATCHES] for speed in speeds]
    if not rates:
        return [], []
    low = math.floor(math.log10(min(map(min, rates))))
    high = max(math.ceil(math.log10(max(map(max, rates)))), low + 1)
    across = [math.log2(batch) / math.log2(BATCHES[-1]) for batch in BATCHES]
    drawn = [
        [
            (x, (math.log10(number) - low) / (high - low))
            for x, number in zip(across, those, strict=True)
        ]
        for those in rates
    ]
    return drawn, [((k - low) / (high - low), rate(10.0**k)) for k in range(low, high + 1)]


def _axes(axes: Any, **options: Any) -> Any:
    """Return the given axes, or new ones."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise OptionError(
            f"plots require matplotlib: pip install matplotlib ({one_line(error)})"
        ) from error
    return pyplot.subplots(**options)[1]


def plot_tree(tree: KinematicTree, axes: Any = None) -> Any:
    """Draw the robot's tree, and return the axes; see ``Robot.plot_tree``."""
    nodes = tree_nodes(tree)
    axes = _axes(axes, figsize=(6.0, 0.6 + 0.22 * len(nodes)), layout="constrained")
    for node in nodes:
        body = tree.bodies[node.index]
        axes.plot([node.up_x, node.up_x, node.x], [node.up, node.y, node.y], "-", color="0.6", lw=1)
        axes.plot(node.x, node.y, "o", ms=1.6 * node.radius, color="C0")
        label = f"{body.joint} ({body.kind}), {body.mass:.3g} kg"
        axes.text(node.x + 10.0, node.y, label, va="center", fontsize=7, parse_math=False)
    axes.plot(0.0, 0.0, "s", color="0.3")
    axes.text(10.0, 0.0, tree.name, va="center", fontsize=8, parse_math=False)
    axes.set_xlim(-10.0, max(node.x for node in nodes) + 220.0)
    axes.invert_yaxis()
    axes.axis("off")
    return axes


def plot_sparsity(tree: KinematicTree, axes: Any = None) -> Any:
    """Draw the sparsity of matrices, and return the axes; see ``Robot.plot_sparsity``."""
    found = patterns(tree)
    if not found:
        raise OptionError(
            f"the robot has {tree.nv} velocities; plot_sparsity draws at most {MAX_VELOCITIES}"
        )
    options = {"figsize": (2.2 * len(found), 2.8), "layout": "constrained", "squeeze": False}
    drawn = _axes(axes, ncols=len(found), **options)
    several = list(getattr(drawn, "flat", drawn))
    if len(several) < len(found):
        raise OptionError(f"axes has length {len(several)}; give {len(found)} axes, one per matrix")
    for one, (title, pattern) in zip(several, found.items(), strict=False):
        one.imshow(pattern, cmap="Blues", vmin=0.0, vmax=1.4, interpolation="nearest")
        one.set_title(title.replace(" by", "\nby"), fontsize=8)
        one.set_xticks([])
        one.set_yticks([])
    return drawn
