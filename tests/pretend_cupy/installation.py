"""The stand-in in the place of CuPy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from gridgen import backends
from pretend_cupy.face import modules
from pretend_cupy.machine import Machine, Settings, start


@contextmanager
def installed(settings: Settings) -> Iterator[Machine]:
    """Let ``import cupy`` find the stand-in, and grid-gen's ``cuda`` backend its devices.

    At the end all work must be done and in order.

    Args:
        settings: what the machine is like.

    Raises:
        ImportError: NVRTC is missing, which comes with CuPy.
        MisuseError: something that was enqueued is not in order.
    """
    # CuPy proper finds NVRTC's library, before it is hidden.
    import cupy  # noqa: F401
    from cupy_backends.cuda.libs import nvrtc

    nvrtc.getVersion()
    hidden = {name: None for name in sys.modules if name.split(".")[0] in ("cupy", "cupyx")}
    with mock.patch.dict(sys.modules, hidden | modules()):
        backends._create.cache_clear()
        machine = start(settings)
        try:
            yield machine
            machine.settle()
        finally:
            backends._create.cache_clear()
