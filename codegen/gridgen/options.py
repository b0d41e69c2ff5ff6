"""What a user may choose when a module is generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gridgen.errors import OptionError

#: The functions of a module, as users name them.
FUNCTION_CHOICES = (
    "inverse_dynamics",
    "bias_forces",
    "forward_dynamics",
    "mass_matrix",
    "mass_matrix_inverse",
    "inverse_dynamics_gradient",
    "forward_dynamics_gradient",
    "inverse_dynamics_second_order",
    "forward_kinematics",
    "centre_of_mass",
    "centre_of_mass_jacobian",
    "kinetic_energy",
    "potential_energy",
)
#: Operations of the longest straight-line program that is generated without being asked for by
#: name, as ``schedules.thread.is_longer`` counts them. A host compiler takes about 0.12 ms an
#: operation, NVRTC 0.5 ms: half a minute, two minutes.
LONGEST_PROGRAM = 250_000
#: What is generated unless something else is asked for: second derivatives are long programs.
DEFAULT_FUNCTIONS = tuple(
    name for name in FUNCTION_CHOICES if name != "inverse_dynamics_second_order"
)
DTYPE_CHOICES = ("float32", "float64")


@dataclass(frozen=True)
class GenerateOptions:
    """Choices for one module.

    Attributes:
        output:         folder that the module's folder is put in.
        name:           name of the module; by default the robot's name as an identifier.
        floating_base:  put a free joint under the root.
        joint_dynamics: count the URDF's damping and friction in.
        armature:       added to the diagonal of the mass matrix: one number, or nv.
        functions:      the functions to generate, of ``FUNCTION_CHOICES``; none means the default
                        ones, less those whose programs exceed ``LONGEST_PROGRAM``.
        frames:         links of the URDF whose Jacobians are generated.
    """

    output: Path = Path("generated")
    name: str | None = None
    floating_base: bool = False
    joint_dynamics: bool = False
    armature: float | Sequence[float] = 0.0
    functions: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for function in self.functions:
            if function not in FUNCTION_CHOICES:
                raise OptionError(
                    f'no function "{function}"; choose among {", ".join(FUNCTION_CHOICES)}'
                )
