"""Pinocchio called from a C++ loop with no binding between: the fairest comparison."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path

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


class Peer:
    """One robot, and one workspace for each thread and function."""

    def __init__(self, case: Case, threads: int) -> None:
        self._case = case
        self._model = build(case)
        self._threads = threads
        self._entries: dict[str, tuple[Callable[..., None], ctypes.c_void_p]] = {}
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
            self._entries[name] = self._entry(source, name)
        entry, loop = self._entries[name]
        inputs = [np.ascontiguousarray(states[x]) for x in INPUTS[function]]
        inputs[0] = np.ascontiguousarray(positions(self._model, self._case, inputs[0]))
        batch = len(inputs[0])
        outputs = [np.empty((batch, *shape)) for shape in self._case.result_shapes(function)]
        arguments = (loop, ctypes.c_long(batch), pointers(inputs), pointers(outputs))
        return {
            "Pinocchio C++ loop": Contestant(
                partial(entry, *arguments),
                lambda inputs=inputs: outputs,  # the memory of both outlives the call
            )
        }

    def _entry(self, source: Path, function: str) -> tuple[Callable[..., None], ctypes.c_void_p]:
        """Return the compiled function and its workspace."""
        prefix = Path(pinocchio.__file__).parents[4]
        library = compiled(
            source,
            (
                "-fopenmp",
                *_DEFINITIONS,
                f"-I{prefix}/include",
                f"-I{self._eigen}",
                f"-L{prefix}/lib",
                f"-Wl,--no-as-needed,-rpath,{prefix}/lib",
                "-lboost_serialization",
            ),
            headers=[Path(__file__).with_suffix(".h")],
            takes_minutes=True,
        )
        library.make_loop.restype = ctypes.c_void_p
        text = self._model.saveToString().encode()
        numbers = frames(self._model, self._case, function)
        loop = library.make_loop(
            text,
            ctypes.c_long(len(text)),
            self._threads,
            (ctypes.c_long * len(numbers))(*numbers),
            ctypes.c_long(len(numbers)),
        )
        return library.evaluate, ctypes.c_void_p(loop)
