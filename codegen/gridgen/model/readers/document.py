"""Bytes -> XML document: nothing outside the file is opened, and no file can fill the memory."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, cast

from lxml import etree

from gridgen.errors import UrdfError
from gridgen.model.readers.vocabulary import split
from gridgen.naming import show
from gridgen.progress import announced

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
_DECLARATION = re.compile(rb"<[?!]?[ \t\r\n]*xml(?:version|[^-\w:.>])[^>]*>?", re.IGNORECASE)
_WEB_PAGE = re.compile(rb"<(?:!DOCTYPE[ \t\r\n]+)?html[ \t\r\n>]", re.IGNORECASE)
_PLACE = re.compile(r",? line \d+, column \d+$")
_ADVICE = {
    "sdf": "this is SDF: convert it to URDF",
    "html": "this is a web page: download the file itself",
}


Source = str | bytes | bytearray | memoryview | os.PathLike[Any]
"""A path, or a URDF itself."""


@dataclass(frozen=True)
class Document:
    """The root element of a file, and what a message needs to point into the file."""

    source: str
    digest: str
    root: etree._Element
    skipped_lines: int

    @property
    def tag(self) -> str:
        """The name of the outermost element."""
        return split(self.root.tag)[1]

    def line(self, element: etree._Element) -> int | None:
        """Return the line of an element; beyond 65535 libxml2 knows it only roughly."""
        line = cast("int | None", element.sourceline)
        return None if line is None else line + self.skipped_lines

    def error(self, message: str, element: etree._Element) -> UrdfError:
        """Return an error at an element."""
        return UrdfError(message, self.source, self.line(element))


def open_document(source: Source, called: str = "") -> Document:
    """Return the document of a path or of a text; see ``parse_urdf`` for which is which.

    Args:
        source: the path or the text.
        called: what messages call it, if not by its path.

    Raises:
        UrdfError: if there is no such file, or it is not XML.
    """
    data, name, encoding = _read(source)
    name = called or name
    text = data.removeprefix(_BOM)
    body = text.lstrip(BLANKS.encode())
    # XML forbids blanks before its declaration; files have them. Lines are counted with them.
    skipped_lines = text[: len(text) - len(body)].count(b"\n")
    _check_text(body, name)
    # Files in the wild call themselves XML 0.0, which libxml2 refuses; they mean 1.0.
    if odd := _ODD_VERSION.match(body):
        body = body[: odd.start(1)] + b"1.0" + body[odd.end(1) :]
    root = _parse(body, name, encoding, skipped_lines)
    return Document(name, hashlib.sha256(data).hexdigest(), root, skipped_lines)


def check_is_urdf(document: Document) -> None:
    """Refuse a document whose outermost element is not <robot>.

    Raises:
        UrdfError: it is something else.
    """
    if document.tag != "robot":
        advice = _ADVICE.get(
            document.tag.lower(), "a URDF file has <robot> as its outermost element"
        )
        raise document.error(
            f'the root element is {show(document.tag)}, not "robot"; {advice}', document.root
        )


def is_text(source: Source) -> TypeGuard[str]:
    """Return whether a ``str`` is a URDF itself, not a path."""
    return isinstance(source, str) and source.lstrip(BLANKS + "\ufeff").startswith("<")


def _read(source: Source) -> tuple[bytes, str, str | None]:
    """Return the bytes of a URDF, what messages call it, and its encoding where that is known."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), TEXT_SOURCE, None
    if is_text(source):
        # Unicode already: whatever encoding the text declares is no longer its own.
        return source.encode("utf-8", "surrogatepass"), TEXT_SOURCE, "utf-8"
    path = os.fsdecode(source)
    name = path if path.isprintable() and path.strip() and len(path) < 4096 else show(path)
    try:
        with _announced_if_slow(path), Path(path).open("rb") as stream:
            return stream.read(MAX_BYTES + 1), name, None
    except IsADirectoryError:
        reason = "it is a folder"
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = getattr(error, "strerror", None) or str(error)
    if not path:
        reason = "the path is empty"
    advice = "give the path of a URDF file" + (", or its text" if isinstance(source, str) else "")
    raise UrdfError(f"cannot be read ({reason}); {advice}", name)


def _announced_if_slow(path: str) -> AbstractContextManager[None]:
    """Report what is waited for where a path leads to a pipe: it may have no writer yet."""
    if stat.S_ISREG(os.stat(path).st_mode):
        return nullcontext()
    return announced(f"reading {path}: a program must write into it", everywhere=True)


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
        if source == TEXT_SOURCE:
            problem += "; bytes are the text itself: give a path as str"
    elif _WEB_PAGE.match(body, start := _after_prologue(body)):
        problem = _ADVICE["html"]
    elif body[start : start + 9].upper() == b"<!DOCTYPE":
        problem = _DOCTYPE_PROBLEM
    else:
        return
    raise UrdfError(problem, source)


_DOCTYPE_PROBLEM = (
    "has a <!DOCTYPE>, whose entities could read other files or fill the memory; remove it"
)


def _after_prologue(body: bytes) -> int:
    """Return where the first markup begins that is neither an instruction nor a comment."""
    at = 0
    while True:
        match = _SKIP_BLANKS.match(body, at)
        at = match.end() if match else at
        for opening, closing in ((b"<?", b"?>"), (b"<!--", b"-->")):
            if body.startswith(opening, at):
                end = body.find(closing, at)
                break
        else:
            return at
        if end < 0:
            return len(body)
        at = end + len(closing)


def _parse(body: bytes, source: str, encoding: str | None, skipped_lines: int) -> etree._Element:
    """Return the root element of a document that is well formed and closed in itself."""
    parser = _parser(encoding)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        log = cast("Iterable[etree._LogEntry]", parser.error_log)
        undeclared = etree.ErrorTypes.NS_ERR_UNDEFINED_NAMESPACE
        faults = [entry for entry in log if entry.type != undeclared]
        # An element with a prefix that nobody declares is of another vocabulary, whichever.
        root = None if faults else etree.fromstring(body, _parser(encoding, recover=True))
        if root is None or ":" in root.tag.rpartition("}")[2]:
            raise _syntax_error(body, error, faults, source, skipped_lines) from None
    # Seen again here: in UTF-16 the text above hides it.
    if root.getroottree().docinfo.internalDTD is not None:
        raise UrdfError(_DOCTYPE_PROBLEM, source)
    return root


def _parser(encoding: str | None, recover: bool = False) -> etree.XMLParser:
    return etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        recover=recover,
    )


def _syntax_error(
    body: bytes,
    error: etree.XMLSyntaxError,
    faults: Sequence[etree._LogEntry],
    source: str,
    skipped_lines: int,
) -> UrdfError:
    """Return what is wrong with a document, in the words of the parser."""
    first = faults[0] if faults else None
    line, column = (first.line, first.column) if first else error.position
    message = (first.message if first else error.msg) or "no reason given"
    reason = show(_PLACE.sub("", message), 200)
    problem = f"not well-formed XML: {reason}"
    if declaration := _declaration_before(body, line, column):
        quoted = show(declaration.replace('"', "'"), 100)
        advice = 'write <?xml version="1.0"?> in its place'
        if "encoding" in reason.lower():
            advice += ", and save the file as UTF-8"
        problem, line = f"the XML declaration {quoted} is malformed ({reason}); {advice}", 1
    elif first is not None and first.type == etree.ErrorTypes.ERR_RESERVED_XML_NAME:
        problem += "; remove it, or what stands before it"
    return UrdfError(problem, source, line + skipped_lines if line else None)


def _declaration_before(body: bytes, line: int, column: int) -> str:
    """Return the XML declaration if it is why the parser stopped at a place, else nothing."""
    match = _DECLARATION.match(body)
    if match is None:
        return ""
    declaration = match[0].decode("utf-8", "replace")
    lines = declaration.split("\n")
    stopped_within = (line, column) <= (len(lines), len(lines[-1]) + 1)
    return declaration if stopped_within or not declaration.startswith("<?") else ""
