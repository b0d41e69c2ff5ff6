"""Where the robot is: poses and Jacobians of its frames.

A frame is a link of the URDF. It is placed in the link frame of the body that it moves with, which
is turned by ``Body.link_rotation`` against the canonical frame in which dynamics computes.
Everything is seen from the base, which does not move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gridgen.dynamics.changes import subspace
from gridgen.dynamics.kinematics import (
    BaseMotion,
    BodyMotion,
    body_motions,
    constants,
    joint_rate,
    placements,
)
from gridgen.dynamics.spatial import (
    ZERO,
    Matrix,
    Placement,
    Vector,
    add,
    apply,
    cross,
    fixed_rotation,
    matmul,
    scale,
    sub,
    transpose,
)
from gridgen.errors import OptionError
from gridgen.functions.types import REFERENCES
from gridgen.model.tree import Body, Frame, KinematicTree
from gridgen.naming import show, similar
from gridgen.symbolic.scalars import Scalar, Scalars

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
    for frame in tree.frames:
        if frame.name == name:
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
        tree:    the robot.
        q:       joint positions, nq scalars [rad or m].
        scalars: the kind of number.
        frames:  their names; all of ``tree.frames`` if ``None``.

    Raises:
        OptionError: if a frame is unknown.
    """
    wanted = tree.frames if frames is None else [find_frame(tree, name) for name in frames]
    placed = placements(tree, q, scalars)
    poses = body_poses(tree, placed, range(len(tree.bodies)), scalars)
    last = [scalars.constant(entry) for entry in (0.0, 0.0, 0.0, 1.0)]
    matrices = []
    for frame in wanted:
        scalars.begin("frame", frame.body)
        pose = poses[frame.body].child(_in_canonical(tree, frame, scalars))
        matrices.append([[*row, p] for row, p in zip(pose.R, pose.p, strict=True)] + [last])
    return matrices


def body_poses(
    tree: KinematicTree, placed: Sequence[Placement], bodies: Sequence[int], scalars: Scalars
) -> dict[int, Pose]:
    """Return the poses of canonical frames; ``bodies`` holds parents before their children."""
    R = tuple(constants(row, scalars) for row in _IDENTITY)
    poses = {-1: Pose(R, constants(ZERO, scalars))}  # type: ignore[arg-type]
    for index in bodies:
        scalars.begin("pose", index)
        pose = poses[tree.bodies[index].parent].child(placed[index])
        poses[index] = Pose(scalars.keep("R", index, pose.R), scalars.keep("p", index, pose.p))
    return poses


def _in_canonical(tree: KinematicTree, frame: Frame, scalars: Scalars) -> Placement:
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
        tree:      the robot.
        q:         joint positions, nq scalars [rad or m].
        frame:     the frame's name.
        reference: one of ``REFERENCES``.
        scalars:   the kind of number.

    Raises:
        OptionError: if the frame or the reference is unknown.
    """
    check_reference(reference)
    target = find_frame(tree, frame)
    placed = placements(tree, q, scalars)
    columns = [[scalars.constant(0.0)] * 6 for _ in range(tree.nv)]
    if target.body >= 0:
        chain = (target.body, *tree.ancestors(target.body))
        if reference == "local":
            _fill_local(tree, placed, target, chain, columns, scalars)
        else:
            poses = body_poses(tree, placed, tuple(reversed(chain)), scalars)
            point = constants(ZERO, scalars)
            if reference == "local_world_aligned":
                point = poses[target.body].child(_in_canonical(tree, target, scalars)).p
            _fill_aligned(tree, poses, point, chain, columns, scalars)
    return [list(row) for row in zip(*columns, strict=True)]


def _fill_aligned(
    tree: KinematicTree,
    poses: Mapping[int, Pose],
    point: Vector,
    chain: Sequence[int],
    columns: Rows,
    scalars: Scalars,
) -> None:
    """Fill the columns of a chain of bodies in the base's axes, about a point."""
    for index in chain:
        scalars.begin("axis", index)
        arm = sub(poses[index].p, point)
        for k, (slide, spin) in enumerate(subspace(tree.bodies[index], scalars)):
            w = apply(poses[index].R, spin)
            v = add(apply(poses[index].R, slide), cross(arm, w))
            _add_column(tree.bodies[index], k, v, w, columns, scalars)


def _fill_local(
    tree: KinematicTree,
    placed: Sequence[Placement],
    frame: Frame,
    chain: Sequence[int],
    columns: Rows,
    scalars: Scalars,
) -> None:
    """Fill the columns of a chain of bodies in the frame's axes, about its origin.

    Walking from the frame to the base, the frame's axes and origin are carried along.
    """
    own = _in_canonical(tree, frame, scalars)
    axes = tuple(own.to_parent(constants(axis, scalars)) for axis in _IDENTITY)
    origin = own.r
    for index in chain:
        scalars.begin("axis", index)
        for k, (slide, spin) in enumerate(subspace(tree.bodies[index], scalars)):
            v = apply(axes, add(slide, cross(spin, origin)))  # type: ignore[arg-type]
            _add_column(tree.bodies[index], k, v, apply(axes, spin), columns, scalars)  # type: ignore[arg-type]
        axes = tuple(map(placed[index].to_parent, axes))
        origin = add(placed[index].to_parent(origin), placed[index].r)


def _add_column(body: Body, k: int, v: Vector, w: Vector, columns: Rows, scalars: Scalars) -> None:
    """Add the column of one axis; a follower's counts for its leader."""
    column = columns[body.v_index + k]
    for row, entry in enumerate((*v, *w)):
        if body.mimics:
            entry = scalars.constant(body.multiplier) * entry
        column[row] = column[row] + entry


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
        tree:      the robot.
        q:         joint positions, nq scalars [rad or m].
        qd:        joint velocities, nv scalars [rad/s or m/s].
        frame:     the frame's name.
        reference: one of ``REFERENCES``.
        scalars:   the kind of number.

    Raises:
        OptionError: if the frame or the reference is unknown.
    """
    check_reference(reference)
    target = find_frame(tree, frame)
    if target.body < 0:
        return [scalars.constant(0.0)] * 6
    placed = placements(tree, q, scalars)
    at_rest = BaseMotion(constants(ZERO, scalars))
    motions = list(body_motions(tree, placed, qd, None, at_rest, scalars))
    velocity = linear_velocities(tree, placed, motions, qd, scalars)[target.body]
    motion, own = motions[target.body], _in_canonical(tree, target, scalars)
    scalars.begin("frame", target.body)
    a, wd = add(motion.a, apply(motion.field, own.r)), motion.wd
    v, w = add(velocity, cross(motion.w, own.r)), motion.w
    if reference == "local":
        # In axes that turn with the frame the derivative of v is less by w x v.
        return [*own.to_body(sub(a, cross(w, v))), *own.to_body(wd)]
    chain = (*reversed(tree.ancestors(target.body)), target.body)
    pose = body_poses(tree, placed, chain, scalars)[target.body]
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
    velocities: list[Vector] = []
    for index, body in enumerate(tree.bodies):
        scalars.begin("outward", index)
        v = constants(ZERO, scalars)
        if body.parent >= 0:
            carried = cross(motions[body.parent].w, placed[index].r)
            v = placed[index].to_body(add(velocities[body.parent], carried))
        rate = joint_rate(body, qd, scalars)
        for value, (slide, _) in zip(rate, subspace(body, scalars), strict=True):
            v = add(v, scale(value, slide))
        velocities.append(scalars.keep("v", index, v))
    return velocities
