"""Calls of inverse kinematics."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridgen.errors import OptionError, ShapeError
from gridgen.functions.calls import CLOSED, FLOOR, STARTS, TO_REST, SearchSettings, Solutions
from gridgen.functions.types import Array
from gridgen.kernel import Kernel
from gridgen.naming import show_value
from gridgen.runtime.arrays.layout import array_like, check_dtype, check_like
from gridgen.runtime.arrays.libraries import adopt, is_traced, is_wrapped
from gridgen.runtime.arrays.times import check_switch
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.configurations import neutral
from gridgen.runtime.module.description import RobotRecord

#: Message for a projection that a framework differentiates.
NOT_DIFFERENTIABLE = (
    "project has no derivatives by q: pass a q without gradients (detach, stop_gradient)"
)


def search(
    known: RobotRecord, kernel: Kernel, targets: Any, frames: Any, settings: SearchSettings
) -> Resolved:
    """Return the call of a search with its kernel.

    Raises:
        OptionError: an option is invalid.
    """
    targets = targets if hasattr(targets, "shape") else adopt(targets, "targets")
    count = len(kernel.key.parts)
    shape = (4, 4) if isinstance(frames, str) else (count, 4, 4)
    if tuple(targets.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"targets has shape {tuple(targets.shape)}; give homogeneous transforms, {shape} or "
            f"(B, {', '.join(map(str, shape))}), for "
            f"{'the name of a link' if isinstance(frames, str) else f'a list of {count}'}"
        )
    if (poses := _plain(targets, "targets")) is not None:
        check_dtype(poses, "targets")
        for name in ("q0", "rest", "pose_weights"):
            if hasattr(given := getattr(settings, name), "shape"):
                if (own := _plain(given, name)) is not None:
                    check_like(own, name, poses, "targets")
    if isinstance(frames, str):
        targets = targets[..., None, :, :]
    check_switch("return_all", settings.return_all)
    begin = settings.rest if settings.q0 is None else settings.q0
    tried, starts = _count("num_starts", settings.num_starts), STARTS + (begin is not None)
    if tried > starts:
        raise OptionError(f"num_starts is {tried}; give at most {starts}, the number of starts")
    tolerance = _numbers("tolerance", settings.tolerance, 2)
    to_rest = 0.0 if settings.rest is None else TO_REST
    most, floor = _count("iterations", settings.iterations), FLOOR.get(targets.dtype.itemsize, 0.0)
    numbers = np.array([*tolerance, most, tried, begin is None, to_rest, floor])
    if settings.return_all:
        numbers = np.tile(numbers, (tried, 1))
        numbers[:, 3], numbers[:, 4] = 1, numbers[:, 4] + np.arange(tried)
        targets = targets[..., None, :, :, :]
    if begin is None:
        begin = np.clip(neutral(known.space), known.lower_limits, known.upper_limits)
        begin = _array(begin, targets, is_own=True)
    rest = begin if settings.rest is None else settings.rest
    weights = settings.pose_weights
    is_own = not hasattr(weights, "shape")
    if weights is None:
        weights = np.ones(2)
    if len(np.shape(weights)) == 1:
        weights = _repeated(weights, count)
    arrays = [
        *(_array(array, targets) for array in (begin, rest)),
        _array(weights, targets, is_own=is_own),
    ]
    if settings.return_all:
        arrays = [_with_starts(array, axes) for array, axes in zip(arrays, (1, 1, 2), strict=True)]
    begin, rest, weights = arrays
    values = (begin, rest, targets, weights, _array(numbers, targets, is_own=True))
    inputs = dict(zip(kernel.inputs, values, strict=True))
    return Resolved(kernel, inputs, settings.backend, settings.out, None)


def projection(kernel: Kernel, settings: SearchSettings) -> Resolved:
    """Return the call of a projection onto the constraints with its kernel.

    Raises:
        OptionError: an option is invalid.
    """
    q = settings.q0 if hasattr(settings.q0, "shape") else adopt(settings.q0, "q")
    if (own := _plain(q, "q")) is not None:
        check_dtype(own, "q")
    size = q.dtype.itemsize
    tolerance = _numbers("tolerance", settings.tolerance or (CLOSED.get(size, 0.0),) * 2, 2)
    most = _count("iterations", settings.iterations)
    numbers = np.array([*tolerance, most, 1, 0, TO_REST, FLOOR.get(size, 0.0)])
    unread = (np.eye(4)[None], np.ones((1, 2)), numbers)
    values = (q, q, *(_array(array, q, is_own=True) for array in unread))
    inputs = dict(zip(kernel.inputs, values, strict=True))
    return Resolved(kernel, inputs, settings.backend, settings.out, None)


def solutions(results: Sequence[Array]) -> Solutions:
    """Return the record of a search's results."""
    q, success, residual = results
    return Solutions(q, success > 0, residual)


def _plain(value: Any, name: str) -> Array | None:
    """Return an argument as an array; ``None`` for one that a framework traces."""
    if is_traced(value) or is_wrapped(value):
        return None
    return adopt(value.detach() if hasattr(value, "detach") else value, name)


def _repeated(weights: Any, count: int) -> Any:
    """Return the weights of one link for each of several."""
    if hasattr(weights, "expand"):
        return weights.expand(count, -1)
    if hasattr(weights, "aval"):  # of JAX
        return sys.modules["jax"].numpy.tile(weights, (count, 1))
    return np.tile(weights, (count, 1))


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
