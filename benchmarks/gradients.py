"""What a gradient step costs in JAX: grid-gen beside frax, MJX and adam, as far as installed.

    python benchmarks/gradients.py [--urdf robots/arm7.urdf] [--states 4096] [--rounds 20]

Of a weighted sum of all results for a batch, the gradient by positions, velocities and the third
argument, under ``jit``, in float32, on the CPU: forward dynamics, and inverse dynamics. All take
turns in one process; times are the least of the rounds. The first call is its compilation. A peer
whose gradients differ from grid-gen's is named.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

import gridgen

ROOT = Path(__file__).resolve().parents[1]
FUNCTIONS = ("forward_dynamics", "inverse_dynamics")
#: Relative, of float32.
TOLERANCE = 1e-2

#: (q, qd, tau or qdd), one state per row -> accelerations or efforts.
Dynamics = Callable[..., Any]


@dataclass
class Entry:
    """One library's way of a function.

    Attributes:
        name:      of the library.
        function:  what is computed.
        forward:   computes it, compiled.
        gradient:  computes its gradient, compiled.
        compiling: seconds of the first gradient.
        seconds:   of one call of each, the least seen.
        error:     of the gradient, relative to the largest entry.
    """

    name: str
    function: str
    forward: Dynamics
    gradient: Dynamics
    compiling: float = 0.0
    seconds: list[float] = field(default_factory=lambda: [float("inf"), float("inf")])
    error: float = 0.0


def grid_gen(urdf: Path) -> dict[str, Dynamics]:
    """Return both functions of a robot of grid-gen."""
    robot = gridgen.load(urdf)
    return {name: getattr(robot, name) for name in FUNCTIONS}


def frax(urdf: Path) -> dict[str, Dynamics]:
    """Return those of frax, mapped over the batch."""
    from frax import Robot

    arm, gravity = Robot(str(urdf)), np.array([0.0, 0.0, 9.81, 0.0, 0.0, 0.0])
    return {
        "forward_dynamics": jax.vmap(lambda q, v, tau: arm.forward_dynamics(q, v, tau, None)),
        "inverse_dynamics": jax.vmap(lambda q, v, a: arm.rnea(q, v, a, gravity, None)),
    }


def mjx(urdf: Path) -> dict[str, Dynamics]:
    """Return those of MJX, mapped over the batch; without contacts and limits."""
    import mujoco
    from mujoco import mjx

    spec = mujoco.MjSpec.from_file(str(urdf))
    spec.compiler.fusestatic = True
    spec.compiler.balanceinertia = False
    model = spec.compile()
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    device, data = mjx.put_model(model), mjx.make_data(model)

    def forward(q: Any, v: Any, tau: Any) -> Any:
        return mjx.forward(device, data.replace(qpos=q, qvel=v, qfrc_applied=tau)).qacc

    def inverse(q: Any, v: Any, a: Any) -> Any:
        return mjx.inverse(device, data.replace(qpos=q, qvel=v, qacc=a)).qfrc_inverse

    return {"forward_dynamics": jax.vmap(forward), "inverse_dynamics": jax.vmap(inverse)}


def adam(urdf: Path) -> dict[str, Dynamics]:
    """Return those of adam, from its mass matrix and bias forces of a base that rests."""
    from adam.jax import KinDynComputations

    robot = gridgen.load(urdf)
    arm = KinDynComputations(str(urdf), list(robot.joint_names))
    base, rest = jnp.eye(4), jnp.zeros(6)

    def parts(q: Any, v: Any) -> tuple[Any, Any]:
        bias = arm.bias_force(base, q, rest, v)[6:]
        return arm.mass_matrix(base, q)[6:, 6:], bias

    def forward(q: Any, v: Any, tau: Any) -> Any:
        inertia, bias = parts(q, v)
        return jnp.linalg.solve(inertia, tau - bias)

    def inverse(q: Any, v: Any, a: Any) -> Any:
        inertia, bias = parts(q, v)
        return inertia @ a + bias

    return {"forward_dynamics": jax.vmap(forward), "inverse_dynamics": jax.vmap(inverse)}


LIBRARIES = {"grid-gen": grid_gen, "frax": frax, "MJX": mjx, "adam": adam}


def entries(urdf: Path, libraries: list[str], weights: Any) -> Iterator[Entry]:
    """Yield what there is to measure; what cannot be is said."""
    for name in libraries:
        try:
            made = LIBRARIES[name](urdf)
        except Exception as error:  # not installed, or not for this robot
            print(f"{name}: {type(error).__name__}: {error}")
            continue
        for function, dynamics in made.items():

            def number(*state: Any, dynamics: Dynamics = dynamics) -> Any:
                return (weights * dynamics(*state)).sum()

            yield Entry(name, function, jax.jit(dynamics), jax.jit(jax.grad(number, (0, 1, 2))))


def measure(found: list[Entry], state: list[Any], rounds: int) -> None:
    """Compile all, compare them, and take turns."""
    expected: dict[str, Any] = {}
    for entry in found:
        jax.block_until_ready(entry.forward(*state))
        begin = time.perf_counter()
        gradient = jax.block_until_ready(entry.gradient(*state))
        entry.compiling = time.perf_counter() - begin
        print(f"{entry.name}, {entry.function}: {entry.compiling:.1f} s", file=sys.stderr)
        right = expected.setdefault(entry.function, gradient)
        entry.error = max(
            float(abs(one - other).max() / abs(other).max())
            for one, other in zip(gradient, right, strict=True)
        )
    for _ in range(rounds):
        for entry in found:
            for place, call in enumerate((entry.forward, entry.gradient)):
                begin = time.perf_counter()
                jax.block_until_ready(call(*state))
                entry.seconds[place] = min(entry.seconds[place], time.perf_counter() - begin)


def main(argv: list[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--urdf", type=Path, default=ROOT / "robots" / "arm7.urdf")
    parser.add_argument("--states", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=[*LIBRARIES])
    given = parser.parse_args(argv)
    robot, rng = gridgen.load(given.urdf), np.random.default_rng(0)
    shape = given.states, robot.nv
    state = [jnp.asarray(0.5 * rng.normal(size=shape), jnp.float32) for _ in range(3)]
    weights = jnp.asarray(rng.normal(size=shape), jnp.float32)
    found = list(entries(given.urdf, given.libraries, weights))
    measure(found, state, given.rounds)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{robot.name}, {given.states} states, float32, {os.cpu_count()} cores, load {load}\n")
    print("| function | library | value | gradient | to grid-gen's | compiling | |")
    print("|---|---|---|---|---|---|---|")
    for function in FUNCTIONS:
        mine = [entry for entry in found if entry.function == function]
        for entry in mine:
            value, gradient = (1e6 * seconds / given.states for seconds in entry.seconds)
            ratio = entry.seconds[1] / mine[0].seconds[1]
            note = f"differs by {entry.error:.1e}" if entry.error > TOLERANCE else ""
            print(
                f"| `{function}` | {entry.name} | {value:.3f} us | {gradient:.3f} us | "
                f"{ratio:.1f} | {entry.compiling:.1f} s | {note} |"
            )


if __name__ == "__main__":
    main()
