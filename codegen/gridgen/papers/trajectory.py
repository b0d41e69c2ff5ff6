"""Trajectories and joint torques in files of NumPy."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.emit.writer import write_file
from gridgen.errors import DtypeError, GridGenError, ShapeError
from gridgen.model.tree import KinematicTree

_NAMES = ("q", "qd", "qdd")


@dataclass(frozen=True)
class Trajectory:
    """Samples of one or more trajectories, concatenated."""

    q: NDArray[Any]  #: joint positions      (samples, nq)  [rad or m]
    qd: NDArray[Any]  #: joint velocities     (samples, nv)  [rad/s or m/s]
    qdd: NDArray[Any]  #: joint accelerations  (samples, nv)  [rad/s^2 or m/s^2]
    lead: tuple[int, ...]  #: leading axes of the arrays in the file: (T,) or (B, T).

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.q)

    def blocks(self, size: int) -> list[slice]:
        """Return the blocks of samples; the last may be shorter."""
        return [slice(at, min(at + size, self.samples)) for at in range(0, self.samples, size)]


def read_trajectory(path: Path, tree: KinematicTree) -> Trajectory:
    """Read ``q``, ``qd`` and ``qdd``, (T, n) or (B, T, n), from a file ``.npz``.

    Raises:
        GridGenError: the file cannot be read, or an array is missing.
        ShapeError:   the shape of an array does not match the robot or the other arrays.
        DtypeError:   the arrays are not all of float32 or all of float64.
    """
    try:
        # NumPy leaves a file open that it cannot read.
        with path.open("rb") as opened, np.load(opened) as file:
            missing = [name for name in _NAMES if name not in file]
            if missing:
                raise GridGenError(
                    f"{path}: no array {', '.join(missing)}; save q, qd and qdd with numpy.savez"
                )
            arrays = {name: np.asarray(file[name]) for name in _NAMES}
    except OSError as error:
        raise GridGenError(
            f"{path}: {error.strerror or error}; give a file that numpy.savez wrote"
        ) from error
    except (ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise GridGenError(f"{path}: not a file of numpy.savez ({error})") from error
    lead = arrays["q"].shape[:-1]
    for name, width in (("q", tree.nq), ("qd", tree.nv), ("qdd", tree.nv)):
        array = arrays[name]
        if array.dtype not in (np.float32, np.float64) or array.dtype != arrays["q"].dtype:
            raise DtypeError(
                f"{path}: {name} has dtype {array.dtype}; give q, qd and qdd all as float32 or all "
                "as float64"
            )
        if array.ndim not in (2, 3) or array.shape != (*lead, width):
            raise ShapeError(
                f"{path}: {name} has shape {array.shape}; {tree.name} requires (T, {width}) or "
                f"(B, T, {width}), with the same T as q"
            )
    q, qd, qdd = (
        np.ascontiguousarray(arrays[name]).reshape(-1, arrays[name].shape[-1]) for name in _NAMES
    )
    return Trajectory(q, qd, qdd, lead)


def write_torques(path: Path, tau: NDArray[Any], force: bool = False) -> None:
    """Write joint torques as ``tau`` to a file ``.npz``, atomically.

    Args:
        path:  path of the file.
        tau:   joint torques.
        force: also replace a file that this function did not write.

    Raises:
        GridGenError: the file cannot be written, or another file exists there.
    """
    write_file(path, lambda file: np.savez(file, tau=tau), force)
