"""Forward dynamics by articulated bodies in two halves (Yang, Wu, Pan (prefix sums) Algorithm 3).

The articulated inertias depend on positions alone, and their recursion has no parallel form. Given
the inertias and the bias forces, two linear recurrences remain. The schedule determines where and
when each half runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gridgen.dynamics.aba import (
    ArticulatedInertia,
    articulated_passes,
    eliminate,
    refuse_mimic,
    rigid_inertias,
)
from gridgen.dynamics.computation import Computation, FunctionComputation
from gridgen.dynamics.functions import FURTHER_STEPS
from gridgen.dynamics.kinematics import each
from gridgen.dynamics.state import Numbers, State
from gridgen.functions.arrays import INERTIA_NUMBERS
from gridgen.functions.record import Algorithm, MethodStep
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import ZERO, constants


def articulated_inertias(state: State) -> list[Scalar]:
    """Return the articulated inertias of all bodies (prefix sums eq. 7).

    Returns:
        ``INERTIA_NUMBERS`` for each body, in the body's canonical frame.

    Raises:
        ModelError: the robot has mimic joints.
    """
    tree, placed, scalars = state.tree, state.placed, state.scalars
    refuse_mimic(tree, "articulated_inertias")
    nothing, none = constants(ZERO, scalars), scalars.constant(0.0)
    inertias = rigid_inertias(state)
    for index in tree.inward():
        body = tree.bodies[index]
        if body.parent < 0:
            continue
        scalars.begin("articulated", index)
        effort = [none] * body.nv
        _, rest, _ = eliminate(state, index, inertias[index], (nothing, nothing), effort)
        if rest is not None:
            total = inertias[body.parent] + rest.to_parent(placed[index])
            inertias[body.parent] = total.keep(body.parent, scalars)
    found = scalars.table("articulated", len(tree.bodies))
    for index, inertia in each(tree, inertias):
        found[index] = (inertia.M, inertia.H, inertia.I)
    return found


def articulated_accelerations(
    state: State, tau: Numbers, h: Numbers, articulated: Numbers
) -> list[Scalar]:
    """Return the joint accelerations, given the articulated inertias (prefix sums eq. 18 and 19).

    Args:
        state:       the state.
        tau:         joint torques, nv scalars [N m or N].
        h:           joint torques for zero joint accelerations, nv scalars [N m or N].
        articulated: inertias in the format of ``articulated_inertias``.

    Returns:
        qdd: joint accelerations, nv scalars [rad/s^2 or m/s^2].

    Raises:
        ModelError: the robot has mimic joints.
    """
    tree, scalars = state.tree, state.scalars
    refuse_mimic(tree, "articulated_accelerations")
    nothing = constants(ZERO, scalars)
    inertias = scalars.table("inertia", len(tree.bodies))
    for index in tree.outward():
        start = INERTIA_NUMBERS * index
        M, *H, I = (  # noqa: E741
            tuple(articulated[start + first : start + last])
            for first, last in ((0, 6), (6, 9), (9, 12), (12, 15), (15, 21))
        )
        inertias[index] = ArticulatedInertia(M, (H[0], H[1], H[2]), I)
    forces = scalars.table("force", len(tree.bodies), (nothing, nothing))
    return articulated_passes(state, forces, tau, h, inertias)


@dataclass(frozen=True)
class Half(FunctionComputation):
    """One of the halves."""

    @property
    def _algorithm(self) -> Callable[..., Any]:
        return _HALVES[self.key.step][1]


def _half(title: str, inputs: str, result: str, source: str, *parameters: str) -> MethodStep:
    refusals = ("of_a_singular_mass_matrix", "of_mimic_joints")
    algorithm = Algorithm("", f"articulated bodies, {source} and Algorithm 3", refusals=refusals)
    arrays = tuple(inputs.split())
    return MethodStep(
        "forward_dynamics", "aba", title, arrays, (result,), algorithm, parameters=parameters
    )


_HALVES: dict[str, tuple[MethodStep, Callable[..., Any]]] = {
    "articulated_inertias": (
        _half(
            "Articulated-body inertias",
            "q",
            "articulated",
            "Yang, Wu, Pan (prefix sums) eq. 7",
            "params",
            "armature",
        ),
        articulated_inertias,
    ),
    "articulated_accelerations": (
        _half(
            "Joint accelerations from bias forces and articulated-body inertias",
            "q tau h articulated",
            "qdd",
            "Yang, Wu, Pan (prefix sums) eq. 18, 19",
            "armature",
        ),
        articulated_accelerations,
    ),
}


def _computation(tree: KinematicTree, key: KernelKey) -> Computation:
    row = _HALVES[key.step][0]
    parameters = tuple(name for name in row.parameters if name in tree.parameters)
    return Half(key, row, row.algorithm, parameters=parameters)


FURTHER_STEPS.update(dict.fromkeys(_HALVES, _computation))
#: Kernels: articulated inertias on the CPU, concurrently bias forces on the GPU, then accelerations
#: on the GPU, whose thread kernel is ``REST``.
INERTIAS, REST = (KernelKey("forward_dynamics", "aba", step=name) for name in _HALVES)
BIAS = KernelKey("bias_forces", schedule="scan")
ACCELERATIONS = KernelKey("forward_dynamics", "aba", schedule="hybrid")
