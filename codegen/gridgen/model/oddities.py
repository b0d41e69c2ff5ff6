"""What deserves a warning in a robot file, gathered so that each kind of trouble is told once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from gridgen.errors import UrdfError, warn

MOST_PLACES = 3
"""Places that a warning names beside the first."""


@dataclass(frozen=True)
class Oddity:
    """Something odd at one place of a file: told as ``subject: problem; advice``.

    Attributes:
        kind:    what it has in common with those that are told in the same line.
        subject: the element: ``joint "elbow"``.
        problem: what is wrong with it, with the value.
        advice:  what to do.
        line:    its line, where it has one.
    """

    kind: str
    subject: str
    problem: str
    advice: str
    line: int | None = None


_noted: ContextVar[list[str] | None] = ContextVar("_noted", default=None)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect what is warned of meanwhile; it is warned of nevertheless."""
    messages: list[str] = []
    token = _noted.set(messages)
    try:
        yield messages
    finally:
        _noted.reset(token)


def warn_of(oddities: Iterable[Oddity], source: str) -> None:
    """Warn of the oddities of one file: a line for each kind, which begins with the first place."""
    kinds: dict[str, list[Oddity]] = {}
    for oddity in oddities:
        kinds.setdefault(oddity.kind, []).append(oddity)
    for first, *others in kinds.values():
        message = f"{first.subject}: {first.problem}; {first.advice}{_elsewhere(others)}"
        if (messages := _noted.get()) is not None:
            messages.append(message)
        warn(str(UrdfError(message, source, first.line)))


def _elsewhere(others: list[Oddity]) -> str:
    """Return where else there is the same trouble: the first few places and how many there are."""
    if not others:
        return ""
    places = [f"{other.subject}{at_line(other.line)}" for other in others[:MOST_PLACES]]
    more = len(others) - len(places)
    return (
        f"; likewise in {len(others)} other place{'s' if len(others) > 1 else ''}: "
        f"{', '.join(places)}{f' and {more} more' if more else ''}"
    )


def at_line(line: int | None) -> str:
    """Return " (line 7)" for use inside a message, or nothing where there is no line."""
    return "" if line is None else f" (line {line})"
