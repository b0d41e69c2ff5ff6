"""Bounds beyond which the states of a rollout end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gridgen.errors import OptionError
from gridgen.functions.record import EXCESS, EXCESS_APART
from gridgen.kernel import KernelKey
from gridgen.naming import show, show_value, similar
from gridgen.runtime.module.description import RobotRecord

_OF_BASE = ["height", "tilt"]
_FORM = 'give ranges by name, such as {"height": (0.2, None), "tilt": 1.0}'


class SharedNumbers(tuple[float, ...]):
    """Numbers for all states of a call, of any library, type and device."""

    __slots__ = ()


def bounds_of(robot: RobotRecord, stop_when: object) -> tuple[KernelKey, dict[str, SharedNumbers]]:
    """Return the program that tests states, and its arrays; see ``Robot.rollout``.

    Raises:
        OptionError: a name or a range is invalid.
    """
    if not isinstance(stop_when, Mapping) or not stop_when:
        raise OptionError(f"stop_when is {show_value(stop_when)}; {_FORM}")
    places = {
        name: first
        for name, first, quaternion, mimics in zip(
            robot.joint_names, robot.q_indices, robot.quaternions, robot.mimics, strict=True
        )
        if quaternion is None and not mimics
    }
    names = [*places, "self_distance"]
    free = [joint.name for joint in robot.space.free]
    if has_base := robot.floating_base or len(free) == 1:
        names += _OF_BASE
    ranges = np.tile((-math.inf, math.inf), (robot.nq, 1))
    height, upright = (-math.inf, math.inf), -2.0
    margin: float | None = None
    for name, value in stop_when.items():
        if name in _OF_BASE and len(free) > 1 and not has_base:
            raise OptionError(
                f"stop_when has {show(name)}, which is of one floating base, and no free joint is "
                f"the first: {', '.join(map(show, free[:3]))}; test the results of record"
            )
        if name not in names:
            near = similar(name, names) if isinstance(name, str) else ()
            raise OptionError(
                f"stop_when has {show_value(name)}; choose {', '.join(near or names)}"
            )
        if name in places:
            ranges[places[name]] = _range(name, value)
        elif name == "height":
            height = _range(name, value)
        elif name == "tilt":
            upright = math.cos(_number(name, value, 0.0, math.pi))
        else:
            margin = _number(name, value, -math.inf, math.inf)
    found = {"q_range": (*ranges.ravel().tolist(),), "base_range": (*height, upright)}
    found |= {} if margin is None else {"margin": (margin,)}
    bounds = {name: SharedNumbers(numbers) for name, numbers in found.items()}
    return EXCESS if margin is None else EXCESS_APART, bounds


def _range(name: str, value: Any) -> tuple[float, float]:
    """Return both ends of a range."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise OptionError(f"stop_when has {show(name)}: {show_value(value)}; give (low, high)")
    low, high = (
        other if end is None else _number(name, end, -math.inf, math.inf)
        for end, other in zip(value, (-math.inf, math.inf), strict=True)
    )
    if low > high:
        raise OptionError(
            f"stop_when has {show(name)}: {show_value(value)}, whose ends are exchanged"
        )
    return low, high


def _number(name: str, value: Any, least: float, most: float) -> float:
    is_number = isinstance(value, (float, int, np.floating, np.integer))
    if not is_number or isinstance(value, bool) or not least <= value <= most:
        span = f" from {least:.3g} to {most:.3g}" if most < math.inf else ""
        raise OptionError(f"stop_when has {show(name)}: {show_value(value)}; give a number{span}")
    return float(value)
