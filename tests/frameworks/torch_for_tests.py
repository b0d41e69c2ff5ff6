"""Robots and states that derivatives are looked at for, by every framework."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

import gridgen
from gridgen.check import random_states
from gridgen.compiler import read_tree
from gridgen.frameworks.torch.batches import arrays_of
from gridgen.functions import FUNCTIONS
from gridgen.options import RobotOptions
from helpers.oracle import pinocchio_model
from helpers.robots import CONSTRAINTS, OWN, SCREWS

#: A slide and skew axes; a free base; a mimic joint and branches.
ROBOTS = ("arm6", "quadruped", "gripper")
#: Helical joints beside others.
SCREWED = "screws"
STATES = 2


@cache
def load(name: str) -> gridgen.Robot:
    """Return a robot whose masses and motors are inputs."""
    return gridgen.load(_source(name), **_options(name))


@cache
def drawn(name: str) -> Mapping[str, np.ndarray]:
    """Return random states of a robot, and whatever else its functions read."""
    options = RobotOptions(**_options(name), joint_dynamics=False, armature=0.1)
    tree = read_tree(_source(name), options)
    return random_states(tree, STATES, np.random.default_rng(len(name)))


def arguments(name: str, function: str) -> dict[str, np.ndarray]:
    """Return all arrays that a function reads, the optional ones included."""
    known = drawn(name)  # inputs of contacts are not among them
    return {array: known[array] for array in arrays_of(FUNCTIONS[function]) if array in known}


def _source(name: str) -> object:
    return pinocchio_model(SCREWS) if name == SCREWED else OWN / f"{name}.urdf"


def _options(name: str) -> dict[str, object]:
    return {
        "floating_base": name == "quadruped",
        "parameters": ("all", "armature", "damping"),
        "constraints": CONSTRAINTS[name],
    }
