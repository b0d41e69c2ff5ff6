"""Jacobian-vector products, and products of the second order: complex steps, and one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.check import random_states, relative_errors
from gridgen.dynamics.computation import array_shape
from gridgen.dynamics.functions import COMPUTATIONS, computation_of, product_of
from gridgen.dynamics.products import ProductComputation
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import DtypeError, GridGenError, OptionError, ShapeError
from gridgen.kernel import KernelKey, Product
from gridgen.model.tree import KinematicTree
from gridgen.schedules.thread.plan import plan_lines, plan_loops
from gridgen.symbolic.program import Program
from helpers.robots import refusal, refused
from numerics.robots import load_robot, load_tree, run_program, urdf_path

Plan = Callable[[KinematicTree, KernelKey], Program]

#: A mimic joint and branches; a free joint and a slide.
ROBOTS = [("gripper", False), ("cart_pole", True)]
#: Helical joints, on which dynamics are tried in every run.
SCREWS = ("screws", True)
#: What is tried in every run; all else is as its like.
ALWAYS = {
    "inverse_dynamics_f_ext_base_motion",
    "forward_dynamics_crba",
    "mass_matrix",
    "forward_kinematics",
    "integrate",
    "difference",
    "step_implicit",
    "kinetic_energy",
}
CASES = [
    pytest.param(*robot, name, plan, marks=() if name in always else pytest.mark.exhaustive)
    for robot in (*ROBOTS, SCREWS)
    for always in [{name for name in ALWAYS if "dynamics" in name} if robot is SCREWS else ALWAYS]
    for name, computation in COMPUTATIONS.items()
    if not computation.key.step
    for plan in (plan_lines, plan_loops)[: 1 + computation.method.in_loops]
]
EXHAUSTIVE = pytest.mark.exhaustive
#: Kinds of products of products.
ORDERS = [("vjp", "vjp"), ("vjp", "jvp"), ("jvp", "vjp")]
SECOND = [
    pytest.param(*robot, name, *kinds, marks=marks)
    for robot in ROBOTS
    for name in ("inverse_dynamics", "forward_dynamics_crba", "mass_matrix", "integrate")
    for kinds in ORDERS
    for marks in [() if "inverse" in name and "jvp" in kinds else EXHAUSTIVE]
]


def tree_of(robot: str, floating: bool) -> KinematicTree:
    return load_tree(urdf_path(robot), floating, joint_dynamics=True, armature=0.1)


def by_everything(tree: KinematicTree, name: str, *kinds: str) -> ProductComputation:
    """Return a product, of a product if there are two kinds, by all inputs each."""
    function = computation_of(tree, name)
    products, of = [Product(kinds[0], function.inputs)], function
    if len(kinds) > 1:
        of = product_of(function, [*products, Product(kinds[1], ())]).of
        products.append(Product(kinds[1], of.inputs))
    return product_of(function, products)


def check(
    tree: KinematicTree, spec: ProductComputation, name: str, plan: Plan, states: int = 2
) -> None:
    rng = np.random.default_rng(len(spec.name))
    x = random_states(tree, states, rng)
    outputs = computation_of(tree, name).outputs
    x |= dict(zip(outputs, evaluate_reference(tree, name, x), strict=True))
    for array in spec.inputs:
        if array not in x:
            x[array] = rng.normal(size=(states, *array_shape(array, tree)))
    # Loops multiply with inverses of the mass matrix: a third derivative with several.
    limit = 5e-11 if "second_order" in name or "hessian" in name else 1e-11
    found = run_program(tree, plan(tree, spec.key), x)
    for array, result, steps in zip(
        spec.outputs, found, evaluate_reference(tree, spec.key, x), strict=True
    ):
        assert relative_errors(result, steps).max() < limit, array


@refused(lambda robot, floating, name: refusal(tree_of(robot, floating), name))
@pytest.mark.parametrize(("robot", "floating", "name", "plan"), CASES)
def test_every_function_in_a_direction(robot: str, floating: bool, name: str, plan: Plan) -> None:
    """Complex steps of the algorithm itself know nothing of dual numbers."""
    tree = tree_of(robot, floating)
    check(tree, by_everything(tree, name, "jvp"), name, plan)


@pytest.mark.parametrize(("robot", "floating", "name", "first", "second"), SECOND)
def test_products_of_products(
    robot: str, floating: bool, name: str, first: str, second: str
) -> None:
    """Complex steps through dual numbers know nothing of adjoints."""
    tree = tree_of(robot, floating)
    check(tree, by_everything(tree, name, first, second), name, plan_lines, states=1)


@pytest.mark.parametrize(
    ("robot", "floating", "name", "first"),
    [
        pytest.param(*robot, name, first, marks=() if is_tried else EXHAUSTIVE)
        for robot in ROBOTS
        for name in ("gravity_forces", "inverse_dynamics", "mass_matrix", "forward_dynamics_crba")
        for first in ("vjp", "jvp")
        for is_tried in [
            name == "gravity_forces"
            or (robot is ROBOTS[0] and (name, first) == ("mass_matrix", "vjp"))
        ]
    ],
)
def test_loops_backwards_have_a_way_back(robot: str, floating: bool, name: str, first: str) -> None:
    tree = tree_of(robot, floating)
    check(tree, by_everything(tree, name, first, "vjp"), name, plan_loops, states=1)


def inner(a: Any, b: Any) -> np.ndarray:
    """Return the inner product of arrays with those of a tuple, state by state."""
    pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
    return sum((x * y).reshape(len(x), -1).sum(axis=1) for x, y in pairs)


@pytest.mark.parametrize(
    ("robot", "floating", "function"),
    [
        pytest.param(*robot, function, marks=marks)
        for robot in [("gripper", False), ("arm6", False), ("quadruped", True)]
        for function in ("forward_dynamics", "inverse_dynamics", "step")
        for marks in [() if (robot[0], function[:7]) == ("gripper", "forward") else EXHAUSTIVE]
    ],
)
def test_the_one_is_the_transpose_of_the_other(robot: str, floating: bool, function: str) -> None:
    """<w, J u> = <J^T w, u>, on a batch that is no multiple of the lanes."""
    urdf = urdf_path(robot)
    made = load_robot(urdf, floating_base=floating)
    x = random_states(load_tree(urdf, floating), 13, np.random.default_rng(3))
    wrt = ("q", "qd", "qdd" if function == "inverse_dynamics" else "tau")
    state = tuple(x[name] for name in wrt)
    arguments = (*state, x["dt"]) if function == "step" else state
    u = tuple(np.roll(array, 1, axis=0) for array in state)
    results, tangents = made.jvp(function, u, *arguments, wrt=wrt)
    plain = getattr(made, function)(*arguments)
    for result, alone in zip(results, plain, strict=True):
        np.testing.assert_allclose(result, alone, rtol=1e-9, atol=1e-9)
    w = tuple(map(np.cos, plain)) if isinstance(plain, tuple) else np.cos(plain)
    bars = made.vjp(function, w, *arguments, wrt=wrt)
    expected = inner(bars, u)
    np.testing.assert_allclose(inner(w, tangents), expected, rtol=1e-8, atol=1e-8)
    again = made.jvp(function, u, *arguments, wrt=wrt, results=plain)[1]
    for one, other in zip(again, tangents, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_second_order_of_inverse_dynamics() -> None:
    """Double backward and forward over backward, against differences of ``vjp``."""
    robot = load_robot(urdf_path("two_link"))
    rng = np.random.default_rng(4)
    q, qd, qdd, tau_bar = rng.uniform(-0.5, 0.5, (4, 5, robot.nv))
    moves = tuple(rng.normal(size=(4, 5, robot.nv)))
    name = "inverse_dynamics:vjp"
    bars, changes = robot.jvp(name, moves, tau_bar, q, qd, qdd)
    step = 1e-6
    ends = [
        robot.vjp(
            "inverse_dynamics",
            tau_bar + h * moves[3],
            *(array + h * move for array, move in zip((q, qd, qdd), moves, strict=False)),
        )
        for h in (step, -step)
    ]
    for change, ahead, behind in zip(changes, *ends, strict=True):
        np.testing.assert_allclose(change, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)
    for bar, alone in zip(bars, robot.vjp("inverse_dynamics", tau_bar, q, qd, qdd), strict=True):
        np.testing.assert_allclose(bar, alone, rtol=1e-12, atol=1e-12)
    weights = tuple(rng.normal(size=(3, 5, robot.nv)))
    second = robot.vjp(name, weights, tau_bar, q, qd, qdd)
    np.testing.assert_allclose(inner(weights, changes), inner(second, moves), rtol=1e-9)


def test_what_does_not_change_and_what_is_none() -> None:
    robot = load_robot(urdf_path("two_link"))
    rng = np.random.default_rng(5)
    q, qd, qdd, u = rng.normal(size=(4, 9, 2))
    nothing = np.zeros_like(u)
    sparse = robot.jvp("inverse_dynamics", (None, u, None), q, qd, qdd)
    full = robot.jvp("inverse_dynamics", (nothing, u, nothing), q, qd, qdd)
    alone = robot.jvp("inverse_dynamics", u, q, qd, qdd, wrt="qd")
    for found in (sparse, alone):
        np.testing.assert_allclose(found, full, rtol=1e-12, atol=1e-13)
    assert not robot.jvp("inverse_dynamics", (None,) * 3, q, qd, qdd)[1].any()
    assert not np.any(robot.vjp("inverse_dynamics", None, q, qd, qdd))
    one = robot.vjp("step", (u, None), q, qd, qdd, 1e-2)
    two = robot.vjp("step", (u, nothing), q, qd, qdd, 1e-2)
    np.testing.assert_array_equal(one[:3], two[:3])
    gravity = robot.jvp("gravity_forces", np.array([0.0, 0.0, 1.0]), q, wrt="gravity")[1]
    np.testing.assert_allclose(gravity, robot.gravity_forces(q) / -9.81, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("shape", [(2,), (1, 2), (0, 2)])
def test_few_states(shape: tuple[int, ...]) -> None:
    robot = load_robot(urdf_path("two_link"))
    x = np.full(shape, 0.3)
    for function in ("inverse_dynamics", "forward_dynamics"):
        results, tangents = robot.jvp(function, (x, None, x), x, x, x)
        assert results.shape == tangents.shape == shape
        assert all(bar.shape == shape for bar in robot.vjp(function, x, x, x, x))
    out = (np.empty(shape), np.empty(shape))
    assert robot.jvp("inverse_dynamics", (x, x, x), x, x, x, out=out) is out


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("place", ["q", "tangent", "results", "elsewhere"])
def test_accelerations_go_where_the_caller_wants_them(is_known: bool, place: str) -> None:
    """Two kernels read what the first of them may write."""
    robot = load_robot(urdf_path("two_link"))
    rng = np.random.default_rng(6)
    q, qd, tau, u = rng.normal(size=(4, 5, 2))
    expected = robot.jvp("forward_dynamics", (u, None, None), q, qd, tau)
    accelerations = expected[0].copy()
    known = {"results": accelerations} if is_known else {}
    rooms = {"q": q, "tangent": u, "results": accelerations, "elsewhere": np.empty((5, 2))}
    other = np.empty((5, 2))
    for out in [(rooms[place], other), (other, rooms[place])]:
        kept = [array.copy() for array in (q, u, accelerations)]
        found = robot.jvp("forward_dynamics", (u, None, None), q, qd, tau, **known, out=out)
        assert found is out
        np.testing.assert_array_equal(out, expected)
        for array, numbers in zip((q, u, accelerations), kept, strict=True):
            array[...] = numbers
    with pytest.raises(ShapeError, match="share memory"):
        robot.jvp("forward_dynamics", (u, None, None), q, qd, tau, out=(other, other))


@pytest.mark.parametrize(
    ("error", "function", "arguments", "options", "words"),
    [
        (OptionError, "inverse_dynamics:grad", 4, {}, "what follows"),
        (OptionError, "inverse_dynamics:vjp:vjp", 6, {}, "second order"),
        (OptionError, "inverse_dynamics:jvp", 5, {}, "take that of a vjp"),
        (OptionError, "rollout", 5, {}, "those of step"),
        (ShapeError, "inverse_dynamics", 4, {"wrt": ("q", "qd")}, "tangents are 3 arrays"),
        (OptionError, "inverse_dynamics", 4, {"wrt": ("dt",)}, "does not read"),
        (OptionError, "inverse_dynamics", 4, {"out": np.zeros((2, 2))}, "give two"),
    ],
)
def test_what_is_wrong_is_named(
    error: type[GridGenError], function: str, arguments: int, options: dict[str, Any], words: str
) -> None:
    robot = load_robot(urdf_path("two_link"))
    zeros = np.zeros((2, 2))
    with pytest.raises(error, match=words):
        robot.jvp(function, (zeros,) * 3, *[zeros] * (arguments - 1), **options)
    with pytest.raises(DtypeError, match="tau_bar is not an array"):
        robot.vjp("inverse_dynamics", [[1.0, 2.0], [3.0]], zeros, zeros, zeros)


def test_a_module_has_them_when_asked_to(tmp_path) -> None:
    options = gridgen.GenerateOptions(output=tmp_path, functions=("inverse_dynamics",), jvp=True)
    folder = gridgen.generate(urdf_path("two_link"), options).folder
    module = gridgen.robot.open_module(str(folder / "__init__.py"))
    x = np.full((3, 2), 0.4)
    loaded = load_robot(urdf_path("two_link")).jvp("inverse_dynamics", (x, x, x), x, x, x)
    np.testing.assert_array_equal(module.jvp("inverse_dynamics", (x, x, x), x, x, x), loaded)
    sparse = module.jvp("inverse_dynamics", (x, None, None), x, x, x)
    zeros = np.zeros_like(x)
    full = module.jvp("inverse_dynamics", (x, zeros, zeros), x, x, x)
    np.testing.assert_array_equal(sparse, full)


def test_a_module_with_a_product_by_all_has_room_for_some(tmp_path) -> None:
    options = gridgen.GenerateOptions(output=tmp_path, functions=("inverse_dynamics",), vjp=True)
    folder = gridgen.generate(urdf_path("two_link"), options).folder
    module = gridgen.robot.open_module(str(folder / "__init__.py"))
    x = np.full((3, 2), 0.4)
    whole = module.vjp("inverse_dynamics", x, x, x, x)
    room = np.empty((3, 2))
    assert module.vjp("inverse_dynamics", x, x, x, x, wrt="qd", out=room) is room
    np.testing.assert_array_equal(room, whole[1])
    for out in [np.empty((4, 3, 2)), (room, room)]:
        with pytest.raises(GridGenError, match="out"):
            module.vjp("inverse_dynamics", x, x, x, x, wrt="qd", out=out)
