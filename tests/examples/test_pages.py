"""What the manual's pages show runs when it is pasted, each block by itself."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path) -> list[tuple[int, str, str | None]]:
    """Return the blocks of Python of a page, the lines where they begin, and their output.

    A block of text that follows a block of Python shows all that it prints.
    """
    text = path.read_text(encoding="utf-8")
    found = re.finditer(
        r"^```python\n(.*?)^```$(?:\n```text\n(.*?)^```$)?", text, re.DOTALL | re.MULTILINE
    )
    return [(text.count("\n", 0, match.start(1)), match[1], match[2]) for match in found]


#: Pages whose blocks run in every run.
FIRST = ("README", "quickstart")

#: What blocks import that is no dependency.
LIBRARIES = ("torch", "jax", "dask", "gymnasium", "scipy", "crocoddyl", "casadi")


def cases() -> Iterator[Any]:
    """Yield every block of every page; `.ci/run` runs those that a newcomer does not try first."""
    for path in PAGES:
        name = path.relative_to(ROOT).as_posix()
        for line, text, output in blocks(path):
            libraries = [
                one
                for one in LIBRARIES
                if re.search(rf"^(import|from) {one}\b", text, re.MULTILINE)
            ]
            is_first = path.stem in FIRST and not libraries
            marks = () if is_first else pytest.mark.exhaustive
            yield pytest.param(
                path, line, text, output, libraries, id=f"{name}:{line}", marks=marks
            )


@pytest.mark.parametrize(("path", "line", "text", "output", "libraries"), [*cases()])
def test_a_block_runs_by_itself(
    path: Path,
    line: int,
    text: str,
    output: str | None,
    libraries: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for library in libraries:
        pytest.importorskip(library)
    for folder in ("robots", "generated", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    if "__main__" in text:  # starts processes, which begin with the program
        (tmp_path / "program.py").write_text(text, encoding="utf-8")
        subprocess.run([sys.executable, "program.py"], check=True, timeout=300)
        return
    monkeypatch.syspath_prepend(str(tmp_path))
    exec(compile("\n" * line + text, str(path), "exec"), {"__name__": "pasted"})
    if output is not None:
        assert capsys.readouterr().out == output


def test_the_quick_start_shows_output() -> None:
    for path in (ROOT / "README.md", ROOT / "docs" / "quickstart.md"):
        assert all(output for _, _, output in blocks(path))


def test_the_pages_have_programs() -> None:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        assert "8 < --" not in text, "a formatter has undone an inclusion"
        is_told = path.parent.name == "howto" or path.stem == "quickstart"
        assert blocks(path) or not is_told


def test_the_sources_that_pages_name_exist() -> None:
    folders = ("codegen", "tests", "benchmarks", "examples", "robots", "docs")
    sources = [f"/{path.as_posix()}" for one in folders for path in (ROOT / one).rglob("*.py")]
    for path in PAGES:
        for name in re.findall(r"`([\w/]+\.py)`", path.read_text(encoding="utf-8")):
            assert any(source.endswith(f"/{name}") for source in sources), f"{path.name}: {name}"
