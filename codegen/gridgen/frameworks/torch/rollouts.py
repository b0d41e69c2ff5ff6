"""Rollouts that PyTorch differentiates: by one operator, or where that does not do, step by step.

The operator keeps the beginning alone for its derivative. Whatever else is differentiated by, and a
controller, takes an operator for each step; then PyTorch keeps all states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from gridgen.errors import ShapeError
from gridgen.frameworks.torch.operator import Words
from gridgen.frameworks.torch.operators import OPERATORS
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.calls import Course
from gridgen.runtime.over_time import feedback_of, kept_of

if TYPE_CHECKING:
    from gridgen.runtime.robot import Robot

Tensor = Any
# What the derivative of the operator is by.
_STATE_AND_EFFORTS = ("q0", "qd0", "tau")


def rolled_out(
    robot: Robot, given: dict[str, Tensor], course: Course, words: Words
) -> tuple[Tensor, Tensor]:
    """Return positions and velocities along a rollout; see ``Robot.rollout``.

    Args:
        robot:  whose it is.
        given:  its arguments, and those that it shares with others, by name.
        course: how it goes.
        words:  what else the call says.
    """
    batch, tau = given["q0"].shape[:-1], given["tau"]
    if tau.dim() < 2:
        raise ShapeError(
            f"tau has shape {tuple(tau.shape)}; a rollout needs the efforts of every step, "
            f"{(*batch, 'T', robot.nv)}"
        )
    kept_of(course, tau.shape[-2])
    if tau.dim() == 2:
        given["tau"] = tau.expand(*batch, *tau.shape)
    if _fits_one_operator(given, course):
        paths = _by_one(given, course, words)
    else:
        paths = _ByStep(robot, given, course, words).paths()
    if course.keep == "all":
        return paths
    if course.keep == "last":
        return paths[0][..., -1, :], paths[1][..., -1, :]
    return paths[0][..., :: course.keep, :], paths[1][..., :: course.keep, :]


def _fits_one_operator(given: dict[str, Tensor], course: Course) -> bool:
    """Tell whether the operator has the derivatives that may be asked for."""
    if course.feedback is not None or course.effort_limits or forward_ad._current_level >= 0:
        return False
    batch = given["q0"].dim() - 1
    for name, tensor in given.items():
        if name not in _STATE_AND_EFFORTS:
            over_time = tensor.dim() > batch + len(ARRAYS[name].shape)
            if over_time or (tensor.requires_grad and torch.is_grad_enabled()):
                return False
    return True


def _by_one(given: dict[str, Tensor], course: Course, words: Words) -> tuple[Tensor, Tensor]:
    """Return the paths of a rollout that one operator computes."""
    count, operator = course.substeps, OPERATORS["rollout"]
    if count > 1:
        efforts = given["tau"].repeat_interleave(count, dim=-2)
        given = {**given, "tau": efforts, "dt": given["dt"] / count}
    q, qd = operator.call(*(given.get(name) for name in operator.tensors), *words)
    return q[..., ::count, :], qd[..., ::count, :]


class _ByStep:
    """A rollout made of steps, each with derivatives by all that it reads.

    Args: as of ``rolled_out``.
    """

    def __init__(
        self, robot: Robot, given: dict[str, Tensor], course: Course, words: Words
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
        self._followed = {
            name: torch.as_tensor(array, dtype=q.dtype, device=q.device)
            for name, array in feedback_of(course).items()
            if array is not None
        }

    def paths(self) -> tuple[Tensor, Tensor]:
        """Return positions and velocities, those of the beginning first."""
        q, qd = self._state
        # The beginning is part of the result, with quaternions of unit norm.
        states = [(self._robot.integrate(q, torch.zeros_like(qd)), qd)]
        for time in range(self._times):
            states.append(self._after(time, *states[-1]))
        q_path, qd_path = zip(*states, strict=True)
        return torch.stack(q_path, dim=-2), torch.stack(qd_path, dim=-2)

    def _after(self, time: int, q: Tensor, qd: Tensor) -> tuple[Tensor, Tensor]:
        given = {name: self._at(name, tensor, time) for name, tensor in self._given.items()}
        tau, dt = given.pop("tau"), given.pop("dt")
        if self._followed:
            tau = tau + self._feedback(time, q, qd)
        if self._course.effort_limits:
            tau = tau.clamp(-self._limits, self._limits)
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
