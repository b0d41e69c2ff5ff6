"""frax: dynamics in JAX, compiled by XLA, mapped over the batch with ``vmap``; in float64."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# What frax advises for the CPU; read when JAX starts.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED")

import jax
import numpy as np
from cases import INPUTS, Case, States
from frax import Robot

from peers import Contestant
from peers.world_velocity import converted, is_another, restored

jax.config.update("jax_platforms", "cpu")

_GRAVITY = np.array([0.0, 0.0, 9.81, 0.0, 0.0, 0.0])  # acceleration of the base that replaces it


class Peer:
    """One robot; XLA takes the cores that the process may use."""

    def __init__(self, case: Case, threads: int) -> None:
        self._case = case
        base = 1 if case.floating_base else 0
        names = [body.joint for body in case.tree.bodies[base:]]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "robot.urdf")
            path.write_text(case.urdf, encoding="utf-8")
            robot = Robot(
                str(path),
                joint_ordering=names,
                floating_base="quaternion" if case.floating_base else None,
            )
        self._order = list(range(len(names)))
        self._functions = {
            "inverse_dynamics": lambda q, v, a: robot.rnea(q, v, a, _GRAVITY, None),
            "bias_forces": robot.nonlinear_bias,
            "forward_dynamics_crba": lambda q, v, tau: robot.forward_dynamics(q, v, tau, None),
            "mass_matrix": robot.mass_matrix,
        }

    def contestants(self, function: str, states: States) -> dict[str, Contestant]:
        """Return the function in float64; the results stay arrays of JAX."""
        if function not in self._functions or is_another(function, self._case):
            return {}
        own = converted(self._case, states, self._order)
        inputs = [jax.device_put(np.ascontiguousarray(own[x])) for x in INPUTS[function]]
        mapped = jax.jit(jax.vmap(self._functions[function]))

        def results() -> list[np.ndarray]:
            result = np.array(mapped(*inputs))
            return [restored(self._case, states, self._order, function, result)]

        return {"frax (JAX)": Contestant(lambda: mapped(*inputs).block_until_ready(), results)}
