"""Everything that knows the functions knows those of the registry, with the same arguments."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import pydoc
import re
import sys
import typing
from collections import defaultdict
from pathlib import Path
from typing import TypedDict, get_args

import numpy as np
import pytest

import gridgen
from gridgen.backends import TARGETS
from gridgen.backends.cpu.units import translation_unit
from gridgen.commands.main import main
from gridgen.dynamics.functions import COMPUTATIONS
from gridgen.functions import FUNCTIONS, GENERATED, Declared, FunctionName, types
from gridgen.functions.arrays import (
    ARRAYS,
    CONSTRAINT_INPUTS,
    CONTACT_INPUTS,
    FEEDBACK,
    OPTIONAL_INPUTS,
    PARAMETERS,
)
from gridgen.options import DEFAULT_FUNCTIONS, LEFT_OUT
from gridgen.robot import open_module
from gridgen.schedules import KernelSelection, Schedules
from gridgen.schedules.team.schedule import TeamSchedule
from gridgen.template_root import template_root
from gridgen.version import MODULE_FORM
from helpers.robots import CONSTRAINTS, GROUND, OWN
from helpers.scan import tree_of

ROOT = Path(__file__).parents[2]
PENDULUM = ROOT / "robots" / "pendulum.urdf"
#: Of a robot alone: they run functions, by the names that these have in the C++ files or in parts.
BY_NAME = {"evaluate", "path_free"}
#: Ways to call any function.
WAYS = ("bind", "compile", "compute", "jvp", "vjp", "rollout_vjp")
#: What a module has by default: whatever is generated, and what takes no code.
THERE = {*DEFAULT_FUNCTIONS, "neutral", "random_configuration"}
FUSED = ["mass_matrix", "bias_forces"]
#: The number of the form of modules, and the digest of that form.
FORM = ("1", "d3f7cd76f212e205")
NO_INERTIA = '<inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/>'
#: Of a robot alone: they explain, measure and export, and return no results.
EXPLAINS = {"plan", "tune", "parameters", "check_parameters", "casadi", "sympy"}
EXPLAINS |= {"animate", "report", "plot_tree", "plot_sparsity"}


def face_of(folder, **options):
    """Import a module made from the pendulum; nothing is compiled."""
    written = gridgen.generate(PENDULUM, gridgen.GenerateOptions(output=folder, **options))
    path = written.folder / "__init__.py"
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def face(tmp_path_factory):
    return face_of(tmp_path_factory.mktemp("modules"))


def functions_of(owner) -> dict[str, object]:
    """Return the public functions of a class, or a module's methods of its robot."""
    return {
        name: function
        for name, function in inspect.getmembers(owner, inspect.isroutine)
        if not name.startswith("_") and name != "open_module"
    }


def test_a_robot_and_a_module_have_the_functions_of_the_registry(face):
    assert set(functions_of(gridgen.Robot)) - BY_NAME - EXPLAINS == {*FUNCTIONS, *WAYS}
    assert set(functions_of(face)) == {*THERE, "bind", "compile"}
    assert get_args(FunctionName) == GENERATED


@pytest.mark.parametrize("name", [*FUNCTIONS, *WAYS])
def test_the_function_of_a_module_is_that_of_its_robot(name, face):
    method = getattr(face.robot, name)
    assert inspect.getdoc(method).startswith(("Return ", "Compile "))
    if name in (*THERE, "bind", "compile"):
        assert getattr(face, name) == method
    else:
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'; call robot\.{name} for"):
            getattr(face, name)


@pytest.mark.parametrize("name", GENERATED)
def test_a_declaration_hands_on_all_that_it_takes(name):
    """Arrays in the order of the record, everything else by its name; under its own name."""
    calls = []

    class Recorder(Declared):
        def _call(self, request):
            calls.append(request)

        def _linearized(self, *arguments):
            raise RuntimeError(arguments)

        def _configuration(self, *arguments):
            raise RuntimeError(arguments)

        def _searched(self, *arguments):
            raise RuntimeError(arguments)

    row, signature = FUNCTIONS[name], inspect.signature(getattr(Declared, name))
    arrays = {argument: object() for argument in row.arguments}
    options = {option: object() for option in row.options}
    words = {word: object() for word in row.words}
    assert list(signature.parameters)[1:] == [*_positional(row, signature), *row.options]
    getattr(Recorder(), name)(**arrays, **words, **options)
    (request,) = calls
    assert request.function == name
    assert request.arrays == tuple(arrays.values())
    assert request.schedule == options.get("schedule", "auto")
    assert request.method == options.get(row.method_word, "auto")
    keywords = {"out": request.out, **request.options}
    keywords |= {} if request.settings is None else vars(request.settings)
    assert keywords == {k: v for k, v in options.items() if k not in ("schedule", row.method_word)}
    if row.has_frames:
        words["frame"] = words.pop("frames")
    assert words == {word: getattr(request, word) for word in words}
    assert words or (request.frame, request.reference) == (None, "")


@pytest.mark.parametrize("name", GENERATED)
def test_every_function_is_bound_with_the_arguments_that_it_has(name, monkeypatch):
    """What is bound and what is called have the same kernel, arrays, backend and ``out``."""
    touches = name in ("contact_forward_dynamics", "contact_residual")
    is_held = not touches and name != "step_hessian"
    is_driven = "ctrl" in FUNCTIONS[name].options
    more = ("offsets",) * is_held + ("actuator_gains", "gear") * is_driven
    robot = gridgen.load(
        OWN / "arm6.urdf",
        parameters=("all", "armature", "damping", "joint_friction", *more),
        constraints=CONSTRAINTS["arm6"] if is_held else (),
        ground=GROUND["arm6"] if touches else (),
        contact=touches and {"terrain": gridgen.terrain(np.zeros((2, 2)), half_lengths=(1, 1))},
        actuators=is_driven and [{"joint": "elbow_joint"}],
        sensors=name == "sensors" and [{"kind": "imu", "link": "wrist_3_link"}],
        spheres={"base_link": [(0.0, 0.0, 0.0, 0.3)], "wrist_3_link": [(0.0, 0.0, 0.0, 0.3)]},
    )
    seen = []

    monkeypatch.setattr(robot, "_evaluations", defaultdict(lambda: seen.append))
    monkeypatch.setattr(robot._binder, "bind", seen.append)
    row = FUNCTIONS[name]
    arrays = {argument: object() for argument in row.arguments}
    chosen: dict[str, object] = {
        "schedule": "thread",
        "method": "crba",
        "integrator": "euler",
        "backend": "emulated",
    }
    chosen |= {"return_efforts": False, "feedback": None, "stop_when": None, "record": ()}
    lacking = ("stiffness", *(CONSTRAINT_INPUTS if touches else CONTACT_INPUTS))
    given = [option for option in row.options if option not in lacking]
    options = {option: chosen.get(option, object()) for option in given}
    words = {"frame": "tool0", "reference": "world"} if row.of_frame else {}
    getattr(robot, name)(**arrays, **words, **options)
    robot.bind(name, **arrays, **words, **options)
    called, bound = seen
    assert called == bound
    given = {name: value for name, value in bound.inputs.items() if name not in FEEDBACK}
    assert given == {**arrays, **{k: options[k] for k in given if k in options}}
    assert (bound.backend, bound.out) == ("emulated", options["out"])


def _positional(row, signature):
    return [name for name in signature.parameters if name in (*row.arguments, *row.words)]


#: Inputs that algorithms read from the state.
IN_STATE = {"q", "qd", "gravity"}


@pytest.mark.parametrize("name", GENERATED)
def test_algorithms_are_there_and_read_what_the_record_says(name):
    row = FUNCTIONS[name]
    for method in row.methods.values():
        if method.algorithm:
            module, _, function = method.algorithm.rpartition(".")
            algorithm = getattr(importlib.import_module(f"gridgen.dynamics.{module}"), function)
            signature = inspect.signature(algorithm)
            parameters = {
                name
                for name, parameter in signature.parameters.items()
                if name in ARRAYS or parameter.default is inspect.Parameter.empty
            }
            assert parameters - {"state", "frame", "reference"} == set(row.inputs) - IN_STATE
    assert set(row.results) <= set(ARRAYS)
    assert name not in ARRAYS  # in C++ an argument would hide the function


def test_every_kernel_is_of_a_function_and_a_schedule_that_it_has():
    """And every function has the schedules that it says."""
    schedules, offered = Schedules(tree_of("arm7")), set()
    for schedule in schedules.all:
        for key in schedule.keys(KernelSelection(GENERATED)):
            assert sum(other.has(key) for other in schedules.all) == 1
            offered.add((key.function, key.method, key.schedule))
            if isinstance(schedule, TeamSchedule):
                assert schedule.row(key).same.name in COMPUTATIONS
    assert offered == {
        (name, method, schedule)
        for name in GENERATED
        for method, algorithm in FUNCTIONS[name].methods.items()
        for schedule in algorithm.schedules
    }


def test_the_manual_has_its_derived_parts(monkeypatch):
    """Every table of results and every method of a robot is in one page, as it is now."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    module = importlib.import_module("derived")
    pages = {path: path.read_text(encoding="utf-8") for path in module.pages()}
    assert "<!-- Registry: functions -->" in pages[ROOT / "docs" / "functions.md"]
    for path, text in pages.items():
        assert module.with_derived(text) == text, f"{path.name}: make golden writes it anew"
    places = [
        match.groups()[1:3] for text in pages.values() for match in module.PLACE.finditer(text)
    ]
    shown = {kind: [name for one, name in places if one == kind] for kind, _ in places}
    assert set(shown["Data"]) == {path.stem for path in module.TABLES.glob("*.csv")}
    assert sorted(shown["Functions"]) == sorted(module.groups())
    sys.modules.pop("derived")


def test_pages_render_without_a_site():
    """GitHub shows an include, a fold or a place for docstrings as the text that it is."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    assert not re.findall(r"^(?:\?\?\?|--8<--|:::|!!!|:   ).*$", text, flags=re.MULTILINE)


def test_a_function_that_was_left_out_says_so(face):
    with pytest.raises(gridgen.ModelError, match="--functions"):
        face.robot.inverse_dynamics_second_order([0.0], [0.0], [0.0])
    with pytest.raises(gridgen.ModelError, match="--frame"):
        face.robot.jacobian([0.0], "rod")
    with pytest.raises(AttributeError, match=r"no attribute 'inverse_dynamic'$"):
        face.inverse_dynamic  # noqa: B018
    with pytest.raises(gridgen.ModelError, match=r"without base_velocity .* --inputs base"):
        face.bias_forces([0.0], [0.0], base_velocity=[0.0] * 6)


def test_what_inputs_a_module_lacks_is_said_in_the_words_of_the_call(tmp_path):
    face = face_of(tmp_path, functions=("bias_forces",), inputs=("f_ext",))
    with pytest.raises(gridgen.ModelError) as error:
        face.bias_forces([0.0], [0.0], base_velocity=[0.0] * 6)
    assert "without base_velocity and base_acceleration: " in str(error.value)
    assert "--inputs f_ext,base_motion, or" in str(error.value)
    with pytest.raises(gridgen.ModelError, match="without base_velocity and base_acceleration: "):
        face.bias_forces([0.0], [0.0], f_ext=[[0.0] * 6], base_velocity=[0.0] * 6)


def test_long_variants_are_there_and_compute_the_same(tmp_path):
    """Whichever of a method's programs has loops, none is left out or replaced by another."""
    options = {"functions": ("bias_forces", "forward_dynamics"), "inputs": ("f_ext",)}
    faces = [face_of(tmp_path / str(most), longest_program=most, **options) for most in (0, 10**6)]
    assert [face.robot.functions for face in faces[:1]] == [faces[1].robot.functions]
    q, pushed = [0.5], {"f_ext": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]}
    for method in ("aba", "crba"):
        found, expected = (
            face.forward_dynamics(q, [0.1], [0.2], method=method, **pushed) for face in faces
        )
        assert found == pytest.approx(expected, rel=1e-12)
    found, expected = (face.bias_forces(q, [0.1], **pushed) for face in faces)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_loaded_robot_has_every_selection_of_inputs_whatever_was_called_before():
    robot = gridgen.load(PENDULUM)
    before = robot.functions
    x = {"q": [0.1], "qd": [0.2], "f_ext": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]}
    found = robot.evaluate("bias_forces_f_ext", x)
    assert found == pytest.approx(robot.bias_forces(**x), rel=1e-14)
    assert robot.functions == before
    with pytest.raises(gridgen.ModelError, match="no bias_force: did you mean bias_forces"):
        robot.evaluate("bias_force", x)


def test_mimic_robots_get_a_method_that_has_the_schedule():
    robot = gridgen.load(OWN / "gripper.urdf", backend="emulated")
    q, qd = robot.neutral(), robot.neutral()[: robot.nv]
    found = robot.forward_dynamics(q, qd, qd, schedule="scan")
    assert found == pytest.approx(robot.forward_dynamics(q, qd, qd, method="jsiia"))
    with pytest.raises(gridgen.OptionError, match="choose one of auto, thread, scan"):
        robot.forward_dynamics(q, qd, qd, schedule="tree")


def test_type_hints_can_be_evaluated():
    for name in GENERATED:
        hints = typing.get_type_hints(getattr(gridgen.Robot, name))
        assert set(FUNCTIONS[name].options) >= set(hints["options"].__annotations__)


def test_a_module_runs_with_other_versions_of_its_form(tmp_path):
    options = gridgen.GenerateOptions(output=tmp_path, functions=("gravity_forces",))
    written = gridgen.generate(PENDULUM, options)
    path, face = written.folder / "model.json", str(written.folder / "__init__.py")
    text = path.read_text().replace('"grid-gen": "', '"grid-gen": "9.')
    path.write_text(text)
    assert open_module(face).gravity_forces(np.zeros(1)).shape == (1,)
    path.write_text(text.replace('"module": "', '"module": "9.'))
    with pytest.raises(
        gridgen.ModelError, match=r"version 9\..* wrote it in form 9\.\d.* runs form"
    ):
        open_module(face)
    path.write_text(text.replace('"kernels"', '"colonels"'))
    with pytest.raises(gridgen.ModelError, match="'kernels' is missing or damaged"):
        open_module(face)


def test_the_form_of_modules_has_its_number():
    """The functions of compiled code that Python calls, and their structures."""
    static = template_root() / "static"
    text = (static / "gridgen_call.h").read_text() + (static / "gridgen_share.h").read_text()
    structures = re.findall(r"^struct \w+ \{.*?^\};", text, re.DOTALL | re.MULTILINE)
    fields = [re.sub(r"//.*|\s+", " ", structure) for structure in structures]
    form = "".join([*fields, translation_unit("robot", "function", "float64", None)])
    digest = hashlib.sha256(form.encode()).hexdigest()[:16]
    assert (MODULE_FORM, digest) == FORM, "raise MODULE_FORM (version.py), and write both here"


def test_help_shows_the_functions(face):
    assert "inverse_dynamics(" in pydoc.plain(pydoc.render_doc(face))
    assert set(face.__all__) == {"robot", *THERE, "bind", "compile"}


def test_a_module_names_what_it_has_and_nothing_else(tmp_path):
    """Whatever was chosen: each public name is a function that a kernel is behind."""
    products = {"vjp": True, "jvp": True}
    for number, (options, ways) in enumerate(
        [
            ({"functions": ("step_gradient", "step")}, set()),
            ({"functions": ("rollout",), "vjp": True}, {"vjp", "rollout_vjp"}),
            ({"functions": ("mass_matrix",), **products}, {"vjp", "jvp"}),
            ({"functions": ("mass_matrix",), "fuse": {"both": FUSED}}, {"compute", "both"}),
        ]
    ):
        face = face_of(tmp_path / str(number), **options)
        made = {kernel.key.function for kernel in face.robot.kernels.values()} & set(FUNCTIONS)
        assert made == set(options["functions"])
        made |= {"rollout_gradient"} if {"step", "step_gradient"} <= made else set()
        known = {"robot", "bind", "compile", "neutral", "random_configuration"}
        assert set(face.__all__) == known | made | ways
        assert set(functions_of(face)) | {"robot", "both"} >= set(face.__all__)


@pytest.mark.filterwarnings("ignore::gridgen.GridGenWarning")
def test_what_a_robot_cannot_have_is_no_name_of_its_module(tmp_path):
    names = ("forward_dynamics", "center_of_mass")
    text = PENDULUM.read_text().replace('<mass value="', '<mass value="0.0" was="')
    text = re.sub(r"<inertia .*?/>", NO_INERTIA, text)
    options = gridgen.GenerateOptions(output=tmp_path)
    named = gridgen.GenerateOptions(output=tmp_path, functions=("gravity_forces", *names))
    made = gridgen.generate(text, options)
    with pytest.raises(gridgen.ModelError, match=r"no forward_dynamics: .*; no center_of_mass: "):
        gridgen.generate(text, named)
    source = (made.folder / "__init__.py").read_text()
    there = set(re.findall(r"(\w+) = robot\.", source))
    assert "gravity_forces" in there
    assert not set(names) & there


def test_the_help_and_the_manual_name_the_default(capsys):
    page = (ROOT / "docs" / "functions.md").read_text(encoding="utf-8")
    with contextlib.suppress(SystemExit):
        main(["--help"])
    help_text = " ".join(capsys.readouterr().out.split())
    (told,) = re.findall(r"default: all except ([\s\w,]*)\)", help_text)
    assert tuple(re.findall(r"\w+", told)) == LEFT_OUT
    assert {"step", "rollout"} <= set(DEFAULT_FUNCTIONS)
    assert tuple(re.findall(r"^\| `(\w+)\([^`]*` †", page, re.M)) == LEFT_OUT


def test_a_module_with_more_inputs_than_given_serves(tmp_path):
    face = face_of(tmp_path, functions=("bias_forces",), inputs=("f_ext", "base_motion"))
    names = set(face.robot.functions)
    assert "bias_forces_f_ext_base_motion" in names
    assert "bias_forces_f_ext" not in names
    pushed = face.bias_forces([0.1], [0.2], f_ext=[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    traced = gridgen.load(PENDULUM).bias_forces(
        [0.1], [0.2], f_ext=[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]
    )
    assert pushed == pytest.approx(traced, rel=1e-14)
    assert pushed != pytest.approx(face.bias_forces([0.1], [0.2]))


def test_functions_that_were_not_chosen_are_not_there(tmp_path):
    face = face_of(tmp_path, functions=("kinetic_energy", "jacobian"), frames=("rod",))
    there = set(functions_of(face)) & set(GENERATED)
    assert there == {"kinetic_energy", "jacobian"}


@pytest.mark.parametrize("options", [types.Options, types.Loaded, types.Driven, types.Constrained])
def test_shared_keyword_arguments_are_known_arrays(options: type[TypedDict]) -> None:
    keywords = set(options.__annotations__) - {"backend"}
    optional = {name for one in OPTIONAL_INPUTS.values() for name in one.arrays}
    assert keywords <= {"gravity", *PARAMETERS} | optional
    held = types.Constrained, types.Impulsive, types.Supported, types.Operational, types.Soft
    every = {name for one in held for name in one.__annotations__}
    assert every == {"backend", "gravity", *PARAMETERS} | optional


@pytest.mark.parametrize("name", ["arm7", "gripper"])
def test_a_keyword_that_a_function_lacks_is_refused_as_python_does(name):
    robot = gridgen.load(OWN / f"{name}.urdf")
    q = [0.0] * robot.nq
    for keyword in ("f_ext", "gravity", "nonsense"):
        with pytest.raises(TypeError, match=rf"mass_matrix\(\) got an unexpected .*'{keyword}'"):
            robot.mass_matrix(q, **{keyword: None})


def test_type_checkers_know_the_choices():
    methods = FUNCTIONS["forward_dynamics"].methods
    assert get_args(types.Method) == ("auto", *methods)
    of_methods = {schedule for method in methods.values() for schedule in method.schedules}
    assert set(get_args(types.DynamicsSchedule)) == {"auto", *of_methods}
    others = {m.schedules for n in GENERATED for m in FUNCTIONS[n].methods.values()}
    both = ("thread", "scan")
    warp = ("thread", "warp")
    three = (*both, "warp")
    assert get_args(types.Schedule) == ("auto", *both)
    assert get_args(types.WarpSchedule) == ("auto", *warp)
    assert get_args(types.DynamicsSchedule) == ("auto", *three)
    of_one = {("thread",), ("scan",), warp}
    assert others == {*of_one, both, three}
    assert set(get_args(types.BackendChoice)) == {"auto", *TARGETS}


def test_the_examples_of_the_manual_are_calls_of_the_registry():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    called = set(re.findall(r"robot\.([a-z_]+)\(", text))
    assert called - EXPLAINS - BY_NAME <= {*FUNCTIONS, *WAYS}


@pytest.mark.parametrize("name", [name for name, row in FUNCTIONS.items() if row.is_generated])
def test_a_docstring_has_what_the_record_has(name: str) -> None:
    row, text = FUNCTIONS[name], inspect.getdoc(getattr(Declared, name)) or ""
    for heading in ("Args:", "Returns:", "Raises:"):
        assert f"\n{heading}\n" in text
    assert bool(re.search("\nSources?:", text)) == any(one.source for one in row.methods.values())
    for argument in (*row.arguments, *row.words):
        assert re.search(rf"^    {argument}:", text, re.MULTILINE), argument
