"""Derivatives of the primitive: kernels of VJPs and JVPs.

The tangents of results are a product that is linear in the tangents of operands. Its transpose is
the product of the other kind, which again has derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.interpreters import ad

from gridgen.frameworks.jax.operations import Operation
from gridgen.frameworks.jax.primitive import call, call_p
from gridgen.kernel import SEVERAL


def _pushed(
    primals: Sequence[Any], tangents: Sequence[Any], *, operation: Operation
) -> tuple[list[Any], list[Any]]:
    """Return results and their tangents."""
    if operation.key.is_fused:
        return _pushed_parts(primals, tangents, operation)
    known = dict(zip(operation.inputs, primals, strict=True))
    changes = dict(zip(operation.inputs, tangents, strict=True))
    results = call(operation, *primals)
    wrt = [name for name in operation.differentiable if type(changes[name]) is not ad.Zero]
    linear = [name for name in wrt if name in operation.linear]
    others = [name for name in wrt if name not in operation.linear]
    found: list[Any] = [None] * len(results)
    if linear:  # the product of the tangents of its linear inputs
        given = [
            _change(changes[name], known[name]) if name in operation.linear else known[name]
            for name in operation.inputs
        ]
        found = _summed(found, call(operation, *given))
    if others:
        push = operation.product("jvp", others)
        known |= dict(zip(operation.outputs, results, strict=True))
        given = [known[name] for name in push.inputs if name not in push.linear]
        found = _summed(found, call(push, *given, *(changes[name] for name in others)))
    zeros = [
        ad.Zero.from_primal_value(result) if tangent is None else tangent
        for result, tangent in zip(results, found, strict=True)
    ]
    return results, zeros


def _pushed_parts(
    primals: Sequence[Any], tangents: Sequence[Any], operation: Operation
) -> tuple[list[Any], list[Any]]:
    """Return the results of fused functions, and the tangents of each by itself."""
    results = call(operation, *primals)
    known = dict(zip(operation.inputs, zip(primals, tangents, strict=True), strict=True))
    found: list[Any] = []
    for part in operation.parts:
        given = zip(*(known[name] for name in part.inputs), strict=True)
        found += _pushed(*given, operation=part)[1]
    if operation.key.function != SEVERAL:  # one function for a list of links, in one array
        (result,), (shape,) = results, operation.outputs.values()
        axis = result.ndim - len(shape)
        each = result.take(0, axis)
        found = [jax.numpy.stack([_change(tangent, each) for tangent in found], axis)]
    return results, found


def _change(tangent: Any, like: Any) -> Any:
    return jax.numpy.zeros_like(like) if type(tangent) is ad.Zero else tangent


def _summed(found: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    return [b if a is None else a + b for a, b in zip(found, more, strict=True)]


def _transposed(cotangents: Sequence[Any], *operands: Any, operation: Operation) -> list[Any]:
    """Return the cotangents of a product's linear inputs."""
    known = dict(zip(operation.inputs, operands, strict=True))
    wanted = [name for name in operation.linear if ad.is_undefined_primal(known[name])]
    bars = [
        jax.numpy.zeros(bar.aval.shape, bar.aval.dtype) if type(bar) is ad.Zero else bar
        for bar in cotangents
    ]
    other = operation.transpose
    given = [known[name] for name in other.inputs if name not in other.linear]
    by_name = dict(zip(operation.linear, call(other, *given, *bars), strict=True))
    found = {name: _of_shape(by_name[name], known[name].aval.shape) for name in wanted}
    return [found.get(name) for name in operation.inputs]


def _of_shape(bar: Any, shape: tuple[int, ...]) -> Any:
    """Return a cotangent with its operand's shape: the sum over states for a shared operand."""
    return bar if bar.shape == shape else bar.sum(axis=tuple(range(bar.ndim - len(shape))))


ad.primitive_jvps[call_p] = _pushed
ad.primitive_transposes[call_p] = _transposed
