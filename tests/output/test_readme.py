"""What README.md and the manual's reference show works as shown."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pinocchio
import pytest

import gridgen
from gridgen.commands import main as cli
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.functions.record import STEPS
from gridgen.schedules.cfa.schedule import CFA_ROWS
from gridgen.schedules.scan.kernels import SCAN_ROWS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MANUAL = README + "".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))
)


def page(name: str) -> str:
    """Return the text of a page of the manual."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def block(language: str, text: str = README) -> str:
    """Return the first example in a language."""
    return re.search(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1]


def test_its_first_block_has_the_two_commands():
    before, first, *_ = README.split("```")
    assert before.startswith("# grid-gen\n")
    assert len(before.split("\n\n")) <= 11, "a title, a paragraph, claims, a figure, a table"
    assert re.findall(r"^make \w+", first, re.MULTILINE) == ["make demo", "make test"]


def test_the_example(monkeypatch):
    monkeypatch.chdir(ROOT)
    example = block("python")
    assert len([line for line in example.splitlines() if line]) <= 10
    exec(compile(example, "README.md", "exec"), {})


def test_the_example_of_a_bound_call(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    _, _, after = page("calls.md").partition("## Bound calls")
    exec(compile(block("python", after), "calls.md", "exec"), names)
    q, qd, qdd, tau = (names[name] for name in ("q", "qd", "qdd", "tau"))
    np.testing.assert_array_equal(tau, names["robot"].inverse_dynamics(q, qd, qdd))
    tau[...] = 0.0
    assert names["bound"]() is tau
    assert tau.any()


def test_the_kernel(tmp_path):
    pytest.importorskip("cupy")
    from cupy_backends.cuda.libs import nvrtc

    options = gridgen.GenerateOptions(output=tmp_path)
    folder = gridgen.generate(ROOT / "robots" / "arm7.urdf", options).folder
    program = nvrtc.createProgram(block("cuda", page("cpp.md")), "example.cu", (), ())
    try:
        where = f"--include-path={folder}"
        nvrtc.compileProgram(program, ("--gpu-architecture=sm_80", "--std=c++17", where))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    assert "warning" not in nvrtc.getProgramLog(program)


#: Inputs of which some are local, some constant; loops; a stride.
OF_ONE_STATE = """
#include "gripper.cuh"
__global__ void kernel(const float* gravity, float* out)
{
    float q[gripper::nq] = {}, qd[gripper::nq] = {}, M[gripper::nq * gripper::nq];
    float scratch[gripper::bias_forces_traits::scratch], more[gripper::mass_matrix_traits::scratch];
    gripper::bias_forces<float>(q, qd, gravity, out, scratch);
    const gridgen::View<const float> strided = {q, 1};
    gripper::mass_matrix<float, gridgen::View<const float>>(strided, M, more);
    out[0] += M[0];
}
"""


def test_device_functions_take_local_arrays_and_scratch_memory(tmp_path):
    pytest.importorskip("cupy")
    from cupy_backends.cuda.libs import nvrtc

    functions = ("bias_forces", "mass_matrix")
    options = gridgen.GenerateOptions(output=tmp_path, functions=functions, longest_gpu_program=0)
    made = gridgen.generate(ROOT / "robots" / "gripper.urdf", options)
    text = OF_ONE_STATE.replace("gripper::nq", str(made.tree.nq))
    program = nvrtc.createProgram(text, "example.cu", (), ())
    try:
        where = f"--include-path={made.folder}"
        nvrtc.compileProgram(program, ("--gpu-architecture=sm_80", "--std=c++17", where))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    rooms = {name: made.programs[name].gpu.scratch for name in functions}
    text = made.files["gripper.cuh"]
    for name, room in rooms.items():
        traits = text[text.index(f"struct {name}_traits ") :]
        assert f" scratch = {room}" in traits[: traits.index("compute(")]


def test_the_error(tmp_path, capsys):
    text = (ROOT / "robots" / "arm7.urdf").read_text(encoding="utf-8")
    urdf = tmp_path / "arm7.urdf"
    urdf.write_text(text.replace('<mass value="3.1"', '<mass value="-3.1"'), encoding="utf-8")
    assert cli.main([str(urdf)]) == cli.BAD_INPUT
    assert capsys.readouterr().err.replace(f"{tmp_path}/", "") in MANUAL


def test_the_commands():
    commands = block("", page("command_line.md")).splitlines()
    assert len(commands) >= 2
    for command in commands:
        options = cli._parser().parse_args(shlex.split(command)[1:])
        assert (ROOT / options.urdf).is_file()
        assert not options.arch  # needs an extra that a newcomer may not have


def test_the_plan(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    section = page("backends.md").partition("## Which kernel a call takes")[2]
    exec(compile(block("python", section), "backends.md", "exec"), {})
    assert capsys.readouterr().out == block("", section.partition("```\n")[2])


def test_every_name_of_a_compiled_function_is_explained():
    robot = gridgen.load(ROOT / "robots" / "two_link.urdf")
    suffixes = {
        "_f_ext",
        "_base_motion",
        "_scan",
        "_warp",
        "_aba",
        "_crba",
        "_jsiia",
        "_cfa",
        "_semi_implicit",
        "_euler",
        "_rk4",
        "_implicit",
        "_midpoint",
        "_trapezoidal",
        "_constant_acceleration",
        "_variational",
        "_with_efforts",
        "_excess",
        "_offset",
    }
    for name in robot.functions:
        for suffix in sorted(suffixes, key=len, reverse=True):
            name = name.replace(suffix, "")
        known = f"`{name}(" in MANUAL or f"`{name}`" in MANUAL or name.startswith("jacobian_")
        assert known, name
    assert not {suffix for suffix in suffixes if f"{suffix}`" not in MANUAL}


def test_names_in_other_libraries_exist():
    rows = [row.split("|") for row in page("equivalents.md").splitlines() if row[:3] == "| `"]
    _, own, *others = (re.findall(r"`([\w.]+)`", " ".join(one)) for one in zip(*rows, strict=True))
    assert {name for name in own if name in FUNCTIONS} == {*FUNCTIONS}
    known = {*dir(pinocchio), *dir(pinocchio.GeometryModel), *dir(pinocchio.RigidConstraintData)}
    known |= {f"model.{name}" for name in dir(pinocchio.Model)}
    known |= {f"data.{name}" for name in dir(pinocchio.Data)}
    assert {*others[0]} - known == {"ComputeRNEASecondOrderDerivatives"}  # in C++ alone
    mujoco = pytest.importorskip("mujoco")
    assert not {name for name in others[1] if name.startswith("mj") and name not in dir(mujoco)}


_COUNTED = re.findall(
    r"^\| (\w+)(, floating)? \| ([\d |loops]+) \|$",
    page("specialization.md").partition("\n## Fused")[0],
    re.MULTILINE,
)


def test_the_share_of_operations_is_that_of_a_table():
    assert {name for name, _, _ in _COUNTED} == {path.stem for path in ROOT.glob("robots/*.urdf")}
    shares = [
        int(share)
        for name, _, row in _COUNTED
        if name.startswith("arm") or name in ("quadruped", "humanoid")
        for share in row.split(" | ")
        if share != "loops"
    ]
    assert f"leaves {min(shares)} to {max(shares)} % of the operations of arms" in " ".join(
        README.split()
    )


def test_every_paper_that_is_cited_is_named():
    papers = set(
        re.findall(r"^\| ([^|]+?) \| ", page("papers.md").partition("\n## ")[0], re.MULTILINE)
    )
    methods = [method for name in GENERATED for method in FUNCTIONS[name].methods.values()]
    rows = [*methods, *SCAN_ROWS, *CFA_ROWS, *(step.algorithm for step in STEPS.values())]
    cited = [
        row.source for row in rows if re.search(r"\b[A-Z][a-z]+.*(\d{4}|eq|Algorithm)", row.source)
    ]
    for path in (ROOT / "codegen").rglob("*.py"):
        cited += re.findall(r"^ *(?:Source: )(.*?\b\d{4}\b)", path.read_text("utf-8"), re.MULTILINE)
    assert len(cited) > 30
    for source in cited:
        assert any(paper in source for paper in papers), source


def test_make_help_is_a_table():
    if shutil.which("make") is None:
        pytest.skip("no make")
    output = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    lines = [line for line in output.splitlines() if line.startswith("  make ")]
    starts = {re.match(r"  make \S+ +", line).end() for line in lines}
    assert len(lines) > 10
    assert len(starts) == 1


def test_every_option_and_function_is_listed(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    usage = capsys.readouterr().out
    options = set(re.findall(r"--[a-z-]+", usage)) - {"--help", "--version"}
    assert not {option for option in options if f"`{option}" not in MANUAL}
    assert not {name for name in GENERATED if f"`{name}(" not in MANUAL}
    assert not {name for name in gridgen.__all__ if name.endswith("Error") and name not in MANUAL}


#: What pages say of limits and constants: the module, its name there, and how a page writes it.
CONSTANTS = [
    ("backends.md", "backends.eviction.LIMIT", lambda n: f"at most {n // 10**9} GB"),
    ("backends.md", "runtime.arrays.streaming.PART_BYTES", lambda n: f"chunks of {n >> 20} MB"),
    ("backends.md", "runtime.arrays.staging.PART_BYTES", lambda n: f"chunks have {n >> 20} MB"),
    ("backends.md", "runtime.arrays.staging.GPU_PART_BYTES", lambda n: f"of up to {n >> 30} GB"),
    ("backends.md", "runtime.calls.compiled._TEAMS", lambda n: f"enough for {n} states"),
    ("collisions.md", "dynamics.collision.WIDE", lambda n: f"{100 * (n - 1):.1f} % of the radius"),
    ("collisions.md", "model.cover.EXCESS", lambda n: f"protrude by {100 * n:.0f} cm"),
    ("collisions.md", "model.spheres.SAMPLES", lambda n: f"{n:,} random configurations"),
    ("constraints.md", "options.MAX_WITHOUT_LOOPS", lambda n: f"at most {n:,} operations"),
    ("contacts.md", "dynamics.contacts.point_sets.FEW_ROWS", lambda n: f"more than {n} points"),
    ("formats.md", "model.readers.limited.SECONDS", lambda n: f"a limit of {n:.0f} seconds"),
    ("gpu.md", "backends.interface.LARGEST_BLOCK", lambda n: f"below {132 * n:,} states"),
    ("gpu.md", "schedules.thread.view.MAX_WITH_SINES", lambda n: f"more than {n:,} instr"),
    ("gpu.md", "symbolic.parts.MAX_JOINED", lambda n: f"up to {n:,} instructions"),
    ("gpu.md", "symbolic.parts.MAX_JOINED_DOUBLE", lambda n: f"({n:,} in float64)"),
    ("gpu.md", "symbolic.parts.MAX_WAITING", lambda n: f"more than {n} values"),
    ("gpu.md", "kernel.MAX_PAIRED", lambda n: f"at most {n} instructions"),
    ("gpu.md", "symbolic.tiles.TILE", lambda n: f"tiles of {n} elements"),
    ("inverse_kinematics.md", "functions.calls.STARTS", lambda n: f"a table of {n} config"),
    ("inverse_kinematics.md", "dynamics.inverse_kinematics.DAMPING", lambda n: f"mu = {n} "),
    ("inverse_kinematics.md", "dynamics.inverse_kinematics.SETTLED", lambda n: f"than {n}."),
    ("motion.md", "dynamics.variational.ITERATIONS", lambda n: {7: "Seven"}[n] + " iterations"),
    ("parameters.md", "runtime.parameters.TOLERANCE", lambda n: "(1e-5)" * (n == 1e-5)),
    ("plans.md", "backends.cpu.backend.MIN_SHARE", lambda n: f"{1e6 * n:.0f} us of work"),
    ("plans.md", "runtime.planning.planner.MIN_SAVED", lambda n: f"saves {100 * n:.0f} %"),
    ("rollouts.md", "runtime.calls.rollout_vjp._NEAR_BYTES", lambda n: f"beyond {n >> 10} kB"),
    ("scan.md", "schedules.team.plan.MAX_LANES", lambda n: f"up to {n} threads"),
    ("SECURITY.md", "model.readers.document.MAX_BYTES", lambda n: f"({n >> 20} MiB"),
    ("SECURITY.md", "compiler.MAX_BODIES", lambda n: f"{n:,} bodies"),
    ("sizes.md", "options.MAX_PROGRAM", lambda n: f"{n:,} instructions"),
    ("sizes.md", "options.MAX_GPU_PROGRAM", lambda n: f"{n:,} instructions"),
    ("specialization.md", "symbolic.order._MIN_GAIN", lambda n: f"saves {100 * n:.0f} %"),
    ("specialization.md", "symbolic.order._REGISTERS", lambda n: f"{n} registers"),
    ("warp.md", "dynamics.origins.CLOSE", lambda n: f"at most {n:.0f} times"),
    ("warp.md", "dynamics.origins.FAR", lambda n: f"or {n:.0f} times"),
    ("warp.md", "schedules.warp.plan.MAX_LANES", lambda n: f"a block of {n} threads"),
]


def test_pages_say_the_limits_of_the_code():
    for name, path, written in CONSTANTS:
        module, _, constant = path.rpartition(".")
        words = written(getattr(importlib.import_module(f"gridgen.{module}"), constant))
        assert words, path
        assert words in " ".join(page(name).split()), f"{name}: {path} is {words}"
