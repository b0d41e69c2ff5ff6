"""Operations of the primitive: kernels of a robot, products with derivatives; XLA's handler."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax

from gridgen.backends import Sources
from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import shared_library
from gridgen.backends.cpu.units import FLAGS
from gridgen.errors import ModelError
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import ARRAYS, cotangent, tangent
from gridgen.functions.types import Dtype
from gridgen.kernel import Kernel, KernelKey, Shape
from gridgen.runtime.module.description import Module
from gridgen.template_root import static_text

# Derivatives end with products of products.
_MAX_PRODUCTS = 2


@dataclass(frozen=True)
class Operation:
    """A kernel of a robot, as an operation of JAX."""

    module: Module = field(repr=False)  #: the robot's description, kernels and text.
    key: KernelKey  #: key of the kernel.

    def __repr__(self) -> str:
        return f"{self.module.description.name}.{self.key.name}"

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel that computes it; that of a product may be with respect to more inputs.

        Raises:
            ModelError: no such kernel exists.
        """
        if len(self.key.products) > _MAX_PRODUCTS:
            raise ModelError(
                f"{self.module.description.name}: no {self.key.name}: derivatives of "
                f"{self.key.function} end with the second"
            )
        kernels = self.module.kernels
        if self.kind and not kernels.has(self.key):  # a generated module's is by all arguments
            arguments = FUNCTIONS[self.key.function].differentiable
            whole = self.of.key.product(self.kind, arguments)
            if set(self.wrt) <= set(arguments) and kernels.has(whole):
                return kernels.find(whole)
        return kernels.find(self.key)

    @cached_property
    def kind(self) -> str:
        """``vjp`` or ``jvp`` for a product, otherwise empty."""
        return self.key.products[-1].kind if self.key.products else ""

    @property
    def wrt(self) -> tuple[str, ...]:
        """Of a product, the inputs to differentiate by."""
        return self.key.products[-1].wrt

    @cached_property
    def of(self) -> Operation:
        """Of a product, the operation whose derivative it uses."""
        return Operation(self.module, replace(self.key, products=self.key.products[:-1]))

    @property
    def is_second_pushforward(self) -> bool:
        """Whether it is the pushforward of a pushforward, which has no kernel."""
        return [product.kind for product in self.key.products] == ["jvp", "jvp"]

    @cached_property
    def results(self) -> Mapping[str, Shape]:
        """Of a product, the results of the function that replace some of its inputs.

        Accelerations do: their derivatives cost less than those of forward dynamics.
        """
        if not self.kind or self.is_second_pushforward:
            return {}
        try:
            kernel = self.kernel
        except ModelError:  # a module may only have the other kind, which reads the same arrays
            kernel = self.transpose.kernel
        return {name: shape for name, shape in self.of.outputs.items() if name in kernel.inputs}

    @property
    def transpose(self) -> Operation:
        """Of a product, the product of the other kind."""
        return self.of.product("vjp" if self.kind == "jvp" else "jvp", self.wrt)

    @property
    def parts(self) -> list[Operation]:
        """Of fused functions, each function."""
        return [
            Operation(self.module, replace(part, inputs=self._read_by(part)))
            for part in self.key.parts
        ]

    def _read_by(self, part: KernelKey) -> tuple[str, ...]:
        read = FUNCTIONS[part.function].optional_inputs
        return tuple(name for name in self.key.inputs if name in read)

    @cached_property
    def linear(self) -> Mapping[str, Shape]:
        """Of a product, its linear inputs: cotangents, or tangents."""
        if self.kind == "vjp":
            return {cotangent(name): shape for name, shape in self.of.outputs.items()}
        if self.is_second_pushforward:  # in addition to the tangents of its pushforward
            return {f"second_{tangent(name)}": self.of.inputs[name] for name in self.wrt}
        if self.kind == "jvp":
            return {tangent(name): self.of.inputs[name] for name in self.wrt}
        return {}

    @cached_property
    def inputs(self) -> Mapping[str, Shape]:
        """Shapes of its operands for one state, in order.

        Of a product: operands of the function, its results, linear inputs. It depends on the
        results through the operands alone.
        """
        if not self.kind:
            return self.kernel.inputs
        return {**self.of.inputs, **self.results, **self.linear}

    @cached_property
    def outputs(self) -> Mapping[str, Shape]:
        """Shapes of its results for one state, in order."""
        if self.kind == "vjp":
            return {cotangent(name): self.of.inputs[name] for name in self.wrt}
        if self.kind == "jvp":
            return {tangent(name): shape for name, shape in self.of.outputs.items()}
        return self.kernel.outputs

    @cached_property
    def differentiable(self) -> tuple[str, ...]:
        """The operands that it depends on."""
        if not self.kind:
            return tuple(name for name in self.inputs if not ARRAYS[name].is_fixed)
        inner = (name for name in self.of.differentiable if name not in self.results)
        return (*inner, *self.linear)

    def product(self, kind: str, wrt: Iterable[str]) -> Operation:
        """Return a product with its derivative with respect to some operands."""
        return Operation(self.module, self.key.product(kind, wrt))


#: Maximum number of a call's arrays.
MAX_ARRAYS = 48

_HEADER, _INTERFACE = "gridgen_xla.h", "xla_ffi_c_api.h"


@dataclass(frozen=True)
class Request:
    """A call of a program of XLA."""

    operation: Operation  #: operation of its kernel.
    dtype: Dtype  #: type of all arrays.
    states: int  #: number of states.
    strides: tuple[int, ...]  #: strides of states and of components, for each array, inputs first.
    scratch: int  #: scratch numbers per state, in the kernel's last array.
    launched: int  #: most states of a launch.


class Target(NamedTuple):
    """The handler of one platform."""

    name: str  #: name of the handler in XLA.
    #: compiles a kernel, and returns the handler's attributes for a call.
    attributes: Callable[[Request], dict[str, Any]]
    scratch: Callable[[Operation], int]  #: returns a kernel's scratch numbers per state.
    #: returns the most states of a launch: of these numbers, the states, and bytes of a number.
    launched: Callable[[int, int, int], int]


@cache
def handler(name: str, unit: str, platform: str) -> ctypes.CDLL:
    """Return the library of a handler, registered with XLA.

    Args:
        name:     name of the handler in XLA.
        unit:     its file of ``templates/static``.
        platform: XLA's name of the devices.
    """
    interface = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    files = {_HEADER: static_text(_HEADER), _INTERFACE: interface.read_text(encoding="utf-8")}
    sources, text = Sources("gridgen", files), static_text(unit)
    library = shared_library(sources, "the handler for XLA", text, FLAGS, BuildCache())
    found = ctypes.CDLL(str(library))
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(found.gridgen_call), platform=platform)
    return found


def number_of(code: bytes, function: str) -> int:
    """Return a handler's number of a function, equal for code of the same content."""
    digest = hashlib.blake2s(code + function.encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")
