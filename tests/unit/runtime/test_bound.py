"""Bound calls compute what plain calls do, from what their arrays hold when they are made."""

from __future__ import annotations

import gc
import re
import sys
import threading
import tracemalloc
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.errors import (
    DeviceError,
    DtypeError,
    ModelError,
    OptionError,
    QuaternionError,
    ShapeError,
)
from gridgen.robot import open_module
from gridgen.runtime.calls import compiled

ROOT = Path(__file__).resolve().parents[3]
COUNT = 100  # more than compiled code takes at once
GOOD = np.zeros((5, 2))


def states(count: int = COUNT, dtype: str = "float64", seed: int = 5) -> list[np.ndarray]:
    """Return q, qd, qdd of random states."""
    drawn = np.random.default_rng(seed).uniform(-2, 2, (3, count, 2)).astype(dtype)
    return list(drawn)


@pytest.fixture(scope="module")
def emulated(urdf: Path) -> gridgen.Robot:
    return gridgen.load(urdf, backend="emulated")


CALLS: list[tuple[str, int, dict[str, Any]]] = [
    ("inverse_dynamics", 3, {}),
    ("inverse_dynamics", 3, {"gravity": np.array([0.0, 1.0, -2.0]), "schedule": "thread"}),
    ("bias_forces", 2, {"base_velocity": np.arange(6.0)}),
    ("forward_dynamics", 3, {"method": "crba"}),
    ("inverse_dynamics_gradient", 3, {}),
    ("mass_matrix", 1, {}),
    ("forward_kinematics", 1, {}),
    ("jacobian", 1, {"frame": "forearm", "reference": "world"}),
]


@pytest.mark.parametrize("count", [None, 1, 64, COUNT])
@pytest.mark.parametrize(("function", "arrays", "options"), CALLS)
def test_a_bound_call_computes_what_a_plain_call_does(
    two_link: gridgen.Robot,
    function: str,
    arrays: int,
    options: dict[str, Any],
    count: int | None,
) -> None:
    given = [x[0] if count is None else x for x in states(count or 1)][:arrays]
    bound = two_link.bind(function, *given, **options)
    first = bound()
    for seed in (6, 7):
        for array, changed in zip(given, states(count or 1, seed=seed), strict=False):
            array[...] = changed[0] if count is None else changed
        expected = getattr(two_link, function)(*given, **options)
        found = bound()
        assert found is first
        np.testing.assert_equal(found, expected)


def test_every_argument_is_read_anew(two_link: gridgen.Robot, dtype: str) -> None:
    q, qd, qdd = states(dtype=dtype)
    loads = {
        "gravity": np.zeros((COUNT, 3), dtype),
        "f_ext": np.zeros((COUNT, 2, 6), dtype),
        "base_acceleration": np.zeros(6, dtype),
    }
    bound = two_link.bind("inverse_dynamics", q, qd, qdd, **loads)
    before = bound().copy()
    for array in loads.values():
        array[...] = np.random.default_rng(1).normal(size=array.shape)
        found = bound()
        np.testing.assert_array_equal(found, two_link.inverse_dynamics(q, qd, qdd, **loads))
        assert (found != before).any()
        before = found.copy()


def test_results_go_where_they_are_asked_for(two_link: gridgen.Robot) -> None:
    x = states()
    expected = two_link.inverse_dynamics(*x)
    table = np.full((COUNT, 5), 7.0)
    for out in (np.empty((COUNT, 2)), table[:, 1::2], np.empty((2, COUNT)).T):
        bound = two_link.bind("inverse_dynamics", *x, out=out)
        assert bound() is out
        np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(table[:, ::2], 7.0)
    pair = (np.empty((COUNT, 2, 2)), np.empty((COUNT, 2, 2)))
    assert two_link.bind("inverse_dynamics_gradient", *x, out=pair)() is pair
    np.testing.assert_equal(pair, two_link.inverse_dynamics_gradient(*x))


def test_numbers_that_are_no_array_are_read_once(two_link: gridgen.Robot) -> None:
    bound = two_link.bind("potential_energy", q := np.zeros((3, 2)), gravity=[0, 0, -1.62])
    q += 1.0
    np.testing.assert_array_equal(bound(), two_link.potential_energy(q, gravity=[0, 0, -1.62]))


def test_no_states_have_no_results(two_link: gridgen.Robot) -> None:
    assert two_link.bind("mass_matrix", np.zeros((0, 2)))().shape == (0, 2, 2)


def test_tensors_are_bound(two_link: gridgen.Robot) -> None:
    torch = pytest.importorskip("torch")
    x = [torch.from_numpy(value) for value in states()]
    out = torch.empty((COUNT, 2), dtype=torch.float64)
    bound = two_link.bind("inverse_dynamics", *x, out=out)
    made = two_link.bind("inverse_dynamics", *x)
    x[0].add_(1.0)
    expected = two_link.inverse_dynamics(*(value.numpy() for value in x))
    assert bound() is out
    for found in (out, made()):
        assert isinstance(found, torch.Tensor)
        np.testing.assert_array_equal(found.numpy(), expected)


def test_a_generated_module_binds_too() -> None:
    module = open_module(str(ROOT / "generated" / "two_link" / "__init__.py"))
    x = states()
    bound = module.bind("inverse_dynamics", *x)
    np.testing.assert_array_equal(bound(), module.inverse_dynamics(*x))
    assert repr(bound) == '<Bound inverse_dynamics of "two_link", batch 100>'


@pytest.mark.usefixtures("few_objects")
def test_a_bound_call_keeps_its_arrays(two_link: gridgen.Robot) -> None:
    x = states()
    expected, kept = two_link.inverse_dynamics(*x), weakref.ref(x[1])
    bound = two_link.bind("inverse_dynamics", *x)
    x.clear()
    gc.collect()
    assert kept() is not None
    np.testing.assert_array_equal(bound(), expected)
    del bound
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("count", [64, 100_000])
def test_a_bound_call_takes_no_memory(two_link: gridgen.Robot, count: int) -> None:
    bound = two_link.bind("inverse_dynamics_gradient", *states(count))
    bound()
    tracemalloc.start()
    try:
        bound()
        assert tracemalloc.get_traced_memory()[1] < 20_000  # what threads take to begin
    finally:
        tracemalloc.stop()


def test_threads_may_call_what_another_has_bound(two_link: gridgen.Robot) -> None:
    x = states()
    expected = two_link.inverse_dynamics(*x)
    bounds = [two_link.bind("inverse_dynamics", *x) for _ in range(4)]
    threads = [threading.Thread(target=bound) for bound in bounds]
    results = [bound() for bound in bounds]
    for result in results:
        result[...] = 0.0
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, expected)


# -- kernels of a GPU, on the host ----------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["thread", "scan"])
def test_kernels_are_launched_on_the_same_arrays(emulated: gridgen.Robot, schedule: str) -> None:
    x = states(5)
    bound = emulated.bind("inverse_dynamics", *x, schedule=schedule)
    x[0] += 1.0
    expected = emulated.inverse_dynamics(*x, schedule=schedule)
    np.testing.assert_array_equal(bound(), expected)


def test_kernels_whose_workspace_is_shared_memory_are_bound(emulated: gridgen.Robot) -> None:
    x = states(7)
    options = {"method": "cfa", "schedule": "scan"}
    kernel = emulated._module.kernels.named("forward_dynamics_cfa_scan")
    assert kernel.team is not None
    assert kernel.team.workspace_numbers == 0
    bound = emulated.bind("forward_dynamics", *x, **options)
    x[0] += 1.0
    np.testing.assert_array_equal(bound(), emulated.forward_dynamics(*x, **options))


def test_loops_have_their_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = gridgen.GenerateOptions(
        output=tmp_path, functions=("mass_matrix",), longest_program=0
    )
    written = gridgen.generate(ROOT / "robots" / "two_link.urdf", options)
    module = open_module(str(written.folder / "__init__.py"))
    q = states(70)[0]
    expected = module.mass_matrix(q, backend="emulated")
    monkeypatch.setattr(compiled, "_SCRATCH_BYTES", 0)  # the least: a warp of states at a time
    bound = module.bind("mass_matrix", q, backend="emulated")
    monkeypatch.setattr(compiled, "loop_scratch", None)
    np.testing.assert_array_equal(bound(), expected)


# -- quaternions ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def floating(_kernel_cache: None) -> gridgen.Robot:
    return gridgen.load(ROOT / "robots" / "arm6.urdf", floating_base=True, backend="cpu")


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
@pytest.mark.parametrize("count", [3, COUNT])
def test_quaternions_are_looked_at_in_each_call(
    floating: gridgen.Robot, count: int, backend: Any
) -> None:
    q = floating.random_configuration(np.random.default_rng(2), count)
    bound = floating.bind("potential_energy", q, backend=backend)
    np.testing.assert_array_equal(bound(), floating.potential_energy(q, backend=backend))
    q[2, 3:7] *= 1.0005
    before = q.copy()
    np.testing.assert_array_equal(bound(), floating.potential_energy(q, backend=backend))
    np.testing.assert_array_equal(q, before)
    q[2, 3:7] *= 1.5
    kept = bound._answer.copy()
    with pytest.raises(QuaternionError, match="state 2: "):
        bound()
    np.testing.assert_array_equal(bound._answer, kept)


# -- refusals -------------------------------------------------------------------------------------


def unaligned() -> np.ndarray:
    return np.zeros(8 * 10 + 1, np.uint8)[1:].view(np.float64).reshape(5, 2)


def shared() -> dict[str, np.ndarray]:
    q = np.zeros((5, 2))
    return {"qd": q, "out": q}


LAID: list[tuple[Callable[[], dict[str, Any]], str]] = [
    (
        lambda: {"qd": unaligned()},
        "qd cannot be used without a copy (strides (16, 8)",
    ),
    (lambda: {"out": unaligned()}, "out cannot be used without"),
    (lambda: {"f_ext": np.zeros((5, 2, 7))[:, :, :6]}, "f_ext cannot be used without"),
    (shared, "out overlaps qd, for which a plain call makes a copy"),
]


@pytest.mark.parametrize(("changed", "message"), LAID)
def test_what_a_plain_call_copies_is_refused(
    two_link: gridgen.Robot, changed: Callable[[], dict[str, Any]], message: str
) -> None:
    with pytest.raises(ShapeError, match=re.escape(message)):
        two_link.bind("inverse_dynamics", **{"q": GOOD, "qd": GOOD, "qdd": GOOD, **changed()})


def test_each_of_several_results_is_named(two_link: gridgen.Robot) -> None:
    room = np.zeros((5, 2, 2))
    with pytest.raises(ShapeError, match=r"out\[1\] overlaps q, "):
        two_link.bind(
            "inverse_dynamics_gradient", room[:, 0], GOOD, GOOD, out=(np.empty((5, 2, 2)), room)
        )


REFUSED: list[tuple[type[Exception], str, tuple[Any, ...], dict[str, Any], str]] = [
    (OptionError, "neutral", (), {}, 'function is "neutral"; choose one of inverse_'),
    (OptionError, "inverse", (GOOD,), {}, 'function is "inverse"; choose one of inverse_dynamics'),
    (OptionError, "forward_kinematics", (GOOD, []), {}, "the list of frames is empty"),
    (OptionError, "mass_matrix", (GOOD,), {"schedule": "weft"}, 'schedule is "weft"; choose one'),
    (OptionError, "mass_matrix", (GOOD,), {"backend": "gpu"}, 'backend is "gpu"; choose one of'),
    (TypeError, "mass_matrix", (), {}, "mass_matrix() missing 1 required"),
    (TypeError, "mass_matrix", (GOOD,), {"gravity": GOOD}, "unexpected keyword argument"),
    (ShapeError, "mass_matrix", (np.zeros((5, 3)),), {}, "q has shape (5, 3); two_link needs"),
    (DtypeError, "mass_matrix", (None,), {}, "q is None; give numbers"),
    (DtypeError, "mass_matrix", (GOOD,), {"out": [0.0]}, "out is of type list; give an array"),
    (DeviceError, "mass_matrix", (GOOD,), {"schedule": "warp"}, "runs one team of GPU threads"),
]


@pytest.mark.parametrize(("error", "function", "arrays", "options", "message"), REFUSED)
def test_what_is_wrong_is_said_when_it_is_bound(
    two_link: gridgen.Robot,
    error: type[Exception],
    function: Any,
    arrays: tuple[Any, ...],
    options: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        two_link.bind(function, *arrays, **options)


def test_a_function_that_a_module_lacks_is_refused() -> None:
    module = open_module(str(ROOT / "generated" / "two_link" / "__init__.py"))
    with pytest.raises(ModelError, match="--frame"):
        module.bind("jacobian", GOOD, "forearm")


class Immutable:
    """An array of JAX, as far as it is looked at."""


def test_arrays_that_never_change_are_refused(
    two_link: gridgen.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    jax = types.ModuleType("jax")
    jax.__dict__["Array"] = Immutable
    monkeypatch.setitem(sys.modules, "jax", jax)
    for given in ((Immutable(), GOOD), (GOOD, Immutable())):
        with pytest.raises(DtypeError, match="is a JAX array, which is immutable"):
            two_link.bind("bias_forces", *given)
