"""Programs in parts: the same results, bounded parts, and no value lost on the way."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from gridgen.check import random_states
from gridgen.symbolic import parts
from gridgen.symbolic.order import ordered
from gridgen.symbolic.parts import MAX_WHOLE, SplitProgram, split_program
from gridgen.symbolic.printer import block_lines
from gridgen.symbolic.program import STORED, Fill, Keep, Load, Program, Store
from gridgen.symbolic.trace import TraceScalars
from helpers.program_interpreter import run, run_parts
from helpers.programs import VALUES, plan_thread, program_of, random_program
from numerics.robots import load_tree, urdf_path

LENGTHS = (1, 7, 40, 200)


def cut(program: Program, longest: int) -> SplitProgram:
    split = split_program(program, longest, longest_whole=-1)
    assert split is not None
    return split


def written_operations(split: SplitProgram, program: Program) -> list[tuple[int, int]]:
    """Count the binary operations in the text of every part, and its stores."""
    counts = []
    for part in split.parts:
        lines = [line for block in part.blocks for line in block_lines(block, program.variables)]
        stores = sum(isinstance(s, Store) for block in part.blocks for s in block.statements)
        counts.append((sum(len(re.findall(r" [-+*/] ", line)) for line in lines), stores))
    return counts


@pytest.mark.parametrize("longest", LENGTHS)
@pytest.mark.parametrize("seed", range(12))
def test_the_parts_compute_what_the_program_computes(seed: int, longest: int) -> None:
    program = random_program(seed)
    split = cut(program, longest)
    assert run_parts(split, program, {"q": VALUES}) == run(program, {"q": VALUES})


@pytest.mark.parametrize("longest", LENGTHS)
@pytest.mark.parametrize("seed", range(12))
def test_a_slot_holds_what_a_part_expects_of_it(seed: int, longest: int) -> None:
    check_slots(cut(random_program(seed), longest))


def check_slots(split: SplitProgram) -> None:
    holders: dict[tuple[str, int], str] = {}
    for part in split.parts:
        for statement in (s for block in part.blocks for s in block.statements):
            if isinstance(statement, Keep):
                holders[statement.array, statement.slot] = statement.name
            elif isinstance(statement, Load):
                assert holders[statement.array, statement.slot] == statement.name


@pytest.mark.parametrize("seed", range(4))
def test_values_that_are_too_many_are_parked(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(seed)
    without = cut(program, 40)
    assert without.parked == 0
    monkeypatch.setattr(parts, "MAX_WAITING", without.stored // 2)
    split = cut(program, 40)
    check_slots(split)
    assert run_parts(split, program, {"q": VALUES}) == run(program, {"q": VALUES})
    # Whatever waits between parts waits for a later one, and can be parked.
    assert split.stored <= without.stored // 2 < split.stored + split.parked
    # What finds no place waits as all others.
    monkeypatch.setattr(parts, "MAX_PARKED", 1)
    fewer = cut(program, 40)
    check_slots(fewer)
    assert run_parts(fewer, program, {"q": VALUES}) == run(program, {"q": VALUES})
    assert fewer.parked == 1 < split.parked
    assert fewer.stored > split.stored


@pytest.mark.parametrize("longest", [40, 200])
@pytest.mark.parametrize("seed", range(12))
def test_no_part_is_longer_than_asked(seed: int, longest: int) -> None:
    program = random_program(seed)
    split = cut(program, longest)
    counts = written_operations(split, program)
    assert len(counts) > 1 or program.operations <= longest
    assert all(operations + stores <= longest for operations, stores in counts)


def test_every_element_of_every_output_is_stored_once() -> None:
    program = random_program(1)
    statements = [
        s for part in cut(program, 7).parts for block in part.blocks for s in block.statements
    ]
    stores = Counter(s.index for s in statements if isinstance(s, Store))
    stores.update(i for s in statements if isinstance(s, Fill) for i in range(s.begin, s.end))
    assert stores == Counter(range(program.outputs[0].size))


def test_parts_are_written_without_copies() -> None:
    program = random_program(2)
    indices = {name: index for index, name in program.variables.items()}
    for part in cut(program, 40).parts:
        blocks, variables = part.written(indices)
        text = "\n".join(line for block in blocks for line in block_lines(block, variables))
        for name, value in re.findall(r"const T (\w+) = (.*);", text):
            is_copy = re.fullmatch(rf"({STORED}|q)\[\d+\]", value) is not None
            assert len(re.findall(rf"\b{name}\b", text)) > 1 + is_copy
        temporaries = {int(number) for number in re.findall(r"\bt(\d+)\b", text)}
        assert temporaries == set(range(len(temporaries)))


def test_slots_are_used_again() -> None:
    trace = TraceScalars()
    a, b, *_ = trace.inputs("q", 9)
    for _ in range(500):
        a, b = trace.keep("f", 0, a * b + 1.0), a
    split = cut(program_of(trace, a), 10)
    assert len(split.parts) > 50
    assert split.stored <= 3


def test_a_result_that_nothing_else_needs_is_not_kept() -> None:
    trace = TraceScalars()
    inputs = trace.inputs("q", 9)
    squares = [trace.keep("f", 0, a * a) for a in inputs]
    split = cut(ordered(program_of(trace, *reversed(squares))), 2)
    assert len(split.parts) > 5
    assert split.stored == 0
    assert not any(STORED in part.arrays for part in split.parts)


def test_parts_end_where_little_is_handed_on() -> None:
    trace = TraceScalars()
    a, b, *_ = trace.inputs("q", 9)
    for _ in range(20):  # five values wait inside a round, one between two rounds
        many = [trace.keep("f", 0, (a + float(k)) * b) for k in range(1, 6)]
        for value in many:
            a = trace.keep("n", 0, a * value)
    split = cut(program_of(trace, a), 23)
    assert len(split.parts) >= 14
    assert split.stored == 1


def test_a_short_program_stays_whole() -> None:
    tree = load_tree(urdf_path("arm6"), False, joint_dynamics=False)
    program = plan_thread(tree, "forward_dynamics_aba")
    assert program.operations < MAX_WHOLE
    assert split_program(program) is None


def test_the_parts_of_a_robots_function_compute_it() -> None:
    tree = load_tree(urdf_path("quadruped"), True, joint_dynamics=True)
    program = plan_thread(tree, "inverse_dynamics_gradient")
    split = split_program(program)
    assert split is not None
    assert len(split.parts) > 2
    assert 0 < split.stored < program.operations / 5
    x = random_states(tree, 1, np.random.default_rng(3))
    inputs = {array.name: x[array.name].ravel().tolist() for array in program.inputs}
    assert run_parts(split, program, inputs) == run(program, inputs)
