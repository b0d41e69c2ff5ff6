"""Poses and Jacobians of frames.

A frame is a link of the URDF. Its placement is relative to the link frame of the body that carries
it; ``Body.link_rotation`` rotates that frame to the canonical frame of dynamics. Results are in
the frame of the fixed base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridgen.dynamics.dual_states import moving, rows_of
from gridgen.dynamics.kinematics import BodyMotion, all_motions, joint_rate
from gridgen.dynamics.state import Numbers, State
from gridgen.errors import OptionError
from gridgen.functions.types import REFERENCES
from gridgen.model.tree import Body, Frame, KinematicTree
from gridgen.naming import show, similar
from gridgen.symbolic.dual import tangents_of
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    ZERO,
    DenseRotation,
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
    """Pose of a frame in the world: x_world = R x + p."""

    R: Matrix
    p: Vector

    def child(self, placed: Placement) -> Pose:
        """Return the pose of a child with a placement in this frame."""
        R = tuple(placed.to_body(row) for row in self.R)
        return Pose(R, add(self.p, apply(self.R, placed.r)))  # type: ignore[arg-type]


def find_frame(tree: KinematicTree, name: str) -> Frame:
    """Return the frame with the given name.

    Raises:
        OptionError: the robot has no such frame; the message names the nearest.
    """
    if (frame := tree.frame_of.get(name)) is not None:
        return frame
    near = " or ".join(map(show, similar(name, tree.frame_names)))
    first = ", ".join(map(show, tree.frame_names[:5]))
    rest = ", ..." if len(tree.frame_names) > 5 else ""
    hint = f"did you mean {near}?" if near else f"frame_names lists its frames: {first}{rest}"
    raise OptionError(f"{tree.source}: robot {show(tree.name)} has no frame {show(name)}; {hint}")


def check_reference(reference: str) -> None:
    """Raise ``OptionError`` unless ``reference`` is one of ``REFERENCES``."""
    if reference not in REFERENCES:
        choices = ", ".join(map(show, REFERENCES))
        raise OptionError(f"reference is {show(reference)}; choose one of {choices}")


# -- poses ------------------------------------------------------------------------------------


def forward_kinematics(state: State, frames: Sequence[str] | None = None) -> list[Rows]:
    """Return the poses of frames in the world, as 4 x 4 homogeneous matrices.

    Args:
        frames: names of frames; all of ``tree.frames`` if ``None``.

    Raises:
        OptionError: a frame is unknown.
    """
    tree, scalars = state.tree, state.scalars
    selected = tree.frames if frames is None else [find_frame(tree, name) for name in frames]
    poses = body_poses(state)
    matrices = scalars.table("T", len(selected))
    for number in tree.each_frame() if frames is None else range(len(selected)):
        matrices[number] = _homogeneous(state, selected[number], poses)
    return matrices


def pose(state: State, frame: str) -> Rows:
    """Return the pose of one frame; see ``forward_kinematics``."""
    return _homogeneous(state, find_frame(state.tree, frame), body_poses(state))


def _homogeneous(state: State, frame: Frame, poses: Sequence[Pose]) -> Rows:
    """Return the pose of a frame as a homogeneous matrix."""
    scalars = state.scalars
    scalars.begin("frame", frame.body)
    above = base_pose(scalars) if frame.body < 0 else poses[frame.body]
    pose = above.child(in_canonical(state, frame))
    last = [scalars.constant(entry) for entry in (0.0, 0.0, 0.0, 1.0)]
    return [*([*row, p] for row, p in zip(pose.R, pose.p, strict=True)), last]


def body_poses(state: State) -> list[Pose]:
    """Return the poses of the bodies' canonical frames."""
    tree, placed, scalars = state.tree, state.placed, state.scalars
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


def in_canonical(state: State, frame: Frame) -> Placement:
    """Return the placement of a frame, or of a tool in it, in the canonical frame of its body."""
    tree, scalars = state.tree, state.scalars
    rotation, translation = frame.rotation, frame.translation
    if frame.body >= 0:
        to_canonical = transpose(tree.bodies[frame.body].link_rotation)
        rotation = matmul(to_canonical, rotation)
        translation = apply(to_canonical, translation)
    factors = fixed_rotation(rotation, scalars)
    placed = Placement(factors, factors, constants(translation, scalars))
    if state.offset is None:
        return placed
    rows = [state.offset[4 * i : 4 * i + 4] for i in range(3)]
    turn: Matrix = tuple((x, y, z) for x, y, z, _ in rows)  # type: ignore[assignment]
    x, y, z = (row[3] for row in rows)
    factors = (*factors, DenseRotation(turn))
    return Placement(factors, factors, add(placed.to_parent((x, y, z)), placed.r))


# -- Jacobians --------------------------------------------------------------------------------


def jacobian(state: State, frame: str, reference: str) -> Rows:
    """Return the Jacobian J of a frame, 6 x nv; the frame's velocity (v, w) is J qd.

    Args:
        frame:     name of the frame.
        reference: one of ``REFERENCES``.

    Raises:
        OptionError: the frame or the reference is unknown.
    """
    tree, scalars = state.tree, state.scalars
    check_reference(reference)
    target = find_frame(tree, frame)
    J: Rows = scalars.matrix("J", 6, tree.nv)
    if target.body < 0:
        return J
    if reference == "local":
        _fill_local(state, target, J)
    else:
        poses = body_poses(state)
        point = constants(ZERO, scalars)
        if reference == "local_world_aligned":
            point = poses[target.body].child(in_canonical(state, target)).p
        _fill_aligned(state, poses, point, target.body, J)
    return J


def _fill_aligned(state: State, poses: Sequence[Pose], point: Vector, tip: int, J: Rows) -> None:
    """Fill the columns of a body and its ancestors, about a point and in the axes of the base."""
    tree, scalars = state.tree, state.scalars

    def fill(index: int) -> None:
        scalars.begin("axis", index)
        body, pose = tree.bodies[index], poses[index]
        arm = sub(pose.p, point)
        for k, (slide, spin) in enumerate(body.joint_type.subspace(scalars)):
            w = apply(pose.R, spin)
            v = add(apply(pose.R, slide), cross(arm, w))
            add_column(state, body, k, (*v, *w), J)

    fill(tip)
    for below in tree.climb(tip):
        fill(tree.bodies[below].parent)


def _fill_local(state: State, frame: Frame, J: Rows) -> None:
    """Fill the columns of a frame's body and its ancestors, in the frame's axes about its origin.

    The walk from the frame to the base carries the frame's axes and origin.
    """
    tree, placed, scalars = state.tree, state.placed, state.scalars
    own = in_canonical(state, frame)
    axes = tuple(own.to_parent(constants(axis, scalars)) for axis in _IDENTITY)
    carried = scalars.carry("frame", (axes, own.r))

    def fill(index: int) -> None:
        scalars.begin("axis", index)
        body, (axes, origin) = tree.bodies[index], carried.value
        for k, (slide, spin) in enumerate(body.joint_type.subspace(scalars)):
            v = apply(axes, add(slide, cross(spin, origin)))
            add_column(state, body, k, (*v, *apply(axes, spin)), J)

    fill(frame.body)
    for below in tree.climb(frame.body):
        axes, origin = carried.value
        here = placed[below]
        carried.value = (tuple(map(here.to_parent, axes)), add(here.to_parent(origin), here.r))
        fill(tree.bodies[below].parent)


def add_column(state: State, body: Body, k: int, column: Numbers, J: Rows) -> None:
    """Add the column of one joint axis to a Jacobian; mimic joints add to their leader."""
    tree, scalars = state.tree, state.scalars
    j = body.v_index + k
    for row, entry in enumerate(column):
        if body.mimics:
            entry = scalars.constant(body.multiplier) * entry
        J[row][j] = J[row][j] + entry if tree.has_mimic else entry


def jacobian_gradient(state: State, frame: str, reference: str) -> list[Rows]:
    """Return the derivative of the Jacobian of a frame by the positions, 6 x nv x nv.

    Entry [row][j][k] is the derivative of J[row][j] by position k; of a free joint, by its velocity
    k over unit time. A column turns with the joints above it; those below move the frame alone. In
    the frame's own axes, derivatives of the walk from the frame to the base take fewer operations.

    Args:
        frame:     name of the frame.
        reference: one of ``REFERENCES``.

    Raises:
        OptionError: the frame or the reference is unknown.
    """
    tree, scalars = state.tree, state.scalars
    check_reference(reference)
    target = find_frame(tree, frame)
    H: list[Rows] = scalars.matrix("H", 6, tree.nv, tree.nv)
    if target.body < 0:
        return H
    if reference == "local":
        J = jacobian(moving(state, tree.nv)[0], frame, reference)
        return [rows_of(state, tangents_of(row), tree.nv) for row in J]
    poses = body_poses(state)
    tip = poses[target.body].child(in_canonical(state, target))
    point = constants(ZERO, scalars) if reference == "world" else tip.p
    path = [target.body, *tree.ancestors(target.body)][::-1]
    columns = [_columns(state, index, poses[index], point) for index in path]
    none = constants(ZERO, scalars)
    for above, index in enumerate(path):
        scalars.begin("axis", index)
        for below in range(above, len(path)):
            for j, (v, w) in columns[below]:
                for k, (slide, spin) in columns[above]:
                    turned = cross(spin, v)
                    if reference == "local_world_aligned":
                        _add_entry(H, j, k, (turned, cross(spin, w)))
                        if below > above:
                            _add_entry(H, k, j, (turned, none))
                    else:
                        moved = cross(slide, w)
                        _add_entry(H, j, k, (add(turned, moved), cross(spin, w)))
    return H


def _columns(
    state: State, index: int, pose: Pose, point: Vector
) -> list[tuple[int, tuple[Vector, Vector]]]:
    """Return the velocities of a joint with its columns about a point, in the axes of the base."""
    body, scalars = state.tree.bodies[index], state.scalars
    factor = scalars.constant(body.multiplier if body.mimics else 1.0)
    found = []
    for k, (slide, spin) in enumerate(body.joint_type.subspace(scalars)):
        w = apply(pose.R, scale(factor, spin))
        v = add(apply(pose.R, scale(factor, slide)), cross(sub(pose.p, point), w))
        found.append((body.v_index + k, (v, w)))
    return found


def _add_entry(H: list[Rows], j: int, k: int, change: tuple[Vector, Vector]) -> None:
    for row, entry in enumerate((*change[0], *change[1])):
        H[row][j][k] = H[row][j][k] + entry


def jacobian_dot_qd(state: State, frame: str, reference: str) -> list[Scalar]:
    """Return dJ/dt qd, six scalars: the derivative of J qd for zero joint accelerations.

    Args:
        frame:     name of the frame.
        reference: one of ``REFERENCES``.

    Raises:
        OptionError: the frame or the reference is unknown.
    """
    state = state.at_rest
    scalars = state.scalars
    check_reference(reference)
    target = find_frame(state.tree, frame)
    if target.body < 0:
        return [scalars.constant(0.0)] * 6
    motions = all_motions(state)
    velocity = linear_velocities(state, motions)[target.body]
    motion, own = motions[target.body], in_canonical(state, target)
    scalars.begin("frame", target.body)
    a, wd = add(motion.a, apply(motion.field, own.r)), motion.wd
    v, w = add(velocity, cross(motion.w, own.r)), motion.w
    if reference == "local":
        # In rotating axes, the derivative of v is smaller by w x v.
        return [*own.to_body(sub(a, cross(w, v))), *own.to_body(wd)]
    pose = body_poses(state)[target.body]
    a, wd, v, w = (apply(pose.R, vector) for vector in (a, wd, v, w))
    if reference == "world":
        origin = pose.child(own).p
        a = sub(add(a, cross(origin, wd)), cross(w, v))
    return [*a, *wd]


def linear_velocities(state: State, motions: Sequence[BodyMotion]) -> list[Vector]:
    """Return the velocity of every body's origin in its canonical frame, for a base at rest."""
    tree, placed, qd, scalars = state.tree, state.placed, state.qd, state.scalars
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
