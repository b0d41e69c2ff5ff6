"""How soft constraints yield: approximate inverse inertias, stiffness, damping and impedance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gridgen.dynamics.constraints import Constraints
from gridgen.dynamics.crba import mass_matrix
from gridgen.dynamics.frames import in_canonical
from gridgen.dynamics.state import State
from gridgen.model.kinematic_tree import Frame
from gridgen.model.pose import IDENTITY
from gridgen.model.soft import JointSoftness, Softness
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.scalars import FloatScalars, Scalar, Scalars
from gridgen.symbolic.spatial import add, apply

#: MuJoCo's bounds (mjMINVAL, mjMINIMP, mjMAXIMP).
MINVAL, MIN_IMPEDANCE, MAX_IMPEDANCE = 1e-15, 1e-4, 0.9999


@dataclass(frozen=True)
class Weights:
    """Approximate inverse inertias in the reference configuration.

    Attributes:
        velocities: of each velocity.
        links:      of links in contacts and constraints, translational and rotational.
        tendons:    of the lengths of tendons.
    """

    velocities: tuple[float, ...]
    links: Mapping[str, tuple[float, float]]
    tendons: tuple[float, ...]


@lru_cache(maxsize=8)
def weights(tree: KinematicTree) -> Weights:
    """Compute MuJoCo's ``dof_``, ``body_`` and ``tendon_invweight0`` of a robot."""
    q = [0.0] * tree.nq
    for body in tree.bodies:
        if body.nq > 1:
            q[body.q_index : body.q_index + body.nq] = body.joint_type.neutral
        elif not body.mimics:
            q[body.q_index] = softness_of(tree, body.joint).reference
    own = {name: np.ravel(values).tolist() for name, values in tree.parameters.items()}
    state = State(tree, FloatScalars(), q, given=own)
    inverse = np.linalg.inv(np.array(mass_matrix(state), float))
    diagonal = inverse.diagonal().copy()
    for body in tree.bodies:
        for k in range(0, body.nv - 1, 3):  # those of one triple are equal
            at = slice(body.v_index + k, body.v_index + k + 3)
            diagonal[at] = diagonal[at].mean()
    frame = Constraints(state)
    bodies = {one.link: one.body for c in tree.contact_model.contacts for one in c.solids}
    ends = (end for one in tree.constraints for end in (one.link, one.to) if end is not None)
    bodies |= {end.name: end.body for end in ends}
    links = {}
    for link, index in bodies.items():
        J = np.zeros((6, tree.nv)).tolist()
        if index >= 0:
            body, pose = tree.bodies[index], frame.pose(-1, index)
            center = tuple(h / body.mass for h in body.first_moment) if body.mass else (0.0,) * 3
            if link in tree.contact_model.centers:
                here = Frame("", index, IDENTITY, tree.contact_model.centers[link])
                center = in_canonical(state, here).r
            point = add(pose.p, apply(pose.R, center))  # type: ignore[arg-type]
            for above in (*tree.ancestors(index), index):
                frame.turn(-1, above, point, 1.0).add_to(J)
        found = np.einsum("ij,jk,ik->i", J, inverse, J)
        slide, spin = (float(part.mean()) for part in (found[:3], found[3:]))
        links[link] = max(slide, MINVAL), max(spin, MINVAL)
    pulls = np.zeros((len(tree.tendons), tree.nv))
    for row, tendon in zip(pulls, tree.tendons, strict=True):
        for index, factor in tendon.terms:
            row[tree.bodies[index].v_index] = factor
    tendons = tuple(np.einsum("ij,jk,ik->i", pulls, inverse, pulls).tolist())
    return Weights(tuple(map(float, diagonal)), links, tendons)


def softness_of(tree: KinematicTree, joint: str) -> JointSoftness:
    """Return the softness of a joint."""
    return tree.contact_model.joints.get(joint, JointSoftness())


class Spring:
    """Stiffness, damping and impedance of a constraint, from its softness."""

    def __init__(self, tree: KinematicTree, softness: Softness, scalars: Scalars) -> None:
        self._scalars = scalars
        least, most, width, middle, power = softness.solimp
        self._least, self._most = (min(max(d, MIN_IMPEDANCE), MAX_IMPEDANCE) for d in (least, most))
        self._width, self._power = max(width, MINVAL), max(power, 1.0)
        self._middle = min(max(middle, MIN_IMPEDANCE), MAX_IMPEDANCE)
        self.stiffness, self.damping = self.gains(tree, softness.solref)

    def gains(self, tree: KinematicTree, solref: tuple[float, float]) -> tuple[float, float]:
        """Return the stiffness and the damping of a ``solref``."""
        first, second = solref
        most = self._most
        if first > 0.0:
            first = max(first, 2.0 * tree.contact_model.timestep)
            stiffness = 1.0 / max(MINVAL, (most * first * second) ** 2)
            return stiffness, 2.0 / max(MINVAL, most * first)
        return -first / max(MINVAL, most**2), -second / max(MINVAL, most)

    def impedance(self, distance: Scalar) -> Scalar:
        """Return the impedance at a distance."""
        scalars, least, most = self._scalars, self._least, self._most
        if least == most or self._width <= MINVAL:
            return scalars.constant(0.5 * (least + most))
        x = self._scalars.constant(1.0 / self._width) * distance
        x = scalars.select(x, -x, x)
        if self._power == 1.0:
            y = x
        else:
            low = self._raised(x, self._middle)
            rest = 1.0 - x
            rest = scalars.select(rest, scalars.constant(0.0), rest)
            high = 1.0 - self._raised(rest, 1.0 - self._middle)
            y = scalars.select(x - self._middle, low, high)
        y = scalars.select(x - 1.0, y, scalars.constant(1.0))
        return least + (most - least) * y

    def _raised(self, x: Scalar, at: float) -> Scalar:
        """Return x^power / at^(power - 1)."""
        total, root = self._scalars.constant(at ** (1.0 - self._power)), x
        for _ in range(int(self._power)):
            total = total * x
        rest = self._power % 1.0
        while rest:  # a sum of powers of 1/2
            root, rest = self._scalars.sqrt(root), 2.0 * rest
            if rest >= 1.0:
                total, rest = total * root, rest - 1.0
        return total
