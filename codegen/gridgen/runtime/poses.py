"""Validation of poses that are inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.errors import ParameterError
from gridgen.functions.types import Array
from gridgen.runtime.arrays.libraries import on_gpu

#: Inputs that are homogeneous transforms.
POSES = ("targets", "offset", "offsets")
#: Largest error of an entry of R R^T, of the determinant and of the last row; more is a mistake.
TOLERANCE = 1e-3


def no_poses(poses: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which transforms (..., 4, 4) are none; NaN and infinity are accepted."""
    if poses.shape[-2:] != (4, 4):  # an error of its own
        return np.zeros((), bool)
    a, b, c = (poses[..., i, :3] for i in range(3))
    with np.errstate(all="ignore"):
        off = np.abs(poses[..., 3, :] - (0.0, 0.0, 0.0, 1.0)).max(axis=-1)
        for x, y, product in ((a, a, 1), (b, b, 1), (c, c, 1), (a, b, 0), (b, c, 0), (c, a, 0)):
            off = np.maximum(off, np.abs(np.einsum("...i,...i", x, y) - product))
        off = np.maximum(off, np.abs(np.einsum("...i,...i", np.cross(a, b), c) - 1))
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
