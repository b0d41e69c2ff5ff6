"""Requests: the interface between declared functions and ``Robot``, which computes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gridgen.errors import ShapeError
from gridgen.functions.types import Array, InGravity, Loaded, Options


@dataclass(frozen=True)
class RolloutSettings:
    """Options of a rollout.

    Attributes:
        substeps:      integrator steps for each step of the rollout.
        store_every:   a number k for every k-th state, or ``last``.
        feedback:      gains, reference positions and velocities; ``None`` without feedback.
        effort_limits: whether to clamp joint torques to the robot's limits.
        return_efforts: whether to return the applied joint torques.
        stop_when:     ranges beyond which a state ends, by name; ``None`` if none does.
        record:        functions to evaluate in every step.
    """

    substeps: int = 1
    store_every: object = 1
    feedback: Any = None
    effort_limits: bool = False
    return_efforts: bool = False
    stop_when: Any = None
    record: Any = ()


class RolloutWords(NamedTuple):
    """Options of a rollout as integers; the C++ record has the same field names.

    Attributes:
        steps:    number of steps.
        substeps: integrator steps for each of them.
        every:    steps between stored states.
        begins:   whether to store the initial state.
        follows:  whether there is a feedback controller.
        limits:   whether to clamp joint torques.
        between:  steps between checkpoints, in a backward pass.
        none:     padding to an even number of words.
    """

    steps: int
    substeps: int
    every: int
    begins: int
    follows: int
    limits: int
    between: int = 0
    none: int = 0


#: Least damping by the size of an element: above the rounding of a product of Jacobians.
FLOOR = {4: 1e-5, 8: 1e-9}
#: Default tolerance of projections by the size of an element [m, rad].
CLOSED = {4: 1e-5, 8: 1e-8}
#: Number of starts whose poses are compared with the targets: a multiple of the widest pack. More
#: starts need fewer iterations, and take longer to compare.
STARTS = 128
#: Functions whose joint torques are zero by default.
TORQUES_OPTIONAL = ("sensors",)
#: Part of the way to the rest posture that an iteration takes in the null space.
TO_REST = 0.5


@dataclass(frozen=True)
class SearchSettings:
    """Options of inverse kinematics; see ``inverse_kinematics``."""

    q0: Any
    rest: Any
    pose_weights: Any
    num_starts: object
    iterations: object
    tolerance: Any
    return_all: bool
    out: Any
    backend: str | None


class Solutions(NamedTuple):
    """Results of inverse kinematics, for problems (B,), or (B, n) with ``return_all``.

    Attributes:
        q:        joint positions (B, nq) [rad or m].
        success:  whether the errors are within the tolerance (B,).
        residual: largest position error and largest orientation error of a frame (B, 2) [m, rad].
    """

    q: Array
    success: Array
    residual: Array


@dataclass(slots=True)
class Request:
    """A call of a declared function.

    ``tau=None`` becomes zeros with ``ctrl``, or for a function of ``TORQUES_OPTIONAL``.

    Attributes:
        function:  name of the function.
        arrays:    positional arguments that are arrays.
        out:       output array, or a tuple of them for several results.
        options:   shared keyword arguments.
        schedule:  mapping of states to threads.
        method:    algorithm, for functions with several.
        frame:     name of a frame or list of names, for functions of frames.
        reference: reference frame of a Jacobian.
        settings:  options of a rollout.
    """

    function: str
    arrays: tuple[Array, ...]
    out: Any
    options: Options | InGravity | Loaded | dict[str, Any]
    schedule: str = "auto"
    method: str = "auto"
    frame: str | Sequence[str] | None = None
    reference: str = ""
    settings: RolloutSettings | None = None

    def __post_init__(self) -> None:
        """Convert ``active``, which may have booleans or integers; replace missing torques."""
        if not self.options and self.function not in TORQUES_OPTIONAL:
            return
        if self.options.get("active") is not None:
            self.options = _in_numbers(self.options, self.arrays[0])
        ctrl: Any = self.options.get("ctrl")
        is_optional = ctrl is not None or self.function in TORQUES_OPTIONAL
        if is_optional and any(x is None for x in self.arrays[2:3]):
            self.arrays = (*self.arrays[:2], self._no_torques(ctrl), *self.arrays[3:])

    def _no_torques(self, ctrl: Any) -> Any:
        """Return zeros for the joint torques of a state, or of each step of a rollout."""
        q, qd = self.arrays[:2]
        shape = np.shape(qd)[-1:]
        if self.settings is not None:
            if len(steps := np.shape(ctrl)) < 2:
                raise ShapeError(
                    f"ctrl has shape {steps} and tau is None, so that the number of steps is "
                    "unknown; give one of them an axis of time: ctrl (T, nu), tau (T, nv)"
                )
            shape = (steps[-2], *shape)
        if hasattr(q, "new_zeros"):
            return q.new_zeros(shape)
        dtype = getattr(q, "dtype", np.dtype(float))
        module = getattr(q, "__array_namespace__", lambda: np)()
        return module.zeros(shape, dtype=dtype)


def _in_numbers(options: Any, q: Any) -> Any:
    """Return options of a call, with ``active`` in numbers of the type of ``q``."""
    active: Any = options["active"]
    dtype = getattr(active, "dtype", None)
    if dtype is None:
        if (listed := np.asarray(active)).dtype == np.bool_:
            active = listed.astype(float).tolist()
    elif str(dtype).rpartition(".")[2].startswith(("bool", "int", "uint")):
        numbers = getattr(q, "dtype", np.dtype(float))
        active = active.astype(numbers) if hasattr(active, "astype") else active.to(numbers)
    return {**options, "active": active}


class Calls(ABC):
    """Base of the classes that declare functions."""

    @abstractmethod
    def _call(self, request: Request) -> Any:
        """Compute the result of a request."""

    def _tested(self, request: Request) -> Any:
        """Return the result of a request in booleans, unless an array for it is given."""
        found = self._call(request)
        return found > 0 if request.out is None else found

    @abstractmethod
    def _linearized(
        self, function: str, arrays: dict[str, Any], options: Any, substeps: int, out: Any
    ) -> Any:
        """Linearize every step of trajectories.

        Args:
            function: name of the function.
            arrays:   arguments, with a time axis.
            options:  other keyword arguments.
            substeps: integrator steps for each step.
        """

    @abstractmethod
    def _searched(self, targets: Any, frames: Any, settings: SearchSettings) -> Solutions:
        """Return solutions of inverse kinematics; without frames, of a projection of ``q0``."""

    @abstractmethod
    def _configuration(self, function: str, like: Array | None, *others: Any) -> Array:
        """Return configurations that need no generated code.

        Args:
            function: name of the function.
            like:     array whose type, library and device the result has.
            others:   remaining arguments.
        """
