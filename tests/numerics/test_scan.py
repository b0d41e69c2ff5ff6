"""Scan kernels on the emulated backend against the reference, with what they find on the way."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gridgen
from gridgen.check import FORWARD, conditioning, random_states
from gridgen.dynamics.aba import forward_dynamics_aba
from gridgen.dynamics.functions import COMPUTATIONS
from gridgen.dynamics.reference import evaluate_reference
from gridgen.dynamics.rnea import inverse_dynamics
from gridgen.papers.halves import articulated_accelerations
from gridgen.symbolic.scalars import FloatScalars
from helpers.dynamics import state_at
from helpers.robots import (
    example_urdf,
    exhaustive,
    joint_text,
    link_text,
    refused,
    refused_kernel,
    robot_text,
    some,
    spread,
)
from helpers.scan import (
    EACH_KERNEL,
    KERNELS,
    module_of,
    random_inputs,
    reference,
    relative_error,
    run,
    tree_of,
    tree_of_text,
)

# Kernels with one result; test_scan_second_order.py tests the other.
LOADED = tuple(name for name in EACH_KERNEL if not KERNELS[name].memory)

EPS = float(np.finfo(np.float64).eps)

# Robots of a few dozen bodies; a long chain's matrix is worse conditioned, see LONG.
EXACT = {"float64": 1e-12, "float32": 2e-5}

# Forward dynamics through the mass matrix, or through the bias torques (prefix sums eq. 16, 18),
# loses the digits that the condition of a long chain's mass matrix costs (docs/results).
LONG = {
    "inverse_dynamics_scan": 1e-13,
    "inverse_dynamics_scan_synchronous": 1e-13,
    "forward_dynamics_aba_scan": 1e-12,
    "forward_dynamics_aba_scan_unmerged": 1e-10,
    "forward_dynamics_aba_hybrid": 1e-10,
    "forward_dynamics_jsiia_scan": 1e-9,
}


def check(tree, function, tolerance, *, dtype="float64", threads=None, batch=3):
    module = module_of(tree, function, threads, observed=False)
    inputs = random_inputs(tree, function, batch, dtype)
    output, _ = run(module, function, inputs, dtype)
    expected = reference(tree, function, inputs)
    if function.startswith("forward_dynamics") and dtype == "float64":
        tolerance = max(tolerance, 2 * FORWARD * EPS * amplification(tree, inputs, expected))
    assert relative_error(output, expected) <= tolerance
    return output


def amplification(tree, inputs, qdd):
    """Return by how much the worst state's equations amplify rounding errors."""
    M = evaluate_reference(tree, "mass_matrix", inputs)[0]
    bias = inputs["h"] if "h" in inputs else bias_of(tree, inputs)
    return conditioning(M, bias, inputs["tau"], qdd).max()


def bias_of(tree, inputs):
    """Return the efforts without accelerations."""
    function = "bias_forces_f_ext_base_motion" if "f_ext" in inputs else "bias_forces"
    return evaluate_reference(tree, function, inputs)[0]


OURS = [
    *((name, False) for name in ("pendulum", "two_link", "cart_pole", "arm6", "arm7")),
    ("gripper", False),  # floating, its massless root has a singular mass matrix
    ("screws", True),
    *((name, True) for name in ("quadruped", "humanoid")),
]
OTHERS = [
    *((name, False) for name in ("panda", "ur5_robot", "xarm7", "z1", "allegro_left_hand")),
    *((name, True) for name in ("go2", "solo12", "g1_29dof_rev_1_0", "icub", "talos_reduced")),
]


@refused(
    lambda name, floating_base, function: refused_kernel(
        tree_of(name, floating_base=floating_base), KERNELS[function].key
    )
)
@pytest.mark.parametrize(("name", "floating_base", "function"), spread(OURS, LOADED, 1))
def test_our_robots(name, floating_base, function):
    tree = tree_of(name, floating_base=floating_base)
    check(tree, function, EXACT["float64"])


@pytest.mark.parametrize(
    "function", ["inverse_dynamics_scan_f_ext_base_motion", "forward_dynamics_jsiia_scan"]
)
@pytest.mark.parametrize("name", ["arm7", *exhaustive("gripper", "humanoid")])
def test_float32(name, function):
    check(tree_of(name), function, EXACT["float32"], dtype="float32")


@refused(
    lambda name, function: refused_kernel(tree_of(name, floating_base=True), KERNELS[function].key)
)
@pytest.mark.parametrize(
    ("name", "function"), spread([("gripper",), ("quadruped",), ("screws",)], LOADED, 1)
)
def test_joint_dynamics_and_armatures(name, function):
    tree = tree_of(name, floating_base=True, joint_dynamics=True, armature=0.1)
    check(tree, function, EXACT["float64"])


#: A free body on a hinge, with a slide between it and another free body.
CARRIED = robot_text(
    *(link_text(name, com="0.1 -0.05 0.2") for name in ("base", "arm", "ship", "rail", "probe")),
    joint_text("a", "base", "arm", axis="0 1 0"),
    joint_text("b", "arm", "ship", "floating", axis=None, rpy="1 0.2 0.3"),
    joint_text("c", "ship", "rail", "prismatic", axis="1 0 0"),
    joint_text("d", "rail", "probe", "floating", axis=None, xyz="0.1 0.2 0"),
)


@pytest.mark.parametrize("some", [False, *exhaustive(True)], ids=["on all axes", "on some axes"])
@pytest.mark.parametrize(
    "function",
    [
        "forward_dynamics_aba_scan",
        "forward_dynamics_aba_hybrid",
        *exhaustive(*(name for name in LOADED if "aba_scan_unmerged" in name)),
    ],
)
def test_a_carrier_feels_a_free_body_by_its_armature(function, some):
    """What the articulated bodies of the reference give is not asked."""
    armature = tuple(0.1 * (j % 3 + (not some)) for j in range(14))
    tree = tree_of_text(CARRIED, armature=armature)
    inputs = random_inputs(tree, function, 3)
    qdd, _ = run(module_of(tree, function, observed=False), function, inputs)
    (M,) = evaluate_reference(tree, "mass_matrix", inputs)
    bias = inputs["h"] if "h" in inputs else bias_of(tree, inputs)
    expected = np.linalg.solve(M, (inputs["tau"] - bias)[..., None])[..., 0]
    assert relative_error(qdd, expected) <= EXACT["float64"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["aba", "jsiia", "cfa"])
def test_armature_and_damping_of_a_carried_free_body_as_inputs(method):
    parameters = ("damping",) if method == "cfa" else ("armature", "damping")
    options = {"armature": tuple(0.1 + 0.1 * (j % 3) for j in range(14)), "parameters": parameters}
    robot = gridgen.load(CARRIED, backend="emulated", **options)
    x = random_states(tree_of_text(CARRIED, **options), 3, np.random.default_rng(0))
    del x["f_ext"]
    given = {name: x[name] for name in parameters}
    qdd = robot.forward_dynamics(*(x[n] for n in ("q", "qd", "tau")), method=method, **given)
    (expected,) = evaluate_reference(tree_of_text(CARRIED, **options), "forward_dynamics_crba", x)
    assert relative_error(qdd, expected) <= EXACT["float64"]


@refused(
    lambda name, floating_base, function: refused_kernel(
        tree_of_text(example_urdf(name), floating_base=floating_base), KERNELS[function].key
    )
)
@pytest.mark.parametrize(("name", "floating_base", "function"), spread(OTHERS, LOADED, 1))
def test_robots_that_no_one_here_wrote(name, floating_base, function):
    tree = tree_of_text(example_urdf(name), floating_base=floating_base)
    check(tree, function, EXACT["float64"])


LENGTHS = [(bodies,) for bodies in (1, 2, 3, 31, 32, 33, 100, 200)]


@pytest.mark.parametrize(("bodies", "function"), spread(LENGTHS, list(LONG), 1))
def test_chains(bodies, function):
    check(tree_of(f"chain {bodies}"), function, LONG[function], batch=2)


QUICK = ("inverse_dynamics_scan",)


@pytest.mark.parametrize(
    "function",
    # One processor does in turn what a GPU does in parallel.
    [*QUICK, *exhaustive(*(name for name in LONG if name not in QUICK))],
)
def test_a_chain_of_a_thousand_bodies(function):
    """64 threads take 16 bodies each: fewer to wait for one another than would suit a GPU."""
    tree = tree_of("chain 1000")
    inputs = random_inputs(tree, function, 1)
    output, _ = run(module_of(tree, function, 64, observed=False), function, inputs)
    # What is lost to rounding between 200 and 1000 bodies: docs/results/accuracy.md.
    lost = 1e2 if function.startswith("forward_dynamics") else 1.0
    assert relative_error(output, reference(tree, function, inputs)) <= lost * LONG[function]


@pytest.mark.parametrize(("bodies", "function"), spread([(50,), (300,)], list(LONG), 1))
def test_trees(bodies, function):
    check(tree_of(f"tree {bodies}"), function, LONG[function], batch=2)


@pytest.mark.parametrize("function", some(LONG, QUICK))
@pytest.mark.parametrize("name", [*exhaustive("chain 70"), "tree 70"])
def test_results_do_not_depend_on_the_number_of_threads(name, function):
    """96 threads take one body each, 64 two or one, 32 three or two; the bits are the same."""
    tree = tree_of(name, floating_base=True)
    outputs = [
        check(tree, function, LONG[function], threads=threads, batch=1) for threads in (96, 64, 32)
    ]
    assert_array_equal(outputs[0], outputs[1])
    assert_array_equal(outputs[0], outputs[2])


@pytest.mark.parametrize("function", some(LONG, list(LONG)[::3]))
def test_results_do_not_depend_on_the_batch(function):
    """States that fill a block, that do not, and one alone, in blocks of any size."""
    tree = tree_of("arm7")
    inputs = random_inputs(tree, function, 35)
    module, small = module_of(tree, function), module_of(tree, function, threads=32)
    together, _ = run(module, function, inputs)
    for states in (slice(0, 35), slice(0, 5), slice(34, 35)):
        part = {name: array[states] for name, array in inputs.items()}
        assert_array_equal(run(module, function, part)[0], together[states])
        assert_array_equal(run(small, function, part)[0], together[states])


# -- what is found on the way -----------------------------------------------------------------


def kept(scalars, symbols, body, batch):
    """Return quantities that the reference kept, side by side: (batch, numbers)."""
    numbers = [
        n for symbol in symbols for n in np.ravel(flat(scalars.named[symbol, body])).tolist()
    ]
    return np.stack([np.broadcast_to(number, batch) for number in numbers], axis=1)


def flat(value):
    """Return the entries of nested tuples of arrays, as an array of objects."""
    entries = []

    def walk(part):
        if isinstance(part, tuple):
            for entry in part:
                walk(entry)
        else:
            entries.append(part)

    walk(value)
    array = np.empty(len(entries), object)
    array[:] = entries
    return array


def assert_found(seen, expected, symbol):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-11 * scale, err_msg=symbol)


@pytest.mark.parametrize(
    "function",
    [
        "inverse_dynamics_scan_f_ext_base_motion",
        "inverse_dynamics_scan_synchronous_f_ext_base_motion",
        "forward_dynamics_jsiia_scan_f_ext_base_motion",
    ],
)
@pytest.mark.parametrize("name", ["quadruped", "chain 40"])
def test_motions_and_wrenches(name, function):
    tree = tree_of(name, floating_base=True)
    inputs = random_inputs(tree, function, 2)
    module = module_of(tree, function)
    _, seen = run(module, function, inputs, observed=True)

    scalars = FloatScalars()
    state, rows = state_at(tree, inputs, scalars)
    inverse_dynamics(state, rows.get("qdd"))
    for body in range(len(tree.bodies)):
        V, A, F = (seen[symbol][:, body] for symbol in "VAF")
        assert_found(V[:, 3:], kept(scalars, ["w"], body, 2), f"angular velocity of body {body}")
        # The reference has the acceleration of the origin, not the derivative of V.
        point = A[:, :3] + np.cross(V[:, 3:], V[:, :3])
        assert_found(point, kept(scalars, ["a"], body, 2), f"acceleration of body {body}")
        assert_found(A[:, 3:], kept(scalars, ["wd"], body, 2), f"angular acceleration of {body}")
        assert_found(F, kept(scalars, ["f", "n"], body, 2), f"transmitted wrench of body {body}")


@pytest.mark.parametrize("name", ["quadruped", "chain 40"])
def test_articulated_bodies(name):
    function = "forward_dynamics_aba_scan_f_ext_base_motion"
    tree = tree_of(name, floating_base=True)
    inputs = random_inputs(tree, function, 2)
    _, seen = run(module_of(tree, function), function, inputs, observed=True)

    scalars = FloatScalars()
    state, rows = state_at(tree, inputs, scalars)
    forward_dynamics_aba(state, rows["tau"])
    for body in range(len(tree.bodies)):
        if tree.children[body]:
            inertia = kept(scalars, ["M", "H", "I"], body, 2)
            assert_found(seen["J"][:, body], inertia, f"articulated inertia of body {body}")
        wrench = kept(scalars, ["f", "n"], body, 2)
        assert_found(seen["p"][:, body], wrench, f"bias wrench of body {body}")
        acceleration = kept(scalars, ["dv", "dw"], body, 2)
        assert_found(seen["a"][:, body], acceleration, f"acceleration of body {body}")


@pytest.mark.parametrize("name", ["quadruped", "chain 40"])
def test_the_second_half_alone(name):
    function = "forward_dynamics_aba_hybrid"
    tree = tree_of(name, floating_base=True)
    inputs = random_inputs(tree, function, 2)
    _, seen = run(module_of(tree, function), function, inputs, observed=True)
    assert_array_equal(seen["J"], inputs["articulated"])

    scalars = FloatScalars()
    state, rows = state_at(tree, inputs, scalars)
    articulated_accelerations(state, *(rows[key] for key in ("tau", "h", "articulated")))
    for body in range(len(tree.bodies)):
        if tree.children[body]:
            wrench = kept(scalars, ["f", "n"], body, 2)
            assert_found(seen["p"][:, body], wrench, f"wrench on body {body}")
        acceleration = kept(scalars, ["dv", "dw"], body, 2)
        assert_found(seen["a"][:, body], acceleration, f"acceleration of body {body}")


def test_every_kernel_has_the_arrays_of_the_function_it_computes():
    for name, kernel in KERNELS.items():
        assert kernel.name == name
        assert kernel.same.name in COMPUTATIONS or kernel.same.step
