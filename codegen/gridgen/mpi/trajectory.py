"""Trajectories and efforts in NumPy's files."""

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
    """Samples of one trajectory, or of several, one after the other.

    Attributes:
        q:    joint positions      (samples, nq)  [rad or m]
        qd:   joint velocities     (samples, nv)  [rad/s or m/s]
        qdd:  joint accelerations  (samples, nv)  [rad/s^2 or m/s^2]
        lead: the axes that the file has for the samples: (T,) or (B, T).
    """

    q: NDArray[Any]
    qd: NDArray[Any]
    qdd: NDArray[Any]
    lead: tuple[int, ...]

    @property
    def samples(self) -> int:
        """How many there are."""
        return len(self.q)

    def blocks(self, size: int) -> list[slice]:
        """Return the samples in blocks; the last may be shorter."""
        return [slice(at, min(at + size, self.samples)) for at in range(0, self.samples, size)]


def read_trajectory(path: Path, tree: KinematicTree) -> Trajectory:
    """Return what a file ``.npz`` with ``q``, ``qd`` and ``qdd`` holds, (T, n) or (B, T, n).

    Raises:
        GridGenError: it cannot be read, or lacks an array.
        ShapeError:   an array does not fit the robot, or the others.
        DtypeError:   they are not all of float32 or all of float64.
    """
    try:
        # NumPy leaves a file open that it cannot read.
        with path.open("rb") as opened, np.load(opened) as file:
            missing = [name for name in _NAMES if name not in file]
            if missing:
                raise GridGenError(
                    f"{path}: no array {', '.join(missing)}; save q, qd and qdd by numpy.savez"
                )
            arrays = {name: np.asarray(file[name]) for name in _NAMES}
    except OSError as error:
        raise GridGenError(
            f"{path}: {error.strerror or error}; give a file of numpy.savez"
        ) from error
    except (ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise GridGenError(f"{path}: no file of numpy.savez ({error})") from error
    lead = arrays["q"].shape[:-1]
    for name, width in (("q", tree.nq), ("qd", tree.nv), ("qdd", tree.nv)):
        array = arrays[name]
        if array.dtype not in (np.float32, np.float64) or array.dtype != arrays["q"].dtype:
            raise DtypeError(
                f"{path}: {name} is of {array.dtype}; give q, qd and qdd all of float32, or all of "
                "float64"
            )
        if array.ndim not in (2, 3) or array.shape != (*lead, width):
            raise ShapeError(
                f"{path}: {name} has shape {array.shape}; {tree.name} needs (T, {width}) or "
                f"(B, T, {width}), with the T of q"
            )
    q, qd, qdd = (
        np.ascontiguousarray(arrays[name]).reshape(-1, arrays[name].shape[-1]) for name in _NAMES
    )
    return Trajectory(q, qd, qdd, lead)


def write_torques(path: Path, tau: NDArray[Any], force: bool = False) -> None:
    """Write efforts as ``tau`` in a file ``.npz``, which is there when it is complete.

    Args:
        path:  of the file.
        tau:   the efforts.
        force: also replace a file that this function has not written.

    Raises:
        GridGenError: it cannot be written, or something else is there.
    """
    write_file(path, lambda file: np.savez(file, tau=tau), force)
