"""The reference against Pinocchio: every robot that both can read, fixed and floating.

Robots of others are tried on one base or the other, in turn, unless all are asked for.
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
from helpers.robots import OWN_ROBOTS, example_urdfs
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
        marks=pytest.mark.exhaustive if "/" in name and floating == bool(place % 2) else (),
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
