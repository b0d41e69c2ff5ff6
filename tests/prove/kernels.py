"""Kernels of robots with all their launches, as terms."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import z3

from fake_gpu.ptx.parser import parse
from gridgen.backends.cuda.backend import MAX_BLOCKS
from gridgen.backends.cuda.compiler import compile_kernel
from gridgen.backends.interface import (
    ITEM_BYTES,
    LARGEST_BLOCK,
    THREAD_SCHEDULE,
    Launch,
    Sources,
    ThreadLaunch,
    launch_of,
)
from gridgen.functions.types import Dtype
from gridgen.kernel import WARP
from gridgen.kernel import Kernel as Record
from prove.execution import Execution, Launched
from prove.terms import NOTHING, Facts, Term, Unknown, number, of

# More than any array has.
_STRIDE = 1 << 60
_MAX_COMPONENT = 2**31 - 1
_PARAMETERS = re.compile(r"gridgen::(?P<kind>\w+)(<[^>]*>)? (?P<name>\w+)|long long n")


@dataclass(frozen=True)
class Argument:
    """An array argument.

    Attributes:
        axes:     stride and extent of elements, times and states: an unknown stride, or 1. The
                  extent of stored times is not known.
        is_dense: whether states are consecutive, and their elements.
        size:     bytes of a dense one.
    """

    axes: tuple[tuple[Term, Term | None], ...]
    is_dense: bool = False
    size: Term = NOTHING


class Kernel:
    """A compiled kernel, run on terms for every launch that the run time admits.

    Args:
        sources:  the robot's module.
        record:   the kernel.
        dtype:    element type.
        arch:     ``compute_75``: the PTX to take.
        rows:     whether to take the row form.
        change:   a change of the PTX, to plant a fault.
    """

    def __init__(
        self,
        sources: Sources,
        record: Record,
        dtype: Dtype,
        arch: str,
        *,
        rows: bool = False,
        change: Callable[[str], str] = lambda text: text,
    ) -> None:
        compiled = compile_kernel(sources, record.name, dtype, arch, rows=rows)
        self.itemsize = ITEM_BYTES[dtype]
        self.facts = Facts()
        self.arguments: dict[Unknown, Argument] = {}
        self._name = f"{record.name}{'_rows' if rows else ''}_kernel"
        self._record, self._sources, self._rows = record, sources, rows
        self.states = Unknown("n", 1, MAX_BLOCKS * 2 * LARGEST_BLOCK)
        self.steps = Unknown("steps", 1, _STRIDE)
        self.grid = Unknown("gridDim", 1, MAX_BLOCKS)
        self.block = Unknown("blockIdx", 0, MAX_BLOCKS - 1)
        self._set_launch(dtype, arch)
        parameters = self._parameters()
        self.execution = Execution(
            parse(change(compiled.image.decode())),
            Launched(self._special(), parameters),
            self.facts,
        )
        self.accesses = self.execution.run(compiled.entry)

    def _set_launch(self, dtype: Dtype, arch: str) -> None:
        """Set the threads, states and shared bytes of a block: of a warp, for any number."""
        team, name = self._record.team, self._record.name
        if team is not None:
            launch = Launch(team.threads_per_block, team.states_per_block)
            self.threads, most = number(launch.threads_per_block), launch.threads_per_block
            self.of_block = number(launch.states_per_block)
            self.shared_bytes = number(team.shared_numbers * self.itemsize)
        else:
            found = launch_of(
                self._sources, name, dtype, THREAD_SCHEDULE, rows=self._rows, arch=arch
            )
            assert isinstance(found, ThreadLaunch)
            most = LARGEST_BLOCK
            self.threads = of(Unknown("warps", 1, most // WARP)).times(WARP)
            self.of_block = self.threads.times(found.states)
            self.shared_bytes = self.threads.times(found.states * found.state_bytes)
        bits = range((most - 1).bit_length())
        self.bits = [Unknown(f"threadIdx&{1 << i}", 0, 1) for i in bits]
        self.thread = _sum(of(bit).times(1 << i) for i, bit in enumerate(self.bits))
        before, known = of(self.block) * self.of_block, self.facts.known
        self.facts.always = [
            known(self.thread - self.threads) < 0,
            known(before - of(self.states)) < 0,
            known(of(self.block) - of(self.grid)) < 0,
        ]

    def _special(self) -> dict[str, Term]:
        return {
            "%tid.x": self.thread,
            "%ntid.x": self.threads,
            "%ctaid.x": of(self.block),
            "%nctaid.x": of(self.grid),
            "%laneid": _sum(of(bit).times(1 << i) for i, bit in enumerate(self.bits[:5])),
            "WARP_SZ": number(WARP),
        }

    def _parameters(self) -> dict[tuple[int, int], Term]:
        """Return the values of parameters, eight bytes each, and enter the arrays."""
        taken = self._sources.rows.get(self._record.name)
        lengths = iter(taken.lengths if taken and self._rows else ())
        shapes = {**self._record.inputs, **self._record.outputs}
        values: dict[tuple[int, int], Term] = {}
        declared = list(_PARAMETERS.finditer(self._text()))
        times = {found["name"]: i for i, found in enumerate(declared) if found["kind"] == "Pair"}
        for i, found in enumerate(declared):
            kind, name = found["kind"], found["name"]
            if kind is None:
                values[i, 0] = of(self.states)
            elif name == "steps_substeps":
                values[i, 0] = of(self.steps)
            elif kind != "Pair":
                time = times.get(f"{name}_time")
                base = Unknown(name, 0, _STRIDE, is_address=True)
                words = self._array(base, shapes.get(name), next(lengths, None), time, values)
                for offset, term in zip((0, 8, 16), (of(base), *words), strict=True):
                    values[i, offset] = term
        return values

    def _array(
        self,
        base: Unknown,
        shape: tuple[int, ...] | None,
        staged: int | None,
        time: int | None,
        values: dict[tuple[int, int], Term],
    ) -> tuple[Term, Term]:
        """Enter an array; return its strides of states and components."""
        name = base.name
        batch = of(Unknown(f"{name}.batch", -_STRIDE, _STRIDE))
        component = of(Unknown(f"{name}.component", -_MAX_COMPONENT, _MAX_COMPONENT))
        if name == "workspace":  # a row for each team of the grid, or none
            team = self._record.team
            assert team is not None
            length = team.workspace_numbers or 0
            size = of(self.grid) * self.of_block.times(length * self.itemsize)
            self.arguments[base] = Argument((), True, size)
            return number(length), number(1)
        length = math.prod(shape) if shape is not None else self._sources.scratch[self._record.name]
        if staged:
            size = of(self.states).times(length * self.itemsize)
            self.arguments[base] = Argument((), True, size)
            return number(length), number(1)
        if staged is not None:
            component = number(1)
        axes: list[tuple[Term, Term | None]] = [(component, number(length))]
        if time is not None:
            step = of(Unknown(f"{name}.time", -_STRIDE, _STRIDE))
            values[time, 0] = step
            axes.append((step, of(self.steps) if name in self._record.inputs else None))
        axes.append((batch, of(self.states)))
        self.arguments[base] = Argument(tuple(axes))
        return batch, component

    def _text(self) -> str:
        """Return the parameters of the kernel in the text."""
        for text in self._sources.files.values():
            at = text.find(f" {self._name}(")
            if at >= 0:
                return text[at : text.index(")", text.index("long long n", at)) + 1]
        raise ValueError(f"no {self._name} in the text")

    def is_uniform(self, unknown: Unknown) -> bool:
        """Whether all threads of a block have one value of an unknown."""
        return unknown.birth == 0 and unknown not in self.bits

    def size_of(self, base: Unknown) -> Term:
        """Return the bytes behind an address that a program may use in any order."""
        if base in self.arguments:
            return self.arguments[base].size
        variable = self.execution.variables[base]
        if variable.space == "shared" and not variable.bytes:
            return self.shared_bytes
        return number(variable.bytes)

    def call(self, model: z3.ModelRef, address: Term) -> str:
        """Return the launch of a counterexample."""

        def value(term: Term) -> int:
            total = 0
            for monomial, factor in term.parts.items():
                for unknown in monomial:
                    factor *= model.eval(unknown.symbol, model_completion=True).as_long()
                total += factor
            return total

        strides = {u for a in self.arguments.values() for s, _ in a.axes for u in s.unknowns}
        values = ", ".join(
            f"{unknown} = {value(of(unknown))}"
            for unknown in sorted(address.unknowns - strides, key=lambda found: found.depth)
            if not unknown.is_address and unknown not in self.bits
        )
        launch = f"{value(self.threads)}, {value(self.shared_bytes)}"
        return (
            f"{self._name}<<<{value(of(self.grid))}, {launch}>>>(n = {value(of(self.states))}), "
            f"block {value(of(self.block))}, thread {value(self.thread)}: {address}; {values}"
        )


def _sum(terms) -> Term:
    return sum(terms, number(0))
