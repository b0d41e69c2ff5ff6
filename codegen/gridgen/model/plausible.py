"""Warnings about physically impossible or ignored numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from gridgen.model.description import Joint, Link
from gridgen.model.oddities import Oddity
from gridgen.naming import show

INERTIA_TOLERANCE = 1e-5
"""Relative tolerance of the physical conditions, for inertias rounded to six digits."""

INERTIA_NOISE = 1e-16
"""Fraction of a robot's largest mass or moment below which a moment is a rounding error."""


def odd_values(links: Iterable[Link], joints: Iterable[Joint]) -> list[Oddity]:
    """Return the physically impossible or ignored values of links and joints."""
    joints = tuple(joints)
    return [*_odd_limits(joints), *_not_taken(joints), *_odd_inertias(links)]


def _odd_limits(joints: Iterable[Joint]) -> Iterator[Oddity]:
    """Find physically impossible limits and coefficients; the dynamics does not use limits."""
    for joint in joints:
        where, limits = f"joint {show(joint.name)}", joint.limits
        if limits is not None:
            if joint.kind != "continuous" and limits.lower > limits.upper:
                yield Oddity(
                    "crossed limits",
                    where,
                    f"lower limit {limits.lower!r} is above upper limit {limits.upper!r}",
                    "swap them",
                    limits.line,
                )
            limit_values = (("effort limit", limits.effort), ("velocity limit", limits.velocity))
            if negative := _negative(limit_values):
                yield Oddity(
                    "negative limit", where, negative, "a limit should be >= 0", limits.line
                )
        if negative := _negative((("damping", joint.damping), ("friction", joint.friction))):
            yield Oddity(
                "negative coefficient",
                where,
                f"{negative}, which adds energy",
                "it should be >= 0",
                joint.line,
            )


def _not_taken(joints: Iterable[Joint]) -> Iterator[Oddity]:
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
            yield Oddity(
                f"{joint.kind} joint",
                f"joint {show(joint.name)}",
                f"is {joint.kind} and has {' and '.join(found)}, which gridgen ignores",
                "remove it, or build the joint from joints with one coordinate",
                joint.line,
            )


def _negative(values: Iterable[tuple[str, float]]) -> str:
    """Return the negative values, for a message."""
    return " and ".join(f"{word} is {value!r}" for word, value in values if value < 0.0)


def _odd_inertias(all_links: Iterable[Link]) -> Iterator[Oddity]:
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
            yield Oddity(
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
        yield Oddity(
            problem,
            f"link {show(link.name)}",
            f"inertia {problem} (principal moments {shown})",
            "check <inertia>",
            link.inertial.line,
        )
