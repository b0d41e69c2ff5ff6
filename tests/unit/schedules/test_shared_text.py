"""Text that functions of a module share: equal parts, and constants with their origins."""

from __future__ import annotations

from dataclasses import replace

from gridgen.compiler import read_tree
from gridgen.kernel import KernelKey
from gridgen.schedules import Schedules
from gridgen.schedules.thread.constants import with_named_constants
from gridgen.schedules.thread.plan import plan_programs
from gridgen.schedules.thread.view import (
    BlockView,
    PartView,
    ThreadFunctionView,
    gpu_view,
    with_shared_parts,
)
from helpers.robots import OWN


def view_of(robot: str, function: str) -> ThreadFunctionView:
    tree = read_tree(OWN / f"{robot}.urdf")
    kernel = Schedules(tree).kernel(KernelKey(function))
    return gpu_view(tree, kernel, plan_programs(tree, kernel.key))


def test_constants_carry_unit_and_origin() -> None:
    tree = read_tree(OWN / "two_link.urdf")
    view = view_of("two_link", "inverse_dynamics")
    definitions, (named,) = with_named_constants(tree, [view])
    text = "\n".join(line for block in named.blocks for line in block.lines)
    assert "R(k_m_forearm) * a_forearm_x" in " ".join(text.split())
    line = "inline constexpr double k_m_forearm = 1.2;  // forearm: mass [kg]"
    assert line in definitions
    values = {line.split()[3]: line.split()[5].rstrip(";") for line in definitions}
    for name, value in values.items():  # the same numbers stand in the same places
        text = text.replace(f"({name})", f"({value})").replace(f"(-{name})", f"(-{value})")
    before = "\n".join(line for block in view.blocks for line in block.lines)
    assert text.split() == before.split()


def test_equal_parts_of_functions_are_printed_once() -> None:
    block = BlockView("// a", ("stored[0] = q[0];",))
    part = PartView("f_part_1", ("In q", "T* stored"), ("q", "stored"), (), (block,), False, True)
    other = replace(part, blocks=(replace(block, lines=("stored[0] = q[1];",)),))
    view = view_of("two_link", "bias_forces")
    functions = [
        replace(view, name="f", parts=(part, replace(other, name="f_part_2"))),
        replace(view, name="g", parts=(replace(part, name="g_part_1"),)),
        replace(view, name="h", parts=(replace(part, name="h_part_1", is_joined=False),)),
    ]
    f, g, h = with_shared_parts(functions)
    assert [part.name for one in (f, g, h) for part in one.parts] == [
        *("f_part_1", "f_part_2", "f_part_1", "h_part_1"),
    ]
    assert f.parts[0].users == g.parts[0].users == ("f", "g")
    assert [part.is_repeated for one in (f, g, h) for part in one.parts] == [
        *(False, False, True, False),
    ]
    assert f.parts[1].users == h.parts[0].users == ()
