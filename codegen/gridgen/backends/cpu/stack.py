"""Stack of the functions of a library, by the call graphs that GCC writes (-fcallgraph-info=su)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gridgen.errors import InternalError

# Frames include the return address where the processor stores it there.
_NODE = re.compile(
    r'^node: .*?title: "([^"]*)".*?(?:\\n(\d+) bytes \(([a-z,]+)\))?" ', re.MULTILINE
)
_EDGE = re.compile(r'^edge: .*?sourcename: "([^"]*)" targetname: "([^"]*)"', re.MULTILINE)
# Mangled names of functions of SIMD packs and of rows with gaps, which one state does not reach.
_OF_BATCHES = re.compile(r"Dv\d+_|run_packs|run_borrowed|compute_copies")
# A frame that is aligned for packs at run time begins up to this number of bytes later.
_ALIGNMENT = 64


@dataclass(frozen=True)
class Stack:
    """Largest stack of a function, without that of functions of the C library."""

    one: int  #: for one state [bytes].
    batch: int  #: for any number of states in any layout [bytes].


def stack_of(graph: str, symbol: str) -> Stack:
    """Return the stack of a C function and of its form for any layout.

    Args:
        graph:  the call graph of its translation unit.
        symbol: its name.

    Raises:
        InternalError: the graph lacks the function, or has a loop or a call of an unknown function.
    """
    frames = {
        name: int(size or 0) + _ALIGNMENT * (kind or "").startswith("dynamic")
        for name, size, kind in _NODE.findall(graph)
    }
    calls: dict[str, set[str]] = {name: set() for name in frames}
    for source, target in _EDGE.findall(graph):
        calls[source].add(target)
    roots = [name for name in (symbol, f"{symbol}_strided") if name in frames]
    if not roots or "__indirect_call" in _reached(calls, roots):
        raise InternalError(f"{symbol}: its call graph does not bound its stack")

    @functools.cache
    def depth(name: str, *, of_one: bool) -> int:
        called = [one for one in calls[name] if not (of_one and _OF_BATCHES.search(one))]
        try:
            return frames[name] + max((depth(one, of_one=of_one) for one in called), default=0)
        except RecursionError:
            raise InternalError(f"{symbol}: {name} calls itself") from None

    return Stack(depth(roots[0], of_one=True), max(depth(root, of_one=False) for root in roots))


def _reached(calls: Mapping[str, set[str]], roots: list[str]) -> set[str]:
    found, left = set(roots), list(roots)
    while left:
        new = calls[left.pop()] - found
        found |= new
        left += new
    return found


def stack_header(robot: str, compiled: Mapping[str, str], stacks: Mapping[str, list[Stack]]) -> str:
    """Return the header with the stacks of a robot's functions.

    Args:
        robot:    identifier of the robot.
        compiled: version of GCC by library.
        stacks:   stacks of each function in these libraries.
    """
    constants = [
        f"    {symbol}_{name} = {max(getattr(stack, part) for stack in found)},"
        for symbol, found in stacks.items()
        for name, part in (("stack", "one"), ("batch_stack", "batch"))
    ]
    libraries = [f"//   {library}: GCC {version}" for library, version in compiled.items()]
    guard = f"GRIDGEN_STACK_{robot}_H"
    lines = [
        f"// Stack [bytes] of the functions of {robot}: _stack for one state, _batch_stack for any",
        "// number in any layout. It has the frames of all functions that they call, except those",
        "// of the C library (memcpy, malloc). The numbers are the largest of these libraries:",
        *libraries,
        f"#ifndef {guard}\n#define {guard}\n\nenum {{",
        *constants,
        f"}};\n\n#endif  // {guard}\n",
    ]
    return "\n".join(lines)
