"""``Robot``'s methods that draw it; ``gridgen.report`` implements them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from gridgen.runtime.exports import of_bodies
from gridgen.runtime.module.description import Module


class Page(Protocol):
    """A page about a robot; notebooks display it."""

    @property
    def html(self) -> str:
        """The self-contained page; it loads no other file."""

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page, and return its path; ``force`` overwrites any file."""


class Drawings(Protocol):
    """Draws one robot."""

    def report(self, archs: Sequence[str], measure: bool) -> Page:
        """Return the page about the robot."""

    def plot_tree(self, axes: Any) -> Any:
        """Draw its tree."""

    def plot_sparsity(self, axes: Any) -> Any:
        """Draw the sparsity of its matrices."""


class Drawn:
    """The methods of ``Robot`` that draw it."""

    _module: Module

    def report(self, *, archs: Sequence[str] = ("sm_90",), measure: bool = True) -> Page:
        """Return a page about the robot: mass, reach, joints to move, tree, costs, speed.

            robot.report().save("arm.html")

        It takes a minute for an arm, mostly to compile; a few seconds with ``measure=False``.

        Args:
            archs:   GPU architectures for predicted times, such as ``sm_90``; kernels are compiled
                     for them if NVRTC is installed.
            measure: compile for this machine's CPU, compare with the reference, and measure times.

        Raises:
            OptionError: an architecture is unknown, or the robot is a generated module.
        """
        if isinstance(archs, str) or not isinstance(archs, Sequence):
            archs = (archs,)
        return self._drawings.report(archs, measure)

    def plot_tree(self, axes: Any = None) -> Any:
        """Draw the tree of bodies with matplotlib, and return the axes.

        Args:
            axes: matplotlib axes; a new figure by default.

        Raises:
            OptionError: matplotlib is not installed, or the robot is a generated module.
        """
        return self._drawings.plot_tree(axes)

    def plot_sparsity(self, axes: Any = None) -> Any:
        """Draw the sparsity of M, its factor and the gradients, and return the axes.

        Args:
            axes: an array of matplotlib axes, one per matrix; a new figure by default.

        Raises:
            OptionError: matplotlib is not installed, or the robot is a generated module or has too
                many velocities.
        """
        return self._drawings.plot_sparsity(axes)

    @property
    def _drawings(self) -> Drawings:
        found: Drawings = of_bodies(self._module, "drawings")
        return found
