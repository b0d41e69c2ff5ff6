"""What the functions of a robot refuse, and what they say."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen.dynamics.functions import COMPUTATIONS
from gridgen.errors import DeviceError, DtypeError, ModelError, OptionError, ShapeError
from gridgen.functions.arrays import ARRAYS
from gridgen.runtime.arrays.arguments import results_given
from helpers.robots import OWN, TESTED_APART, exhaustive

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
    (
        {"q": np.zeros((5, 4, 2))},
        "qd has shape (5, 2); two_link needs (5, 4, 2), (2,) or what NumPy broadcasts to these, as "
        "q has shape (5, 4, 2)",
    ),
    ({"q": 0.0}, "q has shape (); two_link needs (B, 2) or (2,)"),
    ({"qd": np.zeros((4, 2))}, "qd has shape (4, 2); two_link needs (5, 2), (2,) or what"),
    ({"qd": np.zeros((0, 2))}, "qd has shape (0, 2); two_link needs (5, 2), (2,) or what"),
    ({"qdd": np.zeros((5, 2, 1))}, "qdd has shape (5, 2, 1); two_link needs (B, 2) or (2,)"),
    ({"q": np.zeros(2), "qdd": np.zeros((3, 2))}, "qdd has shape (3, 2); two_link needs (5, 2)"),
    (
        {"gravity": np.zeros((4, 3))},
        "gravity has shape (4, 3); two_link needs (5, 3), (3,) or what NumPy broadcasts",
    ),
    ({"f_ext": np.zeros((5, 12))}, "f_ext has shape (5, 12); two_link needs (B, 2, 6) or (2, 6)"),
    ({"base_velocity": np.zeros(3)}, "base_velocity has shape (3,); two_link needs (B, 6) or (6,)"),
    ({"out": np.zeros((4, 2))}, "out has shape (4, 2); tau has (5, 2)"),
    ({"out": np.zeros((5, 2, 2))}, "out has shape (5, 2, 2); tau has (5, 2)"),
]


@pytest.mark.parametrize(("changed", "message"), SHAPES)
def test_a_wrong_shape_is_refused(
    robot: gridgen.Robot, changed: dict[str, object], message: str
) -> None:
    with pytest.raises(ShapeError, match=re.escape(message)):
        called_with(robot, **changed)


#: Valid numbers from random ones, by the kind of an array's numbers.
VALID: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "0 or 1": lambda x: (x > 0) * 1.0,
    "0 or more": np.abs,
    "0 to 1": lambda x: 1 / (1 + x**2),
    "positive": np.exp,
    "softness": np.exp,
    "factors": np.exp,
    "poses": lambda x: np.eye(4) + 0.0 * x,
}


def random_inputs(
    robot: gridgen.Robot, name: str, leads: Sequence[tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Return the inputs of a kernel by name, with these leading axes in turn."""
    rng, shapes = np.random.default_rng(0), robot.kernels[name].inputs
    pairs = zip(shapes.items(), itertools.cycle(leads), strict=False)
    numbers = {array: rng.normal(size=(*lead, *shape)) for (array, shape), lead in pairs}
    return {n: VALID.get(ARRAYS[n].numbers, np.array)(x) for n, x in numbers.items()}


_SOME = ("inverse_dynamics", "integrate", "step_semi_implicit", "mass_matrix_inverse")
_OTHERS = exhaustive(
    *(
        name
        for name, computation in COMPUTATIONS.items()
        if name not in _SOME and computation.key.function not in TESTED_APART
        # The robot has constraints, and no pairs of links.
        if computation.key.method != "variational" and computation.key.step != "excess_apart"
    )
)


@pytest.fixture(scope="module")
def cart_pole() -> gridgen.Robot:
    constraint = {"kind": "joint", "joint": "pivot"}
    return gridgen.load(OWN / "cart_pole.urdf", backend="cpu", constraints=[constraint])


@pytest.mark.parametrize("name", [*_SOME, *_OTHERS])
@pytest.mark.parametrize(
    "leads",
    [
        [(), (4,), (1,)],
        [(4,), ()],
        [(1,), (4,), ()],
        [(3, 1), (4,)],
        [(), (3, 1), (1, 4), ()],
        [(0,), (1,), ()],
    ],
    ids=str,
)
def test_leading_axes_are_broadcast_as_numpy_does(
    cart_pole: gridgen.Robot, name: str, leads: list[tuple[int, ...]]
) -> None:
    given = random_inputs(cart_pole, name, leads)
    shapes = cart_pole.kernels[name].inputs
    own = [given[n].shape[: given[n].ndim - len(shape)] for n, shape in shapes.items()]
    lead = np.broadcast_shapes(*own)
    full = {n: np.broadcast_to(given[n], (*lead, *s)).copy() for n, s in shapes.items()}
    found, expected = (cart_pole.evaluate(name, arrays) for arrays in (given, full))
    for one, other in zip(results_given(found), results_given(expected), strict=True):
        assert one.shape[: len(lead)] == lead
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("schedule", ["thread", "scan"])
def test_every_schedule_broadcasts(schedule: str, two_link: gridgen.Robot) -> None:
    robot = gridgen.load(OWN / "two_link.urdf", backend="emulated")
    q, qd, qdd = np.random.default_rng(0).normal(size=(3, 2, 3, 2))
    for given in ((q, qd[0], qdd[0, 0]), (q[0, 0], qd, qdd[:, :1])):
        whole = [np.broadcast_to(array, q.shape).copy() for array in given]
        found = robot.inverse_dynamics(*given, schedule=schedule)
        np.testing.assert_allclose(found, two_link.inverse_dynamics(*whole), rtol=1e-12, atol=1e-12)


def test_products_and_bound_calls_broadcast(two_link: gridgen.Robot) -> None:
    q, qd, bars = np.random.default_rng(0).normal(size=(3, 5, 2))
    whole, zeros = np.tile(q[:1], (5, 1)), np.zeros(2)
    for given in ((q[0], qd, zeros), (q[:1], qd, zeros)):
        expected = two_link.vjp("inverse_dynamics", bars, whole, qd, 0.0 * qd)
        for found, other in zip(
            two_link.vjp("inverse_dynamics", bars, *given), expected, strict=True
        ):
            np.testing.assert_array_equal(found, other)
        out = np.empty((5, 2))
        found = two_link.vjp("inverse_dynamics", bars, *given, wrt=["qd"], out=out)
        np.testing.assert_array_equal(found, expected[1])
        tau, tangents = two_link.jvp("inverse_dynamics", (bars[0], None, None), *given)
        np.testing.assert_array_equal(tau, two_link.inverse_dynamics(whole, qd, 0.0 * qd))
        assert tangents.shape == (5, 2)
        np.testing.assert_array_equal(two_link.bind("inverse_dynamics", *given)(), tau)
    expected = two_link.vjp("inverse_dynamics", np.tile(bars[0], (5, 1)), q, qd, qd)
    for found, other in zip(
        two_link.vjp("inverse_dynamics", bars[0], q, qd, qd), expected, strict=True
    ):
        np.testing.assert_array_equal(found, other)


def test_states_may_have_any_axes(robot: gridgen.Robot) -> None:
    """As one axis of states; what is shared stays shared."""
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.normal(size=(3, 2, 3, 5, 2))
    one = [np.reshape(x, (30, 2)) for x in (q, qd, qdd)]
    given = {"gravity": rng.normal(size=(2, 3, 5, 3)), "base_velocity": rng.normal(size=6)}
    flat = {**given, "gravity": given["gravity"].reshape(30, 3)}
    expected = robot.inverse_dynamics(*one, **flat).reshape(q.shape)
    out = np.empty_like(q)
    assert robot.inverse_dynamics(q, qd, qdd, out=out, **given) is out
    apart = np.empty((2, 4, 5, 2))
    apart[:, :3] = qd  # its axes are not one in memory
    for found in (out, robot.inverse_dynamics(q, apart[:, :3], qdd, **given)):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(robot.bind("inverse_dynamics", q, qd, qdd, **given)(), expected)
    bars = robot.vjp("inverse_dynamics", out, q, qd, qdd)
    for bar, alike in zip(bars, robot.vjp("inverse_dynamics", one[0], *one), strict=True):
        assert bar.shape == q.shape
        assert alike.shape == one[0].shape
    moved = robot.difference(q, q[0, 0])  # as NumPy broadcasts them
    np.testing.assert_allclose(moved, q[0, 0] - q, atol=1e-15)
    assert robot.mass_matrix(q[:, :0]).shape == (2, 0, 5, 2, 2)
    with pytest.raises(ShapeError, match="first 3 axes cannot be taken as one"):
        robot.inverse_dynamics(q, qd, qdd, out=apart[:, :3])
    with pytest.raises(ShapeError, match=r"qd has axes \(2, 3, 5\)"):
        robot.bind("inverse_dynamics", q, apart[:, :3], qdd)
    with pytest.raises(ShapeError, match=r"q1 has shape \(4, 2\); .* needs \(2, 3, 5, 2\)"):
        robot.difference(q, q[0, 0, :4])


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
    ({"q": "front"}, "q is 'front'; give numbers"),
    ({"qd": [["a", "b"]] * 5}, "qd[0][0] is 'a'; give numbers"),
    ({"q": None}, "q is None; give numbers"),
    ({"qd": None}, "qd is None; give numbers"),
    ({"qd": [[0.0, 1.0], [2.0]]}, "qd is not an array of numbers: "),
    ({"q": [[0.0, 1.0], [2.0]]}, "q is not an array of numbers: "),
    ({"q": [None] * 2}, "q[0] is None; give numbers"),
    ({"qd": [[0.0, 1.0]] * 4 + [(0.0, None)]}, "qd[4][1] is None; give numbers"),
    ({"gravity": [0.0, "0", "-9.81"]}, "gravity[1] is '0'; give numbers"),
    ({"q": "1.5"}, "q is '1.5'; give numbers"),
    ({"q": [np.str_("1"), 2.0]}, "q[0] is "),
    ({"q": [b"1", 2.0]}, "q[0] is b'1'; give numbers"),
    ({"q": [True, 0.0]}, "q[0] is True; give numbers"),
    ({"q": [1j, 0.0]}, "q[0] is 1j; give numbers"),
    ({"q": {0.0, 1.0}}, "q is {0.0, 1.0}; give numbers"),
    ({"q": [10**400, 0.0]}, "q is not an array of numbers: "),
    ({"q": np.ma.masked_array(GOOD)}, "q is a masked array, and its mask would be lost"),
    ({"f_ext": np.ma.zeros((5, 2, 6))}, "f_ext is a masked array, and its mask would be lost"),
    ({"qd": [np.ma.masked_array([0.0, 1.0], [False, True])] * 5}, "qd[0] is a masked array"),
    ({"q": [np.ma.masked, 0.0]}, "q[0] is a masked array"),
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


def one_for_all() -> np.ndarray:
    return np.lib.stride_tricks.as_strided(np.zeros(2), (5, 2), (0, 8))


def sliding() -> np.ndarray:
    return np.lib.stride_tricks.as_strided(np.zeros(6), (5, 2), (8, 8))


NO_ARRAYS = [
    GOOD.tolist(),
    (np.zeros((5, 2)),),
    [],
    0.0,
    "tau",
    np.float64(0.0),
    bytearray(80),
    np.ma.zeros((5, 2)),
]


@pytest.mark.parametrize("out", NO_ARRAYS, ids=lambda out: type(out).__name__)
def test_what_cannot_be_written_into_is_refused(robot: gridgen.Robot, out: object) -> None:
    message = f"out is of type {type(out).__name__}; give an array that can be written"
    with pytest.raises(DtypeError, match=message):
        called_with(robot, out=out)


@pytest.mark.parametrize("out", [one_for_all, sliding])
def test_results_do_not_overwrite_each_other(
    robot: gridgen.Robot, out: Callable[[], np.ndarray]
) -> None:
    with pytest.raises(ShapeError, match=r"out has elements that share memory \(strides \("):
        called_with(robot, out=out())


ROOM = np.zeros((5, 2, 6))
PAIRS = [
    ((ROOM[:, :, :2], ROOM[:, :, :2]), ShapeError, "out[0] and out[1] share memory"),
    ((ROOM[:, :, :2], ROOM[::-1, :, :2]), ShapeError, "out[0] and out[1] share memory"),
    ((ROOM[:, :, 1:3], ROOM[:, :, :2]), ShapeError, "out[0] and out[1] share memory"),
    ((ROOM[:, :, :2], None), DtypeError, "out[1] is of type NoneType"),
    ((GOOD.tolist(), ROOM[:, :, :2]), DtypeError, "out[0] is of type list"),
    ((ROOM[:, :, :2], ROOM[:, :, :3]), ShapeError, "out[1] has shape (5, 2, 3); dtau_dqd has"),
    ((), ShapeError, "out must be a tuple of 2 arrays, for dtau_dq, dtau_dqd"),
    ((ROOM[:, :, :2],), ShapeError, "out must be a tuple of 2 arrays"),
    (np.zeros((2, 5, 2, 2)), ShapeError, "out must be a tuple of 2 arrays"),
    (7, ShapeError, "out must be a tuple of 2 arrays"),
]


@pytest.mark.parametrize(("out", "error", "message"), PAIRS)
@pytest.mark.parametrize("compiled", [False, True])
def test_each_of_several_results_takes_an_array_of_its_own(
    urdf: Path,
    two_link: gridgen.Robot,
    compiled: bool,
    out: object,
    error: type[Exception],
    message: str,
) -> None:
    robot = two_link if compiled else gridgen.load(urdf, backend="cpu")
    if compiled:
        robot.inverse_dynamics_gradient(GOOD, GOOD, GOOD)
    ROOM[...] = 7.0
    with pytest.raises(error, match=re.escape(message)):
        robot.inverse_dynamics_gradient(GOOD, GOOD, GOOD, out=out)
    np.testing.assert_array_equal(ROOM, 7.0)


def test_columns_of_one_table_take_several_results(two_link: gridgen.Robot) -> None:
    q = np.random.default_rng(0).normal(size=(5, 2))
    expected = two_link.inverse_dynamics_gradient(q, q, q)
    room = np.zeros((5, 2, 4))
    out = (room[:, :, ::2], room[:, :, 1::2])
    two_link.inverse_dynamics_gradient(q, q, q, out=out)
    for given, reference in zip(out, expected, strict=True):
        np.testing.assert_array_equal(given, reference)


def test_nothing_is_written_when_an_argument_is_refused(robot: gridgen.Robot) -> None:
    out = np.full((5, 2), 7.0)
    with pytest.raises(ShapeError):
        called_with(robot, qdd=np.zeros((4, 2)), out=out)
    np.testing.assert_array_equal(out, 7.0)


CHOICES = [
    ({"schedule": "weft"}, 'schedule is "weft"; choose one of auto, thread'),
    ({"backend": "gpu"}, 'backend is "gpu"; choose one of auto, cpu, cuda, emulated'),
    ({"schedule": None}, "schedule is None; choose one of auto, thread"),
    ({"schedule": GOOD}, "schedule is array([[0., 0"),
    ({"backend": GOOD}, "backend is array([[0., 0"),
    ({"backend": ""}, 'backend is ""; choose one of auto, cpu, cuda, emulated'),
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


class Elsewhere:
    """An array of some library on a device that no backend can use."""

    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("must not be asked for")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 8, 0


def test_a_device_that_nothing_can_reach_is_refused(robot: gridgen.Robot) -> None:
    with pytest.raises(DeviceError, match="q lies on a device of DLPack type 8"):
        called_with(robot, q=Elsewhere())


def test_an_unknown_function_is_refused(robot: gridgen.Robot) -> None:
    with pytest.raises(ModelError, match="two_link: no inverse_kinematics: did you mean inverse_d"):
        robot.evaluate("inverse_kinematics", {"q": GOOD})


FRAMES = [
    lambda robot, frame: robot.jacobian(GOOD, frame),
    lambda robot, frame: robot.jacobian_dot_qd(GOOD, GOOD, frame),
    lambda robot, frame: robot.forward_kinematics(GOOD, [frame]),
]


@pytest.mark.parametrize("call", FRAMES)
@pytest.mark.parametrize("frame", [[["forearm", "base"]], [None], 1, b"forearm", GOOD])
def test_a_frame_is_one_name(
    robot: gridgen.Robot, call: Callable[[gridgen.Robot, object], object], frame: object
) -> None:
    with pytest.raises(OptionError) as error:
        call(robot, frame)
    message = str(error.value)
    named = frame[0] if isinstance(frame, (list, np.ndarray)) else frame
    assert message.startswith((f"frame is {repr(named)[:6]}", f"frame is {repr(frame)[:6]}"))
    assert message.endswith("; give the name of one link (all: frame_names)")
    assert "\n" not in message
    assert len(message) < 120


@pytest.mark.parametrize("frames", [b"forearm", {"forearm"}, 1])
def test_frames_are_a_list_of_names(robot: gridgen.Robot, frames: object) -> None:
    message = re.escape(f"frame is {frames!r}; give the name of one link (all: frame_names)")
    with pytest.raises(OptionError, match=message):
        robot.forward_kinematics(GOOD, frames)


def test_a_function_is_asked_for_by_name_with_arrays_by_name(robot: gridgen.Robot) -> None:
    with pytest.raises(DtypeError, match="qd is None; give numbers"):
        robot.evaluate("inverse_dynamics", {"q": GOOD})
    with pytest.raises(OptionError, match=r"function is \['mass_matrix'\]; give a name"):
        robot.evaluate(["mass_matrix"], {"q": GOOD})
    with pytest.raises(OptionError, match="arrays is of type ndarray; give arrays by name"):
        robot.evaluate("mass_matrix", GOOD)


def test_random_configurations_take_a_generator_and_a_count(robot: gridgen.Robot) -> None:
    with pytest.raises(OptionError, match=r"rng is of type int; .*default_rng\(seed\), or torch"):
        robot.random_configuration(0, 3)
    for count in (-1, 2.5, "3", True):
        with pytest.raises(OptionError, match=f"n is {count!r}; give the number of"):
            robot.random_configuration(np.random.default_rng(0), count)
    one, several = (robot.random_configuration(np.random.default_rng(7), n) for n in (None, 1))
    np.testing.assert_array_equal(one, several[0], strict=True)


@pytest.mark.parametrize(
    ("name", "own"),
    [("rnea", "inverse_dynamics"), ("mj_fullM", "mass_matrix"), ("fk", "forward_kinematics")],
)
def test_names_of_other_libraries_lead_to_ours(robot: gridgen.Robot, name: str, own: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean {own}"):
        getattr(robot, name)
    with pytest.raises(OptionError, match=f"did you mean {own}"):
        robot.compute((name,), GOOD)


def test_options_of_other_libraries_lead_to_ours(robot: gridgen.Robot) -> None:
    with pytest.raises(
        TypeError, match=r"gridgen.load\(\) .* 'free_flyer'; did you mean floating_ba"
    ):
        gridgen.load(ONE_JOINT, free_flyer=True)
    with pytest.raises(TypeError, match="'nstep'; did you mean substeps"):
        robot.rollout(GOOD, GOOD, GOOD, 0.01, nstep=3)
    with pytest.raises(OptionError, match=r"variational \(the nearest is implicit\)"):
        robot.step(GOOD, GOOD, GOOD, 0.01, integrator="implicitfast")


def test_loads_are_keywords_and_zero_where_they_are_not_given(two_link: gridgen.Robot) -> None:
    q, qd, qdd = np.random.default_rng(0).normal(size=(3, 5, 2))
    x = random_inputs(two_link, "inverse_dynamics_f_ext_base_motion", [(5,)])
    loads = {name: array for name, array in x.items() if name not in ("q", "qd", "qdd")}
    calls = {
        "inverse_dynamics": lambda **given: two_link.inverse_dynamics(q, qd, qdd, **given),
        "bias_forces": lambda **given: two_link.bias_forces(q, qd, **given),
        "forward_dynamics_aba": lambda **given: two_link.forward_dynamics(q, qd, qdd, **given),
    }
    for function, call in calls.items():
        kernel = f"{function}_f_ext_base_motion"
        arrays = {**loads, "q": q, "qd": qd, "qdd": qdd, "tau": qdd}
        expected = two_link.evaluate(
            kernel, {n: arrays[n] for n in two_link.kernels[kernel].inputs}
        )
        np.testing.assert_array_equal(call(**loads), expected)
        gravity = loads["gravity"]
        zero = call(gravity=gravity, base_velocity=np.zeros(6))
        np.testing.assert_allclose(zero, call(gravity=gravity), rtol=1e-12, atol=1e-12)
