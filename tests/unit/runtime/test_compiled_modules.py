"""Modules with compiled code: which of it serves, and what is said where none does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen.backends import built
from gridgen.backends.built import MANIFEST, Built, manifest_text
from gridgen.backends.cpu import processor
from gridgen.backends.cpu.processor import MACHINES, this_machine
from gridgen.backends.cuda import compiler as nvrtc
from gridgen.commands.main import main
from gridgen.errors import CompileError, ModelError
from gridgen.robot import open_module
from gridgen.runtime.module.files import FolderModule

pytestmark = pytest.mark.skipif(
    len(this_machine().processors) < 4, reason="another kind of processor"
)

Q = np.array([[0.1, 0.2], [0.3, 0.4]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module with libraries for two kinds of processors, for one element type."""
    place = tmp_path_factory.mktemp("modules")
    urdf = Path(__file__).resolve().parents[3] / "robots" / "two_link.urdf"
    words = ["--functions", "mass_matrix", "--dtype", "float64", "--quiet"]
    assert main([str(urdf), "-o", str(place), *words, "--compile", "cpu=x86-64,native"]) == 0
    return place / "two_link"


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No compiler on this machine, and nothing in its cache."""
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Says what this machine's processor has."""

    def change(flags: str) -> None:
        (tmp_path / "cpuinfo").write_text(f"vendor_id : X\nmodel : 1\nflags : {flags}\n\n")
        monkeypatch.setattr(processor, "PROCESSORS", tmp_path / "cpuinfo")
        built._obstacle.cache_clear()

    yield change
    built._obstacle.cache_clear()


def used(folder: Path) -> str:
    path = Built(folder).library("mass_matrix", "float64")
    return "" if path is None else path.name


@pytest.mark.usefixtures("no_compiler")
def test_compiled_code_needs_no_compiler(folder: Path) -> None:
    robot = open_module(str(folder / "__init__.py"))
    there = robot.mass_matrix(Q)
    assert there.shape == (2, 2, 2)
    assert np.linalg.eigvalsh(there).min() > 0


def test_it_has_the_bits_of_what_is_compiled_here(folder: Path, urdf: Path) -> None:
    robot = open_module(str(folder / "__init__.py"))
    q = np.random.default_rng(1).normal(size=(1000, 2))
    np.testing.assert_array_equal(robot.mass_matrix(q), gridgen.load(urdf).mass_matrix(q))


def test_the_best_for_the_processor_is_taken(folder: Path, of: Callable[[str], None]) -> None:
    assert used(folder) == "libtwo_link-native.so"
    least = "cmov cx8 fxsr mmx sse sse2"
    of(least)
    assert used(folder) == "libtwo_link-x86-64.so"
    of(least.replace("sse2", ""))
    assert used(folder) == ""


@pytest.mark.usefixtures("no_compiler")
def test_what_no_code_serves_says_what_is_missing(folder: Path, of: Callable[[str], None]) -> None:
    of("cmov cx8 fxsr mmx sse")
    robot = open_module(str(folder / "__init__.py"))
    with pytest.raises(CompileError, match=r"for x86-64: this processor lacks sse2.*CXX"):
        robot.mass_matrix(Q)
    with pytest.raises(CompileError, match="no compiled mass_matrix for float32"):
        robot.mass_matrix(Q.astype(np.float32))


def test_what_is_missing_is_compiled_where_there_is_a_compiler(folder: Path) -> None:
    robot = open_module(str(folder / "__init__.py"))
    single = robot.mass_matrix(Q.astype(np.float32))
    np.testing.assert_allclose(single, robot.mass_matrix(Q), rtol=1e-5)


def test_code_for_another_machine_is_not_run_here(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "two_link"
    shutil.copytree(folder, copy)
    others = [
        replace(file, system=kind.system, machine=kind.machine)
        for file, kind in zip(
            built._read_manifest(folder),
            (MACHINES["aarch64-linux"], MACHINES["x86_64-linux-musl"]),
            strict=True,
        )
    ]
    (copy / MANIFEST).write_text(manifest_text(tuple(others)))
    assert used(copy) == ""
    lack = Built(copy).lack("mass_matrix", "float64")
    assert "it is for linux on aarch64; for linux-musl on x86_64" in lack


@pytest.mark.parametrize("damage", ["library", "gone", "manifest", "foreign"])
def test_damage_is_told(folder: Path, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "two_link"
    shutil.copytree(folder, copy)
    library, manifest = copy / "libtwo_link-native.so", copy / MANIFEST
    if damage == "library":
        library.write_bytes(library.read_bytes()[:-1])
    elif damage == "gone":
        library.unlink()
    elif damage == "manifest":
        manifest.write_text(manifest.read_text()[:-20])
    else:
        manifest.write_text('[{"file": "x", "kind": "y"}]')
    with pytest.raises(ModelError, match="run grid-gen again"):
        open_module(str(copy / "__init__.py")).mass_matrix(Q)


def test_the_manifest_lists_what_there_is(folder: Path) -> None:
    files = built._read_manifest(folder)
    assert [file.target for file in files] == ["x86-64", "native"]
    assert all(file.functions == ("mass_matrix",) for file in files)
    assert json.loads(manifest_text(files)) == json.loads((folder / MANIFEST).read_text())


def test_a_first_call_loads_no_generator_and_starts_no_compiler(folder: Path) -> None:
    program = f"""if True:
        import sys
        sys.path.insert(0, {str(folder.parent)!r})
        import numpy, two_link
        two_link.mass_matrix(numpy.zeros((2, 2)))
        avoided = {{"sympy", "jinja2", "lxml", "rich", "platformdirs", "subprocess"}}
        print(*avoided & set(sys.modules))
    """
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stderr == ""
    assert result.stdout.split() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--compile", "cpu=i386"], "no such processor"),
        (["--compile", "aarch64-linux=armv9-a"], "no such processor; this compiler has armv8-a"),
        (["--compile", "gpu"], "no target"),
        (["--compile", "sm_1"], "compiles for"),
    ],
)
def test_no_such_target(
    urdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    if "sm_1" in words:
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
    assert main([str(urdf), "-o", str(tmp_path / "out"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--compile", "--arch"])
@pytest.mark.parametrize("target", ["sm_1", "sm_90"])
def test_a_gpu_without_nvrtc(
    urdf: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    target: str,
) -> None:
    """Whatever the GPU: no one but NVRTC knows for which it compiles."""
    for package in ("cupy", "cupy_backends"):
        monkeypatch.setitem(sys.modules, package, None)
    assert main([str(urdf), "-o", str(tmp_path / "out"), option, target]) == 2
    assert "pip install 'cupy-cuda12x>=14'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_kernels_for_a_gpu_need_no_nvrtc(
    urdf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cupy")
    words = ["--functions", "mass_matrix", "--dtype", "float32", "--quiet"]
    assert main([str(urdf), "-o", str(tmp_path), *words, "--compile", "sm_90"]) == 0
    module = FolderModule(tmp_path / "two_link")
    sources = module.sources(module.kernels.named("mass_matrix"))
    own = replace(sources, built=None)
    expected = [
        nvrtc.compile_kernel(own, "mass_matrix", "float32", "sm_90", rows=rows)
        for rows in (False, True)
    ]

    def missing() -> None:
        raise CompileError("NVRTC is not usable")

    monkeypatch.setattr(nvrtc, "_nvrtc", missing)
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path / "cache"))
    found = [
        nvrtc.compile_kernel(sources, "mass_matrix", "float32", "sm_90", rows=rows)
        for rows in (False, True)
    ]
    assert found == expected
    assert sources.built.archs == ("sm_90",)
    for dtype, arch in (("float64", "sm_90"), ("float32", "sm_80")):
        with pytest.raises(CompileError):
            nvrtc.compile_kernel(sources, "mass_matrix", dtype, arch)
