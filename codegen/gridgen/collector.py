"""Python's collector of unreachable objects, which tracing would wake too often."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects made between two searches for those that only hold each other. Tracing makes millions that
# stay; Python's own 700 would let it spend a quarter of its time on going through them.
_OBJECTS_BETWEEN_SEARCHES = 100_000


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Let Python look for unreachable objects less often, in the whole process."""
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
