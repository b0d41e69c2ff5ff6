"""Everything that a user can do wrong has an error here; a bug of ours is an ``InternalError``."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

_PACKAGE = os.path.dirname(__file__) + os.sep


class GridGenError(Exception):
    """Base class of every error a user can cause: where, what (with the value), what to do."""


class UrdfError(GridGenError):
    """The URDF file cannot be read as one robot.

    Args:
        message: what is wrong, with the element's name, the value and the remedy.
        source:  the file as the user named it, or a word for an object handed over in memory.
        line:    line of the element, counted from one; ``None`` where there is none.
    """

    def __init__(self, message: str, source: str, line: int | None = None) -> None:
        self._given = (message, source, line)
        self.source = source
        self.line = line
        place = source if line is None else f"{source}:{line}"
        super().__init__(f"{place}: {message}")

    def __reduce__(self) -> tuple[type[UrdfError], tuple[str, str, int | None]]:
        """Let a process of a pool hand the error over."""
        return type(self), self._given


class ModelError(GridGenError):
    """The robot is readable, but what was asked of it is impossible (a singular mass matrix)."""


class OptionError(GridGenError):
    """An option has a value that is not one of those offered."""


class ShapeError(GridGenError, ValueError):
    """An array argument has the wrong shape."""


class QuaternionError(GridGenError, ValueError):
    """A free joint's quaternion is not a unit quaternion."""


class ParameterError(GridGenError, ValueError):
    """A mass and an inertia are given that no body has."""


class DtypeError(GridGenError, TypeError):
    """An array argument has elements of the wrong type, or is more than numbers (a gradient)."""


class DeviceError(GridGenError):
    """An array lies on a device that the chosen backend cannot use, or a backend is missing."""


class CompileError(GridGenError):
    """A compiler is missing, or refused generated code."""


class InternalError(Exception):
    """A bug in gridgen: please report it with the input that led here."""


class GridGenWarning(UserWarning):
    """Something in the robot or on this machine deserves attention, but work goes on."""


def warn(message: str) -> None:
    """Warn, pointing at the line of Python that called this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:  # run as a program: there is no such line
        warnings.warn_explicit(message, GridGenWarning, "<grid-gen>", 1)
        return
    warnings.warn_explicit(
        message,
        GridGenWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _is_ours(frame: FrameType) -> bool:
    """Return whether a frame belongs to this package, or to a module that it generated."""
    folder, name = os.path.split(frame.f_code.co_filename)
    is_generated = name == "__init__.py" and os.path.exists(os.path.join(folder, "model.json"))
    return is_generated or frame.f_code.co_filename.startswith(_PACKAGE)
