"""Python's garbage collector, which runs too often during tracing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects allocated between two collections. Tracing allocates millions of permanent objects: with
# Python's default of 700 the collector would use a quarter of the time, with 100,000 a seventh.
_OBJECTS_BETWEEN_SEARCHES = 2_000_000


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Run Python's garbage collector less often, in the whole process."""
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
