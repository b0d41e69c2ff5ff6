"""What a generated module needs at run time: no symbolic algebra, no URDF parser, no templates."""

from gridgen.runtime.module import open_module
from gridgen.runtime.robot import Robot
from gridgen.runtime.types import (
    ArrayLike,
    BackendChoice,
    ForwardDynamicsSchedule,
    Method,
    Reference,
    Schedule,
    Writable,
)

__all__ = [
    "ArrayLike",
    "BackendChoice",
    "ForwardDynamicsSchedule",
    "Method",
    "Reference",
    "Robot",
    "Schedule",
    "Writable",
    "open_module",
]
