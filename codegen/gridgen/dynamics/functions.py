"""The functions of a robot: what each reads and writes, and the algorithm behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridgen.dynamics import aba, crba, derivatives, minverse, rnea
from gridgen.dynamics.kinematics import BaseMotion
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import FloatScalars, Scalar, Scalars

Inputs = Mapping[str, Sequence[Scalar]]
Algorithm = Callable[[KinematicTree, Inputs, Scalars], Sequence[Sequence[Scalar]]]

#: Inputs that a function takes only in its variant with external loads.
LOADS = ("f_ext", "base_velocity", "base_acceleration")
#: Inputs of which one state may serve a whole batch.
SHARED = ("gravity", "base_velocity", "base_acceleration")
#: Suffix of that variant's name.
LOADED = "_ext"


@dataclass(frozen=True)
class Function:
    """One function of a robot.

    Attributes:
        name:      its name in C++; with ``_ext`` it also reads external loads.
        title:     what it computes, lines of at most 90 columns.
        inputs:    names of the arrays read, in order.
        outputs:   names of the arrays written, in order.
        algorithm: computes the outputs from the inputs over any scalar.
        source:    where the algorithm is described.
    """

    name: str
    title: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    algorithm: Algorithm
    source: str

    @property
    def group(self) -> str:
        """The name under which users ask for it, whatever the method and the loads."""
        name = self.name.removesuffix(LOADED)
        return name.removesuffix("_aba").removesuffix("_crba")


#: Every array argument: what it holds, and its unit. Spatial vectors have the linear part first.
ARRAYS: dict[str, tuple[str, str]] = {
    "q": ("joint positions", "rad or m"),
    "qd": ("joint velocities", "rad/s or m/s"),
    "qdd": ("joint accelerations", "rad/s^2 or m/s^2"),
    "tau": ("joint efforts", "N m or N"),
    "M": ("joint-space inertia", "kg m^2, kg m or kg"),
    "Minv": ("inverse of the joint-space inertia", "its inverse"),
    "dtau_dq": ("derivative of the efforts by the positions", "N m, N per rad or m"),
    "dtau_dqd": ("derivative of the efforts by the velocities", "N m, N per rad/s or m/s"),
    "dqdd_dq": ("derivative of the accelerations by the positions", "1/s^2, per m or rad"),
    "dqdd_dqd": ("derivative of the accelerations by the velocities", "1/s, per m or rad"),
    "dqdd_dtau": ("derivative of the accelerations by the efforts", "as Minv"),
    "gravity": ("acceleration of free fall in the base frame", "m/s^2"),
    "f_ext": ("wrench on each body at its link frame, in its axes", "N, N m"),
    "base_velocity": ("spatial velocity of the base", "m/s, rad/s"),
    "base_acceleration": ("derivative of the base velocity", "m/s^2, rad/s^2"),
}


_SQUARE = ("M", "Minv", "dtau_dq", "dtau_dqd", "dqdd_dq", "dqdd_dqd", "dqdd_dtau")


def array_shape(name: str, tree: KinematicTree) -> tuple[int, ...]:
    """Return the shape of an array argument for one state."""
    nv, bodies = tree.nv, len(tree.bodies)
    shapes: dict[str, tuple[int, ...]] = {
        "q": (tree.nq,),
        **dict.fromkeys(_SQUARE, (nv, nv)),
        "f_ext": (bodies, 6),
        "gravity": (3,),
        "base_velocity": (6,),
        "base_acceleration": (6,),
    }
    return shapes.get(name, (nv,))


def array_size(name: str, tree: KinematicTree) -> int:
    """Return the number of elements of an array argument for one state."""
    return int(np.prod(array_shape(name, tree)))


def _base(inputs: Inputs) -> BaseMotion:
    x, y, z = inputs["gravity"]
    velocity, acceleration = inputs.get("base_velocity"), inputs.get("base_acceleration")
    return BaseMotion(
        (x, y, z),
        None if velocity is None else tuple(velocity),
        None if acceleration is None else tuple(acceleration),
    )


def _inverse_dynamics(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    f_ext = x.get("f_ext")
    return [rnea.inverse_dynamics(tree, x["q"], x["qd"], x["qdd"], _base(x), scalars, f_ext)]


def _bias_forces(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    return [rnea.bias_forces(tree, x["q"], x["qd"], _base(x), scalars, x.get("f_ext"))]


def _forward_dynamics_aba(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    f_ext = x.get("f_ext")
    return [aba.forward_dynamics_aba(tree, x["q"], x["qd"], x["tau"], _base(x), scalars, f_ext)]


def _forward_dynamics_crba(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    f_ext = x.get("f_ext")
    return [crba.forward_dynamics_crba(tree, x["q"], x["qd"], x["tau"], _base(x), scalars, f_ext)]


def _mass_matrix(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    return [_flat(crba.mass_matrix(tree, x["q"], scalars))]


def _mass_matrix_inverse(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    return [_flat(minverse.mass_matrix_inverse_crba(tree, x["q"], scalars))]


def _inverse_dynamics_gradient(
    tree: KinematicTree, x: Inputs, scalars: Scalars
) -> list[list[Scalar]]:
    gradients = derivatives.inverse_dynamics_gradient(
        tree, x["q"], x["qd"], x["qdd"], _base(x), scalars, x.get("f_ext")
    )
    return [_flat(gradient) for gradient in gradients]


def _forward_dynamics_gradient(
    tree: KinematicTree, x: Inputs, scalars: Scalars
) -> list[list[Scalar]]:
    gradients = derivatives.forward_dynamics_gradient(
        tree, x["q"], x["qd"], x["tau"], _base(x), scalars, x.get("f_ext")
    )
    return [_flat(gradient) for gradient in gradients]


def _flat(matrix: Sequence[Sequence[Scalar]]) -> list[Scalar]:
    return [entry for row in matrix for entry in row]


def _with_loads(function: Function) -> list[Function]:
    loaded = Function(
        function.name + LOADED,
        function.title + ",\nwith external wrenches and a moving base",
        (*function.inputs, *LOADS),
        function.outputs,
        function.algorithm,
        function.source,
    )
    return [function, loaded]


_ALL = (
    *_with_loads(
        Function(
            "inverse_dynamics",
            "Inverse dynamics: joint efforts that produce given accelerations",
            ("q", "qd", "qdd", "gravity"),
            ("tau",),
            _inverse_dynamics,
            "recursive Newton-Euler, S0 eq. 1 and 2",
        )
    ),
    *_with_loads(
        Function(
            "bias_forces",
            "Bias forces: Coriolis, centrifugal and gravity efforts",
            ("q", "qd", "gravity"),
            ("tau",),
            _bias_forces,
            "recursive Newton-Euler, S0 eq. 5",
        )
    ),
    *_with_loads(
        Function(
            "forward_dynamics_aba",
            "Forward dynamics: joint accelerations that given efforts produce",
            ("q", "qd", "tau", "gravity"),
            ("qdd",),
            _forward_dynamics_aba,
            "articulated bodies, S0 eq. 7 and 8",
        )
    ),
    *_with_loads(
        Function(
            "forward_dynamics_crba",
            "Forward dynamics: joint accelerations that given efforts produce",
            ("q", "qd", "tau", "gravity"),
            ("qdd",),
            _forward_dynamics_crba,
            "mass matrix and its factorisation, S0 eq. 6",
        )
    ),
    Function(
        "mass_matrix",
        "Mass matrix: joint-space inertia",
        ("q",),
        ("M",),
        _mass_matrix,
        "composite rigid bodies, Featherstone 2008, chapter 6",
    ),
    Function(
        "mass_matrix_inverse",
        "Inverse of the mass matrix",
        ("q",),
        ("Minv",),
        _mass_matrix_inverse,
        "factorisation with the sparsity of the tree, Featherstone 2008, chapter 6",
    ),
    *_with_loads(
        Function(
            "inverse_dynamics_gradient",
            "Gradient of inverse dynamics by positions and velocities",
            ("q", "qd", "qdd", "gravity"),
            ("dtau_dq", "dtau_dqd"),
            _inverse_dynamics_gradient,
            "S3 Algorithm 2; Singh, Russell and Wensing 2022",
        )
    ),
    *_with_loads(
        Function(
            "forward_dynamics_gradient",
            "Gradient of forward dynamics by positions, velocities and efforts",
            ("q", "qd", "tau", "gravity"),
            ("dqdd_dq", "dqdd_dqd", "dqdd_dtau"),
            _forward_dynamics_gradient,
            "-M^-1 times the gradient of inverse dynamics, S3",
        )
    ),
)

#: Every function by name.
FUNCTIONS: dict[str, Function] = {function.name: function for function in _ALL}


def refusal(tree: KinematicTree, function: str) -> str | None:
    """Return why a robot cannot have a function, with the remedy, or ``None``."""
    if not function.startswith(("forward_dynamics", "mass_matrix_inverse")):
        return None
    if tree.singular_joint is not None:
        return (
            f'joint "{tree.singular_joint}" moves nothing that has inertia, so the mass matrix is '
            "singular: give its links inertia, or load the robot with armature="
        )
    if function.startswith("forward_dynamics_aba") and tree.has_mimic:
        return aba.MIMIC_REFUSAL
    return None


def evaluate_reference(
    tree: KinematicTree, function: str, inputs: Mapping[str, npt.ArrayLike]
) -> list[npt.NDArray[np.float64]]:
    """Run a function's algorithm on NumPy numbers: the reference of every backend.

    Args:
        tree:     the robot.
        function: a name in ``FUNCTIONS``.
        inputs:   the arrays by name, (B, ...) each; ``gravity`` and the base's motion may be one
                  vector for all states. Complex numbers are accepted (complex steps).

    Returns:
        the outputs, (B, ...) each.
    """
    batch = np.shape(inputs["q"])[0]
    columns: dict[str, list[Scalar]] = {}
    for name in FUNCTIONS[function].inputs:
        shape = (batch, *array_shape(name, tree))
        flat = np.broadcast_to(np.asarray(inputs[name]), shape).reshape(batch, -1)
        columns[name] = list(flat.T)
    results = FUNCTIONS[function].algorithm(tree, columns, FloatScalars())
    arrays = []
    for name, elements in zip(FUNCTIONS[function].outputs, results, strict=True):
        stacked = np.stack([np.broadcast_to(element, (batch,)) for element in elements], axis=1)
        arrays.append(stacked.reshape(batch, *array_shape(name, tree)))
    return arrays
