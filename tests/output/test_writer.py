"""What grid-gen may replace where a user lets it write: its own files, as it left them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from gridgen.commands import main as cli
from gridgen.emit import writer
from gridgen.emit.writer import check_file, write_file, write_folder
from gridgen.errors import OptionError
from gridgen.papers.trajectory import write_torques
from helpers.robots import OWN

ROBOT, DIGEST = "<text>", "d" * 64
FILES = {"__init__.py": "import this\n", "model.json": "{}\n", "code.cuh": "int x;\n"}


def write(folder: Path, files=FILES, source=ROBOT, digest=DIGEST, force=False) -> None:
    write_folder(folder, files, source, digest, force)


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def module(tmp_path):
    """A module that was written, alone in a folder."""
    write(tmp_path / "out" / "arm")
    return tmp_path / "out" / "arm"


def refused(folder: Path, match: str, **options) -> None:
    """See a refusal, after which everything is as it was."""
    before = content(folder.parent)
    with pytest.raises(OptionError, match=match):
        write(folder, **options)
    assert content(folder.parent) == before


def test_a_module_lists_its_files(module):
    manifest = json.loads((module / "manifest.json").read_bytes())
    assert sorted(manifest["files"]) == sorted(FILES)
    assert manifest["robot"] == {"file": None, "sha256": DIGEST}


def test_a_module_is_replaced_by_one_of_other_files(module):
    for other in ("include/gridgen/a.h", "include/gridgen/b.h", "other.h"):
        write(module, {"__init__.py": "", other: ""})
        assert sorted(content(module)) == sorted(["__init__.py", "manifest.json", other])
        assert [path.name for path in module.parent.iterdir()] == ["arm"]
    assert not (module / "include").exists()


def test_files_of_the_user_beside_shared_headers_stay(module):
    write(module, {"include/gridgen/a.h": "", "include/b.h": ""})
    (module / "include" / "gridgen" / "mine.h").write_text("own")
    (module / "include" / "notes").mkdir()
    (module / "include" / "notes" / "today").write_text("own")
    refused(module, "mine.h is not a file of grid-gen")
    write(module, {"include/gridgen/a.h": ""}, force=True)
    own = ["include/gridgen/mine.h", "include/notes/today"]
    assert sorted(content(module)) == ["include/gridgen/a.h", *own, "manifest.json"]
    assert [path.name for path in module.parent.iterdir()] == ["arm"]


def test_a_file_in_the_place_of_a_folder_is_named(module):
    (module / "include").write_text("own")
    with pytest.raises(OptionError, match=r"include is not a folder: move it away"):
        write(module, {"include/gridgen/a.h": ""}, force=True)
    assert content(module)["include"] == b"own"


def test_what_importing_a_module_leaves_is_no_obstacle(module):
    (module / "__pycache__").mkdir()
    (module / "__pycache__" / "__init__.cpython-312.pyc").write_bytes(b"code")
    write(module)
    assert sorted(content(module)) == [*sorted(FILES)[:2], "manifest.json", "model.json"]


@pytest.mark.parametrize(
    "there",
    [
        {"model.json": '{"modelTopology": {}}', "thesis.tex": "years of work"},
        {"model.json": "{}", "manifest.json": '{"name": "a web page"}'},
        {"model.json": "{}", "manifest.json": '{"robot": {}, "files": {"model.json": ""}}'},
        {"model.json": "{}", "manifest.json": '{"robot": [], "files": []}'},
        {"model.json": "{}", "manifest.json": "[]"},
        {"model.json": "{}", "manifest.json": b"\xff\xfe"},
        {"deep/er/thesis.tex": "years of work"},
    ],
)
def test_a_folder_of_something_else_is_left_alone(there, tmp_path):
    folder = tmp_path / "arm"
    for name, text in there.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(folder, f"has no manifest.json of grid-gen, so {sorted(there)[0]} may be yours")


def test_an_older_module_is_left_alone_and_said_to_be_one(module):
    (module / "manifest.json").unlink()
    refused(module, "an older grid-gen wrote none. Remove the folder, .* or overwrite .*--force")


@pytest.mark.parametrize(
    "name", ["notes.txt", "code.cuh.orig", ".hidden", "sub/notes.txt", "__pycache__/mine.py"]
)
def test_a_file_that_a_user_added_is_named(name, module):
    (module / name).parent.mkdir(exist_ok=True)
    (module / name).write_text("mine")
    refused(module, f"arm/{name} is not a file of grid-gen")
    write(module, force=True)
    assert (module / name).read_text() == "mine"
    assert sorted(content(module)) == sorted([*FILES, "manifest.json", name])


def test_a_file_that_a_user_changed_is_named(module):
    (module / "code.cuh").write_text("int mine;\n")
    refused(module, "arm/code.cuh was changed after grid-gen wrote it")
    write(module, force=True)
    assert (module / "code.cuh").read_text() == FILES["code.cuh"]


def test_a_link_in_a_module_is_not_followed(module, tmp_path):
    (tmp_path / "mine.cuh").write_text(FILES["code.cuh"])
    (module / "code.cuh").unlink()
    (module / "code.cuh").symlink_to(tmp_path / "mine.cuh")
    refused(module, "arm/code.cuh was changed")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("years of work")
    (module / "link").symlink_to(tmp_path / "folder")
    write(module, force=True)
    assert (tmp_path / "mine.cuh").read_text() == FILES["code.cuh"]
    assert (module / "link" / "thesis.tex").exists()
    assert not (module / "code.cuh").is_symlink()


def test_a_folder_named_like_a_file_is_left_alone_even_by_force(module):
    (module / "code.cuh").unlink()
    (module / "code.cuh").mkdir()
    (module / "code.cuh" / "mine").write_text("mine")
    refused(module, "arm/code.cuh is a folder", force=True)


def test_a_module_behind_a_link_is_replaced_where_it_is(module, tmp_path):
    (tmp_path / "link").symlink_to(module)
    write(tmp_path / "link", {"__init__.py": ""})
    assert (tmp_path / "link").is_symlink()
    assert sorted(content(module)) == ["__init__.py", "manifest.json"]


def test_a_folder_behind_a_link_is_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    (tmp_path / "arm").symlink_to(tmp_path / "mine")
    refused(tmp_path / "arm", "thesis.tex may be yours")
    assert (tmp_path / "arm").is_symlink()


def test_a_module_that_cannot_be_put_in_place_leaves_the_other(module, monkeypatch):
    before = content(module)
    rename = Path.rename

    def refusing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(OptionError, match="No space left"):
        write(module, {"other.h": ""})
    assert content(module) == before
    assert [path.name for path in module.parent.iterdir()] == ["arm"]


def test_what_appears_while_a_module_is_written_is_not_lost(module, monkeypatch):
    swap = writer._swap

    def late(folder: Path, fresh: Path, old: Path) -> None:
        (folder / "thesis.tex").write_text("saved by an editor")
        swap(folder, fresh, old)

    monkeypatch.setattr(writer, "_swap", late)
    write(module)
    assert (module / "thesis.tex").read_text() == "saved by an editor"
    assert [path.name for path in module.parent.iterdir()] == ["arm"]


def test_another_robot_of_the_same_name_is_no_reason_to_replace_a_module(tmp_path):
    urdfs = [tmp_path / "a.urdf", tmp_path / "b.urdf"]
    for urdf, text in zip(urdfs, ("one", "another"), strict=True):
        urdf.write_text(text)
    module = tmp_path / "out" / "robot"
    write(module, source=str(urdfs[0]), digest="1" * 64)
    refused(module, "another file, a.urdf", source=str(urdfs[1]), digest="2" * 64)
    write(module, source=str(urdfs[0]), digest="3" * 64)  # the file was edited
    write(module, source=str(urdfs[1]), digest="3" * 64)  # the file was copied
    refused(module, "another file", source=str(urdfs[0]), digest="4" * 64)
    write(module, source=str(urdfs[0]), digest="4" * 64, force=True)


def test_texts_are_the_same_robot_if_they_are_the_same(module):
    write(module)
    refused(module, "arm is the module of another robot", digest="e" * 64)


def test_the_command_refuses_another_robot(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine, other = (Path(shutil.copy(OWN / f"{name}.urdf", ".")) for name in ("pendulum", "gripper"))
    words = ["--functions", "gravity_forces", "--quiet", "-o", "out", "--name", "arm"]
    assert cli.main([str(mine), *words]) == 0
    mine.write_text(mine.read_text() + "<!-- edited -->")
    assert cli.main([str(mine), *words]) == 0
    before = content(tmp_path)
    assert cli.main([str(other), *words]) == 2
    assert "out/arm is the module of another file, pendulum.urdf" in capsys.readouterr().err
    assert content(tmp_path) == before
    assert cli.main([str(other), *words, "--force"]) == 0


# -- single files -------------------------------------------------------------------------------


def page(file) -> None:
    file.write(b"<p>a page</p>\n")


def archive(file) -> None:
    np.savez(file, tau=np.ones(3))


@pytest.mark.parametrize("fill", [page, archive])
def test_a_file_that_was_written_is_written_again(fill, tmp_path):
    path = tmp_path / "file"
    write_file(path, fill)
    first = path.read_bytes()
    write_file(path, fill)
    assert path.read_bytes() == first
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("fill", [page, archive])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"a", b"A", 1),
        lambda data: data + b"\n",
        lambda data: b"x" + data,
        lambda data: data[:-1],
        lambda data: data[:-70],
        lambda data: b"",
        lambda data: b"<robot/>",
    ],
)
def test_a_file_that_was_not_written_or_was_changed_is_refused(fill, change, tmp_path):
    path = tmp_path / "file"
    write_file(path, fill)
    path.write_bytes(changed := change(path.read_bytes()))
    with pytest.raises(OptionError, match="file exists and was not written by grid-gen"):
        write_file(path, fill)
    assert path.read_bytes() == changed
    write_file(path, fill, force=True)
    write_file(path, fill)


def test_an_archive_with_a_seal_is_read_as_any(tmp_path):
    write_torques(tmp_path / "tau.npz", np.arange(3.0))
    assert np.load(tmp_path / "tau.npz")["tau"].tolist() == [0, 1, 2]


def test_the_file_behind_a_link_counts(tmp_path):
    (tmp_path / "mine.urdf").write_text("<robot/>")
    (tmp_path / "link").symlink_to("mine.urdf")
    with pytest.raises(OptionError, match="link exists and was not written by grid-gen"):
        write_file(tmp_path / "link", page)
    write_file(tmp_path / "page", page)
    (tmp_path / "other").symlink_to("page")
    write_file(tmp_path / "other", archive)
    assert (tmp_path / "other").is_symlink()
    assert (tmp_path / "page").read_bytes().startswith(b"PK")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(OptionError, match="is a folder"):
        check_file(tmp_path, force=True)


@pytest.mark.skipif(os.name != "posix", reason="devices of POSIX")
def test_a_device_stays_one():
    write_file(Path(os.devnull), page)
    assert not Path(os.devnull).is_file()
    with pytest.raises(OptionError, match="/dev/full cannot be written: No space left"):
        write_file(Path("/dev/full"), page)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_others_may_read_a_file_as_the_user_lets_them(tmp_path):
    umask = os.umask(0o022)
    try:
        write_torques(tmp_path / "tau.npz", np.ones(1))
        assert (tmp_path / "tau.npz").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(umask)


@pytest.mark.parametrize("option", ["--report", "--wheel"])
def test_a_file_in_the_way_of_another_leaves_nothing_written(option, tmp_path, capsys):
    urdf = Path(shutil.copy(OWN / "gripper.urdf", tmp_path))
    wheel = tmp_path / "out" / "gripper-7-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"mine")
    words = {"--report": ["--report", str(urdf)], "--wheel": ["--wheel", "--wheel-version", "7"]}
    before = content(tmp_path)
    functions = ["--functions", "gravity_forces", "--quiet", "-o", str(tmp_path / "out")]
    assert cli.main([str(urdf), *functions, *words[option]]) == 2
    assert "was not written by grid-gen" in capsys.readouterr().err
    assert content(tmp_path) == before
