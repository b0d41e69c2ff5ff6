"""Rollouts and inverse kinematics that JAX traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax
from jax import numpy as jnp

from gridgen.errors import OptionError
from gridgen.frameworks.jax.calls import check_options, traced
from gridgen.frameworks.jax.operations import Operation
from gridgen.frameworks.jax.primitive import call
from gridgen.frameworks.steps import Operations, rolled_by_steps
from gridgen.functions.arrays import FEEDBACK
from gridgen.runtime.arrays.arguments import leading_axes
from gridgen.runtime.arrays.layout import spread
from gridgen.runtime.arrays.times import check_untransformed, followed_in, in_time
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.calls.search import NOT_DIFFERENTIABLE
from gridgen.runtime.configurations import ROUNDING, ConfigurationSpace
from gridgen.runtime.module.description import Module


def rollout(module: Module, resolved: Resolved) -> Any:
    """Evaluate a rollout as a scan over steps; as ``calls.evaluate``."""
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


def search(module: Module, resolved: Resolved) -> Any:
    """Evaluate a search with arguments that JAX traces; as ``calls.evaluate``.

    The derivative of the positions by the targets is that of the correction of a solution.
    """
    kernel = resolved.kernel
    check_options(kernel, resolved.backend, resolved.out)
    shapes = kernel.inputs
    arrays = traced(module.description, shapes, resolved.inputs)
    lead = leading_axes(module.description.name, shapes, arrays)
    given = {name: spread(arrays[name], shapes[name], lead, jnp) for name in shapes}
    searching, correction = (
        Operation(module, replace(kernel.key, variant=variant)) for variant in ("", "correction")
    )

    def searched(*arrays: Any) -> Any:
        return tuple(call(searching, *arrays))

    def pushed(arrays: Any, tangents: Any) -> Any:
        if not kernel.key.parts:
            raise OptionError(NOT_DIFFERENTIABLE)
        q, success, residual = results = found(*arrays)
        known = {**dict(zip(shapes, arrays, strict=True)), "q": q}

        def corrected(targets: Any) -> Any:
            here = {**known, "targets": targets}
            return call(correction, *(here[name] for name in correction.inputs))[0]

        motion = dict(zip(shapes, tangents, strict=True))["targets"]
        _, change = jax.jvp(corrected, (known["targets"],), (motion,))
        return results, (change, jnp.zeros_like(success), jnp.zeros_like(residual))

    found = jax.custom_jvp(searched)
    found.defjvp(pushed)
    return found(*given.values())
