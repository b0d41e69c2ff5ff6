"""Reasons why a robot does not support a function; each text contains the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gridgen.dynamics.frames import base_pose, body_poses, in_canonical
from gridgen.dynamics.state import State
from gridgen.model.description import listing
from gridgen.model.sensors import KINDS
from gridgen.model.tree import Frame, KinematicTree
from gridgen.naming import show
from gridgen.symbolic.scalars import FloatScalars
from gridgen.symbolic.spatial import add, apply, cross


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


def of_few_directions(tree: KinematicTree, frame: str) -> str | None:
    """Refuse frames that cannot move in every direction."""
    found = _directions(tree)[frame]
    if found[0] == 6:
        return None
    point = ", or its point_inertia" if found[1] == 3 else ""
    return (
        f'link "{frame}" moves in {found[0]} of 6 directions, turns included, so that its inertia '
        f"is infinite in the others: choose another link{point}"
    )


def of_few_directions_of_a_point(tree: KinematicTree, frame: str) -> str | None:
    """Refuse frames whose origin cannot move in every direction."""
    if (found := _directions(tree)[frame][1]) == 3:
        return None
    return (
        f'the origin of link "{frame}" moves in {found} of 3 directions, so that its inertia is '
        "infinite in the others: choose another link"
    )


@lru_cache(maxsize=8)
def _directions(tree: KinematicTree) -> Mapping[str, tuple[int, int]]:
    """Return in how many directions each frame can move, and its origin: in a random state."""
    moves = _Twists(tree)
    found = {}
    for frame in tree.frames:
        twist = moves.at(frame)
        found[frame.name] = _rank(twist), _rank(twist[:3])
    return found


class _Twists:
    """Jacobians of the bodies in a random state, at the base's origin in its axes."""

    def __init__(self, tree: KinematicTree) -> None:
        q = np.random.default_rng(0).uniform(-1.0, 1.0, tree.nq)
        for start in tree.quaternions:
            q[start : start + 4] /= np.linalg.norm(q[start : start + 4])
        self._state = State(tree, FloatScalars(), list(q))
        self._poses = body_poses(self._state)
        self._still = np.zeros((6, tree.nv))
        self._twists: list[NDArray[np.float64]] = []
        for body, pose in zip(tree.bodies, self._poses, strict=True):
            own = self._of(body.parent).copy()
            for k, (slide, spin) in enumerate(body.joint_type.subspace(self._state.scalars)):
                w = apply(pose.R, spin)
                own[:, body.v_index + k] += body.multiplier * np.array(
                    (*add(apply(pose.R, slide), cross(pose.p, w)), *w)
                )
            self._twists.append(own)

    def _of(self, body: int) -> NDArray[np.float64]:
        return self._twists[body] if body >= 0 else self._still

    def at(self, frame: Frame, to: int = -1) -> NDArray[np.float64]:
        """Return the Jacobian of a frame relative to a body, at the frame's origin."""
        pose = self._poses[frame.body] if frame.body >= 0 else base_pose(self._state.scalars)
        x, y, z = pose.child(in_canonical(self._state, frame)).p
        across = np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]])
        twist = self._of(frame.body) - self._of(to)
        return np.vstack((twist[:3] + across @ twist[3:], twist[3:]))


def _rank(matrix: NDArray[np.float64]) -> int:
    return int(np.linalg.matrix_rank(matrix, tol=1e-9 * max(1.0, float(np.abs(matrix).max()))))


def of_free_joints(tree: KinematicTree) -> str | None:
    """Return the reason for a robot with joints of several velocities."""
    for body in tree.bodies:
        if body.nv > 1:
            return (
                f'joint "{body.joint}" is {body.kind}, and a team of threads computes second '
                'derivatives of joints with one velocity: use schedule="thread"'
            )
    return None


def of_no_mass(tree: KinematicTree) -> str | None:
    """Return the reason for a robot without mass."""
    if tree.total_mass > 0.0 or "params" in tree.parameters:
        return None
    return "the moving links have no mass: give them <inertial> elements"


def without_constraints(tree: KinematicTree) -> str | None:
    """Refuse a robot without constraints."""
    if tree.constraints:
        return None
    return "the robot has no constraints: load it with constraints= (grid-gen: --constraint)"


def of_no_constraints(tree: KinematicTree) -> str | None:
    """Refuse a robot without constraints, or with one that holds nothing, or leaves no motion."""
    if (reason := without_constraints(tree)) is not None:
        return reason
    for one, parts in zip(tree.constraints, moving_parts(tree), strict=True):
        if not any(parts):
            return (
                f'constraint "{one.name}" holds what does not move: a point on the axes of all its '
                "joints; leave it out, or constrain another point (offset)"
            )
    if (name := _rigid(tree)) is None:
        return None
    return (
        f'constraint "{name}" leaves no motion: lock joints (lock=) instead, or constrain fewer '
        "directions"
    )


@lru_cache(maxsize=8)
def moving_parts(tree: KinematicTree) -> tuple[tuple[bool, bool], ...]:
    """Return whether joints move the point that each constraint holds, and its orientation."""
    moves, found = _Twists(tree), []
    for one in tree.constraints:
        if one.link is None or one.to is None:
            found.append((True, False))
            continue
        twist = moves.at(one.link, one.to.body)
        found.append((_rank(twist[:3]) > 0, one.rows == 6 and _rank(twist[3:]) > 0))
    return tuple(found)


@lru_cache(maxsize=8)
def _rigid(tree: KinematicTree) -> str | None:
    """Return the constraint that alone leaves no motion in a random state."""
    moves = _Twists(tree)
    for one in tree.constraints:
        rank = 1
        if one.link is not None and one.to is not None:
            rank = _rank(moves.at(one.link, one.to.body)[: one.rows])
        if rank == tree.nv:
            return one.name
    return None


def of_free_joints_that_nothing_holds(tree: KinematicTree) -> str | None:
    """Refuse a robot with free joints if no constraint relates one to another body or the world."""
    free = {n for n, body in enumerate(tree.bodies) if body.joint_type.is_free}
    for one in tree.constraints:
        ends = [end.body for end in (one.link, one.to) if end is not None and end.body >= 0]
        moved = [{end, *tree.ancestors(end)} & free for end in ends]
        if moved and moved[0] != set().union(*moved[1:]):
            return None
    if not free:
        return None
    return (
        f"no constraint holds the free joint {show(tree.bodies[min(free)].joint)}, which has no "
        "motor: constrain a point of the robot to the world, such as a foot"
    )


def of_no_spheres(tree: KinematicTree) -> str | None:
    """Refuse a robot whose links have no spheres."""
    if tree.spheres.links:
        return None
    return "the links have no spheres: load the robot with spheres= (grid-gen: --spheres)"


def of_no_pairs(tree: KinematicTree) -> str | None:
    """Refuse a robot without links that may touch."""
    if not tree.spheres.links or tree.spheres.pairs:
        return of_no_spheres(tree)
    return "no pair of links may touch: give more links spheres, or allowed_collisions="


def of_constraints(tree: KinematicTree) -> str | None:
    """Refuse a robot with constraints."""
    if not tree.constraints:
        return None
    return (
        "second derivatives with constraints are not supported: take differences of step_gradient"
    )


def of_no_contacts(tree: KinematicTree) -> str | None:
    """Refuse a robot without contacts."""
    if tree.contact_model.acts:
        return None
    return (
        "no link of the robot touches the ground: load it with ground= (grid-gen: --ground), or "
        "from an MJCF file with a plane"
    )


def of_no_actuators(tree: KinematicTree) -> str | None:
    """Refuse a robot without actuators."""
    if tree.actuators:
        return None
    return "the robot has no actuators: load it with actuators= (grid-gen: --actuators)"


def of_no_sensors(tree: KinematicTree) -> str | None:
    """Refuse a robot without sensors, or with sensors of accelerations that are not defined."""
    if not tree.sensors:
        return "the robot has no sensors: load it with sensors= (grid-gen: --sensors)"
    if any(KINDS[one.kind].accelerates for one in tree.sensors):
        return of_a_singular_mass_matrix(tree)
    return None


def of_actuators(tree: KinematicTree) -> str | None:
    """Refuse a robot with actuators, springs or tendons."""
    if not tree.has_forces:
        return None
    return (
        "the robot has actuators or springs, whose steps have no second derivatives: take "
        "differences of step_gradient"
    )


def of_coupled_damping(tree: KinematicTree) -> str | None:
    """Refuse implicit damping of several joints without the steps of contacts."""
    slows = [
        one.name
        for one in tree.actuators
        if (len(one.terms) != 1 and one.is_implicit)
        and (one.gain[2] or one.bias[2] or "actuator_gains" in tree.parameters)
    ]
    slows += [one.name for one in tree.tendons if one.damping and one.is_implicit]
    if tree.contact_model.acts or not slows:
        return None
    return (
        f"the damping of {listing(slows, 3)} is of several joints, and not implicit without "
        "contacts: load the robot with contact=True, or choose another integrator"
    )


def of_variational_steps(tree: KinematicTree) -> str | None:
    """Refuse what the variational integrator lacks."""
    turning = [body for body in tree.bodies if body.nv > 1]
    # The momentum of equal armatures of a ball joint is along its rotation, which does not turn it.
    has_armature = "armature" in tree.parameters or any(
        any(body.armature) if body.joint_type.is_free else len({*body.armature}) > 1
        for body in turning
    )
    if tree.constraints or tree.contact_model.acts:
        reason = "constraints or contacts"
    elif turning and has_armature:
        reason = "armature of a free joint, or one of a ball joint that differs between its axes"
    else:
        return None
    return f"the variational integrator has no {reason}: choose another integrator"


def of_contacts(tree: KinematicTree) -> str | None:
    """Refuse a robot with contacts."""
    if not tree.contact_model.acts:
        return None
    return "steps with contacts have no second derivatives: take differences of step_gradient"


def of_contacts_in_the_world(tree: KinematicTree) -> str | None:
    """Refuse a robot with contacts in MuJoCo's convention."""
    if not tree.contact_model.acts or not tree.has_mujoco_quaternions:
        return None
    return "its matrices with contacts are not available in MuJoCo's convention: use vjp or jvp"
