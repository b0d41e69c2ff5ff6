"""Linearized steps along trajectories: what a rollout changes by, and which arrays are taken."""

from __future__ import annotations

import numpy as np
import pytest

import gridgen
from gridgen.errors import DtypeError, OptionError, ShapeError

COUNT, STEPS, STEP = 3, 5, 1e-2


@pytest.fixture(scope="module")
def rolled(two_link: gridgen.Robot) -> tuple[np.ndarray, ...]:
    """Return the path of a rollout, q and qd, and its efforts."""
    rng = np.random.default_rng(0)
    q0, qd0 = rng.normal(size=(2, COUNT, 2))
    tau = rng.normal(size=(COUNT, STEPS, 2))
    return (*two_link.rollout(q0, qd0, tau, STEP), tau)


def test_products_are_how_a_rollout_changes(
    two_link: gridgen.Robot, rolled: tuple[np.ndarray, ...]
) -> None:
    q, qd, tau = rolled
    A, B = two_link.rollout_gradient(q, qd, tau, STEP)
    change, size = np.zeros((4, 4 + 2 * STEPS)), 1e-6
    change[:, :4] = np.eye(4)
    for t in range(STEPS):
        change = A[1, t] @ change
        change[:, 4 + 2 * t : 6 + 2 * t] += B[1, t]

    def end(x: np.ndarray) -> np.ndarray:
        efforts = tau[1] + x[4:].reshape(STEPS, 2)
        state = (q[1, 0] + x[:2], qd[1, 0] + x[2:4])
        return np.concatenate(two_link.rollout(*state, efforts, STEP, store_every="last"))

    steps = size * np.eye(change.shape[1])
    expected = np.stack([(end(x) - end(-x)) / (2 * size) for x in steps], axis=1)
    np.testing.assert_allclose(change, expected, rtol=0, atol=1e-8)


def test_finer_steps_are_a_chain(two_link: gridgen.Robot, rolled: tuple[np.ndarray, ...]) -> None:
    q, qd, tau = rolled
    A, B = two_link.rollout_gradient(q, qd, tau, STEP, substeps=3)
    fine = two_link.rollout(q[1, 2], qd[1, 2], np.tile(tau[1, 2], (3, 1)), STEP / 3.0)
    by_state, by_efforts = two_link.step_gradient(
        *(x[:3] for x in fine), tau[1, 2:3].repeat(3, 0), STEP / 3.0
    )
    np.testing.assert_allclose(A[1, 2], by_state[2] @ by_state[1] @ by_state[0], rtol=1e-12)
    expected = by_state[2] @ (by_state[1] @ by_efforts[0] + by_efforts[1]) + by_efforts[2]
    np.testing.assert_allclose(B[1, 2], expected, rtol=1e-12)
    for substeps in (1, 3):
        out = np.empty_like(A), np.empty_like(B)
        assert two_link.rollout_gradient(q, qd, tau, STEP, substeps=substeps, out=out) is out
        found = two_link.rollout_gradient(q, qd, tau, STEP, substeps=substeps)
        for one, other in zip(out, found, strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(OptionError, match="substeps is 0"):
        two_link.rollout_gradient(q, qd, tau, STEP, substeps=0)


def test_every_step_is_that_of_step_gradient(
    two_link: gridgen.Robot, rolled: tuple[np.ndarray, ...]
) -> None:
    q, qd, tau = rolled
    down = np.array([0.0, 0.0, -9.81])
    expected = two_link.rollout_gradient(q, qd, tau, STEP)
    single = two_link.step_gradient(q[2, 3], qd[2, 3], tau[2, 3], STEP)
    ways = [
        two_link.rollout_gradient(q[:, :-1], qd, tau, np.full(COUNT, STEP)),
        two_link.rollout_gradient(q, qd[:, :-1], tau, STEP, gravity=np.tile(down, (COUNT, 1))),
        two_link.rollout_gradient(q, qd, tau, STEP, gravity=np.tile(down, (COUNT, STEPS, 1))),
    ]
    one = two_link.rollout_gradient(q[2], qd[2], tau[2], STEP, gravity=down)
    for k, whole in enumerate(expected):
        np.testing.assert_array_equal(whole[2, 3], single[k])
        np.testing.assert_array_equal(whole[2], one[k])
        for way in ways:
            np.testing.assert_array_equal(whole, way[k])


def test_what_is_given_once_serves_all_trajectories(
    two_link: gridgen.Robot, rolled: tuple[np.ndarray, ...]
) -> None:
    q, qd, tau = rolled
    for given in ((q, qd, tau[0]), (q[0], qd[0], tau), (q[:1], qd, tau[1])):
        extents = ((STEPS + 1, 2), (STEPS + 1, 2), (STEPS, 2))
        pairs = zip(given, extents, strict=True)
        whole = [np.broadcast_to(array, (COUNT, *shape)).copy() for array, shape in pairs]
        expected = two_link.rollout_gradient(*whole, STEP)
        for one, other in zip(two_link.rollout_gradient(*given, STEP), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_states_of_a_rollout_are_broadcast(
    two_link: gridgen.Robot, rolled: tuple[np.ndarray, ...]
) -> None:
    q0, qd0, tau = rolled[0][:, 0], rolled[1][:, 0], rolled[2]
    steps = np.linspace(STEP, 2 * STEP, COUNT)
    for given in (
        (q0[0], qd0[0], tau, STEP),
        (q0, qd0[0], tau[0], STEP),
        (q0[:1], qd0, tau[:1], STEP),
        (q0[0], qd0[0], tau[0], steps),
        (q0[0], qd0[:1], tau[0], STEP),
    ):
        count = 1 if given[1].shape == (1, 2) else COUNT
        ends = zip(given, ((2,), (2,), (STEPS, 2), ()), strict=True)
        whole = [np.broadcast_to(array, (count, *shape)).copy() for array, shape in ends]
        found, expected = two_link.rollout(*given), two_link.rollout(*whole)
        bars = tuple(np.cos(path) for path in expected)
        ways = (
            two_link.rollout_vjp(*given, bars),
            two_link.rollout_vjp(*whole, bars),
            two_link.bind("rollout", *given)(),
        )
        for one, other, bound in zip(found, expected, ways[2], strict=True):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(bound, other)
        for one, other in zip(*ways[:2], strict=True):
            np.testing.assert_array_equal(one, other)
    for given in ((q0, qd0[:2], tau, STEP), (q0, qd0, tau[:2], STEP), (q0[0], qd0, tau, steps[:2])):
        with pytest.raises(ShapeError, match="two_link needs"):
            two_link.rollout(*given)


def test_states_of_a_rollout_may_have_several_axes(
    two_link: gridgen.Robot, rolled: tuple[np.ndarray, ...]
) -> None:
    rng = np.random.default_rng(0)
    lead, gravity = (2, 3), rng.normal(size=(3,))
    q0, qd0, bars = (rng.normal(size=shape) for shape in ((2, 1, 2), (3, 2), (2, 3, STEPS + 1, 2)))
    tau, reference = rng.normal(size=(*lead, STEPS, 2)), rng.normal(size=(STEPS, 2))
    gains = rng.normal(size=(*lead, 1, 2, 4))
    for feedback in (None, (gains, reference, reference)):
        given = {"gravity": gravity, "feedback": feedback}
        whole = [np.broadcast_to(a, (*lead, 2)).reshape(6, 2).copy() for a in (q0, qd0)]
        flat = (*whole, tau.reshape(6, STEPS, 2), STEP)
        plain = {**given, "feedback": feedback and (gains.reshape(6, 1, 2, 4), *feedback[1:])}
        rows = two_link.rollout(*flat, **plain)
        room = tuple(np.empty((*lead, STEPS + 1, 2)) for _ in rows)
        for out in (None, room):
            found = two_link.rollout(q0, qd0, tau, STEP, out=out, **given)
            for one, other in zip(found, rows, strict=True):
                np.testing.assert_array_equal(one, other.reshape(*lead, STEPS + 1, 2))
        back = two_link.rollout_vjp(q0, qd0, tau, STEP, (bars, None), **given)
        expected = two_link.rollout_vjp(*flat, (bars.reshape(6, STEPS + 1, 2), None), **plain)
        for one, other in zip(back, expected, strict=True):
            np.testing.assert_array_equal(one, other.reshape(*lead, *other.shape[1:]))
    whole = [array.reshape(*lead, 2) for array in whole]
    bound = two_link.bind("rollout", *whole, tau, STEP, store_every="last")
    np.testing.assert_array_equal(bound()[0], two_link.rollout(*whole, tau, STEP)[0][..., -1, :])
    with pytest.raises(ShapeError, match=r"q0 has axes \(2, 3\) that cannot be merged"):
        two_link.bind("rollout", q0, qd0, tau, STEP)
    with pytest.raises(ShapeError, match=r"two_link needs .* for its states"):
        two_link.rollout(q0, qd0[:2], tau, STEP)


def test_torques_of_states_that_could_be_steps_are_refused(two_link: gridgen.Robot) -> None:
    q, qd, tau = np.random.default_rng(0).normal(size=(3, 4, 2))
    with pytest.raises(ShapeError, match=r"give tau\[None\] if .* or tau\[:, None\] for one step"):
        two_link.rollout(q, qd, tau, STEP)
    shared = two_link.rollout(q, qd, tau[None], STEP)[0]
    assert shared.shape == (4, 5, 2)
    assert np.array_equal(two_link.rollout(q[:3], qd[:3], tau, STEP)[0], shared[:3])
    assert two_link.rollout(q, qd, tau[:, None], STEP)[0].shape == (4, 2, 2)
    assert two_link.rollout(q[0], qd[0], tau, STEP)[0].shape == (5, 2)


def test_arrays_that_do_not_fit_are_refused(
    two_link: gridgen.Robot, rolled: tuple[np.ndarray, ...]
) -> None:
    q, qd, tau = rolled
    for arguments, message in (
        ((q, qd[:, :3], tau, STEP), r"qd has shape \(3, 3, 2\); .* needs \(3, 5, 2\)"),
        ((q[:2], qd, tau, STEP), r"q has shape \(2, 6, 2\)"),
        ((q[:, :1], qd, tau, STEP), r"q has shape \(3, 1, 2\)"),
        (
            (q, qd, tau[0, 0], STEP),
            r"tau has shape \(2,\); two_link needs joint torques of every step",
        ),
        ((q, qd, tau, np.full(4, STEP)), r"dt has shape \(4,\)"),
    ):
        with pytest.raises(ShapeError, match=message):
            two_link.rollout_gradient(*arguments)


def test_what_is_no_argument_is_refused(
    two_link: gridgen.Robot, rolled: tuple[np.ndarray, ...]
) -> None:
    q, qd, tau = rolled
    two_link.rollout_gradient(q, qd, tau, STEP, gravity=None)
    for efforts, step, name in ((None, STEP, "tau"), (tau, None, "dt")):
        with pytest.raises(DtypeError, match=f"{name} is None; give numbers"):
            two_link.rollout_gradient(q, qd, efforts, step)
    for name, value in (("frame", "arm"), ("gravty", np.zeros(3)), ("gravty", None)):
        with pytest.raises(TypeError, match=rf"rollout_gradient\(\) got .* argument '{name}'"):
            two_link.rollout_gradient(q, qd, tau, STEP, **{name: value})
    with pytest.raises(OptionError, match="two_link has params as constants"):
        two_link.rollout_gradient(q, qd, tau, STEP, params=np.zeros((2, 10)))


def test_a_number_may_be_a_scalar_of_numpy(
    two_link: gridgen.Robot, rolled: tuple[np.ndarray, ...]
) -> None:
    q, qd, tau = rolled
    for step in (np.float32(STEP), np.int64(1)):
        alike = float(step)
        for found, expected in (
            (two_link.step(q[0, 0], qd[0, 0], tau[0, 0], dt) for dt in (step, alike)),
            (two_link.rollout(q[0, 0], qd[0, 0], tau[0], dt) for dt in (step, alike)),
            (two_link.rollout_gradient(q, qd, tau, dt) for dt in (step, alike)),
        ):
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
