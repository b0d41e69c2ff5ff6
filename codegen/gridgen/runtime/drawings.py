"""A robot's methods that draw it; what is drawn is known where robots are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from gridgen.errors import OptionError
from gridgen.runtime.module.description import Module


class Page(Protocol):
    """A page about a robot; in a notebook it shows itself."""

    @property
    def html(self) -> str:
        """The page: one file that needs no other, and no network."""

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page, and return its path; ``force`` replaces what is no report."""


class Drawings(Protocol):
    """Draws one robot."""

    def report(self, archs: Sequence[str], measure: bool) -> Page:
        """Return the page about the robot."""

    def plot_tree(self, axes: Any) -> Any:
        """Draw its tree."""

    def plot_sparsity(self, axes: Any) -> Any:
        """Draw where its matrices have entries."""


class Drawn:
    """What ``Robot`` has to be looked at."""

    _module: Module

    def report(self, *, archs: Sequence[str] = ("sm_90",), measure: bool = True) -> Page:
        """Return a page about the robot: tree, skeleton, sparsity, costs, accuracy, speed.

            robot.report().save("arm.html")

        It takes a minute for an arm, most of it for compilers; ``measure=False`` some seconds.

        Args:
            archs:   GPUs whose times are predicted; kernels are compiled for them where NVRTC is
                     installed.
            measure: compile for this machine's CPU, compare with the reference, and measure.

        Raises:
            OptionError: nothing is known of a GPU; or the robot is a generated module.
        """
        if isinstance(archs, str) or not isinstance(archs, Sequence):
            archs = (archs,)
        return self._drawings.report(archs, measure)

    def plot_tree(self, axes: Any = None) -> Any:
        """Draw the tree of bodies with matplotlib, and return the axes.

        Args:
            axes: where to draw; a figure of its own by default.

        Raises:
            OptionError: matplotlib is not installed; or the robot is a generated module.
        """
        return self._drawings.plot_tree(axes)

    def plot_sparsity(self, axes: Any = None) -> Any:
        """Draw where M, its factor and the gradients have entries, and return the axes.

        Args:
            axes: an array of axes, one for each matrix; a figure of their own by default.

        Raises:
            OptionError: matplotlib is not installed; or the robot is a generated module, or has
                too many velocities for a picture.
        """
        return self._drawings.plot_sparsity(axes)

    @property
    def _drawings(self) -> Drawings:
        drawings: Drawings | None = getattr(self._module, "drawings", None)
        if drawings is None:
            raise OptionError(
                "a generated module has the robot's code, but not its bodies; use gridgen.load(), "
                "or grid-gen --report"
            )
        return drawings
