"""Pinocchio from Python, one state at a time."""

from __future__ import annotations

import numpy as np
import pinocchio
from cases import INPUTS, Case, States

from peers import Contestant
from peers.pinocchio_model import build, frames, positions

_FUNCTIONS = {
    "inverse_dynamics": pinocchio.rnea,
    "bias_forces": pinocchio.nle,
    "forward_dynamics_aba": pinocchio.aba,
    "forward_dynamics_crba": pinocchio.aba,  # both ways compete with its only one
    "gravity_forces": pinocchio.computeGeneralizedGravity,
    "coriolis_matrix": pinocchio.computeCoriolisMatrix,
    "mass_matrix": pinocchio.crba,
    "mass_matrix_inverse": pinocchio.computeMinverse,
    "inverse_dynamics_gradient": pinocchio.computeRNEADerivatives,
    "forward_dynamics_gradient": pinocchio.computeABADerivatives,
    "forward_kinematics": pinocchio.framesForwardKinematics,
    "jacobian": pinocchio.computeFrameJacobian,
    "jacobian_dot_qd": lambda model, data, q, qd, frame, rest: (
        pinocchio.forwardKinematics(model, data, q, qd, rest),
        pinocchio.getFrameAcceleration(model, data, frame, pinocchio.LOCAL).vector,
    )[1],
    "center_of_mass": pinocchio.centerOfMass,
    "center_of_mass_jacobian": pinocchio.jacobianCenterOfMass,
    "centroidal_momentum_matrix": pinocchio.computeCentroidalMap,
    "centroidal_momentum": lambda *state: pinocchio.computeCentroidalMomentum(*state).vector,
    "kinetic_energy": pinocchio.computeKineticEnergy,
    "potential_energy": pinocchio.computePotentialEnergy,
    "joint_torque_regressor": pinocchio.computeJointTorqueRegressor,
    "kinetic_energy_regressor": pinocchio.computeKineticEnergyRegressor,
    "potential_energy_regressor": pinocchio.computePotentialEnergyRegressor,
}
#: The interpreter's loop takes as long for a state in any batch: the first states are enough.
_STATES = 256


class Peer:
    """One robot; one thread, whatever there is."""

    def __init__(self, case: Case, threads: int) -> None:
        self._case = case
        self._model = build(case)
        self._data = pinocchio.Data(self._model)  # createData() takes twice the memory
        self._threads = threads

    def contestants(self, function: str, states: States) -> dict[str, Contestant]:
        """Return the function in float64."""
        evaluate = _FUNCTIONS.get(function)
        if evaluate is None or self._threads > 1:
            return {}
        inputs = [np.ascontiguousarray(states[x][:_STATES]) for x in INPUTS[function]]
        inputs[0] = positions(self._model, self._case, inputs[0])
        model, data = self._model, self._data
        rows = list(zip(*inputs, strict=True))
        numbers = frames(model, self._case, function)
        options = {
            "jacobian": (numbers[0], pinocchio.LOCAL),
            "jacobian_dot_qd": (numbers[0], np.zeros(model.nv)),
            "center_of_mass": (False,),
            "center_of_mass_jacobian": (False,),
        }.get(function, ())

        def run() -> None:
            for row in rows:
                evaluate(model, data, *row, *options)

        def results() -> list[np.ndarray]:
            found = []
            for row in rows:
                result = evaluate(model, data, *row, *options)
                if function == "forward_kinematics":
                    result = np.array([data.oMf[number].homogeneous for number in numbers])
                found.append([np.array(x) for x in _parts(function, result)])
            return [np.array(part) for part in zip(*found, strict=True)]

        return {"Pinocchio from Python": Contestant(run, results, len(rows))}


def _parts(function: str, result: object) -> tuple[np.ndarray, ...]:
    if not isinstance(result, tuple):
        return (_symmetric(result) if function == "mass_matrix_inverse" else result,)
    return result[:2] if function == "inverse_dynamics_gradient" else result


def _symmetric(upper: np.ndarray) -> np.ndarray:
    return np.triu(upper) + np.triu(upper, 1).T
