"""The robots on which numbers are compared, and how they are loaded."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

import gridgen
from gridgen.compiler import read_tree
from gridgen.dynamics.computation import array_shape
from gridgen.errors import GridGenWarning
from gridgen.functions.arrays import ARRAYS
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.options import RobotOptions
from gridgen.symbolic.program import Program
from helpers.oracle import pinocchio_model
from helpers.program_interpreter import run
from helpers.robots import (
    BALL,
    CONSTRAINTS,
    OWN,
    OWN_ROBOTS,
    SCREW,
    SCREWS,
    described,
    example_urdf,
)

Arrays = Mapping[str, np.ndarray]


def urdf_path(name: str) -> str | Path:
    """Return the file of a robot: one of our own, else of example-robot-data."""
    if name == "screws":
        return SCREWS
    return OWN / f"{name}.urdf" if name in OWN_ROBOTS else example_urdf(name)


@cache
def load_tree(
    urdf: str | Path,
    floating_base: bool = False,
    joint_dynamics: bool = False,
    armature: float | tuple[float, ...] = 0.0,
    parameters: tuple[str, ...] = (),
    constraints: str = "",
) -> KinematicTree:
    """Return the tree of a file or a text, without warnings.

    ``constraints`` is a name in ``CONSTRAINTS``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        options = RobotOptions(
            floating_base=floating_base,
            joint_dynamics=joint_dynamics,
            armature=armature,
            parameters=parameters,
            constraints=CONSTRAINTS.get(constraints, ()),
        )
        if SCREW in str(urdf) or BALL in str(urdf):
            return build_tree(described(urdf), options)
        return read_tree(urdf, options)


def resisting(urdf: str | Path, floating_base: bool = False) -> dict[str, object]:
    """Return options that give every velocity an armature, and damping as an input."""
    nv = load_tree(urdf, floating_base).nv
    return {
        "floating_base": floating_base,
        "joint_dynamics": True,
        "armature": tuple(0.1 + 0.2 * (j % 4) for j in range(nv)),
        "parameters": ("damping",),
    }


@cache
def load_robot(urdf: str | Path, *, constraints: str = "", **options: object) -> gridgen.Robot:
    """Return the robot of a file or a text on the ``cpu`` backend; options as of ``load_tree``."""
    options["constraints"] = CONSTRAINTS.get(constraints, ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        if SCREW in str(urdf):
            urdf = pinocchio_model(urdf, options.pop("floating_base", False))
        return gridgen.load(urdf, backend="cpu", **options)


def run_program(tree: KinematicTree, program: Program, x: Arrays) -> tuple[np.ndarray, ...]:
    """Return the results of a program for a batch of states."""
    batch = len(x["q"])
    inputs = {
        array.name: list(x[array.name].reshape(batch, array.size).T) for array in program.inputs
    }
    outputs = run(program, inputs)
    results = []
    for array in program.outputs:
        columns = [np.broadcast_to(element, batch) for element in outputs[array.name]]
        shape = array_shape(array.name, tree) if array.name in ARRAYS else (array.size,)
        shape = shape if math.prod(shape) == array.size else (array.size,)
        results.append(np.stack(columns, axis=1).reshape(batch, *shape))
    return tuple(results)
