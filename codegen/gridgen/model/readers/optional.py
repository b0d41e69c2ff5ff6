"""Libraries that some readers need, and what to say where they are missing."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from gridgen.errors import UrdfError
from gridgen.naming import one_line


def library(name: str, source: str, what: str) -> Any:
    """Return an imported library.

    Args:
        name:   of the module, and of its package.
        source: what a message calls the robot.
        what:   what the library is needed for: ``a xacro file is expanded by``.

    Raises:
        UrdfError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise _missing(name, source, what) from error
        raise UrdfError(
            f"{what} the package {name}, which fails: {one_line(error)}", source
        ) from error


def require(name: str, source: str, what: str) -> None:
    """Raise if a library is not installed, without importing it; see ``library``."""
    if importlib.util.find_spec(name) is None:
        raise _missing(name, source, what)


def _missing(name: str, source: str, what: str) -> UrdfError:
    trouble = f"the package {name}, which is not installed: pip install {name}"
    return UrdfError(f"{what} {trouble}", source)
