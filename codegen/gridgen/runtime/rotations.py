"""Unit quaternions and rigid displacements, over any number of states at once.

A quaternion is (x, y, z, w) in the last axis. NumPy, in float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# Below this angle [rad] the closed forms lose digits to cancellation; five terms of a series serve.
_SMALL_ANGLE = 0.25


def multiply(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the products of quaternions (B, 4)."""
    (u, s), (v, t) = (a[:, :3], a[:, 3:]), (b[:, :3], b[:, 3:])
    vector = s * v + t * u + np.cross(u, v)
    return np.concatenate((vector, s * t - np.sum(u * v, axis=1, keepdims=True)), axis=1)


def rotate(turn: FloatArray, a: FloatArray) -> FloatArray:
    """Return vectors (B, 3) turned by unit quaternions."""
    across = 2.0 * np.cross(turn[:, :3], a)
    turned: FloatArray = a + turn[:, 3:] * across + np.cross(turn[:, :3], across)
    return turned


def exponential(w: FloatArray) -> FloatArray:
    """Return the unit quaternions of rotation vectors (B, 3)."""
    half = 0.5 * np.linalg.norm(w, axis=1, keepdims=True)
    return np.concatenate((0.5 * np.sinc(half / np.pi) * w, np.cos(half)), axis=1)


def logarithm(turn: FloatArray) -> FloatArray:
    """Return the rotation vectors, of at most pi, of unit quaternions (B, 4)."""
    turn = np.where(turn[:, 3:] < 0.0, -turn, turn)
    sine = np.linalg.norm(turn[:, :3], axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, turn[:, 3:])
    # Where the sine vanishes, angle / sine is 2.
    return np.where(sine > 0.0, angle / np.where(sine > 0.0, sine, 1.0), 2.0) * turn[:, :3]


def translation(w: FloatArray, v: FloatArray) -> FloatArray:
    """Return the displacement of a body that moves with the constant twist (v, w) of its own."""
    angle = np.linalg.norm(w, axis=1, keepdims=True)
    b = 0.5 * np.sinc(0.5 * angle / np.pi) ** 2  # (1 - cos) / angle^2
    large = np.where(angle > _SMALL_ANGLE, angle, 1.0)
    c = np.where(
        angle > _SMALL_ANGLE,
        (large - np.sin(large)) / large**3,
        _polynomial(angle**2, (1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800)),
    )
    turned = np.cross(w, v)
    displacement: FloatArray = v + b * turned + c * np.cross(w, turned)
    return displacement


def twist(w: FloatArray, p: FloatArray) -> FloatArray:
    """Return the linear velocity v with ``translation(w, v) = p``."""
    angle = np.linalg.norm(w, axis=1, keepdims=True)
    half = 0.5 * np.where(angle > _SMALL_ANGLE, angle, 1.0)
    c = np.where(
        angle > _SMALL_ANGLE,
        (1.0 - half * np.cos(half) / np.sin(half)) / (4.0 * half**2),
        _polynomial(angle**2, (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160)),
    )
    turned = np.cross(w, p)
    velocity: FloatArray = p - 0.5 * turned + c * np.cross(w, turned)
    return velocity


def _polynomial(x: FloatArray, coefficients: tuple[float, ...]) -> FloatArray:
    """Return the sum of coefficients times powers of ``x``, the constant first."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total
