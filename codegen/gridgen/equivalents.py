"""Names of other libraries for our functions: data of messages and of the manual."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from gridgen.naming import similar

# Our names, by short names and by names of options elsewhere.
_WORDS = {
    "com": "center_of_mass",
    "fd": "forward_dynamics",
    "fk": "forward_kinematics",
    "id": "inverse_dynamics",
    "ik": "inverse_kinematics",
    "decimation": "substeps",
    "fix_base": "floating_base",
    "fixed_base": "floating_base",
    "free_flyer": "floating_base",
    "freeflyer": "floating_base",
    "nstep": "substeps",
    "nsteps": "substeps",
    "package_dirs": "mappings",
    "root_joint": "floating_base",
    "timestep": "dt",
    "use_fixed_base": "floating_base",
}


def equivalents() -> list[list[str]]:
    """Return rows of our names, and those of other libraries, in Markdown; the headings first."""
    with (Path(__file__).parent / "equivalents.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@cache
def _ours() -> dict[str, str]:
    """Return our function for each name of another library, in lower case."""
    found: dict[str, str] = {}
    for own, *others in equivalents()[1:]:
        function = re.findall(r"`([\w.]+)", own)[0]
        for name in re.findall(r"`([\w.]+)`", " ".join(others)):
            found.setdefault(name.lower(), function)
    return _WORDS | found


def hint(name: str, names: Iterable[str]) -> str:
    """Return what may be meant by an unknown name, as the end of a message, or nothing.

    Args:
        name:  the unknown name.
        names: the valid names.
    """
    valid = tuple(names)
    own = _ours().get(name.lower())
    near = (own,) if own in valid else similar(name, valid)
    return f"did you mean {' or '.join(near)}?" if near else ""


def unknown_keyword(function: str, name: str, names: Iterable[str]) -> TypeError:
    """Return the error for a keyword argument that a function does not have."""
    near = hint(name, names)
    return TypeError(
        f"{function}() got an unexpected keyword argument {name!r}{'; ' if near else ''}{near}"
    )
