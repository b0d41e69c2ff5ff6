"""Train a quadruped to walk with Stable-Baselines3, and let it walk in MuJoCo.

    python examples/train_quadruped.py [--robots 512] [--steps 1500000] [--plant own]

``gridgen.envs.stable_baselines`` makes a vector environment of Gymnasium a ``VecEnv`` of that
library: the whole batch is one call, where its own classes call one environment after the other.
Needs the packages ``gymnasium``, ``stable-baselines3`` and ``mujoco``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import plants
import quadruped
import torch
from batch_environment import PERIOD, REACH, QuadrupedVectorEnv
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import gridgen.envs


def train(robots: int, steps: int, widths: Sequence[int] = (128, 128), seed: int = 0) -> PPO:
    """Return a policy after some steps of control of all robots together."""
    torch.set_num_threads(1)  # the network is small
    batch = QuadrupedVectorEnv(robots, autoreset_mode=AutoresetMode.SAME_STEP)
    model = PPO(
        "MlpPolicy",
        VecMonitor(gridgen.envs.stable_baselines(batch)),
        learning_rate=1e-3,
        n_steps=24,
        batch_size=6 * robots,
        n_epochs=5,
        policy_kwargs={"net_arch": list(widths), "activation_fn": torch.nn.ELU, "log_std_init": -1},
        seed=seed,
        device="cpu",
    )
    return model.learn(steps)


class Walker:
    """A policy as a controller of one robot."""

    def __init__(self, policy: PPO) -> None:
        self.policy, self.steps = policy, 0
        self.action = np.zeros((1, len(quadruped.STANCE)), np.float32)

    def step(self, q: NDArray[Any], qd: NDArray[Any]) -> NDArray[Any]:
        """Return the targets of the servos for the next step of control, (1, 12)."""
        times = np.array([PERIOD * self.steps])
        seen = quadruped.observations(q[None], qd[None], self.action, times)
        self.action, _ = self.policy.predict(seen, deterministic=True)
        self.steps += 1
        return quadruped.STANCE + REACH * self.action


def main() -> None:
    """Train a policy, and let it walk."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", type=int, default=512)
    parser.add_argument("--steps", type=int, default=1_500_000, help="of control, all robots")
    parser.add_argument("--plant", choices=("mujoco", "own"), default="mujoco")
    parser.add_argument("--clip", help="GIF to write, from MuJoCo's pictures")
    options = parser.parse_args()
    begin = time.perf_counter()
    model = train(options.robots, options.steps)
    seconds = time.perf_counter() - begin
    returns = [episode["r"] for episode in model.ep_info_buffer or ()] or [np.nan]
    print(
        f"{model.num_timesteps:,} steps in {seconds:.0f} s; "
        f"mean return of the last {len(returns)} episodes: {np.mean(returns):.1f}"
    )
    plant = plants.PLANTS[options.plant](quadruped.load(), quadruped.URDF)
    quadruped.walk(plant, Walker(model).step, PERIOD, 5.0, clip=options.clip)


if __name__ == "__main__":
    main()
