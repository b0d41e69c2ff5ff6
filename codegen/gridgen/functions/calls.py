"""How a declared function is called: what ``Robot`` supplies to every declaration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gridgen.functions.types import Array, InGravity, Loaded, Options


@dataclass(frozen=True)
class RolloutSettings:
    """How a rollout goes, beside its arrays.

    Attributes:
        substeps:      steps of the integrator for each of the rollout's.
        keep:          ``all`` states, the ``last``, or every so many steps one.
        feedback:      gains, positions and velocities to be followed; ``None`` for none.
        effort_limits: whether efforts are clamped to the robot's limits.
        return_efforts: whether the efforts are returned that are applied.
    """

    substeps: int = 1
    keep: object = "all"
    feedback: Any = None
    effort_limits: bool = False
    return_efforts: bool = False


class RolloutWords(NamedTuple):
    """What a kernel is told of a rollout: whole numbers, by the names they have in C++ as well.

    Attributes:
        steps:    how many there are.
        substeps: steps of the integrator for each of them.
        every:    how many steps from one state that is kept to the next.
        begins:   whether the beginning is kept too.
        follows:  whether a controller follows a reference.
        limits:   whether efforts are clamped.
        between:  of a way back, how many steps from one checkpoint to the next.
        none:     for an even number of words.
    """

    steps: int
    substeps: int
    every: int
    begins: int
    follows: int
    limits: int
    between: int = 0
    none: int = 0


@dataclass(slots=True)
class Request:
    """A call of a function, as its declaration hands it on.

    Attributes:
        function:  its name.
        arrays:    its positional arguments that are arrays.
        out:       array for the result, a tuple of them for several.
        options:   keyword arguments that it shares with others.
        schedule:  how states are laid over threads.
        method:    which algorithm, where there are several.
        frame:     name of the frame, or a list of several, of a function of frames.
        reference: the axes that the frame is seen in.
        course:    how far a rollout goes.
    """

    function: str
    arrays: tuple[Array, ...]
    out: Any
    options: Options | InGravity | Loaded | dict[str, Any]
    schedule: str = "auto"
    method: str = "auto"
    frame: str | Sequence[str] | None = None
    reference: str = ""
    course: RolloutSettings | None = None


class Calls(ABC):
    """The base of the classes that declare functions; arrays as in ``Robot``."""

    @abstractmethod
    def _call(self, request: Request) -> Any:
        """Compute a function."""

    @abstractmethod
    def _linearized(
        self, function: str, arrays: dict[str, Any], options: Any, substeps: int, out: Any
    ) -> Any:
        """Linearize every step of trajectories.

        Args:
            function: the name of the function that does.
            arrays:   its arguments and those that it shares with others, with an axis of time.
            options:  its other keyword arguments.
            substeps: steps of the integrator for each step.
            out:      arrays for the results.
        """

    @abstractmethod
    def _configuration(self, function: str, like: Array | None, *others: Any) -> Array:
        """Make configurations, with no generated code.

        Args:
            function: its name.
            like:     an array whose type, library and device they shall have.
            others:   the rest of its arguments.
        """
