"""Random serial chains and random trees of any size, as URDF text.

    python robots/chain.py --bodies 100 --seed 3 > chain.urdf
    python robots/chain.py --bodies 300 --seed 1 --tree --max-children 6 --prismatic 0.2 > tree.urdf

The same arguments give the same text on every platform and Python version: only ``random()`` of a
seeded ``random.Random``, the four operations and the square root enter the numbers.

Links are 0.1 to 0.3 m long and weigh 0.5 to 2 kg. Because every link points its own random way, a
chain is a random walk: it stays compact (about 6 m for 1000 links), and its dynamics sane.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import sqrt
from random import Random
from xml.sax.saxutils import quoteattr

Vector = tuple[float, float, float]

QUARTER_TURNS = (0.0, 1.5707963267948966, 3.141592653589793, -1.5707963267948966)  # rad
COORDINATE_AXES: tuple[Vector, ...] = (
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (-1.0, 0.0, 0.0),
    (0.0, -1.0, 0.0),
    (0.0, 0.0, -1.0),
)


def serial_chain(
    bodies: int,
    seed: int,
    *,
    prismatic: float = 0.1,
    continuous: float = 0.2,
    skew: float = 0.5,
    fixed: float = 0.1,
    floating: bool = False,
    name: str | None = None,
) -> str:
    """Return the URDF of a random serial chain.

    Args:
        bodies: number of joints with one degree of freedom, >= 1.
        seed: selects the chain; the same seed gives the same text.
        prismatic: share of prismatic joints, 0 to 1.
        continuous: share of continuous joints; what remains is revolute.
        skew: share of joint axes that are no coordinate axes, and of placements turned by any
            angles instead of quarter turns.
        fixed: share of joints that hang on a bracket, a link with mass on a fixed joint.
        floating: connect the base to the world by a floating joint (6 more velocities).
        name: of the robot; by default it tells the size and the seed.

    Raises:
        ValueError: if an argument is out of its range.
    """
    return random_tree(
        bodies,
        seed,
        max_children=1,
        branching=0.0,
        prismatic=prismatic,
        continuous=continuous,
        skew=skew,
        fixed=fixed,
        floating=floating,
        name=f"chain_{bodies}_{seed}" if name is None else name,
    )


def random_tree(
    bodies: int,
    seed: int,
    max_children: int = 3,
    *,
    branching: float = 0.5,
    prismatic: float = 0.1,
    continuous: float = 0.2,
    skew: float = 0.5,
    fixed: float = 0.1,
    floating: bool = False,
    name: str | None = None,
) -> str:
    """Return the URDF of a random tree.

    Args:
        bodies: number of joints with one degree of freedom, >= 1.
        seed: selects the tree; the same seed gives the same text.
        max_children: most moving children of one moving link or of the base, >= 1.
        branching: how often a new link hangs on any link that still has room, instead of extending
            the one before it: 0 gives a serial chain, 1 a bushy tree of logarithmic depth.
        prismatic: share of prismatic joints, 0 to 1.
        continuous: share of continuous joints; what remains is revolute.
        skew: share of joint axes that are no coordinate axes, and of placements turned by any
            angles instead of quarter turns.
        fixed: share of joints that hang on a bracket, a link with mass on a fixed joint.
        floating: connect the base to the world by a floating joint (6 more velocities).
        name: of the robot; by default it tells the size and the seed.

    Raises:
        ValueError: if an argument is out of its range.
    """
    for label, count in (("bodies", bodies), ("max_children", max_children)):
        if count < 1:
            raise ValueError(f"{label} is {count}; it must be >= 1")
    shares = {"prismatic": prismatic, "continuous": continuous, "skew": skew, "fixed": fixed}
    for label, share in {**shares, "branching": branching}.items():
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{label} is {share}; a share must lie between 0 and 1")
    if prismatic + continuous > 1.0:
        raise ValueError(f"prismatic + continuous is {prismatic + continuous}; it must be <= 1")

    rng = Random(seed)
    robot = quoteattr(f"tree_{bodies}_{seed}" if name is None else name)
    text = ['<?xml version="1.0" encoding="utf-8"?>', f"<robot name={robot}>"]
    if floating:
        text += ['  <link name="world"/>']
        text += _joint("root", "floating", "world", "base", _origin((0.0, 0.0, 0.0)))
    text += _link("base", rng, mass=_uniform(rng, 2.0, 5.0))

    links = ["base"]  # links[k] is body k - 1, after the base
    children = [0]
    has_room = [0]  # indices into links
    for body in range(bodies):
        last = len(links) - 1
        extends_last = rng.random() >= branching
        parent = last if extends_last else has_room[_below(rng, len(has_room))]
        children[parent] += 1
        if children[parent] == max_children:
            has_room.remove(parent)

        hanger = links[parent]
        if rng.random() < fixed:
            bracket = f"bracket_{body}"
            text += _joint(f"mount_{body}", "fixed", hanger, bracket, _placement(rng, skew))
            text += _link(bracket, rng, mass=_uniform(rng, 0.1, 0.4))
            hanger = bracket

        draw = rng.random()
        kind = "revolute"
        if draw < prismatic:
            kind = "prismatic"
        elif draw < prismatic + continuous:
            kind = "continuous"
        link = f"link_{body}"
        details = [_placement(rng, skew), _axis(rng, skew), *_limits(rng, kind)]
        text += _joint(f"joint_{body}", kind, hanger, link, *details)
        text += _link(link, rng, mass=_uniform(rng, 0.5, 2.0))
        links.append(link)
        children.append(0)
        has_room.append(body + 1)

    text += ['  <link name="tip"/>']
    text += _joint("tip_fixed", "fixed", links[-1], "tip", _placement(rng, skew))
    return "\n".join([*text, "</robot>", ""])


def _uniform(rng: Random, low: float, high: float) -> float:
    return low + (high - low) * rng.random()


def _below(rng: Random, count: int) -> int:
    """Return a random index; ``randrange`` may change between Python versions, this does not."""
    return int(rng.random() * count)


def _direction(rng: Random, size: int) -> list[float]:
    """Return a uniform unit vector, by rejection from the cube: free of sine and cosine."""
    while True:
        point = [_uniform(rng, -1.0, 1.0) for _ in range(size)]
        square = 0.0
        for x in point:  # not sum(): it rounds differently from Python 3.12 on
            square += x * x
        if 0.01 < square <= 1.0:
            length = sqrt(square)
            return [x / length for x in point]


def _numbers(values: Sequence[float]) -> str:
    return " ".join("0" if value == 0.0 else repr(value) for value in values)


def _origin(xyz: Sequence[float], rpy: Sequence[float] = (0.0, 0.0, 0.0)) -> str:
    return f'<origin xyz="{_numbers(xyz)}" rpy="{_numbers(rpy)}"/>'


def _placement(rng: Random, skew: float) -> str:
    """Return an origin 0.1 to 0.3 m away, turned by any angles or by quarter turns."""
    length = _uniform(rng, 0.1, 0.3)
    xyz = [length * x for x in _direction(rng, 3)]
    if rng.random() < skew:
        return _origin(xyz, [_uniform(rng, -3.0, 3.0) for _ in range(3)])
    return _origin(xyz, [QUARTER_TURNS[_below(rng, len(QUARTER_TURNS))] for _ in range(3)])


def _axis(rng: Random, skew: float) -> str:
    if rng.random() < skew:
        return f'<axis xyz="{_numbers(_direction(rng, 3))}"/>'
    axis = COORDINATE_AXES[_below(rng, len(COORDINATE_AXES))]
    return f'<axis xyz="{" ".join(str(int(x)) for x in axis)}"/>'


def _limits(rng: Random, kind: str) -> list[str]:
    """Return limits and joint dynamics; a continuous joint has no position limits."""
    bounds = {
        "revolute": ' lower="-2.8" upper="2.8"',
        "continuous": "",
        "prismatic": ' lower="-0.2" upper="0.2"',
    }
    damping, friction = _uniform(rng, 0.0, 0.5), _uniform(rng, 0.0, 0.5)
    return [
        f'<limit{bounds[kind]} effort="100" velocity="10"/>',
        f'<dynamics damping="{damping!r}" friction="{friction!r}"/>',
    ]


def _joint(name: str, kind: str, parent: str, child: str, *details: str) -> list[str]:
    return [
        f'  <joint name="{name}" type="{kind}">',
        f'    <parent link="{parent}"/>',
        f'    <child link="{child}"/>',
        *(f"    {detail}" for detail in details),
        "  </joint>",
    ]


def _link(name: str, rng: Random, mass: float) -> list[str]:
    """Return a link with the inertia of a solid box turned any way: physical by construction."""
    a, b, c = (_uniform(rng, 0.05, 0.2) for _ in range(3))  # edges, m
    first = mass * (b * b + c * c) / 12.0
    second = mass * (a * a + c * c) / 12.0
    third = mass * (a * a + b * b) / 12.0
    w, x, y, z = _direction(rng, 4)  # a uniform unit quaternion
    turn = (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )
    entries = {
        f"i{'xyz'[i]}{'xyz'[j]}": turn[i][0] * first * turn[j][0]
        + turn[i][1] * second * turn[j][1]
        + turn[i][2] * third * turn[j][2]
        for i in range(3)
        for j in range(i, 3)
    }
    centre = [_uniform(rng, -0.08, 0.08) for _ in range(3)]
    frame = [_uniform(rng, -3.0, 3.0) for _ in range(3)] if rng.random() < 0.3 else [0.0] * 3
    return [
        f'  <link name="{name}">',
        "    <inertial>",
        f"      {_origin(centre, frame)}",
        f'      <mass value="{mass!r}"/>',
        "      <inertia " + " ".join(f'{key}="{value!r}"' for key, value in entries.items()) + "/>",
        "    </inertial>",
        "  </link>",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write one robot to standard output."""
    parser = argparse.ArgumentParser(
        description="Write the URDF of a random serial chain or tree to standard output."
    )
    parser.add_argument("--bodies", type=int, required=True, help="joints with one freedom")
    parser.add_argument("--seed", type=int, default=0, help="selects the robot (default 0)")
    parser.add_argument("--tree", action="store_true", help="a tree instead of a serial chain")
    parser.add_argument("--max-children", type=int, default=3, help="of one link (default 3)")
    parser.add_argument(
        "--branching", type=float, default=0.5, help="0 to 1: chain to bush (default 0.5)"
    )
    parser.add_argument("--prismatic", type=float, default=0.1, help="share (default 0.1)")
    parser.add_argument("--continuous", type=float, default=0.2, help="share (default 0.2)")
    parser.add_argument("--skew", type=float, default=0.5, help="share of skew axes (default 0.5)")
    parser.add_argument("--fixed", type=float, default=0.1, help="share of brackets (default 0.1)")
    parser.add_argument("--floating", action="store_true", help="put the base on a floating joint")
    parser.add_argument("--name", help="name of the robot (default: from size and seed)")
    options = vars(parser.parse_args(arguments))
    tree, max_children, branching = (
        options.pop(key) for key in ("tree", "max_children", "branching")
    )
    try:
        if tree:
            text = random_tree(max_children=max_children, branching=branching, **options)
        else:
            text = serial_chain(**options)
    except ValueError as error:
        parser.error(str(error))
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
