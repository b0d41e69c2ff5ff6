"""Inverse kinematics of PyTorch tensors that PyTorch differentiates or maps over axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gridgen.errors import OptionError
from gridgen.functions.arrays import cotangent, tangent
from gridgen.kernel import KernelKey
from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.calls.search import NOT_DIFFERENTIABLE

# A ``gridgen.Robot``; frameworks cannot import it.
Robot = Any
Tensor = Any


def search(robot: Robot, resolved: Resolved) -> tuple[Tensor, ...]:
    """Return the results of a search, whose positions have a derivative by the targets."""
    if resolved.out is not None:
        raise OptionError("out is given, and PyTorch transforms the call; omit it")
    kind = _Search if resolved.kernel.key.parts else _Projection
    results: tuple[Tensor, ...] = kind.apply(robot, resolved, *resolved.inputs.values())
    return results


class _Run(torch.autograd.Function):  # type: ignore[misc]
    """A kernel, without derivatives."""

    @staticmethod
    def forward(robot: Robot, resolved: Resolved, *arrays: Tensor) -> tuple[Tensor, ...]:
        inputs = dict(zip(resolved.inputs, (one.detach() for one in arrays), strict=True))
        found = robot._run(replace(resolved, inputs=inputs))
        return found if isinstance(found, tuple) else (found,)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output)

    @classmethod
    def vmap(
        cls,
        info: Any,
        in_dims: Sequence[int | None],
        robot: Robot,
        resolved: Resolved,
        *arrays: Any,
    ) -> tuple[Any, ...]:
        """Compute for a mapped axis: one call for a larger batch."""
        dims = in_dims[2:]
        axes = [len(shape) for shape in resolved.kernel.inputs.values()]
        leads = [
            one.dim() - own - (dim is not None)
            for one, own, dim in zip(arrays, axes, dims, strict=True)
        ]
        moved = []
        for one, dim, lead in zip(arrays, dims, leads, strict=True):
            if dim is not None:
                one = one.movedim(dim, 0)
                ones = (1,) * (max(leads) - lead)
                one = one.reshape(info.batch_size, *ones, *one.shape[1:])
            moved.append(one)
        found = cls.apply(robot, resolved, *moved)
        return found, (0,) * len(found)


class _Search(_Run):
    """The search, and the derivative of the correction of its solutions."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.robot, ctx.resolved, *arrays = inputs
        q, *others = output
        ctx.mark_non_differentiable(*others)
        ctx.save_for_backward(*arrays, q)
        ctx.save_for_forward(*arrays, q)

    @staticmethod
    def backward(ctx: Any, q_bar: Tensor, *_: Tensor) -> tuple[Any, ...]:
        (found,) = _product(ctx, "vjp", cotangent("q_next"), q_bar.contiguous())
        names = [*ctx.resolved.inputs]
        shape = ctx.saved_tensors[names.index("targets")].shape
        found = found if found.shape == shape else found.sum_to_size(shape)
        return (None, None, *(found if name == "targets" else None for name in names))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> tuple[Any, ...]:
        names = [*ctx.resolved.inputs]
        change = tangents[2:][names.index("targets")]
        if change is None:
            return None, None, None
        return _product(ctx, "jvp", tangent("targets"), change.contiguous())[-1], None, None


class _Projection(_Run):
    """A projection, which has no derivatives."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise OptionError(NOT_DIFFERENTIABLE)

    jvp = backward


def _product(ctx: Any, kind: str, name: str, change: Tensor) -> tuple[Tensor, ...]:
    """Return the results of a product of the correction."""
    *arrays, q = ctx.saved_tensors
    key: KernelKey = replace(ctx.resolved.kernel.key, variant="correction")
    kernel = ctx.robot._module.kernels.find(key.product(kind, ("targets",)))
    known = {**dict(zip(ctx.resolved.inputs, arrays, strict=True)), "q": q, name: change}
    inputs = {one: known[one] for one in kernel.inputs}
    resolved = Resolved(kernel, inputs, ctx.resolved.backend, None, None)
    results: tuple[Tensor, ...] = _Run.apply(ctx.robot, resolved, *inputs.values())
    return results
