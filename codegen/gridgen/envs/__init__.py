"""Gymnasium's environments, and environments of one's own, as batches.

    environments = gridgen.envs.Ant(num_envs=1024)
    observations, infos = environments.reset(seed=0)

``gymnasium.make_vec("gridgen/Ant-v5", num_envs=1024)`` is the same.
"""

from __future__ import annotations

import gymnasium

from gridgen.envs.learners import rsl_rl, stable_baselines
from gridgen.envs.locomotion import Ant, HalfCheetah, Hopper, Humanoid, Walker2d
from gridgen.envs.vector import VectorEnv

__all__ = [
    "Ant",
    "HalfCheetah",
    "Hopper",
    "Humanoid",
    "VectorEnv",
    "Walker2d",
    "rsl_rl",
    "stable_baselines",
]

for _name in ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d"):
    if f"gridgen/{_name}-v5" not in gymnasium.registry:
        gymnasium.register(f"gridgen/{_name}-v5", vector_entry_point=f"gridgen.envs:{_name}")
