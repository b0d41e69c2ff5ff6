"""Bytes -> XML document: nothing outside the file is opened, and no file can fill the memory."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from lxml import etree

from gridgen.errors import UrdfError
from gridgen.naming import show

BLANKS = " \t\r\n"
"""The white space of XML; ``str.split()`` and ``str.strip()`` alone take that of other scripts."""

MAX_BYTES = 32 * 2**20
"""A longer file is refused: it is no robot, or one full of data that dynamics does not need."""

MAX_MARKS = 1_000_000
"""Most "<" and "=" signs in a file: they bound its elements and attributes, hence the memory."""

TEXT_SOURCE = "<text>"
"""What stands in place of a file name in messages about a robot given as text."""

_BOM = b"\xef\xbb\xbf"
_SKIP_BLANKS = re.compile(rb"[ \t\r\n]*")
_ODD_VERSION = re.compile(rb"""<\?xml[ \t\r\n]+version=["'](?!1\.)([0-9.]{3})["']""")
_PLACE = re.compile(r",? line \d+, column \d+$")
_ADVICE = {
    "sdf": "this is SDF: convert it to URDF",
    "mujoco": "this is an MJCF model: convert it to URDF",
    "html": "this is a web page: download the file itself",
}


@dataclass(frozen=True)
class Document:
    """The root element of a URDF, and what a message needs to point into the file."""

    source: str
    digest: str
    root: etree._Element
    skipped_lines: int

    def line(self, element: etree._Element) -> int | None:
        """Return the line of an element; beyond 65535 libxml2 knows it only roughly."""
        line = cast("int | None", element.sourceline)
        return None if line is None else line + self.skipped_lines

    def error(self, message: str, element: etree._Element) -> UrdfError:
        """Return an error at an element."""
        return UrdfError(message, self.source, self.line(element))


def open_document(source: str | bytes | os.PathLike[str]) -> Document:
    """Return the document of a path or of a text; see ``parse_urdf`` for which is which.

    Raises:
        UrdfError: if there is no such file, or it is not XML with a <robot> as its root.
    """
    data, name, encoding = _read(source)
    text = data.removeprefix(_BOM)
    body = text.lstrip(BLANKS.encode())
    # XML forbids blanks before its declaration; files have them. Lines are counted with them.
    skipped_lines = text[: len(text) - len(body)].count(b"\n")
    _check_text(body, name)
    # Files in the wild call themselves XML 0.0, which libxml2 refuses; they mean 1.0.
    if odd := _ODD_VERSION.match(body):
        body = body[: odd.start(1)] + b"1.0" + body[odd.end(1) :]
    root = _parse(body, name, encoding, skipped_lines)
    document = Document(name, hashlib.sha256(data).hexdigest(), root, skipped_lines)
    tag = etree.QName(root).localname
    if tag != "robot":
        advice = _ADVICE.get(tag.lower(), "a URDF file has <robot> as its outermost element")
        raise document.error(f'the root element is {show(tag)}, not "robot"; {advice}', root)
    return document


def _read(source: str | bytes | os.PathLike[str]) -> tuple[bytes, str, str | None]:
    """Return the bytes of a URDF, what messages call it, and its encoding where that is known."""
    if isinstance(source, bytes):
        return source, TEXT_SOURCE, None
    if isinstance(source, str) and source.lstrip(BLANKS + "\ufeff").startswith("<"):
        # Unicode already: whatever encoding the text declares is no longer its own.
        return source.encode("utf-8", "surrogatepass"), TEXT_SOURCE, "utf-8"
    path = os.fspath(source)
    name = path if path.isprintable() and len(path) < 4096 else show(path)
    try:
        with Path(path).open("rb") as stream:
            return stream.read(MAX_BYTES + 1), name, None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise UrdfError(
            f"cannot be read ({reason}); give the path of a URDF file, or its text", name
        ) from None


def _check_text(body: bytes, source: str) -> None:
    """Refuse, before a parser sees it, what is not XML, too large, or defines entities."""
    if len(body) > MAX_BYTES:
        problem = f"longer than {MAX_BYTES // 2**20} MiB; a URDF describes a robot in far less"
    elif body.count(b"<") + body.count(b"=") > MAX_MARKS:
        problem = f"more than {MAX_MARKS:,} elements and attributes; a robot needs far fewer"
    elif not body:
        problem = "the file is empty; a URDF begins with <robot>"
    elif body.startswith(b"version https://git-lfs"):
        problem = "a Git LFS pointer, not the file itself; run: git lfs pull"
    elif not body.startswith((b"<", b"\xff\xfe", b"\xfe\xff")):  # the others: UTF-16
        problem = f"not XML: begins with {show(body[:16].decode('latin-1'))}, not with <"
    elif _has_doctype(body):
        problem = _DOCTYPE_PROBLEM
    else:
        return
    raise UrdfError(problem, source)


_DOCTYPE_PROBLEM = (
    "has a <!DOCTYPE>, whose entities could read other files or fill the memory; remove it"
)


def _has_doctype(body: bytes) -> bool:
    """Return whether a document type comes before the root element."""
    at = 0
    while True:
        match = _SKIP_BLANKS.match(body, at)
        at = match.end() if match else at
        for opening, closing in ((b"<?", b"?>"), (b"<!--", b"-->")):
            if body.startswith(opening, at):
                end = body.find(closing, at)
                break
        else:
            return body.startswith(b"<!DOCTYPE", at)
        if end < 0:
            return False
        at = end + len(closing)


def _parse(body: bytes, source: str, encoding: str | None, skipped_lines: int) -> etree._Element:
    """Return the root element of a document that is well formed and closed in itself."""
    parser = etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        reason = show(_PLACE.sub("", error.msg or "no reason given"), 200)
        line = error.lineno + skipped_lines if error.lineno else None
        raise UrdfError(f"not well-formed XML: {reason}", source, line) from None
    # Seen again here: in UTF-16 the text above hides it.
    if root.getroottree().docinfo.internalDTD is not None:
        raise UrdfError(_DOCTYPE_PROBLEM, source)
    return root
