"""Compile a robot for every kind of machine with every compiler here, and run it in an emulator.

    python benchmarks/machines.py [--robots arm7 quadruped] [--machines aarch64-linux] [--write]

The results of inverse dynamics, of single states and of batches, are compared bit by bit with those
of this machine. QEMU counts the instructions of single states: they are the worst case if all
states take the same number.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cases import load_case
from tables import write_table

from gridgen import GenerateOptions, generate
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.cpu.processor import MACHINES, Machine, flags_of
from gridgen.backends.cpu.units import FLAGS
from gridgen.check import random_states

HEADER = ("robot", "machine", "processor", "compiler", "results", "instructions of a state")
STATES = 37
#: Processors of the table: with multiply-adds, as far as x86 has them.
PROCESSORS = {"x86_64": "x86-64-v3"}
EMULATORS = {"x86_64": "x86_64", "aarch64": "aarch64", "armv7l": "arm", "riscv64": "riscv64"}
PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include "{robot}.h"

enum {{ n = {states} }};
static double q[n * {nq}], qd[n * {nv}], qdd[n * {nv}], tau[n * {nv}], all[n * {nv}];

// Computes the first states one by one, and all at once.
int main(int, char** words)
{{
    const int ones = atoi(words[1]);
    if (fread(q, sizeof q, 1, stdin) + fread(qd, sizeof qd, 1, stdin) +
            fread(qdd, sizeof qdd, 1, stdin) != 3)
        return 1;
    for (int i = 0; i < ones; ++i)
        if ({robot}_inverse_dynamics_f64(
                q + {nq} * i, qd + {nv} * i, qdd + {nv} * i, tau + {nv} * i, 1, 0))
            return 2;
    if ({robot}_inverse_dynamics_f64(q, qd, qdd, all, n, 0)) return 3;
    fwrite(tau, sizeof tau, 1, stdout);
    fwrite(all, sizeof all, 1, stdout);
    return 0;
}}
"""


def run(words: list[str], given: bytes = b"") -> bytes:
    """Run a command and return its output."""
    result = subprocess.run(words, input=given, capture_output=True, timeout=600)
    if result.returncode:
        raise RuntimeError(f"{' '.join(words)}: {result.stderr.decode()[-2000:]}")
    return result.stdout


def compilers(machine: Machine) -> dict[str, list[str]]:
    """Return the commands of the compilers for a machine, by name and version."""
    found: dict[str, list[str]] = {}
    name = f"{machine.gnu}-g++"
    if machine.gnu and shutil.which(name):
        version = run([name, "-dumpfullversion"]).decode().strip()
        found[f"GCC {version}"] = [name, "-static", *flags_of(processor(machine), is_zig=False)]
    if importlib.util.find_spec("ziglang"):
        zig = [sys.executable, "-m", "ziglang"]
        version = run([*zig, "version"]).decode().strip()
        flags = ["-nostdlib++", "-fno-sanitize=undefined", "-Wno-ignored-optimization-argument"]
        target = f"--target={machine.zig}"
        found[f"Zig {version}"] = [
            *(*zig, "c++", target, *flags),
            *flags_of(processor(machine), is_zig=True),
        ]
    return found


def processor(machine: Machine) -> str:
    """Return the processor of a machine in the table."""
    return PROCESSORS.get(machine.machine, machine.processors[0])


def emulated(program: Path, machine: Machine, ones: int, given: bytes, log: Path) -> bytes | None:
    """Run a program in QEMU, which writes a line for each instruction; None without QEMU."""
    emulator = shutil.which(f"qemu-{EMULATORS.get(machine.machine)}")
    if emulator is None or machine.system == "darwin":
        return None
    root = ["-L", f"/usr/{machine.gnu}"] if Path(f"/usr/{machine.gnu}").is_dir() else []
    words = [emulator, *root, *(["-cpu", "max"] if machine.machine == "x86_64" else [])]
    if log.name:
        words += ["-singlestep", "-d", "exec,nochain", "-D", str(log)]
    return run([*words, str(program), str(ones)], given)


def instructions(program: Path, machine: Machine, given: bytes, folder: Path) -> str:
    """Return the number of instructions of each of three states, or their range."""
    counts = []
    for ones in range(4):
        log = folder / "instructions"
        emulated(program, machine, ones, given, log)
        with log.open("rb") as lines:
            counts.append(sum(line.startswith(b"Trace") for line in lines))
    found = sorted(set(np.diff(counts)))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def measure(name: str, machines: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the rows of a robot."""
    case = load_case(name)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        options = GenerateOptions(
            output=folder, functions=("inverse_dynamics",), floating_base=case.floating_base
        )
        module = generate(case.urdf, options)
        robot, tree = module.folder.name, module.tree
        source, program = folder / "main.cpp", folder / "program"
        text = PROGRAM.format(robot=robot, states=STATES, nq=tree.nq, nv=tree.nv)
        source.write_text(text, encoding="utf-8")
        states = random_states(tree, STATES, np.random.default_rng(5))
        given = b"".join(np.asarray(states[key], float).tobytes() for key in ("q", "qd", "qdd"))
        files = [f"-I{module.folder}", str(source), str(module.folder / f"{robot}.cpp")]
        only = ["-DGRIDGEN_ONLY", "-DGRIDGEN_ONLY_inverse_dynamics", "-DGRIDGEN_ONLY_F64"]
        compiler = host_compiler()
        own = [*compiler.command, *compiler.flags, *compiler.native]
        run([*own, *FLAGS, *only, *files, "-o", str(program)])
        expected = np.frombuffer(run([str(program), str(STATES)], given))
        for machine in map(MACHINES.__getitem__, machines):
            for label, command in compilers(machine).items():
                words = [*command, *FLAGS, *only, *files, "-o", str(program)]
                results, count = "linked, not run", ""
                run(words)
                output = emulated(program, machine, STATES, given, Path())
                if output is not None:
                    found = np.frombuffer(output)
                    is_same = found.tobytes() == expected.tobytes()
                    error = np.abs(found - expected).max() / np.abs(expected).max()
                    results = "the same bits" if is_same else f"differ by {error:.0e}"
                    count = instructions(program, machine, given, folder)
                rows.append((name, machine.name, processor(machine), label, results, count))
                print(*rows[-1], sep=", ", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--robots", nargs="+", default=("arm7", "quadruped"))
    parser.add_argument("--machines", nargs="+", default=tuple(MACHINES), choices=MACHINES)
    parser.add_argument("--write", action="store_true", help="write the table of the manual")
    options = parser.parse_args()
    os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(Path(tempfile.gettempdir()) / "zig"))
    rows = [row for name in options.robots for row in measure(name, options.machines)]
    if options.write:
        write_table("machines", [HEADER, *rows])


if __name__ == "__main__":
    main()
