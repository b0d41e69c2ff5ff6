"""Steps between configurations against Pinocchio's, and how smooth they are."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from dynamics_for_tests import Array, load_tree, robot_path
from gridgen.dynamics.reference import evaluate_reference
from gridgen.model.tree import KinematicTree
from oracle_for_tests import Oracle

STATES = 100

TOLERANCE = 1e-13
"""Products of quaternions, and series of seven terms."""

ROBOTS = [("arm7", False), ("quadruped", True), ("talos_reduced", True)]

#: Angles [rad] around the end of the series, far below it, and of several turns.
ANGLES = [0.0, 1e-200, 1e-16, 1e-9, 1e-4, 0.1, 0.4999999, 0.5000001, 1.0, 3.1, 3.2, 7.0]


def steps(tree: KinematicTree, count: int, seed: int = 0) -> tuple[Array, Array]:
    """Return random configurations and velocities of every size."""
    rng = np.random.default_rng(seed)
    q, v = rng.uniform(-1.0, 1.0, (count, tree.nq)), rng.normal(size=(count, tree.nv))
    v *= rng.choice(ANGLES, size=(count, 1)) / np.linalg.norm(v[:, 3:6], axis=1, keepdims=True)
    for body in tree.bodies:
        if body.kind == "free":
            turn = q[:, body.q_index + 3 : body.q_index + 7]
            turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    return q, v


@pytest.mark.parametrize(("name", "floating"), ROBOTS)
def test_integrate_is_that_of_pinocchio(name: str, floating: bool) -> None:
    tree = load_tree(name, floating)
    model = Oracle(tree, robot_path(name)).model
    q, v = steps(tree, STATES)
    (end,) = evaluate_reference(tree, "integrate", {"q": q, "v": v})
    wanted = [pinocchio.integrate(model, *state) for state in zip(q, v, strict=True)]
    np.testing.assert_allclose(end, wanted, rtol=0, atol=TOLERANCE)
