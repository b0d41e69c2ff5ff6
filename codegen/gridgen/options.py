"""What a user may choose when a module is generated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gridgen.errors import OptionError
from gridgen.naming import show, show_value, similar

#: The functions of a module, as users name them.
FunctionName = Literal[
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
    "jacobian",
    "jacobian_dot_qd",
]
FUNCTION_CHOICES: tuple[FunctionName, ...] = get_args(FunctionName)
_LISTED = ", ".join(FUNCTION_CHOICES)
#: Those of one link each.
FRAME_FUNCTIONS: tuple[FunctionName, ...] = ("jacobian", "jacobian_dot_qd")
#: What every module has: no code of a robot's own is behind it.
ALWAYS_THERE = ("integrate", "difference", "neutral", "random_configuration")
#: Operations of the longest straight-line program that is generated without being asked for by
#: name, as ``schedules.thread.is_longer`` counts them. A host compiler takes about 0.12 ms an
#: operation, NVRTC 0.5 ms: half a minute, two minutes.
LONGEST_PROGRAM = 250_000
#: What is generated unless something else is asked for: second derivatives are long programs.
DEFAULT_FUNCTIONS = tuple(
    name
    for name in FUNCTION_CHOICES
    if name != "inverse_dynamics_second_order" and name not in FRAME_FUNCTIONS
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
        frames:         links of the URDF whose Jacobians are generated, and their derivatives
                        unless ``functions`` names one of the two.
        variants:       also generate kernels that nothing calls unasked: other orders of a scan's
                        sums, steps of the hybrid schedule in one thread.
    """

    output: Path = Path("generated")
    name: str | None = None
    floating_base: bool = False
    joint_dynamics: bool = False
    armature: float | Sequence[float] = 0.0
    functions: tuple[FunctionName, ...] = ()
    frames: tuple[str, ...] = ()
    variants: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.output, (str, os.PathLike)):
            raise OptionError(f"output is {show_value(self.output)}; give the path of a folder")
        object.__setattr__(self, "output", Path(self.output))
        if not isinstance(self.name, (str, type(None))):
            raise OptionError(f"name is {show_value(self.name)}; give a string")
        check_switch("floating_base", self.floating_base)
        check_switch("joint_dynamics", self.joint_dynamics)
        check_switch("variants", self.variants)
        for option in ("functions", "frames"):
            names = getattr(self, option)
            is_several = isinstance(names, (tuple, list))
            if not is_several or not all(isinstance(name, str) for name in names):
                raise OptionError(f"{option} is {show_value(names)}; give a tuple of names")
            object.__setattr__(self, option, tuple(names))
        for function in self.functions:
            _check_function(function)
            if function in FRAME_FUNCTIONS and not self.frames:
                raise OptionError(
                    f"{function} is that of a link, and no link is named; add --frame LINK "
                    "(in Python: frames=)"
                )

    @property
    def choices(self) -> tuple[FunctionName, ...]:
        """The functions to generate: those named, the default ones otherwise, those of frames."""
        chosen = self.functions or DEFAULT_FUNCTIONS
        named = set(FRAME_FUNCTIONS) & set(chosen)
        return chosen if named or not self.frames else (*chosen, *FRAME_FUNCTIONS)


def _check_function(name: str) -> None:
    """Raise unless a function can be chosen; say which may have been meant."""
    if name in FUNCTION_CHOICES:
        return
    if name in ALWAYS_THERE:
        raise OptionError(f"{name} is in every module and takes no code: leave it out")
    near = similar(name, FUNCTION_CHOICES)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose among {_LISTED}"
    raise OptionError(f"no function {show(name)}; {hint}")


def check_switch(option: str, value: object) -> None:
    """Raise unless an option that is on or off is a bool: the string "no" would count as true."""
    if not isinstance(value, bool):
        raise OptionError(f"{option} is {show_value(value)}; give True or False")
