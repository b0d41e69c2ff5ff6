import gc
import json
from dataclasses import fields, replace

import numpy as np
import pytest

import gridgen
from gridgen.compiler import make_module
from gridgen.errors import UrdfError
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import build_tree
from gridgen.modules import TracedModule
from gridgen.options import GenerateOptions, RobotOptions
from gridgen.robot import Robot
from gridgen.runtime.module.files import FolderModule
from gridgen.schedules.thread import plan
from helpers.robots import OWN, joint_text, link_text, robot_text


def test_the_search_for_unreachable_objects_is_rarer_while_tracing_and_then_as_before():
    usual, seen = gc.get_threshold(), []
    arm = OWN / "two_link.urdf"
    make_module(arm, GenerateOptions(), lambda step: seen.append(gc.get_threshold()))
    assert min(seen) > usual
    with pytest.raises(UrdfError):
        make_module("<robot", GenerateOptions(), lambda step: None)
    assert gc.get_threshold() == usual


@pytest.mark.usefixtures("traced_anew")
def test_a_robot_in_memory_is_traced_so_too(monkeypatch):
    usual, seen = gc.get_threshold(), []
    planned = plan.plan_programs
    monkeypatch.setattr(
        plan, "plan_programs", lambda *a: seen.append(gc.get_threshold()) or planned(*a)
    )
    robot = gridgen.load(OWN / "two_link.urdf", backend="cpu")
    robot.mass_matrix(np.array([0.1, 0.2]))
    assert min(seen) > usual == gc.get_threshold()


@pytest.mark.parametrize("name", ["gripper", "cart_pole"])
def test_what_is_known_of_a_robot_is_the_same_traced_written_and_read(name, tmp_path):
    """Limits that are not there and numbers that are inputs among it."""
    options = {"parameters": "all", "floating_base": name == "gripper"}
    traced = gridgen.load(OWN / f"{name}.urdf", **options)._module.description
    chosen = GenerateOptions(output=tmp_path, functions=("inverse_dynamics",), **options)
    made = gridgen.generate(OWN / f"{name}.urdf", chosen)
    written = FolderModule(made.folder).description
    assert any(np.isinf(written.upper_limits))
    for record in (written, made.description):
        assert [vars(record)[f.name] for f in fields(record) if f.name != "parameter_values"] == [
            vars(traced)[f.name] for f in fields(record) if f.name != "parameter_values"
        ]
        assert json.dumps(record.as_data()) == json.dumps(traced.as_data())
        assert record.digest == traced.digest
        assert record.space == traced.space


class Compared(str):
    """A name that counts how often it is compared with another."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Compared.comparisons += 1
        return str.__eq__(self, other)


def comparisons_of_loading(fixed_links):
    names = [f"plate{i}" for i in range(fixed_links + 2)]
    kinds = ["continuous", *["fixed"] * fixed_links]
    joints = [joint_text(f"j{i}", *names[i : i + 2], kind) for i, kind in enumerate(kinds)]
    robot = parse_urdf(robot_text(*map(link_text, names), *joints))
    links = [replace(link, name=Compared(link.name)) for link in robot.links]
    Compared.comparisons = 0
    tree = build_tree(
        replace(robot, links=tuple(links)), RobotOptions(parameters=[one.name for one in links[1:]])
    )
    frames = tuple(replace(frame, name=Compared(frame.name)) for frame in tree.frames)
    Robot(TracedModule(replace(tree, frames=frames)), "cpu")
    return Compared.comparisons


def test_fixed_links_are_not_searched_for_among_each_other():
    few, many = comparisons_of_loading(8), comparisons_of_loading(32)
    assert many <= 4 * few + 32
