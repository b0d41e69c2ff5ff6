"""Launches of a batch that share scratch memory."""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.kernel import TeamLaunch
from gridgen.runtime.calls import compiled
from gridgen.runtime.calls.compiled import Scratch, loop_scratch, workspace

ARRAYS = (1000, 7, 1, 5000, 0, 1, 9000, 1, 10)
Q = np.zeros((5, 7), np.float32)


def launched(batch: int, scratch: Scratch | None) -> list[tuple[list[int], int]]:
    found = compiled.chunks(ARRAYS, batch, 4, scratch)
    return [(list(arguments), states) for arguments, states in found]


def test_without_scratch_memory_a_batch_is_one_launch() -> None:
    assert launched(10, None) == [([*ARRAYS], 10)]


def test_launches_go_on_where_the_last_one_ended_with_the_same_scratch_memory() -> None:
    scratch = Scratch(4, (77, 6, 1), None)
    first, second, third = launched(10, scratch)
    assert first == ([*ARRAYS, 77, 6, 1], 4)
    assert second == ([1000 + 4 * 7 * 4, 7, 1, 5000, 0, 1, 9000 + 4 * 4, 1, 10, 77, 6, 1], 4)
    assert third == ([1000 + 8 * 7 * 4, 7, 1, 5000, 0, 1, 9000 + 8 * 4, 1, 10, 77, 6, 1], 2)


@pytest.mark.parametrize(("batch", "rows"), [(1, 4), (9, 12), (5000, 5000)])
def test_a_workspace_has_a_row_for_each_state_of_whole_blocks(batch: int, rows: int) -> None:
    scratch = workspace(TeamLaunch(64, 4, 0, 30), batch, Q)
    assert scratch.array is not None
    assert (scratch.array.shape, scratch.array.dtype) == ((rows, 30), np.float32)
    assert scratch.numbers == (scratch.array.ctypes.data, 30, 1)
    assert scratch.states == rows


def test_a_kernel_whose_workspace_is_shared_memory_is_launched_once() -> None:
    scratch = workspace(TeamLaunch(64, 4, 0, 0), 5000, Q)
    assert scratch == Scratch(5000, (0, 0, 0), None)
    assert [states for _, states in launched(5000, scratch)] == [5000]


@pytest.mark.parametrize(
    ("batch", "room", "filling", "states"),
    [(10, 1 << 20, 32, 10), (5000, 1 << 12, 32, 96), (5000, 100, 32, 32), (5000, 100, 640, 640)],
)
def test_loops_have_adjacent_numbers_for_as_many_states_as_fit_or_fill_the_device(
    monkeypatch: pytest.MonkeyPatch, batch: int, room: int, filling: int, states: int
) -> None:
    monkeypatch.setattr(compiled, "_SCRATCH_BYTES", room)
    scratch = loop_scratch(10, batch, Q, filling)
    assert scratch.array is not None
    assert scratch.array.shape == (10, states)
    assert scratch[:2] == (states, (scratch.array.ctypes.data, 1, states))
