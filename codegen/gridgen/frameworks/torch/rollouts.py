"""Rollouts that PyTorch differentiates: by one operator, or where that does not do, step by step.

Forward derivatives, and those by what a controller follows, take an operator for each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch.autograd import forward_ad

from gridgen.errors import ShapeError
from gridgen.frameworks.torch.batches import common_axes
from gridgen.frameworks.torch.operator import Words
from gridgen.frameworks.torch.operators import OPERATORS
from gridgen.functions.arrays import ARRAYS, CONSTANT_IN_TIME, shape_of
from gridgen.functions.calls import Course
from gridgen.runtime.rollouts.arguments import check_efforts, feedback_of, kept_of

# A ``gridgen.Robot``, which stands above frameworks.
Robot = Any
Tensor = Any


def rolled_out(
    robot: Robot, given: dict[str, Tensor], course: Course, words: Words
) -> tuple[Tensor, ...]:
    """Return positions and velocities along a rollout, efforts if need be; see ``Robot``.

    Args:
        robot:  whose it is.
        given:  its arguments, and those that it shares with others, by name.
        course: how it goes.
        words:  what else the call says.
    """
    q, tau = given["q0"], given["tau"]
    if tau.dim() < 2:
        raise ShapeError(
            f"tau has shape {tuple(tau.shape)}; a rollout needs the efforts of every step, "
            f"{(*q.shape[:-1], 'T', robot.nv)}"
        )
    kept_of(course, tau.shape[-2])
    batch = _batch(given)
    for name in ("q0", "qd0", "tau"):
        state = given[name].shape[-2:] if name == "tau" else given[name].shape[-1:]
        with suppress(RuntimeError):  # what does not fit is refused by the operator
            given[name] = given[name].expand(*batch, *state)
    followed = {
        name: torch.as_tensor(array, dtype=q.dtype, device=q.device)
        for name, array in feedback_of(course).items()
        if array is not None
    }
    for name, tensor in followed.items():
        _check_followed(robot, name, tensor, batch, tau.shape[-2])
    is_watched = torch.is_grad_enabled() and any(one.requires_grad for one in followed.values())
    if is_watched or check_efforts(course) or forward_ad._current_level >= 0:
        return _ByStep(robot, given, followed, course, words).paths()
    limits = "limits" if course.effort_limits else "free"
    words = words._replace(course=f"{course.substeps} {course.keep} {limits}")
    for name, tensor in followed.items():
        given[name] = _over_time(name, tensor, batch, tau.shape[-2])
    operator = OPERATORS["rollout"]
    paths: tuple[Tensor, Tensor] = operator.call(*map(given.get, operator.tensors), *words)
    return paths


def _batch(given: Mapping[str, Tensor]) -> tuple[int, ...]:
    """Return the axes of states, as NumPy broadcasts those of all that stays what it is."""
    leads = [given["tau"].shape[:-2]]
    for name in CONSTANT_IN_TIME:
        if name in given:
            count = given[name].dim() - len(ARRAYS[name].shape)
            leads.append(given[name].shape[: max(count, 0)])
    axes = common_axes(leads)
    return tuple(given["q0"].shape[:-1]) if axes is None else axes


def _check_followed(robot: Robot, name: str, tensor: Tensor, batch: Any, times: int) -> None:
    """Raise unless a controller can follow a tensor in every state and step."""
    state = shape_of(name, {"nq": robot.nq, "nv": robot.nv})
    shape, most = tuple(tensor.shape), (*batch, times, *state)
    repeats = all(n in (1, m) for n, m in zip(reversed(shape), reversed(most), strict=False))
    if not repeats or len(shape) > len(most) or shape[-len(state) :] != state:
        raise ShapeError(
            f"{name} has shape {shape}; {robot.name} needs {state}, {(times, *state)} or {most}"
        )


def _over_time(name: str, tensor: Tensor, batch: Any, times: int) -> Tensor:
    """Return what a controller follows, for every state and step."""
    state = tensor.shape[tensor.dim() - len(ARRAYS[name].shape) :]
    return tensor.expand(*batch, times, *state)


class _ByStep:
    """A rollout made of steps, each with derivatives by all that it reads.

    Args: as of ``rolled_out``, with what a controller follows by name.
    """

    def __init__(
        self,
        robot: Robot,
        given: dict[str, Tensor],
        followed: dict[str, Tensor],
        course: Course,
        words: Words,
    ) -> None:
        self._robot, self._course = robot, course
        self._given = dict(given)
        self._options: dict[str, Any] = {"integrator": words.method}
        if words.backend:
            self._options["backend"] = words.backend
        self._state = self._given.pop("q0"), self._given.pop("qd0")
        self._batch = self._state[0].shape[:-1]
        self._times = self._given["tau"].shape[-2]
        self._given["dt"] = self._given["dt"] / course.substeps
        q = self._state[0]
        self._limits = torch.tensor(robot.effort_limits, dtype=q.dtype, device=q.device)
        self._followed = followed
        self._applied: list[Tensor] = []

    def paths(self) -> tuple[Tensor, ...]:
        """Return positions and velocities, those of the beginning first; efforts if asked for."""
        q, qd = self._state
        # The beginning is part of the result, with quaternions of unit norm.
        states = [(self._robot.integrate(q, torch.zeros_like(qd)), qd)]
        for time in range(self._times):
            states.append(self._after(time, *states[-1]))
        every, moments = kept_of(self._course, self._times)
        ends: tuple[Tensor, ...] = states[-1]
        if moments is not None:
            ends = tuple(torch.stack(path, dim=-2) for path in zip(*states[::every], strict=True))
        return (*ends, torch.stack(self._applied, dim=-2)) if self._course.return_efforts else ends

    def _after(self, time: int, q: Tensor, qd: Tensor) -> tuple[Tensor, Tensor]:
        given = {name: self._at(name, tensor, time) for name, tensor in self._given.items()}
        tau, dt = given.pop("tau"), given.pop("dt")
        if self._followed:
            tau = tau + self._feedback(time, q, qd)
        if self._course.effort_limits:
            tau = tau.clamp(-self._limits, self._limits)
        self._applied.append(tau)
        for _ in range(self._course.substeps):
            q, qd = self._robot.step(q, qd, tau, dt, **given, **self._options)
        return q, qd

    def _at(self, name: str, tensor: Tensor, time: int) -> Tensor:
        """Return what an input is at a time."""
        axis = len(self._batch)
        is_over_time = tensor.dim() > axis + len(ARRAYS[name].shape)
        return tensor.select(axis, time) if is_over_time else tensor

    def _feedback(self, time: int, q: Tensor, qd: Tensor) -> Tensor:
        """Return the efforts that a controller adds."""
        gains, q_ref, qd_ref = (
            self._followed_at(name, time) for name in ("gains", "q_ref", "qd_ref")
        )
        way = self._robot.difference(q, q_ref.expand(q.shape))
        error = torch.cat((way, (qd_ref - qd).expand(qd.shape)), dim=-1)
        return (gains @ error.unsqueeze(-1)).squeeze(-1)

    def _followed_at(self, name: str, time: int) -> Tensor:
        tensor, state = self._followed[name], len(ARRAYS[name].shape)
        if tensor.dim() == state:
            return tensor
        axis = tensor.dim() - state - 1
        return tensor.select(axis, time if tensor.shape[axis] > 1 else 0)
