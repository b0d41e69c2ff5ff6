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
        elif unit_quaternions and robot.space.free and kind.is_configuration:
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


def _has_unit_quaternions(robot: RobotRecord, name: str, q: Numbers) -> bool:
    return not needs_normalizing(robot.space, q, name)


# -- the rules --------------------------------------------------------------------------------


def _neither_0_nor_1(numbers: Numbers) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (numbers != 0.0) & (numbers != 1.0)
    return found


def _not_positive(numbers: Numbers) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = ~((numbers > 0.0) & (numbers < np.inf))
    return found


def _no_factors(numbers: Numbers) -> NDArray[np.bool_]:
    """Return which factors are negative or not finite; all if none is positive."""
    if numbers.dtype.kind in "fiu" and numbers.size and not numbers.any():
        return np.ones(numbers.shape, bool)
    found: NDArray[np.bool_] = ~((numbers >= 0.0) & (numbers < np.inf))
    return found


def _no_poses(poses: Numbers) -> NDArray[np.bool_]:
    """Return which transforms (..., 4, 4) are none; NaN and infinity are accepted."""
    if poses.shape[-2:] != (4, 4):  # an error of its own
        return np.zeros((), bool)
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = (
        [poses[..., i, j] for j in range(3)] for i in range(3)
    )
    with np.errstate(all="ignore"):
        off = np.abs(poses[..., 3, :] - (0.0, 0.0, 0.0, 1.0)).max(axis=-1)
        # The third row of a rotation is the cross product of two orthonormal ones.
        for error in (
            *(ay * bz - az * by - cx, az * bx - ax * bz - cy, ax * by - ay * bx - cz),
            *(ax * ax + ay * ay + az * az - 1, bx * bx + by * by + bz * bz - 1),
            ax * bx + ay * by + az * bz,
        ):
            off = np.maximum(off, np.abs(error))
        found: NDArray[np.bool_] = (off > POSE_TOLERANCE) & np.isfinite(off)
    return found


def _where(
    wrong: Callable[[Numbers], NDArray[np.bool_]],
    error: Callable[[str, Any], GridGenError],
) -> Rule:
    """Return the rule of numbers that are invalid one by one.

    Args:
        wrong: returns which numbers, or which matrices, are invalid.
        error: makes the error of the first one, from its name with its index, and the number.
    """

    def accepts(_: RobotRecord, name: str, numbers: Numbers) -> bool:
        return numbers.dtype.kind == "f" and not wrong(numbers).any()

    def check(_: RobotRecord, name: str, numbers: Numbers) -> None:
        if (found := wrong(numbers)).any():
            at = tuple(map(int, np.argwhere(found)[0]))
            shown = [i for i, extent in zip(at, found.shape, strict=True) if extent > 1]
            raise error(f"{name}{shown or ''}", numbers[at])

    return Rule(accepts, check)


#: The rules, by the kind of an array's numbers.
RULES: Mapping[str, Rule] = {
    "0 or 1": _where(
        _neither_0_nor_1,
        lambda name, number: ParameterError(
            f"{name} is {number}; give 1 for a constraint that holds, 0 for one that does not"
        ),
    ),
    "positive": _where(
        _not_positive,
        lambda name, number: OptionError(f"{name} is {number}; give a positive finite number"),
    ),
    "factors": _where(
        _no_factors,
        lambda name, number: ParameterError(
            f"{name} is {number}; give finite factors, 0 or more, and one above 0"
        ),
    ),
    "poses": _where(
        _no_poses,
        lambda name, _: ParameterError(
            f"{name} is no pose: give a homogeneous transform, a rotation matrix and a "
            "translation above the row 0 0 0 1"
        ),
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
