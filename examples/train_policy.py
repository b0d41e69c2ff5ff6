"""Train a policy of an arm through its dynamics, in JAX.

    python examples/train_policy.py [--urdf robots/arm7.urdf] [--states 256] [--updates 200]

A small network reads the state of the arm and a target, and adds torques to those that hold the arm
still. Its weights follow the gradient of the distance of the hand over 32 steps in time: a ``scan``
under ``jit``. Forward dynamics in it is compiled code of grid-gen, and another kernel computes the
products with its derivative. With ``--peers`` the same training also runs through the forward
dynamics of frax and of MJX, where they are installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

import gridgen

ROOT = Path(__file__).resolve().parents[1]
#: Steps that the policy is trained through, and the length of each [s].
STEPS, DT = 32, 0.02
#: Numbers between the layers of the network.
WIDTH = 64
#: Share of the motors' torques that the policy adds.
SHARE = 0.3
#: Weight of squared velocities relative to squared distances [s^2].
CALM = 1e-3
#: Of Adam.
RATE, DECAYS, SMALL = 3e-3, (0.9, 0.999), 1e-8

Weights = list[tuple[jax.Array, jax.Array]]
#: (q, qd, tau), one state per row -> qdd.
Accelerations = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


@dataclass
class Result:
    """Result of a training.

    Attributes:
        losses:  the loss before each update.
        seconds: of one update, the least seen.
    """

    losses: list[float]
    seconds: float


def network(sizes: list[int], key: Any) -> Weights:
    """Return random weights, those of the last layer small."""
    keys = jax.random.split(key, len(sizes) - 1)
    scales = [1.0 / np.sqrt(n) for n in sizes[:-2]] + [1e-2]
    return [
        (scale * jax.random.normal(key, (n, m)), jnp.zeros(m))
        for key, scale, n, m in zip(keys, scales, sizes[:-1], sizes[1:], strict=True)
    ]


def policy(weights: Weights, q: jax.Array, qd: jax.Array, target: jax.Array) -> jax.Array:
    """Return numbers within -1 and 1, one for each torque."""
    x = jnp.concatenate([jnp.sin(q), jnp.cos(q), qd, target], axis=-1)
    for matrix, offset in weights:
        x = jnp.tanh(x @ matrix + offset)
    return x


def loss(
    robot: gridgen.Robot,
    accelerations: Accelerations,
    weights: Weights,
    start: jax.Array,
    target: jax.Array,
) -> jax.Array:
    """Return the mean squared distance of the hand from its target along the way."""
    limits = SHARE * jnp.asarray(robot.effort_limits)
    hand = robot.frame_names[-1]

    def step(state: tuple[jax.Array, jax.Array], _: None) -> Any:
        q, qd = state
        torques = robot.gravity_forces(q) + limits * policy(weights, q, qd, target)
        qd = qd + DT * accelerations(q, qd, torques)
        q = q + DT * qd
        way = robot.forward_kinematics(q, hand)[..., :3, 3] - target
        return (q, qd), (way**2).sum(axis=-1).mean() + CALM * (qd**2).sum(axis=-1).mean()

    _, costs = jax.lax.scan(step, (start, jnp.zeros_like(start)), length=STEPS)
    return costs.mean()


def train(
    robot: gridgen.Robot, accelerations: Accelerations, states: int, updates: int, seed: int
) -> Result:
    """Train a policy on random starts and targets; the same ones for every ``accelerations``."""
    slopes = jax.value_and_grad(partial(loss, robot, accelerations))

    @jax.jit
    def update(count: jax.Array, weights: Weights, moments: Any, *batch: jax.Array) -> Any:
        value, slope = slopes(weights, *batch)
        means, squares = moments
        a, b = DECAYS
        means = jax.tree.map(lambda m, s: a * m + (1.0 - a) * s, means, slope)
        squares = jax.tree.map(lambda m, s: b * m + (1.0 - b) * s * s, squares, slope)
        rate = RATE * jnp.sqrt(1.0 - b**count) / (1.0 - a**count)
        weights = jax.tree.map(
            lambda w, m, s: w - rate * m / (jnp.sqrt(s) + SMALL), weights, means, squares
        )
        return value, weights, (means, squares)

    weights = network([3 * robot.nv + 3, WIDTH, WIDTH, robot.nv], jax.random.key(seed))
    moments = jax.tree.map(jnp.zeros_like, (weights, weights))
    losses, seconds = [], float("inf")
    for count, batch in enumerate(batches(robot, states, updates, seed), 1):
        begin = time.perf_counter()
        value, weights, moments = update(jnp.asarray(float(count)), weights, moments, *batch)
        losses.append(float(value))
        if count > 1:  # not that which compiles
            seconds = min(seconds, time.perf_counter() - begin)
    return Result(losses, seconds)


def batches(
    robot: gridgen.Robot, states: int, updates: int, seed: int
) -> Iterator[tuple[jax.Array, jax.Array]]:
    """Yield random starts, and the places of hands of arms that are bent a little otherwise."""
    rng = np.random.default_rng(seed)
    for _ in range(updates):
        start = 0.5 * rng.normal(size=(states, robot.nq)).astype(np.float32)
        other = start + 0.3 * rng.normal(size=start.shape).astype(np.float32)
        target = robot.forward_kinematics(other, robot.frame_names[-1])[:, :3, 3]
        yield jnp.asarray(start), jnp.asarray(target)


def peers(urdf: Path) -> Iterator[tuple[str, Accelerations]]:
    """Yield forward dynamics of others, as far as they are installed."""
    try:
        from frax import Robot
    except ImportError as error:
        print(f"frax: {error}")
    else:
        arm = Robot(str(urdf))
        yield "frax", jax.vmap(lambda q, qd, tau: arm.forward_dynamics(q, qd, tau, None))
    try:
        import mujoco
        from mujoco import mjx
    except ImportError as error:
        print(f"MJX: {error}")
    else:
        spec = mujoco.MjSpec.from_file(str(urdf))
        spec.compiler.fusestatic = True
        spec.compiler.balanceinertia = False
        model = spec.compile()
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        on_device, data = mjx.put_model(model), mjx.make_data(model)

        def forward(q: jax.Array, qd: jax.Array, tau: jax.Array) -> jax.Array:
            state = data.replace(qpos=q, qvel=qd, qfrc_applied=tau)
            return mjx.forward(on_device, state).qacc

        yield "MJX", jax.vmap(forward)


def main(argv: list[str] | None = None) -> dict[str, Result]:
    """Train, print what became of it, and return it by whose dynamics it went through."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--urdf", type=Path, default=ROOT / "robots" / "arm7.urdf")
    parser.add_argument("--states", type=int, default=256)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", action="store_true", help="train through others' dynamics too")
    given = parser.parse_args(argv)
    robot = gridgen.load(given.urdf)
    ways: dict[str, Accelerations] = {"grid-gen": robot.forward_dynamics}
    if given.peers:
        ways |= dict(peers(given.urdf))
    found = {}
    for name, accelerations in ways.items():
        begin = time.perf_counter()
        result = found[name] = train(robot, accelerations, given.states, given.updates, given.seed)
        print(
            f"{name:9} loss {result.losses[0]:.4f} -> {np.mean(result.losses[-10:]):.4f}, "
            f"{1e3 * result.seconds:.1f} ms an update of {given.states} arms, "
            f"{time.perf_counter() - begin:.1f} s in all"
        )
    return found


if __name__ == "__main__":
    main()
