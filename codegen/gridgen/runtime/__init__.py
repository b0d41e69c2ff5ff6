"""What a generated module needs at run time: no symbolic algebra, no URDF parser, no templates."""

from gridgen.runtime.module import open_module
from gridgen.runtime.robot import Robot

__all__ = ["Robot", "open_module"]
