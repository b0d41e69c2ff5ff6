"""What a GPU that has not been seen before shows in 20 minutes: tests, sanitizer, measurements.

    python benchmarks/first_day.py --output build/first-day.json
    python benchmarks/first_day.py --markdown build/first-day.json
    python benchmarks/first_day.py --fit build/first-day.json     # writes cost/devices.py

The measurements settle the figures that the model of ``gridgen.cost`` guesses. ``--fit`` writes
them into the table of devices; ``make gpu-first-day`` is the first command.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from cases import KEYS, load_case
from gpu import LAYOUTS, Variant, placed
from gpu_timing import Clock, device_description, measured_limits
from tables import read_run

import gridgen
import gridgen.cost.devices
from gridgen.backends.cuda.backend import CudaBackend, require_device
from gridgen.backends.interface import Launch, Sources
from gridgen.cost.devices import DEVICES, SECTOR, Device
from gridgen.functions import FUNCTIONS
from gridgen.robot import Robot
from gridgen.runtime.arrays.layout import address
from gridgen.runtime.planning.devices import gpu_place

ROOT = Path(__file__).resolve().parents[1]
#: Seconds that the tests and the sanitizer may take; the measurements take two minutes.
TESTS_SECONDS, SANITIZER_SECONDS = 600, 240
TOOLS = ("memcheck", "racecheck", "synccheck")
#: Functions of arm7 and of a humanoid, whose code is as long as the instruction caches are assumed
#: to be, that are measured beside their prediction. The sanitizer looks at arm7's.
COMPARED = ("inverse_dynamics", "forward_dynamics_aba", "mass_matrix", "forward_dynamics_gradient")
LARGE = ("forward_dynamics_aba",)
BATCHES = (1024, 1 << 20)


@dataclass(frozen=True)
class Sizes:
    """How much a measurement does.

    Attributes:
        words:    4-byte numbers of an array beyond every cache.
        l2_words: of one that L2 holds, and no first cache.
        steps:    loads that wait for each other.
        rounds:   how often an array is read, or local memory.
        code:     multiply-adds of the kernels that code is fetched for.
        kept:     numbers of a thread's local memory: little, and more than the caches hold.
    """

    words: int = 1 << 26
    l2_words: int = 1 << 22
    steps: int = 4096
    rounds: int = 16
    code: tuple[int, ...] = (2048, 4096, 6144, 8192, 10240, 12288, 16384)
    kept: tuple[int, ...] = (8, 512)


_HEAD = """
namespace measured {
template <class T> struct Strided {
    T* data;
    long long batch, component;
};

template <class T>
__global__ void __launch_bounds__(256) %s_kernel(Strided<T> x, Strided<T> y, long long n)
{
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
%s
}
}  // namespace measured
"""
#: What the kernels do; results depend on what is measured, or a compiler leaves it out.
_BODIES = {
    "empty": "    if (i >= n) y.data[0] = T(0);",
    # Goes on where the last launch has ended: no cache has what follows.
    "chase": """\
    int at = *reinterpret_cast<int*>(y.data);
    for (long long k = 0; k < n; ++k) at = reinterpret_cast<const int*>(x.data)[at];
    __syncwarp();
    if (i == 0) *reinterpret_cast<int*>(y.data) = at;""",
    # In each round a block reads what another one has read before: no first cache has it. Blocks
    # are a power of two.
    "read": """\
    T sum = T(0);
    for (unsigned r = 0; r < ROUNDS; ++r)
        sum += x.data[((blockIdx.x + r * 37u) & (gridDim.x - 1)) * blockDim.x + threadIdx.x];
    if (i < n) y.data[i] = sum;""",
    "write": "    if (i < n) y.data[i * y.component] = T(1);",
    "code": """\
    T a = x.data[0], b = x.data[1], c = x.data[2], d = x.data[3];
    const T s = x.data[4], t = x.data[5];
    BODY
    if (a + b + c + d == t) y.data[0] = T(i + n);""",
    "local": """\
    const int begin = int(n);  // not known to a compiler, which would take registers
    T kept[KEPT];
    for (int k = 0; k < KEPT; ++k) kept[(begin + k) % KEPT] = T(i + k);
    for (int r = 0; r < ROUNDS; ++r)
        for (int k = 0; k < KEPT; ++k) kept[(begin + r + k) % KEPT] += T(1);
    if (i < n) y.data[i] = kept[begin % KEPT];""",
}
# Not seen by what optimizes, which would take minutes.
_MULTIPLY_ADDS = "; ".join(f"fma.rn.f32 %{k}, %{k}, %4, %5" for k in range(4))
_MULTIPLY_ADDS = (
    f'asm volatile("{_MULTIPLY_ADDS};" : "+f"(a), "+f"(b), "+f"(c), "+f"(d) : "f"(s), "f"(t));'
)


class Bench:
    """Measures one device.

    Args:
        clock:  times calls.
        device: its figures as the table and its driver have them.
        sizes:  how much measurements do.
    """

    def __init__(self, clock: Clock, device: Device, sizes: Sizes) -> None:
        self._clock, self._device, self._sizes = clock, device, sizes
        self._cupy = clock.cupy

    def seconds(
        self, name: str, launch: Launch, batch: int, x: Any, y: Any, stride: int = 1, **macros: Any
    ) -> float:
        """Return what a kernel of this file takes, in a graph."""
        body = _BODIES[name]
        for macro, value in macros.items():
            body = re.sub(rf"\b{macro}\b", str(value), body)
        sources = Sources("measured", {"measured.cu": _HEAD % (name, body)})
        kernel = CudaBackend().kernel(sources, name, "float32", launch)
        self._cupy.cuda.get_current_stream().synchronize()  # which has made the arrays
        words = (x.data.ptr, 1, 1, y.data.ptr, 1, stride)
        run = kernel.prepare((ctypes.c_int64 * 6)(*words), batch)
        figures = self._clock.figures(run)
        return 1e-6 * float(figures["graph_us"] or figures["us"])

    def figures(self) -> dict[str, Any]:
        """Return what was measured, in the model's units."""
        cupy, sizes, device = self._cupy, self._sizes, self._device
        one = cupy.zeros(8, np.float32)
        launch = self.seconds("empty", Launch(32, 32), 32, one, one)
        found: dict[str, Any] = {"launch": launch}

        # A way through an array in steps of 4 kB and a sector: no two are in one line or page.
        step = 1024 + SECTOR // 4
        way = cupy.asarray(((np.arange(sizes.words) + step) % sizes.words).astype(np.int32))
        alone = Launch(32, sizes.steps)  # one block for any number of steps
        chase = self.seconds("chase", alone, sizes.steps, way, one) - launch
        found["latency"] = chase / sizes.steps * device.clock

        few, out = (cupy.zeros(sizes.l2_words, np.float32) for _ in range(2))
        whole = Launch(256, 256)
        options = {"ROUNDS": sizes.rounds}
        took = self.seconds("read", whole, sizes.l2_words, few, out, **options) - launch
        rate = 4 * sizes.l2_words * (sizes.rounds + 1) / took
        found["l2_reached"] = rate / (device.l2_clock * device.clock)

        # The same number of sectors: written whole, and one word of each.
        parts = cupy.zeros(sizes.words, np.float32)
        words = SECTOR // 4
        full = self.seconds("write", whole, sizes.words, one, parts)
        partial = self.seconds("write", whole, sizes.words // words, one, parts, words)
        found["partial_sectors"] = (partial - launch) / (full - launch)

        found |= self._code(out, launch)
        threads = min(sizes.l2_words, 1024 * device.sms)
        for kept in sizes.kept:
            options = {"ROUNDS": sizes.rounds, "KEPT": kept}
            took = self.seconds("local", Launch(128, 128), threads, one, out, **options) - launch
            moved = 4 * kept * (2 * sizes.rounds + 1) * threads
            found[f"local_bytes_{kept}"] = moved / took

        import cupyx

        pinned = cupyx.empty_pinned(sizes.words, np.float32)
        stream = self._clock.stream
        there = self._clock.figures(
            lambda: parts.data.copy_from_host_async(address(pinned), pinned.nbytes, stream)
        )
        found["link"] = pinned.nbytes / (1e-6 * there["us"])
        return found

    def _code(self, out: Any, launch: float) -> dict[str, Any]:
        """Return what a warp takes for an instruction of ever longer straight-line code."""
        some = self._cupy.zeros(8, np.float32)
        warps = 4 * self._device.sms  # one for each scheduler
        paces = {}
        for count in self._sizes.code:
            body = "\n".join([_MULTIPLY_ADDS] * (count // 4))
            took = self.seconds("code", Launch(128, 128), 32 * warps, some, out, BODY=body)
            paces[16 * count] = (took - launch) * self._device.clock / count
        least = min(paces.values())
        cached = [size for size, pace in paces.items() if pace < 1.5 * least]
        return {
            "paces": {str(size): pace for size, pace in paces.items()},
            "code_bytes": max(cached),
            "fetched_pace": max(paces.values()),
        }


def on_the_ground() -> Robot:
    """Return arm7 with a sphere at each of two links; that of the flange may touch the ground."""
    sphere = [(0.0, 0.0, 0.0, 0.1)]
    return gridgen.load(
        ROOT / "robots" / "arm7.urdf",
        backend="cuda",
        ground=[{"link": "flange", "radius": 0.1}],
        spheres={"link2": sphere, "flange": sphere},
    )


def compared(clock: Clock) -> list[dict[str, Any]]:
    """Return kernels with their time beside the prediction [us], if there is one.

    The number of iterations of contacts is not known before.
    """
    arm, touching = load_case("arm7"), on_the_ground()
    cases = [(arm, None, name, name) for name in COMPARED]
    cases += [(load_case("humanoid"), None, name, name) for name in LARGE]
    cases += [(arm, touching, "forward_dynamics_aba", "contact_forward_dynamics")]
    cases += [(arm, touching, "mass_matrix", "self_distance")]
    rows = []
    for (case, loaded, name, called), batch in itertools.product(cases, BATCHES):
        robot = loaded or Robot(case.module, "cuda")
        function = called if loaded else KEYS[name].function
        given = placed(clock, case, Variant(name, "thread", "float32"), batch)
        figures = clock.figures(robot.bind(function, *given))
        row = {"robot": case.name, "function": called, "batch": batch}
        row["us"] = figures["graph_us"] or figures["us"]
        if function != "contact_forward_dynamics":
            plan = robot.plan(function, batch=batch, device="cuda")
            row["predicted_us"] = 1e6 * plan.chosen.seconds
        rows.append(row)
    return rows


def fitted(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the fields of ``Device`` that measurements settle."""
    names = ("launch", "latency", "memory_reached", "l2_reached", "code_bytes")
    found = {name: figures[name] for name in (*names, "fetched_pace") if name in figures}
    return {name: float(f"{value:.3g}") for name, value in found.items()}


def with_measured(text: str, arch: str, fields: Mapping[str, float]) -> str:
    """Return the text of ``cost/devices.py`` with what was measured of an architecture."""
    pattern = re.compile(r"^(_MEASURED: [^=]*= )(\{\}|\{.*?^\})$", re.MULTILINE | re.DOTALL)
    if arch not in DEVICES:
        raise SystemExit(f"cost/devices.py has no row for {arch}: add one, with published figures")
    match = pattern.search(text)
    assert match is not None, "there is a table"
    rows = ast.literal_eval(match[2]) | {arch: dict(fields)}
    lines = ["{"]
    for name in sorted(rows, key=lambda row: int(row[3:])):
        numbers = (f'        "{field}": {value!r},' for field, value in rows[name].items())
        lines += [f'    "{name}": {{', *numbers, "    },"]
    return pattern.sub(lambda found: found[1] + "\n".join([*lines, "}"]), text)


def ran(words: Sequence[str | Path], seconds: float) -> dict[str, Any]:
    """Run a command for a limited time; return how it ended, and the last line that it wrote."""
    begin = perf_counter()
    try:
        result = subprocess.run(
            [*map(str, words)], cwd=ROOT, capture_output=True, text=True, timeout=seconds,
            env={**os.environ, "GRIDGEN_REQUIRE_GPU": "1"},
        )  # fmt: skip
        said, status = (result.stdout + result.stderr).strip(), str(result.returncode)
    except subprocess.TimeoutExpired as error:
        said, status = str(error), "stopped"
    last = said.splitlines()[-1] if said else ""
    return {"status": status, "said": last[:100], "seconds": round(perf_counter() - begin)}


def checks() -> dict[str, Any]:
    """Run the tests of a GPU on one robot, and CUDA's sanitizer on a few calls."""
    tests = ("tests/numerics/test_cuda.py", "tests/numerics/test_torch_on_gpu.py")
    chosen = "arm7 or not every_function"
    command = (sys.executable, "-m", "pytest", "-q", "-x", "-o", "filterwarnings=default")
    found = {"tests": ran((*command, "-k", chosen, *tests), TESTS_SECONDS)}
    if (sanitizer := shutil.which("compute-sanitizer")) is None:
        return found | {"sanitizer": {"status": "missing", "said": "", "seconds": 0}}
    for tool in TOOLS:
        words = (sanitizer, "--tool", tool, "--error-exitcode", "1", sys.executable, __file__)
        found[tool] = ran((*words, "--calls"), SANITIZER_SECONDS / len(TOOLS))
    return found


def calls() -> None:
    """Make a few calls: rows and columns, parked values, teams of threads, contacts, distances."""
    clock, case = Clock(require_device(), 0.1), load_case("arm7")
    robot = Robot(case.module, "cuda")
    for name, layout in itertools.product(COMPARED, LAYOUTS):
        given = placed(clock, case, Variant(name, "thread", "float32", layout), 100)
        key = KEYS[name]
        for schedule in FUNCTIONS[key.function].methods[key.method].schedules[:2]:
            getattr(robot, KEYS[name].function)(*given, schedule=schedule)
    touching = on_the_ground()
    q, qd, tau = placed(clock, case, Variant("forward_dynamics_aba", "thread", "float32"), 100)
    touching.contact_forward_dynamics(q, qd, tau)
    touching.self_distance(q)
    robot.rollout(q, qd, clock.cupy.zeros((100, 3, robot.nv), "float32"), 1e-3)
    clock.cupy.cuda.runtime.deviceSynchronize()


def markdown(results: Mapping[str, Any]) -> str:
    """Return a page."""
    device, figures, published = results["device"], results["figures"], results["published"]
    lines = [
        f"# {device['name']}, {device['date']}",
        "",
        "| check | result | s |",
        "|---|---|---:|",
    ]
    for name, one in results["checks"].items():
        lines.append(f"| {name} | {one['status']} {one['said']} | {one['seconds']} |")
    lines += ["", "| figure | measured | model |", "|---|---:|---:|"]
    for name, value in figures.items():
        if not isinstance(value, Mapping):
            known = published.get(name)
            lines.append(f"| {name} | {value:.4g} | {'' if known is None else f'{known:.4g}'} |")
    lines += ["", "| code [bytes] | clocks of an instruction |", "|---:|---:|"]
    lines += [f"| {size} | {pace:.2f} |" for size, pace in figures["paces"].items()]
    lines += [
        "",
        "| float32 | states | us | predicted | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in results["rows"]:
        us, predicted = row["us"], row.get("predicted_us")
        beside = f"{predicted:.1f} | {us / predicted:.2f}" if predicted else " | "
        name = f"{row['robot']} {row['function']}"
        lines.append(f"| {name} | {row['batch']} | {us:.1f} | {beside} |")
    return "\n".join(lines)


def measured(clock: Clock, sizes: Sizes, limits: Mapping[str, float]) -> dict[str, Any]:
    """Return all figures of the current device, beside those of the model."""
    place = gpu_place(clock.cupy, clock.cupy.cuda.runtime.getDevice())
    device = place.device
    figures = Bench(clock, device, sizes).figures() | dict(limits)
    figures["memory_reached"] = figures["copied_bytes"] / device.bandwidth
    lanes = device.sms * device.clock
    published = {name: getattr(device, name) for name in fitted(figures)}
    for dtype, pipe in (("float32", "fp32"), ("float64", "fp64")):
        published[f"multiply_adds_{dtype}"] = device.lanes[pipe] * lanes
    return {"arch": place.arch, "figures": figures, "published": published}


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--markdown", type=Path, metavar="JSON", help="print the page of a run")
    parser.add_argument(
        "--fit", type=Path, metavar="JSON", help="write a run's figures to the table"
    )
    parser.add_argument("--calls", action="store_true", help="make the sanitizer's calls")
    arguments = parser.parse_args()
    if arguments.calls:
        calls()
    elif arguments.fit:
        run, path = read_run(arguments.fit), Path(gridgen.cost.devices.__file__)
        text = with_measured(path.read_text("utf-8"), run["arch"], fitted(run["figures"]))
        path.write_text(text, encoding="utf-8")
    elif arguments.markdown:
        print(markdown(read_run(arguments.markdown)))
    else:
        clock = Clock(require_device(), 0.1)
        results = {"device": device_description(clock.cupy), "checks": checks()}
        results |= measured(clock, Sizes(), measured_limits(clock))
        results["rows"] = compared(clock)
        if arguments.output:
            arguments.output.parent.mkdir(parents=True, exist_ok=True)
            arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(markdown(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
