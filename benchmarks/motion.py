"""Rollouts beside loops over single steps: of the generated header, MuJoCo and Pinocchio.

    python benchmarks/motion.py [--batch 4096] [--steps 64] [--seconds 20] [--compile]

One thread, all contestants interleaved in one process, states and efforts in rows; every state of
the way is written. Least times of many are shown, those of the processor: what else a machine does
makes them longer.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import thread_time

os.environ.update(dict.fromkeys(("GRIDGEN_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import native
import numpy as np
from cases import Case, load_case
from interleave import Timing, interleaved
from machine import description

from gridgen import GenerateOptions, generate, load
from gridgen.backends.cpu.units import FLAGS

ROBOTS = ("arm7", "quadruped")
DT = 1e-3
PEERS = Path(__file__).with_name("peers")

Paths = Callable[[], np.ndarray]
Contestants = dict[str, tuple[Callable[[], object], Paths]]


def states(case: Case, batch: int, steps: int) -> dict[str, np.ndarray]:
    """Return the beginning and the efforts: small ones, that no robot tumbles far."""
    x = dict(case.states(batch))
    rng = np.random.default_rng(1)
    tau = 0.1 * rng.normal(size=(batch, steps, case.tree.nv))
    if case.floating_base:
        tau[..., :6] = 0.0
    return {"q": x["q"], "qd": 0.1 * x["qd"], "tau": tau}


def own(case: Case, x: dict[str, np.ndarray]) -> Contestants:
    """Return the rollout, for all states and for the last alone, and the loop over the header."""
    robot = load(case.urdf, floating_base=case.floating_base)
    single = {name: value.astype(np.float32) for name, value in x.items()}
    arguments = single["q"], single["qd"], single["tau"], np.full(len(x["q"]), DT, np.float32)
    found: Contestants = {}
    for name, every in (("rollout", 1), ("rollout, the last state", "last")):
        bound = robot.bind("rollout", *arguments, store_every=every)
        results = bound()
        last = results[0] if every == "last" else results[0][:, -1]
        found[name] = bound, partial(np.asarray, last)
    folder = native.BUILT / f"rollout_{case.name}"
    options = GenerateOptions(
        output=folder, name="peer", floating_base=case.floating_base, functions=("step",)
    )
    module = generate(case.urdf, options)
    unit = folder / f"header_rollout_{case.name}.cpp"
    own_text = (PEERS / "header_rollout.h").read_text(encoding="utf-8")
    unit.write_text(f'#include "peer_simd.h"\n{own_text}', encoding="utf-8")
    flags = (*FLAGS, f"-I{module.folder}", "-DROBOT=peer", "-fvisibility=default")
    flags += (f"-DNQ={robot.nq}", f"-DNV={robot.nv}")
    library = native.compiled(unit, flags, sorted(module.folder.glob("*.*h")))
    batch, steps, _ = x["tau"].shape
    paths = [np.empty((batch, steps + 1, n), np.float32) for n in (robot.nq, robot.nv)]
    others = np.array([DT], np.float32), np.array([0.0, 0.0, -9.81], np.float32)
    pointers = [native.pointers([array])[0] for array in (*arguments[:3], *others, *paths)]
    call = partial(
        library.roll_out,
        *map(ctypes.c_void_p, pointers[:5]),
        ctypes.c_long(batch),
        ctypes.c_long(steps),
        *map(ctypes.c_void_p, pointers[5:]),
    )
    found["C++ loop"] = call, lambda: (paths[0][:, -1], arguments, others)[0]
    return found


def mujoco(case: Case, x: dict[str, np.ndarray]) -> Contestants:
    """Return MuJoCo's own rollout, constraints switched off; its Euler method is semi-implicit."""
    import mujoco as library
    from mujoco import rollout
    from peers.mujoco_model import build
    from peers.world_velocity import converted

    model, order = build(case)
    model.opt.timestep = DT
    batch, steps, _ = x["tau"].shape
    still = np.zeros_like(x["qd"])
    given = converted(case, {"q": x["q"], "qd": x["qd"], "qdd": still, "tau": still}, order)
    base = 6 if case.floating_base else 0
    columns = [*range(base), *(base + place for place in order)]
    control = np.ascontiguousarray(x["tau"][..., columns])
    initial = np.hstack([np.zeros((batch, 1)), given["q"], given["qd"]])
    state = np.empty((batch, steps, initial.shape[1]))
    sensors = np.empty((batch, steps, model.nsensordata))
    applied = int(library.mjtState.mjSTATE_QFRC_APPLIED)

    def last() -> np.ndarray:
        q = state[:, -1, 1 : 1 + model.nq]
        joints = len(order)
        return np.hstack([q[:, :-joints], q[:, -joints:][:, np.argsort(order)]])

    runner = rollout.Rollout(nthread=0)
    call = partial(
        runner.rollout, model, library.MjData(model), initial, control, control_spec=applied,
        nstep=steps, state=state, sensordata=sensors,
    )  # fmt: skip
    return {"MuJoCo": (call, last)}


def pinocchio(case: Case, x: dict[str, np.ndarray]) -> Contestants:
    """Return Pinocchio's ``aba`` and ``integrate`` in a C++ loop."""
    from peers.pinocchio_loop import Peer
    from peers.pinocchio_model import positions

    peer = Peer(case, 1)
    entry, loop = peer._entry(PEERS / "pinocchio_rollout.cpp", "rollout")
    batch, steps, nv = x["tau"].shape
    q = np.ascontiguousarray(positions(peer._model, case, x["q"]))
    inputs = [q, x["qd"], x["tau"], np.array([DT, steps])]
    outputs = [np.empty((batch, steps + 1, n)) for n in (q.shape[1], nv)]
    given = native.pointers(inputs), native.pointers(outputs)
    call = partial(entry, loop, ctypes.c_long(batch), *given)
    return {"Pinocchio": (call, lambda: (outputs[0][:, -1], inputs)[0])}


def measure(case: Case, batch: int, steps: int, seconds: float) -> dict[str, Timing]:
    """Return the time of every contestant; those that arrive elsewhere are refused."""
    x = states(case, batch, steps)
    contestants = own(case, x)
    for make in (mujoco, pinocchio):
        try:
            contestants |= make(case, x)
        except (ImportError, native.Unavailable) as error:
            print(f"{case.name}: {make.__name__} is left out: {error}", file=sys.stderr)
    expected = None
    for name, (call, last) in contestants.items():
        call()
        found = np.asarray(last(), np.float64)
        expected = found if expected is None else expected
        base = 7 if case.floating_base else 0  # MuJoCo's free joint has other coordinates
        error = np.abs(found - expected)[:, base:].max()
        assert error < 1e-2, (name, error)
    return interleaved(
        {name: call for name, (call, _) in contestants.items()}, seconds, thread_time
    )


def main() -> None:
    """Print a table for each robot; with ``--json`` the run as data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--compile", action="store_true", help="compile Pinocchio: minutes, once")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    native.patient = options.compile
    data = {"machine": description(), "batch": options.batch, "steps": options.steps}
    if not options.json:
        machine = data["machine"]
        print(f"{machine['date']}, {machine['processor']}, load {machine['load_at_the_start']:.1f}")
        print(f"{options.batch} states, {options.steps} steps, one thread, least processor times\n")
    for robot in ROBOTS:
        timings = measure(load_case(robot), options.batch, options.steps, options.seconds)
        steps = options.batch * options.steps
        data[robot] = {name: vars(timing) for name, timing in timings.items()}
        if not options.json:
            print(f"| {robot} | ns a step | over the rollout | samples |")
            print("|---|---|---|---|")
            least = timings["rollout"].least
            for name, timing in timings.items():
                ratio = f"{timing.least / least:.2f}"
                cells = (name, f"{1e9 * timing.least / steps:.1f}", ratio, timing.samples)
                print("| " + " | ".join(map(str, cells)) + " |")
            print()
    if options.json:
        print(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
