"""Calls with arguments that JAX traces: validated as others, then passed to the primitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jax import export
from jax.interpreters import ad

from gridgen.errors import DtypeError, OptionError
from gridgen.frameworks.jax.operations import Operation
from gridgen.frameworks.jax.primitive import call, call_p
from gridgen.functions.arrays import ARRAYS, DEFAULTED, closed
from gridgen.functions.types import Array
from gridgen.kernel import SEVERAL, Kernel, Shape
from gridgen.runtime.arrays.arguments import leading_axes
from gridgen.runtime.arrays.defaults import default
from gridgen.runtime.arrays.layout import DTYPES, check_dtype, spread
from gridgen.runtime.arrays.libraries import adopt
from gridgen.runtime.arrays.validation import validate
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.module.description import Module, RobotRecord


def evaluate(module: Module, resolved: Resolved) -> Any:
    """Evaluate a call with arguments that JAX traces.

    Args:
        module:   the robot's description, kernels and text.
        resolved: the call. The inputs of a product include those that only its own derivatives
                  read: joint torques, where the kernel reads accelerations.

    Raises:
        ShapeError, DtypeError: an argument is not compatible.
        OptionError: JAX tracing does not support an option.
    """
    kernel, inputs, out = resolved.kernel, resolved.inputs, resolved.out
    backend = resolved.backend
    check_options(kernel, backend, out)
    operation = Operation(module, kernel.key)
    further = {name: shape for name, shape in operation.inputs.items() if name in inputs}
    shapes = {**kernel.inputs, **further}
    arrays = traced(module.description, shapes, inputs)
    lead = leading_axes(module.description.name, shapes, arrays)
    arrays = {
        name: spread(array, closed(shapes[name], array.shape), lead, jax.numpy)
        for name, array in arrays.items()
    }
    return kernel.answer(_computed(operation, arrays))


def exportable(results: Any) -> Any:
    """Return results, of a type that programs of ``jax.export`` can store."""
    if isinstance(results, tuple):
        _register(type(results))
    return results


@cache
def _register(kind: Any) -> None:
    name = ".".join(("gridgen", *kind._fields))
    export.register_namedtuple_serialization(kind, serialized_name=name)


def _computed(operation: Operation, arrays: Mapping[str, Any]) -> list[Any]:
    """Return the results of an operation's kernel for the arrays that it reads.

    A product's kernel may also return the results of the function.
    """
    kernel, row = operation.kernel, operation.key.function
    if missing := [name for name in operation.inputs if name not in arrays]:
        raise OptionError(
            f"{kernel.name} is called with arrays that JAX traces, and cannot pass it "
            f"{', '.join(missing)}: call robot.{operation.kind} of {row}"
        )
    found = dict(
        zip(operation.outputs, call(operation, *map(arrays.get, operation.inputs)), strict=True)
    )
    if operation.kind and not found.keys() >= kernel.outputs.keys():
        of = operation.of
        found |= zip(of.outputs, call(of, *map(arrays.get, of.inputs)), strict=True)
    return [found[name] for name in kernel.outputs]


def check_options(kernel: Kernel, backend: str | None, out: Any) -> None:
    """Raise for options of a call that tracing by JAX does not support."""
    if out is not None:
        raise OptionError("out is given, and JAX traces the call: its arrays are immutable")
    if backend not in (None, "auto"):
        raise OptionError(
            f'backend is "{backend}", and JAX traces the call: its device computes it; omit it'
        )
    if kernel.team is not None:
        raise OptionError(
            f'schedule is "{kernel.key.schedule}", and JAX traces the call: use "thread", or omit '
            "it"
        )


def traced(
    description: RobotRecord, shapes: Mapping[str, Shape], inputs: Mapping[str, Array | None]
) -> dict[str, Any]:
    """Return inputs as JAX values of the type of the traced ones.

    Raises:
        DtypeError: the types differ, or are neither float32 nor float64.
    """
    name_of_first, first = next(
        (name, value) for name, value in inputs.items() if isinstance(value, jax.core.Tracer)
    )
    check_dtype(first, name_of_first)
    return {
        name: _value(description, name, shape, inputs[name], first, name_of_first)
        for name, shape in shapes.items()
    }


def _value(
    description: RobotRecord, name: str, shape: tuple[int, ...], value: Any, first: Any, like: str
) -> Any:
    if value is None and name in DEFAULTED:
        own = description.parameters.own.get(name)
        value = default(name, shape, np.empty(0, first.dtype), own)
    if isinstance(value, jax.core.Tracer):
        is_number = not shape and value.weak_type  # a Python number that JAX traces
        value = value.astype(first.dtype) if is_number else value
    elif not isinstance(value, jax.Array):
        value = adopt(value, name, np.empty(0, first.dtype))
        if not shape and not value.ndim:  # a scalar of any type
            value = value.astype(first.dtype)
    check_dtype(value, name)
    if value.dtype != first.dtype:
        raise DtypeError(
            f"{name} has dtype {value.dtype} and {like} {first.dtype}; all arrays of a call share "
            f"their type: {name}.astype({like}.dtype){_hint(value)}"
        )
    if ARRAYS[name].numbers and not isinstance(value, jax.core.Tracer):
        validate(description, name, adopt(value, name))
    return jax.numpy.asarray(value)


def _hint(value: Any) -> str:
    """Return a hint where JAX does not support the type."""
    wide = DTYPES.get(value.dtype) == "float64" and not jax.config.jax_enable_x64
    return "; JAX has float64 with jax_enable_x64 only" if wide else ""


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
    unknown = [name for name in operation.linear if ad.is_undefined_primal(known[name])]
    bars = [
        jax.numpy.zeros(bar.aval.shape, bar.aval.dtype) if type(bar) is ad.Zero else bar
        for bar in cotangents
    ]
    other = operation.transpose
    given = [known[name] for name in other.inputs if name not in other.linear]
    by_name = dict(zip(operation.linear, call(other, *given, *bars), strict=True))
    found = {name: _of_shape(by_name[name], known[name].aval.shape) for name in unknown}
    return [found.get(name) for name in operation.inputs]


def _of_shape(bar: Any, shape: tuple[int, ...]) -> Any:
    """Return a cotangent with its operand's shape: the sum over states for a shared operand."""
    return bar if bar.shape == shape else bar.sum(axis=tuple(range(bar.ndim - len(shape))))


ad.primitive_jvps[call_p] = _pushed
ad.primitive_transposes[call_p] = _transposed
