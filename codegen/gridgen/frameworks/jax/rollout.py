"""Rollouts that JAX traces: a scan over steps, each of them a call of the primitive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax import numpy as jnp

from gridgen.frameworks.jax.calls import check_options, traced
from gridgen.frameworks.jax.operations import Operation
from gridgen.frameworks.jax.primitive import call
from gridgen.functions.arrays import FEEDBACK
from gridgen.functions.calls import Course
from gridgen.runtime.arrays.arguments import spread
from gridgen.runtime.arrays.times import followed_in, in_time, kept_of
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.configurations import ROUNDING, ConfigurationSpace
from gridgen.runtime.module.description import Module


def evaluate(module: Module, resolved: Resolved) -> Any:
    """Answer a rollout whose arguments JAX traces, some or all of them; as ``calls.evaluate``."""
    kernel, course, description = resolved.kernel, resolved.course, module.description
    assert course is not None
    check_options(kernel, resolved.backend, resolved.out)
    followed = followed_in(resolved.inputs)
    shapes = {n: s for n, s in kernel.inputs.items() if n not in FEEDBACK or n in followed}
    given = traced(description, shapes, resolved.inputs)
    arrays, lead, steps, times = in_time(description.name, shapes, given)
    every, moments = kept_of(course, steps)
    axis, fixed, moving = len(lead), dict[str, Any](), dict[str, Any]()
    for name, shape in shapes.items():
        if times.get(name, 1) == 1:
            fixed[name] = spread(arrays[name], shape, lead, jnp, alone=name not in ("q0", "qd0"))
        else:
            array = spread(arrays[name], (steps, *shape), lead, jnp)
            moving[name] = jnp.moveaxis(array, array.ndim - len(shape) - 1, 0)
    start = [fixed.pop("q0"), fixed.pop("qd0")]
    start[0] = _normalised(description.space, start[0])
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
    if moments is not None:
        q_path, qd_path = (
            jnp.moveaxis(jnp.concatenate([first[None], later[every - 1 :: every]]), 0, axis)
            for first, later in zip(state, path, strict=True)
        )
        end = q_path, qd_path
    if not has_efforts:
        return end[0], end[1]
    return end[0], end[1], jnp.moveaxis(efforts, 0, axis)


def _normalised(space: ConfigurationSpace, q: Any) -> Any:
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


def _applied(
    module: Module,
    difference: Operation,
    course: Course,
    state: tuple[Any, Any],
    known: Mapping[str, Any],
) -> Any:
    """Return the efforts of a step: those given, with those of the controller, within limits."""
    tau = known["tau"]
    if "gains" in known:
        gains, q_ref, qd_ref = (known[name] for name in FEEDBACK)
        (way,) = call(difference, state[0], q_ref)
        velocities = jnp.broadcast_to(qd_ref - state[1], way.shape)
        deviation = jnp.concatenate([way, velocities], axis=-1)
        tau = tau + (gains @ deviation[..., None])[..., 0]
    if course.effort_limits:
        limits = jnp.asarray(module.description.effort_limits, tau.dtype)
        tau = jnp.clip(tau, -limits, limits)
    return tau
