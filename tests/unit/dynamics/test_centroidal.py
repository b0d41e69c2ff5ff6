"""Momentum about the center of mass against Pinocchio's."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from gridgen.dynamics.functions import refusal
from gridgen.dynamics.reference import evaluate_reference
from helpers.dynamics import assert_close, load_tree, random_states, robot_path
from helpers.oracle import Oracle
from helpers.robots import ALL_CASES

STATES = 20

TOLERANCE = 1e-12
"""Products along a path of a dozen rotations, relative to the largest entry."""


@pytest.mark.parametrize(("name", "floating"), ALL_CASES)
def test_matrix_and_momentum_are_those_of_pinocchio(name, floating):
    tree = load_tree(name, floating)
    oracle = Oracle(tree, robot_path(name))
    model, data = oracle.model, oracle.data
    q, qd, *_ = random_states(tree, STATES)
    x = {"q": q, "qd": qd}
    (Ag,) = evaluate_reference(tree, "centroidal_momentum_matrix", x)
    (hg,) = evaluate_reference(tree, "centroidal_momentum", x)
    matrices, momenta = [], []
    for position, velocity in zip(map(oracle.position, q), qd, strict=True):
        matrix = pinocchio.computeCentroidalMap(model, data, position)
        matrices.append(matrix.reshape(6, -1) @ oracle.spread)  # a vector for one joint
        spread = oracle.spread @ velocity
        momenta.append(pinocchio.computeCentroidalMomentum(model, data, position, spread).vector)
    assert_close(Ag, np.array(matrices), TOLERANCE, "Ag")
    assert_close(hg, np.array(momenta), TOLERANCE, "hg")


@pytest.mark.parametrize(("name", "floating"), ALL_CASES)
def test_rates_inertia_and_derivatives_are_those_of_pinocchio(name, floating):
    tree = load_tree(name, floating)
    oracle = Oracle(tree, robot_path(name))
    model, data, V = oracle.model, oracle.data, oracle.spread
    q, qd, qdd, _ = random_states(tree, 3)
    words = ("momentum_matrix_derivative", "inertia", "dynamics_gradient")
    names = [f"centroidal_{word}" for word in words]
    x = {"q": q, "qd": qd, "qdd": qdd}
    (dAg,), (Ig,), gradients = (evaluate_reference(tree, name, x) for name in names)
    rates, inertias, derivatives = [], [], []
    for position, velocity, change in zip(map(oracle.position, q), qd, qdd, strict=True):
        state = model, data, position, V @ velocity
        found = pinocchio.computeCentroidalDynamicsDerivatives(*state, V @ change)
        derivatives.append([matrix.reshape(6, -1) @ V for matrix in found[:3]])
        rates.append(pinocchio.dccrba(*state).reshape(6, -1) @ V)
        pinocchio.ccrba(*state)
        inertias.append(data.Ig.inertia)
    assert_close(dAg, np.array(rates), TOLERANCE, "dAg")
    assert_close(Ig, np.array(inertias), TOLERANCE, "Ig")
    for mine, *theirs in zip(gradients, *derivatives, strict=True):
        assert_close(mine, np.array(theirs), TOLERANCE, "gradient")


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("name", ["arm6", "gripper", "cart_pole", "quadruped"])
def test_the_matrix_gives_the_momentum_whose_linear_part_is_the_center_of_mass(name, floating):
    tree = load_tree(name, floating)
    q, qd, *_ = random_states(tree, STATES)
    names = ("centroidal_momentum_matrix", "centroidal_momentum", "center_of_mass_jacobian")
    (Ag,), (hg,), (Jcom,) = (evaluate_reference(tree, f, {"q": q, "qd": qd}) for f in names)
    assert_close(np.einsum("bij,bj->bi", Ag, qd), hg, TOLERANCE, "hg")
    assert_close(Ag[:, :3], tree.total_mass * Jcom, TOLERANCE, "linear part")


def test_a_robot_without_mass_is_refused():
    tree = load_tree(
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" '
        'type="continuous"><parent link="a"/><child link="b"/></joint></robot>'
    )
    for name in ("centroidal_momentum_matrix", "centroidal_momentum"):
        assert refusal(tree, name).startswith("the moving links have no mass: give")
