"""One robot, called from many threads and after a fork."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import gridgen


def states(seed: int, count: int = 3000) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, (count, 2)) for _ in range(3)]


def test_many_threads_may_make_the_first_call(urdf: Path, two_link: gridgen.Robot) -> None:
    robot = gridgen.load(urdf, backend="cpu")
    together = threading.Barrier(8)
    results: dict[int, list[np.ndarray]] = {}

    def call(seed: int) -> None:
        q, qd, x = states(seed)
        together.wait()
        results[seed] = [
            function(q, qd, x)
            for _ in range(3)
            for function in (robot.inverse_dynamics, robot.forward_dynamics)
        ]

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(8):
        q, qd, x = states(seed)
        expected = [two_link.inverse_dynamics(q, qd, x), two_link.forward_dynamics(q, qd, x)]
        assert len(results[seed]) == 6
        for i, result in enumerate(results[seed]):
            np.testing.assert_array_equal(result, expected[i % 2])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_robot_works_on_in_a_forked_child(two_link: gridgen.Robot) -> None:
    x = states(1, count=100_000)  # enough to have started the threads that share a batch
    expected = two_link.inverse_dynamics(*x)
    np.testing.assert_array_equal(two_link.inverse_dynamics(*x), expected)

    def child() -> None:
        same = np.array_equal(two_link.inverse_dynamics(*x), expected)
        os._exit(0 if same else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0
