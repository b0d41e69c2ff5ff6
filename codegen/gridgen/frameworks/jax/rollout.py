"""Rollouts that JAX traces: a scan over steps, each a call of the primitive."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
from jax import numpy as jnp

from gridgen.frameworks.jax.calls import check_options, traced
from gridgen.frameworks.jax.operations import Operation
from gridgen.frameworks.jax.primitive import call
from gridgen.frameworks.steps import Operations, rolled_by_steps
from gridgen.functions.arrays import FEEDBACK
from gridgen.runtime.arrays.times import check_untransformed, followed_in, in_time
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.configurations import ROUNDING, ConfigurationSpace
from gridgen.runtime.module.description import Module


def evaluate(module: Module, resolved: Resolved) -> Any:
    """Evaluate a rollout with arguments that JAX traces; as ``calls.evaluate``."""
    kernel, settings, description = resolved.kernel, resolved.settings, module.description
    assert settings is not None
    check_untransformed(settings)
    check_options(kernel, resolved.backend, resolved.out)
    followed = followed_in(resolved.inputs)
    shapes = {n: s for n, s in kernel.inputs.items() if n not in FEEDBACK or n in followed}
    given = in_time(description.name, shapes, traced(description, shapes, resolved.inputs))
    step, difference = (Operation(module, key) for key in kernel.calls)
    operations = Operations(
        jnp,
        partial(_normalized, description.space),
        partial(_stepped, step),
        lambda q, q_ref: call(difference, q, q_ref)[0],
        lambda move, start, moving, steps: jax.lax.scan(move, start, moving, length=steps),
        jnp.asarray(description.effort_limits, given.arrays["q0"].dtype),
    )
    return rolled_by_steps(operations, shapes, given, settings)


def _stepped(
    step: Operation, q: Any, qd: Any, tau: Any, dt: Any, **rest: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Return the state after a step."""
    known = {"q": q, "qd": qd, "tau": tau, "dt": dt, **rest}
    q, qd = call(step, *(known[name] for name in step.inputs))
    return q, qd


def _normalized(space: ConfigurationSpace, q: Any, _: Any) -> Any:
    """Return the initial positions with unit quaternions, whose norm has no derivative."""
    for joint in space.turning:
        turn = q[..., joint.quaternion]
        square = (turn**2).sum(axis=-1, keepdims=True)
        unit = turn / jnp.sqrt(square)
        is_off = jnp.abs(square - 1.0) > ROUNDING[q.dtype]
        # The correction is exact: unit quaternions do not change at all.
        unit += jax.lax.stop_gradient(jnp.where(is_off, unit, turn) - unit)
        q = q.at[..., joint.quaternion].set(unit)
    return q
