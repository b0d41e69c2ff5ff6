"""Joints in the user's order: the arrays are those of the depth-first order, rearranged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gridgen
from gridgen.check import random_states
from gridgen.compiler import read_tree
from gridgen.dynamics.functions import COMPUTATIONS, computation_of, frame_computations, refusal
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import ModelError, OptionError
from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.options import RobotOptions
from gridgen.schedules.thread.plan import is_never_in_loops, plan_loops
from helpers.robots import OWN
from numerics.robots import run_program

Array = np.ndarray

#: Children before their parents, legs interleaved; the gripper has mimic joints.
ORDERS = {
    "quadruped": [f"{leg}_{j}_joint" for j in ("calf", "hip", "thigh") for leg in ("RR", "FL")]
    + [f"{leg}_{j}_joint" for leg in ("RL", "FR") for j in ("thigh", "calf", "hip")],
    "gripper": ["thumb_base", "right_slide", "wrist_roll"],
    "arm6": [
        f"{j}_joint"
        for j in ("elbow", "wrist_3", "shoulder_pan", "wrist_1", "shoulder_lift", "wrist_2")
    ],
}
LONG = ("second_order", "hessian", "rk4", "trapezoidal", "midpoint")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("floating", [False, True])
def test_a_model_of_pinocchio_has_its_own_order(seed: int, floating: bool) -> None:
    """Of joints that were added in any order, where Pinocchio's recursions still hold."""
    rng, model = np.random.default_rng(seed), pinocchio.Model()
    pinocchio.seed(seed)
    kinds = [pinocchio.JointModelRX, pinocchio.JointModelPY, pinocchio.JointModelTranslation]
    joints = [0]
    if floating:
        free = pinocchio.JointModelFreeFlyer()
        joints = [model.addJoint(0, free, pinocchio.SE3.Random(), "root")]
    for name in "hcagebd":
        kind, parent = kinds[rng.integers(3)], int(rng.choice(joints))
        joints.append(model.addJoint(parent, kind(), pinocchio.SE3.Random(), name))
    for joint in joints[not floating :]:
        box = pinocchio.Inertia.FromBox(*rng.uniform(0.2, 2.0, 4))
        model.appendBodyToJoint(joint, box, pinocchio.SE3.Random())
    tree, data = read_tree(model), model.createData()
    assert not tree.is_depth_first
    q = pinocchio.integrate(model, pinocchio.neutral(model), rng.normal(size=model.nv))
    qd, qdd = rng.normal(size=(2, model.nv))
    x = {"q": q[None], "qd": qd[None], "qdd": qdd[None], "gravity": model.gravity.linear}
    (found,) = evaluate_reference(tree, "inverse_dynamics", x)
    expected = pinocchio.rnea(model, data, q, qd, qdd)
    assert_allclose(found[0], expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def trees(name: str) -> tuple[KinematicTree, KinematicTree]:
    """Return a robot on a floating base, depth first and in another order."""
    path, options = OWN / f"{name}.urdf", {"floating_base": True, "parameters": ("damping",)}
    options["joint_dynamics"] = True

    def read(armature: float | Array, order: Sequence[str] = ()) -> KinematicTree:
        return read_tree(path, RobotOptions(**options, armature=armature, order=order))

    plain, other = read(0.1), read(0.1, ORDERS[name])
    armature = np.linspace(0.1, 0.9, plain.nv)
    return read(armature[velocities(plain, other)]), read(armature, ORDERS[name])


def velocities(plain: KinematicTree, other: KinematicTree) -> list[int]:
    """Return the place in the other order of each velocity, depth first."""
    return places(plain, other, "v_index", "nv")


def places(plain: KinematicTree, other: KinematicTree, start: str, count: str) -> list[int]:
    """Return the place in the other order of each coordinate or velocity, depth first."""
    pairs = zip(plain.bodies, other.bodies, strict=True)
    found = {
        getattr(a, start) + k: getattr(b, start) + k
        for a, b in pairs
        for k in range(getattr(a, count))
    }
    return [found[k] for k in range(len(found))]


def depth_first(plain: KinematicTree, other: KinematicTree, kind: str, array: Array) -> Array:
    """Return an array of the other order, depth first."""
    nv, v = plain.nv, velocities(plain, other)
    for axis, extent in enumerate(ARRAYS[kind].shape, start=1):
        if extent == "nq":
            array = np.take(array, places(plain, other, "q_index", "nq"), axis)
        elif isinstance(extent, str) and extent.endswith("nv"):
            blocks = range(int(extent.removesuffix("nv") or 1))
            array = np.take(array, [block * nv + k for block in blocks for k in v], axis)
    return array


def compare(name: str, functions: Sequence[str | KernelKey]) -> None:
    """Compare functions in both orders."""
    plain, other = trees(name)
    x = random_states(other, 2, np.random.default_rng(len(name)))
    x = {**x, **{n: np.broadcast_to(v, (2, *np.shape(v))) for n, v in other.parameters.items()}}
    rng = np.random.default_rng(0)
    for function in functions:
        if refusal(other, function) is not None:
            continue
        computation = computation_of(other, function)
        for given in computation.inputs:
            if given not in x:
                x[given] = rng.normal(size=(2, *computation.shape(given, other)))
        moved = {n: depth_first(plain, other, n, x[n]) for n in computation.inputs}
        found = evaluate_reference(other, function, x)
        expected = evaluate_reference(plain, function, moved)
        for result, a, b in zip(computation.outputs, found, expected, strict=True):
            kind = computation.kinds.get(result, result)
            a = depth_first(plain, other, kind, a)
            assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max(), err_msg=str(function))


@pytest.mark.parametrize(
    "name",
    [
        "gripper",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("quadruped", "arm6")),
    ],
)
def test_every_function_is_rearranged(name: str) -> None:
    compare(name, [one for one in COMPUTATIONS if not any(word in one for word in LONG)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ORDERS)
def test_long_functions_and_those_of_links_are_rearranged(name: str) -> None:
    plain, _ = trees(name)
    links = frame_computations(plain, [plain.bodies[-1].name])
    compare(name, [one for one in (*COMPUTATIONS, *links) if any(word in one for word in LONG)])


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
def test_products_are_rearranged(kind: str) -> None:
    wrt = ("q", "qd", "tau")
    compare("arm6", [KernelKey("forward_dynamics", "aba").product(kind, wrt)])
    compare("gripper", [KernelKey("forward_dynamics", "crba").product(kind, wrt)])
    compare("gripper", [KernelKey("mass_matrix_inverse").product(kind, ("q",))])


@pytest.mark.parametrize("name", ["gripper", "quadruped"])
def test_programs_with_loops_are_rearranged(name: str) -> None:
    _, other = trees(name)
    x = random_states(other, 2, np.random.default_rng(1))
    for function in ("forward_dynamics_crba", "mass_matrix_inverse", "forward_dynamics_gradient"):
        assert not is_never_in_loops(other, computation_of(other, function).key)
        results = run_program(other, plan_loops(other, function), x)
        for a, b in zip(results, evaluate_reference(other, function, x), strict=True):
            assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max(), err_msg=function)


def test_a_compiled_robot_has_its_limits_and_results_in_the_order() -> None:
    order = ORDERS["arm6"]
    plain, other = (gridgen.load(OWN / "arm6.urdf", order=o) for o in ([], order))
    places = [plain.joint_names.index(name) for name in order]
    assert other.joint_names == plain.joint_names
    for limits in ("lower_limits", "upper_limits", "effort_limits", "velocity_limits"):
        assert_array_equal(getattr(other, limits), np.array(getattr(plain, limits))[places])
    rng = np.random.default_rng(2)
    q, qd, tau = rng.normal(size=(3, 5, 6))
    found = np.empty((5, 6))
    found[:, places] = other.forward_dynamics(q, qd, tau)
    inputs = [np.empty((5, 6)) for _ in range(3)]
    for array, given in zip(inputs, (q, qd, tau), strict=True):
        array[:, places] = given
    assert_array_equal(found, plain.forward_dynamics(*inputs))


def test_teams_of_threads_require_the_order_of_the_bodies() -> None:
    robot = gridgen.load(OWN / "arm6.urdf", order=ORDERS["arm6"], backend="emulated")
    q = np.zeros((1, 6))
    with pytest.raises(ModelError, match="depth-first order: load it without order="):
        robot.inverse_dynamics(q, q, q, schedule="scan")


def test_the_warp_schedule_supports_any_order() -> None:
    robot = gridgen.load(OWN / "arm6.urdf", order=ORDERS["arm6"], backend="emulated")
    q, qd, tau = np.random.default_rng(4).normal(size=(3, 2, 6))
    found = robot.forward_dynamics(q, qd, tau, schedule="warp")
    np.testing.assert_allclose(found, robot.forward_dynamics(q, qd, tau), rtol=1e-10)


REFUSED = [
    (["elbow_join"], 'order: no joint "elbow_join" that moves independently; did you mean'),
    (["elbow_joint"] * 2, 'order contains joint "elbow_joint" twice; give each joint once'),
    (["elbow_joint"], "order lacks .*; give every joint that moves once"),
    (ORDERS["arm6"][:2] + ORDERS["arm6"][3:], 'order lacks "shoulder_pan_joint"'),
    ("elbow", "order is \"?.?elbow.*; give a list of joints' names"),
    ([1], "order is .*; give a list of joints' names"),
]


@pytest.mark.parametrize(("order", "message"), REFUSED)
def test_an_invalid_order_is_refused(order: list[str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        gridgen.load(OWN / "arm6.urdf", order=order)
