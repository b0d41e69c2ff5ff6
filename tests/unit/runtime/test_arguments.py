"""What the functions of a robot refuse, and what they say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen.errors import DeviceError, DtypeError, ModelError, OptionError, ShapeError

GOOD = np.zeros((5, 2))


def called_with(robot: gridgen.Robot, **changed: object) -> np.ndarray:
    return robot.inverse_dynamics(**{"q": GOOD, "qd": GOOD, "qdd": GOOD, **changed})


@pytest.fixture(params=["before the first call", "after it"])
def robot(request: pytest.FixtureRequest, urdf: Path) -> gridgen.Robot:
    """Once a function is compiled, its arguments are examined in another place."""
    if request.param == "after it":
        compiled: gridgen.Robot = request.getfixturevalue("two_link")
        called_with(compiled)
        return compiled
    return gridgen.load(urdf, backend="cpu")


SHAPES = [
    ({"q": np.zeros((5, 3))}, "q has shape (5, 3); two_link needs (B, 2) or (2,)"),
    ({"q": np.zeros((2, 5, 2))}, "q has shape (2, 5, 2); two_link needs (B, 2) or (2,)"),
    ({"q": 0.0}, "q has shape (); two_link needs (B, 2) or (2,)"),
    ({"qd": np.zeros((4, 2))}, "qd has shape (4, 2); two_link needs (5, 2), as q has 5 states"),
    ({"qd": np.zeros(2)}, "qd has shape (2,); two_link needs (5, 2), as q has 5 states"),
    ({"qdd": np.zeros((1, 2))}, "qdd has shape (1, 2); two_link needs (5, 2)"),
    ({"qdd": np.zeros((5, 2, 1))}, "qdd has shape (5, 2, 1); two_link needs (5, 2)"),
    ({"q": np.zeros(2)}, "qd has shape (5, 2); two_link needs (2,) for one state"),
    (
        {"gravity": np.zeros((4, 3))},
        "gravity has shape (4, 3); two_link needs (5, 3) or (3,), as q has 5 states",
    ),
    ({"f_ext": np.zeros((5, 12))}, "f_ext has shape (5, 12); two_link needs (5, 2, 6)"),
    ({"f_ext": np.zeros((2, 6))}, "f_ext has shape (2, 6); two_link needs (5, 2, 6)"),
    ({"base_velocity": np.zeros(3)}, "base_velocity has shape (3,); two_link needs (5, 6) or (6,)"),
    ({"out": np.zeros((4, 2))}, "out has shape (4, 2); tau has (5, 2)"),
    ({"out": np.zeros((5, 2, 2))}, "out has shape (5, 2, 2); tau has (5, 2)"),
]


@pytest.mark.parametrize(("changed", "message"), SHAPES)
def test_a_wrong_shape_is_refused(
    robot: gridgen.Robot, changed: dict[str, object], message: str
) -> None:
    with pytest.raises(ShapeError, match=re.escape(message)):
        called_with(robot, **changed)


DTYPES = [
    ({"q": GOOD.astype(int)}, "q has dtype int64; use float32 or float64"),
    ({"q": GOOD.astype("float16")}, "q has dtype float16; use float32 or float64"),
    ({"q": GOOD.astype(complex)}, "q has dtype complex128; use float32 or float64"),
    ({"q": GOOD.astype(bool)}, "q has dtype bool"),
    ({"q": GOOD.astype(object)}, "q has dtype object"),
    ({"q": GOOD.astype(">f8")}, "q has dtype >f8; use float32 or float64"),
    ({"qd": GOOD.astype("float32")}, "qd has dtype float32, q has float64: give both the same"),
    ({"qdd": GOOD.astype("int32")}, "qdd has dtype int32; use float32 or float64"),
    ({"gravity": np.zeros(3, "float32")}, "gravity has dtype float32, q has float64"),
    ({"out": GOOD.astype("float32")}, "out has dtype float32, q has float64"),
    ({"q": "front"}, "q is not an array of numbers: "),
    ({"qd": [["a", "b"]] * 5}, "qd is not an array of numbers: "),
    ({"q": None}, "q is None; give an array of numbers"),
    ({"qd": None}, "qd is None; give an array of numbers"),
    ({"qd": [[0.0, 1.0], [2.0]]}, "qd is not an array of numbers: "),
    ({"q": [[0.0, 1.0], [2.0]]}, "q is not an array of numbers: "),
]


@pytest.mark.parametrize(("changed", "message"), DTYPES)
def test_a_wrong_type_is_refused(
    robot: gridgen.Robot, changed: dict[str, object], message: str
) -> None:
    with pytest.raises(DtypeError, match=re.escape(message)):
        called_with(robot, **changed)


def test_a_read_only_result_array_is_refused(robot: gridgen.Robot) -> None:
    out = np.zeros((5, 2))
    out.flags.writeable = False
    with pytest.raises(DtypeError, match="out is read-only; give an array that can be written"):
        called_with(robot, out=out)


def test_nothing_is_written_when_an_argument_is_refused(robot: gridgen.Robot) -> None:
    out = np.full((5, 2), 7.0)
    with pytest.raises(ShapeError):
        called_with(robot, qdd=np.zeros((4, 2)), out=out)
    np.testing.assert_array_equal(out, 7.0)


CHOICES = [
    ({"schedule": "warp"}, 'schedule is "warp"; choose one of auto, thread'),
    ({"backend": "gpu"}, 'backend is "gpu"; choose one of auto, cpu, cuda, emulated'),
]


@pytest.mark.parametrize(("changed", "message"), CHOICES)
def test_an_unknown_choice_is_refused_with_those_there_are(
    robot: gridgen.Robot, changed: dict[str, object], message: str
) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        called_with(robot, **changed)


def test_an_unknown_method_is_refused_with_those_there_are(robot: gridgen.Robot) -> None:
    with pytest.raises(OptionError, match='method is "newton"; choose one of auto, aba, crba'):
        robot.forward_dynamics(GOOD, GOOD, GOOD, method="newton")


def test_an_unknown_backend_is_refused_at_loading() -> None:
    with pytest.raises(OptionError, match='backend is "tpu"; choose one of auto, cpu, cuda'):
        gridgen.load(ONE_JOINT, backend="tpu")


ONE_JOINT = """<robot name="one"><link name="base"/><link name="arm"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="j" type="continuous"><parent link="base"/><child link="arm"/></joint></robot>"""


def test_arrays_in_main_memory_do_not_go_to_the_gpu(robot: gridgen.Robot) -> None:
    with pytest.raises(DeviceError, match=r'"cuda" needs arrays on the GPU: cupy.asarray\(q\)'):
        called_with(robot, backend="cuda")


class Elsewhere:
    """An array of some library on a device that no backend can use."""

    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("must not be asked for")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 8, 0


def test_a_device_that_nothing_can_reach_is_refused(robot: gridgen.Robot) -> None:
    with pytest.raises(DeviceError, match="q lies on a device of DLPack type 8"):
        called_with(robot, q=Elsewhere())


def test_a_function_that_was_not_generated_is_named(robot: gridgen.Robot) -> None:
    with pytest.raises(ModelError, match="two_link: no inverse_kinematics: this module was"):
        robot.evaluate("inverse_kinematics", {"q": GOOD})
