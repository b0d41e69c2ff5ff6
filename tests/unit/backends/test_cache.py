from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import platformdirs
import pytest

from gridgen.backends import cache, exclusion
from gridgen.backends.cache import BuildCache, cache_key, is_whole
from gridgen.errors import CompileError, GridGenWarning

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
        lambda entry: (entry / "manifest.json").write_text("{}"),
        lambda entry: (entry / "another").write_text("that the manifest does not list"),
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


def test_an_entry_of_nothing_is_damaged(tmp_path):
    (tmp_path / KEY).mkdir()
    (tmp_path / KEY / "manifest.json").write_text("{}")
    assert not is_whole(tmp_path / KEY)


def test_files_that_a_system_hides_in_an_entry_do_no_harm(tmp_path):
    entry = BuildCache(tmp_path).entry(KEY, builder())
    (entry / ".DS_Store").write_text("x")
    assert BuildCache(tmp_path).entry(KEY, forbidden) == entry


@pytest.fixture
def no_locks(monkeypatch):
    """A system without locks: several may build at once."""
    monkeypatch.setattr(exclusion, "exclusively", lambda path: contextlib.nullcontext())


@pytest.mark.usefixtures("no_locks")
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


def full(folder: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_cache_gives_way_to_a_temporary_folder_with_one_warning(tmp_path):
    cache._warn_once.cache_clear()

    def build(folder: Path) -> None:
        (full if folder.parent == tmp_path else builder())(folder)

    with pytest.warns(GridGenWarning, match=r"cannot be written \(No space left"):
        entry = BuildCache(tmp_path).entry(cache_key(test=str(tmp_path)), build)
    assert (entry / "file").read_text() == "content"
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_finds_no_room_leaves_no_entry(tmp_path, monkeypatch):
    cache._warn_once.cache_clear()
    publish = cache._publish

    def refusing(staging: Path, folder: Path, key: str) -> Path:
        return full(staging) if folder == tmp_path else publish(staging, folder, key)

    monkeypatch.setattr(cache, "_publish", refusing)
    with pytest.warns(GridGenWarning, match="No space left"):
        BuildCache(tmp_path).entry(cache_key(test=f"{tmp_path} manifest"), builder())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*build cache cannot be written")
def test_no_room_anywhere_is_explained(tmp_path):
    with pytest.raises(CompileError, match=r"No space left on device.*make room, or set"):
        BuildCache(tmp_path).entry(KEY, full)


@pytest.mark.filterwarnings("ignore:.*build cache cannot be written")
def test_a_folder_that_no_system_takes_gives_way_too(tmp_path):
    entry = BuildCache(tmp_path / ("x" * 300)).entry(cache_key(test=str(tmp_path)), builder())
    assert (entry / "file").read_text() == "content"


@pytest.mark.filterwarnings("ignore:.*build cache cannot be written")
def test_a_failure_that_finds_no_room_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", lambda *_, **__: full(tmp_path))
    assert BuildCache(tmp_path).keep_failure(KEY, {"a.cu": "text"}) is None


def test_threads_build_an_entry_once(tmp_path):
    calls: list[str] = []

    def slow(folder: Path) -> None:
        time.sleep(0.1)
        builder(calls=calls)(folder)

    threads = [
        threading.Thread(target=BuildCache(tmp_path).entry, args=(KEY, slow)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["content"]


def test_the_next_one_builds_when_a_build_has_failed(tmp_path):
    with pytest.raises(ValueError, match="no"):
        BuildCache(tmp_path).entry(KEY, lambda folder: int("no"))
    BuildCache(tmp_path).entry(KEY, builder())


BUILDER = """
import os, signal, sys, time
from pathlib import Path
from gridgen.backends.cache import BuildCache

def build(folder):
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    (folder / "file").write_text("content")
    if sys.argv[3] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.3)

BuildCache(Path(sys.argv[1])).entry("key", build)
"""


def builders(folder: Path, *ends: str) -> tuple[list[int], int]:
    """Start processes that want the same entry; return their statuses and how many built it."""
    log = folder.with_name("log")
    processes = [
        subprocess.Popen([sys.executable, "-c", BUILDER, folder, log, end]) for end in ends
    ]
    statuses = [process.wait(60) for process in processes]
    return statuses, len(log.read_text().splitlines())


def test_processes_build_an_entry_once_also_after_one_was_killed(tmp_path):
    folder = tmp_path / "cache"
    assert builders(folder, "dies") == ([-9], 1)
    left = {path.name for path in folder.iterdir()}
    assert builders(folder, "ends", "ends", "ends") == ([0, 0, 0], 2)
    assert "key" not in left
    assert {path.name for path in folder.iterdir()} == {"key", *left} - {"key.lock"}


def test_what_a_killed_build_left_is_removed_after_a_day(tmp_path):
    yesterday = time.time() - 25 * 3600
    for name in ("building-old", "building-new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("half")
    for name in ("old.lock", "new.lock", "other"):
        (tmp_path / name).write_text("")
    for name in ("building-old", "old.lock", "other"):
        os.utime(tmp_path / name, (yesterday, yesterday))
    BuildCache(tmp_path).entry(KEY, builder())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"building-new", "new.lock", "other", KEY}


def test_variants_of_a_key_are_found_where_they_are_whole(tmp_path):
    store = BuildCache(tmp_path)
    whole = [store.entry(f"{KEY}.{by}", builder()) for by in ("a", "b")]
    (store.entry(f"{KEY}.c", builder()) / "file").write_text("damaged")
    store.entry(cache_key(kind="other"), builder())
    assert list(store.variants(KEY)) == whole
    assert list(BuildCache(tmp_path / "absent").variants(KEY)) == []


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
