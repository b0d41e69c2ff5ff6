"""What NVRTC makes of the kernels, run on this machine, against the reference.

The emulated backend shows that the kernels' text is right; here the text has gone through NVRTC,
and is launched with the arguments of the cuda backend. test_same_bits.py looks at the bits too.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Collection, Mapping
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gridgen
from fake_gpu.ptx.backend import PTX_TARGETS, PtxBackend
from gridgen.backends import TARGETS
from gridgen.backends.cache import BuildCache
from gridgen.backends.interface import Launch
from gridgen.check import compare_function, random_states
from gridgen.errors import InternalError
from gridgen.functions import GENERATED
from gridgen.kernel import KernelKey
from gridgen.schedules import KernelSelection, Schedules
from gridgen.schedules.thread.plan import plan_programs
from helpers import scan
from helpers.emulated import call, sources
from helpers.robots import CONSTRAINTS, exhaustive, refusal, refused, refused_kernel
from helpers.scan import EACH_KERNEL, KERNELS, module_of, random_inputs, run_all, tree_of
from numerics.robots import load_tree, urdf_path

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

#: A block of the thread schedule and a part of one, blocks of teams and a part of one.
STATES = 141
ROBOTS = [("arm7", False), ("gripper", False), ("quadruped", True)]
#: Of each schedule, with noinline parts, static tables, shuffles, shared memory, a free
#: joint, roots and angles of vectors, a foot on the ground and a loop.
CHOSEN = [
    (("arm7", False), "forward_dynamics_aba", "float32", "compute_75"),
    (("arm7", False), "forward_dynamics_gradient_warp", "float32", "compute_75"),
    (("arm7", False), "inverse_dynamics_scan", "float64", "compute_90"),
    (("gripper", False), "inverse_dynamics_gradient_f_ext_base_motion", "float32", "compute_75"),
    (("quadruped", True), "forward_dynamics_cfa_scan", "float32", "compute_75"),
    (("quadruped", True), "difference", "float32", "compute_90"),
    (("quadruped", True), "constrained_forward_dynamics", "float32", "compute_90"),
]
#: Of the kernels for robots of more bodies than a warp has lanes.
FIRST_OF_TEAMS = "bias_forces_scan_f_ext_base_motion"
#: Backends by what a result comes from.
WAYS = {**PTX_TARGETS, "emulated": TARGETS["emulated"], "cpu": TARGETS["cpu"]}


@cache
def robot_of(name: str, floating_base: bool, way: str) -> gridgen.Robot:
    """Return a robot that keeps the kernels of one way."""
    options = {"floating_base": floating_base, "constraints": CONSTRAINTS[name]}
    return gridgen.load(urdf_path(name), backend=WAYS[way].name, **options)


def evaluate(
    robot: tuple[str, bool], function: str, x: Mapping[str, np.ndarray], way: str
) -> tuple[np.ndarray, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TARGETS, WAYS[way].name, WAYS[way])
        results = robot_of(*robot, way).evaluate(function, x)
    return results if isinstance(results, tuple) else (results,)


@cache
def keys_of(name: str, floating_base: bool) -> dict[str, KernelKey]:
    """Return the kernels that a robot might have, by name; those of a frame for the last body.

    Rollouts, whose arrays have an axis of time, are left to test_motion.py.
    """
    tree = load_tree(urdf_path(name), floating_base, constraints=name)
    every = KernelSelection(GENERATED, [tree.bodies[-1].name])
    keys = (key for schedule in Schedules(tree).all for key in schedule.keys(every))
    return {key.name: key for key in keys if key.function != "rollout"}


def why_not(robot: tuple[str, bool], function: str) -> str | None:
    tree = load_tree(urdf_path(robot[0]), robot[1], constraints=robot[0])
    return refusal(tree, keys_of(*robot)[function])


def cases(chosen: Collection[object] = ()) -> list[object]:
    """Return robots, kernels and types; those that are not chosen only when asked for."""
    return [
        pytest.param(
            *case,
            marks=() if case in chosen else pytest.mark.exhaustive,
            id="-".join((robot[0], *case[1:])),
        )
        for robot in ROBOTS
        for function in keys_of(*robot)
        for case in itertools.product((robot,), (function,), ("float32", "float64"), PTX_TARGETS)
    ]


def states(name: str, floating_base: bool, dtype: str) -> Mapping[str, np.ndarray]:
    tree = load_tree(urdf_path(name), floating_base, constraints=name)
    x = random_states(tree, STATES, np.random.default_rng(len(name)))
    return {key: value.astype(dtype) for key, value in x.items()}


@refused(why_not)
@pytest.mark.parametrize(("robot", "function", "dtype", "arch"), cases(CHOSEN))
def test_what_nvrtc_makes_agrees_with_the_reference(
    robot: tuple[str, bool], function: str, dtype: str, arch: str
) -> None:
    x = states(*robot, dtype)
    exact = {key: value.astype(np.float64) for key, value in x.items()}
    kernel = robot_of(*robot, arch).kernels[function]
    results = evaluate(robot, function, x, arch)
    tree, method = load_tree(urdf_path(robot[0]), robot[1], constraints=robot[0]), kernel.key.method
    row = compare_function(tree, kernel.same.name, dtype, exact, results, method)
    assert row.passed, row


@refused(why_not)
@pytest.mark.parametrize(("robot", "function", "dtype", "arch"), cases())
def test_what_nvrtc_makes_gives_the_bits_of_other_backends(
    robot: tuple[str, bool], function: str, dtype: str, arch: str
) -> None:
    """Of the emulated one always, of the CPU where a thread of a GPU runs the same program."""
    x = states(*robot, dtype)
    key = robot_of(*robot, arch).kernels[function].key
    is_shared = (
        key.schedule == "thread"
        and plan_programs(
            load_tree(urdf_path(robot[0]), robot[1], constraints=robot[0]), key
        ).are_one
    )
    found = evaluate(robot, function, x, arch)
    for way in ("emulated", "cpu") if is_shared else ("emulated",):
        for array, expected in zip(found, evaluate(robot, function, x, way), strict=True):
            assert_array_equal(array, expected, err_msg=way)


@pytest.mark.exhaustive
@pytest.mark.parametrize("function", ["forward_dynamics_aba", "step_semi_implicit"])
def test_sines_by_calls_give_the_bits_of_the_cpu(function: str) -> None:
    """Code that would exceed the instruction caches has them, of large angles too."""
    robot = ("humanoid", True)
    sources = robot_of(*robot, "compute_90")._module
    text = sources.sources(sources.kernels.by_name[function]).files
    assert any("true> angles([&]" in part for part in text.values())
    x = dict(states(*robot, "float32"))
    x["q"][::7, -3:] *= 1e6
    found = evaluate(robot, function, x, "compute_90")
    for array, expected in zip(found, evaluate(robot, function, x, "cpu"), strict=True):
        assert_array_equal(array, expected)


@refused(lambda function: refused_kernel(tree_of("tree 70"), KERNELS[function].key))
@pytest.mark.parametrize(
    "function",
    [FIRST_OF_TEAMS, *exhaustive(*(name for name in EACH_KERNEL if name != FIRST_OF_TEAMS))],
)
def test_teams_of_several_warps_give_the_bits_of_the_text(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies of several warps meet at barriers of the block, in its memory or in a workspace."""
    tree = tree_of("tree 70")
    module = module_of(tree, function, observed=False)
    assert module.launch(function, "float32").threads_per_block > 32
    inputs = random_inputs(tree, function, 3, "float32")
    expected, _ = run_all(module, function, inputs, "float32")
    monkeypatch.setattr(scan, "EmulatedBackend", PtxBackend)
    found, _ = run_all(module, function, inputs, "float32")
    for array, emulated in zip(found, expected, strict=True):
        assert_array_equal(array, emulated)
        assert np.isfinite(array).all()


#: Kernels of tests/unit/backends/toy_teams.cu: arrays, threads, states of a block, shared bytes.
TOYS = {
    "block_sum": ((5, 64), (5, 1), Launch(64, 1, 64 * 4)),
    "warp_scan": ((6, 32), (6, 32), Launch(128, 4)),
    "partial_masks": ((32, 1), (32, 4), Launch(32, 32)),
    "early_exit": ((150, 1), (150, 2), Launch(64, 64)),
    "warp_exchange": ((200, 1), (200, 1), Launch(128, 128)),
    "histogram": ((1000, 1), (5, 1), Launch(256, 256)),
}


@pytest.mark.parametrize("function", TOYS)
def test_what_nvrtc_makes_does_what_the_text_does(function: str) -> None:
    """Shuffles, votes and barriers under masks, of several warps; static and dynamic memory."""
    taken, given, launch = TOYS[function]
    x = np.random.default_rng(7).integers(0, 5, taken).astype(np.float32)
    found, expected = np.zeros(given, np.float32), np.zeros(given, np.float32)
    call(BuildCache(), function, [x, expected], launch, batch=len(x))
    kernel = PtxBackend().kernel(sources(), function, "float32", launch)
    triples = [n for array in (x, found) for n in (array.ctypes.data, array.shape[1], 1)]
    kernel((ctypes.c_int64 * len(triples))(*triples), len(x))
    assert_array_equal(found, expected)
    assert found.any()


@pytest.mark.parametrize(
    ("function", "what"),
    [
        ("stuck", r"bar\.warp\.sync is reached by lanes 0x0000ffff of mask 0xffffffff"),
        ("divergent", "must not stand in divergent code"),
    ],
)
def test_threads_that_do_not_meet_are_reported(function: str, what: str) -> None:
    y = np.zeros((1, 1), np.float32)
    kernel = PtxBackend().kernel(sources(), function, "float32", Launch(32, 32))
    with pytest.raises(InternalError, match=what):
        kernel((ctypes.c_int64 * 3)(y.ctypes.data, 1, 1), 1)
