"""Errors that users can cause; ``InternalError`` is for bugs of this package."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

_PACKAGE = os.path.dirname(__file__) + os.sep


def printable(text: str, besides: str = "") -> str:
    """Return text with escapes for characters that corrupt a terminal or a log.

    Paths and texts of files may contain control characters and line breaks.
    """
    if text.isprintable():
        return text
    return "".join(x if x.isprintable() or x in besides else ascii(x)[1:-1] for x in text)


class GridGenError(Exception):
    """Base class of all errors a user can cause; the message has location, value and remedy.

    A message is one printable line, except of errors that quote source code.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, "\n" if isinstance(self, CompileError) else ""))


class UrdfError(GridGenError):
    """The URDF file does not describe one valid robot.

    Args:
        message: the problem, with the element's name, the value and the remedy.
        source:  the file as the user named it, or a word for an object in memory.
        line:    line of the element, counted from one; ``None`` if unknown.
    """

    def __init__(self, message: str, source: str, line: int | None = None) -> None:
        self._given = (message, source, line)
        self.source = source
        self.line = line
        place = source if line is None else f"{source}:{line}"
        super().__init__(f"{place}: {message}")

    def __reduce__(self) -> tuple[type[UrdfError], tuple[str, str, int | None]]:
        """Pickle the error, for processes of a pool."""
        return type(self), self._given


class ModelError(GridGenError):
    """The robot is readable but does not support the request (a singular mass matrix)."""


class OptionError(GridGenError):
    """An option has an invalid value."""


class ShapeError(GridGenError, ValueError):
    """An array argument has the wrong shape."""


class QuaternionError(GridGenError, ValueError):
    """The quaternion of a free or ball joint is not a unit quaternion."""


class ParameterError(GridGenError, ValueError):
    """A mass and an inertia are not those of a physical body."""


class DtypeError(GridGenError, TypeError):
    """An array argument has the wrong element type, or carries more than numbers (a gradient)."""


class DeviceError(GridGenError):
    """The backend cannot use an array's device, or the backend is missing."""


class CompileError(GridGenError):
    """A compiler is missing, or rejects generated code."""


class InternalError(Exception):
    """A bug in gridgen: please report it with the input that led here."""


class GridGenWarning(UserWarning):
    """A problem of the robot or of this machine that does not stop the work."""


def warn(message: str) -> None:
    """Warn in one line, with the line of Python code that called this package."""
    message = printable(message)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:  # run as a command: such a line does not exist
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
