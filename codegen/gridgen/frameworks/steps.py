"""Rollouts as sequences of steps, each a differentiable operation of a framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gridgen.functions.arrays import FEEDBACK
from gridgen.functions.calls import RolloutSettings
from gridgen.kernel import Shape, result_type
from gridgen.runtime.arrays.times import Inputs, stored_steps

_State = tuple[Any, Any]
#: The types of the results of rollouts.
PATHS = result_type(("q_path", "qd_path"))
PATHS_AND_EFFORTS = result_type(("q_path", "qd_path", "tau_path"))


class Operations(NamedTuple):
    """Operations of a framework."""

    xp: Any  #: array module of the framework.
    #: returns configurations with unit quaternions, for a state.
    normalized: Callable[[Any, Any], Any]
    #: integrates a state over one step with joint torques; arrays by name.
    step: Callable[..., _State]
    #: returns the tangent vector from one configuration to another.
    difference: Callable[[Any, Any], Any]
    #: iterates a step function: takes the function, the initial state, arrays with time as the
    #: first axis and the number of steps; returns the final state and the stacked results.
    scan: Callable[..., tuple[_State, tuple[Any, Any]]]
    limits: Any  #: limits of the joint torques.


def rolled_by_steps(
    operations: Operations, shapes: Mapping[str, Shape], given: Inputs, settings: RolloutSettings
) -> tuple[Any, ...]:
    """Return positions and velocities of a rollout, and joint torques on request; see ``Robot``."""
    xp, axis, steps = operations.xp, len(given.lead), given.steps
    every, moments = stored_steps(settings, steps)
    fixed: dict[str, Any] = {}
    moving: dict[str, Any] = {}
    for name in given.arrays:
        shape = shapes[name]
        array = given.whole(name, shape, xp, alone=name not in ("q0", "qd0"))
        if name in given.timed:
            moving[name] = xp.moveaxis(array, len(array.shape) - len(shape) - 1, 0)
        else:
            fixed[name] = array
    q, qd = fixed.pop("q0"), fixed.pop("qd0")
    dt = fixed.pop("dt") / settings.substeps

    def move(state: _State, now: Mapping[str, Any]) -> tuple[_State, tuple[Any, Any]]:
        known = {**fixed, **now}
        tau = _applied(operations, settings, state, known)
        rest = {name: array for name, array in known.items() if name not in ("tau", *FEEDBACK)}
        for _ in range(settings.substeps):
            state = operations.step(*state, tau, dt, **rest)
        applied = xp.broadcast_to(tau, state[1].shape) if settings.return_efforts else None
        return state, (None if moments is None else state, applied)

    start = operations.normalized(q, qd), qd
    end, (path, efforts) = operations.scan(move, start, moving, steps)
    paths: tuple[Any, ...] = end
    if moments is not None:
        paths = tuple(
            xp.moveaxis(xp.concatenate([first[None], later[every - 1 :: every]]), 0, axis)
            for first, later in zip(start, path, strict=True)
        )
    if settings.return_efforts:
        return PATHS_AND_EFFORTS(*paths, xp.moveaxis(efforts, 0, axis))  # type: ignore[no-any-return]
    return PATHS(*paths)  # type: ignore[no-any-return]


def _applied(
    operations: Operations, settings: RolloutSettings, state: _State, known: Mapping[str, Any]
) -> Any:
    """Return the joint torques of a step: the given ones plus the controller's, within limits."""
    tau, xp = known["tau"], operations.xp
    if "gains" in known:
        gains, q_ref, qd_ref = (known[name] for name in FEEDBACK)
        way = operations.difference(state[0], q_ref)
        velocities = xp.broadcast_to(qd_ref - state[1], way.shape)
        deviation = xp.concatenate([way, velocities], -1)
        tau = tau + (gains @ deviation[..., None])[..., 0]
    return xp.clip(tau, -operations.limits, operations.limits) if settings.effort_limits else tau
