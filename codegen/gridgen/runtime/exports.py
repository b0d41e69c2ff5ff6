"""Exports: expressions, which ``gridgen.emit`` makes, and drawings of the kinematic tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypedDict

import numpy as np

from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.functions.arrays import (
    ACTUATOR_INPUTS,
    CONSTRAINT_INPUTS,
    OPTIONAL_INPUTS,
    STANDARD_GRAVITY,
)
from gridgen.functions.types import ArrayLike, Unpack
from gridgen.kernel import KernelKey
from gridgen.naming import check_choice, show_value
from gridgen.runtime.calls.resolver import Resolver
from gridgen.runtime.module.description import Module


class Expressions(Protocol):
    """Expressions of one robot's functions."""

    def casadi(self, key: KernelKey, constants: Mapping[str, Sequence[float]]) -> Any:
        """Return a ``casadi.Function``; ``constants`` are inputs with known elements."""

    def sympy(self, key: KernelKey, constants: Mapping[str, Sequence[float]]) -> Any:
        """Return arrays of SymPy expressions by name."""


class ExportOptions(TypedDict, total=False):
    """Keyword arguments of exports.

    Attributes:
        method:    method of ``forward_dynamics``; integrator of ``step`` and similar functions.
        reference: axes of the result, for functions of a link; ``local`` by default.
        inputs:    optional inputs to read, such as ``f_ext``, ``active`` or ``ctrl``.
        gravity:   constant acceleration of free fall (3,) [m/s^2]; by default as in calls.
    """

    method: str
    reference: str
    inputs: Sequence[str]
    gravity: ArrayLike | None


class Exported:
    """The methods of ``Robot`` that return its functions as expressions."""

    _module: Module
    resolver: Resolver

    def casadi(
        self, function: str, frame: str | None = None, **options: Unpack[ExportOptions]
    ) -> Any:
        """Return a function as a ``casadi.Function`` of SX expressions; no compiler is needed.

            forward = robot.casadi("forward_dynamics")
            qdd = forward(q, qd, tau)

        Its inputs are the arrays of the function for one state except gravity, and the robot's
        parameters that are inputs. Vectors are columns, stacks of matrices are vertical. Zeros of
        the robot are structural. Quaternions are normalized. The Jacobians of inverse and forward
        dynamics are analytical; CasADi differentiates all other functions. Inputs of constraints
        and actuators are constants with their defaults, unless ``inputs`` lists them.

        Args:
            function: name of a function.
            frame:    link, for functions of a link.
            options:  see ``ExportOptions``.

        Raises:
            OptionError: CasADi is not installed, the robot is a generated module, or an argument is
                         not one of the choices.
            ModelError:  the robot does not support the function.
        """
        return self._expressions.casadi(*self._exported(function, frame, **options))

    def sympy(
        self, function: str, frame: str | None = None, **options: Unpack[ExportOptions]
    ) -> dict[str, Any]:
        """Return a function as SymPy expressions, for small robots.

            M = robot.sympy("mass_matrix")["M"]

        Arrays of the function have their names and shapes for one state; an array of symbols
        ``q_0``, ``q_1``, ... replaces each input.

        Args:
            function: name of a function.
            frame:    link, for functions of a link.
            options:  see ``ExportOptions``.

        Returns:
            an immutable SymPy array for each input that is not constant and each result, by name.

        Raises:
            ModelError: the program has too many operations.
            Also the errors of ``casadi``.
        """
        found: dict[str, Any] = self._expressions.sympy(*self._exported(function, frame, **options))
        return found

    def _exported(
        self,
        function: str,
        frame: str | None,
        method: str = "auto",
        reference: str = "local",
        inputs: Sequence[str] = (),
        gravity: ArrayLike | None = None,
    ) -> tuple[KernelKey, dict[str, list[float]]]:
        """Return the key of a function's kernel with one thread per state, and its constants."""
        check_choice("function", function, GENERATED)
        row = FUNCTIONS[function]
        if isinstance(inputs, str) or not isinstance(inputs, Sequence):
            raise OptionError(f"inputs is {show_value(inputs)}; give a list of names")
        parameters = self._module.description.parameters
        kinds = {*row.parameters} & parameters.own.keys()
        can_be = [name for name in (*CONSTRAINT_INPUTS, *ACTUATOR_INPUTS) if name in kinds]
        for name in inputs:
            check_choice("inputs", name, (*row.optional_inputs, *can_be))
        like = np.broadcast_to(0.0, (1, self._module.description.nq))
        kernel = self.resolver.kernel_of_call(row, like, "cpu", method, frame, reference)
        if kernel.calls:
            raise OptionError(f"{function} is a loop over time; export step")
        if isinstance(frame, (list, tuple)):
            raise OptionError(f"frame is {show_value(frame)}; give the name of one link")
        order = (name for name in OPTIONAL_INPUTS if name in inputs)
        fixed = [name for name in can_be if name not in inputs]
        constants = {name: parameters.default(name).ravel().tolist() for name in fixed}
        if gravity is None:
            gravity = parameters.own.get("gravity", np.array(STANDARD_GRAVITY))
        constants["gravity"] = _three_numbers(gravity)
        return replace(kernel.same, inputs=tuple(order)), constants

    @property
    def _expressions(self) -> Expressions:
        found: Expressions = of_bodies(self._module, "expressions")
        return found


def of_bodies(module: Module, name: str) -> Any:
    """Return an attribute of a module that has the robot's bodies, which a generated one lacks."""
    if (found := getattr(module, name, None)) is None:
        raise OptionError(
            "a generated module has the robot's code but not its bodies; use gridgen.load() or "
            "grid-gen --report"
        )
    return found


def _three_numbers(gravity: Any) -> list[float]:
    """Return gravity as three numbers."""
    try:
        found = np.asarray(gravity, dtype=float)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (3,) or not np.isfinite(found).all():
        raise OptionError(f"gravity is {show_value(gravity)}; give three numbers [m/s^2]")
    numbers: list[float] = found.tolist()
    return numbers


class Page(Protocol):
    """A page about a robot; notebooks display it."""

    @property
    def html(self) -> str:
        """The self-contained page; it loads no other file."""

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page, and return its path; ``force`` overwrites any file."""


class Drawings(Protocol):
    """Draws one robot."""

    def animate(self, paths: Any, dt: Any, spacing: Any) -> Page:
        """Return the page on which robots move along paths."""

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

    def animate(
        self,
        paths: ArrayLike,
        dt: float,
        path: str | Path | None = None,
        *,
        spacing: float = 0.0,
        force: bool = False,
    ) -> Page:
        """Return a page on which robots move along paths, with a slider of time, and write it.

            robot.animate(q_path, dt, "walk.html")

        The page is one file, which loads no other. It draws the collision shapes, and collision
        meshes if trimesh is installed or the robot is of an MJCF file: their convex hulls.

        Args:
            paths:   joint positions (T, nq), or (B, T, nq) for several robots [rad or m], as
                     ``rollout`` returns them. The page has at most 60 states of each second.
            dt:      time from one state to the next [s].
            path:    path of the file to write; without it, ``page.save`` writes it.
            spacing: distance between robots in a square grid [m]; 0 draws all in one place.
            force:   overwrite any file, also one that grid-gen did not write.

        Returns:
            page: the page, which notebooks display.

        Raises:
            ShapeError:      ``paths`` has another shape, or no state.
            DtypeError:      ``paths`` does not consist of real numbers.
            OptionError:     ``dt`` or ``spacing`` is invalid, a number of ``paths`` is not finite,
                             or the file cannot be written; or the robot is a generated module.
            QuaternionError: the norm of a quaternion differs from 1 by more than 1e-3.
        """
        page = self._drawings.animate(paths, dt, spacing)
        if path is not None:
            page.save(path, force=force)
        return page

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
