"""Kernels for arrays in rows: the bits of those for any strides, under sanitizers, and NVRTC's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

import gridgen
from fake_gpu.ptx.backend import PAIRING, PTX_TARGETS
from gridgen.backends import TARGETS
from gridgen.backends.interface import Rows, launch_of
from gridgen.check import random_states
from gridgen.compiler import make_module
from gridgen.dynamics.functions import COMPUTATIONS
from gridgen.modules import GeneratedModule
from gridgen.options import GenerateOptions
from gridgen.schedules.thread import view as thread
from helpers.robots import CONSTRAINTS, exhaustive
from helpers.scan import assert_race
from helpers.standalone import run_standalone
from numerics.robots import load_tree, urdf_path

#: One state, a part of a warp, a whole one, one more, blocks and a part of one.
BATCHES = (1, 31, 32, 33, 1000)
#: Rows that lie dense or apart, whole or in tiles, in places of their own or one after the other,
#: elements for which there is no place, and runs of constants that go on from tile to tile.
CASES = [
    ("arm7", False, "float64", "mass_matrix"),
    ("arm6", False, "float32", "mass_matrix_inverse"),
    ("quadruped", True, "float64", "difference_gradient"),
]
OTHERS = [
    ("arm7", False, "float32", "inverse_dynamics"),
    ("arm6", False, "float64", "inverse_dynamics_gradient"),
    ("quadruped", True, "float32", "mass_matrix"),
    ("quadruped", True, "float32", "delassus"),
    ("arm7", False, "float32", "forward_dynamics_gradient"),
    ("quadruped", True, "float64", "mass_matrix_inverse"),
    ("quadruped", True, "float32", "inverse_dynamics_gradient"),
    ("humanoid", True, "float32", "mass_matrix"),
    ("gripper", False, "float64", "forward_dynamics_crba"),
]


def states(robot: str, floating_base: bool, dtype: str, count: int) -> Mapping[str, np.ndarray]:
    """Return random states; in some of them every joint's angle is far."""
    tree = load_tree(urdf_path(robot), floating_base, constraints=robot)
    x = random_states(tree, count, np.random.default_rng(5))
    x["q"][::3, 7 * floating_base :] *= 1e5
    return {name: array.astype(dtype) for name, array in x.items()}


def in_columns(x: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the same numbers, those of all states side by side."""
    return {name: np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0) for name, a in x.items()}


@pytest.mark.parametrize(
    "case", [*CASES, *exhaustive(*OTHERS)], ids=lambda case: "-".join(map(str, case))
)
def test_rows_have_the_bits_of_any_strides(
    case: tuple[str, bool, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, floating_base, dtype, function = case
    forms: set[bool] = set()
    are_rows = Rows.are
    monkeypatch.setattr(Rows, "are", lambda *given: forms.add(found := are_rows(*given)) or found)
    options = {"floating_base": floating_base, "constraints": CONSTRAINTS[name]}
    robot = gridgen.load(urdf_path(name), backend="emulated", **options)
    for batch in BATCHES:
        x = states(name, floating_base, dtype, batch)
        rows, columns = (robot.evaluate(function, arrays) for arrays in (x, in_columns(x)))
        np.testing.assert_array_equal(rows, columns)
        assert np.isfinite(rows).all()
    assert forms == {True, False}


@pytest.mark.usefixtures("traced_anew")
def test_tiles_that_a_function_copies_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long programs have one, whose parts a GPU does not join."""
    x = states("arm6", False, "float32", 45)
    inline = gridgen.load(urdf_path("arm6"), backend="emulated").mass_matrix_inverse(x["q"])
    monkeypatch.setattr(thread, "MAX_INLINE", 0)
    apart = gridgen.load(urdf_path("arm6"), backend="emulated").mass_matrix_inverse(x["q"])
    np.testing.assert_array_equal(inline, apart)


@pytest.mark.parametrize("backend", ["compute_75", *exhaustive("emulated", "compute_90")])
@pytest.mark.parametrize(
    "case", [("two_link", "float32"), *exhaustive(("gripper", "float64"))], ids="-".join
)
def test_rollouts_in_rows_have_the_bits_of_any_strides(
    case: tuple[str, str], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole warp writes several steps at once, the rest of them at the end or the beginning."""
    if backend in PTX_TARGETS:
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        monkeypatch.setitem(TARGETS, "emulated", PTX_TARGETS[backend])
    name, dtype = case
    robot = gridgen.load(urdf_path(name), backend="emulated")
    on_cpu = gridgen.load(urdf_path(name))
    steps, options = 18, {"integrator": "semi_implicit"}
    for batch in (31, 65):
        x = states(name, False, dtype, batch)
        given = x["q"], x["qd"], np.stack([x["tau"]] * steps, axis=1), np.asarray(1e-3, dtype)
        for store_every in (1, 2, "last"):
            told = {"store_every": store_every, "return_efforts": True, **options}
            expected = on_cpu.rollout(*given, **told)
            out = tuple(np.empty(a.shape[::-1], dtype).T for a in expected)
            for found in (robot.rollout(*given, **told), robot.rollout(*given, out=out, **told)):
                assert all(map(np.array_equal, found, expected))
        bars = tuple(np.ones_like(a) for a in on_cpu.rollout(*given, **options))
        expected = on_cpu.rollout_vjp(*given, bars, **options)
        out = tuple(np.empty(a.shape[::-1], dtype).T for a in expected)
        assert all(map(np.array_equal, robot.rollout_vjp(*given, bars, **options), expected))
        assert all(
            map(np.array_equal, robot.rollout_vjp(*given, bars, out=out, **options), expected)
        )


@pytest.mark.parametrize(
    "function",
    [
        "inverse_dynamics",
        *exhaustive("step_semi_implicit", "mass_matrix", "forward_kinematics", "difference"),
        *exhaustive("mass_matrix_inverse", "centroidal_momentum_matrix", "kinetic_energy"),
    ],
)
def test_two_states_of_a_thread_have_the_bits_of_one(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In rows and columns; a last thread has one state, a warp no second one."""
    pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
    monkeypatch.setitem(TARGETS, "emulated", PAIRING[1])
    robot = gridgen.load(urdf_path("arm6"), backend="emulated")
    sources = robot._module.sources(robot.kernels[function])
    launch = launch_of(sources, function, "float32", rows=True, arch="sm_100")
    assert launch.of(1).states_per_block == 2 * launch.of(1).threads_per_block
    on_cpu = gridgen.load(urdf_path("arm6"))
    for batch in (1, 32, 33, 64, 203):
        x = states("arm6", False, "float32", batch)
        expected = on_cpu.evaluate(function, x)
        for arrays in (x, in_columns(x)):
            np.testing.assert_array_equal(robot.evaluate(function, arrays), expected)


# -- sanitizers ---------------------------------------------------------------------------------

#: A result whose tiles take the place of others.
REUSED = ("quadruped", True, "mass_matrix_inverse")


@cache
def module_of(name: str, floating_base: bool, function: str) -> GeneratedModule:
    options = GenerateOptions(
        functions=(function,), floating_base=floating_base, constraints=CONSTRAINTS[name]
    )
    return make_module(urdf_path(name), options, lambda step: None)


def run_alone(name, floating_base, function, batch, **options):
    module = module_of(name, floating_base, function)
    sources, record = module.sources(None), module.kernels.by_name[function]
    x = states(name, floating_base, "float64", batch)
    inputs = [x[key].reshape(batch, -1) for key in record.inputs]
    outputs = [np.full((batch, int(np.prod(s))), np.nan) for s in record.outputs.values()]
    arrays = (*inputs, *outputs)
    return run_standalone(sources, function, "float64", arrays, rows=True, **options)


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize("sanitize", ["thread", *exhaustive("address,undefined")])
@pytest.mark.parametrize(
    "case",
    [
        ("arm6", False, "mass_matrix"),
        *exhaustive(REUSED, ("quadruped", True, "constrained_forward_dynamics")),
    ],
)
def test_no_kernel_has_a_race_or_strays_in_memory(case, sanitize) -> None:
    run = run_alone(*case, 45, sanitize=sanitize)
    assert (run.status, run.report) == (0, "")
    assert np.isfinite(run.arrays[-1]).all()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("sanitizers")
def test_a_missing_barrier_is_a_race() -> None:
    sources = module_of(*REUSED).sources(None)
    places = [
        (file, number)
        for file, text in sources.files.items()
        if file in ("gridgen_states.cuh", f"{sources.robot}.cu")
        for number, line in enumerate(text.partition("// --- Rollouts")[0].splitlines(), 1)
        if re.search(r"__syncwarp\(\);", line)
    ]
    assert len(places) == 3
    for place in places:
        assert_race(run_alone(*REUSED, 45, sanitize="thread", leave_out=place))


# -- NVRTC --------------------------------------------------------------------------------------

#: Of more values than a thread has registers: they wait in shared memory.
KEPT_ELSEWHERE = [("arm7", False, "forward_dynamics_gradient")]
SPILLING_NOTHING = [
    ("arm7", False, "mass_matrix"),
    *exhaustive(
        ("arm7", False, "inverse_dynamics"),
        ("arm7", False, "mass_matrix_inverse"),
        ("arm7", False, "inverse_dynamics_gradient"),
        ("arm7", False, "forward_dynamics_aba"),
        ("arm7", False, "forward_dynamics_crba"),
        ("quadruped", True, "inverse_dynamics"),
        ("quadruped", True, "mass_matrix"),
        ("quadruped", True, "mass_matrix_inverse"),
        ("quadruped", True, "forward_dynamics_aba"),
        ("quadruped", True, "inverse_dynamics_gradient"),
        *KEPT_ELSEWHERE,
    ),
]


@pytest.mark.parametrize(
    "capability", [75, *exhaustive(80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121)]
)
def test_nvrtc_warns_of_nothing(capability: int) -> None:
    """A warning is an error here; the architecture decides who parks values, or has two states."""
    pytest.importorskip("cupy")
    from gridgen.backends.cuda.compiler import compile_kernel, supported_capabilities

    if capability not in supported_capabilities():
        pytest.skip("this NVRTC has no such architecture")
    for *robot, kernel in (("two_link", False, "forward_dynamics_gradient"), *KEPT_ELSEWHERE):
        sources = module_of(*robot, kernel).sources(None)
        for rows in (False, True):
            assert compile_kernel(sources, kernel, "float32", f"compute_{capability}", rows=rows)


@pytest.mark.parametrize("case", SPILLING_NOTHING, ids=lambda case: "-".join(map(str, case)))
def test_a_state_stays_in_registers(case: tuple[str, bool, str]) -> None:
    pytest.importorskip("cupy")
    from gridgen.backends.cuda.compiler import compile_kernel

    name, floating_base, kernel = case
    module = module_of(name, floating_base, COMPUTATIONS[kernel].key.function)
    sources = module.sources(None)
    assert (sources.rows[kernel].parked > 0) == (case in KEPT_ELSEWHERE)
    for rows in (False, True):
        resources = compile_kernel(sources, kernel, "float32", "sm_90", rows=rows).resources
        assert resources.stack == resources.spill_stores == resources.spill_loads == 0


@pytest.mark.exhaustive
def test_nvrtc_does_not_give_up_on_a_long_program_of_doubles() -> None:
    """As one piece, it would have 32 registers and 47 kB of stack."""
    pytest.importorskip("cupy")
    from gridgen.backends.cuda.compiler import compile_kernel

    kernel = "forward_dynamics_gradient"
    sources = module_of("quadruped", True, kernel).sources(None)
    resources = compile_kernel(sources, kernel, "float64", "sm_90").resources
    assert resources.registers == 255
    assert resources.stack < 8192
