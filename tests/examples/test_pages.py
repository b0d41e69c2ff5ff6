"""What the manual's pages show runs as shown, one block after the other."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "quickstart.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]

#: Pages whose programs stand in examples/, or are of another language; others test them.
WITHOUT_PYTHON = ("cpp", "kernels", "learning", "rust")


def blocks(path: Path) -> list[tuple[int, str]]:
    """Return the blocks of Python of a page, and the lines where they begin."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in found]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_blocks_of_a_page_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("robots", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    names: dict[str, object] = {}
    shown = blocks(path)
    assert "8 < --" not in path.read_text(encoding="utf-8"), "a formatter has undone an inclusion"
    assert shown or path.stem in WITHOUT_PYTHON
    for library in ("torch", "jax", "dask", "gymnasium", "scipy", "crocoddyl", "casadi"):
        if any(f"import {library}" in text for _, text in shown):
            pytest.importorskip(library)
    for line, text in shown:
        exec(compile("\n" * line + text, str(path), "exec"), names)
