"""Command-line options that commands share, and one-line errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from gridgen.commands.console import say
from gridgen.errors import GridGenError, OptionError
from gridgen.naming import show
from gridgen.options import (
    CONSTRAINT_FILES,
    CONVENTIONS,
    DTYPE_CHOICES,
    RobotOptions,
    read_constraints,
)

#: Exit status for an invalid input or option.
BAD_INPUT = 2


class _Once(argparse.Action):
    """Stores the value of an option; a second, different value is an error."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the value."""
        given = vars(namespace).setdefault("given", {})
        if given.setdefault(self.dest, values) != values:
            first, second = show(str(given[self.dest])), show(str(values))
            raise argparse.ArgumentError(self, f"given as {first} and as {second}; give it once")
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """A parser with one-line errors; options have one value each."""

    def __init__(self, **options: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=formatter, allow_abbrev=False, **options)
        for action in (None, "store"):
            self.register("action", action, _Once)

    def add_list(self, name: str, **words: Any) -> None:
        """Add an option that may be given several times; its values are a list."""
        self.add_argument(name, action="append", default=[], **words)

    def add_output(self, what: str) -> None:
        """Add the options that select what is printed."""
        output = self.add_mutually_exclusive_group()
        output.add_argument("--json", action="store_true", help=f"print {what} as JSON")
        output.add_argument("--quiet", action="store_true", help="print only errors")

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        say(f"{message}; {self.prog} --help lists the options")
        raise SystemExit(BAD_INPUT)


def one_of(what: str, choices: Sequence[str]) -> Callable[[str], str]:
    """Return a parser of words that accepts only the choices."""

    def parse(word: str) -> str:
        if word in choices:
            return word
        raise argparse.ArgumentTypeError(
            f"no {what} {show(word)}: choose one of {', '.join(choices)}"
        )

    return parse


def add_dtypes(parser: argparse.ArgumentParser, purpose: str = "") -> None:
    """Add the option that selects element types."""
    parser.add_argument(
        "--dtype",
        action="append",
        type=one_of("element type", DTYPE_CHOICES),
        metavar="TYPE",
        help=f"{purpose}{' or '.join(DTYPE_CHOICES)}; repeatable (default: both)",
    )


def add_urdf(parser: argparse.ArgumentParser) -> None:
    """Add the argument of the URDF file."""
    parser.add_argument("urdf", help="the URDF, xacro or MJCF file; - for a URDF on standard input")


def add_robot_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that change a robot."""
    parser.add_argument(
        "--floating-base", action="store_true", help="put a free joint under the root link"
    )
    parser.add_argument(
        "--joint-dynamics",
        action="store_true",
        help="include the joint damping and friction of the URDF",
    )
    parser.add_argument(
        "--friction-width",
        type=float,
        default=0.0,
        metavar="VELOCITY",
        help="smooth friction c tanh(qd / VELOCITY) instead of c sign(qd)",
    )
    parser.add_argument(
        "--rotor",
        dest="rotors",
        action="append",
        default=[],
        type=_of_joint,
        metavar="JOINT=INERTIA,RATIO",
        help="motor of a joint: inertia of the rotor [kg m^2] and gear ratio; repeatable",
    )
    parser.add_argument(
        "--gyroscopic", action="store_true", help="include the gyroscopic moments of the rotors"
    )
    parser.add_argument(
        "--armature",
        type=float,
        default=0.0,
        metavar="INERTIA",
        help="addition to the diagonal of the mass matrix",
    )
    parser.add_argument(
        "--parameters",
        action="append",
        default=[],
        metavar="NAME,...",
        help="parameters of the robot that become inputs: names of links, or all for all moving "
        "bodies, for their inertial parameters; armature; damping; joint_friction; offsets, of "
        "constraints; repeatable (default: none)",
    )
    parser.add_argument(
        "--no-parameter-check",
        dest="check_parameters",
        action="store_false",
        help="do not validate the physical consistency of params in calls",
    )
    parser.add_argument(
        "--mapping",
        dest="mappings",
        action="append",
        default=[],
        type=_mapping,
        metavar="NAME=VALUE",
        help="value of an argument of a xacro file; repeatable",
    )
    parser.add_argument(
        "--lock",
        action="append",
        default=[],
        type=_of_joint,
        metavar="JOINT=POSITION",
        help="fix a joint at a position [rad or m]; repeatable",
    )
    parser.add_argument(
        "--convention",
        type=one_of("convention", CONVENTIONS),
        default=CONVENTIONS[0],
        metavar="NAME",
        help=f"coordinates of a floating base: {' or '.join(CONVENTIONS)}",
    )
    parser.add_argument(
        "--order",
        action="append",
        default=[],
        metavar="JOINT,...",
        help="the joints in the order of q and of velocities; repeatable (default: depth first)",
    )
    parser.add_argument(
        "--constraint",
        dest="constraints",
        action="append",
        default=[],
        type=_constraint,
        metavar="KIND:NAME[:TO]",
        help="a constraint of the motion: point or frame of a link, by the world or another link, "
        "or joint; or a JSON or YAML file with a list of such; repeatable",
    )
    parser.add_argument(
        "--ground",
        action="append",
        default=[],
        metavar="LINK[,LINK...]",
        help="links whose collision shapes touch the plane z = 0 (docs/contacts.md); repeatable",
    )
    parser.add_argument(
        "--contact",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="setting of contacts: cone, impratio, timestep, iterations, parallel, or "
        "pairs=LINK:LINK,... of links that may touch; or true, for the contacts of an MJCF file; "
        "repeatable",
    )
    parser.add_argument(
        "--actuators",
        default=False,
        type=lambda word: word == "true" or word,
        metavar="FILE",
        help="actuators, which ctrl controls: a JSON or YAML file with a list of them; or true, "
        "for those of an MJCF file (docs/actuators.md)",
    )
    parser.add_argument(
        "--spheres",
        default={},
        metavar="FILE",
        help="spheres of links for distances: a YAML or JSON file, as of grid-gen spheres; or "
        "primitives, the spheres and capsules of the robot's file, and those that cover its "
        "boxes and cylinders",
    )
    parser.add_argument(
        "--allowed-collisions",
        metavar="FILE",
        help="an SRDF file with pairs of links that may touch (default: found by sampling)",
    )


def robot_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the values of ``RobotOptions`` by name of the field."""
    given = {name: value for name, value in vars(arguments).items() if name in _ROBOT_OPTIONS}
    return given | {
        "parameters": listed(arguments.parameters),
        "mappings": named("--mapping", arguments.mappings) or None,
        "order": listed(arguments.order),
        "lock": named("--lock", arguments.lock) or None,
        "rotors": named("--rotor", arguments.rotors) or None,
        "constraints": tuple(one for several in arguments.constraints for one in several),
        "ground": listed(arguments.ground),
        "contact": _settings(arguments.contact),
    }


_ROBOT_OPTIONS = {field.name for field in fields(RobotOptions)}


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add the option that permits overwriting of files."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="overwrite files that grid-gen did not write or that were changed since",
    )


def _mapping(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{show(word)} is not NAME=VALUE")
    return name.removesuffix(":"), value  # ROS writes name:=value


def _settings(given: Sequence[tuple[str, Any]]) -> bool | dict[str, Any]:
    """Return the settings of contacts, or whether a robot has them."""
    settings = named("--contact", given)
    is_alone = settings.pop("true", None) is not None
    return settings or is_alone


def _setting(word: str) -> tuple[str, bool | float | str | list[list[str]]]:
    if word == "true":
        return word, word
    name, value = _mapping(word)
    if name == "pairs":
        return name, [pair.split(":") for pair in value.split(",")]
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, float(value)
    except ValueError:
        return name, value


def _of_joint(word: str) -> tuple[str, float | tuple[float, ...]]:
    name, _, position = word.rpartition("=")
    try:
        numbers = tuple(map(float, position.split(",")))
    except ValueError:
        numbers = ()
    if not (name and numbers):
        raise argparse.ArgumentTypeError(f"{show(word)} is no JOINT=NUMBER[,NUMBER]")
    return name, numbers[0] if len(numbers) == 1 else numbers


def _constraint(word: str) -> tuple[Mapping[str, Any], ...]:
    if word.endswith(CONSTRAINT_FILES):
        return read_constraints(word)
    kind, _, names = word.partition(":")
    name, _, to = names.partition(":")
    if not (kind and name):
        raise argparse.ArgumentTypeError(f"{show(word)} is no KIND:NAME[:TO] and no file")
    entry = {"kind": kind, "joint" if kind == "joint" else "link": name}
    return ({**entry, "to": to} if to else entry,)


def named(option: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the values of an option by name.

    Raises:
        OptionError: a name has two values.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            raise OptionError(f"{option} has {show(name)} twice; give each name once")
    return found


def listed(words: Sequence[str]) -> tuple[Any, ...]:
    """Return the names in comma-separated lists, each once."""
    names = (name.strip() for listed in words for name in listed.split(","))
    return tuple(dict.fromkeys(names))


def robot_text(argument: str) -> bytes | str | Path:
    """Return the text of the standard input for ``-``, else a catalog name or a path."""
    if argument != "-":
        from gridgen.model.readers import catalog

        return Path(argument) if argument and not catalog.is_name(argument) else argument
    from gridgen.model.readers.document import MAX_BYTES
    from gridgen.progress import announced

    if sys.stdin is None:
        raise GridGenError("-: the standard input is closed; give the path of a URDF file")
    with announced("reading a URDF from standard input"):
        return sys.stdin.buffer.read(MAX_BYTES + 1)
