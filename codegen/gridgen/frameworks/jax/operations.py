"""What the primitive computes: a kernel of a robot, or a product with its derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from gridgen.errors import ModelError
from gridgen.functions.arrays import cotangent, tangent
from gridgen.kernel import Kernel, KernelKey, Shape
from gridgen.runtime.description import Module


@dataclass(frozen=True)
class Operation:
    """What a kernel of a robot computes, as JAX sees it.

    Attributes:
        module: the robot's description, kernels and text.
        key:    which kernel.
    """

    module: Module = field(repr=False)
    key: KernelKey
    products: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __repr__(self) -> str:
        return f"{self.module.description.name}.{self.key.name}"

    @cached_property
    def kernel(self) -> Kernel:
        """Its record."""
        if not self.products:
            return self.module.kernels.find(self.key)
        if len(self.products) == 1:  # both kinds read the same
            return self.module.kernels.find(self.key.product("vjp", self.products[0][1]))
        raise ModelError(f"{self}: no second derivatives yet")

    @cached_property
    def kind(self) -> str:
        """``vjp`` or ``jvp`` for a product with the derivative of something; else nothing."""
        return self.products[-1][0] if self.products else ""

    @property
    def wrt(self) -> tuple[str, ...]:
        """Of a product, the inputs of that whose derivative it is by which it is taken."""
        return self.products[-1][1]

    @cached_property
    def of(self) -> Operation:
        """What it is the product with the derivative of."""
        return Operation(self.module, self.key, self.products[:-1])

    @cached_property
    def results(self) -> Mapping[str, Shape]:
        """Of a product, results of what it is of that are given in place of something else.

        Accelerations are: they take less to differentiate than what leads to them.
        """
        found = self.of.outputs if self.kind else {}
        return {name: shape for name, shape in found.items() if name in self.kernel.inputs}

    @cached_property
    def linear(self) -> Mapping[str, Shape]:
        """Of a product, the inputs that it is linear in: cotangents, or tangents."""
        if self.kind == "vjp":
            return {cotangent(name): shape for name, shape in self.of.outputs.items()}
        if self.kind == "jvp":
            return {tangent(name): self.of.inputs[name] for name in self.wrt}
        return {}

    @cached_property
    def inputs(self) -> Mapping[str, Shape]:
        """Shapes of its operands for one state, in order.

        Those of a product: the operands of what it is of, results of that, what it is linear in.
        It depends on the results through the operands alone.
        """
        if not self.kind:
            return self.kernel.inputs
        return {**self.of.inputs, **self.results, **self.linear}

    @cached_property
    def outputs(self) -> Mapping[str, Shape]:
        """Shapes of what it returns, for one state, in order."""
        if self.kind == "vjp":
            return {cotangent(name): self.of.inputs[name] for name in self.wrt}
        if self.kind == "jvp":
            return {tangent(name): shape for name, shape in self.of.outputs.items()}
        return self.kernel.outputs

    @cached_property
    def differentiable(self) -> tuple[str, ...]:
        """The operands that it depends on."""
        results: Mapping[str, Shape] = self.results
        inner = self.of.differentiable if self.kind else tuple(self.inputs)
        return (*(name for name in inner if name not in results), *self.linear)

    def product(self, kind: str, wrt: Iterable[str]) -> Operation:
        """Return a product with its derivative by some operands."""
        return Operation(self.module, self.key, (*self.products, (kind, tuple(wrt))))


class Target(NamedTuple):
    """How XLA calls kernels on one platform.

    Attributes:
        name:       what it calls the handler.
        add_kernel: has a kernel compiled for an element type, and returns the number by which the
                    handler knows it.
    """

    name: str
    add_kernel: Callable[[Operation, str], Any]
