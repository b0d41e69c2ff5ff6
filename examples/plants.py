"""Simulations of a quadruped that a controller moves: by grid-gen, and by MuJoCo with pictures."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from quadruped import (
    ARMATURE,
    DAMPING,
    FEET,
    FRICTION,
    RADIUS,
    STIFFNESS,
    Array,
    standing,
)  # fmt: skip

import gridgen

#: Time step [s].
FINE = 0.002
if sys.platform == "linux":
    os.environ.setdefault("MUJOCO_GL", "egl")  # pictures without a display


class Own:
    """The robot, simulated by grid-gen from its stance: ``q`` and ``qd`` are its state."""

    def __init__(self, robot: gridgen.Robot, urdf: Path) -> None:
        self.robot = robot
        self.q, self.qd = standing(robot), np.zeros(robot.nv, np.float32)

    def move(self, target: Array, seconds: float) -> None:
        """Let the servos seek a target, shape (12,)."""
        self.q, self.qd = self.robot.rollout(
            self.q, self.qd, np.zeros((1, self.robot.nv), np.float32), seconds, ctrl=target,
            substeps=round(seconds / FINE), store_every="last", integrator="implicit",
        )  # fmt: skip


class MuJoCo:
    """The robot, simulated by MuJoCo from the same file, without its meshes, and pictures of it."""

    def __init__(self, robot: gridgen.Robot, urdf: Path) -> None:
        import mujoco

        self.mujoco = mujoco
        spec = mujoco.MjSpec.from_file(str(urdf))
        spec.compiler.discardvisual = False
        for unused in (*spec.geoms, *spec.meshes):
            spec.delete(unused)
        joints = mujoco.mjtTrn.mjTRN_JOINT
        for joint in spec.joints:
            joint.armature = ARMATURE
        for name, limit in zip(robot.actuator_names, robot.effort_limits[6:], strict=True):
            servo = spec.add_actuator(name=name, target=name, trntype=joints, forcelimited=True)
            servo.set_to_position(kp=STIFFNESS, kv=DAMPING)
            servo.forcerange = -limit, limit
        shape, drawn = mujoco.mjtGeom, {"contype": 0, "conaffinity": 0, "mass": 0.0}
        for foot in FEET:
            thigh, calf = (foot.replace("foot", part) for part in ("thigh", "calf"))
            for link, end in ((thigh, calf), (calf, foot)):
                line = [0, 0, 0, *spec.body(end).pos]
                spec.body(link).add_geom(
                    type=shape.mjGEOM_CAPSULE, size=[0.018, 0, 0], fromto=line, **drawn
                )
            spec.body(foot).add_geom(size=[RADIUS, 0, 0], contype=0, mass=0)
        trunk = spec.worldbody.first_body()
        trunk.add_freejoint()
        half = abs(spec.body("FL_hip").pos) + np.array([0.03, 0.04, 0.05])
        trunk.add_geom(type=shape.mjGEOM_BOX, size=half, rgba=[0.2, 0.4, 0.7, 1.0], **drawn)
        squares = {"type": mujoco.mjtTexture.mjTEXTURE_2D, "width": 64, "height": 64}
        squares["builtin"] = mujoco.mjtBuiltin.mjBUILTIN_CHECKER
        spec.add_texture(name="squares", rgb1=[0.9] * 3, rgb2=[0.75] * 3, **squares)
        floor = spec.add_material(name="floor", texrepeat=[2, 2], texuniform=True)
        floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "squares"
        spec.worldbody.add_light(pos=[0, 0, 4], dir=[0.3, 0.3, -1], type=1, castshadow=False)
        spec.worldbody.add_geom(type=shape.mjGEOM_PLANE, size=[20, 20, 1], material="floor")
        self.model: Any = spec.compile()
        self.model.geom_friction[:, 0] = FRICTION
        self.model.opt.timestep = FINE
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self.data: Any = mujoco.MjData(self.model)
        q = standing(robot)
        self.data.qpos[:] = [*q[:3], 1, 0, 0, 0, *q[7:]]
        self.renderer: Any = None

    @property
    def q(self) -> Array:
        """The configuration in the conventions of grid-gen: scalar part of the quaternion last."""
        q: Array = self.data.qpos.astype(np.float32)
        q[3:7] = np.roll(q[3:7], -1)
        return q

    @property
    def qd(self) -> Array:
        """The velocity in the conventions of grid-gen: the trunk's in its own axes."""
        R = np.zeros(9)
        self.mujoco.mju_quat2Mat(R, self.data.qpos[3:7])
        qd = np.hstack([R.reshape(3, 3).T @ self.data.qvel[:3], self.data.qvel[3:]])
        return qd.astype(np.float32)

    def move(self, target: Array, seconds: float) -> None:
        """Let the servos seek a target, shape (12,)."""
        self.data.ctrl[:] = target
        self.mujoco.mj_step(self.model, self.data, round(seconds / FINE))

    def picture(self, width: int = 400, height: int = 225) -> NDArray[np.uint8]:
        """Return a picture of the robot, shape (height, width, 3)."""
        self.renderer = self.renderer or self.mujoco.Renderer(self.model, height, width)
        camera = self.mujoco.MjvCamera()
        camera.lookat[:] = *self.data.qpos[:2], 0.25
        camera.distance, camera.azimuth, camera.elevation = 1.2, 120.0, -28.0
        self.renderer.update_scene(self.data, camera)
        pixels: NDArray[np.uint8] = self.renderer.render()
        return pixels


PLANTS: dict[str, type[Own | MuJoCo]] = {"mujoco": MuJoCo, "own": Own}
