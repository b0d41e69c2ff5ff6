"""The kinematic tree: order, canonical frames, merged links, mimics, limits, refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pinocchio
import pytest

from gridgen.errors import GridGenWarning, ModelError, OptionError, UrdfError
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.options import RobotOptions
from helpers.robots import example_urdf, joint_text, link_text, robot_text

NOTHING = "0 0 0 0 0 0"


def tree_of(
    *elements: str,
    floating_base: bool = False,
    joint_dynamics: bool = False,
    armature: float | Sequence[float] = 0.0,
) -> KinematicTree:
    return build_tree(
        parse_urdf(robot_text(*elements)),
        RobotOptions(floating_base=floating_base, joint_dynamics=joint_dynamics, armature=armature),
    )


def links(*names: str) -> list[str]:
    return [link_text(name) for name in names]


def massless(name: str) -> str:
    return f'<link name="{name}"/>'


def mimic(joint: str, multiplier: float = 1.0, offset: float = 0.0) -> str:
    return f'<mimic joint="{joint}" multiplier="{multiplier}" offset="{offset}"/>'


# Order ------------------------------------------------------------------------------------------


def forest() -> list[str]:
    """A tree in a scrambled order of the file, with fixed joints that decide the walk."""
    return [
        joint_text("z", "base", "l1"),
        joint_text("a", "m", "l2"),
        joint_text("m_fixed", "base", "m", "fixed"),
        joint_text("b", "l2", "l3"),
        joint_text("Z", "base", "l4"),
        joint_text("n", "m", "l5"),
        *links("l3", "m", "l1", "base", "l5", "l2", "l4"),
    ]


def test_order_is_depth_first_siblings_by_name() -> None:
    tree = tree_of(*forest())
    assert tree.joint_names == ("Z", "a", "b", "n", "z")
    assert tree.body_names == ("l4", "l2", "l3", "l5", "l1")
    assert tree.frame_names == ("base", "l4", "m", "l2", "l3", "l5", "l1")
    assert tree.parents == (-1, -1, 1, -1, -1)
    assert tree.levels == ((0, 1, 3, 4), (2,))
    assert list(pinocchio.buildModelFromXML(robot_text(*forest())).names)[1:] == [*tree.joint_names]


def test_order_does_not_depend_on_the_file() -> None:
    assert tree_of(*forest()).bodies == tree_of(*reversed(forest())).bodies


def test_relatives() -> None:
    tree = tree_of(*forest(), floating_base=True)
    assert tree.joint_names == ("root_joint", "Z", "a", "b", "n", "z")
    assert tree.ancestors(0) == ()
    assert tree.ancestors(3) == (2, 0)
    assert tree.subtree(2) == range(2, 4)
    assert tree.subtree(0) == range(6)
    assert tree.children == ((1, 2, 4, 5), (), (3,), (), (), ())
    assert not tree.is_serial
    assert tree_of(*links("base", "a"), joint_text("j", "base", "a")).is_serial


# Canonical frames -------------------------------------------------------------------------------

DIRECTIONS = {
    "1 0 0": (1, 0, 0),
    "0 1 0": (0, 1, 0),
    "0 0 1": (0, 0, 1),
    "-1 0 0": (-1, 0, 0),
    "0 -3 0": (0, -1, 0),
    "0 0 -0.5": (0, 0, -1),
}


@pytest.mark.parametrize("axis", DIRECTIONS)
def test_a_coordinate_axis_is_aligned_by_an_exact_permutation(axis: str) -> None:
    (body,) = tree_of(*links("base", "a"), joint_text("j", "base", "a", axis=axis)).bodies
    rotation = np.array(body.link_rotation)
    assert set(rotation.ravel().tolist()) <= {0.0, 1.0, -1.0}
    assert not any(math.copysign(1.0, value) < 0 for value in rotation.ravel() if value == 0)
    assert np.array_equal(rotation @ rotation.T, np.eye(3))
    assert round(np.linalg.det(rotation)) == 1
    assert tuple(rotation[:, 2]) == DIRECTIONS[axis]
    if axis == "0 0 1":
        assert np.array_equal(rotation, np.eye(3))


@pytest.mark.parametrize("axis", ["1 1 0", "0 3 -4", "1 2 3", "-0.3 1e-9 0.2", "1 1 1"])
def test_any_axis_becomes_z(axis: str) -> None:
    (body,) = tree_of(*links("base", "a"), joint_text("j", "base", "a", axis=axis)).bodies
    rotation = np.array(body.link_rotation)
    expected = np.array([float(word) for word in axis.split()])
    np.testing.assert_allclose(rotation[:, 2], expected / np.linalg.norm(expected), atol=2e-16)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=5e-16)
    assert np.linalg.det(rotation) == pytest.approx(1.0)
    assert (rotation == 0.0).any()  # a zero entry is had for every axis


@pytest.mark.parametrize(
    ("rpy", "expected"),
    [
        (f"{math.pi} 0 0", [[1, 0, 0], [0, -1, 0], [0, 0, -1]]),
        (f"0 {math.pi / 2} 0", [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]),
        (f"{-math.pi / 2} {math.pi} {math.pi / 2}", [[0, 0, -1], [-1, 0, 0], [0, 1, 0]]),
        ("0 0 1e-16", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    ],
)
def test_right_angles_are_exact(rpy: str, expected: list[list[float]]) -> None:
    (body,) = tree_of(*links("base", "a"), joint_text("j", "base", "a", rpy=rpy)).bodies
    assert np.array_equal(body.rotation, expected)


def test_angles_that_only_resemble_right_ones_are_kept() -> None:
    (body,) = tree_of(*links("base", "a"), joint_text("j", "base", "a", rpy="1.5708 0 0")).bodies
    assert body.rotation[1][1] == pytest.approx(math.cos(1.5708), abs=0.0)
    assert body.rotation[1][1] != 0.0


# Merged links -----------------------------------------------------------------------------------


def test_links_behind_fixed_joints_join_their_body() -> None:
    tree = tree_of(
        *links("base", "a"),
        link_text("tool", mass="2", com="1 0 0", inertia=NOTHING),
        link_text("ball", mass="3", com="0 0 0", inertia=NOTHING),
        joint_text("j", "base", "a", xyz="0 0 1"),
        joint_text("f", "a", "tool", "fixed", xyz="0 2 0", rpy=f"0 0 {math.pi / 2}"),
        joint_text("g", "tool", "ball", "fixed", xyz="5 0 0"),
    )
    (body,) = tree.bodies
    # The x axis of the tool is the body's y: its mass is at y = 2 + 1, the ball at y = 2 + 5.
    assert body.mass == 1 + 2 + 3
    np.testing.assert_allclose(body.first_moment, (0, 2 * 3 + 3 * 7, 0.1))
    point_masses = 2 * 3**2 + 3 * 7**2
    np.testing.assert_allclose(
        body.inertia,
        np.diag([0.01 + 0.1**2 + point_masses, 0.02 + 0.1**2, 0.025 + point_masses]),
        atol=1e-14,
    )
    frames = {frame.name: frame for frame in tree.frames}
    assert [frame.body for frame in tree.frames] == [-1, 0, 0, 0]
    assert frames["a"].translation == (0.0, 0.0, 0.0)
    assert frames["ball"].translation == (0.0, 7.0, 0.0)
    assert frames["ball"].rotation == ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))


def test_the_base_takes_its_fixed_links_and_no_mass_moves_with_it() -> None:
    tree = tree_of(
        *links("base", "post", "a"),
        joint_text("f", "base", "post", "fixed", xyz="1 0 0"),
        joint_text("j", "post", "a", xyz="0 0 2"),
    )
    assert tree.bodies[0].translation == (1.0, 0.0, 2.0)
    assert tree.total_mass == 1.0
    assert [frame.body for frame in tree.frames] == [-1, -1, 0]


# Joint kinds ------------------------------------------------------------------------------------


def test_a_floating_base_carries_the_root_link() -> None:
    tree = tree_of(
        link_text("base", mass="7"),
        link_text("a"),
        joint_text("j", "base", "a"),
        floating_base=True,
    )
    free, arm = tree.bodies
    assert (free.name, free.joint, free.kind, free.parent) == ("base", "root_joint", "free", -1)
    assert free.mass == 7.0
    assert np.array_equal(free.link_rotation, np.eye(3))
    assert (arm.q_index, arm.v_index, arm.level) == (7, 6, 1)
    assert (tree.nq, tree.nv) == (8, 7)
    assert tree.lower_limits[:7] == (-math.inf,) * 7
    assert tree.upper_limits == (math.inf,) * 7 + (1.0,)
    assert tree.velocity_limits == (math.inf,) * 6 + (2.0,)


def test_a_floating_base_makes_a_single_link_move() -> None:
    assert tree_of(link_text("box"), floating_base=True).nv == 6


def test_a_root_joint_of_the_file_keeps_its_name() -> None:
    tree = tree_of(*links("base", "a"), joint_text("root_joint", "base", "a"), floating_base=True)
    assert tree.joint_names == ("root_joint_", "root_joint")


def test_a_root_that_carries_a_free_joint_gets_no_second_one() -> None:
    """Also behind a fixed joint, but not a free joint that another joint carries."""
    chain = [*links("base", "a", "b"), joint_text("i", "base", "a", "fixed")]
    free = joint_text("j", "a", "b", "floating", axis=None)
    with pytest.raises(OptionError, match=r'joint "j" is already a free joint.*omit floating_base'):
        tree_of(*chain, free, floating_base=True)
    tree = tree_of(*chain, free)
    assert tree.floating_base
    assert [body.name for body in tree.free] == ["b"]
    carried = [*links("base", "a", "b"), joint_text("i", "base", "a"), free]
    assert tree_of(*carried, floating_base=True).nv == 13
    assert not tree_of(*carried).floating_base


def test_a_floating_joint_is_a_free_one_at_its_place() -> None:
    tree = tree_of(
        *links("base", "a", "b"),
        joint_text("i", "base", "a", axis="1 0 0"),
        joint_text("j", "a", "b", "floating", xyz="1 2 3", axis=None),
    )
    free = tree.bodies[1]
    assert (free.kind, free.q_index, free.v_index) == ("free", 1, 1)
    assert (tree.nq, tree.nv) == (8, 7)
    assert np.array_equal(free.link_rotation, np.eye(3))
    parent = np.array(tree.bodies[0].link_rotation)
    np.testing.assert_array_equal(parent @ np.array(free.translation), (1.0, 2.0, 3.0))
    np.testing.assert_array_equal(parent @ np.array(free.rotation), np.eye(3))


@pytest.mark.parametrize("axis", ["0 0 1", "1 0 0", "1 -2 3"])
def test_a_planar_joint_slides_twice_and_turns_about_the_normal(axis: str) -> None:
    tree = tree_of(
        *links("base", "a"), joint_text("p", "base", "a", "planar", xyz="1 2 3", axis=axis)
    )
    x, y, turn = tree.bodies
    assert tree.joint_names == ("p_x", "p_y", "p")
    assert tree.body_names == ("p_x", "p_y", "a")
    assert [body.kind for body in tree.bodies] == ["prismatic", "prismatic", "revolute"]
    assert (x.mass, y.mass, turn.mass) == (0.0, 0.0, 1.0)
    assert x.translation == (1.0, 2.0, 3.0)
    assert y.translation == turn.translation == (0.0, 0.0, 0.0)
    directions = np.array([np.array(body.link_rotation)[:, 2] for body in tree.bodies])
    normal = np.array([float(word) for word in axis.split()])
    np.testing.assert_allclose(directions[2], normal / np.linalg.norm(normal), atol=1e-15)
    np.testing.assert_allclose(directions @ directions.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(directions) == pytest.approx(1.0)  # x, y, normal: right-handed
    assert tree.singular_joint is None
    assert tree.lower_limits == (-math.inf,) * 3


def test_a_planar_joint_takes_names_that_are_free() -> None:
    tree = tree_of(
        *links("base", "a", "p_y"),
        joint_text("p", "base", "a", "planar"),
        joint_text("p_x", "a", "p_y"),
    )
    assert tree.joint_names == ("p_x_", "p_y_", "p", "p_x")
    assert tree.body_names == ("p_x_", "p_y_", "a", "p_y")


def test_a_continuous_joint_has_no_position_limits() -> None:
    tree = tree_of(*links("base", "a"), joint_text("j", "base", "a", "continuous"))
    assert (tree.lower_limits, tree.upper_limits) == ((-math.inf,), (math.inf,))
    assert (tree.effort_limits, tree.velocity_limits) == ((10.0,), (2.0,))


def test_limits_may_be_absent() -> None:
    tree = tree_of(*links("base", "a"), joint_text("j", "base", "a", limit=""))
    assert (tree.lower_limits, tree.upper_limits) == ((-math.inf,), (math.inf,))
    assert (tree.effort_limits, tree.velocity_limits) == ((math.inf,), (math.inf,))


# Mimics -----------------------------------------------------------------------------------------


def test_chains_of_mimics_are_multiplied_out() -> None:
    # Depth first the followers come before their leader.
    tree = tree_of(
        *links("base", "a", "b", "c"),
        joint_text("j1", "base", "a", extra=mimic("j2", -2.0, 0.5)),
        joint_text("j2", "a", "b", extra=mimic("j3", 3.0, 0.1)),
        joint_text("j3", "b", "c"),
    )
    first, second, third = tree.bodies
    assert (tree.nq, tree.nv, tree.has_mimic) == (1, 1, True)
    assert (first.q_index, second.q_index, third.q_index) == (0, 0, 0)
    assert (first.multiplier, first.offset) == (-6.0, -2.0 * 0.1 + 0.5)
    assert (second.multiplier, second.offset) == (3.0, 0.1)
    assert (third.multiplier, third.offset) == (1.0, 0.0)
    assert [body.mimics for body in tree.bodies] == [True, True, False]
    assert tree.joint_names == ("j1", "j2", "j3")


def test_coordinates_skip_followers() -> None:
    tree = tree_of(
        *links("base", "a", "b", "c"),
        joint_text("j1", "base", "a"),
        joint_text("j2", "a", "b", extra=mimic("j3")),
        joint_text("j3", "b", "c", limit='<limit lower="-3" upper="4" effort="5"/>'),
    )
    assert [body.v_index for body in tree.bodies] == [0, 1, 1]
    assert tree.lower_limits == (-1.0, -3.0)
    assert tree.effort_limits == (10.0, 5.0)


@pytest.mark.parametrize(
    ("kind", "follower"),
    [("fixed", mimic("leader", 2.0, 0.5)), ("revolute", mimic("leader", 0.0, 0.5))],
)
def test_a_joint_that_follows_nothing_that_moves_is_fixed(kind: str, follower: str) -> None:
    with pytest.warns(GridGenWarning, match=r'joint "slide": .* is constant at 0\.5') as caught:
        tree = tree_of(
            *links("base", "a", "b", "c"),
            joint_text("leader", "base", "a", kind),
            joint_text("slide", "a", "b", "prismatic", axis="1 0 0", extra=follower),
            joint_text("turn", "b", "c"),
        )
    assert len(caught) == 1
    assert "slide" not in tree.joint_names
    placement = {frame.name: frame for frame in tree.frames}["b"].translation
    assert placement == ((0.5, 0.0, 0.4) if kind == "fixed" else (0.5, 0.0, 0.2))


def test_a_constant_angle_turns_what_follows() -> None:
    with pytest.warns(GridGenWarning, match="constant at"):
        tree = tree_of(
            *links("base", "a", "b", "c"),
            joint_text("f", "base", "a", "fixed"),
            joint_text("turned", "a", "b", axis="0 0 1", extra=mimic("f", 1.0, math.pi / 2)),
            joint_text("j", "b", "c", xyz="1 0 0"),
        )
    assert tree.bodies[0].translation == (0.0, 1.0, 0.4)
    assert tree.bodies[0].rotation == ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))


# Joint dynamics and armature --------------------------------------------------------------------

RUBBED = joint_text("j", "base", "a", extra='<dynamics damping="0.5" friction="0.25"/>')


def test_damping_and_friction_are_kept_on_request_only() -> None:
    plain, asked = (
        tree_of(*links("base", "a"), RUBBED, joint_dynamics=choice).bodies[0]
        for choice in (False, True)
    )
    assert (plain.damping, plain.friction) == (0.0, 0.0)
    assert (asked.damping, asked.friction) == (0.5, 0.25)


def branches() -> list[str]:
    return [
        *links("base", "a", "b", "c"),
        joint_text("j1", "base", "a"),
        joint_text("j2", "a", "b", extra=mimic("j1")),
        joint_text("j3", "b", "c"),
    ]


def test_one_armature_goes_to_every_joint_with_a_motor() -> None:
    tree = tree_of(*branches(), floating_base=True, armature=0.5)
    assert tree.armature == (0.0,) * 6 + (0.5, 0.5)
    assert [body.armature for body in tree.bodies] == [(0.0,) * 6, (0.5,), (0.0,), (0.5,)]


def test_an_armature_per_velocity() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    tree = tree_of(*branches(), floating_base=True, armature=np.array(values))
    assert tree.armature == tuple(values)
    assert [body.armature for body in tree.bodies] == [
        (1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
        (7.0,),
        (0.0,),
        (8.0,),
    ]


@pytest.mark.parametrize(
    ("armature", "message"),
    [
        (-0.5, "contains -0.5"),
        (math.nan, "contains nan"),
        ([0.1, math.inf], "contains inf"),
        ([0.1], r"shape \(1,\).* 2 "),
        ([[0.1, 0.2]], r"shape \(1, 2\)"),
        ("much", "'much'"),
        ("0.5", "'0.5'"),
        (None, "None"),
        (True, "True"),
        ([0.1, None], "None"),
        (["0.1", "0.2"], "'0.1', '0.2'"),
        (np.ma.masked_array([0.1, 0.2], [False, True]), "masked"),
    ],
)
def test_an_armature_that_is_none_is_refused(armature: float, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tree_of(*branches(), armature=armature)


# Singular mass matrices -------------------------------------------------------------------------


def point(name: str, com: str = "0 0 0.1") -> str:
    return link_text(name, inertia=NOTHING, com=com)


SINGULAR = {
    "no inertial": ([massless("a"), joint_text("j", "base", "a")], "j"),
    "the leaf alone": (
        [
            link_text("a"),
            massless("b"),
            joint_text("i", "base", "a"),
            joint_text("j", "a", "b", "prismatic"),
        ],
        "j",
    ),
    "mass on the axis": ([point("a"), joint_text("j", "base", "a")], "j"),
    "one axis twice": (
        [massless("a"), link_text("b"), joint_text("i", "base", "a"), joint_text("j", "a", "b")],
        "i",
    ),
    "a follower that slides back": (
        [
            massless("a"),
            link_text("b"),
            joint_text("i", "base", "a", "prismatic", axis="1 0 0"),
            joint_text("j", "a", "b", "prismatic", axis="1 0 0", extra=mimic("i", -1.0)),
        ],
        "i",
    ),
    "a joint between leader and follower": (
        [
            *map(massless, "ab"),
            link_text("c"),
            joint_text("i", "base", "a"),
            joint_text("j", "a", "b", axis="1 0 0", xyz="0 0 0"),
            joint_text("k", "b", "c", axis="1 0 0", xyz="0 0 0", extra=mimic("j", -1.0)),
        ],
        "j",
    ),
}


@pytest.mark.parametrize(("elements", "joint"), SINGULAR.values(), ids=SINGULAR.keys())
def test_a_joint_that_moves_no_inertia_is_named(elements: list[str], joint: str) -> None:
    with pytest.warns(GridGenWarning, match=f'joint "{joint}".*singular') as caught:
        tree = tree_of(link_text("base"), *elements)
    assert tree.singular_joint == joint
    line = next(
        number for number, text in enumerate(elements, 3) if f'<joint name="{joint}"' in text
    )
    assert str(caught[0].message).startswith(f"<text>:{line}: ")


@pytest.mark.parametrize(("elements", "joint"), SINGULAR.values(), ids=SINGULAR.keys())
def test_armature_makes_up_for_missing_inertia(elements: list[str], joint: str) -> None:
    assert tree_of(link_text("base"), *elements, armature=0.1).singular_joint is None


#: Of independent joints, random robots have more.
REGULAR = {
    "massless leader": [
        massless("a"),
        link_text("b"),
        joint_text("i", "base", "a"),
        joint_text("j", "base", "b", extra=mimic("i")),
    ],
    "a leader held by its follower elsewhere": [
        massless("a"),
        link_text("b"),
        link_text("c"),
        joint_text("i", "base", "a", axis="0 1 0"),
        joint_text("j", "a", "b", axis="0 1 0", xyz="0 0.2 0"),
        joint_text("k", "base", "c", extra=mimic("j")),
    ],
    "a follower that turns back further out": [
        massless("a"),
        link_text("b"),
        joint_text("i", "base", "a"),
        joint_text("j", "a", "b", xyz="0.2 0 0", extra=mimic("i", -1.0)),
    ],
}


@pytest.mark.parametrize("elements", REGULAR.values(), ids=REGULAR.keys())
def test_a_joint_that_moves_some_inertia_is_not(elements: list[str]) -> None:
    assert tree_of(link_text("base"), *elements).singular_joint is None


def test_a_massless_root_gains_nothing_from_one_hinge() -> None:
    # The root may turn about the hinge's axis while the hinge turns back: nothing moves.
    elements = [massless("base"), link_text("a"), joint_text("i", "base", "a")]
    with pytest.warns(GridGenWarning, match='joint "root_joint".*singular'):
        assert tree_of(*elements, floating_base=True).singular_joint == "root_joint"
    elements += [link_text("b"), joint_text("j", "base", "b", axis="1 0 0", xyz="0 1 0")]
    assert tree_of(*elements, floating_base=True).singular_joint is None


@pytest.mark.parametrize("name", ["panda", "talos_reduced", "go2"])
def test_ordinary_robots_are_regular(name: str) -> None:
    for floating_base in (False, True):
        tree = build_tree(parse_urdf(example_urdf(name)), RobotOptions(floating_base=floating_base))
        assert tree.singular_joint is None


@pytest.mark.parametrize("root", [massless("box"), point("box")], ids=["massless", "point"])
def test_a_free_body_needs_inertia_in_every_direction(root: str) -> None:
    with pytest.warns(GridGenWarning, match="singular"):
        assert tree_of(root, floating_base=True).singular_joint == "root_joint"
    armature = [0.1] * 6
    assert tree_of(root, floating_base=True, armature=armature).singular_joint is None


def test_a_singular_joint_without_an_element_stands_at_the_one_it_is_made_for() -> None:
    with pytest.warns(GridGenWarning, match=r'^<text>:3: joint "root_joint"'):
        tree_of("<material/>", massless("box"), floating_base=True)
    planar = [link_text("base"), massless("a"), joint_text("p", "base", "a", "planar")]
    with pytest.warns(GridGenWarning, match=r'^<text>:4: joint "p_x", "p_y", "p": '):
        tree_of(*planar)


# Refusals and size ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "elements",
    [links("base"), [*links("base", "a"), joint_text("j", "base", "a", "fixed")]],
    ids=["one link", "all fixed"],
)
def test_a_robot_without_motion_is_refused(elements: list[str]) -> None:
    with pytest.raises(ModelError, match=r'^<text>: robot "r": no joint moves.*floating_base'):
        tree_of(*elements)


@pytest.mark.parametrize(
    ("arm", "joint"),
    [
        (link_text("a", mass="1e200", com="1e200 0 0"), {}),
        (link_text("a", mass="1e19"), {}),
        (link_text("a"), {"xyz": "0 1e300 0"}),
    ],
)
def test_numbers_that_would_overflow_are_refused(arm: str, joint: dict[str, str]) -> None:
    with pytest.raises(UrdfError, match=r'^<text>:3: link "a": .* check the units'):
        tree_of(link_text("base"), arm, joint_text("j", "base", "a", **joint))


@pytest.mark.parametrize("kind", ["revolute", "fixed"])
def test_long_chains_need_no_recursion(kind: str) -> None:
    count = 1500
    elements = [link_text(f"l{index}") for index in range(count + 1)]
    elements += [
        joint_text(f"j{index}", f"l{index}", f"l{index + 1}", "revolute" if index == 0 else kind)
        for index in range(count)
    ]
    tree = tree_of(*elements)
    assert len(tree.bodies) == (count if kind == "revolute" else 1)
    assert len(tree.levels) == len(tree.bodies)
    assert tree.total_mass == count
    assert tree.frames[-1].translation[2] == pytest.approx(
        0.0 if kind == "revolute" else 0.2 * (count - 1)
    )


def test_identity_of_the_robot_is_kept() -> None:
    description = parse_urdf(robot_text(*links("base", "a"), joint_text("j", "base", "a")))
    tree = build_tree(description)
    assert (tree.name, tree.source, tree.digest) == ("r", "<text>", description.digest)
    assert tree.options == RobotOptions()
