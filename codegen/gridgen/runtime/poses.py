"""Validation of poses that are inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import ParameterError
from gridgen.functions.types import Array
from gridgen.runtime.arrays.libraries import on_gpu

#: Inputs of any function that are homogeneous transforms.
POSES = ("offset", "offsets")
#: Largest error of a product of rows of a rotation, and of the last row; more is a mistake.
TOLERANCE = 1e-3


def no_poses(poses: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which transforms (..., 4, 4) are none; NaN and infinity are accepted."""
    if poses.shape[-2:] != (4, 4):  # an error of its own
        return np.zeros((), bool)
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = (
        [poses[..., i, j] for j in range(3)] for i in range(3)
    )
    with np.errstate(all="ignore"):
        off = np.abs(poses[..., 3, :] - (0.0, 0.0, 0.0, 1.0)).max(axis=-1)
        # The third row of a rotation is the cross product of two orthonormal ones.
        for error in (
            *(ay * bz - az * by - cx, az * bx - ax * bz - cy, ax * by - ay * bx - cz),
            *(ax * ax + ay * ay + az * az - 1, bx * bx + by * by + bz * bz - 1),
            ax * bx + ay * by + az * bz,
        ):
            off = np.maximum(off, np.abs(error))
        found: NDArray[np.bool_] = (off > TOLERANCE) & np.isfinite(off)
    return found


def check_poses(name: str, poses: Array) -> None:
    """Raise unless every pose has a rotation and the last row 0 0 0 1.

    Arrays on a GPU are not validated: that would synchronize the device.

    Raises:
        ParameterError: a pose is none; the message has its index.
    """
    if on_gpu(poses) or not (wrong := no_poses(poses)).any():
        return
    index = [int(place) for place in np.argwhere(wrong)[0]]
    raise ParameterError(
        f"{name}{index or ''} is no pose: give a homogeneous transform, a rotation matrix and a "
        "translation above the row 0 0 0 1"
    )
