"""What templates of every schedule see of a function: its arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import Shape


@dataclass(frozen=True)
class ArrayView:
    """One argument of a function.

    Attributes:
        name: ``qd``.
        size: elements of one state: ``7``.
        text: ``joint velocities``.
        unit: ``rad/s or m/s``.
    """

    name: str
    size: int
    text: str
    unit: str


@dataclass(frozen=True)
class FunctionView:
    """One device function.

    Attributes:
        name:    ``inverse_dynamics``.
        source:  where the algorithm is described.
        inputs:  arrays read.
        outputs: arrays written.
    """

    name: str
    source: str
    inputs: tuple[ArrayView, ...]
    outputs: tuple[ArrayView, ...]

    @property
    def arrays(self) -> tuple[ArrayView, ...]:
        """All, in the order in which they are handed over."""
        return self.inputs + self.outputs


def array_view(name: str, shape: Shape, kind: str = "") -> ArrayView:
    """Describe one argument.

    Args:
        name:  its name.
        shape: for one state.
        kind:  which of the registry's arrays it is, if it has another name.
    """
    known = ARRAYS[kind or name]
    return ArrayView(name, math.prod(shape), known.text, known.unit)
