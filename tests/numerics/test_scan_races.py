"""Scan kernels under the sanitizers, and a check that the check can fail."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from scan_for_tests import (
    EACH_KERNEL,
    module_of,
    outputs_of,
    random_inputs,
    references,
    relative_error,
    run_alone,
    tree_of,
)

BARRIER = "__syncthreads();"
SECOND = "inverse_dynamics_second_order_scan"
#: Kernels whose lanes also meet in memory, and their barriers on a warp.
MEETING = {"forward_dynamics_gradient_scan": 7, SECOND: 2}

pytestmark = pytest.mark.usefixtures("sanitizers")


def cases():
    """A part of a warp, a whole warp and a block, each with a free joint."""
    return [("quadruped", True), ("humanoid", True), ("tree 40", True)]


@pytest.mark.parametrize("sanitize", ["thread", "address,undefined"])
@pytest.mark.parametrize("function", EACH_KERNEL)
@pytest.mark.parametrize(("name", "floating_base"), cases())
def test_no_kernel_is_reported(name, floating_base, function, sanitize):
    tree = tree_of(name, floating_base=floating_base and not function.startswith(SECOND))
    inputs = random_inputs(tree, function, 2)
    run = run_alone(module_of(tree, function, observed=False), function, inputs, sanitize=sanitize)
    assert (run.status, run.report) == (0, "")
    results = zip(outputs_of(function, run.arrays), references(tree, function, inputs), strict=True)
    for result, expected in results:
        assert relative_error(np.asarray(result), expected) <= 1e-12


@pytest.mark.parametrize("function", EACH_KERNEL)
def test_a_missing_barrier_is_a_race(function):
    """All exchanges of a block pass one of two barriers; without either there is a race."""
    tree = tree_of("tree 40")
    module = module_of(tree, function, observed=False)
    text = module.sources.files["gridgen_scan.cuh"]
    # The first is that of broadcast(), by which only the solution of a linear system goes.
    assert text.count(BARRIER) == 2
    occurrences = (0, 1) if function.startswith("forward_dynamics_jsiia") else (1,)
    pieces = text.split(BARRIER)
    for k in occurrences:
        broken = BARRIER.join(pieces[: k + 1]) + ";" + BARRIER.join(pieces[k + 1 :])
        files = {**module.sources.files, "gridgen_scan.cuh": broken}
        without = replace(module, sources=replace(module.sources, files=files))
        run = run_alone(without, function, random_inputs(tree, function, 1), sanitize="thread")
        assert run.status == 66
        assert "WARNING: ThreadSanitizer: data race" in run.report


@pytest.mark.parametrize(
    ("function", "missing"),
    [(function, k) for function, count in MEETING.items() for k in range(count)],
)
def test_a_missing_barrier_of_a_warp_is_a_race(function, missing):
    tree = tree_of("quadruped", floating_base=function != SECOND)
    module = module_of(tree, function, observed=False)
    text = module.sources.files["robot_scan.cuh"]
    places = [found.span() for found in re.finditer(r"__syncwarp\(\);", text)]
    assert len(places) == MEETING[function]
    begin, end = places[missing]
    files = {**module.sources.files, "robot_scan.cuh": text[:begin] + ";" + text[end:]}
    without = replace(module, sources=replace(module.sources, files=files))
    run = run_alone(without, function, random_inputs(tree, function, 1), sanitize="thread")
    assert run.status == 66
    assert "WARNING: ThreadSanitizer: data race" in run.report
