"""Fields of MuJoCo's models, from 3.2.0 to 4.0.0, by their treatment in the reader.

A release may add a field that affects the dynamics. A test fails for each field that is not listed
here, and the reader warns if a model uses such a field. Actuators are read by their fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from gridgen.naming import show

TAKEN = r"""
    nbody names opt qpos0
    body_(parentid|pos|quat|ipos|iquat|mass|inertia|jntadr|jntnum|geomadr|geomnum|mocapid)
    geom_(type|size|pos|quat|bodyid|contype|conaffinity|condim|priority|friction|margin|gap)
    geom_(solmix|solref|solimp) pair_\w+ npair exclude_signature body_weldid
    nsite site_(bodyid|pos|quat) ncam cam_(bodyid|pos|quat|mode) nkey key_(qpos|qvel|ctrl)
    eq_(type|objtype|obj1id|obj2id|active0|data|solref|solimp)
    jnt_(type|qposadr|dofadr|pos|axis|range|limited|actfrclimited|actfrcrange|margin)
    jnt_(solref|solimp|bodyid) dof_(solref|solimp)
    dof_(armature|damping|frictionloss)
    actuator_(trntype|trnid|outadr|gear|armature|damping|dyntype|gaintype|gainprm|biastype)
    actuator_(biasprm|ctrllimited|ctrlrange|forcelimited|forcerange|group|delay|plugin|ctrlnum)
    actuator_outnum jnt_stiffness qpos_spring opt.(integrator|disableactuator) body_gravcomp
    ntendon tendon_(adr|num|limited|range|margin|stiffness|damping|frictionloss|lengthspring)
    tendon_(solref_lim|solimp_lim|solref_fri|solimp_fri) wrap_(type|objid|prm)
    opt.(disableflags|gravity|cone|impratio|timestep)
    mjDSBL_(CONSTRAINT|EQUALITY|FRICTIONLOSS|LIMIT|CONTACT|PASSIVE|SPRING|DAMPER|GRAVITY)
    mjDSBL_(FILTERPARENT|REFSAFE|ACTUATION|CLAMPCTRL)
"""
"""Fields and flags that the reader uses."""

NAMED = """
    nflex njnt neq nu nactuator nplugin nmocap geom_(adhesion|surfacevel)
    tendon_armature dof_dampingpoly actuator_dampingpoly
    jnt_stiffnesspoly jnt_springyield opt.noslip_iterations
    mjENBL_(OVERRIDE|DIAGEXACT|SLEEP|IPC|SPECULATIVE)
    opt.(density|viscosity|wind) tendon_(actfrclimited|stiffnesspoly|dampingpoly|springyield)
    jnt_actgravcomp
"""
"""Fields that raise an error or a warning."""

INSIDE = r"""
    actuator_(ctrladr|ctrlspec|actadr|actnum|cranklength|dynprm|actlimited|actrange|actearly)
    actuator_(history|historyadr|acc0|length0|lengthrange)
    tendon_(type|actuatorid|plasticadr|actfrcrange|length0|invweight0|treenum|treeid)
    ten_J_\w+ wrap_\w+ exclude_\w+ plugin\w* flex\w+ nflex\w+ jnt_plasticadr body_plugin
"""
"""Details of features that raise an error or a warning: forces and deformable bodies."""

DERIVED = r"""
    n[A-Z]\w* nq nv na nout ntree nwrap noct nplastic nexclude nefm\w+ nemax ngravcomp
    flg_\w+ signature stat [BDM]_\w+ map\w2\w efm\w+ tree_(bodyadr|bodynum|dofadr|dofnum)
    body_(rootid|weldid|dofnum|dofadr|treeid|simple|sameframe|subtreemass)
    body_(invweight0|contype|conaffinity|bvhadr|bvhnum) jnt_actuatorid
    dof_(bodyid|jntid|parentid|treeid|Madr|simplenum|invweight0|M0|length)
"""
"""Sizes, addresses and fields that MuJoCo derives from others."""

OTHER = r"""
    vis narena nbuffer njmax nconmax npolygonmax nhistory tree_sleep_policy
    body_margin jnt_group
    tendon_(group|width|matid|rgba)
    n?bvh\w* oct_\w+ ngeom geom_(?!contype|conaffinity|(type|size|pos|quat)$)\w+
    site_(?!(bodyid|pos|quat)$)\w+ cam_(?!(bodyid|pos|quat|mode)$)\w+ nlight light_\w+
    nmesh\w* mesh_\w+ nskin\w* skin_\w+ nhfield\w* hfield_\w+ nmat mat_\w+ ntex\w* tex_\w+
    nsensor\w* sensor_\w+ key_(?!(qpos|qvel|ctrl)$)\w+ nnumeric\w* numeric_\w+ text_\w+
    ntuple\w* tuple_\w+ nuser\w+ \w+_user nnames\w* names_map name_\w+ n?paths
    npluginattr npluginstate
    opt.(ccd|mpr|ls|noslip|sdf|o)_\w+ opt.(apirate|enableflags)
    opt.(iterations|jacobian|sleep_tolerance|solver|tolerance|magnetic)
    mjDSBL_(WARMSTART|SENSOR|MIDPHASE|EULERDAMP|AUTORESET)
    mjDSBL_(NATIVECCD|ISLAND|MULTICCD)
    mjNDISABLE mjNENABLE
    mjENBL_(ENERGY|FWDINV|INVDISCRETE|ISLAND|MULTICCD)
    mjJNT_(FREE|BALL|SLIDE|HINGE)
    mjTRN_(JOINT|JOINTINPARENT|SLIDERCRANK|TENDON|SITE|BODY|SO3|UNDEFINED)
"""
"""Fields of simulation, contact, sensors and rendering, which do not affect the dynamics."""

_KNOWN = re.compile("|".join(f"{TAKEN} {NAMED} {INSIDE} {DERIVED} {OTHER}".split()))


def unknown(names: Iterable[str]) -> list[str]:
    """Return the names of fields and flags that are not listed here."""
    return [name for name in names if not _KNOWN.fullmatch(name)]


def fields(model: Any) -> Iterator[str]:
    """Yield the names of a model's fields and options."""
    for prefix, owner in (("", model), ("opt.", model.opt)):
        for name in dir(owner):
            if not name.startswith("_") and not callable(getattr(owner, name)):
                yield prefix + name


def used(model: Any, mujoco: Any) -> list[str]:
    """Return the unknown fields and flags that are nonzero in a model."""
    found = []
    for name in unknown(fields(model)):
        *owner, field = name.split(".")
        value = np.asarray(getattr(model.opt if owner else model, field))
        if value.dtype.kind in "biuf" and np.any(value):
            found.append(name)
    for kind, bits in (
        (mujoco.mjtDisableBit, model.opt.disableflags),
        (mujoco.mjtEnableBit, model.opt.enableflags),
    ):
        found += [name for name in unknown(kind.__members__) if bits & int(kind.__members__[name])]
    return found


JOINT, JOINT_IN_PARENT, TENDON, AT_SITE = 0, 1, 3, 4
"""MuJoCo's transmission types that are read (mjtTrn)."""

AFFINE = {"gaintype": 1, "biastype": 1}
"""The largest type of gain and bias that has no state and three parameters (mjtGain, mjtBias)."""

RANGES = {"ctrlrange": "ctrllimited", "forcerange": "forcelimited"}
"""Ranges of an actuator, and whether they hold."""

GROUPS = 31
"""Groups of actuators that can be disabled."""


def read_actuators(
    model: Any,
    mujoco: Any,
    joints: Mapping[int, str],
    tendons: Mapping[int, str],
    sites: Mapping[int, str],
) -> Iterator[Mapping[str, Any]]:
    """Yield the actuators of a model; one that is not supported has its ``problem``.

    Args:
        model:   the model.
        mujoco:  MuJoCo's module.
        joints:  name of each joint.
        tendons: name of each tendon that is linear in joints.
        sites:   link of each site that has a name and moves.
    """
    option, flags = model.opt, mujoco.mjtDisableBit.__members__

    def is_disabled(name: str) -> bool:
        return bool(option.disableflags & int(flags[f"mjDSBL_{name}"]))

    explicit = (int(mujoco.mjtIntegrator.mjINT_EULER), int(mujoco.mjtIntegrator.mjINT_RK4))
    for index in range(getattr(model, "nactuator", model.nu)):
        name = model.actuator(index).name or f"actuator{index}"
        if problem := _problem(model, mujoco, index, tendons, sites):
            yield {"name": name, "problem": problem}
            continue
        on = int(model.actuator_trnid[index, 0])
        entry: dict[str, Any] = {"name": name, "kind": "general"}
        entry["gear"] = float(model.actuator_gear[index, 0])
        if model.actuator_trntype[index] == TENDON:
            entry["tendon"] = tendons[on]
        elif model.actuator_trntype[index] == AT_SITE:
            entry |= {"link": sites[on], "gear": tuple(model.actuator_gear[index].tolist())}
        else:
            entry["joint"] = joints[on]
            if model.jnt_actfrclimited[on]:
                entry["actuatorfrcrange"] = tuple(model.jnt_actfrcrange[on].tolist())
        entry["implicit"] = option.integrator not in explicit
        group = int(model.actuator_group[index])
        is_off = 0 <= group < GROUPS and option.disableactuator & (1 << group)
        for key in AFFINE:
            word = key.replace("type", "prm")
            count = 3 if getattr(model, f"actuator_{key}")[index] else int(key == "gaintype")
            if is_off or is_disabled("ACTUATION"):
                count = 0
            given = getattr(model, f"actuator_{word}")[index, :count].tolist()
            entry[word] = (*given, *(0.0,) * (3 - count))
        for key, limited in RANGES.items():
            is_on = getattr(model, f"actuator_{limited}")[index]
            if is_on and not (key == "ctrlrange" and is_disabled("CLAMPCTRL")):
                entry[key] = tuple(getattr(model, f"actuator_{key}")[index].tolist())
        yield entry


def joints_of(model: Any, tendon: int) -> Mapping[int, float]:
    """Return the joints of a tendon, with the factors of their positions; none if it is spatial."""
    first = model.tendon_adr[tendon]
    own = slice(first, first + model.tendon_num[tendon])
    if model.wrap_type[first] != OF_JOINT:
        return {}
    found: dict[int, float] = {}
    for joint, factor in zip(model.wrap_objid[own].tolist(), model.wrap_prm[own], strict=True):
        found[joint] = found.get(joint, 0.0) + float(factor)
    return found


OF_JOINT = 1
"""MuJoCo's kind of an element of a fixed tendon (mjtWrap)."""


def _problem(
    model: Any, mujoco: Any, index: int, tendons: Mapping[int, str], sites: Mapping[int, str]
) -> str | None:
    """Return why an actuator is not supported."""

    def word(kind: str, field: str) -> str:
        value = getattr(mujoco, f"mjt{kind}")(int(getattr(model, f"actuator_{field}")[index]))
        return show(value.name.partition("_")[2].lower())

    kind, (on, relative_to) = model.actuator_trntype[index], model.actuator_trnid[index].tolist()
    if kind == TENDON and on not in tendons:
        return "its tendon is spatial"
    if kind == TENDON:
        if any(model.jnt_actfrclimited[joint] for joint in joints_of(model, on)):
            return "its tendon is of joints with actuatorfrcrange"
    elif kind == AT_SITE:
        if on not in sites or relative_to >= 0:
            why = "relative to another site" if relative_to >= 0 else "without a name, or fixed"
            return f"its site is {why}"
    elif kind not in (JOINT, JOINT_IN_PARENT):
        return f"its transmission is {word('Trn', 'trntype')}, not a joint, tendon or site"
    elif model.jnt_type[on] not in (2, 3):
        return "it acts on a joint with several velocities"
    if model.actuator_dyntype[index] or model.actuator_plugin[index] >= 0:
        return f"it has a state (dyntype {word('Dyn', 'dyntype')}), which steps do not integrate"
    for field, most in AFFINE.items():
        if getattr(model, f"actuator_{field}")[index] > most:
            return f"its {field} is {word(field[:4].title(), field)}, not fixed or affine"
    for field, usual in (("delay", 0), ("outnum", 1), ("ctrlnum", 1)):
        values = getattr(model, f"actuator_{field}", None)
        if values is not None and values[index] != usual:
            return f"its {field} is {values[index]:g}, not {usual}"
    return None
