"""Soft constraints of a ``mujoco.MjModel``: contacts, softness of joints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from gridgen.functions.worlds import terrain
from gridgen.model.contacts import pair_of, solid_of
from gridgen.model.description import Mesh, Shape, collision_shape, listing
from gridgen.model.hulls import Hull
from gridgen.model.pose import Pose, apply, from_quaternion, vector3
from gridgen.model.soft import (
    DEFAULT_SOFTNESS,
    MIN_FRICTION,
    Contact,
    ContactModel,
    HeightField,
    JointSoftness,
    Plane,
    Softness,
    Solid,
)

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

FLAGS = {
    "OVERRIDE": "contact parameters of the option",
    "DIAGEXACT": "exact regularizers",
    "SLEEP": "sleeping bodies",
    "IPC": "the flag ipc",
    "SPECULATIVE": "speculative contacts",
}
"""Flags (``mjENBL_<name>``) that gridgen ignores."""

PLANE, FIELD, MESH = 0, 1, 7
"""MuJoCo's types of planes, height fields and meshes (mjtGeom)."""


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
    contacts = []
    hull_of = cache(partial(_hull, model))
    if not is_disabled(model, mujoco, "CONTACT", "CONSTRAINT"):
        for a, b, pair in _pairs(model, mujoco):
            if _gap(model, a, b, pair) is None:
                contacts.append(_contact(model, mujoco, links, hull_of, a, b, pair))
    return ContactModel(
        tuple(contacts),
        {name: _joint(model, index) for index, name in joints.items()},
        {link: vector3(model.body_ipos[body].tolist()) for body, link in links.items()},
        "elliptic" if option.cone else "pyramidal",
        float(option.impratio),
        0.0 if is_disabled(model, mujoco, "REFSAFE") else float(option.timestep),
        terrain=_terrain(model)
        if any(isinstance(one.other, HeightField) for one in contacts)
        else (),
    )


def is_disabled(model: Any, mujoco: Any, *names: str) -> bool:
    """Return whether one of the flags ``mjDSBL_<name>`` is set, of those that MuJoCo has."""
    bits = mujoco.mjtDisableBit.__members__
    flags = (bits.get(f"mjDSBL_{name}", 0) for name in names)
    return any(model.opt.disableflags & int(bit) for bit in flags)


def uncovered(model: Any, mujoco: Any) -> list[str]:
    """Return what gridgen ignores of the contacts of a model."""
    gaps: dict[str, list[str]] = {}
    for a, b, gap in uncovered_pairs(model, mujoco):
        gaps.setdefault(gap, []).append(_name(model, a, b))
    found = [f"{gap} ({listing(names, 3)})" for gap, names in gaps.items()]
    found += dict.fromkeys(
        name for field, name in FORCES.items() if np.any(getattr(model, field, 0.0))
    )
    if model.opt.noslip_iterations:
        found.append("the noslip solver")
    flags, known = model.opt.enableflags, mujoco.mjtEnableBit.__members__
    return found + [
        name for flag, name in FLAGS.items() if flags & int(known.get(f"mjENBL_{flag}", 0))
    ]


def uncovered_pairs(model: Any, mujoco: Any) -> Iterator[tuple[int, int, str]]:
    """Yield the geoms that may touch and whose contact gridgen ignores, and why."""
    for a, b, pair in _pairs(model, mujoco):
        if gap := _gap(model, a, b, pair):
            yield a, b, gap


def _name(model: Any, *geoms: int) -> str:
    return ":".join(model.geom(geom).name or f"geom{geom}" for geom in geoms)


def _pairs(model: Any, mujoco: Any) -> Iterator[tuple[int, int, int]]:
    """Yield the geoms that may touch, in order, and the index of their pair or -1."""
    kinds, body = model.geom_type, model.geom_bodyid
    skips_parents = not is_disabled(model, mujoco, "FILTERPARENT")
    for pair in range(model.npair):
        geoms = _in_order(model, model.pair_geom1[pair], model.pair_geom2[pair])
        first, second = model.body_weldid[body[[*geoms]]]
        if first != second:
            yield (*geoms, pair)
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
                and not (skips_parents and is_family and all(roots))
                and not both & excluded
                and (a, b) not in listed
                and not kinds[a] == kinds[b] == PLANE
            ):
                yield (*_in_order(model, a, b), -1)


def _gap(model: Any, a: int, b: int, pair: int) -> str | None:
    """Return what gridgen does not cover in a contact of two geoms; ``None`` for nothing."""
    if (model.geom_gap[[a, b]] if pair < 0 else model.pair_gap[[pair]]).min() < 0.0:
        return "contacts with a negative gap"
    first, second = (_solid(model, "", _stand_in, geom) for geom in (a, b))
    if (kind := model.geom_type[a]) in (PLANE, FIELD):
        name = "planes" if kind == PLANE else "height fields"
        if model.body_weldid[model.geom_bodyid[a]]:
            return f"contacts with {name} that move"
        if kind == FIELD and model.geom_dataid[a] != _first_field(model):
            return "contacts with a second height field"
        if second is not None:
            return None
        return f"contacts of shapes without a volume or convex hull with {name}"
    if pair_of(first, second):
        return None
    return "contacts of other shapes than spheres, capsules, and spheres with boxes or cylinders"


def _in_order(model: Any, a: int, b: int) -> tuple[int, int]:
    """Return two geoms in the order of their types, as in MuJoCo's contacts."""
    return (int(a), int(b)) if model.geom_type[a] <= model.geom_type[b] else (int(b), int(a))


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


def _solid(model: Any, link: str, hull_of: Callable[[int], Hull], geom: int) -> Solid | None:
    """Return a geom as a shape of a link; ``None`` if that is not covered."""
    mesh = int(model.geom_dataid[geom])
    if model.geom_type[geom] != MESH:
        return solid_of(link, shape_of(model, geom))
    # Releases of MuJoCo without faces of hulls have other points too.
    if not hasattr(model, "mesh_polynum") or not model.mesh_polynum[mesh]:
        return None
    return Solid(link, _pose(model.geom_quat[geom], model.geom_pos[geom]), hull=hull_of(mesh))


def _stand_in(mesh: int) -> Hull:
    """Return a hull without faces."""
    return Hull((), (), ())


def _hull(model: Any, mesh: int) -> Hull:
    """Return the convex hull of a mesh, as MuJoCo has computed it."""
    first, vertex = int(model.mesh_polyadr[mesh]), int(model.mesh_vertadr[mesh])
    own = slice(first, first + int(model.mesh_polynum[mesh]))
    begins, sizes = model.mesh_polyvertadr[own], model.mesh_polyvertnum[own]
    faces = [model.mesh_polyvert[a : a + n] for a, n in zip(begins, sizes, strict=True)]
    corners, places = np.unique(np.concatenate(faces), return_inverse=True)
    ends = np.cumsum(sizes)[:-1]
    return Hull(
        tuple(map(tuple, model.mesh_vert[vertex + corners].astype(float).tolist())),
        tuple(tuple(face.tolist()) for face in np.split(places, ends)),
        tuple(map(tuple, model.mesh_polynormal[own].astype(float).tolist())),
    )


def _first_field(model: Any) -> int:
    """Return the asset of the first height field that does not move."""
    still = model.body_weldid[model.geom_bodyid] == 0
    return int(model.geom_dataid[np.flatnonzero((model.geom_type == FIELD) & still)[0]])


def _terrain(model: Any) -> tuple[float, ...]:
    index = _first_field(model)
    rows, columns = int(model.hfield_nrow[index]), int(model.hfield_ncol[index])
    x, y, top, _ = model.hfield_size[index].tolist()
    start = int(model.hfield_adr[index])
    heights = top * model.hfield_data[start : start + rows * columns].astype(float)
    made = terrain(heights.reshape(rows, columns), half_lengths=(x, y))
    return tuple(made.tolist())


def _ground(model: Any, geom: int) -> Plane | HeightField:
    """Return a plane or a height field that does not move in the world."""
    at = _pose(model.geom_quat[geom], model.geom_pos[geom])
    body = int(model.geom_bodyid[geom])
    while body:
        at = _pose(model.body_quat[body], model.body_pos[body]) @ at
        body = int(model.body_parentid[body])
    if model.geom_type[geom] == FIELD:
        return HeightField(at)
    normal = apply(at.rotation, (0.0, 0.0, 1.0))
    return Plane(normal, sum(a * b for a, b in zip(normal, at.translation, strict=True)))


def _contact_name(model: Any, first: int, second: int) -> str:
    """Return the name of the contact of two geoms, a plane or height field first."""
    is_ground = model.geom_type[first] in (PLANE, FIELD)
    return _name(model, second) if is_ground else _name(model, first, second)


def contact_between(model: Any, mujoco: Any, geoms: tuple[int, int]) -> str | None:
    """Return the name of the contact of two geoms; ``None`` if no or another one has it."""
    pairs = [*_pairs(model, mujoco)]
    names = [_contact_name(model, a, b) for a, b, _ in pairs]
    for (a, b, pair), name in zip(pairs, names, strict=True):
        if {a, b} == {*geoms}:
            is_plain = names.count(name) == 1 and _gap(model, a, b, pair) is None
            return name if is_plain else None
    return None


def _contact(
    model: Any,
    mujoco: Any,
    links: Mapping[int, str],
    hull_of: Callable[[int], Hull],
    first: int,
    second: int,
    pair: int,
) -> Contact:
    """Return the contact of two geoms, a fixed plane or height field first."""
    is_ground = model.geom_type[first] in (PLANE, FIELD)
    other, shape = [
        _ground(model, geom)
        if is_ground and geom == first
        else _solid(model, links[int(model.geom_bodyid[geom])], hull_of, geom)
        for geom in (first, second)
    ]
    contact = Contact(_contact_name(model, first, second), shape, other)  # type: ignore[arg-type]
    if pair >= 0:
        return replace(
            contact,
            condim=int(model.pair_dim[pair]),
            friction=_friction(model.pair_friction[pair]),
            softness=_softness(model.pair_solref[pair], model.pair_solimp[pair]),
            friction_solref=solref_of(model.pair_solreffriction[pair], (0.0, 0.0)),
            margin=float(model.pair_margin[pair] - model.pair_gap[pair] * _margin_rules(mujoco)[1]),
        )
    return replace(contact, **_mixed(model, mujoco, first, second))


_MARGINS = """
<mujoco><worldbody><geom type="plane" size="1 1 1" margin="1" gap="0.125"/>
<body><freejoint/><geom size="1" margin="1" gap="0.125"/></body></worldbody></mujoco>
"""


@cache
def _margin_rules(mujoco: Any) -> tuple[bool, bool]:
    """Return whether a release of MuJoCo adds margins, and whether gaps reduce them.

    Older ones take the larger margin, less the gap.
    """
    model = mujoco.MjModel.from_xml_string(_MARGINS)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    margin = float(data.contact[0].includemargin)
    return margin > 1.5, not margin.is_integer()


def _mixed(model: Any, mujoco: Any, a: int, b: int) -> dict[str, Any]:
    """Return the parameters of a contact of two geoms, by MuJoCo's rules."""
    adds_up, has_gap = _margin_rules(mujoco)
    merged = sum if adds_up else max
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
    return {
        "condim": condim,
        "friction": _friction(friction[[0, 0, 1, 2, 2]]),
        "softness": _softness(solref, solimp),
        "margin": margin - gap * has_gap,
    }


def _friction(given: Any) -> Any:
    return tuple(np.maximum(given, MIN_FRICTION).tolist())


def _joint(model: Any, index: int) -> JointSoftness:
    at = model.jnt_dofadr[index]
    return JointSoftness(
        _softness(model.jnt_solref[index], model.jnt_solimp[index]),
        float(model.jnt_margin[index]),
        _softness(model.dof_solref[at], model.dof_solimp[at]),
        float(model.qpos0[model.jnt_qposadr[index]]),
    )


def _softness(solref: Any, solimp: Any) -> Softness:
    return Softness(solref_of(solref), tuple(solimp.tolist()))


def solref_of(
    given: Any, default: tuple[float, float] = DEFAULT_SOFTNESS.solref
) -> tuple[float, float]:
    """Return a ``solref``; MuJoCo has the default in place of one whose signs differ."""
    first, second = given.tolist()
    return default if (first > 0.0) != (second > 0.0) else (first, second)
