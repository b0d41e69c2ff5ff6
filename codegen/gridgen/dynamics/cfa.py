"""Forward dynamics by constraint forces (Yang, Wu, Pan (GPU scheme) eq. 9 to 19; docs/cfa.md).

The unknowns are the wrenches that the joints transmit, not the accelerations. All quantities are
relative to the bias motion: dV is the acceleration of the bodies, F the wrench of each joint. L is
the matrix of one step outwards, (L dV)_i = dV_i - X_i dV_parent(i):

    L dV = S qdd,   J dV = L^T F,   S^T F = tau - bias    =>    K F = S qdd,   K = L J^-1 L^T

K couples a body with its parent, its siblings and its children only. W spans the directions in
which the joints do not move. The projection W^T K F = 0 is a block system for the constraint
forces. Its blocks can be eliminated in any order, many of them at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gridgen.dynamics.linear import BlockSystem
from gridgen.dynamics.mass import constant_mass
from gridgen.dynamics.mobility import Mobility, Spatial, body_mobility, principal_inertia
from gridgen.dynamics.rnea import inverse_dynamics
from gridgen.dynamics.state import Numbers, State
from gridgen.errors import ModelError
from gridgen.model.tree import Body, KinematicTree
from gridgen.symbolic.scalars import FloatScalars, Scalar, Scalars
from gridgen.symbolic.spatial import Vector, Wrench, neg, sub

PASSES = 2
"""The first solution, and one step of iterative refinement.

The residual K F is computed body by body and is more accurate than the blocks of A. One step
reduces the error of a chain of 200 bodies from 3e-10 to 7e-11; further steps gain nothing
(docs/results/accuracy.md).
"""

RELATIVE_ZERO = 1e-12
"""Threshold of the principal inertia about the center of mass, for a link that is a point or rod.

The threshold is relative to the inertia about the frame's origin. Below it, subtraction of the
center's contribution leaves fewer than four significant digits.
"""


def refusal(tree: KinematicTree) -> str | None:
    """Return why a robot does not support the algorithm, and the remedy; otherwise ``None``."""
    if tree.has_mimic:
        return (
            "mimic joints couple bodies of different branches, which constraint forces of single "
            'joints do not describe: use method="crba"'
        )
    if "armature" in tree.parameters:
        return (
            "armatures that are inputs may be zero, and the constraint-force algorithm divides by "
            'them: use method="aba"'
        )
    for body in tree.bodies:
        if body.parts:
            continue  # its inertia is an input
        mass = constant_mass(body, FloatScalars())
        if mass.m <= 0.0:
            what = f"mass is {mass.m:g}"
        else:
            smallest, size = principal_inertia(mass)
            if smallest > RELATIVE_ZERO * size:
                continue
            what = f"inertia about the center of mass is singular (smallest: {smallest:.3g} kg m^2)"
        return (
            f'link "{body.name}": {what}; the constraint-force algorithm divides by the spatial '
            'inertia of every link: use method="aba", or give the link mass and inertia'
        )
    return None


@dataclass(frozen=True)
class Unknown:
    """Component of a joint's wrench that the block system solves for.

    Attributes:
        axis:       index in the joint's wrench: 0-2 force, 3-5 moment.
        compliance: compliance of the joint along the component: 1 / armature along a motion axis
                    with an armature, 0 for a constraint.
    """

    axis: int
    compliance: float


def unknowns(body: Body) -> tuple[Unknown, ...]:
    """Return the components of a joint's wrench that its torque does not determine.

    A motion axis transmits tau - bias minus armature * qdd. With an armature, the difference is an
    unknown too. A free joint without armature has no unknowns.
    """
    armature = dict(zip(body.joint_type.axes, body.armature, strict=True))
    return tuple(
        Unknown(axis, 1.0 / armature[axis] if axis in armature else 0.0)
        for axis in range(6)
        if armature.get(axis) != 0.0
    )


def forward_dynamics_cfa(
    state: State, tau: Numbers, order: Iterable[int] | None = None
) -> list[Scalar]:
    """Return the joint accelerations for the generalized forces ``tau``.

    Args:
        order: elimination order of the bodies; leaves first by default, which couples parents,
               children and siblings only.

    Returns:
        qdd: joint accelerations, nv scalars [rad/s^2 or m/s^2].

    Raises:
        ModelError: the robot has mimic joints, or a link without an invertible spatial inertia.
    """
    tree, scalars = state.tree, state.scalars
    reason = refusal(tree)
    if reason is not None:
        raise ModelError(f"{tree.source}: {reason}")
    links = [body_mobility(state, index) for index in range(len(tree.bodies))]
    bias = inverse_dynamics(state)
    wrenches = _active_wrenches(state, [t - b for t, b in zip(tau, bias, strict=True)])

    rows = [unknowns(body) for body in tree.bodies]
    system = _assemble(state, links, rows)
    system.eliminate(reversed(range(len(tree.bodies))) if order is None else order)
    active = [tuple(wrench) for wrench in wrenches]
    for _ in range(PASSES):
        relative = _relative_accelerations(state, links, wrenches)
        right = [
            [
                -(motion[unknown.axis] + _yield(unknown, wrench, known, scalars))
                for unknown in unknown_components
            ]
            for motion, unknown_components, wrench, known in zip(
                relative, rows, wrenches, active, strict=True
            )
        ]
        for index, change in enumerate(system.solve(right)):
            for unknown, value in zip(rows[index], change, strict=True):
                wrenches[index][unknown.axis] = wrenches[index][unknown.axis] + value
    for index, (f, n) in enumerate(_wrenches(tree, wrenches)):
        scalars.keep("F", index, (*f, *n))
    relative = _relative_accelerations(state, links, wrenches)
    return [
        motion[axis]
        for body, motion in zip(tree.bodies, relative, strict=True)
        for axis in body.joint_type.axes
    ]


def _yield(unknown: Unknown, wrench: Numbers, active: Numbers, scalars: Scalars) -> Scalar:
    """Return the motion due to a joint's own compliance, opposite to its acceleration."""
    if not unknown.compliance:
        return scalars.constant(0.0)
    return scalars.constant(unknown.compliance) * (wrench[unknown.axis] - active[unknown.axis])


def _active_wrenches(state: State, effort: Numbers) -> list[list[Scalar]]:
    """Return the components of the joints' wrenches that the joint torques determine."""
    tree, scalars = state.tree, state.scalars
    wrenches = [[scalars.constant(0.0)] * 6 for _ in tree.bodies]
    for body, wrench in zip(tree.bodies, wrenches, strict=True):
        for velocity, axis in enumerate(body.joint_type.axes, start=body.v_index):
            wrench[axis] = effort[velocity]
    return wrenches


def _wrenches(tree: KinematicTree, components: Sequence[Numbers]) -> list[Wrench]:
    pairs = zip(tree.bodies, components, strict=True)
    return [body.joint_type.wrench(own) for body, own in pairs]


def _relative_accelerations(
    state: State, links: Sequence[Mobility], wrenches: Sequence[Numbers]
) -> list[list[Scalar]]:
    """Return K F: the components of the acceleration across every joint."""
    tree, placed = state.tree, state.placed
    own = _wrenches(tree, wrenches)
    totals = [*own]
    for index, body in enumerate(tree.bodies):
        if body.parent >= 0:
            f, n = placed[index].force_to_parent(*own[index])
            total = totals[body.parent]
            totals[body.parent] = (sub(total[0], f), sub(total[1], n))
    absolute = [link.acceleration(total) for link, total in zip(links, totals, strict=True)]
    relative = []
    for index, body in enumerate(tree.bodies):
        v, w = absolute[index]
        if body.parent >= 0:
            carried = placed[index].motion_to_body(*absolute[body.parent])
            v, w = sub(v, carried[0]), sub(w, carried[1])
        relative.append([*body.joint_type.components((v, w))])
    return relative


def _assemble(
    state: State, links: Sequence[Mobility], rows: Sequence[Sequence[Unknown]]
) -> BlockSystem:
    """Form A = W^T K W, with the compliance of armatures on its diagonal."""
    tree, placed, scalars = state.tree, state.placed, state.scalars
    system = BlockSystem(scalars.constant(1.0))
    for index, unknown_rows in enumerate(rows):
        if unknown_rows:
            diagonal = [
                [scalars.constant(row.compliance if row is column else 0.0) for row in unknown_rows]
                for column in unknown_rows
            ]
            system.add(index, index, diagonal)
    types = [body.joint_type for body in tree.bodies]
    units = [[scalars.constant(float(k == axis)) for k in range(6)] for axis in range(6)]
    for link in range(len(tree.bodies)):
        # The mobility of a link couples the joints at it.
        joints = [i for i in (link, *tree.children[link]) if rows[i]]
        for j in joints:
            wrenches = [types[j].wrench(units[unknown.axis]) for unknown in rows[j]]
            on_link = [_opposed(wrench, link, j, placed[j].force_to_parent) for wrench in wrenches]
            motions = [links[link].acceleration(wrench) for wrench in on_link]
            for i in joints:
                if i <= j:
                    across = [_opposed(m, link, i, placed[i].motion_to_body) for m in motions]
                    entries = [types[i].components(motion) for motion in across]
                    columns = [[column[row.axis] for row in rows[i]] for column in entries]
                    system.add(i, j, columns)
    return system


def _opposed(
    spatial: Spatial, link: int, joint: int, move: Callable[[Vector, Vector], Spatial]
) -> Spatial:
    """Move a wrench or motion between a link and a joint; negate it for a joint below the link."""
    if joint == link:
        return spatial
    linear, angular = move(*spatial)
    return neg(linear), neg(angular)
