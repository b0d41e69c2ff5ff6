"""Registry of public functions.

It defines the methods of ``Robot``, the functions of generated modules, the choices of
``--functions``, the table of the manual and the cases of benchmarks and tests.
"""

from __future__ import annotations

from typing import Literal

from gridgen.functions.collision import Collisions
from gridgen.functions.configurations import Configurations
from gridgen.functions.constraints import ConstrainedDynamics
from gridgen.functions.contacts import ContactDynamics
from gridgen.functions.derivatives import Derivatives
from gridgen.functions.dynamics import Dynamics
from gridgen.functions.kinematics import Frames, WholeBody
from gridgen.functions.motion import Motion
from gridgen.functions.operational import OperationalSpace
from gridgen.functions.record import Function, functions_of
from gridgen.functions.regressors import Regressors

__all__ = [
    "COMPILED",
    "FUNCTIONS",
    "GENERATED",
    "CompiledName",
    "Declared",
    "Function",
    "FunctionName",
]


class Declared(
    Dynamics,
    ConstrainedDynamics,
    ContactDynamics,
    Derivatives,
    Motion,
    Frames,
    OperationalSpace,
    WholeBody,
    Collisions,
    Regressors,
    Configurations,
):
    """All public functions, as methods."""


#: Every function by its name.
FUNCTIONS: dict[str, Function] = {
    function.name: function for function in functions_of(*Declared.__bases__)
}
#: Functions that generated code computes; ``FunctionName`` lists them for type checkers.
GENERATED = tuple(name for name, function in FUNCTIONS.items() if function.is_generated)

FunctionName = Literal[
    "inverse_dynamics",
    "bias_forces",
    "gravity_forces",
    "coriolis_matrix",
    "forward_dynamics",
    "mass_matrix",
    "mass_matrix_inverse",
    "delassus",
    "constraint_residual",
    "constraint_jacobian",
    "constrained_forward_dynamics",
    "constrained_forward_dynamics_gradient",
    "impulse_dynamics",
    "constrained_inverse_dynamics",
    "contact_forward_dynamics",
    "contact_residual",
    "actuator_torques",
    "sensors",
    "inverse_dynamics_gradient",
    "forward_dynamics_gradient",
    "inverse_dynamics_second_order",
    "forward_dynamics_second_order",
    "forward_dynamics_hessian",
    "step",
    "step_gradient",
    "step_hessian",
    "rollout",
    "forward_kinematics",
    "jacobian",
    "jacobian_gradient",
    "jacobian_dot_qd",
    "operational_space_inertia",
    "point_inertia",
    "dynamically_consistent_inverse",
    "operational_space_bias",
    "center_of_mass",
    "center_of_mass_jacobian",
    "centroidal_momentum_matrix",
    "centroidal_momentum",
    "centroidal_momentum_matrix_derivative",
    "centroidal_dynamics_gradient",
    "centroidal_inertia",
    "kinetic_energy",
    "potential_energy",
    "self_distance",
    "world_distance",
    "soft_self_distance",
    "soft_world_distance",
    "collision_free",
    "joint_torque_regressor",
    "joint_torque_regressor_gradient",
    "momentum_regressor",
    "kinetic_energy_regressor",
    "potential_energy_regressor",
    "integrate",
    "integrate_gradient",
    "difference",
    "difference_gradient",
    "interpolate",
    "distance",
]
#: Those, and inverse kinematics, whose kernels belong to lists of links.
CompiledName = FunctionName | Literal["inverse_kinematics"]
COMPILED = (*GENERATED, "inverse_kinematics")
