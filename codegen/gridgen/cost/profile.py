"""Measured times of a robot's kernels on one device, kept in the user's folder."""

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

from gridgen.backends.interface import Dtype
from gridgen.cost.devices import Device, device_of
from gridgen.errors import GridGenError, warn
from gridgen.naming import show
from gridgen.user_cache import FOLDER_VARIABLE, cache_folder, private_folder
from gridgen.version import __version__

# Raised when the content of a profile changes; others are left alone.
_LAYOUT = 1
_FOLDER = "profiles"


@dataclass(frozen=True)
class Place:
    """Where calls are computed.

    Attributes:
        name:   of the device; empty where it is not known.
        arch:   ``sm_90``, or ``cpu``.
        driver: what drives it: of a CPU, the threads that share its work.
        reported: a GPU as its driver reports it, where one has been asked.
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
        """Return as JSON data what tells places apart."""
        return {"name": self.name, "arch": self.arch, "driver": self.driver}

    def __str__(self) -> str:
        """Return it in words."""
        how = self.driver if self.arch == "cpu" else f"{self.arch}, driver {self.driver}"
        return f"{self.name} ({how})"


@dataclass(frozen=True)
class Way:
    """One way to compute a function.

    Attributes:
        kernel: name of the kernel in C++, without optional inputs.
        dtype:  element type.
        block:  threads of a block; 0 on a CPU.
    """

    kernel: str
    dtype: Dtype
    block: int


@dataclass(frozen=True)
class Profile:
    """What was measured of one robot on one device.

    Attributes:
        robot:      its name.
        digest:     of its text and of what was chosen of it.
        place:      the device.
        any_method: whether ``auto`` may take another method than the most accurate.
        times:      seconds of a call by the number of its states, for each way.
    """

    robot: str
    digest: str
    place: Place
    any_method: bool
    times: Mapping[Way, Mapping[int, float]] = field(hash=False)

    def seconds(self, way: Way, batch: int) -> float | None:
        """Return the time of a call; ``None`` for a way that was not measured.

        Between two batches that were, it grows by a power of the batch; beyond the largest it is in
        proportion to the batch, below the smallest the same.
        """
        times = self.times.get(way)
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
                asdict(way) | {"seconds": {str(batch): times[batch] for batch in sorted(times)}}
                for way, times in self.times.items()
            ],
        }

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return profile_path(self.digest, self.place)

    def keep(self) -> Path:
        """Write the profile to its place, over an earlier one, whole or not at all.

        Raises:
            GridGenError: it cannot be written.
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
                f"${FOLDER_VARIABLE} to a folder that can be"
            ) from error
        return path


def profile_path(digest: str, place: Place) -> Path:
    """Return where the profile of a robot on a device is kept.

    Those of the same device with another driver or another version of grid-gen differ in the last
    part of their names.
    """
    name = f"{digest[:16]}.{_digest(place.name, place.arch)}.{_digest(place.driver, __version__)}"
    return cache_folder(_FOLDER) / f"{name}.json"


def find_profile(digest: str, place: Place) -> tuple[Profile | None, str]:
    """Return the profile of a robot on a device, if there is one; and what is to be said of others.

    One that is damaged, or of another robot or device, is not used, and left where it is; a warning
    names it.

    Args:
        digest: of the robot.
        place:  the device.
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
            f"{path}: no profile of this robot and device ({error}); times are predicted: measure "
            "them again with grid-gen tune, or remove the file"
        )
        return None, ""


def _others(path: Path) -> str:
    """Say whether the robot was measured on the device in another way."""
    robot, device, _, _ = path.name.split(".")
    with contextlib.suppress(OSError):
        if any(path.parent.glob(f"{robot}.{device}.*.json")):
            return (
                "it was measured with another driver or version of grid-gen, which is not used: "
                "run grid-gen tune again"
            )
    return ""


def _read(text: bytes, digest: str, place: Place) -> Profile:
    """Return the profile that a file holds.

    Raises:
        ValueError and others: it is damaged, or another's.
    """
    data = json.loads(text)
    for name, wanted in (
        ("layout", _LAYOUT),
        ("grid-gen", __version__),
        ("digest", digest),
        ("place", place.as_data()),
    ):
        if data[name] != wanted:
            raise ValueError(f"{name} is {show(str(data[name]))}")
    return Profile(
        robot=str(data["robot"]),
        digest=digest,
        place=place,
        any_method=data["any_method"] is True,
        times=dict(_times(data["times"])),
    )


def _times(rows: Any) -> Iterator[tuple[Way, dict[int, float]]]:
    for row in rows:
        way = Way(str(row["kernel"]), row["dtype"], int(row["block"]))
        times = {int(batch): float(seconds) for batch, seconds in row["seconds"].items()}
        if not all(batch > 0 and 0 < seconds < math.inf for batch, seconds in times.items()):
            raise ValueError(f"times of {show(way.kernel)} are none")
        yield way, times


def _digest(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
