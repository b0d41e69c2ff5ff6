"""Parameters of a robot that are inputs of its functions (``gridgen.load(parameters=)``).

Algorithms read inertias through ``mass.body_mass``, armatures and damping through this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars


class GivenTree:
    """A robot with parameters that are inputs.

    Attributes:
        robot: the robot.
        given: values by input name: ``params``, ``armature``, ``damping``.
    """

    def __init__(self, tree: KinematicTree, given: Mapping[str, Sequence[Scalar]]) -> None:
        self.robot, self.given = tree, given

    def __getattr__(self, name: str) -> Any:
        return getattr(self.robot, name)


def has_armature(tree: KinematicTree, velocity: int) -> bool:
    """Return whether a velocity may have an armature."""
    return "armature" in tree.given or bool(tree.armature[velocity])


def armature(tree: KinematicTree, velocity: int, scalars: Scalars) -> Scalar:
    """Return the armature of a velocity, a term of the mass matrix's diagonal."""
    if "armature" in tree.given:
        return tree.given["armature"][velocity]
    return scalars.constant(tree.armature[velocity])


def own_damping(tree: KinematicTree, body: Body) -> float:
    """Return the constant viscous damping of a joint; zero where damping is an input."""
    return 0.0 if "damping" in tree.given else body.damping


def damping_in_time(
    tree: KinematicTree, body: Body, velocity: int, step: Scalar | None, scalars: Scalars
) -> Scalar | None:
    """Return the inertia that implicit damping adds to a joint over a time step, or ``None``.

    Args:
        body:     the body that the joint moves.
        velocity: index of the joint's velocity.
        step:     length of the time step [s]; ``None`` for explicit damping.
    """
    if step is None:
        return None
    if "damping" in tree.given:
        return step * tree.given["damping"][velocity]
    return step * scalars.constant(body.damping) if body.damping else None


def add_given_damping(
    tree: KinematicTree, total: list[Scalar], qd: Sequence[Scalar], scalars: Scalars
) -> None:
    """Add the damping torques to joint torques where damping is an input."""
    if "damping" in tree.given:
        for j in tree.velocities.outward():
            total[j] = total[j] + tree.given["damping"][j] * qd[j]
