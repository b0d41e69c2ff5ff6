"""What may be chosen when a module is generated, and what is refused."""

from __future__ import annotations

import inspect
import re
from argparse import ArgumentParser
from dataclasses import fields
from pathlib import Path

import pytest

from gridgen.commands.options import add_options, options_of
from gridgen.compiler import generate, load
from gridgen.errors import OptionError
from gridgen.options import GenerateOptions, RobotOptions

REFUSED = [
    ({"floating_base": "yes"}, "floating_base is 'yes'; give True or False"),
    ({"joint_dynamics": "no"}, "joint_dynamics is 'no'; give True or False"),
    ({"joint_dynamics": 1}, "joint_dynamics is 1; give True or False"),
    ({"output": None}, "output is None; give the path of a folder"),
    ({"name": 7}, "name is 7; give a string"),
    ({"functions": "mass_matrix"}, "functions is 'mass_matrix'; give a tuple of names"),
    ({"functions": None}, "functions is None; give a tuple of names"),
    ({"functions": ("mass",)}, 'no function "mass"; choose among inverse_dynamics, '),
    ({"frames": "hand"}, "frames is 'hand'; give a tuple of names"),
    ({"frames": [None]}, "frames is [None]; give a tuple of names"),
    ({"longest_program": -1}, "longest_program is -1; give a number of instructions"),
    (
        {"longest_program": True},
        "longest_program is True; give a number of instructions, 0 or more",
    ),
    ({"longest_gpu_program": -1}, "longest_gpu_program is -1; give a number of instructions"),
    ({"longest_program": 1e5}, "longest_program is 100000.0; give a number of instructions"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_is_no_choice_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        GenerateOptions(**options)


def test_a_folder_may_be_text_and_names_a_list() -> None:
    options = GenerateOptions(output="out", functions=["mass_matrix"], frames=["hand"])
    assert options == GenerateOptions(
        output=Path("out"), functions=("mass_matrix",), frames=("hand",)
    )


@pytest.mark.parametrize("options", ["out", {}, {"floating_base": True}])
def test_options_are_an_object_of_their_own(options: object) -> None:
    with pytest.raises(OptionError, match=r"options is .*; give a gridgen\.GenerateOptions"):
        generate("never read.urdf", options)


def test_an_option_of_a_robot_is_one_of_load_of_modules_and_of_every_command(
    tmp_path: Path,
) -> None:
    own = {field.name for field in fields(RobotOptions)}
    parser = ArgumentParser()
    add_options(parser, RobotOptions)
    given = "--floating-base --joint-dynamics --armature 0.5 --parameters damping --mapping a:=b"
    given += " --lock elbow=0.5 --lock base=1,2,3 --no-parameter-check"
    given += " --constraint point:foot --constraint joint:a:b --spheres primitives"
    (tmp_path / "a.srdf").write_text('<robot><disable_collisions link1="a" link2="b"/></robot>')
    given += " --order elbow,shoulder --order base --convention mujoco"
    given += " --ground foot --contact cone=elliptic --actuators true --sensors true"
    given += " --friction-width 0.1 --rotor elbow=1e-4,50 --gyroscopic"
    given += f" --allowed-collisions {tmp_path / 'a.srdf'}"
    options = options_of(parser.parse_args(given.split()), RobotOptions)
    expected = RobotOptions(
        floating_base=True,
        joint_dynamics=True,
        armature=0.5,
        parameters=("damping",),
        check_parameters=False,
        mappings={"a": "b"},
        lock={"elbow": 0.5, "base": (1.0, 2.0, 3.0)},
        order=["elbow", "shoulder", "base"],
        convention="mujoco",
        constraints=(
            {"kind": "point", "link": "foot"},
            {"kind": "joint", "joint": "a", "to": "b"},
        ),
        ground=("foot",),
        friction_width=0.1,
        rotors={"elbow": (1e-4, 50.0)},
        gyroscopic=True,
        contact={"cone": "elliptic"},
        actuators=True,
        sensors=True,
        spheres="primitives",
        allowed_collisions=[("a", "b")],
    )
    assert options == expected
    assert all(getattr(options, name) != getattr(RobotOptions(), name) for name in own)
    assert {"backend", "longest_program"} | own == set(inspect.signature(load).parameters) - {
        "robot"
    }
    with pytest.raises(TypeError, match="floating_bas"):
        load("never read.urdf", floating_bas=True)
