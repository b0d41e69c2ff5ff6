"""Names of a robot's constants in its functions, with their units and origins."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gridgen.model.kinematic_tree import Body, KinematicTree
from gridgen.naming import comment, number_literal, unique
from gridgen.schedules.thread.view import BlockView, ThreadFunctionView
from gridgen.symbolic.printer import wrap
from gridgen.symbolic.program import has_names

#: A constant without an origin has a name if it is this long and occurs so often.
_LONG, _OFTEN = 7, 3
_LITERAL = re.compile(r"\bR\((-?)([0-9][0-9.e+-]*)\)")
_AXES = "xyz"


def with_named_constants(
    tree: KinematicTree, functions: Sequence[ThreadFunctionView]
) -> tuple[list[str], list[ThreadFunctionView]]:
    """Give names to constants: to those of the robot, and to long ones that occur often.

    Returns:
        the definitions, in lines; the functions with these names.
    """
    lines = (line for one in functions for block in _blocks(one) for line in block)
    counts = Counter(found[2] for line in lines for found in _LITERAL.finditer(line))
    origins = _origins(tree)
    names: dict[str, str] = {}
    definitions = []
    for value, count in counts.items():
        found = origins.get(value, [])
        if found and len({body for body, _, _ in found}) == 1:
            names[value] = found[0][1]
        elif found or (len(value) >= _LONG and count >= _OFTEN):
            names[value] = f"k{len(names)}"
        else:
            continue
        text = found[0][2] if found else "computed from others"
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        definitions.append(f"inline constexpr double {names[value]} = {value};  // {text}{more}")
    return definitions, [_named(names, one) for one in functions]


def _blocks(function: ThreadFunctionView) -> Iterator[Sequence[str]]:
    yield from (block.lines for block in function.blocks)
    yield from (block.lines for part in function.parts for block in part.blocks)


def _named(names: dict[str, str], function: ThreadFunctionView) -> ThreadFunctionView:
    def written(blocks: Iterable[BlockView]) -> tuple[BlockView, ...]:
        return tuple(replace(block, lines=_with_names(names, block.lines)) for block in blocks)

    parts = tuple(replace(part, blocks=written(part.blocks)) for part in function.parts)
    return replace(function, blocks=written(function.blocks), parts=parts)


def _with_names(names: dict[str, str], lines: Sequence[str]) -> tuple[str, ...]:
    """Return statements with names of constants, in lines that are wrapped again."""

    def name(found: re.Match[str]) -> str:
        return f"R({found[1]}{names[found[2]]})" if found[2] in names else found[0]

    result: list[str] = []
    statement = ""
    for line in lines:
        statement = f"{statement} {line.strip()}" if statement else line
        if statement.endswith((";", "{", "}", ":")):
            result += wrap(_LITERAL.sub(name, statement))
            statement = ""
    return (*result, statement) if statement else tuple(result)


def _origins(tree: KinematicTree) -> dict[str, list[tuple[int, str, str]]]:
    """Return body, name and origin of the robot's constants by their text."""
    own = unique([body.name for body in tree.bodies])
    is_small = has_names(len(own), 0)
    found: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for index, body in enumerate(tree.bodies):
        ident = own[index] if is_small else str(index)
        for symbol, unit, origin, value in _constants(body):
            if abs(value) not in (0.0, 1.0, 2.0):
                text = f"{comment(body.name)}: {origin} [{unit}]"
                found[number_literal(abs(value))].append((index, f"k_{symbol}_{ident}", text))
    return found


def _constants(body: Body) -> Iterator[tuple[str, str, str, float]]:
    """Yield symbol, unit, origin and value of a body's constants."""
    yield "m", "kg", "mass", body.mass
    for i, axis in enumerate(_AXES):
        yield f"mc{axis}", "kg m", f"mass times center of mass, {axis}", body.first_moment[i]
        yield f"p{axis}", "m", f"position in the parent, {axis}", body.translation[i]
        for j, other in enumerate(_AXES[i:], i):
            yield f"I{axis}{other}", "kg m^2", f"inertia, {axis}{other}", body.inertia[i][j]
        for j, other in enumerate(_AXES):
            yield (
                f"R{axis}{other}",
                "1",
                f"rotation to the parent, {axis}{other}",
                body.rotation[i][j],
            )
    for i, value in enumerate(body.armature):
        yield f"a{i or ''}", "kg m^2 or kg", "armature", value
    yield "d", "N m s/rad or N s/m", "damping of the joint", body.damping
    yield "f", "N m or N", "friction of the joint", body.friction
