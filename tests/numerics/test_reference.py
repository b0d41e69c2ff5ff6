"""The reference against Pinocchio: every robot that both can read, fixed and floating.

Robots of others are tried in turn, two of three on one base or the other.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio
import pytest

from gridgen.check import (
    BACKWARD,
    FORWARD,
    TOLERANCE,
    backward_errors,
    conditioning,
    random_states,
    relative_errors,
)
from gridgen.dynamics.functions import refusal
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenError
from gridgen.model.tree import KinematicTree
from helpers.oracle import Oracle
from helpers.robots import OWN_ROBOTS, example_urdfs, joint_text, link_text, robot_text
from numerics.robots import load_tree, urdf_path

STATES = 20
EPS = float(np.finfo(np.float64).eps)

#: Files of example-robot-data that are not one sound robot, and what Pinocchio makes of them.
UNSOUND_FILES = {
    "falcon.urdf": "a joint's child does not exist; Pinocchio refuses it too",
    "ur3.urdf": "holds no link at all; Pinocchio refuses it too",
    "alex_psyonic_hands.urdf": "a joint mimics one that does not exist; Pinocchio ignores that",
}
#: Nothing in these moves unless their base does.
IMMOBILE_FILES = {"bluevolta.urdf", "quadrotor_base.urdf", "iris_simple.urdf"}
#: Some are in some releases of example-robot-data only.
THERE = {path.name for path in example_urdfs()}
UNSOUND, IMMOBILE = sorted(THERE & UNSOUND_FILES.keys()), sorted(THERE & IMMOBILE_FILES)

FILES = [
    *("/".join(path.parts[-3:]) for path in example_urdfs() if path.name not in UNSOUND),
    *(f"{name}.urdf" for name in OWN_ROBOTS),
]
ROBOTS = [
    pytest.param(
        name,
        floating,
        id=f"{name.removesuffix('.urdf')}-{base}",
        marks=pytest.mark.exhaustive if "/" in name and (place + floating) % 3 else (),
    )
    for place, name in enumerate(FILES)
    for base, floating in (("fixed", False), ("floating", True))
    if floating or name.rpartition("/")[2] not in IMMOBILE
]


def path_of(name: str) -> Path:
    return urdf_path(name.removesuffix(".urdf"))


@pytest.mark.parametrize(("name", "floating"), ROBOTS)
def test_reference_agrees_with_pinocchio(name: str, floating: bool) -> None:
    tree = load_tree(path_of(name), floating)
    oracle = Oracle(tree, path_of(name))
    assert list(tree.joint_names) == oracle.joint_names
    x = random_states(tree, STATES, np.random.default_rng(len(name)))
    del x["f_ext"]
    for function in ("inverse_dynamics", "bias_forces", "mass_matrix"):
        (result,) = evaluate_reference(tree, function, x)
        error = relative_errors(result, oracle.evaluate(function, x)).max()
        assert error <= TOLERANCE["float64"], f"{name}: {function}: {error:.1e}"
    for function in ("forward_dynamics_aba", "forward_dynamics_crba"):
        if refusal(tree, function) is None:
            compare_accelerations(tree, oracle, function, x)


def compare_accelerations(
    tree: KinematicTree, oracle: Oracle, function: str, x: dict[str, np.ndarray]
) -> None:
    (result,) = evaluate_reference(tree, function, x)
    M, bias = oracle.evaluate("mass_matrix", x), oracle.evaluate("bias_forces", x)
    expected = [oracle.evaluate(function, x)]
    if not tree.has_mimic:
        expected.append(oracle.aba(x))
    for qdd in expected:
        conditions = conditioning(M, bias, x["tau"], qdd)
        # Both sides have rounding errors of their own.
        allowed = np.maximum(TOLERANCE["float64"], 2 * FORWARD * EPS * conditions)
        errors = relative_errors(result, qdd)
        worst = int((errors / allowed).argmax())
        assert errors[worst] <= allowed[worst], (
            f"{function}: error {errors[worst]:.1e}, allowed {allowed[worst]:.1e}, conditioning "
            f"{conditions[worst]:.1e}, condition number of M {np.linalg.cond(M[worst]):.1e}"
        )
    residual = backward_errors(M, bias, x["tau"], result).max()
    assert residual <= 2 * BACKWARD * EPS, f"{function}: residual {residual:.1e}"


@pytest.mark.parametrize("name", UNSOUND)
def test_unsound_files_are_refused(name: str) -> None:
    with pytest.raises(GridGenError, match=name):
        load_tree(path_of(name))


@pytest.mark.parametrize("name", IMMOBILE)
def test_robots_that_cannot_move_are_refused(name: str) -> None:
    path = path_of(name)
    assert pinocchio.buildModelFromUrdf(str(path)).nv == 0
    with pytest.raises(GridGenError, match="floating_base=True"):
        load_tree(path)


@pytest.mark.parametrize("name", ["panda", "pr2"])
def test_mimic_joints_are_those_that_pinocchio_ties_together(name: str) -> None:
    tree = load_tree(urdf_path(name))
    oracle = Oracle(tree, urdf_path(name), mimic=True)
    assert oracle.model.nv == tree.nv
    x = random_states(tree, 2, np.random.default_rng(3))
    del x["f_ext"]
    for function in ("inverse_dynamics", "bias_forces", "mass_matrix"):
        (result,) = evaluate_reference(tree, function, x)
        assert relative_errors(result, oracle.evaluate(function, x)).max() <= TOLERANCE["float64"]


def test_a_planar_joint_about_any_normal_is_two_slides_and_a_turn() -> None:
    """Pinocchio knows planes only about z: here the plane is built from its three joints."""
    links = [link_text(name, com="0.1 -0.2 0.3") for name in ("base", "arm", "hand", "thumb")]
    first = joint_text("a", "base", "arm", axis="0 1 0", rpy="0.1 0.2 0.3")
    last = joint_text("c", "hand", "thumb", axis="1 0 0", xyz="0.1 0 0.3")
    normal = "0.6 -0.48 0.64"
    planar = robot_text(*links, first, joint_text("b", "arm", "hand", "planar", axis=normal), last)
    *_, turn = (body for body in load_tree(planar).bodies if body.joint.startswith("b"))
    axes = np.array(turn.link_rotation).T
    np.testing.assert_allclose(axes[2], np.array(normal.split(), float), atol=1e-15)
    x_axis, y_axis, z_axis = (" ".join(map(repr, axis.tolist())) for axis in axes)
    built = robot_text(
        *links,
        *(f'<link name="{name}"/>' for name in ("slide", "slides")),
        first,
        joint_text("b_x", "arm", "slide", "prismatic", axis=x_axis),
        joint_text("b_y", "slide", "slides", "prismatic", axis=y_axis, xyz="0 0 0"),
        joint_text("bz", "slides", "hand", "continuous", axis=z_axis, xyz="0 0 0"),
        last,
    )
    x = random_states(load_tree(planar), STATES, np.random.default_rng(8))
    del x["f_ext"]
    for function in ("inverse_dynamics", "bias_forces", "mass_matrix"):
        (result,) = evaluate_reference(load_tree(planar), function, x)
        expected = Oracle(load_tree(built), built).evaluate(function, x)
        assert relative_errors(result, expected).max() <= TOLERANCE["float64"]
