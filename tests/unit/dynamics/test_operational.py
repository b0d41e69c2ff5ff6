"""Operational space against Pinocchio's Jacobians and mass matrices."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose

import gridgen
from gridgen.check import compare_function, random_states
from gridgen.dynamics.functions import frame_computations
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import ModelError
from gridgen.functions.types import REFERENCES
from helpers.dynamics import load_tree, robot_path
from helpers.oracle import Oracle

FRAMES = {
    "local": pinocchio.ReferenceFrame.LOCAL,
    "world": pinocchio.ReferenceFrame.WORLD,
    "local_world_aligned": pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED,
}
CASES = [
    ("ur5_robot", False, "tool0"),
    ("panda", False, "panda_hand"),
    ("tiago", False, "arm_6_link"),
    ("solo12", True, "HR_FOOT"),
    ("talos_reduced", True, "arm_right_7_link"),
]


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize(("name", "floating", "frame"), CASES)
def test_operational_space_is_that_of_pinocchios_matrices(
    name: str, floating: bool, frame: str, reference: str
) -> None:
    tree = load_tree(name, floating, armature=0.1)
    oracle = Oracle(tree, robot_path(name))
    model, data, which = oracle.model, oracle.data, oracle.model.getFrameId(frame)
    x = random_states(tree, 3, np.random.default_rng(len(name)))
    del x["f_ext"]
    M, h = (oracle.evaluate(function, x) for function in ("mass_matrix", "bias_forces"))
    named = frame_computations(tree, [frame])

    def result(function: str) -> np.ndarray:
        key = named[f"{function}_{frame}_{reference}"].key
        return evaluate_reference(tree, key, x)[0]

    drift = evaluate_reference(tree, named[f"jacobian_dot_qd_{frame}_{reference}"].key, x)[0]
    Lambda, point, Jbar, bias = map(
        result,
        (
            "operational_space_inertia",
            "point_inertia",
            "dynamically_consistent_inverse",
            "operational_space_bias",
        ),
    )
    for i in range(3):
        q = oracle.position(x["q"][i])
        J = pinocchio.computeFrameJacobian(model, data, q, which, pinocchio.ReferenceFrame.LOCAL)
        pinocchio.framesForwardKinematics(model, data, q)
        pinocchio.computeJointJacobians(model, data, q)
        J = pinocchio.getFrameJacobian(model, data, which, FRAMES[reference]) @ oracle.spread
        Minv = np.linalg.inv(M[i])
        A = J @ Minv @ J.T
        tolerance = 1e-13 * np.linalg.cond(A) * np.linalg.cond(M[i])
        expected = np.linalg.inv(A)
        size = np.abs(expected).max()
        assert_allclose(Lambda[i], expected, rtol=0, atol=tolerance * size)
        expected_point = np.linalg.inv(A[:3, :3])
        assert_allclose(
            point[i], expected_point, rtol=0, atol=tolerance * np.abs(expected_point).max()
        )
        assert_allclose(J @ Jbar[i], np.eye(6), rtol=0, atol=tolerance)
        expected = Minv @ J.T @ expected
        assert_allclose(Jbar[i], expected, rtol=0, atol=tolerance * np.abs(expected).max())
        expected = Jbar[i].T @ h[i] - Lambda[i] @ drift[i]
        terms = np.abs(Jbar[i].T @ h[i]).max() + np.abs(Lambda[i] @ drift[i]).max()
        assert_allclose(bias[i], expected, rtol=0, atol=tolerance * terms)


def test_a_controller_is_one_call() -> None:
    """Inertia, bias and inverse of a frame by one kernel, and each by its own."""
    parts = (
        "operational_space_inertia",
        "dynamically_consistent_inverse",
        "operational_space_bias",
    )
    robot = gridgen.load(robot_path("arm6"), backend="cpu")
    tree = load_tree("arm6")
    x = random_states(tree, 4, np.random.default_rng(0))
    found = robot.compute(tuple(f"{part}:tool0" for part in parts), x["q"], x["qd"])
    named = frame_computations(tree, ["tool0"])
    for part, result in zip(parts, found, strict=True):
        key = named[f"{part}_tool0_local"].key
        assert compare_function(tree, key, "float64", x, result).passed
    M = robot.mass_matrix(x["q"])
    J = robot.jacobian(x["q"], "tool0")
    Lambda, Jbar, bias = found
    # A wrench Lambda a + bias gives the frame the acceleration a, and no other efforts do.
    a = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    tau = np.einsum("bij,bi->bj", J, Lambda @ a + bias)
    qdd = robot.forward_dynamics(x["q"], x["qd"], tau)
    drift = robot.jacobian_dot_qd(x["q"], x["qd"], "tool0")
    there = np.einsum("bij,bj->bi", J, qdd) + drift
    assert_allclose(there, np.broadcast_to(a, there.shape), atol=1e-7)
    assert_allclose(
        np.einsum("bij,bjk->bik", M, Jbar),
        np.einsum("bji,bjk->bik", J, Lambda),
        atol=1e-7 * np.abs(Lambda).max(),
    )


def test_a_link_that_few_joints_move_is_refused() -> None:
    robot = gridgen.load(robot_path("arm6"))
    q = np.zeros(robot.nq)
    with pytest.raises(ModelError, match="moves in 5 of 6 directions, turns included"):
        robot.operational_space_inertia(q, "wrist_2_link")
    with pytest.raises(ModelError, match=r"moves in . of 3 directions"):
        robot.point_inertia(q, robot.body_names[1])
