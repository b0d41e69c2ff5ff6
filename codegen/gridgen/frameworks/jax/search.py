"""Inverse kinematics that JAX traces: the search has no derivative, its correction has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
from jax import numpy as jnp

from gridgen.frameworks.jax.calls import check_options, traced
from gridgen.frameworks.jax.operations import Operation
from gridgen.frameworks.jax.primitive import call
from gridgen.runtime.arrays.arguments import leading_axes
from gridgen.runtime.arrays.layout import spread
from gridgen.runtime.calls.resolved import Resolved
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
    fixed = {name: jax.lax.stop_gradient(array) for name, array in given.items()}
    q, success, residual = call(Operation(module, kernel.key), *fixed.values())
    q, success, residual = map(jax.lax.stop_gradient, (q, success, residual))
    correction = Operation(module, replace(kernel.key, variant="correction"))
    known = {**fixed, "q": q, "targets": given["targets"]}
    (corrected,) = call(correction, *(known[name] for name in correction.inputs))
    return q + (corrected - jax.lax.stop_gradient(corrected)), success, residual
