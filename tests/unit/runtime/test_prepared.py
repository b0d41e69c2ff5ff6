"""CuPy arrays like those of an earlier call are not checked again, and all others are."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.errors import DeviceError, OptionError, ShapeError
from gridgen.runtime.arrays import staging
from gridgen.runtime.calls import evaluation, prepared
from helpers.gpu import COUNT, Gpu, expected, on_host


@pytest.fixture
def checks(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels whose arguments are checked."""
    names: list[str] = []
    check = evaluation.checked_call

    def noted(robot: str, kernel: Any, *rest: Any) -> Any:
        names.append(kernel.name)
        return check(robot, kernel, *rest)

    monkeypatch.setattr(evaluation, "checked_call", noted)
    return names


@pytest.mark.parametrize("with_out", [False, True])
def test_arrays_like_earlier_ones_are_not_checked_again(
    gpu: Gpu, checks: list[str], two_link: gridgen.Robot, with_out: bool
) -> None:
    for seed in range(3):
        *x, out = gpu.arrays(4, seed=seed)
        checks.clear()
        found = gpu.robot.inverse_dynamics(*x, out=out if with_out else None)
        assert len(checks) == (seed == 0)
        assert (found is out) is with_out
        np.testing.assert_array_equal(on_host(found), expected(two_link, x))


def test_several_results_of_arrays_like_earlier_ones(
    gpu: Gpu, checks: list[str], two_link: gridgen.Robot
) -> None:
    for seed in range(3):
        x = gpu.arrays(seed=seed)
        checks.clear()
        found = gpu.robot.inverse_dynamics_gradient(*x)
        assert len(checks) == (seed == 0)
        expected = two_link.inverse_dynamics_gradient(*map(on_host, x))
        np.testing.assert_equal(tuple(map(on_host, found)), expected)


def test_other_arrays_are_checked(gpu: Gpu, checks: list[str]) -> None:
    q, qd, qdd, out = gpu.arrays(4)
    gravity = gpu.driver.asarray(np.zeros(3))
    backwards = gpu.driver.asarray(np.zeros((COUNT, 2))[::-1])
    small = [gpu.driver.asarray(np.zeros((COUNT, 2), np.float32)) for _ in range(3)]
    away = gpu.arrays(device=1)
    calls: list[tuple[list[Any], dict[str, Any]]] = [
        ([q, qd, qdd], {}),
        ([q, qd, qdd], {"out": out}),
        ([q, qd, qdd], {"gravity": gravity}),
        ([q, qd, backwards], {}),
        ([q[:9], qd[:9], qdd[:9]], {}),
        (small, {}),
        (away, {}),
    ]
    for _ in range(2):
        for arguments, options in calls:
            gpu.robot.inverse_dynamics(*arguments, **options)
    # Those on a device that is not the current one always go the whole way.
    assert len(checks) == len(calls) + 1
    with pytest.raises(ShapeError, match="qd has shape"):
        gpu.robot.inverse_dynamics(q, qd[:9], qdd)
    with pytest.raises(DeviceError, match="out is on GPU 1, q on GPU 0"):
        gpu.robot.inverse_dynamics(q, qd, qdd, out=away[0])


def test_results_that_overlap_an_argument_are_noticed_in_arrays_like_earlier_ones(
    gpu: Gpu, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    *x, out = gpu.arrays(4)
    gpu.robot.inverse_dynamics(*x, out=out)
    room = gpu.driver.asarray(np.zeros((COUNT + 5, 2)))
    copied: list[int] = []
    monkeypatch.setattr(staging, "in_parts", lambda run, batch, sizes: copied.append(batch))
    for begin in (0, 3, 5):
        gpu.robot.inverse_dynamics(x[0], x[1], room[5:], out=room[begin : begin + COUNT])
        assert copied.pop() == COUNT
    apart = gpu.driver.asarray(np.zeros((2 * COUNT, 2)))
    checks.clear()
    gpu.robot.inverse_dynamics(x[0], x[1], apart[:COUNT], out=apart[COUNT:])
    assert not copied
    assert not checks


def test_arrays_of_familiar_strides_that_are_not_aligned_are_no_rows(
    gpu: Gpu, checks: list[str], two_link: gridgen.Robot
) -> None:
    q, qd, qdd = gpu.arrays()
    room = gpu.driver.asarray(np.random.default_rng(3).normal(size=2 * COUNT + 2))
    begin = 1 - room.data.ptr // 8 % 2
    off = room[begin : begin + 2 * COUNT].reshape(COUNT, 2)
    assert off.data.ptr % 16 == 8
    for x, form in ((q, "_rows"), (off, ""), (q, "_rows"), (off, "")):
        found = gpu.robot.inverse_dynamics(x, qd, qdd)
        assert gpu.launches[-1].entry == f"inverse_dynamics{form} float64"
        np.testing.assert_array_equal(on_host(found), expected(two_link, [x, qd, qdd]))
    assert len(checks) == 1


def test_numbers_for_all_states_are_validated_on_a_gpu_too(gpu: Gpu, urdf: Path) -> None:
    spheres = {"base": [(0.0, 0, 0, 0.3)], "forearm": [(0.0, 0, 0, 0.3)]}
    robot, (q,) = gridgen.load(urdf, spheres=spheres), gpu.arrays(1)
    for _ in range(2):
        robot.soft_self_distance(q, 0.1)
    for wrong in (-0.1, np.nan):
        launches = len(gpu.launches)
        with pytest.raises(OptionError, match=f"temperature has {wrong}"):
            robot.soft_self_distance(q, wrong)
        assert len(gpu.launches) == launches


@pytest.mark.usefixtures("few_objects")
def test_earlier_calls_keep_no_array(gpu: Gpu) -> None:
    host = np.zeros((COUNT, 2))
    q, kept = gpu.driver.asarray(host), weakref.ref(host)
    gpu.robot.mass_matrix(q)
    gpu.launches.clear()
    del q, host
    gc.collect()
    assert kept() is None


def test_what_is_remembered_has_a_limit(
    gpu: Gpu, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "_MAX", 3)
    (q,) = gpu.arrays(1)
    for count in (1, 2, 3, 4, 1, 4):
        gpu.robot.mass_matrix(q[:count])
    assert len(checks) == 5
    assert len(gpu.robot._evaluator._prepared) == 2


def test_rollouts_of_arrays_like_earlier_ones(
    gpu: Gpu, checks: list[str], two_link: gridgen.Robot
) -> None:
    """Their launch has strides in time and how far they go, beside the addresses."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = [gpu.driver.asarray(rng.normal(size=(COUNT, *n))) for n in ((2,), (2,), (4, 2))]
        follow = [gpu.driver.asarray(rng.normal(size=(4, *n))) for n in ((2, 4), (2,), (2,))]
        for feedback in (None, tuple(follow)):
            checks.clear()
            found = gpu.robot.rollout(*x, 0.01, store_every=2, feedback=feedback)
            assert len(checks) == (seed == 0)
            on_cpu = feedback and tuple(map(on_host, feedback))
            expected = two_link.rollout(*map(on_host, x), 0.01, store_every=2, feedback=on_cpu)
            np.testing.assert_equal(tuple(map(on_host, found)), expected)
    checks.clear()
    gpu.robot.rollout(*x, 0.01, store_every=4)
    assert checks == ["rollout_semi_implicit"]


def test_numpy_arrays_like_earlier_ones_are_computed_at_once(
    two_link: gridgen.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a look for the kernel; what does not fit takes the general way, and is explained."""
    q, qd, qdd, down = (*np.random.default_rng(1).normal(size=(3, 5, 2)), np.array([0, 0, -1.0]))
    calls: list[dict[str, Any]] = [{}, {"gravity": down}, {"gravity": None}, {"backend": "cpu"}]
    expected = [two_link.inverse_dynamics(q, qd, qdd, **options) for options in calls]
    two_link.inverse_dynamics(q, qd, qdd, gravity=down)
    resolved: list[Any] = []
    resolve = two_link.resolver.resolve

    def noted(request: Any, **options: Any) -> Any:
        resolved.append(request)
        return resolve(request, **options)

    monkeypatch.setattr(two_link.resolver, "resolve", noted)
    for options, alike in zip(calls, expected, strict=True):
        found = two_link.inverse_dynamics(q, qd, qdd, **options)
        np.testing.assert_array_equal(found, alike)
    assert len(resolved) == 2  # None means the default, and a backend is asked for
    with pytest.raises(ShapeError, match="qd has shape"):
        two_link.inverse_dynamics(q, qd[:3], qdd)
    with pytest.raises(ShapeError, match="gravity has shape"):
        two_link.inverse_dynamics(q, qd, qdd, gravity=down[:2])
    out = q[:, ::-1].copy()
    assert two_link.inverse_dynamics(q, qd, qdd, out=out) is out
    np.testing.assert_array_equal(out, expected[0])
    resolved.clear()
    two_link.resolver.forget()
    np.testing.assert_array_equal(two_link.inverse_dynamics(q, qd, qdd), expected[0])
    assert len(resolved) == 1


@pytest.mark.usefixtures("few_objects")
def test_rollouts_keep_no_array() -> None:
    robot = gridgen.load(Path(__file__).parents[3] / "robots" / "two_link.urdf", backend="cpu")
    q, qd, tau = np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((3, 4, 2))
    kept = [weakref.ref(array) for array in (q, qd, tau, *robot.rollout(q, qd, tau, 0.01))]
    assert len(robot._evaluator._prepared) == 1
    del q, qd, tau
    gc.collect()
    assert not any(one() is not None for one in kept)
