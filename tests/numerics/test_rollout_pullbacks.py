"""Backpropagation through rollouts: differences of rollouts, and one way beside another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fake_gpu.ptx.backend import PTX_TARGETS
from gridgen.backends import TARGETS
from gridgen.errors import GridGenError, OptionError, ShapeError
from gridgen.runtime.calls import rollout_vjp
from helpers.robots import exhaustive, exhaustive_cases
from numerics.robots import load_robot, urdf_path

STATES, TIMES = 3, 7  # three checkpoints, the last with fewer steps behind it
EVERY = ("q0", "qd0", "tau", "dt", "gravity")


def case(
    name: str, floating: bool, states: int = STATES, **options: Any
) -> tuple[Any, list[np.ndarray]]:
    robot = load_robot(urdf_path(name), floating_base=floating, armature=0.1, **options)
    rng = np.random.default_rng(len(name))
    qd, tau = rng.normal(size=(states, robot.nv)), rng.normal(size=(states, TIMES, robot.nv))
    return robot, [robot.random_configuration(rng, states), qd, tau]


def drawn(rng: np.random.Generator, paths: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Return derivatives by the results of a rollout."""
    return tuple(rng.normal(size=path.shape).astype(path.dtype) for path in paths)


def controller(robot: Any, gain: float) -> tuple[np.ndarray, ...]:
    """Return a feedback whose gains have all entries, to another configuration in each step."""
    rng = np.random.default_rng(5)
    gains = gain * rng.normal(size=(TIMES, robot.nv, 2 * robot.nv))
    return gains, robot.random_configuration(rng, TIMES), rng.normal(size=robot.nv)


@pytest.mark.parametrize(
    ("name", "floating", "backend", "gain", "options"),
    [
        ("gripper", False, "cpu", 0.0, {"substeps": 2, "store_every": "last"}),
        ("gripper", False, "cpu", 3.0, {"effort_limits": True, "substeps": 3}),
        ("cart_pole", True, "emulated", 0.1, {"substeps": 2}),
        *exhaustive_cases(("cart_pole", True, "cpu", 0.1, {"integrator": "rk4", "store_every": 7})),
    ],
)
def test_differences_of_rollouts(
    name: str, floating: bool, backend: str, gain: float, options: dict[str, Any]
) -> None:
    """Gravity differs from step to step, so that its derivatives do."""
    robot, (q, qd, tau) = case(name, floating, 1 if backend == "emulated" else STATES)
    rng = np.random.default_rng(6)
    gravity = np.array([1.0, 2.0, -9.0]) + rng.normal(size=(len(q), TIMES, 3))
    options = {**options, "backend": backend}
    if gain:
        options["feedback"] = controller(robot, gain)
    point = [q, qd, tau, np.full(len(q), 0.02), gravity]

    def rolled(q0: Any, qd0: Any, tau: Any, dt: Any, gravity: Any) -> Any:
        return robot.rollout(q0, qd0, tau, dt, gravity=gravity, **options)

    weights = drawn(rng, rolled(*point))
    found = robot.rollout_vjp(*point[:4], weights, wrt=EVERY, gravity=gravity, **options)
    for place, bar in enumerate(found):
        assert bar.shape == point[place].shape
        move = 1e-6 * rng.normal(size=bar.shape) * (0.02 if place == 3 else 1.0)
        ahead, behind = [*point], [*point]
        ahead[place], behind[place] = point[place] + move, point[place] - move
        ends = zip(weights, rolled(*ahead), rolled(*behind), strict=True)
        slope = sum(np.sum(w * (one - other)) for w, one, other in ends) / 2.0
        assert np.sum(bar * move) == pytest.approx(slope, rel=2e-6)


@pytest.mark.parametrize("followed", [False, True])
def test_the_same_array_in_several_places(followed: bool) -> None:
    """As many states as steps, so that positions have the shape of efforts and of references."""
    options: dict[str, Any] = {"substeps": 3}
    robot, (q, qd, _) = case("gripper", False, TIMES)
    gravity = np.random.default_rng(8).normal(size=(TIMES, TIMES, 3))
    weights = drawn(np.random.default_rng(9), (np.zeros((TIMES, TIMES + 1, robot.nv)),) * 2)

    def computed(*same: np.ndarray) -> Any:
        q0, tau, q_ref, qd_ref, first, second = same
        if followed:
            options["feedback"] = controller(robot, 0.1)[0], q_ref, qd_ref
        arguments = q0, qd, tau[None], 0.02
        paths = robot.rollout(*arguments, gravity=gravity, **options)
        bars = first, second
        back = robot.rollout_vjp(*arguments, bars, wrt=EVERY, gravity=gravity, **options)
        return *paths, *back

    expected = computed(*(q.copy() for _ in range(4)), weights[0], weights[0].copy())
    found = computed(q, q, q, q, weights[0], weights[0])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("backend", ["cpu", "emulated", "compute_75", *exhaustive("compute_90")])
def test_every_way_to_have_states_again_has_the_same_bits(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From checkpoints, from what the rollout returned, in a CPU's cache."""
    if backend in PTX_TARGETS:
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        monkeypatch.setitem(TARGETS, "emulated", PTX_TARGETS[backend])
        load_robot.cache_clear()  # a robot keeps its kernels
        backend = "emulated"
    robot, arguments = case("two_link", False, 71)
    given = [array.astype(np.float32) for array in arguments]
    rng = np.random.default_rng(7)
    options: dict[str, Any] = {"substeps": 2, "gravity": np.float32([0.0, 1.0, -9.0])}
    options |= {"feedback": [np.float32(part) for part in controller(robot, 0.1)]}
    options |= {"effort_limits": True, "wrt": EVERY, "backend": backend}
    rolled = {name: value for name, value in options.items() if name != "wrt"}
    paths = robot.rollout(*given, 0.01, **rolled)
    weights = drawn(rng, paths)
    plain = robot.rollout_vjp(*given, 0.01, weights, **options)
    again = [robot.rollout_vjp(*given, 0.01, weights, results=paths, **options)]
    out = tuple(np.empty(array.shape[::-1], np.float32).T for array in plain)
    assert robot.rollout_vjp(*given, 0.01, weights, out=out, **options) is out
    again.append(out)
    monkeypatch.setattr(rollout_vjp, "_NEAR_BYTES", 0)
    again.append(robot.rollout_vjp(*given, 0.01, weights, **options))
    for found in again:
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_array_equal(one, other)
    assert plain[4].shape == (71, 3)  # the sum over steps, of each state


def test_rows_of_parameters_and_loads_that_stay() -> None:
    """What has no axis of time has the sum over steps, whoever shares it."""
    robot, (q, qd, tau) = case("two_link", False, parameters="all")
    rng = np.random.default_rng(8)
    params = robot.parameters()
    options = {"f_ext": rng.normal(size=(STATES, 1, len(robot.body_names), 6)), "params": params}
    weights = drawn(rng, robot.rollout(q, qd, tau, 0.02, **options))
    wrt = ("params", "f_ext")
    found = robot.rollout_vjp(q, qd, tau, 0.02, weights, wrt=wrt, **options)
    assert found[0].shape == (STATES, *params.shape)
    assert found[1].shape == options["f_ext"].shape
    for name, bar in zip(wrt, found, strict=True):
        move = 1e-6 * rng.normal(size=options[name].shape)
        ends = (
            robot.rollout(q, qd, tau, 0.02, **{**options, name: options[name] + sign * move})
            for sign in (1.0, -1.0)
        )
        slope = sum(np.sum(w * (a - b)) for w, a, b in zip(weights, *ends, strict=True)) / 2.0
        assert np.sum(bar * move) == pytest.approx(slope, rel=1e-5)


def test_one_rollout_and_one_step() -> None:
    robot, (q, qd, tau) = case("gripper", False)
    weights = drawn(np.random.default_rng(9), robot.rollout(q, qd, tau, 0.01))
    every = robot.rollout_vjp(q, qd, tau, 0.01, weights)
    alone = robot.rollout_vjp(q[0], qd[0], tau[0], 0.01, [w[0] for w in weights])
    for bar, one in zip(every, alone, strict=True):
        np.testing.assert_array_equal(bar[0], one)
    short = robot.rollout_vjp(q, qd, tau[:, :1], 0.01, [w[:, :2] for w in weights])
    ends = [w[:, 1] for w in weights]
    step = robot.vjp("step", ends, q, qd, tau[:, 0], 0.01, wrt=("q", "qd", "tau"))
    np.testing.assert_array_equal(short[2][:, 0], step[2])
    np.testing.assert_array_equal(short[0], step[0] + weights[0][:, 0])
    still = robot.rollout_vjp(q, qd, tau[:, :0], 0.01, [w[:, :1] for w in weights])
    np.testing.assert_array_equal(still[0], weights[0][:, 0])
    by_efforts = robot.vjp("rollout", weights, q, qd, tau, 0.01, wrt="tau")
    np.testing.assert_array_equal(by_efforts, every[2])


def test_none_in_place_of_cotangents_is_zero() -> None:
    robot, arguments = case("gripper", False)
    bar = drawn(np.random.default_rng(8), robot.rollout(*arguments, 0.02))[1]
    found = robot.rollout_vjp(*arguments, 0.02, (None, bar))
    expected = robot.rollout_vjp(*arguments, 0.02, (np.zeros_like(bar), bar))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_nan_stays_in_its_row() -> None:
    robot, (q, qd, tau) = case("gripper", False)
    weights = drawn(np.random.default_rng(9), robot.rollout(q, qd, tau, 0.01))
    whole = robot.rollout_vjp(q, qd, tau, 0.01, weights)
    tau[1, 3] = np.nan
    for bar, unhurt in zip(robot.rollout_vjp(q, qd, tau, 0.01, weights), whole, strict=True):
        np.testing.assert_array_equal(bar[::2], unhurt[::2])
        assert np.isnan(bar[1]).any()


@pytest.mark.parametrize(
    ("error", "change", "words"),
    [
        (ShapeError, {"cotangents": np.zeros((3, 8, 4))}, "cotangents are 1 arrays"),
        (ShapeError, {"cotangents": (np.zeros((3, 7, 2)),) * 2}, r"q_path_bar .* \(3, 8, 2\)"),
        (ShapeError, {"store_every": "last"}, r"q_path_bar .* \(3, 2\)"),
        (ShapeError, {"results": (np.zeros((3, 7, 2)),) * 2}, r"q_path has .* \(3, 8, 2\)"),
        (ShapeError, {"tau": np.zeros((4, 7, 2))}, "tau has shape"),
        (ShapeError, {"gravity": np.zeros((3, 6, 3))}, "gravity has shape"),
        (OptionError, {"substeps": 0}, "substeps"),
        (OptionError, {"wrt": ("gains",)}, "by K they are"),
        (OptionError, {"wrt": ("q", "qd")}, "does not read"),
        (ShapeError, {"out": np.zeros((3, 2))}, "tuple of 3"),
    ],
)
def test_what_is_wrong_is_named(
    error: type[GridGenError], change: dict[str, Any], words: str
) -> None:
    robot = load_robot(urdf_path("two_link"))
    given = {"tau": np.zeros((3, 7, 2)), "cotangents": (np.zeros((3, 8, 2)),) * 2, **change}
    start = np.zeros((3, 2)), np.zeros((3, 2))
    tau, cotangents = given.pop("tau"), given.pop("cotangents")
    with pytest.raises(error, match=words):
        robot.rollout_vjp(*start, tau, 0.01, cotangents, **given)


def test_a_keyword_that_it_lacks_is_refused_as_python_does() -> None:
    robot = load_robot(urdf_path("two_link"))
    start, tau = np.zeros((3, 2)), np.zeros((3, 7, 2))
    with pytest.raises(TypeError, match=r"rollout_vjp\(\) got an unexpected .* 'step'"):
        robot.rollout_vjp(start, start, tau, 0.01, (tau, tau), step=2)
