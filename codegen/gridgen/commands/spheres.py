"""``grid-gen spheres``: cover the links of a robot by spheres."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

from gridgen.commands.options import Parser, add_force, add_urdf, printing, robot_text
from gridgen.errors import OptionError

_TEXT = """\
Cover the collision shapes of a robot's links by spheres, and write them to a JSON file for the
option spheres. The spheres of a link cover its boxes, cylinders and meshes completely, and protrude
as little as their number allows, or by about the given excess. Its spheres and capsules are written
as they are. Meshes require the extra "meshes".
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    with printing():
        options = _parser().parse_args(arguments)
    excess = options.excess
    if excess is not None and not (math.isfinite(excess) and excess > 0.0):
        raise OptionError(f"--excess is {excess}; give a positive length [m]")
    if options.most < 1:
        raise OptionError(f"--most is {options.most}; give a positive number of spheres")
    from gridgen.compiler import MAX_BODIES
    from gridgen.emit.writer import check_file, write_file
    from gridgen.model.meshes import fewer_spheres, spheres_of_links
    from gridgen.model.readers import read_robot

    path = Path(options.output)
    check_file(path, options.force)
    description = read_robot(robot_text(options.urdf), MAX_BODIES)
    if excess is None:
        found, excess = fewer_spheres(description, options.most)
    else:
        found = spheres_of_links(description, excess)
    if not found:
        raise OptionError(f"{description.source}: no link has a collision shape: give spheres=")
    rows = (
        f"{json.dumps(name)}: [\n  "
        + ",\n  ".join(json.dumps([round(x, 6) for x in sphere]) for sphere in spheres)
        + "\n]"
        for name, spheres in found.items()
    )
    text = "{" + ",\n".join(rows) + "}\n"
    write_file(path, lambda file: file.write(text.encode()), options.force)
    with printing():
        for name, spheres in found.items():
            print(f"{name}: {len(spheres)} spheres")
        count = sum(map(len, found.values()))
        print(f"{count} spheres that protrude by about {1000.0 * excess:.0f} mm in {path}")
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
        metavar="LENGTH",
        help="largest distance by which a sphere protrudes, for links of ordinary size [m]",
    )
    parser.add_argument(
        "--most",
        type=int,
        default=100,
        metavar="COUNT",
        help="most spheres, without --excess (100); links with more shapes have more",
    )
    add_force(parser)
    return parser
