from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import platformdirs
import pytest

from gridgen.backends import cache
from gridgen.backends.cache import BuildCache, cache_key, is_whole
from gridgen.errors import GridGenWarning

KEY = cache_key(kind="test")


def builder(text: str = "content", calls: list[str] | None = None):
    def build(folder: Path) -> None:
        if calls is not None:
            calls.append(text)
        (folder / "file").write_text(text)

    return build


def forbidden(folder: Path) -> None:
    raise AssertionError("built although it is there")


def test_keys_differ_in_every_part_and_in_where_parts_end():
    keys = {
        cache_key(files={"a": "b"}, flags=("x", "y")),
        cache_key(files={"a": "b"}, flags=("xy",)),
        cache_key(files={"ab": ""}, flags=("x", "y")),
        cache_key(files={"a": "b"}, options=("x", "y")),
    }
    assert len(keys) == 4


def test_keys_do_not_depend_on_the_order_of_files():
    assert cache_key(files={"a": "1", "b": "2"}) == cache_key(files={"b": "2", "a": "1"})


def test_an_entry_is_built_once(tmp_path):
    calls: list[str] = []
    first = BuildCache(tmp_path).entry(KEY, builder(calls=calls))
    second = BuildCache(tmp_path).entry(KEY, forbidden)
    assert first == second == tmp_path / KEY
    assert (second / "file").read_text() == "content"
    assert calls == ["content"]


def test_the_folder_comes_from_the_environment(cache_folder):
    assert BuildCache().entry(KEY, builder()).parent == cache_folder


def test_the_default_folder_is_the_users(monkeypatch):
    monkeypatch.delenv(cache.FOLDER_VARIABLE)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: f"/users/cache/{name}")
    assert BuildCache().folder == Path("/users/cache/grid-gen")


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: (entry / "file").write_text("conten"),
        lambda entry: (entry / "file").unlink(),
        lambda entry: (entry / "manifest.json").unlink(),
        lambda entry: (entry / "manifest.json").write_text('{"file": "'),
        lambda entry: (entry / "manifest.json").write_text("[]"),
        lambda entry: (entry / "manifest.json").write_bytes(b"\xff\xfe\x00"),
    ],
)
def test_a_damaged_entry_is_rebuilt(tmp_path, damage):
    entry = BuildCache(tmp_path).entry(KEY, builder())
    damage(entry)
    assert not is_whole(entry)
    again = BuildCache(tmp_path).entry(KEY, builder("again"))
    assert (again / "file").read_text() == "again"
    assert BuildCache(tmp_path).entry(KEY, forbidden) == again


def test_a_whole_entry_that_another_process_made_meanwhile_wins(tmp_path):
    def slow(folder: Path) -> None:
        BuildCache(tmp_path).entry(KEY, builder("faster"))
        (folder / "file").write_text("slower")

    assert (BuildCache(tmp_path).entry(KEY, slow) / "file").read_text() == "faster"
    assert [path.name for path in tmp_path.iterdir()] == [KEY]


def test_a_failed_build_leaves_no_entry(tmp_path):
    def fail(folder: Path) -> None:
        (folder / "file").write_text("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        BuildCache(tmp_path).entry(KEY, fail)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def read_only(monkeypatch):
    """Return a function that makes a folder refuse new files; permissions do not stop root."""
    cache._warn_once.cache_clear()
    mkdtemp = tempfile.mkdtemp
    refused: list[Path] = []

    def refusing(*args, **options):
        if Path(options.get("dir") or "/") in refused:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return mkdtemp(*args, **options)

    monkeypatch.setattr(tempfile, "mkdtemp", refusing)
    yield refused.append
    cache._warn_once.cache_clear()


def test_a_read_only_cache_gives_way_to_a_temporary_folder_with_one_warning(tmp_path, read_only):
    read_only(tmp_path)
    key, other = cache_key(test=str(tmp_path)), cache_key(test=f"{tmp_path}, another")
    with pytest.warns(GridGenWarning, match=r"cannot be written \(Read-only"):
        entry = BuildCache(tmp_path).entry(key, builder())
    assert tmp_path not in entry.parents
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert BuildCache(tmp_path).entry(key, forbidden) == entry
        BuildCache(tmp_path).entry(other, builder())


def test_a_read_only_cache_is_read(tmp_path, read_only):
    entry = BuildCache(tmp_path).entry(KEY, builder())
    read_only(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert BuildCache(tmp_path).entry(KEY, forbidden) == entry


def test_a_text_is_made_once_and_again_when_damaged(tmp_path):
    texts = iter("abc")
    store = BuildCache(tmp_path)
    assert [store.text(KEY, lambda: next(texts)) for _ in range(3)] == ["a", "a", "a"]
    (tmp_path / KEY / "text").write_text("x")
    assert [store.text(KEY, lambda: next(texts)) for _ in range(2)] == ["b", "b"]


def test_no_text_is_not_kept(tmp_path):
    assert BuildCache(tmp_path).text(KEY, lambda: None) is None
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_had_without_a_word_where_it_cannot_be_kept(tmp_path, read_only):
    read_only(tmp_path)
    file = tmp_path / "file"
    file.write_text("where a folder should be")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for folder in (tmp_path, file):
            assert BuildCache(folder).text(KEY, lambda: "made") == "made"


def test_a_text_that_another_process_kept_meanwhile_is_no_obstacle(tmp_path):
    def slow() -> str:
        return BuildCache(tmp_path).text(KEY, lambda: "same")

    assert BuildCache(tmp_path).text(KEY, slow) == "same"
    assert [path.name for path in tmp_path.iterdir()] == [KEY]


def test_a_failure_is_kept_once(tmp_path):
    store = BuildCache(tmp_path)
    first = store.keep_failure(KEY, {"a.cu": "text"})
    assert store.keep_failure(KEY, {"a.cu": "text"}) == first
    assert (first / "a.cu").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["failed"]


PROCESS = """
import sys
from pathlib import Path
from gridgen.backends.cache import BuildCache, cache_key
for i in range(100):
    text = f"text {i}"
    entry = BuildCache().entry(
        cache_key(number=i), lambda folder: (folder / "file").write_text(text) and None
    )
    assert (entry / "file").read_text() == text
"""


def test_processes_may_build_and_repair_the_same_entries_at_once(cache_folder):
    for i in range(0, 100, 5):
        damaged = BuildCache().entry(cache_key(number=i), builder("to be damaged"))
        (damaged / "file").write_text("damaged")
    processes = [subprocess.Popen([sys.executable, "-c", PROCESS]) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    entries = list(cache_folder.iterdir())
    assert len(entries) == 120
    assert sum(is_whole(entry) for entry in entries) == 100
