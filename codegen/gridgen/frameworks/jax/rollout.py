"""Rollouts that JAX traces: a scan over steps, each of them a call of the primitive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax import numpy as jnp

from gridgen.errors import ShapeError
from gridgen.frameworks.jax.calls import check_options, traced
from gridgen.frameworks.jax.operations import Operation
from gridgen.frameworks.jax.primitive import call
from gridgen.functions.arrays import FEEDBACK
from gridgen.functions.calls import Course
from gridgen.kernel import Kernel
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.configurations import ROUNDING, ConfigurationSpace
from gridgen.runtime.module.description import Module
from gridgen.runtime.rollouts.arguments import (
    Argument,
    argument,
    batch_of,
    feedback_of,
    flattened,
    kept_of,
    wanted,
)


def evaluate(module: Module, resolved: Resolved) -> Any:
    """Answer a rollout whose arguments JAX traces, some or all of them; as ``calls.evaluate``."""
    kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
    backend, course = resolved.backend, resolved.course
    assert course is not None
    check_options(kernel, backend, out)
    followed = {name: value for name, value in feedback_of(course).items() if value is not None}
    shapes = {n: s for n, s in kernel.inputs.items() if n not in FEEDBACK or n in followed}
    arrays = traced(module.description, shapes, {**inputs, **followed})
    robot = module.description.name
    arrays, lead, _ = flattened(robot, shapes, arrays, jnp)
    batch, tau = batch_of(shapes, arrays), arrays["tau"]
    if tau.ndim < 2:
        needed = wanted("tau", shapes["tau"], batch, "T")
        raise ShapeError(
            f"tau has shape {tau.shape}; a rollout needs the efforts of every step, {needed}"
        )
    steps = tau.shape[-2]
    given = [argument(robot, n, s, arrays[n], batch, steps) for n, s in shapes.items()]
    every, moments = kept_of(course, steps)
    paths = _path(module, kernel, course, given, batch, steps, every, moments)
    if lead is None:
        return paths
    return tuple(path.reshape(*lead, *path.shape[1:]) for path in paths)


def _path(
    module: Module,
    kernel: Kernel,
    course: Course,
    given: list[Argument],
    batch: int | None,
    steps: int,
    every: int,
    moments: int | None,
) -> tuple[Any, ...]:
    """Return the states that are kept, and the efforts if the kernel does."""
    fixed = {item.name: _in_time(item) for item in given if item.time is None}
    moving = {item.name: _in_time(item) for item in given if item.time is not None}
    states = () if batch is None else (batch,)
    start = [
        jnp.broadcast_to(fixed.pop(name), (*states, *kernel.inputs[name])) for name in ("q0", "qd0")
    ]
    start[0] = _normalized(module.description.space, start[0])
    substeps, has_efforts = course.substeps, "tau_path" in kernel.outputs
    dt = fixed["dt"] / substeps
    step, difference = (Operation(module, key) for key in kernel.calls)

    def move(state: tuple[Any, Any], now: dict[str, Any]) -> tuple[tuple[Any, Any], Any]:
        known = {**fixed, **now, "dt": dt}
        known["tau"] = _applied(module, difference, course, state, known)
        for _ in range(substeps):
            known |= dict(zip(("q", "qd"), state, strict=True))
            q, qd = call(step, *(known[name] for name in step.inputs))
            state = q, qd
        applied = jnp.broadcast_to(known["tau"], state[1].shape) if has_efforts else None
        return state, (None if moments is None else state, applied)

    state: tuple[Any, Any] = start[0], start[1]
    end, (path, efforts) = jax.lax.scan(move, state, moving, length=steps)
    axis = len(states)
    if moments is not None:
        q_path, qd_path = (
            jnp.moveaxis(jnp.concatenate([first[None], later[every - 1 :: every]]), 0, axis)
            for first, later in zip(state, path, strict=True)
        )
        end = q_path, qd_path
    if not has_efforts:
        return end[0], end[1]
    return end[0], end[1], jnp.moveaxis(efforts, 0, axis)


def _normalized(space: ConfigurationSpace, q: Any) -> Any:
    """Return the beginning as it is kept: with unit quaternions, of which none changes its norm."""
    for joint in space.free:
        turn = q[..., joint.quaternion]
        square = (turn**2).sum(axis=-1, keepdims=True)
        unit = turn / jnp.sqrt(square)
        is_off = jnp.abs(square - 1.0) > ROUNDING[q.dtype]
        # What is added is exact: a quaternion that is not off stays what it is, bit for bit.
        unit += jax.lax.stop_gradient(jnp.where(is_off, unit, turn) - unit)
        q = q.at[..., joint.quaternion].set(unit)
    return q


def _in_time(item: Argument) -> Any:
    """Return an array with the axis of time, if it has one, before that of states."""
    array = item.array if item.time is None else jnp.moveaxis(item.array, item.time, 0)
    lead = [item.array.shape[axis] for axis in (item.time, item.batch) if axis is not None]
    return array.reshape(*lead, *item.axes)


def _applied(
    module: Module,
    difference: Operation,
    course: Course,
    state: tuple[Any, Any],
    known: Mapping[str, Any],
) -> Any:
    """Return the efforts of a step: those given, with those of the controller, within limits."""
    tau = known["tau"]
    if course.feedback is not None:
        gains, q_ref, qd_ref = (known[name] for name in FEEDBACK)
        (way,) = call(difference, state[0], q_ref)
        velocities = jnp.broadcast_to(qd_ref - state[1], way.shape)
        deviation = jnp.concatenate([way, velocities], axis=-1)
        tau = tau + (gains @ deviation[..., None])[..., 0]
    if course.effort_limits:
        limits = jnp.asarray(module.description.effort_limits, tau.dtype)
        tau = jnp.clip(tau, -limits, limits)
    return tau
