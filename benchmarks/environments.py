"""Steps a second of Gymnasium's robots: one batch, beside Gymnasium's vector environments.

    python benchmarks/environments.py [--num-envs 256] [--originals 4] [--seconds 2]

Prints a table in Markdown. All environments of a row take random actions and are reset when they
end. Rounds are interleaved, and the least time counts. Gymnasium's environments run one after the
other in a process (``sync``) or in a process each (``async``). Needs ``gymnasium`` and ``mujoco``.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial

import gymnasium
import numpy as np
from interleave import interleaved

import gridgen.envs
from gridgen.backends.cpu.backend import limited_threads

NAMES = ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid")


def stepper(environments: gymnasium.vector.VectorEnv) -> Callable[[], object]:
    """Return a call that takes a step with random actions, after a first one."""
    space = environments.action_space
    actions = np.random.default_rng(0).uniform(space.low, space.high).astype(np.float32)
    environments.reset(seed=0)
    environments.step(actions)
    return partial(environments.step, actions)


def limited(call: Callable[[], object], threads: int) -> None:
    """Call a function with a number of threads."""
    with limited_threads(threads):
        call()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=256, help="of gridgen")
    parser.add_argument("--originals", type=int, default=4, help="environments of Gymnasium")
    parser.add_argument("--seconds", type=float, default=2.0, help="for a row")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--robots", nargs="+", choices=NAMES, default=NAMES)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = [*(f"gridgen, threads: {n}" for n in options.threads), "sync", "async"]
    print("| steps a second |", " | ".join(columns), "| gridgen with one thread / sync |")
    print("|---|", "---:|" * (len(columns) + 1), sep="")
    for name in options.robots:
        own = getattr(gridgen.envs, name)(options.num_envs)
        made = [partial(gymnasium.make, f"{name}-v5")] * options.originals
        peers = gymnasium.vector.SyncVectorEnv(made), gymnasium.vector.AsyncVectorEnv(made)
        step = stepper(own)
        calls = [partial(limited, step, n) for n in options.threads]
        calls += [stepper(peer) for peer in peers]
        times = interleaved(dict(zip(columns, calls, strict=True)), options.seconds)
        sizes = [options.num_envs] * len(options.threads) + [options.originals] * 2
        rates = [n / times[k].least for n, k in zip(sizes, columns, strict=True)]
        cells = " | ".join(f"{rate:,.0f}" for rate in rates)
        print(f"| {name} | {cells} | {rates[0] / rates[-2]:.1f} |", flush=True)
        for peer in peers:
            peer.close()


if __name__ == "__main__":
    main()
