"""Pullbacks: from gradients with respect to the results to those of the arguments (VJPs).

The general method is reverse-mode differentiation (``symbolic/adjoint.py``). Accelerations use
derivatives of inverse dynamics, which cost less. No matrix of derivatives is formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gridgen.dynamics.computation import Inputs, array_size
from gridgen.dynamics.products import ProductComputation, project_on_tangents, slopes
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import cotangent
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.adjoint import adjoints
from gridgen.symbolic.dual import DualScalars, joined, tangents_of, values_of
from gridgen.symbolic.expr import Expr
from gridgen.symbolic.loops.reverse import adjoints_with_loops
from gridgen.symbolic.loops.scalars import LoopScalars
from gridgen.symbolic.scalars import CountingScalars, FloatScalars, Scalar, Scalars, entries
from gridgen.symbolic.trace import TraceScalars

# Cost of a function's trace with its adjoint, relative to the function.
_TIMES = 3


@dataclass(frozen=True)
class Pullback(ProductComputation):
    """The pullback of a computation by some of its inputs."""

    @property
    def title(self) -> str:
        """Title of the computation; see ``Computation``."""
        return f"Vector-Jacobian product by {', '.join(self.wrt)}:\n{self.of.title}"

    @property
    def plain_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return (*self.given_inputs, *map(cotangent, self.of.outputs))

    @property
    def outputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return tuple(map(cotangent, self.wrt))

    def refusal(self, tree: KinematicTree) -> str | None:
        """See ``Computation``."""
        if (reason := super().refusal(tree)) is not None or not tree.contact_model.acts:
            return reason
        names = [part.function for part in self.key.parts or (self.key,)]
        iterates = any("tolerance" in FUNCTIONS[name].parameters for name in names)
        if iterates and (self.is_inner or len(self.key.products) > 1):
            return "dynamics with contacts have no products of second order"
        return None

    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """Compute the cotangents of the arguments over any scalar; see ``Computation``."""
        if isinstance(scalars, FloatScalars):
            point = self.at_joint_torques(tree, x, scalars)
            found = {name: self._stepped(tree, point, name, scalars) for name in self.wrt}
            return [
                project_on_tangents(tree, name, point[name], found[name], scalars)
                for name in self.wrt
            ]
        if scalars.has_loops:
            found = self._reversed_in_loops(tree, x, scalars)
            return [project_on_tangents(tree, n, x.get(n, ()), found[n], scalars) for n in self.wrt]
        kind = scalars.inner if isinstance(scalars, DualScalars) else scalars
        if isinstance(kind, CountingScalars):
            return self._counted(tree, x, scalars)
        if isinstance(scalars, DualScalars):
            found = self._reversed_along(tree, x, scalars)
        else:
            assert isinstance(scalars, TraceScalars)
            method = (
                self._through_inverse_dynamics if self.uses_inverse_dynamics else self._reversed
            )
            found = method(tree, x, scalars)
        return [
            project_on_tangents(tree, name, x.get(name, ()), found[name], scalars)
            for name in self.wrt
        ]

    def _reversed(
        self, tree: KinematicTree, x: Inputs, trace: TraceScalars
    ) -> dict[str, list[Scalar]]:
        trace.differentiates = True
        results = [*entries([*self.of.results(tree, x, trace)])]
        return _adjoints(trace, results, self._weights(x), x, self.wrt, trace.held)

    def _reversed_along(
        self, tree: KinematicTree, x: Inputs, scalars: DualScalars
    ) -> dict[str, list[Scalar]]:
        """Differentiate the pullback in a direction, as the adjoint of the pushforward.

        Both are the gradient of the weighted sum of the results' tangents.
        """
        trace = scalars.inner
        assert isinstance(trace, TraceScalars)
        results = [*entries([*self.of.results(tree, x, scalars)])]
        weights = self._weights(x)
        values = {name: values_of([*x[name]]) for name in self.wrt}
        moves = [entry.tangent for array in x.values() for entry in array]
        found = _adjoints(trace, values_of(results), values_of(weights), values, self.wrt)
        changed = _adjoints(
            trace,
            [*values_of(results), *tangents_of(results)],
            [*tangents_of(weights), *values_of(weights)],
            values,
            self.wrt,
            fixed=moves,
        )
        return {name: joined(found[name], changed[name]) for name in self.wrt}

    def _through_inverse_dynamics(
        self, tree: KinematicTree, x: Inputs, trace: TraceScalars
    ) -> dict[str, list[Scalar]]:
        """Differentiate ID(q, qd, qdd) = tau: M dqdd = dtau - dID, solved for dqdd.

        M^-1 times the cotangent of qdd is the cotangent of tau; its negative is the weight of
        inverse dynamics.
        """
        response = [*entries(self.response(tree, x, x[cotangent("qdd")], trace))]
        (efforts,) = self.inverse.algorithm(tree, x, trace)
        others = [name for name in self.wrt if name != "tau"]
        weights = [trace.graph.neg(trace.graph.lift(entry)) for entry in response]
        return {"tau": response, **_adjoints(trace, efforts, weights, x, others)}

    def _reversed_in_loops(
        self, tree: KinematicTree, x: Inputs, scalars: Scalars
    ) -> dict[str, Any]:
        """Differentiate a program with loops."""
        assert isinstance(scalars, LoopScalars)
        if not self.uses_inverse_dynamics:
            results = self.of.results(tree, x, scalars)
            weights = [x[cotangent(name)] for name in self.of.outputs]
            sizes = {name: len(x[name]) for name in self.wrt}
            return adjoints_with_loops(scalars, results, weights, sizes)
        response = self.response(tree, x, x[cotangent("qdd")], scalars)
        results = self.inverse.results(tree, x, scalars)
        sizes = {name: len(x[name]) for name in self.wrt if name != "tau"}
        found = adjoints_with_loops(scalars, results, [_Negative(response, tree.nv)], sizes)
        return {"tau": response, **found}

    def _weights(self, x: Inputs) -> list[Scalar]:
        return [entry for name in self.of.outputs for entry in x[cotangent(name)]]

    def _stepped(
        self, tree: KinematicTree, x: Inputs, name: str, scalars: FloatScalars
    ) -> list[Scalar]:
        """Return the cotangent of one argument on numbers."""
        weights = self._weights(x)
        count = len(x[name])
        found: list[Scalar] = []
        for place in range(count):
            move = [float(place == other) for other in range(count)]
            _, changes = slopes(self.of, tree, x, {name: move}, scalars)
            found.append(sum(w * s for w, s in zip(weights, entries(changes), strict=True)))
        return found

    def _counted(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """Count the operations of a trace approximately."""
        for _ in range(_TIMES):
            self.of.results(tree, {"tau": x.get(cotangent("qdd"), ()), **x}, scalars)
        return [[scalars.constant(0.0)] * array_size(name, tree) for name in self.wrt]


@dataclass(frozen=True)
class _Negative:
    """Negated numbers, computed on access."""

    numbers: Any
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: Any) -> Scalar:
        return -self.numbers[index]


def _adjoints(
    trace: TraceScalars,
    results: Sequence[Scalar],
    weights: Sequence[Scalar],
    x: Inputs,
    wrt: Sequence[str],
    fixed: Sequence[Scalar] = (),
) -> dict[str, list[Scalar]]:
    """Return the adjoints of inputs by name; ``fixed`` nodes are constants."""
    lift = trace.graph.lift
    nodes = [node for name in wrt for node in x[name]]
    others = {node.index: node for node in map(lift, fixed) if node.op != "const"}
    for node in nodes:
        others.pop(node.index, None)
    every: list[Expr] = [*nodes, *others.values()]
    found = iter(adjoints(trace, [*map(lift, results)], [*map(lift, weights)], every))
    return {name: [next(found) for _ in x[name]] for name in wrt}
