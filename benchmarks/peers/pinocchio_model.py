"""Pinocchio's model of a robot, and positions as it wants them."""

from __future__ import annotations

import numpy as np
import pinocchio
from cases import OF_FRAME, Case


def build(case: Case) -> pinocchio.Model:
    """Return Pinocchio's model of a robot, without the rotor inertias that a file may name."""
    base = [pinocchio.JointModelFreeFlyer()] if case.floating_base else []
    model = pinocchio.buildModelFromXML(case.urdf, *base)
    model.armature = np.zeros(model.nv)
    return model


def frames(model: pinocchio.Model, case: Case, function: str) -> list[int]:
    """Return Pinocchio's numbers of the frames that a function is about, in gridgen's order."""
    names = [case.frame] if function in OF_FRAME else case.tree.frame_names
    if "constrained" in function:
        names = [str(one["link"]) for one in case.constraints]
    return [model.getFrameId(name, pinocchio.FrameType.BODY) for name in names]


def positions(model: pinocchio.Model, case: Case, q: np.ndarray) -> np.ndarray:
    """Return positions as Pinocchio's: cosine and sine for a continuous joint."""
    converted = np.tile(pinocchio.neutral(model), (len(q), 1))
    for body in case.tree.bodies:
        joint = model.joints[model.getJointId(body.joint)]
        own = q[:, body.q_index : body.q_index + (7 if body.kind == "free" else 1)]
        if joint.nq == 2:
            own = np.concatenate([np.cos(own), np.sin(own)], axis=1)
        converted[:, joint.idx_q : joint.idx_q + joint.nq] = own
    return converted
