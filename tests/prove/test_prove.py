"""Proofs about kernels for every launch, and planted faults that they must name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

import pytest

pytest.importorskip("z3", reason="proofs need z3-solver")
pytest.importorskip("cupy", reason="NVRTC comes with CuPy")

import gridgen
from gridgen.dynamics.functions import search_key
from helpers.robots import exhaustive
from numerics.robots import urdf_path
from prove.bounds import prove_bounds
from prove.kernels import Kernel
from prove.races import prove_no_races

#: The search for the pose of the last frame of two_link.
SEARCH = "inverse_kinematics"
#: Robot, kernel, type, architecture, form in rows, and accesses that are not proved: the last steps
#: of a rollout, whose number comes from a loop with two counters, and the starts of a search, which
#: distances choose.
BOUNDS = [
    ("two_link", "mass_matrix", "float32", "compute_75", False, 0),
    ("two_link", "mass_matrix", "float32", "compute_75", True, 0),
    ("two_link", "forward_dynamics_gradient_warp", "float32", "compute_75", False, 0),
    ("two_link", "inverse_dynamics_scan", "float32", "compute_75", False, 0),
    ("two_link", "forward_dynamics_cfa_scan", "float32", "compute_75", False, 0),
    ("two_link", "rollout_semi_implicit", "float32", "compute_75", False, 32),
]
MORE_BOUNDS = [
    ("two_link", SEARCH, "float32", "compute_75", False, 4),
    ("two_link", "forward_dynamics_crba", "float64", "compute_75", True, 0),
    ("two_link", "forward_dynamics_hessian", "float32", "compute_90", True, 0),
    ("two_link", "step_rk4", "float32", "compute_90", True, 0),
    ("two_link", "mass_matrix", "float32", "compute_100", True, 0),
    ("two_link", "inverse_dynamics_second_order_scan", "float32", "compute_75", False, 0),
    ("two_link", "forward_dynamics_jsiia_scan", "float32", "compute_75", False, 0),
    ("gripper", "inverse_dynamics_gradient_f_ext_base_motion", "float32", "compute_75", True, 0),
    ("quadruped", "difference", "float32", "compute_75", True, 0),
    ("quadruped", "forward_dynamics_aba", "float32", "compute_75", True, 0),
    ("quadruped", "mass_matrix_inverse_warp", "float32", "compute_75", False, 0),
    ("quadruped", "inverse_dynamics_scan", "float32", "compute_75", False, 0),
]
RACES = [
    ("two_link", "mass_matrix", "float32", "compute_75", True),
    ("two_link", "inverse_dynamics_warp", "float32", "compute_75", False),
]
MORE_RACES = [
    ("two_link", "mass_matrix_inverse_warp", "float32", "compute_75", False),
    ("two_link", "inverse_dynamics_second_order_scan", "float32", "compute_75", False),
]
#: The first barriers of these kernels, which are needed. Those after the first one of the mass
#: matrix are not: the thread that wrote a row of four numbers copies it.
BARRIERS = {"mass_matrix": 1, "inverse_dynamics_warp": 5}


@cache
def robot_of(name: str) -> gridgen.Robot:
    return gridgen.load(urdf_path(name), floating_base=name == "quadruped")


def kernel_of(
    robot: str,
    function: str,
    dtype: str,
    arch: str,
    rows: bool,
    change: Callable[[str], str] = lambda text: text,
) -> Kernel:
    module = robot_of(robot)._module
    by_name = module.kernels.by_name
    record = module.kernels.find(search_key(["tip"])) if function == SEARCH else by_name[function]
    return Kernel(module.sources(record), record, dtype, arch, rows=rows, change=change)


@pytest.mark.parametrize("case", [*BOUNDS, *exhaustive(*MORE_BOUNDS)], ids=str)
def test_accesses_are_in_bounds(case):
    *kernel, not_proved = case
    report = prove_bounds(kernel_of(*kernel))
    assert report.accesses >= 10
    assert len(report.open) == not_proved, report.open[:3]
    assert report.proved == report.accesses - not_proved


@pytest.mark.parametrize("case", [*RACES, *exhaustive(*MORE_RACES)], ids=str)
def test_threads_never_use_a_word_unordered(case):
    report = prove_no_races(kernel_of(*case))
    assert report.pairs > 10
    assert not report.races, report.races[:3]


def replaced(pattern: str, new: str, text: str, count: int = 0) -> str:
    found, replacements = re.subn(pattern, new, text, count=count)
    assert replacements
    return found


FAULTS = {
    # The states of a block beyond the batch: n is a state.
    "guard": (False, partial(replaced, r"setp\.ge\.s64", "setp.gt.s64"), r"n = \d+\)"),
    # The strides of states and of elements are swapped.
    "strides": (False, partial(replaced, r"param_1\+8\]", "param_1+16]"), r"<<<.*>>>\(n = "),
    # An element after the last one.
    "offset": (False, partial(replaced, r"mul\.wide\.s32 (.*), 12;", r"mul.wide.s32 \1, 16;"), ""),
    # A number after the block's shared memory.
    "row": (
        True,
        partial(replaced, r"st\.shared\.f32 (.*\[%r\w+)\]", r"st.shared.f32 \1+1024]"),
        "",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_access_out_of_bounds_is_named(fault):
    rows, change, reason = FAULTS[fault]
    report = prove_bounds(
        kernel_of("two_link", "mass_matrix", "float32", "compute_75", rows, change)
    )
    assert report.open
    assert re.search(rf"line \d+, (ld|st)\..*{reason}", report.open[0])


def test_too_little_shared_memory_is_named():
    kernel = kernel_of(*RACES[0])
    kernel.shared_bytes = kernel.shared_bytes - kernel.threads
    (*_, last) = prove_bounds(kernel).open
    assert "mass_matrix_rows_kernel<<<" in last


def without(barrier: int, text: str) -> str:
    places = list(re.finditer(r"\tbar(rier)?\.(warp\.)?sync[^;]*;\n", text))
    place = places[barrier]
    return text[: place.start()] + "\n" + text[place.end() :]


@pytest.mark.parametrize(
    ("case", "barrier"),
    [
        pytest.param(case, i, marks=pytest.mark.exhaustive if i else (), id=f"{case[1]}-{i}")
        for case in RACES
        for i in range(BARRIERS[case[1]])
    ],
)
def test_a_missing_barrier_is_a_race(case, barrier):
    report = prove_no_races(kernel_of(*case, partial(without, barrier)))
    assert report.races
    assert re.match(r"lines \d+ and \d+, \w+ warps?: threads \d+ and \d+", report.races[0])
