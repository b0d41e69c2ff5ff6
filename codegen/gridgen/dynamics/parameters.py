"""Numbers of a robot that come with each state (``gridgen.load(parameters=)``).

The door to inertias is ``mass.body_mass``; the doors to armatures and damping are here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars


class GivenTree:
    """A robot with what a state has in place of some of its numbers.

    Attributes:
        given: the numbers by the names of the inputs: ``params``, ``armature``, ``damping``.
    """

    def __init__(self, tree: KinematicTree, given: Mapping[str, Sequence[Scalar]]) -> None:
        self._tree, self.given = tree, given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)


def has_armature(tree: KinematicTree, velocity: int) -> bool:
    """Tell whether something may be added to the inertia that a velocity has."""
    return "armature" in tree.given or bool(tree.armature[velocity])


def armature(tree: KinematicTree, velocity: int, scalars: Scalars) -> Scalar:
    """Return what is added to the diagonal of the mass matrix."""
    if "armature" in tree.given:
        return tree.given["armature"][velocity]
    return scalars.constant(tree.armature[velocity])


def own_damping(tree: KinematicTree, body: Body) -> float:
    """Return the viscous damping of a joint that is a number of the robot."""
    return 0.0 if "damping" in tree.given else body.damping


def damping_in_time(
    tree: KinematicTree, body: Body, velocity: int, step: Scalar | None, scalars: Scalars
) -> Scalar | None:
    """Return what the damping of a joint adds to its inertia in a time step, if it may do so.

    Args:
        body:     whose joint it is.
        velocity: of the joint.
        step:     length of the time step; ``None`` where the damping is that of now.
    """
    if step is None:
        return None
    if "damping" in tree.given:
        return step * tree.given["damping"][velocity]
    return step * scalars.constant(body.damping) if body.damping else None


def add_given_damping(
    tree: KinematicTree, total: list[Scalar], qd: Sequence[Scalar], scalars: Scalars
) -> None:
    """Add to joint efforts the damping that comes with a state, if it does."""
    if "damping" in tree.given:
        for j in tree.velocities.outward():
            total[j] = total[j] + tree.given["damping"][j] * qd[j]
