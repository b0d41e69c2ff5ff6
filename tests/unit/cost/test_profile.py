"""Measured times: between batches, on disk, and what is not believed."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from gridgen.cost import profile as profiles
from gridgen.cost.profile import DeviceIdentity, Profile, TimedKernel, find_profile
from gridgen.errors import GridGenError, GridGenWarning

PLACE = DeviceIdentity("Some GPU", "sm_90", "12060")
WAY = TimedKernel("mass_matrix", "float32", 64)
PROFILE = Profile("arm", "d" * 64, PLACE, False, {WAY: {32: 2e-6, 1024: 8e-6, 4096: 32e-6}})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "profiles"


def found(digest=PROFILE.digest, place=PLACE):
    return find_profile(digest, place)


def test_between_batches_times_grow_by_a_power():
    seconds = [PROFILE.seconds(WAY, batch) for batch in (1, 32, 1024, 2048, 4096, 8192)]
    assert seconds == pytest.approx([2e-6, 2e-6, 8e-6, 16e-6, 32e-6, 64e-6])
    assert 2e-6 < PROFILE.seconds(WAY, 100) < 8e-6
    assert PROFILE.seconds(replace(WAY, block=32), 32) is None


def test_what_is_kept_is_found():
    path = PROFILE.keep()
    assert found() == (PROFILE, "")
    later = replace(PROFILE, any_method=True)
    assert later.keep() == path
    assert found() == (later, "")
    assert [*path.parent.iterdir()] == [path]


def test_profiles_of_others_are_not_found():
    PROFILE.keep()
    assert found(digest="e" * 64) == (None, "")
    assert found(place=replace(PLACE, name="Another GPU")) == (None, "")
    assert found(place=replace(PLACE, arch="sm_80")) == (None, "")
    assert found(place=DeviceIdentity("", "sm_90", "")) == (None, "")


def test_another_driver_or_version_is_told(monkeypatch):
    PROFILE.keep()
    profile, remark = found(place=replace(PLACE, driver="12090"))
    assert profile is None
    assert "another driver or version of grid-gen" in remark
    assert "grid-gen tune" in remark
    monkeypatch.setattr(profiles, "__version__", "99.0")
    assert found() == (None, remark)


def changed(change):
    """Return the text of the profile, changed."""
    data = PROFILE.as_data()
    change(data)
    return json.dumps(data)


DAMAGED = {
    "empty": "",
    "half": json.dumps(PROFILE.as_data())[:100],
    "no object": "[]",
    "no text": b"\xff\xfe\x00",
    "deep": "[" * 100_000,
    "another layout": changed(lambda data: data.update(layout=2)),
    "another version": changed(lambda data: data.update({"grid-gen": "0.0.1"})),
    "another robot": changed(lambda data: data.update(digest="e" * 64)),
    "another device": changed(lambda data: data["place"].update(name="Another GPU")),
    "no times": changed(lambda data: data.pop("times")),
    "a negative time": changed(lambda data: data["times"][0]["seconds"].update({"32": -1})),
    "a time that is none": changed(lambda data: data["times"][0]["seconds"].update({"32": "x"})),
    "an endless time": changed(lambda data: data["times"][0]["seconds"].update({"32": 1e999})),
    "no states": changed(lambda data: data["times"][0]["seconds"].update({"0": 1.0})),
    "no block": changed(lambda data: data["times"][0].pop("block")),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_profile_is_left_with_a_word(text):
    path = PROFILE.keep()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.warns(GridGenWarning, match="not a profile of this robot and device") as warned:
        assert found() == (None, "")
    assert str(path) in str(warned[0].message)
    assert path.exists()


def test_a_folder_that_cannot_be_written_is_named(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    with pytest.raises(GridGenError, match=r"profile cannot be written .*GRIDGEN_CACHE_DIR"):
        PROFILE.keep()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_failed_write_leaves_the_earlier_profile(monkeypatch):
    path = PROFILE.keep()

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(profiles.json, "dump", full)
    with pytest.raises(GridGenError, match="No space left on device"):
        replace(PROFILE, any_method=True).keep()
    assert found() == (PROFILE, "")
    assert [*path.parent.iterdir()] == [path]
