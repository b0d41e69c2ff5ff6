"""Variational steps, linearized, against complex steps through their iteration.

Other integrators: `test_random_robots.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.dynamics.reference import evaluate_reference
from gridgen.model.tree import KinematicTree
from helpers.dynamics import (
    COMPLEX_STEP,
    Array,
    assert_close,
    load_tree,
    random_states,
    tangent_steps,
)

STATES = 5

TOLERANCE = 1e-11
"""Accelerations of a step are solved twice: of articulated bodies, and by factorizing M."""


def by_complex_steps(tree: KinematicTree, step: str, x: dict[str, Array]) -> Array:
    """Return the derivatives of a step by q, qd and tau, (B, 2 nv, 3 nv)."""
    q_next, _ = evaluate_reference(tree, step, x)
    count = 3 * tree.nv
    many = {
        name: np.concatenate([value] * count) if len(value) == STATES else value
        for name, value in x.items()
    }
    for place, name in enumerate(("q", "qd", "tau")):
        moved = many[name].astype(complex).reshape(count, STATES, -1)
        for k in range(tree.nv):
            if name == "q":
                moved[k] = tangent_steps(tree, x["q"], k)
            else:
                moved[place * tree.nv + k, :, k] += 1j * COMPLEX_STEP
        many[name] = moved.reshape(count * STATES, -1)
    q_end, qd_end = evaluate_reference(tree, step, many)
    begin = np.concatenate([q_next] * count)
    (way,) = evaluate_reference(tree, "difference", {"q0": begin, "q1": q_end})
    changes = np.concatenate([way.imag, qd_end.imag], axis=1) / COMPLEX_STEP
    return changes.reshape(count, STATES, -1).transpose(1, 2, 0)


@pytest.mark.parametrize(
    ("name", "floating", "loads"),
    [
        ("gripper", False, False),
        ("cart_pole", True, True),
    ],
)
def test_it_is_that_of_complex_steps(name: str, floating: bool, loads: bool) -> None:
    tree = load_tree(name, floating, joint_dynamics=True, armature=0.1)
    rng = np.random.default_rng(3)
    q, qd, _, tau = random_states(tree, STATES)
    x = {"q": q, "qd": 3.0 * qd, "tau": tau, "dt": rng.uniform(1e-4, 3e-3, STATES)}
    x["gravity"] = rng.normal(size=3)
    names = "step_variational", "step_gradient_variational"
    if loads:
        names = tuple(f"{function}_f_ext_base_motion" for function in names)
        x["f_ext"] = rng.normal(size=(STATES, len(tree.bodies), 6))
        x["base_velocity"], x["base_acceleration"] = rng.normal(size=(2, 6))
    A, B = evaluate_reference(tree, names[1], x)
    expected = by_complex_steps(tree, names[0], x)
    assert_close(np.concatenate([A, B], axis=2), expected, TOLERANCE, "variational")
