"""Builder of a RobotDescription from a loaded model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridgen.errors import UrdfError
from gridgen.model.description import Joint, KeyValues, Link, RobotDescription
from gridgen.model.diagnostics import Diagnostic
from gridgen.model.pose import Vector3
from gridgen.model.soft import NO_CONTACTS, ContactModel
from gridgen.model.validation import validate
from gridgen.naming import show


@dataclass
class Assembly:
    """Links, joints and constraints in order of addition; duplicate names get a suffix.

    Attributes:
        source: name of the model in messages.
        contact_model: soft constraints.
        actuators: in the form of the option.
        springs: stiffness and coordinates without force of joints; ``tendons`` and ``gravcomp``
            likewise as in the description.
        mocap: links that the simulator moves relative to the root.
        keyframes: states by name.
        sensors: in the form of the option.
        qpos0: positions of joints to which sensors refer.
        gravity: acceleration of free fall, if it is not the default of functions.
    """

    source: str
    links: list[Link] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    constraints: list[Mapping[str, Any]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    contact_model: ContactModel = NO_CONTACTS
    actuators: Sequence[Mapping[str, Any]] = ()
    springs: dict[str, tuple[float, tuple[float, ...]]] = field(default_factory=dict)
    tendons: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    gravcomp: dict[str, float] = field(default_factory=dict)
    mocap: Sequence[str] = ()
    keyframes: dict[str, KeyValues] = field(default_factory=dict)
    sensors: Sequence[Mapping[str, Any]] = ()
    qpos0: dict[str, tuple[float, ...]] = field(default_factory=dict)
    gravity: Vector3 | None = None
    _taken: set[tuple[str, str]] = field(default_factory=set)

    def name(self, kind: str, name: str) -> str:
        """Return a unique name for a link, a joint or a constraint."""
        while (kind, name) in self._taken:
            name += "_"
        self._taken.add((kind, name))
        return name

    def note(self, subject: str, problem: str, advice: str) -> None:
        """Record a diagnostic; those with the same problem and advice are reported together."""
        self.diagnostics.append(Diagnostic(f"{problem}; {advice}", subject, problem, advice))

    def finish(self, name: str) -> RobotDescription:
        """Validate and return the robot, and warn of recorded diagnostics.

        Raises:
            UrdfError: the robot is invalid; see ``validate``.
        """
        links, joints, held = tuple(self.links), tuple(self.joints), tuple(self.constraints)
        self._check_finite()
        soft: tuple[Any, ...] = () if self.contact_model == NO_CONTACTS else (self.contact_model,)
        soft += tuple(one for one in (self.actuators, self.springs, self.keyframes) if one)
        rest = self.sensors, self.qpos0, self.gravity, self.tendons, self.gravcomp
        soft += tuple(one for one in rest if one)
        text = repr((name, links, joints, held, "in order", *soft)).encode("utf-8", "replace")
        digest = hashlib.sha256(text).hexdigest()
        description = RobotDescription(
            name,
            links,
            joints,
            self.source,
            digest,
            in_order=True,
            constraints=held,
            contact_model=self.contact_model,
            actuators=tuple(self.actuators),
            springs=self.springs,
            tendons=self.tendons,
            gravcomp=self.gravcomp,
            mocap=tuple(self.mocap),
            keyframes=self.keyframes,
            sensors=tuple(self.sensors),
            qpos0=self.qpos0,
            gravity=self.gravity,
        )
        validate(description)
        description.warn(self.diagnostics)
        return description

    def _check_finite(self) -> None:
        """Raise if a number of a link or a joint is not finite; limits may be infinite."""
        for link in self.links:
            if (own := link.inertial) is not None:
                numbers = {"mass": [own.mass], "center of mass": own.origin.translation}
                numbers["inertia"] = [entry for row in own.inertia for entry in row]
                self._check_numbers(f"link {show(link.name)}", numbers)
        for joint in self.joints:
            place = joint.origin
            rows = [entry for row in place.rotation for entry in row]
            numbers = {"placement": [*place.translation, *rows], "axis": joint.axis}
            numbers |= {"damping": [joint.damping], "friction": [joint.friction]}
            numbers["armature"] = joint.armature
            numbers["pitch"] = [joint.joint_type.pitch] if joint.joint_type else []
            self._check_numbers(f"joint {show(joint.name)}", numbers)

    def _check_numbers(self, where: str, numbers: Mapping[str, Sequence[float]]) -> None:
        for what, values in numbers.items():
            for value in values:
                if not math.isfinite(value):
                    problem = f"{where}: {what} contains {value}; it must be finite"
                    raise UrdfError(problem, self.source)
