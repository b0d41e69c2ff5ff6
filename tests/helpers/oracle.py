"""Pinocchio as reference: evaluates the same robot with the arrays of grid-gen, state by state.

Pinocchio uses other coordinates for some joints and does not support every mimic joint. Hence its
model has independent joints only, and this module adds the constraints: the velocities of
Pinocchio's joints are v = V(q) qd, and

    tau = V^T tau_pin(v, V qdd + V' qd)        M = V^T M_pin V

V contains the multipliers of mimic joints, and the rotation of planar joints: grid-gen uses the
rates of the coordinates, Pinocchio the velocity of the body. For most robots V = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import pinocchio

from gridgen.model.tree import Body, KinematicTree
from helpers.robots import BALL, PITCH, SCREW

Arrays = Mapping[str, np.ndarray]
MOVING_BASE = "moving_base"


class Oracle:
    """Pinocchio's model of a robot.

    Args:
        tree:        the robot.
        urdf:        its file or text.
        moving_base: add a free joint with prescribed motion below the root.
        mimic:       use mimic joints of Pinocchio instead of the matrix V.
    """

    def __init__(
        self,
        tree: KinematicTree,
        urdf: str | Path,
        *,
        moving_base: bool = False,
        mimic: bool = False,
    ) -> None:
        self.tree = tree
        self.mimic = mimic
        self.model = pinocchio_model(urdf, tree.floating_base, mimic)
        self.model.armature[:] = 0.0  # added below, as damping and friction
        self.base = 0
        if moving_base:
            self.model = _on_moving_base(self.model)
            self.base = 6
        self.data = self.model.createData()
        self.joints = [self._joint(body) for body in tree.bodies]

    def _joint(self, body: Body) -> int | None:
        """Return the index of a body's joint; for a planar joint, of its third body."""
        if self.model.existJointName(body.joint):
            return int(self.model.getJointId(body.joint))
        planar = body.joint.removesuffix("_x").removesuffix("_y")
        assert self.model.existJointName(planar), body.joint
        return None

    @property
    def joint_names(self) -> list[str]:
        """Names of the joints except the world and the moving base."""
        return [name for name in list(self.model.names)[1:] if name != MOVING_BASE]

    # -- arguments and results of direct calls of Pinocchio, one state at a time --------------

    def position(self, q: np.ndarray) -> np.ndarray:
        """Return the configuration of Pinocchio for one state."""
        return self._state({"q": q[None]}, 0)[0]

    @cached_property
    def spread(self) -> np.ndarray:
        """V of a robot without planar joints, which is constant."""
        assert None not in self.joints
        return self._state({"q": np.zeros((1, self.tree.nq))}, 0)[2]

    def square(self, matrix: np.ndarray) -> np.ndarray:
        """Return V^T matrix V."""
        return self.spread.T @ matrix @ self.spread

    # -- functions, (B, ...) in and out -------------------------------------------------------

    def evaluate(self, function: str, x: Arrays) -> np.ndarray:
        """Return the result of a function by its name in grid-gen; all inputs are (B, ...)."""
        name = function.removesuffix("_f_ext_base_motion")
        state = {
            "inverse_dynamics": lambda i: self._torques(x, i, x["qdd"][i]),
            "bias_forces": lambda i: self._torques(x, i, np.zeros(self.tree.nv)),
            "mass_matrix": lambda i: self._mass_matrix(x, i),
            "forward_dynamics_aba": lambda i: self._accelerations(x, i),
            "forward_dynamics_crba": lambda i: self._accelerations(x, i),
        }[name]
        return np.array([state(i) for i in range(len(x["q"]))])

    def aba(self, x: Arrays) -> np.ndarray:
        """Return the accelerations of Pinocchio's articulated-body algorithm, where V = 1."""
        return np.array(
            [
                pinocchio.aba(self.model, self.data, *self._state(x, i)[:2], x["tau"][i]).copy()
                for i in range(len(x["q"]))
            ]
        )

    def _torques(self, x: Arrays, i: int, qdd: np.ndarray) -> np.ndarray:
        q, v, V, drift = self._state(x, i)
        a = np.concatenate([self._base(x, "base_acceleration", i), V @ qdd + drift])
        self.model.gravity.linear = x["gravity"][i] if "gravity" in x else (0.0, 0.0, -9.81)
        wrenches = self._wrenches(x, i)
        tau = pinocchio.rnea(self.model, self.data, q, v, a, wrenches)
        return V.T @ tau[self.base :] + self._joint_losses(x, i) + self.armature(x, i) * qdd

    def _mass_matrix(self, x: Arrays, i: int) -> np.ndarray:
        q, _, V, _ = self._state(x, i)
        upper = np.triu(pinocchio.crba(self.model, self.data, q))[self.base :, self.base :]
        M = upper + np.triu(upper, 1).T
        return V.T @ M @ V + np.diag(self.armature(x, i))

    def _accelerations(self, x: Arrays, i: int) -> np.ndarray:
        bias = self._torques(x, i, np.zeros(self.tree.nv))
        return np.linalg.solve(self._mass_matrix(x, i), x["tau"][i] - bias)

    # -- conversion of arrays -----------------------------------------------------------------

    def _state(self, x: Arrays, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return q and v of Pinocchio's model, V, and V' qd."""
        tree, model = self.tree, self.model
        ours, rates = x["q"][i], x["qd"][i] if "qd" in x else np.zeros(tree.nv)
        q = pinocchio.neutral(model)
        V = np.zeros((model.nv, tree.nv))
        drift = np.zeros(model.nv)
        for index, (body, joint) in enumerate(zip(tree.bodies, self.joints, strict=True)):
            if joint is None or (self.mimic and body.mimics):
                continue
            at, row = model.joints[joint].idx_q, model.joints[joint].idx_v
            columns = slice(body.v_index, body.v_index + body.nv)
            kind = model.joints[joint].shortname()
            if kind == "JointModelPlanar":
                self._planar(index, ours, rates, q[at : at + 4], V[row : row + 3], drift[row:])
            elif body.nv > 1:
                q[at : at + body.nq] = ours[body.q_index : body.q_index + body.nq]
                V[row : row + body.nv, columns] = np.eye(body.nv)
            else:
                angle = body.multiplier * ours[body.q_index] + body.offset
                turns = model.joints[joint].nq == 2
                q[at : at + 2 if turns else at + 1] = (
                    (np.cos(angle), np.sin(angle)) if turns else angle
                )
                V[row, columns] = body.multiplier
        V, drift = V[self.base :], drift[self.base :]
        v = np.concatenate([self._base(x, "base_velocity", i), V @ rates])
        return q, v, V, drift

    def _planar(
        self,
        index: int,
        ours: np.ndarray,
        rates: np.ndarray,
        q: np.ndarray,
        V: np.ndarray,
        drift: np.ndarray,
    ) -> None:
        """Convert a planar joint: v_pin = R(angle)^T (xd, yd)."""
        along_x, along_y, turn = self.tree.bodies[index - 2 : index + 1]
        angle, spin = ours[turn.q_index], rates[turn.v_index]
        s, c = np.sin(angle), np.cos(angle)
        q[:] = ours[along_x.q_index], ours[along_y.q_index], c, s
        columns = [along_x.v_index, along_y.v_index]
        V[0, columns], V[1, columns], V[2, turn.v_index] = (c, s), (-s, c), 1.0
        drift[:2] = spin * (np.array([[-s, c], [-c, -s]]) @ rates[columns])

    def _base(self, x: Arrays, name: str, i: int) -> np.ndarray:
        return (x[name][i] if name in x else np.zeros(6)) if self.base else np.zeros(0)

    def _wrenches(self, x: Arrays, i: int) -> list[pinocchio.Force]:
        wrenches = [pinocchio.Force.Zero() for _ in range(self.model.njoints)]
        if "f_ext" in x:
            for joint, wrench in zip(self.joints, x["f_ext"][i], strict=True):
                if joint is None:
                    assert not wrench.any(), "Pinocchio has no such body"
                else:
                    wrenches[joint] = pinocchio.Force(wrench)
        return wrenches

    def armature(self, x: Arrays, i: int) -> np.ndarray:
        """Return the armature of a state: an input, or the robot's."""
        return x["armature"][i] if "armature" in x else np.array(self.tree.armature)

    def _joint_losses(self, x: Arrays, i: int) -> np.ndarray:
        """Return the joint torques d qd + c sign(qd) of damping and friction."""
        qd, width = x["qd"][i], self.tree.options.friction_width
        sign = np.tanh(qd / width) if width else np.sign(qd)
        damping, friction = np.zeros((2, self.tree.nv))
        for body in self.tree.bodies:
            own = slice(body.v_index, body.v_index + body.nv)
            damping[own] += body.multiplier**2 * body.damping
            friction[own] += abs(body.multiplier) * body.friction
        return (
            x.get("damping", {i: damping})[i] * qd
            + x.get("joint_friction", {i: friction})[i] * sign
        )


def pinocchio_model(
    urdf: str | Path, floating_base: bool = False, mimic: bool = False
) -> pinocchio.Model:
    """Return Pinocchio's model of a robot, with helical and ball joints as in ``described``."""
    build = pinocchio.buildModelFromUrdf if isinstance(urdf, Path) else pinocchio.buildModelFromXML
    root = [pinocchio.JointModelFreeFlyer()] if floating_base else []
    read = build(str(urdf), *root, mimic=mimic)
    if not any(name.endswith((SCREW, BALL)) for name in read.names):
        return read
    model = pinocchio.Model()
    for index, name in [*enumerate(read.names)][1:]:
        joint, place = read.joints[index], read.jointPlacements[index]
        if name.endswith(SCREW):
            data = joint.createData()
            joint.calc(data, np.zeros(read.nq))
            joint = pinocchio.JointModelHelicalUnaligned(np.ravel(data.S)[3:], PITCH)
        if name.endswith(BALL):
            joint = pinocchio.JointModelSpherical()
        model.addJoint(read.parents[index], joint, place, name)
        model.appendBodyToJoint(index, read.inertias[index], pinocchio.SE3.Identity())
    for frame in read.frames:
        if str(frame.type) == "BODY":
            model.addFrame(
                pinocchio.Frame(frame.name, frame.parentJoint, 0, frame.placement, frame.type)
            )
    if model.nv == read.nv:
        model.damping, model.friction = read.damping, read.friction
    return model


def _on_moving_base(robot: pinocchio.Model) -> pinocchio.Model:
    """Return the robot on an additional body with a free joint."""
    base = pinocchio.Model()
    joint = base.addJoint(0, pinocchio.JointModelFreeFlyer(), pinocchio.SE3.Identity(), MOVING_BASE)
    frame = base.addFrame(
        pinocchio.Frame(MOVING_BASE, joint, 0, pinocchio.SE3.Identity(), pinocchio.FrameType.BODY)
    )
    return pinocchio.appendModel(base, robot, frame, pinocchio.SE3.Identity())
