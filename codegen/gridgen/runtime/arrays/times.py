"""The arrays of rollouts: axes of states and of time, bounds, and the kernel's options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gridgen.errors import OptionError, ShapeError
from gridgen.functions.arrays import CONSTANT_IN_TIME, FEEDBACK, TIME_FIRST, closed
from gridgen.functions.calls import RolloutSettings, RolloutWords
from gridgen.functions.record import EXCESS, EXCESS_APART
from gridgen.functions.types import Array
from gridgen.kernel import KernelKey, Shape
from gridgen.naming import show, show_value, similar
from gridgen.runtime.arrays.layout import broadcast, spread
from gridgen.runtime.module.description import RobotRecord

# The largest count, beyond any practical value.
_MAX = 2**31 - 1


def feedback_of(settings: RolloutSettings) -> dict[str, Array | None]:
    """Return the controller's gains and reference, by the names of arrays."""
    if settings.feedback is None:
        return dict.fromkeys(FEEDBACK)
    if not isinstance(settings.feedback, (tuple, list)) or len(settings.feedback) != len(FEEDBACK):
        raise OptionError(
            f"feedback is {show_value(settings.feedback)}; give gains, and positions and "
            "velocities to be followed: (K, q_ref, qd_ref)"
        )
    return _whole(dict(zip(FEEDBACK, settings.feedback, strict=True)))


def followed_in(inputs: Mapping[str, Array | None]) -> dict[str, Array]:
    """Return the controller's arrays among the inputs of a rollout; empty without a controller."""
    given = {name: inputs[name] for name in FEEDBACK}
    if all(array is None for array in given.values()):
        return {}
    return _whole(given)


def _whole(followed: dict[str, Array | None]) -> dict[str, Array]:
    for name, array in followed.items():
        if array is None:
            raise OptionError(f"feedback lacks {name}: give all of (K, q_ref, qd_ref), or none")
    return followed


def rollout_words(settings: RolloutSettings, steps: int, *, follows: bool) -> RolloutWords:
    """Return the launch arguments of a rollout with a number of steps; see ``RolloutSettings``."""
    every, moments = stored_steps(settings, steps)
    begins = moments is not None or not steps
    return RolloutWords(steps, settings.substeps, every, begins, follows, settings.effort_limits)


def stored_steps(settings: RolloutSettings, steps: int) -> tuple[int, int | None]:
    """Return the steps per stored state, and the count of stored states; ``None`` for the last."""
    check_switch("effort_limits", settings.effort_limits)
    check_substeps(settings.substeps)
    every: Any = settings.store_every
    if isinstance(every, str) and every == "last":
        return steps, None
    if not _is_count(every) or steps % every:
        raise OptionError(
            f"store_every is {show_value(every)}; give last, or a number of steps that divides "
            f"{steps}"
        )
    return int(every), steps // int(every) + 1


def check_efforts(settings: RolloutSettings) -> bool:
    """Return whether a rollout returns joint torques; raise unless the option is a bool."""
    check_switch("return_efforts", settings.return_efforts)
    return settings.return_efforts


def check_untransformed(settings: RolloutSettings) -> None:
    """Raise for options that rollouts which a framework transforms do not have."""
    for word, none in (("stop_when", None), ("record", ())):
        if getattr(settings, word) != none:
            raise OptionError(
                f"{word}: a rollout that PyTorch differentiates or JAX traces does not have it: "
                "pass arrays without gradients, and use rollout_vjp for those of stop_when"
            )


def check_switch(name: str, value: Any) -> None:
    """Raise unless an option is a bool."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {show_value(value)}; give True or False")


def check_substeps(substeps: Any) -> None:
    """Raise unless a value is a number of steps."""
    if not _is_count(substeps):
        given = show_value(substeps)
        raise OptionError(f"substeps is {given}; give a whole number from 1 to {_MAX}")


def _is_count(value: Any) -> bool:
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_number and 1 <= value <= _MAX


class Inputs(NamedTuple):
    """The inputs of a rollout, with their axes."""

    #: the arrays by name; none has a time axis of extent 1, if there are several steps.
    arrays: dict[str, Array]
    lead: Shape  #: the leading axes of states.
    steps: int  #: number of steps.
    times: Mapping[str, int]  #: extents of the time axes of arrays that were given with one.
    timed: Mapping[str, int]  #: the arrays with a time axis now, after the axes of states.

    def whole(self, name: str, shape: Shape, xp: Any, *, alone: bool = True) -> Array:
        """Return an array with all axes of states; see ``spread``."""
        own = (self.steps, *shape) if name in self.timed else shape
        return spread(self.arrays[name], own, self.lead, xp, alone=alone)


def in_time(robot: str, shapes: Mapping[str, Shape], arrays: Mapping[str, Array]) -> Inputs:
    """Find the axes of states and of time of a rollout's inputs.

    Axes of states broadcast as in NumPy. An array with an optional time axis has one if it has one
    more axis than the axes of states.

    Raises:
        ShapeError: an array has other axes.
    """
    shapes = {name: closed(shapes[name], array.shape) for name, array in arrays.items()}
    counts = {name: max(array.ndim - len(shapes[name]), 0) for name, array in arrays.items()}
    most = max(0, *(count - (name not in CONSTANT_IN_TIME) for name, count in counts.items()))
    tau = arrays["tau"]
    steps: int | str = tau.shape[-2] if tau.ndim > 1 else "T"
    states: dict[str, int] = {}
    lead: Shape = ()
    misfit = ""
    for name, count in counts.items():
        has_time = count > (0 if name in TIME_FIRST else most) and name not in CONSTANT_IN_TIME
        states[name] = count - has_time
        both = broadcast((lead, arrays[name].shape[: states[name]]))
        if both is None:
            misfit = name
            break
        lead = both
    if isinstance(steps, str):
        raise ShapeError(
            f"tau has shape {tau.shape}; a rollout needs joint torques of every step, "
            f"{_expected('tau', shapes['tau'], lead, steps)}"
        )
    for name in ("ctrl", "tau"):
        if counts.get(name) == 1 and lead == (steps,) and steps > 1 and not misfit:
            raise ShapeError(
                f"{name} has shape {arrays[name].shape}, and there are as many states as steps: "
                f"give {name}[None] if its first axis is that of the steps, or {name}[:, None] for "
                "one step with different torques"
            )
    found: dict[str, Array] = {}
    times: dict[str, int] = {}
    for name, array in arrays.items():
        own, shape = array.shape[states[name] : counts[name]], shapes[name]
        if name == misfit and most > 1:
            raise ShapeError(
                f"{name} has shape {array.shape}; {robot} needs {lead} or what NumPy broadcasts "
                "to it for its states, as the others have"
            )
        fits = name != misfit and array.shape[counts[name] :] == shape
        if not (fits and all(extent in (steps, 1) for extent in own)):
            needed = _expected(name, shape, lead, steps)
            raise ShapeError(f"{name} has shape {array.shape}; {robot} needs {needed}")
        if own:
            times[name] = own[0]
        found[name] = without_time(array, len(shape)) if own == (1,) and steps != 1 else array
    timed = {name: extent for name, extent in times.items() if extent == steps}
    return Inputs(found, lead, steps, times, timed)


def without_time(array: Array, axes: int) -> Array:
    """Return an array without its time axis of extent 1."""
    place = array.ndim - axes
    return array.reshape(*array.shape[: place - 1], *array.shape[place:])


def _expected(name: str, shape: Shape, states: Shape, steps: int | str) -> str:
    """Return a description of the valid shapes of an input."""
    lead: tuple[int | str, ...] = tuple(extent or "B" for extent in states)
    whole = (*lead, steps)
    if name == "tau":
        heads: list[tuple[int | str, ...]] = [whole, (steps,)]
    elif name in TIME_FIRST:
        heads = [(), (steps,), whole]
    else:
        heads = [(), lead] if name in CONSTANT_IN_TIME else [(), lead, whole]
    said = [(*head, *shape) for head in dict.fromkeys(heads)]
    commas = ("," if len(one) == 1 else "" for one in said)
    return " or ".join(
        f"({', '.join(map(str, one))}{comma})" for one, comma in zip(said, commas, strict=True)
    )


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
