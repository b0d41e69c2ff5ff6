"""Functions that Pinocchio has too, each on every robot, in a gravity that points anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pinocchio
import pytest

from gridgen.dynamics.functions import refusal
from gridgen.dynamics.reference import evaluate_reference
from helpers.dynamics import Array, assert_close, load_tree, random_states, robot_path
from helpers.oracle import Oracle
from helpers.robots import ALL_CASES, LARGE_ROBOTS, OWN_ROBOTS

STATES = 5

TOLERANCE = 1e-12
"""Products along a path of a dozen rotations, relative to the largest entry."""

CONDITIONED = 1e-15
"""Relative error per unit of the condition number of the mass matrix."""

#: Functions that need M^-1: of independent joints only, and less exact.
INVERSE = ("mass_matrix_inverse", "forward_dynamics_gradient")

CASES = [
    *ALL_CASES,
    pytest.param("double_pendulum_continuous", False, id="double_pendulum_continuous-fixed"),
    pytest.param("b1-z1", True, id="b1-z1-floating"),
]


def of_pinocchio(oracle: Oracle, x: Mapping[str, Array], i: int) -> dict[str, Sequence[Array]]:
    """Return the results of functions for one state."""
    model, data, V = oracle.model, oracle.data, oracle.spread
    q = oracle.position(x["q"][i])
    v, a, tau = (V @ x[name][i] for name in ("qd", "qdd", "tau"))

    def columns(matrix: Array) -> Array:
        return matrix.reshape(-1, len(V)) @ V  # of one velocity, Pinocchio's is a vector

    found: dict[str, Sequence[Array]] = {
        "gravity_forces": [V.T @ pinocchio.computeGeneralizedGravity(model, data, q)],
        "coriolis_matrix": [oracle.square(pinocchio.computeCoriolisMatrix(model, data, q, v))],
        "inverse_dynamics_gradient": [
            oracle.square(matrix)
            for matrix in pinocchio.computeRNEADerivatives(model, data, q, v, a)[:2]
        ],
        "center_of_mass_jacobian": [columns(pinocchio.jacobianCenterOfMass(model, data, q))],
        "center_of_mass": [data.com[0].copy()],
        "kinetic_energy": [np.array(pinocchio.computeKineticEnergy(model, data, q, v))],
        "potential_energy": [np.array(pinocchio.computePotentialEnergy(model, data, q))],
        "centroidal_momentum_matrix": [columns(pinocchio.computeCentroidalMap(model, data, q))],
        "centroidal_momentum": [
            pinocchio.computeCentroidalMomentum(model, data, q, v).vector.copy()
        ],
        "centroidal_dynamics_gradient": [
            columns(matrix)
            for matrix in pinocchio.computeCentroidalDynamicsDerivatives(model, data, q, v, a)[:3]
        ],
        "centroidal_momentum_matrix_derivative": [columns(pinocchio.dccrba(model, data, q, v))],
    }
    pinocchio.ccrba(model, data, q, v)
    found["centroidal_inertia"] = [data.Ig.inertia.copy()]
    Y = pinocchio.computeJointTorqueRegressor(model, data, q, v, a).copy()
    found["joint_torque_regressor"] = [V.T @ Y.reshape(len(V), -1)]
    kinetic = pinocchio.computeKineticEnergyRegressor(model, data, q, v)
    found["kinetic_energy_regressor"] = [kinetic.copy()]
    potential = pinocchio.computePotentialEnergyRegressor(model, data, q)
    found["potential_energy_regressor"] = [potential.copy()]
    if oracle.tree.has_mimic:
        return found
    *gradients, upper = pinocchio.computeABADerivatives(model, data, q, v, tau)
    inverse = oracle.square(np.triu(upper) + np.triu(upper, 1).T)
    found["mass_matrix_inverse"] = [inverse]
    found["forward_dynamics_gradient"] = [*map(oracle.square, gradients), inverse]
    return found


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_functions_are_those_of_pinocchio(name, floating):
    tree = load_tree(name, floating)
    oracle = Oracle(tree, robot_path(name))
    gravity = np.array([1.3, -4.0, 7.1])
    oracle.model.gravity.linear = gravity
    arrays = zip(("q", "qd", "qdd", "tau"), random_states(tree, STATES), strict=True)
    x = {**dict(arrays), "gravity": np.tile(gravity, (STATES, 1))}
    states = [of_pinocchio(oracle, x, i) for i in range(STATES)]
    for function in states[0]:
        is_large = name in LARGE_ROBOTS and name not in OWN_ROBOTS
        if refusal(tree, function) or (is_large and function == "joint_torque_regressor"):
            continue
        found = evaluate_reference(tree, function, x)
        tolerance = TOLERANCE
        if function in INVERSE:
            inverse = np.array([state["mass_matrix_inverse"][0] for state in states])
            tolerance = max(TOLERANCE, CONDITIONED * np.linalg.cond(inverse).max())
        expected = zip(*(state[function] for state in states), strict=True)
        for mine, theirs in zip(found, expected, strict=True):
            assert_close(mine, np.array(theirs), tolerance, function)
