"""A module's wheel and that of what runs it: with NumPy they are all that it takes."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

import gridgen
from gridgen import wheel
from gridgen.backends.built import MANIFEST, BuiltFile, manifest_text
from gridgen.backends.cpu.processor import MACHINES
from gridgen.commands.main import main
from gridgen.errors import OptionError
from helpers.robots import OWN

PROGRAM = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"sympy", "jinja2", "lxml", "rich", "platformdirs", "mpmath"}:
            raise ImportError(name)

sys.meta_path.insert(0, Refusing())
import numpy as np, gridgen, two_link
assert gridgen.__file__.startswith(sys.argv[1]), gridgen.__file__
print(two_link.mass_matrix(np.array([0.1, 0.2])).tobytes().hex())
try:
    gridgen.load
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both wheels of a module that has code for this processor."""
    place = tmp_path_factory.mktemp("wheels")
    words = ["--functions", "mass_matrix", "--dtype", "float64", "--compile", "cpu", "--quiet"]
    wheels = ["--wheel", "--wheel-version", "1.2rc1"]
    assert main([str(OWN / "two_link.urdf"), "-o", str(place), *words, *wheels]) == 0
    return place


def wheels(folder: Path) -> dict[str, Path]:
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


def test_they_run_without_generator_and_compiler(folder: Path, tmp_path: Path) -> None:
    for path in wheels(folder).values():
        ZipFile(path).extractall(tmp_path / "site")
    environment = {"PYTHONPATH": str(tmp_path / "site"), "CXX": str(tmp_path / "none")}
    environment |= {"HOME": str(tmp_path), "PATH": ""}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    numbers, refusal = result.stdout.splitlines()
    expected = gridgen.load(OWN / "two_link.urdf").mass_matrix(np.array([0.1, 0.2]))
    assert bytes.fromhex(numbers) == expected.tobytes()
    assert "pip install grid-gen" in refusal


def test_names_tags_and_records_are_right(folder: Path) -> None:
    there = wheels(folder)
    assert there["gridgen_runtime"].name.endswith("-py3-none-any.whl")
    pattern = r"two_link-1\.2rc1-py3-none-(manylinux_2_\d+|macosx_.*)_(x86_64|aarch64|arm64)\.whl"
    assert re.fullmatch(pattern, there["two_link"].name)
    for name, path in there.items():
        with ZipFile(path) as archive:
            (info,) = {n.split("/")[0] for n in archive.namelist() if ".dist-info/" in n}
            assert path.name.startswith(info.removesuffix(".dist-info"))
            metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
            needed = [line for line in metadata.get_all("Requires-Dist") if "extra" not in line]
            assert needed == ["numpy>=1.26"], name
            *records, last = archive.read(f"{info}/RECORD").decode().splitlines()
            assert last == f"{info}/RECORD,,"
            for record in records:
                file, digest, size = record.split(",")
                data = archive.read(file)
                found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                assert (f"sha256={found.decode()}", str(len(data))) == (digest, size)
            assert {r.split(",")[0] for r in records} | {f"{info}/RECORD"} == {*archive.namelist()}


def test_text_alone_runs_anywhere_and_is_always_the_same() -> None:
    files = {"__init__.py": "", "model.json": "{}"}
    name, data = wheel.module_wheel("arm", files, "1.0")
    assert name == "arm-1.0-py3-none-any.whl"
    assert data == wheel.module_wheel("arm", files, "1.0")[1]
    assert wheel.runtime_wheel() == wheel.runtime_wheel()


@pytest.mark.parametrize(
    ("machine", "tag"),
    [
        ("riscv64-linux", "manylinux_2_34_riscv64"),
        ("aarch64-linux-musl", "musllinux_1_2_aarch64"),
        ("aarch64-macos", "macosx_11_0_arm64"),
    ],
)
def test_a_tag_names_machine_and_c_library(machine: str, tag: str) -> None:
    files: dict[str, str | bytes] = {
        "a.so": b"\0GLIBC_2.2.5\0GLIBC_2.34\0",
        "b.so": b"GLIBC_2.17",
    }
    kind, other = MACHINES[machine], MACHINES["armv7-linux"]
    records = [
        BuiltFile(file, "x", "", (), (), kind.system, kind.machine) for file in ("a.so", "b.so")
    ]
    files[MANIFEST] = manifest_text(tuple(records))
    assert wheel.module_wheel("arm", files, "1.0")[0] == f"arm-1.0-py3-none-{tag}.whl"
    records[1] = replace(records[1], system=other.system, machine=other.machine)
    files[MANIFEST] = manifest_text(tuple(records))
    with pytest.raises(OptionError, match=r"a\.so, b\.so are for several kinds of machines"):
        wheel.module_wheel("arm", files, "1.0")


@pytest.mark.parametrize("version", ["", "one", "1.0-2", "1.0 ", "../1"])
def test_what_is_no_version_is_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no version"):
        wheel.module_wheel("arm", {}, version)
    words = ["-o", str(tmp_path / "out"), "--wheel", f"--wheel-version={version}"]
    assert main([str(OWN / "two_link.urdf"), *words]) == 2
    assert not (tmp_path / "out").exists()
