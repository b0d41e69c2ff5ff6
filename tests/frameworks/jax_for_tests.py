"""Functions of robots as JAX transforms them, with random arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import gridgen
from gridgen.check import random_states
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import PARAMETERS
from gridgen.model.tree import KinematicTree
from numerics.robots import load_robot, load_tree, urdf_path

STATES = 3


class Subject(NamedTuple):
    """A robot on which functions are looked at: its options, what of it is an input."""

    name: str
    options: dict[str, Any]

    @property
    def robot(self) -> gridgen.Robot:
        return load_robot(urdf_path(self.name), constraints=self.name, **self.options)

    @property
    def tree(self) -> KinematicTree:
        return load_tree(urdf_path(self.name), constraints=self.name, **self.options)


#: A slide and skew axes; a free joint and branches; helical joints; a mimic joint, whose masses are
#: inputs.
SUBJECTS = {
    "arm6": Subject("arm6", {}),
    "quadruped": Subject("quadruped", {"floating_base": True}),
    "screws": Subject("screws", {"joint_dynamics": True}),
    "gripper": Subject(
        "gripper", {"parameters": ("all", "armature", "damping"), "joint_dynamics": True}
    ),
}


class Case(NamedTuple):
    """A function with all that it can be differentiated by.

    Attributes:
        call:      takes the arrays by position.
        names:     what they are.
        arguments: random ones, for a batch.
    """

    call: Callable[..., Any]
    names: tuple[str, ...]
    arguments: tuple[jax.Array, ...]


def case(subject: Subject, function: str, states: int = STATES, **choices: Any) -> Case:
    """Return a function of a robot; of a frame, for the last one."""
    robot, row = subject.robot, FUNCTIONS[function]
    tree = subject.tree
    x = random_states(tree, states or 1, np.random.default_rng(len(function)))
    x |= {"qd0": x["qd"]}
    inputs = [name for name in row.options if name in x and name not in PARAMETERS]
    own = [name for name in row.parameters if name in tree.parameters]
    names = (*row.arguments, *inputs, *own)
    if row.of_frame:
        choices = {"frame": robot.frame_names[-1], **choices}

    def call(*arrays: Any) -> Any:
        return getattr(robot, function)(**dict(zip(names, arrays, strict=True)), **choices)

    return Case(call, names, tuple(jax.numpy.asarray(x[name][:states]) for name in names))
