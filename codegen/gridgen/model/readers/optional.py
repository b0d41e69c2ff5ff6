"""Optional libraries of the readers, and the error for a missing one."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from gridgen.errors import UrdfError
from gridgen.naming import one_line


def library(name: str, source: str, what: str) -> Any:
    """Import a library.

    Args:
        name:   name of the module and its package.
        source: name of the robot in messages.
        what:   beginning of the message: ``a xacro file requires``.

    Raises:
        UrdfError: the library is not installed, or its import fails.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise _missing(name, source, what) from error
        raise UrdfError(
            f"{what} the package {name}, whose import fails: {one_line(error)}", source
        ) from error


def require(name: str, source: str, what: str) -> None:
    """Raise if a library is not installed, without an import; see ``library``."""
    if importlib.util.find_spec(name) is None:
        raise _missing(name, source, what)


def _missing(name: str, source: str, what: str) -> UrdfError:
    trouble = f"the package {name}, which is not installed: pip install {name}"
    return UrdfError(f"{what} {trouble}", source)
