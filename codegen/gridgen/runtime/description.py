"""``model.json``: what a module knows of its robot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gridgen.backends import Sources
from gridgen.runtime.lie import ConfigurationSpace, configuration_space


@dataclass(frozen=True)
class ScanLaunch:
    """How a kernel of the scan schedule is launched.

    Attributes:
        computes:          the function of the thread schedule with the same arguments and results.
        threads_per_block: threads of a block.
        states_per_block:  states of a block.
        shared_numbers:    numbers in the dynamic shared memory of a block.
        workspace_numbers: numbers of scratch memory that each state of a launch takes; 0 where
                           shared memory holds them, ``None`` for a kernel that takes none.
    """

    computes: str
    threads_per_block: int
    states_per_block: int
    shared_numbers: int
    workspace_numbers: int | None = None


@dataclass(frozen=True)
class FunctionShape:
    """Shapes of a function's arrays for one state, in the order of its arguments.

    Attributes:
        inputs:  by name.
        outputs: by name.
        scan:    what a kernel of the scan schedule needs beside its arrays.
    """

    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    scan: ScanLaunch | None = None


@dataclass(frozen=True)
class Description:
    """A robot's names, numbers and functions.

    Attributes:
        name:            name in the URDF.
        ident:           identifier: C++ namespace, stem of the file names.
        floating_base:   whether the root moves freely.
        nq:              number of positions.
        nv:              number of velocities.
        joint_names:     joints that move, in order of their bodies.
        body_names:      bodies in order, parents first.
        frame_names:     every link of the URDF.
        frame_idents:    their identifiers in the names of functions.
        parents:         parent of each body, -1 for the base.
        levels:          bodies by distance from the base.
        lower_limits:    (nq) [rad or m], -inf where there is none.
        upper_limits:    (nq) [rad or m], inf where there is none.
        effort_limits:   (nv) [N m or N].
        velocity_limits: (nv) [rad/s or m/s].
        total_mass:      of all bodies [kg].
        space:           how configurations are put together.
        shared_inputs:   arguments that may be one vector for a whole batch.
        loads:           arguments that a function takes only in its variant with external loads.
        functions:       the functions that exist, by name.
        refusals:        why a function does not exist, by name.
    """

    name: str
    ident: str
    floating_base: bool
    nq: int
    nv: int
    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    frame_names: tuple[str, ...]
    frame_idents: tuple[str, ...]
    parents: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]
    lower_limits: tuple[float, ...]
    upper_limits: tuple[float, ...]
    effort_limits: tuple[float, ...]
    velocity_limits: tuple[float, ...]
    total_mass: float
    space: ConfigurationSpace
    shared_inputs: frozenset[str]
    loads: tuple[str, ...]
    functions: Mapping[str, FunctionShape]
    refusals: Mapping[str, str]


class Module(Protocol):
    """Something that has a robot's description and the text of its functions."""

    @property
    def description(self) -> Description:
        """What is known of the robot."""

    def sources(self, function: str) -> Sources:
        """Return text in which ``function`` is defined."""


def read_description(model: Mapping[str, Any]) -> Description:
    """Return the description that ``model.json`` holds."""

    def limits(key: str, missing: float) -> tuple[float, ...]:
        return tuple(missing if value is None else value for value in model[key])

    def shapes(arrays: Mapping[str, list[int]]) -> dict[str, tuple[int, ...]]:
        return {name: tuple(shape) for name, shape in arrays.items()}

    def scan(entry: Mapping[str, Any]) -> ScanLaunch | None:
        if "computes" not in entry:
            return None
        return ScanLaunch(
            entry["computes"],
            entry["threads_per_block"],
            entry["states_per_block"],
            entry["shared_numbers"],
            entry["workspace_numbers"],
        )

    return Description(
        name=model["name"],
        ident=model["ident"],
        floating_base=model["floating_base"],
        nq=model["nq"],
        nv=model["nv"],
        joint_names=tuple(model["joint_names"]),
        body_names=tuple(model["body_names"]),
        frame_names=tuple(model["frame_names"]),
        frame_idents=tuple(model["frame_idents"]),
        parents=tuple(model["parents"]),
        levels=tuple(tuple(level) for level in model["levels"]),
        lower_limits=limits("lower_limits", -math.inf),
        upper_limits=limits("upper_limits", math.inf),
        effort_limits=limits("effort_limits", math.inf),
        velocity_limits=limits("velocity_limits", math.inf),
        total_mass=model["total_mass"],
        space=configuration_space(model),
        shared_inputs=frozenset(model["shared_inputs"]),
        loads=tuple(model["loads"]),
        functions={
            name: FunctionShape(shapes(entry["inputs"]), shapes(entry["outputs"]), scan(entry))
            for name, entry in model["functions"].items()
        },
        refusals=dict(model["refusals"]),
    )
