"""Loops over bodies: what is one loop, what is kept, and that it computes what Python's loops do.

Every algorithm here runs on numbers and the robot itself, which says what is right, and traced into
a program with loops, twice, which must be the same text; the program is run in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from gridgen.errors import InternalError
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.schedules.thread.plan import plan_loops
from gridgen.symbolic import loops
from gridgen.symbolic.iterations import work_per_state
from gridgen.symbolic.loops import trace_with_loops
from gridgen.symbolic.memory import Case, Walk
from gridgen.symbolic.printer import block_lines
from gridgen.symbolic.program import Array, Program, build_program
from gridgen.symbolic.scalars import FloatScalars, entries
from helpers import program_interpreter
from helpers.program_interpreter import run
from helpers.robots import joint_text, link_text, robot_text
from helpers.scan import tree_of
from numerics.robots import load_tree

#: Takes a robot, the input ``q``, and scalars; returns the result.
Algorithm = Callable[[Any, Any, Any], Any]

CHAIN = (-1, 0, 1, 2)
#: A trunk of two, on which sit a branch of two and one that forks.
BRANCHES = (-1, 0, 1, 2, 1, 4, 4)
#: Two trees on one base.
FOREST = (-1, 0, 0, -1, 3)


def robot(parents: Sequence[int], kinds: str = "", masses: Sequence[float] = ()) -> KinematicTree:
    """Return a robot.

    Args:
        parents: of its bodies.
        kinds:   first letters of the joints' kinds; by default all turn.
        masses:  of its bodies; by default 1, 2, ...
    """
    words = {"r": "revolute", "p": "prismatic", "f": "floating"}
    elements = [link_text("base")]
    for body, (parent, kind) in enumerate(zip(parents, kinds or "r" * len(parents), strict=True)):
        mass = masses[body] if masses else body + 1.0
        above = "base" if parent < 0 else f"l{parent:02}"
        axis = None if kind == "f" else "0 0 1"
        elements.append(link_text(f"l{body:02}", mass=str(mass)))
        elements.append(joint_text(f"j{body:02}", above, f"l{body:02}", words[kind], axis=axis))
    tree = load_tree(robot_text(*elements))
    assert tree.parents == tuple(parents)
    return tree


class Traced(NamedTuple):
    """A program and its lines."""

    program: Program
    text: str

    @property
    def loops(self) -> list[str]:
        """The heads of all loops."""
        text = re.sub(r"\n    ", " ", self.text)  # long lines are broken
        return re.findall(r"GRIDGEN_ROLLED for \(int (.*?)\) {", text)

    @property
    def kinds(self) -> int:
        """The number of parts for bodies of one kind among others."""
        statements = [s for block in self.program.blocks for s in block.statements]
        assert sum(isinstance(s, Walk) for s in statements) == len(self.loops)
        return sum(isinstance(s, Case) for s in statements)

    @property
    def room(self) -> dict[str, int]:
        """How many numbers are kept of an item, by the name of the room."""
        return {
            memory.name: memory.width for memory in self.program.workspace if not memory.is_local
        }


def traced(tree: KinematicTree, algorithm: Algorithm, inputs: int, outputs: int) -> Traced:
    """Trace an algorithm; inputs and outputs are the sizes of the arrays."""
    q, out = Array("q", inputs), Array("out", outputs)
    trace = trace_with_loops(tree, lambda t, x, s: [algorithm(t, x["q"], s)], [q], [out])
    program = build_program(trace, [q], [(out, [])], [body.name for body in tree.bodies], 0)
    lines = [line for block in program.blocks for line in block_lines(block, program.variables)]
    return Traced(program, "\n".join(lines))


def check(tree: KinematicTree, algorithm: Algorithm, inputs: int = 0) -> Traced:
    """Return the program of an algorithm that computes what the algorithm does on numbers."""
    inputs = inputs or tree.nq
    q = list(np.random.default_rng(inputs).uniform(0.5, 1.5, inputs))
    expected = list(entries(algorithm(tree, q, FloatScalars())))
    found = traced(tree, algorithm, inputs, len(expected))
    results = run(found.program, {"q": q})["out"]
    np.testing.assert_allclose(results, expected, rtol=1e-12)
    assert_scoped(found.text)
    again = traced(tree, algorithm, inputs, len(expected))
    assert (again.text, again.room) == (found.text, found.room)
    return found


def assert_scoped(text: str) -> None:
    """Assert that every name is used where C++ knows it: in the loop in which it is defined."""
    statements = re.split(r"(?<=[;{}])\n", text)
    names = set().union(*map(defined, statements))
    scopes: list[set[str]] = [set()]
    for statement in statements:
        if statement == "}":
            scopes.pop()
            continue
        if statement.endswith("{"):
            scopes.append(set())
        scopes[-1] |= defined(statement)
        used = names & set(re.findall(r"\b[A-Za-z_]\w*", statement))
        assert used <= set().union(*scopes), statement
    assert len(scopes) == 1


def defined(statement: str) -> set[str]:
    """Return the names that a statement defines."""
    match = re.search(r"\b(?:T|int) (\w+(?:, \w+)*)(?: =|;)", statement)
    return set(match[1].split(", ")) if match else set()


# -- which bodies are one loop ------------------------------------------------------------------


def test_one_index_stands_for_many_bodies() -> None:
    indices = []

    def doubled(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            indices.append(index)
            results[index] = q[tree.bodies[index].q_index] * 2.0
        return results

    found = check(robot(BRANCHES), doubled)
    assert found.loops == ["body = 0; body < 7; ++body"]
    assert (found.kinds, found.room) == (0, {})
    assert found.text.count("out[body] =") == 1
    *of_numbers, last = indices
    assert list(range(7)) == of_numbers[:7]
    assert last.values == tuple(range(7))


def test_children_come_first_on_the_way_inwards() -> None:
    def weights(tree: Any, q: Any, scalars: Any) -> Any:
        carried = scalars.table("weight", len(tree.bodies), scalars.constant(0.0))
        for index in tree.inward():
            body = tree.bodies[index]
            carried[index] = carried[index] + q[body.q_index]
            if body.parent >= 0:
                carried[body.parent] = carried[body.parent] + carried[index]
        return carried

    found = check(robot(BRANCHES), weights)
    assert found.loops == ["body = 6; body >= 1; --body"]  # then the root, which carries all


def test_bodies_of_which_an_answer_differs_are_told_apart_in_runs() -> None:
    found = check(robot(CHAIN, "pprr"), squares_of_slides)
    assert found.loops == ["body = 0; body < 2; ++body", "body = 2; body < 4; ++body"]
    assert found.kinds == 0


def test_where_kinds_take_turns_each_is_a_part_of_one_loop() -> None:
    found = check(robot((-1, 0, 1, 2, 3, 4), "prprpr"), squares_of_slides)
    assert found.loops == ["body = 0; body < 6; ++body"]
    assert found.kinds == 2
    assert re.search(r"if \(kinds_\w+\[body\] == 0\) {", found.text)
    assert "else {" in found.text


def test_three_kinds_take_turns_too() -> None:
    tree = robot((-1, 0, 1, 2, 3, 4, 5, 6, 7), "fprfprfpr")
    found = check(tree, squares_of_slides)
    assert (len(found.loops), found.kinds) == (1, 3)
    assert len(re.findall(r"else if \(kinds_\w+\[body\] == 1\)", found.text)) == 1


def squares_of_slides(tree: Any, q: Any, scalars: Any) -> Any:
    """Square the coordinates of slides, double those of hinges, sum those of free joints."""
    results = scalars.table("out", len(tree.bodies))
    for index in tree.outward():
        body = tree.bodies[index]
        own = q[body.q_index]
        if body.kind == "free":
            results[index] = own + q[body.q_index + 6]
        elif body.kind == "prismatic":
            results[index] = own * own
        else:
            results[index] = own * 2.0
    return results


def test_a_body_that_is_alone_of_its_kind_has_no_loop() -> None:
    found = check(robot(CHAIN, "prrr"), squares_of_slides)
    assert found.loops == ["body = 1; body < 4; ++body"]
    assert "out[0] =" in found.text
    assert check(robot((-1,)), squares_of_slides).loops == []


def test_a_parent_is_a_body_or_the_base() -> None:
    def sums(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            body = tree.bodies[index]
            above = scalars.constant(0.0) if body.parent < 0 else results[body.parent]
            results[index] = above + q[body.q_index]
        return results

    found = check(robot(CHAIN), sums)
    assert found.loops == ["body = 1; body < 4; ++body"]
    assert "out[body - 1]" in found.text  # no array is needed to say so
    assert "out[parents_" in check(robot(BRANCHES), sums).text
    assert check(robot(FOREST), sums).loops == ["body = 1; body < 3; ++body"]


def test_answers_of_numbers_tell_apart_too() -> None:
    def heavy(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            mass = tree.bodies[index].mass
            results[index] = q[index] if mass > 1.5 else scalars.constant(mass - 1.0) + q[0]
        return results

    found = check(robot(CHAIN, masses=(1, 1, 2, 3)), heavy)
    assert found.loops == ["body = 0; body < 2; ++body", "body = 2; body < 4; ++body"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda mass: 1.0 if mass == 2.0 else 0.5,
        lambda mass: 1.0 if mass - 2.0 else 0.5,
        lambda mass: 1.0 if not mass > 2.0 else 0.5,
    ],
)
def test_a_question_is_answered_for_every_body(ask: Callable[[Any], float]) -> None:
    def asked(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            results[index] = q[index] * ask(tree.bodies[index].mass)
        return results

    assert check(robot(CHAIN, masses=(2, 2, 3, 4)), asked).kinds == 0


def test_numbers_of_the_robot_are_computed_with_beforehand() -> None:
    def computed(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            mass, times = tree.bodies[index].mass, tree.bodies[index].multiplier
            number = 2.0 * (mass * mass + 1.0 + mass) / mass - abs(-mass) ** 2 + times
            results[index] = scalars.constant(number) * q[index]
        return results

    found = check(robot(CHAIN), computed)
    assert found.program.operations == 1
    assert len(found.program.loops.tables) == 1
    alike = check(robot(CHAIN, masses=(3, 3, 3, 3)), computed)
    assert not alike.program.loops.tables  # what all have is written into the line
    assert "R(0.66" in alike.text


def test_what_makes_no_sense_before_bodies_are_told_apart_does_no_harm() -> None:
    def unpacked(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            body = tree.bodies[index]
            if body.nv == 6:
                _, _, _, _, _, last = body.armature  # hinges have one
                results[index] = q[body.q_index] + scalars.constant(last)
            else:
                results[index] = q[body.q_index] * q[body.q_index]
        return results

    assert check(robot(CHAIN, "frrr"), unpacked).loops == ["body = 1; body < 4; ++body"]


def test_what_makes_no_sense_at_all_is_said() -> None:
    def wrong(tree: Any, q: Any, scalars: Any) -> Any:
        for index in tree.outward():
            first, second = (q[index],)
        return first + second

    with pytest.raises(ValueError, match="not enough values to unpack"):
        traced(robot(CHAIN), wrong, 4, 1)


def test_an_error_of_the_algorithm_ends_the_first_attempt() -> None:
    attempts = []

    def wrong(tree: Any, q: Any, scalars: Any) -> Any:
        attempts.append(tree)
        for index in tree.outward():
            if tree.bodies[index].mass > 1.5:  # members differ, so this attempt is not the last
                raise LookupError("a bug of its own")
            raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        traced(robot(CHAIN), wrong, 4, 1)
    assert len(attempts) == 1


def test_members_that_differ_are_left_out_for_the_rest_of_an_attempt() -> None:
    lengths = []

    def summed(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            body = tree.bodies[index]
            lengths.append(len(list(zip(body.armature, range(body.nv), strict=True))))
            results[index] = q[body.q_index]
        return results

    check(robot(CHAIN, "frrr"), summed)
    assert set(lengths) == {1, 6}


# -- what is kept -------------------------------------------------------------------------------


def test_a_known_entry_takes_no_room() -> None:
    def weighed(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("kept", len(tree.bodies))
        for index in tree.outward():
            mass = scalars.constant(tree.bodies[index].mass)
            kept[index] = (mass, scalars.constant(0.0), [scalars.constant(5.0), q[index] * q[0]])
        total = scalars.carry("total", scalars.constant(0.0))
        for index in tree.inward():
            mass, zero, (five, product) = kept[index]
            total.value = total.value + mass * product + zero * product + five
        return total.value

    found = check(robot(CHAIN), weighed)
    assert found.room == {"kept_stored": 1}  # the product
    assert "R(5)" in found.text


def test_a_record_is_given_back_as_it_was_kept() -> None:
    class Pose(NamedTuple):
        x: Any
        y: Any

    def posed(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("pose", len(tree.bodies))
        for index in tree.outward():
            kept[index] = [Pose(q[index] + 1.0, q[index] * 2.0)[::-1], tree.bodies[index].kind]
        results = scalars.table("out", len(tree.bodies))
        for index in tree.inward():
            (second, first), kind = kept[index]
            results[index] = first - second if kind == "revolute" else second
        return results

    assert check(robot(CHAIN, "rprr"), posed).room == {"pose_stored": 2}


def test_an_entry_is_kept_once_something_else_comes_to_it() -> None:
    def replaced(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("kept", len(tree.bodies), scalars.constant(3.0))
        total = scalars.carry("total", scalars.constant(0.0))
        for index in tree.outward():
            total.value = total.value + kept[index] * q[0]
            kept[index] = q[index] * q[1]
        for index in tree.inward():
            total.value = total.value + kept[index]
        return total.value

    found = check(robot(CHAIN), replaced)
    assert found.room == {"kept_stored": 1}
    assert "kept_stored[i] = gridgen::broadcast<T>(R(3))" in found.text


def test_an_entry_that_two_known_numbers_come_to_is_kept() -> None:
    def replaced(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("kept", len(tree.bodies), scalars.constant(3.0))
        total = scalars.carry("total", q[0])
        for index in tree.outward():
            total.value = total.value + kept[index]
            kept[index] = scalars.constant(tree.bodies[index].mass)
        for index in tree.inward():
            total.value = total.value * kept[index]
        return total.value

    assert check(robot(CHAIN), replaced).room == {"kept_stored": 1}


def test_what_is_known_of_a_parent_is_known() -> None:
    """It takes an attempt for each level until all are found."""

    def levels(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("level", len(tree.bodies))
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            parent = tree.bodies[index].parent
            own = scalars.constant(tree.bodies[index].mass)
            kept[index] = own if parent < 0 else kept[parent]
            results[index] = kept[index] + q[index] - own
        return results

    found = check(robot((*FOREST, 4, 5), masses=(2, 3, 4, 5, 6, 7, 8)), levels)
    assert found.room == {}


def test_entries_of_some_bodies_may_be_read_by_number() -> None:
    def read(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("kept", len(tree.bodies))
        for index in tree.outward():
            kept[index] = (q[index] * 2.0, scalars.constant(tree.bodies[index].mass))
        kept[1] = (q[3], scalars.constant(7.0))
        return [entry for record in kept[1:3] for entry in record]

    assert check(robot(CHAIN), read).room == {"kept_stored": 2}


def test_reading_before_anything_is_kept_is_an_error_of_ours() -> None:
    def early(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("kept", len(tree.bodies))
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            results[index] = kept[index]
            kept[index] = q[index]
        return results

    with pytest.raises(InternalError, match="kept_stored is read before it is written"):
        traced(robot(CHAIN), early, 4, 4)


def test_what_no_result_needs_is_not_computed() -> None:
    def idle(tree: Any, q: Any, scalars: Any) -> Any:
        kept, unread = (scalars.table(word, len(tree.bodies)) for word in ("kept", "unread"))
        square = scalars.matrix("square", 2, 2)
        for index in tree.outward():
            kept[index] = (q[index] + q[0], q[index] * q[0])
            unread[index] = kept[index][1]
        for index in tree.inward():
            unread[index] = unread[index] + kept[index][0]
        square[0][0] = q[0]
        total = scalars.carry("total", scalars.constant(0.0))
        for index in tree.outward():
            total.value = total.value + kept[index][0]
        return total.value

    found = check(robot(CHAIN), idle)
    assert found.room == {"kept_stored": 1}
    assert len(found.loops) == 2  # that which goes inwards does nothing
    assert found.program.operations == 2


def test_a_kind_with_nothing_to_do_leaves_no_loop() -> None:
    def idle(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("kept", len(tree.bodies))
        for index in tree.outward():
            kept[index] = q[index] if tree.bodies[index].kind == "revolute" else q[0] * q[index]
        return q[0] + q[1]

    found = check(robot((-1, 0, 1, 2, 3, 4), "prprpr"), idle)
    assert (found.loops, found.kinds, found.room) == ([], 0, {})


def test_what_is_carried_is_in_variables() -> None:
    def summed(tree: Any, q: Any, scalars: Any) -> Any:
        total = scalars.carry("total", (q[0], scalars.constant(1.0), scalars.constant(2.0)))
        for index in tree.outward():
            first, second, third = total.value
            total.value = (first * q[index], second + q[index], third)
        first, second, third = total.value
        return [first, second, third * first]

    found = check(robot(CHAIN), summed)
    assert found.room == {}
    assert "T total_stored_0, total_stored_1;" in found.text
    assert not re.search(r"\btotal_kept_2\b", found.text)  # it is two all the time


# -- walks over parts of a robot ----------------------------------------------------------------


@pytest.mark.parametrize("parents", [CHAIN, BRANCHES, FOREST], ids=["chain", "branches", "forest"])
@pytest.mark.parametrize("kinds", ["r", "pr"])
@pytest.mark.parametrize("walk", ["climb", "until"])
def test_loops_within_loops(walk: str, kinds: str, parents: Sequence[int]) -> None:
    def sums(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            total = scalars.carry("total", q[index])
            for other in getattr(tree, walk)(index):
                mass = scalars.constant(tree.bodies[other].mass)
                number = q[other] if tree.bodies[other].kind == "revolute" else q[other] * q[0]
                total.value = total.value * number + mass
            results[index] = total.value
        return results

    tree = robot(parents, (kinds * len(parents))[: len(parents)])
    found = check(tree, sums)
    inner = {
        "climb": "below_2 = body; parents_",
        "until": "body_2 = 0; body_2 < body + 1; ++body_2",
    }
    assert any(head.startswith(inner[walk]) for head in found.loops)


@pytest.mark.parametrize("walk", ["climb", "until"])
@pytest.mark.parametrize("start", range(7))
def test_walks_from_a_body_that_is_named(walk: str, start: int) -> None:
    def product(tree: Any, q: Any, scalars: Any) -> Any:
        total = scalars.carry("total", q[start])
        for other in getattr(tree, walk)(start):
            total.value = total.value * q[other] + q[0]
        return total.value

    tree = robot(BRANCHES)
    several = walk == "until" or len(list(getattr(tree, walk)(start))) > 1
    assert len(check(tree, product).loops) == several


def test_velocities_are_walked_over_as_bodies_are() -> None:
    def above(tree: Any, q: Any, scalars: Any) -> Any:
        branches = tree.velocities
        results = scalars.table("out", tree.nv)
        for i in branches.outward():
            total = scalars.carry("total", scalars.constant(0.0))
            for below in branches.climb(i):
                total.value = total.value * q[0] + q[branches.parent(below)]
            results[i] = total.value
        return results

    found = check(robot((-1, 0, 1, 1), "frrr"), above, inputs=10)
    assert found.loops[0].startswith("axis = ")


def test_frames_are_walked_over() -> None:
    def scaled(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.frames))
        for index in tree.each_frame():
            frame = tree.frames[index]
            results[index] = q[0] if frame.body < 0 else q[frame.body] * 2.0
        return results

    assert check(robot(CHAIN), scaled).loops == ["frame = 1; frame < 5; ++frame"]


@pytest.mark.parametrize("count", range(1, 9))
def test_several_at_a_time_and_what_is_left(count: int) -> None:
    """Bodies of which one is read, so that none beyond the last is asked for."""

    def sums(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for indices in tree.several(count):
            total = scalars.constant(0.0)
            for index in indices:
                total = total + scalars.constant(tree.bodies[index].mass) * q[index]
                results[index] = total
        return results

    found = check(robot(BRANCHES), sums)
    chunks = 7 // count
    step = "++body" if count == 1 else f"body += {count}"
    assert [head.split("; ")[2] for head in found.loops] == [step] * (chunks > 0)


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("shift", [0, 1])
def test_several_up_to_a_body(count: int, shift: int) -> None:
    def sums(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            total = scalars.carry("total", q[index])
            for others in tree.several(count, index + shift):
                for other in others:
                    mass = scalars.constant(tree.bodies[other].mass)
                    total.value = total.value * q[other] + mass
            results[index] = total.value
        return results

    check(robot(BRANCHES), sums)


def test_a_loop_three_deep_has_three_variables() -> None:
    def deep(tree: Any, q: Any, scalars: Any) -> Any:
        total = scalars.carry("total", q[0])
        for i in tree.outward():
            for j in tree.until(i):
                for k in tree.climb(j):
                    total.value = total.value * q[k] + q[i] * q[j]
        return total.value

    found = check(robot(CHAIN), deep)
    assert [head.split(" = ")[0] for head in found.loops] == ["body", "body_2", "below_3"]


# -- arrays -------------------------------------------------------------------------------------


def test_neighbors_of_an_input_are_a_slice() -> None:
    def norms(tree: Any, q: Any, scalars: Any) -> Any:
        assert len(q) == 12
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            x, y, z = q[3 * index : 3 * index + 3]
            results[index] = x * y - z * q[2 * (index + 1)]
        first, second = q[10:12]
        return [*(results[index] for index in range(4)), first - second, sum(q)]

    check(robot(CHAIN), norms, inputs=12)


def test_neighbors_of_a_table_are_a_slice() -> None:
    def doubled(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("kept", 2 * len(tree.bodies))
        for index in tree.outward():
            kept[2 * index] = (q[index], q[index] * q[0])
            kept[2 * index + 1] = (q[index] - q[0], q[index] + q[0])
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            first, second = kept[2 * index : 2 * index + 2]
            results[index] = first[0] * second[1] - first[1] * second[0]
        return results

    assert check(robot(CHAIN), doubled).program.scratch == 16


def test_pairs_have_a_place_each() -> None:
    def products(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.pairs("pair", len(tree.bodies))
        for i in tree.outward():
            for j in tree.until(i):
                kept[i][j] = (q[i] * q[j], q[i] - q[j])
        results = scalars.table("out", len(tree.bodies))
        for i in tree.inward():
            total = scalars.carry("total", scalars.constant(0.0))
            for j in tree.until(i):
                product, difference = kept[i][j]
                total.value = total.value * difference + product
            results[i] = total.value
        return results

    found = check(robot(BRANCHES), products)
    assert (found.room, found.program.scratch) == ({"pair_stored": 2}, 2 * 7 * 7)


@pytest.mark.parametrize("kinds", ["rrrr", "prpr"])
def test_a_matrix_is_the_result(kinds: str) -> None:
    def matrix(tree: Any, q: Any, scalars: Any) -> Any:
        M = scalars.matrix("M", tree.nv, tree.nv)
        for i in tree.outward():
            for below in tree.climb(i):
                j = tree.parent(below)
                M[i][j] = M[j][i] = q[i] * q[j]
            M[i][i] = M[i][i] + q[i]
        M[0][3] = q[3]
        return M

    found = check(robot((-1, 0, 1, 1), kinds), matrix)
    assert found.room == {}
    assert "out[4 * body + body] = " in found.text


def test_a_matrix_may_have_three_axes() -> None:
    def cube(tree: Any, q: Any, scalars: Any) -> Any:
        D = scalars.matrix("D", 2, len(tree.bodies), 3)
        for i in tree.outward():
            for k in range(3):
                D[1][i][k] = q[i] * (k + 1.0)
                D[0][i][k] = D[1][i][k] - D[1][i][0]
        assert len(D) == 2
        return D

    assert check(robot(CHAIN), cube).room == {}


def test_a_matrix_on_the_way_has_room() -> None:
    def trace(tree: Any, q: Any, scalars: Any) -> Any:
        M = scalars.matrix("M", tree.nv, tree.nv)
        for i in tree.outward():
            M[i][i] = q[i] * q[i]
        return [M[0][0] + M[1][1], M[0][1]]

    found = check(robot(CHAIN), trace)
    assert found.program.scratch == 16


def test_single_scalars_are_results() -> None:
    def mixed(tree: Any, q: Any, scalars: Any) -> Any:
        last = scalars.carry("last", q[0])
        for index in tree.outward():
            last.value = last.value * q[index]
        return [[q[1], scalars.constant(2.5)], (last.value, [-q[0]])]

    check(robot(CHAIN), mixed)
    check(robot(CHAIN), lambda tree, q, scalars: scalars.constant(0.25))


# -- what is seen where -------------------------------------------------------------------------


def test_what_a_loop_computes_is_not_used_outside_of_it() -> None:
    def repeated(tree: Any, q: Any, scalars: Any) -> Any:
        total = scalars.carry("total", scalars.constant(0.0))
        for index in tree.outward():
            total.value = total.value + scalars.sincos(q[0])[0] * q[index]
        for index in tree.inward():
            total.value = total.value * scalars.sincos(q[0])[0] - q[index]
        return [total.value, scalars.sincos(q[0])[0]]

    assert check(robot(CHAIN), repeated).text.count("gridgen::sincos") == 3


def test_what_is_known_before_a_loop_is_used_in_it() -> None:
    def shared(tree: Any, q: Any, scalars: Any) -> Any:
        sine, cosine = scalars.sincos(q[0])
        product = q[0] * q[1]
        total = scalars.carry("total", sine * product)
        for index in tree.outward():
            again = q[0] * q[1] + scalars.sincos(q[0])[1]
            total.value = total.value + again * q[index]
        return [total.value, product, cosine]

    found = check(robot(CHAIN), shared)
    assert found.text.count("gridgen::sincos") == 1


def test_kinds_share_nothing_with_each_other() -> None:
    def same(tree: Any, q: Any, scalars: Any) -> Any:
        results = scalars.table("out", len(tree.bodies))
        for index in tree.outward():
            sine, _ = scalars.sincos(q[0] + q[1])
            own = q[index] * sine
            results[index] = own if tree.bodies[index].kind == "revolute" else own * own
        return results

    found = check(robot((-1, 0, 1, 2, 3, 4), "prprpr"), same)
    assert found.text.count("gridgen::sincos") == 2


def test_what_a_loop_changes_is_read_anew() -> None:
    def changed(tree: Any, q: Any, scalars: Any) -> Any:
        kept = scalars.table("kept", len(tree.bodies))
        for index in tree.outward():
            kept[index] = q[index] + q[0]
        before = kept[0] - kept[2]
        for index in tree.outward():
            kept[index] = kept[index] * kept[0]
        after = kept[2]
        kept[2] = after * after
        return [before, after, kept[2]]

    check(robot(CHAIN), changed)


def test_two_tables_of_one_name_are_two() -> None:
    def two(tree: Any, q: Any, scalars: Any) -> Any:
        first, second = scalars.table("kept", 4), scalars.table("kept", 4)
        for index in tree.outward():
            first[index], second[index] = q[index] * q[0], q[index] - q[0]
        total = scalars.carry("kept", scalars.constant(0.0))
        for index in tree.inward():
            total.value = total.value + first[index] * second[index]
        return total.value

    assert check(robot(CHAIN), two).room == {"kept_stored": 1, "kept_stored_2": 1}


def test_an_algorithm_that_has_settled_late_enough_is_taken(monkeypatch):
    """M takes two attempts: the first tells bodies apart, the second finds nothing new."""
    tree = tree_of("arm7")
    monkeypatch.setattr(loops, "_MAX_ATTEMPTS", 2)
    plan_loops(tree, "mass_matrix")
    monkeypatch.setattr(loops, "_MAX_ATTEMPTS", 1)
    with pytest.raises(InternalError, match="does not settle"):
        plan_loops(tree, "mass_matrix")


@pytest.mark.parametrize(
    "function", ["inverse_dynamics", "mass_matrix_inverse", "step_semi_implicit"]
)
@pytest.mark.parametrize("name", ["arm6", "quadruped"])
def test_all_turns_of_loops_are_counted(
    name: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a run of the program counts them, which does not see a constant times a constant."""
    program = plan_loops(tree_of(name), function)
    counted = [0]

    def operation(*_: object) -> object:
        counted[0] += 1
        return Counting()

    class Counting:
        __add__ = __radd__ = __sub__ = __rsub__ = operation
        __mul__ = __rmul__ = __truediv__ = __rtruediv__ = operation

        def __neg__(self) -> object:
            return self

    for word in "sign sqrt exp log atan2 select sin cos fma fnma".split():
        monkeypatch.setitem(program_interpreter._FUNCTIONS, word, operation)
    run(program, {array.name: [Counting() for _ in range(array.size)] for array in program.inputs})
    operations, instructions = work_per_state(program)
    assert program.instructions < counted[0] <= instructions <= 1.05 * counted[0]
    assert 1.3 * instructions < operations < 2 * instructions
