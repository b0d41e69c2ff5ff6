"""Pinocchio called from a C++ loop with no binding between: the fairest comparison."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
from cases import INPUTS, KEYS, Case, States
from native import Unavailable, compiled, installed, pointers

from peers import Contestant
from peers.pinocchio_model import build, frames, positions

# As Pinocchio's own build configuration sets them.
_DEFINITIONS = (
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
)

Entry = tuple[Callable[..., None], ctypes.c_void_p]


class Peer:
    """One robot, and one workspace for each thread and function."""

    name = "Pinocchio C++ loop"

    def __init__(self, case: Case, threads: int) -> None:
        self._case = case
        self._model = build(case)
        self._threads = threads
        self._prefix = Path(pinocchio.__file__).parents[4]
        self._entries: dict[str, Entry] = {}
        self._eigen = installed("cmeel.prefix/include/eigen3") or Path("/usr/include/eigen3")
        if not (self._eigen / "Eigen").is_dir():
            raise Unavailable("the headers of Eigen are missing: pip install cmeel-eigen")

    def contestants(self, function: str, states: States) -> dict[str, Contestant]:
        """Return the function in float64; both ways to forward dynamics compete with one here."""
        name = KEYS[function].function
        source = Path(__file__).with_name("pinocchio_functions") / f"{name}.cpp"
        if not source.exists():
            return {}
        if name not in self._entries:
            if (found := self._entry(source, name)) is None:
                return {}
            self._entries[name] = found
        entry, loop = self._entries[name]
        inputs = [np.ascontiguousarray(states[x]) for x in INPUTS[function]]
        inputs[0] = np.ascontiguousarray(positions(self._model, self._case, inputs[0]))
        batch = len(inputs[0])
        outputs = [np.empty((batch, *shape)) for shape in self._case.result_shapes(function)]
        arguments = (loop, ctypes.c_long(batch), pointers(inputs), pointers(outputs))
        return {
            self.name: Contestant(
                partial(entry, *arguments),
                lambda inputs=inputs: outputs,  # the memory of both outlives the call
            )
        }

    def _entry(self, source: Path, function: str) -> Entry | None:
        """Return the compiled function and its workspace."""
        library = self._compiled(source, "-lboost_serialization", takes_minutes=True)
        text = self._model.saveToString()
        return library.evaluate, self._loop(library, text, function)

    def _compiled(self, source: Path, *flags: str, **options: Any) -> ctypes.CDLL:
        """Return the library made of a file that includes Pinocchio's headers."""
        return compiled(
            source,
            (
                "-fopenmp",
                *_DEFINITIONS,
                f"-I{self._prefix}/include",
                f"-I{self._eigen}",
                f"-L{self._prefix}/lib",
                f"-Wl,--no-as-needed,-rpath,{self._prefix}/lib",
                *flags,
            ),
            headers=[Path(__file__).with_suffix(".h")],
            **options,
        )

    def _loop(self, library: ctypes.CDLL, text: str, function: str) -> ctypes.c_void_p:
        """Return a model that the library reads from a text, and workspaces."""
        library.make_loop.restype = ctypes.c_void_p
        numbers = frames(self._model, self._case, function)
        loop = library.make_loop(
            text.encode(),
            ctypes.c_long(len(text.encode())),
            self._case.floating_base,
            self._threads,
            (ctypes.c_long * len(numbers))(*numbers),
            ctypes.c_long(len(numbers)),
        )
        return ctypes.c_void_p(loop)
