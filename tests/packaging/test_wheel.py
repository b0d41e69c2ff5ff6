"""sdist, then wheel, then a fresh environment: grid-gen runs where there is no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from helpers.robots import exhaustive

ROOT = Path(__file__).parents[2]
BIN = "Scripts" if sys.platform == "win32" else "bin"


def run(*command, cwd):
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout


def files_below(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the source archive, and the wheel that was built from it."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("grid_gen-*.whl")
    return path


def test_the_wheel_holds_the_package_and_the_templates_and_no_more(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = {f"gridgen/{name}" for name in files_below(ROOT / "codegen" / "gridgen")}
    templates = {f"gridgen/templates/{name}" for name in files_below(ROOT / "templates")}
    assert templates
    assert names == package | templates


def test_the_source_archive_holds_what_tests_need(built):
    (path,) = built.glob("grid_gen-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("codegen", "templates", "robots", "tests", "benchmarks"):
        expected = {f"{folder}/{name}" for name in files_below(ROOT / folder) if name[0] != "."}
        assert names >= expected, expected - names
    assert names >= {"README.md", "LICENSE", "CHANGELOG.md", "Makefile", "pyproject.toml"}


# What the wheel depends on is taken from the tests' environment, or installed when asked for.
@pytest.mark.parametrize("alone", exhaustive(False, True))
def test_an_installed_wheel_runs_in_another_folder(wheel, tmp_path, alone):
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=alone)
    python = environment / BIN / "python"
    if alone:
        run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    else:
        pip = (sys.executable, "-m", "pip", "--python", python)
        run(*pip, "install", "--quiet", "--no-deps", wheel, cwd=tmp_path)
        (site,) = environment.glob("**/site-packages")
        folders = [path for path in sys.path if path.endswith("site-packages")]
        (site / "behind.pth").write_text("\n".join(folders))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    urdf = ROOT / "robots" / "two_link.urdf"
    output = run(environment / BIN / "grid-gen", urdf, "--check", cwd=folder)
    assert "FAILED" not in output
    assert (folder / "generated" / "two_link" / "two_link.cu").is_file()
    program = (
        "import gridgen; from generated import two_link; "
        "print(gridgen.__file__); print(two_link.mass_matrix([0.1, 0.2]).shape)"
    )
    home, shape = run(python, "-c", program, cwd=folder).splitlines()
    assert Path(home).is_relative_to(environment)
    assert shape == "(2, 2)"
    check_types(python, folder)


def check_types(python: Path, folder: Path) -> None:
    """Let mypy look at a user's program; in strict mode it must refuse each line that says so."""
    pytest.importorskip("mypy")
    shutil.copy(Path(__file__).parent / "user_program.py", folder)
    options = ("--strict", "--python-executable", python, "--config-file", os.devnull)
    run(sys.executable, "-m", "mypy", *options, "user_program.py", cwd=folder)
