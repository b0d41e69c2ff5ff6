"""Regressors: joint torques and energies as linear functions of the inertial parameters.

The inertial parameters of a body are Pinocchio's ten, in its link's frame, whose origin is that of
the joint:

    m, h_x, h_y, h_z, I_xx, I_xy, I_yy, I_xz, I_yz, I_zz

that is mass, first moment (mass times center of mass) and rotational inertia about the origin. The
parameters of all bodies, in order, form one vector; a regressor has a column for each entry. The
algorithms form a column in the frame of the link and do not read the robot's own masses.
"""

from __future__ import annotations

from gridgen.dynamics.frames import Rows, linear_velocities
from gridgen.dynamics.kinematics import (
    BodyMotion,
    acceleration_field,
    all_motions,
)
from gridgen.dynamics.state import Numbers, State
from gridgen.functions.arrays import BODY_PARAMETERS
from gridgen.model.tree import Body
from gridgen.symbolic.scalars import Scalar, Scalars
from gridgen.symbolic.spatial import (
    ZERO,
    Matrix,
    Motion,
    Vector,
    add,
    apply,
    constants,
    cross,
    dot,
    fixed_rotation,
    neg,
    transpose,
)


def joint_torque_regressor(state: State, qdd: Numbers) -> Rows:
    """Return the matrix Y, nv x 10 n, for which Y times the parameters is inverse dynamics.

    A column is the wrench of one parameter, projected on the joint axes in the link's frame. The
    walk from the body to the base carries the link's axes and origin.

    Returns:
        Y; zero where the joint does not carry the body.
    """
    tree, scalars, placed = state.tree, state.scalars, state.placed
    Y: Rows = scalars.matrix("Y", tree.nv, BODY_PARAMETERS * len(tree.bodies))
    motions = all_motions(state, qdd)
    for index in tree.outward():
        scalars.begin("regressor", index)
        body = tree.bodies[index]
        motion = _of_link(body, motions[index], scalars)
        axes = tuple(constants(row, scalars) for row in body.link_rotation)
        carried = scalars.carry("frame", (axes, constants(ZERO, scalars)))
        _fill(state, index, index, motion, carried.value, Y)
        for below in tree.climb(index):
            scalars.begin("regressor", index)
            (axes, origin), here = carried.value, placed[below]
            carried.value = tuple(map(here.to_parent, axes)), add(here.to_parent(origin), here.r)
            above = tree.bodies[below].parent
            _fill(state, above, index, motion, carried.value, Y)
    return Y


def _of_link(body: Body, motion: BodyMotion, scalars: Scalars) -> BodyMotion:
    """Return a body's motion in the frame of its link."""
    w, wd, a = (_turned(body, part, scalars) for part in (motion.w, motion.wd, motion.a))
    return BodyMotion(w, wd, a, acceleration_field(w, wd))


def _turned(body: Body, vector: Vector, scalars: Scalars) -> Vector:
    """Transform a vector from a body's canonical frame to the axes of its link."""
    for factor in reversed(fixed_rotation(body.link_rotation, scalars)):
        vector = factor.turn(vector)
    return vector


def _fill(
    state: State, joint: int, index: int, motion: BodyMotion, frame: tuple[Matrix, Vector], Y: Rows
) -> None:
    """Fill the columns of one body in the rows of one joint; mimic joints add to their leader.

    Args:
        joint:  index of the body that the joint moves.
        index:  index of the body with the parameters.
        motion: motion of that body, in the axes of its link.
        frame:  these axes and their origin, in the frame of the joint.
        Y:      the regressor.
    """
    tree, scalars = state.tree, state.scalars
    mover, (axes, origin) = tree.bodies[joint], frame
    for k, (slide, spin) in enumerate(mover.joint_type.subspace(scalars)):
        seen = apply(axes, add(slide, cross(spin, origin))), apply(axes, spin)
        row = Y[mover.v_index + k]
        for parameter, entry in enumerate(_efforts(motion, seen)):
            column = BODY_PARAMETERS * index + parameter
            if mover.mimics:
                entry = scalars.constant(mover.multiplier) * entry
            row[column] = row[column] + entry if tree.has_mimic else entry


def _efforts(motion: BodyMotion, axis: Motion) -> tuple[Scalar, ...]:
    """Project the wrench of each parameter on an axis, in the link's frame.

    The wrench is f = m a + W h and n = h x a + I wd + w x I w, with W the acceleration field.
    """
    (v, u), W = axis, motion.field
    x, y, z = motion.w
    first = add(apply(transpose(W), v), cross(motion.a, u))
    # The moment of each entry of I.
    moments = (
        (motion.wd[0], x * z, -(x * y)),
        (-W[2][0], W[2][1], W[0][0] - W[1][1]),
        (-(y * z), motion.wd[1], x * y),
        (W[1][0], W[2][2] - W[0][0], -W[1][2]),
        (W[1][1] - W[2][2], -W[0][1], W[0][2]),
        (y * z, -(x * z), motion.wd[2]),
    )
    return (dot(v, motion.a), *first, *(dot(moment, u) for moment in moments))


def kinetic_energy_regressor(state: State) -> list[Scalar]:
    """Return y, 10 n scalars, for which y times the parameters is the kinetic energy."""
    state = state.at_rest
    tree, scalars = state.tree, state.scalars
    motions = all_motions(state)
    velocities = linear_velocities(state, motions)
    half = scalars.constant(0.5)
    y: list[Scalar] = scalars.table("y", BODY_PARAMETERS * len(tree.bodies))
    for index in tree.outward():
        scalars.begin("regressor", index)
        body = tree.bodies[index]
        v = _turned(body, velocities[index], scalars)
        w = _turned(body, motions[index].w, scalars)
        (a, b, c), first = w, cross(v, w)
        inertia = (half * a * a, a * b, half * b * b, a * c, b * c, half * c * c)
        _enter(y, index, (half * dot(v, v), *first, *inertia))
    return y


def potential_energy_regressor(state: State) -> list[Scalar]:
    """Return y, 10 n scalars, for which y times the parameters is the potential energy."""
    tree, placed, scalars = state.tree, state.placed, state.scalars
    # The direction against gravity in a body's frame, and the energy of its origin.
    lifts: list[tuple[Vector, Scalar]] = scalars.table("lift", len(tree.bodies))
    none = scalars.constant(0.0)
    y: list[Scalar] = scalars.table("y", BODY_PARAMETERS * len(tree.bodies))
    for index in tree.outward():
        scalars.begin("regressor", index)
        body, here = tree.bodies[index], placed[index]
        above, height = (neg(state.g), none) if body.parent < 0 else lifts[body.parent]
        lift, height = here.to_body(above), height + dot(above, here.r)
        lifts[index] = scalars.keep("a", index, lift), height
        _enter(y, index, (height, *_turned(body, lift, scalars), *(none,) * 6))
    return y


def _enter(y: list[Scalar], index: int, row: Numbers) -> None:
    """Write the coefficients of a body's parameters."""
    for parameter, entry in enumerate(row):
        y[BODY_PARAMETERS * index + parameter] = entry
