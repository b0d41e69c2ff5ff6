"""Rows in shared memory: every tile has a place of its own while it needs one."""

from __future__ import annotations

import pytest

from gridgen.kernel import MAX_STAGED
from gridgen.schedules.thread.plan import plan_rows
from gridgen.symbolic.program import Program, Store
from gridgen.symbolic.tiles import NOWHERE, TILE, Staging, pitch
from helpers.programs import plan_thread
from numerics.robots import load_tree, urdf_path

#: Rows that stay whole, that are cut, and more than there is room for.
CASES = [
    ("arm7", False, "mass_matrix"),
    ("arm6", False, "inverse_dynamics_gradient"),
    ("quadruped", False, "mass_matrix"),
    ("quadruped", True, "mass_matrix_inverse"),
]


def stores(program: Program) -> list[tuple[str, int]]:
    """Return array and element of every store, in order."""
    statements = (statement for block in program.blocks for statement in block.statements)
    return [(s.array, s.index) for s in statements if isinstance(s, Store)]


def staging_of(name: str, floating_base: bool, function: str) -> tuple[Program, Staging]:
    program = plan_thread(load_tree(urdf_path(name), floating_base), function)
    staging = plan_rows(program)
    assert staging is not None
    return program, staging


@pytest.mark.parametrize("case", CASES)
def test_a_number_belongs_to_one_tile_at_a_time(case: tuple[str, bool, str]) -> None:
    program, staging = staging_of(*case)
    sizes = {array.name: array.size for array in program.inputs}
    owner: dict[int, object] = {}
    for name, begin in staging.inputs.items():
        owner |= dict.fromkeys(range(begin, begin + sizes[name]), name)
    assert len(owner) == sum(sizes[name] for name in staging.inputs)
    complete: set[tuple[str, int]] = set()
    for array, index in stores(program):
        row = staging.results[array]
        number = index // row.width
        tile = row.tiles[number]
        assert (array, number) not in complete
        if tile.begin != NOWHERE:
            for place in range(tile.begin, tile.begin + pitch(row.width)):
                assert 0 <= place < staging.numbers <= MAX_STAGED
                assert owner.setdefault(place, (array, number)) == (array, number)
        if index == tile.last:
            complete.add((array, number))
            owner = {place: who for place, who in owner.items() if who != (array, number)}
    assert len(complete) == sum(len(row.tiles) for row in staging.results.values())


def test_rows_stay_whole_where_they_are_dense_and_there_is_room() -> None:
    _, staging = staging_of("arm7", False, "mass_matrix")
    assert staging.results["M"].width == 49
    assert staging.numbers == 7 + 49


def test_rows_are_cut_where_they_are_not_dense() -> None:
    _, staging = staging_of("quadruped", False, "mass_matrix")
    assert staging.results["M"].width == TILE


def test_results_that_a_warp_has_no_room_for_take_turns() -> None:
    program, staging = staging_of("quadruped", True, "mass_matrix_inverse")
    assert staging.numbers < sum(array.size for array in program.outputs)


def test_loops_have_no_such_kernel() -> None:
    program = plan_thread(load_tree(urdf_path("arm7")), "inverse_dynamics", longest=1)
    assert plan_rows(program) is None


@pytest.mark.parametrize("length", range(1, 40))
def test_threads_meet_at_a_bank_at_most_in_pairs(length: int) -> None:
    banks = [lane * pitch(length) % 32 for lane in range(32)]
    assert max(map(banks.count, banks)) <= (1 if length % 4 != 2 else 2)
