"""Forward dynamics with constraints: operations of three algorithms, and time beside Pinocchio.

    python benchmarks/constrained.py operations    # counted, with rounding errors in float32
    python benchmarks/constrained.py times [--compile] [--seconds 15]

Writes the tables of docs/constraint_equations.md. Times are least times of one thread; Pinocchio's
``constraintDynamics`` runs in a C++ loop in the same run, compiled for this processor.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any

import native
import numpy as np
from cases import load_case
from constrained_methods import constrained_aba, recursive_delassus
from interleave import interleaved
from machine import description

from gridgen.check import random_states
from gridgen.compiler import read_tree
from gridgen.dynamics import constraints
from gridgen.dynamics.functions import computation_of
from gridgen.functions.arrays import PROXIMAL
from gridgen.model.tree import KinematicTree
from gridgen.options import RobotOptions
from gridgen.robot import Robot
from gridgen.schedules.thread.plan import plan_lines
from gridgen.symbolic.scalars import FloatScalars

HERE = Path(__file__).resolve().parent
FUNCTION = "constrained_forward_dynamics"
TABLES = HERE / "results" / "tables"
ROBOTS = HERE.parent / "robots"
METHODS: dict[str, Callable[..., Any]] = {
    "factors of M": constraints.constrained_forward_dynamics,
    "PV-OSIMr": recursive_delassus,
    "proxPV": constrained_aba,
}
FEET = [{"kind": "point", "link": f"{leg}_foot"} for leg in ("FL", "FR", "RL", "RR")]
SOLES = [{"kind": "frame", "link": f"{side}_sole"} for side in ("left", "right")]
PALMS = [{"kind": "frame", "link": f"{side}_palm"} for side in ("left", "right")]
BATCH = 4096
STATES = 200


def stewart() -> str:
    """Return a platform on six legs, each of two hinges and a slide, on a fixed base."""
    text = ['<robot name="stewart"><link name="base"/>']

    def link(name: str, mass: float, inertia: float) -> None:
        diagonal = " ".join(f'{axes}="{inertia}"' for axes in ("ixx", "iyy", "izz"))
        text.append(
            f'<link name="{name}"><inertial><origin xyz="0 0 0.2"/><mass value="{mass}"/>'
            f'<inertia {diagonal} ixy="0" ixz="0" iyz="0"/></inertial></link>'
        )

    def joint(name: str, kind: str, parent: str, child: str, at: str, axis: str) -> None:
        limit = '<limit effort="9" velocity="9"/>' if kind == "prismatic" else ""
        text.append(
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{at}"/><axis xyz="{axis}"/>{limit}</joint>'
        )

    link("platform", 8.0, 0.2)
    joint("above", "floating", "base", "platform", "0 0 0", "0 0 1")
    for leg in range(6):
        angle = math.radians(60 * leg + (12 if leg % 2 else -12))
        foot = f"{0.6 * math.cos(angle):.6f} {0.6 * math.sin(angle):.6f} 0"
        names = ["base", *(f"leg{leg}_{part}" for part in ("yoke", "cylinder", "piston"))]
        for k, kind in enumerate(("continuous", "continuous", "prismatic")):
            at = (foot, "0 0 0", "0 0 0.5")[k]
            axis = ("1 0 0", "0 1 0", "0 0 1")[k]
            link(names[k + 1], (0.1, 1.5, 0.7)[k], (1e-3, 0.02, 0.01)[k])
            joint(f"leg{leg}_j{k}", kind, names[k], names[k + 1], at, axis)
    return "".join(text) + "</robot>"


def loops_of_stewart() -> list[dict[str, Any]]:
    """Return the six points at which the legs carry the platform."""
    angles = [math.radians(60 * leg + (-48 if leg % 2 else 48)) for leg in range(6)]
    return [
        {
            "kind": "point",
            "link": f"leg{leg}_piston",
            "to": "platform",
            "offset": [0.0, 0.0, 0.3],
            "to_offset": [0.3 * math.cos(angle), 0.3 * math.sin(angle), 0.0],
        }
        for leg, angle in enumerate(angles)
    ]


def robots() -> Iterator[tuple[str, KinematicTree]]:
    """Yield robots with constraints, by what the table calls them."""
    held: Sequence[tuple[str, str, bool, list[dict[str, Any]]]] = (
        ("arm7, hand held", "arm7", False, [{"kind": "frame", "link": "flange"}]),
        ("quadruped, four feet", "quadruped", True, FEET),
        ("humanoid, two soles", "humanoid", True, SOLES),
        ("humanoid, soles and palms", "humanoid", True, SOLES + PALMS),
    )
    for name, robot, floating, given in held:
        options = RobotOptions(floating_base=floating, constraints=given)
        yield name, read_tree(ROBOTS / f"{robot}.urdf", options)
    options = RobotOptions(constraints=loops_of_stewart())
    yield "Stewart platform, six loops", read_tree(stewart(), options)


@contextmanager
def computed_by(method: str) -> Iterator[None]:
    """Let the function compute by another algorithm."""
    name, own = constraints.constrained_forward_dynamics.__name__, METHODS["factors of M"]
    setattr(constraints, name, METHODS[method])
    try:
        yield
    finally:
        setattr(constraints, name, own)


def operations(tree: KinematicTree, method: str) -> int:
    """Return the operations of the program of an algorithm."""
    with computed_by(method):
        return int(plan_lines(tree, FUNCTION).operations)


def states_of(tree: KinematicTree, count: int) -> dict[str, np.ndarray]:
    """Return random states whose constraints are rigid and hold."""
    x = random_states(tree, count, np.random.default_rng(0))
    x["active"][:], x["proximal"][:] = 1.0, PROXIMAL["float64"]
    x["stabilization"][:], x["compliance"][:] = 0.0, 0.0
    return x


def computed(tree: KinematicTree, x: dict[str, np.ndarray], method: str, dtype: Any) -> Any:
    """Return accelerations and forces in a type, by an algorithm."""
    x = {name: np.asarray(value, dtype) for name, value in x.items()}
    computation = computation_of(tree, FUNCTION)
    size = len(x["q"])
    columns = {n: list(x[n].reshape(len(x[n]), -1).T) for n in computation.inputs}
    with computed_by(method), np.errstate(all="ignore"):
        results = computation.algorithm(tree, columns, FloatScalars())
    return [np.stack([np.broadcast_to(e, size) for e in result], axis=1) for result in results]


def error(tree: KinematicTree, method: str, dtype: Any) -> float:
    """Return the median relative error of the accelerations, constraints proximal alike."""
    x = states_of(tree, STATES)
    x = {name: value.astype(np.float32).astype(float) for name, value in x.items()}
    x["proximal"][:] = PROXIMAL[np.dtype(dtype).name]
    expected, _ = computed(tree, x, "factors of M", np.float64)
    found, _ = computed(tree, x, method, dtype)
    off = np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)
    return float(np.median(off))


def count() -> None:
    """Count, and write the table."""
    rows = [["robot", "rows", *METHODS, *(f"error of {name}" for name in METHODS)]]
    for name, tree in robots():
        size = sum(one.rows for one in tree.constraints)
        counts = [f"{operations(tree, method):,}" for method in METHODS]
        errors = [f"{error(tree, method, np.float32):.0e}" for method in METHODS]
        rows.append([name, str(size), *counts, *errors])
        print(*rows[-1], flush=True)
    write("constrained_operations", rows)


def write(name: str, rows: Sequence[Sequence[str]]) -> None:
    """Write a table of the manual."""
    with (TABLES / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def measure(seconds: float) -> None:
    """Time the standing quadruped, and write the table."""
    os.environ.update(dict.fromkeys(("GRIDGEN_NUM_THREADS", "OMP_NUM_THREADS"), "1"))
    from peers import pinocchio_loop

    case = replace(load_case("quadruped"), constraints=tuple(FEET))
    robot, x = Robot(case.module, "cpu"), states_of(case.tree, BATCH)
    peer = pinocchio_loop.Peer(case, 1).contestants(FUNCTION, x)["Pinocchio C++ loop"]
    peer.run()
    calls: dict[str, Callable[[], object]] = {"Pinocchio, float64": peer.run}
    arguments = [x[name] for name in ("q", "qd", "tau")]
    for found, expected in zip(
        robot.constrained_forward_dynamics(*arguments), peer.results(), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    for dtype in ("float64", "float32"):
        given = [value.astype(dtype) for value in arguments]
        out = robot.constrained_forward_dynamics(*given)
        calls[f"constrained, {dtype}"] = partial(
            robot.constrained_forward_dynamics, *given, out=out
        )
        calls[f"unconstrained, {dtype}"] = partial(
            robot.forward_dynamics, *given, out=robot.forward_dynamics(*given)
        )
    print(description())
    timings = interleaved(calls, seconds, thread_time)
    least = {name: 1e9 * timing.least / BATCH for name, timing in timings.items()}
    pinocchio = least["Pinocchio, float64"]
    rows = [["", "ns for one state", "rate over Pinocchio's", "time over unconstrained"]]
    for name, ns in least.items():
        kind, dtype = name.split(", ")
        ratio = f"{ns / least[f'un{name}']:.2f}" if kind == "constrained" else ""
        rate = f"{pinocchio / ns:.0f}" if kind == "constrained" else ""
        rows.append([f"{kind}, {dtype}", f"{ns:,.0f}", rate, ratio])
        print(*rows[-1])
    write("constrained_times", rows)


def main() -> None:
    """Count or measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("operations", "times"))
    parser.add_argument("--compile", action="store_true", help="compile Pinocchio, two minutes")
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    native.patient = options.compile
    if options.what == "operations":
        count()
    else:
        measure(options.seconds)


if __name__ == "__main__":
    main()
