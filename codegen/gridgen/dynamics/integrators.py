"""Time steps: the final state of a step with constant joint torques.

A step moves the configuration along a velocity in the tangent space, with ``integrate``, which
preserves the norm of quaternions. Velocities follow from the accelerations of forward dynamics, by
articulated bodies, or by the factorized mass matrix for robots with mimic joints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gridgen.dynamics.aba import accelerations_aba
from gridgen.dynamics.configurations import integrate
from gridgen.dynamics.contacts import contact_forward_dynamics, contact_step
from gridgen.dynamics.crba import accelerations_crba
from gridgen.dynamics.kinematics import BaseMotion
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import Scalar, Scalars

Vector = Sequence[Scalar]
State = tuple[list[Scalar], list[Scalar]]


def _step(
    tree: KinematicTree,
    q: Vector,
    qd: Vector,
    tau: Vector,
    dt: Vector,
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Vector | None = None,
    *,
    is_explicit: bool = False,
    is_damping_implicit: bool = False,
) -> State:
    """Return the state (q, qd) after one step with the initial accelerations.

    The final velocities move the configuration; in an explicit step, the initial velocities.
    """
    if tree.contact_model.contacts:
        return contact_step(
            tree,
            q,
            qd,
            tau,
            dt[0],
            base,
            scalars,
            f_ext,
            is_explicit=is_explicit,
            is_damping_implicit=is_damping_implicit,
        )
    damping_step = dt[0] if is_damping_implicit else None
    qdd = _accelerations(tree, q, qd, tau, base, scalars, f_ext, damping_step)
    end = moved(tree, qd, (dt[0], qdd), scalars)
    along = qd if is_explicit else end
    return integrate(tree, q, scaled(tree, dt[0], along, scalars), scalars), end


#: The semi-implicit (symplectic) Euler method.
semi_implicit = _step
#: The explicit Euler method.
euler = partial(_step, is_explicit=True)
#: The semi-implicit method with implicit viscous damping D, which is stable for any damping and
#: step length: (M + dt D) (qd' - qd) = dt (tau - h - D qd).
implicit = partial(_step, is_damping_implicit=True)


def rk4(
    tree: KinematicTree,
    q: Vector,
    qd: Vector,
    tau: Vector,
    dt: Vector,
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Vector | None = None,
) -> State:
    """Return the state after a step of the classical Runge-Kutta method.

    For free joints, whose directions do not commute, two commutators preserve the fourth order
    (the method's form for Lie groups). Other joints follow the textbook method.

    Source: Munthe-Kaas 1999.
    """
    step, half, commutators = dt[0], 0.5 * dt[0], Commutators(tree, scalars)

    def rates(q: Vector, qd: Vector) -> list[Scalar]:
        return _accelerations(tree, q, qd, tau, base, scalars, f_ext)

    v1, a1 = qd, rates(q, qd)
    v2 = moved(tree, qd, (half, a1), scalars)
    a2 = rates(integrate(tree, q, scaled(tree, half, v1, scalars), scalars), v2)
    v3 = moved(tree, qd, (half, a2), scalars)
    path = commutators.add(scaled(tree, half, v2, scalars), 0.5 * half * half, v1, v2)
    a3 = rates(integrate(tree, q, path, scalars), v3)
    v4 = moved(tree, qd, (step, a3), scalars)
    a4 = rates(integrate(tree, q, scaled(tree, step, v3, scalars), scalars), v4)
    sixth = step * (1.0 / 6.0)
    path = scaled(tree, sixth, weighted(tree, v1, v2, v3, v4, scalars), scalars)
    path = commutators.add(path, 0.5 * step * sixth, v1, v4)
    end = moved(tree, qd, (sixth, weighted(tree, a1, a2, a3, a4, scalars)), scalars)
    return integrate(tree, q, path, scalars), end


def _accelerations(
    tree: KinematicTree,
    q: Vector,
    qd: Vector,
    tau: Vector,
    base: BaseMotion,
    scalars: Scalars,
    f_ext: Vector | None,
    damping_step: Scalar | None = None,
) -> list[Scalar]:
    """Return the joint accelerations by the method that ``auto`` selects for the robot."""
    if tree.contact_model.contacts:
        return contact_forward_dynamics(tree, q, qd, tau, base, scalars, f_ext)[0]
    solve = accelerations_crba if tree.has_mimic else accelerations_aba
    return solve(tree, q, qd, tau, base, scalars, f_ext, damping_step)


def _each(tree: KinematicTree, entry: Callable[[int], Scalar], scalars: Scalars) -> list[Scalar]:
    """Return a table with one number per velocity."""
    scalars.begin("step", -1)
    result = scalars.table("step", tree.nv)
    for j in tree.velocities.outward():
        result[j] = entry(j)
    return result


def scaled(tree: KinematicTree, factor: Scalar, v: Vector, scalars: Scalars) -> list[Scalar]:
    """Return factor v."""
    return _each(tree, lambda j: factor * v[j], scalars)


def moved(
    tree: KinematicTree, v: Vector, change: tuple[Scalar, Vector], scalars: Scalars
) -> list[Scalar]:
    """Return v + factor rate, for ``change`` = (factor, rate)."""
    factor, rate = change
    return _each(tree, lambda j: v[j] + factor * rate[j], scalars)


def weighted(
    tree: KinematicTree, a: Vector, b: Vector, c: Vector, d: Vector, scalars: Scalars
) -> list[Scalar]:
    """Return a + 2 b + 2 c + d."""
    return _each(tree, lambda j: (a[j] + d[j]) + 2.0 * (b[j] + c[j]), scalars)


class Commutators:
    """Commutators of twists, nonzero for free joints only."""

    def __init__(self, tree: KinematicTree, scalars: Scalars) -> None:
        self._tree, self._scalars = tree, scalars

    def add(self, path: list[Scalar], factor: Scalar, a: Vector, b: Vector) -> list[Scalar]:
        """Return path + factor [a, b]; overwrites ``path``."""
        tree = self._tree
        for index in tree.outward():
            body = tree.bodies[index]
            joint = body.joint_type
            if joint.nv > 1:
                self._scalars.begin("step", index)
                start = body.v_index
                one, other = ([v[start + k] for k in range(joint.nv)] for v in (a, b))
                for k, entry in enumerate(joint.commutator(one, other)):
                    path[start + k] = path[start + k] + factor * entry
        return path
