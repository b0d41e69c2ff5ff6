"""Log-Cholesky parameters of inertias: Pinocchio's numbers, their derivatives, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio
import pytest

import gridgen
from gridgen.errors import DtypeError, ParameterError, ShapeError
from gridgen.runtime.parameters import impossible
from helpers.robots import OWN

RNG = np.random.default_rng(5)
THETA = 0.5 * RNG.normal(size=(2, 3, 10))


def test_numbers_and_derivatives_are_pinocchios() -> None:
    rows = gridgen.inertia_from_log_cholesky(THETA)
    gradient = gridgen.inertia_from_log_cholesky_gradient(THETA)
    for place in np.ndindex(THETA.shape[:-1]):
        oracle = pinocchio.LogCholeskyParameters(THETA[place])
        np.testing.assert_allclose(rows[place], oracle.toDynamicParameters(), rtol=1e-13)
        expected = oracle.calculateJacobian()
        np.testing.assert_allclose(gradient[place], expected, rtol=1e-12, atol=1e-14)


def test_derivatives_are_those_of_complex_steps() -> None:
    """Which Pinocchio has no part in."""
    gradient = gridgen.inertia_from_log_cholesky_gradient(THETA)
    for i, step in enumerate(1e-30j * np.eye(10)):
        slope = gridgen.inertia_from_log_cholesky(THETA + step).imag / 1e-30
        np.testing.assert_allclose(gradient[..., i], slope, rtol=1e-13, atol=1e-15)


def test_no_numbers_leave_what_bodies_can_have() -> None:
    theta = RNG.normal(size=(20_000, 10)) * RNG.choice([0.1, 1.0, 2.0], (20_000, 1))
    rows = gridgen.inertia_from_log_cholesky(theta)
    assert not impossible(rows, np.finfo(np.float64).eps).any()
    single = gridgen.inertia_from_log_cholesky(theta.astype(np.float32))
    assert single.dtype == np.float32
    assert not impossible(single.astype(np.float64), float(np.finfo(np.float32).eps)).any()


@pytest.mark.parametrize("name", ["arm6", "quadruped"])
def test_the_numbers_of_files_and_back(name: str) -> None:
    robot = gridgen.load(OWN / f"{name}.urdf", parameters="all")
    rows = robot.parameters()
    theta = gridgen.log_cholesky(rows)
    np.testing.assert_allclose(gridgen.inertia_from_log_cholesky(theta), rows, rtol=1e-12)
    np.testing.assert_allclose(
        gridgen.log_cholesky(gridgen.inertia_from_log_cholesky(THETA)), THETA, rtol=0, atol=1e-12
    )


def test_frameworks_differentiate_them() -> None:
    gradient = gridgen.inertia_from_log_cholesky_gradient(THETA)
    torch = pytest.importorskip("torch")
    call = torch.func.vmap(torch.func.vmap(torch.func.jacrev(gridgen.inertia_from_log_cholesky)))
    np.testing.assert_allclose(call(torch.tensor(THETA)), gradient, rtol=1e-12, atol=1e-14)
    assert isinstance(gridgen.log_cholesky(torch.ones(2, 10)[:0]), torch.Tensor)
    jax: Any = pytest.importorskip("jax")
    each = jax.vmap(jax.vmap(jax.jacfwd(gridgen.inertia_from_log_cholesky)))
    found = jax.jit(each)(THETA.astype(np.float32))
    np.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-5)


def test_what_has_none_is_refused() -> None:
    rows = np.stack([gridgen.inertia(1.0, inertia=np.diag([1.0, 1.0, i])) for i in (1.5, 2.0)])
    with pytest.raises(ParameterError, match=r"params\[1\] is \[1.0, .*extent in every direction"):
        gridgen.log_cholesky(rows)
    with pytest.raises(ParameterError, match=r"params is \[0.0"):
        gridgen.log_cholesky(np.zeros(10))
    for call in (gridgen.inertia_from_log_cholesky, gridgen.log_cholesky):
        with pytest.raises(ShapeError, match=r"has shape \(3, 9\); give \(\.\.\., 10\)"):
            call(np.ones((3, 9)))
        with pytest.raises(DtypeError):
            call("heavy")
