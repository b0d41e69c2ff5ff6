"""Valid numbers of inputs: one rule for each kind, for every way into a kernel.

``ARRAYS`` names the kind of an input. Arrays on a GPU are not validated: that would synchronize the
device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import GridGenError, OptionError, ParameterError
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.types import Array
from gridgen.functions.worlds import check_layout, has_layout
from gridgen.runtime.arrays.libraries import on_gpu
from gridgen.runtime.configurations import needs_normalizing
from gridgen.runtime.module.description import RobotRecord

Numbers: TypeAlias = NDArray[Any]

#: Largest error of a product of rows of a rotation, and of the last row; more is a mistake.
POSE_TOLERANCE = 1e-3


class Rule(NamedTuple):
    """The valid numbers of inputs of one kind."""

    #: whether compiled code may read the numbers of an input; if not, the general path validates
    #: them, and converts or refuses them.
    accepts: Callable[[RobotRecord, str, Numbers], bool]
    check: Callable[[RobotRecord, str, Numbers], object]  #: raises for invalid numbers.


def validate(robot: RobotRecord, name: str, array: Array) -> None:
    """Raise unless an input has valid numbers; quaternions may need to be normalized.

    Raises:
        OptionError, ParameterError, ShapeError: its numbers are invalid.
    """
    if (rule := RULES.get(ARRAYS[name].numbers)) is not None and not on_gpu(array):
        rule.check(robot, name, array)


def acceptance(
    robot: RobotRecord, inputs: Iterable[str], *, unit_quaternions: bool
) -> Callable[[Sequence[Any]], bool] | None:
    """Return a test of whether compiled code may read NumPy arrays; ``None`` if it always may.

    Args:
        robot:  the robot.
        inputs: names of the arrays; those of a call may be ``None``.
        unit_quaternions: whether quaternions must have unit norm up to rounding.
    """
    tests: list[tuple[int, str, Callable[[RobotRecord, str, Numbers], bool]]] = []
    for i, name in enumerate(inputs):
        kind = ARRAYS[name]
        if (rule := RULES.get(kind.numbers)) is not None:
            tests.append((i, name, rule.accepts))
        elif unit_quaternions and robot.space.turning and kind.is_configuration:
            tests.append((i, name, _has_unit_quaternions))

    def are_accepted(values: Sequence[Any]) -> bool:
        for i, name, accepts in tests:
            value = values[i]
            if value is None:
                continue
            if type(value) is not np.ndarray or not accepts(robot, name, value):
                return False
        return True

    return are_accepted if tests else None


def number_test(robot: RobotRecord, name: str) -> Callable[[Any], bool]:
    """Return a test of a number for all states, which may be for a GPU too."""
    rule = RULES.get(ARRAYS[name].numbers)
    if rule is None:
        return _is_any
    return lambda value: rule.accepts(robot, name, np.asarray(value))


def _is_any(value: Any) -> bool:
    return True


def _has_unit_quaternions(robot: RobotRecord, name: str, q: Numbers) -> bool:
    return not needs_normalizing(robot.space, q, name)


# -- the rules --------------------------------------------------------------------------------

# Numbers that are valid one by one: which, what they are, and the class of the error.
_RANGES: Mapping[str, tuple[Callable[[Any], Any], str, type[GridGenError]]] = {
    "0 or 1": (
        lambda x: (x == 0.0) | (x == 1.0),
        "1 for a constraint that holds, 0 for one that does not",
        ParameterError,
    ),
    "0 or more": (lambda x: (x >= 0.0) & (x < np.inf), "finite numbers, 0 or more", ParameterError),
    "0 to 1": (lambda x: (x >= 0.0) & (x <= 1.0), "numbers from 0 to 1", ParameterError),
    "positive": (lambda x: (x > 0.0) & (x < np.inf), "positive finite numbers", ParameterError),
    "softness": (lambda x: (x > 0.0) & (x < np.inf), "a positive finite number", OptionError),
    "factors": (
        lambda x: (x >= 0.0) & (x < np.inf),
        "finite factors, 0 or more, and one above 0",
        ParameterError,
    ),
}
# Up to this size, a loop over Python's numbers takes a quarter of the time of NumPy's functions.
_FEW = 8


def _in_range(kind: str) -> Rule:
    valid, words, error = _RANGES[kind]
    needs_some = kind == "factors"

    def wrong(numbers: Numbers) -> Numbers:
        found: Numbers = ~valid(numbers)
        return found | (not numbers.any()) if needs_some else found

    def accepts(_: RobotRecord, name: str, numbers: Numbers) -> bool:
        if numbers.dtype.kind != "f":
            return False
        if numbers.size > _FEW:
            return not wrong(numbers).any()
        few = numbers.ravel().tolist()
        return all(map(valid, few)) and (not needs_some or any(few))

    def check(_: RobotRecord, name: str, numbers: Numbers) -> None:
        if (bad := numbers[wrong(numbers)]).size:
            raise error(f"{name} has {bad.flat[0]}; give {words}")

    return Rule(accepts, check)


def _has_form_of_pose(entries: Sequence[Any]) -> Any:
    """Return whether homogeneous transforms are poses, of 16 numbers or arrays, row by row."""
    ax, ay, az, _, bx, by, bz, _, cx, cy, cz, _, dx, dy, dz, dw = entries
    limit = POSE_TOLERANCE
    # The third row of a rotation is the cross product of two orthonormal ones.
    return (
        (abs(ax * ax + ay * ay + az * az - 1) <= limit)
        & (abs(bx * bx + by * by + bz * bz - 1) <= limit)
        & (abs(ax * bx + ay * by + az * bz) <= limit)
        & (abs(ay * bz - az * by - cx) <= limit)
        & (abs(az * bx - ax * bz - cy) <= limit)
        & (abs(ax * by - ay * bx - cz) <= limit)
        & (abs(dx) <= limit)
        & (abs(dy) <= limit)
        & (abs(dz) <= limit)
        & (abs(dw - 1) <= limit)
    )


def _no_poses(poses: Numbers) -> NDArray[np.bool_]:
    """Return which transforms (..., 4, 4) are none; NaN and infinity are accepted."""
    if poses.shape[-2:] != (4, 4):  # an error of its own
        return np.zeros((), bool)
    entries = [poses[..., k // 4, k % 4] for k in range(16)]
    with np.errstate(all="ignore"):
        of_rotation = sum(entry for k, entry in enumerate(entries) if k not in (3, 7, 11))
        found: NDArray[np.bool_] = ~_has_form_of_pose(entries) & np.isfinite(of_rotation)
    return found


def _are_poses(poses: Numbers) -> bool:
    # One pose as numbers of Python: NumPy's functions take ten times as long.
    if poses.size == 16 and poses.shape[-2:] == (4, 4):
        if _has_form_of_pose(poses.ravel().tolist()):
            return True
    return not _no_poses(poses).any()


def _check_poses(name: str, poses: Numbers) -> None:
    if (wrong := _no_poses(poses)).any():
        at = zip(np.argwhere(wrong)[0], wrong.shape, strict=True)
        index = [int(place) for place, extent in at if extent > 1]
        raise ParameterError(
            f"{name}{index or ''} is no pose: give a homogeneous transform, a rotation matrix and "
            "a translation above the row 0 0 0 1"
        )


#: The rules, by the kind of an array's numbers.
RULES: Mapping[str, Rule] = {
    **{kind: _in_range(kind) for kind in _RANGES},
    "poses": Rule(
        lambda _, name, poses: _are_poses(poses),
        lambda _, name, poses: _check_poses(name, poses),
    ),
    "bodies": Rule(
        lambda robot, _, rows: robot.parameters.are_accepted(rows),
        lambda robot, _, rows: robot.parameters.check(rows),
    ),
    "obstacles": Rule(
        lambda _, name, array: has_layout(name, array),
        lambda _, name, array: check_layout(name, array),
    ),
}
