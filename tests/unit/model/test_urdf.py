"""Reading URDF text: what is accepted, and what is refused in which words."""

from __future__ import annotations

import copy
import math
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from gridgen.compiler import load
from gridgen.errors import CompileError, GridGenError, GridGenWarning, UrdfError
from gridgen.model.description import JOINT_KINDS
from gridgen.model.readers.document import MAX_BYTES, MAX_MARKS
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.readers.vocabulary import READ
from gridgen.model.tree import build_tree
from helpers.robots import joint_text, link_text, robot_text

BASE, ARM, HAND = link_text("base"), link_text("arm"), link_text("hand")
SHOULDER, WRIST = joint_text("shoulder", "base", "arm"), joint_text("wrist", "arm", "hand")


def two_links(joint: str = SHOULDER, arm: str = ARM) -> str:
    """Line 2 is the base, line 3 the arm, line 4 the joint between them."""
    return robot_text(BASE, arm, joint)


def shoulder(**changes: str) -> str:
    return two_links(joint_text("shoulder", "base", "arm", **changes))


def mimic(joint: str, rest: str = "") -> str:
    return f'<mimic joint="{joint}" {rest}/>'


XACRO = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'


def declaration(text: str) -> tuple[str, int, list[str]]:
    shown = text.replace('"', "'")
    return f"{text}\n{two_links()}", 1, [f'the XML declaration "{shown}"', 'write <?xml version="1']


FAULTS = {
    # Files that are no URDF.
    "empty": ("", None, ["the file is empty"]),
    "blanks": (" \n\t\n", None, ["the file is empty"]),
    "json": ('{"robot": 1}', None, ["not XML", "robot"]),
    "binary": ("\0\1\2", None, ["not XML"]),
    "git lfs": ("version https://git-lfs.github.com/spec/v1\n", None, ["git lfs pull"]),
    "sdf": ('<sdf version="1.6"/>', 1, ['"sdf"', "SDF"]),
    "other root": ("<model/>", 1, ['"model"', "<robot>"]),
    "xacro": (
        robot_text('<x:include xmlns:x="http://www.ros.org/wiki/xacro" filename="a"/>'),
        2,
        ["<xacro:include>", "expand xacro"],
    ),
    "xacro with a prefix of its own": (
        robot_text(BASE, ARM, SHOULDER, "<xacro:arm/>"),
        5,
        ["<xacro:arm>", "expand xacro"],
    ),
    "xacro that holds links": (
        robot_text(BASE, ARM, SHOULDER, f"<xacro:if {XACRO}>{HAND}</xacro:if>"),
        5,
        ["<xacro:if>", "expand xacro"],
    ),
    "xacro in a joint": (shoulder(extra=f"<xacro:x {XACRO}/>"), 4, ["<xacro:x>", "expand xacro"]),
    "xacro in a reference": (
        two_links(joint_text("j", "${p}base", "arm")),
        4,
        ['"${p}base"', "expand xacro"],
    ),
    "web page": ("\n<!DOCTYPE html>\n<html>", None, ["this is a web page"]),
    "web page in capitals": ("<!-- x --><!doctype HTML>", None, ["this is a web page"]),
    "web page without a type": ("<html lang=en><meta>", None, ["this is a web page"]),
    # The XML declaration.
    "declaration misspelt": declaration('<?xml verison="1.0"?>'),
    "declaration without version": declaration('<?xml encoding="utf-8"?>'),
    "declaration without quotes": declaration("<?xml version=1.0?>"),
    "declaration without an end": declaration('<?xml version="1.0">'),
    "declaration in capitals": declaration('<?XML version="1.0"?>'),
    "declaration with a blank": declaration('<? xml version="1.0"?>'),
    "declaration after a comment": (
        f'<!-- arm -->\n<?xml version="1.0"?>\n{two_links()}',
        2,
        ["XML declaration allowed only at the start", "remove it, or the text before it"],
    ),
    "declaration of an encoding that is none": (
        f'<?xml version="1.0" encoding="klingon"?>\n{two_links()}',
        1,
        ['the XML declaration "', "encoding: klingon", "in its place, and save the file as UTF-8"],
    ),
    "declaration as an element": declaration('<xml version="1.0">'),
    "declaration with typographic quotes": declaration("<?xml version=\u201c1.0\u201d?>"),
    # Broken XML.
    "truncated": (robot_text(BASE)[:60], 2, ["well-formed"]),
    "last byte": (robot_text(BASE).strip()[:-1], 3, ["well-formed"]),
    "unclosed": (robot_text('<link name="base">', BASE), 4, ["well-formed", "link"]),
    "two documents": (robot_text(BASE) + robot_text(BASE), 4, ["well-formed"]),
    "null": (robot_text('<link name="a\0b"/>'), 2, ["well-formed"]),
    "two equal attributes": (robot_text('<link name="a" name="b"/>'), 2, ["name redefined"]),
    "unknown entity": (robot_text('<link name="&foo;"/>'), 2, ["foo"]),
    "unbound prefix": ("<p:robot/>", 1, ["well-formed"]),
    "broken beside an unknown prefix": (
        robot_text("<s:camera/>", "<link>"),
        4,
        ["well-formed", "link"],
    ),
    "doctype in lower case": ("<!doctype robot>" + two_links(), None, ["<!DOCTYPE>"]),
    "doctype": ("<!DOCTYPE robot>" + two_links(), None, ["<!DOCTYPE>", "remove it"]),
    "doctype late": (
        '<?xml version="1.0"?>\n<!-- <!x -->\n<?pi?>\n<!DOCTYPE robot [<!ENTITY m "1">]>'
        + two_links(),
        None,
        ["<!DOCTYPE>"],
    ),
    # Missing parts.
    "no links": (robot_text(SHOULDER), None, ["no <link>"]),
    "upper case": (robot_text('<Link name="base"/>'), None, ["no <link>", "lower case"]),
    "links too deep": (robot_text(f"<model>{BASE}</model>"), None, ["no <link>"]),
    "nested link": (
        robot_text(f'<link name="base">{ARM}</link>', SHOULDER),
        3,
        ['joint "shoulder"', 'child link "arm" does not exist'],
    ),
    "link without name": (robot_text("<link/>"), 2, ["<link>", "no attribute name"]),
    "joint without name": (
        two_links('<joint type="fixed"/>'),
        4,
        ["<joint>", "no attribute name"],
    ),
    "joint without type": (
        two_links('<joint name="j"/>'),
        4,
        ['joint "j"', "no attribute type"],
    ),
    "joint without parent": (
        two_links('<joint name="j" type="fixed"><child link="arm"/></joint>'),
        4,
        ['joint "j"', "no parent link"],
    ),
    "joint without child link": (
        two_links('<joint name="j" type="fixed"><parent link="base"/><child/></joint>'),
        4,
        ['joint "j"', "<child>", "no attribute link"],
    ),
    "no mass": (
        two_links(arm='<link name="arm"><inertial><inertia/></inertial></link>'),
        3,
        ['link "arm"', "no <mass>"],
    ),
    "no inertia": (
        two_links(arm='<link name="arm"><inertial><mass value="1"/></inertial></link>'),
        3,
        ['link "arm"', "no <inertia>"],
    ),
    "no products": (
        two_links(
            arm='<link name="arm"><inertial><mass value="1"/>\n'
            '<inertia ixx="1" iyy="1" ixy="0"/></inertial></link>'
        ),
        4,
        ['link "arm"', "ixz, iyz, izz"],
    ),
    "mass without value": (
        two_links(arm='<link name="arm"><inertial><mass/><inertia/></inertial></link>'),
        3,
        ['link "arm"', "mass", "no attribute value"],
    ),
    # Values.
    "negative mass": (
        two_links(arm=link_text("arm", mass="-1.2")),
        3,
        ['link "arm"', "mass is -1.2", ">= 0"],
    ),
    "unit": (two_links(arm=link_text("arm", mass="1.0kg")), 3, ['link "arm"', '"1.0kg"']),
    "xacro mass": (
        two_links(arm=link_text("arm", mass="${m}")),
        3,
        ['link "arm"', "${m}", "expand xacro"],
    ),
    "xacro type": (shoulder(kind="$(arg kind)"), 4, ["$(arg kind)", "expand xacro"]),
    "underscore": (shoulder(xyz="1_000 0 0"), 4, ['"1_000"', "not a number"]),
    "hexadecimal": (shoulder(xyz="0 0x1p-3 0"), 4, ['"0x1p-3"', "not a number"]),
    "other digits": (shoulder(xyz="\u0661 0 0"), 4, ["\u0661", "not a number"]),
    "other blanks": (shoulder(xyz="1\u00a00 0"), 4, ["\\xa0", "not a number"]),
    "comma": (shoulder(xyz="0,1 0 0"), 4, ['"0,1"', "not a number"]),
    "nan": (shoulder(axis="nan 0 1"), 4, ['joint "shoulder"', "axis", "nan"]),
    "infinite": (shoulder(xyz="0 inf 0"), 4, ["origin xyz", "inf"]),
    "overflow": (shoulder(rpy="0 0 1e999"), 4, ["origin rpy", "1e999", "not finite"]),
    "two numbers": (shoulder(axis="0 1"), 4, ["axis", "expected 3 numbers, got 2"]),
    "four numbers": (shoulder(rpy="0 1 2 3"), 4, ["rpy", "expected 3 numbers, got 4"]),
    "no numbers": (shoulder(xyz=""), 4, ["xyz", "expected 3 numbers, got 0"]),
    "two masses in one": (
        two_links(arm=link_text("arm", mass="1 2")),
        3,
        ["mass", "expected one number, got 2"],
    ),
    "endless number": (shoulder(xyz="1" * 2000 + " 0 0"), 4, ["(2004 characters)"]),
    "zero axis": (shoulder(axis="0 0 0"), 4, ['joint "shoulder"', "axis is 0 0 0"]),
    "zero quaternion": (
        two_links(SHOULDER.replace('rpy="0 0 0"', 'quat_xyzw="0 0 0 0"')),
        4,
        ["quat_xyzw is zero"],
    ),
    "two rotations": (
        two_links(SHOULDER.replace("rpy=", 'quat_xyzw="0 0 0 1" rpy=')),
        4,
        ["both rpy and quat_xyzw"],
    ),
    "type": (shoulder(kind="screw"), 4, ['joint "shoulder"', '"screw"', "revolute, continuous"]),
    "limit": (
        shoulder(limit='<limit lower="-1.57."/>'),
        4,
        ["lower limit", '"-1.57."', "not a number"],
    ),
    "friction": (shoulder(extra='<dynamics friction="nan"/>'), 4, ["friction", "nan"]),
    # Names.
    "blank link": (robot_text('<link name=" "/>'), 2, ['link is called " "']),
    "control character": (
        robot_text('<link name="a&#10;b"/>'),
        2,
        ["a\\nb", "U+000A", "control character"],
    ),
    "line separator": (robot_text('<link name="a&#x2028;b"/>'), 2, ["U+2028"]),
    "control character in the robot": (robot_text(BASE, name="a&#9;b"), None, ["U+0009"]),
    "two links of a name": (
        robot_text(BASE, ARM, ARM),
        4,
        ['link "arm"', "another link", "line 3"],
    ),
    "two joints of a name": (
        robot_text(BASE, ARM, HAND, SHOULDER, joint_text("shoulder", "arm", "hand")),
        6,
        ['joint "shoulder"', "another joint", "line 5"],
    ),
    # Structure.
    "unknown parent": (
        two_links(joint_text("j", "bass", "arm")),
        4,
        ['joint "j"', 'parent link "bass"', 'did you mean "base"'],
    ),
    "unknown child": (
        two_links(joint_text("j", "base", "ghost")),
        4,
        ['joint "j"', 'child link "ghost" does not exist'],
    ),
    "self loop": (
        robot_text(BASE, ARM, SHOULDER, joint_text("j", "arm", "arm")),
        5,
        ['joint "j"', 'same link "arm"'],
    ),
    "two parents": (
        robot_text(BASE, ARM, SHOULDER, joint_text("second", "base", "arm")),
        5,
        ['link "arm"', '"shoulder" (line 4)', '"second"', "closed loops"],
    ),
    "two roots": (robot_text(BASE, ARM, HAND, SHOULDER), 4, ["2 links", '"base", "hand"']),
    "ring": (
        robot_text(BASE, ARM, SHOULDER, joint_text("back", "arm", "base")),
        4,
        ['"shoulder", "back"', "loop"],
    ),
    "ring beside a root": (
        robot_text(link_text("world"), BASE, ARM, SHOULDER, joint_text("back", "arm", "base")),
        5,
        ['"shoulder", "back"', "loop"],
    ),
    # Mimics.
    "unknown leader": (
        shoulder(extra=mimic("sholder")),
        4,
        ['joint "shoulder"', '"sholder", which does not exist\n'],
    ),
    "mimic that two joints are like": (
        robot_text(
            BASE,
            ARM,
            HAND,
            joint_text("finger_right", "base", "arm"),
            joint_text("finger_left", "arm", "hand", extra=mimic("finger_lift")),
        ),
        6,
        ['"finger_lift", which does not exist; did you mean "finger_right"?\n'],
    ),
    "parent whose only likeness is the child": (
        two_links(joint_text("j", "arn", "arm")),
        4,
        ['parent link "arn" does not exist\n'],
    ),
    "mimic of itself": (
        shoulder(extra=mimic("shoulder")),
        4,
        ["mimics itself", '"shoulder" -> "shoulder"'],
    ),
    "ring of mimics": (
        robot_text(
            BASE,
            ARM,
            HAND,
            joint_text("a", "base", "arm", extra=mimic("b")),
            joint_text("b", "arm", "hand", extra=mimic("a")),
        ),
        5,
        ['"a" -> "b" -> "a"'],
    ),
    "mimic without joint": (shoulder(extra="<mimic/>"), 4, ["<mimic>", "no attribute joint"]),
    "floating mimic": (
        robot_text(
            BASE, ARM, HAND, SHOULDER, joint_text("w", "arm", "hand", "floating", extra=mimic("s"))
        ),
        6,
        ['joint "w"', "a floating joint cannot mimic"],
    ),
    "mimic of planar": (
        robot_text(
            BASE,
            ARM,
            HAND,
            joint_text("p", "base", "arm", "planar"),
            joint_text("w", "arm", "hand", extra=mimic("p")),
        ),
        6,
        ['joint "w"', '"p", a planar joint', "more than one coordinate"],
    ),
}


@pytest.mark.parametrize(("text", "line", "parts"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_refused_where_it_is(
    text: str, line: int | None, parts: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "some robot.urdf"
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(UrdfError) as caught:
        parse_urdf(path)
    message = str(caught.value)
    place = str(path) if line is None else f"{path}:{line}"
    assert message.startswith(f"{place}: ")
    assert caught.value.line == line
    for part in parts:
        assert part in f"{message}\n"  # by which a part says that the message ends with it
    assert message.isprintable()  # one line, and nothing that a terminal would act on
    assert len(message) < len(place) + 700


def test_the_text_that_the_faults_change_is_itself_without_fault() -> None:
    assert len(parse_urdf(two_links()).joints) == 1
    assert len(parse_urdf(robot_text(BASE, ARM, HAND, SHOULDER, WRIST)).joints) == 2


WARNINGS = {
    "limits": (
        shoulder(limit='<limit lower="1" upper="-1"/>'),
        4,
        ['joint "shoulder"', "lower limit 1.0 is above upper limit -1.0"],
    ),
    "effort": (shoulder(limit='<limit effort="-1"/>'), 4, ["effort limit is -1.0"]),
    "velocity": (shoulder(limit='<limit velocity="-2"/>'), 4, ["velocity limit is -2.0"]),
    "damping": (shoulder(extra='<dynamics damping="-3"/>'), 4, ["damping is -3.0"]),
    "negative inertia": (
        two_links(arm=link_text("arm", inertia="1 0 0 1 0 -0.5")),
        3,
        ['link "arm"', "not positive semi-definite", "-0.5, 1, 1"],
    ),
    "indefinite inertia": (
        two_links(arm=link_text("arm", inertia="1 5 0 1 0 1")),
        3,
        ['link "arm"', "not positive semi-definite", "-4, 1, 6"],
    ),
    "triangle": (
        two_links(arm=link_text("arm", inertia="0.01 0 0 0.01 0 0.5")),
        3,
        ['link "arm"', "triangle inequality", "0.01, 0.01, 0.5"],
    ),
    "two axes": (
        shoulder(extra='\n<axis xyz="1 0 0"/>'),
        5,
        ['joint "shoulder"', "more than one <axis>"],
    ),
    "limits of one joint": (
        shoulder(limit='<limit effort="-1" velocity="-2"/>'),
        4,
        ["effort limit is -1.0 and velocity limit is -2.0"],
    ),
    "inertia without mass": (
        two_links(arm=link_text("arm", mass="0")),
        3,
        ['link "arm"', "mass is 0 but the inertia is not"],
    ),
    "losses of a floating joint": (
        two_links(joint_text("f", "base", "arm", "floating", extra='<dynamics damping="1"/>')),
        4,
        ['joint "f"', "is floating and has damping or friction, which gridgen ignores"],
    ),
    "limits of a planar joint": (
        two_links(joint_text("p", "base", "arm", "planar", limit='<limit effort="3"/>')),
        4,
        ['joint "p"', "is planar and has limits, which gridgen ignores"],
    ),
    "xacro left over": (
        robot_text(BASE, ARM, SHOULDER, f"<xacro:camera {XACRO}/>", f"<xacro:imu {XACRO}/>"),
        5,
        ["<xacro:camera>", "expand xacro", "<xacro:imu> (line 6)"],
    ),
    "xacro in names": (
        robot_text(
            link_text("${p}base"),
            link_text("$(arg p)arm"),
            joint_text("j", "${p}base", "$(arg p)arm"),
        ),
        2,
        ['link "${p}base"', "expand xacro", 'link "$(arg p)arm" (line 3)'],
    ),
    "no robot name": (
        two_links().replace('name="r"', ""),
        1,
        ["no name", '"robot"'],
    ),
}


@pytest.mark.parametrize(("text", "line", "parts"), WARNINGS.values(), ids=WARNINGS.keys())
def test_an_oddity_is_warned_of_where_it_is(text: str, line: int, parts: list[str]) -> None:
    with pytest.warns(GridGenWarning) as caught:
        parse_urdf(text)
    (warning,) = caught
    message = str(warning.message)
    assert message.startswith(f"<text>:{line}: ")
    for part in parts:
        assert part in message


def joint_with(inside: str, attributes: str = "", kind: str = "revolute") -> str:
    """Return a robot whose joint, on line 4, holds this."""
    return two_links(
        f'<joint name="j" type="{kind}" {attributes}><parent link="base"/><child link="arm"/>'
        f"{inside}</joint>"
    )


def arm_with(inside: str, attributes: str = "") -> str:
    """Return a robot whose arm, on line 3, has an <inertial> that holds this."""
    mass = '<mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
    return two_links(
        arm=f'<link name="arm" {attributes}><inertial>{mass}{inside}</inertial></link>'
    )


def beside(element: str) -> str:
    """Return a robot with one more element, on line 5."""
    return robot_text(BASE, ARM, SHOULDER, element)


DRAKE = 'xmlns:drake="http://drake.mit.edu"'
UNREAD = {
    # Elements that are spelt in another way.
    "Axis": (joint_with('<Axis xyz="0 1 0"/>'), 4, ['joint "j"', "<Axis>", "mean <axis>?"]),
    "Mimic": (joint_with('<Mimic joint="k"/>'), 4, ["<Mimic>", "mean <mimic>?"]),
    "limits": (joint_with("<limits/>"), 4, ["<limits>", "mean <limit>?"]),
    "orign": (joint_with('<orign xyz="1 0 0"/>'), 4, ["<orign>", "mean <origin>?"]),
    "Origin of a fixed joint": (
        f"{joint_with('<Origin/>', kind='fixed')[:-9]}{HAND}{WRIST}</robot>",
        4,
        ["<Origin>", "mean <origin>?"],
    ),
    "Origin of mass": (arm_with('<Origin xyz="1 0 0"/>'), 3, ["<Origin>", "mean <origin>?"]),
    "pose": (joint_with("<pose>0 0 1 0 0 0</pose>"), 4, ["<pose>", "mean <origin>?"]),
    "Inertial": (two_links(arm=ARM.replace("</link>", "<Inertial/></link>")), 3, ["<Inertial>"]),
    "Joint": (
        beside('<Joint name="k"><parent link="base"/><child link="arm"/></Joint>'),
        5,
        ['<Joint> "k"', "mean <joint>?"],
    ),
    # Elements in the wrong place.
    "inertial of the robot": (beside("<inertial/>"), 5, ["<inertial>", "inside <link>"]),
    "axis of the robot": (beside("<axis/>"), 5, ["<axis>", "inside <joint>"]),
    "origin of a link": (
        two_links(arm=ARM.replace("</link>", '<origin xyz="0 0 1"/></link>')),
        3,
        ['link "arm"', "<origin>", "inside <inertial>"],
    ),
    "mass of a link": (
        two_links(arm=ARM.replace("</link>", '<mass value="1"/></link>')),
        3,
        ["<mass>", "inside <inertial>"],
    ),
    "center of mass of a link": (
        two_links(arm=ARM.replace("</link>", "<pose>0 0 1 0 0 0</pose></link>")),
        3,
        ["<pose>", "mean <origin> inside <inertial>?"],
    ),
    "inertial of a collision": (
        two_links(
            arm=ARM.replace("</link>", "<collision><inertial><mass/></inertial></collision></link>")
        ),
        3,
        ['link "arm"', "<inertial> inside <collision>", "inside <link>"],
    ),
    "joint in a link": (two_links(arm=ARM.replace("</link>", "<joint/></link>")), 3, ["<robot>"]),
    "joint in a group": (
        beside(f"<group>{HAND}{WRIST}</group>"),
        5,
        ["<group>", "directly inside <robot>"],
    ),
    "damping": (joint_with('<damping value="1"/>'), 4, ["<damping>", "<dynamics>"]),
    # Elements of old URDF, and of no URDF, that hold what dynamics reads.
    "joint_properties": (
        joint_with('<joint_properties damping="1" friction="0"/>'),
        4,
        ["<joint_properties>", "mean <dynamics>?"],
    ),
    "anchor": (joint_with('<anchor xyz="1 0 0"/>'), 4, ["<anchor>", "mean <origin>?"]),
    "elements in an unknown one": (
        joint_with("<motor><friction>3</friction></motor>"),
        4,
        ["<motor>", "mean <dynamics>?"],
    ),
    "mass properties": (
        two_links(arm=ARM.replace("</link>", '<lump mass="1"/></link>')),
        3,
        ['link "arm"', "<lump>", "mean <inertial>?"],
    ),
    "element in a child": (
        two_links(SHOULDER.replace('<child link="arm"/>', '<child link="arm"><mass/></child>')),
        4,
        ["<mass> inside <child>", "inside <inertial>"],
    ),
    "unknown element in a parent": (
        two_links(SHOULDER.replace('<parent link="base"/>', '<parent link="base"><a/></parent>')),
        4,
        ["<a> inside <parent>", "the attributes of <parent> are link"],
    ),
    "text in a joint": (joint_with("0.4"), 4, ["the text in <joint>", "make it an element"]),
    "text behind an element": (beside("/>"), 1, ["<robot>: gridgen ignores the text"]),
    # Attributes.
    "axis XYZ": (joint_with('<axis XYZ="0 1 0"/>'), 4, ['"XYZ" in <axis>', "mean xyz?"]),
    "axis without xyz": (joint_with("<axis/>"), 4, ["<axis> has no xyz", "1 0 0"]),
    "origin position": (joint_with('<origin position="1 0 0"/>'), 4, ["position", "mean xyz?"]),
    "origin ryp": (joint_with('<origin ryp="1 0 0"/>'), 4, ['"ryp" in <origin>', "mean rpy?"]),
    "origin x y z": (joint_with('<origin x="0" y="0" z="1"/>'), 4, ['"x", "y", "z" in <origin>']),
    "limit Lower": (joint_with('<limit Lower="-1"/>'), 4, ['"Lower" in <limit>', "mean lower?"]),
    "limit max": (joint_with('<limit max="1"/>'), 4, ['"max" in <limit>', "mean upper?"]),
    "Damping": (joint_with('<dynamics Damping="1"/>'), 4, ['"Damping" in <dynamics>']),
    "armature": (joint_with('<dynamics armature="1"/>'), 4, ['"armature" in', "option armature"]),
    "frictionloss": (joint_with('<dynamics frictionloss="1"/>'), 4, ["mean friction?"]),
    "spring": (joint_with('<dynamics spring_stiffness="1"/>'), 4, ["spring_stiffness", "tau"]),
    "joint axis": (joint_with("", 'axis="0 1 0"'), 4, ['"axis" in <joint>', "inside <axis>"]),
    "link mass": (arm_with("", 'mass="2"'), 3, ['"mass" in <link>', "inside <mass>"]),
    "mass unit": (two_links(arm=ARM.replace("<mass", '<mass unit="g"')), 3, ['"unit" in <mass>']),
    "Multiplier": (
        robot_text(
            BASE,
            ARM,
            HAND,
            SHOULDER,
            joint_text("w", "arm", "hand", extra=mimic("shoulder", 'Multiplier="2"')),
        ),
        6,
        ['"Multiplier" in <mimic>', "mean multiplier?"],
    ),
    # Contents in place of attributes.
    "text": (joint_with("<origin>0 0 1</origin>"), 4, ["the text in <origin>", "xyz, rpy"]),
    "axis as SDF": (joint_with("<axis><xyz>0 1 0</xyz></axis>"), 4, ["<xyz> inside <axis>"]),
    "limit in an axis": (
        joint_with('<axis xyz="1 0 0"><limit/></axis>'),
        4,
        ["<limit> inside <axis>", "inside <joint>"],
    ),
    # Extensions.
    "drake:joint": (
        beside(f'<drake:joint {DRAKE} name="b" type="ball"/>'),
        5,
        ['<drake:joint> "b"', "mean <joint>?"],
    ),
    "drake:mimic": (joint_with(f"<drake:mimic {DRAKE}/>"), 4, ["<drake:mimic>", "mean <mimic>?"]),
    "undeclared": (joint_with("<drake:mimic/>"), 4, ["<drake:mimic>", "mean <mimic>?"]),
    "loop_joint": (beside('<loop_joint name="bar"/>'), 5, ['<loop_joint> "bar"', "closed loop"]),
    "drake:loop_joint": (
        beside(f'<drake:loop_joint {DRAKE} name="bar"/>'),
        5,
        ['<drake:loop_joint> "bar"', "closed loop"],
    ),
    "cut_joint": (beside('<cut_joint name="bar"/>'), 5, ['<cut_joint> "bar"', "closed loop"]),
    "joint of a simulator": (
        beside('<gazebo><joint name="bar"><child>arm</child></joint></gazebo>'),
        5,
        ['<joint> inside <gazebo> "bar"', "closed loop"],
    ),
    "drake:ball_constraint": (beside(f"<drake:ball_constraint {DRAKE}/>"), 5, ["closed loop"]),
    "drake:bushing": (beside(f"<drake:linear_bushing_rpy {DRAKE}/>"), 5, ["the force is missing"]),
    "include": (beside('<include filename="a"/>'), 5, ["<include>", "that file"]),
    "xi:include": (
        beside('<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/hostname"/>'),
        5,
        ["<xi:include>", "that file"],
    ),
}


@pytest.mark.parametrize(("text", "line", "parts"), UNREAD.values(), ids=UNREAD.keys())
def test_what_is_skipped_though_it_may_be_meant_is_named(
    text: str, line: int, parts: list[str]
) -> None:
    with pytest.warns(GridGenWarning) as caught:
        parse_urdf(text)
    message = str(caught[0].message)
    assert len(caught) == 1
    assert message.startswith(f"<text>:{line}: ")
    for part in parts:
        assert part in message


OPTIONAL = [
    (tag, attribute)
    for tag in ("origin", "axis", "limit", "mimic", "dynamics")
    for attribute in READ[tag].attributes
    if (tag, attribute) not in (("mimic", "joint"), ("axis", "xyz"), ("origin", "quat_xyzw"))
]
MISSPELLINGS = {
    "shortened": lambda name: name[: max(3, len(name) // 2 + 1)] if len(name) > 3 else name[:2],
    "doubled": lambda name: name + name[-1],
    "swapped": lambda name: name[1] + name[0] + name[2:],
    "capital": str.capitalize,
    "other": lambda name: f"{name[0]}_of_joint",
}


@pytest.mark.parametrize("misspelt", MISSPELLINGS.values(), ids=MISSPELLINGS.keys())
@pytest.mark.parametrize(("tag", "attribute"), OPTIONAL, ids=map("-".join, OPTIONAL))
def test_no_attribute_is_misspelt_in_silence(
    tag: str, attribute: str, misspelt: Callable[[str], str]
) -> None:
    name = misspelt(attribute)
    given = 'joint="shoulder" ' if tag == "mimic" else ""
    inside = f'<parent link="arm"/><child link="hand"/><{tag} {given}{name}="0"/>'
    wrist = f'<joint name="wrist" type="prismatic">{inside}</joint>'
    text = robot_text(BASE, ARM, HAND, SHOULDER, wrist)
    with pytest.warns(GridGenWarning, match=f'gridgen ignores "{name}" in <{tag}>'):
        parse_urdf(text)


SILENT = {
    "of a joint": joint_with(
        '<calibration rising="1"/><safety_controller k_velocity="1"/><hardwareInterface/>'
        '<limit effort="1" velocity="1" current="9" gear_velocity="9" acceleration="9"/>'
        '<dynamics D="1" K="7" mu_viscous="2"/>',
        'dont_collapse="true"',
    ),
    "of a fixed joint": f"""{
        joint_with('<Axis/><axis XYZ="1"/><Mimic/><limits/><dynamics armature="1"/>', kind="fixed")[
            :-9
        ]
    }{HAND}{WRIST}</robot>""",
    "of a floating joint": joint_with("<axis/>", kind="floating"),
    "of a link": two_links(
        arm=ARM.replace("<link", '<link type="laser"').replace(
            "</link>",
            '<origin xyz="0 0 0" rpy="0 -0 0.0"/><contact><damping value="1"/></contact>'
            "<pose>0 0 0 0 0 0</pose><self_filter><origin/></self_filter></link>",
        )
    ),
    "of others": robot_text(
        BASE,
        ARM,
        SHOULDER,
        "<gazebo><loop_joint/><include/><plugin><joint><a/></joint></plugin></gazebo>",
        '<transmission><joint name="shoulder"/><rotor_inertia/></transmission>',
        '<ros2_control><joint name="shoulder"><limit/></joint></ros2_control>',
        '<sensor name="s"><parent link="arm"/><origin xyz="1 0 0"/></sensor>',
        '<group name="g"><joint name="shoulder"/><link name="arm"/></group>',
        '<virtual_joint name="v" type="fixed"/><disable_collisions/><point/>',
        f"<drake:collision_filter_group {DRAKE}/>",
        '<sensor:camera name="c"><sensor:link/></sensor:camera>',
    ),
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT.keys())
def test_what_has_nothing_to_do_with_dynamics_is_skipped_in_silence(text: str) -> None:
    assert parse_urdf(text).links[1].inertial is not None


def test_an_error_comes_with_what_may_explain_it() -> None:
    text = robot_text(BASE, '<Link name="arm"/>', SHOULDER)
    with (
        pytest.warns(GridGenWarning, match=r"<Link> .*mean <link>\?"),
        pytest.raises(UrdfError, match='child link "arm" does not exist'),
    ):
        parse_urdf(text)
    with pytest.raises(UrdfError):  # and counts though warnings are errors
        parse_urdf(text)


def test_one_kind_of_trouble_is_one_warning() -> None:
    count = 23
    names = [f"l{i}" for i in range(count + 1)]
    limit = '<limit effort="-1" velocity="-1"/>'
    joints = [
        joint_text(f"j{i}", names[i], names[i + 1], limit=limit, extra="<Axis/>")
        for i in range(count)
    ]
    with pytest.warns(GridGenWarning) as caught:
        parse_urdf(robot_text(*map(link_text, names), *joints))
    first = 2 + len(names)
    for warning in caught:
        message = str(warning.message)
        assert message.startswith(f'<text>:{first}: joint "j0": ')
        assert f'in 22 other places: joint "j1" (line {first + 1}), ' in message
        assert message.endswith("and 19 more")
    assert len(caught) == 2


def test_a_warning_stays_short_however_much_is_unknown() -> None:
    many = " ".join(f'frame{i}=""' for i in range(200))
    unknown = f"<axis {many}/>{'<limits/>' * 200}<{'loop' * 1000}/>"
    with pytest.warns(GridGenWarning) as caught:
        parse_urdf(joint_with(unknown))
    messages = [str(warning.message) for warning in caught]
    assert "in 199 other places" in messages[0]
    assert "closed loop" in messages[1]
    assert "and 195 more in <axis>" in messages[2]
    assert all(len(message) < 300 and message.isprintable() for message in messages)
    assert len(messages) == 3


def test_a_warning_shows_the_line_that_called() -> None:
    shoulder = joint_text("shoulder", "base", "arm", extra="<Axis/>")

    def read() -> None:
        build_tree(parse_urdf(two_links(shoulder, '<link name="arm"/>')))

    with pytest.warns(GridGenWarning) as caught:
        read()
    line = read.__code__.co_firstlineno + 1
    assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, line)] * 2


def test_what_rounding_leaves_of_zero_is_no_inertia() -> None:
    parse_urdf(two_links(arm=link_text("arm", inertia="0 0 2.4e-35 0 0 0")))
    parse_urdf(two_links(arm=link_text("arm", mass="0", inertia="-5e-20 0 0 -5e-20 0 0")))
    with pytest.warns(GridGenWarning, match=r"moments 0, 0, 3e-06"):
        parse_urdf(two_links(arm=link_text("arm", inertia="0 0 0 0 0 3e-6")))


def test_rounded_and_absent_inertias_are_not_warned_of() -> None:
    parse_urdf(two_links(arm=link_text("arm", inertia="0.333333 0 0 0.333333 0 0.666667")))
    parse_urdf(two_links(arm=link_text("arm", mass="0", inertia="0 0 0 0 0 0")))


def test_the_first_of_two_elements_counts() -> None:
    with pytest.warns(GridGenWarning, match="more than one"):
        robot = parse_urdf(shoulder(extra='<axis xyz="1 0 0"/>'))
    assert robot.joints[0].axis == (0.0, 0.0, 1.0)


def test_everything_that_dynamics_needs_is_read() -> None:
    robot = parse_urdf(
        robot_text(
            link_text("base", mass="2.5", com="1 -2 3e-1", inertia="30 2 3 40 5 60"),
            '<link name="arm"/>',
            joint_text(
                "shoulder",
                "base",
                "arm",
                "prismatic",
                axis="0 0 -2",
                limit='<limit lower="-1" upper="2" effort="3" velocity="4"/>',
                extra='<dynamics damping="5" friction="6"/>',
            ),
        )
    )
    assert robot.name == "r"
    base, arm = robot.links
    assert base.inertial is not None
    assert base.inertial.mass == 2.5
    assert base.inertial.origin.translation == (1.0, -2.0, 0.3)
    assert base.inertial.inertia == ((30.0, 2.0, 3.0), (2.0, 40.0, 5.0), (3.0, 5.0, 60.0))
    assert (arm.name, arm.inertial, arm.line) == ("arm", None, 3)
    (joint,) = robot.joints
    assert (joint.kind, joint.parent, joint.child, joint.line) == ("prismatic", "base", "arm", 4)
    assert joint.axis == (0.0, 0.0, -1.0)
    assert joint.limits is not None
    assert (joint.limits.lower, joint.limits.upper) == (-1.0, 2.0)
    assert (joint.limits.effort, joint.limits.velocity) == (3.0, 4.0)
    assert (joint.damping, joint.friction) == (5.0, 6.0)
    assert joint.mimic is None


def test_defaults_are_those_of_the_format() -> None:
    text = robot_text(
        '<link name="a"/>',
        '<link name="b"/>',
        '<link name="c"/>',
        '<joint name="j" type="revolute"><parent link="a"/><child link="b"/><limit/></joint>',
        '<joint name="k" type="revolute"><origin/><parent link="b"/><child link="c"/>'
        '<mimic joint="j"/></joint>',
    )
    first, second = parse_urdf(text).joints
    assert first.origin.translation == (0.0, 0.0, 0.0)
    assert first.axis == second.axis == (1.0, 0.0, 0.0)
    assert first.limits is not None
    assert (first.limits.lower, first.limits.upper) == (0.0, 0.0)
    assert (first.limits.effort, first.limits.velocity) == (math.inf, math.inf)
    assert second.limits is None
    assert second.mimic is not None
    assert (second.mimic.multiplier, second.mimic.offset) == (1.0, 0.0)


def test_limits_may_be_infinite() -> None:
    limits = parse_urdf(shoulder(limit='<limit lower="-inf" upper="Infinity"/>')).joints[0].limits
    assert limits is not None
    assert (limits.lower, limits.upper) == (-math.inf, math.inf)


def test_white_space_of_every_xml_kind_separates_numbers() -> None:
    joint = parse_urdf(shoulder(xyz="\n 1\t\t2 &#10;+3. ")).joints[0]
    assert joint.origin.translation == (1.0, 2.0, 3.0)


def test_a_quaternion_is_a_rotation_of_any_length() -> None:
    text = two_links(SHOULDER.replace('rpy="0 0 0"', 'quat_xyzw="0 0 5 5"'))
    assert parse_urdf(text).joints[0].origin.rotation == (
        (0.0, -1.0, 0.0),
        (1.0, 0.0, 0.0),
        (0.0, 0.0, 1.0),
    )


@pytest.mark.parametrize("axis", ["0 0 1e-300", "0 0 1e300", "0 0 5e-324"])
def test_an_axis_of_any_length_is_a_direction(axis: str) -> None:
    assert parse_urdf(shoulder(axis=axis)).joints[0].axis == (0.0, 0.0, 1.0)


def test_what_a_fixed_joint_does_not_need_is_not_read() -> None:
    joint = '<joint name="j" type="fixed"><parent link="base"/><child link="arm"/>{}</joint>'
    rest = '<axis xyz="0 0 0"/><limit lower="x"/><mimic joint="ghost"/><dynamics damping="x"/>'
    assert parse_urdf(two_links(joint.format(rest))).joints[0].mimic is None


def test_what_dynamics_does_not_need_is_not_read() -> None:
    visual = '<visual><origin xyz="x"/><geometry><mesh filename="/nowhere"/></geometry></visual>'
    elements = [
        '<material name="m"/>',
        f'<link name="base">{visual}<collision/></link>',
        "<!-- a comment --><?instruction?>",
        '<gazebo><link name="not this"/></gazebo>',
        '<sensor:link xmlns:sensor="urn:s" name="nor this"/>',
        "<unknown/>",
        "<transmission/>",
    ]
    robot = parse_urdf(robot_text(*elements, ARM, SHOULDER))
    assert [link.name for link in robot.links] == ["base", "arm"]
    assert robot.links[1].line == 9


@pytest.mark.parametrize(
    "collision",
    [
        "",
        '<geometry><sphere radius="x"/></geometry>',
        '<geometry><sphere radius="-1"/></geometry>',
        '<geometry><box size="1 1 1e300"/></geometry>',
        '<geometry><cone radius="1" length="1"/></geometry>',
        '<origin xyz="x"/><geometry><sphere radius="1"/></geometry>',
    ],
)
def test_a_collision_shape_that_cannot_be_read_stops_nothing(collision: str) -> None:
    link = f'<link name="base"><collision>{collision}</collision></link>'
    robot = parse_urdf(robot_text(link, ARM, SHOULDER))
    assert robot.links[0].shapes == (None,)


@pytest.mark.parametrize("prefix", ["", "u:"], ids=["default", "prefixed"])
def test_a_namespace_of_the_whole_file_is_accepted(prefix: str) -> None:
    declared = f'xmlns{":u" if prefix else ""}="urn:urdf"'
    text = f"""<{prefix}robot {declared} name="r"><{prefix}link name="a"/><{prefix}link name="b"/>
    <{prefix}joint name="j" type="continuous"><{prefix}parent link="a"/><{prefix}child link="b"/>
    </{prefix}joint></{prefix}robot>"""
    assert parse_urdf(text).joints[0].line == 2


NAMES = [
    "left arm",
    " arm",
    "arm ",
    "\u5de6\u8155",
    "\u0430rm",
    'a"b',
    "a\\",
    "%s{0}${HOME}",
    "../../etc/passwd",
    "*/ system(); /*",
    "??/",
    "x" * 100_000,
    "\u202e",
]


def test_any_printable_text_is_a_name() -> None:
    links = ["base", *NAMES]
    elements = [f'<link name="{name.replace(chr(34), "&quot;")}"/>' for name in links]
    joints = [
        joint_text(child, "base", child).replace(f'"{child}"', f"'{child}'") for child in links[1:]
    ]
    with pytest.warns(GridGenWarning, match="xacro expression"):
        robot = parse_urdf(robot_text(*elements, *joints))
    assert [link.name for link in robot.links] == links
    assert [joint.name for joint in robot.joints] == NAMES


def test_a_message_stays_short_and_on_one_line_whatever_the_name() -> None:
    for name in NAMES:
        quoted = name.replace('"', "&quot;")
        with pytest.raises(UrdfError) as caught:
            parse_urdf(two_links(f'<joint name="{quoted}" type="ball"/>'))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 300


def test_path_text_and_bytes_are_one_robot(tmp_path: Path) -> None:
    text = two_links()
    path = tmp_path / "a.urdf"
    path.write_bytes(text.encode())
    robots = [
        parse_urdf(source) for source in (path, str(path), os.fspath(path), text, text.encode())
    ]
    assert {robot.digest for robot in robots} == {robots[0].digest}
    assert {robot.links for robot in robots} == {robots[0].links}
    assert [robot.source for robot in robots] == [str(path)] * 3 + ["<text>"] * 2


def test_text_is_told_from_a_path_by_its_first_visible_character() -> None:
    assert parse_urdf("\ufeff \n\t" + two_links()).joints[0].line == 5
    with pytest.raises(UrdfError, match=r"^robot\.urdf: cannot be read \(No such file"):
        parse_urdf("robot.urdf")


@pytest.mark.parametrize("source", ["", "\0", "a\nb", "x" * 5000, ".", "/"])
def test_what_cannot_be_opened_is_said_on_one_line(source: str) -> None:
    with pytest.raises(UrdfError, match="cannot be read") as caught:
        parse_urdf(source)
    assert str(caught.value).isprintable()


def test_no_path_corrupts_a_message(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\nb"
    for source, options in (
        (path.with_suffix(".xacro"), {}),
        (two_links(), {"spheres": path.with_suffix(".json")}),
        (two_links(), {"allowed_collisions": path.with_suffix(".srdf")}),
    ):
        with pytest.raises(GridGenError, match=r"a\\x1b\[31m\\nb") as caught:
            load(source, **options)
        assert str(caught.value).isprintable()
    assert str(CompileError("a\n\x1bb")) == "a\n\\x1bb"


def test_encodings_byte_order_marks_and_leading_blanks() -> None:
    named = two_links(arm=link_text("arm").replace("<link", "<!--\u00e9--><link"))
    named = named.replace('name="r"', 'name="\u00e9"')
    declared = '<?xml version="1.0" encoding="{}"?>\n'
    variants = [
        declared.format("utf-8").encode() + named.encode(),
        b"\xef\xbb\xbf" + declared.format("utf-8").encode() + named.encode(),
        declared.format("iso-8859-1").encode() + named.encode("iso-8859-1"),
        (declared.format("utf-16") + named).encode("utf-16"),
        declared.format("iso-8859-1") + named,  # text: the declaration is out of date
        declared.format("no such encoding").replace(" such ", "-such-") + named,
    ]
    for variant in variants:
        robot = parse_urdf(variant)
        assert (robot.name, robot.joints[0].line) == ("\u00e9", 5)
    shifted = parse_urdf(b"\n \n" + variants[0])
    assert (shifted.name, shifted.joints[0].line) == ("\u00e9", 7)
    with pytest.raises(UrdfError, match="well-formed"):
        parse_urdf(named.encode("iso-8859-1"))


def test_a_version_of_xml_that_never_was_is_taken_for_the_first() -> None:
    assert len(parse_urdf('<?xml version="0.0" ?>\n' + two_links()).joints) == 1


def test_a_document_type_hidden_by_its_encoding_is_refused() -> None:
    text = '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE robot [<!ENTITY m "1">]>'
    with pytest.raises(UrdfError, match="DOCTYPE"):
        parse_urdf((text + two_links(arm=link_text("arm", mass="&m;"))).encode("utf-16"))


def test_an_external_entity_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("1")
    text = f'<!DOCTYPE robot [<!ENTITY m SYSTEM "{secret.as_uri()}">]>' + two_links(
        arm=link_text("arm", mass="&m;")
    )
    for source in (text, text.encode("utf-16")):
        with pytest.raises(UrdfError, match=r"DOCTYPE|well-formed"):
            parse_urdf(source)


def test_a_file_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UrdfError, match="more than 1,000,000 elements"):
        parse_urdf(b"<robot>" + b"<a/>" * MAX_MARKS)
    path = tmp_path / "sparse.urdf"
    with path.open("wb") as stream:
        stream.write(b"<robot>")
        stream.truncate(MAX_BYTES * 1000)
    with pytest.raises(UrdfError, match="longer than 32 MiB"):
        parse_urdf(path)
    with pytest.raises(UrdfError, match="depth"):
        parse_urdf("<a>" * 100_000)


def test_prologues_are_scanned_in_linear_time() -> None:
    # A regular expression over "<?...?>" pairs would try every way to split them.
    assert parse_urdf("<?a?>" * 5000 + two_links()).joints[0].line == 4
    with pytest.raises(UrdfError, match="well-formed"):
        parse_urdf("<?a?>" * 5000 + "<?a")


def test_a_ring_of_thousands_is_found_without_recursion() -> None:
    count = 3_000
    links = [f'<link name="l{i}"/>' for i in range(count)]
    joints = [joint_text(f"j{i}", f"l{i}", f"l{(i + 1) % count}") for i in range(count)]
    with pytest.raises(UrdfError, match="loop"):
        parse_urdf(robot_text(*links, *joints))
    followers = [
        joint_text(f"j{i}", "l0", f"l{i}", extra=mimic(f"j{i % (count - 1) + 1}"))
        for i in range(1, count)
    ]
    with pytest.raises(UrdfError, match="mimics itself"):
        parse_urdf(robot_text(*links, *followers))


VALID = robot_text(
    BASE,
    ARM,
    HAND,
    link_text("finger", mass="0.1"),
    SHOULDER,
    WRIST,
    joint_text(
        "grip", "hand", "finger", "prismatic", axis="1 1 0", extra=mimic("wrist", 'offset="1"')
    ),
).encode()


def load_quietly(data: bytes) -> bool:
    """Return whether the text is a robot; anything but our own errors passes through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        try:
            build_tree(parse_urdf(data))
        except GridGenError:
            return False
    return True


def test_every_truncation_is_a_robot_or_our_own_error() -> None:
    complete = len(VALID.rstrip())
    loaded = [load_quietly(VALID[:length]) for length in range(len(VALID) + 1)]
    assert loaded == [False] * complete + [True] * (len(VALID) + 1 - complete)


def test_every_changed_byte_is_a_robot_or_our_own_error() -> None:
    generator = random.Random(20240501)
    replacements = b"\0\t\n \"'<>&;=/-.0123456789eE!?[]x\x7f\x80\xc3\xff"
    outcomes = []
    for _ in range(2000):
        data = bytearray(VALID)
        at = generator.randrange(len(data))
        kind = generator.randrange(3)
        if kind == 0:
            data[at] = generator.choice(replacements)
        elif kind == 1:
            del data[at]
        else:
            data.insert(at, generator.randrange(256))
        outcomes.append(load_quietly(bytes(data)))
    # Most single bytes matter, but not all: the test sees both sides.
    assert 0.1 < sum(outcomes) / len(outcomes) < 0.9


VALUES = [
    *["", " ", "0", "-1", "1e308", "-1e308", "1e17", "5e-324", "inf", "nan", "${a}", "\u2028"],
    *["0 0 0", "1 0 0", "0 0 1e-9", "1e308 1e308 1e308", "1e17 1e17 0", "5e-324 0 0"],
    *["base", "arm", "hand", "finger", "shoulder", "wrist", "grip", "root_joint", "wrist_x"],
    *JOINT_KINDS,
]


def change(root: etree._Element, generator: random.Random) -> None:
    """Change one element of a document, which stays well formed."""
    elements = list(root.iter())
    element, other = generator.choice(elements), generator.choice(elements)
    parent = element.getparent()
    kind = generator.randrange(8)
    if kind < 5 and element.attrib:
        element.set(generator.choice(sorted(element.attrib)), generator.choice(VALUES))
    elif kind == 5 and parent is not None:
        parent.remove(element)
    elif kind == 6:
        other.append(copy.deepcopy(element))
    elif kind == 7 and element.attrib:
        del element.attrib[generator.choice(sorted(element.attrib))]


def test_every_changed_element_is_a_robot_or_our_own_error() -> None:
    # Nearly all changed bytes stop the XML parser; these documents pass it and reach the rest.
    generator = random.Random(20240502)
    outcomes = []
    for _ in range(1000):
        root = etree.fromstring(VALID)
        grip = root[-1]
        grip.set("type", generator.choice(JOINT_KINDS))
        for _ in range(generator.randrange(1, 3)):
            change(root, generator)
        outcomes.append(load_quietly(etree.tostring(root)))
    assert 0.1 < sum(outcomes) / len(outcomes) < 0.9
