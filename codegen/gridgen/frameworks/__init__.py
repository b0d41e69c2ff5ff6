"""Frameworks that transform calls: their tracers as arguments, derivatives through calls.

Each framework is imported at its first value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from gridgen.runtime.calls.resolved import Resolved
from gridgen.runtime.module.description import Module


def is_transformed(q: Any, others: Iterable[Any]) -> bool:
    """Return whether PyTorch transforms a call, or its batch has several axes.

    Args:
        q:      the first argument, which determines the library of the results.
        others: the other arguments.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(q, torch.Tensor) or not hasattr(torch, "compiler"):
        return False
    if torch.compiler.is_compiling() or type(q) is not torch.Tensor or q.dim() > 2:
        return True
    if torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack():
        return True
    if torch._C._get_tracing_state() is not None or _is_autocast(torch, q):
        return True
    return any(map(is_differentiated, (q, *others)))


def is_differentiated(value: Any) -> bool:
    """Return whether PyTorch differentiates by a tensor, or one of its transforms is active."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return False
    forward_ad = torch.autograd.forward_ad
    return (
        value.requires_grad
        or torch._C._are_functorch_transforms_active()
        or (forward_ad._current_level >= 0 and forward_ad.unpack_dual(value).tangent is not None)
    )


def _is_autocast(torch: Any, q: Any) -> bool:
    """Return whether PyTorch's autocast is on for the device of a tensor."""
    if not torch._C._is_any_autocast_enabled() or q.device.type not in ("cpu", "cuda"):
        return False
    is_known = hasattr(torch.library, "register_vmap")  # else operators are not supported
    return is_known and bool(torch.is_autocast_enabled(q.device.type))


def torch_calls() -> Any:
    """Return the module that evaluates calls that PyTorch transforms."""
    _bring_torch_calls()
    return _brought["torch"]


def register_operators() -> None:
    """Register the operators of PyTorch if it is imported: exported programs call them.

    Does nothing for a PyTorch that is too old; a call that needs them raises an error.
    """
    if hasattr(getattr(sys.modules.get("torch"), "library", None), "register_vmap"):
        _bring_torch_calls()


_brought: dict[str, Any] = {}


def _bring_torch_calls() -> None:
    if not _brought:
        _brought["torch"] = import_module("gridgen.frameworks.torch.calls")


# PyTorch's compiler runs this call during tracing instead of tracing into it.
_bring_torch_calls._dynamo_marked_constant = True  # type: ignore[attr-defined]


def answer_traced(module: Module, resolved: Resolved) -> Any:
    """Evaluate a call with arguments that JAX traces."""
    from gridgen.frameworks.jax import calls, loops

    if resolved.kernel.key.function == "inverse_kinematics":
        return loops.search(module, resolved)
    answer = calls.evaluate if resolved.settings is None else loops.rollout
    return calls.exportable(answer(module, resolved))
