"""Soft constraints of a ``mujoco.MjModel``: contacts with planes, softness of joints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from gridgen.model.contacts import covered
from gridgen.model.description import Mesh, Shape, collision_shape
from gridgen.model.pose import Pose, apply, from_quaternion, vector3
from gridgen.model.soft import Contact, ContactModel, JointSoftness, Softness

SOLIDS = {
    2: ("sphere", (1.0,)),
    3: ("capsule", (1.0, 2.0)),
    4: ("ellipsoid", (1.0, 1.0, 1.0)),
    5: ("cylinder", (1.0, 2.0)),
    6: ("box", (2.0, 2.0, 2.0)),
}
"""MuJoCo's geom types (mjtGeom): name, and ratio of each URDF size to MuJoCo's size."""

FORCES = {
    "geom_adhesion": "adhesion",
    "pair_adhesion": "adhesion",
    "geom_surfacevel": "moving surfaces",
}
"""Fields of contacts that gridgen ignores."""

FLAGS = {"OVERRIDE": "contact parameters of the option", "DIAGEXACT": "exact regularizers"}
"""Flags (``mjENBL_<name>``) that gridgen ignores."""

PLANE, MESH = 0, 7
"""MuJoCo's types of planes and meshes (mjtGeom)."""


def read_contacts(
    model: Any, mujoco: Any, links: Mapping[int, str], joints: Mapping[int, str]
) -> ContactModel:
    """Return the soft constraints of a model; ``uncovered`` names those that it omits.

    Args:
        model:  the model.
        mujoco: MuJoCo's module.
        links:  link of each body.
        joints: joint of each joint.
    """
    option = model.opt
    flags = mujoco.mjtDisableBit.__members__

    def is_disabled(*names: str) -> bool:
        return any(option.disableflags & int(flags[f"mjDSBL_{name}"]) for name in names)

    contacts = []
    if not is_disabled("CONTACT", "CONSTRAINT"):
        for plane, geom, pair in _pairs(model):
            shape = shape_of(model, geom)
            if model.geom_type[plane] == PLANE and covered(shape) and shape is not None:
                contacts.append(_contact(model, mujoco, links, plane, geom, pair, shape))
    return ContactModel(
        tuple(contacts),
        {name: _joint(model, index) for index, name in joints.items()},
        "elliptic" if option.cone else "pyramidal",
        float(option.impratio),
        0.0 if is_disabled("REFSAFE") else float(option.timestep),
    )


def uncovered(model: Any, mujoco: Any) -> list[str]:
    """Return what gridgen ignores of the contacts of a model."""
    found: dict[str, None] = {}
    for plane, geom, _ in _pairs(model):
        if model.geom_type[plane] != PLANE or _moves(model, plane):
            found["contacts between bodies"] = None
        elif not covered(shape_of(model, geom)):
            found["contacts of other shapes than spheres, capsules and boxes"] = None
    for field, name in FORCES.items():
        if np.any(getattr(model, field, 0.0)):
            found[name] = None
    if model.opt.noslip_iterations:
        found["the noslip solver"] = None
    for flag, name in FLAGS.items():
        if model.opt.enableflags & int(mujoco.mjtEnableBit.__members__.get(f"mjENBL_{flag}", 0)):
            found[name] = None
    return list(found)


def _pairs(model: Any) -> Iterator[tuple[int, int, int]]:
    """Yield the geoms that may touch, a plane first, and the index of their pair or -1."""
    kinds, body = model.geom_type, model.geom_bodyid
    for pair in range(model.npair):
        yield (*_plane_first(model, model.pair_geom1[pair], model.pair_geom2[pair]), pair)
    listed = {tuple(sorted(g)) for g in zip(model.pair_geom1, model.pair_geom2, strict=True)}
    excluded = {(int(word) >> 16, int(word) & 0xFFFF) for word in model.exclude_signature}
    may = [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g]]
    for place, a in enumerate(may):
        for b in may[place + 1 :]:
            first, second = body[a], body[b]
            roots = model.body_weldid[first], model.body_weldid[second]
            above = tuple(model.body_weldid[model.body_parentid[root]] for root in roots)
            is_family = roots[0] == above[1] or roots[1] == above[0]
            both = {(int(first), int(second)), (int(second), int(first))}
            masks = (model.geom_contype[a] & model.geom_conaffinity[b]) or (
                model.geom_contype[b] & model.geom_conaffinity[a]
            )
            if (
                masks
                and roots[0] != roots[1]
                and not (is_family and all(roots))
                and not both & excluded
                and (a, b) not in listed
                and not kinds[a] == kinds[b] == PLANE
            ):
                yield (*_plane_first(model, a, b), -1)


def _plane_first(model: Any, a: int, b: int) -> tuple[int, int]:
    is_second = model.geom_type[b] == PLANE and model.geom_type[a] != PLANE
    return (int(b), int(a)) if is_second else (int(a), int(b))


def _moves(model: Any, geom: int) -> bool:
    return bool(model.body_weldid[model.geom_bodyid[geom]])


def shape_of(model: Any, geom: int) -> Shape | None:
    """Return the shape of a geom, ``None`` for a plane, a mesh or another one."""
    kind, factors = SOLIDS.get(int(model.geom_type[geom]), ("", ()))
    size = [f * x for f, x in zip(factors, model.geom_size[geom].tolist(), strict=False)]
    return collision_shape(kind, _pose(model.geom_quat[geom], model.geom_pos[geom]), size)


def mesh_of(model: Any, geom: int) -> Mesh:
    """Return the mesh of a geom, which MuJoCo has moved to its own axes."""
    index = int(model.geom_dataid[geom])
    vertex, face = int(model.mesh_vertadr[index]), int(model.mesh_faceadr[index])
    vertices = model.mesh_vert[vertex : vertex + int(model.mesh_vertnum[index])]
    faces = model.mesh_face[face : face + int(model.mesh_facenum[index])]
    pose = _pose(model.geom_quat[geom], model.geom_pos[geom])
    return Mesh(pose, model.mesh(index).name, triangles=(vertices.astype(float), faces.copy()))


def _pose(quaternion: Any, position: Any) -> Pose:
    w, x, y, z = quaternion.tolist()
    return Pose(from_quaternion(x, y, z, w), vector3((position + 0.0).tolist()))


def _contact(
    model: Any,
    mujoco: Any,
    links: Mapping[int, str],
    plane: int,
    geom: int,
    pair: int,
    shape: Shape,
) -> Contact:
    """Return the contact of a geom with a plane that does not move."""
    at = _pose(model.geom_quat[plane], model.geom_pos[plane])
    index = body = int(model.geom_bodyid[plane])
    while index:
        at = _pose(model.body_quat[index], model.body_pos[index]) @ at
        index = int(model.body_parentid[index])
    normal = apply(at.rotation, (0.0, 0.0, 1.0))
    body = int(model.geom_bodyid[geom])
    contact = Contact(
        model.geom(geom).name or f"geom{geom}",
        links[body],
        shape.pose,
        shape.half_lengths,
        shape.radii[0],
        center=vector3(model.body_ipos[body].tolist()),
        normal=normal,
        height=sum(a * b for a, b in zip(normal, at.translation, strict=True)),
    )
    if pair >= 0:
        return replace(
            contact,
            condim=int(model.pair_dim[pair]),
            friction=tuple(model.pair_friction[pair].tolist()),
            softness=_softness(model.pair_solref[pair], model.pair_solimp[pair]),
            friction_solref=tuple(model.pair_solreffriction[pair].tolist()),
            margin=float(model.pair_margin[pair] - model.pair_gap[pair]),
        )
    return replace(contact, **_mixed(model, mujoco, plane, geom))


_MARGINS = """
<mujoco><worldbody><geom type="plane" size="1 1 1" margin="1"/>
<body><freejoint/><geom size="1" margin="1"/></body></worldbody></mujoco>
"""


@cache
def _margins_add_up(mujoco: Any) -> bool:
    """Return whether a release of MuJoCo adds margins; older ones take the larger one."""
    model = mujoco.MjModel.from_xml_string(_MARGINS)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return bool(data.contact[0].includemargin > 1.5)


def _mixed(model: Any, mujoco: Any, a: int, b: int) -> dict[str, Any]:
    """Return the parameters of a contact of two geoms, by MuJoCo's rules."""
    merged = sum if _margins_add_up(mujoco) else max
    margin = float(merged((model.geom_margin[a], model.geom_margin[b])))
    gap = float(merged((model.geom_gap[a], model.geom_gap[b])))
    order = model.geom_priority[a] - model.geom_priority[b]
    weights = np.array([model.geom_solmix[a], model.geom_solmix[b]], float)
    if order:
        winner = a if order > 0 else b
        share = 1.0 if order > 0 else 0.0
        condim, friction = int(model.geom_condim[winner]), model.geom_friction[winner]
    else:
        least = 1e-15
        total = weights.sum()
        share = float(weights[0] / total) if (weights >= least).all() else 0.5
        if (weights < least).sum() == 1:
            share = 0.0 if weights[0] < least else 1.0
        condim = int(max(model.geom_condim[a], model.geom_condim[b]))
        friction = np.maximum(model.geom_friction[a], model.geom_friction[b])
    first, second = model.geom_solref[a], model.geom_solref[b]
    solref = (
        share * first + (1.0 - share) * second
        if order or (first[0] > 0 and second[0] > 0)
        else np.minimum(first, second)
    )
    solimp = share * model.geom_solimp[a] + (1.0 - share) * model.geom_solimp[b]
    slide, spin, roll = friction.tolist()
    return {
        "condim": condim,
        "friction": (slide, slide, spin, roll, roll),
        "softness": _softness(solref, solimp),
        "margin": margin - gap,
    }


def _joint(model: Any, index: int) -> JointSoftness:
    at = model.jnt_dofadr[index]
    return JointSoftness(
        _softness(model.jnt_solref[index], model.jnt_solimp[index]),
        float(model.jnt_margin[index]),
        _softness(model.dof_solref[at], model.dof_solimp[at]),
        float(model.qpos0[model.jnt_qposadr[index]]),
    )


def _softness(solref: Any, solimp: Any) -> Softness:
    return Softness(tuple(solref.tolist()), tuple(solimp.tolist()))
