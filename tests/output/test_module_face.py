"""A generated module has the robot's functions, with the same arguments, and hands them on."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from typing import get_args

import pytest

import gridgen
from gridgen.backends import TARGETS
from gridgen.options import FUNCTION_CHOICES
from gridgen.runtime import kinematics, robot, types

PENDULUM = Path(__file__).parents[2] / "robots" / "pendulum.urdf"
#: Of a robot alone: it runs a function by the name that it has in the C++ files.
BY_NAME = {"evaluate"}


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


def functions_of(owner) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(function)
        for name, function in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_") and name != "open_module"
    }


def arguments_of(signature: inspect.Signature) -> list[str]:
    return [str(argument) for name, argument in signature.parameters.items() if name != "self"]


def test_it_has_every_function_of_the_robot(face):
    assert set(functions_of(face)) == set(functions_of(gridgen.Robot)) - BY_NAME
    assert set(FUNCTION_CHOICES) <= set(functions_of(face))


@pytest.mark.parametrize("name", sorted(set(functions_of(gridgen.Robot)) - BY_NAME))
def test_arguments_are_those_of_the_robot(name, face):
    own, robots = functions_of(face)[name], functions_of(gridgen.Robot)[name]
    assert arguments_of(own) == arguments_of(robots)
    assert own.return_annotation == robots.return_annotation
    assert inspect.getdoc(getattr(face, name))


@pytest.mark.parametrize("name", sorted(set(functions_of(gridgen.Robot)) - BY_NAME))
def test_every_argument_reaches_the_robot(name, face, monkeypatch):
    called = {}

    class Recorder:
        def __getattr__(self, method):
            def record(*arguments, **options):
                bound = functions_of(gridgen.Robot)[method].bind(self, *arguments, **options)
                called[method] = {k: v for k, v in bound.arguments.items() if k != "self"}
                return "result"

            return record

    monkeypatch.setattr(face, "robot", Recorder())
    given = {argument: object() for argument in functions_of(face)[name].parameters}
    assert getattr(face, name)(**given) == "result"
    assert called == {name: given}


def test_a_function_that_was_left_out_says_so(face):
    with pytest.raises(gridgen.ModelError, match="--functions"):
        face.inverse_dynamics_second_order([0.0], [0.0], [0.0])
    with pytest.raises(gridgen.ModelError, match="--frame"):
        face.jacobian([0.0], "rod")


def test_functions_that_were_not_chosen_are_not_there(tmp_path):
    face = face_of(tmp_path, functions=("kinetic_energy", "jacobian"), frames=("rod",))
    there = set(functions_of(face)) & set(FUNCTION_CHOICES)
    assert there == {"kinetic_energy", "jacobian"}


def test_type_checkers_know_the_choices():
    auto = ("auto",)
    assert get_args(types.Method) == auto + tuple(robot.FORWARD_DYNAMICS_SCHEDULES)
    assert get_args(types.Schedule) == auto + robot.SCHEDULES
    assert get_args(types.ForwardDynamicsSchedule) == (
        auto + robot.FORWARD_DYNAMICS_SCHEDULES["aba"]
    )
    assert get_args(types.Reference) == kinematics.REFERENCES
    assert set(get_args(types.BackendChoice)) == {*auto, *TARGETS}
