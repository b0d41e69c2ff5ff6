"""Commands that pages name run as they are named, except for words that make them short.

Those that run here take a compiler, a minute or two in all and packages that a newcomer lacks:
`.ci/run` asks for them. Each is run from a copy of what it reads and writes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.robots import example_urdf

ROOT = Path(__file__).parents[2]
IGNORED = {"build", "CHANGELOG.md"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part in IGNORED or part[0] == "." for part in path.relative_to(ROOT).parts)
)
#: What a command begins with.
PROGRAMS = ("make", "python", "grid-gen", "cmake", "mpirun", "dask", "pip", "nvcc")

#: Commands that run here, in this order: words that make them short, and what they print.
HERE = {
    r"grid-gen cache.*": ("", r"\d"),
    r"grid-gen tune .*": (
        "--device cpu --functions gravity_forces --batches 16 --dtype float32",
        "gravity_forces",
    ),
    r"grid-gen arm.urdf --report arm.html": ("--functions mass_matrix", "mass_matrix"),
    r"grid-gen spheres .*": ("--excess 0.1", r"\d+ spheres that protrude by about 100 mm in"),
    r"grid-gen .*": ("--functions mass_matrix --output build/modules", "wrote"),
    r"python robots/chain.py .*": ("", "<robot name"),
    r"python examples/walking.py.*": ("--plant own --samples 64 --seconds 0.2 --clip ''", "walked"),
    r"python examples/train_quadruped.py.*": (
        "--robots 4 --steps 96 --plant own --clip ''",
        "mean return",
    ),
    r"python examples/wall.py.*": (
        "--robots 1 --samples 16 --seconds 0.2 --figure build/wall.svg --page build/wall.html",
        "walked",
    ),
    r"python examples/.*": ("", r"\d"),
    r"python benchmarks/accuracy.py .*": ("--robots pendulum --longest 100", "gravity_forces"),
    r"python benchmarks/calls.py.*": ("--functions mass_matrix --seconds 0.01", "cuda +mass"),
    r"python benchmarks/collisions.py": ("--seconds 0.1", "self-collision"),
    r"python benchmarks/contact_gpu.py": ("--models hopper", "hopper"),
    r"python benchmarks/contact_statistics.py": (
        "--models hopper --states 20 --samples 4",
        "hopper",
    ),
    r"python benchmarks/contacts.py .*": ("--models hopper --batch 16 --seconds 0.2", "hopper"),
    r"python benchmarks/cpu.py .*--output.*": (
        "--robots arm7 --functions mass_matrix --batches 16 --threads 1 --seconds 0.01 "
        "--peers gridgen_cpu pinocchio_python mujoco_batch numpy_reference",
        "arm7 mass_matrix",
    ),
    r"python benchmarks/cpu.py --markdown .*": ("", "arm7 mass_matrix"),
    r"python benchmarks/cpu.py --grid .*": (
        "--grid build/beside_grid.csv --robots arm7 --batches 16 --seconds 0.01",
        "arm7, gridgen float32",
    ),
    r"python benchmarks/cpu.py .*": (
        "--robots arm7 --functions gravity_forces --batches 16 --threads 1 --seconds 0.01 "
        "--peers gridgen_cpu pinocchio_python",
        "arm7 gravity_forces",
    ),
    r"python benchmarks/counts.py.*": ("--tables regressors", "arm7"),
    r"python benchmarks/parameters.py.*": ("--seconds 0.05", "forward dynamics"),
    r"python benchmarks/gradients.py .*": ("--libraries grid-gen --states 16 --rounds 1", "grid"),
    r"python benchmarks/headline.py.*": ("--seconds 0.1", "iLQR"),
    r"python benchmarks/ilqr.py": ("--batch 2 --repeats 1", "crocoddyl"),
    r"python benchmarks/inverse_kinematics.py.*": (
        "--robots ur10 --poses 64 --seconds 0.1",
        "ur10 +grid-gen",
    ),
    r"python benchmarks/latency.py.*": (
        "--robots arm7 --functions inverse_dynamics --seconds 0.1",
        "arm7",
    ),
    r"python benchmarks/motion.py.*": ("--batch 16 --steps 4 --seconds 0.2", "arm7"),
    r"python benchmarks/pipeline.py .*": ("--samples 512 --joints 6 --processes 2", r"1\+1"),
    r"python benchmarks/programs.py .*--json .*": (
        "--robots arm7 --functions gravity_forces",
        "gravity_forces",
    ),
    r"python benchmarks/programs.py .*--compare .*": (
        "--robots arm7 --functions gravity_forces",
        "=",
    ),
    r"python benchmarks/programs.py --read .*": ("", "gravity_forces"),
    r"python benchmarks/scale.py .*": ("--states 4096 --chunk 512 --steps 4 --no-kill", "states"),
    r"python benchmarks/scan_accuracy.py": ("--bodies 4 --chains 1 --states 1", r"e-0\d"),
    r"python benchmarks/sizes.py .*--output .*": (
        "--robots arm7 --families chain --sizes 2 4 --functions mass_matrix --seconds 0.01 "
        "--whole 4",
        "chain",
    ),
    r"python benchmarks/sizes.py --markdown .*": ("", "chain"),
    r"python benchmarks/sizes.py .*": (
        "--robots arm7 --families chain --sizes 2 4 --functions mass_matrix --seconds 0.01 "
        "--whole 4",
        "chain",
    ),
    r"python benchmarks/machines.py.*": ("--robots arm7 --machines aarch64-linux", "same bits"),
    r"python benchmarks/real_time.py.*": (
        "--robots arm7 --functions mass_matrix --calls 1000",
        "arm7 mass matrix",
    ),
    r"python benchmarks/suite.py .*": ("--extras '' tests/unit/symbolic/test_tiles.py", "all"),
    r"python benchmarks/static_gpu.py (?!.*--(peer|tables)).*": (
        "--robots arm7 --functions gravity_forces",
        "gravity_forces",
    ),
}
#: Those that a test runs, as `.ci/run` does: the loops of Pinocchio take minutes to compile, other
#: libraries' machine code and machines are not here.
ELSEWHERE = {
    r"cmake .*": "output/test_library.py::test_the_control_loop_of_the_examples",
    r"mpirun .*|python -m gridgen.papers": (
        "papers/test_processes.py::test_processes_compute_the_efforts_in_order"
    ),
    r"python benchmarks/constrained.py .*": (
        "unit/benchmarks/test_constrained.py::test_the_counts_are_those_of_the_table"
    ),
    r"dask .*": "unit/test_dask.py::test_a_cluster_loses_a_worker_and_computes_all_the_same",
    r"nvcc .*": "output/test_readme.py::test_the_kernel",
    r"pip install .*arm7.*": (
        "packaging/test_module_wheel.py::test_they_run_without_generator_and_compiler"
    ),
    r"pip install (\.|jax frax)": "packaging/test_wheel.py::test_an_installed_wheel",
    r"python -m gridgen": "output/test_command_line.py::test_output_is_generated_by_default",
    r"python benchmarks/first_day.py .*": "unit/benchmarks/test_first_day.py::test_",
    r"python benchmarks/menagerie.py .*": "unit/benchmarks/test_menagerie.py::test_scenes",
    r"python benchmarks/gpu.py .*": "unit/benchmarks/test_gpu.py::test_tables_tell_the_run",
    r"python benchmarks/static_gpu.py .*--(peer|tables).*": (
        "unit/benchmarks/test_static_gpu.py::test_"
    ),
    r"python tests/plain_words.py": "test_plain_words.py::test_a_page_uses_plain_words",
}


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a page, in blocks and in lines; fragments and patterns are none."""
    block = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    lines = [
        line.removeprefix("$ ")
        for match in block.finditer(text)
        if match[1] in ("", "sh", "bash", "console")
        for line in match[2].replace("\\\n", " ").splitlines()
    ]
    lines += [code for code in re.findall(r"`([^`\n]+)`", block.sub("", text)) if " " in code]
    for line in lines:
        command = re.sub(r"\s+#.*", "", line).strip()
        if command.startswith(tuple(f"{program} " for program in PROGRAMS)) and not re.search(
            r"\.\.\.|<|^grid-gen -", command
        ):
            yield command


def named() -> dict[str, list[str]]:
    """Return every command with the pages that name it."""
    found: dict[str, list[str]] = {}
    for path in PAGES:
        for command in commands(path.read_text(encoding="utf-8")):
            found.setdefault(command, []).append(path.relative_to(ROOT).as_posix())
    return found


def first(table: dict[str, object], command: str) -> str | None:
    """Return the pattern of a table that a command has."""
    return next((pattern for pattern in table if re.fullmatch(pattern, command)), None)


NAMED = named()
SHORT = sorted(
    (command for command in NAMED if first(HERE, command)),
    key=lambda command: (list(HERE).index(first(HERE, command)), command),
)


def test_pages_are_read() -> None:
    text = "`grid-gen a.urdf`, `grid-gen --x`\n```\n$ make x  # y\npython a \\\n  b\n```\n"
    assert list(commands(text)) == ["make x", "python a    b", "grid-gen a.urdf"]
    assert len(NAMED) > 60


def test_every_command_runs_somewhere() -> None:
    """A command that a page names is run here, by another test, or by make in `.ci/run`."""
    unknown = {
        command: pages
        for command, pages in NAMED.items()
        if not (
            command.startswith("make ")
            or re.search(r"\[[a-z0-9,]+\]'$", command)
            or first(HERE, command)
            or first(ELSEWHERE, command)
        )
    }
    assert not unknown, "nothing runs these; make them short in HERE"
    for patterns in (HERE, ELSEWHERE):
        idle = {one for one in patterns if not any(re.fullmatch(one, name) for name in NAMED)}
        assert not idle, "no page names these any more"


@pytest.mark.parametrize("test", ELSEWHERE.values())
def test_the_tests_that_run_others_are_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}" in (ROOT / "tests" / file).read_text(encoding="utf-8")


def test_every_target_of_make_runs_in_ci() -> None:
    """As a step of the script, or as what README.md begins with, which it reads there."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.MULTILINE))
    run = set(re.findall(r"^step .*\bmake ([a-z-]+)", script, re.MULTILINE))
    assert "README.md)" in script
    assert targets == run | {"demo", "test"}
    made = {name: shlex.split(name)[1:] for name in NAMED if name.startswith("make ")}
    for command, words in made.items():
        assert {word for word in words if "=" not in word} <= targets, command


def test_every_extra_that_a_page_installs_exists() -> None:
    extras = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for command in NAMED:
        if match := re.fullmatch(r"pip install '(?:\.|grid-gen)\[([a-z0-9,]+)\]'", command):
            for extra in match[1].split(","):
                assert f"\n{extra} = [" in extras, command


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what commands read and write, from which the package itself is not taken."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("benchmarks", "robots", "examples", "docs", "tests", "codegen", "templates"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("arm", "arm7", "robot"):
        shutil.copy(ROOT / "robots" / "arm7.urdf", folder / f"{name}.urdf")
    shutil.copy(example_urdf("a1"), folder / "ROBOT.urdf")
    (folder / "build").mkdir()
    return folder


def run(command: str, checkout: Path) -> str:
    """Run a command with the words that make it short, and return what it prints."""
    words, _ = HERE[first(HERE, command)]
    program, _, redirection = command.partition(" > ")
    line = f"{program} {words}" + (f" > {redirection}" if redirection else "")
    if "benchmarks" in line:  # compiling takes minutes, and the page needs all rows
        line = re.sub(r" --(compile|write)\b", "", line)
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(checkout / "codegen"),
        "GRIDGEN_CACHE_DIR": str(checkout / "cache"),
    }
    result = subprocess.run(
        ["timeout", "300", "sh", "-c", line],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
    )
    if result.returncode and re.search(": pip install|No module named", result.stderr):
        pytest.skip(result.stderr.splitlines()[-1])
    assert result.returncode == 0, f"$ {line}\n{result.stdout}\n{result.stderr}"
    return (checkout / redirection).read_text() if redirection else result.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", SHORT)
def test_a_command_of_a_page(command: str, checkout: Path) -> None:
    for file in re.findall(r"build/\w+\.json", command):
        makers = [other for other in SHORT if re.search(f"--(output|json) {file}", other)]
        if command not in makers and not (checkout / file).exists():
            run(makers[0], checkout)
    output = run(command, checkout)
    _, printed = HERE[first(HERE, command)]
    assert re.search(printed, output), f"$ {command}\n{output}"
