"""Models with contacts: of every kind of row, of Gymnasium, a quadruped, a hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mujoco
import pytest

from helpers.contacts import iterate_to_the_end
from helpers.robots import OWN, example_urdf

#: Every kind of row: every shape on a tilted plane, every condim, priorities, a
#: pair, both forms of solref, curves of solimp, margins and gaps, limits, dry friction, also of a
#: ball joint with a spring.
EVERYTHING = """
<mujoco>
  <compiler angle="radian"/>
  <option cone="{cone}" impratio="{impratio}"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" euler="0.1 -0.2 0.3" pos="0 0 0.1" margin="0.01"
          friction="0.7 0.01 0.002"/>
    <body pos="0 0 0.3">
      <freejoint name="root"/>
      <geom type="box" size="0.2 0.15 0.05" solref="0.03 0.8" solimp="0.8 0.97 0.02 0.4 3"/>
      <body pos="0.2 0 0">
        <joint name="a" axis="0 1 0.2" range="-0.3 0.3" margin="0.05" frictionloss="0.4"
               damping="0.3" armature="0.01" solimplimit="0.7 0.9 0.1 0.5 1"/>
        <geom type="capsule" fromto="0 0 0 0.1 0.05 -0.2" size="0.03" condim="6" gap="0.004"/>
        <body pos="0.1 0.05 -0.2">
          <joint name="b" axis="1 0 0" ref="0.4" range="-0.2 0.9" solreflimit="-500 -20"/>
          <geom name="foot" type="sphere" size="0.05" pos="0 0 -0.1" condim="4" priority="1"
                friction="1.1 0.02 0.001"/>
        </body>
      </body>
      <body pos="-0.2 0 0">
        <joint name="c" type="slide" axis="0 0 1" range="-0.02 0.02" frictionloss="2"
               solreffriction="0.05 1" margin="0.03"/>
        <geom name="hand" type="sphere" size="0.06" pos="0 0 -0.1" condim="1" solref="-900 -30"/>
      </body>
      <body pos="0 0.2 0">
        <joint axis="1 0 0"/>
        <geom type="cylinder" size="0.05 0.1" euler="0.3 0 0"/>
      </body>
      <body pos="0 -0.2 0">
        <joint name="d" type="ball" range="0 0.2" margin="0.05" frictionloss="0.3" stiffness="3"
               damping="0.2" pos="0.02 0 0"/>
        <geom type="ellipsoid" size="0.05 0.1 0.2" euler="0.3 0 0"/>
      </body>
    </body>
  </worldbody>
  <contact>
    <pair geom1="hand" geom2="floor" friction="0.5 0.9 0.01 0.001 0.002" condim="3" margin="0.02"
          solreffriction="0.04 1.5"/>
  </contact>
</mujoco>
"""
#: Spheres and capsules of three bodies and of the world, with each other.
PAIRS = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <geom type="capsule" fromto="-0.2 0.1 0.05 0.3 0 0.2" size="0.04" condim="6"/>
    <body pos="0.1 0.1 0.05"><geom type="sphere" size="0.07" contype="0"/></body>
    <body pos="0 0 0.4">
      <freejoint/>
      <geom type="capsule" fromto="-0.1 0 0 0.1 0 0.02" size="0.05"/>
      <body name="thigh" pos="0.1 0 0">
        <joint axis="0 1 0.2" range="-0.6 0.6" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0.1 0.02 -0.2" size="0.04" condim="4"/>
        <body pos="0.1 0.02 -0.2">
          <joint axis="1 0.1 0"/>
          <geom name="tip" size="0.06" pos="0 0.02 -0.05" friction="0.6"/>
        </body>
      </body>
      <body name="arm" pos="-0.05 0.04 0">
        <joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.05 -0.03 -0.2" size="0.05"/>
        <body pos="0.05 -0.03 -0.2">
          <joint type="slide" axis="1 0 1"/>
          <geom name="ball" size="0.08" condim="1" pos="0.05 0 0"/>
        </body>
      </body>
    </body>
    <body pos="0.2 0 0.3"><freejoint/><geom size="0.1"/></body>
  </worldbody>
  <contact>
    <pair geom1="tip" geom2="ball" condim="6" friction="0.9 0.4 0.01 0.001 0.002" margin="0.01"/>
  </contact>
</mujoco>
"""
#: Two legs of a floating trunk on the ground, and another body.
LOOPS = """
<mujoco>
  <compiler angle="radian"/>
  <default><equality solref="0.03 0.8" solimp="0.8 0.96 0.01 0.4 2"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" contype="3"/>
    <body name="trunk" pos="0 0 0.4">
      <freejoint/>
      <geom type="box" size="0.1 0.1 0.05" contype="0" conaffinity="2"/>
      <body name="a" pos="0.1 0 0">
        <joint name="ja" axis="0 1 0.2" ref="0.2"/>
        <geom type="capsule" fromto="0 0 0 0.1 0.02 -0.2" size="0.04"/>
        <body name="b" pos="0.1 0.02 -0.2">
          <joint name="jb" axis="1 0.1 0"/>
          <geom size="0.06" pos="0 0.02 -0.05"/>
          <site name="tip" pos="0.02 0.1 0.1" euler="0.1 1 0"/>
        </body>
      </body>
      <body name="c" pos="-0.05 0.04 0">
        <joint name="jc" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.05 -0.03 -0.2" size="0.05"/>
        <body name="d" pos="0.05 -0.03 -0.2">
          <joint name="jd" type="slide" axis="1 0 1"/>
          <geom size="0.08" pos="0.05 0 0"/>
          <body name="e">
            <geom size="0.03" pos="0 0 -0.1"/>
            <site name="hook" pos="0 0.1 0.2" euler="1 0 0.2"/>
          </body>
        </body>
      </body>
    </body>
    <body name="free" pos="0.2 0 0.3"><freejoint/><geom size="0.1"/></body>
  </worldbody>
  <equality>EQUALITY</equality>
</mujoco>
"""
EQUALITIES = {
    "connect": '<connect body1="b" body2="d" anchor=".1 .2 .3"/>',
    "connect below": '<connect body1="b" body2="trunk" anchor=".1 .2 .3"/>',
    "connect with the world": '<connect body1="b" anchor=".1 .2 .3" solref="-300 -20"/>',
    "connect of sites": '<connect site1="tip" site2="hook"/>',
    "the world first": '<weld body1="world" body2="d" anchor=".1 .2 .3"/>',
    "weld": '<weld body1="b" body2="d" anchor=".1 .2 .3" relpose=".1 0 .2 .8 .2 .4 .4"/>',
    "weld of a free body": '<weld body1="free" body2="e" anchor=".1 .2 .3"/>',
    "weld of sites": '<weld site1="hook" site2="tip" torquescale="2"/>',
    "weld without torques": '<weld body1="b" body2="d" torquescale="0"/>',
    "joints": '<joint joint1="ja" joint2="jd" polycoef=".2 -1.5 0 0 0"/>',
    "a joint": '<joint joint1="jc" polycoef=".2 1 0 0 0" solref="-200 -30"/>',
    "inactive": '<joint joint1="jc" active="false"/>',
}
#: Spheres, boxes and a cylinder, of the robot and of the world.
BOXES = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <geom name="ball" pos="-0.3 0 0.1" size="0.1" condim="6"/>
    <body name="block" pos="0.2 0.1 0.25" euler="0.1 0.3 0.2">
      <geom type="box" size="0.15 0.1 0.2"/>
    </body>
    <body name="post" pos="-0.2 -0.1 0.2" euler="0.2 0.1 0">
      <geom type="cylinder" size="0.1 0.15"/>
    </body>
    <body name="trunk" pos="0 0 0.5">
      <freejoint/>
      <geom type="box" size="0.2 0.15 0.05"/>
      <body pos="0.2 0 0">
        <joint axis="0 1 0.2"/>
        <inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>
        <body pos="0.1 0.02 -0.2">
          <joint axis="1 0.1 0"/>
          <geom size="0.08" pos="0 0.02 -0.05" friction="0.6"/>
        </body>
      </body>
      <body pos="-0.2 0 0"><joint axis="0 1 0.2"/><geom size="0.07" pos="0 0 -0.2"/></body>
    </body>
  </worldbody>
  <contact>
    <exclude body1="block" body2="trunk"/><exclude body1="post" body2="trunk"/>
  </contact>
</mujoco>
"""
#: Convex hulls on a tilted plane: of four points, and of a prism whose faces have seven corners.
HULLS = """
<mujoco>
  <compiler angle="radian"/>
  <default><geom contype="0"/></default>
  <asset>
    <mesh name="part" vertex="0 0 0  0.1 0 0  0 0.1 0  0 0 0.1"/>
    <mesh name="foot" vertex="{foot}"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" euler="0.1 -0.2 0.3" contype="1"/>
    <body pos="0 0 0.3">
      <freejoint/>
      <geom type="mesh" mesh="foot" euler="0.4 0 0.1" margin="0.01" condim="4"/>
      <body pos="0.2 0 0">
        <joint axis="0 1 0.2" range="-0.5 0.5" damping="0.1" armature="0.01"/>
        <geom type="mesh" mesh="part" pos="0 0 -0.2" friction="0.6"/>
      </body>
      <body pos="-0.1 0.1 0">
        <joint type="slide" axis="0.1 0 1" range="-0.1 0.1"/>
        <geom type="mesh" mesh="foot" pos="0 0 -0.1" condim="1"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
#: Corners of both ends of a prism.
FOOT = " ".join(
    f"{0.1 * math.cos(k * k / 7):.3f} {0.07 * math.sin(k * k / 7):.3f} {z}"
    for k in range(7)
    for z in (-0.03, 0.03)
)
#: Many shapes of every kind, on the ground, and pairs of spheres and capsules that both move.
MANY = """
<mujoco>
  <compiler angle="radian"/>
  <default>
    <geom solref="0.03 0.8"/>
    <default class="ground"><geom contype="2" conaffinity="0"/></default>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" euler="0.1 -0.2 0.3" conaffinity="3"/>
    <geom type="capsule" fromto="0.3 0.1 0 0.3 0.1 0.5" size="0.05"/>
    <body pos="0 0 0.3">
      <freejoint/>
      <geom class="ground" type="box" size="0.2 0.15 0.05"/>
      <geom class="ground" type="box" size="0.05 0.05 0.1" pos="0 0.1 -0.1" euler="1 0 0.2"/>
      <geom class="ground" type="cylinder" size="0.05 0.1" pos="0 -0.1 -0.1" euler="1 0 0.2"/>
      <geom class="ground" type="cylinder" size="0.06 0.2" euler="0 0.3 1" friction="0.5"/>
      <geom type="sphere" size="0.08" pos="0.1 0.1 -0.1" condim="4"/>
      <geom type="sphere" size="0.07" pos="-0.1 0.1 -0.1" condim="4" friction="0.6 0.01"/>
      <body pos="0.2 0 0">
        <joint axis="0 1 0.2" range="-0.5 0.5" damping="0.1" armature="0.01"/>
        <geom type="capsule" fromto="0 0 0 0.1 0.02 -0.2" size="0.04" condim="6" margin="0.01"/>
        <geom type="capsule" fromto="0 0.1 0 0.1 0.02 -0.3" size="0.03" condim="6" margin="0.01"/>
        <geom class="ground" type="ellipsoid" size="0.05 0.1 0.2" euler="0.3 0 0"/>
        <body pos="0.1 0.02 -0.2">
          <joint type="slide" axis="1 0.1 0"/>
          <geom size="0.06" pos="0 0.02 -0.05" condim="1"/>
          <geom size="0.05" pos="0.1 0.02 -0.05"/>
          <geom class="ground" type="ellipsoid" size="0.1 0.1 0.05" pos="0 0 -0.1" condim="1"/>
        </body>
      </body>
      <body pos="-0.05 0.04 0">
        <joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.15 -0.03 -0.2" size="0.05"/>
        <geom type="capsule" fromto="0 0 0 0.25 0.1 -0.2" size="0.04" friction="0.4"/>
      </body>
    </body>
    <body pos="0.3 0 0.3"><freejoint/><geom size="0.1"/><geom size="0.08" pos="0 0.1 0"/></body>
  </worldbody>
</mujoco>
"""
TEXTS = {
    **{"everything": EVERYTHING, "pairs": PAIRS, "boxes": BOXES, "many": MANY},
    "hulls": HULLS.replace("{foot}", FOOT),
    "loops": LOOPS.replace("EQUALITY", "".join(list(EQUALITIES.values())[::3])),
}


def quadruped() -> Any:
    """Return the model of a quadruped with spheres at its feet, over a plane."""
    spec = mujoco.MjSpec.from_file(str(OWN / "quadruped.urdf"))
    trunk = spec.worldbody.first_body()
    trunk.add_freejoint()
    for body in spec.bodies:
        for geom in body.geoms:
            geom.contype = geom.conaffinity = 0
    for name in ("FL", "FR", "RL", "RR"):
        below = spec.body(f"{name}_calf")
        foot = below.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.02, 0, 0])
        foot.pos, foot.contype = [0, 0, -0.21], 0  # no contact of two feet
        foot.name = f"{name}_foot"
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 1])
    return spec.compile()


def gymnasium_model(name: str) -> Any:
    """Return a model of Gymnasium."""
    gymnasium = pytest.importorskip("gymnasium")
    folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    return mujoco.MjModel.from_xml_path(str(folder / f"{name}.xml"))


def model_of(name: str, cone: str) -> Any:
    """Return a model by name or text, whose solver iterates to the end."""
    impratio = 1.0 if cone == "pyramidal" else 3.0
    if name in TEXTS or "<" in name:
        text = TEXTS.get(name, name).format(cone=cone, impratio=impratio)
        model = mujoco.MjModel.from_xml_string(text)
        if model.neq and int(mujoco.__version__.partition(".")[0]) < 4:
            pytest.skip("the reference accelerations of MuJoCo 4 contain dJ/dt qd")
    else:
        own = {"quadruped": quadruped, "hand": hand}
        model = own[name]() if name in own else gymnasium_model(name)
    model.opt.cone, model.opt.impratio = ("pyramidal", "elliptic").index(cone), impratio
    iterate_to_the_end(model)
    return model


def hand() -> Any:
    """Return the model of a fixed Allegro hand about a fixed ball, with a fixed box at its tips.

    The fingers do not touch each other. Links with their center of mass on the axes of their joints
    have no contacts: MuJoCo's ``body_invweight0`` is zero, and the stiffness 1e15.
    """
    spec = mujoco.MjSpec.from_file(str(example_urdf("allegro_right_hand")))
    spec.compiler.balanceinertia = True  # two tips have inertias of no body
    sphere, box = mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_BOX
    slides = spec.compile().body_invweight0[:, 0] > 1e-6
    for body in spec.bodies:
        for geom in body.geoms:
            kinds = 1 + 2 * (geom.type == sphere)
            geom.contype, geom.conaffinity = 0, kinds * int(slides[body.id])
    kind = {"conaffinity": 0, "condim": 4, "friction": [0.8, 0.01, 0.001]}
    spec.worldbody.add_geom(
        name="ball", type=sphere, size=[0.04, 0, 0], pos=[0.07, 0, 0.05], contype=1, **kind
    )
    spec.worldbody.add_geom(
        name="block",
        type=box,
        size=[0.02, 0.05, 0.03],
        pos=[0.05, -0.01, 0.12],
        quat=[0.9, 0.1, 0.2, 0.3],
        contype=2,
        **kind,
    )
    return spec.compile()
