"""Libraries that some readers need, and what to say where they are missing."""

from __future__ import annotations

import importlib
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
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == name
        trouble = (
            f"is not installed: pip install {name}" if is_missing else f"fails: {one_line(error)}"
        )
        raise UrdfError(f"{what} the package {name}, which {trouble}", source) from error
