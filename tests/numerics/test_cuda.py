"""The ``cuda`` backend against the NumPy reference, on this machine's GPU.

`make gpu-test` runs this file with nothing but CuPy, NumPy, SymPy, Jinja2, lxml and pytest, and
demands a device. Elsewhere everything here is skipped.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.backends.cuda.backend import require_device
from gridgen.check import Comparison, compare_function, random_states
from gridgen.compiler import read_tree
from gridgen.errors import DeviceError, GridGenWarning
from gridgen.model.tree import KinematicTree
from gridgen.options import RobotOptions
from gridgen.papers import Hybrid
from gridgen.runtime.arrays import streaming

ROBOTS = Path(__file__).resolve().parents[2] / "robots"
# Every robot of the folder on a fixed base, and those that walk on a floating one.
CASES = {path.stem: (path.stem, False) for path in sorted(ROBOTS.glob("*.urdf"))} | {
    f"{name}-floating": (name, True) for name in ("quadruped", "humanoid")
}
DTYPES = ("float32", "float64")
BATCHES = (1, 31, 32, 33, 1000)  # one state, a part of a warp, one, one more, many and a part
# Of a thousand states the worst cancels more than those of the dozens that tolerances are made for:
# 3 times the tolerance was seen, of the one number that a pendulum's gradient is, in float32.
RARE = 4.0

try:
    cupy: Any = require_device()
except DeviceError as error:
    if os.environ.get("GRIDGEN_REQUIRE_GPU"):
        raise
    pytest.skip(f"no CUDA device: {error}", allow_module_level=True)

import cupyx  # noqa: E402  after CuPy has been found

on_several_gpus = pytest.mark.skipif(
    cupy.cuda.runtime.getDeviceCount() < 2, reason="one CUDA device only"
)


@cache
def load(case: str) -> tuple[KinematicTree, gridgen.Robot]:
    name, floating = CASES[case]
    urdf = ROBOTS / f"{name}.urdf"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        tree = read_tree(urdf, RobotOptions(floating_base=floating))
        return tree, gridgen.load(urdf, floating_base=floating)


@cache
def states(case: str, dtype: str, count: int) -> dict[str, np.ndarray]:
    drawn = random_states(load(case)[0], count, np.random.default_rng(len(case)))
    return {name: value.astype(dtype) for name, value in drawn.items()}


def functions_of(robot: gridgen.Robot) -> list[str]:
    """Return the functions to compile: not the hundreds of Jacobians of single frames, and of a
    robot with many joints not the derivatives, which take minutes each. Rollouts are tried by
    themselves.
    """
    second = ("second_order", "hessian")
    long = ("gradient", *second) if robot.nv > 10 else second
    return [
        name
        for name in robot.functions
        if not name.startswith("jacobian")
        and not any(word in name for word in long)
        and not robot.kernels[name].calls
    ]


def on_gpu(arrays: dict[str, np.ndarray], layout: str = "rows") -> dict[str, Any]:
    """Return arrays in GPU memory: a state in a row, in a column, or with gaps between numbers."""
    if layout == "rows":
        return {name: cupy.asarray(value) for name, value in arrays.items()}
    if layout == "columns":
        return {
            name: cupy.moveaxis(cupy.asarray(np.moveaxis(value, 0, -1).copy()), -1, 0)
            for name, value in arrays.items()
        }
    wide = {}
    for name, value in arrays.items():
        steps = (2, *(1,) * (value.ndim - 2), 3)[: value.ndim]
        shape = tuple(step * extent for step, extent in zip(steps, value.shape, strict=True))
        gaps = tuple(slice(None, None, step) for step in steps)
        wide[name] = cupy.full(shape, cupy.nan, value.dtype)[gaps]
        wide[name][...] = cupy.asarray(value)
    return wide


def results_of(robot: gridgen.Robot, function: str, arrays: dict[str, Any]) -> tuple[Any, ...]:
    """Return the results of a function, one or several, as a tuple."""
    results = robot.evaluate(function, arrays)
    return results if isinstance(results, tuple) else (results,)


def comparison(case: str, dtype: str, function: str, inputs: dict[str, np.ndarray]) -> Comparison:
    """Compare a function with the reference."""
    tree, robot = load(case)
    results = results_of(robot, function, on_gpu(inputs))
    for result in results:
        assert isinstance(result, cupy.ndarray)
        assert result.dtype == dtype
    # The reference sees the rounded inputs, so that only the computation is compared.
    exact = {name: value.astype(np.float64) for name, value in inputs.items()}
    host = tuple(cupy.asnumpy(result) for result in results)
    kernel = robot.kernels[function]
    compared = compare_function(tree, kernel.same.name, dtype, exact, host, kernel.key.method)
    rare = RARE if dtype == "float32" and len(inputs["q"]) >= 1000 else 1.0
    return replace(compared, function=function, tolerance=rare * compared.tolerance)


def assert_same(results: tuple[Any, ...], expected: tuple[Any, ...], function: str) -> None:
    for result, reference in zip(results, expected, strict=True):
        cupy.testing.assert_array_equal(result, reference, err_msg=function)


# -- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_every_function_agrees_with_the_reference(case, dtype):
    robot = load(case)[1]
    rows = [
        (batch, comparison(case, dtype, function, states(case, dtype, batch)))
        for function in functions_of(robot)
        for batch in BATCHES
    ]
    failures = [f"batch {batch}: {row}" for batch, row in rows if not row.passed]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("layout", ["columns", "gaps"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ["arm7", "gripper", "quadruped-floating"])
def test_strides_change_nothing(case, dtype, layout):
    _, robot = load(case)
    inputs = states(case, dtype, 1000)
    rows, other = on_gpu(inputs), on_gpu(inputs, layout)
    assert other["q"].strides != rows["q"].strides
    for function in functions_of(robot):
        expected = results_of(robot, function, rows)
        assert_same(results_of(robot, function, other), expected, function)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ["arm7", "quadruped-floating"])
def test_a_state_gives_the_same_bits_in_any_batch(case, dtype):
    _, robot = load(case)
    arrays = on_gpu(states(case, dtype, 1000))
    few = {name: value[500:531] for name, value in arrays.items()}
    for function in functions_of(robot):
        whole = results_of(robot, function, arrays)
        part = tuple(result[500:531] for result in whole)
        assert_same(results_of(robot, function, few), part, function)
        assert_same(results_of(robot, function, arrays), whole, function)


@pytest.mark.parametrize("case", ["arm7", "quadruped-floating"])
def test_nan_stays_in_its_state(case):
    _, robot = load(case)
    arrays = on_gpu(states(case, "float64", 1000))
    clean = {function: results_of(robot, function, arrays) for function in functions_of(robot)}
    arrays["q"] = arrays["q"].copy()
    arrays["q"][77] = cupy.nan
    others = np.arange(1000) != 77
    for function, expected in clean.items():
        results = results_of(robot, function, arrays)
        assert any(cupy.isnan(result[77]).any() for result in results), function
        kept = tuple(result[others] for result in results)
        assert_same(kept, tuple(result[others] for result in expected), function)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ["arm7", "quadruped-floating"])
def test_the_hybrid_schedule_agrees_on_any_stream(case, dtype):
    """3000 states are three parts, whose pinned memory is used again."""
    robot = load(case)[1]
    hybrid = Hybrid(robot)
    arrays = on_gpu(states(case, dtype, 3000))
    arguments = (arrays["q"], arrays["qd"], arrays["tau"])
    expected = robot.forward_dynamics(*arguments)
    atol = 1e-11 if dtype == "float64" else 1e-3
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            computed = hybrid.forward_dynamics(*arguments)
        stream.synchronize()
        scale = float(abs(expected).max())
        cupy.testing.assert_allclose(computed, expected, rtol=0, atol=atol * scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_angles_of_many_turns(dtype):
    inputs = dict(states("arm7", dtype, 1000))
    inputs["q"] = inputs["q"] * np.logspace(0, 8, 1000, dtype=dtype)[:, None]
    for function in ("inverse_dynamics", "mass_matrix"):
        row = comparison("arm7", dtype, function, inputs)
        assert row.passed, row


def test_a_million_states():
    _, robot = load("two_link")
    arrays = {name: cupy.asarray(v) for name, v in states("two_link", "float32", 1000).items()}
    many = {name: cupy.tile(v, (1000,) + (1,) * (v.ndim - 1)) for name, v in arrays.items()}
    result = robot.evaluate("inverse_dynamics", many).reshape(1000, 1000, 2)
    assert (result == robot.evaluate("inverse_dynamics", arrays)).all()


# -- arguments ----------------------------------------------------------------------------------


def test_one_state_without_the_batch_axis():
    _, robot = load("arm7")
    arrays = on_gpu(states("arm7", "float64", 31))
    q, qd, qdd = arrays["q"], arrays["qd"], arrays["qdd"]
    tau = robot.inverse_dynamics(q[3], qd[3], qdd[3])
    assert tau.shape == (7,)
    cupy.testing.assert_array_equal(tau, robot.inverse_dynamics(q, qd, qdd)[3])
    assert robot.mass_matrix(q[3]).shape == (7, 7)
    assert robot.mass_matrix(q[:0]).shape == (0, 7, 7)


def test_one_vector_for_all_states():
    _, robot = load("arm7")
    arrays = on_gpu(states("arm7", "float32", 1000))
    q, qd, qdd = arrays["q"], arrays["qd"], arrays["qdd"]
    moon = cupy.asarray([0.1, 0.2, -1.62], cupy.float32)
    expected = robot.inverse_dynamics(q, qd, qdd, gravity=cupy.tile(moon, (1000, 1)))
    for gravity in (moon, cupy.broadcast_to(moon, (1000, 3)), [0.1, 0.2, -1.62]):
        cupy.testing.assert_array_equal(
            robot.inverse_dynamics(q, qd, qdd, gravity=gravity), expected
        )


def test_forward_dynamics_undoes_inverse_dynamics_under_loads():
    _, robot = load("quadruped-floating")
    arrays = on_gpu(states("quadruped-floating", "float64", 1000))
    loads = {name: arrays[name] for name in ("f_ext", "base_velocity", "base_acceleration")}
    tau = robot.inverse_dynamics(arrays["q"], arrays["qd"], arrays["qdd"], **loads)
    for method in ("aba", "crba"):
        qdd = robot.forward_dynamics(arrays["q"], arrays["qd"], tau, method=method, **loads)
        cupy.testing.assert_allclose(qdd, arrays["qdd"], rtol=0, atol=1e-8, err_msg=method)


@pytest.mark.parametrize("layout", ["rows", "columns", "gaps", "its own input"])
def test_results_go_where_they_are_told(layout):
    _, robot = load("arm7")
    arrays = on_gpu(states("arm7", "float32", 31))
    q, qd, qdd = arrays["q"], arrays["qd"], arrays["qdd"]
    expected = robot.inverse_dynamics(q, qd, qdd)
    if layout == "its own input":
        out = qdd
    else:
        out = on_gpu({"out": np.empty((31, 7), np.float32)}, layout)["out"]
    assert robot.inverse_dynamics(q, qd, qdd, out=out) is out
    cupy.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("place", ["pageable", "pinned", "on the GPU"])
def test_numpy_arrays_are_streamed_in_parts(monkeypatch, place):
    """A thousand states are three parts, in two lanes; results are NumPy arrays each time."""
    _, robot = load("arm7")
    inputs = states("arm7", "float32", 1000)
    given = [inputs[name] for name in ("q", "qd", "qdd")]
    expected = cupy.asnumpy(robot.inverse_dynamics(*map(cupy.asarray, given)))
    monkeypatch.setattr(streaming, "PART_BYTES", 400 * 4 * 28)
    out = np.zeros_like(expected)
    if place == "pinned":
        given, values = [cupyx.empty_pinned(out.shape, out.dtype) for _ in given], given
        for array, value in zip(given, values, strict=True):
            array[...] = value
        out = cupyx.empty_pinned(out.shape, out.dtype)
    elif place == "on the GPU":
        given = [cupy.asarray(array) for array in given]
    for _ in range(2):
        assert robot.inverse_dynamics(*given, out=out, backend="cuda") is out
        np.testing.assert_array_equal(out, expected)
        out[...] = 0
    if place != "on the GPU":
        result = robot.inverse_dynamics(*given, backend="cuda")
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, expected)


class Foreign:
    """An array of some other library, known by the interface alone."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = array.__cuda_array_interface__
        self._kept = array


def test_arrays_of_other_libraries():
    _, robot = load("arm7")
    arrays = on_gpu(states("arm7", "float64", 31))
    q, qd, qdd = arrays["q"], arrays["qd"], arrays["qdd"]
    result = robot.inverse_dynamics(Foreign(q), Foreign(qd), Foreign(qdd))
    cupy.testing.assert_array_equal(result, robot.inverse_dynamics(q, qd, qdd))


def test_arrays_on_the_cpu_are_refused():
    _, robot = load("arm7")
    inputs = states("arm7", "float64", 31)
    q, qd, qdd = (cupy.asarray(inputs[name]) for name in ("q", "qd", "qdd"))
    with pytest.raises(gridgen.DeviceError, match="qd is on the CPU, q on GPU 0"):
        robot.inverse_dynamics(q, inputs["qd"], qdd)
    with pytest.raises(gridgen.DeviceError, match="on the CPU"):
        robot.mass_matrix(q, backend="cpu")
    with pytest.raises(gridgen.ShapeError, match="qd has shape"):
        robot.inverse_dynamics(q, qd[:, :6], qdd)
    with pytest.raises(gridgen.DtypeError, match="qd has dtype float32"):
        robot.inverse_dynamics(q, qd.astype(cupy.float32), qdd)


# -- streams and devices ------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["arm7", "quadruped-floating"])
def test_work_goes_to_the_current_stream(case):
    """Only what is enqueued on the current stream is captured into its graph."""
    _, robot = load(case)
    arrays = on_gpu(states(case, "float32", 1000))
    expected = robot.inverse_dynamics(arrays["q"], arrays["qd"], arrays["qdd"])
    out = cupy.zeros_like(expected)
    cupy.cuda.runtime.deviceSynchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        robot.inverse_dynamics(arrays["q"], arrays["qd"], arrays["qdd"], out=out)
        graph = stream.end_capture()
    assert not out.any()
    graph.launch(stream)
    stream.synchronize()
    cupy.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("case", ["arm7", "quadruped-floating"])
def test_a_bound_call_is_captured_and_reads_what_arrays_hold_later(case):
    _, robot = load(case)
    arrays = on_gpu(states(case, "float32", 1000))
    given = [arrays[name] for name in ("q", "qd", "qdd")]
    expected = robot.inverse_dynamics(*given)
    given[2] = cupy.zeros_like(given[2])
    bound = robot.bind("inverse_dynamics", *given)
    found = bound()
    cupy.testing.assert_array_equal(found, robot.inverse_dynamics(*given))
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    with stream:
        stream.begin_capture()
        assert bound() is found
        graph = stream.end_capture()
        given[2][...] = arrays["qdd"]
        graph.launch(stream)
    stream.synchronize()
    cupy.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("schedule", ["thread", "warp"])
def test_a_bound_call_computes_what_a_plain_call_does(schedule):
    _, robot = load("arm7")
    arrays = on_gpu(states("arm7", "float64", 1000), "columns")
    given = [arrays[name] for name in ("q", "qd", "qdd")]
    bound = robot.bind("inverse_dynamics_gradient", *given, schedule=schedule)
    given[1][...] = given[2]
    expected = robot.inverse_dynamics_gradient(*given, schedule=schedule)
    for _ in range(2):
        assert_same(bound(), expected, schedule)


def test_bound_inverse_kinematics_finds_what_a_plain_call_does():
    _, robot = load("arm7")
    q = robot.random_configuration(np.random.default_rng(0), 100)
    targets = cupy.asarray(robot.forward_kinematics(q, "flange"))
    bound = robot.bind("inverse_kinematics", targets, "flange")
    targets[...] = targets[::-1].copy()
    expected = robot.inverse_kinematics(targets, "flange")
    for found, reference in zip(bound(), expected, strict=True):
        assert isinstance(found, cupy.ndarray)
        cupy.testing.assert_array_equal(found, reference)


def test_bound_calls_in_a_row_compute_what_each_does():
    _, robot = load("arm7")
    arrays = on_gpu(states("arm7", "float32", 100))
    q, qd, qdd = (arrays[name] for name in ("q", "qd", "qdd"))
    first = robot.bind("inverse_dynamics", q, qd, qdd)
    second = robot.bind("forward_dynamics", q, qd, first())
    both = first.then(second)
    qdd[...] = 2 * qd
    found = both()
    expected = robot.inverse_dynamics(q, qd, qdd)
    assert_same(found, (expected, robot.forward_dynamics(q, qd, expected)), "in a row")


def test_what_a_bound_call_would_copy_is_refused():
    _, robot = load("arm7")
    arrays = on_gpu(states("arm7", "float64", 31))
    q, qd, qdd = arrays["q"], arrays["qd"], arrays["qdd"]
    with pytest.raises(gridgen.ShapeError, match="out overlaps qdd"):
        robot.bind("inverse_dynamics", q, qd, qdd, out=qdd)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(gridgen.DeviceError, match="bind before"):
            robot.bind("inverse_dynamics", q, qd, qdd)
        stream.end_capture()


@on_several_gpus
def test_results_lie_where_the_inputs_do():
    _, robot = load("arm7")
    inputs = states("arm7", "float64", 1000)
    with cupy.cuda.Device(0):
        expected = cupy.asnumpy(robot.evaluate("inverse_dynamics", on_gpu(inputs)))
    with cupy.cuda.Device(1):
        arrays = on_gpu(inputs)
    with cupy.cuda.Device(0):  # not the arrays' own
        result = robot.evaluate("inverse_dynamics", arrays)
        assert cupy.cuda.runtime.getDevice() == 0
    assert result.device.id == 1
    with cupy.cuda.Device(1):
        np.testing.assert_array_equal(cupy.asnumpy(result), expected)


@on_several_gpus
def test_arrays_on_two_devices_are_refused():
    _, robot = load("arm7")
    inputs = states("arm7", "float64", 31)
    with cupy.cuda.Device(0):
        arrays = on_gpu(inputs)
    with cupy.cuda.Device(1):
        arrays["qd"] = cupy.asarray(inputs["qd"])
    with pytest.raises(gridgen.DeviceError, match="qd is on GPU 1, q on GPU 0"):
        robot.evaluate("inverse_dynamics", arrays)


# -- rollouts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["two_link", "quadruped-floating"])
def test_a_rollout_is_a_step_again_and_again(case):
    """Bit for bit, in rows and with states beside each other, called and bound."""
    robot = load(case)[1]
    rng = np.random.default_rng(0)
    count, steps = 70, 5
    q = cupy.asarray(robot.random_configuration(rng, count), "float32")
    qd = cupy.asarray(rng.normal(size=(count, robot.nv)), "float32")
    tau = cupy.asarray(rng.normal(size=(count, steps, robot.nv)), "float32")
    tau[3, 2] = cupy.nan
    path = robot.rollout(q, qd, tau, 1e-3)
    beside = tuple(
        cupy.empty((steps + 1, width, count), "float32").transpose(2, 0, 1)
        for width in (robot.nq, robot.nv)
    )
    bound = robot.bind("rollout", q, qd, tau, 1e-3, out=beside)
    bound()
    assert_same(beside, path, "bound")
    for t in range(steps):
        assert_same((path[0][:, t], path[1][:, t]), (q, qd), f"step {t}")
        q, qd = robot.step(q, qd, cupy.ascontiguousarray(tau[:, t]), 1e-3)
    assert_same((path[0][:, -1], path[1][:, -1]), (q, qd), "the last step")
    is_hurt = np.isnan(cupy.asnumpy(path[1])).any(axis=(1, 2))
    assert is_hurt.nonzero()[0].tolist() == [3]


def test_contacts_and_distances_agree_with_the_cpu():
    """A loop that ends when no state of a pack needs it, and the nearest of many pairs."""
    ground = [{"link": "flange", "radius": 0.3}]
    spheres = {"link2": [(0.0, 0.0, 0.0, 0.1)], "flange": [(0.0, 0.0, 0.0, 0.1)]}
    gpu, cpu = (
        gridgen.load(ROBOTS / "arm7.urdf", ground=ground, spheres=spheres, backend=backend)
        for backend in ("cuda", "cpu")
    )
    rng = np.random.default_rng(0)
    q, qd, tau = rng.normal(size=(3, 70, gpu.nv)).astype(np.float32)
    found = gpu.contact_forward_dynamics(*map(cupy.asarray, (q, qd, tau)))
    expected = cpu.contact_forward_dynamics(q, qd, tau)
    assert (expected[1] > 1.0).any()
    assert (expected[1] == 0.0).any()
    for array, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(cupy.asnumpy(array), reference, rtol=1e-3, atol=1e-3)
    for array, reference in zip(
        gpu.self_distance(cupy.asarray(q)), cpu.self_distance(q), strict=True
    ):
        np.testing.assert_allclose(cupy.asnumpy(array), reference, rtol=1e-5, atol=1e-5)
