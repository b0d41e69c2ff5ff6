"""The ``cpu`` backend against the reference: robots of every kind, all functions, both types.

With GRIDGEN_EXHAUSTIVE=1 in the environment, every robot of example-robot-data (that takes
long). Otherwise each large robot is compiled for one type: both are instances of one text.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Callable

import numpy as np
import pytest

from gridgen.backends.cpu import CpuBackend
from gridgen.check import compare_function, random_states
from gridgen.dynamics.functions import LOADED, frame_functions, refusal
from gridgen.errors import GridGenError
from gridgen.model.tree import KinematicTree
from gridgen.pipeline import TracedModule
from numerics.robots import load_robot, load_tree, urdf_path
from robots_for_tests import MAIN_ROBOTS, OWN_ROBOTS, example_urdfs

#: Whole SIMD packs and a part of one, more than one block of states.
STATES = 71
FUNCTIONS = [
    f"{name}{loads}"
    for name in ("inverse_dynamics", "bias_forces", "forward_dynamics_aba", "forward_dynamics_crba")
    for loads in ("", LOADED)
] + ["mass_matrix"]
DERIVATIVES = [
    "mass_matrix_inverse",
    "inverse_dynamics_gradient",
    "forward_dynamics_gradient",
    "forward_kinematics",
    "centre_of_mass",
    "centre_of_mass_jacobian",
    "kinetic_energy",
    "potential_energy",
]
#: Robots that also have derivatives under external loads, and second ones, compiled.
THOROUGH = {"arm6", "gripper", "quadruped"}
#: Robots whose functions take a minute to compile for both bases and types.
LARGE = {"talos_reduced", "g1_29dof_rev_1_0", "icub", "romeo_small", "tiago", "pr2", "humanoid"}
#: Those whose derivatives are compiled only when asked for.
LARGEST = LARGE - {"humanoid", "g1_29dof_rev_1_0"}
BOTH_TYPES = set(itertools.product(("fixed", "floating"), ("float32", "float64")))
ONE_TYPE = {("fixed", "float32"), ("floating", "float64")}
ALL = ["/".join(path.parts[-3:]).removesuffix(".urdf") for path in example_urdfs()]


def cases(wanted: Callable[[str], set[tuple[str, str]]]) -> list[object]:
    """Return robots with the bases and types that are wanted of them."""
    exhaustive = os.environ.get("GRIDGEN_EXHAUSTIVE") == "1"
    names = [*(ALL if exhaustive else MAIN_ROBOTS), *OWN_ROBOTS]
    return [
        pytest.param(name, base == "floating", dtype, id=f"{name}-{base}-{dtype}")
        for name in names
        for base, dtype in sorted(BOTH_TYPES if exhaustive else wanted(name))
    ]


def of_dynamics(name: str) -> set[tuple[str, str]]:
    return ONE_TYPE if name in LARGE else BOTH_TYPES


def of_derivatives(name: str) -> set[tuple[str, str]]:
    if name in THOROUGH:
        return BOTH_TYPES
    return set() if name in LARGEST else ONE_TYPE


def compare(name: str, floating: bool, dtype: str, functions: Callable[..., list[str]]) -> None:
    try:
        tree = load_tree(urdf_path(name), floating)
    except GridGenError as error:
        pytest.skip(str(error))  # test_reference.py knows which, and why
    robot = load_robot(urdf_path(name), floating_base=floating)
    x = random_states(tree, STATES, np.random.default_rng(len(name)))
    rounded = {key: value.astype(dtype) for key, value in x.items()}
    exact = {key: value.astype(np.float64) for key, value in rounded.items()}
    failures = []
    for function in functions(tree):
        if refusal(tree, function) is None:
            result = robot.evaluate(function, rounded)
            row = compare_function(tree, function, dtype, exact, result)
            failures += [] if row.passed else [row]
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.parametrize(("name", "floating", "dtype"), cases(of_dynamics))
def test_cpu_agrees_with_the_reference(name: str, floating: bool, dtype: str) -> None:
    compare(name, floating, dtype, lambda tree: FUNCTIONS)


@pytest.mark.parametrize(("name", "floating", "dtype"), cases(of_derivatives))
def test_derivatives_and_kinematics_agree_too(name: str, floating: bool, dtype: str) -> None:
    def functions(tree: KinematicTree) -> list[str]:
        chosen = [*DERIVATIVES, *frame_functions(tree, [tree.bodies[-1].name])]
        if name in THOROUGH:
            gradients = [function for function in DERIVATIVES if "gradient" in function]
            chosen += [f"{function}{LOADED}" for function in gradients]
            chosen += ["inverse_dynamics_second_order"]
        return chosen

    compare(name, floating, dtype, functions)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_batch_that_outgrows_the_cache_changes_no_bit(dtype: str, threads: int) -> None:
    """Such results are written another way, by one thread and by several."""
    tree = load_tree(urdf_path("quadruped"), True)
    sources = TracedModule(tree).sources("mass_matrix")
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
