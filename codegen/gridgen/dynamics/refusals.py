"""What a robot may lack for a function: each returns why it cannot have it, with the remedy."""

from __future__ import annotations

from gridgen.model.tree import KinematicTree


def of_mimic_joints(tree: KinematicTree) -> str | None:
    """Refuse joints that follow others."""
    if not tree.has_mimic:
        return None
    return (
        "mimic joints tie bodies of different branches together, which an elimination body by body "
        'cannot express: use method="crba"'
    )


def of_a_singular_mass_matrix(tree: KinematicTree) -> str | None:
    """Refuse joints that move nothing."""
    if tree.singular_joint is None:
        return None
    return (
        f'joint "{tree.singular_joint}" moves nothing that has inertia, so the mass matrix is '
        "singular: give its links inertia, or load the robot with armature="
    )


def of_free_joints(tree: KinematicTree) -> str | None:
    """Refuse joints of several velocities."""
    for body in tree.bodies:
        if body.nv > 1:
            return (
                f'joint "{body.joint}" is free, and second derivatives are for joints of one '
                "velocity: take differences of inverse_dynamics_gradient"
            )
    return None


def of_no_mass(tree: KinematicTree) -> str | None:
    """Refuse a robot without mass."""
    if tree.total_mass > 0.0 or "params" in tree.parameters:
        return None
    return "nothing that moves has mass: give its links <inertial> elements"


def of_no_constraints(tree: KinematicTree) -> str | None:
    """Refuse a robot without constraints."""
    if tree.constraints:
        return None
    return "the robot has no constraints: load it with constraints= (grid-gen: --constraint)"
