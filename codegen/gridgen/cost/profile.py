"""Measured times of a robot's kernels on one device, stored in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gridgen.cost.devices import Device, device_of
from gridgen.errors import GridGenError, warn
from gridgen.functions.types import Dtype
from gridgen.naming import show
from gridgen.user_cache import FOLDER_VARIABLE, cache_folder, private_folder
from gridgen.version import __version__

# Version of the file's layout; files with another one are not used.
_LAYOUT = 1
_FOLDER = "profiles"


@dataclass(frozen=True)
class DeviceIdentity:
    """The device that computes calls.

    Attributes:
        name:   name of the device; empty if unknown.
        arch:   architecture, such as ``sm_90``, or ``cpu``.
        driver: version of the driver; for a CPU, the number of threads, such as ``8 threads``.
        reported: a GPU's figures as its driver reports them, where it has been queried.
    """

    name: str
    arch: str
    driver: str
    reported: Device | None = field(default=None, compare=False, repr=False)

    @property
    def device(self) -> Device:
        """The GPU that predictions are made for."""
        return self.reported or device_of(self.arch)

    def as_data(self) -> dict[str, str]:
        """Return the identity as JSON data."""
        return {"name": self.name, "arch": self.arch, "driver": self.driver}

    def __str__(self) -> str:
        """Return a description of the device."""
        how = self.driver if self.arch == "cpu" else f"{self.arch}, driver {self.driver}"
        return f"{self.name} ({how})"


@dataclass(frozen=True)
class TimedKernel:
    """A kernel with a block size: the key of measured times.

    Attributes:
        kernel: name of the kernel in C++, without optional inputs.
        dtype:  element type.
        block:  threads per block; 0 on a CPU.
    """

    kernel: str
    dtype: Dtype
    block: int


@dataclass(frozen=True)
class Profile:
    """Measured times of one robot on one device.

    Attributes:
        robot:      the robot's name.
        digest:     digest of its source and options.
        place:      the device.
        any_method: whether ``auto`` may select another method than the most accurate.
        times:      seconds per call by the number of states, for each kernel.
    """

    robot: str
    digest: str
    place: DeviceIdentity
    any_method: bool
    times: Mapping[TimedKernel, Mapping[int, float]] = field(hash=False)

    def seconds(self, timed: TimedKernel, batch: int) -> float | None:
        """Return the time of a call; ``None`` without measurements.

        Between two measured batches it is a power of the batch; above the largest it is
        proportional to the batch, below the smallest constant.
        """
        times = self.times.get(timed)
        if not times:
            return None
        low = max((b for b in times if b <= batch), default=min(times))
        high = min((b for b in times if b >= batch), default=None)
        if high is None:
            return times[low] * batch / low
        if high == low or batch < low:
            return times[low]
        share = math.log(batch / low) / math.log(high / low)
        return times[low] * math.exp(share * math.log(times[high] / times[low]))

    def as_data(self) -> dict[str, Any]:
        """Return the profile as JSON data."""
        return {
            "layout": _LAYOUT,
            "grid-gen": __version__,
            "robot": self.robot,
            "digest": self.digest,
            "place": self.place.as_data(),
            "any_method": self.any_method,
            "times": [
                asdict(timed) | {"seconds": {str(batch): times[batch] for batch in sorted(times)}}
                for timed, times in self.times.items()
            ],
        }

    @property
    def path(self) -> Path:
        """Path of its file."""
        return profile_path(self.digest, self.place)

    def keep(self) -> Path:
        """Write the profile to its file atomically; replaces an earlier one.

        Raises:
            GridGenError: the file cannot be written.
        """
        path = self.path
        try:
            folder = private_folder(path.parent)
            handle, name = tempfile.mkstemp(prefix="building-", dir=folder)
            try:
                with open(handle, "w", encoding="utf-8") as file:
                    json.dump(self.as_data(), file, indent=1)
                os.replace(name, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            raise GridGenError(
                f"{path}: the profile cannot be written ({error.strerror or error}); set "
                f"${FOLDER_VARIABLE} to a writable folder"
            ) from error
        return path


def profile_path(digest: str, place: DeviceIdentity) -> Path:
    """Return the path of the profile of a robot on a device.

    Profiles of the same device with another driver or version of grid-gen differ in the last part
    of the name.
    """
    name = f"{digest[:16]}.{_digest(place.name, place.arch)}.{_digest(place.driver, __version__)}"
    return cache_folder(_FOLDER) / f"{name}.json"


def find_profile(digest: str, place: DeviceIdentity) -> tuple[Profile | None, str]:
    """Return the profile of a robot on a device or None, and a remark on those of other versions.

    A profile that is damaged, or belongs to another robot or device, causes a warning; it is not
    used and not removed.
    """
    if not place.name:
        return None, ""
    path = profile_path(digest, place)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None, _others(path)
    except OSError as error:
        warn(f"{path}: cannot be read ({error.strerror}); times are predicted")
        return None, ""
    try:
        return _read(text, digest, place), ""
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        warn(
            f"{path}: not a profile of this robot and device ({error}); times are predicted: "
            "measure them again with grid-gen tune, or remove the file"
        )
        return None, ""


def _others(path: Path) -> str:
    """Return a remark if there is a profile with another driver or version."""
    robot, device, _, _ = path.name.split(".")
    with contextlib.suppress(OSError):
        if any(path.parent.glob(f"{robot}.{device}.*.json")):
            return (
                "a profile of another driver or version of grid-gen is not used: "
                "run grid-gen tune again"
            )
    return ""


def _read(text: bytes, digest: str, place: DeviceIdentity) -> Profile:
    """Return the profile that a file holds.

    Raises:
        ValueError: the file is damaged or belongs to another robot or device; also AttributeError,
            KeyError, RecursionError and TypeError.
    """
    data = json.loads(text)
    for name, expected in (
        ("layout", _LAYOUT),
        ("grid-gen", __version__),
        ("digest", digest),
        ("place", place.as_data()),
    ):
        if data[name] != expected:
            raise ValueError(f"{name} is {show(str(data[name]))}")
    return Profile(
        robot=str(data["robot"]),
        digest=digest,
        place=place,
        any_method=data["any_method"] is True,
        times=dict(_times(data["times"])),
    )


def _times(rows: Any) -> Iterator[tuple[TimedKernel, dict[int, float]]]:
    for row in rows:
        timed = TimedKernel(str(row["kernel"]), row["dtype"], int(row["block"]))
        times = {int(batch): float(seconds) for batch, seconds in row["seconds"].items()}
        if not all(batch > 0 and 0 < seconds < math.inf for batch, seconds in times.items()):
            raise ValueError(f"times of {show(timed.kernel)} are not positive numbers")
        yield timed, times


def _digest(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
