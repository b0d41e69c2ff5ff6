"""Steps of functions: internal kernels that compute intermediate results."""

from __future__ import annotations

from dataclasses import dataclass

from gridgen.functions.record import Algorithm
from gridgen.kernel import KernelKey

#: Kernels of the hybrid schedule: articulated inertias on the CPU, concurrently bias forces on the
#: GPU, then accelerations on the GPU.
INERTIAS = KernelKey("forward_dynamics", "aba", step="articulated_inertias")
BIAS = KernelKey("bias_forces", schedule="scan")
ACCELERATIONS = KernelKey("forward_dynamics", "aba", schedule="hybrid")


@dataclass(frozen=True)
class MethodStep:
    """A step of one method of a function.

    Attributes:
        function:  name of the function.
        method:    name of the method.
        title:     title in generated code.
        inputs:    arrays that it reads.
        results:   arrays that it returns.
        algorithm: algorithm that computes it.
        is_called: whether a call runs its straight-line program.
        parameters: as in ``Function``; optional inputs and ``solves`` likewise.
    """

    function: str
    method: str
    title: str
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    algorithm: Algorithm
    is_called: bool = True
    parameters: tuple[str, ...] = ()
    optional_inputs: tuple[str, ...] = ()
    solves: bool = True


_REFUSALS = ("of_a_singular_mass_matrix", "of_mimic_joints")

#: All steps by name.
STEPS: dict[str, MethodStep] = {
    "articulated_inertias": MethodStep(
        "forward_dynamics",
        "aba",
        "Articulated-body inertias",
        ("q",),
        ("articulated",),
        Algorithm(
            "hybrid.articulated_inertias",
            "articulated bodies, Yang, Wu, Pan (prefix sums) eq. 7 and Algorithm 3",
            refusals=_REFUSALS,
        ),
        parameters=("params", "armature"),
    ),
    "articulated_accelerations": MethodStep(
        "forward_dynamics",
        "aba",
        "Joint accelerations from bias forces and articulated-body inertias",
        ("q", "tau", "h", "articulated"),
        ("qdd",),
        Algorithm(
            "hybrid.articulated_accelerations",
            "articulated bodies, Yang, Wu, Pan (prefix sums) eq. 18, 19 and Algorithm 3",
            refusals=_REFUSALS,
        ),
        is_called=False,  # the hybrid schedule has a separate kernel
        parameters=("armature",),
    ),
}


def _excess(algorithm: str, *inputs: str, refusals: tuple[str, ...] = ()) -> MethodStep:
    source = "sum of what exceeds each bound"
    return MethodStep(
        "step",
        "semi_implicit",  # and every other
        "Excess of a state over its bounds",
        ("q", "q_range", "base_range", *inputs),
        ("excess",),
        Algorithm(f"ends.{algorithm}", source, refusals=refusals, in_loops=False),
        is_called=False,
        solves=False,
    )


#: How far the states of a rollout are beyond their bounds, also of the distance between links.
STEPS |= {
    "excess": _excess("excess"),
    "excess_apart": _excess("excess_apart", "margin", refusals=("of_no_pairs",)),
}
EXCESS, EXCESS_APART = (
    KernelKey(STEPS[name].function, STEPS[name].method, step=name)
    for name in ("excess", "excess_apart")
)

#: Forward kinematics of one frame.
POSE = MethodStep(
    "forward_kinematics",
    "",
    "Pose",
    ("q",),
    ("pose",),
    Algorithm("frames.pose", "products of placements, Yang, Wu, Pan (prefix sums) eq. 1"),
    optional_inputs=("offset",),
)
