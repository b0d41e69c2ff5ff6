"""Worlds and terrains: obstacles, and a height field, as one array each.

``gridgen.dynamics.collision`` and ``gridgen.dynamics.contacts.terrain`` describe their layouts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from gridgen.errors import OptionError, ShapeError
from gridgen.functions.arrays import GRID_HEAD, TERRAIN_HEAD, WORLD_HEAD, WORLD_SIZES
from gridgen.naming import one_line, show_value

#: Obstacles by name, in order of the array.
SOLIDS = ("spheres", "capsules", "boxes", "half_spaces")
_LIBRARIES = {"torch": "torch", "cupy": "cupy", "jax": "jax.numpy", "jaxlib": "jax.numpy"}
# Values are validated in these; those of other libraries may be on a GPU.
_ON_HOST = (list, tuple, np.ndarray)
_MIN_GRID = 2
#: The largest count that is exact in float32, and so are all smaller ones.
MAX_FLOAT32 = 1 << 24
# Numbers of unit vectors, by kind of obstacle; largest difference of their length from one.
_UNITS = (None, None, slice(3, 7), slice(0, 3))
_NOT_UNIT = 1e-3
# Numbers that are not negative, by kind.
_SIZES = (slice(3, 4), slice(6, 7), slice(7, 10), slice(0, 0))


def world(
    *,
    spheres: Any = None,
    capsules: Any = None,
    boxes: Any = None,
    half_spaces: Any = None,
    grid: Mapping[str, Any] | None = None,
    like: Any = None,
) -> Any:
    """Return obstacles as one array, for ``world_distance`` and ``collision_free``.

    All positions are in the world. Obstacles of each state have an axis more:
    (B, n, 4).

    Args:
        spheres:     center and radius (n, 4) [m].
        capsules:    both ends of the axis, and radius (n, 7) [m].
        boxes:       center, unit quaternion x y z w, and half lengths (n, 10) [m].
        half_spaces: outward unit normal, and distance of the plane from the origin along it
                     (n, 4) [m].
        grid:        signed distances at points of a grid: ``origin`` (3,), ``spacing``,
                     ``values`` (nx, ny, nz) [m]; beyond the grid, those at its faces.
        like:        array whose library, type and device the result has; NumPy's float64.

    Returns:
        (n,) or (B, n), of as many numbers as the obstacles have.

    Raises:
        OptionError: an array has another shape, or numbers of NumPy or Python are not those of an
                     obstacle: NaN, a negative radius, a vector that is not of length one.
    """
    array = _reader("world", like)
    counts, parts = [0.0] * WORLD_HEAD, []
    given = (spheres, capsules, boxes, half_spaces)
    for k, (name, values, size) in enumerate(zip(SOLIDS, given, WORLD_SIZES, strict=True)):
        if values is not None and not _is_empty(values):
            found = array(values, name, (-1, size))
            if isinstance(values, _ON_HOST):
                _check_solids(name, np.asarray(values, float), _UNITS[k], _SIZES[k])
            counts[k] = float(found.shape[-2])
            parts.append(found.reshape(*found.shape[:-2], -1))
    if grid is not None:
        if not isinstance(grid, Mapping) or grid.keys() != {"origin", "spacing", "values"}:
            has = sorted(grid) if isinstance(grid, Mapping) else grid
            raise OptionError(f"world: grid has {show_value(has)}; give origin, spacing and values")
        if isinstance(grid["spacing"], (int, float)) and not 0.0 < grid["spacing"] < math.inf:
            raise OptionError(
                f"world: spacing of grid is {grid['spacing']}; give a positive length [m]"
            )
        values = array(grid["values"], "values of grid", (-1, -1, -1))
        extents = values.shape[-3:]
        if min(extents) < _MIN_GRID:
            raise OptionError(f"world: grid has {tuple(extents)} points; give 2 or more per axis")
        counts[4:7] = map(float, extents)
        parts.append(array(grid["origin"], "origin of grid", (3,)))
        parts.append(array([grid["spacing"]], "spacing of grid", (1,)))
        parts.append(values.reshape(*values.shape[:-3], -1))
    return _joined("world", [array(counts, "counts", (-1,)), *parts], like)


def terrain(heights: Any, *, half_lengths: Any, center: Any = (0.0, 0.0), like: Any = None) -> Any:
    """Return a height field as one array, for robots with contacts (docs/contacts.md).

    Each cell of the grid has two triangles, divided by the diagonal from its least x and y to its
    greatest ones, as in MuJoCo.

    Args:
        heights:      at the points of a grid (rows, columns) or (B, rows, columns) [m]; x grows
                      along a row, y from row to row.
        half_lengths: of the grid along x and y (2,) [m].
        center:       of the grid (2,) [m].
        like:         as in ``world``.

    Returns:
        (n,) or (B, n).

    Raises:
        OptionError: an array has another shape, or a half length is not positive.
    """
    array = _reader("terrain", like)
    values = array(heights, "heights", (-1, -1))
    rows, columns = values.shape[-2:]
    number = _reader("terrain", None)
    halves, middle = number(half_lengths, "half_lengths", (2,)), number(center, "center", (2,))
    if not (halves > 0.0).all():
        raise OptionError(
            f"terrain: half_lengths is {show_value(half_lengths)}; give positive lengths [m]"
        )
    if min(rows, columns) < _MIN_GRID:
        raise OptionError(f"terrain: heights has {rows} x {columns} points; give 2 x 2 or more")
    steps = 2.0 * halves / (columns - 1, rows - 1)
    head = [float(rows), float(columns), *(middle - halves).tolist(), *steps.tolist()]
    parts = [array(head, "head", (-1,)), values.reshape(*values.shape[:-2], -1)]
    return _joined("terrain", parts, like)


def _is_empty(values: Any) -> bool:
    """Return whether values have a first axis without entries."""
    shape = (len(values),) if isinstance(values, (list, tuple)) else getattr(values, "shape", ())
    return tuple(shape[:1]) == (0,)


def _library(like: Any) -> tuple[Any, dict[str, Any]]:
    """Return the library of an array, and the arguments of its constructors."""
    module = type(like).__module__.partition(".")[0]
    keywords: dict[str, Any] = {"dtype": getattr(like, "dtype", np.dtype(float))}
    if module == "torch":
        keywords["device"] = like.device
    return import_module(_LIBRARIES.get(module, "numpy")), keywords


def _reader(what: str, like: Any) -> Callable[[Any, str, tuple[int, ...]], Any]:
    """Return a function that makes arrays with a shape for one state or several."""
    xp, keywords = _library(like)

    def array(values: Any, name: str, shape: tuple[int, ...]) -> Any:
        try:
            found = xp.asarray(values, **keywords)
        except (TypeError, ValueError, OverflowError) as error:
            raise OptionError(
                f"{what}: {name} is {show_value(values)}: {one_line(error)}"
            ) from error
        if isinstance(values, _ON_HOST):
            numbers = np.asarray(values, float)
            if (wrong := numbers[~np.isfinite(numbers)]).size:
                raise OptionError(f"{what}: {name} has {wrong[0]}; give finite numbers")
        own = tuple(found.shape)[-len(shape) :]
        if len(own) != len(shape) or any(n not in (m, -1) for m, n in zip(own, shape, strict=True)):
            text = ", ".join("n" if extent < 0 else str(extent) for extent in shape)
            raise OptionError(
                f"{what}: {name} has shape {tuple(found.shape)}; give ({text}) or (B, {text})"
            )
        return found

    return array


def _joined(what: str, parts: list[Any], like: Any) -> Any:
    """Return arrays one after the other, with common leading axes."""
    xp, _ = _library(like)
    try:
        lead = np.broadcast_shapes(*(tuple(part.shape)[:-1] for part in parts))
    except ValueError as error:
        shapes = sorted({tuple(part.shape)[:-1] for part in parts})
        raise OptionError(f"world: obstacles are those of {show_value(shapes)} states") from error
    found = xp.concatenate([xp.broadcast_to(part, (*lead, part.shape[-1])) for part in parts], -1)
    check_length(what, found)
    return found


def _check_solids(name: str, rows: Any, unit: slice | None, sizes: slice) -> None:
    """Raise for obstacles with numbers that are none of an obstacle."""
    wrong = (rows[..., sizes] < 0.0).any(axis=-1)
    if unit is not None:
        wrong |= abs(np.linalg.norm(rows[..., unit], axis=-1) - 1.0) > _NOT_UNIT
    if wrong.any():
        raise OptionError(
            f"world: {name} has {show_value(rows[wrong][0].tolist())}; give no negative lengths, "
            "and normals and quaternions of length one"
        )


def _length_of_world(head: Any) -> float:
    """Return the length of a world with these first numbers; NaN if they are not those of one."""
    if (head < 0.0).any() or (head != np.floor(head)).any():
        return math.nan
    grid = GRID_HEAD + float(np.prod(head[4:7])) if head[4:7].any() else 0.0
    return WORLD_HEAD + float(np.dot(head[:4], WORLD_SIZES)) + grid


def _length_of_terrain(head: Any) -> float:
    """Return the length of a terrain, as ``_length_of_world``."""
    rows, columns = head[:2]
    is_whole = rows == np.floor(rows) and columns == np.floor(columns)
    is_valid = is_whole and min(rows, columns) >= _MIN_GRID and np.isfinite(head).all()
    is_valid = is_valid and (head[4:] > 0.0).all()
    return TERRAIN_HEAD + float(rows) * float(columns) if is_valid else math.nan


_LENGTHS = {
    "world": (WORLD_HEAD, _length_of_world, "spheres=..., boxes=..."),
    "terrain": (TERRAIN_HEAD, _length_of_terrain, "heights, half_lengths=(x, y)"),
}


def check_length(name: str, array: Any) -> None:
    """Raise for a world or a terrain whose places the type of its numbers cannot count."""
    length = max(array.shape[-1:], default=0)
    if name in _LENGTHS and length > MAX_FLOAT32 and "float32" in str(array.dtype):
        raise ShapeError(
            f"{name} has {length} numbers, and float32 counts to {MAX_FLOAT32}: give "
            "float64, or fewer points"
        )


def has_layout(name: str, array: Any) -> bool:
    """Return whether the first numbers of a world or terrain on the host fit its length.

    A kernel has no length to check them with.
    """
    size, length_of, _ = _LENGTHS[name]
    if not array.ndim or array.shape[-1] < size:
        return False
    heads = array[..., :size].reshape(-1, size)
    if not len(heads):
        return True
    head = heads[0]
    is_one = len(heads) == 1 or bool((heads == head).all())
    return is_one and bool(array.shape[-1] == length_of(head))


def check_layout(name: str, array: Any) -> None:
    """Raise unless an array on the host is a world or a terrain; see ``has_layout``."""
    array = np.atleast_1d(array)
    if has_layout(name, array):
        return
    size, _, arguments = _LENGTHS[name]
    head = array[(0,) * (array.ndim - 1)][:size].tolist()
    raise ShapeError(
        f"{name} has shape {tuple(array.shape)} and numbers {show_value(head)} at its "
        f"begin, which do not fit; make it by gridgen.{name}({arguments})"
    )


def as_world(given: Any, like: Any) -> Any:
    """Return an argument ``world`` as an array: obstacles by name, an array, or none."""
    if given is None:
        return world(like=like)
    if not isinstance(given, Mapping):
        return given
    known = {*SOLIDS, "grid"}
    if unknown := [name for name in given if name not in known]:
        raise OptionError(
            f"world has {show_value(unknown[0])}; a world has {', '.join((*SOLIDS, 'grid'))}"
        )
    return world(**given, like=like)
