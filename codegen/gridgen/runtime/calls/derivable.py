"""Differentiable functions: valid inputs and products of derivatives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gridgen.errors import OptionError
from gridgen.functions.arrays import ARRAYS, FEEDBACK, cotangent, tangent
from gridgen.kernel import KernelKey, Shape
from gridgen.naming import show, show_value, similar


@dataclass(frozen=True)
class Derivable:
    """A function or a product that can be differentiated."""

    key: KernelKey  #: key of its kernel.
    arguments: tuple[str, ...]  #: the inputs to differentiate by, by default.
    inputs: Mapping[str, Shape]  #: shapes, for one state, of all differentiable inputs.
    outputs: Mapping[str, Shape]  #: shapes of its results.

    def given(self, kind: str, wrt: Iterable[str]) -> dict[str, Shape]:
        """Return the arrays that a product reads in addition to the inputs."""
        if kind == "vjp":
            return {cotangent(name): shape for name, shape in self.outputs.items()}
        return {tangent(name): self.inputs[name] for name in wrt}

    def product(self, kind: str, wrt: tuple[str, ...]) -> Derivable:
        """Return a derivative product."""
        given = self.given(kind, wrt)
        outputs = {cotangent(name): self.inputs[name] for name in wrt}
        if kind == "jvp":
            changes = {tangent(name): shape for name, shape in self.outputs.items()}
            outputs = {**self.outputs, **changes}
        inputs = {**self.inputs, **given}
        return Derivable(self.key.product(kind, wrt), (*self.arguments, *given), inputs, outputs)


def checked_wrt(wrt: Sequence[str] | None, of: Derivable) -> tuple[str, ...]:
    """Return the names of the inputs to differentiate by, in their order."""
    if wrt is None:
        return of.arguments
    names = [wrt] if isinstance(wrt, str) else wrt
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise OptionError(f"wrt is {show_value(wrt)}; give names of {', '.join(of.inputs)}")
    names = [*names]
    inputs = [name for name in of.inputs if name not in FEEDBACK and not ARRAYS[name].is_fixed]
    for name in names:
        if name in FEEDBACK:
            raise OptionError(
                f"wrt names {name}, of a controller: its derivatives follow from those by tau, to "
                "which K x is added: by K they are their products with x"
            )
        if name not in inputs:
            near = similar(name, inputs) or inputs
            raise OptionError(
                f"wrt names {show_value(name)}, which {of.key.function} does not read "
                f"here; the nearest are {', '.join(map(show, near))}"
            )
    if len(set(names)) < len(names) or names != [name for name in inputs if name in names]:
        order = ", ".join(name for name in inputs if name in names)
        raise OptionError(f"wrt is {show_value(wrt)}; give each name once, in this order: {order}")
    if not names:
        raise OptionError(f"wrt is empty; name some of {', '.join(inputs)}")
    return tuple(names)
