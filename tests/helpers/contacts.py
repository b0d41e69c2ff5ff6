"""Contact forces of MuJoCo, contact by contact, and a hand that touches fixed objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from gridgen.dynamics.constraints import Constraints
from gridgen.dynamics.contacts.touching import touches
from gridgen.dynamics.state import State
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import FloatScalars
from gridgen.symbolic.spatial import add, apply
from helpers.robots import example_urdf

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
