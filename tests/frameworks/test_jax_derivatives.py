"""Derivatives in JAX, of every function by every argument, against differences."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from jax.test_util import check_grads

import gridgen
from frameworks.jax_for_tests import SUBJECTS, case
from gridgen.errors import ModelError
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.robot import open_module
from helpers.robots import INTEGRATORS, TESTED_APART
from numerics.robots import load_robot, urdf_path

#: Of a mass of a gram, a ten-thousandth more is much.
STEP = 1e-7
#: Matrices of derivatives have many more entries than what they are of, and take long to compile.
WORDS = (
    "gradient",
    "second_order",
    "hessian",
    "constrained",
    "impulse",
    "derivative",
    "momentum_regressor",
)
LARGE = [name for name in GENERATED if any(word in name for word in WORDS)]
#: Inertias of the last link that are finite: it moves in 2 directions on the gripper, 3 on screws.
FINITE = {"gripper": (), "screws": ("point_inertia",)}
CASES = [
    pytest.param(subject, name, marks=pytest.mark.exhaustive if is_long else ())
    for subject in SUBJECTS
    for name in GENERATED
    if name not in ("rollout", *TESTED_APART)
    if not FUNCTIONS[name].of_frame
    or not FUNCTIONS[name].solves
    or name in FINITE.get(subject, GENERATED)
    for is_long in [name in LARGE or (subject == "screws" and "inverse_dynamics" != name)]
]


@pytest.mark.parametrize(("subject", "function"), CASES)
def test_every_function_by_every_argument(x64: None, subject: str, function: str) -> None:
    chosen = case(SUBJECTS[subject], function)
    check_grads(jax.jit(chosen.call), chosen.arguments, 1, ["rev"], rtol=1e-4, atol=1e-4, eps=STEP)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_every_integrator(x64: None, integrator: str) -> None:
    chosen = case(SUBJECTS["arm6"], "step", integrator=integrator)
    check_grads(jax.jit(chosen.call), chosen.arguments, 1, ["rev"], rtol=1e-4, atol=1e-4, eps=STEP)


def test_a_gradient_is_one_product(x64: None) -> None:
    """Of a batch, by one argument, through what all states share: nothing else is computed."""
    robot = SUBJECTS["arm6"].robot
    chosen = case(SUBJECTS["arm6"], "inverse_dynamics")
    q, qd, qdd, gravity, *_ = chosen.arguments

    def loss(gravity: jax.Array) -> jax.Array:
        return (robot.inverse_dynamics(q, qd, qdd, gravity=gravity) ** 2).sum()

    text = str(jax.make_jaxpr(jax.grad(loss))(gravity[0]))
    assert text.count("gridgen[") == 2
    assert jax.grad(loss)(gravity[0]).shape == (3,)


def test_jacobians_backward(x64: None) -> None:
    robot = SUBJECTS["arm6"].robot
    q, qd, tau, *_ = case(SUBJECTS["arm6"], "forward_dynamics").arguments
    jacobians = jax.vmap(jax.jacrev(robot.forward_dynamics, (0, 1, 2)))(q, qd, tau)
    for one, other in zip(jacobians, robot.forward_dynamics_gradient(q, qd, tau), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics"])
@pytest.mark.parametrize(
    "subject",
    [
        "arm6",
        *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("quadruped", "gripper")),
    ],
)
def test_second_derivatives(x64: None, subject: str, function: str) -> None:
    """Forward and backward over either."""
    chosen = case(SUBJECTS[subject], function, states=2)
    call, state = getattr(SUBJECTS[subject].robot, function), chosen.arguments[:3]
    check_grads(call, state, 2, ["fwd", "rev"], rtol=1e-4, atol=1e-4, eps=STEP)


def test_hessians_in_every_order(x64: None) -> None:
    robot = SUBJECTS["arm6"].robot
    q, qd, qdd = (x[0] for x in case(SUBJECTS["arm6"], "inverse_dynamics").arguments[:3])
    expected, *_ = robot.inverse_dynamics_second_order(q, qd, qdd)
    for outer in (jax.jacfwd, jax.jacrev):
        for inner in (jax.jacfwd, jax.jacrev):
            found = jax.jit(outer(inner(robot.inverse_dynamics)))(q, qd, qdd)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_there_is_no_third_derivative() -> None:
    robot = SUBJECTS["arm6"].robot
    q = jax.numpy.zeros(6)
    with pytest.raises(ModelError, match="inverse_dynamics end with the second"):
        jax.jacrev(jax.hessian(robot.inverse_dynamics))(q, q, q)


def test_a_module_differentiates_by_what_it_was_written_with(tmp_path: Path) -> None:
    """Its products are by all arguments, and serve for some of them."""
    options = gridgen.GenerateOptions(output=tmp_path, functions=("inverse_dynamics",), vjp=True)
    folder = gridgen.generate(urdf_path("two_link"), options).folder
    module, loaded = open_module(str(folder / "__init__.py")), load_robot(urdf_path("two_link"))
    q = jax.numpy.asarray([0.1, 0.2])

    def slope(robot: gridgen.Robot) -> jax.Array:
        return jax.grad(lambda x: robot.inverse_dynamics(q, x, q).sum())(q)

    np.testing.assert_array_equal(slope(module), slope(loaded))
    with pytest.raises(ModelError, match="--jvp"):
        jax.jvp(lambda x: module.inverse_dynamics(x, q, q), (q,), (q,))


@pytest.mark.parametrize("links", [None, "hand", ["hand"], ("hand", "forearm"), ["hand"] * 2])
@pytest.mark.parametrize("function", ["forward_kinematics", "jacobian"])
def test_links_in_every_form(x64: None, function: str, links: object) -> None:
    """Under jvp, vjp and vmap, tangents have the axes of the result."""
    subject = SUBJECTS["gripper"]
    names = dict(zip(("hand", "forearm"), subject.robot.frame_names[-2:], strict=True))
    if links is None and function == "jacobian":
        links = "hand"
    if links is not None:
        links = names[links] if isinstance(links, str) else [names[one] for one in links]
    q, v = case(subject, "difference").arguments[:2]
    call = lambda q: getattr(subject.robot, function)(q, *([links] if links else []))  # noqa: E731
    result, tangent = jax.jvp(call, (q,), (v,))
    assert result.shape == tangent.shape == call(np.asarray(q)).shape
    pairs = (call(np.asarray(q + sign * 1e-6 * v)) for sign in (1, -1))
    np.testing.assert_allclose(tangent, np.subtract(*pairs) / 2e-6, atol=1e-8)
    weights = jax.numpy.cos(jax.numpy.arange(result.size)).reshape(result.shape)
    (bar,) = jax.vjp(call, q)[1](weights)
    np.testing.assert_allclose((bar * v).sum(), (weights * tangent).sum(), rtol=1e-9)
    each = jax.vmap(lambda q, v: jax.jvp(call, (q,), (v,)))(q, v)
    np.testing.assert_allclose(each[1], tangent, rtol=1e-12, atol=1e-12)


def test_gradients_through_steps(x64: None) -> None:
    """The chain of steps against the products along the same rollout."""
    robot = SUBJECTS["quadruped"].robot
    q, qd, tau, *_ = case(SUBJECTS["quadruped"], "step").arguments
    efforts = jax.numpy.stack([tau, 2.0 * tau, -tau])

    def end(q: jax.Array, qd: jax.Array, efforts: jax.Array) -> jax.Array:
        def step(state: tuple[jax.Array, jax.Array], tau: jax.Array) -> object:
            return tuple(robot.step(*state, tau, 1e-3)), None

        (q, qd), _ = jax.lax.scan(step, (q, qd), efforts)
        return (q**2).sum() + (qd**2).sum()

    found = jax.jit(jax.grad(end, (0, 1, 2)))(q, qd, efforts)
    arrays = [np.asarray(x) for x in (q, qd, np.moveaxis(efforts, 0, 1))]
    q_path, qd_path = robot.rollout(*arrays, 1e-3)
    bars = np.zeros_like(q_path), np.zeros_like(qd_path)
    bars[0][:, -1], bars[1][:, -1] = 2 * q_path[:, -1], 2 * qd_path[:, -1]
    q_bar, qd_bar, tau_bar = robot.rollout_vjp(*arrays, 1e-3, bars)
    for one, other in zip(found, (q_bar, qd_bar, np.moveaxis(tau_bar, 1, 0)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
