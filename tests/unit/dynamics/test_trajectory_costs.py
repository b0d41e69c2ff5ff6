"""Costs of states: gradients and Gauss-Newton Hessians against complex steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest

import gridgen
from gridgen.control.costs import Loss, Residual
from gridgen.dynamics.functions import computation_of, frame_idents
from gridgen.dynamics.reference import evaluate_reference
from gridgen.dynamics.trajectory_costs import LIMITS, extents
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from helpers.dynamics import (
    Array,
    assert_close,
    complex_step,
    position_steps,
    random_states,
    velocity_steps,
)
from helpers.robots import OWN

#: The free joint is neither the first nor the last.
ORDER = ["FR_calf_joint", "RL_hip_joint", "root_joint"]
ORDER += [f"{leg}_{j}_joint" for leg in ("RR", "FL") for j in ("thigh", "calf", "hip")]
ORDER += ["RL_thigh_joint", "FR_thigh_joint", "RL_calf_joint", "FR_hip_joint"]
#: Complex steps, relative.
STEPS = 1e-11
STATES = 3
WIDTH = 0.3
CASES = [
    pytest.param(
        *case,
        marks=pytest.mark.exhaustive if (case[0] == "gripper") == (loss == "quadratic") else (),
    )
    for loss in get_args(Loss)
    for case in (("gripper", (), loss), ("quadruped", ORDER, loss))
]


def target_of(
    tree: KinematicTree, residual: str, frame: str, q: Array, qd: Array, tau: Array
) -> Array:
    """Return the target at which a residual vanishes."""
    if residual in ("q", "qd", "tau"):
        return {"q": q, "qd": qd, "tau": tau}[residual]
    if residual in LIMITS:
        return np.zeros((len(q), 0))
    if frame:
        pose = evaluate_reference(tree, KernelKey("forward_kinematics", frame=frame), {"q": q})[0]
        found = pose[:, :3, 3] if residual == "position" else pose[:, :3, :3]
        return found.reshape(len(q), -1)
    name = "centroidal_momentum" if residual == "momentum" else residual
    return evaluate_reference(tree, name, {"q": q, "qd": qd})[0]


@pytest.mark.parametrize("residual", get_args(Residual))
@pytest.mark.parametrize(("name", "order", "loss"), CASES)
def test_derivatives_of_costs(name: str, order: list[str], loss: str, residual: str) -> None:
    robot = gridgen.load(OWN / f"{name}.urdf", floating_base=bool(order), order=order)
    tree = robot._module.tree
    nv = tree.nv
    frame = (
        frame_idents(tree)[tree.frame_names[-1]] if residual in ("position", "orientation") else ""
    )
    key = KernelKey(
        "trajectory_cost", parts=(KernelKey(residual, loss, frame=frame),), label="cost"
    )
    q, qd, _, tau = random_states(tree, STATES, 1)
    if residual in LIMITS:  # near to the limits
        limits = np.array(getattr(tree, residual))
        near = np.where(np.isfinite(limits), limits, 0.0) + np.linspace(-0.8, 0.8, tree.nq)
        places = [q_index for q_index, _, _ in robot._description.space.scalar]
        q[:, places] = near[places]
    q1, qd1, _, tau1 = random_states(tree, STATES, 2)
    rng, (m, _, p) = np.random.default_rng(3), extents(residual, tree)
    weights = rng.uniform(0.5, 2.0, (STATES, m))
    l_xx_size = 2 * nv + p * p

    def results(target: Array) -> Callable[..., list[Array]]:
        terms = np.concatenate([weights, target, np.full((STATES, 1), WIDTH)], axis=1)

        def evaluate(q: Array, qd: Array, tau: Array) -> list[Array]:
            given = np.tile(terms, (len(q) // STATES, 1))
            x = {"q": q, "qd": qd, "tau": tau, "cost_terms": given}
            return evaluate_reference(tree, key, x)

        return evaluate

    def steps(function: Callable[..., Array]) -> Array:
        """Return derivatives by positions, velocities and torques."""
        found = [
            complex_step(
                lambda moved, b, c: list(function(moved, b, c).T), position_steps(tree, q), qd, tau
            ),
            complex_step(
                lambda moved, b, c: list(function(b, moved, c).T), velocity_steps(qd), q, tau
            ),
            complex_step(
                lambda moved, b, c: list(function(b, c, moved).T), velocity_steps(tau), q, qd
            ),
        ]
        return np.concatenate(found, axis=-1)

    far = results(target_of(tree, residual, frame, q1, qd1, tau1))
    _, l_x, l_u, l_uu, _ = far(q, qd, tau)
    slope = steps(lambda *x: far(*x)[0][:, None])[:, 0]
    assert_close(np.concatenate([l_x, l_u], axis=1), slope, STEPS, "gradient")
    if residual == "tau" and "huber" in loss:  # weights of iteratively reweighted least squares
        assert_close(l_uu * (tau - tau1), l_u, STEPS, "weights")

    if residual in LIMITS if "huber" in loss else loss == "log_barrier" and residual not in LIMITS:
        return
    # The Gauss-Newton Hessian is exact where the residuals are zero, or linear.
    near = results(target_of(tree, residual, frame, q, qd, tau))
    _, _, _, l_uu, l_xx = near(q, qd, tau)
    assert l_xx.shape == (STATES, l_xx_size)
    assert computation_of(tree, key).shape("l_xx", tree) == (l_xx_size,)
    H = l_xx[:, : 2 * nv, None] * np.eye(2 * nv)
    H[:, :p, :p] += l_xx[:, 2 * nv :].reshape(STATES, p, p)
    expected = steps(lambda *x: np.concatenate(near(*x)[1:3], axis=1))
    assert_close(H, expected[:, : 2 * nv, : 2 * nv], STEPS, "Hessian by the state")
    assert_close(l_uu[..., None] * np.eye(nv), expected[:, 2 * nv :, 2 * nv :], STEPS, "by torques")


def test_parameters_that_are_inputs_have_the_robots_values() -> None:
    found = []
    key = KernelKey("trajectory_cost", parts=(KernelKey("momentum", "quadratic"),), label="cost")
    for parameters in ((), "all"):
        tree = gridgen.load(OWN / "gripper.urdf", parameters=parameters)._module.tree
        q, qd, _, tau = random_states(tree, STATES)
        x = {"q": q, "qd": qd, "tau": tau, "cost_terms": np.ones((STATES, 13))}
        found.append(np.concatenate(evaluate_reference(tree, key, x)[1:], axis=1))
    assert_close(found[1], found[0], STEPS, "with parameters")
