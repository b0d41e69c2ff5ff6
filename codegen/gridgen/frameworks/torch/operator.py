"""The implementation of a PyTorch operator, common to all functions.

Shapes, derivatives and vmap rules, with which PyTorch differentiates, maps and compiles an operator
like its own. It takes tensors with any batch; the robot computes with one batch axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad

from gridgen.errors import DtypeError
from gridgen.frameworks.torch.batches import Batch, Shape, arrays_of, batch_of
from gridgen.functions import Function
from gridgen.functions.arrays import ARRAYS, FEEDBACK, OPTIONAL_INPUTS
from gridgen.functions.calls import RolloutSettings
from gridgen.kernel import Kernel
from gridgen.runtime.module.description import robot_of

# Tensors that autograd itself maps over an axis: ``is_grads_batched``.
_BATCHED_BY_AUTOGRAD = "Batched"
NAMESPACE = "gridgen"
LIBRARY: Any = torch.library.Library(NAMESPACE, "DEF")
Tensor = Any
Tensors = dict[str, Any]
# Element types of ``torch.autocast``.
_LOWER = (torch.float16, torch.bfloat16)
_BETWEEN = "\x1f"
#: Selections of inputs, of a product and of the product that it differentiates.
Further = tuple[Sequence[str], ...]


class Words(NamedTuple):
    """Options of a call that are not arrays."""

    robot: str  #: handle of the robot.
    schedule: str = "auto"  #: the user's choice, ``auto`` for a function without a choice.
    method: str = "auto"  #: likewise; or the integrator.
    frame: str = ""  #: the link of a function of a frame, or empty.
    reference: str = ""  #: the axes of the result, or empty.
    backend: str = ""  #: the backend; empty for the robot's.
    settings: str = ""  #: options of a rollout: see ``settings_of``.

    @property
    def text(self) -> str:
        """All in one string, because PyTorch allows 64 arguments; XML has no such character."""
        return _BETWEEN.join(self)


class OperatorCall(NamedTuple):
    """A call: its robot, kernel and batch."""

    robot: Any  #: the robot.
    kernel: Kernel  #: kernel of the thread schedule, which declares the arrays.
    batch: Batch  #: shapes of the arrays.
    given: dict[str, Tensor]  #: the given arrays, by name.


class Saved(NamedTuple):
    """Data of a call that a graph node stores."""

    call: OperatorCall  #: the call.
    words: Words  #: its options that are not tensors.
    further: Further  #: selections of names.
    results: Sequence[Tensor]  #: its results, if the derivatives read them.


class Operator(ABC):
    """One operator with PyTorch's rules for it.

    Args:
        name:    name in the namespace.
        row:     the function.
        inputs:  names of its differentiable tensors.
        known:   names of further tensors: known results.
        returns: return type in the schema.
        further: names of further arguments: selections of names.

    Attributes:
        saves_results: whether derivatives read its results.
    """

    saves_results = False

    def __init__(
        self,
        name: str,
        row: Function,
        inputs: Sequence[str],
        known: Sequence[str],
        returns: str,
        further: Sequence[str],
    ) -> None:
        self.name, self.row, self._returns = name, row, returns
        self.inputs, self.tensors = tuple(inputs), (*inputs, *known)
        declared = [f"Tensor{'' if one in row.arguments else '?'} {one}" for one in self.tensors]
        declared += ["str words", *(f"str[] {one}" for one in further)]
        LIBRARY.define(f"{name}({', '.join(declared)}) -> {returns}")
        LIBRARY.impl(name, self._evaluated, "CompositeExplicitAutograd")
        LIBRARY.impl(name, self._differentiable, "Autograd", with_keyset=True)
        full = f"{NAMESPACE}::{name}"
        LIBRARY.impl(name, self._mapped_by_autograd, _BATCHED_BY_AUTOGRAD)
        for device in ("CPU", "CUDA"):
            LIBRARY.impl(name, self._cast, f"Autocast{device}", with_keyset=True)
        torch.library.register_fake(full, self._faked, lib=LIBRARY)
        torch.library.register_vmap(full, self._mapped, lib=LIBRARY)
        self.call = getattr(getattr(torch.ops, NAMESPACE), name).default
        self._node = self._make_node(name)

    # -- defined by each kind of operator -----------------------------------------------------

    @abstractmethod
    def evaluate(self, call: OperatorCall, words: Words, further: Further) -> Sequence[Tensor]:
        """Return the results for plain tensors with at most one batch axis."""

    @abstractmethod
    def states(self, call: OperatorCall, further: Further) -> list[Shape]:
        """Return the shapes of the results of one state."""

    @abstractmethod
    def pullback(self, saved: Saved, cotangents: Sequence[Any], wrt: Sequence[str]) -> Tensors:
        """Return the cotangents of some inputs, for each state."""

    @abstractmethod
    def pushforward(self, saved: Saved, tangents: Tensors) -> Sequence[Tensor]:
        """Return the tangents of the results."""

    # -- rules --------------------------------------------------------------------------------

    def split(self, arguments: Sequence[Any]) -> tuple[Tensors, Words, Further]:
        """Return the given tensors by name, the options, and the further arguments."""
        count = len(self.tensors)
        given = {
            name: tensor
            for name, tensor in zip(self.tensors, arguments, strict=False)
            if tensor is not None
        }
        return given, Words(*arguments[count].split(_BETWEEN)), tuple(arguments[count + 1 :])

    def call_of(self, given: dict[str, Tensor], words: Words) -> OperatorCall:
        """Return a call with validated arrays; their numbers are not validated."""
        robot = robot_of(words.robot)
        kernel = kernel_of(robot, self.row, words, given)
        shapes = {name: one.shape for name, one in given.items() if name in kernel.inputs}
        settings = settings_of(words, given) if kernel.calls else None
        batch = batch_of(robot.name, kernel, self.row, shapes, settings)
        q = given[kernel.first]
        if q.dtype not in (torch.float32, torch.float64):
            raise DtypeError(f"{kernel.first} is of type {q.dtype}; give float32 or float64")
        for name, tensor in given.items():
            if tensor.layout is not torch.strided:
                raise DtypeError(f"{name} has layout {tensor.layout}; give {name}.to_dense()")
            if tensor.dtype != q.dtype:
                raise DtypeError(
                    f"{name} is of type {tensor.dtype}, and {kernel.first} of {q.dtype}; all "
                    "arrays of a call share their type"
                )
        return OperatorCall(robot, kernel, batch, given)

    def _evaluated(self, *arguments: Any) -> Any:
        given, words, further = self.split(arguments)
        call = self.call_of({name: plain(tensor) for name, tensor in given.items()}, words)
        flat = {name: call.batch.flat(name, tensor) for name, tensor in call.given.items()}
        is_on_host = all(tensor.device.type == "cpu" for tensor in flat.values())
        if is_on_host:  # compiled code validates NumPy arrays
            flat = {name: tensor.numpy() for name, tensor in flat.items()}
        results = self.evaluate(call._replace(given=flat), words, further)
        if is_on_host:
            results = [torch.from_numpy(one) for one in results]
        return self._returned([one.contiguous() for one in results])

    def _faked(self, *arguments: Any) -> Any:
        given, words, further = self.split(arguments)
        call = self.call_of(given, words)
        q = given[call.kernel.first]
        axes = call.batch.axes
        return self._returned(
            [q.new_empty((*axes, *state)) for state in self.states(call, further)]
        )

    def _returned(self, results: Sequence[Tensor]) -> Any:
        """Return results in the form of the schema."""
        if self._returns == "Tensor":
            return results[0]
        return list(results) if self._returns == "Tensor[]" else tuple(results)

    def _differentiable(self, keyset: Any, *arguments: Any) -> Any:
        """Compute and record derivatives, at one level of PyTorch's transforms."""
        count = len(self.tensors)
        # Tensors first: a graph node takes them one by one.
        allowed: Any = nullcontext()
        if torch._C._are_functorch_transforms_active():
            allowed = enable_single_level_autograd_function()
        with allowed:
            results = self._node.apply(keyset, arguments[count:], *arguments[:count])
        return self._returned(results)

    def _make_node(self, name: str) -> Any:
        """Return the autograd function of the operator."""

        def forward(keyset: Any, rest: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
            # Outer transforms must record these operations.
            with (
                torch.enable_grad(),
                forward_ad._set_fwd_grad_enabled(True),
                torch._C._AutoDispatchBelowAutograd(),
            ):
                below = keyset & torch._C._after_autograd_keyset
                found = self.call.redispatch(below, *tensors, *rest)
            return (found,) if self._returns == "Tensor" else tuple(found)

        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, ctx.rest, *tensors = inputs
            ctx.robot = robot_of(ctx.rest[0].split(_BETWEEN)[0])  # lives as long as the graph
            ctx.set_materialize_grads(False)
            stored = output if self.saves_results else ()
            ctx.save_for_backward(*tensors, *stored)
            ctx.save_for_forward(*tensors, *stored)

        def saved(ctx: Any) -> Saved:
            count, tensors = len(self.tensors), ctx.saved_tensors  # readable once only
            given, words, further = self.split((*tensors[:count], *ctx.rest))
            call = self.call_of(given, words)
            return Saved(call, words, further, tensors[count:])

        def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
            state = saved(ctx)
            needed = dict(zip(self.tensors, ctx.needs_input_grad[2:], strict=True))
            order = {name: place for place, name in enumerate(state.call.kernel.inputs)}
            wrt = [name for name in self.inputs if needed[name] and name in state.call.given]
            wrt.sort(key=lambda name: order.get(name, len(order)))  # those of the kernel come first
            if not wrt or all(one is None for one in cotangents):
                return (None,) * (2 + len(self.tensors))
            found = self.pullback(state, cotangents, wrt)
            axes = tuple(range(len(state.call.batch.axes)))
            for name in state.call.batch.alone & found.keys():
                found[name] = found[name].sum(axes)
            return (None, None, *map(found.get, self.tensors))

        def jvp(ctx: Any, *tangents: Tensor) -> tuple[Any, ...]:
            state = saved(ctx)
            batch = state.call.batch
            given = {
                name: one.expand(*batch.axes, *one.shape) if name in batch.alone else one
                for name, one in zip(self.tensors, tangents[2:], strict=True)
                if one is not None and name in self.inputs
            }
            return tuple(self.pushforward(state, given))

        rules: tuple[Callable[..., Any], ...] = (forward, setup_context, backward, jvp)
        methods = {rule.__name__: staticmethod(rule) for rule in rules}
        return type(name, (torch.autograd.function._SingleLevelFunction,), methods)

    def _mapped(self, info: Any, in_dims: Sequence[Any], *arguments: Any) -> Any:
        """Compute for a mapped axis: one call for a larger batch."""
        count, extent = len(self.tensors), info.batch_size
        given, words, _ = self.split(arguments)
        dims = dict(zip(self.tensors, in_dims, strict=False))
        moved = {
            name: tensor if dims[name] is None else tensor.movedim(dims[name], 0)
            for name, tensor in given.items()
        }
        states = {
            name: tensor if dims[name] is None else tensor[0] for name, tensor in moved.items()
        }
        batch = self.call_of(states, words).batch
        for name, tensor in moved.items():
            is_whole = name not in batch.alone
            if dims[name] is not None and not is_whole:
                ones = (1,) * len(batch.axes)
                spread = tensor.reshape(extent, *ones, *tensor.shape[1:])
                moved[name] = spread.expand(extent, *batch.axes, *tensor.shape[1:])
            elif (
                dims[name] is None
                and is_whole
                and (batch.axes or not self._serves_all(name, tensor))
            ):
                moved[name] = tensor.expand(extent, *tensor.shape)
        results = self.call(*(moved.get(name) for name in self.tensors), *arguments[count:])
        return results, 0

    def _mapped_by_autograd(self, *arguments: Any) -> Any:
        """Compute for an axis that autograd maps with its own mechanism."""
        count = len(self.tensors)
        level = torch._C._vmapmode_increment_nesting() - 1
        torch._C._vmapmode_decrement_nesting()
        # Tensors that are not mapped have an axis of extent 1 here.
        tensors = [
            None if one is None else torch._remove_batch_dim(one, level, 1, 0)
            for one in arguments[:count]
        ]
        extent = max(one.shape[0] for one in tensors if one is not None)
        dims = [None if one is None or one.shape[0] < extent else 0 for one in tensors]
        given = [
            one[0] if one is not None and dim is None else one
            for one, dim in zip(tensors, dims, strict=True)
        ]
        results, _ = self._mapped(_Axis(extent), dims, *given, *arguments[count:])
        wrapped = [torch._add_batch_dim(one, 0, level) for one in _listed(results)]
        return self._returned(wrapped)

    def _cast(self, keyset: Any, *arguments: Any) -> Any:
        """Compute in float32 what ``torch.autocast`` has reduced, as PyTorch's solvers do."""
        count = len(self.tensors)
        tensors = [
            one.float() if one is not None and one.dtype in _LOWER else one
            for one in arguments[:count]
        ]
        with torch._C._DisableAutocast():
            return self.call(*tensors, *arguments[count:])

    def _serves_all(self, name: str, tensor: Tensor) -> bool:
        """Return whether a tensor is an argument of one state that serves a batch."""
        # The first has the axes of the batch, even if only cotangents are mapped.
        if name == self.row.arguments[0] or name not in arrays_of(self.row):
            return False
        return name == "tau" or tensor.dim() == len(ARRAYS[name].shape)


class _Axis(NamedTuple):
    """A mapped axis, in the form of PyTorch's rules."""

    batch_size: int


def _listed(results: Any) -> Sequence[Tensor]:
    return results if isinstance(results, (list, tuple)) else (results,)


def settings_of(words: Words, given: Mapping[str, Tensor]) -> RolloutSettings:
    """Return the rollout options of a call."""
    substeps, every, limits = words.settings.split()
    follow = tuple(given[name] for name in FEEDBACK if name in given)
    return RolloutSettings(
        int(substeps), int(every) if every.isdigit() else every, follow or None, limits == "limits"
    )


def kernel_of(robot: Any, row: Function, words: Words, given: Mapping[str, Tensor]) -> Kernel:
    """Return the kernel that declares a call's arrays."""
    inputs = tuple(
        name
        for name, optional in OPTIONAL_INPUTS.items()
        if any(array in given for array in optional.arrays)
    )
    frame = words.frame or None
    kernel: Kernel = robot.resolver.kernel(
        row, words.schedule, words.method, frame, words.reference, inputs, ""
    )
    return kernel


def plain(tensor: Tensor) -> Tensor:
    """Return a tensor's numbers, without derivatives."""
    return tensor.detach().resolve_neg()
