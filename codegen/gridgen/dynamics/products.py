"""Vector-Jacobian and Jacobian-vector products of computations, also nested.

``ProductComputation`` contains what both share: evaluation on numbers, and the treatment of
quaternions. ``pullbacks.py`` computes the former on symbols. A ``Pushforward`` evaluates the
function's algorithm on dual numbers (``symbolic/dual.py``); accelerations use derivatives of
inverse dynamics, which cost less.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gridgen.dynamics.computation import Computation, FunctionComputation, Inputs
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import configurations, tangent
from gridgen.kernel import KernelKey, Shape
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.dual import DualArray, DualScalars, tangents_of, values_of
from gridgen.symbolic.rounding import RoundedScalars
from gridgen.symbolic.scalars import FloatScalars, Scalar, Scalars, entries
from gridgen.symbolic.spatial import dot

_STEP = 1e-30


@dataclass(frozen=True)
class ProductComputation(Computation):
    """Product of a computation's derivative with a vector.

    Attributes:
        key:      key of the kernel with one thread per state.
        of:       the differentiated computation.
        is_inner: whether another product differentiates this one.
    """

    key: KernelKey
    of: Computation
    is_inner: bool = False

    @property
    def wrt(self) -> tuple[str, ...]:
        """The inputs of differentiation."""
        return self.key.products[-1].wrt

    @property
    def uses_inverse_dynamics(self) -> bool:
        """Whether the product reads the accelerations in place of the joint torques.

        Derivatives of forward dynamics then follow from inverse dynamics, which costs less. A
        second differentiation would need the derivatives of the accelerations too.
        """
        return self.key.function == "forward_dynamics" and not (
            self.is_inner or isinstance(self.of, ProductComputation)
        )

    @cached_property
    def inverse(self) -> FunctionComputation:
        """Inverse dynamics with the same optional inputs and parameters."""
        assert isinstance(self.of, FunctionComputation)
        row = FUNCTIONS["inverse_dynamics"]
        key = KernelKey(row.name, inputs=self.key.inputs)
        return FunctionComputation(key, row, row.methods[""], parameters=self.of.parameters)

    def response(self, tree: KinematicTree, x: Inputs, tau: Any, scalars: Scalars) -> Any:
        """Return M^-1 tau: the accelerations of the robot at rest without gravity.

        Args:
            x:   inputs, with positions and parameters.
            tau: generalized forces, nv scalars.
        """
        of = self.of
        assert isinstance(of, FunctionComputation)
        zero = scalars.constant(0.0)
        still = scalars.table("still", tree.nv, zero)
        at_rest = {"q": x["q"], "qd": still, "gravity": [zero] * 3, "tau": tau}
        plain = FunctionComputation(of.key.plain, of.row, of.method, of.frame, of.parameters)
        given = {name: x[name] for name in of.parameters}
        (found,) = plain.results(tree, {**at_rest, **given}, scalars)
        return found

    @property
    def given_inputs(self) -> tuple[str, ...]:
        """The inputs of the differentiated computation, or those of inverse dynamics."""
        given = self.of.plain_inputs
        if not self.uses_inverse_dynamics:
            return given
        return (*(name for name in given if name != "tau"), *self.of.outputs)

    @property
    def source(self) -> str:
        """See ``Computation``."""
        return self.of.source

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return self.of.optional_inputs

    def shape(self, name: str, tree: KinematicTree) -> Shape:
        """See ``Computation``."""
        return self.of.shape(name, tree)

    def refusal(self, tree: KinematicTree) -> str | None:
        """See ``Computation``."""
        names = [part.function for part in self.key.parts or (self.key,)]
        is_nested = self.is_inner or isinstance(self.of, ProductComputation)
        if is_nested and any("temperature" in FUNCTIONS[name].arguments for name in names):
            return "soft minima of distances have no products of second order"
        if (
            is_nested
            and tree.spheres.capsules
            and any("clearance" in FUNCTIONS[name].results for name in names)
        ):
            return "distances of capsules have no products of second order"
        return self.of.refusal(tree)

    def at_joint_torques(self, tree: KinematicTree, x: Inputs, scalars: FloatScalars) -> Inputs:
        """Return inputs on numbers with the joint torques in place of the accelerations."""
        if not self.uses_inverse_dynamics:
            return x
        (efforts,) = self.inverse.algorithm(tree, x, scalars)
        return {**x, "tau": efforts}

    @abstractmethod
    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """See ``Computation``."""


def slopes(
    of: Computation, tree: KinematicTree, x: Inputs, tangents: Inputs, scalars: FloatScalars
) -> tuple[list[list[Scalar]], list[list[Scalar]]]:
    """Return results on numbers, and their directional derivatives.

    Complex steps make this independent of symbolic differentiation; nested products use dual
    numbers.

    Args:
        of:       the computation.
        x:        its inputs.
        tangents: directions of some inputs.

    Returns:
        the results and their derivatives, as flat lists.
    """
    is_complex = any(np.iscomplexobj(entry) for array in x.values() for entry in array)
    if is_complex or isinstance(scalars, RoundedScalars):
        found = of.results(tree, with_tangents(x, tangents), DualScalars(scalars))
        flat = [[*entries(result)] for result in found]
        return values_of(flat), tangents_of(flat)
    moved = {
        name: [a + 1j * _STEP * b for a, b in zip(x[name], tangents[name], strict=True)]
        for name in tangents
    }
    found = of.algorithm(tree, {**x, **moved}, scalars)
    values = [[np.real(entry) for entry in result] for result in found]
    return values, [[np.imag(entry) / _STEP for entry in result] for result in found]


def with_tangents(x: Inputs, tangents: Inputs) -> dict[str, Any]:
    """Return inputs as dual numbers, some with tangents."""
    return {name: DualArray(array, tangents.get(name)) for name, array in x.items()}


def project_on_tangents(
    tree: KinematicTree, name: str, q: Sequence[Scalar], change: Any, scalars: Scalars
) -> Any:
    """Project the tangent or cotangent of an input on the tangent space of unit quaternions.

    Every function normalizes quaternions before use.

    Args:
        name:   name of the input; only configurations are projected.
        q:      value of the input.
        change: tangent or cotangent.
    """
    if not configurations([name]) or not tree.quaternions:
        return change
    found = scalars.table("moved", tree.nq)
    for index in tree.outward():
        body = tree.bodies[index]
        joint = body.joint_type
        start = joint.nq if joint.quaternion is None else joint.quaternion
        for k in range(start):
            found[body.q_index + k] = change[body.q_index + k]
        if start == joint.nq:
            continue
        places = [body.q_index + k for k in range(start, start + 4)]
        along = dot([q[k] for k in places], [change[k] for k in places])
        for k in places:
            found[k] = change[k] - q[k] * along
    return found


@dataclass(frozen=True)
class Pushforward(ProductComputation):
    """The pushforward of a computation by some of its inputs."""

    @property
    def title(self) -> str:
        """Title of the computation; see ``Computation``."""
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
            else x[tangent(name)]  # of joint torques that are not inputs
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
        """Evaluate on numbers."""
        found, changes = slopes(
            self.of, tree, self.at_joint_torques(tree, x, scalars), tangents, scalars
        )
        return changes if self.uses_inverse_dynamics else [*found, *changes]
