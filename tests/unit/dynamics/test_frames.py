"""Poses and Jacobians against Pinocchio's, and complex steps."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from gridgen.dynamics import energy, frames
from gridgen.dynamics.crba import mass_matrix
from gridgen.dynamics.functions import refusal
from gridgen.dynamics.state import State
from gridgen.errors import ModelError, OptionError
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import FloatScalars
from helpers.dynamics import (
    COMPLEX_STEP,
    Array,
    assert_close,
    complex_step,
    load_tree,
    numbers,
    random_states,
    robot_path,
    state_of,
)
from helpers.oracle import Oracle
from helpers.robots import ALL_CASES, joint_text, link_text, robot_text

STATES = 5

TOLERANCE = 1e-13
"""Products along a path of a dozen rotations, relative to the largest entry."""

CASES = [
    *ALL_CASES,
    pytest.param("double_pendulum_continuous", False, id="double_pendulum_continuous-fixed"),
]
REFERENCES = {
    "local": pinocchio.LOCAL,
    "world": pinocchio.WORLD,
    "local_world_aligned": pinocchio.LOCAL_WORLD_ALIGNED,
}


def load(name: str, floating: bool) -> tuple[KinematicTree, Oracle]:
    tree = load_tree(name, floating)
    return tree, Oracle(tree, robot_path(name))


def frame_id(oracle: Oracle, name: str) -> int:
    return int(oracle.model.getFrameId(name, pinocchio.FrameType.BODY))


def some_frames(tree: KinematicTree) -> list[str]:
    """Return the root, a frame in the middle, and the last three."""
    names = tree.frame_names
    return list(dict.fromkeys((names[0], names[len(names) // 2], *names[-3:])))


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_poses_are_pinocchios(name, floating):
    tree, oracle = load(name, floating)
    q, *_ = random_states(tree, STATES)
    poses = numbers(frames.forward_kinematics(state_of(tree, q)), STATES)
    assert poses.shape == (STATES, len(tree.frames), 4, 4)
    for state in range(STATES):
        pinocchio.framesForwardKinematics(oracle.model, oracle.data, oracle.position(q[state]))
        expected = [
            oracle.data.oMf[frame_id(oracle, name)].homogeneous for name in tree.frame_names
        ]
        assert_close(poses[state], np.array(expected), TOLERANCE, f"state {state}")


def test_poses_of_chosen_frames():
    tree = load_tree("humanoid", floating=True)
    q, *_ = random_states(tree, 3)
    everything = numbers(frames.forward_kinematics(state_of(tree, q)), 3)
    chosen = [tree.frame_names[7], tree.frame_names[2]]
    poses = numbers(frames.forward_kinematics(state_of(tree, q), chosen), 3)
    assert np.array_equal(poses, everything[:, [7, 2]])


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize(("name", "floating"), CASES)
def test_jacobians_are_pinocchios(name, floating, reference):
    tree, oracle = load(name, floating)
    q, qd, *_ = random_states(tree, STATES)
    for frame in some_frames(tree):
        J = numbers(frames.jacobian(state_of(tree, q), frame, reference), STATES)
        dot = numbers(
            frames.jacobian_dot_qd(state_of(tree, q, qd), frame, reference),
            STATES,
        )
        H = numbers(frames.jacobian_gradient(state_of(tree, q), frame, reference), STATES)
        index, seen = frame_id(oracle, frame), REFERENCES[reference]
        for state in range(STATES):
            position, velocity = oracle.position(q[state]), oracle.spread @ qd[state]
            pinocchio.computeJointJacobiansTimeVariation(
                oracle.model, oracle.data, position, velocity
            )
            expected = pinocchio.getFrameJacobianTimeVariation(
                oracle.model, oracle.data, index, seen
            )
            np.testing.assert_allclose(
                dot[state], expected.reshape(6, -1) @ velocity, rtol=0, atol=1e-12
            )
            np.testing.assert_allclose(
                H[state] @ qd[state], expected.reshape(6, -1) @ oracle.spread, rtol=0, atol=1e-12
            )
            expected = pinocchio.computeFrameJacobian(
                oracle.model, oracle.data, position, index, seen
            )
            assert_close(
                J[state],
                expected.reshape(6, -1) @ oracle.spread,
                TOLERANCE,
                f"{frame}, state {state}",
            )


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", ["gripper", "arm7"])
def test_jacobian_dot_is_the_complex_step_along_the_velocity(name, reference):
    tree = load_tree(name)
    q, qd, *_ = random_states(tree, 3)
    frame = tree.frame_names[-1]

    def velocity(moved: Array, qd: Array) -> list[Array]:
        J = numbers(frames.jacobian(state_of(tree, moved), frame, reference), 3)
        return list(np.einsum("bij,bj->ib", J, qd))

    along = complex_step(velocity, [q + 1j * COMPLEX_STEP * qd], qd)[..., 0]
    actual = frames.jacobian_dot_qd(state_of(tree, q, qd), frame, reference)
    assert_close(numbers(actual, 3), along, 1e-12, "dJ/dt qd")


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", ["gripper", "arm7"])
def test_jacobian_gradient_is_the_complex_step(name, reference):
    tree = load_tree(name)
    q, *_ = random_states(tree, 3)
    frame = tree.frame_names[-1]
    H = numbers(frames.jacobian_gradient(state_of(tree, q), frame, reference), 3)

    def jacobian(moved: Array) -> list[Array]:
        J = numbers(frames.jacobian(state_of(tree, moved), frame, reference), 3)
        return list(J.reshape(3, -1).T)

    steps = 1j * COMPLEX_STEP * np.eye(tree.nv)
    along = [complex_step(jacobian, [q + step])[..., 0] for step in steps]
    assert_close(H.reshape(3, -1, tree.nv), np.stack(along, axis=-1), 1e-12, "dJ/dq")


def test_kinetic_energy_is_half_the_form_of_the_mass_matrix():
    tree = load_tree("gripper", armature=0.3)
    q, qd, *_ = random_states(tree, 5)
    M = numbers(mass_matrix(state_of(tree, q)), 5)
    kinetic = energy.kinetic_energy(state_of(tree, q, qd))
    assert_close(kinetic, np.einsum("bi,bij,bj->b", qd, M, qd) / 2, TOLERANCE, "energy")


def test_the_base_does_not_move():
    tree = load_tree("arm7")
    q, qd, *_ = random_states(tree, 2)
    root = tree.frame_names[0]
    for reference in REFERENCES:
        J = numbers(frames.jacobian(state_of(tree, q), root, reference), 2)
        dot = frames.jacobian_dot_qd(state_of(tree, q, qd), root, reference)
        assert J.shape == (2, 6, tree.nv)
        assert not J.any()
        assert not numbers(dot, 2).any()


def test_unknown_names():
    tree = load_tree("arm7")
    state = State(tree, FloatScalars(), [0.0] * tree.nq, [0.0] * tree.nq)
    known = tree.frame_names[-1]
    typo = known[:-1] + "_"
    with pytest.raises(OptionError, match=f'has no frame "{typo}"; did you mean .*"{known}"'):
        frames.jacobian(state, typo, "world")
    with pytest.raises(OptionError, match="frame_names lists its frames"):
        frames.forward_kinematics(state, ["?" * 500])
    with pytest.raises(OptionError, match='"body"; choose one of "local", "world"'):
        frames.jacobian(state, known, "body")
    with pytest.raises(OptionError, match="choose one of"):
        frames.jacobian_dot_qd(state, known, "body")


def test_no_mass_no_center_of_mass():
    weightless = link_text("tip", mass="0", inertia="0 0 0 0 0 0")
    tree = load_tree(robot_text(link_text("base"), weightless, joint_text("j", "base", "tip")))
    for function in (energy.center_of_mass, energy.center_of_mass_jacobian):
        with pytest.raises(ModelError, match="the moving links have no mass: give them"):
            function(State(tree, FloatScalars(), [0.0]))
    for name in ("centroidal_momentum_matrix", "centroidal_momentum"):
        assert refusal(tree, name).startswith("the moving links have no mass: give")
