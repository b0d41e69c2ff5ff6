"""Calls of inverse kinematics."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridgen.errors import OptionError
from gridgen.functions.calls import FLOOR, TO_REST, SearchSettings, Solutions
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.naming import show_value
from gridgen.runtime.arrays.layout import array_like, check_dtype
from gridgen.runtime.arrays.libraries import adopt, is_traced, is_wrapped
from gridgen.runtime.calls.evaluation import check_choice
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.configurations import neutral
from gridgen.runtime.module.description import RobotRecord


def search(
    known: RobotRecord, kernel: Kernel, targets: Any, frames: Any, settings: SearchSettings
) -> Resolved:
    """Return the call of a search with its kernel.

    Raises:
        OptionError: an option is invalid.
    """
    targets = targets if hasattr(targets, "shape") else adopt(targets, "targets")
    if not (is_traced(targets) or is_wrapped(targets)):
        plain = targets.detach() if hasattr(targets, "detach") else targets
        check_dtype(adopt(plain, "targets"), "targets")
    if isinstance(frames, str):
        targets = targets[..., None, :, :]
    check_choice("keep", settings.keep, ("best", "all"))
    keeps_all = settings.keep == "all"
    count = _count("seeds", settings.seeds)
    tolerance = _numbers("tolerance", settings.tolerance, 2)
    to_rest = 0.0 if settings.rest is None else TO_REST
    numbers = np.array(
        [*tolerance, _count("iterations", settings.iterations), count, 0.0, 0.0, 0.0]
    )
    begin = settings.rest if settings.q0 is None else settings.q0
    numbers[4:] = begin is None, to_rest, FLOOR.get(targets.dtype.itemsize, 0.0)
    if keeps_all:
        numbers = np.tile(numbers, (count, 1))
        numbers[:, 3], numbers[:, 4] = 1, numbers[:, 4] + np.arange(count)
        targets = targets[..., None, :, :, :]
    if begin is None:
        begin = np.clip(neutral(known.space), known.lower_limits, known.upper_limits)
        begin = _array(begin, targets, is_own=True)
    rest = begin if settings.rest is None else settings.rest
    weights = np.ones(2) if settings.pose_weights is None else settings.pose_weights
    is_own = weights is not settings.pose_weights or not hasattr(weights, "shape")
    if _is_list(weights) and np.ndim(weights) == 1:
        weights = np.tile(weights, (len(kernel.key.parts), 1))
    arrays = [
        *(_array(array, targets) for array in (begin, rest)),
        _array(weights, targets, is_own=is_own),
    ]
    if keeps_all:
        arrays = [_with_starts(array, axes) for array, axes in zip(arrays, (1, 1, 2), strict=True)]
    begin, rest, weights = arrays
    values = (begin, rest, targets, weights, _array(numbers, targets, is_own=True))
    inputs = dict(zip(kernel.inputs, values, strict=True))
    return Resolved(kernel, inputs, settings.backend, settings.out, None)


def solutions(results: Sequence[Array]) -> Solutions:
    """Return the record of a search's results."""
    q, success, residual = results
    return Solutions(q, success > 0, residual)


def _with_starts(array: Array, axes: int) -> Array:
    """Return an array of several problems with an axis of starts before its own axes."""
    return array[(..., None, *(slice(None),) * axes)] if array.ndim > axes else array


def _is_list(value: Any) -> bool:
    return not hasattr(value, "shape") or isinstance(value, np.ndarray)


def _array(value: Any, like: Array, *, is_own: bool = False) -> Array:
    """Return lists and NumPy numbers as an array of another one's library.

    Args:
        value:  a caller's argument.
        like:   the other array.
        is_own: whether the numbers are not the caller's, and may have another type.
    """
    is_numpy = isinstance(like, np.ndarray)
    if not _is_list(value) or (is_numpy and isinstance(value, np.ndarray) and not is_own):
        return value
    if is_numpy or is_traced(like):
        return np.asarray(value, like.dtype)
    if is_wrapped(like):
        return sys.modules["torch"].as_tensor(value, dtype=like.dtype, device=like.device)
    return array_like(np.asarray(value, float), like)


def _count(name: str, value: object) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value > 0:
        return int(value)
    raise OptionError(f"{name} is {show_value(value)}; give a number of {name}, at least 1")


def _numbers(name: str, values: Any, count: int) -> list[float]:
    """Return positive numbers."""
    try:
        found = [float(value) for value in values]
    except (TypeError, ValueError):
        found = []
    if len(found) != count or not all(0.0 < value < np.inf for value in found):
        raise OptionError(f"{name} is {show_value(values)}; give {count} positive numbers")
    return found
