"""Actuators of a ``mujoco.MjModel``, in the form of the option ``actuators``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridgen.naming import show

JOINT, JOINT_IN_PARENT = range(2)
"""MuJoCo's transmission types that act on a joint (mjtTrn)."""

AFFINE = {"gaintype": 1, "biastype": 1}
"""The largest type of gain and bias that has no state and three parameters (mjtGain, mjtBias)."""

RANGES = {"ctrlrange": "ctrllimited", "forcerange": "forcelimited"}
"""Ranges of an actuator, and whether they hold."""

GROUPS = 31
"""Groups of actuators that can be disabled."""


def read_actuators(
    model: Any, mujoco: Any, joints: Mapping[int, str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the actuators of a model; one that is not supported has its ``problem``.

    Args:
        model:  the model.
        mujoco: MuJoCo's module.
        joints: name of each joint.
    """
    option, flags = model.opt, mujoco.mjtDisableBit.__members__

    def is_disabled(name: str) -> bool:
        return bool(option.disableflags & int(flags[f"mjDSBL_{name}"]))

    explicit = (int(mujoco.mjtIntegrator.mjINT_EULER), int(mujoco.mjtIntegrator.mjINT_RK4))
    for index in range(getattr(model, "nactuator", model.nu)):
        name = model.actuator(index).name or f"actuator{index}"
        if problem := _problem(model, mujoco, index):
            yield {"name": name, "problem": problem}
            continue
        joint = int(model.actuator_trnid[index, 0])
        entry: dict[str, Any] = {"name": name, "kind": "general", "joint": joints[joint]}
        entry["gear"] = float(model.actuator_gear[index, 0])
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
        if model.jnt_actfrclimited[joint]:
            entry["actuatorfrcrange"] = tuple(model.jnt_actfrcrange[joint].tolist())
        yield entry


def _problem(model: Any, mujoco: Any, index: int) -> str | None:
    """Return why an actuator is not supported."""

    def word(kind: str, field: str) -> str:
        value = getattr(mujoco, f"mjt{kind}")(int(getattr(model, f"actuator_{field}")[index]))
        return show(value.name.partition("_")[2].lower())

    if model.actuator_trntype[index] not in (JOINT, JOINT_IN_PARENT):
        return f"its transmission is {word('Trn', 'trntype')}, not a joint"
    if model.jnt_type[model.actuator_trnid[index, 0]] not in (2, 3):
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
