"""Rollouts, functions along trajectories, and several results in one, under JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.test_util import check_grads

from frameworks.jax_for_tests import SUBJECTS, case
from gridgen.errors import OptionError, ShapeError

STEPS = 6


def rollout_of(subject: str) -> tuple[Any, tuple[np.ndarray, ...]]:
    """Return a robot, a beginning and efforts."""
    chosen = case(SUBJECTS[subject], "step")
    q, qd, tau = map(np.asarray, chosen.arguments[:3])
    efforts = np.random.default_rng(5).normal(size=(len(q), STEPS, tau.shape[1]))
    return SUBJECTS[subject].robot, (q, qd, efforts)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"store_every": "last"},
        {"store_every": 3, "return_efforts": True},
        {"store_every": 2, "gravity": np.array([0.0, 1.0, -9.0])},
        {"substeps": 3, "integrator": "rk4"},
    ],
    ids=str,
)
def test_a_rollout_has_the_bits_of_a_plain_one(x64: None, options: dict[str, Any]) -> None:
    robot, (q, qd, tau) = rollout_of("quadruped")
    one = (q[:1], qd[:1], tau[:1])
    for given in ((q, qd, tau), (q, qd, tau[0]), (q, qd, tau[:, :1]), (q[0], qd[0], tau), one):
        last = {**options, "store_every": 1} if given[2].shape[-2] == 1 else options
        plain = robot.rollout(*given, 1e-2, **last)
        found = jax.jit(lambda *x, last=last: robot.rollout(*x, 1e-2, **last))(*given)
        for one, other in zip(found, plain, strict=True):
            assert one.shape == other.shape
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("axes", ["shared", "steps", "states"])
def test_a_controller_that_is_followed(x64: None, axes: str) -> None:
    robot, (q, qd, tau) = rollout_of("quadruped")
    gains = 0.1 * np.random.default_rng(1).normal(size=(robot.nv, 2 * robot.nv))
    feedback: tuple[np.ndarray, ...] = (gains, q[0], qd[0])
    if axes != "shared":
        lead = (STEPS,) if axes == "steps" else (len(q), STEPS)
        feedback = tuple(np.broadcast_to(x, (*lead, *x.shape)).copy() for x in feedback)
    options = {"feedback": feedback, "effort_limits": True, "return_efforts": True}
    plain = robot.rollout(q, qd, 50 * tau, 1e-3, **options)
    found = jax.jit(lambda *x: robot.rollout(*x, 1e-3, **options))(q, qd, 50 * tau)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_one_state_and_vmap(x64: None) -> None:
    robot, (q, qd, tau) = rollout_of("arm6")
    plain = robot.rollout(q, qd, tau, 1e-2)
    alone = jax.jit(lambda *x: robot.rollout(*x, 1e-2))(q[0], qd[0], tau[0])
    mapped = jax.vmap(lambda *x: robot.rollout(*x, 1e-2))(q, qd, tau)
    for one, every, other in zip(alone, mapped, plain, strict=True):
        np.testing.assert_array_equal(one, other[0])
        np.testing.assert_array_equal(every, other)


def test_gradients_are_those_of_rollout_vjp(x64: None) -> None:
    robot, (q, qd, tau) = rollout_of("quadruped")
    bars = tuple(
        np.random.default_rng(2).normal(size=path.shape) for path in robot.rollout(q, qd, tau, 1e-3)
    )

    def number(q: jax.Array, qd: jax.Array, tau: jax.Array) -> jax.Array:
        paths = robot.rollout(q, qd, tau, 1e-3)
        return sum((bar * path).sum() for bar, path in zip(bars, paths, strict=True))

    found = jax.jit(jax.grad(number, (0, 1, 2)))(q, qd, tau)
    for one, other in zip(found, robot.rollout_vjp(q, qd, tau, 1e-3, bars), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_gradients_by_what_a_rollout_is_given(x64: None) -> None:
    robot, (q, qd, tau) = rollout_of("arm6")
    gains = np.random.default_rng(1).normal(size=(robot.nv, 2 * robot.nv))

    def end(dt: jax.Array, gravity: jax.Array, gains: jax.Array) -> Any:
        feedback = gains, q[0], qd[0]
        return robot.rollout(
            q, qd, tau, dt, gravity=gravity, feedback=feedback, store_every="last", substeps=2
        )

    arguments = (1e-3, np.array([0.0, 1.0, -9.0]), 0.01 * gains)
    check_grads(jax.jit(end), arguments, 1, ["fwd", "rev"], rtol=1e-4, atol=1e-4, eps=1e-7)


def test_what_is_wrong_is_named() -> None:
    robot = SUBJECTS["arm6"].robot
    q = jax.numpy.zeros(6)
    for error, tau, options, words in (
        (ShapeError, q, {}, "joint torques of every step"),
        (ShapeError, jax.numpy.zeros((3, 5)), {}, "tau has shape"),
        (OptionError, jax.numpy.zeros((3, 6)), {"store_every": 2}, "divides 3"),
        (OptionError, jax.numpy.zeros((3, 6)), {"feedback": (q, q, None)}, "lacks qd_ref"),
    ):
        with pytest.raises(error, match=words):
            jax.jit(lambda q, tau, o=options: robot.rollout(q, q, tau, 1e-2, **o))(q, tau)


def test_linearizations_along_a_trajectory(x64: None) -> None:
    robot, (q, qd, tau) = rollout_of("arm6")
    path = robot.rollout(q, qd, tau, 1e-2)
    for substeps in (1, 2):
        plain = robot.rollout_gradient(*path, tau, 1e-2, substeps=substeps)
        found = jax.jit(lambda *x, n=substeps: robot.rollout_gradient(*x, 1e-2, substeps=n))(
            *path, tau
        )
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_several_results_in_one(x64: None) -> None:
    robot = SUBJECTS["arm6"].robot
    q, qd, *_ = case(SUBJECTS["arm6"], "bias_forces").arguments
    left, right = robot.frame_names[-2:]

    def several(q: jax.Array, qd: jax.Array) -> Any:
        return robot.compute(("mass_matrix", "bias_forces", f"jacobian:{left}"), q, qd)

    found = jax.jit(several)(q, qd)
    for one, other in zip(found, several(np.asarray(q), np.asarray(qd)), strict=True):
        np.testing.assert_array_equal(one, other)
    check_grads(jax.jit(several), (q, qd), 1, ["fwd", "rev"], rtol=1e-5, atol=1e-5)
    for links in (
        lambda q: robot.jacobian(q, [left, right]),
        lambda q: robot.forward_kinematics(q, [left, right]),
        lambda q: robot.forward_kinematics(q, right),
    ):
        np.testing.assert_array_equal(jax.jit(links)(q), links(np.asarray(q)))
        check_grads(jax.jit(links), (q,), 1, ["fwd", "rev"], rtol=1e-5, atol=1e-5)
