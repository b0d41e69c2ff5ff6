"""What a module knows of its robot, and hands out."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gridgen.backends import Rows, Sources
from gridgen.kernel import Kernel, Work
from gridgen.runtime.configurations import ConfigurationSpace, configuration_space
from gridgen.runtime.module.kernels import Kernels
from gridgen.runtime.parameters import Parameters


@dataclass(frozen=True)
class Description:
    """A robot's names and numbers.

    Attributes:
        name:            name in the URDF.
        ident:           identifier: C++ namespace, stem of the file names.
        digest:          of the robot's text, and of the options that change the code of functions.
        floating_base:   whether the root moves freely.
        nq:              number of positions.
        nv:              number of velocities.
        joint_names:     joints that move, in order of their bodies.
        body_names:      bodies in order, parents first.
        frame_names:     every link of the URDF.
        constraint_names: its constraints, in order.
        frame_idents:    their identifiers in the names of functions.
        parents:         parent of each body, -1 for the base.
        levels:          bodies by distance from the base.
        lower_limits:    (nq) [rad or m], -inf where there is none.
        upper_limits:    (nq) [rad or m], inf where there is none.
        effort_limits:   (nv) [N m or N].
        velocity_limits: (nv) [rad/s or m/s].
        total_mass:      of all bodies [kg].
        parameters:      what it takes as inputs of its own numbers.
        space:           how configurations are put together.
    """

    name: str
    ident: str
    digest: str
    floating_base: bool
    nq: int
    nv: int
    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    frame_names: tuple[str, ...]
    constraint_names: tuple[str, ...]
    frame_idents: tuple[str, ...]
    parents: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]
    lower_limits: tuple[float, ...]
    upper_limits: tuple[float, ...]
    effort_limits: tuple[float, ...]
    velocity_limits: tuple[float, ...]
    total_mass: float
    parameters: Parameters
    space: ConfigurationSpace


class Module(Protocol):
    """Something that has a robot's description, its kernels, and their text."""

    @property
    def description(self) -> Description:
        """What is known of the robot."""

    @property
    def kernels(self) -> Kernels:
        """The kernels that there are."""

    def sources(self, kernel: Kernel) -> Sources:
        """Return text in which a kernel is defined."""

    def work(self, kernel: Kernel) -> Work:
        """Return what a state costs a kernel."""


def read_kernels(model: Mapping[str, Any]) -> Kernels:
    """Return the kernels that ``model.json`` lists."""
    kernels = map(Kernel.from_data, model["kernels"])
    return Kernels(model["name"], kernels, model["refusals"])


def read_rows(model: Mapping[str, Any]) -> dict[str, Rows]:
    """Return what the kernels with a form for rows take, by name, as ``model.json`` lists it."""
    return {name: Rows.from_data(record) for name, record in model["rows"].items()}


def read_work(model: Mapping[str, Any]) -> dict[str, Work]:
    """Return the work of the kernels that ``model.json`` lists, by name."""
    return {name: Work(*counts) for name, counts in model["work"].items()}


def read_description(model: Mapping[str, Any]) -> Description:
    """Return the description that ``model.json`` holds."""

    def limits(key: str, missing: float) -> tuple[float, ...]:
        return tuple(missing if value is None else value for value in model[key])

    return Description(
        name=model["name"],
        ident=model["ident"],
        digest=_digest(model),
        floating_base=model["floating_base"],
        nq=model["nq"],
        nv=model["nv"],
        joint_names=tuple(model["joint_names"]),
        body_names=tuple(model["body_names"]),
        frame_names=tuple(model["frame_names"]),
        constraint_names=tuple(model.get("constraint_names", ())),
        frame_idents=tuple(model["frame_idents"]),
        parents=tuple(model["parents"]),
        levels=tuple(tuple(level) for level in model["levels"]),
        lower_limits=limits("lower_limits", -math.inf),
        upper_limits=limits("upper_limits", math.inf),
        effort_limits=limits("effort_limits", math.inf),
        velocity_limits=limits("velocity_limits", math.inf),
        total_mass=model["total_mass"],
        parameters=Parameters(
            model["name"],
            model.get("parameter_names", ()),
            model.get("parameters", {}),
            model["options"]["check_parameters"],
        ),
        space=configuration_space(model),
    )


# What of a model decides its code, beside the text.
_OPTIONS = ("options", "armature", "longest_program", "longest_gpu_program")
# The same, of a model that has inputs of its own.
_INPUTS = ("parameters", "parameter_names")


def _digest(model: Mapping[str, Any]) -> str:
    chosen = [*(model[option] for option in _OPTIONS), *(model.get(own) for own in _INPUTS)]
    text = json.dumps([model["sha256"], *chosen])
    return hashlib.sha256(text.encode()).hexdigest()
