"""Steps of functions: internal kernels that compute intermediate results."""

from __future__ import annotations

from dataclasses import dataclass

from gridgen.functions.record import Algorithm
from gridgen.kernel import KernelKey


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
STEPS: dict[str, MethodStep] = {
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
