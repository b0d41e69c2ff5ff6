"""``pinocchio.Model`` -> RobotDescription: the same joints, order, frames and inertias."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gridgen.errors import ModelError
from gridgen.functions.arrays import STANDARD_GRAVITY
from gridgen.model.description import (
    Inertial,
    Joint,
    Limits,
    Link,
    Mimic,
    RobotDescription,
    listing,
)
from gridgen.model.pose import (
    IDENTITY,
    NO_DISPLACEMENT,
    NO_INERTIA,
    Pose,
    Vector3,
    matrix3,
    snap,
    snapped,
    symmetric,
    to_rpy,
    unit,
    vector3,
)
from gridgen.model.readers.assembly import Assembly
from gridgen.naming import show

UNLIMITED = 1e300
"""Threshold of an infinite limit: Pinocchio stores the largest float64."""

CHAINS = {
    "JointModelTranslation": (("prismatic", "x"), ("prismatic", "y"), ("prismatic", "z")),
    "JointModelSphericalZYX": (("revolute", "z"), ("revolute", "y"), ("revolute", "x")),
}
"""Joints that expand to a chain of one-coordinate joints, and their axes."""

SEVERAL = {
    "JointModelFreeFlyer": "floating",
    "JointModelPlanar": "planar",
    "JointModelSpherical": "ball",
}
"""Joints with several velocities, and their kinds in a description."""

_OFFSETS = ("constraint_offset", "constraint_velocity", "constraint_acceleration")
CONSTRAINTS = {
    "RigidConstraintModel": (
        "",
        "m_baumgarte_parameters",
        ("contact_velocity", "contact_acceleration"),
    ),
    "PointAnchorConstraintModel": ("point", "baumgarte_corrector_parameters", _OFFSETS),
    "FrameAnchorConstraintModel": ("frame", "baumgarte_corrector_parameters", _OFFSETS),
}
"""Constraint models: kind (empty if it is an attribute), gains, attributes that must be zero."""

AXES: dict[str, Vector3] = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def is_model(source: object) -> bool:
    """Return whether an object is a ``pinocchio.Model``, or a tuple that begins with one."""
    kind = type(source[0] if isinstance(source, tuple) and source else source)
    return kind.__module__.split(".")[0] == "pinocchio" and kind.__name__ == "Model"


def from_model(source: Any) -> RobotDescription:
    """Read a ``pinocchio.Model``, or a tuple of one and lists of constraint models.

    As in Pinocchio, a moving body includes the inertia of the links fixed to it. As in a URDF, an
    unbounded joint has one coordinate (an angle) and a planar joint three.

    Raises:
        ModelError: a joint type is not supported (composite), or a constraint.
        UrdfError:  names or inertias are invalid.
    """
    model, *lists = source if isinstance(source, tuple) else (source,)
    return _Reader(model).robot([one for models in lists for one in models])


class _Reader:
    """Reader of one model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.frames = list(model.frames)
        self.made = Assembly("<pinocchio.Model>")
        self.link_of: dict[int, str] = {}  # the link of each joint
        self.neutral = sys.modules["pinocchio"].neutral(model)  # loaded, for it made the model

    def robot(self, constraints: Sequence[Any]) -> RobotDescription:
        """Return the robot."""
        own: dict[int, Any] = {}  # for each joint, the first link whose frame is the joint's
        for frame in self.frames:
            if str(frame.type) == "BODY" and _pose(frame.placement) == NO_DISPLACEMENT:
                own.setdefault(frame.parentJoint, frame)
        for index, joint_name in enumerate(self.model.names):
            name = own[index].name if index in own else str(joint_name)
            self.link_of[index] = self.made.name("link", name)
            if index:
                self.joint(index)
                self.made.links.append(Link(self.link_of[index], self.inertial(index)))
            else:
                self.made.links.append(Link(self.link_of[index]))
        for frame in self.frames:
            if str(frame.type) in ("BODY", "OP_FRAME") and own.get(frame.parentJoint) is not frame:
                self.fixed(frame)
        for index, one in enumerate(constraints):
            self.constraint(index, one)
        gravity = vector3(self.model.gravity.linear.tolist())
        if gravity != STANDARD_GRAVITY:
            self.made.gravity = gravity
        return self.made.finish(str(self.model.name) or "robot")

    def inertial(self, index: int) -> Inertial | None:
        """Return the inertia of a body, including the links fixed to it."""
        inertia = self.model.inertias[index]
        (xx, xy, xz), (_, yy, yz), (*_, zz) = inertia.inertia.tolist()
        matrix = symmetric(xx, xy, xz, yy, yz, zz)
        if inertia.mass == 0.0 and matrix == NO_INERTIA:
            return None
        center = Pose(IDENTITY, vector3(inertia.lever.tolist()))
        return Inertial(center, float(inertia.mass), matrix)

    def fixed(self, frame: Any) -> None:
        """Add a massless link on a fixed joint."""
        above = self.frames[frame.parentFrame]
        name = above.name if str(above.type) == "FIXED_JOINT" else f"{frame.name}_fixed"
        joint, link = self.made.name("joint", name), self.made.name("link", frame.name)
        parent = self.link_of[frame.parentJoint]
        self.made.links.append(Link(link))
        self.made.joints.append(Joint(joint, "fixed", parent, link, _pose(frame.placement)))

    def joint(self, index: int) -> None:
        """Add the joint above a link, expanded to one-coordinate joints if it is a chain."""
        joint = self.model.joints[index]
        name, link = str(self.model.names[index]), self.link_of[index]
        parent = self.link_of[self.model.parents[index]]
        origin = _pose(self.model.jointPlacements[index])
        chain = CHAINS.get(joint.shortname())
        if chain is None:
            name = self.made.name("joint", name)
            self.made.joints.append(self.single(index, name, parent, link, origin))
            return
        for k, (kind, letter) in enumerate(chain):
            last = k == len(chain) - 1
            below = link if last else self.made.name("link", f"{name}_{letter}")
            if not last:
                self.made.links.append(Link(below))
            one = Joint(
                self.made.name("joint", f"{name}_{letter}"),
                kind,
                parent,
                below,
                origin,
                AXES[letter],
            )
            self.made.joints.append(replace(one, **self.of_coordinate(joint, k)))
            parent, origin = below, NO_DISPLACEMENT

    def single(self, index: int, name: str, parent: str, link: str, origin: Pose) -> Joint:
        """Return the joint of the same kind."""
        joint = self.model.joints[index]
        kind, axis, pitch = self.kind(name, joint)
        one = Joint(name, kind, parent, link, origin, axis, pitch=pitch)
        if joint.shortname() == "JointModelMimic":
            followed = list(self.model.mimicking_joints).index(index)
            leader = str(self.model.names[self.model.mimicked_joints[followed]])
            mimic = joint.extract()
            return replace(one, mimic=Mimic(leader, float(mimic.scaling), float(mimic.offset)))
        if kind not in ("floating", "planar", "ball"):
            return replace(one, **self.of_coordinate(joint, 0))
        velocities = slice(joint.idx_v, joint.idx_v + joint.nv)
        own = self.model.armature[velocities].tolist()
        if kind == "ball":
            return replace(one, **self.of_ball(name, joint, own))
        if np.any(self.model.damping[velocities]) or np.any(self.model.friction[velocities]):
            problem = f"is {kind} and has damping or friction, which gridgen ignores"
            self.made.note(f"joint {show(name)}", problem, "add its force to tau")
        if kind == "planar" and any(own):
            raise self.refused(name, "is planar and has armature", "set its armature to zero")
        return replace(one, armature=tuple(own) if any(own) else ())

    def kind(self, name: str, joint: Any) -> tuple[str, Vector3, float]:
        """Return the description's kind of a joint, its axis and its pitch [m/rad]."""
        what = joint.shortname()
        if what in SEVERAL:
            return SEVERAL[what], AXES["z"], 0.0
        if joint.nvExtended != 1 or what == "JointModelComposite":
            advice = "build it from joints with one coordinate"
            raise self.refused(name, f"is a {what}, which gridgen does not support", advice)
        if what == "JointModelMimic":
            # Pinocchio 4.1 drops the translation of such a joint, or crashes.
            if "type: JointModelH" in str(joint.extract()):
                problem = "is a helical mimic joint, which Pinocchio does not compute correctly"
                raise self.refused(name, problem, "swap the roles: let its leader mimic it")
            scaling = float(joint.extract().scaling)
        else:
            scaling = 1.0
        data = joint.createData()
        joint.calc(data, self.neutral)
        subspace = np.ravel(data.S) / scaling
        linear, angular = subspace[:3], subspace[3:]
        rotates = angular.any()
        axis = unit(vector3(snap(value) for value in (angular if rotates else linear).tolist()))
        if not rotates:
            return "prismatic", axis, 0.0
        if linear.any():
            return "helical", axis, float(linear @ angular)
        return ("continuous" if joint.nq == 2 else "revolute"), axis, 0.0

    def of_ball(self, name: str, joint: Any, armature: Sequence[float]) -> dict[str, Any]:
        """Return limits, damping and friction of a ball joint, the same about all axes."""
        own = {"armature": tuple(armature) if any(armature) else ()}
        found = [{**self.of_coordinate(joint, k), **own} for k in range(3)]
        if any(one != found[0] for one in found):
            problem = "is a ball joint with different limits, damping or friction about its axes"
            raise self.refused(name, problem, "give the same to all")
        return found[0]

    def of_coordinate(self, joint: Any, k: int) -> dict[str, Any]:
        """Return limits, damping, friction and armature of a joint's coordinate ``k``."""
        model, q, v = self.model, joint.idx_q + k, joint.idx_v + k
        bounded = joint.nq == joint.nv
        limits = Limits(
            _limit(model.lowerPositionLimit[q]) if bounded else -math.inf,
            _limit(model.upperPositionLimit[q]) if bounded else math.inf,
            _limit(model.effortLimit[v]),
            _limit(model.velocityLimit[v]),
        )
        armature = float(model.armature[v])
        return {
            "limits": limits,
            "damping": float(model.damping[v]),
            "friction": float(model.friction[v]),
            "armature": (armature,) if armature else (),
        }

    def constraint(self, index: int, one: Any) -> None:
        """Add a constraint of a point or a frame."""
        what = type(one).__name__
        name = self.made.name("constraint", str(getattr(one, "name", "")) or f"constraint{index}")
        if what not in CONSTRAINTS:
            problem, advice = f"is a {what}, which gridgen does not support", listing(CONSTRAINTS)
            raise self.refused(name, problem, f"give one of {advice}", "constraint")
        kind, gains, desired = CONSTRAINTS[what]
        targets = (getattr(one, f"desired_{value}") for value in desired)
        if any(np.any(getattr(value, "vector", value)) for value in targets):
            problem = "has a desired offset, velocity or acceleration"
            raise self.refused(name, problem, "set it to zero", "constraint")
        rotates = (kind or str(one.type)) in ("frame", "CONTACT_6D")
        corrector = getattr(one, gains)
        entry: dict[str, Any] = {"name": name, "kind": "frame" if rotates else "point"}
        numbers = (corrector.Kp, corrector.Kd, one.retrieveCompliance())
        uniform = [set(np.ravel(values).tolist()) or {0.0} for values in numbers]
        if any(len(values) > 1 for values in uniform):
            problem = "has different gains or compliances in its rows"
            raise self.refused(name, problem, "give the same to all", "constraint")
        position, velocity, entry["compliance"] = (values.pop() for values in uniform)
        entry["stabilization"] = (position, velocity)
        for prefix, key, joint, placement in (
            ("", "link", one.joint1_id, one.joint1_placement),
            ("to_", "to", one.joint2_id, one.joint2_placement),
        ):
            entry[key] = self.link_of[joint]
            entry[f"{prefix}offset"] = vector3(placement.translation.tolist())
            if rotates:
                entry[f"{prefix}rpy"] = to_rpy(_pose(placement).rotation)
        self.made.constraints.append(entry)

    def refused(self, name: str, problem: str, advice: str, what: str = "joint") -> ModelError:
        """Return the error for an unsupported joint or constraint."""
        return ModelError(f"{self.made.source}: {what} {show(name)}: {problem}; {advice}")


def _pose(placement: Any) -> Pose:
    """Return the pose of a ``pinocchio.SE3``."""
    rotation = snapped(matrix3(placement.rotation.ravel().tolist()))
    return Pose(rotation, vector3(placement.translation.tolist()))


def _limit(value: float) -> float:
    """Return a bound, infinite where Pinocchio has no limit."""
    return math.copysign(math.inf, value) if abs(value) >= UNLIMITED else float(value)
