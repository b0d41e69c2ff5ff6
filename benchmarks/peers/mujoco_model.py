"""MuJoCo's model of a robot, made from its URDF."""

from __future__ import annotations

import mujoco
from cases import Case


def build(case: Case) -> tuple[mujoco.MjModel, list[int]]:
    """Return MuJoCo's model, and the place of each of its joints among gridgen's.

    Links on fixed joints are merged into their parents, and a free joint is put under the root.
    All that a simulation adds is switched off: contacts, limits, actuators, passive forces.
    """
    spec = mujoco.MjSpec.from_string(case.urdf)
    spec.compiler.fusestatic = True
    spec.compiler.balanceinertia = False
    if case.floating_base:
        spec.worldbody.first_body().add_freejoint()
    model = spec.compile()
    model.opt.gravity[:] = (0.0, 0.0, -9.81)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.dof_armature[:] = 0.0
    base = 1 if case.floating_base else 0
    own = [body.joint for body in case.tree.bodies[base:]]
    names = [model.joint(index).name for index in range(base, model.njnt)]
    return model, [own.index(name) for name in names]
