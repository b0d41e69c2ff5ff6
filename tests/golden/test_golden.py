"""The module kept under version control is what grid-gen writes today, byte for byte.

A difference is either a mistake, or an intended change of the output: then `make golden` writes it
anew, and CHANGELOG.md says under "Generated code" what changed.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest

import gridgen
from golden import kernels
from gridgen.emit.writer import check_folder

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "generated" / "two_link"


def comparable(name: str, text: str) -> str:
    """Return the text of a file without the versions of the libraries that shaped it."""
    if name == "manifest.json":
        manifest = json.loads(text)
        assert Path(manifest["robot"].pop("file")).name == "two_link.urdf"
        assert manifest["files"].pop("model.json")
        return json.dumps(manifest, indent=2)
    if name != "model.json":
        return text
    versions = json.loads(text)["versions"]
    for library in versions.keys() - {"grid-gen"}:
        text = text.replace(f'"{library}": "{versions[library]}"', f'"{library}": "any"')
    return text


def files_of(folder):
    """Return the names of a module's files, without Python's bytecode."""
    paths = (path for path in folder.rglob("*.*") if path.parent.name != "__pycache__")
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.is_file())


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    options = gridgen.GenerateOptions(output=tmp_path_factory.mktemp("golden"))
    folder = gridgen.generate(ROOT / "robots" / "two_link.urdf", options).folder
    return {name: (folder / name).read_bytes().decode() for name in files_of(folder)}


def test_the_same_files(fresh):
    assert files_of(GOLDEN) == sorted(fresh)


def test_it_is_written_anew_without_force():
    urdf = ROOT / "robots" / "two_link.urdf"
    files = check_folder(GOLDEN, str(urdf), "another digest: the URDF was changed")
    assert {"manifest.json", "model.json", "two_link.cuh"} <= {path.name for path in files}


@pytest.mark.parametrize("name", files_of(GOLDEN))
def test_the_same_bytes(name, fresh):
    kept = comparable(name, (GOLDEN / name).read_bytes().decode())
    new = comparable(name, fresh[name])
    if new != kept:
        lines = [text.splitlines(keepends=True) for text in (kept, new)]
        difference = "".join(difflib.unified_diff(*lines, f"kept/{name}", f"new/{name}", n=2))
        pytest.fail(f"run `make golden` if this is expected:\n{difference[:20_000]}", pytrace=False)


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("two_link*")))
def test_lines_are_short(name):
    lines = (GOLDEN / name).read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 120


def test_kernels_of_other_robots_are_what_they_were() -> None:
    """Digests of `kernels.txt`: `make kernels-diff BASE=HEAD` shows the difference in lines."""
    expected = kernels.DIGESTS.read_text(encoding="utf-8").splitlines()
    found = kernels.digests(kernels.kernels(ROOT)).splitlines()
    changed = {line.split()[0] for line in {*expected} ^ {*found}}
    assert not changed, "make golden writes their digests, after an intended change"
    assert len(found) > 60


def test_a_difference_of_kernels_is_shown() -> None:
    base = {"arm/mass_matrix": "// arm.cuh\n#if 1\nt = a;\n", "arm/arm.cuh": "// arm.cuh\n"}
    new = base | {"arm/mass_matrix": "// arm.cuh\n#if 1\nt = b;\n"}
    shown = kernels.difference(base, new)
    assert "-t = a;\n+t = b;\n" in shown
    assert "arm.cuh " not in shown.partition("diff --git")[0]
    assert kernels.difference(base, base) == "no kernel differs\n"
