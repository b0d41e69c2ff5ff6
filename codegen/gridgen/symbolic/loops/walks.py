"""Loop headers, each with its reverse: over ranges, and from an item to its root."""

from __future__ import annotations

from dataclasses import replace

from gridgen.symbolic.branches import Branches
from gridgen.symbolic.loops.members import Key
from gridgen.symbolic.memory import Constants, Walk, When


def along(variable: str, run: range) -> Walk:
    """Return the loop over a range with step one, up or down."""
    heads = []
    for direction in (run, run[::-1]):
        going, step = f"{variable} < {direction[-1] + 1}", f"++{variable}"
        if direction.step < 0:
            going, step = f"{variable} >= {direction[-1]}", f"--{variable}"
        heads.append(Walk(variable, str(direction[0]), going, step, 1 + max(run[0], run[-1])))
    return _and_back(heads[0], heads[1])


def _and_back(walk: Walk, back: Walk) -> Walk:
    """Return a loop with its reverse."""
    return replace(walk, back=(replace(back, back=(walk,)),))


def between(variable: str, first: str, end: str, step: int, domain: int) -> Walk:
    """Return the loop from the first number to an end, while at least ``step`` remain."""
    last = f"({end}) - 1"
    ahead, forward, backward = variable, f"++{variable}", f"--{variable}"
    if step > 1:
        last = f"{first} + (({end}) - ({first})) / {step} * {step} - {step}"
        ahead = f"{variable} + {step - 1}"
        forward, backward = f"{variable} += {step}", f"{variable} -= {step}"
    back = Walk(variable, last, f"{variable} >= {first}", backward, domain)
    return _and_back(Walk(variable, first, f"{ahead} < {end}", forward, domain), back)


def upward(variable: str, start: str, parents: Constants, ends: Constants) -> Walk:
    """Return the loop from an item to the last below its root.

    The reverse tests all items up to the first: it visits those with the first in their subtree.
    """
    parent, domain = f"{parents.name}[{variable}]", len(parents.values)
    down = Walk(variable, "0", f"{variable} <= {start}", f"++{variable}", domain)
    again = Walk(variable, start, f"{variable} >= 0", f"--{variable}", domain)
    back = (_and_back(down, again), When(start, ends, variable))
    return Walk(variable, start, f"{parent} >= 0", f"{variable} = {parent}", domain, back)


def subtree_ends(branches: Branches) -> list[int]:
    """Return for each item the one after its last descendant; 0 for roots.

    Numbering is depth first: all items in between are descendants.
    """
    ends = [place + 1 for place in range(len(branches.parents))]
    for place, parent in reversed([*enumerate(branches.parents)]):
        if parent >= 0:
            ends[parent] = max(ends[parent], ends[place])
    return [end if parent >= 0 else 0 for end, parent in zip(ends, branches.parents, strict=True)]


def runs_of(members: range, kinds: dict[int, Key]) -> list[range]:
    """Return ranges of consecutive members of one kind."""
    runs: list[range] = []
    begin = 0
    for end in range(1, len(members) + 1):
        if end == len(members) or kinds[members[end]] != kinds[members[begin]]:
            runs.append(members[begin:end])
            begin = end
    return runs
