"""Each option of grid-gen does what it says, and what it wrote gives the right numbers."""

from __future__ import annotations

import importlib.abc
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen import check, progress
from gridgen.commands import main as cli
from gridgen.commands import tune as tune_command
from gridgen.cost import profile
from gridgen.functions.motion import INTEGRATORS
from gridgen.options import DEFAULT_INTEGRATORS
from gridgen.papers import __main__ as pipeline_command
from helpers.robots import exhaustive_cases, joint_text, link_text, robot_text

CODEGEN = Path(__file__).parents[2] / "codegen"
ROBOTS = CODEGEN.parent / "robots"
PENDULUM = ROBOTS / "pendulum.urdf"
QUADRUPED = ROBOTS / "quadruped.urdf"
FILES = {"__init__.py", "model.json", "include/gridgen/gridgen_math.cuh"}

MASS, LENGTH, INERTIA, GRAVITY = 1.0, 0.4, 0.0125, 9.81  # of the pendulum, m and kg
DAMPING, FRICTION = 0.02, 0.01


@pytest.fixture
def run(tmp_path, capsys):
    """Run grid-gen in this process: its status, what it printed, and its errors."""

    def run_cli(*arguments):
        try:
            status = cli.main([*map(str, arguments), "-o", str(tmp_path / "out")])
        except SystemExit as stopped:
            status = stopped.code
        output, errors = capsys.readouterr()
        return status, output, errors

    return run_cli


@pytest.fixture
def module(tmp_path):
    """Import a module that grid-gen wrote."""

    def import_module(name):
        path = tmp_path / "out" / name / "__init__.py"
        spec = importlib.util.spec_from_file_location(name, path)
        result = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(result)
        return result

    return import_module


def contents(folder):
    """Return the content of every file of a module by its path there."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


# -- what is written ----------------------------------------------------------------------------


def test_a_pendulum_held_level(run, module, tmp_path):
    status, _, errors = run(PENDULUM)
    assert (status, errors) == (0, "")
    written = contents(tmp_path / "out" / "pendulum").keys()
    assert written >= FILES | {"pendulum.cuh", "pendulum.cu", "pendulum_simd.h"}
    pendulum = module("pendulum")
    level = [np.pi / 2]
    torque = pendulum.inverse_dynamics(level, [0.0], [0.0])
    np.testing.assert_allclose(torque, [MASS * GRAVITY * LENGTH], rtol=1e-14)
    np.testing.assert_allclose(pendulum.bias_forces(level, [0.0]), torque, rtol=1e-14)
    inertia = INERTIA + MASS * LENGTH**2
    np.testing.assert_allclose(pendulum.mass_matrix(level), [[inertia]], rtol=1e-14)
    for method in ("auto", "aba", "crba"):
        falling = pendulum.forward_dynamics(level, [0.0], [0.0], method=method)
        np.testing.assert_allclose(falling, [-MASS * GRAVITY * LENGTH / inertia], rtol=1e-14)


def test_the_summary_names_what_was_made(run, tmp_path):
    _, output, _ = run(
        *(QUADRUPED, "--floating-base", "--inputs", "f_ext, base_motion"),
        *("--functions", "inverse_dynamics,forward_dynamics"),
    )
    assert "13 bodies, 13 joints, 4 levels, nq = 19, nv = 18" in output
    assert re.search(r"inverse_dynamics +\d+ +\d+ +\d+%", output)
    for part in ("operations", "..._f_ext", "..._base_motion"):
        assert f'"{part}": ' in output
    assert str(tmp_path) in output.replace("\n", "")


def test_output_is_generated_by_default(grid_gen, tmp_path):
    assert grid_gen(PENDULUM, cwd=tmp_path).returncode == 0
    assert (tmp_path / "generated" / "pendulum" / "model.json").is_file()


def test_the_default_folder_is_a_package_of_modules(grid_gen, python, tmp_path):
    grid_gen(PENDULUM, cwd=tmp_path)
    program = (
        "from generated import pendulum; print(pendulum.inverse_dynamics([0.5], [0.0], [0.0])[0])"
    )
    result = python("-c", program, cwd=tmp_path)
    assert result.stderr == ""
    assert float(result.stdout) == pytest.approx(MASS * GRAVITY * LENGTH * np.sin(0.5))


def test_name(run, module):
    assert run(PENDULUM, "--name", "swing")[0] == 0
    swing = module("swing")
    assert swing.robot.name == "pendulum"
    assert swing.inverse_dynamics([0.0], [0.0], [1.0])[0] == pytest.approx(0.1725)


@pytest.mark.parametrize(
    ("name", "becomes"), [("1bad", "n_1bad"), ("", "unnamed"), ("for", "n_for")]
)
def test_a_name_that_no_module_can_have(name, becomes, run, module):
    status, _, errors = run(PENDULUM, "--name", name, "--functions", "mass_matrix")
    (line,) = errors.splitlines()
    assert status == 0
    assert line.startswith("grid-gen: warning: ")
    assert f'"{name}"' in line
    assert module(becomes).robot.name == "pendulum"


def test_floating_base(run, module):
    assert run(QUADRUPED, "--floating-base", "--functions", "inverse_dynamics")[0] == 0
    robot = module("quadruped").robot
    assert (robot.nq, robot.nv, robot.floating_base) == (19, 18, True)
    q = np.zeros(19)
    q[6] = 1.0
    wrench = robot.inverse_dynamics(q, np.zeros(18), np.zeros(18))
    np.testing.assert_allclose(wrench[:3], [0, 0, robot.total_mass * GRAVITY], atol=1e-12)


def test_joint_dynamics(run, module):
    assert run(PENDULUM, "--joint-dynamics", "--functions", "inverse_dynamics")[0] == 0
    torque = module("pendulum").inverse_dynamics([0.0], [-3.0], [0.0])
    assert torque[0] == pytest.approx(-3.0 * DAMPING - FRICTION)


def test_armature(run, module):
    assert run(PENDULUM, "--armature", "0.5", "--functions", "mass_matrix")[0] == 0
    inertia = INERTIA + MASS * LENGTH**2 + 0.5
    assert module("pendulum").mass_matrix([0.3])[0, 0] == pytest.approx(inertia)


def test_functions(run, module):
    status, output, _ = run(PENDULUM, "--functions", "mass_matrix,bias_forces")
    assert status == 0
    assert "inverse_dynamics" not in output
    pendulum = module("pendulum")
    assert pendulum.mass_matrix([0.0]).shape == (1, 1)
    assert not hasattr(pendulum, "inverse_dynamics")
    with pytest.raises(gridgen.ModelError, match="generated without it"):
        pendulum.robot.inverse_dynamics([0.0], [0.0], [0.0])


@pytest.mark.parametrize(
    ("functions", "made"),
    [
        ("mass_matrix", {"mass_matrix", "jacobian", "jacobian_dot_qd"}),
        ("mass_matrix,jacobian", {"mass_matrix", "jacobian"}),
        ("jacobian_dot_qd", {"jacobian_dot_qd"}),
    ],
)
def test_functions_of_frames(functions, made, run, module):
    assert run(PENDULUM, "--frame", "rod", "--functions", functions)[0] == 0
    kernels = module("pendulum").robot.kernels
    names = {name for name, kernel in kernels.items() if kernel.key.schedule == "thread"}
    assert {name.partition("_rod")[0] for name in names} == made


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ([], {*DEFAULT_INTEGRATORS}),
        (["--integrators", "variational,rk4"], {"variational", "rk4"}),
    ],
)
def test_integrators(given, made, run, module):
    assert run(PENDULUM, "--functions", "step,rollout", *given)[0] == 0
    robot = module("pendulum").robot
    steps = {re.sub("^step_|_warp$", "", name) for name in robot.functions if "step_" in name}
    rollouts = {name.removeprefix("rollout_") for name in robot.functions if "rollout" in name}
    assert steps == made
    assert {name for name in rollouts if name in INTEGRATORS} == made
    left_out = "variational" if "variational" not in made else "euler"
    with pytest.raises(gridgen.ModelError, match=f"no step_{left_out}.*--integrators"):
        robot.step([0.1], [0.2], [0.3], 0.01, integrator=left_out)


# -- what is checked and reported ---------------------------------------------------------------


def test_check_prints_an_error_for_each_function_and_type(run):
    functions = ("--functions", "inverse_dynamics,mass_matrix", "--inputs", "f_ext")
    status, output, _ = run(PENDULUM, "--check", *functions)
    assert status == 0
    for function in ("inverse_dynamics", "inverse_dynamics_f_ext", "mass_matrix"):
        for dtype in ("float32", "float64"):
            assert re.search(rf"{function} +{dtype} +\S+ +\S+ +ok", output), output


def test_check_fails_where_an_error_is_out_of_tolerance(run, monkeypatch):
    monkeypatch.setitem(check.TOLERANCE, "float32", 1e-15)
    monkeypatch.setattr(check, "ROUNDINGS", 0.0)
    arguments = (ROBOTS / "two_link.urdf", "--check", "--functions", "inverse_dynamics")
    status, output, _ = run(*arguments)
    assert status == 1
    assert re.search(r"inverse_dynamics +float32 .* FAILED", output)
    assert re.search(r"inverse_dynamics +float64 .* ok", output)
    assert run(*arguments, "--quiet")[0] == 1
    assert run(*arguments, "--dtype", "float64")[0] == 0


def test_arch(run):
    pytest.importorskip("cupy")
    arguments = ("--functions", "mass_matrix", "--dtype", "float32")
    status, output, _ = run(PENDULUM, "--arch", "sm_80", "--arch", "sm_90", *arguments)
    assert status == 0
    for arch in ("sm_80", "sm_90"):
        assert re.search(rf"mass_matrix_kernel<float> +{arch} +\d+ +0 +0 +0", output)
        assert re.search(rf"mass_matrix_rows_kernel<float> +{arch} +\d+ +0 +0 +0", output)
    assert "<double>" not in output


def test_json(run, tmp_path):
    pytest.importorskip("cupy")
    status, output, errors = run(
        PENDULUM, "--json", "--check", "--arch", "sm_90", "--functions", "mass_matrix"
    )
    assert (status, errors) == (0, "")
    summary = json.loads(output)
    folder = tmp_path / "out" / "pendulum"
    assert summary["robot"] == "pendulum"
    assert Path(summary["folder"]) == folder
    sizes = {name: len(content) for name, content in contents(folder).items()}
    assert sizes.pop("manifest.json") > 0  # it lists the others
    assert summary["files"] == sizes
    counts = {key: summary[key] for key in ("bodies", "joints", "levels", "nq", "nv")}
    assert counts == dict.fromkeys(counts, 1)
    assert summary["seconds"] > 0
    operations = summary["functions"]["mass_matrix"]
    assert 0 <= operations["operations"] < operations["dense_operations"]
    kernels = {kernel["kernel"]: kernel for kernel in summary["kernels"]}
    for scalar in ("float", "double"):
        kernel = kernels[f"pendulum::mass_matrix_kernel<{scalar}>"]
        assert kernel["arch"] == "sm_90"
        assert kernel["registers"] > 0
    checked = {(row["function"], row["dtype"]): row["passed"] for row in summary["check"]}
    assert checked["mass_matrix", "float32"]
    assert checked["mass_matrix", "float64"]
    assert all(checked.values())


def test_quiet(run):
    assert run(PENDULUM, "--quiet") == (0, "", "")


def test_a_run_that_takes_long_names_its_steps(run, monkeypatch):
    monkeypatch.delenv(progress.QUIET_VARIABLE)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    _, _, errors = run(PENDULUM, "--functions", "mass_matrix")
    assert "grid-gen: tracing 1 of 1: mass_matrix ...\ngrid-gen: writing the text ...\n" in errors
    assert run(PENDULUM, "--functions", "mass_matrix", "--quiet") == (0, "", "")


def test_long_programs_have_loops(run, module, tmp_path):
    functions = ("--functions", "mass_matrix,mass_matrix_inverse")
    status, output, errors = run(ROBOTS / "arm6.urdf", "--longest-program", 200, *functions)
    assert (status, errors) == (0, "")
    assert re.search(r"mass_matrix_inverse +\d+", output)
    text = (tmp_path / "out" / "arm6" / "arm6.cuh").read_text()
    plain, inverse = text.index("void mass_matrix("), text.index("void mass_matrix_inverse(")
    assert plain < inverse
    assert "GRIDGEN_ROLLED for (int body" not in text[plain:inverse]
    assert "GRIDGEN_ROLLED for (int body" in text[inverse:]
    model = json.loads((tmp_path / "out" / "arm6" / "model.json").read_text())
    assert set(model["scratch"]) == {"mass_matrix_inverse"}
    arm, q = module("arm6"), np.linspace(-1.0, 1.0, 6 * 5).reshape(5, 6)
    identity = np.broadcast_to(np.eye(6), (5, 6, 6))
    np.testing.assert_allclose(
        arm.mass_matrix(q) @ arm.mass_matrix_inverse(q), identity, atol=1e-11
    )


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's redirections")
@pytest.mark.parametrize(
    ("options", "status", "errors"),
    [
        ("| true", 0, ""),
        *exhaustive_cases(("--json | true", 0, "")),
        (">&-", 0, ""),
        ("> /dev/full", 2, "grid-gen: cannot write to the standard output: No space"),
    ],
)
def test_an_output_without_a_reader(options, status, errors, tmp_path):
    if "full" in options and not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    grid_gen = f'"{sys.executable}" -m gridgen "{PENDULUM}"'
    command = f"{grid_gen} -o out --functions mass_matrix {options}"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CODEGEN)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == status
    said = [line for line in result.stderr.splitlines() if not line.endswith(" ...")]
    assert len(said) == (1 if errors else 0)
    assert errors in result.stderr
    assert (tmp_path / "out" / "pendulum" / "model.json").is_file()


def test_an_output_that_knows_ascii_alone(grid_gen, tmp_path):
    text = PENDULUM.read_text(encoding="utf-8").replace('name="pendulum"', 'name="\u5de6"')
    (tmp_path / "r.urdf").write_text(text, encoding="utf-8")
    result = grid_gen(
        "r.urdf", "--functions", "mass_matrix", cwd=tmp_path, PYTHONIOENCODING="ascii"
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("\\u5de6: 1 bodies")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_options_that_only_print(option, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([option])
    assert stopped.value.code == 0
    output = capsys.readouterr().out
    if option == "--version":
        assert output == f"grid-gen {gridgen.__version__}\n"
    else:
        assert "example:\n  grid-gen panda.urdf" in output


def test_a_urdf_comes_from_a_pipe(run, tmp_path, monkeypatch):
    options = ("--functions", "bias_forces", "--quiet")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PENDULUM.read_bytes())))
    assert run("-", *options) == (0, "", "")
    shutil.rmtree(tmp_path / "out")
    reader, writer = os.pipe()
    os.write(writer, PENDULUM.read_bytes())
    os.close(writer)
    assert run(f"/dev/fd/{reader}", *options) == (0, "", "")  # what a shell makes of <(...)
    os.close(reader)
    assert (tmp_path / "out" / "pendulum").is_dir()
    monkeypatch.setattr(sys, "stdin", None)
    status, _, errors = run("-", *options)
    assert status == cli.BAD_INPUT
    assert "the standard input is closed" in errors


def test_a_warning_is_one_line(run, tmp_path):
    massless = link_text("hand", mass="0", inertia="0 0 0 0 0 0")
    text = robot_text(link_text("base"), massless, joint_text("wrist", "base", "hand"))
    (tmp_path / "r.urdf").write_text(text)
    status, output, errors = run(tmp_path / "r.urdf")
    assert status == 0
    (line,) = errors.splitlines()
    assert line.startswith("grid-gen: warning: ")
    assert '"wrist"' in line
    assert "forward_dynamics" not in output


# -- what is refused ----------------------------------------------------------------------------

BROKEN = robot_text(
    link_text("base"), link_text("hand", mass="-1.5"), joint_text("wrist", "base", "hand")
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.urdf"], r"missing\.urdf: cannot be read \(No such file"),
        (["."], r"\.: cannot be read \(it is a folder\)"),
        ([""], r'"": cannot be read \(the path is empty\)'),
        (["broken.urdf"], r'broken\.urdf:3: link "hand": mass is -1\.5'),
        (["broken.urdf", "--json"], r"broken\.urdf:3: "),
        (["broken.urdf", "--quiet"], r"broken\.urdf:3: "),
        (["pendulum.urdf", "--armature", "nan"], r"armature.*nan"),
        (["pendulum.urdf", "--armature", "-1"], r"armature.*-1"),
        (["pendulum.urdf", "--functions", "jump"], r'no function "jump"; choose among'),
    ],
)
def test_bad_input(arguments, message, run, tmp_path, monkeypatch):
    (tmp_path / "broken.urdf").write_text(BROKEN)
    shutil.copy(PENDULUM, tmp_path)
    monkeypatch.chdir(tmp_path)
    status, output, errors = run(*arguments)
    assert (status, output) == (2, "")
    (line,) = errors.splitlines()
    assert line.startswith("grid-gen: ")
    assert re.search(message, line), line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--functions", "mass_matrx"], "did you mean mass_matrix"),
        (["--functions", "jacobian"], "add --frame LINK"),
        (["--functions", "mass_matrix,neutral"], "neutral is in every"),
        (["--integrators", "heun"], 'no integrator "heun"; choose among semi_implicit'),
        (["--integrators", "rk4", "--functions", "mass_matrix"], "omit it, or add step"),
        (
            ["--functions", "self_distance,mass_matrix,delassus"],
            "(grid-gen: --spheres); no delassus: the robot has no constraints: load it with",
        ),
        (
            ["--functions", "mass_matrix_inverse,point_inertia", "--frame", "base", "--vjp"],
            'no point_inertia of base: the origin of link "base" moves in 0',
        ),
        (["--functions", "integrate", "--inputs", "f_ext"], "no input f_ext: no function of"),
        (["--frame", "elbow"], 'frame_names lists its frames: "base", "rod"'),
        (["--frame", "rodd"], 'no frame "rodd"; did you mean "rod"'),
        (["--backend", "gpu", "--check"], "choose one of cpu, cuda, emulated"),
        (["--backend", "metal", "--check"], "choose one of cpu, cuda, emulated"),
        (["--backend", "cpu"], "add --check"),
        (["--dtype", "float64"], "add one of them"),
        (["--dtype", "float16", "--check"], "choose one of float32, float64"),
        (["--json", "--quiet"], "not allowed"),
        (["--name", "a", "--name", "b"], '--name: given as "a" and as "b"; give it once'),
        (["--armature", "0", "--armature", "2"], '--armature: given as "0.0" and as "2.0"'),
        (["--fuse", "a=mass_matrix", "--fuse", "a=bias_forces"], '--fuse has "a" twice'),
        (["--mapping", "m=1", "--mapping", "m:=2"], '--mapping has "m" twice'),
        (["--flo"], "unrecognized arguments: --flo"),
    ],
)
def test_an_option_that_cannot_be_served(arguments, message, run, tmp_path):
    status, output, errors = run(PENDULUM, *arguments)
    assert (status, output) == (2, "")
    (line,) = errors.splitlines()
    assert line.startswith("grid-gen: ")
    assert message in line
    assert not (tmp_path / "out").exists()


def test_no_file_at_all(run):
    status, _, errors = run()
    assert status == 2
    assert "required: urdf" in errors


@pytest.mark.parametrize("arch", ["sm_1", "ninety", "compute_90", "sm_90; rm -rf /"])
def test_an_unknown_architecture(arch, run, tmp_path):
    pytest.importorskip("cupy")
    status, output, errors = run(PENDULUM, "--arch", arch)
    assert (status, output) == (2, "")
    assert f'arch is "{arch}"' in errors
    assert not (tmp_path / "out").exists()


def without(monkeypatch, *packages):
    """Let packages be as if they were not installed."""
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("options", [("--arch", "sm_90"), ("--check", "--backend", "cuda")])
def test_what_cupy_is_needed_for_is_said_before_anything_is_written(
    options, run, tmp_path, monkeypatch
):
    without(monkeypatch, "cupy", "cupy_backends")
    status, output, errors = run(PENDULUM, *options)
    assert (status, output) == (2, "")
    (line,) = errors.splitlines()
    assert "pip install" in line
    assert not (tmp_path / "out").exists()


def test_what_a_library_says_in_many_lines_is_said_in_one(run, monkeypatch):
    class Broken(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "cupy":
                raise ImportError("\nFailed to load libnvrtc.so.12:\n  install the toolkit\n")

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    for name in [name for name in sys.modules if name.split(".")[0] == "cupy"]:
        monkeypatch.delitem(sys.modules, name)
    for options in (("--arch", "sm_80"), ("--check", "--backend", "cuda")):
        status, output, errors = run(PENDULUM, *options)
        assert (status, output) == (2, "")
        (line,) = errors.splitlines()
        assert "(Failed to load libnvrtc.so.12: install the toolkit); pip install" in line


def test_loops_have_a_column_and_all_of_their_turns_are_counted(run):
    robot = PENDULUM.with_name("arm6.urdf")
    functions = ("--functions", "mass_matrix,gravity_forces")
    _, output, _ = run(robot, *functions)
    heading, *rows = output.splitlines()[1:4]
    assert heading.split() == ["function", "operations", "dense", "removed", "instructions"]
    straight = {row.split()[0]: row.split()[1:] for row in rows}
    _, output, _ = run(robot, *functions, "--longest-program", "100")
    heading, *rows = output.splitlines()[1:4]
    assert heading.split()[-1] == "loops"
    found = {row.split()[0]: row.split()[1:] for row in rows}
    assert found["gravity_forces"] == straight["gravity_forces"]
    operations, instructions, mark = found["mass_matrix"]
    assert mark == "yes"
    fewer, _, _, least = straight["mass_matrix"]
    assert int(fewer) < int(operations) < 10 * int(fewer)
    assert int(least) < int(instructions) < 10 * int(least)
    assert '"loops": over bodies' in output.replace("\n", " ")


def test_the_legend_explains_what_is_printed_and_nothing_else(run):
    _, shown, _ = run(PENDULUM, "--functions", "inverse_dynamics,rollout", "--variants")
    table, _, legend = shown.partition('"operations"')
    for name in re.findall(r'^"(?:\.\.\._)?(\w+)":', legend, re.MULTILINE):
        assert f"{name} " in table, name
    assert "_scan" not in legend
    _, shown, _ = run(PENDULUM, "--functions", "inverse_dynamics", "--check")
    assert '"..._scan": for schedule="scan"' not in shown or "inverse_dynamics_scan " in shown


def test_a_check_that_cannot_run_leaves_no_module(run, tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise gridgen.CompileError("no compiler")

    monkeypatch.setattr(check, "compare", refuse)
    assert run(PENDULUM, "--check") == (2, "", "grid-gen: no compiler\n")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_a_module_is_never_touched(run, tmp_path):
    own = tmp_path / "out" / "pendulum"
    own.mkdir(parents=True)
    (own / "thesis.tex").write_text("years of work")
    status, _, errors = run(PENDULUM)
    assert status == 2
    assert "thesis.tex may be yours" in errors
    assert [path.name for path in own.parent.rglob("*")] == ["pendulum", "thesis.tex"]


def test_a_failed_run_leaves_the_module_as_it_was(run, tmp_path):
    run(PENDULUM)
    folder = tmp_path / "out" / "pendulum"
    before = contents(folder)
    (tmp_path / "r.urdf").write_text(BROKEN.replace('"r"', '"pendulum"'))
    assert run(tmp_path / "r.urdf")[0] == 2
    assert contents(folder) == before


def test_a_module_is_replaced_whole(run, tmp_path):
    run(PENDULUM, "--fuse", "control=mass_matrix,bias_forces")
    folder = tmp_path / "out" / "pendulum"
    assert run(PENDULUM, "--functions", "gravity_forces")[0] == 0
    assert not (folder / "pendulum_scan.cuh").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["pendulum"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's")
def test_an_output_that_cannot_be_written(run, tmp_path):
    (tmp_path / "out").write_text("a file")
    status, _, errors = run(PENDULUM)
    assert status == 2
    assert "out" in errors


def test_what_no_call_leads_to_is_there_when_asked_for(tmp_path):
    made = {}
    for variants in (False, True):
        folder, inputs = tmp_path / str(variants), ("f_ext", "base_motion")
        options = gridgen.GenerateOptions(output=folder, variants=variants, inputs=inputs)
        module = gridgen.generate(ROBOTS / "pendulum.urdf", options)
        made[variants] = set(module.kernels.by_name)
    assert made[True] - made[False] == {
        "excess",
        *(
            f"rollout_{integrator}_{variant}{loads}"
            for integrator in DEFAULT_INTEGRATORS
            for variant in ("with_efforts", "excess")
            for loads in ("", "_f_ext_base_motion")
        ),
    }
    assert made[False] < made[True]


# -- tune ---------------------------------------------------------------------------------------


@pytest.fixture
def tune(tmp_path, capsys, monkeypatch):
    """Run grid-gen tune in this process, with a folder for profiles: as ``run``."""
    monkeypatch.setattr(profile, "cache_folder", tmp_path.joinpath)

    def run_tune(*arguments):
        try:
            status = cli.main(["tune", *map(str, arguments)])
        except SystemExit as stopped:
            status = stopped.code
        return status, *capsys.readouterr()

    return run_tune


def test_tune_keeps_what_it_measures(tune, tmp_path):
    few = ("--batches", "8,64", "--dtype", "float64")
    status, output, errors = tune(PENDULUM, "--device", "cpu", *few, "--armature", "0.5")
    assert (status, errors) == (0, "")
    (kept,) = (tmp_path / "profiles").iterdir()
    assert f"stored in {kept}" in output
    assert re.search(r"forward_dynamics_aba +float64 +64 +[\d.]+ us +1\.00", output)
    assert "only selects the method of forward dynamics" in output
    status, output, _ = tune(PENDULUM, "--device", "cpu", *few, "--json", "--any-method")
    data = json.loads(output)
    assert data["any_method"] is True
    assert {batch for row in data["times"] for batch in row["seconds"]} == {"8", "64"}
    assert len([*(tmp_path / "profiles").iterdir()]) == 2  # with the armature and without


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batches", "8,x"], '--batches contains "x"; give numbers of states, 1 or more'),
        (["--batches", "0"], "batches has 0; give numbers of states"),
        (["--functions", "jacobian"], 'functions is "jacobian"; choose one of'),
        (["--device", "cpu", "--device", "cuda"], 'given as "cpu" and as "cuda"; give it once'),
        (["--mapping", "m=1", "--mapping", "m=2"], '--mapping has "m" twice'),
        (["--device", "gpu"], 'no device "gpu": choose one of cuda, cpu'),
        (["--frame", "tip"], "grid-gen tune --help lists the options"),
    ],
)
def test_what_tune_refuses(tune, tmp_path, arguments, message):
    status, output, errors = tune(PENDULUM, *arguments)
    assert (status, output) == (2, "")
    assert message in errors
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("command", [cli, tune_command, pipeline_command])
def test_no_option_replaces_its_earlier_value_in_silence(command):
    parser = command._parser()
    for action in parser._actions:
        if action.option_strings and action.nargs is None:
            again = type(action).__name__ in ("_AppendAction", "_Once")
            assert again, f"{action.option_strings} takes its last value: {action}"


def test_tune_without_a_gpu(tune, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    status, _, errors = tune(PENDULUM)
    assert status == 2
    (line,) = errors.splitlines()
    assert "run it on a machine with a GPU" in line
    assert "--device cpu" in line
    assert not [*tmp_path.iterdir()]


def test_a_robot_in_a_file_called_tune(run, tmp_path, monkeypatch):
    shutil.copy(PENDULUM, tmp_path / "tune")
    monkeypatch.chdir(tmp_path)
    assert run("./tune", "--functions", "mass_matrix", "--quiet") == (0, "", "")
