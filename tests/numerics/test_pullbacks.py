"""Vector-Jacobian products against complex steps and analytical gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import gridgen
from gridgen.backends import BackendName
from gridgen.check import amplification, amplification_at_frame, random_states, relative_errors
from gridgen.dynamics.computation import array_shape
from gridgen.dynamics.functions import COMPUTATIONS, computation_of, frame_computations
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenError, ModelError, OptionError, ShapeError
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import cotangent
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.modules import TracedModule
from gridgen.robot import Robot
from gridgen.schedules.thread.plan import plan_lines, plan_loops
from gridgen.symbolic.program import Program
from helpers.robots import exhaustive, refusal, refused, spread
from numerics.robots import Arrays, load_robot, load_tree, run_program, urdf_path

Plan = Callable[[KinematicTree, KernelKey], Program]

STATES = 3
#: A mimic joint and branches; a free joint and a slide.
ROBOTS = [("gripper", False), ("cart_pole", True)]
#: Helical joints: every run tests how derivatives go back through their loops.
SCREWS = ("screws", True)
#: Programs that take long to trace and to step through.
LONG = {
    name
    for name in COMPUTATIONS
    if any(word in name for word in ("gradient", "second_order", "hessian"))
    or ("step" in name and "f_ext" in name)
}
#: Steps of several stages, or with a solver: every run tries them on the first robot alone.
STAGED = ("rk4", "midpoint", "trapezoidal", "variational")
#: What goes back through loops in every run: walks in and out, climbs, several items at a time.
LOOPED = {
    "inverse_dynamics_f_ext_base_motion",
    "forward_dynamics_crba",
    "mass_matrix",
    "mass_matrix_inverse",
    "kinetic_energy",
}
CASES = [
    pytest.param(*robot, name, plan, marks=() if is_short else pytest.mark.exhaustive)
    for robot in (*ROBOTS, SCREWS)
    for name, computation in COMPUTATIONS.items()
    if not computation.key.step
    for plan in (plan_lines, plan_loops)[: 1 + computation.method.in_loops]
    for is_other in [robot is not ROBOTS[0] and name.endswith(STAGED)]
    for is_short in [
        name in LOOPED
        if plan is plan_loops
        else name not in LONG and not is_other and robot is not SCREWS
    ]
]


def tree_of(robot: str, floating: bool) -> KinematicTree:
    return load_tree(urdf_path(robot), floating, joint_dynamics=True, armature=0.1)


def arguments(tree: KinematicTree, name: str) -> Arrays:
    """Return random arguments of a function, cotangents of its results, and its results."""
    rng = np.random.default_rng(len(name))
    x = random_states(tree, STATES, rng)
    outputs = computation_of(tree, name).outputs
    weights = {
        cotangent(array): rng.normal(size=(STATES, *array_shape(array, tree))) for array in outputs
    }
    return {**x, **weights, **dict(zip(outputs, evaluate_reference(tree, name, x), strict=True))}


def check(tree: KinematicTree, name: str, plan: Plan = plan_lines) -> None:
    computation = computation_of(tree, name)
    pullback = computation_of(tree, computation.key.product("vjp", computation.inputs))
    x = arguments(tree, name)
    key = computation.key
    if key.frame and FUNCTIONS[key.function].solves:
        conditions = amplification_at_frame(tree, x, key)
    else:
        conditions = amplification(*evaluate_reference(tree, "mass_matrix", x))
    # Solutions in other orders; a third derivative multiplies more inverses of the mass matrix.
    orders = 5 if "second_order" in name or "hessian" in name else 1
    limits = np.maximum(1e-11, orders * 1e-14 * conditions)
    found = run_program(tree, plan(tree, pullback.key), x)
    for array, result, steps in zip(
        pullback.outputs, found, evaluate_reference(tree, pullback.key, x), strict=True
    ):
        assert (relative_errors(result, steps) < limits).all(), array


@refused(lambda robot, floating, name: refusal(tree_of(robot, floating), name))
@pytest.mark.parametrize(("robot", "floating", "name", "plan"), CASES)
def test_every_function_by_every_input(robot: str, floating: bool, name: str, plan: Plan) -> None:
    """Complex steps of the algorithm itself know nothing of adjoints."""
    tree = tree_of(robot, floating)
    check(tree, name, plan)


@pytest.mark.parametrize("name", ["integrate", "difference"])
def test_where_nothing_turns(name: str) -> None:
    """Roots of zero, in lanes that take the series instead, leave no NaN."""
    tree = tree_of("cart_pole", True)
    computation = computation_of(tree, name)
    pullback = computation_of(tree, computation.key.product("vjp", computation.inputs))
    x = arguments(tree, name)
    x |= {"v": np.zeros_like(x["v"]), "q1": x["q0"]}
    found = run_program(tree, plan_lines(tree, pullback.key), x)
    for result, steps in zip(found, evaluate_reference(tree, pullback.key, x), strict=True):
        assert relative_errors(result, steps).max() < 1e-11


@pytest.mark.parametrize("floating", [False, *exhaustive(True)])
def test_functions_of_a_frame(floating: bool) -> None:
    tree = load_tree(urdf_path("arm6"), floating)
    for name in frame_computations(tree, [tree.bodies[-1].name]):
        check(tree, name)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("emulated", marks=pytest.mark.exhaustive)])
def test_robots_of_many_bodies_go_back_in_loops(backend: BackendName) -> None:
    """What lines of code would have, on a robot whose programs may have none."""
    tree = tree_of("cart_pole", True)
    options = {"floating_base": True, "joint_dynamics": True, "armature": 0.1}
    module = TracedModule(tree, longest=1, longest_on_gpu=1)
    looped, plain = Robot(module, backend), load_robot(urdf_path("cart_pole"), **options)
    x = random_states(tree, 9, np.random.default_rng(5))
    found = looped.vjp("forward_dynamics", x["qdd"], x["q"], x["qd"], x["tau"])
    expected = plain.vjp("forward_dynamics", x["qdd"], x["q"], x["qd"], x["tau"])
    for bar, other in zip(found, expected, strict=True):
        assert relative_errors(bar, other).max() < 1e-10


@pytest.mark.parametrize(
    ("function", "dtype"),
    spread([("inverse_dynamics",), ("forward_dynamics",)], ["float32", "float64"], 1),
)
def test_a_gradient_times_the_cotangents(function: str, dtype: str) -> None:
    tree = load_tree(urdf_path("gripper"), False)
    robot = load_robot(urdf_path("gripper"))
    third = "qdd" if function == "inverse_dynamics" else "tau"
    x = random_states(tree, 71, np.random.default_rng(3))
    q, qd, u, w = (x[name].astype(dtype) for name in ("q", "qd", third, "tau"))
    found = robot.vjp(function, w, q, qd, u)
    gradients = getattr(robot, f"{function}_gradient")(q, qd, u)
    last = robot.mass_matrix(q) if third == "qdd" else robot.mass_matrix_inverse(q)
    for bar, gradient in zip(found, (*gradients[:2], last), strict=True):
        assert bar.dtype == dtype
        expected = np.einsum("bij,bi->bj", gradient.astype(float), w.astype(float))
        assert relative_errors(bar, expected).max() < (2e-5 if dtype == "float32" else 1e-11)
    given = robot.vjp(function, w, q, qd, u, results=getattr(robot, function)(q, qd, u))
    for bar, again in zip(found, given, strict=True):
        np.testing.assert_array_equal(bar, again)


def test_optional_inputs_have_derivatives_too() -> None:
    robot = load_robot(urdf_path("cart_pole"), floating_base=True, armature=0.1)
    x = random_states(load_tree(urdf_path("cart_pole"), True), 5, np.random.default_rng(4))
    state = (x["q"], x["qd"], x["tau"])
    wrt = ("q", "tau", "gravity", "f_ext")
    found = robot.vjp("forward_dynamics", x["qdd"], *state, wrt=wrt, f_ext=x["f_ext"])
    assert [bar.shape for bar in found] == [x[name].shape for name in wrt]
    step = 1e-6
    for name, bar in zip(wrt[2:], found[2:], strict=True):
        move = step * np.random.default_rng(5).normal(size=x[name].shape)
        given = {"f_ext": x["f_ext"], "gravity": x["gravity"]}
        values = [
            robot.forward_dynamics(*state, **{**given, name: x[name] + sign * move})
            for sign in (1.0, -1.0)
        ]
        expected = np.einsum("bi,bi->b", x["qdd"], values[0] - values[1]) / 2.0
        slope = (bar * move).reshape(5, -1).sum(axis=1)
        np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6 * abs(expected).max())


def test_one_state_one_name_and_out() -> None:
    robot = load_robot(urdf_path("gripper"))
    rng = np.random.default_rng(6)
    q, tau_bar = rng.uniform(0.0, 0.5, robot.nq), rng.normal(size=robot.nv)
    alone = robot.vjp("gravity_forces", tau_bar, q)
    out = np.empty((2, robot.nq))
    twice = np.stack([q, q])
    assert robot.vjp("gravity_forces", np.stack([tau_bar] * 2), twice, out=out, wrt="q") is out
    np.testing.assert_array_equal(out, np.stack([alone, alone]))


@pytest.mark.parametrize(
    ("error", "options", "words"),
    [
        (OptionError, {"wrt": ("q", "qdx")}, "'qd'|\"qd\""),
        (OptionError, {"wrt": ("qd", "q")}, "this order: q, qd"),
        (OptionError, {"wrt": ("q", "q")}, "once"),
        (OptionError, {"wrt": ()}, "empty"),
        (ShapeError, {"cotangents": np.zeros((3, 2))}, "tau_bar has shape"),
    ],
)
def test_what_is_wrong_is_named(
    error: type[GridGenError], options: dict[str, object], words: str
) -> None:
    robot = load_robot(urdf_path("two_link"))
    zeros = np.zeros((2, 2))
    cotangents = options.pop("cotangents", zeros)
    with pytest.raises(error, match=words):
        robot.vjp("inverse_dynamics", cotangents, zeros, zeros, zeros, **options)


def test_one_link_at_a_time() -> None:
    robot = load_robot(urdf_path("two_link"))
    q, J_bar = np.zeros((3, 2)), np.ones((3, 6, 2))
    links = robot.frame_names[-2:]
    assert robot.vjp("jacobian", J_bar, q, links[0]).shape == (3, 2)
    assert robot.vjp("forward_kinematics", np.ones((3, 4, 4)), q, links[0]).shape == (3, 2)
    with pytest.raises(OptionError, match="one link"):
        robot.vjp("jacobian", np.ones((3, 2, 6, 2)), q, list(links))


@pytest.mark.parametrize(
    ("option", "value"), [("method", "nonsense"), ("method", "cfa"), ("schedule", "scan")]
)
def test_ways_without_a_derivative_are_refused(option: str, value: str) -> None:
    robot = load_robot(urdf_path("two_link"))
    zeros = np.zeros((3, 2))
    with pytest.raises(OptionError, match=f'{option} is "{value}"'):
        robot.vjp("forward_dynamics", zeros, zeros, zeros, zeros, **{option: value})


def test_several_results_take_several_cotangents() -> None:
    robot = load_robot(urdf_path("two_link"))
    zeros = np.zeros((2, 2))
    with pytest.raises(ShapeError, match="takes 2 here"):
        robot.vjp("inverse_dynamics_gradient", np.zeros((2, 2, 2)), zeros, zeros, zeros)


def test_a_module_has_them_when_asked_to(tmp_path) -> None:
    options = gridgen.GenerateOptions(output=tmp_path, functions=("inverse_dynamics",), vjp=True)
    folder = gridgen.generate(urdf_path("two_link"), options).folder
    module = gridgen.robot.open_module(str(folder / "__init__.py"))
    zeros = np.ones((2, 2))
    expected = load_robot(urdf_path("two_link")).vjp("inverse_dynamics", zeros, zeros, zeros, zeros)
    for bar, loaded in zip(
        module.vjp("inverse_dynamics", zeros, zeros, zeros, zeros), expected, strict=True
    ):
        np.testing.assert_array_equal(bar, loaded)
    alone = module.vjp("inverse_dynamics", zeros, zeros, zeros, zeros, wrt="qd", out=zeros.copy())
    np.testing.assert_array_equal(alone, expected[1])
    with pytest.raises(ModelError, match="--vjp"):
        module.vjp("inverse_dynamics", zeros, zeros, zeros, zeros, wrt="gravity")
    with pytest.raises(ModelError, match="--jvp"):
        module.jvp("inverse_dynamics", (zeros,) * 3, zeros, zeros, zeros)
