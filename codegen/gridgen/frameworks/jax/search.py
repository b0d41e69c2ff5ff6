"""Inverse kinematics that JAX traces: the derivative of its solutions is that of a correction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
from jax import numpy as jnp

from gridgen.errors import OptionError
from gridgen.frameworks.jax.calls import check_options, traced
from gridgen.frameworks.jax.operations import Operation
from gridgen.frameworks.jax.primitive import call
from gridgen.runtime.arrays.arguments import leading_axes
from gridgen.runtime.arrays.layout import spread
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.calls.search import NOT_DIFFERENTIABLE
from gridgen.runtime.module.description import Module


def evaluate(module: Module, resolved: Resolved) -> Any:
    """Evaluate a search with arguments that JAX traces; as ``calls.evaluate``.

    The derivative of the positions by the targets is that of the correction of a solution.
    """
    kernel = resolved.kernel
    check_options(kernel, resolved.backend, resolved.out)
    shapes = kernel.inputs
    arrays = traced(module.description, shapes, resolved.inputs)
    lead = leading_axes(module.description.name, shapes, arrays)
    given = {name: spread(arrays[name], shapes[name], lead, jnp) for name in shapes}
    search, correction = (
        Operation(module, replace(kernel.key, variant=variant)) for variant in ("", "correction")
    )

    def searched(*arrays: Any) -> Any:
        return tuple(call(search, *arrays))

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
