"""Robot loaded by urdfpy, urchin or yourdfpy -> RobotDescription, without importing them."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from gridgen.errors import UrdfError
from gridgen.model.description import (
    JOINT_KINDS,
    SOLIDS,
    Inertial,
    Joint,
    Limits,
    Link,
    Mimic,
    RobotDescription,
    Shape,
    collision_shape,
    listing,
)
from gridgen.model.diagnostics import Diagnostic, warn_of
from gridgen.model.pose import NO_DISPLACEMENT, Pose, matrix3, snapped, symmetric, unit, vector3
from gridgen.model.validation import validate
from gridgen.naming import one_line, show

ROTATION_TOLERANCE = 1e-6
"""Maximum deviation of R R^T from the identity for the rotation of an ``origin``."""


def is_robot_object(source: object) -> bool:
    """Return whether an object has the attributes of urdfpy's, urchin's or yourdfpy's ``URDF``."""
    return all(hasattr(_content(source), name) for name in ("name", "links", "joints"))


def _content(source: Any) -> Any:
    """Return the object with links and joints, which yourdfpy stores in ``robot``."""
    return getattr(source, "robot", source)


def from_object(robot: Any) -> RobotDescription:
    """Read a loaded robot.

    urdfpy and urchin fill in 1 kg and a unit inertia for a link without <inertial>. A link with
    exactly these numbers is treated as massless, with a warning.

    Args:
        robot: ``URDF`` of urdfpy, urchin or yourdfpy, or an object with the same attributes.

    Raises:
        UrdfError: if an attribute is missing or invalid; see ``validate``.
    """
    source = f"<{type(robot).__module__.partition('.')[0]}.{type(robot).__name__} object>"
    content = _content(robot)
    makes_up = content is robot  # yourdfpy does not
    try:
        links = tuple(_link(link, source, makes_up) for link in content.links)
        joints = tuple(_joint(joint, source) for joint in content.joints)
        name = str(content.name)
    except (AttributeError, TypeError, ValueError) as error:
        raise UrdfError(
            f"not a robot loaded by urdfpy, urchin or yourdfpy: {one_line(error)}; give the URDF "
            "file instead",
            source,
        ) from error
    digest = hashlib.sha256(repr((name, links, joints)).encode("utf-8", "replace")).hexdigest()
    description = RobotDescription(name, links, joints, source, digest)
    validate(description)
    if makes_up:
        _warn_of_made_up_inertias(content, source)
    return description


def _link(link: Any, source: str, makes_up: bool) -> Link:
    """Return one link, without the placeholder inertia of its library."""
    name = str(link.name)
    inertial = link.inertial
    shapes = tuple(_shape(one, source) for one in getattr(link, "collisions", None) or ())
    if inertial is None or (makes_up and _is_made_up(inertial)):
        return Link(name, shapes=shapes)
    where = f"link {show(name)}"
    mass = _number(inertial.mass, f"{where}: mass", source)
    entries = _array(inertial.inertia, (3, 3), f"{where}: inertia", source)
    inertia = symmetric(
        entries[0, 0], entries[0, 1], entries[0, 2], entries[1, 1], entries[1, 2], entries[2, 2]
    )
    origin = _pose(inertial.origin, f"{where}: inertial origin", source)
    return Link(name, Inertial(origin, mass, inertia), shapes=shapes)


def _shape(collision: Any, source: str) -> Shape | None:
    """Return one collision shape, None for a mesh or an invalid shape."""
    for kind, names in SOLIDS.items():
        if (solid := getattr(collision.geometry, kind, None)) is not None:
            try:
                size = np.concatenate([np.ravel(getattr(solid, name)) for name in names])
                pose = _pose(collision.origin, kind, source)
                return collision_shape(kind, pose, size.astype(float).tolist())
            except (UrdfError, AttributeError, TypeError, ValueError):
                return None
    return None


def _is_made_up(inertial: Any) -> bool:
    """Return whether these are urdfpy's placeholders for a missing <inertial>."""
    return (
        inertial.mass == 1.0
        and np.array_equal(inertial.inertia, np.eye(3))
        and (inertial.origin is None or np.array_equal(inertial.origin, np.eye(4)))
    )


def _warn_of_made_up_inertias(robot: Any, source: str) -> None:
    names = [
        str(link.name)
        for link in robot.links
        if link.inertial is not None and _is_made_up(link.inertial)
    ]
    if names:
        diagnostic = Diagnostic(
            "placeholder inertia",
            f"link {listing(names)}",
            "mass 1 and inertia 1 are placeholders of urdfpy and urchin for a missing <inertial>",
            "treated as massless: if the values are real, give the URDF file",
        )
        warn_of([diagnostic], source)


def _joint(joint: Any, source: str) -> Joint:
    """Return one joint; a fixed joint's axis, limits and dynamics are not read."""
    name = str(joint.name)
    kind = str(joint.joint_type if hasattr(joint, "joint_type") else joint.type)  # yourdfpy
    where = f"joint {show(name)}"
    if kind not in JOINT_KINDS:
        raise UrdfError(
            f"{where}: type is {show(kind)}, which is not supported; use one of "
            f"{', '.join(JOINT_KINDS)}",
            source,
        )
    origin = _pose(joint.origin, f"{where}: origin", source)
    ends = str(joint.parent), str(joint.child)
    if kind == "fixed":
        return Joint(name, kind, *ends, origin)
    axis = (1.0, 0.0, 0.0)
    if kind != "floating" and joint.axis is not None:
        axis = vector3(_array(joint.axis, (3,), f"{where}: axis", source).tolist())
        if not any(axis):
            raise UrdfError(f"{where}: axis is 0 0 0; an axis needs a direction", source)
    dynamics = joint.dynamics
    return Joint(
        name,
        kind,
        *ends,
        origin,
        unit(axis),
        _limits(joint.limit, where, source),
        _mimic(joint.mimic, where, source),
        _number(getattr(dynamics, "damping", None), f"{where}: damping", source, 0.0),
        _number(getattr(dynamics, "friction", None), f"{where}: friction", source, 0.0),
    )


def _limits(limit: Any, where: str, source: str) -> Limits | None:
    """Return a joint's limits; a missing position bound is 0, as in URDF."""
    if limit is None:
        return None
    lower, upper, effort, velocity = (
        math.copysign(math.inf, value)
        if isinstance(value := getattr(limit, name), float) and math.isinf(value)
        else _number(value, f"{where}: {name} limit", source, default)
        for name, default in (
            ("lower", 0.0),
            ("upper", 0.0),
            ("effort", math.inf),
            ("velocity", math.inf),
        )
    )
    return Limits(lower, upper, effort, velocity)


def _mimic(mimic: Any, where: str, source: str) -> Mimic | None:
    """Return the mimic relation of a joint."""
    if mimic is None:
        return None
    return Mimic(
        str(mimic.joint),
        _number(mimic.multiplier, f"{where}: mimic multiplier", source, 1.0),
        _number(mimic.offset, f"{where}: mimic offset", source, 0.0),
    )


def _pose(matrix: Any, what: str, source: str) -> Pose:
    """Return the pose of a homogeneous matrix."""
    if matrix is None:
        return NO_DISPLACEMENT
    values = _array(matrix, (4, 4), what, source)
    rotation = values[:3, :3]
    error = np.max(np.abs(rotation @ rotation.T - np.eye(3)))
    if not (error <= ROTATION_TOLERANCE and np.linalg.det(rotation) > 0.0):
        raise UrdfError(
            f"{what} is not a rotation (off by {error:.3g}); make it orthogonal", source
        )
    return Pose(snapped(matrix3(rotation.ravel().tolist())), vector3(values[:3, 3].tolist()))


def _number(value: Any, what: str, source: str, default: float | None = None) -> float:
    """Return one finite number, or the default in place of None."""
    if value is None and default is not None:
        return default
    return float(_array(value, (), what, source))


def _array(value: Any, shape: tuple[int, ...], what: str, source: str) -> np.ndarray:
    """Return finite numbers of a given shape."""
    try:
        values = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if values.shape != shape or not np.all(np.isfinite(values)):
        raise UrdfError(f"{what} is {show(str(value))}; expected finite numbers, {shape}", source)
    return values + 0.0  # no negative zeros
