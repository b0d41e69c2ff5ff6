"""The same input gives the same bytes, wherever and however grid-gen is run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from helpers.robots import exhaustive_cases

ROBOTS = Path(__file__).parents[2] / "robots"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a module."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    import gridgen

    options = gridgen.GenerateOptions(output=tmp_path_factory.mktemp("expected"))
    return {
        name: contents(gridgen.generate(ROBOTS / f"{name}.urdf", options).folder)
        for name in ("gripper", "cart_pole")
    }


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("gripper", "0"),
        ("cart_pole", "1"),
        *exhaustive_cases(("gripper", "4242"), ("cart_pole", "0")),
    ],
)
def test_output_depends_on_the_input_alone(name, seed, tmp_path, grid_gen, expected):
    folder = tmp_path / f"seed {seed}" / "deep"
    folder.mkdir(parents=True)
    urdf = shutil.copy(ROBOTS / f"{name}.urdf", folder)
    environment = {"PYTHONHASHSEED": seed, "LC_ALL": "C", "TZ": "Asia/Tokyo", "COLUMNS": seed}
    run = grid_gen(Path(urdf).name, "-o", f"out{seed}", "--quiet", cwd=folder, **environment)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert contents(folder / f"out{seed}" / name) == expected[name]


def test_a_second_run_in_the_same_process_writes_the_same(tmp_path, expected):
    import gridgen

    gridgen.generate(ROBOTS / "two_link.urdf", gridgen.GenerateOptions(output=tmp_path))
    module = gridgen.generate(ROBOTS / "cart_pole.urdf", gridgen.GenerateOptions(output=tmp_path))
    assert contents(module.folder) == expected["cart_pole"]


def test_files_are_plain_text(expected):
    for files in expected.values():
        for name, data in files.items():
            assert data.isascii(), name
            assert b"\r" not in data, name
            assert b"\t" not in data, name
            assert data.endswith(b"\n"), name
            assert not any(line.endswith(b" ") for line in data.splitlines()), name


def with_values(text):
    """Return a header with values in place of named constants, without line breaks."""
    values = dict(re.findall(r"^inline constexpr double (k\w+) = (\S+);", text, re.M))
    assert values
    return " ".join(re.sub(r"\bk\w+", lambda name: values.get(name[0], name[0]), text).split())


def test_a_function_is_the_same_text_with_and_without_the_others(tmp_path, expected):
    """Constants are compared by value: all functions of a module decide which ones have names."""
    import gridgen

    options = gridgen.GenerateOptions(output=tmp_path, functions=("mass_matrix",))
    module = gridgen.generate(ROBOTS / "gripper.urdf", options)
    text = with_values(module.files["gripper.cuh"])
    function = text[text.index("// Mass matrix") : text.index("} // namespace")]
    assert len(function) > 1_000
    assert function in with_values(expected["gripper"]["gripper.cuh"].decode())
