"""Options of every type and size: a robot, or an error of gridgen's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from gridgen.compiler import LoadOptions, load, read_tree
from gridgen.errors import GridGenError, OptionError, ShapeError
from gridgen.functions.worlds import check_layout, check_length, terrain, world
from gridgen.modules import record_of
from gridgen.options import RobotOptions
from helpers.robots import OWN, exhaustive

pytestmark = pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning")

URDF = (OWN / "two_link.urdf").read_text(encoding="utf-8")
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
#: What is no value of most options.
HOSTILE = (
    *(None, True, 0, -1, 1e308, float("nan"), float("inf"), 10**400, 10**5000, "", "x", "\0"),
    *([], {}, (1,), [[1]], [None], [{}], {"x": {}}, {1: 2}, b"x", object(), 1j, {1}, ENDLESS),
    *(np.array([1.0, 2.0]), np.array(3.0), np.zeros((1, 0)), np.array([None]), np.float32(1)),
    *(Fraction(1, 3), Path("x"), (x for x in [1]), [1.0] * 7, "/dev/null", float),
)
#: Values of every option whose values have parts.
VALUES: dict[str, Any] = {
    "rotors": {"shoulder": (1e-4, 50.0)},
    "armature": [0.1, 0.2],
    "parameters": ["armature", "damping"],
    "mappings": {"a": "b"},
    "lock": {"elbow": 0.1},
    "order": ["elbow", "shoulder"],
    "constraints": [
        {"kind": "point", "link": "forearm", "offset": [0, 0, 0.1], "stabilization": [1, 2]},
        {"kind": "joint", "joint": "elbow", "to": "shoulder", "multiplier": 2.0, "active": True},
    ],
    "ground": [
        {"link": "forearm", "radius": 0.1, "friction": 0.8, "condim": 3, "solref": [0.02, 1]}
    ],
    "contact": {
        "cone": "elliptic",
        "impratio": 2.0,
        "pairs": [["forearm", "base"]],
        "max_pairs": 3,
    },
    "actuators": [{"joint": "elbow", "kind": "position", "kp": 50.0, "ctrlrange": [-1, 1]}],
    "sensors": [{"kind": "imu", "link": "tip", "offset": [0, 0, 0.1], "cutoff": 3.0}],
    "spheres": {"forearm": [(0, 0, 0, 0.1), {"center": [0, 0, 0], "radius": 0.1}]},
    "allowed_collisions": [["base", "forearm"]],
    "convention": "pinocchio",
    "friction_width": 0.1,
    "check_parameters": True,
}


def mutants(value: Any) -> Iterator[Any]:
    """Yield values with one part replaced by a hostile one."""
    yield from HOSTILE
    if isinstance(value, dict):
        for key in value:
            yield from ({**value, key: other} for other in mutants(value[key]))
            yield {name: part for name, part in value.items() if name != key}
        yield {**value, "other": 1}
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in mutants(part))
        yield [*value, *value]


@pytest.mark.parametrize("count", [300, *exhaustive(10**9)])
def test_hostile_options_raise_errors_of_gridgen(count: int) -> None:
    cases = [(name, other) for name, value in VALUES.items() for other in mutants(value)]
    refused = 0
    for name, other in cases if count > len(cases) else Random(0).sample(cases, count):
        given = {"ground": [{"link": "forearm", "radius": 0.1}]} if name == "contact" else {}
        try:
            tree = read_tree(URDF, LoadOptions(**{**given, name: other}))
        except GridGenError:
            refused += 1
            continue
        assert isinstance(hash(tree), int)
        assert record_of(tree, "r", (1, 1)).digest
    assert refused > 0.5 * min(count, len(cases))


#: Files of options, and what is said of them.
FILES = {
    "deep.json": ("[" * 50_000, "nested|recursion"),
    "long.json": ("[1" + "0" * 5000 + "]", "digits|values"),
    "twice.json": ('[{"kind": "point", "link": "a", "link": "b"}]', '"?link"?\'? twice'),
    "twice.yaml": ("- kind: point\n  link: a\n  link: b", "'link' twice"),
    "deep.yaml": ("[" * 600, "nested|recursion"),
    "endless.yaml": ("&a [*a]", "more than"),
    "bomb.yaml": (
        "a: &a [1, 1]\n"
        + "".join(f"{b}: &{b} [{f'*{a},' * 9}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)),
        "more than",
    ),
    "tag.yaml": ("!!timestamp x", "constraints"),
    "huge.json": ("[1e999]", "give a dictionary"),
    "bytes.json": (b"\xff", "codec"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_options_are_bounded(name: str, tmp_path: Path) -> None:
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    content, message = FILES[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(OptionError, match=message):
        RobotOptions(constraints=path)


@pytest.mark.parametrize(
    "option", ["constraints", "actuators", "sensors", "spheres", "allowed_collisions"]
)
def test_a_file_without_an_end_is_refused(option: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    for name in ("fifo.json", "zero.json"):
        with pytest.raises(OptionError, match="not a regular file"):
            RobotOptions(**{option: tmp_path / name})
    (tmp_path / "long.json").write_bytes(b" " * (32 * 2**20 + 1))
    with pytest.raises(OptionError, match="longer than 32 MiB"):
        RobotOptions(**{option: tmp_path / "long.json"})


def test_hostile_worlds_raise_errors_of_gridgen() -> None:
    grid = {"origin": (0, 0, 0), "spacing": 0.1, "values": np.zeros((2, 2, 2))}
    flat = {"heights": np.zeros((2, 2)), "half_lengths": (1, 1)}
    for other in HOSTILE:
        for name in ("spheres", "boxes", "half_spaces", "grid"):
            with suppress(GridGenError):
                world(**{name: other})
        for name in grid:
            with suppress(GridGenError):
                world(grid={**grid, name: other})
        for name in ("heights", "half_lengths", "center"):
            with suppress(GridGenError):
                terrain(**{**flat, name: other})
    for array in (np.zeros(()), np.zeros((1, 0)), np.zeros(0), np.zeros(1)):
        for name in ("terrain", "world"):
            with pytest.raises(ShapeError, match="do not fit"):
                check_layout(name, array)


def test_float32_counts_no_further_than_its_digits() -> None:
    long = np.broadcast_to(np.float32(0.0), (2, (1 << 24) + 1))
    with pytest.raises(ShapeError, match="16777217 numbers, and float32 counts to 16777216"):
        check_length("terrain", long)
    check_length("terrain", long[:, 1:])
    assert json.dumps(RobotOptions(armature=np.ones(2)).as_data())


def test_hostile_arguments_of_calls_raise_errors_of_gridgen() -> None:
    robot = load(URDF, backend="cpu")
    q = np.zeros((3, 2))
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "mass_matrix": ((q,), {"backend": "cpu", "schedule": "thread", "out": None}),
        "jacobian": ((q, "forearm"), {}),
        "vjp": (("mass_matrix", np.zeros((3, 2, 2)), q), {"wrt": ("q",)}),
        "rollout": (
            (q, q, np.zeros((3, 1, 2)), 0.01),
            {"record": (), "stop_when": None, "store_every": 1},
        ),
        "parameters": (("params",), {}),
    }
    for name, (arguments, options) in calls.items():
        for other in HOSTILE:
            for k in range(len(arguments)):
                with suppress(GridGenError):
                    getattr(robot, name)(*arguments[:k], other, *arguments[k + 1 :], **options)
            for option in options:
                with suppress(GridGenError):
                    getattr(robot, name)(*arguments, **{**options, option: other})
