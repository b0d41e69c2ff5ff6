"""Sensors of a ``mujoco.MjModel``, in the form of the option ``sensors``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gridgen.model.pose import IDENTITY, Pose, from_quaternion, to_rpy, vector3
from gridgen.model.readers.mujoco_contacts import contact_between
from gridgen.model.sensors import KINDS, SHAPES
from gridgen.naming import show

BALL, FREE = 1, 0
"""MuJoCo's joint types (mjtJoint)."""

FIXED = 0
"""MuJoCo's mode of a camera that is fixed to its body (mjtCamLight)."""

FOUND = 1
"""Data of a contact sensor that counts contacts (mjtConDataSpec), as a bit."""

RENAMED = {"jointactfrc": "jointactuatorfrc"}
"""Names of MJCF elements that are not those of mjtSensor."""


def read_sensors(
    model: Any, mujoco: Any, links: Mapping[int, str], joints: Mapping[int, str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the sensors of a model; one that is not supported has its ``problem``.

    Args:
        model:  the model.
        mujoco: MuJoCo's module.
        links:  name of each body's link.
        joints: name of each joint.
    """
    reader = _Reader(model, mujoco, links, joints)
    for index in range(model.nsensor):
        name = model.sensor(index).name or f"sensor{index}"
        yield {"name": name, **reader.entry(index)}


class _Reader:
    """Reader of the sensors of one model."""

    def __init__(
        self, model: Any, mujoco: Any, links: Mapping[int, str], joints: Mapping[int, str]
    ) -> None:
        self._model, self._mujoco, self._links, self._joints = model, mujoco, links, joints
        flags = mujoco.mjtDisableBit.__members__
        self._is_off = bool(model.opt.disableflags & int(flags["mjDSBL_SENSOR"]))

    def entry(self, index: int) -> dict[str, Any]:
        """Return the fields of a sensor, or its problem."""
        model = self._model
        kind = self._mujoco.mjtSensor(int(model.sensor_type[index])).name.partition("_")[2].lower()
        kind = RENAMED.get(kind, kind)
        if self._is_off:
            return {"problem": "the file disables sensors"}
        if kind not in KINDS:
            return {"problem": f"gridgen has no sensor {show(kind)}"}
        if np.any(getattr(model, "sensor_delay", np.zeros(index + 1))[index]) or np.any(
            getattr(model, "sensor_interval", np.zeros((index + 1, 1)))[index]
        ):
            return {"problem": "it has a delay or an interval"}
        entry: dict[str, Any] = {"kind": kind}
        if kind == "contact":
            return entry | self._contact(index)
        if KINDS[kind].is_cut:
            entry["cutoff"] = float(model.sensor_cutoff[index])
        if kind == "magnetometer":
            entry["magnetic"] = tuple(model.opt.magnetic.tolist())
        of, observed = KINDS[kind].of, int(model.sensor_objid[index])
        if kind == "touch":
            shape = (
                self._mujoco.mjtGeom(int(model.site_type[observed])).name.rpartition("_")[2].lower()
            )
            size = model.site_size[observed, : SHAPES[shape]].tolist()
            entry |= {"shape": shape, "size": tuple(size)}
        if kind.startswith("subtree"):
            return entry | {"link": self._links[observed]}
        if of in ("joint", "ball", "limit"):
            return entry | {"joint": self._joints[observed]}
        if of == "actuator":
            return entry | {"actuator": model.actuator(observed).name or f"actuator{observed}"}
        signs = []
        for key, kinds, ids in (
            ("link", model.sensor_objtype, model.sensor_objid),
            ("to", model.sensor_reftype, model.sensor_refid),
        ):
            if of not in ("link", "subtree") or (key == "to" and int(ids[index]) < 0):
                continue
            place = self._place(int(kinds[index]), int(ids[index]))
            if isinstance(place, str):
                return {"problem": place}
            body, quaternion, position = place
            pose = Pose(_rotation(quaternion), vector3(position.tolist()))
            prefix = "to_" if key == "to" else ""
            entry |= {key: self._links[body], f"{prefix}offset": pose.translation}
            entry[f"{prefix}rpy"] = to_rpy(pose.rotation)
            w, x, y, z = _product(self._turn(body), quaternion).tolist()
            signs.append((x, y, z, w))
        return entry | {"_signs": tuple(signs)} if kind == "framequat" else entry

    def _contact(self, index: int) -> dict[str, Any]:
        """Return the contact that a sensor counts, or its problem."""
        model, geom = self._model, int(self._mujoco.mjtObj.mjOBJ_GEOM)
        data, _, count = model.sensor_intprm[index].tolist()
        if (data, count) != (FOUND, 1):
            return {"problem": 'it has other data of contacts than "found", or several'}
        if not model.sensor_objtype[index] == model.sensor_reftype[index] == geom:
            return {"problem": "it is not of the contact of two geometries"}
        geoms = int(model.sensor_objid[index]), int(model.sensor_refid[index])
        if np.any(model.geom_gap[[*geoms]]) or np.any(model.pair_gap):
            return {"problem": "its contact has a gap"}
        name = contact_between(model, self._mujoco, geoms)
        if name is None:
            return {"problem": "its geometries have no contact, or one that gridgen ignores"}
        return {"contact": name}

    def _place(self, kind: int, index: int) -> tuple[int, Any, Any] | str:
        """Return an object's body, and its rotation and position there; or why it has none."""
        model, objects = self._model, self._mujoco.mjtObj
        if kind == int(objects.mjOBJ_XBODY):
            return index, np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
        if kind == int(objects.mjOBJ_BODY):
            return index, model.body_iquat[index], model.body_ipos[index]
        if kind == int(objects.mjOBJ_CAMERA) and model.cam_mode[index] != FIXED:
            return "its camera moves on its own"
        prefix = {
            int(objects.mjOBJ_GEOM): "geom",
            int(objects.mjOBJ_SITE): "site",
            int(objects.mjOBJ_CAMERA): "cam",
        }[kind]
        body, quaternion, position = (
            getattr(model, f"{prefix}_{field}")[index] for field in ("bodyid", "quat", "pos")
        )
        return int(body), quaternion, position

    def _turn(self, body: int) -> Any:
        """Return the quaternion (w, x, y, z) of a body at ``qpos0``, with MuJoCo's sign."""
        model = self._model
        found = np.array([1.0, 0.0, 0.0, 0.0])
        path = []
        while body:
            path.append(body)
            body = int(model.body_parentid[body])
        for one in reversed(path):
            first, count = int(model.body_jntadr[one]), int(model.body_jntnum[one])
            found = _product(found, model.body_quat[one])
            for joint in range(first, first + count):
                at = int(model.jnt_qposadr[joint])
                if model.jnt_type[joint] == FREE:
                    found = model.qpos0[at + 3 : at + 7]
                elif model.jnt_type[joint] == BALL:
                    found = _product(found, model.qpos0[at : at + 4])
        return found


def _product(a: Any, b: Any) -> Any:
    """Return the product of two quaternions (w, x, y, z)."""
    v = a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
    return np.array([a[0] * b[0] - a[1:] @ b[1:], *v])


def _rotation(quaternion: Any) -> Any:
    w, x, y, z = quaternion.tolist()
    return from_quaternion(x, y, z, w) if (x, y, z) != (0.0, 0.0, 0.0) else IDENTITY
