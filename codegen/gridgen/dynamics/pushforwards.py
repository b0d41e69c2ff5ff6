"""Pushforwards: results, and how they change along with the arguments.

The function's own algorithm on dual numbers (``symbolic/dual.py``), and a shorter way for
accelerations, which answer inverse dynamics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gridgen.dynamics.computation import Inputs
from gridgen.dynamics.products import ProductComputation, project_on_tangents, slopes, with_tangents
from gridgen.functions.arrays import tangent
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.dual import DualScalars, tangents_of, values_of
from gridgen.symbolic.scalars import FloatScalars, Scalars


@dataclass(frozen=True)
class Pushforward(ProductComputation):
    """The pushforward of a computation by some of its inputs."""

    @property
    def title(self) -> str:
        """What it computes; see ``Computation``."""
        return f"Jacobian-vector product by {', '.join(self.wrt)}:\n{self.of.title}"

    @property
    def plain_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return (*self.given_inputs, *map(tangent, self.wrt))

    @property
    def outputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        results = () if self.uses_inverse_dynamics else self.of.outputs
        return (*results, *map(tangent, self.of.outputs))

    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """Compute the results and their tangents over any scalar; see ``Computation``."""
        tangents = {
            name: project_on_tangents(tree, name, x[name], x[tangent(name)], scalars)
            if name in x
            else x[tangent(name)]  # of efforts that are not needed
            for name in self.wrt
        }
        if isinstance(scalars, FloatScalars):
            return self._stepped(tree, x, tangents, scalars)
        if self.uses_inverse_dynamics:
            return [self._through_inverse_dynamics(tree, x, tangents, scalars)]
        found = self.of.results(tree, with_tangents(x, tangents), DualScalars(scalars))
        return [*map(values_of, found), *map(tangents_of, found)]

    def _through_inverse_dynamics(
        self, tree: KinematicTree, x: Inputs, tangents: Inputs, scalars: Scalars
    ) -> Any:
        """Differentiate ID(q, qd, qdd) = tau: M dqdd = dtau - dID."""
        others = {name: change for name, change in tangents.items() if name != "tau"}
        given = tangents.get("tau")
        if not others:
            return self.response(tree, x, given, scalars)
        moved = with_tangents(x, others)
        (efforts,) = map(tangents_of, self.inverse.results(tree, moved, DualScalars(scalars)))
        right = scalars.table("right", tree.nv)
        for k in tree.velocities.outward():
            right[k] = -efforts[k] if given is None else given[k] - efforts[k]
        return self.response(tree, x, right, scalars)

    def _stepped(
        self, tree: KinematicTree, x: Inputs, tangents: Inputs, scalars: FloatScalars
    ) -> Sequence[Any]:
        """Compute them on numbers."""
        found, changes = slopes(
            self.of, tree, self.at_joint_torques(tree, x, scalars), tangents, scalars
        )
        return changes if self.uses_inverse_dynamics else [*found, *changes]
