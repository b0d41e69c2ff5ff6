"""``grid-gen tune``: measure a robot's kernels on the current device."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

from gridgen.commands.options import (
    Parser,
    add_dtypes,
    add_options,
    add_urdf,
    one_of,
    options_of,
    printing,
    progress_shown,
    robot_text,
    warnings_as_lines,
)
from gridgen.errors import OptionError
from gridgen.naming import show
from gridgen.option_values import listed
from gridgen.options import DTYPE_CHOICES, RobotOptions
from gridgen.runtime.planning.tune import BATCHES, TunedDevice, TuneSelection, tune

_TEXT = """\
Measure the kernels of a robot's functions on the current GPU: schedules, methods and block sizes,
for several batch sizes. The times are stored in the user's cache folder, for this robot, device,
driver and version of grid-gen. Afterwards schedule="auto" selects the fastest schedule, and
robot.plan reports it.
"""
_EXAMPLE = """\
example:
  grid-gen tune panda.urdf
  grid-gen tune go2.urdf --floating-base --functions forward_dynamics --dtype float32

Give the same options of the robot as for generating or loading it.
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    with printing():
        options = _parser().parse_args(arguments)
    dtypes: list[Any] = options.dtype or [*DTYPE_CHOICES]
    selection = TuneSelection(
        options.device,
        listed(options.functions),
        _batches(options.batches),
        tuple(dict.fromkeys(dtypes)),
        options.any_method,
    )
    with progress_shown(options.quiet or options.json) as progress, warnings_as_lines():
        from gridgen.compiler import read_tree
        from gridgen.modules import TracedModule

        tree = read_tree(robot_text(options.urdf), options_of(options, RobotOptions))
        tuned = tune(TracedModule(tree), selection, progress)
    with printing():
        if options.json:
            print(json.dumps(tuned.profile.as_data(), indent=2))
        elif not options.quiet:
            print(tuned)
            if tuned.outcomes:
                print(f"stored in {tuned.profile.path}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="grid-gen tune",
        description=_TEXT,
        epilog=_EXAMPLE,
    )
    add_urdf(parser)
    add_options(parser, RobotOptions)
    devices = get_args(TunedDevice)
    parser.add_argument(
        "--device",
        type=one_of("device", devices),
        default=devices[0],
        metavar="NAME",
        help=f"{devices[0]}, the current GPU, or {devices[1]} (default: {devices[0]})",
    )
    parser.add_list(
        "--functions",
        metavar="NAME,...",
        help="measure only these functions; repeatable (default: all functions with several "
        "kernels, except second derivatives and functions of frames)",
    )
    add_dtypes(parser)
    parser.add_list(
        "--batches",
        metavar="STATES,...",
        help=f"batch sizes; repeatable (default: {','.join(map(str, BATCHES))})",
    )
    parser.add_argument(
        "--any-method",
        action="store_true",
        help='let method="auto" select the fastest method of forward dynamics instead of the most '
        "accurate one",
    )
    parser.add_output("the times")
    return parser


def _batches(words: Sequence[str]) -> tuple[int, ...]:
    """Return the requested batch sizes, or the default ones."""
    found = listed(words)
    for word in found:
        if not word.isdecimal():
            raise OptionError(f"--batches contains {show(word)}; give numbers of states, 1 or more")
    return tuple(map(int, found)) or BATCHES
