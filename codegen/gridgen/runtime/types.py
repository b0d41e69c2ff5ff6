"""The types of arguments and results, as type checkers see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsFloat, TypeAlias

from gridgen.backends import BackendName


class HasShape(Protocol):
    """An array of some library: NumPy, CuPy, PyTorch, JAX."""

    @property
    def shape(self) -> Any:
        """Its extents."""


#: An array for results, which its library lets others write into.
Writable: TypeAlias = HasShape
#: An argument: an array, or nested sequences of numbers. No alias of itself, for a string is a
#: sequence of strings without end.
ArrayLike: TypeAlias = (
    HasShape
    | Sequence[SupportsFloat]
    | Sequence[Sequence[SupportsFloat]]
    | Sequence[Sequence[Sequence[SupportsFloat]]]
)
#: A result: numpy.ndarray, cupy.ndarray, torch.Tensor or jax.Array, as ``q`` was.
Array: TypeAlias = Any

Method = Literal["auto", "aba", "crba", "jsiia", "cfa"]
Schedule = Literal["auto", "thread", "scan"]
ForwardDynamicsSchedule = Literal["auto", "thread", "scan", "hybrid"]
Reference = Literal["local", "world", "local_world_aligned"]
BackendChoice = Literal["auto", BackendName]
