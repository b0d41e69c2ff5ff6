from __future__ import annotations

import contextlib
import errno
import itertools
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

from gridgen import user_cache
from gridgen.backends import cache, eviction
from gridgen.backends.cache import BuildCache, cache_key, is_whole
from gridgen.commands import main as cli
from gridgen.cost.profile import DeviceIdentity, Profile, find_profile
from gridgen.errors import CompileError, GridGenWarning
from gridgen.symbolic.joints import joint_form

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
    monkeypatch.setattr(cache, "exclusively", lambda path: contextlib.nullcontext())


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
    user_cache._warn_once.cache_clear()
    mkdtemp = tempfile.mkdtemp
    refused: list[Path] = []

    def refusing(*args, **options):
        if Path(options.get("dir") or "/") in refused:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return mkdtemp(*args, **options)

    monkeypatch.setattr(tempfile, "mkdtemp", refusing)
    yield refused.append
    user_cache._warn_once.cache_clear()


def test_a_read_only_cache_gives_way_to_a_temporary_folder_with_one_warning(tmp_path, read_only):
    read_only(tmp_path)
    key, other = cache_key(test=str(tmp_path)), cache_key(test=f"{tmp_path}, another")
    with pytest.warns(GridGenWarning, match=r"cannot be used \(Read-only"):
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
    user_cache._warn_once.cache_clear()

    def build(folder: Path) -> None:
        (full if folder.parent == tmp_path else builder())(folder)

    with pytest.warns(GridGenWarning, match=r"cannot be used \(No space left"):
        entry = BuildCache(tmp_path).entry(cache_key(test=str(tmp_path)), build)
    assert (entry / "file").read_text() == "content"
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_finds_no_room_leaves_no_entry(tmp_path, monkeypatch):
    user_cache._warn_once.cache_clear()
    publish = cache._publish

    def refusing(staging: Path, folder: Path, key: str) -> Path:
        return full(staging) if folder == tmp_path else publish(staging, folder, key)

    monkeypatch.setattr(cache, "_publish", refusing)
    with pytest.warns(GridGenWarning, match="No space left"):
        BuildCache(tmp_path).entry(cache_key(test=f"{tmp_path} manifest"), builder())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*the cache cannot be used")
def test_no_room_anywhere_is_explained(tmp_path):
    with pytest.raises(CompileError, match=r"No space left on device.*free disk space, or set"):
        BuildCache(tmp_path).entry(KEY, full)


@pytest.mark.filterwarnings("ignore:.*the cache cannot be used")
def test_a_folder_that_no_system_takes_gives_way_too(tmp_path):
    entry = BuildCache(tmp_path / ("x" * 300)).entry(cache_key(test=str(tmp_path)), builder())
    assert (entry / "file").read_text() == "content"


@pytest.mark.filterwarnings("ignore:.*the cache cannot be used")
def test_a_failure_that_finds_no_room_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", lambda *_, **__: full(tmp_path))
    assert BuildCache(tmp_path).save_failure(KEY, {"a.cu": "text"}) is None


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
    old, new = (cache_key(kind=kind) for kind in ("old", "new"))
    building = [f"{eviction.BUILDING}{name}" for name in ("old", "new")]
    others = ["other", "building-drawings"]  # what a user has, who names a folder of his own
    for name in (*building, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("half")
    for name in (f"{old}.lock", f"{new}.lock", "poetry.lock"):
        (tmp_path / name).write_text("")
    for name in (building[0], f"{old}.lock", "poetry.lock", *others):
        os.utime(tmp_path / name, (yesterday, yesterday))
    BuildCache(tmp_path).entry(KEY, builder())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {building[1], f"{new}.lock", "poetry.lock", *others, KEY}


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
    first = store.save_failure(KEY, {"a.cu": "text"})
    assert store.save_failure(KEY, {"a.cu": "text"}) == first
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


# -- whose it is --------------------------------------------------------------------------------


@pytest.fixture
def warned_anew():
    """Let warnings be seen that are given once for each folder and reason."""
    user_cache._warn_once.cache_clear()
    user_cache.warn_of.cache_clear()


posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@posix
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022])
@pytest.mark.parametrize("first", ["joint", "entry", "text", "failure", "profile"])
def test_whoever_makes_the_folder_makes_it_for_the_user_alone(first, umask, cache_folder):
    makes = {
        "joint": lambda: (joint_form.cache_clear(), joint_form("revolute")),
        "entry": lambda: BuildCache().entry(KEY, builder()),
        "text": lambda: BuildCache().text(KEY, lambda: "text"),
        "failure": lambda: BuildCache().save_failure(KEY, {"a.cu": "text"}),
        "profile": Profile("arm", "d" * 64, DeviceIdentity("GPU", "sm_90", "1"), False, {}).keep,
    }
    os.environ[cache.FOLDER_VARIABLE] = str(cache_folder / "deep" / "er")
    before = os.umask(umask)
    try:
        makes[first]()
    finally:
        os.umask(before)
    folders = [cache_folder, *(path for path in cache_folder.rglob("*") if path.is_dir())]
    assert len(folders) >= 4
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def opened(folder: Path) -> str:
    folder.chmod(0o777)
    return "others may write into it, its mode is 777"


def of_a_group(folder: Path) -> str:
    folder.chmod(0o770)
    return "its mode is 770"


def given_away(folder: Path) -> str:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, 4242, -1)
    return "it belongs to another user, number 4242"


def linked(folder: Path) -> str:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")
    return "it is a link"


@posix
@pytest.mark.usefixtures("warned_anew")
@pytest.mark.parametrize("change", [opened, of_a_group, given_away, linked])
def test_a_folder_that_is_not_the_users_alone_is_not_read(change, cache_folder):
    for key in (KEY, f"{KEY}.variant"):
        BuildCache().entry(key, builder("planted"))
    text, form = cache_key(kind="text", of=str(cache_folder)), cache_key(form=str(cache_folder))
    BuildCache().text(text, lambda: "planted")
    why = change(cache_folder)
    with pytest.warns(GridGenWarning, match=why) as warned:
        assert BuildCache().text(text, lambda: "right") == "right"
    assert str(cache_folder) in str(warned[0].message)
    assert "GRIDGEN_CACHE_DIR" in str(warned[0].message)
    with warnings.catch_warnings():  # it is said once
        warnings.simplefilter("error")
        entries = [BuildCache().entry(key, builder("right")) for key in (form, KEY)]
    for made in entries:
        assert (made / "file").read_text() == "right"
        assert cache_folder not in made.parents
        assert made.parent.stat().st_mode & 0o777 == 0o700
    assert list(BuildCache().variants(f"{KEY}.variant")) == []
    assert len(list(cache_folder.iterdir())) == 3


@posix
@pytest.mark.usefixtures("warned_anew")
@pytest.mark.parametrize("change", [opened, given_away, linked])
def test_an_entry_that_is_not_the_users_alone_is_made_anew(change, cache_folder):
    planted = BuildCache().entry(KEY, builder("planted"))
    why = change(planted)
    with pytest.warns(GridGenWarning, match=f"not loaded, will be recreated .{why}"):
        again = BuildCache().entry(KEY, builder("right"))
    assert (again / "file").read_text() == "right"


@posix
@pytest.mark.usefixtures("warned_anew")
def test_joints_and_profiles_that_others_may_have_written_are_not_read(cache_folder):
    profile = Profile("arm", "d" * 64, DeviceIdentity("GPU", "sm_90", "1"), False, {})
    joint_form.cache_clear()
    form = joint_form("revolute")
    path = profile.keep()
    for folder in ("joints", "profiles"):
        (cache_folder / folder).chmod(0o777)
    (memory,) = (cache_folder / "joints").glob("revolute*")
    memory.write_text(memory.read_text().replace("cos", "sin"))
    joint_form.cache_clear()
    with pytest.warns(GridGenWarning, match="joints: .*others may write into it"):
        assert joint_form("revolute") == form
    with pytest.warns(GridGenWarning, match="profiles: .*others may write into it"):
        assert find_profile(profile.digest, profile.place) == (None, "")
    assert path.exists()
    joint_form.cache_clear()


@posix
@pytest.mark.usefixtures("warned_anew")
@pytest.mark.parametrize("named", [None, "~/cache"])
@pytest.mark.parametrize("finder", ["platformdirs", "an older platformdirs", "none"])
def test_without_a_home_a_temporary_folder_serves(named, finder, tmp_path, monkeypatch):
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv(cache.FOLDER_VARIABLE)
    monkeypatch.chdir(tmp_path)
    if named:
        monkeypatch.setenv(cache.FOLDER_VARIABLE, named)
    if finder == "none":
        monkeypatch.setitem(sys.modules, "platformdirs", None)
    elif finder == "an older platformdirs":
        monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: f"~/.cache/{name}")
    with pytest.warns(GridGenWarning, match="there is no home folder"):
        entry = BuildCache().entry(cache_key(home=str(tmp_path)), builder())
    assert entry.is_absolute()
    assert entry.parent.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_fork_leaves_its_parent_the_temporary_folder(tmp_path):
    program = """
import os, sys
from gridgen.user_cache import _process_folder
folder = _process_folder(os.getpid())
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    assert folder.is_dir()
    print(folder)
sys.exit()
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not Path(run.stdout.strip()).exists()


# -- how much it keeps --------------------------------------------------------------------------


def filled(folder: Path, count: int) -> list[Path]:
    """Return entries of 1000 bytes or more, the oldest first, last used hours ago."""
    entries = []
    for number in range(count):
        entry = BuildCache(folder).entry(cache_key(number=number), builder("x" * 1000))
        used = time.time() - 3600 * (2 + count - number)
        os.utime(entry, (used, used))
        entries.append(entry)
    return entries


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    entries = filled(tmp_path, 6)
    total = sum(item.bytes for item in eviction.items(tmp_path))
    BuildCache(tmp_path).entry(entries[0].name, forbidden)  # used now
    assert eviction.trim(tmp_path, total // 2, 3600.0) <= total // 2
    assert sorted(tmp_path.iterdir()) == sorted([entries[0], *entries[4:]])
    assert eviction.trim(tmp_path, total // 2, 3600.0) <= total // 2
    assert eviction.trim(tmp_path, 0, 3600.0) > 1000  # within the hour nothing goes
    assert list(tmp_path.iterdir()) == [entries[0]]


def test_new_entries_have_old_ones_removed(tmp_path, monkeypatch):
    old = filled(tmp_path, 8)
    monkeypatch.setattr(eviction, "LIMIT", 3000)
    keys = (cache_key(new=number) for number in itertools.count())
    added = []
    while any(entry.exists() for entry in old) and len(added) < 20 * eviction._SELDOM:
        added.append(next(keys))
        BuildCache(tmp_path).text(added[-1], lambda: "text")
    assert not any(entry.exists() for entry in old)
    assert all((tmp_path / key).exists() for key in added)


def test_nothing_of_the_users_is_removed_where_the_cache_is_among_it(tmp_path):
    filled(tmp_path, 2)
    mine = ["zig", "failed/thesis", "joints", "d" * 63, "D" * 64, f"{'d' * 64}.pdf/.."]
    for name in mine[:-1]:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "thesis.tex").write_text("years of work")
    (tmp_path / ("e" * 64)).write_text("a file")
    (tmp_path / ("f" * 64)).symlink_to("zig")
    assert eviction.trim(tmp_path, 0, 0.0) == 0
    assert len(list(tmp_path.rglob("thesis.tex"))) == 5
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"zig", "failed", "joints", *mine[3:5], "e" * 64, "f" * 64}


def test_an_entry_that_is_used_while_others_go_stays(tmp_path, monkeypatch):
    _, second = filled(tmp_path, 2)
    make = tempfile.mkdtemp

    def slow(*arguments, **options):
        BuildCache(tmp_path).entry(second.name, forbidden)
        return make(*arguments, **options)

    monkeypatch.setattr(tempfile, "mkdtemp", slow)
    assert eviction.trim(tmp_path, 0, 3600.0) > 1000
    assert [path.name for path in tmp_path.iterdir()] == [second.name]


TRIMMED = """
import os, sys, time
from pathlib import Path
from gridgen.backends import eviction
from gridgen.backends.cache import BuildCache, cache_key
folder, role, end = Path(sys.argv[1]), sys.argv[2], time.monotonic() + 1.5
built = 0

def build(entry):
    global built
    built += 1
    (entry / "file").write_text(role)

while time.monotonic() < end:
    if role == "trims":
        eviction.trim(folder, 0, 60.0)
        continue
    for number in range(4):
        entry = BuildCache(folder).entry(cache_key(role=role, number=number), build)
        for _ in range(20):
            assert (entry / "file").read_text() == role
        os.utime(entry, (1e9, 1e9))  # as if an hour went by
assert role == "trims" or built > 8, "nothing was removed"
"""


def test_processes_use_entries_while_others_remove_them(tmp_path):
    roles = ["trims", "uses", "uses too", "trims"]
    processes = [
        subprocess.Popen([sys.executable, "-c", TRIMMED, str(tmp_path), role]) for role in roles
    ]
    assert [process.wait(60) for process in processes] == [0] * 4


def test_the_command_shows_and_empties_the_cache(cache_folder, capsys):
    filled(cache_folder, 3)
    BuildCache().save_failure(KEY, {"a.cu": "text"})
    (cache_folder / "profiles").mkdir()
    assert cli.main(["cache"]) == cli.main(["cache", "--size"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[1] == f"0.0 MB in 4 entries of {cache_folder}"
    assert cli.main(["cache", "--clear"]) == 0
    assert f"from {cache_folder}" in capsys.readouterr().out
    assert sorted(path.name for path in cache_folder.iterdir()) == ["failed", "profiles"]
    with pytest.raises(SystemExit):
        cli.main(["cache", "--size", "--clear"])
