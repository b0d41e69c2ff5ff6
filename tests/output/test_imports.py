"""A generated module starts without the generator, and gridgen without a compiler or a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gridgen

ROBOTS = Path(__file__).parents[2] / "robots"

# Stands in front of a program: as if these packages were not installed.
BLOCK = "import sys\nsys.modules.update(dict.fromkeys({names!r}))\n"
GENERATOR = ("jinja2", "lxml", "mpmath", "rich", "sympy", "urchin", "urdfpy")
OPTIONAL = ("cupy", "cupy_backends", "torch", "jax", "ziglang", "pinocchio", "urchin", "urdfpy")


@pytest.fixture
def module(tmp_path):
    return gridgen.generate(ROBOTS / "two_link.urdf", gridgen.GenerateOptions(output=tmp_path))


def test_a_module_needs_nothing_of_the_generator(module, python):
    program = BLOCK.format(names=GENERATOR) + (
        "import two_link\n"
        "print(two_link.robot.joint_names)\n"
        "print(*two_link.forward_dynamics([0.1, 0.2], [0.3, 0.4], [0.5, 0.6]))\n"
    )
    result = python("-c", program, cwd=module.folder.parent)
    assert result.stderr == ""
    names, numbers = result.stdout.splitlines()
    assert names == str(gridgen.load(ROBOTS / "two_link.urdf").joint_names)
    assert len(numbers.split()) == 2


@pytest.mark.parametrize("damage", ["no kernels", "half a file"])
def test_a_description_that_does_not_fit_is_explained(module, python, damage):
    path = module.folder / "model.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"kernels"', '"cores"') if damage == "no kernels" else text[:500])
    result = python("-c", "import two_link", cwd=module.folder.parent)
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("gridgen.errors.ModelError: ")
    assert str(path) in last
    assert "run grid-gen again" in last


def test_importing_a_module_loads_little(module, python):
    program = (
        "import sys, json, numpy\n"
        "before = set(sys.modules)\n"
        "import two_link\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    result = python("-c", program, cwd=module.folder.parent)
    assert result.stderr == ""
    loaded = {name.partition(".")[0] for name in json.loads(result.stdout)}
    assert not loaded & {*GENERATOR, *OPTIONAL, "platformdirs"}


def test_a_cached_function_needs_nothing_of_the_generator(python, tmp_path):
    program = (
        "import sys, gridgen\n"
        f"robot = gridgen.load({str(ROBOTS / 'two_link.urdf')!r}, backend='cpu')\n"
        "print(robot.bias_forces([0.1, 0.2], [0.3, 0.4]))\n"
        "print(*sorted({'gridgen.emit', 'gridgen.report', 'jinja2', 'sympy'} & {*sys.modules}))\n"
    )
    first, again = (
        python("-c", program, cwd=tmp_path, GRIDGEN_CACHE_DIR=str(tmp_path)).stdout.splitlines()
        for _ in range(2)
    )
    assert first[0] == again[0]
    assert first[1].startswith("gridgen.emit jinja2")
    assert again[1] == ""


@pytest.mark.parametrize("names", [OPTIONAL, ()], ids=["blocked", "installed"])
def test_importing_gridgen_says_nothing(names, python, tmp_path):
    program = BLOCK.format(names=names) + "import gridgen; gridgen.load; gridgen.Robot\n"
    environment = {"CXX": "no-such-compiler", "PATH": "", "PYTHONWARNINGS": "error"}
    result = python("-c", program, cwd=tmp_path, **environment)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_generating_takes_neither_compiler_nor_gpu(python, tmp_path):
    program = BLOCK.format(names=OPTIONAL) + (
        "from gridgen.commands.main import main\n"
        f"sys.exit(main([{str(ROBOTS / 'arm7.urdf')!r}, '--quiet']))\n"
    )
    environment = {"CXX": "no-such-compiler", "PATH": "", "PYTHONWARNINGS": "error"}
    result = python("-c", program, cwd=tmp_path, **environment)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / "generated" / "arm7" / "arm7.cu").is_file()


def test_what_is_missing_is_named_when_it_is_needed(module, python, tmp_path):
    program = BLOCK.format(names=OPTIONAL) + (
        "import gridgen, two_link\n"
        "for backend in ('cpu', 'cuda'):\n"
        "    try:\n"
        "        two_link.mass_matrix([0.1, 0.2], backend=backend)\n"
        "    except gridgen.GridGenError as error:\n"
        "        print(type(error).__name__, error)\n"
    )
    # What has been compiled before would serve without a compiler.
    environment = {"CXX": "", "PATH": "", "GRIDGEN_CACHE_DIR": str(tmp_path / "cache")}
    result = python("-c", program, cwd=module.folder.parent, **environment)
    assert result.stderr == ""
    compiler, gpu = result.stdout.splitlines()
    assert compiler.startswith("CompileError no C++ compiler: ")
    assert "pip install ziglang" in compiler
    assert gpu.startswith("DeviceError ")
