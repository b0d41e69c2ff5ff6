"""MuJoCo's C routines called from a C++ loop: the parts that a function needs, nothing more."""

from __future__ import annotations

import ctypes
from functools import partial
from pathlib import Path

import mujoco
import numpy as np
from cases import INPUTS, Case, States
from native import Unavailable, compiled, pointers

from peers import Contestant
from peers.mujoco_model import build
from peers.world_velocity import converted, is_another, restored

_NAMES = {
    "inverse_dynamics": "inverse_dynamics",
    "bias_forces": "bias_forces",
    "forward_dynamics_aba": "forward_dynamics",
    "forward_dynamics_crba": "forward_dynamics",
    "mass_matrix": "mass_matrix",
    "mass_matrix_inverse": "mass_matrix_inverse",
}


class Peer:
    """One robot, and one workspace for each thread."""

    def __init__(self, case: Case, threads: int) -> None:
        self._case = case
        self._library = _library()
        self._model, self._order = build(case)
        make = self._library.make_loop
        make.restype = ctypes.c_void_p
        self._loop = ctypes.c_void_p(make(ctypes.c_void_p(self._model._address), threads))

    def contestants(self, function: str, states: States) -> dict[str, Contestant]:
        """Return the function in float64."""
        if function not in _NAMES or is_another(function, self._case):
            return {}
        own = converted(self._case, states, self._order)
        inputs = [np.ascontiguousarray(own[x]) for x in INPUTS[function]]
        batch = len(inputs[0])
        outputs = [np.empty((batch, *shape)) for shape in self._case.result_shapes(function)]
        entry = getattr(self._library, _NAMES[function])
        arguments = (self._loop, ctypes.c_long(batch), pointers(inputs), pointers(outputs))

        def results(inputs: list[np.ndarray] = inputs) -> list[np.ndarray]:  # and keeps them
            return [restored(self._case, states, self._order, function, outputs[0])]

        return {
            "MuJoCo C loop": Contestant(
                partial(entry, *arguments),
                results,
            )
        }


def _library() -> ctypes.CDLL:
    folder = Path(mujoco.__file__).parent
    found = sorted(folder.glob("libmujoco.so*"))
    if not found:
        raise Unavailable("mujoco ships no library to link here")
    flags = ("-fopenmp", f"-I{folder}/include", "-Wl,--no-as-needed", str(found[0]))
    return compiled(Path(__file__).with_suffix(".cpp"), (*flags, f"-Wl,-rpath,{folder}"))
