"""Values of options: their checks, files that contain them, and words of a command line.

A check takes the name of an option and its value, and returns the value to store.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridgen.errors import OptionError
from gridgen.naming import one_line, show, show_value

Check = Callable[[str, Any], Any]

#: Bytes of the longest file of an option. Values, and levels of them, in the largest option.
MAX_FILE, MAX_VALUES, DEEPEST = 32 * 2**20, 1 << 25, 16
#: Endings of files with lists of dictionaries.
LIST_FILES = (".json", ".yaml", ".yml")
#: The word for the spheres of a file's own collision shapes.
PRIMITIVES = "primitives"
#: A constraint, for errors.
CONSTRAINT = '{"kind": "point", "link": "foot"}'


def anything(option: str, value: Any) -> Any:
    """Return the value: where it is used, it is checked."""
    return value


def switch(option: str, value: object) -> bool:
    """Return a bool; the string "no" would count as true."""
    if not isinstance(value, bool):
        raise OptionError(f"{option} is {show_value(value)}; give True or False")
    return value


def instance_of(
    kinds: tuple[type, ...], hint: str, make: Callable[[Any], Any] | None = None
) -> Check:
    """Return a check of types; ``make`` converts a valid value."""

    def check(option: str, value: object) -> Any:
        if not isinstance(value, kinds):
            raise OptionError(f"{option} is {show_value(value)}; give {hint}")
        return make(value) if make else value

    return check


def one_of(choices: Sequence[str]) -> Check:
    """Return a check that accepts one of some words."""

    def check(option: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            given = show_value(value)
            raise OptionError(f"{option} is {given}; choose one of {', '.join(choices)}")
        return value

    return check


def names(hint: str) -> Check:
    """Return a check that accepts a list of names."""

    def check(option: str, value: object) -> tuple[str, ...]:
        is_list = isinstance(value, (tuple, list))
        if not is_list or not all(isinstance(name, str) for name in value):  # type: ignore[attr-defined]
            raise OptionError(f"{option} is {show_value(value)}; give {hint}")
        return tuple(value)  # type: ignore[arg-type]

    return check


def names_of(what: str, choices: Collection[str]) -> Check:
    """Return a check that accepts a list of names among some."""
    is_list = names("a tuple of names")

    def check(option: str, value: object) -> tuple[str, ...]:
        given: tuple[str, ...] = is_list(option, value)
        for name in given:
            if name not in choices:
                raise OptionError(f"no {what} {show(name)}; choose among {', '.join(choices)}")
        return given

    return check


def hashable(option: str, value: Any) -> Any:
    """Return a list as a tuple: trees that are built with options are compared and hashed."""
    return tuple(value) if isinstance(value, list) else value


def speed(option: str, value: object) -> Any:
    """Return a velocity that is finite and not negative."""
    is_number = isinstance(value, (float, int)) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value < math.inf:  # type: ignore[operator]
        raise OptionError(
            f"{option} is {show_value(value)}; give a velocity > 0, or 0 for sign(qd)"
        )
    return value


def count(option: str, value: object) -> int:
    """Return a nonnegative integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise OptionError(
            f"{option} is {show_value(value)}; give a number of instructions, 0 or more"
        )
    return value


def entries(example: str) -> Check:
    """Return a check that accepts dictionaries, or the path of a JSON or YAML file with them."""

    def check(option: str, value: object) -> tuple[Mapping[str, Any], ...]:
        return read_entries(option, value, example)

    return check


def read_entries(option: str, given: object, example: str) -> tuple[Mapping[str, Any], ...]:
    """Return the dictionaries of an option.

    Args:
        option:  name of the option.
        given:   dictionaries, or the path of a JSON or YAML file.
        example: one of them, for the error.

    Raises:
        OptionError: ``given`` is invalid, or the file cannot be read.
    """
    where = option
    if isinstance(given, (str, os.PathLike)):
        where, given = f"{option}: {os.fspath(given)}", _file(given, option)
    if not isinstance(given, (list, tuple)):
        raise OptionError(
            f"{where} is {show_value(given)}; give a list of dictionaries, or the path of a file "
            f"({', '.join(LIST_FILES)}) with one"
        )
    for entry in given:
        if not isinstance(entry, Mapping) or not all(isinstance(key, str) for key in entry):
            raise OptionError(
                f"{where} has {show_value(entry)}; give a dictionary for each, such as {example}"
            )
    return tuple(given)


def numbers_of(
    where: str, key: str, value: object, count: int, least: float = -math.inf
) -> tuple[float, ...]:
    """Return the numbers of an entry of an option.

    Raises:
        OptionError: the value is not that many finite numbers, or one is less than ``least``.
    """
    numbers = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(numbers) != count or not all(
        isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x) and x >= least
        for x in numbers
    ):
        form = "a number" if count == 1 else f"{count} numbers"
        bound = ", 0 or more" if least == 0.0 else ""
        raise OptionError(f"{where} has {key} {show_value(value)}; give {form}{bound}")
    return tuple(map(float, numbers))


def read_spheres(option: str, given: object) -> str | dict[str, tuple[Any, ...]]:
    """Return spheres by link, of a dictionary or the path of a file, or ``PRIMITIVES``."""
    where = option
    if isinstance(given, str) and given == PRIMITIVES:
        return given
    if isinstance(given, (str, os.PathLike)):
        path, where = Path(given), f"{option}: {os.fspath(given)}"
        given = _spheres_of_urdf(path) if path.suffix == ".urdf" else _file(path, option)
        for key in ("robot_cfg", "kinematics", "collision_spheres"):
            if isinstance(given, Mapping) and key in given:
                given = given[key]
        if isinstance(given, str):  # the name of another file, relative to this one
            return read_spheres(option, path.parent / given)
    if not isinstance(given, Mapping):
        raise OptionError(
            f"{where} is {show_value(given)}; give spheres (x, y, z, radius) by the name of a "
            f'link, the path of a file, or "{PRIMITIVES}"'
        )
    found = {}
    for name, listed in given.items():
        if not isinstance(name, str) or not isinstance(listed, (list, tuple)):
            raise OptionError(
                f"{where}: {show_value(name)} has {show_value(listed)}; give a list of spheres "
                "(x, y, z, radius) by the name of a link"
            )
        found[name] = tuple(_numbers(where, sphere) for sphere in listed)
    return found


def _spheres_of_urdf(path: Path) -> dict[str, list[Any]]:
    """Return the spheres of a URDF file whose collision shapes are spheres."""
    found: dict[str, list[Any]] = {}
    try:
        for link in ElementTree.fromstring(_text(path, "spheres")).iter("link"):
            for shape in link.iter("collision"):
                sphere, origin = shape.find("geometry/sphere"), shape.find("origin")
                if sphere is None:
                    raise OptionError(
                        f"spheres: {path}: link {show_value(link.get('name'))} has a collision "
                        "shape that is no sphere: cover it by `grid-gen spheres`"
                    )
                place = "0 0 0" if origin is None else origin.get("xyz", "0 0 0")
                numbers = map(float, (*place.split(), sphere.get("radius", "")))
                found.setdefault(link.get("name", ""), []).append([*numbers])
    except (ValueError, ElementTree.ParseError) as error:
        raise OptionError(f"spheres: {path}: {one_line(error)}") from error
    return found


def _numbers(where: str, sphere: Any) -> Any:
    if isinstance(sphere, Mapping):
        if sphere.keys() != {"center", "radius"} or not isinstance(sphere["center"], (list, tuple)):
            raise OptionError(f"{where} has {show_value(sphere)}; a sphere has center and radius")
        return (*sphere["center"], sphere["radius"])
    return tuple(sphere) if isinstance(sphere, (list, tuple)) else sphere


def read_allowed(option: str, given: object) -> tuple[tuple[str, str], ...] | None:
    """Return pairs of names, of a list or the path of an SRDF file, or ``None``."""
    if given is None:
        return None
    if isinstance(given, (str, os.PathLike)):
        text = _text(given, option)
        try:
            root = ElementTree.fromstring(text)
        except (ValueError, ElementTree.ParseError) as error:
            name = os.fspath(given)
            raise OptionError(f"{option}: {name}: {one_line(error)}") from error
        listed = root.iter("disable_collisions")
        given = [(one.get("link1", ""), one.get("link2", "")) for one in listed]
    is_listed = isinstance(given, (list, tuple)) and all(
        isinstance(pair, (list, tuple))
        and len(pair) == 2
        and all(isinstance(name, str) for name in pair)
        for pair in given
    )
    if not is_listed:
        raise OptionError(
            f"{option} is {show_value(given)}; give pairs of links, or the path of an SRDF file"
        )
    return tuple((a, b) for a, b in given)  # type: ignore[attr-defined]


def _text(path: str | os.PathLike[str], option: str) -> str:
    """Return the text of a regular file of an option, of ``MAX_FILE`` bytes at most."""
    where = f"{option}: {os.fspath(path)}"
    try:
        with open(path, "rb") if stat.S_ISREG(os.stat(path).st_mode) else open(os.devnull) as file:
            data = file.read(MAX_FILE + 1)
        if isinstance(data, str):
            raise OptionError(f"{where}: not a regular file; give the path of one")
        if len(data) > MAX_FILE:
            raise OptionError(f"{where}: longer than {MAX_FILE // 2**20} MiB; make it shorter")
        return data.decode()
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a null character in a path
        raise OptionError(f"{where}: {one_line(error)}") from error


def _file(given: str | os.PathLike[str], option: str) -> object:
    """Return the content of the file of an option."""
    path, text = Path(given), _text(given, option)
    where = f"{option}: {path}"
    if path.suffix not in LIST_FILES:
        raise OptionError(f"{where} is no file of {', '.join(LIST_FILES)}")
    try:
        found = json.loads(text, object_pairs_hook=_once) if path.suffix == ".json" else _yaml(text)
    except ImportError:
        raise OptionError(
            f"{where}: YAML is read by the package pyyaml, which is not installed: pip install "
            "pyyaml, or give a JSON file"
        ) from None
    except RecursionError:
        raise OptionError(f"{where}: nested in more than {DEEPEST} levels") from None
    except ValueError as error:
        raise OptionError(f"{where}: {one_line(error)}") from error
    if isinstance(found, dict):
        found.pop("", None)  # the seal of a file that grid-gen has written
    return plain(option, found, len(text) + 1)  # more are repetitions of aliases


def _once(pairs: Sequence[tuple[object, Any]]) -> dict[Any, Any]:
    """Return a dictionary of a file, whose keys are all different.

    Raises:
        ValueError: a key occurs twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"has {show_value(twice)} twice in a dictionary; remove one")
    return found


def _yaml(text: str) -> object:
    """Return the content of a YAML file.

    Raises:
        ImportError: the package is missing.
        ValueError:  it is not YAML, or a key occurs twice.
    """
    import yaml  # type: ignore[import-untyped,unused-ignore]

    class Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            _once([(key.value, key) for key, _ in node.value if isinstance(key.value, str)])
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, LookupError, AttributeError, TypeError) as error:  # a tag's value
        raise ValueError(one_line(error)) from error


def plain(option: str, value: object, most: int = MAX_VALUES) -> Any:
    """Return the value of an option with numbers, strings, lists, tuples and dictionaries in it.

    Arrays become lists. A value that contains none of these is returned as it is.

    Raises:
        OptionError: it contains another type, an integer beyond float64, more than ``most`` values
            or ``DEEPEST`` levels (as one that contains itself), or a key that is no string.
    """
    left = most

    def within(value: object, depth: int) -> object:
        nonlocal left
        left -= 1
        if depth > DEEPEST or left < 0:
            limit = f"{DEEPEST} levels" if depth > DEEPEST else f"{most} values"
            raise OptionError(f"{option} has more than {limit}; make it smaller")
        if type(value) is np.ndarray or (depth and isinstance(value, np.generic)):
            value = value.tolist()
        if isinstance(value, Mapping):
            if odd := [key for key in value if not isinstance(key, str)]:
                raise OptionError(f"{option} has the key {show_value(odd[0])}; give a string")
            return {key: within(entry, depth + 1) for key, entry in value.items()}
        if isinstance(value, (list, tuple)):
            made = [within(entry, depth + 1) for entry in value]
            return made if isinstance(value, list) else tuple(made)
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise OptionError(f"{option} has {show_value(value)}; give a smaller number")
        if depth and not isinstance(value, (int, float, str, type(None))):
            raise OptionError(f"{option} has {show_value(value)}; give a number or a string")
        return value

    return within(value, 0)


# -- words of a command line --------------------------------------------------------------------


def listed(words: Sequence[str]) -> tuple[str, ...]:
    """Return the names in comma-separated lists, each once."""
    found = (name.strip() for word in words for name in word.split(","))
    return tuple(dict.fromkeys(found))


def by_name(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by name.

    Raises:
        OptionError: a name has two values.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            raise OptionError(f"has {show(name)} twice; give each name once")
    return found


def mapping(word: str) -> tuple[str, str]:
    """Read ``NAME=VALUE``."""
    name, equals, value = word.partition("=")
    if not (name and equals):
        raise OptionError(f"{show(word)} is not NAME=VALUE")
    return name.removesuffix(":"), value  # ROS writes name:=value


def of_joint(word: str) -> tuple[str, float | tuple[float, ...]]:
    """Read ``JOINT=NUMBER[,NUMBER]``."""
    name, _, position = word.rpartition("=")
    try:
        found = tuple(map(float, position.split(",")))
    except ValueError:
        found = ()
    if not (name and found):
        raise OptionError(f"{show(word)} is no JOINT=NUMBER[,NUMBER]")
    return name, found[0] if len(found) == 1 else found


def setting(word: str) -> tuple[str, bool | float | str | list[list[str]]]:
    """Read a setting of contacts, or ``true``."""
    if word == "true":
        return word, word
    name, value = mapping(word)
    if name == "pairs":
        return name, [pair.split(":") for pair in value.split(",")]
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, float(value)
    except ValueError:
        return name, value


def settings(pairs: Sequence[tuple[str, Any]]) -> bool | dict[str, Any]:
    """Return the settings of contacts, or whether a robot has them."""
    found = by_name(pairs)
    is_alone = found.pop("true", None) is not None
    return found or is_alone


def constraints(word: str) -> tuple[Mapping[str, Any], ...]:
    """Read ``KIND:NAME[:TO]``, or the path of a file with constraints."""
    if word.endswith(LIST_FILES):
        return read_entries("constraints", word, CONSTRAINT)
    kind, _, rest = word.partition(":")
    name, _, to = rest.partition(":")
    if not (kind and name):
        raise OptionError(f"{show(word)} is no KIND:NAME[:TO] and no file")
    entry = {"kind": kind, "joint" if kind == "joint" else "link": name}
    return ({**entry, "to": to} if to else entry,)


def fused(word: str) -> tuple[str, list[str]]:
    """Read ``NAME=FUNCTION,...``."""
    name, equals, functions = word.partition("=")
    if not equals:
        raise OptionError(
            f"{show(word)}: give NAME=FUNCTION,... such as control=mass_matrix,jacobian:hand"
        )
    return name.strip(), [part.strip() for part in functions.split(",")]
