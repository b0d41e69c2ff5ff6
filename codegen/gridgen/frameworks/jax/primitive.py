"""The primitive: tracing, batching and lowering of a call.

Its operands are the inputs of an operation, in order. Some have leading axes of states, all the
same; the others have none and serve all states. All operands have one type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from gridgen.frameworks.jax import cpu, cuda
from gridgen.frameworks.jax.operations import Operation, Request, Target
from gridgen.functions.arrays import closed
from gridgen.kernel import Shape

call_p = Primitive("gridgen")
call_p.multiple_results = True


def call(operation: Operation, *operands: Any) -> list[Any]:
    """Evaluate an operation, traced or not.

    Args:
        operation: the operation.
        operands:  its inputs (..., *shape), or with the shape of one state.
    """
    results: list[Any] = call_p.bind(*_varying_alike(operands), operation=operation)
    return results


def lead_of(operation: Operation, shapes: Sequence[Shape]) -> Shape:
    """Return the leading axes of operands of these shapes."""
    own_shapes = operation.inputs.values()
    leads = [shape[: len(shape) - len(own)] for shape, own in zip(shapes, own_shapes, strict=True)]
    return max(leads, key=len, default=())


def _abstract(*avals: Any, operation: Operation) -> list[Any]:
    lead = lead_of(operation, [aval.shape for aval in avals])
    return [_like(avals[0], (*lead, *shape)) for shape in operation.outputs.values()]


call_p.def_abstract_eval(_abstract)


def _like(aval: Any, shape: Shape) -> Any:
    """Return an abstract value of another shape, without sharding."""
    others = {}
    if hasattr(aval, "sharding"):
        others["sharding"] = aval.sharding.update(spec=jax.sharding.PartitionSpec())
    return aval.update(shape=shape, weak_type=False, **others)


@partial(jax.jit, static_argnames="operation")
def _compiled(*operands: Any, operation: Operation) -> list[Any]:
    results: list[Any] = call_p.bind(*operands, operation=operation)
    return results


call_p.def_impl(_compiled)

# -- shard_map --------------------------------------------------------------------------------


def _varying_alike(operands: Sequence[Any]) -> Sequence[Any]:
    """Return operands that vary along the same mesh axes of ``shard_map``."""
    axes = [_varying(operand) for operand in operands]
    every: frozenset[Any] = frozenset().union(*axes)
    if all(own == every for own in axes):
        return operands
    return [
        _varied(operand, tuple(every - own)) for operand, own in zip(operands, axes, strict=True)
    ]


def _varying(operand: Any) -> frozenset[Any]:
    aval: Any = jax.typeof(operand)
    if hasattr(aval, "manual_axis_type"):
        return frozenset(aval.manual_axis_type.varying)
    return frozenset(getattr(aval, "vma", ()))


def _varied(operand: Any, axes: tuple[Any, ...]) -> Any:
    if not axes:
        return operand
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(operand, axes, to="varying")
    return jax.lax.pvary(operand, axes)


# -- vmap -------------------------------------------------------------------------------------


def _batched(
    operands: Sequence[Any], axes: Sequence[int | None], *, operation: Operation
) -> tuple[list[Any], list[int]]:
    """Add a leading axis of states, for mapped axes at any position."""
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    front = [
        x if axis is None else jax.numpy.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    ]
    shapes = [x.shape if axis is None else x.shape[1:] for x, axis in zip(front, axes, strict=True)]
    lead = lead_of(operation, shapes)
    given = [
        _with_axis(x, size, axis is not None, shape, closed(own, shape), lead)
        for x, axis, shape, own in zip(front, axes, shapes, operation.inputs.values(), strict=True)
    ]
    results = call(operation, *given)
    return results, [0] * len(results)


def _with_axis(x: Any, size: int, is_mapped: bool, shape: Shape, own: Shape, lead: Shape) -> Any:
    """Return an operand with the new axis, or unchanged if it serves all states."""
    is_single = len(shape) == len(own)
    if is_single and not is_mapped:
        return x
    if is_single:
        x = x.reshape(size, *(1,) * len(lead), *own)
    return jax.numpy.broadcast_to(x, (size, *lead, *own))


batching.primitive_batchers[call_p] = _batched

# -- XLA --------------------------------------------------------------------------------------


def _lowered(*operands: Any, operation: Operation, target: Target) -> list[Any]:
    """Lower an operation to a custom call of XLA."""
    if operation.is_second_pushforward:
        return _second_pushforward(operands, operation)
    kernel, dtype = operation.kernel, operands[0].dtype
    lead = lead_of(operation, [x.shape for x in operands])
    results = [jax.ShapeDtypeStruct((*lead, *shape), dtype) for shape in kernel.outputs.values()]
    if all(math.prod(result.shape) for result in results):
        known = dict(zip(operation.inputs, operands, strict=True))
        # Further tangents that a wider kernel reads: zeros.
        given = [
            known[name] if name in known else jax.numpy.zeros(shape, dtype)
            for name, shape in kernel.inputs.items()
        ]
        request = _request(operation, given, lead, target)
        if request.scratch:
            results.append(jax.ShapeDtypeStruct((request.scratch, request.launched), dtype))
        found = jax.ffi.ffi_call(target.name, results)(*given, **target.attributes(request))
    else:
        found = [jax.numpy.zeros(result.shape, dtype) for result in results]
    by_name = dict(zip(kernel.outputs, found, strict=False))
    return [by_name[name] for name in operation.outputs]


def _request(operation: Operation, given: Sequence[Any], lead: Shape, target: Target) -> Request:
    """Return the request for a target; arrays are in C order."""
    kernel = operation.kernel
    strides: list[int] = []
    for x, kind in zip(given, kernel.inputs.values(), strict=True):
        shape = closed(kind, x.shape)
        strides += (0 if x.shape == shape and lead else math.prod(shape), 1)
    for shape in kernel.outputs.values():
        strides += (math.prod(shape), 1)
    scratch, states, dtype = target.scratch(operation), math.prod(lead), given[0].dtype
    launched = target.launched(scratch, states, dtype.itemsize) if scratch else states
    return Request(operation, dtype.name, states, tuple(strides), scratch, launched)


def _second_pushforward(operands: Sequence[Any], operation: Operation) -> list[Any]:
    """Return the second tangents, from the pullback of the pushforward by each result."""
    known = dict(zip(operation.inputs, operands, strict=True))
    pull, first = operation.transpose, operation.of
    lead = lead_of(operation, [x.shape for x in operands])
    every = [known[name] for name in first.inputs]
    found = []
    for tangent, own in first.outputs.items():
        count = math.prod(own)
        units = jax.numpy.eye(count, dtype=operands[0].dtype).reshape(count, *own)

        def along(unit: Any, tangent: str = tangent) -> Any:
            bars = [
                jax.numpy.broadcast_to(
                    unit if name == tangent else 0.0 * unit.sum(), (*lead, *shape)
                )
                for name, shape in first.outputs.items()
            ]
            slopes = call(pull, *every, *bars)
            changes = [known[name] for name in operation.linear]
            products = (slope * change for slope, change in zip(slopes, changes, strict=True))
            axes = [tuple(range(len(lead), len(lead) + len(s))) for s in operation.linear.values()]
            return sum(x.sum(axis=axis) for x, axis in zip(products, axes, strict=True))

        moved = jax.numpy.moveaxis(jax.vmap(along)(units), 0, -1)
        found.append(moved.reshape(*lead, *own))
    return found


def _lowering(target: Target) -> Any:
    return mlir.lower_fun(partial(_lowered, target=target), multiple_results=True)


mlir.register_lowering(call_p, _lowering(cpu.TARGET), platform="cpu")
mlir.register_lowering(call_p, _lowering(cuda.TARGET), platform="cuda")
