"""Pinocchio's own library, for any processor of its architecture, called from a C++ loop."""

from __future__ import annotations

from pathlib import Path

from cases import Case
from native import Unavailable, installed

from peers import pinocchio_loop
from peers.pinocchio_loop import Entry


class Peer(pinocchio_loop.Peer):
    """One robot, and one workspace for each function."""

    name = "Pinocchio's library"

    def __init__(self, case: Case, threads: int) -> None:
        super().__init__(case, threads)
        headers = installed("cmeel.prefix/include/urdfdom_headers")
        if headers is None:
            raise Unavailable("headers are missing: pip install cmeel-urdfdom-headers")
        # The flags that the library itself is compiled with decide how arrays are aligned.
        self._library = self._compiled(
            Path(__file__).with_suffix(".cpp"),
            f"-I{headers}",
            "-lpinocchio_default",
            "-lpinocchio_parsers",
            optimized=("-O1", "-DNDEBUG"),
        )

    def _entry(self, source: Path, function: str) -> Entry | None:
        """Return the function of the library and its workspace; none if the file has it not."""
        entry = getattr(self._library, function, None)
        return entry and (entry, self._loop(self._library, self._case.urdf, function))
