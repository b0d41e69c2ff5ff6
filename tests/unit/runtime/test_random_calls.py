"""Random calls: arrays that overlap each other in any layout, and signal handlers that raise.

All arrays of a call are views of one memory. What a call computes is what it computes for copies of
them; it writes into results alone, and not at all where it refuses.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gridgen
from gridgen.backends import backend
from gridgen.backends.cpu.backend import Workers
from gridgen.errors import GridGenError
from helpers.robots import exhaustive

#: Bytes of the memory that all arrays of a call lie in.
MEMORY = 1 << 14
#: Functions of a robot with two velocities: arguments, and shapes of results.
FUNCTIONS = {
    "inverse_dynamics": (("q", "qd", "qdd"), [(2,)]),
    "forward_dynamics": (("q", "qd", "tau"), [(2,)]),
    "mass_matrix": (("q",), [(2, 2)]),
    "inverse_dynamics_gradient": (("q", "qd", "qdd"), [(2, 2), (2, 2)]),
}
#: How many calls are tried in every run, and how many when asked for.
examples = pytest.mark.parametrize("count", [150, *exhaustive(20_000)])


class View(NamedTuple):
    """Where an array lies in the memory: offset, shape and strides [bytes]."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, memory: np.ndarray, dtype: str) -> np.ndarray:
        array: np.ndarray = np.ndarray(self.shape, dtype, memory, self.offset, self.strides)
        return array


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...], itemsize: int, earlier: list[View]) -> View:
    """Draw where an array lies; not seldom where an earlier one lies, or begins a little later."""
    alike = [view for view in earlier if view.shape == shape]
    if alike and draw(st.booleans()):
        view = draw(st.sampled_from(alike))
        moved = view._replace(offset=view.offset + itemsize * draw(st.integers(0, 3)))
        return moved if extent(moved, itemsize)[1] <= MEMORY else view
    if draw(st.booleans()):  # in order, in any of the orders of axes, with gaps between
        strides, step = [0] * len(shape), itemsize
        for axis in draw(st.permutations(range(len(shape)))):
            step *= draw(st.integers(1, 2))
            strides[axis] = step * draw(st.sampled_from((1, 1, -1)))
            step *= shape[axis]
    else:
        strides = [itemsize * draw(st.integers(-16, 16)) for _ in shape]
    begin, end = extent(View(0, shape, tuple(strides)), itemsize)
    if end - begin > MEMORY:
        strides = [itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        begin, end = 0, itemsize * math.prod(shape)
    offset = itemsize * draw(st.integers(0, (MEMORY - end + begin) // itemsize)) - begin
    return View(offset, shape, tuple(strides))


def extent(view: View, itemsize: int) -> tuple[int, int]:
    """Return the bytes between which an array lies."""
    reach = [(count - 1) * step for count, step in zip(view.shape, view.strides, strict=True)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    return view.offset + low, view.offset + high + itemsize


class RandomCall(NamedTuple):
    """A call whose arrays lie in one memory.

    Attributes:
        function: name of the function.
        dtype:    type of all arrays.
        shift:    address of the memory, beyond that of an aligned one [bytes].
        inputs:   where the arguments lie.
        outputs:  where the results go; none for new arrays.
        is_bound: whether the call is bound first.
    """

    function: str
    dtype: str
    shift: int
    inputs: list[View]
    outputs: list[View]
    is_bound: bool


@st.composite
def random_calls(draw: st.DrawFn) -> RandomCall:
    function = draw(st.sampled_from(sorted(FUNCTIONS)))
    arguments, results = FUNCTIONS[function]
    dtype = draw(st.sampled_from(("float32", "float64")))
    itemsize = np.dtype(dtype).itemsize
    batch = draw(st.one_of(st.just(()), st.tuples(st.integers(1, 100))))
    inputs: list[View] = []
    for _ in arguments:
        inputs.append(draw(views((*batch, 2), itemsize, inputs)))
    outputs: list[View] = []
    for shape in results if draw(st.integers(0, 3)) else ():
        outputs.append(draw(views((*batch, *shape), itemsize, inputs + outputs)))
    shift = draw(st.sampled_from((0, 0, 0, 1, 4)))
    return RandomCall(function, dtype, shift, inputs, outputs, draw(st.integers(0, 3)) == 0)


@examples
def test_random_calls(two_link: gridgen.Robot, count: int) -> None:
    @settings(max_examples=count, deadline=None, derandomize=count < 200, database=None)
    @given(random_calls())
    def check(call: RandomCall) -> None:
        itemsize = np.dtype(call.dtype).itemsize
        room = np.empty(MEMORY + 8, np.uint8)
        memory = room[call.shift : call.shift + MEMORY]
        numbers = np.random.default_rng(3).normal(size=MEMORY // itemsize).astype(call.dtype)
        memory[...] = numbers.view(np.uint8)
        inputs = [view.of(memory, call.dtype) for view in call.inputs]
        out = tuple(view.of(memory, call.dtype) for view in call.outputs)
        options: dict[str, Any] = {"out": out if len(out) > 1 else out[0]} if out else {}
        function = getattr(two_link, call.function)
        for _ in range(2):  # what is known of a call is known to the next one
            reference = memory.copy()
            expected = function(*[array.copy() for array in inputs])
            expected = expected if isinstance(expected, tuple) else (expected,)
            for view, result in zip(call.outputs, expected, strict=False):
                view.of(reference, call.dtype)[...] = result
            before = memory.copy()
            try:
                if call.is_bound:
                    found = two_link.bind(call.function, *inputs, **options)()
                else:
                    found = function(*inputs, **options)
            except GridGenError:
                np.testing.assert_array_equal(memory, before)
                return
            found = found if isinstance(found, tuple) else (found,)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(memory, reference)

    check()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch, urdf: Path) -> gridgen.Robot:
    """A robot whose batches four threads share, on any machine."""
    monkeypatch.setattr(backend("cpu"), "_workers", Workers(4))
    return gridgen.load(urdf, backend="cpu")


@pytest.mark.parametrize("count", [12, *exhaustive(300)])
def test_random_interrupts(shared: gridgen.Robot, alarm: Callable[..., bool], count: int) -> None:
    """Whatever a call has written when it raises, it writes nothing later."""
    states, rng = 100_000, np.random.default_rng(4)
    numbers = rng.normal(size=(2, states, 2))
    tau = rng.normal(size=(states, 3, 2))
    calls: dict[str, Callable[..., Any]] = {
        "inverse_dynamics": lambda q, qd, **out: shared.inverse_dynamics(q, qd, q, **out),
        "mass_matrix": lambda q, qd, **out: shared.mass_matrix(q, **out),
        "rollout": lambda q, qd, **out: shared.rollout(q, qd, tau, 1e-3, store_every="last", **out),
    }
    taken: dict[str, float] = {}

    # What fails once need not fail again: no smaller example is looked for.
    @settings(
        max_examples=count,
        deadline=None,
        derandomize=count < 200,
        database=None,
        phases=[Phase.generate],
    )
    @given(
        st.sampled_from(sorted(calls)),
        st.booleans(),
        st.lists(st.floats(0.05, 1.0), min_size=4, max_size=8),
    )
    def check(name: str, are_columns: bool, when: list[float]) -> None:
        q, qd = (np.asfortranarray(x) if are_columns else x for x in numbers[:2].copy())
        expected = calls[name](q, qd)
        results = expected if isinstance(expected, tuple) else (expected,)
        out = tuple(np.empty_like(result) for result in results)
        options = {"out": out if len(out) > 1 else out[0]}
        call = partial(calls[name], q, qd, **options)
        begin = time.perf_counter()
        call()
        seconds = taken.setdefault(name, time.perf_counter() - begin)
        for fraction in when:
            alarm(fraction * seconds, call)
            for array in out:
                array[...] = -1.0
            time.sleep(seconds / 8)
            assert all((array == -1.0).all() for array in out)
        call()
        for array, result in zip(out, results, strict=True):
            np.testing.assert_array_equal(array, result)

    check()
