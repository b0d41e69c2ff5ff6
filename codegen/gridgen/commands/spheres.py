"""``grid-gen spheres``: cover the links of a robot by spheres."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

from gridgen.commands.console import printing
from gridgen.commands.options import Parser, add_force, add_urdf, robot_text
from gridgen.errors import OptionError

_TEXT = """\
Cover the collision shapes of a robot's links by spheres, and write them to a JSON file for the
option spheres. The spheres of a link cover its boxes, cylinders and meshes completely, and protrude
by about the given excess; its spheres and capsules are written as they are. Meshes require the
extra "meshes".
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    with printing():
        options = _parser().parse_args(arguments)
    if not (math.isfinite(options.excess) and options.excess > 0.0):
        raise OptionError(f"--excess is {options.excess}; give a positive length [m]")
    from gridgen.compiler import MOST_BODIES
    from gridgen.emit.writer import check_file
    from gridgen.model.meshes import spheres_of_links
    from gridgen.model.readers import read_robot

    path = Path(options.output)
    check_file(path, options.force)
    description = read_robot(robot_text(options.urdf), MOST_BODIES)
    found = spheres_of_links(description, options.excess)
    if not found:
        raise OptionError(f"{description.source}: no link has a collision shape: give spheres=")
    rows = (
        f"{json.dumps(name)}: [\n  "
        + ",\n  ".join(json.dumps([round(x, 6) for x in sphere]) for sphere in spheres)
        + "\n]"
        for name, spheres in found.items()
    )
    path.write_text("{" + ",\n".join(rows) + "}\n", encoding="utf-8")
    with printing():
        for name, spheres in found.items():
            print(f"{name}: {len(spheres)} spheres")
        print(f"{sum(map(len, found.values()))} spheres in {path}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="grid-gen spheres", description=_TEXT)
    add_urdf(parser)
    parser.add_argument(
        "-o", "--output", default="spheres.json", metavar="FILE", help="file (spheres.json)"
    )
    parser.add_argument(
        "--excess",
        type=float,
        default=0.02,
        metavar="LENGTH",
        help="largest distance by which a sphere protrudes, for links of ordinary size (0.02) [m]",
    )
    add_force(parser)
    return parser
