"""Calls with PyTorch tensors that are differentiated, mapped over axes, traced or compiled.

They become PyTorch operators (``operators.py``). The code around these uses PyTorch operations, so
that it is differentiable too.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, TypeVar

import torch
from torch.autograd import forward_ad

from gridgen.errors import DtypeError, OptionError
from gridgen.frameworks.torch.batches import expanded
from gridgen.frameworks.torch.operator import Words
from gridgen.frameworks.torch.operators import OPERATORS
from gridgen.frameworks.torch.rollouts import rolled_out
from gridgen.frameworks.torch.search import search as search
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.calls import Request
from gridgen.kernel import KernelKey, result_type
from gridgen.naming import one_line
from gridgen.runtime.calls.resolver import listed_frames

# A ``gridgen.Robot``; frameworks cannot import it.
Robot = Any
Tensor = Any
Answer = TypeVar("Answer", bound=Callable[..., Any])


def _constant(function: Answer) -> Answer:
    """Mark a function's result as a constant for PyTorch's compiler.

    The function of ``torch.compiler`` for this would import the compiler.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def call(robot: Robot, request: Request) -> Any:
    """Evaluate the call of a function; see ``Calls._call``."""
    function, arrays, out = request.function, request.arrays, request.out
    options: dict[str, Any] = request.options  # type: ignore[assignment]
    row, q = OPERATORS[function].row, arrays[0]
    backend = options.pop("backend", None)
    robot.resolver.check_known(row, options)
    if out is not None:
        arrays, options = _without_gradients(function, (*arrays, *_listed(out)), options)
        arrays = arrays[: len(row.arguments)]
        options["backend"] = backend
        with torch._C._DisableAutocast():
            return robot._call(replace(request, arrays=arrays, options=options))
    given = dict(zip(row.arguments, arrays, strict=True))
    given |= {name: value for name, value in options.items() if value is not None}
    given = tensors(given, q)
    words = Words(
        robot.handle, request.schedule, request.method, "", request.reference, backend or ""
    )
    if request.settings is not None:
        return rolled_out(robot, given, request.settings, words)
    given = expanded(given)
    if request.frame is None:
        return _operated(function, given, words)
    return _of_frames(robot, function, given, words, request.frame)


def compute(
    robot: Robot, functions: Sequence[str], arrays: tuple[Any, ...], out: Any, options: Any
) -> Any:
    """Evaluate ``Robot.compute`` function by function, each with its derivatives."""
    if out is not None:
        _refuse_out("compute")
    backend = options.pop("backend", None)
    labels, names, parts = _fused(robot, functions, len(arrays), tuple(options))
    robot.resolver.check_parameters(options)
    given = {**options, **dict(zip(names, arrays, strict=True))}
    results = []
    for function, method, frame, reference in parts:
        row = OPERATORS[function].row
        own = {name: given[name] for name in row.options if name in given}
        own["backend"] = backend
        arguments = tuple(given[name] for name in row.arguments)
        choices = "auto", method, frame, reference
        results.append(call(robot, Request(function, arguments, None, own, *choices)))
    kind = (
        result_type(labels) if not torch.compiler.is_compiling() else namedtuple("Results", labels)
    )
    return kind(*results)


@_constant
def _fused(
    robot: Robot, functions: Sequence[str], arrays: int, options: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """Return the result type, array names and functions of a call of fused functions.

    Returns:
        the names of the results; the names of the positional arrays; function, method, frame and
        reference of each part. All are strings, so a compiler treats them as constants.
    """
    fused = robot.resolver.choose_fused(functions, ())
    fused.check_options(dict.fromkeys(options))
    fused.inputs((None,) * arrays, {})
    idents = dict(zip(robot._description.frame_idents, robot.frame_names, strict=True))
    keys = [part.key for part in fused.parts]
    parts = ((key.function, key.method, idents.get(key.frame), key.reference) for key in keys)
    return tuple(part.name for part in fused.parts), fused.arguments, tuple(parts)


def _operated(function: str, given: Mapping[str, Tensor], words: Words) -> Any:
    operator = OPERATORS[function]
    found = operator.call(*(given.get(name) for name in operator.tensors), words.text)
    return operator.result_type(*found) if isinstance(found, tuple) else found


def _of_frames(
    robot: Robot, function: str, given: Mapping[str, Tensor], words: Words, frames: Any
) -> Any:
    """Evaluate for a link, or for a list of links along an axis.

    One kernel computes all poses; each Jacobian has its own kernel.
    """
    row = OPERATORS[function].row
    names = None if isinstance(frames, str) else listed_frames(frames)
    indices = [robot.resolver.frame_index(name) for name in names or (frames,)]
    if names is None and _has_kernel(robot, function, indices[0]):
        return _operated(function, given, words._replace(frame=frames))
    if row.has_frames:
        chosen = indices[0] if names is None else indices
        return _operated(function, given, words)[..., chosen, :, :]
    found = [_operated(function, given, words._replace(frame=name)) for name in names or ()]
    return torch.stack(found, dim=-1 - len(ARRAYS[row.results[0]].shape))


@_constant
def _has_kernel(robot: Robot, function: str, frame: int) -> bool:
    """Return whether a robot may have a kernel for this link alone."""
    key = KernelKey(function, frame=robot._description.frame_idents[frame])
    return robot._module.kernels.has(key) or not OPERATORS[function].row.has_frames


def _without_gradients(
    function: str, arrays: Sequence[Any], options: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments without a recorded history of derivatives.

    Raises:
        OptionError: an argument requires a gradient.
    """
    every = [one for one in (*arrays, *options.values()) if isinstance(one, torch.Tensor)]
    is_lost = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in every)
    is_held = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    is_held = is_held or torch._C._get_tracing_state() is not None
    if is_lost or is_held or forward_ad._current_level >= 0 or every[0].dim() > 2:
        _refuse_out(function)

    def bare(value: Any) -> Any:
        return value.detach() if isinstance(value, torch.Tensor) else value

    return tuple(map(bare, arrays)), {name: bare(value) for name, value in options.items()}


def _listed(out: Any) -> tuple[Any, ...]:
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def _refuse_out(function: str) -> None:
    raise OptionError(
        f"{function}: a call that is differentiated, mapped over axes or compiled, or whose batch "
        "has several axes, has no out=; omit it"
    )


def tensors(given: Mapping[str, Any], q: Tensor) -> dict[str, Tensor]:
    """Return arguments as tensors; other numbers with the type and device of ``q``."""
    return {name: _tensor(value, name, q) for name, value in given.items()}


def _tensor(value: Any, name: str, q: Tensor) -> Tensor:
    """Return an argument as a tensor; other numbers with the type and device of ``q``."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, Real) and not isinstance(value, bool):
        return torch.full((), float(value), dtype=q.dtype, device=q.device)
    try:
        if hasattr(value, "dtype"):
            return torch.as_tensor(value)
        _check_plain(value, name)
        return torch.as_tensor(value, dtype=q.dtype, device=q.device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DtypeError(f"{name} cannot be read as a tensor: {one_line(error)}") from error


def _check_plain(value: Any, name: str) -> None:
    """Raise for a sequence of tensors, whose derivatives would be lost."""
    if isinstance(value, torch.Tensor):
        raise DtypeError(f"{name} is a sequence of tensors; give torch.stack of them")
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_plain(item, name)
