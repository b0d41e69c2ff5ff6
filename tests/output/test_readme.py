"""What README.md shows works as shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gridgen
from gridgen import cli
from gridgen.options import FUNCTION_CHOICES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """Return the first example in a language."""
    return re.search(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)[1]


def test_it_opens_with_the_two_commands():
    title, first, *_ = README.split("\n\n")
    assert title == "# grid-gen"
    assert re.findall(r"^make \w+", first, re.MULTILINE) == ["make demo", "make test"]


def test_the_example(monkeypatch):
    monkeypatch.chdir(ROOT)
    example = block("python")
    assert len([line for line in example.splitlines() if line]) <= 10
    exec(compile(example, "README.md", "exec"), {})


def test_the_kernel(tmp_path):
    pytest.importorskip("cupy")
    from cupy_backends.cuda.libs import nvrtc

    options = gridgen.GenerateOptions(output=tmp_path)
    files = gridgen.generate(ROOT / "robots" / "arm7.urdf", options).files
    headers = [name for name in files if name.endswith((".cuh", ".h"))]
    program = nvrtc.createProgram(
        block("cuda"),
        "example.cu",
        tuple(files[name].encode() for name in headers),
        tuple(name.encode() for name in headers),
    )
    try:
        nvrtc.compileProgram(program, ("--gpu-architecture=sm_80", "--std=c++17"))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    assert "warning" not in nvrtc.getProgramLog(program)


def test_the_error(tmp_path, capsys):
    text = (ROOT / "robots" / "arm7.urdf").read_text(encoding="utf-8")
    urdf = tmp_path / "arm7.urdf"
    urdf.write_text(text.replace('<mass value="3.1"', '<mass value="-3.1"'), encoding="utf-8")
    assert cli.main([str(urdf)]) == cli.BAD_INPUT
    assert capsys.readouterr().err.replace(f"{tmp_path}/", "") in README


def test_every_option_and_function_is_listed(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    usage = capsys.readouterr().out
    options = set(re.findall(r"--[a-z-]+", usage)) - {"--help", "--version"}
    assert not {option for option in options if f"`{option}" not in README}
    assert not {name for name in FUNCTION_CHOICES if f"`{name}(" not in README}
    assert not {name for name in gridgen.__all__ if name.endswith("Error") and name not in README}


def test_every_target_of_make_that_it_names_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {name for name in re.findall(r"\bmake ([a-z-]+)", README)} <= targets
