"""``python -m gridgen.papers``: inverse dynamics of a trajectory on several processes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gridgen.backends.cpu.backend import THREADS_VARIABLE
from gridgen.commands.options import (
    BAD_INPUT,
    Parser,
    accept_any_alphabet,
    add_force,
    add_options,
    add_urdf,
    options_of,
    printing,
    say,
    warnings_as_lines,
)
from gridgen.emit.writer import check_file
from gridgen.errors import GridGenError, OptionError
from gridgen.model.tree import KinematicTree
from gridgen.naming import show
from gridgen.options import CONVENTIONS, RobotOptions
from gridgen.papers.model import Split
from gridgen.papers.processes import PipelineResult, run
from gridgen.papers.stages import Stages, require_mpi
from gridgen.papers.trajectory import Trajectory, read_trajectory, write_torques

_TEXT = """\
Compute the joint torques of a trajectory with a pipeline of processes: a forward chain from the
base of the robot to its tips, and a backward chain, which computes a sample while the forward chain
computes the next. Print the predicted and the measured rate and latency.
"""
_EXAMPLE = """\
example:
  mpirun -n 3 python -m gridgen.papers robot.urdf trajectory.npz -o torques.npz

trajectory.npz contains q, qd and qdd, (T, n) or (B, T, n); torques.npz contains tau. Every process
reads both input files. See docs/papers.md.
"""
BLOCK = 256
_FAILED = 1

Found = TypeVar("Found")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command on one of its processes; return its exit status."""
    accept_any_alphabet()
    # One thread per process.
    os.environ.setdefault(THREADS_VARIABLE, "1")
    try:
        with printing():
            options = _parser().parse_args(arguments)
        comm = require_mpi().COMM_WORLD
    except GridGenError as error:
        say(str(error))
        return BAD_INPUT
    try:
        return _run(comm, options)
    except BaseException as error:
        # The other processes wait for messages of this one: abort them; write nothing.
        if not isinstance(error, GridGenError):
            sys.excepthook(type(error), error, error.__traceback__)
        say(f"process {comm.rank} of {comm.size} failed: {error}")
        comm.Abort(_FAILED)
        raise


def _run(comm: Any, options: argparse.Namespace) -> int:
    try:
        tree, samples, split = _agreed(comm, lambda: _inputs(comm, options))
    except GridGenError as error:  # raised on all processes
        if comm.rank == 0:
            say(str(error))
        return BAD_INPUT
    from gridgen.modules import TracedModule

    outcome = run(comm, Stages(tree, TracedModule(tree)), samples, options.block, split)
    if outcome is not None:
        tau = outcome.tau.reshape(*samples.lead, tree.nv)
        write_torques(options.output, tau, options.force)
        if not options.quiet:
            with printing():
                print(as_json(outcome) if options.json else report(outcome, options.block))
    return 0


def _agreed(comm: Any, attempt: Callable[[], Found]) -> Found:
    """Return the result of each process, or raise the first error of any process on all."""
    found: Found | None = None
    trouble: GridGenError | None = None
    try:
        found = attempt()
    except GridGenError as error:
        trouble = error
    troubles = [text for text in comm.allgather(trouble and str(trouble)) if text]
    if troubles:
        raise GridGenError(troubles[0])
    assert found is not None
    return found


def _inputs(
    comm: Any, options: argparse.Namespace
) -> tuple[KinematicTree, Trajectory, Split | None]:
    """Return the robot, the samples and the requested split."""
    from gridgen.compiler import read_tree

    if options.block < 1:
        raise OptionError(f"--block is {options.block}; give a number of samples, at least 1")
    robot = options_of(options, RobotOptions)
    if robot.parameters:
        raise OptionError("--parameters is not supported: a trajectory has no parameters; omit it")
    if robot.constraints:
        raise OptionError("--constraint is not supported with trajectories; omit it")
    if robot.convention != CONVENTIONS[0]:
        raise OptionError("--convention is not supported with trajectories; omit it")
    if robot.order:
        raise OptionError("--order is not supported: stages are ranges of joints; omit it")
    split = None if options.split is None else _split(options.split, comm.size)
    if comm.size < 2:
        raise OptionError(
            "a pipeline requires at least 2 processes: mpirun -n 2 python -m gridgen.papers ..."
        )
    with warnings_as_lines():
        tree = read_tree(Path(options.urdf), robot)
    samples = read_trajectory(options.trajectory, tree)
    if not options.output.absolute().parent.is_dir():
        raise GridGenError(f"{options.output}: its folder does not exist; create it")
    check_file(options.output, options.force)
    return tree, samples, split


def _split(text: str, size: int) -> Split:
    forward, _, backward = text.partition("+")
    if forward.isdecimal() and backward.isdecimal() and int(forward) and int(backward):
        if int(forward) + int(backward) == size:
            return Split(int(forward), int(backward))
    raise OptionError(
        f"--split is {show(text)}; give the processes of each chain, {size} in total, such as "
        f"{max(size - 1, 1)}+1"
    )


def report(outcome: PipelineResult, block: int) -> str:
    """Return the predicted and measured speed of a run as lines of text."""
    machine, split = outcome.machine, outcome.layout.split
    processes, cores = split.forward + split.backward, len(os.sched_getaffinity(0))
    lines = [
        f"{split.forward}+{split.backward} processes, blocks of {block} samples; "
        f"t_e {1e9 * machine.operation:.3f} ns, T_c {1e6 * machine.start:.1f} us, "
        f"k l {1e6 * machine.message:.1f} us",
        f"{'':16}{'predicted':>12}{'measured':>12}",
    ]
    for name, scale, predicted, measured in (
        ("samples/s", 1.0, outcome.predicted[0], outcome.measured[0]),
        ("latency [us]", 1e6, outcome.predicted[1], outcome.measured[1]),
    ):
        lines.append(f"{name:16}{scale * predicted:>12,.0f}{scale * measured:>12,.0f}")
    lines.append(f"{'one process':16}{outcome.alone:>12,.0f}")
    if processes > cores:
        lines.append(f"the prediction assumes one core per process; here {processes} share {cores}")
    return "\n".join(lines)


def as_json(outcome: PipelineResult) -> str:
    """Return the predicted and measured speed of a run as JSON [samples/s, s]."""
    machine, split = outcome.machine, outcome.layout.split
    return json.dumps(
        {
            "split": [split.forward, split.backward],
            "operation": machine.operation,
            "start": machine.start,
            "message": machine.message,
            "alone": outcome.alone,
            "predicted": outcome.predicted,
            "measured": outcome.measured,
        }
    )


def _parser() -> Parser:
    parser = Parser(
        prog="python -m gridgen.papers",
        description=_TEXT,
        epilog=_EXAMPLE,
    )
    add_urdf(parser)
    parser.add_argument("trajectory", type=Path, help="file of numpy.savez with q, qd and qdd")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="output file with tau"
    )
    parser.add_argument(
        "--block",
        type=int,
        default=BLOCK,
        metavar="SAMPLES",
        help=f"samples per message (default: {BLOCK}); smaller blocks reduce the latency",
    )
    parser.add_argument(
        "--split",
        metavar="F+B",
        help="processes of the forward and the backward chain (default: the fastest according to "
        "the pipeline model)",
    )
    add_options(parser, RobotOptions)
    add_force(parser)
    parser.add_output("the rates and times")
    return parser


if __name__ == "__main__":
    sys.exit(main())
