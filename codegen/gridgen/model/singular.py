"""Joints that make the mass matrix singular in every configuration.

A joint is singular if its articulated-body inertia along its axis is zero in a generic
configuration (Featherstone 2008, chapter 7). A search for massless links is not sufficient: two
joints about one axis without mass in between, or a point mass on the axis, are singular too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridgen.model.kinematic_tree import Body
from gridgen.model.pose import Vector3
from gridgen.symbolic.scalars import FloatScalars

Array = NDArray[Any]

RELATIVE_ZERO = 1e-12
"""Relative rounding error of an inertia that cancels to zero."""


_TURN = (0.2, 0.4, 0.4, 0.8)
"""A generic unit quaternion."""


def singular_joints(bodies: Sequence[Body]) -> tuple[str, ...]:
    """Return the joints with zero articulated-body inertia, armature included."""
    search = _of_coupled if any(body.mimics for body in bodies) else _of_independent
    at_fault = search(bodies)
    return tuple(body.joint for body in bodies if not body.mimics and body.v_index in at_fault)


def _of_independent(bodies: Sequence[Body]) -> set[int]:
    """Return the first velocities of singular joints of a tree without mimic joints."""
    rigid = [_spatial_inertia(body) for body in bodies]
    free = [inertia.copy() for inertia in rigid]  # articulated-body inertias
    at_fault = set()
    for index in reversed(range(len(bodies))):  # leaves first
        body = bodies[index]
        resists, rest = _propagated(body, free[index], rigid[index])
        if not resists:
            at_fault.add(body.v_index)
        if body.parent >= 0:
            X = _motion_transform(body, _position(body.q_index))
            free[body.parent] += X.T @ rest @ X
            # Composite inertia with locked children: the scale to which cancellation is relative.
            rigid[body.parent] += X.T @ free[index] @ X
    return at_fault


def _of_coupled(bodies: Sequence[Body]) -> set[int]:
    """Return the first velocities of singular joints of a tree with mimic joints.

    A leader moves multiple branches, so the recursion over bodies does not apply. Gaussian
    elimination of the mass matrix, from its last row upwards, finds zero pivots.
    """
    nv = 1 + max(body.v_index + body.nv - 1 for body in bodies)
    M, scale = np.zeros((nv, nv)), np.zeros(nv)
    motions: list[Array] = []
    sizes: list[Array] = []  # magnitudes of the terms that are summed in motions
    for body in bodies:
        motion, size = np.zeros((6, nv)), np.zeros((6, nv))
        if body.parent >= 0:
            position = body.multiplier * _position(body.q_index) + body.offset
            X = _motion_transform(body, position)
            motion, size = X @ motions[body.parent], np.abs(X) @ sizes[body.parent]
        own = slice(body.v_index, body.v_index + body.nv)
        motion[:, own] += body.multiplier * _subspace(body)
        size[:, own] += np.abs(body.multiplier * _subspace(body))
        inertia = _spatial_inertia(body)
        M += motion.T @ inertia @ motion
        scale += np.sum(size * (np.abs(inertia) @ size), axis=0)
        if not body.mimics:
            M[own, own] += np.diag(body.armature)
            scale[own] += body.armature
        motions.append(motion)
        sizes.append(size)
    first = {body.v_index + k: body.v_index for body in bodies for k in range(body.nv)}
    at_fault = set()
    for j in reversed(range(nv)):
        if abs(M[j, j]) > RELATIVE_ZERO * scale[j]:
            M[:j, :j] -= np.outer(M[:j, j], M[j, :j]) / M[j, j]
        else:
            at_fault.add(first[j])
    return at_fault


def _position(coordinate: int) -> float:
    """Return a generic position."""
    return 0.5 + 0.618034 * coordinate % 1.0


def _propagated(body: Body, inertia: Array, scale: Array) -> tuple[bool, Array]:
    """Return whether the joint is nonsingular, and the inertia propagated to its parent."""
    if body.joint_type.is_free:
        with_armature = inertia + np.diag(body.armature)
        size = np.sqrt(np.abs(np.diag(scale)) + body.armature)
        if not size.all():
            return False, inertia
        smallest = np.linalg.eigvalsh(with_armature / np.outer(size, size))[0]
        if not smallest > RELATIVE_ZERO:
            return False, inertia
        return True, inertia - inertia @ np.linalg.solve(with_armature, inertia)
    for S, armature in zip(_subspace(body).T, body.armature, strict=True):
        column = inertia @ S
        along = S @ column
        resists = bool(abs(along) + armature > RELATIVE_ZERO * abs(S @ scale @ S))
        if not resists:
            return False, inertia
        inertia = inertia - np.outer(column, column) / (along + armature)
    return True, inertia


def _subspace(body: Body) -> Array:
    """Return the motion subspace of a body's joint (6, nv)."""
    return np.array([(*v, *w) for v, w in body.joint_type.subspace(FloatScalars())]).T


def _spatial_inertia(body: Body) -> Array:
    """Return the 6x6 inertia about the canonical origin, linear part first."""
    moment = _cross_matrix(body.first_moment)
    inertia = np.block([[body.mass * np.eye(3), -moment], [moment, np.array(body.inertia)]])
    # An inertia input has an unknown value: assume that it is positive definite.
    return inertia + np.eye(6) if body.parts else inertia


def _motion_transform(body: Body, position: float) -> Array:
    """Return the 6x6 motion transform from the parent's frame to the body's."""
    rotation, translation = np.array(body.rotation), np.array(body.translation)
    joint = body.joint_type
    place = [position] * joint.nq
    if joint.quaternion is not None:
        place[joint.quaternion :] = _TURN
    turn, slide = joint.transform(0, place, FloatScalars())
    translation, rotation = translation + rotation @ np.array(slide), rotation @ np.array(turn)
    inverse = rotation.T
    coupling = -inverse @ _cross_matrix(translation)
    return np.block([[inverse, coupling], [np.zeros((3, 3)), inverse]])


def _cross_matrix(a: Vector3 | Array) -> Array:
    """Return the matrix of the vector product with ``a``."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
