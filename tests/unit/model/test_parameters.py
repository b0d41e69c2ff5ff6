"""Which numbers of a robot become inputs, and what they are by default."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from gridgen.errors import OptionError
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import build_tree
from gridgen.options import RobotOptions
from helpers.robots import OWN, joint_text, link_text, robot_text

ARM = OWN / "arm7.urdf"


def tree_of(source, parameters, **options):
    return build_tree(parse_urdf(source, 100), RobotOptions(parameters=parameters, **options))


def test_a_robot_has_none_by_default():
    tree = tree_of(ARM, ())
    assert not tree.parameters
    assert not any(body.parts for body in tree.bodies)


def test_a_links_row_is_about_its_own_frame():
    tree = tree_of(ARM, ["tool", "hand", "link3"])
    assert tree.parameter_names == ("tool", "hand", "link3")
    tool, hand, link3 = np.array(tree.parameters["params"])
    assert not tool.any()  # it has no inertial
    oracle = pinocchio.Inertia(
        0.73,
        np.array([0.0, 0.002, 0.035]),
        pinocchio.Inertia.FromDynamicParameters(hand).inertia,
    )
    np.testing.assert_allclose(hand, oracle.toDynamicParameters(), rtol=1e-12)
    np.testing.assert_array_equal(link3, tree_of(ARM, "all").parameters["params"][2])
    assert [len(body.parts) for body in tree.bodies] == [0, 0, 1, 0, 0, 0, 2]
    last = tree.bodies[-1]
    assert 0.0 < last.rest.mass < last.mass
    assert tree.bodies[2].rest.mass == 0.0


def test_all_rows_are_those_of_pinocchio():
    model = pinocchio.buildModelFromUrdf(str(OWN / "arm6.urdf"))
    tree = tree_of(OWN / "arm6.urdf", "all")
    assert tree.parameter_names == tree.body_names
    for body, row in zip(tree.bodies, tree.parameters["params"], strict=True):
        expected = model.inertias[model.getJointId(body.joint)].toDynamicParameters()
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-12)


def test_joints_have_the_options_numbers():
    tree = tree_of(ARM, ("damping", "armature"), armature=0.25, joint_dynamics=True)
    assert tree.parameters["armature"] == (0.25,) * 7
    assert tree.parameters["damping"] == tuple(body.damping for body in tree.bodies)
    assert tree_of(ARM, "damping").parameters["damping"] == (0.0,) * 7


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ("hnd", r'parameters has "hnd", which is not a link; the nearest are "hand"'),
        (["hand", "hand"], '"hand" twice'),
        (["all", "hand"], 'parameters has "all" and "hand"'),
        ("link0", '"link0", which is fixed to the base and does not move'),
        (3, "parameters is 3; give the name of a link"),
        ([b"hand"], "give a number or a string"),
    ],
)
def test_other_names_are_refused(parameters, text):
    with pytest.raises(OptionError, match=text):
        tree_of(ARM, parameters)


def test_a_link_with_a_words_name_is_ambiguous():
    text = robot_text(link_text("base"), link_text("damping"), joint_text("a", "base", "damping"))
    with pytest.raises(OptionError, match="rename the link in the URDF"):
        tree_of(text, "damping")
    assert not tree_of(text, ()).parameters


def test_an_inertia_that_is_an_input_may_be_missing():
    text = robot_text(link_text("base"), '<link name="arm"/>', joint_text("a", "base", "arm"))
    assert tree_of(text, "arm").singular_joint is None
    assert tree_of(text, "armature").singular_joint is None
