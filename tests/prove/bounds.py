"""Each load and store of a kernel is inside its array, for every launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import z3

from prove.execution import Access, base_of
from prove.kernels import Kernel
from prove.terms import Term, number, of


@dataclass
class Report:
    """What was shown about a kernel: accesses, those proved, and the others with the reason."""

    accesses: int = 0
    proved: int = 0
    open: list[str] = field(default_factory=list)


def prove_bounds(kernel: Kernel) -> Report:
    """Show that accesses are in bounds: all of one place together, else each by itself."""
    report = Report()
    groups: dict[object, dict[object, tuple[Access, list[z3.BoolRef]]]] = {}
    for access in kernel.accesses:
        place = tuple(condition.get_id() for condition in access.conditions)
        group = groups.setdefault(place, {})
        if (access.address, access.bytes) in group:
            continue
        report.accesses += 1
        claims: list[z3.BoolRef] = []
        for claim in _claims(kernel, access):
            if isinstance(claim, str):
                report.open.append(f"{_place(access)}: {claim}")
                break
            claims.append(claim)
        else:
            report.proved += 1
        group[access.address, access.bytes] = access, claims
    for group in groups.values():
        conditions = next(iter(group.values()))[0].conditions
        every = [claim for _, claims in group.values() for claim in claims]
        if not every or kernel.facts.holds(z3.And(*every), conditions):
            continue
        for access, claims in group.values():
            wrong = kernel.facts.model(z3.Not(z3.And(*claims)), *conditions)
            if wrong is not None:
                report.proved -= 1
                text = wrong if isinstance(wrong, str) else kernel.call(wrong, access.address)
                report.open.append(f"{_place(access)}: {text}")
    return report


def _place(access: Access) -> str:
    return f"line {access.line}, {access.opcode}"


def _claims(kernel: Kernel, access: Access) -> Iterator[z3.BoolRef | str]:
    """Yield what shows that an access is in bounds, or why nothing does."""
    base = base_of(access.address)
    if base is None:
        yield f"{access.address} is not the address of an array"
        return
    offset = access.address - of(base)
    argument = kernel.arguments.get(base)
    if argument is None or argument.is_dense:
        if argument is not None and offset.unknowns & kernel.execution.wrapped:
            yield f"{access.address} has an index that may wrap around"
            return
        size = kernel.size_of(base)
        yield kernel.facts.known(offset) >= 0
        yield kernel.facts.known(offset + number(access.bytes) - size) <= 0
        if any(factor % access.bytes for factor in offset.parts.values()):
            rest = kernel.execution.split(offset, access.bytes)[1]
            yield kernel.facts.known(rest) == 0
        return
    # The address is that of an element of a state at a time: nothing else multiplies the strides.
    parts: list[tuple[Term, Term | None]] = []
    extent: Term | None = number(1)  # of the axes whose strides have a fixed value here
    for stride, count in argument.axes:
        (unknown,) = stride.unknowns or (None,)
        if unknown is not None and unknown in offset.unknowns:
            part = offset.factor_of(unknown)
            offset = offset - part * stride
            parts.append((part, count))
        elif unknown is None or _is_one(kernel, access, stride, extent):
            extent = extent * count if extent and count else None
    parts.append((offset, extent))
    strides = {unknown for stride, _ in argument.axes for unknown in stride.unknowns}
    if access.bytes != kernel.itemsize or any(part.unknowns & strides for part, _ in parts):
        yield f"{access.address} is not the address of an element"
        return
    for part, count in parts:
        divided = part.divided(kernel.itemsize)
        if divided is None or divided[1].parts:
            yield f"{part} bytes is not a number of elements"
            return
        if count is None:
            continue
        if part.unknowns & kernel.execution.wrapped:
            yield f"{access.address} has an index that may wrap around"
            return
        yield kernel.facts.known(divided[0]) >= 0
        yield kernel.facts.known(divided[0] - count) < 0


def _is_one(kernel: Kernel, access: Access, stride: Term, extent: Term | None) -> bool:
    """Return whether a stride has, where an access is, the extent of the axes inside it."""
    if extent is None:
        return False
    claim = kernel.facts.known(stride - extent) == 0
    return kernel.facts.holds(claim, access.conditions)
