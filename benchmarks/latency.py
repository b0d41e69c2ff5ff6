"""One state at a time in C++: a robot's library beside Pinocchio, in float64 on one thread.

    python benchmarks/latency.py [--robots arm7 humanoid] [--seconds 10] [--compile]

A loop in C++ calls a function for one state after the other, each time another one; neither has a
binding between. "chained": each call reads numbers of the result before, so that none begins before
the last one has ended: what a controller waits for. Least times of many, of the processor, all
contestants interleaved.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from time import thread_time

os.environ.update(dict.fromkeys(("GRIDGEN_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import native
import numpy as np
from cases import INPUTS, Case, States, load_case
from interleave import interleaved
from machine import description
from peers import Contestant, pinocchio_library, pinocchio_loop

from gridgen import GenerateOptions, generate
from gridgen.backends.cpu.units import LIBRARY_FLAGS

ROBOTS = ("arm7", "quadruped", "humanoid")
FUNCTIONS = ("inverse_dynamics", "forward_dynamics_aba")
_METHODS = ("forward_dynamics_aba",)
#: Different states, few enough to stay in the cache.
STATES = 64
# What the loops call: scalars, SIMD packs with one state in them, scalars that wait for each other.
_LOOPS = """\
#define GRIDGEN_ONLY
#define GRIDGEN_ONLY_{function}
#define GRIDGEN_ONLY_F64
#include "{robot}.cpp"

GRIDGEN_EXPORT void scalars(long n, const double** in, double* out)
{{
    for (long i = 0; i < n; ++i)
        {call}(in[0] + i * {nq}, in[1] + i * {nv}, in[2] + i * {nv}, out + i * {nv}, 1, nullptr);
}}
GRIDGEN_EXPORT void packs(long n, const double** in, double* out)
{{
    const double gravity[] = {{0, 0, -9.81}};
    for (long i = 0; i < n; ++i) {{
        const gridgen_array arrays[] = {{
            gridgen::in_rows(in[0] + i * {nq}, {nq}), gridgen::in_rows(in[1] + i * {nv}, {nv}),
            gridgen::in_rows(in[2] + i * {nv}, {nv}), gridgen::for_all(gravity),
            gridgen::in_rows(out + i * {nv}, {nv})}};
        {robot}::simd::{function}<double>(arrays, 0, 1, 1);
    }}
}}
GRIDGEN_EXPORT void chained(long n, const double** in, double* out)
{{
    double x[{nv}] = {{}};
    for (long i = 0; i < n; ++i) {{
        for (int j = 0; j < {nv}; ++j) x[j] = in[2][i * {nv} + j] + 0x1p-60 * x[j];
        {call}(in[0] + i * {nq}, in[1] + i * {nv}, x, x, 1, nullptr);
        for (int j = 0; j < {nv}; ++j) out[i * {nv} + j] = x[j];
    }}
}}
"""


def loops(case: Case, function: str) -> dict[str, Callable[[np.ndarray, list[np.ndarray]], object]]:
    """Return the loops over a robot's library; each takes where results go, and arguments."""
    name = "forward_dynamics" if function in _METHODS else function
    options = GenerateOptions(
        output=native.BUILT / "latency", functions=(name,), floating_base=case.floating_base
    )
    module = generate(case.urdf, options)
    robot = module.folder.name
    sizes = {"nq": case.tree.nq, "nv": case.tree.nv}
    text = _LOOPS.format(function=function, robot=robot, call=f"{robot}_{function}_f64", **sizes)
    files = "".join(module.files[file] for file in sorted(module.files))
    source = native.BUILT / f"latency_{robot}_{function}.cpp"
    source.write_text(f"// {hashlib.sha256(files.encode()).hexdigest()}\n{text}", encoding="utf-8")
    library = native.compiled(source, (f"-I{module.folder}", *LIBRARY_FLAGS))

    def run(entry: Callable[..., None], out: np.ndarray, arguments: list[np.ndarray]) -> None:
        entry(len(out), native.pointers(arguments), out.ctypes.data)

    found = {}
    for name in ("scalars", "packs", "chained"):
        entry = library[name]
        entry.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        found[name] = partial(run, entry)
    return found


def pinocchio(case: Case, function: str, states: States) -> tuple[str, Contestant]:
    """Return Pinocchio compiled for this processor, its library where it has not been compiled."""
    for module in (pinocchio_loop, pinocchio_library):
        try:
            ((name, peer),) = module.Peer(case, 1).contestants(function, states).items()
        except native.Unavailable as error:
            why = error
        else:
            return name, peer
    raise SystemExit(str(why))


def measure(name: str, function: str, seconds: float) -> Mapping[str, float]:
    """Return least nanoseconds of one state, by contestant."""
    case = load_case(name)
    states = case.states(STATES)
    arguments = [np.ascontiguousarray(states[key]) for key in INPUTS[function]]
    which, peer = pinocchio(case, function, states)
    peer.run()
    (expected,) = peer.results()
    calls: dict[str, Callable[[], object]] = {which: peer.run}
    for loop, run in loops(case, function).items():
        out = np.empty((STATES, case.tree.nv))
        run(out, arguments)
        np.testing.assert_allclose(out, expected, rtol=1e-8, atol=1e-8 * abs(expected).max())
        calls[loop] = partial(run, out, arguments)
    timings = interleaved(calls, seconds, thread_time)
    return {loop: 1e9 * timing.least / STATES for loop, timing in timings.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--robots", nargs="+", default=ROBOTS, choices=ROBOTS)
    parser.add_argument("--functions", nargs="+", default=FUNCTIONS, choices=FUNCTIONS)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each robot and function")
    parser.add_argument("--compile", action="store_true", help="Pinocchio, a minute a function")
    options = parser.parse_args()
    native.patient = options.compile
    print(description())
    print("nanoseconds of one state; in brackets over Pinocchio's\n")
    columns = ("scalars", "packs", "chained")
    print("| robot | function | beside |  |" + "".join(f" {one} |" for one in columns))
    print("|---|---|---|" + "---:|" * (len(columns) + 1))
    for robot in options.robots:
        for function in options.functions:
            found = measure(robot, function, options.seconds)
            (which, peer), *_ = found.items()
            cells = [which, f"{peer:.0f}"]
            cells += [f"{found[column]:.0f} ({found[column] / peer:.2f})" for column in columns]
            print(f"| {robot} | {function} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
