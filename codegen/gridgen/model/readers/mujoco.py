"""A model of MuJoCo, or an MJCF file -> RobotDescription: what moves, without what touches."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from lxml import etree

from gridgen.errors import ModelError, UrdfError
from gridgen.model.description import (
    Inertial,
    Joint,
    Limits,
    Link,
    RobotDescription,
    Shape,
    collision_shape,
    listing,
)
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
from gridgen.model.readers.limited import run_limited
from gridgen.model.readers.mujoco_fields import used
from gridgen.model.readers.optional import library, require
from gridgen.model.validation import check_body_count
from gridgen.naming import show

FREE, BALL, SLIDE, HINGE = range(4)
"""MuJoCo's numbers of the kinds of joints (mjtJoint)."""

JOINT, JOINT_IN_PARENT = range(2)
"""MuJoCo's numbers of the transmissions to a joint (mjtTrn)."""

SOLIDS = {
    2: ("sphere", (1.0,)),
    3: ("capsule", (1.0, 2.0)),
    4: ("ellipsoid", (1.0, 1.0, 1.0)),
    5: ("cylinder", (1.0, 2.0)),
    6: ("box", (2.0, 2.0, 2.0)),
}
"""MuJoCo's numbers of solids (mjtGeom), our names, and our sizes over those of MuJoCo."""

NOT_TAKEN = {
    "neq": ("equality constraints", ("EQUALITY", "CONSTRAINT")),
    "ntendon": ("tendons", ()),
    "nu": ("actuators", ()),
    "nplugin": ("plugins", ()),
    "npair": ("contact pairs", ("CONTACT", "CONSTRAINT")),
}
"""Counts of what acts on the joints by forces, what that is, and the flags that disable it."""

MOST_LINKS = 100_000
"""A model of more bodies is refused: it is no robot."""


def is_model(source: object) -> bool:
    """Return whether an object is a ``mujoco.MjModel``."""
    kind = type(source)
    return kind.__module__.split(".")[0] == "mujoco" and kind.__name__ == "MjModel"


def from_file(document: Document, path: str | None, most_bodies: float) -> RobotDescription:
    """Return the description of an MJCF file, compiled by MuJoCo.

    Args:
        document:    the file, or the text.
        path:        of the file, from where MuJoCo finds what it includes.
        most_bodies: a model that has more joints is refused.

    Raises:
        UrdfError:  MuJoCo is not installed, or cannot compile it within limits of time and memory.
        ModelError: see ``from_model``.
    """
    require("mujoco", document.source, _NEEDS)
    text = None if path is not None else etree.tostring(document.root, encoding="unicode")
    made, name = run_limited(
        _assembled,
        path,
        text,
        document.source,
        most_bodies,
        source=document.source,
        what="MuJoCo",
        advice=_ADVICE,
    )
    return made.finish(name)  # type: ignore[no-any-return]


_NEEDS = "an MJCF file is compiled by"
_ADVICE = (
    "make it smaller, see that no file attaches or includes itself, or compile it yourself and "
    "give the mujoco.MjModel"
)


def _assembled(
    path: str | None, text: str | None, source: str, most_bodies: float
) -> tuple[Assembly, str]:
    """Return the links and joints of a file or a text, and the robot's name."""
    mujoco = library("mujoco", source, _NEEDS)
    try:
        if path is not None:
            model = mujoco.MjModel.from_xml_path(path)
        else:
            model = mujoco.MjModel.from_xml_string(text)
    except MemoryError:
        raise
    except Exception as error:  # its bindings raise ValueError, and others where memory ends
        reason = show(" ".join(str(error).split()), 300)
        advice = "" if isinstance(error, ValueError) else f"; {_ADVICE}"
        raise UrdfError(f"MuJoCo cannot compile it: {reason}{advice}", source) from error
    return _Reader(model, source).robot(most_bodies)


def from_model(
    model: Any, most_bodies: float = math.inf, source: str = "<mujoco.MjModel>"
) -> RobotDescription:
    """Return the description of a ``mujoco.MjModel``.

    Bodies, inertias, hinges, slides and free joints, their limits, armature, damping and friction
    are taken, joints in MuJoCo's order; so are armature and damping of actuators on joints. What
    makes forces (contacts, equality constraints, tendons, actuators, springs) is named in a
    warning: forces are arguments of functions here.

    Raises:
        ModelError: there is a ball joint, a free joint with armature along its slides, or what
            deforms; armature that acts on no joint; damping that is a polynomial of the velocity;
            or more than ``most_bodies``.
        UrdfError:  names or inertias are not sound.
    """
    made, name = _Reader(model, source).robot(most_bodies)
    return made.finish(name)


class _Reader:
    """Reads the bodies of one model."""

    def __init__(self, model: Any, source: str) -> None:
        self.model = model
        self.mujoco = sys.modules["mujoco"]  # loaded, for it made the model
        self.made = Assembly(source)
        self.link_of: dict[int, str] = {}  # the link of each body
        self.damps = not self.is_disabled("DAMPER", "PASSIVE")

    def robot(self, most_bodies: float) -> tuple[Assembly, str]:
        """Return the links and joints of the whole robot, and its name."""
        check_body_count(self.made.source, self.model.njnt, most_bodies)
        if self.model.nbody > MOST_LINKS:
            advice = f"a robot has at most {MOST_LINKS}: remove what does not belong to it"
            raise self.refused("the model", f"has {self.model.nbody} bodies", advice)
        if self.model.nflex:
            raise self.refused("the model", "has flexes, which deform", "remove them")
        self.armature, self.damping, self.friction = self.of_velocities()
        for index in range(self.model.nbody):
            body = self.model.body(index)
            self.link_of[index] = self.made.name("link", body.name or f"body{index}")
            if index:
                self.body(index)
            inertial = self.inertial(index) if index else None
            shapes = tuple(self.shapes(index))
            self.made.links.append(Link(self.link_of[index], inertial, shapes=shapes))
        self.note_forces()
        if names := used(self.model, self.mujoco):
            problem = f"has {listing(names)}, which is not known here"
            self.made.note("the model", problem, "compare results with MuJoCo's")
        name = bytes(self.model.names).split(b"\0")[0].decode("utf-8", "replace")
        return self.made, name or "robot"

    def of_velocities(self) -> tuple[Any, Any, Any]:
        """Return armature, damping and friction of each velocity, with what actuators add."""
        model = self.model
        armature, damping = model.dof_armature.copy(), model.dof_damping.copy()
        if np.any(self.newer("tendon_armature", slice(None))):
            raise self.refused("the model", "has tendons with armature", "set it to zero")
        for index in range(getattr(model, "nactuator", model.nu)):
            own = self.newer("actuator_armature", index)
            loss = self.newer("actuator_damping", index)
            where = f"actuator {show(model.actuator(index).name or str(index))}"
            if model.actuator_trntype[index] not in (JOINT, JOINT_IN_PARENT):
                if own:
                    problem = "has armature and acts on no joint"
                    raise self.refused(where, problem, "set it to zero")
                continue
            if self.is_polynomial("actuator", index):
                raise self.polynomial(where)
            if own or loss:
                # An actuator may have several outputs, each with a row of gears.
                at = model.actuator_outadr[index] if hasattr(model, "actuator_outadr") else index
                squared = float(model.actuator_gear[at, 0]) ** 2
                joint = model.actuator_trnid[index, 0]
                first = model.jnt_dofadr[joint]
                moved = slice(first, first + (6 if model.jnt_type[joint] == FREE else 1))
                armature[moved] += squared * own
                damping[moved] += squared * loss
        frictionless = self.is_disabled("FRICTIONLOSS", "CONSTRAINT")
        friction = model.dof_frictionloss * (0.0 if frictionless else 1.0)
        return armature, damping * (1.0 if self.damps else 0.0), friction

    def is_disabled(self, *names: str) -> bool:
        """Return whether a flag is set that disables something, by the end of its name."""
        bits = self.mujoco.mjtDisableBit.__members__
        wanted = (bits.get(f"mjDSBL_{name}", 0) for name in names)
        return any(self.model.opt.disableflags & int(bit) for bit in wanted)

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
        is_spring = model.jnt_stiffness[index] or np.any(self.newer("jnt_stiffnesspoly", index))
        if is_spring and not self.is_disabled("SPRING", "PASSIVE"):
            self.made.note(where, "has a spring, which is not taken", "add its effort to tau")
        if kind == FREE:
            own = tuple(self.armature[v : v + 6].tolist())
            if any(own[:3]):
                # MuJoCo resists the acceleration of the world's axes: here the axes turn with the
                # body, where the same efforts are a (dv/dt + w x v).
                problem = (
                    f"is free and has armature ({own[0]:g}), which resists in the world's axes"
                )
                advice = 'write <freejoint/>, which takes no defaults, or armature="0"'
                raise self.refused(where, problem, advice)
            losses = (*self.damping[v : v + 6], *self.friction[v : v + 6])
            if np.any(losses) or self.is_polynomial("dof", v):
                self.made.note(where, "is free and has damping or friction, which is not taken", _F)
            # Its position is that in the world, whatever the body's is.
            return Joint(name, "floating", parent, link, armature=own if any(own) else ())
        if self.is_polynomial("dof", v):
            raise self.polynomial(where)
        axis = unit(_vector(model.jnt_axis[index]))
        reference = float(model.qpos0[model.jnt_qposadr[index]])
        armature = float(self.armature[v])
        return Joint(
            name,
            "revolute" if kind == HINGE else "prismatic",
            parent,
            link,
            origin @ _displacement(kind, axis, -reference),
            axis,
            self.limits(index),
            damping=float(self.damping[v]),
            friction=float(self.friction[v]),
            armature=(armature,) if armature else (),
        )

    def newer(self, name: str, index: Any) -> Any:
        """Return an entry of a field that older releases of MuJoCo lack, and mean by it zero."""
        values = getattr(self.model, name, None)
        return 0.0 if values is None else values[index]

    def is_polynomial(self, owner: str, index: int) -> bool:
        """Return whether damping, of a "dof" or an "actuator", is no multiple of the velocity."""
        return bool(np.any(self.newer(f"{owner}_dampingpoly", index))) and self.damps

    def polynomial(self, where: str) -> ModelError:
        """Return the error of damping that is no multiple of the velocity."""
        problem = "has damping that is a polynomial of the velocity"
        return self.refused(where, problem, "keep the first number, and give the rest as tau")

    def limits(self, index: int) -> Limits:
        """Return the limits of a joint, infinite where there are none."""
        model = self.model
        lower, upper = model.jnt_range[index].tolist()
        if not model.jnt_limited[index] or self.is_disabled("LIMIT", "CONSTRAINT"):
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

    def shapes(self, index: int) -> Iterator[Shape | None]:
        """Return the shapes of a body that touch others."""
        model, first = self.model, self.model.body_geomadr[index]
        for geom in range(first, first + model.body_geomnum[index]):
            if not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
                continue
            kind, factors = SOLIDS.get(int(model.geom_type[geom]), ("", ()))
            size = [f * x for f, x in zip(factors, model.geom_size[geom].tolist(), strict=False)]
            pose = Pose(_rotation(model.geom_quat[geom]), _vector(model.geom_pos[geom]))
            yield collision_shape(kind, pose, size)

    def note_forces(self) -> None:
        """Keep what acts on the robot by forces, for a warning, and another gravity."""
        model = self.model
        found = [
            what
            for count, (what, flags) in NOT_TAKEN.items()
            if getattr(model, count) and not self.is_disabled(*flags)
        ]
        touches = np.any(model.geom_contype) or np.any(model.geom_conaffinity)
        if touches and not self.is_disabled("CONTACT", "CONSTRAINT"):
            found.append("contacts")
        if model.opt.density or model.opt.viscosity:
            found.append("a fluid")
        if np.any(model.body_gravcomp):
            found.append("gravity compensation")
        if found:
            self.made.note("the model", f"has {', '.join(found)}, which is not taken", _F)
        if model.nmocap:
            advice = "give what they move by as the motion of the base, or put joints above them"
            self.made.note("the model", "has mocap bodies, which stay where they are", advice)
        gravity = [0.0, 0.0, 0.0] if self.is_disabled("GRAVITY") else model.opt.gravity.tolist()
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
