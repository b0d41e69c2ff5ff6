"""Speed of the ``cuda`` backend on this machine's GPU, beside its ceilings and its peers.

    python benchmarks/gpu.py --output build/gpu.json
    python benchmarks/gpu.py --robots arm7 --functions inverse_dynamics --batches 256 1048576
    python benchmarks/gpu.py --markdown build/gpu.json > benchmarks/results/gpu-<device>.md

It needs CuPy, NumPy, SymPy, Jinja2 and lxml; peers are measured where they are installed. The file
is written anew after every function, so that a run that is stopped leaves what it has measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import gpu_report
import numpy as np
from cases import INPUTS, KEYS, OWN, Case, load_case
from disassembly import executable_bytes
from gpu_peers import PEERS
from gpu_timing import Clock, Refused, device_description, measured_limits
from tables import read_run

from gridgen.backends.cuda.backend import require_device
from gridgen.backends.cuda.compiler import compile_kernel
from gridgen.check import compare_function
from gridgen.dynamics.functions import computation_of
from gridgen.errors import GridGenError
from gridgen.functions import FUNCTIONS
from gridgen.options import DTYPE_CHOICES, MAX_PROGRAM
from gridgen.robot import Robot
from gridgen.schedules.thread.plan import plan_programs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "robots"))

from chain import serial_chain

BATCHES = (1, 32, 256, 1024, 4096, 65536, 1 << 20)
CHAINS = {f"chain{bodies}": bodies for bodies in (10, 100, 1000)}
LAYOUTS = ("rows", "components")
#: Chains whose straight-line kernels have 40 to 200 kB of code: their bodies, by function.
CODE = {"inverse_dynamics": (14, 28, 42, 56, 70), "forward_dynamics_aba": (6, 12, 17, 22, 28)}
#: States on which results are compared with the reference.
COMPARED = 16
#: The part of the free memory that the arrays of one row may take.
_SHARE_OF_MEMORY = 0.4
_FIRST = ("mass_matrix", "thread", 1 << 20)  # the row that is measured first, in both layouts
_SEED = 1
#: States that others are given at most: those of GRiD take memory for each when it is built.
_MAX_OF_PEERS = 1 << 16


@dataclass(frozen=True)
class Variant:
    """One kernel that computes a function.

    Attributes:
        function: its name in the tables: ``forward_dynamics_aba``.
        schedule: how states are laid over threads.
        dtype:    the element type.
        layout:   where the numbers of a state lie: ``rows`` or ``components``.
    """

    function: str
    schedule: str
    dtype: str
    layout: str = "rows"


def main() -> int:
    """Measure, and write after every function."""
    arguments = parsed(sys.argv[1:])
    if arguments.markdown:
        print(gpu_report.markdown(read_run(arguments.markdown)))
        return 0
    clock = Clock(require_device(), arguments.seconds)
    results: dict[str, Any] = {
        "device": device_description(clock.cupy),
        "limits": measured_limits(clock),
        "rows": [],
        "unavailable": {},
    }
    if not arguments.robots and not arguments.functions:
        arch = f"sm_{clock.cupy.cuda.Device().compute_capability}"
        results["code"] = list(code_rows(clock, arch, CODE, _FIRST[2]))
        function, schedule, batch = _FIRST
        case = load("arm7")
        for layout in LAYOUTS:
            variant = Variant(function, schedule, "float32", layout)
            results["rows"] += measured(clock, case, variant, [batch], results)
    for name in arguments.robots or (*OWN, *CHAINS):
        case = load(name)
        for function in filter(case.has, arguments.functions or INPUTS):
            for variant in variants(case, function, arguments):
                results["rows"] += measured(clock, case, variant, arguments.batches, results)
            for peer in arguments.peers:
                results["rows"] += beside(clock, peer, case, function, arguments.batches, results)
            if arguments.output:
                text = json.dumps(results, indent=1)
                arguments.output.write_text(text + "\n", encoding="utf-8")
    print(gpu_report.markdown(results))
    return 0


def parsed(words: list[str]) -> argparse.Namespace:
    """Return the command line's choices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=(*OWN, *CHAINS))
    parser.add_argument("--functions", nargs="+", choices=INPUTS)
    parser.add_argument("--schedules", nargs="+")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPE_CHOICES, default=list(DTYPE_CHOICES))
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=["rows"])
    parser.add_argument("--batches", nargs="+", type=int, default=list(BATCHES))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--seconds", type=float, default=0.1, help="for each figure")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--markdown", type=Path, metavar="JSON", help="print tables of a run")
    return parser.parse_args(words)


def load(name: str) -> Case:
    """Return a robot of the repository, or a chain."""
    if name not in CHAINS:
        return load_case(name)
    return chain_of(CHAINS[name])


def chain_of(bodies: int, longest: int = MAX_PROGRAM) -> Case:
    """Return a chain, with loops if its programs have more operations than the longest."""
    urdf = serial_chain(bodies, _SEED, prismatic=0.0, continuous=0.0, skew=1.0, fixed=0.0)
    return Case(f"chain{bodies}", urdf, floating_base=False, longest=longest)


def code_rows(
    clock: Clock, arch: str, chains: Mapping[str, Sequence[int]], batch: int
) -> Iterator[dict[str, Any]]:
    """Yield what kernels of ever more code take, and those with loops beside them.

    They settle from which size instructions are fetched anew, and what that takes.
    """
    for function, counts in chains.items():
        for bodies in counts:
            for longest in (MAX_PROGRAM, 0):
                case = chain_of(bodies, longest)
                variant = Variant(function, "thread", "float32")
                kernel = case.module.kernels.named(function)
                sources = case.module.sources(kernel)
                rows = True in sources.forms(kernel.name)
                image = compile_kernel(sources, kernel.name, variant.dtype, arch, rows=rows).image
                row = row_of(clock, case, Robot(case.module, "cuda"), variant, batch)
                yield row | {"code_bytes": executable_bytes(image), "has_loops": not rows}


def variants(case: Case, function: str, arguments: argparse.Namespace) -> Iterator[Variant]:
    """Yield the kernels that compute a function of a robot."""
    key = KEYS[function]
    for schedule in FUNCTIONS[key.function].methods[key.method].schedules:
        if arguments.schedules is None or schedule in arguments.schedules:
            for dtype in arguments.dtypes:
                for layout in arguments.layouts:
                    yield Variant(function, schedule, dtype, layout)


def measured(
    clock: Clock, case: Case, variant: Variant, batches: list[int], results: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each batch; what cannot be measured is noted with the reason."""
    words = (
        f"{case.name}, {variant.function}, {variant.schedule}, {variant.dtype}, {variant.layout}"
    )
    robot = Robot(case.module, "cuda")
    for batch in sorted(batches):
        try:
            yield row_of(clock, case, robot, variant, batch)
        except GridGenError as error:  # the robot cannot have it
            results["unavailable"][words] = str(error)
            return
        except Refused as error:
            results["unavailable"][f"{words}, batch {batch}"] = str(error)
            return
    print(words, file=sys.stderr, flush=True)


def row_of(clock: Clock, case: Case, robot: Robot, variant: Variant, batch: int) -> dict[str, Any]:
    """Return the figures of one kernel for one batch.

    Raises:
        GridGenError: the robot cannot have the kernel.
        Refused:      the arrays are too large for the device, or the results are wrong.
    """
    key, entry = KEYS[variant.function], case.entry(variant.function)
    spec = computation_of(case.tree, entry)
    record = spec.kernel(case.tree)
    numbers = sum(prod(shape) for shape in (*record.inputs.values(), *record.outputs.values()))
    size = batch * numbers * np.dtype(variant.dtype).itemsize
    if size > _SHARE_OF_MEMORY * (free := clock.free_bytes()):
        raise Refused(f"its arrays take {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")
    options = case.keywords(variant.function)
    if "schedule" in FUNCTIONS[key.function].options:
        options["schedule"] = variant.schedule
    function = partial(robot.bind, key.function, **options)
    if not (error := compared(clock, case, variant, function)) <= 1:
        raise Refused(f"its error is {error:.2g} times what is allowed")
    inputs = placed(clock, case, variant, batch)
    outs = tuple(
        laid_out(clock, np.zeros((batch, *shape), variant.dtype), variant.layout)
        for shape in record.outputs.values()
    )
    bound = function(*inputs, out=outs if len(outs) > 1 else outs[0])
    row = {
        "robot": case.name,
        "nv": case.tree.nv,
        "function": variant.function,
        "schedule": variant.schedule,
        "dtype": variant.dtype,
        "layout": variant.layout,
        "batch": batch,
        "contestant": "gridgen",
        "error": error,
        "bytes": size // batch,
        "instructions": instructions(case, variant.function)
        if variant.schedule == "thread"
        else None,
    }
    figures = clock.figures(bound)
    del bound, inputs, outs
    if variant.layout == "rows":
        host = host_arrays(case, variant, batch)
        outs = tuple(np.zeros((batch, *shape), variant.dtype) for shape in record.outputs.values())
        call = getattr(robot, key.function)
        out = outs if len(outs) > 1 else outs[0]
        figures["whole_us"] = clock.whole(partial(call, *host, out=out, **options))
    return row | figures


def compared(clock: Clock, case: Case, variant: Variant, function: Any) -> float:
    """Return the error of a few states, relative to what is allowed: more than 1 is too much."""
    inputs = placed(clock, case, variant, COMPARED)
    results = function(*inputs)()
    results = results if isinstance(results, tuple) else (results,)
    clock.cupy.cuda.runtime.deviceSynchronize()
    host = tuple(clock.cupy.asnumpy(result) for result in results)
    given = {
        name: value.astype(variant.dtype).astype(np.float64)
        for name, value in case.states(COMPARED).items()
    }
    comparison = compare_function(
        case.tree, case.entry(variant.function), variant.dtype, given, host
    )
    return comparison.error / comparison.tolerance


def placed(clock: Clock, case: Case, variant: Variant, batch: int) -> list[Any]:
    """Return a function's arguments on the device."""
    return [laid_out(clock, values, variant.layout) for values in host_arrays(case, variant, batch)]


def host_arrays(case: Case, variant: Variant, batch: int) -> list[np.ndarray]:
    """Return a function's arguments on the host, in rows."""
    states = case.states(min(batch, 4096))
    copies = -(-batch // 4096)
    return [
        np.tile(states[name], (copies, 1))[:batch].astype(variant.dtype)
        for name in INPUTS[variant.function]
    ]


def laid_out(clock: Clock, values: np.ndarray, layout: str) -> Any:
    """Return an array on the device whose states lie in rows, or whose components do."""
    if layout == "rows":
        return clock.cupy.asarray(values)
    there = clock.cupy.asarray(np.ascontiguousarray(np.moveaxis(values, 0, -1)))
    return clock.cupy.moveaxis(there, -1, 0)


def instructions(case: Case, function: str) -> int | None:
    """Return the instructions of a state, where the program is straight-line."""
    program = plan_programs(case.tree, case.entry(function), case.longest, case.longest).cpu
    return None if program.loops is not None else program.instructions


def beside(
    clock: Clock,
    name: str,
    case: Case,
    function: str,
    batches: list[int],
    results: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yield what a peer takes for a function; what it lacks is noted once."""
    for batch in sorted(batch for batch in batches if batch <= _MAX_OF_PEERS):
        try:
            call = PEERS[name](case, function, case.states(batch), clock)
        except (ImportError, Refused) as error:
            results["unavailable"][f"{name}, {case.name}, {function}"] = str(error)
            return
        if call is None:
            return
        key = {"robot": case.name, "nv": case.tree.nv, "function": function, "contestant": name}
        yield key | {"dtype": "float32", "batch": batch, "layout": "rows"} | clock.figures(call)


if __name__ == "__main__":
    sys.exit(main())
