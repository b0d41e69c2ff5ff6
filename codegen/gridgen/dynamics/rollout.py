"""Rollouts on NumPy numbers: steps of the reference one after the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gridgen.dynamics.reference import evaluate_reference
from gridgen.functions.arrays import FEEDBACK
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree

Array = npt.NDArray[np.float64]


def evaluate_rollout(
    tree: KinematicTree,
    step: KernelKey,
    inputs: Mapping[str, npt.NDArray[np.float64]],
    substeps: int = 1,
    effort_limits: bool = False,
) -> tuple[Array, Array]:
    """Return the states along a rollout.

    Args:
        tree:          the robot.
        step:          the kernel of a step.
        inputs:        ``q0`` (B, nq), ``qd0`` (B, nv), ``tau`` (B, T, nv), ``dt`` (B,) and what
                       else a step takes, (B, ...); for a controller ``gains`` (B, T, nv, 2 nv),
                       ``q_ref`` (B, T, nq) and ``qd_ref`` (B, T, nv).
        substeps:      steps of the integrator for each of ``tau``, of dt / substeps each.
        effort_limits: whether efforts are clamped to the robot's limits.

    Returns:
        positions (B, T + 1, nq) and velocities (B, T + 1, nv), those of the beginning first.
    """
    rest = {name: value for name, value in inputs.items() if name not in ("q0", "qd0", *FEEDBACK)}
    rest["dt"] = inputs["dt"] / substeps
    states = [(inputs["q0"], inputs["qd0"])]
    for t in range(inputs["tau"].shape[1]):
        q, qd = states[-1]
        tau = inputs["tau"][:, t]
        if "gains" in inputs:
            given = {"q0": q, "q1": inputs["q_ref"][:, t]}
            (way,) = evaluate_reference(tree, "difference", given)
            error = np.concatenate((way, inputs["qd_ref"][:, t] - qd), axis=1)
            tau = tau + np.einsum("bij,bj->bi", inputs["gains"][:, t], error)
        if effort_limits:
            limits = np.array(tree.effort_limits)
            tau = np.clip(tau, -limits, limits)
        for _ in range(substeps):
            q, qd = evaluate_reference(tree, step.name, rest | {"q": q, "qd": qd, "tau": tau})
        states.append((q, qd))
    positions, velocities = zip(*states, strict=True)
    return np.stack(positions, axis=1), np.stack(velocities, axis=1)
