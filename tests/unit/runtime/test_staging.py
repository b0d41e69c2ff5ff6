"""Arrays that a kernel cannot work on in place: the right results, in little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import gridgen
from gridgen.errors import ShapeError
from gridgen.runtime.arrays import staging
from gridgen.runtime.arrays.layout import meet
from gridgen.runtime.calls.compiled import Compiled

COUNT = 1000
LARGE = 1 << 20
#: The copies of a call, and what Python objects take.
SPARE = 2 * staging.PART_BYTES


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a part of a few hundred states; the whole batch is too much for one copy."""
    monkeypatch.setattr(staging, "PART_BYTES", 1 << 12)
    monkeypatch.setattr(staging, "MAX_BYTES", 1 << 13)


def table(columns: int, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(4).uniform(-2, 2, (count, columns))


def columns_of_a_table() -> list[np.ndarray]:
    room = table(8)
    return [room[:, 0:2], room[:, 2:4], room[:, 4:6], room[:, 6:8]]


def shared_columns() -> list[np.ndarray]:
    room = table(6)
    return [room[:, 0:2], room[:, 2:4], room[:, 4:6], room[:, 3:5]]


def the_same_array() -> list[np.ndarray]:
    q, qd, qdd = table(2), table(2), table(2)
    return [q, qd, qdd, qdd]


def the_same_array_for_all() -> list[np.ndarray]:
    q = table(2)
    return [q, q, q, q]


def the_same_array_backwards() -> list[np.ndarray]:
    q, qd, qdd = table(2), table(2), table(2)[::-1]
    return [q, qd, qdd, qdd]


def exchanged_components() -> list[np.ndarray]:
    q, qd, qdd = table(2), table(2), table(2)
    return [q, qd, qdd, qdd[:, ::-1]]


def the_same_columns() -> list[np.ndarray]:
    q, qd, qdd = table(2), table(2), np.asfortranarray(table(2))
    return [q, qd, qdd, qdd]


STATE_BY_STATE = [
    columns_of_a_table,
    shared_columns,
    the_same_array,
    the_same_array_for_all,
    the_same_array_backwards,
    exchanged_components,
]


@pytest.mark.parametrize("arrays", STATE_BY_STATE)
def test_overlaps_state_by_state_take_no_large_copy(
    two_link: gridgen.Robot, small_parts: None, arrays: Callable[[], list[np.ndarray]]
) -> None:
    *x, out = arrays()
    expected = two_link.inverse_dynamics(*(value.copy() for value in x))
    assert two_link.inverse_dynamics(*x, out=out) is out
    np.testing.assert_array_equal(out, expected)


def shifted(by: int) -> list[np.ndarray]:
    room = table(2, COUNT + abs(by))
    views = room[: -abs(by)], room[abs(by) :]
    qdd, out = views if by > 0 else views[::-1]
    return [table(2), table(2), qdd, out]


def reversed_states() -> list[np.ndarray]:
    qdd = table(2)
    return [table(2), table(2), qdd, qdd[::-1]]


def another_step() -> list[np.ndarray]:
    room = table(2, 2 * COUNT)
    return [table(2), table(2), room[::2], room[:COUNT]]


CROSSING = [
    lambda: shifted(1),
    lambda: shifted(-1),
    lambda: shifted(300),
    reversed_states,
    another_step,
    the_same_columns,
]


@pytest.mark.parametrize("arrays", CROSSING)
def test_other_overlaps_are_copied_whole_up_to_a_limit(
    two_link: gridgen.Robot,
    small_parts: None,
    monkeypatch: pytest.MonkeyPatch,
    arrays: Callable[[], list[np.ndarray]],
) -> None:
    *x, out = arrays()
    before = [value.copy() for value in (*x, out)]
    with pytest.raises(ShapeError, match=r"out overlaps qdd, .* too large for a copy"):
        two_link.inverse_dynamics(*x, out=out)
    for value, copy in zip((*x, out), before, strict=True):
        np.testing.assert_array_equal(value, copy)
    monkeypatch.setattr(staging, "MAX_BYTES", 1 << 14)
    expected = two_link.inverse_dynamics(*before[:3])
    two_link.inverse_dynamics(*x, out=out)
    np.testing.assert_array_equal(out, expected)


def test_an_argument_that_all_states_share_may_lie_in_the_result(
    two_link: gridgen.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "PART_BYTES", 1 << 12)
    q, qd, qdd, out = table(2), table(2), table(2), table(2)
    gravity = out.reshape(-1)[100:103]
    expected = two_link.inverse_dynamics(q, qd, qdd, gravity=gravity.copy())
    two_link.inverse_dynamics(q, qd, qdd, gravity=gravity, out=out)
    np.testing.assert_array_equal(out, expected)


def test_results_of_several_arrays_may_overwrite_arguments(
    two_link: gridgen.Robot, small_parts: None
) -> None:
    room = np.random.default_rng(4).uniform(-2, 2, (COUNT, 2, 2))
    q, qd, qdd = room[:, 0], room[:, 1], table(2)
    expected = two_link.inverse_dynamics_gradient(q.copy(), qd.copy(), qdd)
    out = (room, np.empty((COUNT, 2, 2)))
    assert two_link.inverse_dynamics_gradient(q, qd, qdd, out=out) is out
    for result, reference in zip(out, expected, strict=True):
        np.testing.assert_array_equal(result, reference)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 127, 128, 129, COUNT])
def test_parts_of_a_batch_are_as_the_whole(
    two_link: gridgen.Robot, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    x = [table(2, count) for _ in range(3)]
    f_ext = np.random.default_rng(1).normal(size=(count, 2, 7))[:, :, :6]
    expected = two_link.inverse_dynamics(*x, f_ext=f_ext.copy())
    for size in (1, 96 * 64, 96 * 100):
        monkeypatch.setattr(staging, "PART_BYTES", size)
        np.testing.assert_array_equal(two_link.inverse_dynamics(*x, f_ext=f_ext), expected)


# -- memory ---------------------------------------------------------------------------------------


def peak(call: Callable[[], object]) -> int:
    """Return the bytes allocated in a call at most at a time; NumPy reports its own."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_call_takes_no_memory_beside_its_arrays(two_link: gridgen.Robot) -> None:
    x = [table(2, LARGE) for _ in range(3)]
    two_link.inverse_dynamics(*(value[:1] for value in x))
    result = x[0].nbytes
    assert peak(lambda: two_link.inverse_dynamics(*x)) < result + 100_000
    out = np.empty((LARGE, 2))
    assert peak(lambda: two_link.inverse_dynamics(*x, out=out)) < 100_000
    columns = [np.asfortranarray(value) for value in x]
    assert peak(lambda: two_link.inverse_dynamics(*columns, out=out)) < 100_000


def test_copies_do_not_grow_with_the_batch(two_link: gridgen.Robot) -> None:
    x = [table(2, LARGE) for _ in range(3)]
    f_ext = np.zeros((LARGE, 2, 7))[:, :, :6]  # 100 MB that no kernel can read in place
    unaligned = np.zeros(16 * LARGE + 1, np.uint8)[1:].view(np.float64).reshape(LARGE, 2)
    two_link.inverse_dynamics(*(value[:1] for value in x), f_ext=f_ext[:1])
    out = np.empty((LARGE, 2))
    for call in (
        lambda: two_link.inverse_dynamics(*x, f_ext=f_ext, out=out),
        lambda: two_link.inverse_dynamics(x[0], x[1], unaligned, out=out),
        lambda: two_link.inverse_dynamics(*x, out=unaligned),
        lambda: two_link.inverse_dynamics(*x, out=x[1]),
    ):
        assert peak(call) < SPARE


def test_rollouts_take_their_states_in_parts(
    two_link: gridgen.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with all of its steps, where arrays are not aligned or a result lies over one."""
    q, qd, tau = table(2, 40), table(2, 40)[::-1], table(12, 40).reshape(40, 6, 2)
    room = np.zeros(tau.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(tau.shape)
    room[...] = tau
    assert not room.flags.aligned
    expected = two_link.rollout(q, qd, tau, 0.01)
    launches: list[int] = []
    launch = Compiled.launch

    def noted(self: Compiled, states: int, *rest: object) -> None:
        launches.append(states)
        launch(self, states, *rest)

    monkeypatch.setattr(Compiled, "launch", noted)
    monkeypatch.setattr(staging, "ROLLOUT_PART_BYTES", 16 * room[0].nbytes)
    for one, other in zip(two_link.rollout(q, qd, room, 0.01), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert launches == [16, 16, 8]
    path = tuple(one.copy() for one in expected)
    path[0][:, 3], path[1][:, 3] = q, qd
    two_link.rollout(path[0][:, 3], path[1][:, 3], tau, 0.01, out=path)
    for one, other in zip(path, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(launches) > 4
    start = path[0][:, 0][::-1]  # whose states lie in the memory of others
    start[...] = q
    two_link.rollout(start, qd, tau, 0.01, out=path)
    np.testing.assert_array_equal(path[0], expected[0])


def test_arrays_that_touch_do_not_overlap():
    assert not meet((0, 8), (8, 16))
    assert not meet((8, 16), (0, 8))
    assert meet((0, 9), (8, 16))
