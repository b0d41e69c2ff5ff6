"""What a GPU that has not been seen before shows in 20 minutes: measurements, sanitizer, tests.

    python benchmarks/first_day.py --output build/first-day.json
    python benchmarks/first_day.py --markdown build/first-day.json
    python benchmarks/first_day.py --fit build/first-day.json     # writes cost/devices.py

A dozen kernels are compiled beforehand, on all cores. Then each measurement runs in a process of
its own, with its whole log in a file beside the JSON, which is written after each: a run that is
stopped leaves what it has measured. The measurements settle the figures that the model of
``gridgen.cost`` guesses. ``--fit`` writes them into the table of devices; ``make gpu-first-day`` is
the first command.
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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from cases import KEYS, Case, load_case
from gpu import LAYOUTS, Variant, compared, placed
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
#: Seconds of one measurement or compilation, of each tool of the sanitizer, and of the tests.
SECONDS, SANITIZER_SECONDS, TESTS_SECONDS = 120, 80, 300
TOOLS = ("memcheck", "racecheck", "synccheck")
#: The kernels: robot, function and schedule. Those of teams come first; the humanoid's forward
#: dynamics has as much code as the instruction caches are assumed to hold.
KERNELS = (
    ("humanoid", "inverse_dynamics_gradient", "warp"),
    ("humanoid", "forward_dynamics_gradient", "warp"),
    ("humanoid", "mass_matrix_inverse", "warp"),
    ("humanoid", "inverse_dynamics", "warp"),
    ("arm7", "inverse_dynamics_gradient", "warp"),
    ("humanoid", "inverse_dynamics_gradient", "thread"),
    ("humanoid", "forward_dynamics_aba", "thread"),
    ("arm7", "inverse_dynamics", "thread"),
    ("arm7", "forward_dynamics_aba", "thread"),
    ("arm7", "mass_matrix", "thread"),
    ("arm7", "forward_dynamics_gradient", "thread"),
)
#: Functions of arm7 with a sphere at its flange: their iterations or searches are not predicted.
TOUCHING = ("contact_forward_dynamics", "self_distance")
BATCHES = (1024, 8192, 1 << 20)
#: Fields of ``Device`` that measurements settle.
FITTED = (
    *("launch", "latency", "memory_reached", "l2_reached"),
    *("code_bytes", "fetched_pace"),
)
#: Figures of the device, each with the launch of an empty kernel.
FIGURES = ("limits", "latency", "l2", "sectors", "code", "local", "link")


@dataclass(frozen=True)
class Sizes:
    """How much a measurement does.

    Attributes:
        words:    4-byte numbers of an array beyond every cache.
        l2_words: of one that L2 holds, and no first cache.
        steps:    loads that wait for each other.
        rounds:   how often an array is read, or local memory.
        code:     multiply-adds of the kernels that code is fetched for.
        warps:    of each scheduler, that fetch it at once.
        kept:     numbers of a thread's local memory: little, and more than the caches hold.
    """

    words: int = 1 << 26
    l2_words: int = 1 << 22
    steps: int = 4096
    rounds: int = 16
    code: tuple[int, ...] = (2048, 4096, 6144, 8192, 10240, 12288, 16384)
    warps: tuple[int, ...] = (1, 2, 4, 8)
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

    def figures(self, name: str) -> dict[str, Any]:
        """Return the figures of one of ``FIGURES``, in the model's units."""
        if name == "limits":
            limits = measured_limits(self._clock)
            return limits | {"memory_reached": limits["copied_bytes"] / self._device.bandwidth}
        one = self._cupy.zeros(8, np.float32)
        launch = self.seconds("empty", Launch(32, 32), 32, one, one)
        found: dict[str, Any] = getattr(self, f"_{name}")(one, launch)
        return found | {"launch": launch}

    def _latency(self, one: Any, launch: float) -> dict[str, float]:
        # A way through an array in steps of 4 kB and a sector: no two are in one line or page.
        sizes, step = self._sizes, 1024 + SECTOR // 4
        way = self._cupy.asarray(((np.arange(sizes.words) + step) % sizes.words).astype(np.int32))
        alone = Launch(32, sizes.steps)  # one block for any number of steps
        took = self.seconds("chase", alone, sizes.steps, way, one) - launch
        return {"latency": took / sizes.steps * self._device.clock}

    def _l2(self, one: Any, launch: float) -> dict[str, float]:
        sizes, device = self._sizes, self._device
        few, out = (self._cupy.zeros(sizes.l2_words, np.float32) for _ in range(2))
        options = {"ROUNDS": sizes.rounds}
        took = self.seconds("read", Launch(256, 256), sizes.l2_words, few, out, **options) - launch
        rate = 4 * sizes.l2_words * (sizes.rounds + 1) / took
        return {"l2_reached": rate / (device.l2_clock * device.clock)}

    def _sectors(self, one: Any, launch: float) -> dict[str, float]:
        # The same number of sectors: written whole, and one word of each.
        sizes, words, whole = self._sizes, SECTOR // 4, Launch(256, 256)
        parts = self._cupy.zeros(sizes.words, np.float32)
        full = self.seconds("write", whole, sizes.words, one, parts)
        partial = self.seconds("write", whole, sizes.words // words, one, parts, words)
        return {"partial_sectors": (partial - launch) / (full - launch)}

    def _local(self, one: Any, launch: float) -> dict[str, float]:
        sizes, found = self._sizes, {}
        threads = min(sizes.l2_words, 1024 * self._device.sms)
        out = self._cupy.zeros(sizes.l2_words, np.float32)
        for kept in sizes.kept:
            options = {"ROUNDS": sizes.rounds, "KEPT": kept}
            took = self.seconds("local", Launch(128, 128), threads, one, out, **options) - launch
            found[f"local_bytes_{kept}"] = 4 * kept * (2 * sizes.rounds + 1) * threads / took
        return found

    def _link(self, one: Any, launch: float) -> dict[str, float]:
        import cupyx

        parts = self._cupy.zeros(self._sizes.words, np.float32)
        pinned = cupyx.empty_pinned(self._sizes.words, np.float32)
        stream = self._clock.stream
        self._cupy.cuda.get_current_stream().synchronize()  # which has made the array
        there = self._clock.figures(
            lambda: parts.data.copy_from_host_async(address(pinned), pinned.nbytes, stream)
        )
        return {"link": pinned.nbytes / (1e-6 * there["us"])}

    def _code(self, one: Any, launch: float) -> dict[str, Any]:
        """Return what a warp takes for an instruction of ever longer straight-line code."""
        paces: dict[str, dict[str, float]] = {}
        for count in self._sizes.code:
            body = "\n".join([_MULTIPLY_ADDS] * (count // 4))
            for warps in self._sizes.warps:  # of each scheduler: a block has one for each
                states = 128 * warps * self._device.sms
                took = self.seconds("code", Launch(128, 128), states, one, one, BODY=body)
                pace = (took - launch) * self._device.clock / count / warps
                paces.setdefault(str(warps), {})[str(16 * count)] = pace
        alone = {int(size): pace for size, pace in paces[str(self._sizes.warps[0])].items()}
        cached = [size for size, pace in alone.items() if pace < 1.5 * min(alone.values())]
        return {
            "paces": paces,
            "code_bytes": max(cached),
            "fetched_pace": max(alone.values()),
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


def names() -> list[str]:
    """Return the measurements, in their order: each is an argument of ``--measure``."""
    kernels = [" ".join(words) for words in KERNELS]
    return [*kernels, *FIGURES, *(f"arm7 {name}" for name in TOUCHING)]


def prepared(name: str) -> tuple[Robot, Case, Variant, Callable[..., Any]]:
    """Return the robot of a kernel, the case and the function of its states, and its binding."""
    robot_name, function, *schedule = name.split()
    case = load_case(robot_name)
    if not schedule:
        like = "forward_dynamics_aba" if function == TOUCHING[0] else "mass_matrix"
        robot = on_the_ground()
        return robot, case, Variant(like, "thread", "float32"), partial(robot.bind, function)
    robot, key, options = Robot(case.module, "cuda"), KEYS[function], case.keywords(function)
    if "schedule" in FUNCTIONS[key.function].options:
        options |= {"schedule": schedule[0]}
    variant = Variant(function, schedule[0], "float32")
    return robot, case, variant, partial(robot.bind, key.function, **options)


def measure(name: str, clock: Clock, sizes: Sizes | None = None) -> dict[str, Any]:
    """Return what one measurement adds to the results.

    A kernel has a row for each number of states: its time, and the predicted one [us] and its
    error relative to the tolerance, if it has one.
    """
    if name in FIGURES:
        place = gpu_place(clock.cupy, clock.cupy.cuda.runtime.getDevice())
        return {"figures": Bench(clock, place.device, sizes or Sizes()).figures(name)}
    robot, case, variant, bind = prepared(name)
    rows = []
    for batch in BATCHES:
        figures = clock.figures(bind(*placed(clock, case, variant, batch)))
        row = {"robot": case.name, "function": name.split()[1], "batch": batch}
        row |= {"us": figures["graph_us"] or figures["us"]}
        if row["function"] not in TOUCHING:
            key = KEYS[variant.function]
            row |= {"schedule": variant.schedule, "error": compared(clock, case, variant, bind)}
            plan = robot.plan(key.function, batch=batch, device="cuda")
            times = {(one.method, one.schedule): one.seconds for one in plan.candidates}
            row["predicted_us"] = 1e6 * times[key.method, variant.schedule]
        rows.append(row)
    return {"rows": rows}


def described(clock: Clock) -> dict[str, Any]:
    """Return the device, and the figures of the model."""
    place = gpu_place(clock.cupy, clock.cupy.cuda.runtime.getDevice())
    device = place.device
    published = {name: getattr(device, name) for name in FITTED}
    for dtype, pipe in (("float32", "fp32"), ("float64", "fp64")):
        published[f"multiply_adds_{dtype}"] = device.lanes[pipe] * device.sms * device.clock
    named = device_description(clock.cupy)
    return {"device": named, "arch": place.arch, "published": published}


def fitted(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the fields of ``Device`` that measurements settle."""
    found = {name: figures[name] for name in FITTED if name in figures}
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


def ran(words: Sequence[str | Path], seconds: float, log: Path) -> dict[str, Any]:
    """Run a command for a limited time, with its whole output in a file.

    Returns:
        how it ended, the last line that it wrote, and its seconds.
    """
    begin, environment = perf_counter(), {**os.environ, "GRIDGEN_REQUIRE_GPU": "1"}
    with log.open("w", encoding="utf-8") as file:
        try:
            result = subprocess.run(
                [*map(str, words)],
                cwd=ROOT,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                env=environment,
            )
            status = str(result.returncode)
        except subprocess.TimeoutExpired:
            status = "stopped"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = lines[-1][:100] if lines else ""
    return {"status": status, "said": last, "seconds": round(perf_counter() - begin)}


class Day:
    """A run: the results so far, and where they are.

    Args:
        output: JSON file, written after each measurement; logs are in a folder beside it.
    """

    def __init__(self, output: Path) -> None:
        self._output, self._logs = output, output.with_suffix("")
        self._logs.mkdir(parents=True, exist_ok=True)
        unknown = {"name": "unknown", "date": ""}
        self.results: dict[str, Any] = {"device": unknown, "published": {}, "checks": {}}
        self.results |= {"figures": {}, "rows": []}

    def run(self) -> None:
        """Compile, measure, check."""
        own = (sys.executable, __file__)
        self.add(self._measured("device"))
        kernels = [name for name in names() if name not in FIGURES]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            words = [(*own, "--compile", name) for name in kernels]
            logs = [self._log(f"compile {name}") for name in kernels]
            ended = pool.map(ran, words, [SECONDS] * len(words), logs)
            for name, end in zip(kernels, ended, strict=True):
                self.add({"checks": {f"compile {name}": end}})
        for name in names():
            self.add(self._measured(name))
        sanitizer = shutil.which("compute-sanitizer")
        if sanitizer is None:
            missing = {"status": "missing", "said": "", "seconds": 0}
            self.add({"checks": {"compute-sanitizer": missing}})
        for tool in TOOLS if sanitizer else ():
            command = (sanitizer, "--tool", tool, "--error-exitcode", "1", *own, "--calls")
            self.add({"checks": {tool: ran(command, SANITIZER_SECONDS, self._log(tool))}})
        tests = ("tests/numerics/test_cuda.py", "tests/numerics/test_torch_on_gpu.py")
        command = (sys.executable, "-m", "pytest", "-q", "-o", "filterwarnings=default")
        chosen = (*command, "-k", "not every_function", *tests)
        self.add({"checks": {"tests": ran(chosen, TESTS_SECONDS, self._log("tests"))}})

    def add(self, found: Mapping[str, Any]) -> None:
        """Add to the results, and write them."""
        for name, value in found.items():
            if isinstance(value, list):
                self.results[name] += value
            elif isinstance(value, dict):
                self.results[name] |= value
            else:
                self.results[name] = value
        text = json.dumps(self.results, indent=1) + "\n"
        self._output.write_text(text, encoding="utf-8")

    def _measured(self, name: str) -> dict[str, Any]:
        """Return what a measurement adds, of a process of its own."""
        log = self._log(name)
        file = log.with_suffix(".json")
        file.unlink(missing_ok=True)
        words = (sys.executable, __file__, "--measure", name, "--output", file)
        end = ran(words, SECONDS, log)
        found = read_run(file) if file.exists() else {}
        return {"checks": {name: end}, **found}

    def _log(self, name: str) -> Path:
        return self._logs / f"{name.replace(' ', '_')}.log"


def calls() -> None:
    """Make a few calls: rows and columns, parked values, teams of threads, contacts, distances."""
    clock, case = Clock(require_device(), 0.1), load_case("arm7")
    robot = Robot(case.module, "cuda")
    chosen = [(name, schedule) for of, name, schedule in KERNELS if of == "arm7"]
    for (name, schedule), layout in itertools.product(chosen, LAYOUTS):
        given = placed(clock, case, Variant(name, "thread", "float32", layout), 100)
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
    paces = figures.get("paces", {})
    lines += ["", "Clocks of an instruction, by the warps of a scheduler:", ""]
    lines += [f"| code [bytes] | {' | '.join(paces)} |", f"|---:|{'---:|' * len(paces)}"]
    lines += [
        f"| {size} | {' | '.join(f'{pace[size]:.2f}' for pace in paces.values())} |"
        for size in next(iter(paces.values()), {})
    ]
    lines += ["", "| float32 | states | us | predicted | ratio | error / tolerance |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for row in results["rows"]:
        us, predicted = row["us"], row.get("predicted_us")
        beside = f"{predicted:.1f} | {us / predicted:.2f}" if predicted else " | "
        name = f"{row['robot']} {row['function']} {row.get('schedule', '')}".rstrip()
        error = f"{row['error']:.2g}" if "error" in row else ""
        lines.append(f"| {name} | {row['batch']} | {us:.1f} | {beside} | {error} |")
    return "\n".join(lines)


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--markdown", type=Path, metavar="JSON", help="print the page of a run")
    parser.add_argument(
        "--fit", type=Path, metavar="JSON", help="write a run's figures to the table"
    )
    parser.add_argument("--calls", action="store_true", help="make the sanitizer's calls")
    parser.add_argument("--compile", metavar="KERNEL", help="compile a kernel, for the cache")
    parser.add_argument("--measure", metavar="NAME", help="measure one thing alone")
    arguments = parser.parse_args()
    if arguments.calls:
        calls()
    elif arguments.fit:
        run, path = read_run(arguments.fit), Path(gridgen.cost.devices.__file__)
        text = with_measured(path.read_text("utf-8"), run["arch"], fitted(run["figures"]))
        path.write_text(text, encoding="utf-8")
    elif arguments.markdown:
        print(markdown(read_run(arguments.markdown)))
    elif arguments.compile:
        clock = Clock(require_device(), 0.1)
        _, case, variant, bind = prepared(arguments.compile)
        bind(*placed(clock, case, variant, BATCHES[0]))
    elif arguments.measure:
        clock, name = Clock(require_device(), 0.1), arguments.measure
        found = described(clock) if name == "device" else measure(name, clock)
        (arguments.output or Path(os.devnull)).write_text(json.dumps(found), encoding="utf-8")
    else:
        require_device()
        output = arguments.output or ROOT / "build" / "first-day.json"
        output.parent.mkdir(parents=True, exist_ok=True)
        day = Day(output)
        day.run()
        print(markdown(day.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
