"""Other libraries' functions on a GPU, in float32: each turns a function and states into a call.

What such a call computes is compared with nothing here: in conventions and results these libraries
differ (frames of a free base, orders of joints), which ``peers/`` translates for the CPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cases import INPUTS, Case, States
from gpu_timing import Call, Clock, Refused, on_stream_of_torch

#: Functions by what GRiD calls them.
_OF_GRID = {
    "inverse_dynamics": "inverse_dynamics",
    "forward_dynamics_aba": "aba",
    "forward_dynamics_crba": "forward_dynamics",
    "mass_matrix": "crba",
    "mass_matrix_inverse": "minv",
    "inverse_dynamics_gradient": "inverse_dynamics_gradient",
    "forward_dynamics_gradient": "forward_dynamics_gradient",
}
#: Functions by what MuJoCo Warp calls them; fields of its data that they read.
_OF_WARP = {
    "inverse_dynamics": ("inverse", ("qpos", "qvel", "qacc")),
    "forward_dynamics_crba": ("forward", ("qpos", "qvel", "qfrc_applied")),
}


def grid_rbd(case: Case, function: str, states: States, clock: Clock) -> Call | None:
    """Return a function of GRiD through PyTorch, built for as many states: one block for each.

    Its own CUDA graph is not used: the clock captures the call.
    """
    import torch

    if function not in _OF_GRID:
        return None
    method = getattr(_grid_robot(case, len(states["q"])), _OF_GRID[function])
    inputs = [torch.tensor(states[x], dtype=torch.float32, device="cuda") for x in INPUTS[function]]

    def call() -> None:
        with torch.no_grad(), on_stream_of_torch(clock):
            method(*inputs)

    return call


@cache
def _grid_robot(case: Case, batch: int) -> Any:
    import grid_rbd

    try:
        return grid_rbd.load_robot(
            urdf_string=case.urdf,
            floating_base=case.floating_base,
            backend="torch",
            max_batch_size=batch,
            enable_mujoco_kernels=False,
        )
    except Exception as error:
        raise Refused(f"GRiD does not build {case.name} for {batch} states: {error}") from error


def mujoco_warp(case: Case, function: str, states: States, clock: Clock) -> Call | None:
    """Return the step of MuJoCo Warp that contains a function; it computes more than that."""
    import mujoco_warp as mjw
    import warp as wp
    from peers.mujoco_model import build
    from peers.world_velocity import converted

    if function not in _OF_WARP:
        return None
    method, fields = _OF_WARP[function]
    model, order = build(case)
    own = converted(case, states, order)
    there = mjw.put_model(model)
    data = mjw.make_data(model, nworld=len(states["q"]))
    for field, name in zip(fields, INPUTS[function], strict=True):
        wp.copy(getattr(data, field), wp.array(own[name].astype(np.float32), dtype=float))
    stream = wp.Stream(cuda_stream=clock.stream.ptr)
    run = getattr(mjw, method)

    def call() -> None:
        with wp.ScopedStream(stream, sync_enter=False):
            run(there, data)

    return call


def frax(case: Case, function: str, states: States, clock: Clock) -> Call | None:
    """Return a function of frax, compiled by XLA, on XLA's stream: each call is waited for."""
    import jax
    from frax import Robot
    from peers.world_velocity import converted, is_another

    names = {
        "inverse_dynamics": "rnea",
        "forward_dynamics_crba": "forward_dynamics",
        "mass_matrix": "mass_matrix",
    }
    if function not in names or is_another(function, case):
        return None
    if jax.default_backend() != "gpu":
        raise Refused("JAX has no GPU here")
    base = 1 if case.floating_base else 0
    joints = [body.joint for body in case.tree.bodies[base:]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "robot.urdf")
        path.write_text(case.urdf, encoding="utf-8")
        kind = "quaternion" if base else None
        robot = Robot(str(path), joint_ordering=joints, floating_base=kind)
    own = converted(case, states, list(range(len(joints))))
    inputs = [jax.device_put(own[x].astype(np.float32)) for x in INPUTS[function]]
    method = getattr(robot, names[function])
    others = {"rnea": (_gravity(), None), "forward_dynamics": (None,)}.get(names[function], ())
    mapped = jax.jit(jax.vmap(lambda *given: method(*given, *others)))
    return lambda: mapped(*inputs).block_until_ready()


def _gravity() -> np.ndarray:
    """Return the acceleration of the base that replaces gravity."""
    return np.array([0.0, 0.0, 9.81, 0.0, 0.0, 0.0], np.float32)


#: What is measured beside gridgen where it is installed.
PEERS: dict[str, Callable[[Case, str, States, Clock], Call | None]] = {
    "grid-rbd": grid_rbd,
    "mujoco-warp": mujoco_warp,
    "frax": frax,
}
