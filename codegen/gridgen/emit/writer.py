"""Write output files atomically, and never overwrite files that grid-gen has not written.

A module's folder has a manifest, which lists the digest of every other file and names the robot's
file. A single file (a report, a wheel, the result of a pipeline) ends with a seal: the digest of
the preceding bytes. Files that match their digests may be replaced; all others are the user's.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from gridgen.errors import OptionError

#: The manifest of a module's folder.
MANIFEST = "manifest.json"
_FORCE = "--force (in Python: force=True)"
_SEAL = b"grid-gen sha256:"
_SEAL_BYTES = len(_SEAL) + 64
# A seal is a comment in a page, the archive comment of a zip file, and the last entry of a JSON
# object, which has no name.
_OPEN, _CLOSE = b"<!-- ", b" -->\n"
_JSON, _OPEN_ENTRY, _CLOSE_ENTRY = b"}\n", b',\n"": "', b'"}\n'
_ZIP = b"PK\x03\x04"
_SCRATCH = ".grid-gen-"
_BLOCK = 1 << 20


def write_folder(
    folder: Path, files: Mapping[str, str | bytes], source: str, digest: str, force: bool = False
) -> None:
    """Write a module's files and their manifest to a temporary folder, then rename it into place.

    An existing module is replaced. If the write fails, it stays unchanged.

    Args:
        folder: the module's.
        files:  their content by name.
        source: the robot's file as the user named it, or a word for a source that is not a file.
        digest: SHA-256 of the robot's text.
        force:  also replace files of those names and the files of another robot's manifest;
                other files in the folder stay.

    Raises:
        OptionError: the folder contains files of the user, or a module of another file, or cannot
            be written.
    """
    folder = Path(os.path.realpath(folder))
    content = {name: _bytes(text) for name, text in files.items()}
    content[MANIFEST] = _manifest(content, source, digest)
    replaced = check_folder(folder, source, digest, force, content)
    with _writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=folder.parent))
        fresh, old = scratch / "new", scratch / "old"
        try:
            fresh.mkdir()
            for name, data in content.items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                (fresh / name).write_bytes(data)
            _swap(folder, fresh, old)
            for path in replaced:
                (old / path).unlink()
        finally:  # remove the known files only
            shutil.rmtree(fresh, ignore_errors=True)
            with suppress(OSError):
                _move_content(old, folder)
                scratch.rmdir()


def check_folder(
    folder: Path, source: str, digest: str, force: bool = False, names: Iterable[str] = ()
) -> list[Path]:
    """Return the files of a folder that a module may replace, by their paths in it.

    Args:
        folder: the module's; it need not exist.
        source: see ``write_folder``.
        digest: see ``write_folder``.
        force:  see ``write_folder``.
        names:  the files to write.

    Raises:
        OptionError: see ``write_folder``.
    """
    if not os.path.lexists(folder):
        return []
    if not folder.is_dir():
        raise OptionError(f"{folder} is not a folder: choose another --output or --name")
    with _writing(folder):
        there = {path.relative_to(folder).as_posix() for path in _files(folder)}
        manifest = _read_manifest(folder)
        digests = manifest["files"]
        own = {MANIFEST, *filter(_is_bytecode, there)} if manifest["robot"] else set()
        if force:
            _check_no_folders(folder, names)
            return [Path(name) for name in sorted(there & {*own, *digests, *names})]
        if there and not manifest["robot"]:
            raise OptionError(
                f"{folder} has no {MANIFEST} of grid-gen, so {sorted(there)[0]} may be yours; an "
                "older grid-gen wrote none. Remove the folder, choose another --output or --name, "
                f"or overwrite files of the same names with {_FORCE}"
            )
        for name in sorted(there - own):
            if name not in digests and not _is_sealed(folder / name):
                raise OptionError(
                    f"{folder / name} is not a file of grid-gen: move it away, or leave it "
                    f"there and add the new module with {_FORCE}"
                )
            if name in digests and _digest(folder / name) != digests[name]:
                raise OptionError(
                    f"{folder / name} was changed after grid-gen wrote it: move it away, or "
                    f"overwrite it with {_FORCE}"
                )
    _check_robot(folder, manifest["robot"], source, digest)
    return [Path(name) for name in sorted(there & {*own, *digests})]


def check_file(path: Path, force: bool = False) -> None:
    """Raise unless a file may be written: it is absent, sealed by grid-gen, or a device or pipe.

    Raises:
        OptionError: it is a folder, or a file that grid-gen has not written.
    """
    if path.is_dir():
        raise OptionError(f"{path} is a folder; give the path of a file")
    with _writing(path):
        if path.is_file() and not force and not _is_sealed(path):
            raise OptionError(
                f"{path} exists and was not written by grid-gen, or has changed since: choose "
                f"another file, or overwrite it with {_FORCE}"
            )


def write_file(path: Path, fill: Callable[[BinaryIO], object], force: bool = False) -> None:
    """Write a page, a JSON object or a zip archive with a seal, atomically; see ``check_file``.

    If the path is a link to a file, that file is replaced.

    Args:
        path:  of the file.
        fill:  writes its content.
        force: also replace a file without a seal.

    Raises:
        OptionError: the path is not replaceable, or cannot be written.
    """
    check_file(path, force)
    with _writing(path):
        place = Path(os.path.realpath(path))
        if place.exists() and not place.is_file():  # a device or a pipe
            buffer = io.BytesIO()
            fill(buffer)
            place.write_bytes(buffer.getvalue())
            return
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=place.parent) as scratch:
            fresh = Path(scratch) / "new"
            with fresh.open("w+b") as file:
                fill(file)
                _seal(file)
            os.replace(fresh, place)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Convert an error of the operating system into one that names the path."""
    try:
        yield
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror or error}") from error


def _bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content


def _swap(folder: Path, fresh: Path, old: Path) -> None:
    """Rename a new folder into place, replacing an old one if it exists."""
    if folder.exists():
        folder.rename(old)
    try:
        fresh.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise


def _move_content(old: Path, folder: Path) -> None:
    """Move the remaining files to a folder, unless their names exist there; remove the old one."""
    if not old.is_dir():
        return
    for item in sorted(old.iterdir()):
        place = folder / item.name
        if item.is_dir() and not item.is_symlink():
            if place.is_dir() or not any(_files(item)):  # without files, as of bytecode now
                _move_content(item, place)
                continue
        if not os.path.lexists(place):
            item.rename(place)
    old.rmdir()


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder; folders are skipped."""
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        yield from (Path(place, name) for name in (*names, *links))


def _check_no_folders(folder: Path, names: Iterable[str]) -> None:
    """Raise if a folder has the name of a file to write."""
    for name in names:
        if (folder / name).is_dir():
            raise OptionError(f"{folder / name} is a folder: move it away")
        for above in (folder / name).relative_to(folder).parents:
            if os.path.lexists(folder / above) and not (folder / above).is_dir():
                raise OptionError(f"{folder / above} is not a folder: move it away")


def _is_bytecode(name: str) -> bool:
    """Return whether a file is Python's bytecode of a module."""
    return name.startswith("__pycache__/__init__.") and name.endswith(".pyc")


def _digest(path: Path) -> str:
    """Return the digest of a file; empty if the path is not a file."""
    is_plain = path.is_file() and not path.is_symlink()
    return hashlib.sha256(path.read_bytes()).hexdigest() if is_plain else ""


def _manifest(content: Mapping[str, bytes], source: str, digest: str) -> bytes:
    files = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(content.items())}
    robot = {"file": _name_of(source), "sha256": digest}
    return (json.dumps({"robot": robot, "files": files}, indent=2) + "\n").encode("ascii")


def _name_of(source: str) -> str | None:
    """Return the name of a robot's file, which is the same in every folder.

    Returns:
        ``None`` for a text, an object or a pipe, which have no name.
    """
    return Path(source).name if os.path.isfile(source) else None


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder; an empty one if grid-gen has not written any."""
    nothing: dict[str, Any] = {"robot": {}, "files": {}}
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        robot, files = manifest["robot"], manifest["files"]
        is_ours = {"file", "sha256"} == robot.keys() and all(
            isinstance(digest, str) for digest in files.values()
        )
        return {"robot": robot, "files": files} if is_ours else nothing
    except (AttributeError, FileNotFoundError, KeyError, TypeError, ValueError):
        return nothing


def _check_robot(folder: Path, robot: Mapping[str, Any], source: str, digest: str) -> None:
    """Raise unless a module was generated from a file of this name, or from the same text."""
    name = _name_of(source)
    if robot and digest != robot["sha256"] and (name is None or name != robot["file"]):
        other = f"another file, {robot['file']}" if robot["file"] else "another robot"
        raise OptionError(
            f"{folder} is the module of {other}: choose another --name or --output, or overwrite "
            f"it with {_FORCE}"
        )


def _seal(file: BinaryIO) -> None:
    """Add the digest of a page, an object or an archive at its end."""
    file.seek(0)
    head = file.read(len(_ZIP))
    is_archive, is_object = head == _ZIP, head[:1] == b"{"
    if is_archive:  # it ends with the length of its comment, 0 so far
        file.seek(-2, os.SEEK_END)
        file.write(_SEAL_BYTES.to_bytes(2, "little"))
    elif is_object:
        file.seek(-len(_JSON), os.SEEK_END)
        file.write(_OPEN_ENTRY)
    else:
        file.seek(0, os.SEEK_END)
        file.write(_OPEN)
    digest = _digest_until(file, file.tell())
    file.write(_SEAL + digest + (b"" if is_archive else _CLOSE_ENTRY if is_object else _CLOSE))


def _is_sealed(path: Path) -> bool:
    """Return whether a file is unchanged since ``write_file`` wrote it."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = max(file.seek(0, os.SEEK_END) - _SEAL_BYTES - len(_CLOSE), 0)
        file.seek(start)
        before, mark, seal = file.read().rpartition(_SEAL)
        digest, end = seal[:64], seal[64:]
        is_whole = bool(mark) and end in (b"", _CLOSE, _CLOSE_ENTRY)
        return is_whole and digest == _digest_until(file, start + len(before))


def _digest_until(file: BinaryIO, end: int) -> bytes:
    """Return the hexadecimal digest of a file's first bytes; leave the position behind them."""
    digest = hashlib.sha256()
    file.seek(0)
    while end > 0 and (block := file.read(min(end, _BLOCK))):
        digest.update(block)
        end -= len(block)
    return digest.hexdigest().encode()
