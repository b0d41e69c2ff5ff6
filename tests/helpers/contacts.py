"""MuJoCo's accelerations and contact forces in states that touch, as arrays of gridgen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.testing import assert_allclose

from gridgen.dynamics.constraints import Constraints
from gridgen.dynamics.contacts.touching import touches
from gridgen.dynamics.state import State
from gridgen.model.readers.mujoco import from_model
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.options import RobotOptions
from gridgen.symbolic.scalars import FloatScalars
from gridgen.symbolic.spatial import add, apply

#: Name, position and force [N] of a contact in the world.
Seen = tuple[str, np.ndarray, np.ndarray]


def contacts_of(model: Any, data: Any) -> list[Seen]:
    """Return the contacts of a state; ``data`` has its forces."""
    found, force = [], np.zeros(6)
    for index, contact in enumerate(data.contact):
        mujoco.mj_contactForce(model, data, index, force)
        names = [model.geom(geom).name or f"geom{geom}" for geom in contact.geom]
        name = names[1] if model.geom_type[contact.geom[0]] == 0 else ":".join(names)
        axes = contact.frame.reshape(3, 3)
        found.append((name, contact.pos.copy(), axes.T @ force[:3]))
    return found


def forces_at_points(
    tree: KinematicTree, q: np.ndarray, contacts: Sequence[Sequence[Seen]]
) -> np.ndarray:
    """Return MuJoCo's contact forces at the points of gridgen, shape (B, k, 3).

    Raises:
        AssertionError: a contact of MuJoCo is at none of the points of its shapes.
    """
    frame = Constraints(State.of(tree, FloatScalars(), {"q": [*q.T]}))
    names, places = [], []
    for contact, radius in zip(tree.contact_model.contacts, tree.parameters["radii"], strict=True):
        for touch in touches(frame, contact, radius):
            pose = frame.pose(-1, touch.axes)
            names.append(contact.name)
            point = add(pose.p, apply(pose.R, touch.point))
            places.append(np.stack(np.broadcast_arrays(*point, q[:, 0])[:3], axis=1))
    forces = np.zeros((len(q), len(names), 3))
    for state, seen in enumerate(contacts):
        free = set(range(len(names)))
        for name, position, force in seen:
            own = [k for k in free if names[k] == name]
            distances = {k: np.abs(places[k][state] - position).max() for k in own}
            nearest = min(distances, key=distances.__getitem__)
            assert distances[nearest] < 1e-9, (name, distances)
            forces[state, nearest] = force
            free.remove(nearest)
    return forces


def iterate_to_the_end(model: Any) -> None:
    """Let MuJoCo's solver iterate until it cannot improve."""
    model.opt.tolerance, model.opt.iterations = 0.0, 200
    model.opt.ls_iterations, model.opt.ls_tolerance = 100, 1e-10


def has_converged(model: Any, data: Any) -> bool:
    """Return whether the constraint forces of MuJoCo's accelerations are in equilibrium."""
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    residual = data.efc_J.reshape(data.nefc, model.nv) @ data.qacc - data.efc_aref
    mujoco.mj_constraintUpdate(model, data, residual, None, 0)
    rest = M @ (data.qacc - data.qacc_smooth) - data.qfrc_constraint
    return bool(np.abs(rest).max() < 1e-9 * max(1.0, np.abs(data.qfrc_constraint).max()))


def local(model: Any, data: Any, v: np.ndarray, *, shifted: bool = False) -> np.ndarray:
    """Return velocities with the linear part of free joints in the axes of their bodies.

    ``shifted`` accelerations are the derivatives of these velocities.
    """
    v = v.copy()
    for joint in np.flatnonzero(model.jnt_type == 0):
        at = model.jnt_dofadr[joint]
        R = data.xmat[model.jnt_bodyid[joint]].reshape(3, 3)
        v[at : at + 3] = R.T @ v[at : at + 3]
        if shifted:
            v[at : at + 3] -= np.cross(data.qvel[at + 3 : at + 6], R.T @ data.qvel[at : at + 3])
    return v


class Peer:
    """A model in random states that touch the ground, and gridgen's arrays of them."""

    def __init__(self, model: Any, count: int, seed: int = 0) -> None:
        self.model, self.data = model, mujoco.MjData(model)
        rng = np.random.default_rng(seed)
        self.free = [j for j in range(model.njnt) if model.jnt_type[j] == 0]
        places = zip(model.jnt_type, model.jnt_qposadr, strict=True)
        #: first coordinates of the quaternions of free and ball joints.
        self.quaternions = [at + 3 * (kind == 0) for kind, at in places if kind in (0, 1)]
        rows: dict[str, list[Any]] = {name: [] for name in ("q", "qd", "tau", "ctrl", "qdd")}
        self.states: list[tuple[np.ndarray, ...]] = []
        self.seen: list[list[Seen]] = []
        while len(rows["q"]) < count:
            self._place(rng)
            data, q = self.data, self.data.qpos.copy()
            mujoco.mj_forward(model, data)
            if not has_converged(model, data) or not data.ncon:
                continue
            moved = data.qvel.copy(), data.qfrc_applied.copy(), data.ctrl.copy()
            self.states.append((q.copy(), *moved))
            rows["q"].append(self.permuted(q))
            rows["qd"].append(self.local(data.qvel))
            rows["tau"].append(self.local(data.qfrc_applied))
            rows["ctrl"].append(data.ctrl.copy())
            rows["qdd"].append(self.local(data.qacc, shifted=True))
            self.seen.append(contacts_of(model, data))
        self.x = {name: np.array(values) for name, values in rows.items()}
        self.x["gravity"] = np.array(model.opt.gravity)
        if not model.nu:
            del self.x["ctrl"]

    def _place(self, rng: np.random.Generator) -> None:
        model, data = self.model, self.data
        mujoco.mj_resetData(model, data)
        data.qvel[:], data.qfrc_applied[:] = rng.normal(size=(2, model.nv))
        data.qfrc_applied[:] *= 3.0
        data.ctrl[:] = rng.normal(size=model.nu)
        if model.jnt_limited.all():  # a hand, about what it touches
            data.qpos[:] = rng.uniform(*np.add(model.jnt_range, (-0.02, 0.02)).T)
            return
        data.qpos[:] += 0.3 * rng.normal(size=model.nq)
        for start in self.quaternions:
            turn = data.qpos[start : start + 4]
            turn /= np.linalg.norm(turn)
        mujoco.mj_kinematics(model, data)
        moving = [g for g in range(model.ngeom) if model.geom_bodyid[g]]
        plane = int(np.flatnonzero(model.geom_type == 0)[0])
        normal = data.geom_xmat[plane].reshape(3, 3)[:, 2]
        heights = data.geom_xpos[moving] @ normal - data.geom_xpos[plane] @ normal
        # The vertical coordinate is the second of a planar robot, and the third of a free joint.
        data.qpos[2 if self.free else 1] -= heights.min() - rng.uniform(0.0, 0.08)

    def place(self, index: int) -> None:
        """Return to one of the states."""
        mujoco.mj_resetData(self.model, self.data)
        data = self.data
        for array, own in zip(
            (data.qpos, data.qvel, data.qfrc_applied, data.ctrl), self.states[index], strict=True
        ):
            array[:] = own

    def permuted(self, q: np.ndarray) -> np.ndarray:
        for at in self.quaternions:
            q[at : at + 4] = np.roll(q[at : at + 4], -1)
        return q

    def local(self, v: np.ndarray, *, shifted: bool = False) -> np.ndarray:
        """Return ``local`` of the present state."""
        return local(self.model, self.data, v, shifted=shifted)

    def tree(self, **options: Any) -> KinematicTree:
        """Return gridgen's tree."""
        options = {"contact": {"iterations": 100}, "actuators": self.model.nu > 0} | options
        return build_tree(from_model(self.model), RobotOptions(joint_dynamics=True, **options))

    def check(self, qdd: np.ndarray, forces: np.ndarray, tolerance: float) -> None:
        """Compare accelerations, and the force of each contact."""
        seen = forces_at_points(self.tree(), self.x["q"], self.seen)
        assert seen.any(axis=(1, 2)).mean() > 0.5
        for found, expected in ((qdd, self.x["qdd"]), (forces, seen)):
            found, expected = (array.reshape(len(array), -1) for array in (found, expected))
            scale = np.maximum(np.abs(expected).max(axis=1, keepdims=True), 1.0)
            assert_allclose(found / scale, expected / scale, rtol=0.0, atol=tolerance)
