"""A page about one robot: the model, and the cost, accuracy and speed of its code.

``facts`` collects numbers, ``pictures`` and ``drawing`` compute shapes, ``page`` renders both with
the templates of ``templates/report``; ``plots`` draws figures for papers with matplotlib.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridgen.emit.writer import write_file
from gridgen.errors import OptionError
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.naming import show_value
from gridgen.progress import Progress, announced
from gridgen.report.animation import motion_of
from gridgen.report.facts import gather
from gridgen.report.page import render_animation, render_page
from gridgen.report.pictures import plot_sparsity, plot_tree
from gridgen.robot import Robot
from gridgen.runtime.module.description import Module
from gridgen.schedules.thread.plan import Programs

__all__ = ["Drawings", "Report"]


@dataclass(frozen=True)
class Report:
    """A page about a robot; notebooks display it."""

    title: str  #: the robot's name.
    html: str  #: the self-contained page; it loads no other file.

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page, and return its path.

        Args:
            path:  path of the file.
            force: overwrite any file, also one that grid-gen did not write or that was edited.

        Raises:
            OptionError: the file cannot be written, or exists and is not an unchanged report.
        """
        try:
            where = Path(path)
            write_file(where, lambda file: file.write(self.html.encode()), force)
        except (TypeError, ValueError) as error:
            raise OptionError(
                f"the path is {show_value(path)}, which cannot be written ({error}); give the path "
                "of a file in an existing folder"
            ) from error
        return where

    def __repr__(self) -> str:
        return f"<Report of {self.title!r}: {len(self.html) // 1024} kB; save(path) writes it>"

    def _repr_html_(self) -> str:
        """Return the page in a frame, separate from the style of the notebook."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:48em;border:0">'
            "</iframe>"
        )


class Drawings:
    """Draws one robot; see ``gridgen.runtime.exports``."""

    def __init__(
        self, tree: KinematicTree, module: Module, programs: Callable[[str], Programs]
    ) -> None:
        self._tree, self._module, self._programs = tree, module, programs

    def report(
        self,
        archs: Sequence[str] = ("sm_90",),
        measure: bool = True,
        progress: Progress | None = None,
    ) -> Report:
        """Return the page about the robot; see ``Robot.report``."""
        robot = Robot(self._module, "cpu")
        with announced("measuring", progress=progress, names_steps=True) as shown:
            facts = gather(self._tree, self._module, robot, self._programs, archs, measure, shown)
        return Report(self._tree.name, render_page(facts))

    def animate(self, paths: Any, dt: Any, spacing: Any) -> Report:
        """Return the page on which robots move; see ``Robot.animate``."""
        motion = motion_of(self._tree, self._module.description, paths, dt, spacing)
        return Report(self._tree.name, render_animation(self._tree, motion))

    def plot_tree(self, axes: Any = None) -> Any:
        """Draw the tree; see ``Robot.plot_tree``."""
        return plot_tree(self._tree, axes)

    def plot_sparsity(self, axes: Any = None) -> Any:
        """Draw the sparsity of matrices; see ``Robot.plot_sparsity``."""
        return plot_sparsity(self._tree, axes)
