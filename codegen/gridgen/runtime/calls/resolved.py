"""Resolved calls: the kernel of a call with its arguments; fused functions with their arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from gridgen.errors import OptionError, ShapeError
from gridgen.functions.calls import Request, RolloutSettings
from gridgen.functions.parts import FusedPart, arguments_of
from gridgen.functions.types import Array
from gridgen.kernel import Kernel, answer_of, result_type
from gridgen.naming import show_value


@dataclass(frozen=True)
class FusedFunctions:
    """Fused functions, computed by one kernel."""

    parts: tuple[FusedPart, ...]  #: the functions, in the requested order.
    kernel: Kernel  #: computes them in that order.

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The arrays of a call, in order."""
        return arguments_of(self.parts)

    @cached_property
    def _others(self) -> tuple[str, ...]:
        """The kernel's optional inputs."""
        return tuple(name for name in self.kernel.inputs if name not in self.arguments)

    @cached_property
    def _kind(self) -> Any:
        """The type of the results, a named tuple."""
        return result_type(tuple(part.name for part in self.parts))

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        """The number of arrays of each function."""
        return tuple(len(part.row.results) for part in self.parts)

    @cached_property
    def _kinds(self) -> tuple[Any, ...]:
        """The type of the results of each function with several, a named tuple."""
        return tuple(result_type(part.row.results) for part in self.parts)

    @cached_property
    def _are_single(self) -> bool:
        """Whether every function returns one array, and there is more than one function."""
        return len(self._counts) > 1 and set(self._counts) == {1}

    def inputs(self, arrays: Sequence[Array], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the kernel's inputs by name.

        Raises:
            OptionError: an array is missing, or there are too many.
        """
        if len(arrays) != len(self.arguments):
            self._refuse(arrays)
        inputs = self.kernel.nothing.copy()
        for name, array in zip(self.arguments, arrays, strict=True):
            inputs[name] = array
        if options:
            for name in self._others:
                inputs[name] = options.get(name)
        return inputs

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise for a keyword argument that no function has, as Python does.

        Raises:
            OptionError: for one that selects a kernel: the fused functions have one kernel.
        """
        for name in options:
            if name in ("schedule", "method"):
                raise OptionError(
                    f"Robot.compute() runs one kernel, on the thread schedule: omit {name}=, and "
                    "give a method after a colon, as in forward_dynamics:crba"
                )
            if not any(name in part.row.options for part in self.parts):
                listed = ", ".join(part.name for part in self.parts)
                raise TypeError(
                    f"Robot.compute() got an unexpected keyword argument {name!r}: none of "
                    f"{listed} takes it"
                )

    def _refuse(self, arrays: Sequence[Array]) -> None:
        """Raise for arrays that are missing or too many."""
        listed = ", ".join(part.name for part in self.parts)
        taken = f"{listed} in one take {', '.join(self.arguments)}, in this order"
        count = len(arrays)
        if count > len(self.arguments):
            raise OptionError(f"{taken}: {count} arrays are given, too many")
        name = self.arguments[count]
        needs = ", ".join(part.name for part in self.parts if name in part.row.arguments)
        raise OptionError(f"{taken}: {name} is missing, for {needs}")

    def flat(self, out: Any) -> Any:
        """Return the caller's output arrays in the kernel's order.

        Raises:
            ShapeError: the number of entries is not the number of functions.
        """
        if not isinstance(out, (tuple, list)) or len(out) != len(self.parts):
            listed = ", ".join(part.name for part in self.parts)
            raise ShapeError(
                f"out is of type {type(out).__name__}; give a tuple with an entry for each of "
                f"{listed}"
            )
        arrays: list[Array] = []
        for part, count, entry in zip(self.parts, self._counts, out, strict=True):
            if count == 1:
                arrays.append(entry)
                continue
            if not isinstance(entry, (tuple, list)) or len(entry) != count:
                raise ShapeError(
                    f"out for {part.name} is {show_value(entry)}; give a tuple of "
                    f"{', '.join(part.row.results)}"
                )
            arrays += entry
        return tuple(arrays) if len(arrays) > 1 else arrays[0]

    def answer(self, results: Any) -> Any:
        """Return the results of the kernel as a named tuple, an entry for each function."""
        if self._are_single:
            return tuple.__new__(self._kind, results)  # as _make, without its count
        arrays = iter(results if sum(self._counts) > 1 else (results,))
        return self._kind(
            *(
                answer_of(kind, [next(arrays) for _ in range(count)])
                for kind, count in zip(self._kinds, self._counts, strict=True)
            )
        )


#: How a call is computed: by its kernel; by the kernel of all frames.
Evaluation = Literal["kernel", "frames"]


@dataclass(slots=True)
class Resolved:
    """A call with its kernel."""

    kernel: Kernel  #: computes it, or declares its arrays.
    inputs: dict[str, Any]  #: the given arrays by name; ``None`` for the default.
    backend: str | None = None  #: overrides the robot's backend.
    out: Any = None  #: arrays for the results.
    settings: RolloutSettings | None = None  #: rollout options.
    evaluation: Evaluation = "kernel"  #: how it is computed.
    #: indices of the requested frames, where the kernel computes all.
    frames: int | list[int] | None = None
    fused: FusedFunctions | None = None  #: result type of fused functions.
    request: Request | None = None  #: the request, if later ones like it have the same kernel.
