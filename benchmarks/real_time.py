"""Stack and jitter of functions of one state in C, beside threads that keep every core busy.

    python benchmarks/real_time.py [--robots arm7 quadruped] [--calls 10000000] [--write]

The stack is the sum of the frames of a function and of all that it calls, by GCC's -fstack-usage.
Times are those of a clock, under the real-time scheduler if the system allows it: a tenth of a
microsecond of them is the clock's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

import native
from cases import load_case
from machine import description
from tables import write_table

from gridgen import GenerateOptions, generate
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.cpu.units import FLAGS

ROBOTS = ("arm7", "quadruped", "humanoid")
FUNCTIONS = ("inverse_dynamics", "forward_dynamics_aba", "mass_matrix")
HEADER = (
    *("robot", "function", "stack [kB]", "least [us]", "median", "99.9 %", "99.999 %"),
    *("longest", "scheduler"),
)
PROGRAM = """\
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "{robot}.h"

static std::atomic<bool> ends{{false}};

static long now() {{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000000000L * t.tv_sec + t.tv_nsec;
}}

int main(int, char** words) {{
    const long calls = std::atol(words[1]);
    double q[{nq}] = {{}}, x[{nv}] = {{}}, y[{nv}] = {{}}, result[{nv} * {nv}];
    for (int i = 0; i < {nq}; ++i) q[i] = {floating} && i < 7 ? i == 6 : 0.1 * i;
    std::vector<std::thread> busy;
    for (int i = 0; i < {cores}; ++i) busy.emplace_back([] {{ while (!ends) {{}} }});
    sched_param priority;
    priority.sched_priority = 80;
    const bool is_real_time = mlockall(MCL_CURRENT | MCL_FUTURE) == 0 &&
                              pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
    std::vector<long> counts(1000000);
    long longest = 0;
    long rested = now();
    for (long i = 0; i < calls; ++i) {{
        // Linux suspends a real-time thread that takes 95 % of a second.
        if (now() - rested > 1000000) {{
            const timespec pause = {{0, 100000}};
            nanosleep(&pause, nullptr);
            rested = now();
        }}
        x[0] = 1e-9 * double(i);
        const long begin = now();
        {call};
        const long taken = now() - begin;
        longest = std::max(longest, taken);
        ++counts[std::min(taken, 999999L)];
    }}
    ends = true;
    for (std::thread& one : busy) one.join();
    // The time that this share of the calls takes at most [us].
    const auto at = [&](double share) {{
        long sum = 0, time = 0;
        while (sum <= share * double(calls - 1)) sum += counts[time++];
        return 1e-3 * double(time - 1);
    }};
    std::printf("%.2f %.2f %.2f %.2f %.1f %s\\n", at(0.0), at(0.5), at(0.999),
                at(0.99999), 1e-3 * double(longest), is_real_time ? "FIFO" : "usual");
}}
"""


def measure(name: str, function: str, calls: int) -> tuple[str, ...]:
    """Return the row of a function."""
    case = load_case(name)
    chosen = "forward_dynamics" if function == "forward_dynamics_aba" else function
    folder = native.BUILT / "real_time"
    options = GenerateOptions(
        output=folder, functions=(chosen,), floating_base=case.floating_base, force=True
    )
    module = generate(case.urdf, options)
    robot, compiler = module.folder.name, host_compiler()
    words = [*compiler.command, *compiler.flags, *compiler.native, *FLAGS]
    macros = ("-DGRIDGEN_ONE_STATE", "-DGRIDGEN_ONLY", f"-DGRIDGEN_ONLY_{function}")
    library, program = folder / f"{robot}.o", folder / f"{robot}_program"
    source = module.folder / f"{robot}.cpp"
    stack = ("-fstack-usage", "-DGRIDGEN_ONLY_F64", "-c", source, "-o", library)
    subprocess.run([*words, *macros, *map(str, stack)], check=True)
    usage = Path(library).with_suffix(".su").read_text(encoding="utf-8").splitlines()
    frames = sum(int(line.split("\t")[1]) for line in usage)
    given = "q, result, 1" if function == "mass_matrix" else "q, x, y, result, 1, nullptr"
    text = PROGRAM.format(
        robot=robot,
        nq=case.tree.nq,
        nv=case.tree.nv,
        floating=int(case.floating_base),
        cores=os.cpu_count(),
        call=f"{robot}_{function}_f64({given})",
    )
    main = folder / f"{robot}_program.cpp"
    main.write_text(text, encoding="utf-8")
    command = [*compiler.command, "-std=c++17", "-O2", f"-I{module.folder}", str(main)]
    subprocess.run([*command, str(library), "-pthread", "-o", str(program)], check=True)
    run = [str(program), str(calls)]
    found = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    return robot, function.replace("_", " "), f"{frames / 1000:.1f}", *found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--robots", nargs="+", default=ROBOTS, choices=ROBOTS)
    parser.add_argument("--functions", nargs="+", default=FUNCTIONS, choices=FUNCTIONS)
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--write", action="store_true", help="write the table of the manual")
    options = parser.parse_args()
    print(description())
    rows = [HEADER]
    for robot in options.robots:
        for function in options.functions:
            rows.append(measure(robot, function, options.calls))
            print(*rows[-1], flush=True)
    if options.write:
        write_table("real_time", rows)


if __name__ == "__main__":
    main()
