"""Cache of generated source text across processes: a robot is traced and counted once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

from gridgen.backends import Rows, Sources
from gridgen.backends.cache import BuildCache, Part, cache_key
from gridgen.template_root import template_root


def cached_sources(make: Callable[[], Sources], **parts: Part) -> Sources:
    """Return the text of a kernel from the user's cache, or trace it.

    Args:
        make:  traces the kernel.
        parts: what determines the text, except the generator itself.
    """
    made: list[Sources] = []

    def text() -> str:
        made.append(make())
        return _as_text(made[0])

    found = cached_text(text, kind="text", **parts)
    return made[0] if made else _from_text(found or "")


def cached_text(make: Callable[[], str | None], **parts: Part) -> str | None:
    """Return a text from the user's cache, or make it.

    Args:
        make:  returns the text, or ``None`` for a result that is not cached.
        parts: what determines the text, except the generator itself.
    """
    return BuildCache().text(cache_key(generator=_generator(), **parts), make)


def _as_text(sources: Sources) -> str:
    rows = {name: asdict(rows) for name, rows in sources.rows.items()}
    return json.dumps([sources.robot, dict(sources.files), dict(sources.scratch), rows])


def _from_text(text: str) -> Sources:
    robot, files, scratch, rows = json.loads(text)
    return Sources(robot, files, scratch, {name: Rows.from_data(row) for name, row in rows.items()})


@cache
def _generator() -> tuple[str, ...]:
    """Return the state of the Python, template and header files: names, sizes, times.

    A version would suffice for installed packages, but not for work on the generator.
    """
    return tuple(sorted((*_states(Path(__file__).parent), *_states(template_root()))))


def _states(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".py", ".jinja", ".cuh", ".cu", ".h")):
                path = os.path.join(place, name)
                status = os.stat(path)
                yield f"{path[len(str(folder)) :]} {status.st_size} {status.st_mtime_ns}"
