"""Records of a robot and its module (``model.json``), and the registry of robots."""

from __future__ import annotations

import hashlib
import json
import math
import weakref
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridgen.backends import Rows, Sources
from gridgen.errors import ModelError
from gridgen.kernel import Kernel, Work
from gridgen.runtime.configurations import ConfigurationSpace, configuration_space
from gridgen.runtime.module.kernels import Kernels
from gridgen.runtime.parameters import Parameters

# Bounds: JSON has no infinity; ``null`` means no bound.
_BOUNDS = {
    "lower_limits": -math.inf,
    "upper_limits": math.inf,
    "effort_limits": math.inf,
    "velocity_limits": math.inf,
    "max_angles": math.inf,
}
# Only written if not empty; by the names in JSON.
_INPUTS = {
    "parameter_values": "parameters",
    "parameter_names": "parameter_names",
    "keyframes": "keyframes",
    "sensors": "sensors",
}


@dataclass(frozen=True, eq=False)
class Keyframe:
    """A state of the robot's file, in the coordinates of the robot.

    Attributes:
        q:    (nq,) positions [rad or m].
        qd:   (nv,) velocities [rad/s or m/s].
        ctrl: (nu,) controls, those of actuators that the file's simulator has.
    """

    q: NDArray[np.float64]
    qd: NDArray[np.float64]
    ctrl: NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class RobotRecord:
    """Description of a robot."""

    name: str  #: name in the URDF.
    ident: str  #: identifier: C++ namespace, stem of the file names.
    source: str  #: name of the robot's file.
    sha256: str  #: digest of its text.
    #: versions of the generator and of the libraries that determine its output.
    versions: Mapping[str, str]
    floating_base: bool  #: whether the first body is on a free joint.
    options: Mapping[str, Any]  #: ``RobotOptions``, as data.
    armature: tuple[float, ...]  #: (nv) added to the diagonal of the mass matrix.
    #: values of parameters that are inputs, by input.
    parameter_values: Mapping[str, Any] = field(default_factory=dict)
    parameter_names: tuple[str, ...] = ()  #: links with rows of ``params``.
    #: ``q``, ``qd`` and ``ctrl`` of the file's keyframes, by name.
    keyframes: Mapping[str, Any] = field(default_factory=dict)
    #: name and count of numbers of each sensor.
    sensors: tuple[tuple[str, int], ...] = ()
    longest_program: int  #: instructions of the longest straight-line program.
    longest_gpu_program: int  #: the same for a thread of a GPU.
    nq: int  #: number of positions.
    nv: int  #: number of velocities.
    joint_names: tuple[str, ...]  #: moving joints, in order of their bodies.
    angles: tuple[bool, ...]  #: whether each joint's coordinate is an angle.
    #: index of each joint's quaternion in its coordinates, or None.
    quaternions: tuple[int | None, ...]
    max_angles: tuple[float, ...]  #: limit of the angle of each ball joint [rad], otherwise inf.
    body_names: tuple[str, ...]  #: bodies in order, parents first.
    frame_names: tuple[str, ...]  #: every link of the URDF.
    constraint_names: tuple[str, ...]  #: constraints of the robot.
    contact_names: tuple[str, ...]  #: contacts of the robot.
    actuator_names: tuple[str, ...]  #: actuators of the robot.
    sphere_links: tuple[str, ...]  #: link of each sphere.
    self_collision_pairs: tuple[tuple[str, str], ...]  #: pairs of links that may touch.
    frame_idents: tuple[str, ...]  #: their identifiers in the names of functions.
    parents: tuple[int, ...]  #: parent of each body, -1 for the base.
    levels: tuple[tuple[int, ...], ...]  #: bodies by distance from the base.
    q_indices: tuple[int, ...]  #: first position of each body's joint.
    v_indices: tuple[int, ...]  #: first velocity of each body's joint.
    mimics: tuple[bool, ...]  #: whether each body's joint mimics another.
    lower_limits: tuple[float, ...]  #: (nq) [rad or m], -inf without a limit.
    upper_limits: tuple[float, ...]  #: (nq) [rad or m], inf without a limit.
    effort_limits: tuple[float, ...]  #: (nv) [N m or N].
    velocity_limits: tuple[float, ...]  #: (nv) [rad/s or m/s].
    masses: tuple[float, ...]  #: masses of the bodies [kg].
    total_mass: float  #: mass of all bodies [kg].
    #: a joint that moves no mass, for which forward dynamics is undefined.
    singular_joint: str | None

    def as_data(self) -> dict[str, Any]:
        """Return the fields as JSON data."""
        data: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name in _BOUNDS:
                value = [bound if math.isfinite(bound) else None for bound in value]
            if value or entry.name not in _INPUTS:
                data[_INPUTS.get(entry.name, entry.name)] = value
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RobotRecord:
        """Return the record of JSON data; further fields are ignored.

        Raises:
            KeyError: a field is missing.
        """
        values = {
            entry.name: _tuples(data[entry.name])
            for entry in fields(cls)
            if entry.name not in _INPUTS
        }
        for name, missing in _BOUNDS.items():
            values[name] = tuple(missing if bound is None else bound for bound in data[name])
        values |= {own: _tuples(data[key]) for own, key in _INPUTS.items() if key in data}
        return cls(**values)

    @cached_property
    def digest(self) -> str:
        """Digest of the robot's text, and of the options that affect the code of functions."""
        chosen = [
            *(self.options, self.armature, self.longest_program, self.longest_gpu_program),
            *(self.parameter_values or None, self.parameter_names or None),
        ]
        return hashlib.sha256(json.dumps([self.sha256, *chosen]).encode()).hexdigest()

    @cached_property
    def parameters(self) -> Parameters:
        """Parameters that are inputs."""
        is_checked = self.options["check_parameters"]
        return Parameters(self.name, self.parameter_names, self.parameter_values, is_checked)

    @cached_property
    def space(self) -> ConfigurationSpace:
        """The configuration space."""
        return configuration_space(self)


def _tuples(value: Any) -> Any:
    """Return JSON lists as tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class ModuleRecord:
    """Content of a module's ``model.json``."""

    robot: RobotRecord  #: description of the robot.
    arrays: Mapping[str, Any]  #: descriptions of the kernels' arrays, for readers.
    kernels: Kernels  #: the kernels.
    scratch: Mapping[str, int]  #: scratch numbers per state of a kernel's loops, by name.
    rows: Mapping[str, Rows]  #: row layout of a kernel that stages rows in shared memory, by name.
    work: Mapping[str, Work]  #: work of a kernel per state, by name.

    def as_data(self) -> dict[str, Any]:
        """Return all fields as JSON data."""
        return self.robot.as_data() | {
            "arrays": self.arrays,
            "kernels": [kernel.as_data() for kernel in self.kernels.by_name.values()],
            "refusals": dict(self.kernels.refusals),
            "scratch": self.scratch,
            "rows": {name: asdict(rows) for name, rows in self.rows.items()},
            "work": {name: astuple(work) for name, work in self.work.items()},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> ModuleRecord:
        """Return the record of JSON data."""
        kernels = map(Kernel.from_data, data["kernels"])
        return cls(
            RobotRecord.from_data(data),
            data["arrays"],
            Kernels(data["name"], kernels, data["refusals"]),
            data["scratch"],
            {name: Rows.from_data(rows) for name, rows in data["rows"].items()},
            {name: Work(*counts) for name, counts in data["work"].items()},
        )


class Module(Protocol):
    """A robot's description, kernels, and source text."""

    @property
    def description(self) -> RobotRecord:
        """Description of the robot."""

    @property
    def kernels(self) -> Kernels:
        """The kernels."""

    def sources(self, kernel: Kernel) -> Sources:
        """Return source text that defines a kernel."""

    def work(self, kernel: Kernel) -> Work:
        """Return the work of a kernel per state."""


_registered: weakref.WeakSet[Any] = weakref.WeakSet()
_found: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def register(robot: Any) -> None:
    """Register a robot by its handle, as long as it exists."""
    _registered.add(robot)


def robot_of(handle: str) -> Any:
    """Return a registered robot.

    Raises:
        ModelError: no robot has this handle.
    """
    robot = _found.get(handle)
    if robot is None:
        robot = next((one for one in list(_registered) if one.handle == handle), None)
        if robot is None:
            raise ModelError(
                f"no robot {handle} is loaded, which this graph calls: load it with the options "
                "of the graph's robot, and hold a reference to it"
            )
        _found[handle] = robot
    return robot
