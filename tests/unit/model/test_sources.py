"""Where a robot may come from, and what is said of anything else."""

from __future__ import annotations

import io
import os
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridgen import progress
from gridgen.compiler import MAX_BODIES, load, read_tree
from gridgen.errors import GridGenWarning, ModelError, OptionError, UrdfError, warn
from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import build_tree
from gridgen.model.walk import count_bodies
from gridgen.options import RobotOptions
from helpers.robots import OWN, joint_text, link_text, robot_text

TEXT = robot_text(link_text("base"), link_text("arm"), joint_text("j", "base", "arm"))


class BytesPath(os.PathLike[bytes]):
    """A path that is made of bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> bytes:
        return os.fsencode(self.path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    result = tmp_path / "r.urdf"
    result.write_text(TEXT)
    return result


def test_every_kind_of_path_and_of_text_is_read(path: Path) -> None:
    data = TEXT.encode()
    (entry,) = os.scandir(path.parent)
    for source in (path, str(path), BytesPath(path), entry, TEXT, data, bytearray(data)):
        assert load(source).nv == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "the robot is None; give the path"),
        (3, r"the robot is a builtins\.int; give the path"),
        ([TEXT], r"the robot is a builtins\.list; give"),
        (io.StringIO(TEXT), r"an open file; give its path, or the result of its read\(\)"),
        ("", "the path is empty"),
        ("no such.urdf", r"^no such\.urdf: cannot be read \(No such file"),
        (b"", "the file is empty"),
        (b"robot.urdf", "bytes are read as text: give a path as str"),
    ],
)
def test_what_is_no_robot_is_told_what_would_be_one(source: Any, message: str) -> None:
    with pytest.raises(UrdfError, match=message):
        load(source)


@pytest.mark.parametrize("option", ["floating_base", "joint_dynamics"])
@pytest.mark.parametrize("value", ["no", "yes", 0, 1, None, np.True_])
def test_an_option_that_is_on_or_off_is_a_bool(option: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"{option} is .*; give True or False"):
        load("never read.urdf", **{option: value})


def test_only_what_is_taken_is_advised() -> None:
    with pytest.raises(UrdfError, match=r"a URDF file, or its text$"):
        load("no such.urdf")
    with pytest.raises(UrdfError, match=r"the path of a URDF file$"):
        load(Path("no such.urdf"))


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(UrdfError, match="it is a folder"):
        load(tmp_path)


def test_a_pipe_without_a_writer_is_waited_for_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(progress.QUIET_VARIABLE)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = threading.Event()
    say = print
    monkeypatch.setattr("builtins.print", lambda *a, **k: (say(*a, **k), told.set()))
    writer = threading.Thread(target=lambda: told.wait(10) and pipe.write_text(TEXT))
    writer.start()
    assert load(pipe).nv == 1
    writer.join()
    assert f"reading {pipe}: waiting for a program to write to it" in capfd.readouterr().err


def test_elements_of_prefixes_that_nobody_declares_are_of_others() -> None:
    text = TEXT.replace("<robot", '<robot x:version="1"').replace(
        "</robot>", '<sensor:camera sensor:rate="1"><sensor:lens/></sensor:camera></robot>'
    )
    assert load(text).nv == 1


# Size -------------------------------------------------------------------------------------------


def star(count: int, rest: str = "") -> str:
    """Return a hub with many joints whose numbers nobody can read."""
    return robot_text(
        "<link name='hub'/>",
        *(f"<link name='l{i}'/>" for i in range(count)),
        *(joint_text(f"j{i}", "hub", f"l{i}", xyz="far", extra=rest) for i in range(count)),
    )


def test_a_robot_that_is_too_large_is_counted_before_it_is_read() -> None:
    with pytest.raises(ModelError, match="has 2049 moving bodies; gridgen supports at most 2048"):
        load(star(MAX_BODIES + 1))
    with pytest.raises(UrdfError, match='"far" is not a number'):
        load(star(MAX_BODIES))
    with pytest.raises(UrdfError, match='"far" is not a number'):  # these may stand still
        load(star(MAX_BODIES + 1, '<mimic joint="j0"/>'))


def test_bodies_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    text = robot_text(
        *(link_text(name) for name in "abcdef"),
        joint_text("fixed", "a", "b", "fixed"),
        joint_text("planar", "b", "c", "planar"),
        joint_text("free", "c", "d", "floating"),
        joint_text("leader", "d", "e"),
        joint_text("follower", "e", "f", extra='<mimic joint="leader"/>'),
    )
    still = robot_text(
        *(link_text(name) for name in "abc"),
        joint_text("j", "a", "b"),
        joint_text("k", "b", "c", extra='<mimic joint="j" multiplier="0"/>'),
    )
    robots = [parse_urdf(source) for source in (text, still, OWN / "gripper.urdf")]
    for robot, bodies in zip(robots, (6, 1, 8), strict=True):
        assert count_bodies(robot, RobotOptions()) == bodies
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GridGenWarning)
            assert len(build_tree(robot, RobotOptions(floating_base=True)).bodies) == bodies + 1
    monkeypatch.setattr("gridgen.compiler.MAX_BODIES", 6)
    with pytest.raises(ModelError, match="7 moving bodies"):
        read_tree(text, RobotOptions(floating_base=True))


# Warnings ---------------------------------------------------------------------------------------


def test_the_line_of_a_warning_is_not_one_of_a_generated_module(tmp_path: Path) -> None:
    (tmp_path / "model.json").touch()
    names: dict[str, Any] = {"warn": warn, "__name__": "generated.arm"}
    exec(compile("def call(): warn('odd')", tmp_path / "__init__.py", "exec"), names)
    with pytest.warns(GridGenWarning, match="odd") as caught:
        names["call"]()
    assert caught[0].filename == __file__
