"""Inverse kinematics of PyTorch tensors that require a gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from gridgen.errors import OptionError
from gridgen.functions.arrays import cotangent
from gridgen.runtime.calls.resolved import Resolved

# A ``gridgen.Robot``; frameworks cannot import it.
Robot = Any
Tensor = Any


def search(robot: Robot, resolved: Resolved) -> tuple[Tensor, ...]:
    """Return the results of a search, whose positions have a gradient by the targets."""
    if resolved.out is not None:
        raise OptionError("out is given, and targets require a gradient; omit it")
    results: tuple[Tensor, ...] = _Search.apply(robot, resolved, resolved.inputs["targets"])
    return results


class _Search(torch.autograd.Function):  # type: ignore[misc]
    """The search, and the pullback of the correction of its solutions."""

    @staticmethod
    def forward(ctx: Any, robot: Robot, resolved: Resolved, targets: Tensor) -> tuple[Tensor, ...]:
        inputs = _detached(resolved.inputs)
        results: tuple[Tensor, ...] = robot._run(replace(resolved, inputs=dict(inputs)))
        q, success, residual = results
        ctx.save_for_backward(q)
        ctx.pull = _pullback(robot, replace(resolved, inputs=inputs))
        ctx.mark_non_differentiable(success, residual)
        return results

    @staticmethod
    def backward(ctx: Any, q_bar: Tensor, *_: Tensor) -> tuple[Any, ...]:
        (q,) = ctx.saved_tensors
        return None, None, ctx.pull(q, q_bar)


def _detached(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.detach() if isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }


def _pullback(robot: Robot, resolved: Resolved) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function from solutions and their gradient to that of the targets."""
    key = replace(resolved.kernel.key, variant="correction").product("vjp", ("targets",))

    def pull(q: Tensor, q_bar: Tensor) -> Tensor:
        kernel = robot._module.kernels.find(key)
        known = {**resolved.inputs, "q": q, cotangent("q_next"): q_bar.contiguous()}
        inputs = {name: known[name] for name in kernel.inputs}
        found = robot._run(Resolved(kernel, inputs, resolved.backend, None, None))
        shape = resolved.inputs["targets"].shape
        return found if found.shape == shape else found.sum_to_size(shape)

    return pull
