"""Random trees of every kind of joint, with armature and damping on every velocity.

Also without these, with external wrenches, gravity in any direction and a base that moves: for its
motion, Pinocchio's robot stands on one more free joint that moves as prescribed.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridgen.check import compare_function, random_states
from gridgen.dynamics import cfa
from gridgen.dynamics.functions import COMPUTATIONS, refusal
from gridgen.dynamics.minverse import inverse_by_responses
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import ModelError, OptionError
from gridgen.model.tree import KinematicTree
from gridgen.papers.halves import INERTIAS, REST
from gridgen.schedules.thread.plan import plan_lines, plan_loops
from helpers.dynamics import (
    COMPLEX_STEP,
    GRAVITY,
    Array,
    position_steps,
    state_of,
    velocity_steps,
)
from helpers.oracle import Oracle
from helpers.random_robots import mujoco_robots, robots
from helpers.robots import INTEGRATORS, needs
from numerics.robots import load_tree, resisting, run_program

STATES = 2
#: Relative; what is solved for loses what the condition of the mass matrix costs.
TOLERANCE = 1e-12
LOADS = ("f_ext", "base_velocity", "base_acceleration")
#: What an eigenvalue of a mass matrix, scaled to a diagonal of ones, has where it is not zero.
REGULAR = 1e-9


def examples(count: int) -> settings:
    """Return settings: so many robots, the same in every run."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


#: A few robots in every run, and many when asked for.
SIZES = [
    pytest.param(20, 4, id="few"),
    pytest.param(300, 7, id="many", marks=pytest.mark.exhaustive),
]


def loaded(urdf: str, floating: bool) -> tuple[KinematicTree, dict[str, Array]] | None:
    """Return a robot and states of it, if anything moves and one free joint is on its root."""
    try:
        tree = load_tree(urdf, **resisting(urdf, floating))
    except (ModelError, OptionError):
        return None
    x = random_states(tree, STATES, np.random.default_rng(1))
    x["qd"][0, : tree.nv // 2] = 0.0  # at rest there is no friction
    return tree, x


def value(tree: KinematicTree, function: str, x: dict[str, Array]) -> Array:
    (result,) = evaluate_reference(tree, function, x)
    return result


def assert_solves(matrix: Array, found: Array, right: Array, what: str) -> None:
    """Look at matrix found = right, state by state."""
    expected = np.linalg.solve(matrix, right[..., None])[..., 0]
    error = np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)
    limit = TOLERANCE * np.linalg.cond(matrix)
    assert (error <= limit).all(), f"{what}: {error.max():.1e}"


def assert_close(found: Array, expected: Array, what: str, tolerance: float = TOLERANCE) -> None:
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error <= tolerance, f"{what}: {error:.1e}"


def look_at_loads(tree: KinematicTree, urdf: str, x: dict[str, Array]) -> None:
    """Compare the functions that have loads with Pinocchio's."""
    oracle = Oracle(tree, urdf, moving_base=True)
    # Pinocchio has no body for each joint of a planar one.
    x["f_ext"][:, [joint is None for joint in oracle.joints]] = 0.0
    x["gravity"] = 10 * np.random.default_rng(2).normal(size=(STATES, 3))
    bias = value(tree, "bias_forces_f_ext_base_motion", x)
    expected = oracle.evaluate("bias_forces", x)
    scale = max(np.abs(expected).max(), np.abs(x["f_ext"]).max())
    assert np.abs(bias - expected).max() <= TOLERANCE * scale, "bias_forces"
    M = value(tree, "mass_matrix", x)
    effort = value(tree, "inverse_dynamics_f_ext_base_motion", x)
    left = np.einsum("bij,bj->bi", M, x["qdd"]) + bias
    assert np.abs(effort - left).max() <= 10 * TOLERANCE * np.abs(left).max(), "inverse_dynamics"
    for method in ("aba", "crba"):
        function = f"forward_dynamics_{method}_f_ext_base_motion"
        if refusal(tree, function) is None:
            assert_solves(M, value(tree, function, x), x["tau"] - bias, function)


def look_at_dynamics(tree: KinematicTree, urdf: str, x: dict[str, Array]) -> None:
    """Compare inverse dynamics with Pinocchio's, and all that solves with inverse dynamics."""
    oracle, nv = Oracle(tree, urdf), tree.nv
    M, h = value(tree, "mass_matrix", x), value(tree, "bias_forces", x)
    assert np.array_equal(M, M.swapaxes(1, 2)), "symmetric to the bit"
    at_rest = value(tree, "bias_forces", {**x, "qd": np.zeros_like(x["qd"])})
    weight = np.abs(value(tree, "gravity_forces", x) - at_rest).max()
    assert weight <= TOLERANCE * max(np.abs(at_rest).max(), 1e-3), "gravity_forces"
    assert_close(M, oracle.evaluate("mass_matrix", x), "mass_matrix")
    expected = oracle.evaluate("bias_forces", x)
    # Where all of it cancels, nothing is left to compare with.
    scale = max(np.abs(expected).max(), 1e-3)
    assert np.abs(h - expected).max() <= TOLERANCE * scale, "bias_forces"
    free = [] if tree.has_mimic else tree.bodies
    turns = [body.q_index for body in free if body.kind == "revolute"]
    turned = {**x, "q": x["q"].copy()}
    turned["q"][:, turns] += 2 * np.pi * np.arange(-1, len(turns) - 1)
    assert_close(value(tree, "mass_matrix", turned), M, "a turn more", 1e2 * TOLERANCE)
    effort = value(tree, "inverse_dynamics", x)
    assert_close(effort, h + np.einsum("bij,bj->bi", M, x["qdd"]), "inverse_dynamics")
    x = {**x, "h": h}
    for method in ("aba", "crba"):
        if refusal(tree, f"forward_dynamics_{method}") is None:
            qdd = value(tree, f"forward_dynamics_{method}", x)
            assert_solves(M, qdd, x["tau"] - h, method)
            again = value(tree, "inverse_dynamics", {**x, "qdd": qdd})
            scale = np.abs(np.einsum("bij,bj->bij", M, qdd)).max() + np.abs(x["tau"]).max()
            assert np.abs(again - x["tau"]).max() <= 1e3 * TOLERANCE * scale, method
    if refusal(tree, INERTIAS) is None:
        x["articulated"] = value(tree, INERTIAS, x)
        assert_solves(M, value(tree, REST, x), x["tau"] - h, "hybrid")
        rows = inverse_by_responses(state_of(tree, x["q"]))
        Z = np.array([[np.broadcast_to(e, STATES) for e in row] for row in rows]).transpose(2, 0, 1)
        assert_close(M @ Z, np.eye(nv), "responses", 1e2 * TOLERANCE * np.linalg.cond(M).max())
    if cfa.refusal(tree) is None:
        given = {"damping": list(x["damping"].T)}
        state = state_of(tree, x["q"], x["qd"], gravity=GRAVITY, given=given)
        found = cfa.forward_dynamics_cfa(state, list(x["tau"].T))
        assert_solves(M, np.stack(np.broadcast_arrays(*found), 1), x["tau"] - h, "cfa")
    Z = value(tree, "mass_matrix_inverse", x)
    assert_close(M @ Z, np.eye(nv), "mass_matrix_inverse", TOLERANCE * np.linalg.cond(M).max())
    dt = x["dt"][:, None]
    damped = M + dt[..., None] * x["damping"][:, None] * np.eye(nv)
    qd = evaluate_reference(tree, "step_implicit", x)[1]
    assert_solves(damped, (qd - x["qd"]) / dt, x["tau"] - h, "implicit")


def look_at_derivatives(tree: KinematicTree, x: dict[str, Array]) -> None:
    """Compare gradients, with loads too, with complex steps through the functions."""
    names = ("q", "qd", "tau")
    loads = "_f_ext_base_motion"
    count = 3 * tree.nv
    moved = {name: np.concatenate([array] * count).astype(complex) for name, array in x.items()}
    for place, name in enumerate(names):
        steps = position_steps(tree, x[name]) if name == "q" else velocity_steps(x[name])
        begin = place * tree.nv * STATES
        moved[name][begin : begin + tree.nv * STATES] = np.concatenate(steps)

    def derivatives(change: Array) -> Array:
        parts = change.reshape(count, STATES, -1).imag / COMPLEX_STEP
        return parts.transpose(1, 2, 0)

    condition = np.linalg.cond(value(tree, "mass_matrix", x)).max()
    limit = 1e2 * TOLERANCE * condition
    of_position = 2 * tree.nv
    expected = derivatives(value(tree, f"inverse_dynamics{loads}", moved))[..., :of_position]
    found = np.concatenate(evaluate_reference(tree, f"inverse_dynamics_gradient{loads}", x), axis=2)
    assert_close(found, expected, "inverse_dynamics_gradient", 10 * TOLERANCE)
    for more in ("", loads):
        expected = derivatives(value(tree, f"forward_dynamics_crba{more}", moved))
        gradient = evaluate_reference(tree, f"forward_dynamics_gradient{more}", x)
        assert_close(np.concatenate(gradient, axis=2), expected, f"forward_dynamics{more}", limit)
    for name in (*INTEGRATORS, f"{INTEGRATORS[0]}{loads}"):
        q_end, qd_end = evaluate_reference(tree, f"step_{name}", moved)
        begin = np.concatenate([evaluate_reference(tree, f"step_{name}", x)[0]] * count)
        way = value(tree, "difference", {"q0": begin, "q1": q_end})
        expected = derivatives(np.concatenate([way, qd_end], axis=1))
        found = np.concatenate(evaluate_reference(tree, f"step_gradient_{name}", x), axis=2)
        assert_close(found, expected, f"step_gradient_{name}", limit)


@pytest.mark.parametrize(("count", "most"), SIZES)
def test_dynamics(count: int, most: int) -> None:
    @examples(2 * count)
    @given(robots(most=most), st.booleans())
    def holds(urdf: str, floating: bool) -> None:
        if found := loaded(urdf, floating):
            tree, x = found
            look_at_loads(tree, urdf, dict(x))
            look_at_dynamics(tree, urdf, {k: array for k, array in x.items() if k not in LOADS})
            plain = load_tree(urdf, floating)
            x = {name: x[name] for name in ("q", "qd", "gravity")}
            expected = Oracle(plain, urdf).evaluate("bias_forces", x)
            error = np.abs(value(plain, "bias_forces", x) - expected).max()
            assert error <= TOLERANCE * max(np.abs(expected).max(), 1.0), "without losses"

    holds()


@pytest.mark.parametrize(("count", "most"), SIZES)
def test_derivatives(count: int, most: int) -> None:
    @examples(count // 2)
    @given(robots(most=most), st.booleans())
    def holds(urdf: str, floating: bool) -> None:
        if found := loaded(urdf, floating):
            look_at_derivatives(*found)

    holds()


@pytest.mark.parametrize(("count", "most"), SIZES)
def test_programs(count: int, most: int) -> None:
    """Straight-line programs and those with loops are what the reference is, run in Python."""
    functions = [
        name
        for name in COMPUTATIONS
        if not any(word in name for word in ("second_order", "hessian", "gradient_rk4"))
    ]

    @examples(count // 2)
    @given(robots(most=most), st.booleans(), st.sampled_from(functions))
    def holds(urdf: str, floating: bool, function: str) -> None:
        if (found := loaded(urdf, floating)) and refusal(found[0], function) is None:
            tree = found[0]
            x = random_states(tree, STATES, np.random.default_rng(1))
            for plan in (plan_lines, plan_loops):
                results = run_program(tree, plan(tree, function), x)
                row = compare_function(tree, function, "float64", x, results)
                assert row.passed, f"{plan.__name__}: {row}"

    holds()


@pytest.mark.parametrize(("count", "most"), SIZES)
def test_what_is_singular(count: int, most: int) -> None:
    """Robots are called singular if M is in every one of some configurations."""

    few = robots(most=3, kinds=("revolute", "prismatic"))  # axes coincide more often
    drawn = st.one_of(few, few, robots(most=most))

    @examples(8 * count)
    @given(drawn, st.booleans(), st.sampled_from([0.0, 0.0, 0.2]))
    def holds(urdf: str, floating: bool, armature: float) -> None:
        try:
            tree = load_tree(urdf, floating, armature=armature)
        except (ModelError, OptionError):
            return
        q = random_states(tree, 8, np.random.default_rng(2))["q"]
        M = value(tree, "mass_matrix", {"q": q})
        size = np.sqrt(np.maximum(np.einsum("bii->bi", M), 1e-30))
        smallest = np.linalg.eigvalsh(M / size[:, :, None] / size[:, None]).min(axis=1)
        assert (tree.singular_joint is None) == (smallest.max() > REGULAR)

    holds()


@needs("mujoco")
@pytest.mark.parametrize(("count", "most"), SIZES)
def test_accelerations_are_those_of_mujoco(count: int, most: int) -> None:
    import mujoco

    @examples(count)
    @given(mujoco_robots(most=most))
    def holds(text: str) -> None:
        model = mujoco.MjModel.from_xml_string(text)
        tree = load_tree(text, joint_dynamics=True)
        x = random_states(tree, 1, np.random.default_rng(3))
        q, qd, tau = (x[name][0] for name in ("q", "qd", "tau"))
        spread, drift, qpos = np.eye(tree.nv), np.zeros(tree.nv), q.copy()
        for start in tree.quaternions:
            qpos[start : start + 4] = np.roll(q[start : start + 4], 1)
        if tree.bodies[0].kind == "free":
            rotation = np.zeros(9)
            mujoco.mju_quat2Mat(rotation, qpos[3:7])
            spread[:3, :3] = rotation.reshape(3, 3)
            drift[:3] = np.cross(qd[3:6], qd[:3])
        data = mujoco.MjData(model)
        data.qpos, data.qvel, data.qfrc_applied = qpos, spread @ qd, spread @ tau
        mujoco.mj_forward(model, data)
        expected = spread.T @ data.qacc - drift
        M = value(tree, "mass_matrix", x)
        limit = 1e2 * TOLERANCE * np.linalg.cond(M).max()
        for method in ("aba", "crba"):
            assert_close(value(tree, f"forward_dynamics_{method}", x)[0], expected, method, limit)

    holds()
