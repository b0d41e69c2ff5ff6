"""Five tasks beside the library that is known for each: the table of README.md.

    python benchmarks/headline.py [--seconds 20] [--compile] [--write]

One thread; calls of a task are interleaved in one process, and times are those of the processor:
the least, and the median. --compile compiles Pinocchio's loops, which takes minutes. --write writes
benchmarks/results/headline.md, from which `make golden` renews README.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from time import process_time
from typing import NamedTuple

import contacts  # first: it limits the threads of libraries that are imported later
import ilqr
import inverse_kinematics
import native
import numpy as np
from cases import load_case
from interleave import Call, Timing, interleaved
from machine import description
from peers import peers

RESULT = Path(__file__).parent / "results" / "headline.md"
DTYPES = ("float32", "float64")
#: States, poses or problems of a call; a peer of a search solves the first few.
BATCH, PROBLEMS, FEW = 4096, 64, 8
#: Packages whose versions the page names.
PACKAGES = {
    "Pinocchio": "pin",
    "MuJoCo": "mujoco",
    "Crocoddyl": "crocoddyl",
}


class Task(NamedTuple):
    """Calls of one task by contestant, and the number of results of each."""

    calls: dict[str, Call]
    counts: dict[str, int]


def dynamics(robot: str, function: str) -> Task:
    """Return a function of a robot and Pinocchio's loop in C++."""
    case = load_case(robot)
    states = case.states(BATCH)
    found = peers(case, 1, ["gridgen_cpu", "pinocchio_loop"])
    ways = {}
    for peer in found.values():
        if isinstance(peer, str):
            raise native.Unavailable(peer)
        ways |= peer.contestants(function, states)
    names = [*DTYPES, "Pinocchio"]
    calls = {name: way.run for name, way in zip(names, ways.values(), strict=True)}
    return Task(calls, dict.fromkeys(names, BATCH))


def contact_step() -> Task:
    """Return steps of a quadruped on its feet, and MuJoCo's rollout."""
    model = contacts.model_of("quadruped pyramidal")
    found, _ = contacts.states(model, np.random.default_rng(0))
    calls: dict[str, Call] = {}
    for dtype in DTYPES:
        both, _, _ = contacts.calls(model, BATCH, found, dtype=dtype)
        calls |= {dtype: both["own"], "MuJoCo": both["MuJoCo"]}
    steps = dict.fromkeys(DTYPES, BATCH * contacts.STEPS)
    return Task(calls, steps | {"MuJoCo": contacts.FEW * contacts.STEPS})


def poses() -> Task:
    """Return inverse kinematics of random poses, and a loop over Pinocchio in C++."""
    problem = inverse_kinematics.Problem(*inverse_kinematics.ROBOTS["panda"], BATCH)
    ways = {label.split(", ")[1]: (run, count) for label, count, run in problem.own()}
    _, count, run = problem.pinocchio_loop()
    ways["Pinocchio"] = run, count
    return Task({x: run for x, (run, _) in ways.items()}, {x: n for x, (_, n) in ways.items()})


def trajectories() -> Task:
    """Return trajectories of an arm by iLQR, and Crocoddyl's solver FDDP."""
    problem = ilqr.Problem(*ilqr.CASES["arm7"], PROBLEMS)
    solvers = [problem.peer(index) for index in range(FEW)]
    calls: dict[str, Call] = {dtype: lambda x=dtype: problem.solve(x) for dtype in DTYPES}
    calls["Crocoddyl"] = lambda: [solver.solve(xs, us, 200) for solver, xs, us in solvers]
    return Task(calls, dict.fromkeys(DTYPES, PROBLEMS) | {"Crocoddyl": FEW})


TASKS: dict[str, Callable[[], Task]] = {
    "inverse dynamics, 7-joint arm (panda)": lambda: dynamics("panda", "inverse_dynamics"),
    "forward dynamics, humanoid (g1)": lambda: dynamics("g1", "forward_dynamics_aba"),
    "step with contacts, quadruped on four feet": contact_step,
    "inverse kinematics of a random pose, panda": poses,
    "iLQR, 100 steps of a 7-joint arm": trajectories,
}


def row(name: str, task: Task, seconds: float) -> str:
    """Return a row of the table, times for one result."""
    for call in task.calls.values():
        call()
    times = interleaved(task.calls, seconds, process_time)
    peer = next(name for name in times if name not in DTYPES)
    cells = [shown(times[x], task.counts[x]) for x in (*DTYPES, peer)]
    least = {x: times[x].least / task.counts[x] for x in times}
    ratios = " / ".join(f"{least[peer] / least[x]:.0f}" for x in DTYPES)
    own = f"{cells[0]} / {cells[1]}"
    return f"| {name} | {own} | {peer}: {cells[2]} | **{ratios}** |"


def shown(timing: Timing, count: int) -> str:
    """Return least and median of a result [us]."""
    numbers = (1e6 * x / count for x in (timing.least, timing.median))
    least, median = (f"{float(f'{number:.3g}'):,g}" for number in numbers)
    return f"{least} ({median})"


def page(rows: list[str]) -> str:
    """Return the page of results."""
    machine = description()
    versions = ", ".join(f"{name} {metadata.version(key)}" for name, key in PACKAGES.items())
    virtual = ", virtual" if machine["virtual"] else ""
    return f"""# Five tasks

| task | grid-gen: float32 / float64 | peer: float64 | ratio |
|---|---|---|---|
{chr(10).join(rows)}

Microseconds of the processor for one result on one thread: least (median). Ratios are those of
least times: of float32 / of float64. Peers are called from C++ or C, one result after the other:
Pinocchio's `rnea`, `aba` and a loop of damped least squares, MuJoCo's `rollout`, Crocoddyl's FDDP.
grid-gen computes batches of {BATCH:,}, and {PROBLEMS} for iLQR. {machine["processor"]}{virtual};
{versions}; {machine["date"]}; load at the start {machine["load_at_the_start"]:.1f}. Command:
`python benchmarks/headline.py --compile --write`.
"""


def main() -> int:
    """Measure all tasks, print them and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each task")
    parser.add_argument("--compile", action="store_true", help="also what takes minutes to compile")
    parser.add_argument("--write", action="store_true", help="write the table of the manual")
    arguments = parser.parse_args()
    native.patient = arguments.compile
    rows = []
    for name, make in TASKS.items():
        try:
            rows.append(row(name, make(), arguments.seconds))
        except native.Unavailable as error:
            if arguments.write:
                raise
            print(f"{name}: {error}", file=sys.stderr)
        else:
            print(rows[-1], flush=True)
    if arguments.write:
        RESULT.write_text(page(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
