"""Regressors: joint torques and energies as linear functions of the inertial parameters.

The inertial parameters of a body are Pinocchio's ten, in its link's frame, whose origin is that of
the joint:

    m, h_x, h_y, h_z, I_xx, I_xy, I_yy, I_xz, I_yz, I_zz

that is mass, first moment (mass times center of mass) and rotational inertia about the origin. The
parameters of all bodies, in order, form one vector; a regressor has a column for each entry. The
algorithms form a column in the frame of the link and do not read the robot's own masses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gridgen.dynamics.frames import Rows, linear_velocities
from gridgen.dynamics.kinematics import (
    BodyMotion,
    acceleration_field,
    all_motions,
)
from gridgen.dynamics.motion_derivatives import MotionChange, followed
from gridgen.dynamics.second_derivatives import FromAbove
from gridgen.dynamics.second_order import Axis, Cube, effects_from_above, own_changes
from gridgen.dynamics.state import Numbers, State
from gridgen.dynamics.sweep import Sweep
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
    carried,
    constants,
    cross,
    dot,
    fixed_rotation,
    neg,
    scale,
    transpose,
)


def joint_torque_regressor(state: State, qdd: Numbers) -> Rows:
    """Return the matrix Y, nv x 10 n, for which Y times the parameters is inverse dynamics.

    A column is the wrench of one parameter, projected on the joint axes in the link's frame. The
    walk from the body to the base carries the link's axes and origin.

    Returns:
        Y; zero where the joint does not carry the body.
    """
    tree, scalars = state.tree, state.scalars
    Y: Rows = scalars.matrix("Y", tree.nv, BODY_PARAMETERS * len(tree.bodies))
    motions = all_motions(state, qdd)
    for index in tree.outward():
        scalars.begin("regressor", index)
        body = tree.bodies[index]
        motion = _of_link(body, motions[index], scalars)
        for mover, frame in _links(state, index):
            for k, axis in enumerate(tree.bodies[mover].joint_type.subspace(scalars)):
                _enter_row(state, (mover, k), index, _efforts(motion, _seen(frame, axis)), Y)
    return Y


def _links(state: State, index: int) -> Iterator[tuple[int, tuple[Matrix, Vector]]]:
    """Yield a body and its ancestors, each with the axes and the origin of the body's link."""
    tree, placed, scalars = state.tree, state.placed, state.scalars
    axes = tuple(constants(row, scalars) for row in tree.bodies[index].link_rotation)
    frame = scalars.carry("frame", (axes, constants(ZERO, scalars)))
    yield index, frame.value
    for below in tree.climb(index):
        scalars.begin("regressor", index)
        (axes, origin), here = frame.value, placed[below]
        frame.value = tuple(map(here.to_parent, axes)), add(here.to_parent(origin), here.r)
        yield tree.bodies[below].parent, frame.value


def _seen(frame: tuple[Matrix, Vector], axis: Motion) -> Motion:
    """Return an axis in the frame of a link, whose axes and origin are given."""
    (axes, origin), (slide, spin) = frame, axis
    return apply(axes, add(slide, cross(spin, origin))), apply(axes, spin)


def momentum_regressor(state: State) -> tuple[Rows, Rows]:
    """Return the regressors of the generalized momentum M qd and of its rate, nv x 10 n each.

    The rate less the joint torques is that of the axes, which move with their bodies, times the
    momenta, and the torque of gravity.
    """
    tree, placed, scalars = state.tree, state.placed, state.scalars
    motions = all_motions(state.at_rest)
    velocities = linear_velocities(state, motions)
    lifts: list[Vector] = scalars.table("lift", len(tree.bodies))  # against gravity
    nothing = constants(ZERO, scalars)
    Yp, Yr = (
        scalars.matrix(symbol, tree.nv, BODY_PARAMETERS * len(tree.bodies))
        for symbol in ("Yp", "Yr")
    )
    for index in tree.outward():
        scalars.begin("regressor", index)
        body = tree.bodies[index]
        above = neg(state.g) if body.parent < 0 else lifts[body.parent]
        lifts[index] = scalars.keep("a", index, placed[index].to_body(above))
        w, v, lift = (
            _turned(body, part, scalars)
            for part in (motions[index].w, velocities[index], lifts[index])
        )
        momentum = BodyMotion(nothing, w, v, acceleration_field(nothing, w))
        weight = BodyMotion(nothing, nothing, lift, acceleration_field(nothing, nothing))
        for mover, frame in _links(state, index):
            twist = velocities[mover], motions[mover].w
            for k, axis in enumerate(tree.bodies[mover].joint_type.subspace(scalars)):
                seen, turning = _seen(frame, axis), _seen(frame, carried(twist, axis))
                pairs = zip(_efforts(momentum, turning), _efforts(weight, seen), strict=True)
                rates = [rate - load for rate, load in pairs]
                _enter_row(state, (mover, k), index, _efforts(momentum, seen), Yp)
                _enter_row(state, (mover, k), index, rates, Yr)
    return Yp, Yr


def joint_torque_regressor_gradient(state: State, qdd: Numbers) -> tuple[Cube, Cube, Cube]:
    """Return the derivatives of the regressor by positions, velocities and accelerations.

    A column is the change of a parameter's wrench, projected on the axes. The axes above the joint
    that moves also see the wrench rotate.

    Returns:
        dY_dq, dY_dqd, dY_dqdd: nv x 10 n x nv.
    """
    tree, scalars, sweep = state.tree, state.scalars, Sweep(state, has_masses=False)
    motions = all_motions(state, qdd)
    above = effects_from_above(sweep, *own_changes(sweep, motions))
    shape = (tree.nv, BODY_PARAMETERS * len(tree.bodies), tree.nv)
    cubes = [scalars.matrix(symbol, *shape) for symbol in ("dY_dq", "dY_dqd", "dY_dqdd")]
    nothing = constants(ZERO, scalars)

    def effects(index: int, start: int) -> Iterator[tuple[Axis, FromAbove]]:
        """Yield the effects on a body of the axes of an ancestor and of those above it."""
        for k in range(tree.bodies[start].joint_type.nv):
            yield (start, k), above[k][index][start]
        for below in tree.climb(start):
            root = tree.bodies[below].parent
            for k in range(tree.bodies[root].joint_type.nv):
                yield (root, k), above[k][index][root]

    def turned(index: int, vectors: Sequence[Vector]) -> list[Vector]:
        return [_turned(tree.bodies[index], vector, scalars) for vector in vectors]

    for index in tree.outward():
        scalars.begin("regressor", index)
        motion = _of_link(tree.bodies[index], motions[index], scalars)
        for mover, effect in effects(index, index):
            scalars.begin("regressor", index)
            # The axis moves the mass with unit acceleration.
            starts = MotionChange(*effect.axis, nothing)
            changes = [
                turned(index, (change.a, change.alpha, change.w))
                for change in (effect.position, effect.velocity, starts)
            ]
            axis: Any = tuple(turned(index, effect.axis))
            for other, own in effects(index, index):
                seen: Any = tuple(turned(index, own.axis))
                for cube, change in zip(cubes, changes, strict=True):
                    row = _change_row(motion.w, change, seen)
                    _enter_slice(state, (other, mover), index, row, cube)
            for below in tree.climb(mover[0]):
                root = tree.bodies[below].parent
                for k in range(tree.bodies[root].joint_type.nv):
                    seen = tuple(turned(index, above[k][index][root].axis))
                    row = _efforts(motion, carried(seen, axis))
                    _enter_slice(state, ((root, k), mover), index, row, cubes[0])
    return cubes[0], cubes[1], cubes[2]


def _change_row(w: Vector, change: Sequence[Vector], axis: Motion) -> tuple[Scalar, ...]:
    """Project the changes of the parameters' wrenches on an axis, in the link's frame.

    Args:
        w:      angular velocity of the link.
        change: the vectors of a ``MotionChange`` of the link.
    """
    a, (x, y, z), turning = change
    # 2 w1 x (w x x) = 2 w (w1 . x) - 2 x (w1 . w)
    P = tuple(scale(2.0 * entry, turning) for entry in w)
    trace = P[0][0] + P[1][1] + P[2][2]
    W: Matrix = (
        (P[0][0] - trace, P[0][1] - z, P[0][2] + y),
        (P[1][0] + z, P[1][1] - trace, P[1][2] - x),
        (P[2][0] - y, P[2][1] + x, P[2][2] - trace),
    )
    (yz, turn_x), (xz, turn_y), (xy, turn_z) = (
        (0.5 * (W[i][j] + W[j][i]), 0.5 * (W[i][j] - W[j][i])) for i, j in ((2, 1), (0, 2), (1, 0))
    )
    return _projected(a, W, (turn_x, turn_y, turn_z, yz, xz, xy), axis)


def _of_link(body: Body, motion: BodyMotion, scalars: Scalars) -> BodyMotion:
    """Return a body's motion in the frame of its link."""
    w, wd, a = (_turned(body, part, scalars) for part in (motion.w, motion.wd, motion.a))
    return BodyMotion(w, wd, a, acceleration_field(w, wd))


def _turned(body: Body, vector: Vector, scalars: Scalars) -> Vector:
    """Transform a vector from a body's canonical frame to the axes of its link."""
    for factor in reversed(fixed_rotation(body.link_rotation, scalars)):
        vector = factor.turn(vector)
    return vector


def _enter_row(state: State, axis: Axis, index: int, row: Numbers, Y: Rows) -> None:
    """Enter the columns of a body in the row of an axis; mimic joints add to their leader."""
    mover = state.tree.bodies[axis[0]]
    target = Y[mover.v_index + axis[1]]
    for parameter, entry in enumerate(row):
        column = BODY_PARAMETERS * index + parameter
        entry = followed(entry, [mover], state.scalars)
        target[column] = target[column] + entry if state.tree.has_mimic else entry


def _enter_slice(
    state: State, axes: tuple[Axis, Axis], index: int, row: Numbers, cube: Cube
) -> None:
    """Add derivatives of a body's columns in the row of one axis by another axis."""
    one, other = (state.tree.bodies[axis[0]] for axis in axes)
    i, j = one.v_index + axes[0][1], other.v_index + axes[1][1]
    for parameter, entry in enumerate(row):
        target = cube[i][BODY_PARAMETERS * index + parameter]
        target[j] = target[j] + followed(entry, (one, other), state.scalars)


def _efforts(motion: BodyMotion, axis: Motion) -> tuple[Scalar, ...]:
    """Project the wrench of each parameter on an axis, in the link's frame.

    The wrench is f = m a + W h and n = h x a + I wd + w x I w, with W the acceleration field.
    """
    x, y, z = motion.w
    return _projected(motion.a, motion.field, (*motion.wd, y * z, x * z, x * y), axis)


def _projected(a: Vector, W: Matrix, parts: Sequence[Scalar], axis: Motion) -> tuple[Scalar, ...]:
    """Project the wrenches of a field of accelerations a + W x on an axis.

    Args:
        parts: the axial vector of W, and the entries yz, xz, xy of its symmetric part.
    """
    v, u = axis
    turn_x, turn_y, turn_z, yz, xz, xy = parts
    first = add(apply(transpose(W), v), cross(a, u))
    # The moment of each entry of I.
    moments = (
        (turn_x, xz, -xy),
        (-W[2][0], W[2][1], W[0][0] - W[1][1]),
        (-yz, turn_y, xy),
        (W[1][0], W[2][2] - W[0][0], -W[1][2]),
        (W[1][1] - W[2][2], -W[0][1], W[0][2]),
        (yz, -xz, turn_z),
    )
    return (dot(v, a), *first, *(dot(moment, u) for moment in moments))


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
