"""Pullbacks: from the derivatives of a number by results to those by the arguments.

Reverse differentiation of whatever a function computes (``symbolic/adjoint.py``), and a shorter way
for accelerations, which answer inverse dynamics: no matrix of derivatives is formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gridgen.dynamics.arrays import array_size
from gridgen.dynamics.computation import Computation, Inputs, OfFunction
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import configurations, cotangent
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.adjoint import adjoints
from gridgen.symbolic.scalars import CountingScalars, FloatScalars, Scalar, Scalars, entries
from gridgen.symbolic.trace import TraceScalars

_STEP = 1e-30
# What a function's program and its adjoint take together, in programs of the function.
_TIMES = 3


@dataclass(frozen=True)
class Pullback(OfFunction):
    """The pullback of a function's computation by ``key.wrt``."""

    @cached_property
    def of(self) -> OfFunction:
        """The computation that it is the pullback of."""
        key = replace(self.key, wrt=())
        return OfFunction(key, self.row, self.method, self.frame, self.parameters)

    @property
    def _answers_inverse_dynamics(self) -> bool:
        """Whether it takes what the function returned, in place of the efforts that led there."""
        return self.key.function == "forward_dynamics"

    @property
    def title(self) -> str:
        """What it computes; see ``Computation``."""
        return f"Vector-Jacobian product by {', '.join(self.key.wrt)}:\n{super().title}"

    @property
    def plain_inputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        given, results = self.of.plain_inputs, self.of.outputs
        if self._answers_inverse_dynamics:
            given = (*(name for name in given if name != "tau"), *results)
        return (*given, *map(cotangent, results))

    @property
    def outputs(self) -> tuple[str, ...]:
        """See ``Computation``."""
        return tuple(map(cotangent, self.key.wrt))

    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """Compute the cotangents of the arguments over any scalar; see ``Computation``.

        On numbers by complex steps: what the reverse way is held against.
        """
        if isinstance(scalars, FloatScalars):
            return [self._stepped(tree, x, name) for name in self.key.wrt]
        if isinstance(scalars, CountingScalars):
            return self._counted(tree, x, scalars)
        assert isinstance(scalars, TraceScalars)
        way = self._through_inverse_dynamics if self._answers_inverse_dynamics else self._reversed
        found = way(tree, x, scalars)
        return [_on_the_sphere(tree, name, x, found[name]) for name in self.key.wrt]

    def _reversed(
        self, tree: KinematicTree, x: Inputs, trace: TraceScalars
    ) -> dict[str, list[Scalar]]:
        results = [*entries(self.of.algorithm(tree, x, trace))]
        return _adjoints(trace, results, self._weights(x), x, self.key.wrt)

    def _through_inverse_dynamics(
        self, tree: KinematicTree, x: Inputs, trace: TraceScalars
    ) -> dict[str, list[Scalar]]:
        """Differentiate ID(q, qd, qdd) = tau: M dqdd = dtau - dID, so that M^-1 goes to the left.

        M^-1 times the cotangent of qdd is that of tau, and less it weighs inverse dynamics.
        """
        zero = trace.graph.zero
        at_rest = {"qd": [zero] * tree.nv, "gravity": [zero] * 3}
        given = {"q": x["q"], "tau": x[cotangent("qdd")]}
        given |= {name: x[name] for name in self.parameters}
        plain = replace(self.of, key=self.of.key.plain)
        (response,) = plain.algorithm(tree, {**at_rest, **given}, trace)
        (efforts,) = self._inverse.algorithm(tree, x, trace)
        others = [name for name in self.key.wrt if name != "tau"]
        weights = [trace.graph.neg(trace.graph.lift(entry)) for entry in response]
        return {"tau": response, **_adjoints(trace, efforts, weights, x, others)}

    @cached_property
    def _inverse(self) -> OfFunction:
        """Inverse dynamics with the same optional inputs and parameters."""
        row = FUNCTIONS["inverse_dynamics"]
        key = KernelKey(row.name, inputs=self.key.inputs)
        return OfFunction(key, row, row.methods[""], parameters=self.parameters)

    def _weights(self, x: Inputs) -> list[Scalar]:
        return [entry for name in self.of.outputs for entry in x[cotangent(name)]]

    def _stepped(self, tree: KinematicTree, x: Inputs, name: str) -> list[Scalar]:
        """Return the cotangent of one argument on numbers."""
        weights = self._weights(x)
        point = {**x, "tau": self._efforts(tree, x)} if self._answers_inverse_dynamics else x
        found: list[Scalar] = []
        for place, entry in enumerate(point[name]):
            moved = [*point[name]]
            moved[place] = entry + 1j * _STEP
            results = entries(self.of.algorithm(tree, {**point, name: moved}, FloatScalars()))
            slopes = (np.imag(result) / _STEP for result in results)
            found.append(sum(w * slope for w, slope in zip(weights, slopes, strict=True)))
        return _on_the_sphere(tree, name, point, found)

    def _efforts(self, tree: KinematicTree, x: Inputs) -> list[Scalar]:
        (efforts,) = self._inverse.algorithm(tree, x, FloatScalars())
        return efforts

    def _counted(self, tree: KinematicTree, x: Inputs, scalars: CountingScalars) -> Sequence[Any]:
        """Count what a trace of it takes, roughly."""
        for _ in range(_TIMES):
            self.of.results(tree, {"tau": x.get(cotangent("qdd"), ()), **x}, scalars)
        return [[scalars.constant(0.0)] * array_size(name, tree) for name in self.key.wrt]


def _adjoints(
    trace: TraceScalars,
    results: Sequence[Scalar],
    weights: Sequence[Scalar],
    x: Inputs,
    wrt: Sequence[str],
) -> dict[str, list[Scalar]]:
    nodes = [node for name in wrt for node in x[name]]
    found = iter(adjoints(trace, [*map(trace.graph.lift, results)], weights, nodes))
    return {name: [next(found) for _ in x[name]] for name in wrt}


def _on_the_sphere(
    tree: KinematicTree, name: str, x: Inputs, found: Sequence[Scalar]
) -> list[Scalar]:
    """Return the cotangent of configurations whose quaternions are normalised before use.

    What changes a quaternion's norm changes no result.
    """
    found = [*found]
    if not configurations([name]):
        return found
    for body in tree.bodies:
        if body.kind == "free":
            places = range(body.q_index + 3, body.q_index + 7)
            along = sum((x[name][k] * found[k] for k in places), 0.0)
            for k in places:
                found[k] = found[k] - x[name][k] * along
    return found


def pullback_of(computation: Computation, wrt: Sequence[str]) -> Pullback:
    """Return the pullback of a function's computation by some of its inputs."""
    assert isinstance(computation, OfFunction)
    key = replace(computation.key, wrt=tuple(wrt))
    of = computation
    return Pullback(key, of.row, of.method, of.frame, of.parameters)
