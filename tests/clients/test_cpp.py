"""The C++ interface takes what C++ programs have: containers, std::span, Eigen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gridgen
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.cpu.units import FLAGS
from helpers.robots import OWN

PROGRAM = OWN.parent / "tests" / "output" / "library_users" / "ranges.cpp"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
#: Where Eigen is: that of the wheel ``cmeel-eigen``, or that of the system.
EIGEN = [*(Path(p) / "cmeel.prefix" for p in sys.path if p), Path("/usr")]
EIGEN = [path for p in EIGEN if (path := p / "include" / "eigen3").is_dir()]


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A module, and its functions compiled."""
    folder = tmp_path_factory.mktemp("library")
    options = gridgen.GenerateOptions(
        output=folder,
        functions=("forward_dynamics", "jacobian"),
        frames=("thumb_distal",),
        inputs=("f_ext",),
    )
    module = gridgen.generate(OWN / "gripper.urdf", options)
    compiler, compiled = host_compiler(), folder / "gripper.o"
    if "ziglang" in compiler.command:
        pytest.skip("Zig would build its C++ library first, which takes minutes")
    words = (*compiler.command, *compiler.flags, *FLAGS, "-march=native")
    result = run(*words, "-c", module.folder / "gripper.cpp", "-o", compiled)
    assert result.returncode == 0, result.stderr[:2000]
    return module.folder, compiled


def build(library: tuple[Path, Path], program: Path, *flags: str) -> None:
    compiler = host_compiler()
    words = (*compiler.command, *compiler.flags, *STRICT, "-pthread", *flags, f"-I{library[0]}")
    result = run(*words, PROGRAM, library[1], "-o", program)
    assert result.returncode == 0, result.stderr[:2000]
    result = run(program)
    assert result.returncode == 0, result.stderr


def test_containers_and_names(library: tuple[Path, Path], tmp_path: Path) -> None:
    build(library, tmp_path / "program", "-std=c++17")


def test_spans_and_eigen(library: tuple[Path, Path], tmp_path: Path) -> None:
    if not EIGEN:
        pytest.skip("no Eigen: pip install cmeel-eigen")
    build(library, tmp_path / "program", "-std=c++20", "-DWITH_EIGEN", f"-isystem{EIGEN[0]}")


def test_the_program_of_the_page(tmp_path: Path) -> None:
    if not EIGEN:
        pytest.skip("no Eigen: pip install cmeel-eigen")
    page = (OWN.parent / "docs" / "cpp.md").read_text(encoding="utf-8")
    functions = ("forward_dynamics", "mass_matrix", "forward_kinematics")
    options = gridgen.GenerateOptions(output=tmp_path, functions=functions)
    folder = gridgen.generate(OWN / "arm7.urdf", options).folder
    (program,) = (part for part in page.split("```cpp\n") if part.startswith("#include <Eigen"))
    (tmp_path / "page.cpp").write_text(program.partition("```")[0])
    compiler = host_compiler()
    words = (*compiler.command, *compiler.flags, "-std=c++17", "-fsyntax-only", f"-I{folder}")
    result = run(*words, f"-isystem{EIGEN[0]}", tmp_path / "page.cpp")
    assert result.returncode == 0, result.stderr[:2000]


def test_what_is_wrong_does_not_compile(library: tuple[Path, Path], tmp_path: Path) -> None:
    """A size that the type has, and a name that a constant is made of."""
    source = tmp_path / "wrong.cpp"
    source.write_text(
        """#include "gripper.hpp"
        constexpr int index = gripper::frame_index("none");
        void call(std::array<double, gripper::nq + 1>& q) {
            gripper::jacobian_thumb_distal_local(q, q);
        }
        """
    )
    compiler = host_compiler()
    words = (*compiler.command, *compiler.flags, "-std=c++17", f"-I{library[0]}", "-fsyntax-only")
    result = run(*words, source)
    assert result.returncode != 0
    assert "another number of elements" in result.stderr
    assert "wrong.cpp:2" in result.stderr
