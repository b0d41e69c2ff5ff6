"""The caller's output arrays for calls with several kernels or with extra results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gridgen.errors import ShapeError
from gridgen.functions.types import Array
from gridgen.kernel import Shape
from gridgen.runtime.arrays.arguments import results_given
from gridgen.runtime.arrays.layout import extent, is_same_place, meet, on_device, result_arrays
from gridgen.runtime.arrays.libraries import adopt, on_gpu
from gridgen.runtime.arrays.streams import caller_streams


class Room:
    """Output arrays of the caller, validated before the computation.

    Args:
        out:    one array per result.
        shapes: shapes of the results, by name, for one state.
        lead:   leading axes.
        first:  the first argument of the call, unchanged.
        name:   name of the first argument.

    Raises:
        ShapeError, DtypeError, DeviceError: an array is not compatible, or overlaps another.
    """

    def __init__(
        self, out: Sequence[Any], shapes: Mapping[str, Shape], lead: Shape, first: Array, name: str
    ) -> None:
        self._given, self._first, q = out, first, adopt(first, name)
        wanted = {result: (*lead, *shape) for result, shape in shapes.items()}
        self._arrays = result_arrays(out[0] if len(out) == len(wanted) == 1 else out, wanted, q)

    def meets(self, read: Mapping[str, Any]) -> bool:
        """Return whether one of the arrays shares memory with the inputs of kernels."""
        there = [extent(adopt(value, name)) for name, value in read.items() if value is not None]
        return any(meet(extent(array), other) for array in self._arrays for other in there)

    def fill(self, found: Iterable[Any]) -> None:
        """Copy results into the arrays, except results that are already in them."""
        for room, result in zip(self._arrays, found, strict=True):
            with caller_streams((self._first, *self._given, result))():
                numbers = adopt(result, "results")
                with on_device(numbers):
                    if not is_same_place(room, numbers):
                        is_brought = on_gpu(numbers) and not on_gpu(room)
                        room[...] = numbers.get() if is_brought else numbers


def one_by_one(*several: Any) -> tuple[Any, ...]:
    """Return results, each an array or a tuple of arrays, as a flat tuple of arrays."""
    return tuple(array for results in several for array in results_given(results))


def by_name(what: str, function: str, values: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return positional arrays by name."""
    names = [*names]
    several = list(values) if isinstance(values, (tuple, list)) and len(names) > 1 else [values]
    if len(several) != len(names):
        raise ShapeError(
            f"{what} are {len(several)} arrays; {function} takes {len(names)} here: "
            f"{', '.join(names)}"
        )
    return dict(zip(names, several, strict=True))
