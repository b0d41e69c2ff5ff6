"""Rollouts that PyTorch differentiates: with one operator, or step by step.

Forward derivatives, and derivatives by the controller's reference, use an operator for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd import forward_ad

from gridgen.frameworks.steps import PATHS_AND_EFFORTS, Operations, rolled_by_steps
from gridgen.frameworks.torch.operator import Words
from gridgen.frameworks.torch.operators import OPERATORS, exported_type
from gridgen.functions.arrays import TIME_FIRST, closed, extents_of, shape_of
from gridgen.functions.calls import RolloutSettings
from gridgen.runtime.arrays.times import (
    check_efforts,
    check_untransformed,
    feedback_of,
    in_time,
    stored_steps,
)

exported_type(PATHS_AND_EFFORTS._fields)
# A ``gridgen.Robot``; frameworks cannot import it.
Robot = Any
Tensor = Any


def rolled_out(
    robot: Robot, given: dict[str, Tensor], settings: RolloutSettings, words: Words
) -> tuple[Tensor, ...]:
    """Return positions and velocities of a rollout, and joint torques on request; see ``Robot``."""
    check_untransformed(settings)
    q = given["q0"]
    followed = {
        name: torch.as_tensor(array, dtype=q.dtype, device=q.device)
        for name, array in feedback_of(settings).items()
        if array is not None
    }
    extents = extents_of(robot)
    every = {**given, **followed}
    shapes = {name: closed(shape_of(name, extents), one.shape) for name, one in every.items()}
    along = in_time(robot.name, shapes, every)
    stored_steps(settings, along.steps)
    is_watched = torch.is_grad_enabled() and any(one.requires_grad for one in followed.values())
    if is_watched or check_efforts(settings) or forward_ad._current_level >= 0:
        options: dict[str, Any] = {"integrator": words.method}
        if words.backend:
            options["backend"] = words.backend

        def step(*arrays: Tensor, **rest: Tensor) -> tuple[Tensor, Tensor]:
            q, qd = robot.step(*arrays, **rest, **options)
            return q, qd

        operations = Operations(
            torch,
            # The results include the initial state, with unit quaternions.
            lambda q, qd: robot.integrate(q, torch.zeros_like(qd)),
            step,
            lambda q, q_ref: robot.difference(q, q_ref.expand(q.shape)),
            _scanned,
            torch.tensor(robot.effort_limits, dtype=q.dtype, device=q.device),
        )
        return rolled_by_steps(operations, shapes, along, settings)
    limits = "limits" if settings.effort_limits else "free"
    words = words._replace(settings=f"{settings.substeps} {settings.store_every} {limits}")
    tensors, head = {}, (*along.lead, along.steps)
    for name, shape in shapes.items():
        tensor = along.whole(name, shape, torch, alone=name not in ("q0", "qd0"))
        if name in TIME_FIRST:
            tensor = tensor if name in along.timed else tensor.unsqueeze(-1 - len(shape))
            tensor = tensor.expand(*head, *shape)
        tensors[name] = tensor
    operator = OPERATORS["rollout"]
    paths: tuple[Tensor, Tensor] = operator.result_type(
        *operator.call(*map(tensors.get, operator.tensors), words.text)
    )
    return paths


def _scanned(
    move: Callable[..., Any], state: Any, moving: Mapping[str, Tensor], steps: int
) -> tuple[Any, tuple[Any, Any]]:
    """Make steps in sequence; see ``Operations``."""
    steps_found: list[tuple[Any, Any]] = []
    for time in range(steps):
        state, found = move(state, {name: tensor[time] for name, tensor in moving.items()})
        steps_found.append(found)
    if not steps_found:
        none = tuple(one.new_empty((0, *one.shape)) for one in state)
        return state, (none, none[1])
    paths, efforts = zip(*steps_found, strict=True)
    path = None if paths[0] is None else tuple(map(torch.stack, zip(*paths, strict=True)))
    return state, (path, None if efforts[0] is None else torch.stack(efforts))
