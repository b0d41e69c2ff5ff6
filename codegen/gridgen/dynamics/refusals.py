"""Reasons why a robot does not support a function; each text contains the remedy."""

from __future__ import annotations

from gridgen.model.tree import KinematicTree


def of_mimic_joints(tree: KinematicTree) -> str | None:
    """Return the reason for a robot with mimic joints."""
    if not tree.has_mimic:
        return None
    return (
        "mimic joints couple bodies of different branches, which elimination body by body does not "
        'support: use method="crba"'
    )


def of_a_singular_mass_matrix(tree: KinematicTree) -> str | None:
    """Return the reason for a robot with joints that move no inertia."""
    if tree.singular_joint is None:
        return None
    return (
        f'joint "{tree.singular_joint}" moves no inertia, so the mass matrix is singular: '
        "give its links inertia, or load the robot with armature="
    )


def of_free_joints(tree: KinematicTree) -> str | None:
    """Return the reason for a robot with free joints."""
    for body in tree.bodies:
        if body.nv > 1:
            return (
                f'joint "{body.joint}" is free, and second derivatives require joints of one '
                "velocity: take differences of inverse_dynamics_gradient"
            )
    return None


def of_no_mass(tree: KinematicTree) -> str | None:
    """Return the reason for a robot without mass."""
    if tree.total_mass > 0.0 or "params" in tree.parameters:
        return None
    return "the moving links have no mass: give them <inertial> elements"
