"""Configurations to begin with."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pinocchio
import pytest

from gridgen.model.tree import KinematicTree
from gridgen.modules import record_of
from gridgen.runtime.configurations import (
    ConfigurationSpace,
    configuration_space,
    neutral,
    random_configuration,
)
from helpers.dynamics import load_tree, robot_path
from helpers.oracle import Oracle
from helpers.robots import joint_text, link_text, robot_text


def space_of(tree: KinematicTree) -> ConfigurationSpace:
    return configuration_space(record_of(tree, tree.name, (0, 0)))


@pytest.mark.parametrize(("name", "floating"), [("arm7", False), ("quadruped", True)])
def test_neutral_is_pinocchios(name, floating):
    tree = load_tree(name, floating)
    model = Oracle(tree, robot_path(name)).model
    assert np.array_equal(neutral(space_of(tree)), pinocchio.neutral(model))


def seeded(library: str) -> Any:
    """Return a source of randomness of a library."""
    if library == "numpy":
        return np.random.default_rng(7)
    return pytest.importorskip(library).Generator().manual_seed(7)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_samples_keep_to_the_limits(library: str) -> None:
    text = robot_text(
        *(link_text(name) for name in "abcd"),
        joint_text("hinge", "a", "b", limit='<limit lower="0.5" upper="0.6"/>'),
        joint_text("wheel", "b", "c", "continuous"),
        joint_text("follower", "c", "d", extra='<mimic joint="hinge" multiplier="2"/>'),
    )
    space = space_of(load_tree(text, floating=True))
    q = random_configuration(space, seeded(library), 4000)
    assert q.shape == (4000, 9)
    assert 0.5 <= q[:, 7].min() < 0.51
    assert 0.59 < q[:, 7].max() <= 0.6
    assert -math.pi <= q[:, 8].min() < -3.0
    assert 3.0 < q[:, 8].max() <= math.pi
    assert np.abs(q[:, :3]).max() <= 1.0
    np.testing.assert_allclose(np.linalg.norm(q[:, 3:7], axis=1), 1.0, rtol=0, atol=1e-15)
    # Uniform over rotations: no direction of the quaternion's sphere is preferred.
    moments = q[:, 3:7].T @ q[:, 3:7] / len(q)
    np.testing.assert_allclose(moments, np.eye(4) / 4, rtol=0, atol=0.02)
    again = random_configuration(space, seeded(library), 4000)
    assert np.array_equal(again, q)


def test_nothing_of_the_generator_is_loaded():
    code = (
        "import sys, gridgen.runtime.configurations\n"
        "loaded = {'sympy', 'lxml', 'jinja2', 'gridgen.model', 'gridgen.symbolic'}\n"
        "print(sorted(loaded & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
