"""Rust calls the C interface through the module's file of declarations."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen.commands.main import main
from gridgen.emit.views.library import STATUSES
from gridgen.template_root import static_text
from helpers.robots import OWN

PAGE = OWN.parent / "docs" / "cpp.md"


def has_rust() -> bool:
    """Tell whether there is a compiler: rustup's stand-in may have none behind it."""
    command = ("rustc", "--version")
    return (
        bool(shutil.which("rustc")) and not subprocess.run(command, capture_output=True).returncode
    )


needs_rust = pytest.mark.skipif(not has_rust(), reason="no rustc")


def rustc(*words: object, folder: Path) -> None:
    command = ["rustc", "-D", "warnings", *map(str, words)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[:3000]


@needs_rust
def test_the_program_of_the_page(tmp_path: Path) -> None:
    """As the page builds it; its numbers are Python's."""
    program = re.search(r"^```rust\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "main.rs").write_text(program[1])
    words = "--functions inverse_dynamics --compile cpu --dtype float64 --quiet".split()
    urdf = OWN / "arm7.urdf"
    assert main([str(urdf), "-o", str(tmp_path / "generated"), *words]) == 0
    link = ["-L", "native=generated/arm7", "-l", "arm7-native"]
    rustc(
        "main.rs",
        "--edition=2021",
        *link,
        "-C",
        "link-arg=-Wl,-rpath,generated/arm7",
        folder=tmp_path,
    )
    said = subprocess.run([tmp_path / "main"], cwd=tmp_path, capture_output=True, check=True)
    robot = gridgen.load(urdf)
    q = np.full((2, robot.nq), 0.5)
    expected = robot.inverse_dynamics(q, np.zeros_like(q), np.zeros_like(q))
    np.testing.assert_array_equal(
        np.reshape(ast.literal_eval(said.stdout.decode()), (2, -1)), expected
    )


@needs_rust
def test_every_kind_of_argument_is_declared(tmp_path: Path) -> None:
    """Numbers by value, optional inputs, parameters; in both editions that programs have."""
    options = gridgen.GenerateOptions(
        output=tmp_path,
        functions=("step", "forward_dynamics", "mass_matrix"),
        inputs=("f_ext", "base_motion"),
        parameters=("all",),
        vjp=True,
    )
    folder = gridgen.generate(OWN / "two_link.urdf", options).folder
    for edition in ("2021", "2024"):
        rustc("--crate-type=rlib", f"--edition={edition}", folder / "two_link.rs", folder=tmp_path)


def test_statuses_are_those_of_c() -> None:
    listed = re.findall(r"^    (gridgen_\w+) = (\d+)", static_text("gridgen.h"), re.MULTILINE)
    assert [(name, int(number)) for name, number in listed] == list(STATUSES)
