"""``gridgen.Batch`` beside MuJoCo's own batch, with the same program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gridgen
from gridgen.errors import OptionError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning")

#: A cart with a pole on a rail, a weight that hangs from it and may touch the ground.
CART = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.004" gravity="0.3 0 -9" tolerance="0" iterations="100"/>
  <worldbody>
    <geom type="plane" size="2 2 .1"/>
    <body name="cart" pos="0 0 .6">
      <joint name="slide" type="slide" axis="1 0 0" damping="0.2" ref="0.1"/>
      <geom type="box" size=".1 .1 .05" mass="1" contype="0" conaffinity="0"/>
      <body name="pole" pos="0 0 -.05">
        <joint name="hinge" axis="0 1 0" armature="0.01" stiffness="0.4"/>
        <geom type="capsule" fromto="0 0 0 .1 .1 -.5" size=".02" mass=".4" contype="0"
              conaffinity="0"/>
        <body pos=".1 .1 -.5">
          <geom name="ball" size=".06" mass=".1"/>
          <site name="tip" pos="0 0 .05"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="push" joint="slide" gear="5"/>
    <position name="hold" joint="hinge" kp="3" kv="0.1"/>
  </actuator>
  <sensor>
    <jointpos name="angle" joint="hinge"/>
    <accelerometer name="imu" site="tip"/>
  </sensor>
  <keyframe><key qpos="0.3 0.5" qvel="0.1 -4" ctrl="0.1 0.2"/></keyframe>
</mujoco>
"""
COUNT = 6


def both() -> tuple[Any, gridgen.Batch, Any]:
    mujoco = pytest.importorskip("mujoco")
    peer = pytest.importorskip("mujoco.batch")
    model = mujoco.MjModel.from_xml_string(CART)
    contact = {"iterations": 100}
    return model, gridgen.Batch(model, COUNT, contact=contact), peer.Batch(model, COUNT)


def test_a_program_of_mujoco_has_the_same_numbers() -> None:
    model, *batches = both()
    rng = np.random.default_rng(0)
    numbers = {
        "actuator_gainprm": rng.uniform(1.0, 4.0, (COUNT, 2)),
        "actuator_gear": rng.uniform(0.5, 2.0, (COUNT, 2)),
        "body_mass": rng.uniform(0.5, 1.5, (COUNT, 4)),
        # MuJoCo takes that of a body with ``body_sameframe`` as 0, also if it is expanded.
        "body_ipos": rng.uniform(-0.02, 0.02, (COUNT, 4)) * (model.body_sameframe == 0),
        "dof_damping": rng.uniform(0.1, 0.3, (COUNT, 2)),
        "dof_armature": rng.uniform(0.1, 0.3, (COUNT, 2)),
        "opt.gravity": rng.uniform(-9.0, -8.0, (COUNT, 3)),
    }
    controls = rng.uniform(-1.0, 1.0, (30, COUNT, model.nu))
    seen: list[list[np.ndarray]] = []
    for batch in batches:
        batch.joint("hinge").qpos = 0.4
        qpos, data = batch.bind("qpos"), batch.sensor("imu").data
        seen.append([])
        for t, ctrl in enumerate(controls):
            if t == 3:
                batch.reset(np.arange(COUNT) % 2 == 0, keyframe=0)
                seen[-1].append(np.array(batch.ctrl))
            if t == 10:
                for name, values in numbers.items():
                    field = batch.expand(name)
                    if name == "body_ipos":
                        field[..., 0] += values
                    elif field.ndim > 2:
                        field[..., 0] = values
                    else:
                        field[...] = values
            batch.ctrl = ctrl
            batch.actuator("push").ctrl[0] = 0.3
            batch.qfrc_applied = 0.1 * ctrl
            batch.step(None if t % 3 else [1, 4], nstep=1 + t % 2)
            seen[-1] += [np.array(x) for x in (qpos, batch.qvel, data, batch.time)]
    assert max(np.abs(x).max() for x in seen[1]) > 50.0  # an acceleration: the ball hits the ground
    for own, expected in zip(*seen, strict=True):
        assert_allclose(own, expected, rtol=1e-8, atol=1e-8)


def test_one_type_of_numbers_and_errors_that_say_what_to_do() -> None:
    _, batch, _ = both()
    single = gridgen.Batch(batch.model, 2, dtype="float32")
    single.step(nstep=2)
    batch.step(nstep=2)
    assert single.qpos.dtype == np.float32
    assert_allclose(single.qpos, batch.qpos[:2], atol=1e-5)
    before = batch.qpos.copy()
    for ids, error in (([0, 9], OptionError), ([1, 1], OptionError), ([[0]], ShapeError)):
        with pytest.raises(error, match="ids has"):
            batch.step(ids)
    for call, message in (
        (lambda: batch.expand("dof_dampings"), '"?dof_dampings.* nearest are dof_damping'),
        (lambda: batch.bind("xpos"), "no field 'xpos' to bind; there are time"),
        (lambda: batch.reset(keyframe=1), "keyframe is 1; give numbers from -1 to 0"),
        (lambda: batch.step(nstep=0), "substeps"),
        (lambda: gridgen.Batch(batch.model, 0), "nsim is 0"),
        (lambda: gridgen.Batch(3, 1), "model is 3; give an MjModel"),
    ):
        with pytest.raises(OptionError, match=message):
            call()
    with pytest.raises(AttributeError, match='Batch has no "qposs"'):
        _ = batch.qposs
    assert np.array_equal(batch.qpos, before)
