"""Results do not depend on how a batch lies in memory, on its size, or on its other states."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen.backends.cpu.backend import CpuBackend
from gridgen.functions import FUNCTIONS
from helpers.dynamics import robot_path

COUNT = 200


def states(dtype: str = "float64", count: int = COUNT) -> list[np.ndarray]:
    """Return q, qd, qdd of random states."""
    rng = np.random.default_rng(99)
    return [rng.uniform(-2, 2, (count, 2)).astype(dtype) for _ in range(3)]


@pytest.fixture(scope="module")
def expected(two_link: gridgen.Robot) -> dict[str, np.ndarray]:
    return {dtype: two_link.inverse_dynamics(*states(dtype)) for dtype in ("float32", "float64")}


# -- layouts --------------------------------------------------------------------------------------


def as_columns(array: np.ndarray) -> np.ndarray:
    return np.array(array.T, order="C").T


def backwards(array: np.ndarray) -> np.ndarray:
    return array[::-1].copy()[::-1]


def reversed_components(array: np.ndarray) -> np.ndarray:
    return array[..., ::-1].copy()[..., ::-1]


def within_a_table(array: np.ndarray) -> np.ndarray:
    table = np.full((*array.shape[:-1], 2 * array.shape[-1] + 1), np.nan, array.dtype)
    table[..., 1::2] = array
    return table[..., 1::2]


def every_third(array: np.ndarray) -> np.ndarray:
    sparse = np.full((3 * len(array), *array.shape[1:]), np.nan, array.dtype)
    sparse[1::3] = array
    return sparse[1::3]


def unaligned(array: np.ndarray) -> np.ndarray:
    raw = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    raw[...] = array
    assert not raw.flags.aligned
    return raw


def in_records(array: np.ndarray) -> np.ndarray:
    kind = [("flag", "u1"), ("values", array.dtype, array.shape[1:])]
    records = np.zeros(len(array), kind)
    records["values"] = array
    return records["values"]


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


class Exported:
    """An array of a library that shares memory by DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


LAYOUTS = [
    as_columns,
    backwards,
    reversed_components,
    within_a_table,
    every_third,
    unaligned,
    in_records,
    read_only,
    np.asfortranarray,
    Exported,
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_is_read(
    two_link: gridgen.Robot, expected: dict[str, np.ndarray], layout: object, dtype: str
) -> None:
    result = two_link.inverse_dynamics(*(layout(x) for x in states(dtype)))
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, expected[dtype])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_may_be_mixed(
    two_link: gridgen.Robot, expected: dict[str, np.ndarray], layout: object, dtype: str
) -> None:
    q, qd, qdd = states(dtype)
    result = two_link.inverse_dynamics(q, layout(qd), as_columns(qdd))
    np.testing.assert_array_equal(result, expected[dtype])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_of_wrenches_is_read(
    two_link: gridgen.Robot, layout: object, dtype: str
) -> None:
    x = states(dtype)
    f_ext = np.random.default_rng(1).normal(size=(COUNT, 2, 6)).astype(dtype)
    np.testing.assert_array_equal(
        two_link.inverse_dynamics(*x, f_ext=layout(f_ext)),
        two_link.inverse_dynamics(*x, f_ext=f_ext),
    )


def test_a_broadcast_state_is_read_in_place(two_link: gridgen.Robot, dtype: str) -> None:
    q, qd, qdd = states(dtype)
    one = np.broadcast_to(qd[0], qd.shape)
    assert one.strides[0] == 0
    np.testing.assert_array_equal(
        two_link.inverse_dynamics(q, one, qdd), two_link.inverse_dynamics(q, one.copy(), qdd)
    )


def test_sequences_are_numbers_of_float64(
    two_link: gridgen.Robot, expected: dict[str, np.ndarray]
) -> None:
    q, qd, qdd = (x.tolist() for x in states())
    np.testing.assert_array_equal(two_link.inverse_dynamics(q, qd, qdd), expected["float64"])
    mixed = two_link.inverse_dynamics(states("float32")[0], qd, qdd)
    np.testing.assert_array_equal(mixed, expected["float32"])
    assert mixed.dtype == np.float32
    one = two_link.inverse_dynamics([0, 1], [2, 3], (4, 5))
    assert one.shape == (2,)
    assert one.dtype == np.float64


def test_one_state_has_no_batch_axis(
    two_link: gridgen.Robot, expected: dict[str, np.ndarray], dtype: str
) -> None:
    x = states(dtype)
    for i in (0, 7):
        one = two_link.inverse_dynamics(*(value[i] for value in x))
        assert one.shape == (2,)
        assert one.dtype == dtype
        np.testing.assert_array_equal(one, expected[dtype][i])
    strided = [within_a_table(value)[3] for value in x]
    np.testing.assert_array_equal(two_link.inverse_dynamics(*strided), expected[dtype][3])
    M = two_link.mass_matrix(x[0][0])
    assert M.shape == (2, 2)
    np.testing.assert_array_equal(M, two_link.mass_matrix(x[0])[0])


def test_no_states_have_no_results(two_link: gridgen.Robot, dtype: str) -> None:
    nothing = np.zeros((0, 2), dtype)
    tau = two_link.inverse_dynamics(nothing, nothing, nothing)
    assert tau.shape == (0, 2)
    assert tau.dtype == dtype
    assert two_link.mass_matrix(nothing).shape == (0, 2, 2)
    out = np.zeros((0, 2), dtype)
    assert two_link.inverse_dynamics(nothing, nothing, nothing, out=out) is out


def test_torch_tensors_come_and_go(
    two_link: gridgen.Robot, expected: dict[str, np.ndarray], dtype: str
) -> None:
    torch = pytest.importorskip("torch")
    x = [torch.from_numpy(value) for value in states(dtype)]
    result = two_link.inverse_dynamics(*x)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), expected[dtype])


# -- arrays for the result ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout", [lambda x: x, as_columns, backwards, within_a_table, every_third, unaligned]
)
def test_results_go_where_they_are_asked_for(
    two_link: gridgen.Robot, expected: dict[str, np.ndarray], layout: object, dtype: str
) -> None:
    out = layout(np.full((COUNT, 2), np.nan, dtype))
    assert two_link.inverse_dynamics(*states(dtype), out=out) is out
    np.testing.assert_array_equal(out, expected[dtype])


def test_nothing_is_written_beside_the_result(two_link: gridgen.Robot, dtype: str) -> None:
    table = np.full((COUNT + 2, 5), 7.0, dtype)
    two_link.inverse_dynamics(*states(dtype), out=table[1:-1, 1::2])
    table[1:-1, 1::2] = 7.0
    np.testing.assert_array_equal(table, 7.0)


def test_matrices_go_where_they_are_asked_for(two_link: gridgen.Robot, dtype: str) -> None:
    q = states(dtype)[0]
    expected = two_link.mass_matrix(q)
    room = np.full((COUNT, 4, 3), 7.0, dtype)
    two_link.mass_matrix(q, out=room[:, ::2, 1:])
    np.testing.assert_array_equal(room[:, ::2, 1:], expected)
    room[:, ::2, 1:] = 7.0
    np.testing.assert_array_equal(room, 7.0)


@pytest.mark.parametrize("argument", [0, 1, 2])
def test_a_result_may_overwrite_an_argument(
    two_link: gridgen.Robot, expected: dict[str, np.ndarray], argument: int, dtype: str
) -> None:
    x = states(dtype)
    two_link.inverse_dynamics(*x, out=x[argument])
    np.testing.assert_array_equal(x[argument], expected[dtype])


@pytest.mark.parametrize("shift", [1, -1, 3])
def test_a_result_may_overlap_an_argument(
    two_link: gridgen.Robot, expected: dict[str, np.ndarray], shift: int, dtype: str
) -> None:
    q, qd, qdd = states(dtype)
    room = np.zeros((COUNT + 3, 2), dtype)
    start, end = (0, shift) if shift > 0 else (-shift, 0)
    overlapping, out = room[start : start + COUNT], room[end : end + COUNT]
    overlapping[:] = qd
    two_link.inverse_dynamics(q, overlapping, qdd, out=out)
    np.testing.assert_array_equal(out, expected[dtype])


# -- states do not see each other -----------------------------------------------------------------


@pytest.mark.parametrize("batch", range(1, 41))
def test_a_state_is_computed_alike_anywhere_in_any_batch(
    two_link: gridgen.Robot, expected: dict[str, np.ndarray], batch: int, dtype: str
) -> None:
    x = states(dtype)
    for start in (0, 1, 5, COUNT - batch):
        part = [value[start : start + batch] for value in x]
        result = two_link.inverse_dynamics(*part)
        np.testing.assert_array_equal(result, expected[dtype][start : start + batch])


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30, -1e7])
@pytest.mark.parametrize("batch", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40])
def test_a_wild_state_spoils_no_other(
    two_link: gridgen.Robot,
    expected: dict[str, np.ndarray],
    batch: int,
    poison: float,
    dtype: str,
) -> None:
    """Also angles so large that their sine takes another path: the others' bits stay."""
    x = [value[:batch] for value in states(dtype)]
    for position in range(batch):
        q = x[0].copy()
        q[position] = poison
        with np.errstate(all="ignore"):
            result = two_link.inverse_dynamics(q, *x[1:])
        others = np.arange(batch) != position
        np.testing.assert_array_equal(result[others], expected[dtype][:batch][others])
        if not np.isfinite(poison):
            # Gravity alone acts on the first link through q: both efforts are lost.
            assert np.isnan(result[position]).all()


@pytest.mark.parametrize("function", ["bias_forces", "forward_dynamics_aba", "mass_matrix"])
def test_nan_reaches_its_own_state_in_every_function(
    two_link: gridgen.Robot, function: str, dtype: str
) -> None:
    q, qd, tau = states(dtype)
    poisoned = q.copy()
    poisoned[57] = np.nan
    gravity = np.zeros((COUNT, 3), dtype)
    x = {"q": q, "qd": qd, "tau": tau, "gravity": gravity}
    clean = two_link.evaluate(function, x)
    result = two_link.evaluate(function, {**x, "q": poisoned})
    assert np.isnan(result[57]).any()
    others = np.arange(COUNT) != 57
    np.testing.assert_array_equal(result[others], clean[others])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_does_not_show(
    urdf: object,
    two_link: gridgen.Robot,
    monkeypatch: pytest.MonkeyPatch,
    threads: int,
    dtype: str,
) -> None:
    monkeypatch.setattr("gridgen.backends.cpu.backend.MIN_SHARE", 1e-9)  # divide every batch
    backend = CpuBackend(threads=threads)
    monkeypatch.setattr("gridgen.runtime.calls.compiled.backend", lambda name: backend)
    robot = gridgen.load(urdf, backend="cpu")
    x = states(dtype, count=1000)
    for _ in range(2):  # the first call measures, the second knows
        np.testing.assert_array_equal(robot.inverse_dynamics(*x), two_link.inverse_dynamics(*x))


def test_what_does_not_fit_into_memory_is_refused(
    urdf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is compiled, with what it takes and what there is."""
    robot = gridgen.load(urdf, backend="cpu")
    monkeypatch.setattr("os.sysconf", lambda name: 10)
    with pytest.raises(gridgen.DeviceError, match=r"mass_matrix takes .* this machine has"):
        robot.mass_matrix(np.zeros(2))
    monkeypatch.undo()
    assert robot.mass_matrix(np.zeros(2)).shape == (2, 2)


# -- names ----------------------------------------------------------------------------------------


def test_several_results_have_the_names_of_the_record(two_link: gridgen.Robot) -> None:
    q, qd, u = states()
    for _ in range(2):  # the second call is prepared
        found = two_link.inverse_dynamics_gradient(q, qd, u)
        dtau_dq, dtau_dqd = found
        assert found.dtau_dq is dtau_dq
        assert found.dtau_dqd is dtau_dqd
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert again._fields == FUNCTIONS["inverse_dynamics_gradient"].results
    bars = two_link.vjp("inverse_dynamics", u, q, qd, u, wrt=("q", "qd"))
    assert bars._fields == ("q_bar", "qd_bar")
    assert two_link.bind("step", q, qd, u, 0.01)()._fields == FUNCTIONS["step"].results
    pair = two_link.jvp("inverse_dynamics", (u, u, u), q, qd, u)
    assert pair.tangents is pair[1]
    path = two_link.rollout(q, qd, np.zeros((3, 2)), 0.01, return_efforts=True)
    assert path._fields == ("q_path", "qd_path", "tau_path")
    parts = two_link.compute(("mass_matrix", "step"), q, qd, u, 0.01)
    assert parts.step._fields == FUNCTIONS["step"].results
    given = [array.copy() for array in found]
    assert two_link.inverse_dynamics_gradient(q, qd, u, out=given) is given


def test_kernels_have_the_results_of_their_functions() -> None:
    robot = gridgen.load(robot_path("quadruped"), floating_base=True, parameters="all")
    for kernel in robot.kernels.values():
        row = FUNCTIONS.get(kernel.key.function)
        if row and len(row.results) > 1 and not (kernel.key.products or kernel.key.step):
            assert kernel.result_type._fields[: len(row.results)] == row.results
