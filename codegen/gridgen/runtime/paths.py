"""Collision tests of paths, coarse to fine: most collisions are found at few of their points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gridgen.errors import ShapeError
from gridgen.functions.types import Array
from gridgen.naming import one_line, show_value
from gridgen.runtime.arrays.libraries import is_immutable

# Configurations that cost less to test in one call than in several.
_FEW = 512
# Remaining points are tested at once if more of the paths than this were free so far.
_MOSTLY = 0.75

_AXES = 3


def path_free(test: Callable[..., Array], paths: Any, world: Any, margin: Any) -> Array:
    """Return whether paths are free by a robot's ``collision_free``; see ``Robot.path_free``."""
    paths = paths if hasattr(paths, "shape") else np.asarray(paths)
    paths = paths.detach() if getattr(paths, "requires_grad", False) else paths
    if len(paths.shape) != _AXES or not paths.shape[1]:
        raise ShapeError(f"paths has shape {tuple(paths.shape)}; give (B, T, nq)")
    count, points = paths.shape[:2]
    shared = [_shared(*one, count) for one in (("world", world, 1), ("margin", margin, 0))]

    def tested(chosen: Any, some: Any = slice(None)) -> Array:
        own = [each if is_shared else each[some][:, None] for each, is_shared in shared]
        given = paths[:, chosen][some]
        if not at_once:  # one copy here costs less than chunks of a strided array in the call
            given = given.contiguous() if hasattr(given, "contiguous") else given.copy()
        return test(given, *own).all(-1)

    at_once = is_immutable(paths) or math.prod(paths.shape[:2]) <= _FEW
    step = 1 if at_once else 1 << (points.bit_length() - 1)
    result: Any = tested(slice(None, None, step))
    before = len(result)
    while step > 1 and (count := int(result.sum())):
        chosen: Any = slice(step // 2, None, step)
        if count * points <= _FEW or count > _MOSTLY * before:
            chosen, step = [k for k in range(points) if k % step], 2
        alive = result.clone() if hasattr(result, "clone") else result.copy()
        result[alive] = tested(chosen, alive)
        before, step = count, step // 2
    return result


def _shared(name: str, given: Any, axes: int, count: int) -> tuple[Any, bool]:
    """Return an argument, and whether it is that of all paths rather than one for each."""
    if isinstance(given, (list, tuple)):
        try:
            given = np.asarray(given, float)
        except (TypeError, ValueError) as error:
            raise ShapeError(f"{name} is {show_value(given)}: {one_line(error)}") from error
    shape = tuple(getattr(given, "shape", ()))
    lead = shape[: len(shape) - axes]
    if len(shape) < axes or lead not in ((), (1,), (count,)):
        needed = "one number or (B,)" if not axes else "(n,) or (B, n)"
        raise ShapeError(f"{name} has shape {shape}; give {needed} for paths with B = {count}")
    return (given[0], True) if lead == (1,) else (given, not lead)
