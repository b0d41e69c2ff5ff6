"""An algorithm reads the inputs of its declaration alone."""

from __future__ import annotations

import pytest

import gridgen
from gridgen.dynamics.computation import FunctionComputation
from gridgen.errors import InternalError
from gridgen.functions import FUNCTIONS
from gridgen.functions.record import Algorithm
from gridgen.kernel import KernelKey
from gridgen.symbolic.scalars import FloatScalars
from helpers.robots import OWN

#: A declaration, the algorithm of another function, and an input that only the other declares.
CASES = [
    ("kinetic_energy", "energy.potential_energy", "gravity"),
    ("potential_energy", "energy.kinetic_energy", "qd"),
    ("joint_torque_regressor", "rnea.inverse_dynamics", "f_ext"),
    ("gravity_forces", "rnea.inverse_dynamics", "base_velocity"),
    ("forward_kinematics", "crba.mass_matrix", "armature"),
]


@pytest.mark.parametrize(("declared", "algorithm", "name"), CASES)
def test_an_input_that_is_not_declared_is_no_zero(declared: str, algorithm: str, name: str) -> None:
    tree = gridgen.load(OWN / "cart_pole.urdf", joint_dynamics=True)._module.tree
    made = FunctionComputation(KernelKey(declared), FUNCTIONS[declared], Algorithm(algorithm))
    x = {array: [0.1] * 6 for array in ("q", "qd", "qdd", "tau", "gravity", "f_ext")}
    with pytest.raises(InternalError, match=f"{declared}: its algorithm reads {name}, which"):
        made.results(tree, x, FloatScalars())
