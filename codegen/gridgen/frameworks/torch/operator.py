"""What PyTorch asks of an operator, answered once for all functions.

Shapes, derivatives, what a mapped axis means: with these an operator can be differentiated, mapped
and compiled like one of PyTorch's own. It computes with tensors of any batch; the robot computes
with one axis.
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
from gridgen.runtime.module.registry import robot_of

# Tensors that the engine of derivatives maps over an axis by itself: ``is_grads_batched``.
_BATCHED_BY_AUTOGRAD = "Batched"
NAMESPACE = "gridgen"
LIBRARY: Any = torch.library.Library(NAMESPACE, "DEF")
Tensor = Any
Tensors = dict[str, Any]
# Types that ``torch.autocast`` computes in.
_LOWER = (torch.float16, torch.bfloat16)
#: Selections of names, of a product and of the product that it is of.
Further = tuple[Sequence[str], ...]


class Words(NamedTuple):
    """What a call says beside its arrays.

    Attributes:
        robot:     handle of the robot.
        schedule:  as users choose it, ``auto`` for a function that has no choice.
        method:    likewise; or the integrator.
        frame:     the link of a function of a frame, or none.
        reference: what the link is seen from, or nothing.
        backend:   what computes it; nothing for the robot's own choice.
        course:    of a rollout, how it goes: see ``course_of``.
    """

    robot: str
    schedule: str = "auto"
    method: str = "auto"
    frame: str = ""
    reference: str = ""
    backend: str = ""
    course: str = ""


class Asked(NamedTuple):
    """A call: what computes it, and the states that it is about.

    Attributes:
        robot:  whose function it is.
        kernel: whose arrays it has, that of the thread schedule.
        batch:  the shapes of its arrays.
        given:  its arrays that are given, by name.
    """

    robot: Any
    kernel: Kernel
    batch: Batch
    given: dict[str, Tensor]


class Saved(NamedTuple):
    """What a node of the graph keeps of a call.

    Attributes:
        asked:   the call.
        words:   what it said beside its tensors.
        further: selections of names.
        results: what it returned, if its derivatives read that.
    """

    asked: Asked
    words: Words
    further: Further
    results: Sequence[Tensor]


class Operator(ABC):
    """One operator, and the rules that PyTorch goes by.

    Args:
        name:    in the namespace.
        row:     the function.
        inputs:  names of the tensors that it has derivatives by.
        known:   names of further tensors, results that need not be computed again.
        returns: its results, as a schema has them.
        further: what a call says beside words: selections of names.

    Attributes:
        keeps_results: whether derivatives read what it returned.
    """

    keeps_results = False

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
        declared += [f"str {word}" for word in Words._fields]
        declared += [f"str[] {one}" for one in further]
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

    # -- what an operator of a kind says of itself --------------------------------------------

    @abstractmethod
    def evaluate(self, asked: Asked, words: Words, further: Further) -> Sequence[Tensor]:
        """Return the results for plain tensors with one axis for the batch, or none."""

    @abstractmethod
    def states(self, asked: Asked, further: Further) -> list[Shape]:
        """Return the shapes of the results of one state."""

    @abstractmethod
    def pullback(self, saved: Saved, cotangents: Sequence[Any], wrt: Sequence[str]) -> Tensors:
        """Return the cotangents of some inputs, for each state."""

    @abstractmethod
    def pushforward(self, saved: Saved, tangents: Tensors) -> Sequence[Tensor]:
        """Return the tangents of the results."""

    # -- rules --------------------------------------------------------------------------------

    def split(self, arguments: Sequence[Any]) -> tuple[Tensors, Words, Further]:
        """Return the tensors that are given, by name, the words, and what comes after them."""
        count = len(self.tensors)
        given = {
            name: tensor
            for name, tensor in zip(self.tensors, arguments, strict=False)
            if tensor is not None
        }
        words = Words(*arguments[count : count + len(Words._fields)])
        return given, words, tuple(arguments[count + len(Words._fields) :])

    def asked(self, given: dict[str, Tensor], words: Words) -> Asked:
        """Return what a call is about; its arrays are checked but for their numbers."""
        robot = robot_of(words.robot)
        kernel = kernel_of(robot, self.row, words, given)
        shapes = {name: one.shape for name, one in given.items() if name in kernel.inputs}
        course = course_of(words, given) if kernel.calls else None
        batch = batch_of(robot.name, kernel, self.row, shapes, course)
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
        return Asked(robot, kernel, batch, given)

    def _evaluated(self, *arguments: Any) -> Any:
        given, words, further = self.split(arguments)
        asked = self.asked({name: plain(tensor) for name, tensor in given.items()}, words)
        flat = {name: asked.batch.flat(name, tensor) for name, tensor in asked.given.items()}
        is_on_host = all(tensor.device.type == "cpu" for tensor in flat.values())
        if is_on_host:  # NumPy's arrays are looked at by compiled code
            flat = {name: tensor.numpy() for name, tensor in flat.items()}
        results = self.evaluate(asked._replace(given=flat), words, further)
        if is_on_host:
            results = [torch.from_numpy(one) for one in results]
        return self._returned([one.contiguous() for one in results])

    def _faked(self, *arguments: Any) -> Any:
        given, words, further = self.split(arguments)
        asked = self.asked(given, words)
        q = given[asked.kernel.first]
        axes = asked.batch.axes
        return self._returned(
            [q.new_empty((*axes, *state)) for state in self.states(asked, further)]
        )

    def _returned(self, results: Sequence[Tensor]) -> Any:
        """Return results as the schema has them."""
        if self._returns == "Tensor":
            return results[0]
        return list(results) if self._returns == "Tensor[]" else tuple(results)

    def _differentiable(self, keyset: Any, *arguments: Any) -> Any:
        """Compute, and let PyTorch know of the derivatives, at one level of its transforms."""
        count = len(self.tensors)
        # Tensors first: a node of the graph takes them one by one.
        allowed: Any = nullcontext()
        if torch._C._are_functorch_transforms_active():
            allowed = enable_single_level_autograd_function()
        with allowed:
            results = self._node.apply(keyset, arguments[count:], *arguments[:count])
        return self._returned(results)

    def _make_node(self, name: str) -> Any:
        """Return the node that a call leaves in the graph of derivatives."""

        def forward(keyset: Any, rest: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
            # Transforms further out shall see what happens here.
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
            ctx.robot = robot_of(ctx.rest[0])  # stays as long as the graph
            ctx.set_materialize_grads(False)
            kept = output if self.keeps_results else ()
            ctx.save_for_backward(*tensors, *kept)
            ctx.save_for_forward(*tensors, *kept)

        def saved(ctx: Any) -> Saved:
            count, tensors = len(self.tensors), ctx.saved_tensors  # which can be read once
            given, words, further = self.split((*tensors[:count], *ctx.rest))
            asked = self.asked(given, words)
            return Saved(asked, words, further, tensors[count:])

        def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
            state = saved(ctx)
            needed = dict(zip(self.tensors, ctx.needs_input_grad[2:], strict=True))
            order = {name: place for place, name in enumerate(state.asked.kernel.inputs)}
            wrt = [name for name in self.inputs if needed[name] and name in state.asked.given]
            wrt.sort(key=lambda name: order.get(name, len(order)))  # those of the kernel come first
            if not wrt or all(one is None for one in cotangents):
                return (None,) * (2 + len(self.tensors))
            found = self.pullback(state, cotangents, wrt)
            axes = tuple(range(len(state.asked.batch.axes)))
            for name in state.asked.batch.alone & found.keys():
                found[name] = found[name].sum(axes)
            return (None, None, *map(found.get, self.tensors))

        def jvp(ctx: Any, *tangents: Tensor) -> tuple[Any, ...]:
            state = saved(ctx)
            batch = state.asked.batch
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
        batch = self.asked(states, words).batch
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
        """Compute for the axis that PyTorch's engine maps, which has a way of its own to."""
        count = len(self.tensors)
        level = torch._C._vmapmode_increment_nesting() - 1
        torch._C._vmapmode_decrement_nesting()
        # Those that are not mapped have an axis of extent 1 now.
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
        """Compute in float32 what ``torch.autocast`` has made less of, as PyTorch's solvers do."""
        count = len(self.tensors)
        tensors = [
            one.float() if one is not None and one.dtype in _LOWER else one
            for one in arguments[:count]
        ]
        with torch._C._DisableAutocast():
            return self.call(*tensors, *arguments[count:])

    def _serves_all(self, name: str, tensor: Tensor) -> bool:
        """Tell whether a tensor of one state is an argument that serves a batch as it is."""
        # The first has the axes of the batch, also where cotangents alone are mapped.
        if name == self.row.arguments[0] or name not in arrays_of(self.row):
            return False
        return name == "tau" or tensor.dim() == len(ARRAYS[name].shape)


class _Axis(NamedTuple):
    """A mapped axis, as rules for it have it."""

    batch_size: int


def _listed(results: Any) -> Sequence[Tensor]:
    return results if isinstance(results, (list, tuple)) else (results,)


def course_of(words: Words, given: Mapping[str, Tensor]) -> RolloutSettings:
    """Return how a rollout goes."""
    substeps, keep, limits = words.course.split()
    follow = tuple(given[name] for name in FEEDBACK if name in given)
    kept = int(keep) if keep.isdigit() else keep
    return RolloutSettings(int(substeps), kept, follow or None, limits == "limits")


def kernel_of(robot: Any, row: Function, words: Words, given: Mapping[str, Tensor]) -> Kernel:
    """Return the kernel whose arrays a call has."""
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
    """Return a tensor's numbers, without what derivatives have noted beside them."""
    return tensor.detach().resolve_neg()
