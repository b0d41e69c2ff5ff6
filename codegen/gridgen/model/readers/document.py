"""Bytes -> XML document, without access to other files and with bounded memory."""

from __future__ import annotations

import hashlib
import math
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
from gridgen.model.description import xacro_hint
from gridgen.model.pose import Vector3
from gridgen.model.readers.vocabulary import split
from gridgen.naming import show
from gridgen.progress import announced

BLANKS = " \t\r\n"
"""XML whitespace; ``str.split()`` and ``str.strip()`` would include Unicode whitespace."""

MAX_BYTES = 32 * 2**20
"""Maximum size of a file."""

MAX_MARKS = 1_000_000
"""Maximum number of "<" and "=" signs, which bound elements, attributes and memory."""

TEXT_SOURCE = "<text>"
"""Source name in messages about a robot given as text."""

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
"""Path, or URDF text."""


@dataclass(frozen=True)
class Document:
    """Root element of a file, with its source and line offset for messages."""

    source: str
    digest: str
    root: etree._Element
    skipped_lines: int

    @property
    def tag(self) -> str:
        """Local name of the root element."""
        return split(self.root.tag)[1]

    def line(self, element: etree._Element) -> int | None:
        """Return the line of an element; libxml2 approximates lines beyond 65535."""
        line = cast("int | None", element.sourceline)
        return None if line is None else line + self.skipped_lines

    def error(self, message: str, element: etree._Element) -> UrdfError:
        """Return an error with the element's line."""
        return UrdfError(message, self.source, self.line(element))


def open_document(source: Source, called: str = "") -> Document:
    """Open a path or a text; ``parse_urdf`` defines which ``str`` is a path.

    Args:
        source: path or text.
        called: name in messages; the default is the path.

    Raises:
        UrdfError: if the file does not exist or is not XML.
    """
    data, name, encoding = _read(source)
    name = called or name
    text = data.removeprefix(_BOM)
    body = text.lstrip(BLANKS.encode())
    # XML forbids whitespace before the declaration, but files have it. Line numbers include it.
    skipped_lines = text[: len(text) - len(body)].count(b"\n")
    _check_text(body, name)
    # Some files declare XML 0.0, which libxml2 rejects; they mean 1.0.
    if odd := _ODD_VERSION.match(body):
        body = body[: odd.start(1)] + b"1.0" + body[odd.end(1) :]
    root = _parse(body, name, encoding, skipped_lines)
    return Document(name, hashlib.sha256(data).hexdigest(), root, skipped_lines)


def check_is_urdf(document: Document) -> None:
    """Raise UrdfError for a document whose root element is not <robot>."""
    if document.tag != "robot":
        advice = _ADVICE.get(document.tag.lower(), "the root element of a URDF file is <robot>")
        raise document.error(
            f'the root element is {show(document.tag)}, not "robot"; {advice}', document.root
        )


def is_text(source: Source) -> TypeGuard[str]:
    """Return whether a ``str`` is URDF text, not a path."""
    return isinstance(source, str) and source.lstrip(BLANKS + "\ufeff").startswith("<")


def _read(source: Source) -> tuple[bytes, str, str | None]:
    """Return the bytes of a URDF, its name in messages, and its encoding if known."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), TEXT_SOURCE, None
    if is_text(source):
        # The text is Unicode already: the declared encoding no longer applies.
        return source.encode("utf-8", "surrogatepass"), TEXT_SOURCE, "utf-8"
    path = os.fsdecode(source)
    name = path if path.strip() and len(path) < 4096 else show(path)
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


def _announced_if_slow(path: str) -> AbstractContextManager[object]:
    """Report the wait for a path that is not a regular file: a pipe may have no writer yet."""
    if stat.S_ISREG(os.stat(path).st_mode):
        return nullcontext()
    return announced(f"reading {path}: waiting for a program to write to it")


def _check_text(body: bytes, source: str) -> None:
    """Raise for text that is not XML, too large, or defines entities, before it is parsed."""
    if len(body) > MAX_BYTES:
        problem = f"longer than {MAX_BYTES // 2**20} MiB, the limit for a URDF; remove other data"
    elif body.count(b"<") + body.count(b"=") > MAX_MARKS:
        problem = f"more than {MAX_MARKS:,} elements and attributes; remove those not of the robot"
    elif not body:
        problem = "the file is empty; a URDF begins with <robot>"
    elif body.startswith(b"version https://git-lfs"):
        problem = "a Git LFS pointer, not the file itself; run: git lfs pull"
    elif not body.startswith((b"<", b"\xff\xfe", b"\xfe\xff")):  # the others: UTF-16
        problem = f"not XML: begins with {show(body[:16].decode('latin-1'))}, not with <"
        if source == TEXT_SOURCE:
            problem += "; bytes are read as text: give a path as str"
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
    """Return the position of the first markup that is not an instruction or a comment."""
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
    """Return the root element of a well-formed document without a DTD."""
    parser = _parser(encoding)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        log = cast("Iterable[etree._LogEntry]", parser.error_log)
        undeclared = etree.ErrorTypes.NS_ERR_UNDEFINED_NAMESPACE
        faults = [entry for entry in log if entry.type != undeclared]
        # An undeclared prefix belongs to another vocabulary: parse again and recover.
        root = None if faults else etree.fromstring(body, _parser(encoding, recover=True))
        if root is None or ":" in root.tag.rpartition("}")[2]:
            raise _syntax_error(body, error, faults, source, skipped_lines) from None
    # Checked again: _check_text cannot find a DTD in UTF-16.
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
    """Return the error for a malformed document, with the parser's reason."""
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
        problem += "; remove it, or the text before it"
    return UrdfError(problem, source, line + skipped_lines if line else None)


def _declaration_before(body: bytes, line: int, column: int) -> str:
    """Return the XML declaration if it caused the error at this position, else an empty string."""
    match = _DECLARATION.match(body)
    if match is None:
        return ""
    declaration = match[0].decode("utf-8", "replace")
    lines = declaration.split("\n")
    stopped_within = (line, column) <= (len(lines), len(lines[-1]) + 1)
    return declaration if stopped_within or not declaration.startswith("<?") else ""


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


class Values:
    """Parser of attributes in one document."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def attribute(self, element: etree._Element, name: str, where: str) -> str:
        """Return a required attribute."""
        value = element.get(name)
        if value is None:
            raise self.document.error(f'{where} has no attribute {name}; add {name}="..."', element)
        return value

    def number(self, element: etree._Element, name: str, what: str) -> float:
        """Return one required number."""
        self.attribute(element, name, what)
        return self.numbers(element, name, what, 1)[0]

    def optional(
        self,
        element: etree._Element | None,
        name: str,
        what: str,
        default: float,
        infinite: bool = False,
    ) -> float:
        """Return one number, or the default where the attribute is absent."""
        if element is None or name not in element.attrib:
            return default
        return self.numbers(element, name, what, 1, infinite)[0]

    def triple(self, element: etree._Element, name: str, what: str, default: Vector3) -> Vector3:
        """Return three numbers, or the default where the attribute is absent."""
        if name not in element.attrib:
            return default
        x, y, z = self.numbers(element, name, f"{what} {name}", 3)
        return (x, y, z)

    def numbers(
        self, element: etree._Element, name: str, what: str, count: int, infinite: bool = False
    ) -> list[float]:
        """Return the numbers of an attribute: exactly ``count``, finite, in plain ASCII."""
        text = self.attribute(element, name, what)
        if len(text) > 1000:
            raise self.document.error(
                f"{what} is {show(text)}; write {_plural(count)} with fewer digits", element
            )
        words = re.findall(f"[^{BLANKS}]+", text)
        values = []
        for word in words:
            if infinite and _INFINITE.fullmatch(word):
                values.append(-math.inf if word.startswith("-") else math.inf)
                continue
            if not _NUMBER.fullmatch(word):
                raise self.document.error(
                    f"{what} is {show(text)}: {show(word)} is not a number"
                    f"{xacro_hint(text) or '; write it like 1.5 or -2e-3'}",
                    element,
                )
            value = float(word)
            if not math.isfinite(value):
                raise self.document.error(
                    f"{what} is {show(text)}: {show(word)} is not finite in float64", element
                )
            values.append(value + 0.0)  # no negative zeros: they would print as -0.0
        if len(values) != count:
            raise self.document.error(
                f"{what} is {show(text)}: expected {_plural(count)}, got {len(values)}", element
            )
        return values


def _plural(count: int) -> str:
    return "one number" if count == 1 else f"{count} numbers"
