"""Functions as PyTorch operators, such as ``torch.ops.gridgen.inverse_dynamics``.

Each is declared from a function's record: its arrays by name, then strings for the robot and for
each option of a call. Their VJPs and JVPs are operators too (``inverse_dynamics_vjp``), and so are
the VJPs and JVPs of these. Importing this module registers all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import torch

from gridgen.errors import OptionError
from gridgen.frameworks.torch.batches import Shape, arrays_of
from gridgen.frameworks.torch.operator import (
    NAMESPACE,
    Further,
    Operator,
    OperatorCall,
    Saved,
    Tensor,
    Tensors,
    Words,
    settings_of,
)
from gridgen.functions import FUNCTIONS, GENERATED, Function
from gridgen.functions.arrays import FEEDBACK, cotangent, tangent
from gridgen.functions.calls import Request
from gridgen.kernel import result_type

# Products of products are the last.
_MAX = 2
# Functions whose derivatives read their results: accelerations, in place of joint torques, and the
# states of a rollout.
_READ_AGAIN = ("forward_dynamics", "rollout")


class Derivable(Operator):
    """An operator whose VJP and JVP have kernels."""

    #: the array of each tensor, or the array that it is a derivative of or by.
    arrays: dict[str, str]
    possible: tuple[str, ...]  #: all possible results, by name.
    #: kinds of the product and of the product that it differentiates; empty for a function.
    kinds: tuple[str, ...] = ()

    @abstractmethod
    def results(self, further: Further) -> list[str]:
        """Return the names of its results."""

    def register_products(self) -> None:
        """Register all its derivative products: exported programs may call any of them."""
        for kind in ("vjp", "jvp"):
            if self._has_product(kind):
                getattr(self, kind).register_products()

    @cached_property
    def vjp(self) -> Product:
        """The vector-Jacobian product."""
        return Product(self, "vjp")

    @cached_property
    def jvp(self) -> Product:
        """The Jacobian-vector product."""
        return Product(self, "jvp")

    def pullback(self, saved: Saved, cotangents: Sequence[Any], wrt: Sequence[str]) -> Tensors:
        """See ``Operator``."""
        self._check_order("vjp")
        if saved.call.kernel.calls:  # the backward pass of rollouts reads all cotangents
            pairs = zip(cotangents, saved.results, strict=True)
            cotangents = [torch.zeros_like(path) if bar is None else bar for bar, path in pairs]
        results = self.results(saved.further)
        given = {cotangent(n): one for n, one in zip(results, cotangents, strict=True)}
        return dict(zip(wrt, self.vjp.of_saved(saved, given, wrt), strict=True))

    def pushforward(self, saved: Saved, tangents: Tensors) -> Sequence[Tensor]:
        """See ``Operator``."""
        self._check_order("jvp")
        order = [*saved.call.kernel.inputs]
        wrt = [n for n in (*order, *self.inputs) if n in tangents]
        given = {tangent(name): tangents[name] for name in wrt}
        return self.jvp.of_saved(saved, given, [*dict.fromkeys(wrt)])

    def _check_order(self, kind: str) -> None:
        """Raise if it has no such derivative product."""
        if self._has_product(kind):
            return
        is_rollout = self.row.name == "rollout"
        remedy = "call step in a loop for them" if is_rollout else "nest fewer transforms"
        products = " of ".join((kind, *reversed(self.kinds), self.row.name))
        raise OptionError(f"{products} does not exist; {remedy}")

    def _has_product(self, kind: str) -> bool:
        most = 1 if self.row.name == "rollout" else _MAX
        return len(self.kinds) < most and (*self.kinds, kind) != ("jvp", "jvp")


class Evaluation(Derivable):
    """A function."""

    def __init__(self, row: Function) -> None:
        followed = FEEDBACK if row.name == "rollout" else ()
        inputs = (*arrays_of(row), *followed)
        self.arrays = {name: name for name in (*inputs, *row.results)}
        self.possible, self.saves_results = row.results, row.name in _READ_AGAIN
        self.result_type: Any = exported_type(row.results) if len(row.results) > 1 else None
        returns = ", ".join("Tensor" for _ in row.results)
        super().__init__(
            row.name, row, inputs, (), returns if len(row.results) == 1 else f"({returns})", ()
        )

    def results(self, further: Further) -> list[str]:
        """See ``Derivable``."""
        return [*self.row.results]

    def evaluate(self, call: OperatorCall, words: Words, further: Further) -> Sequence[Tensor]:
        """See ``Operator``."""
        arrays = tuple(call.given[name] for name in self.row.arguments)
        options = _optional(call, self.row)
        if words.backend:
            options["backend"] = words.backend
        frame = words.frame or None
        settings = settings_of(words, call.given) if call.kernel.calls else None
        choices = (words.schedule, words.method, frame, words.reference, settings)
        found = call.robot._call(Request(self.row.name, arrays, None, options, *choices))
        results = found if isinstance(found, tuple) else (found,)
        return [call.batch.restored(result) for result in results]

    def states(self, call: OperatorCall, further: Further) -> list[Shape]:
        """See ``Operator``."""
        return [*call.batch.outputs.values()]


class Product(Derivable):
    """A derivative product of a function, or of a product.

    Args:
        of:   the function or product.
        kind: ``vjp``, cotangents of selected inputs; ``jvp``, tangents of the results.
    """

    def __init__(self, of: Derivable, kind: str) -> None:
        self._of, self.kinds = of, (*of.kinds, kind)
        if kind == "vjp":
            given, returned = (tuple(map(cotangent, names)) for names in (of.possible, of.inputs))
            arrays = [of.arrays[name] for name in (*of.possible, *of.inputs)]
        else:
            given, returned = (tuple(map(tangent, names)) for names in (of.inputs, of.possible))
            arrays = [of.arrays[name] for name in (*of.inputs, *of.possible)]
        self.possible = returned
        own = dict(zip((*given, *returned), arrays, strict=True))
        self.arrays = {**of.arrays, **own}
        known = () if of.kinds else tuple(map(_known, of.row.results))
        further = ("inner", "wrt")[-len(self.kinds) :]
        inputs = (*of.inputs, *given)
        super().__init__(f"{of.name}_{kind}", of.row, inputs, known, "Tensor[]", further)

    def results(self, further: Further) -> list[str]:
        """See ``Derivable``."""
        if self.kinds[-1] == "vjp":
            return [cotangent(name) for name in further[-1]]
        return [tangent(name) for name in self._of.results(further[:-1])]

    def of_saved(self, saved: Saved, given: Tensors, wrt: Sequence[str]) -> Sequence[Tensor]:
        """Return the product for a call that a graph node stores."""
        tensors = {**saved.call.given, **given}
        if saved.results:
            tensors |= dict(zip(map(_known, self.row.results), saved.results, strict=True))
        found: Sequence[Tensor] = self.call(
            *map(tensors.get, self.tensors), saved.words.text, *saved.further, wrt
        )
        return found

    def states(self, call: OperatorCall, further: Further) -> list[Shape]:
        """See ``Operator``."""
        shapes = {
            **call.batch.inputs,
            **dict(zip(self.row.results, call.batch.outputs.values(), strict=True)),
        }
        return [shapes[self.arrays[name]] for name in self.results(further)]

    def evaluate(self, call: OperatorCall, words: Words, further: Further) -> Sequence[Tensor]:
        """See ``Operator``."""
        row, of = self.row, self._of
        options = {**_optional(call, row), **_choices(row, words)}
        known = [call.given.get(_known(name)) for name in row.results]
        if not of.kinds and all(one is not None for one in known):
            options["results"] = _alone(known)
        if call.kernel.calls:
            settings = settings_of(words, call.given)
            options |= {"substeps": settings.substeps, "store_every": settings.store_every}
            options |= {"feedback": settings.feedback, "effort_limits": settings.effort_limits}
        name, changes = row.name, [self._changes(call, further)]
        if of.kinds:
            assert isinstance(of, Product)
            name = f"{name}:{of.kinds[0]}:{','.join(further[0])}"
            changes.append(of._changes(call, further[:1]))
        arguments = [call.given[name] for name in row.arguments]
        ask = getattr(call.robot, self.kinds[-1])
        wrt = tuple(self._own(call, name) for name in further[-1])
        found = ask(name, *changes, *arguments, wrt=wrt, **options)
        if self.kinds[-1] == "jvp":
            found = found[1]
        return [
            call.batch.restored(one) for one in (found if isinstance(found, tuple) else (found,))
        ]

    def _changes(self, call: OperatorCall, further: Further) -> Any:
        """Return its cotangents or tangents in the form of the robot's methods."""
        if self.kinds[-1] == "jvp":
            return _alone([call.given.get(tangent(name)) for name in further[-1]])
        bars = [call.given.get(cotangent(name)) for name in self._of.results(further[:-1])]
        if self._of.kinds == ("jvp",):  # the robot also returns the results
            bars = [*(None for _ in self.row.results), *bars]
        return _alone(bars)

    def _own(self, call: OperatorCall, name: str) -> str:
        """Return the kernel's name of a tensor: a frame's pose is not poses."""
        array = self.arrays[name]
        own = dict(zip(self.row.results, call.kernel.outputs, strict=True)).get(array, array)
        return own + name.removeprefix(array)


@cache
def exported_type(names: tuple[str, ...]) -> Any:
    """Return the type of several results, with a name by which exported programs store it."""
    kind, name = result_type(names), ".".join((NAMESPACE, *names))
    torch.utils._pytree._register_namedtuple(kind, serialized_type_name=name)
    return kind


def _known(result: str) -> str:
    """Return the name of a result as an input of a product: interpolate's q is not an argument."""
    return f"{result}_result"


def _alone(values: Sequence[Any]) -> Any:
    """Return several values as a tuple, a single one as itself."""
    return values[0] if len(values) == 1 else tuple(values)


def _optional(call: OperatorCall, row: Function) -> dict[str, Any]:
    """Return the optional arrays that are given."""
    return {n: call.given[n] for n in arrays_of(row)[len(row.arguments) :] if n in call.given}


def _choices(row: Function, words: Words) -> dict[str, Any]:
    """Return the keyword arguments of a call's strings, for derivatives of a function.

    A method without a traced program has the derivatives of the others.
    """
    chosen = {"backend": words.backend} if words.backend else {}
    if "" not in row.methods:
        traced = words.method in row.methods and row.methods[words.method].algorithm
        is_meant = row.method_word != "method" or traced
        chosen[row.method_word] = words.method if is_meant else "auto"
    if words.frame:
        chosen[row.words[0]] = words.frame
    if row.of_frame:
        chosen["reference"] = words.reference
    return chosen


#: The operator of each function of generated code.
OPERATORS: dict[str, Evaluation] = {name: Evaluation(FUNCTIONS[name]) for name in GENERATED}
for _operator in OPERATORS.values():
    _operator.register_products()
