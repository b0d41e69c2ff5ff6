"""The location of the templates."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from gridgen.errors import InternalError

#: Folder in a module of the headers that all robots share.
SHARED_FOLDER = "include/gridgen/"


def template_root() -> Path:
    """Return the template tree: inside an installed wheel, or at the top of a checkout."""
    packaged = Path(str(resources.files("gridgen"))) / "templates"
    checkout = Path(__file__).resolve().parents[2] / "templates"  # codegen/gridgen -> top
    for root in (packaged, checkout):
        if root.is_dir():
            return root
    raise InternalError(f"no template tree: looked in {packaged} and {checkout}")


def static_text(name: str) -> str:
    """Return a file that all robots share."""
    return (template_root() / "static" / name).read_text(encoding="utf-8")
