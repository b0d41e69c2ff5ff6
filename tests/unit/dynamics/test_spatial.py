"""Rotations, placements and inertias against plain matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridgen.model.pose import euler_zxz, is_sparse
from gridgen.symbolic.scalars import CountingScalars, FloatScalars
from gridgen.symbolic.spatial import (
    DenseRotation,
    Placement,
    PlaneRotation,
    apply,
    cross,
    fixed_rotation,
    full,
    matmul,
    skew_times,
    symmetric,
    times_skew,
    transpose,
)

RNG = np.random.default_rng(17)
VECTOR = tuple(RNG.normal(size=3))
MATRIX = tuple(map(tuple, RNG.normal(size=(3, 3))))


def skew(r: object) -> np.ndarray:
    x, y, z = r
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def about(axis: int, angle: float) -> np.ndarray:
    i, j = (axis + 1) % 3, (axis + 2) % 3
    E = np.eye(3)
    E[i, i] = E[j, j] = math.cos(angle)
    E[j, i], E[i, j] = math.sin(angle), -math.sin(angle)
    return E


def plane(axis: int, angle: float) -> PlaneRotation:
    return PlaneRotation(axis, math.sin(angle), math.cos(angle))


def test_products_are_those_of_matrices() -> None:
    A, r = np.array(MATRIX), np.array(VECTOR)
    B = tuple(map(tuple, RNG.normal(size=(3, 3))))
    np.testing.assert_allclose(apply(MATRIX, VECTOR), A @ r, rtol=1e-14)
    np.testing.assert_allclose(matmul(MATRIX, B), A @ np.array(B), rtol=1e-13)
    np.testing.assert_array_equal(transpose(MATRIX), A.T)
    np.testing.assert_allclose(cross(VECTOR, MATRIX[0]), np.cross(r, A[0]), rtol=1e-14)
    np.testing.assert_allclose(skew_times(VECTOR, MATRIX), skew(r) @ A, rtol=1e-13)
    np.testing.assert_allclose(times_skew(MATRIX, VECTOR), A @ skew(r), rtol=1e-13)
    S = A + A.T
    np.testing.assert_array_equal(full(symmetric(S)), S)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_plane_rotation_is_its_matrix(axis: int) -> None:
    rotation, E = plane(axis, 0.7), about(axis, 0.7)
    dense = DenseRotation(tuple(map(tuple, E)))
    A = np.array(MATRIX)
    for factor in (rotation, dense):
        np.testing.assert_allclose(factor.turn(VECTOR), E @ VECTOR, rtol=1e-14)
        np.testing.assert_allclose(factor.turn_back(VECTOR), E.T @ VECTOR, rtol=1e-14)
        np.testing.assert_allclose(factor.turn_matrix(MATRIX), E @ A @ E.T, atol=1e-14)


def placement() -> tuple[Placement, np.ndarray]:
    factors = (plane(2, 0.4), plane(0, -1.1), plane(2, 2.0))
    E = about(2, 0.4) @ about(0, -1.1) @ about(2, 2.0)
    dense = (DenseRotation(tuple(map(tuple, E))),)
    return Placement(dense, factors, (0.3, -0.2, 0.5)), E


def test_factors_apply_from_the_left() -> None:
    placed, E = placement()
    factored = Placement(placed.matrix_factors, placed.vector_factors, placed.r)
    for each in (placed, factored):
        np.testing.assert_allclose(each.to_parent(VECTOR), E @ VECTOR, rtol=1e-14)
        np.testing.assert_allclose(each.to_body(VECTOR), E.T @ VECTOR, rtol=1e-14)
        np.testing.assert_allclose(
            each.matrix_to_parent(MATRIX), E @ np.array(MATRIX) @ E.T, atol=1e-14
        )


def test_power_does_not_depend_on_the_frame() -> None:
    """Forces go to the parent by the transpose of how motions go to the body."""
    placed, _ = placement()
    f, n, v, w = (tuple(RNG.normal(size=3)) for _ in range(4))
    f_parent, n_parent = placed.force_to_parent(f, n)
    v_body, w_body = placed.motion_to_body(v, w)
    at_parent = np.dot(f_parent, v) + np.dot(n_parent, w)
    assert at_parent == pytest.approx(np.dot(f, v_body) + np.dot(n, w_body), rel=1e-13)


# -- constant rotations ---------------------------------------------------------------------------

ROTATIONS = {
    "general": about(2, 0.4) @ about(0, 1.1) @ about(2, -2.0),
    "no first turn": about(0, 1.1) @ about(2, -2.0),
    "no last turn": about(2, 0.4) @ about(0, 1.1),
    "quarter turns": np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    "tilt 1e-3": about(2, 0.4) @ about(0, 1e-3) @ about(2, 1.0),
    "tilt 1e-6": about(2, 0.4) @ about(0, 1e-6) @ about(2, 1.0),
    "tilt 1e-9": about(2, 0.4) @ about(0, 1e-9) @ about(2, 1.0),
    "tilt 1e-14": about(2, 0.4) @ about(1, 1e-14) @ about(2, 1.0),
    "almost upside down": about(2, 0.4) @ about(1, math.pi - 1e-7) @ about(2, 1.0),
    # As read from a file: entries of rounding size have become zeros, one tilt has not.
    "lopsided": np.array(
        [[-3.67e-06, 1.0, -4.02e-15], [-1.0, -3.67e-06, 0.0], [0.0, 4.02e-15, 1.0]]
    ),
}


@pytest.mark.parametrize("name", ROTATIONS)
def test_three_turns_make_any_rotation(name: str) -> None:
    E = ROTATIONS[name]
    angles = euler_zxz(E.tolist())
    for sine, cosine in angles:
        assert math.hypot(sine, cosine) == pytest.approx(1.0, abs=1e-10)
    turns = [PlaneRotation(axis, *angle) for axis, angle in zip((2, 0, 2), angles, strict=True)]
    composed = np.array(
        [turns[0].turn(turns[1].turn(turns[2].turn(tuple(e)))) for e in np.eye(3)]
    ).T
    np.testing.assert_allclose(composed, E, atol=1e-14 if name != "lopsided" else 1e-10)


def test_turns_by_exact_angles_stay_exact() -> None:
    assert euler_zxz(about(2, 0.4).tolist())[1:] == ((0.0, 1.0), (0.0, 1.0))
    _, _, last = euler_zxz((about(2, 0.4) @ about(0, 1.1)).tolist())
    assert last == (0.0, 1.0)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("angle", [0.3, -2.5, math.pi / 2])
def test_a_constant_turn_about_an_axis_is_planar(axis: int, angle: float) -> None:
    E = about(axis, angle)
    (factor,) = fixed_rotation(E.tolist(), FloatScalars())
    assert isinstance(factor, PlaneRotation)
    np.testing.assert_array_equal(factor.turn(VECTOR), plane(axis, angle).turn(VECTOR))
    assert is_sparse(E.tolist())


def test_no_turn_is_no_factor() -> None:
    assert fixed_rotation(np.eye(3).tolist(), FloatScalars()) == ()
    # Where nothing of the robot is known, it might be any rotation.
    (factor,) = fixed_rotation(np.eye(3).tolist(), CountingScalars())
    assert isinstance(factor, DenseRotation)


def test_a_turn_by_half_about_an_axis_is_no_identity() -> None:
    (factor,) = fixed_rotation(
        [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]], FloatScalars()
    )
    np.testing.assert_array_equal(factor.turn((1.0, 2.0, 3.0)), (1.0, -2.0, -3.0))


def test_a_tilt_too_small_for_its_cosine_is_kept() -> None:
    E = about(2, 0.3) @ about(0, 1e-9)
    assert E[2][2] == 1.0
    (factor,) = fixed_rotation(E.tolist(), FloatScalars())
    np.testing.assert_array_equal(factor.turn((0.0, 0.0, 1.0)), E[:, 2])
