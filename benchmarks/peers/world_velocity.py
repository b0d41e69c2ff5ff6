"""The conventions of MuJoCo and frax: a free base's linear velocity is that of the world's axes.

Where v is gridgen's velocity, theirs is T v with T = diag(R, 1); efforts transform with T as well,
and accelerations gain the term of a turning base. Quaternions begin with w.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cases import Case, States


def converted(case: Case, states: States, order: Sequence[int]) -> dict[str, np.ndarray]:
    """Return q, qd, qdd and tau in their conventions.

    Args:
        case:   the robot.
        states: in gridgen's conventions.
        order:  of their actuated joints, each one's place among gridgen's.
    """
    q, qd, qdd, tau = (states[name] for name in ("q", "qd", "qdd", "tau"))
    base = 6 if case.floating_base else 0
    places = [*range(base), *(base + place for place in order)]
    if not base:
        return {
            "q": q[:, places],
            "qd": qd[:, places],
            "qdd": qdd[:, places],
            "tau": tau[:, places],
        }
    R = rotations(q)
    turned = qdd.copy()
    turned[:, :3] += np.cross(qd[:, 3:6], qd[:, :3])
    joints = q[:, 7:][:, list(order)]
    return {
        "q": np.concatenate([q[:, :3], q[:, [6, 3, 4, 5]], joints], axis=1),
        "qd": _turn(R, qd)[:, places],
        "qdd": _turn(R, turned)[:, places],
        "tau": _turn(R, tau)[:, places],
    }


def restored(
    case: Case, states: States, order: Sequence[int], function: str, result: np.ndarray
) -> np.ndarray:
    """Return one of their results in gridgen's conventions."""
    base = 6 if case.floating_base else 0
    places = np.argsort([*range(base), *(base + place for place in order)])
    matrix = result.ndim == 3
    result = result[:, places][:, :, places] if matrix else result[:, places]
    if not base:
        return result
    back = rotations(states["q"]).transpose(0, 2, 1)
    result = _turn(back, result)
    if matrix:
        return _turn(back, result.transpose(0, 2, 1)).transpose(0, 2, 1)
    if function.startswith("forward_dynamics"):
        result[:, :3] -= np.cross(states["qd"][:, 3:6], states["qd"][:, :3])
    return result


def is_another(function: str, case: Case) -> bool:
    """Tell whether a function of theirs is another than gridgen's of the same name.

    Bias forces are those of no acceleration; a turning base has none in one set of axes, and some
    in the other.
    """
    return function == "bias_forces" and case.floating_base


def rotations(q: np.ndarray) -> np.ndarray:
    """Return the base's rotation matrices."""
    x, y, z, w = q[:, 3:7].T
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.array(rows).transpose(2, 0, 1)


def _turn(R: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    turned = vectors.copy()
    turned[:, :3] = np.einsum("bij,bj...->bi...", R, vectors[:, :3])
    return turned
