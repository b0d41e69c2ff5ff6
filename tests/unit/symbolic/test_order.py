"""The order of statements: the same results, fewer values that wait."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from gridgen.model.tree import KinematicTree
from gridgen.schedules.thread import plan
from gridgen.symbolic.order import ordered
from gridgen.symbolic.printer import block_lines
from gridgen.symbolic.program import Program, ScheduledStatement, Statement, Store
from gridgen.symbolic.trace import TraceScalars
from helpers.program_interpreter import run
from helpers.programs import VALUES, plan_thread, program_of, random_program
from numerics.robots import load_tree, urdf_path

#: The statement that reads an input.
READING = re.compile(r"const T \w+ = \w+\[\d+\];")


def tree_of(name: str) -> KinematicTree:
    return load_tree(urdf_path(name), False, joint_dynamics=False)


def as_made(tree: KinematicTree, function: str, monkeypatch: pytest.MonkeyPatch) -> Program:
    with monkeypatch.context() as patch:
        patch.setattr(plan, "ordered", lambda program: program)
        return plan_thread(tree, function)


def steps(program: Program) -> list[ScheduledStatement]:
    return [
        ScheduledStatement.of(statement, block, program.variables)
        for block in program.blocks
        for statement in block.statements
    ]


def is_store(step: ScheduledStatement) -> bool:
    return isinstance(step.statement, Store)


def most_waiting(program: Program) -> int:
    """Return the most values that wait at once."""
    left = Counter(name for step in steps(program) for name in step.reads)
    waiting = most = 0
    for step in steps(program):
        left.subtract(step.reads)
        waiting += sum(left[name] > 0 for name in step.defines)
        waiting -= sum(left[name] == 0 for name in step.reads)
        most = max(most, waiting)
    return most


@pytest.mark.parametrize("seed", range(40))
def test_any_order_computes_the_same_bits(seed: int) -> None:
    program = random_program(seed)
    assert run(ordered(program), {"q": VALUES}) == run(program, {"q": VALUES})


@pytest.mark.parametrize("seed", range(40))
def test_no_statement_is_lost_or_made(seed: int) -> None:
    program = random_program(seed)
    before, after = (
        Counter(step.statement for step in steps(each)) for each in (program, ordered(program))
    )
    assert after == before


def test_a_gradient_waits_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, function = tree_of("arm7"), "inverse_dynamics_gradient"
    before = most_waiting(as_made(tree, function, monkeypatch))
    assert most_waiting(plan_thread(tree, function)) < 0.6 * before


def test_a_good_order_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, function = tree_of("arm7"), "inverse_dynamics"
    texts = [
        [line for block in program.blocks for line in block_lines(block, program.variables)]
        for program in (as_made(tree, function, monkeypatch), plan_thread(tree, function))
    ]
    computing = [[line for line in text if not READING.fullmatch(line)] for text in texts]
    assert computing[0] == computing[1]


def test_a_result_is_stored_as_soon_as_it_is_known() -> None:
    trace = TraceScalars()
    squares = [trace.keep("f", 0, a * a) for a in trace.inputs("q", 9)]
    made = steps(ordered(program_of(trace, *reversed(squares))))
    for before, step in pairwise(made):
        assert not is_store(step) or step.reads == before.defines


def test_an_input_is_read_where_it_is_first_needed() -> None:
    found = steps(plan_thread(tree_of("arm7"), "inverse_dynamics_gradient"))
    for index, step in enumerate(found):
        if isinstance(step.statement, Statement) and step.statement.node.op == "input":
            needs = next(s for s in found[index:] if (s.defines and s.reads) or is_store(s))
            assert step.defines[0] in needs.reads


def test_the_order_is_the_same_in_every_process() -> None:
    program = (
        "from gridgen.schedules.thread.plan import plan_programs\n"
        "from gridgen.symbolic.printer import block_lines\n"
        "from numerics.robots import load_tree, urdf_path\n"
        "tree = load_tree(urdf_path('arm7'), False, joint_dynamics=False)\n"
        "program = plan_programs(tree, 'inverse_dynamics_gradient').cpu\n"
        "for block in program.blocks: print(block_lines(block, program.variables))"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    ]
    assert texts[0] == texts[1]
