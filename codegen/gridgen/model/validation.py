"""Validation of a ``RobotDescription``: names, references, tree structure, plausible numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from gridgen.errors import ModelError
from gridgen.model.description import (
    Joint,
    Link,
    RobotDescription,
    flatten_mimics,
    listing,
    suggestion,
)
from gridgen.model.diagnostics import Diagnostic, at_line
from gridgen.naming import show

INERTIA_TOLERANCE = 1e-5
"""Relative tolerance of the physical conditions, for inertias rounded to six digits."""

INERTIA_NOISE = 1e-16
"""Fraction of a robot's largest mass or moment below which a moment is a rounding error."""


def odd_values(links: Iterable[Link], joints: Iterable[Joint]) -> list[Diagnostic]:
    """Return the physically impossible or ignored values of links and joints."""
    joints = tuple(joints)
    return [*_odd_limits(joints), *_not_taken(joints), *_odd_inertias(links)]


def _odd_limits(joints: Iterable[Joint]) -> Iterator[Diagnostic]:
    """Find physically impossible limits and coefficients; the dynamics does not use limits."""
    for joint in joints:
        where, limits = f"joint {show(joint.name)}", joint.limits
        if limits is not None:
            if joint.kind != "continuous" and limits.lower > limits.upper:
                yield Diagnostic(
                    "crossed limits",
                    where,
                    f"lower limit {limits.lower!r} is above upper limit {limits.upper!r}",
                    "swap them",
                    limits.line,
                )
            limit_values = (("effort limit", limits.effort), ("velocity limit", limits.velocity))
            if negative := _negative(limit_values):
                yield Diagnostic(
                    "negative limit", where, negative, "a limit should be >= 0", limits.line
                )
        if negative := _negative((("damping", joint.damping), ("friction", joint.friction))):
            yield Diagnostic(
                "negative coefficient",
                where,
                f"{negative}, which adds energy",
                "it should be >= 0",
                joint.line,
            )


def _not_taken(joints: Iterable[Joint]) -> Iterator[Diagnostic]:
    """Find values that are ignored for a kind of joint, as in Pinocchio."""
    for joint in joints:
        found = []
        if joint.kind in ("floating", "planar") and joint.limits is not None:
            limits = joint.limits
            bounds = (limits.lower, limits.upper, limits.effort, limits.velocity)
            if any(bound and math.isfinite(bound) for bound in bounds):
                found.append("limits")
        if joint.kind == "floating" and (joint.damping or joint.friction):
            found.append("damping or friction")
        if found:
            yield Diagnostic(
                f"{joint.kind} joint",
                f"joint {show(joint.name)}",
                f"is {joint.kind} and has {' and '.join(found)}, which gridgen ignores",
                "remove it, or build the joint from joints with one coordinate",
                joint.line,
            )


def _negative(values: Iterable[tuple[str, float]]) -> str:
    """Return the negative values, for a message."""
    return " and ".join(f"{word} is {value!r}" for word, value in values if value < 0.0)


def _odd_inertias(all_links: Iterable[Link]) -> Iterator[Diagnostic]:
    """Find physically impossible inertias."""
    links = [link for link in all_links if link.inertial is not None]
    if not links:
        return
    inertias = np.array([link.inertial.inertia for link in links if link.inertial is not None])
    largest = np.max(np.abs(inertias), axis=(1, 2), keepdims=True)
    heaviest = max(link.inertial.mass for link in links if link.inertial is not None)
    noise = INERTIA_NOISE * max(heaviest, largest.max())
    moments = np.linalg.eigvalsh(inertias / np.where(largest > 0.0, largest, 1.0))
    for link, (small, middle, large), factor in zip(links, moments, largest[:, 0, 0], strict=True):
        assert link.inertial is not None
        if factor <= noise:
            continue
        if link.inertial.mass == 0.0:
            yield Diagnostic(
                "inertia without mass",
                f"link {show(link.name)}",
                f"mass is 0 but the inertia is not (largest entry {factor:.6g})",
                "give its mass, or set the inertia to 0; for motor inertia, use armature",
                link.inertial.line,
            )
        if small < -INERTIA_TOLERANCE:
            problem = "is not positive semi-definite"
        elif small + middle < large * (1.0 - INERTIA_TOLERANCE):
            problem = "breaks the triangle inequality"
        else:
            continue
        # Ten digits of the largest moment: smaller digits are rounding errors.
        shown = ", ".join(
            f"{(round(float(moment), 10) + 0.0) * factor:.6g}" for moment in (small, middle, large)
        )
        yield Diagnostic(
            problem,
            f"link {show(link.name)}",
            f"inertia {problem} (principal moments {shown})",
            "check <inertia>",
            link.inertial.line,
        )


def check_body_count(source: str, bodies: int, most: float) -> None:
    """Raise ModelError for a robot with more moving bodies than ``most``."""
    if bodies > most:
        raise ModelError(
            f"{source}: the robot has {bodies} moving bodies; gridgen supports at most {most}: "
            "change joints that need not move to fixed"
        )


def validate(robot: RobotDescription) -> None:
    """Check that the links and joints form one tree, and warn of physically impossible values.

    Raises:
        UrdfError: if a name is missing, invalid or duplicate, a reference is unresolved, or the
            links do not form one tree.
    """
    _check_names(robot)
    parents = _check_references(robot)
    _check_tree(robot, parents)
    flatten_mimics(robot)
    _check_masses(robot)
    robot.warn(odd_values(robot.links, robot.joints))


def _check_names(robot: RobotDescription) -> None:
    """Raise for names that are blank, duplicate, or contain control characters."""
    _check_name(robot, "robot", robot.name, None)
    for kind, elements in (("link", robot.links), ("joint", robot.joints)):
        first: dict[str, int | None] = {}
        for element in elements:
            _check_name(robot, kind, element.name, element.line)
            if element.name in first:
                raise robot.error(
                    f"{kind} {show(element.name)}: another {kind} has this name"
                    f"{at_line(first[element.name])}; names must be unique",
                    element.line,
                )
            first[element.name] = element.line


def _check_name(robot: RobotDescription, kind: str, name: str, line: int | None) -> None:
    """Raise for a name without a visible character, or with a control character.

    Control characters, line separators and lone surrogates can corrupt a terminal, a log or a
    generated file. Any other text is a valid name.
    """
    if not name.strip():
        raise robot.error(f"a {kind} is called {show(name)}; give it a visible name", line)
    for character in name:
        if not character.isprintable() and _breaks_lines(character):
            raise robot.error(
                f"{kind} {show(name)}: the name contains the control character "
                f"U+{ord(character):04X}; remove it",
                line,
            )


def _breaks_lines(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029) or 0xD800 <= code < 0xE000


def _check_references(robot: RobotDescription) -> dict[str, Joint]:
    """Return the parent joint of each link; raise for an unresolved reference."""
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
    """Raise unless one root reaches every link."""
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
    """Raise for negative masses."""
    for link in robot.links:
        if link.inertial is not None and link.inertial.mass < 0.0:
            raise robot.error(
                f"link {show(link.name)}: mass is {link.inertial.mass!r}; a mass must be >= 0",
                link.inertial.line,
            )
