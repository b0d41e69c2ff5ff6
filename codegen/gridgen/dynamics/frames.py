"""Where the robot is: poses and Jacobians of its frames.

A frame is a link of the URDF. It is placed in the link frame of the body that it moves with, which
is turned by ``Body.link_rotation`` against the canonical frame in which dynamics computes.
Everything is seen from the base, which does not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.dynamics.kinematics import BaseMotion, BodyMotion, all_motions, joint_rate, placements
from gridgen.errors import OptionError
from gridgen.functions.types import REFERENCES
from gridgen.model.tree import Body, Frame, KinematicTree
from gridgen.naming import show, similar
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    ZERO,
    Matrix,
    Placement,
    Vector,
    add,
    apply,
    constants,
    cross,
    fixed_rotation,
    matmul,
    scale,
    sub,
    transpose,
)

Rows = list[list[Scalar]]

_IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@dataclass(frozen=True)
class Pose:
    """A frame in the base: x_base = R x + p."""

    R: Matrix
    p: Vector

    def child(self, placed: Placement) -> Pose:
        """Return the pose of what is placed in this frame."""
        R = tuple(placed.to_body(row) for row in self.R)
        return Pose(R, add(self.p, apply(self.R, placed.r)))  # type: ignore[arg-type]


def find_frame(tree: KinematicTree, name: str) -> Frame:
    """Return the frame called ``name``.

    Raises:
        OptionError: if there is none; names the nearest.
    """
    if (frame := tree.frame_of.get(name)) is not None:
        return frame
    near = " or ".join(map(show, similar(name, tree.frame_names)))
    first = ", ".join(map(show, tree.frame_names[:5]))
    rest = ", ..." if len(tree.frame_names) > 5 else ""
    hint = f"did you mean {near}?" if near else f"frame_names lists those it has: {first}{rest}"
    raise OptionError(f"{tree.source}: robot {show(tree.name)} has no frame {show(name)}; {hint}")


def check_reference(reference: str) -> None:
    """Raise an ``OptionError`` for a word that is not in ``REFERENCES``."""
    if reference not in REFERENCES:
        choices = ", ".join(map(show, REFERENCES))
        raise OptionError(f"reference is {show(reference)}; choose one of {choices}")


# -- poses ------------------------------------------------------------------------------------


def forward_kinematics(
    tree: KinematicTree,
    q: Sequence[Scalar],
    scalars: Scalars,
    frames: Sequence[str] | None = None,
) -> list[Rows]:
    """Return the poses of frames in the base, as 4 x 4 homogeneous matrices.

    Args:
        frames:  their names; all of ``tree.frames`` if ``None``.

    Raises:
        OptionError: if a frame is unknown.
    """
    wanted = tree.frames if frames is None else [find_frame(tree, name) for name in frames]
    placed = placements(tree, q, scalars)
    poses = body_poses(tree, placed, scalars)
    matrices = scalars.table("T", len(wanted))
    for number in tree.each_frame() if frames is None else range(len(wanted)):
        matrices[number] = _homogeneous(tree, wanted[number], poses, scalars)
    return matrices


def pose(tree: KinematicTree, q: Sequence[Scalar], frame: str, scalars: Scalars) -> Rows:
    """Return the pose of one frame; see ``forward_kinematics``."""
    target = find_frame(tree, frame)
    poses = body_poses(tree, placements(tree, q, scalars), scalars)
    return _homogeneous(tree, target, poses, scalars)


def _homogeneous(
    tree: KinematicTree, frame: Frame, poses: Sequence[Pose], scalars: Scalars
) -> Rows:
    """Return the pose of a frame as a matrix."""
    scalars.begin("frame", frame.body)
    above = base_pose(scalars) if frame.body < 0 else poses[frame.body]
    pose = above.child(in_canonical(tree, frame, scalars))
    last = [scalars.constant(entry) for entry in (0.0, 0.0, 0.0, 1.0)]
    return [*([*row, p] for row, p in zip(pose.R, pose.p, strict=True)), last]


def body_poses(tree: KinematicTree, placed: Sequence[Placement], scalars: Scalars) -> list[Pose]:
    """Return the poses of the bodies' canonical frames."""
    poses: list[Pose] = scalars.table("pose", len(tree.bodies))
    for index in tree.outward():
        parent = tree.bodies[index].parent
        scalars.begin("pose", index)
        pose = (base_pose(scalars) if parent < 0 else poses[parent]).child(placed[index])
        poses[index] = Pose(scalars.keep("R", index, pose.R), scalars.keep("p", index, pose.p))
    return poses


def base_pose(scalars: Scalars) -> Pose:
    """Return the pose of a frame in itself."""
    R = tuple(constants(row, scalars) for row in _IDENTITY)
    return Pose(R, constants(ZERO, scalars))  # type: ignore[arg-type]


def in_canonical(tree: KinematicTree, frame: Frame, scalars: Scalars) -> Placement:
    """Return the placement of a frame in the canonical frame of its body."""
    rotation, translation = frame.rotation, frame.translation
    if frame.body >= 0:
        to_canonical = transpose(tree.bodies[frame.body].link_rotation)
        rotation = matmul(to_canonical, rotation)
        translation = apply(to_canonical, translation)
    factors = fixed_rotation(rotation, scalars)
    return Placement(factors, factors, constants(translation, scalars))


# -- Jacobians --------------------------------------------------------------------------------


def jacobian(
    tree: KinematicTree, q: Sequence[Scalar], frame: str, reference: str, scalars: Scalars
) -> Rows:
    """Return the Jacobian of a frame, 6 x nv: its velocity (v, w) is J qd.

    Args:
        frame:     the frame's name.
        reference: one of ``REFERENCES``.

    Raises:
        OptionError: if the frame or the reference is unknown.
    """
    check_reference(reference)
    target = find_frame(tree, frame)
    placed = placements(tree, q, scalars)
    J: Rows = scalars.matrix("J", 6, tree.nv)
    if target.body < 0:
        return J
    if reference == "local":
        _fill_local(tree, placed, target, J, scalars)
    else:
        poses = body_poses(tree, placed, scalars)
        point = constants(ZERO, scalars)
        if reference == "local_world_aligned":
            point = poses[target.body].child(in_canonical(tree, target, scalars)).p
        _fill_aligned(tree, poses, point, target.body, J, scalars)
    return J


def _fill_aligned(
    tree: KinematicTree,
    poses: Sequence[Pose],
    point: Vector,
    tip: int,
    J: Rows,
    scalars: Scalars,
) -> None:
    """Fill the columns of a body and its ancestors in the base's axes, about a point."""

    def fill(index: int) -> None:
        scalars.begin("axis", index)
        body, pose = tree.bodies[index], poses[index]
        arm = sub(pose.p, point)
        for k, (slide, spin) in enumerate(body.joint_type.subspace(scalars)):
            w = apply(pose.R, spin)
            v = add(apply(pose.R, slide), cross(arm, w))
            add_column(tree, body, k, (*v, *w), J, scalars)

    fill(tip)
    for below in tree.climb(tip):
        fill(tree.bodies[below].parent)


def _fill_local(
    tree: KinematicTree,
    placed: Sequence[Placement],
    frame: Frame,
    J: Rows,
    scalars: Scalars,
) -> None:
    """Fill the columns of a frame's body and its ancestors in the frame's axes, about its origin.

    Walking from the frame to the base, the frame's axes and origin are carried along.
    """
    own = in_canonical(tree, frame, scalars)
    axes = tuple(own.to_parent(constants(axis, scalars)) for axis in _IDENTITY)
    carried = scalars.carry("frame", (axes, own.r))

    def fill(index: int) -> None:
        scalars.begin("axis", index)
        body, (axes, origin) = tree.bodies[index], carried.value
        for k, (slide, spin) in enumerate(body.joint_type.subspace(scalars)):
            v = apply(axes, add(slide, cross(spin, origin)))
            add_column(tree, body, k, (*v, *apply(axes, spin)), J, scalars)

    fill(frame.body)
    for below in tree.climb(frame.body):
        axes, origin = carried.value
        here = placed[below]
        carried.value = (tuple(map(here.to_parent, axes)), add(here.to_parent(origin), here.r))
        fill(tree.bodies[below].parent)


def add_column(
    tree: KinematicTree,
    body: Body,
    k: int,
    column: Sequence[Scalar],
    J: Rows,
    scalars: Scalars,
) -> None:
    """Add the column of one axis of a joint to a Jacobian; a follower's counts for its leader."""
    j = body.v_index + k
    for row, entry in enumerate(column):
        if body.mimics:
            entry = scalars.constant(body.multiplier) * entry
        J[row][j] = J[row][j] + entry if tree.has_mimic else entry


def jacobian_dot_qd(
    tree: KinematicTree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    frame: str,
    reference: str,
    scalars: Scalars,
) -> list[Scalar]:
    """Return dJ/dt qd, six scalars: the derivative of J qd at joint accelerations of zero.

    Args:
        frame:     the frame's name.
        reference: one of ``REFERENCES``.

    Raises:
        OptionError: if the frame or the reference is unknown.
    """
    check_reference(reference)
    target = find_frame(tree, frame)
    if target.body < 0:
        return [scalars.constant(0.0)] * 6
    placed = placements(tree, q, scalars)
    at_rest = BaseMotion(constants(ZERO, scalars))
    motions = all_motions(tree, placed, qd, None, at_rest, scalars)
    velocity = linear_velocities(tree, placed, motions, qd, scalars)[target.body]
    motion, own = motions[target.body], in_canonical(tree, target, scalars)
    scalars.begin("frame", target.body)
    a, wd = add(motion.a, apply(motion.field, own.r)), motion.wd
    v, w = add(velocity, cross(motion.w, own.r)), motion.w
    if reference == "local":
        # In axes that turn with the frame the derivative of v is less by w x v.
        return [*own.to_body(sub(a, cross(w, v))), *own.to_body(wd)]
    pose = body_poses(tree, placed, scalars)[target.body]
    a, wd, v, w = (apply(pose.R, vector) for vector in (a, wd, v, w))
    if reference == "world":
        origin = pose.child(own).p
        a = sub(add(a, cross(origin, wd)), cross(w, v))
    return [*a, *wd]


def linear_velocities(
    tree: KinematicTree,
    placed: Sequence[Placement],
    motions: Sequence[BodyMotion],
    qd: Sequence[Scalar],
    scalars: Scalars,
) -> list[Vector]:
    """Return the velocity of every body's origin in its canonical frame; the base is at rest."""
    velocities: list[Vector] = scalars.table("velocity", len(tree.bodies))
    for index in tree.outward():
        body = tree.bodies[index]
        scalars.begin("outward", index)
        v = constants(ZERO, scalars)
        if body.parent >= 0:
            carried = cross(motions[body.parent].w, placed[index].r)
            v = placed[index].to_body(add(velocities[body.parent], carried))
        rate = joint_rate(body, qd, scalars)
        for value, (slide, _) in zip(rate, body.joint_type.subspace(scalars), strict=True):
            v = add(v, scale(value, slide))
        velocities[index] = scalars.keep("v", index, v)
    return velocities
