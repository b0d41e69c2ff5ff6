"""A model of MuJoCo, or an MJCF file -> RobotDescription: what moves, without what touches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from lxml import etree

from gridgen.errors import ModelError, UrdfError
from gridgen.model.description import Inertial, Joint, Limits, Link, RobotDescription
from gridgen.model.pose import (
    IDENTITY,
    NO_DISPLACEMENT,
    NO_INERTIA,
    ZERO,
    Pose,
    Vector3,
    about_axis,
    add,
    from_quaternion,
    scale,
    symmetric,
    unit,
    vector3,
)
from gridgen.model.readers.assembly import Assembly
from gridgen.model.readers.document import Document
from gridgen.model.readers.optional import library
from gridgen.naming import show

FREE, BALL, SLIDE, HINGE = range(4)
"""MuJoCo's numbers of the kinds of joints (mjtJoint)."""

NOT_TAKEN = {
    "neq": "equality constraints",
    "ntendon": "tendons",
    "nu": "actuators",
    "nplugin": "plugins",
    "npair": "contact pairs",
}
"""Counts of what acts on the joints by forces, which are arguments of functions here."""


def is_model(source: object) -> bool:
    """Return whether an object is a ``mujoco.MjModel``."""
    kind = type(source)
    return kind.__module__.split(".")[0] == "mujoco" and kind.__name__ == "MjModel"


def from_file(document: Document, path: str | None) -> RobotDescription:
    """Return the description of an MJCF file, compiled by MuJoCo.

    Args:
        document: the file, or the text.
        path:     of the file, from where MuJoCo finds what it includes.

    Raises:
        UrdfError:  MuJoCo is not installed, or cannot compile it.
        ModelError: see ``from_model``.
    """
    mujoco = library("mujoco", document.source, "an MJCF file is compiled by")
    try:
        if path is not None:
            model = mujoco.MjModel.from_xml_path(path)
        else:
            text = etree.tostring(document.root, encoding="unicode")
            model = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        reason = show(" ".join(str(error).split()), 300)
        raise UrdfError(f"MuJoCo cannot compile it: {reason}", document.source) from error
    return from_model(model, document.source)


def from_model(model: Any, source: str = "<mujoco.MjModel>") -> RobotDescription:
    """Return the description of a ``mujoco.MjModel``.

    Bodies, inertias, hinges, slides and free joints, their limits, armature, damping and friction
    are taken, joints in MuJoCo's order. What makes forces (contacts, equality constraints, tendons,
    actuators, springs) is named in a warning: forces are arguments of functions here.

    Raises:
        ModelError: there is a ball joint, a free joint with armature along its slides, or what
                    deforms.
        UrdfError:  names or inertias are not sound.
    """
    return _Reader(model, source).robot()


class _Reader:
    """Reads the bodies of one model."""

    def __init__(self, model: Any, source: str) -> None:
        self.model = model
        self.made = Assembly(source)
        self.link_of: dict[int, str] = {}  # the link of each body

    def robot(self) -> RobotDescription:
        """Return the whole robot."""
        if self.model.nflex:
            raise self.refused("the model", "has flexes, which deform", "remove them")
        if np.any(self.model.tendon_armature):
            raise self.refused("the model", "has tendons with armature", "set it to zero")
        for index in range(self.model.nbody):
            body = self.model.body(index)
            self.link_of[index] = self.made.name("link", body.name or f"body{index}")
            if index:
                self.body(index)
            self.made.links.append(
                Link(self.link_of[index], self.inertial(index) if index else None)
            )
        self.note_forces()
        name = bytes(self.model.names).split(b"\0")[0].decode("utf-8", "replace")
        return self.made.finish(name or "robot")

    def body(self, index: int) -> None:
        """Add the joints above a body: several, one, or a fixed one."""
        model, link = self.model, self.link_of[index]
        parent = self.link_of[model.body_parentid[index]]
        x, y, z = _vector(model.body_pos[index])
        origin = Pose(_rotation(model.body_quat[index]), (x, y, z))
        first, count = model.body_jntadr[index], model.body_jntnum[index]
        at = ZERO  # where the last link is, in the axes of the body
        for joint in range(first, first + count):
            turns = model.jnt_type[joint] not in (SLIDE, FREE)
            anchor = _vector(model.jnt_pos[joint]) if turns else ZERO
            last = joint == first + count - 1 and anchor == ZERO
            name = self.made.name("joint", model.joint(joint).name or f"joint{joint}")
            below = link if last else self.made.name("link", f"{name}_link")
            if not last:
                self.made.links.append(Link(below))
            here = Pose(IDENTITY, add(anchor, scale(-1.0, at)))
            self.made.joints.append(self.joint(joint, name, parent, below, origin @ here))
            parent, origin, at = below, NO_DISPLACEMENT, anchor
        if parent != link:
            held = self.made.name("joint", f"{link}_fixed")
            origin = origin @ Pose(IDENTITY, scale(-1.0, at))
            self.made.joints.append(Joint(held, "fixed", parent, link, origin))

    def joint(self, index: int, name: str, parent: str, link: str, origin: Pose) -> Joint:
        """Return one joint."""
        model = self.model
        kind, v = model.jnt_type[index], model.jnt_dofadr[index]
        where = f"joint {show(name)}"
        if kind == BALL:
            advice = "make it three hinges, or a free joint"
            raise self.refused(where, "is a ball joint, which is not known here", advice)
        if np.any(model.jnt_stiffness[index]):
            self.made.note(where, "has a spring, which is not taken", "add its effort to tau")
        if kind == FREE:
            own = tuple(model.dof_armature[v : v + 6].tolist())
            if any(own[:3]):
                # MuJoCo resists the acceleration of the world's axes: here the axes turn with the
                # body, where the same efforts are a (dv/dt + w x v).
                problem = (
                    f"is free and has armature ({own[0]:g}), which resists in the world's axes"
                )
                advice = 'write <freejoint/>, which takes no defaults, or armature="0"'
                raise self.refused(where, problem, advice)
            if np.any(model.dof_damping[v : v + 6]) or np.any(model.dof_frictionloss[v : v + 6]):
                self.made.note(where, "is free and has damping or friction, which is not taken", _F)
            # Its position is that in the world, whatever the body's is.
            return Joint(name, "floating", parent, link, armature=own if any(own) else ())
        axis = unit(_vector(model.jnt_axis[index]))
        reference = float(model.qpos0[model.jnt_qposadr[index]])
        armature = float(model.dof_armature[v])
        return Joint(
            name,
            "revolute" if kind == HINGE else "prismatic",
            parent,
            link,
            origin @ _displacement(kind, axis, -reference),
            axis,
            self.limits(index),
            damping=float(model.dof_damping[v]),
            friction=float(model.dof_frictionloss[v]),
            armature=(armature,) if armature else (),
        )

    def limits(self, index: int) -> Limits:
        """Return the limits of a joint, infinite where there are none."""
        model = self.model
        lower, upper = model.jnt_range[index].tolist()
        if not model.jnt_limited[index]:
            lower, upper = -math.inf, math.inf
        effort = math.inf
        if model.jnt_actfrclimited[index]:
            effort = float(np.min(np.abs(model.jnt_actfrcrange[index])))
        return Limits(lower, upper, effort, math.inf)

    def inertial(self, index: int) -> Inertial | None:
        """Return the inertia of a body."""
        model = self.model
        mass, (xx, yy, zz) = float(model.body_mass[index]), model.body_inertia[index].tolist()
        inertia = symmetric(xx, 0.0, 0.0, yy, 0.0, zz)
        if mass == 0.0 and inertia == NO_INERTIA:
            return None
        origin = Pose(_rotation(model.body_iquat[index]), _vector(model.body_ipos[index]))
        return Inertial(origin, mass, inertia)

    def note_forces(self) -> None:
        """Keep what acts on the robot by forces, for a warning, and another gravity."""
        model = self.model
        found = [what for count, what in NOT_TAKEN.items() if getattr(model, count)]
        if np.any(model.geom_contype) or np.any(model.geom_conaffinity):
            found.append("contacts")
        if model.opt.density or model.opt.viscosity:
            found.append("a fluid")
        if np.any(model.body_gravcomp):
            found.append("gravity compensation")
        if found:
            self.made.note("the model", f"has {', '.join(found)}, which is not taken", _F)
        gravity = model.opt.gravity.tolist()
        if gravity != [0.0, 0.0, -9.81]:
            problem = f"its gravity is {gravity}, which is an argument of functions here"
            self.made.note("the model", problem, "give it to them: gravity=")

    def refused(self, subject: str, problem: str, advice: str) -> ModelError:
        """Return the error of what cannot be had here."""
        return ModelError(f"{self.made.source}: {subject}: {problem}; {advice}")


_F = "give what it exerts as tau or f_ext"


def _vector(values: Any) -> Vector3:
    return vector3((values + 0.0).tolist())  # no negative zeros


def _rotation(quaternion: Any) -> Any:
    """Return the rotation of a quaternion (w, x, y, z)."""
    w, x, y, z = quaternion.tolist()
    return from_quaternion(x, y, z, w)


def _displacement(kind: int, axis: Vector3, position: float) -> Pose:
    """Return how far a joint at a position moves its link."""
    if kind == SLIDE:
        return Pose(IDENTITY, scale(position, axis))
    return Pose(about_axis(axis, position), ZERO)
