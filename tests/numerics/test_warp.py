"""Kernels of the warp schedule: emulated, as PTX, under sanitizers, and as users call them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import gridgen
from gridgen.check import FORWARD, amplification
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import ModelError, OptionError
from gridgen.schedules.team.schedule import Teams
from gridgen.schedules.warp.plan import width_of
from gridgen.schedules.warp.schedule import WarpSchedule
from helpers import scan
from helpers.random_robots import KINDS, robots
from helpers.robots import example_urdf, exhaustive
from helpers.scan import (
    EACH_WARP_KERNEL,
    KERNELS,
    ROBOTS,
    assert_race,
    barriers,
    module_of,
    outputs_of,
    random_inputs,
    references,
    relative_error,
    run_all,
    run_alone,
    serial_chain,
    tree_of,
    tree_of_text,
)
from numerics.robots import resisting
from numerics.test_random_robots import examples

#: A few hundred roundings. Solving with M multiplies them by how much M amplifies.
EXACT = {"float64": 1e-12, "float32": 2e-5}
SOLVES = ("mass_matrix_inverse", "forward_dynamics", "step")
GRADIENT = "inverse_dynamics_gradient_warp_f_ext_base_motion"
ABA = "forward_dynamics_aba_warp_f_ext_base_motion"
#: Without integrators that differ by a factor; those of robots with mimic joints.
_SAME = ("euler", "constant_acceleration", "step_implicit", "step_gradient_semi_implicit")
MAIN = tuple(name for name in EACH_WARP_KERNEL if not any(word in name for word in _SAME))
OTHER = tuple(name for name in EACH_WARP_KERNEL if name not in MAIN)
MIMICKING = tuple(function for function in MAIN if function != ABA)
ALL = {"joint_dynamics": True, "armature": 0.1}
FLOATING = {"floating_base": True}
JOINTED = tuple(kind for kind in KINDS if kind != "floating")
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")


def rarely(*cases):
    """Mark cases of several arguments as exhaustive."""
    return [pytest.param(*case, marks=pytest.mark.exhaustive) for case in cases]


def check(tree, function, found, inputs, dtype="float64"):
    """Compare the outputs of a kernel with the reference."""
    tolerance = EXACT[dtype]
    if function.startswith(SOLVES):
        (M,) = evaluate_reference(tree, "mass_matrix", {"q": inputs["q"].astype(np.float64)})
        tolerance = max(tolerance, FORWARD * np.finfo(dtype).eps * amplification(M).max())
    for output, expected in zip(found, references(tree, function, inputs), strict=True):
        assert relative_error(np.asarray(output), expected) <= tolerance, function


def check_run(tree, function, *, dtype="float64", batch=2):
    """Run a kernel and compare it with the reference; return its outputs."""
    inputs = random_inputs(tree, function, batch, dtype)
    found, _ = run_all(module_of(tree, function, observed=False), function, inputs, dtype)
    check(tree, function, found, inputs, dtype)
    return found


@pytest.mark.parametrize(
    ("name", "options", "function"),
    [
        *(
            ("gripper", ALL | FLOATING, name)
            for name in MIMICKING
            if "dynamics_gradient" not in name
        ),
        *(("screws", ALL, function) for function in (*MAIN[:7:3], ABA)),
        ("quadruped", ALL | FLOATING, ABA),
        *rarely(
            *(("gripper", ALL | FLOATING, name) for name in (*OTHER, *MIMICKING)),
            *(
                (name, options, function)
                for name, options in (
                    ("screws", ALL),
                    ("humanoid", FLOATING),
                    ("quadruped", ALL | FLOATING | {"friction_width": 0.1}),
                    ("tree 40", FLOATING),
                    ("chain 33", {}),
                    ("pendulum", {}),
                )
                for function in MAIN
            ),
        ),
    ],
)
def test_our_robots(name, options, function):
    """Mimic, prismatic and helical joints, skew axes, a floating base; parts of a warp, blocks."""
    check_run(tree_of(name, **options), function)


@pytest.mark.parametrize("function", MAIN)
@pytest.mark.parametrize("name", exhaustive("talos_reduced", "icub", "tiago"))
def test_robots_of_others(name, function):
    check_run(tree_of_text(example_urdf(name), floating_base=True), function, batch=1)


@pytest.mark.parametrize("function", MAIN[1:8:3])
def test_float32(function):
    check_run(tree_of("quadruped", **FLOATING), function, dtype="float32")


@pytest.mark.exhaustive
@examples(200)
@given(
    urdf=robots(most=7) | robots(most=10, kinds=JOINTED),
    floating=st.booleans(),
    function=st.sampled_from(EACH_WARP_KERNEL),
    dtype=st.sampled_from(("float64", "float64", "float32")),
)
def test_random_robots(urdf, floating, function, dtype):
    """Every kind of joint, links without mass, angles near right ones, branches."""
    try:
        options = resisting(urdf, floating) | {"parameters": (), "friction_width": 0.1}
        tree = tree_of_text(urdf, **options)
    except (ModelError, OptionError):
        return
    if WarpSchedule(Teams(tree)).refusal(KERNELS[function].key) is None:
        check_run(tree, function, dtype=dtype)


# -- what decides the bits ----------------------------------------------------------------------


def test_results_do_not_depend_on_the_batch():
    """States that fill a block, that do not, and one alone; teams that share a warp."""
    tree = tree_of("two_link")
    inputs = random_inputs(tree, GRADIENT, 19)
    module = module_of(tree, GRADIENT, observed=False)
    together, _ = run_all(module, GRADIENT, inputs)
    for states in (slice(0, 5), slice(18, 19)):
        part = {name: array[states] for name, array in inputs.items()}
        for some, every in zip(run_all(module, GRADIENT, part)[0], together, strict=True):
            assert_array_equal(some, every[states])


@pytest.mark.parametrize(
    ("name", "options", "function"),
    [
        ("two_link", ALL, "forward_dynamics_gradient_warp"),
        ("cart_pole", ALL, "forward_dynamics_aba_warp"),
        *rarely(
            *(("quadruped", FLOATING, function) for function in MAIN),
            *(("tree 40", {}, function) for function in MAIN),
        ),
    ],
)
def test_ptx_gives_the_bits_of_the_text(name, options, function, monkeypatch):
    pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
    from fake_gpu.ptx.backend import PtxBackend

    tree = tree_of(name, **options)
    inputs = random_inputs(tree, function, 3, "float32")
    module = module_of(tree, function, observed=False)
    expected, _ = run_all(module, function, inputs, "float32")
    monkeypatch.setattr(scan, "EmulatedBackend", PtxBackend)
    found, _ = run_all(module, function, inputs, "float32")
    for array, emulated in zip(found, expected, strict=True):
        assert_array_equal(array, emulated)
        assert np.isfinite(array).all()


@pytest.mark.parametrize(
    ("arch", "dtype", "function"),
    [
        ("sm_75", "float32", "mass_matrix_warp"),
        ("sm_90", "float32", GRADIENT),
        ("sm_120", "float32", "forward_dynamics_crba_warp"),
        *rarely(
            *(
                (arch, dtype, function)
                for arch in ARCHITECTURES
                for dtype in ("float32", "float64")
                for function in MAIN
            )
        ),
    ],
)
def test_nvrtc_compiles_them_with_few_spills(arch, dtype, function):
    """Except for some values of gradients, in float32; a double takes two registers."""
    pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
    from gridgen.backends.cuda.compiler import compile_kernel

    module = module_of(tree_of("humanoid", **FLOATING), function, observed=False)
    resources = compile_kernel(module.sources, function, dtype, arch).resources
    if dtype == "float32":
        most = 512 if "dynamics_gradient" in function or "step_gradient" in function else 256
        assert max(resources.spill_stores, resources.spill_loads) <= most


# -- sanitizers ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize(
    ("name", "options", "function", "sanitize"),
    [
        ("two_link", ALL, "forward_dynamics_gradient_warp", "thread"),
        ("cart_pole", ALL, "forward_dynamics_aba_warp", "thread"),
        ("two_link", ALL, "forward_dynamics_gradient_warp", "address,undefined"),
        *rarely(
            *(
                (name, options, function, sanitize)
                for name, options in (
                    ("quadruped", FLOATING),
                    ("tree 40", {}),
                    ("gripper", ALL | FLOATING),
                )
                for function in (MIMICKING if name == "gripper" else MAIN)
                for sanitize in ("thread", "address,undefined")
            )
        ),
    ],
)
def test_no_kernel_has_a_race_or_strays_in_memory(name, options, function, sanitize):
    tree = tree_of(name, **options)
    inputs = random_inputs(tree, function, 2)
    run = run_alone(module_of(tree, function, observed=False), function, inputs, sanitize=sanitize)
    assert (run.status, run.report) == (0, "")
    check(tree, function, outputs_of(function, run.arrays), inputs)


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize("missing", [2, *exhaustive(0, 1, *range(3, 8))])
def test_a_missing_barrier_is_a_race(missing):
    function = "mass_matrix_warp"
    tree = tree_of("quadruped", **FLOATING)
    module = module_of(tree, function, observed=False)
    places = barriers(module.sources, "robot_warp.cuh", r"__syncwarp\(\);")
    assert len(places) == 8
    inputs = random_inputs(tree, function, 1)
    assert_race(run_alone(module, function, inputs, sanitize="thread", leave_out=places[missing]))


@pytest.mark.parametrize("name", ["arm7", *exhaustive("quadruped", "tree 40")])
@pytest.mark.parametrize(
    "function", ["forward_dynamics_crba_warp", "forward_dynamics_gradient_warp"]
)
def test_no_lane_reads_numbers_beside_an_array(name, function):
    """What is there belongs to another array or state, and may be NaN."""
    tree = tree_of(name, floating_base=name == "quadruped")
    text = module_of(tree, function, observed=False).sources.files["robot_warp.cuh"]
    sizes = {area: int(size) for area, size in re.findall(r"(\w+_shared) = .*// (\d+) num", text)}
    reads = re.findall(r"= (\w+_shared)\[\(?lane(?: ([+-]) (\d+)\))?\]", text)
    assert sizes
    for area, sign, shift in reads:
        first = int(f"{sign}{shift}" or 0)
        assert 0 <= first <= sizes[area] - width_of(tree), area


# -- what users see -----------------------------------------------------------------------------


def test_users_reach_the_kernels():
    robot = gridgen.load(ROBOTS / "cart_pole.urdf", backend="emulated")
    q, qd, x = np.random.default_rng(3).normal(size=(3, 4, robot.nv))
    calls = (robot.mass_matrix, (q,)), (robot.step, (q, qd, x, 0.01))
    for call, arguments in calls:
        found, expected = call(*arguments, schedule="warp"), call(*arguments)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_what_is_not_supported_is_refused_by_name():
    free = (
        '<robot name="r"><link name="a"/><link name="b"/><link name="c"/>'
        '<joint name="slide" type="prismatic"><parent link="a"/><child link="b"/>'
        '<axis xyz="0 0 1"/><limit effort="1" velocity="1" lower="-1" upper="1"/></joint>'
        '<joint name="loose" type="floating"><parent link="b"/><child link="c"/></joint></robot>'
    )
    # Outputs have no rows for mimic joints: matrices with them must fit in shared memory.
    coupled = serial_chain(90, 7).replace(
        "</joint>", '<mimic joint="joint_1" multiplier="-1.5"/></joint>', 1
    )
    for tree, reason in (
        (tree_of_text(coupled), "more shared memory"),
        (tree_of_text(free), 'joint "loose" is free'),
        (tree_of("arm7", parameters="all"), "inertial parameters are inputs"),
        (tree_of("chain 300"), "300 bodies"),
        (tree_of("quadruped", convention="mujoco", **FLOATING), "MuJoCo's coordinates"),
    ):
        refusal = WarpSchedule(Teams(tree)).refusal(KERNELS["mass_matrix_warp"].key)
        assert refusal is not None
        assert reason in refusal
