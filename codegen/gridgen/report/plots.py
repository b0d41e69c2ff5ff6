"""Figures for papers, with matplotlib."""

from __future__ import annotations

from typing import Any

from gridgen.errors import OptionError
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.naming import one_line
from gridgen.report.pictures import MAX_VELOCITIES, patterns, tree_nodes


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
