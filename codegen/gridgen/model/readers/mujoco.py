"""MJCF file or ``mujoco.MjModel`` -> RobotDescription."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from lxml import etree

from gridgen.errors import ModelError, UrdfError
from gridgen.functions.arrays import STANDARD_GRAVITY
from gridgen.model.description import (
    Inertial,
    Joint,
    KeyValues,
    Limits,
    Link,
    RobotDescription,
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
    to_rpy,
    unit,
    vector3,
)
from gridgen.model.readers.assembly import Assembly
from gridgen.model.readers.document import Document
from gridgen.model.readers.limited import run_limited
from gridgen.model.readers.mujoco_contacts import (
    MESH,
    is_disabled,
    mesh_of,
    read_contacts,
    shape_of,
    solref_of,
    uncovered,
)
from gridgen.model.readers.mujoco_fields import (
    JOINT,
    JOINT_IN_PARENT,
    joints_of,
    read_actuators,
    used,
)
from gridgen.model.readers.mujoco_sensors import read_sensors
from gridgen.model.readers.packages import library, require
from gridgen.model.soft import JointSoftness, Softness
from gridgen.model.validation import check_body_count
from gridgen.naming import show

FREE, BALL, SLIDE, HINGE = range(4)
"""MuJoCo's joint types (mjtJoint)."""

VELOCITIES = {FREE: 6, BALL: 3}
"""Velocities of types that have several."""

CONNECT, WELD, JOINTS = range(3)
"""MuJoCo's types of equality constraints (mjtEq) that are read."""

SITE = 6
"""MuJoCo's type of a site (mjtObj)."""

FIXED = 0
"""MuJoCo's mode of a camera that is fixed to its body (mjtCamLight)."""

IMPEDANCES = 1e-4, 0.9999
"""Bounds of ``solimp`` (mjMINIMP, mjMAXIMP)."""

MAX_LINKS = 100_000
"""Maximum number of bodies of a model."""


def is_model(source: object) -> bool:
    """Return whether an object is a ``mujoco.MjModel``."""
    kind = type(source)
    return kind.__module__.split(".")[0] == "mujoco" and kind.__name__ == "MjModel"


def from_file(document: Document, path: str | None, most_bodies: float) -> RobotDescription:
    """Read an MJCF file, compiled by MuJoCo.

    Args:
        document:    parsed file or text.
        path:        path of the file, from which MuJoCo resolves included files.
        most_bodies: maximum number of joints.

    Raises:
        UrdfError:  MuJoCo is not installed, cannot compile the file, or exceeds the time or
            memory limit.
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


_NEEDS = "an MJCF file requires"
_ADVICE = (
    "make it smaller, check that no file attaches or includes itself, or compile it yourself and "
    "give the mujoco.MjModel"
)


def _assembled(
    path: str | None, text: str | None, source: str, most_bodies: float
) -> tuple[Assembly, str]:
    """Return the links and joints of a file or text, and the robot's name."""
    mujoco = library("mujoco", source, _NEEDS)
    try:
        if path is not None:
            model = mujoco.MjModel.from_xml_path(path)
        else:
            model = mujoco.MjModel.from_xml_string(text)
    except MemoryError:
        raise
    except Exception as error:  # the bindings raise ValueError, and others when out of memory
        reason = show(" ".join(str(error).split()), 300)
        advice = "" if isinstance(error, ValueError) else f"; {_ADVICE}"
        raise UrdfError(f"MuJoCo cannot compile it: {reason}{advice}", source) from error
    return _Reader(model, source).robot(most_bodies)


def from_model(
    model: Any, most_bodies: float = math.inf, source: str = "<mujoco.MjModel>"
) -> RobotDescription:
    """Read a ``mujoco.MjModel``.

    The description contains bodies, inertias, and hinge, slide, ball and free joints in MuJoCo's
    order, with their limits, armature, damping and friction. It includes armature and damping of
    actuators on joints. Equality constraints of bodies, sites and joints become constraints, whose
    stabilization is ``solref``. Spatial tendons and other forces that gridgen lacks are ignored
    with a warning: forces are arguments of functions.

    Raises:
        ModelError: the model has a flex, a free joint with translational armature,
            armature that acts on no joint, damping that is a polynomial of the velocity, or more
            than ``most_bodies`` joints. An equality of joints is a polynomial of degree 2.
        UrdfError:  names or inertias are invalid.
    """
    made, name = _Reader(model, source).robot(most_bodies)
    return made.finish(name)


class _Reader:
    """Reader of one model."""

    def __init__(self, model: Any, source: str) -> None:
        self.model = model
        self.mujoco = sys.modules["mujoco"]  # loaded, for it made the model
        self.made = Assembly(source)
        self.link_of: dict[int, str] = {}  # the link of each body
        self.joint_of: dict[int, str] = {}  # the name of each joint
        self.damps = not self.is_disabled("DAMPER", "PASSIVE")

    def robot(self, most_bodies: float) -> tuple[Assembly, str]:
        """Return the links and joints of the robot, and its name."""
        check_body_count(self.made.source, self.model.njnt, most_bodies)
        if self.model.nbody > MAX_LINKS:
            advice = f"at most {MAX_LINKS} are supported: remove bodies of the environment"
            raise self.refused("the model", f"has {self.model.nbody} bodies", advice)
        if self.model.nflex:
            raise self.refused("the model", "has flexes (deformable bodies)", "remove them")
        self.armature, self.damping, self.friction = self.of_velocities()
        for index in range(self.model.nbody):
            body = self.model.body(index)
            self.link_of[index] = self.made.name("link", body.name or f"body{index}")
            if index:
                self.body(index)
            inertial = self.inertial(index) if index else None
            geoms = [*self.geoms(index)]
            shapes = tuple(shape_of(self.model, geom) for geom in geoms)
            meshes = tuple(
                mesh_of(self.model, geom) for geom in geoms if self.model.geom_type[geom] == MESH
            )
            link = Link(self.link_of[index], inertial, shapes=shapes, meshes=meshes)
            self.made.links.append(link)
        self.fixed_frames()
        self.made.contact_model = read_contacts(
            self.model, self.mujoco, self.link_of, self.joint_of
        )
        self.made.actuators = [*self.actuators()]
        self.keyframes()
        self.made.sensors = [*read_sensors(self.model, self.mujoco, self.link_of, self.joint_of)]
        if any("_signs" in one for one in self.made.sensors):
            self.made.qpos0 = self.positions(self.model.qpos0)
        if not self.is_disabled("EQUALITY", "CONSTRAINT"):
            for index in range(self.model.neq):
                self.equality(index)
        self.note_forces()
        self.note_integrator()
        if names := used(self.model, self.mujoco):
            problem = f"uses {listing(names)}, which gridgen does not support"
            self.made.note("the model", problem, "compare results with MuJoCo's")
        name = bytes(self.model.names).split(b"\0")[0].decode("utf-8", "replace")
        return self.made, name or "robot"

    def of_velocities(self) -> tuple[Any, Any, Any]:
        """Return armature, damping and friction of each velocity, actuators included."""
        model = self.model
        armature, damping = model.dof_armature.copy(), model.dof_damping.copy()
        if np.any(self.newer("tendon_armature", slice(None))):
            raise self.refused("the model", "has tendons with armature", "set it to zero")
        for index in range(getattr(model, "nactuator", model.nu)):
            own = self.newer("actuator_armature", index)
            loss = self.newer("actuator_damping", index)
            where = f"actuator {show(model.actuator(index).name or str(index))}"
            if model.actuator_trntype[index] not in (JOINT, JOINT_IN_PARENT):
                if own or loss:
                    problem = "has armature or damping and acts on no joint"
                    raise self.refused(where, problem, "set it to zero")
                continue
            if self.is_polynomial("actuator", index):
                raise self.polynomial(where)
            if own or loss:
                # An actuator may have multiple outputs, each with a row of gears.
                at = model.actuator_outadr[index] if hasattr(model, "actuator_outadr") else index
                squared = float(model.actuator_gear[at, 0]) ** 2
                joint = model.actuator_trnid[index, 0]
                first = model.jnt_dofadr[joint]
                moved = slice(first, first + VELOCITIES.get(int(model.jnt_type[joint]), 1))
                armature[moved] += squared * own
                damping[moved] += squared * loss
        frictionless = self.is_disabled("FRICTIONLOSS", "CONSTRAINT")
        friction = model.dof_frictionloss * (0.0 if frictionless else 1.0)
        return armature, damping * (1.0 if self.damps else 0.0), friction

    def is_disabled(self, *names: str) -> bool:
        """Return whether one of the flags ``mjDSBL_<name>`` is set."""
        return is_disabled(self.model, self.mujoco, *names)

    def body(self, index: int) -> None:
        """Add the joints of a body, or a fixed joint if it has none."""
        model, link = self.model, self.link_of[index]
        parent = self.link_of[model.body_parentid[index]]
        x, y, z = _vector(model.body_pos[index])
        origin = Pose(_rotation(model.body_quat[index]), (x, y, z))
        first, count = model.body_jntadr[index], model.body_jntnum[index]
        at = ZERO  # position of the last link, in the axes of the body
        for joint in range(first, first + count):
            rotates = model.jnt_type[joint] in (HINGE, BALL)
            anchor = _vector(model.jnt_pos[joint]) if rotates else ZERO
            last = joint == first + count - 1 and anchor == ZERO
            name = self.made.name("joint", model.joint(joint).name or f"joint{joint}")
            self.joint_of[joint] = name
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
        if not self.is_disabled("SPRING", "PASSIVE"):
            self.spring(index, name, where)
        if kind == FREE:
            own = tuple(self.armature[v : v + 6].tolist())
            if any(own[:3]):
                # MuJoCo multiplies armature a by the acceleration in world axes. In gridgen the
                # axes rotate with the body, where the same force is a (dv/dt + w x v).
                problem = (
                    f"is free and has armature ({own[0]:g}), which MuJoCo applies in world axes"
                )
                advice = 'write <freejoint/>, which ignores defaults, or armature="0"'
                raise self.refused(where, problem, advice)
            losses = (*self.damping[v : v + 6], *self.friction[v : v + 6])
            if np.any(losses) or self.is_polynomial("dof", v):
                self.made.note(
                    where, "is free and has damping or friction, which gridgen ignores", _F
                )
            # A free joint's position is relative to the world; the body's placement is unused.
            return Joint(name, "floating", parent, link, armature=own if any(own) else ())
        if self.is_polynomial("dof", v):
            raise self.polynomial(where)
        axis = unit(_vector(model.jnt_axis[index]))
        reference = 0.0 if kind == BALL else float(model.qpos0[model.jnt_qposadr[index]])
        armature = self.armature[v : v + VELOCITIES.get(int(kind), 1)].tolist()
        return Joint(
            name,
            {HINGE: "revolute", SLIDE: "prismatic", BALL: "ball"}[int(kind)],
            parent,
            link,
            origin @ _displacement(kind, axis, -reference),
            axis,
            self.limits(index),
            damping=float(self.damping[v]),
            friction=float(self.friction[v]),
            armature=tuple(armature) if any(armature) else (),
        )

    def spring(self, index: int, name: str, where: str) -> None:
        """Add the spring of a joint, or record that it is ignored."""
        model, stiffness = self.model, float(self.model.jnt_stiffness[index])
        bends = [self.newer(f"jnt_{field}", index) for field in ("stiffnesspoly", "springyield")]
        is_linear = model.jnt_type[index] != FREE and not np.any(np.hstack(bends))
        if stiffness and is_linear:
            first = model.jnt_qposadr[index]
            rest = [model.qpos_spring[first]]
            if model.jnt_type[index] == BALL:
                w, *turn = model.qpos_spring[first : first + 4]
                rest = [*turn, w]
            self.made.springs[name] = stiffness, tuple(map(float, rest))
        elif stiffness or np.any(bends[0]):
            problem = "is free or nonlinear and has a spring, which gridgen ignores"
            self.made.note(where, problem, "add its torque or force to tau")

    def newer(self, name: str, index: Any) -> Any:
        """Return an entry of a field, zero for releases of MuJoCo without the field."""
        values = getattr(self.model, name, None)
        return 0.0 if values is None else values[index]

    def is_polynomial(self, owner: str, index: int) -> bool:
        """Return whether damping of a "dof" or an "actuator" is nonlinear in the velocity."""
        return bool(np.any(self.newer(f"{owner}_dampingpoly", index))) and self.damps

    def polynomial(self, where: str) -> ModelError:
        """Return the error for damping that is nonlinear in the velocity."""
        problem = "has damping that is a polynomial of the velocity"
        return self.refused(where, problem, "use only the linear term, and add the rest to tau")

    def limits(self, index: int) -> Limits:
        """Return the limits of a joint, infinite where it has none."""
        model = self.model
        lower, upper = model.jnt_range[index].tolist()
        if model.jnt_type[index] == BALL:
            lower, upper = -math.inf, max(lower, upper)
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

    def geoms(self, index: int) -> Iterator[int]:
        """Yield the collision geoms of a body."""
        model, first = self.model, self.model.body_geomadr[index]
        for geom in range(first, first + model.body_geomnum[index]):
            if model.geom_contype[geom] or model.geom_conaffinity[geom]:
                yield int(geom)

    def fixed_frames(self) -> None:
        """Add a link without mass for each site and fixed camera that has a name."""
        model = self.model
        sites = [(model.site(k).name, "site", k) for k in range(model.nsite)]
        cameras = [
            (model.camera(k).name, "cam", k)
            for k in range(model.ncam)
            if model.cam_mode[k] == FIXED
        ]
        for given, kind, k in filter(operator.itemgetter(0), (*sites, *cameras)):
            body, quaternion, position = (
                getattr(model, f"{kind}_{field}")[k] for field in ("bodyid", "quat", "pos")
            )
            name = self.made.name("link", given)
            pose = Pose(_rotation(quaternion), _vector(position))
            joint = self.made.name("joint", f"{name}_fixed")
            self.made.links.append(Link(name))
            self.made.joints.append(Joint(joint, "fixed", self.link_of[int(body)], name, pose))

    def actuators(self) -> Iterator[Mapping[str, Any]]:
        """Add the tendons of joints, and yield the actuators."""
        model, linear = self.model, {}
        for index in range(model.ntendon):
            name = self.made.name("tendon", model.tendon(index).name or f"tendon{index}")
            forces = self.tendon(index)
            if joints := joints_of(model, index):
                linear[index] = name
                own = {self.joint_of[joint]: factor for joint, factor in joints.items()}
                self.made.tendons[name] = {"joints": own, **forces}
                forces = {
                    field: values
                    for field in ("stiffnesspoly", "springyield", "dampingpoly")
                    if np.any(values := self.newer(f"tendon_{field}", index))
                }
                why = "has a nonlinear spring or damper"
            else:
                why = "is spatial, and has forces or limits"
            if forces:
                self.made.note(f"tendon {show(name)}", f"{why}, which gridgen ignores", _F)
            if np.any(self.newer("tendon_actfrclimited", index)):
                problem = "limits the forces of its actuators, which gridgen ignores"
                self.made.note(f"tendon {show(name)}", problem, "give forcerange to them")
        names = {link.name for link in self.made.links}
        sites = {
            k: name
            for k in range(model.nsite)
            if (name := model.site(k).name) in names and model.body_weldid[model.site_bodyid[k]]
        }
        return read_actuators(model, self.mujoco, self.joint_of, linear, sites)

    def tendon(self, index: int) -> dict[str, Any]:
        """Return the forces and limits of a tendon."""
        model, found = self.model, dict[str, Any]()
        softness = {
            side: Softness(
                solref_of(getattr(model, f"tendon_solref_{side}")[index]),
                tuple(getattr(model, f"tendon_solimp_{side}")[index].tolist()),
            )
            for side in ("lim", "fri")
        }
        if model.tendon_limited[index] and not self.is_disabled("LIMIT", "CONSTRAINT"):
            found["lower"], found["upper"] = model.tendon_range[index].tolist()
        if not self.is_disabled("FRICTIONLOSS", "CONSTRAINT"):
            found["friction"] = float(model.tendon_frictionloss[index])
        if not self.is_disabled("SPRING", "PASSIVE"):
            found["stiffness"] = float(model.tendon_stiffness[index])
            found["rest"] = tuple(model.tendon_lengthspring[index].tolist())
        if self.damps and not self.is_disabled("PASSIVE"):
            found["damping"] = float(model.tendon_damping[index])
        if not any(found.get(key) for key in ("lower", "upper", *_PULLS)):
            return {}
        kind = self.mujoco.mjtIntegrator
        found["is_implicit"] = model.opt.integrator not in (
            int(kind.mjINT_EULER),
            int(kind.mjINT_RK4),
        )
        margin = float(model.tendon_margin[index])
        found["softness"] = JointSoftness(softness["lim"], margin, softness["fri"])
        return found

    def keyframes(self) -> None:
        """Add the keyframes; one without a name is ``key2``, with its index in the file."""
        model = self.model
        for key in range(model.nkey):
            positions, velocities = self.positions(model.key_qpos[key]), {}
            for joint, name in self.joint_of.items():
                kind = int(model.jnt_type[joint])
                v = model.key_qvel[key, model.jnt_dofadr[joint] :][: VELOCITIES.get(kind, 1)]
                if kind == FREE:
                    R = np.array(from_quaternion(*positions[name][3:]))
                    v = np.concatenate([R.T @ v[:3], v[3:]])
                velocities[name] = tuple(v.tolist())
            controls = {
                str(one["name"]): float(model.key_ctrl[key, index])
                for index, one in enumerate(self.made.actuators)
                if len(self.made.actuators) == model.nu
            }
            name = model.key(key).name or f"key{key}"
            self.made.keyframes[name] = KeyValues(positions, velocities, controls)

    def positions(self, qpos: Any) -> dict[str, tuple[float, ...]]:
        """Return the positions of joints in gridgen's coordinates, by name."""
        model, found = self.model, {}
        for joint, name in self.joint_of.items():
            kind = int(model.jnt_type[joint])
            nq = {FREE: 7, BALL: 4}.get(kind, 1)
            q = qpos[model.jnt_qposadr[joint] :][:nq].tolist()
            found[name] = (*q[:-4], *q[-3:], q[-4]) if nq > 1 else tuple(q)
        return found

    def equality(self, index: int) -> None:
        """Add an equality constraint, or record that it is ignored."""
        model, kind = self.model, self.model.eq_type[index]
        name = model.equality(index).name or f"equality{index}"
        entry: dict[str, Any] = {"active": bool(model.eq_active0[index])}
        entry["stabilization"] = self.gains(index)
        entry["solref"] = solref_of(model.eq_solref[index])
        entry["solimp"] = tuple(model.eq_solimp[index].tolist())
        first, second = model.eq_obj1id[index], model.eq_obj2id[index]
        data, where = model.eq_data[index], f"equality {show(name)}"
        if kind == JOINTS:
            if np.any(data[2:5]):
                problem = "relates joints by a polynomial of degree 2 or more"
                raise self.refused(where, problem, "give a polynomial of degree 1")
            at = [float(model.qpos0[model.jnt_qposadr[joint]]) for joint in (first, second)]
            entry |= {"kind": "joint", "joint": self.joint_of[first], "multiplier": float(data[1])}
            entry["offset"] = at[0] + float(data[0])
            if second >= 0:
                entry["to"] = self.joint_of[second]
                entry["offset"] -= entry["multiplier"] * at[1]
        elif kind in (CONNECT, WELD):
            ends = [self.end(index, end) for end in (0, 1)]
            if any(model.body_mocapid[body] >= 0 for body, _ in ends):
                self.made.note(where, "holds a mocap body, which gridgen ignores", _F)
                return
            turns = kind == WELD and data[10]  # the scale of torques; without any, a connect
            entry["kind"] = "frame" if turns else "point"
            if turns:
                entry["torquescale"] = float(data[10])
            for prefix, key, (body, pose) in zip(("", "to_"), ("link", "to"), ends, strict=True):
                entry[key] = self.link_of[body]
                entry[f"{prefix}offset"] = pose.translation
                if turns:
                    entry[f"{prefix}rpy"] = to_rpy(pose.rotation)
        else:
            self.made.note(where, "is not of bodies or joints, so that gridgen ignores it", _F)
            return
        self.made.constraints.append({"name": self.made.name("constraint", name), **entry})

    def end(self, index: int, end: int) -> tuple[int, Pose]:
        """Return the body of an end of a connect or weld, and the pose of its frame there."""
        model = self.model
        held = int((model.eq_obj1id, model.eq_obj2id)[end][index])
        if self.newer("eq_objtype", index) == SITE:
            pose = Pose(_rotation(model.site_quat[held]), _vector(model.site_pos[held]))
            return int(model.site_bodyid[held]), pose
        data = model.eq_data[index]
        if model.eq_type[index] == CONNECT:
            return held, Pose(IDENTITY, _vector(data[3 * end : 3 * end + 3]))
        turn = IDENTITY if end else _rotation(data[6:10])  # the pose is relative to body1
        return held, Pose(turn, _vector(data[3 - 3 * end : 6 - 3 * end]))

    def gains(self, index: int) -> tuple[float, float]:
        """Return the gains that MuJoCo has close to the target: ``solref`` with ``solimp[0]``."""
        model = self.model
        least, most = np.clip(model.eq_solimp[index, :2], *IMPEDANCES).tolist()
        time, ratio = solref_of(model.eq_solref[index])
        if time <= 0.0:
            return -time * least / most**2, -ratio / most
        if not self.is_disabled("REFSAFE"):
            time = max(time, 2.0 * model.opt.timestep)
        return least / (most * time * ratio) ** 2, 2.0 / (most * time)

    def note_forces(self) -> None:
        """Record ignored sources of force, for a warning, and the gravity of the file."""
        model = self.model
        found = ["plugins"] if model.nplugin else []
        if not self.is_disabled("CONTACT", "CONSTRAINT"):
            found += uncovered(model, self.mujoco)
        if model.opt.density or model.opt.viscosity:
            found.append("a fluid" + " with wind" * bool(np.any(model.opt.wind)))
        if not self.is_disabled("PASSIVE", "GRAVITY"):
            self.made.gravcomp = {
                self.link_of[int(body)]: float(model.body_gravcomp[body])
                for body in np.flatnonzero(model.body_gravcomp)
            }
            if any(self.newer("jnt_actgravcomp", slice(None)) * model.jnt_actfrclimited):
                found.append("ranges of actuators that include gravity compensation")
        if found:
            self.made.note("the model", f"has {', '.join(found)}, which gridgen ignores", _F)
        if model.nmocap:
            moved = np.flatnonzero(model.body_mocapid >= 0)
            self.made.mocap = [self.link_of[int(body)] for body in moved]
            advice = "give their motion as the motion of the base, or attach them by joints"
            self.made.note("the model", "has mocap bodies, which gridgen treats as fixed", advice)
        if (gravity := self.gravity()) != STANDARD_GRAVITY:
            self.made.gravity = gravity

    def gravity(self) -> Vector3:
        """Return the acceleration of free fall."""
        return ZERO if self.is_disabled("GRAVITY") else _vector(self.model.opt.gravity)

    def note_integrator(self) -> None:
        """Record an integrator of the file that gridgen does not have."""
        model, kinds = self.model, self.mujoco.mjtIntegrator
        word = kinds(model.opt.integrator).name.removeprefix("mjINT_").lower()
        free = model.jnt_bodyid[model.jnt_type == FREE]
        alone = [self.link_of[body] for body in free if body not in model.body_parentid]
        if word == "implicitfast" and alone and "mjINT_DISCRETE" in kinds.__members__:
            word += f" with gyroscopic terms of free bodies without children ({listing(alone, 3)})"
        elif word not in ("implicit", "discrete"):
            return
        problem = f"its integrator is {word}, which gridgen does not have"
        self.made.note("the model", problem, "compare its steps with those of MuJoCo")

    def refused(self, subject: str, problem: str, advice: str) -> ModelError:
        """Return the error for an unsupported feature."""
        return ModelError(f"{self.made.source}: {subject}: {problem}; {advice}")


_F = "give its forces as tau or f_ext"
#: Forces of a tendon.
_PULLS = ("stiffness", "damping", "friction")


def _vector(values: Any) -> Vector3:
    return vector3((values + 0.0).tolist())  # no negative zeros


def _rotation(quaternion: Any) -> Any:
    """Return the rotation of a quaternion (w, x, y, z)."""
    w, x, y, z = quaternion.tolist()
    return from_quaternion(x, y, z, w)


def _displacement(kind: int, axis: Vector3, position: float) -> Pose:
    """Return the displacement of a joint's link at a position."""
    if kind == SLIDE:
        return Pose(IDENTITY, scale(position, axis))
    return Pose(about_axis(axis, position), ZERO)
