"""Robots for tests: URDF files of example-robot-data and URDF elements as text."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from gridgen.dynamics.functions import computation_of
from gridgen.functions import FUNCTIONS
from gridgen.kernel import KernelKey
from gridgen.model.description import RobotDescription
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import KinematicTree
from gridgen.papers.schedules import PaperSchedule
from gridgen.schedules import Schedules

OWN = Path(__file__).resolve().parents[2] / "robots"
OWN_ROBOTS = tuple(sorted(path.stem for path in OWN.glob("*.urdf")))

EXHAUSTIVE = pytest.mark.exhaustive
#: Robots of example-robot-data for which tests compile and compare all functions.
MAIN_ROBOTS = (
    "panda",
    "ur5_robot",
    "ur10_robot",
    "kinova",
    "xarm7",
    "z1",
    "allegro_left_hand",
    "go2",
    "solo12",
    "anymal_b_simple_description/robots/anymal",
    "hyq_no_sensors",
    "talos_reduced",
    "g1_29dof_rev_1_0",
    "icub",
    "romeo_small",
    "tiago",
    "pr2",
)
#: Robots whose derivatives are long programs.
LARGE_ROBOTS = {
    "g1_29dof_rev_1_0",
    "humanoid",
    "icub",
    "pr2",
    "romeo_small",
    "talos_reduced",
    "tiago",
}
#: Of ``MAIN_ROBOTS`` what every run tries, in many tests; they try the project's robots too.
FIRST_CASES = [
    ("panda", False),
    ("allegro_left_hand", False),
    ("solo12", True),
    ("romeo_small", True),
]
#: The project's robots and ``MAIN_ROBOTS``, on a fixed and on a floating base.
MAIN_CASES = [
    pytest.param(
        name,
        floating,
        id=f"{name.rpartition('/')[2]}-{base}",
        marks=() if name in OWN_ROBOTS or (name, floating) in FIRST_CASES else EXHAUSTIVE,
    )
    for name in (*OWN_ROBOTS, *MAIN_ROBOTS)
    for base, floating in (("fixed", False), ("floating", True))
]

#: ``MAIN_CASES`` and a robot with helical joints: see ``SCREWS``.
ALL_CASES = [
    *MAIN_CASES,
    pytest.param("screws", False, id="screws-fixed"),
    pytest.param("screws", True, id="screws-floating"),
]

#: Functions that no robot with `CONSTRAINTS` has: they need a ground, actuators, sensors, spheres,
#: or no constraints.
TESTED_APART = (
    "contact_forward_dynamics",
    "contact_residual",
    "actuator_torques",
    "sensors",
    "self_distance",
    "world_distance",
    "soft_self_distance",
    "soft_world_distance",
    "collision_free",
    "step_hessian",
)

#: Integrators whose accelerations are those of forward dynamics, with constraints too.
INTEGRATORS = tuple(name for name in FUNCTIONS["step_gradient"].methods if name != "variational")

#: Constraints of our own robots: a joint that stands still, points in the world, a loop.
CONSTRAINTS: dict[str, list[dict[str, object]]] = {
    "two_link": [{"kind": "joint", "joint": "elbow"}],
    "arm6": [{"kind": "point", "link": "tool0"}],
    "arm7": [{"kind": "point", "link": "flange"}],
    "quadruped": [
        {"kind": "point", "link": "FL_foot"},
        {"kind": "point", "link": "RR_foot", "to": "FR_foot"},
    ],
    "gripper": [{"kind": "point", "link": "left_pad", "to": "thumb_distal", "compliance": 0.1}],
    "screws": [{"kind": "point", "link": "thumb", "to": "tip"}],
    "humanoid": [{"kind": "frame", "link": f"{side}_sole"} for side in ("left", "right")],
}

#: A sphere of each of these robots that touches the ground.
GROUND = {
    name: [{"link": link, "radius": 0.6}]
    for name, link in (
        *(("two_link", "tip"), ("arm6", "tool0"), ("arm7", "flange"), ("quadruped", "FL_foot")),
        *(("gripper", "left_pad"), ("screws", "thumb")),
    )
}

_ROBOTS = Path("cmeel.prefix") / "share" / "example-robot-data" / "robots"


@cache
def example_urdfs() -> tuple[Path, ...]:
    """Return every URDF file of the package example-robot-data, sorted by path."""
    for folder in sys.path:
        robots = Path(folder) / _ROBOTS
        if robots.is_dir():
            return tuple(sorted(robots.rglob("*.urdf")))
    raise FileNotFoundError(f"{_ROBOTS} is in no folder of sys.path; install example-robot-data")


def example_urdf(name: str) -> Path:
    """Return the file ``name``.urdf of example-robot-data.

    An ambiguous name requires its folders: ``anymal_b_simple_description/...``.
    """
    found = [path for path in example_urdfs() if path.as_posix().endswith(f"/{name}.urdf")]
    if len(found) != 1:
        names = ", ".join(sorted({path.stem for path in example_urdfs()}))
        raise LookupError(f"{len(found)} files are named {name}.urdf; choose among {names}")
    return found[0]


#: Suffixes of the names of helical and ball joints, which URDF does not have, and a pitch [m].
SCREW, PITCH, BALL = "_screw", 0.15, "_ball"


def robot_text(*elements: str, name: str = "r") -> str:
    """Return a URDF: <robot> on line 1, the elements on the lines after it."""
    return "\n".join([f'<robot name="{name}">', *elements, "</robot>\n"])


def link_text(
    name: str,
    *,
    mass: str = "1",
    com: str = "0 0 0.1",
    rpy: str = "0 0 0",
    inertia: str = "0.01 0 0 0.02 0 0.025",
) -> str:
    """Return a <link> on one line; ``inertia`` is ixx ixy ixz iyy iyz izz."""
    entries = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia.split(), strict=True)
    attributes = " ".join(f'{key}="{value}"' for key, value in entries)
    return (
        f'<link name="{name}"><inertial><origin xyz="{com}" rpy="{rpy}"/>'
        f'<mass value="{mass}"/><inertia {attributes}/></inertial></link>'
    )


def joint_text(
    name: str,
    parent: str,
    child: str,
    kind: str = "revolute",
    *,
    xyz: str = "0 0 0.2",
    rpy: str = "0 0 0",
    axis: str | None = "0 0 1",
    limit: str | None = None,
    extra: str = "",
) -> str:
    """Return a <joint> on one line; ``extra`` are further elements inside it.

    A helical joint is revolute in the text; its name ends with ``SCREW``. A ball joint is floating;
    its name ends with ``BALL``. See ``described``.
    """
    assert name.endswith(SCREW) == (kind == "helical")
    assert name.endswith(BALL) == (kind == "ball")
    kind = {"helical": "revolute", "ball": "floating"}.get(kind, kind)
    has_limit = kind not in ("fixed", "floating", "planar") and limit is None
    bounds = '<limit lower="-1" upper="1" effort="10" velocity="2"/>' if has_limit else limit or ""
    axis_text = "" if kind == "fixed" or axis is None else f'<axis xyz="{axis}"/>'
    return (
        f'<joint name="{name}" type="{kind}"><origin xyz="{xyz}" rpy="{rpy}"/>'
        f'<parent link="{parent}"/><child link="{child}"/>{axis_text}{bounds}{extra}</joint>'
    )


#: A robot with branches, damping, friction, and helical joints about different axes.
SCREWS = robot_text(
    link_text("base"),
    *(
        link_text(name, mass=mass, com="0.1 -0.05 0.2", rpy="0.5 0.4 -0.3")
        for name, mass in (("arm", "2"), ("hand", "1"), ("thumb", "0.4"), ("palm", "1"))
    ),
    link_text("tip", mass="0.3"),
    *(
        joint_text(
            name,
            *links,
            kind,
            axis=axis,
            rpy=rpy,
            extra=f'<dynamics damping="0.{number}" friction="0.1"/>',
        )
        for number, (name, links, kind, axis, rpy) in enumerate(
            (
                ("a_screw", ("base", "arm"), "helical", "0 -1 0", "0.1 0.2 0.3"),
                ("b", ("arm", "hand"), "prismatic", "0.6 -0.48 0.64", "0 0 0"),
                ("c_screw", ("hand", "thumb"), "helical", "0.6 -0.48 0.64", "0.4 0 1"),
                ("d", ("arm", "palm"), "revolute", "1 0 0", "0 0.7 0"),
                ("e_screw", ("palm", "tip"), "helical", "0 0 1", "0 1.2 0"),
            ),
            start=1,
        )
    ),
)


def described(urdf: str | Path) -> RobotDescription:
    """Return the description of a URDF with helical and ball joints, by their names."""
    robot = parse_urdf(urdf)
    joints = tuple(
        replace(joint, kind="helical", pitch=PITCH)
        if joint.name.endswith(SCREW)
        else replace(joint, kind="ball")
        if joint.name.endswith(BALL)
        else joint
        for joint in robot.joints
    )
    digest = hashlib.sha256(repr(joints).encode()).hexdigest()
    return robot if joints == robot.joints else replace(robot, joints=joints, digest=digest)


def needs(package: str) -> pytest.MarkDecorator:
    """Skip a test, with all its cases, if a package is not installed."""
    return pytest.mark.skipif(find_spec(package) is None, reason=f"could not import '{package}'")


def refused(why: Callable[..., str | None]) -> pytest.MarkDecorator:
    """Do not collect the cases of a test for which ``why(...)`` returns a reason.

    Args:
        why: function of the test's parameters, by name.
    """
    return pytest.mark.refused.with_args(why)


def refused_kernel(tree: KinematicTree, key: KernelKey) -> str | None:
    """Return why a kernel does not support the robot: mimic joints, free joints, its length."""
    why = refusal(tree, key)
    assert not why or tree.has_mimic or "free" in why or "operations" in why, why
    return why


def refusal(tree: KinematicTree, function: str | KernelKey) -> str | None:
    """Return why a function does not support the robot, or is too long for it."""
    key = computation_of(tree, function).key if isinstance(function, str) else function
    return Schedules(tree, (PaperSchedule,)).of(key).refusal(key)


def spread(cases, functions, each):
    """Return parameters (*case, function) of all pairs; most are marked exhaustive.

    Every case runs with ``each`` functions by default, alternating between functions.
    """
    params = []
    for number, case in enumerate(cases):
        chosen = {functions[(number * each + k) % len(functions)] for k in range(each)}
        for function in functions:
            marks = () if function in chosen else pytest.mark.exhaustive
            params.append(pytest.param(*case, function, marks=marks))
    return params


def exhaustive(*values):
    """Return parameters that run only with pytest -m exhaustive."""
    return [pytest.param(value, marks=pytest.mark.exhaustive) for value in values]


def exhaustive_cases(*cases):
    """Return cases of several parameters that run only with pytest -m exhaustive."""
    return [pytest.param(*case, marks=pytest.mark.exhaustive) for case in cases]


def some(values, chosen):
    """Return all values, those that are not chosen to run only with pytest -m exhaustive."""
    return [value if value in chosen else exhaustive(value)[0] for value in values]
