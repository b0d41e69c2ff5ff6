"""The functions of a robot: what each reads and writes, and the algorithm behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gridgen.dynamics import (
    aba,
    crba,
    derivatives,
    energy,
    frames,
    hybrid,
    minverse,
    rnea,
    second_order,
)
from gridgen.dynamics.kinematics import BaseMotion
from gridgen.kernel import LOADS, KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.naming import comment, ident, unique
from gridgen.symbolic.scalars import Scalar, Scalars

Inputs = Mapping[str, Sequence[Scalar]]
Algorithm = Callable[[KinematicTree, Inputs, Scalars], Sequence[Sequence[Scalar]]]

Refusal = Callable[[KinematicTree], "str | None"]


@dataclass(frozen=True)
class Function:
    """One function of a robot.

    Attributes:
        key:       which one it is; with loads it also reads those.
        title:     what it computes, lines of at most 90 columns.
        inputs:    names of the arrays read, in order.
        outputs:   names of the arrays written, in order.
        algorithm: computes the outputs from the inputs over any scalar.
        source:    where the algorithm is described.
        refusals:  each says why a robot cannot have the function, with the remedy, or ``None``.
        is_called: whether some call of a user's leads to its program.
    """

    key: KernelKey
    title: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    algorithm: Algorithm
    source: str
    refusals: tuple[Refusal, ...] = ()
    is_called: bool = True

    @property
    def name(self) -> str:
        """Its name in C++."""
        return self.key.name

    def refusal(self, tree: KinematicTree) -> str | None:
        """Return why a robot cannot have it, with the remedy, or ``None``."""
        return next(filter(None, (refusal(tree) for refusal in self.refusals)), None)


def _is_free(tree: KinematicTree) -> str | None:
    for body in tree.bodies:
        if body.kind == "free":
            return (
                f'joint "{body.joint}" is free; second derivatives are for joints of one velocity'
            )
    return None


def _is_massless(tree: KinematicTree) -> str | None:
    return None if tree.total_mass else "nothing that moves has mass"


def _is_singular(tree: KinematicTree) -> str | None:
    if tree.singular_joint is None:
        return None
    return (
        f'joint "{tree.singular_joint}" moves nothing that has inertia, so the mass matrix is '
        "singular: give its links inertia, or load the robot with armature="
    )


def _has_mimic(tree: KinematicTree) -> str | None:
    return aba.MIMIC_REFUSAL if tree.has_mimic else None


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


def _articulated_inertias(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    return [hybrid.articulated_inertias(tree, x["q"], scalars)]


def _articulated_accelerations(
    tree: KinematicTree, x: Inputs, scalars: Scalars
) -> list[list[Scalar]]:
    arrays = (x["q"], x["tau"], x["h"], x["articulated"])
    return [hybrid.articulated_accelerations(tree, *arrays, scalars)]


def _mass_matrix(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    return [_flat(crba.mass_matrix(tree, x["q"], scalars))]


def _mass_matrix_inverse(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    return [_flat(minverse.mass_matrix_inverse(tree, x["q"], scalars))]


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


def _second_order(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    cubes = second_order.inverse_dynamics_second_order(
        tree, x["q"], x["qd"], x["qdd"], _base(x), scalars, x.get("f_ext")
    )
    return [[entry for plane in cube for entry in _flat(plane)] for cube in cubes]


def _forward_kinematics(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    poses = frames.forward_kinematics(tree, x["q"], scalars)
    return [[entry for pose in poses for entry in _flat(pose)]]


def _centre_of_mass(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    return [energy.centre_of_mass(tree, x["q"], scalars)]


def _centre_of_mass_jacobian(
    tree: KinematicTree, x: Inputs, scalars: Scalars
) -> list[list[Scalar]]:
    return [_flat(energy.centre_of_mass_jacobian(tree, x["q"], scalars))]


def _kinetic_energy(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    return [[energy.kinetic_energy(tree, x["q"], x["qd"], scalars)]]


def _potential_energy(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
    return [[energy.potential_energy(tree, x["q"], _base(x).gravity, scalars)]]


def _with_loads(function: Function) -> list[Function]:
    loaded = replace(
        function,
        key=replace(function.key, loaded=True),
        title=function.title + ",\nwith external wrenches and a moving base",
        inputs=(*function.inputs, *LOADS),
    )
    return [function, loaded]


_ALL = (
    *_with_loads(
        Function(
            KernelKey("inverse_dynamics"),
            "Inverse dynamics: joint efforts that produce given accelerations",
            ("q", "qd", "qdd", "gravity"),
            ("tau",),
            _inverse_dynamics,
            "recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 1 and 2",
        )
    ),
    *_with_loads(
        Function(
            KernelKey("bias_forces"),
            "Bias forces: Coriolis, centrifugal and gravity efforts",
            ("q", "qd", "gravity"),
            ("tau",),
            _bias_forces,
            "recursive Newton-Euler, Yang, Wu, Pan (prefix sums) eq. 5",
        )
    ),
    *_with_loads(
        Function(
            KernelKey("forward_dynamics", method="aba"),
            "Forward dynamics: joint accelerations that given efforts produce",
            ("q", "qd", "tau", "gravity"),
            ("qdd",),
            _forward_dynamics_aba,
            "articulated bodies, Yang, Wu, Pan (prefix sums) eq. 7 and 8",
            refusals=(_is_singular, _has_mimic),
        )
    ),
    *_with_loads(
        Function(
            KernelKey("forward_dynamics", method="crba"),
            "Forward dynamics: joint accelerations that given efforts produce",
            ("q", "qd", "tau", "gravity"),
            ("qdd",),
            _forward_dynamics_crba,
            "mass matrix and its factorisation, Yang, Wu, Pan (prefix sums) eq. 6",
            refusals=(_is_singular,),
        )
    ),
    Function(
        KernelKey("forward_dynamics", method="aba", step="articulated_inertias"),
        "Articulated inertias: of every body with all that it carries, whose joints give way",
        ("q",),
        ("articulated",),
        _articulated_inertias,
        "articulated bodies, Yang, Wu, Pan (prefix sums) eq. 7 and Algorithm 3",
        refusals=(_is_singular, _has_mimic),
    ),
    Function(
        KernelKey("forward_dynamics", method="aba", step="articulated_accelerations"),
        "Joint accelerations where bias efforts and articulated inertias are known",
        ("q", "tau", "h", "articulated"),
        ("qdd",),
        _articulated_accelerations,
        "articulated bodies, Yang, Wu, Pan (prefix sums) eq. 18, 19 and Algorithm 3",
        refusals=(_is_singular, _has_mimic),
        is_called=False,  # the hybrid schedule has a kernel of its own for it
    ),
    Function(
        KernelKey("mass_matrix"),
        "Mass matrix: joint-space inertia",
        ("q",),
        ("M",),
        _mass_matrix,
        "composite rigid bodies, Featherstone 2008, chapter 6",
    ),
    Function(
        KernelKey("mass_matrix_inverse"),
        "Inverse of the mass matrix",
        ("q",),
        ("Minv",),
        _mass_matrix_inverse,
        "factorisation with the sparsity of the tree, Featherstone 2008, chapter 6",
        refusals=(_is_singular,),
    ),
    *_with_loads(
        Function(
            KernelKey("inverse_dynamics_gradient"),
            "Gradient of inverse dynamics by positions and velocities",
            ("q", "qd", "qdd", "gravity"),
            ("dtau_dq", "dtau_dqd"),
            _inverse_dynamics_gradient,
            "Plancher et al. (GRiD) Algorithm 2; Singh, Russell and Wensing 2022",
        )
    ),
    *_with_loads(
        Function(
            KernelKey("forward_dynamics_gradient"),
            "Gradient of forward dynamics by positions, velocities and efforts",
            ("q", "qd", "tau", "gravity"),
            ("dqdd_dq", "dqdd_dqd", "dqdd_dtau"),
            _forward_dynamics_gradient,
            "-M^-1 times the gradient of inverse dynamics, Plancher et al. (GRiD)",
            refusals=(_is_singular,),
        )
    ),
    *_with_loads(
        Function(
            KernelKey("inverse_dynamics_second_order"),
            "Second derivatives of inverse dynamics, and the derivative of the mass matrix",
            ("q", "qd", "qdd", "gravity"),
            ("d2tau_dqdq", "d2tau_dqddqd", "d2tau_dqdqd", "dM_dq"),
            _second_order,
            "Singh, Russell and Wensing, second-order derivatives of rigid-body dynamics",
            refusals=(_is_free,),
        )
    ),
    Function(
        KernelKey("forward_kinematics"),
        "Forward kinematics: poses of all frames",
        ("q",),
        ("poses",),
        _forward_kinematics,
        "products of placements, Yang, Wu, Pan (prefix sums) eq. 1",
    ),
    Function(
        KernelKey("centre_of_mass"),
        "Centre of mass",
        ("q",),
        ("com",),
        _centre_of_mass,
        "first moments of composite bodies",
        refusals=(_is_massless,),
    ),
    Function(
        KernelKey("centre_of_mass_jacobian"),
        "Jacobian of the centre of mass",
        ("q",),
        ("Jcom",),
        _centre_of_mass_jacobian,
        "first moments of composite bodies",
        refusals=(_is_massless,),
    ),
    Function(
        KernelKey("kinetic_energy"),
        "Kinetic energy of a robot on a base at rest",
        ("q", "qd"),
        ("energy",),
        _kinetic_energy,
        "sum over the bodies",
    ),
    Function(
        KernelKey("potential_energy"),
        "Potential energy, zero for a centre of mass at the base",
        ("q", "gravity"),
        ("energy",),
        _potential_energy,
        "first moments of composite bodies",
    ),
)

#: The functions that every robot may have, by name.
FUNCTIONS: dict[str, Function] = {function.name: function for function in _ALL}


def function_of(tree: KinematicTree, name: str) -> Function:
    """Return a function of a robot by its name: one of ``FUNCTIONS``, or of one of its frames."""
    return FUNCTIONS[name] if name in FUNCTIONS else frame_functions(tree)[name]


def frame_functions(
    tree: KinematicTree, chosen: Sequence[str] | None = None
) -> dict[str, Function]:
    """Return the functions of a robot's frames by name: Jacobians, and their derivatives times qd.

    Args:
        tree:   the robot.
        chosen: names of frames; by default all.
    """
    functions: dict[str, Function] = {}
    idents = frame_idents(tree)
    for frame in tree.frame_names if chosen is None else chosen:
        frames.find_frame(tree, frame)
        for reference in frames.REFERENCES:
            for function in _functions_of_frame(frame, idents[frame], reference):
                functions[function.name] = function
    return functions


def frame_idents(tree: KinematicTree) -> dict[str, str]:
    """Return the identifier of every frame, by its name."""
    # The Jacobian of a frame "dot_qd_x" shall not be called as the drift of a frame "x" is.
    names = [f"n {name}" if ident(name).startswith("dot_qd") else name for name in tree.frame_names]
    return dict(zip(tree.frame_names, unique(names), strict=True))


def _functions_of_frame(frame: str, ident: str, reference: str) -> tuple[Function, Function]:
    def jacobian(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
        return [_flat(frames.jacobian(tree, x["q"], frame, reference, scalars))]

    def drift(tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
        return [frames.jacobian_dot_qd(tree, x["q"], x["qd"], frame, reference, scalars)]

    of_frame = f"of {comment(frame)} ({reference})"
    return (
        Function(
            KernelKey("jacobian", frame=ident, reference=reference),
            f"Jacobian {of_frame}",
            ("q",),
            ("J",),
            jacobian,
            "joint axes as the frame sees them",
        ),
        Function(
            KernelKey("jacobian_dot_qd", frame=ident, reference=reference),
            f"Derivative of the Jacobian times qd, {of_frame}",
            ("q", "qd"),
            ("drift",),
            drift,
            "acceleration of the frame for zero qdd",
        ),
    )


def refusal(tree: KinematicTree, function: str) -> str | None:
    """Return why a robot cannot have a function, by name, with the remedy, or ``None``."""
    return function_of(tree, function).refusal(tree)
