"""Scan kernels under the sanitizers, and a check that the check can fail."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.robots import some, spread
from helpers.scan import (
    EACH_KERNEL,
    assert_race,
    barriers,
    module_of,
    outputs_of,
    random_inputs,
    references,
    relative_error,
    run_alone,
    tree_of,
)

SECOND = "inverse_dynamics_second_order_scan"
#: Barriers of the kernel whose lanes also meet in memory, on a warp.
MEETING = 2
#: A part of a warp, a whole warp and a block, each with a free joint.
CASES = [("quadruped", True), ("humanoid", True), ("tree 40", True)]

pytestmark = pytest.mark.usefixtures("sanitizers")


def check(name, floating_base, function, sanitize):
    tree = tree_of(name, floating_base=floating_base and not function.startswith(SECOND))
    inputs = random_inputs(tree, function, 2)
    run = run_alone(module_of(tree, function, observed=False), function, inputs, sanitize=sanitize)
    assert (run.status, run.report) == (0, "")
    results = zip(outputs_of(function, run.arrays), references(tree, function, inputs), strict=True)
    for result, expected in results:
        assert relative_error(np.asarray(result), expected) <= 1e-12


@pytest.mark.parametrize(
    ("name", "floating_base", "function"), spread(CASES, EACH_KERNEL, -(-len(EACH_KERNEL) // 6))
)
def test_no_kernel_has_a_race(name, floating_base, function):
    check(name, floating_base, function, "thread")


# The checks of addresses take a compiler four times as long as the kernel itself: the longest
# kernels, the last, are run with the smallest robot.
@pytest.mark.parametrize(
    ("name", "floating_base", "function"),
    spread(CASES[::-1], EACH_KERNEL[1::2], 1),
)
def test_no_kernel_strays_in_memory(name, floating_base, function):
    check(name, floating_base, function, "address,undefined")


@pytest.mark.parametrize("function", some(EACH_KERNEL, EACH_KERNEL[::3]))
def test_a_missing_barrier_is_a_race(function):
    """All exchanges of a block pass one of two barriers; without either there is a race."""
    tree = tree_of("tree 40")
    module = module_of(tree, function, observed=False)
    inputs = random_inputs(tree, function, 1)
    # The first is that of broadcast(), by which only the solution of a linear system goes.
    broadcast, exchange = barriers(module.sources, "gridgen_scan.cuh", r"__syncthreads\(\);")
    solves = function.startswith("forward_dynamics_jsiia")
    for barrier in (broadcast, exchange) if solves else (exchange,):
        assert_race(run_alone(module, function, inputs, sanitize="thread", leave_out=barrier))


@pytest.mark.parametrize(
    "missing", [pytest.param(k, marks=pytest.mark.exhaustive if k else ()) for k in range(MEETING)]
)
def test_a_missing_barrier_of_a_warp_is_a_race(missing):
    tree = tree_of("quadruped")
    module = module_of(tree, SECOND, observed=False)
    places = barriers(module.sources, "robot_scan.cuh", r"__syncwarp\(\);")
    assert len(places) == MEETING
    inputs = random_inputs(tree, SECOND, 1)
    assert_race(run_alone(module, SECOND, inputs, sanitize="thread", leave_out=places[missing]))
