"""The ``cpu`` backend against the reference.

What a text means is shown for every robot by test_programs.py; here compilers are shown to keep to
it: every function on one of three robots and in one type, in turn, and some on other robots.
`make test-exhaustive` compiles all of them for all robots, and some of every robot of
example-robot-data.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from gridgen.backends.cpu.backend import CpuBackend
from gridgen.check import compare_function, random_states
from gridgen.dynamics.functions import COMPUTATIONS, frame_computations
from gridgen.errors import GridGenError
from gridgen.functions import FUNCTIONS as REGISTRY
from gridgen.functions import GENERATED
from gridgen.functions.record import STEPS
from gridgen.functions.types import REFERENCES
from gridgen.model.tree import KinematicTree
from gridgen.modules import TracedModule
from helpers.robots import LARGE_ROBOTS, MAIN_ROBOTS, OWN_ROBOTS, example_urdfs, refusal, refused
from numerics.robots import load_robot, load_tree, urdf_path

#: Whole SIMD packs and a part of one, more than one block of states.
STATES = 71
DTYPES = ("float32", "float64")
#: Functions of a frame, in the order of frame_computations(): here that of the last body.
OF_FRAMES = [
    f"{name} {reference}"
    for reference in REFERENCES
    for name in GENERATED
    if REGISTRY[name].of_frame
]
#: Steps in time are compiled when asked for, and by test_motion.py, test_trajectories.py.
_IN_TIME = ("step", "step_gradient")
STEPS_IN_TIME = [c.name for c in COMPUTATIONS.values() if c.key.function in _IN_TIME]
_OF_FUNCTIONS = [c for c in COMPUTATIONS.values() if c.name not in (*STEPS, *STEPS_IN_TIME)]
#: Derivatives, those of second order without loads: programs that take long to compile.
DERIVATIVES = [
    c.name
    for c in _OF_FUNCTIONS
    if len(c.outputs) > 1 and not ("dM_dq" in c.outputs and c.key.inputs)
]
#: Functions that robots with mimic joints do not have.
WITHOUT_MIMIC = re.compile("aba|articulated|consistent|responses")
#: Functions that take long to compile.
LONG = re.compile("second_order|hessian|regressor|variational|rk4")
#: Functions of the parameters: straight-line code as any other.
REGRESSORS = [c.name for c in _OF_FUNCTIONS if set(c.outputs) & {"Y", "y"}]
_OF_ONE_RESULT = [c.name for c in _OF_FUNCTIONS if len(c.outputs) == 1]
FUNCTIONS = [*(name for name in _OF_ONE_RESULT if name not in REGRESSORS), *OF_FRAMES]
#: Functions whose programs for large robots no one compiles.
BEYOND_COMPILERS = (
    "forward_dynamics_gradient_f_ext_base_motion",
    *(
        name
        for name in COMPUTATIONS
        if any(word in name for word in ("second_order", "hessian", "variational"))
    ),
)
#: Robots that have every function compiled, with a slide and skew axes, branches and a mimic joint,
#: a free joint.
THOROUGH = [("arm6", False), ("gripper", False), ("cart_pole", True)]
MAIN = (*OWN_ROBOTS, *MAIN_ROBOTS)
ALL = ["/".join(path.parts[-3:]).removesuffix(".urdf") for path in example_urdfs()]

Case = tuple[str, bool, str, str]


def in_turn(robots: Iterable[tuple[str, bool]], functions: list[str], each: int) -> Iterator[Case]:
    """Yield robots with ``each`` of the functions and types, going round."""
    turns = itertools.cycle(itertools.product(functions, DTYPES))
    for robot in robots:
        for function, dtype in itertools.islice(turns, each):
            yield *robot, dtype, function


def is_of_second_order(function: str) -> bool:
    return "second_order" in function or "hessian" in function


def cases() -> list[object]:
    """Return robots, bases, types and functions; most of them only when asked for."""
    bases = (False, True)
    every = DTYPES, (*FUNCTIONS, *DERIVATIVES, *REGRESSORS, *STEPS_IN_TIME)
    few = {"step_gradient_semi_implicit", "step_rk4", "step_variational", "integrate"}
    compiled = [
        name
        for name in every[1]
        if name in few or name not in STEPS_IN_TIME or name == "step_hessian_semi_implicit"
        if name not in (*DERIVATIVES, *REGRESSORS) or not COMPUTATIONS[name].key.inputs
    ]
    thorough = []
    for place, function in enumerate(compiled):
        able = [r for r in THOROUGH if r[0] != "gripper" or not WITHOUT_MIMIC.search(function)]
        is_long = LONG.search(function)
        robot = ("cart_pole", True) if is_long else able[place % len(able)]
        thorough.append((*robot, DTYPES[place // 2 % 2], function))
    main = [case for case in itertools.product(MAIN, bases) if case not in THOROUGH]
    small = [case for case in main if case[0] not in LARGE_ROBOTS][::2]
    chosen = [
        *thorough,
        *in_turn(small[::8], FUNCTIONS, 1),
    ]
    exhaustive = [
        (*case, dtype, function)
        for case in (*THOROUGH, *main)
        for dtype, function in itertools.product(*every)
        if function not in BEYOND_COMPILERS or case[0] not in LARGE_ROBOTS
    ]
    exhaustive += in_turn(itertools.product(ALL, bases), FUNCTIONS, 2)
    rest = dict.fromkeys(exhaustive).keys() - set(chosen)
    return [*chosen, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in sorted(rest))]


def named(tree: KinematicTree, function: str) -> str:
    """Return the name of a function, that of the last body where it is one of a frame."""
    of_last = frame_computations(tree, [tree.bodies[-1].name])
    return dict(zip(OF_FRAMES, of_last, strict=True)).get(function, function)


def why_not(name: str, floating: bool, function: str) -> str | None:
    try:
        tree = load_tree(urdf_path(name), floating)
    except GridGenError as error:
        return str(error)  # test_reference.py knows which, and why
    return refusal(tree, named(tree, function))


@refused(why_not)
@pytest.mark.parametrize(("name", "floating", "dtype", "function"), cases())
def test_cpu_agrees_with_the_reference(
    name: str, floating: bool, dtype: str, function: str
) -> None:
    tree = load_tree(urdf_path(name), floating)
    function = named(tree, function)
    robot = load_robot(urdf_path(name), floating_base=floating)
    x = random_states(tree, STATES, np.random.default_rng(len(name)))
    rounded = {key: value.astype(dtype) for key, value in x.items()}
    exact = {key: value.astype(np.float64) for key, value in rounded.items()}
    row = compare_function(tree, function, dtype, exact, robot.evaluate(function, rounded))
    # Of a robot whose mass matrix leaves float32 no digit, results may overflow.
    assert row.passed or row.tolerance > 1.0, row


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_batch_that_outgrows_the_cache_changes_no_bit(dtype: str, threads: int) -> None:
    """Such results are written another way, by one thread and by several."""
    tree = load_tree(urdf_path("quadruped"), True)
    module = TracedModule(tree)
    sources = module.sources(module.kernels.named("mass_matrix"))
    kernel = CpuBackend(threads=threads).kernel(sources, "mass_matrix", dtype)

    def compute(q: np.ndarray, results: np.ndarray) -> np.ndarray:
        arrays = [(array.ctypes.data, array.shape[1], 1) for array in (q, results)]
        kernel((ctypes.c_int64 * 6)(*itertools.chain(*arrays)), len(q))
        return results

    batch, size = 13_001, tree.nv**2  # more than 16 MB
    q = random_states(tree, batch, np.random.default_rng(5))["q"].astype(dtype)
    memory = np.full(batch * size + 2, -77.0, dtype)
    results = memory[1:-1].reshape(batch, size)  # no row begins where a cache line does
    for _ in range(2):  # in the first call the first block is computed alone
        compute(q, results)
        for begin in (0, 64, 6400, batch - 1):
            few = q[begin : begin + 64]
            alone = compute(few, np.empty((len(few), size), dtype))
            np.testing.assert_array_equal(results[begin : begin + 64], alone)
        assert not (results == -77.0).any()
        results[:] = -77.0
        assert (memory == -77.0).all(), "numbers beside the results were written"


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_are_pages_apart_change_no_bit(dtype: str) -> None:
    """They are put together elsewhere first, as they would share a few lines of the cache."""
    robot = load_robot(urdf_path("arm7"))
    q = np.random.default_rng(2).normal(size=(STATES, 7)).astype(dtype)
    rows = np.full((STATES, 4096 // np.dtype(dtype).itemsize), 7.0, dtype)
    out = rows[:, 2:51].reshape(STATES, 7, 7)
    assert np.shares_memory(out, rows)
    robot.mass_matrix(q, out=out)
    np.testing.assert_array_equal(out, robot.mass_matrix(q))
    rows[:, 2:51] = 7.0
    assert (rows == 7.0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spread", [1, 512])
def test_rows_of_constants_are_written(dtype: str, spread: int) -> None:
    """A planar robot's Jacobian has rows 1 1 and 0 0: a compiler knows what is stored.

    Rows that are pages apart are put together elsewhere first.
    """
    tree, robot = load_tree(urdf_path("two_link"), False), load_robot(urdf_path("two_link"))
    x = random_states(tree, STATES, np.random.default_rng(3))
    q = x["q"].astype(dtype)
    J = np.full((STATES, 6 * spread, 2), np.nan, dtype)[:, :6]
    robot.jacobian(q, frame="forearm", reference="local_world_aligned", out=J)
    name = "jacobian_forearm_local_world_aligned"
    row = compare_function(tree, name, dtype, {"q": q.astype(np.float64)}, J)
    assert row.passed, row
