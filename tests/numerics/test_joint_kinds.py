"""Every kind of joint, anywhere in a tree, against Pinocchio."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from gridgen.check import TOLERANCE, random_states, relative_errors
from gridgen.dynamics.functions import refusal
from helpers.oracle import Oracle
from helpers.robots import joint_text, link_text, robot_text
from numerics.robots import Evaluate, load_tree, resisting

STATES = 20
FUNCTIONS = [
    "inverse_dynamics",
    "bias_forces",
    "mass_matrix",
    "forward_dynamics_aba",
    "forward_dynamics_crba",
]
#: Accelerations of these well-conditioned robots lose up to three digits.
ACCELERATION_TOLERANCE = 1e-9

HEAVY = link_text("arm", mass="2", com="0.1 -0.2 0.3", rpy="0.5 0.4 -0.3")
TAIL = (link_text("hand", com="0.05 0.1 0", rpy="1 0 0.2"), link_text("thumb", mass="0.4"))


def chain(*joints: str) -> str:
    """Return base - arm - hand - thumb with the joints given."""
    return robot_text(link_text("base"), HEAVY, *TAIL, *joints)


REVOLUTE = joint_text("a", "base", "arm", axis="0 1 0", rpy="0.1 0.2 0.3")
LAST = joint_text("c", "hand", "thumb", axis="1 0 0", xyz="0.1 0 0.3")
SKEW = "0.6 -0.48 0.64"

ROBOTS = {
    "prismatic": chain(
        REVOLUTE, joint_text("b", "arm", "hand", "prismatic", axis=SKEW, rpy="0.4 0 1"), LAST
    ),
    "prismatic first and last": chain(
        joint_text("a", "base", "arm", "prismatic", axis="1 0 0"),
        joint_text("b", "arm", "hand", "continuous", axis="0 -1 0"),
        joint_text("c", "hand", "thumb", "prismatic", axis="0 0 -1", rpy="0 1.2 0"),
    ),
    "helical": chain(
        REVOLUTE, joint_text("b_screw", "arm", "hand", "helical", axis=SKEW, rpy="0.4 0 1"), LAST
    ),
    "helical first and last": chain(
        joint_text("a_screw", "base", "arm", "helical", axis="0 -1 0"),
        joint_text("b", "arm", "hand", "prismatic", axis=SKEW),
        joint_text("c_screw", "hand", "thumb", "helical", axis="0 0 -1", rpy="0 1.2 0"),
    ),
    "continuous about a skew axis": chain(
        joint_text("a", "base", "arm", "continuous", axis=SKEW),
        joint_text("b", "arm", "hand", "continuous", axis="1 1 1", rpy="3.14159265 0 0"),
        LAST,
    ),
    "right angles": chain(
        joint_text("a", "base", "arm", axis="0 0 1", rpy="1.5707963267948966 0 0"),
        joint_text("b", "arm", "hand", axis="0 1 0", rpy="0 -1.5707963267948966 0"),
        joint_text("c", "hand", "thumb", axis="-1 0 0", rpy="0 0 3.141592653589793"),
    ),
    # Rotations a hair off the coordinate axes: small angles must be neither lost nor blown up.
    "almost right angles": chain(
        joint_text("a", "base", "arm", rpy="1.5707 1e-9 0"),
        joint_text("b", "arm", "hand", rpy="1e-9 -2e-9 0.7"),
        joint_text("c", "hand", "thumb", rpy="3.14159 -1e-6 1.5708"),
    ),
    "tilts of rounding size": chain(
        joint_text("a", "base", "arm", rpy="4e-15 0 -1.5708"),
        joint_text("b", "arm", "hand", rpy="-3e-13 7e-14 1.5708"),
        joint_text("c", "hand", "thumb", rpy="3.141592653589 0 1.5707"),
    ),
    "floating in the tree": chain(
        REVOLUTE, joint_text("b", "arm", "hand", "floating", axis=None, rpy="0.4 0 1"), LAST
    ),
    "one floating joint on another": chain(
        REVOLUTE,
        joint_text("b", "arm", "hand", "floating", axis=None, rpy="0.4 0 1"),
        joint_text("c", "hand", "thumb", "floating", axis=None, xyz="0.1 0 0.3"),
    ),
    "floating at the root": chain(
        joint_text("a", "base", "arm", "floating", axis=None),
        joint_text("b", "arm", "hand", axis="0 1 0"),
        LAST,
    ),
    "planar in the tree": chain(
        REVOLUTE, joint_text("b", "arm", "hand", "planar", rpy="0.4 0 1", xyz="0.1 0.2 0.3"), LAST
    ),
    "planar at the root": chain(
        joint_text("a", "base", "arm", "planar"), joint_text("b", "arm", "hand", axis=SKEW), LAST
    ),
    "massless bodies": robot_text(
        link_text("base"),
        '<link name="arm"/>',
        '<link name="hand"/>',
        link_text("thumb"),
        joint_text("a", "base", "arm", axis="0 1 0"),
        joint_text("b", "arm", "hand", axis="1 0 0", xyz="0.3 0 0"),
        LAST,
    ),
    "bodies fixed to bodies": robot_text(
        link_text("base"),
        HEAVY,
        link_text("bracket", mass="0.7"),
        link_text("tool", mass="0.2"),
        link_text("hand"),
        REVOLUTE,
        joint_text("f", "arm", "bracket", "fixed", rpy="0.3 0.7 0.1"),
        joint_text("g", "bracket", "tool", "fixed", xyz="0 0.2 0"),
        joint_text("z", "bracket", "hand", axis="0 1 0", rpy="0 0.3 0"),
    ),
    "branches": robot_text(
        *(link_text(name, com=f"0.1 {i / 10} 0") for i, name in enumerate("abcdefg")),
        joint_text("ab", "a", "b", axis=SKEW),
        joint_text("ac", "a", "c", "prismatic", axis="0 1 0"),
        joint_text("bd", "b", "d", "continuous"),
        joint_text("be", "b", "e", axis="0 1 0"),
        joint_text("ef", "e", "f", "prismatic", rpy="0.3 0.2 0.1"),
        joint_text("eg_screw", "e", "g", "helical", axis="1 0 0"),
    ),
}


@pytest.mark.parametrize(
    ("name", "floating"),
    [case for case in product(ROBOTS, (False, True)) if case != ("floating at the root", True)],
)
def test_joints_move_as_pinocchios(evaluate: Evaluate, name: str, floating: bool) -> None:
    """Every velocity has armature and damping."""
    urdf = ROBOTS[name]
    options = resisting(urdf, floating)
    tree = load_tree(urdf, **options)
    oracle = Oracle(tree, urdf)
    x = random_states(tree, STATES, np.random.default_rng(5))
    del x["f_ext"]
    for function in FUNCTIONS:
        assert refusal(tree, function) is None
        result = evaluate(urdf, function, x, **options)
        error = relative_errors(result, oracle.evaluate(function, x)).max()
        limit = ACCELERATION_TOLERANCE if "forward" in function else TOLERANCE["float64"]
        assert error <= limit, f"{function}: {error:.1e}"


def test_a_turn_more_changes_nothing(evaluate: Evaluate) -> None:
    urdf = ROBOTS["continuous about a skew axis"]
    x = random_states(load_tree(urdf), STATES, np.random.default_rng(6))
    turned = {**x, "q": x["q"] + 2 * np.pi * np.array([1, -3, 0])}
    for function in FUNCTIONS:
        error = relative_errors(evaluate(urdf, function, turned), evaluate(urdf, function, x))
        assert error.max() <= ACCELERATION_TOLERANCE


def test_a_planar_joint_about_any_normal_is_two_slides_and_a_turn(evaluate: Evaluate) -> None:
    """Pinocchio knows planes only about z: here the plane is built from its three joints."""
    planar = chain(REVOLUTE, joint_text("b", "arm", "hand", "planar", axis=SKEW), LAST)
    *_, normal = (body for body in load_tree(planar).bodies if body.joint.startswith("b"))
    along_x, along_y, about = np.array(normal.link_rotation).T
    np.testing.assert_allclose(about, np.array(SKEW.split(), float), atol=1e-15)

    def axis(values: np.ndarray) -> str:
        return " ".join(map(repr, values.tolist()))

    built = robot_text(
        link_text("base"),
        HEAVY,
        *TAIL,
        *(f'<link name="{name}"/>' for name in ("slide", "slides")),
        REVOLUTE,
        joint_text("b_x", "arm", "slide", "prismatic", axis=axis(along_x)),
        joint_text("b_y", "slide", "slides", "prismatic", axis=axis(along_y), xyz="0 0 0"),
        joint_text("bz", "slides", "hand", "continuous", axis=axis(about), xyz="0 0 0"),
        LAST,
    )
    x = random_states(load_tree(planar), STATES, np.random.default_rng(8))
    del x["f_ext"]
    for function in FUNCTIONS:
        expected = Oracle(load_tree(built), built).evaluate(function, x)
        error = relative_errors(evaluate(planar, function, x), expected).max()
        limit = ACCELERATION_TOLERANCE if "forward" in function else TOLERANCE["float64"]
        assert error <= limit, f"{function}: {error:.1e}"
