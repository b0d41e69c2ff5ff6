"""Numbers of the robot that are inputs, in every function: against Pinocchio, its model changed."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gridgen
from gridgen.check import compare_function, random_states, relative_errors
from gridgen.compiler import read_tree
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.reference import evaluate_reference
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.functions.arrays import OWN_PARAMETERS
from gridgen.model.tree import KinematicTree
from gridgen.options import RobotOptions
from gridgen.runtime.calls.compiled import CompiledKernels
from gridgen.schedules import KernelSelection, Schedules
from gridgen.schedules.thread.plan import is_never_in_loops, plan_loops
from helpers.oracle import Oracle
from helpers.programs import plan_thread
from helpers.robots import (
    CONSTRAINTS,
    OWN,
    TESTED_APART,
    exhaustive,
    joint_text,
    link_text,
    robot_text,
)
from numerics.robots import Arrays, load_tree, run_program, urdf_path

STATES = 4
#: Relative; forward dynamics of these robots loses up to three digits.
TOLERANCE = 1e-9
JOINTS = ("armature", "damping")
#: A tip on a tilted mount, two links on one body, one without mass, a slide along a skew axis.
TILTED = robot_text(
    *(link_text(name, com="0.1 0.2 0.3") for name in ("base", "arm", "slider", "tool", "tip")),
    '<link name="mount"/>',
    joint_text("a", "base", "arm", axis="0.6 0 0.8"),
    joint_text("b", "arm", "slider", "prismatic", axis="1 2 2", rpy="0.3 -0.4 0.5"),
    joint_text("c", "slider", "mount", "fixed", xyz="0.1 0 0.2", rpy="0.2 0.7 -1.1"),
    joint_text("d", "mount", "tool", "fixed", xyz="0 0.3 0", rpy="1 0 0"),
    joint_text("e", "tool", "tip", xyz="0.2 0.1 0", rpy="0.1 0.2 0.3", axis="0 1 0"),
)
CASES = [
    pytest.param(TILTED, False, ("mount", "tool", "arm"), id="tilted"),
    pytest.param(TILTED, True, ("tool", "base", *JOINTS), id="tilted-floating"),
    pytest.param(TILTED, False, ("all",), id="tilted-all"),
    pytest.param("arm7", False, ("hand",), id="arm7"),
    pytest.param("gripper", False, ("all", *JOINTS), id="gripper"),
    pytest.param("quadruped", True, ("all", *JOINTS), id="quadruped"),
]
LARGE = [
    pytest.param(name, floating, ("all", *JOINTS), marks=pytest.mark.exhaustive)
    for name, floating in (("humanoid", True), ("arm6", False), ("cart_pole", True), ("pr2", False))
]


def source(robot: str):
    return robot if robot.startswith("<") else urdf_path(robot)


def tree_and_states(robot: str, floating: bool, parameters, count: int = STATES):
    tree = read_tree(
        source(robot),
        RobotOptions(
            floating_base=floating,
            joint_dynamics="damping" in parameters,
            armature=0.1,
            parameters=parameters,
        ),
    )
    return tree, random_states(tree, count, np.random.default_rng(tree.nv))


class ChangedOracle(Oracle):
    """Pinocchio with a state's numbers in place of the file's."""

    def __init__(self, tree: KinematicTree, robot: str) -> None:
        super().__init__(tree, source(robot))
        self._frames = [
            self.model.getFrameId(name, pinocchio.BODY) for name in tree.parameter_names
        ]
        self._own = [inertia.copy() for inertia in self.model.inertias]

    def take(self, x: Arrays, i: int) -> None:
        """Make the model that of a state."""
        numbers = [inertia.toDynamicParameters() for inertia in self._own]
        own = self.tree.parameters.get("params", ())
        for row, frame in enumerate(self._frames):
            frame = self.model.frames[frame]
            # About the joint: what the link has more than the file gives it.
            for values, sign in ((x["params"][i, row], 1.0), (np.array(own[row]), -1.0)):
                numbers[frame.parentJoint] += sign * moved(frame.placement, values)
        for joint, values in enumerate(numbers):
            self.model.inertias[joint] = pinocchio.Inertia.FromDynamicParameters(values)

    def state(self, x: Arrays, i: int) -> dict[str, np.ndarray]:
        """Return the results of one state, of functions that Pinocchio has as they are."""
        self.take(x, i)
        one = {name: value[i : i + 1] for name, value in x.items()}
        names = ("inverse_dynamics", "bias_forces", "mass_matrix", "forward_dynamics_crba")
        found = {name: self.evaluate(name, one)[0] for name in names}
        q, v, V, _ = self._state(x, i)
        model, data = self.model, self.data
        found["center_of_mass"] = pinocchio.centerOfMass(model, data, q).copy()
        found["center_of_mass_jacobian"] = pinocchio.jacobianCenterOfMass(model, data, q) @ V
        pinocchio.ccrba(model, data, q, v)
        found["centroidal_momentum_matrix"] = data.Ag @ V
        found["centroidal_momentum"] = data.hg.vector.copy()
        kinetic = pinocchio.computeKineticEnergy(model, data, q, v)
        rate = x["qd"][i]
        found["kinetic_energy"] = kinetic + 0.5 * (self.armature(x, i) * rate) @ rate
        found["potential_energy"] = pinocchio.computePotentialEnergy(model, data, q)
        found["gravity_forces"] = V.T @ pinocchio.computeGeneralizedGravity(model, data, q)
        found["coriolis_matrix"] = V.T @ pinocchio.computeCoriolisMatrix(model, data, q, v) @ V
        return found


def moved(placement: pinocchio.SE3, values: np.ndarray) -> np.ndarray:
    """Return ten numbers about the joint; by matrices, for Pinocchio divides by the mass."""
    m, h, (xx, xy, yy, xz, yz, zz) = values[0], values[1:4], values[4:]
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    spatial = np.zeros((6, 6))
    spatial[:3, :3] = m * np.eye(3)
    spatial[3:, :3] = pinocchio.skew(h)
    spatial[:3, 3:] = spatial[3:, :3].T
    spatial[3:, 3:] = inertia
    to_link = placement.inverse().toActionMatrix()
    there = to_link.T @ spatial @ to_link
    I = there[3:, 3:]  # noqa: E741
    return np.array(
        [
            m,
            *pinocchio.unSkew(there[3:, :3]),
            *(I[0, 0], I[0, 1], I[1, 1], I[0, 2], I[1, 2], I[2, 2]),
        ]
    )


@pytest.mark.parametrize(("robot", "floating", "parameters"), [*CASES, *LARGE])
def test_functions_are_those_of_the_changed_model(robot, floating, parameters):
    tree, x = tree_and_states(robot, floating, parameters)
    del x["f_ext"]
    oracle = ChangedOracle(tree, robot)
    expected = [oracle.state(x, i) for i in range(STATES)]
    for name in expected[0]:
        (ours,) = evaluate_reference(tree, name, x)
        errors = relative_errors(ours, np.array([state[name] for state in expected]))
        assert errors.max() <= TOLERANCE, name


def is_second(name):
    """Tell whether a function's program is of second order, and long."""
    return "second_order" in name or "hessian" in name


def check_programs(tree: KinematicTree, names, x: Arrays, plan=plan_thread) -> None:
    for name in names:
        row = compare_function(tree, name, "float64", x, run_program(tree, plan(tree, name), x))
        assert row.passed, row


def test_programs_compute_what_the_reference_computes():
    tree, x = tree_and_states(TILTED, True, ("tool", "base", *JOINTS), 2)
    names = ("inverse_dynamics", "forward_dynamics_aba", "centroidal_momentum", "kinetic_energy")
    check_programs(tree, names, x)
    check_programs(tree, ("inverse_dynamics", "center_of_mass"), x, plan_loops)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("robot", "floating", "parameters"), [*CASES, *LARGE])
def test_every_program_does(robot, floating, parameters):
    tree, x = tree_and_states(robot, floating, parameters)
    kernels, _ = Schedules(tree).select(KernelSelection(GENERATED, [], ()))
    chosen = [kernel.name for kernel in kernels if kernel.team is None and not kernel.calls]
    assert len(chosen) > 15
    chosen = [name for name in chosen if tree.nv <= 7 or not is_second(name)]
    check_programs(tree, chosen, x)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("robot", "floating", "parameters"), [*CASES[1:5], *LARGE[:1]])
def test_every_loop_does(robot, floating, parameters):
    tree, x = tree_and_states(robot, floating, parameters)
    kernels, _ = Schedules(tree).select(KernelSelection(GENERATED, [], ()))
    names = [kernel.name for kernel in kernels if kernel.team is None and not kernel.calls]
    keys = {name: computation_of(tree, name).key for name in names}
    names = [
        name
        for name, key in keys.items()
        if FUNCTIONS[key.function].parameters and not is_never_in_loops(tree, key)
    ]
    check_programs(tree, [name for name in names if not is_second(name)], x, plan_loops)


@pytest.mark.parametrize("name", ["inverse_dynamics_gradient", "forward_dynamics_gradient"])
def test_gradients_are_those_of_complex_steps(name):
    tree, x = tree_and_states(TILTED, False, ("mount", "tool", *JOINTS), 2)
    function = {"inverse": "inverse_dynamics", "forward": "forward_dynamics_aba"}[name[:7]]
    results = evaluate_reference(tree, name, x)
    for result, argument in zip(results, ("q", "qd", "tau"), strict=False):
        for j in range(tree.nv):
            step = x[argument].astype(complex)
            step[:, j] += 1e-30j
            (changed,) = evaluate_reference(tree, function, {**x, argument: step})
            errors = relative_errors(result[..., j], changed.imag / 1e-30)
            assert errors.max() <= TOLERANCE


@pytest.mark.parametrize("parameters", ["all", *exhaustive("hand", JOINTS)])
def test_by_default_the_numbers_are_the_files(parameters):
    folded = load_tree(OWN / "arm7.urdf", constraints="arm7")
    options = RobotOptions(parameters=parameters, constraints=CONSTRAINTS["arm7"])
    tree = read_tree(OWN / "arm7.urdf", options)
    x = random_states(folded, STATES, np.random.default_rng(0))
    for name in GENERATED:
        if FUNCTIONS[name].of_frame or is_second(name) or name in TESTED_APART:
            continue
        for method in FUNCTIONS[name].methods:
            key = "_".join(filter(None, (name, method)))
            if (
                FUNCTIONS[name].methods[method].algorithm
                and "q" in computation_of(tree, key).inputs
            ):
                ours, theirs = (evaluate_reference(t, key, x) for t in (tree, folded))
                for one, other in zip(ours, theirs, strict=True):
                    scale = max(np.abs(other).max(), 1e-30)
                    assert_allclose(one / scale, other / scale, rtol=0, atol=1e-11, err_msg=key)


def test_rows_of_all_bodies_are_those_of_the_regressor():
    tree, x = tree_and_states("quadruped", True, "all")
    (Y,) = evaluate_reference(tree, "joint_torque_regressor", x)
    (tau,) = evaluate_reference(tree, "inverse_dynamics", x)
    rigid = tau - np.array(tree.armature) * x["qdd"]
    assert_allclose(np.einsum("bij,bj->bi", Y, x["params"].reshape(STATES, -1)), rigid, atol=1e-10)


def test_functions_that_read_no_inertia_do_not_change():
    tree, _ = tree_and_states("arm7", False, ("all", *OWN_PARAMETERS[1:]))
    for name in GENERATED:
        row = FUNCTIONS[name]
        if not row.of_frame and "" in row.methods:
            extra = set(computation_of(tree, name).inputs) - set(row.inputs)
            assert extra == set(row.parameters) & {*OWN_PARAMETERS}
    moving = {"integrate", "forward_kinematics", "joint_torque_regressor"}
    assert not any(FUNCTIONS[name].parameters for name in moving)
    assert set(FUNCTIONS["forward_dynamics"].parameters) == set(OWN_PARAMETERS)


# -- compiled ---------------------------------------------------------------------------------


def robot_and_arguments(backend: str, parameters=("hand", *JOINTS), dtype: str = "float64"):
    tree, x = tree_and_states("arm7", False, parameters, 7)
    robot = gridgen.load(
        OWN / "arm7.urdf",
        armature=0.1,
        joint_dynamics="damping" in parameters,
        parameters=parameters,
        backend=backend,
    )
    states = {name: value.astype(dtype) for name, value in x.items()}
    return tree, robot, states


@pytest.mark.parametrize("dtype", ["float32", *exhaustive("float64")])
def test_every_layout_of_the_inputs(dtype):
    tree, robot, x = robot_and_arguments("cpu", ("hand", *OWN_PARAMETERS[1:]), dtype)
    exact = {name: value.astype(np.float64) for name, value in x.items()}
    (expected,) = evaluate_reference(tree, "inverse_dynamics", exact)
    given = {name: x[name] for name in OWN_PARAMETERS}
    arguments = (x["q"], x["qd"], x["qdd"])
    tau = robot.inverse_dynamics(*arguments, **given)
    assert relative_errors(tau, expected).max() <= {"float32": 2e-5, "float64": 1e-12}[dtype]

    spread = np.zeros((7, 1, 30), dtype)
    spread[..., ::3] = given["params"]
    layouts = [spread[..., ::3], np.asfortranarray(given["params"]), given["params"][::-1][::-1]]
    for params in layouts:
        same = robot.inverse_dynamics(*arguments, **given | {"params": params})
        assert_array_equal(same, tau)
    one = robot.inverse_dynamics(*(a[3] for a in arguments), **{k: v[3] for k, v in given.items()})
    assert_array_equal(one, tau[3])
    shared = {name: value[3] for name, value in given.items()}
    assert_array_equal(robot.inverse_dynamics(*arguments, **shared)[3], tau[3])
    bound = robot.bind("inverse_dynamics", *arguments, **given)
    assert_array_equal(bound(), tau)
    given["params"][...] = robot.parameters()
    assert_array_equal(bound(), robot.inverse_dynamics(*arguments, **given))


@pytest.mark.parametrize(
    ("schedule", "method"),
    [
        ("scan", "aba"),
        ("scan", "cfa"),
        pytest.param("scan", "jsiia", marks=pytest.mark.exhaustive),
    ],
)
def test_schedules_agree(schedule, method):
    parameters = "hand" if method == "cfa" else ("hand", *JOINTS)
    _, robot, x = robot_and_arguments("emulated", parameters)
    given = {name: x[name] for name in OWN_PARAMETERS if name in x}
    arguments = (x["q"], x["qd"], x["tau"])
    expected = robot.forward_dynamics(*arguments, **given, backend="cpu")
    qdd = robot.forward_dynamics(*arguments, **given, schedule=schedule, method=method)
    assert relative_errors(qdd, expected).max() <= TOLERANCE


@pytest.mark.exhaustive
@pytest.mark.parametrize(("robot", "floating", "parameters"), CASES)
def test_every_kernel_of_teams(robot, floating, parameters):
    tree, x = tree_and_states(robot, floating, parameters)
    loaded = gridgen.load(
        source(robot),
        floating_base=floating,
        joint_dynamics="damping" in parameters,
        armature=0.1,
        parameters=parameters,
        backend="emulated",
    )
    for name, kernel in loaded.kernels.items():
        if kernel.team is not None:
            results = loaded.evaluate(name, x)
            row = compare_function(tree, kernel.same.name, "float64", x, results, kernel.key.method)
            assert row.passed, (name, row)


@pytest.mark.parametrize("integrator", ["implicit", *exhaustive("semi_implicit", "rk4")])
def test_rollouts_are_steps(integrator):
    parameters = ("all", *OWN_PARAMETERS[1:])
    tree, x = tree_and_states("two_link", False, parameters)
    robot = gridgen.load(
        OWN / "two_link.urdf", armature=0.1, joint_dynamics=True, parameters=parameters
    )
    given = {name: x[name] for name in OWN_PARAMETERS} | {"integrator": integrator}
    step = robot.step(x["q"], x["qd"], x["tau"], x["dt"], **given)
    for ours, reference in zip(
        step, evaluate_reference(tree, f"step_{integrator}", x), strict=True
    ):
        assert relative_errors(ours, reference).max() <= TOLERANCE
    tau = np.stack([x["tau"], -x["tau"]], axis=1)
    q, qd = robot.rollout(x["q"], x["qd"], tau, x["dt"], **given)
    assert_array_equal(q[:, 1], step[0])
    last = robot.step(*step, tau[:, 1], x["dt"], **given)
    assert_array_equal(q[:, 2], last[0])
    assert_array_equal(qd[:, 2], last[1])


def test_new_numbers_compile_nothing(monkeypatch):
    compiled = []
    made = CompiledKernels._compile

    def noted(self, *arguments):
        compiled.append(arguments[0].name)
        return made(self, *arguments)

    monkeypatch.setattr(CompiledKernels, "_compile", noted)
    robot = gridgen.load(OWN / "arm7.urdf", parameters="hand")
    rng = np.random.default_rng(0)
    q, qd, tau = rng.normal(size=(3, 4096, robot.nv))
    results = []
    for _ in range(3):
        params = gridgen.inertia(rng.uniform(0.1, 3.0, (4096, 1)), rng.normal(size=3) * 0.1)
        results.append(robot.forward_dynamics(q, qd, tau, params=params))
    robot.forward_dynamics(q, qd, tau)
    assert compiled == ["forward_dynamics_aba"]
    assert np.abs(results[0] - results[1]).max() > 1.0
