"""Runs of equal constants: stored as one, and what a program computes stays."""

from __future__ import annotations

from gridgen.symbolic.parts import split_program, with_fills
from gridgen.symbolic.program import Fill, Program
from gridgen.symbolic.trace import TraceScalars
from helpers.program_interpreter import run, run_parts
from helpers.programs import VALUES, program_of


def program() -> Program:
    trace = TraceScalars()
    a, b, *_ = trace.inputs("q", 9)
    zero, one = trace.graph.zero, trace.constant(1.0)
    return program_of(trace, a * b, zero, zero, zero, one, one, zero, a, zero)


EXPECTED = {"out": [0.75, 0, 0, 0, 1, 1, 0, 0.5, 0]}


def test_equal_constants_in_a_row_are_stored_together() -> None:
    blocks = [with_fills(block) for block in program().blocks]
    fills = [s for block in blocks for s in block.statements if isinstance(s, Fill)]
    assert [(fill.begin, fill.end) for fill in fills] == [(1, 4), (4, 6)]


def test_a_program_with_fills_computes_what_it_computed() -> None:
    whole = program()
    filled = Program(**{**vars(whole), "blocks": tuple(map(with_fills, whole.blocks))})
    assert run(filled, {"q": VALUES}) == run(whole, {"q": VALUES}) == EXPECTED


def test_parts_have_fills() -> None:
    whole = program()
    split = split_program(whole, 100, longest_whole=-1)
    assert split is not None
    fills = [s for p in split.parts for b in p.blocks for s in b.statements if isinstance(s, Fill)]
    assert [(fill.begin, fill.end) for fill in fills] == [(1, 4), (4, 6)]
    assert run_parts(split, whole, {"q": VALUES}) == EXPECTED
