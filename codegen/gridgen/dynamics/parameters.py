"""Parameters of a robot that are inputs of its functions (``gridgen.load(parameters=)``).

Algorithms read inertias through ``mass.body_mass``, armatures and damping through this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridgen.dynamics.state import Numbers, State
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import Scalar


class GivenTree:
    """A robot with parameters that are inputs.

    Attributes:
        given: values by input name: ``params``, ``armature``, ``damping``.
    """

    def __init__(self, tree: KinematicTree, given: Mapping[str, Numbers]) -> None:
        self._tree, self.given = tree, given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)


def has_armature(tree: KinematicTree, velocity: int) -> bool:
    """Return whether a velocity may have an armature."""
    return "armature" in tree.given or bool(tree.armature[velocity])


def armature(state: State, velocity: int) -> Scalar:
    """Return the armature of a velocity, a term of the mass matrix's diagonal."""
    if "armature" in state.tree.given:
        return state.tree.given["armature"][velocity]
    return state.scalars.constant(state.tree.armature[velocity])


def own_damping(tree: KinematicTree, body: Body) -> float:
    """Return the constant viscous damping of a joint; zero where damping is an input."""
    return 0.0 if "damping" in tree.given else body.damping


def joint_inertia(state: State, body: Body, velocity: int, step: Scalar | None) -> Scalar | None:
    """Return the armature and the inertia that implicit damping adds; ``None`` if both are zero.

    Args:
        body:     the body that the joint moves.
        velocity: index of the joint's velocity.
        step:     length of the time step [s]; ``None`` for explicit damping.
    """
    tree = state.tree
    if step is None or not ("damping" in tree.given or body.damping):
        return armature(state, velocity) if has_armature(tree, velocity) else None
    if "damping" in tree.given:
        added = step * tree.given["damping"][velocity]
    else:
        added = step * state.scalars.constant(body.damping)
    return armature(state, velocity) + added
