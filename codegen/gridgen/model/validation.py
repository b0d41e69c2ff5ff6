"""The checks of a ``RobotDescription``: names, references, one tree, plausible numbers."""

from __future__ import annotations

from collections.abc import Mapping

from gridgen.errors import ModelError
from gridgen.model.description import (
    Joint,
    RobotDescription,
    flatten_mimics,
    listing,
    suggestion,
)
from gridgen.model.oddities import at_line
from gridgen.model.plausible import odd_values
from gridgen.naming import show


def check_body_count(source: str, bodies: int, most: float) -> None:
    """Refuse a robot of more moving bodies than ``most``.

    Raises:
        ModelError: the robot is that large.
    """
    if bodies > most:
        raise ModelError(
            f"{source}: the robot has {bodies} moving bodies; grid-gen takes at most {most}: make "
            "joints that need not move fixed"
        )


def validate(robot: RobotDescription) -> None:
    """Check that the links and joints form one tree, and warn of what is physically impossible.

    Raises:
        UrdfError: if a name is missing, odd or used twice, a reference leads nowhere, or the links
            are not one tree.
    """
    _check_names(robot)
    parents = _check_references(robot)
    _check_tree(robot, parents)
    flatten_mimics(robot)
    _check_masses(robot)
    robot.warn(odd_values(robot.links, robot.joints))


def _check_names(robot: RobotDescription) -> None:
    """Refuse names that are blank, used twice, or would break the line they are printed on."""
    _check_name(robot, "robot", robot.name, None)
    for kind, elements in (("link", robot.links), ("joint", robot.joints)):
        first: dict[str, int | None] = {}
        for element in elements:
            _check_name(robot, kind, element.name, element.line)
            if element.name in first:
                raise robot.error(
                    f"{kind} {show(element.name)}: there is another {kind} of this name"
                    f"{at_line(first[element.name])}; names must be distinct",
                    element.line,
                )
            first[element.name] = element.line


def _check_name(robot: RobotDescription, kind: str, name: str, line: int | None) -> None:
    """Refuse a name without a visible character, or with a control character.

    Any other text is a name. Control characters, line separators and lone surrogates are in no
    name that anyone wants, and in many that break a terminal, a log or a generated file.
    """
    if not name.strip():
        raise robot.error(f"a {kind} is called {show(name)}; give it a name", line)
    for character in name:
        if not character.isprintable() and _breaks_lines(character):
            raise robot.error(
                f"{kind} {show(name)}: the control character U+{ord(character):04X} is in the name;"
                " remove it",
                line,
            )


def _breaks_lines(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029) or 0xD800 <= code < 0xE000


def _check_references(robot: RobotDescription) -> dict[str, Joint]:
    """Return the joint above each link, once every reference is known to be good."""
    if not robot.links:
        raise robot.error(
            "there is no <link> directly inside <robot>; a robot needs links (tags are lower case)"
        )
    links = {link.name: link for link in robot.links}
    above: dict[str, Joint] = {}
    for joint in robot.joints:
        where = f"joint {show(joint.name)}"
        ends = (("parent", joint.parent, joint.child), ("child", joint.child, joint.parent))
        for role, name, other_end in ends:
            if name not in links:
                hint = suggestion(name, (link for link in links if link != other_end))
                raise robot.error(
                    f"{where}: {role} link {show(name)} does not exist{hint}", joint.line
                )
        if joint.parent == joint.child:
            raise robot.error(
                f"{where}: parent and child are the same link {show(joint.child)}; a joint "
                "connects two links",
                joint.line,
            )
        if joint.child in above:
            other = above[joint.child]
            raise robot.error(
                f"link {show(joint.child)} is the child of two joints, {show(other.name)}"
                f"{at_line(other.line)} and {show(joint.name)}; closed loops are not supported: "
                "remove one of the joints",
                joint.line,
            )
        above[joint.child] = joint
    return above


def _check_tree(robot: RobotDescription, above: Mapping[str, Joint]) -> None:
    """Refuse anything but one root from which every link is reached."""
    roots = [link for link in robot.links if link.name not in above]
    if len(roots) > 1:
        raise robot.error(
            f"{len(roots)} links have no parent joint: {listing(link.name for link in roots)}; "
            "a robot has one root: connect the others to it by joints",
            roots[1].line,
        )
    reached: set[str] = {link.name for link in roots}
    for link in robot.links:
        path: list[str] = []
        on_path: set[str] = set()
        name = link.name
        while name not in reached:
            if name in on_path:
                loop = path[path.index(name) :]
                joints = [above[member] for member in reversed(loop)]
                raise robot.error(
                    f"joints {listing(joint.name for joint in joints)} form a loop that the root "
                    "link does not reach; a robot is a tree of links: remove one of these joints",
                    joints[0].line,
                )
            path.append(name)
            on_path.add(name)
            name = above[name].parent
        reached.update(path)


def _check_masses(robot: RobotDescription) -> None:
    """Refuse negative masses."""
    for link in robot.links:
        if link.inertial is not None and link.inertial.mass < 0.0:
            raise robot.error(
                f"link {show(link.name)}: mass is {link.inertial.mass!r}; a mass must be >= 0",
                link.inertial.line,
            )
