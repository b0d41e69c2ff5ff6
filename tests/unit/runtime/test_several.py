"""Several results of one call."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.errors import DtypeError, ModelError, OptionError, ShapeError
from gridgen.robot import open_module
from helpers.robots import exhaustive

ROBOTS = Path(__file__).parents[3] / "robots"
NAMES = (
    "forward_kinematics:tip",
    "inverse_dynamics_gradient",
    "mass_matrix",
    "jacobian:tip:world",
    "kinetic_energy",
)


@pytest.fixture(scope="module")
def robot() -> gridgen.Robot:
    return gridgen.load(ROBOTS / "two_link.urdf", backend="cpu")


@pytest.fixture(scope="module")
def x() -> tuple[np.ndarray, ...]:
    return tuple(np.random.default_rng(0).normal(size=(3, 13, 2)))


def alone(robot: gridgen.Robot, x: Any, **loads: Any) -> list[Any]:
    q, qd, qdd = x
    return [
        robot.forward_kinematics(q)[:, robot.frame_names.index("tip")],
        robot.inverse_dynamics_gradient(q, qd, qdd, **loads),
        robot.mass_matrix(q),
        robot.jacobian(q, "tip", "world"),
        robot.kinetic_energy(q, qd),
    ]


@pytest.mark.parametrize("dtype", ["float64", *exhaustive("float32")])
def test_they_are_those_of_each_function_in_the_order_asked_for(robot, x, dtype):
    x = tuple(array.astype(dtype) for array in x)
    found = robot.compute(NAMES, *x)
    assert found._fields == (
        "forward_kinematics_tip",
        "inverse_dynamics_gradient",
        "mass_matrix",
        "jacobian_tip_world",
        "kinetic_energy",
    )
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    for result, expected in zip(found, alone(robot, x), strict=True):
        for one, other in zip(np.atleast_1d(result), np.atleast_1d(expected), strict=True):
            assert one.dtype == dtype
            assert np.allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max())
    state = robot.compute(list(NAMES), *(array[0] for array in x))
    assert np.array_equal(state.mass_matrix, found.mass_matrix[0])
    assert state.kinetic_energy.shape == ()


def test_optional_inputs_reach_those_that_read_them(robot, x):
    loads = {"f_ext": np.ones((13, 2, 6)), "gravity": np.array([1.0, 2.0, 3.0])}
    found = robot.compute(NAMES, *x, **loads)
    expected = alone(robot, x, **loads)
    assert np.allclose(found.inverse_dynamics_gradient[0], expected[1][0])
    assert np.allclose(found.mass_matrix, expected[2])
    assert not np.allclose(found.inverse_dynamics_gradient[0], alone(robot, x)[1][0])


def test_results_go_where_the_caller_wants_them(robot, x):
    new = robot.compute(NAMES, *x)
    out = tuple(
        tuple(map(np.zeros_like, one)) if isinstance(one, tuple) else np.zeros_like(one)
        for one in new
    )
    found = robot.compute(NAMES, *x, out=out)
    assert found.mass_matrix is out[2]
    assert found.inverse_dynamics_gradient[1] is out[1][1]
    assert np.array_equal(out[1][1], new.inverse_dynamics_gradient[1])
    (one,) = robot.compute(["mass_matrix"], x[0], out=[out[2]])
    assert one is out[2]


def test_they_are_bound_planned_and_copied(robot, x):
    q, qd = x[0].copy(), x[1]
    bound = robot.bind(("mass_matrix", "bias_forces"), q, qd)
    first = bound()
    q += 0.5
    assert bound() is first
    assert np.allclose(first.bias_forces, robot.bias_forces(q, qd))
    plan = robot.plan(("mass_matrix", "bias_forces"), batch=100, device="sm_90")
    assert plan.chosen.kernel == "mass_matrix_with_bias_forces"
    again = copy.copy(robot).compute(("mass_matrix", "bias_forces"), q, qd)
    assert np.array_equal(again.mass_matrix, first.mass_matrix)


def test_a_step_and_where_velocities_lead():
    robot = gridgen.load(ROBOTS / "two_link.urdf", backend="cpu")
    q, qd, tau = np.random.default_rng(1).normal(size=(3, 5, 2))
    names = ("step", "step:rk4", "integrate", "bias_forces")
    found = robot.compute(names, q, qd, tau, 0.01, qd)
    alone = (
        robot.step(q, qd, tau, 0.01),
        robot.step(q, qd, tau, 0.01, integrator="rk4"),
        (robot.integrate(q, qd),),
        (robot.bias_forces(q, qd),),
    )
    for ours, theirs in zip((*found[:2], found[2:3], found[3:]), alone, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_results_are_pickled(robot, x):
    found = robot.compute(NAMES, *x)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert type(other) is type(found)
        assert np.array_equal(other.mass_matrix, found.mass_matrix)
        assert np.array_equal(other.inverse_dynamics_gradient, found.inverse_dynamics_gradient)


def test_results_of_one_name_are_refused():
    text = (ROBOTS / "two_link.urdf").read_text(encoding="utf-8")
    robot = gridgen.load(text.replace('"forearm"', '"tip_world"'), backend="cpu")
    message = '"jacobian:tip_world" and "jacobian:tip:world" would both be named'
    with pytest.raises(OptionError, match=message):
        robot.compute(("jacobian:tip_world", "jacobian:tip:world"), np.zeros(2))


def test_frames_are_one_or_some(robot, x):
    q = x[0]
    every = robot.forward_kinematics(q)
    hand, link = (robot.frame_names.index(name) for name in ("tip", "forearm"))
    assert np.allclose(robot.forward_kinematics(q, "tip"), every[:, hand])
    for frames, places in ((["forearm", "tip"], [link, hand]), (["tip"], [hand])):
        poses = robot.bind("forward_kinematics", q, frames)()
        assert np.allclose(poses, every[:, places], rtol=0, atol=1e-14)
    J = robot.jacobian(q, ["forearm", "tip"], "local_world_aligned")
    assert J.shape == (13, 2, 6, 2)
    for place, name in enumerate(("forearm", "tip")):
        assert np.allclose(J[:, place], robot.jacobian(q, name, "local_world_aligned"))


WRONG: list[tuple[type[Exception], Any, int, dict[str, Any], str]] = [
    (OptionError, "mass_matrix", 1, {}, "functions is 'mass_matrix'; give a tuple of names"),
    (OptionError, (), 1, {}, "functions is (); give a tuple of names"),
    (OptionError, ("mass_matrix", 3), 1, {}, "functions contains 3; give names"),
    (OptionError, ("mass_matrx",), 1, {}, 'function "mass_matrx" cannot be fused; did you mean'),
    (OptionError, ("neutral",), 1, {}, "call it separately"),
    (OptionError, ("mass_matrix",) * 2, 1, {}, '"mass_matrix" is requested twice; name'),
    (OptionError, ("jacobian:tip", "jacobian:tip:local"), 1, {}, 'equal to "jacobian:tip"'),
    (OptionError, ("jacobian",), 1, {}, "jacobian requires a link; give jacobian:base"),
    (OptionError, ("jacobian:tp",), 1, {}, 'no frame "tp"; give jacobian:tip'),
    (OptionError, ("jacobian:tip:wold",), 1, {}, "takes one of local, world, local_world_al"),
    (OptionError, ("forward_kinematics:tip:world",), 1, {}, "forward_kinematics takes nothing"),
    (OptionError, ("mass_matrix:tip",), 1, {}, "after the colon mass_matrix takes nothing"),
    (OptionError, ("forward_dynamics:cfa",), 3, {}, "takes one of aba, crba"),
    (OptionError, ("bias_forces", "mass_matrix"), 1, {}, "qd is missing, for bias_forces"),
    (OptionError, ("mass_matrix", "gravity_forces"), 2, {}, "2 arrays are given, too many"),
    (TypeError, ("mass_matrix", "bias_forces"), 2, {"gravty": 0}, "unexpected keyword argument"),
    (TypeError, ("mass_matrix",), 1, {"gravity": None}, "none of mass_matrix takes it"),
    (OptionError, ("mass_matrix",), 1, {"schedule": "warp"}, "on the thread schedule: omit sch"),
    (OptionError, ("forward_dynamics",), 3, {"method": "aba"}, "a method after a colon"),
    (ShapeError, ("mass_matrix", "bias_forces"), 2, {"out": np.zeros(3)}, "an entry for each"),
    (ShapeError, ("inverse_dynamics_gradient",), 3, {"out": (0,)}, "a tuple of dtau_dq, dtau_dqd"),
]


@pytest.mark.parametrize(("error", "names", "count", "options", "message"), WRONG)
def test_what_is_wrong_is_said(robot, x, error, names, count, options, message):
    with pytest.raises(error, match=re.escape(message)):
        robot.compute(names, *x[:count], **options)


def test_a_robot_that_lacks_one_lacks_all():
    text = (
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous">'
        '<parent link="a"/><child link="b"/></joint></robot>'
    )
    with pytest.warns(gridgen.GridGenWarning):
        robot = gridgen.load(text, backend="cpu")
    with pytest.raises(ModelError, match="center_of_mass: the moving links have no mass"):
        robot.compute(("mass_matrix", "center_of_mass"), [0.0])


@pytest.fixture(scope="module")
def module(tmp_path_factory) -> Any:
    options = gridgen.GenerateOptions(
        output=tmp_path_factory.mktemp("modules"),
        functions=("mass_matrix", "forward_kinematics"),
        inputs=("f_ext",),
        fuse={"control": ["mass_matrix", "bias_forces", "jacobian:tip"]},
    )
    made = gridgen.generate(ROBOTS / "two_link.urdf", options)
    assert {"control", "control_f_ext"} <= set(made.programs)
    spec = importlib.util.spec_from_file_location("two_link", made.folder / "__init__.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_a_module_has_what_was_fused(module, robot, x):
    q, qd, _ = x
    names = ("mass_matrix", "bias_forces", "jacobian:tip")
    assert "control" in module.__all__
    for loads in ({}, {"f_ext": np.ones((13, 2, 6))}):
        expected = robot.compute(names, q, qd, **loads)
        for found in (module.control(q, qd, **loads), module.compute(names, q, qd, **loads)):
            assert all(map(np.array_equal, found, expected))
    for frames in ("tip", ["tip", "forearm"]):  # of the kernel for all
        expected = robot.forward_kinematics(q, frames)
        out = np.zeros_like(expected)
        assert module.forward_kinematics(q, frames, out=out) is out
        assert np.allclose(out, expected, rtol=0, atol=1e-14)
        for wrong, error in (
            (out[:1], ShapeError),
            (out.astype(np.float32), DtypeError),
            (out.tolist(), DtypeError),
            (np.broadcast_to(out[0], out.shape), DtypeError),
        ):
            with pytest.raises(error, match=r"^out "):
                module.forward_kinematics(q, frames, out=wrong)
    with pytest.raises(ModelError, match="without mass_matrix, bias_forces in one: run grid-gen"):
        module.compute(names[:2], q, qd)
    with pytest.raises(ModelError, match="without base_velocity and base_acceleration"):
        module.control(q, qd, base_velocity=np.zeros(6))
    with pytest.raises(OptionError, match="a bound call makes no copies"):
        module.bind("forward_kinematics", q, ["tip"])


def test_what_is_fused_may_be_called_as_a_kernel_that_the_module_lacks(tmp_path):
    parts = ["mass_matrix", "bias_forces"]
    fuse = {"forward_dynamics_aba": parts, "inverse_dynamics_vjp_q_qd_qdd": parts}
    options = gridgen.GenerateOptions(output=tmp_path, functions=("inverse_dynamics",), fuse=fuse)
    folder = gridgen.generate(ROBOTS / "cart_pole.urdf", options).folder
    robot = open_module(str(folder / "__init__.py"))
    x = np.zeros((1, 2))
    with pytest.raises(ModelError, match="no forward_dynamics_aba: this module was generated"):
        robot.forward_dynamics(x, x, x)
    with pytest.raises(ModelError, match="without inverse_dynamics_vjp_q_qd_qdd"):
        robot.vjp("inverse_dynamics", x, x, x, x)


@pytest.mark.parametrize(
    ("fuse", "message"),
    [
        ({"control": ["mass_matrix"]}, "give two functions or more"),
        ({"mass_matrix": ["bias_forces", "gravity_forces"]}, "the name of another function"),
        ({"rollout_vjp": ["bias_forces", "gravity_forces"]}, "the name of another function"),
        ({"a b": ["mass_matrix", "bias_forces"]}, "'a b' is not a name"),
        ({"forward_dynamics_aba": ["mass_matrix", "bias_forces"]}, "name of another kernel"),
        ({"control": ["mass_matrix", "jacobian:hnd"]}, 'no frame "hnd"'),
        ({"control": "mass_matrix,bias_forces"}, "give two functions or more"),
    ],
)
def test_functions_that_cannot_be_one_are_refused(tmp_path, fuse, message):
    def generate() -> None:
        options = gridgen.GenerateOptions(output=tmp_path / "out", fuse=fuse)
        gridgen.generate(ROBOTS / "two_link.urdf", options)

    with pytest.raises(OptionError, match=re.escape(message)):
        generate()
    assert not (tmp_path / "out").exists()
