"""The shapes of a robot's arrays."""

from __future__ import annotations

import math

from gridgen.functions.arrays import BODY_PARAMETERS, shape_of
from gridgen.model.tree import KinematicTree


def array_shape(name: str, tree: KinematicTree) -> tuple[int, ...]:
    """Return the shape of an array of a robot for one state."""
    extents = {
        "nq": tree.nq,
        "nv": tree.nv,
        "bodies": len(tree.bodies),
        "frames": len(tree.frames),
        "parameters": BODY_PARAMETERS * len(tree.bodies),
        "rows": len(tree.parameter_names),
        "constraints": len(tree.constraints),
        "constraint_rows": sum(one.rows for one in tree.constraints),
        "contacts": len(tree.contact_model.contacts),
        "actuators": len(tree.actuators),
        "springs": len(tree.springs),
        "contact_points": sum(one.count for one in tree.contact_model.contacts),
    }
    return shape_of(name, extents)


def array_size(name: str, tree: KinematicTree) -> int:
    """Return the number of elements of an array of a robot for one state."""
    return math.prod(array_shape(name, tree))
