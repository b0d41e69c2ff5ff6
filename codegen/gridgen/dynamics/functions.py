"""What the kernels of a robot compute: the registry's functions, bound to their algorithms.

A computation is named as its kernel of the thread schedule; kernels of other schedules compute
the same.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from gridgen.dynamics import frames, refusals
from gridgen.dynamics.arrays import array_shape
from gridgen.dynamics.kinematics import BaseMotion
from gridgen.functions import FUNCTIONS, GENERATED, Function
from gridgen.functions.arrays import OPTIONAL_INPUTS
from gridgen.functions.record import Algorithm
from gridgen.functions.steps import STEPS, Step
from gridgen.functions.types import REFERENCES
from gridgen.kernel import Kernel, KernelKey, TeamLaunch
from gridgen.model.tree import KinematicTree
from gridgen.naming import comment, ident, unique
from gridgen.symbolic.scalars import Scalar, Scalars, entries

Inputs = Mapping[str, Sequence[Scalar]]


@dataclass(frozen=True)
class Computation:
    """What one kernel computes, and those of other schedules with the same arrays.

    Attributes:
        key:    of the kernel of the thread schedule.
        row:    the function, or the step on the way to one.
        method: the algorithm.
        frame:  the frame's name, where the function is about one.
    """

    key: KernelKey
    row: Function | Step
    method: Algorithm
    frame: str = ""

    @property
    def name(self) -> str:
        """Its name in C++."""
        return self.key.name

    @property
    def title(self) -> str:
        """What it computes, lines of at most 90 columns."""
        title = self.row.title
        if self.frame:
            title += f" of {comment(self.frame)} ({self.key.reference})"
        if self.key.inputs:
            title += ",\nwith " + " and ".join(OPTIONAL_INPUTS[i].text for i in self.key.inputs)
        return title

    @property
    def source(self) -> str:
        """Where the algorithm is described."""
        return self.method.source

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the arrays read, in order."""
        optional = (array for name in self.key.inputs for array in OPTIONAL_INPUTS[name].arrays)
        return (*self.row.inputs, *optional)

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """Optional inputs that its variants can read."""
        return () if isinstance(self.row, Step) else self.row.optional_inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the arrays written, in order."""
        return self.row.results

    @property
    def is_called(self) -> bool:
        """Whether some call of a user's leads to its program."""
        return not isinstance(self.row, Step) or self.row.is_called

    def refusal(self, tree: KinematicTree) -> str | None:
        """Return why a robot cannot have it, with the remedy, or ``None``."""
        reasons = (getattr(refusals, name)(tree) for name in self.method.refusals)
        return next(filter(None, reasons), None)

    def algorithm(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> list[list[Scalar]]:
        """Compute the outputs from the inputs over any scalar; entries of arrays by rows."""
        return [list(entries(result)) for result in self.results(tree, x, scalars)]

    def results(self, tree: KinematicTree, x: Inputs, scalars: Scalars) -> Sequence[Any]:
        """Compute the outputs from the inputs over any scalar, as the algorithm returns them.

        The algorithm is given what its parameters are named after.
        """
        known = {"tree": tree, "scalars": scalars, "frame": self.frame, **x}
        known["reference"] = self.key.reference
        if "gravity" in x:
            known["base"] = _base(x)
        results = self._algorithm(**{n: known[n] for n in self._parameters if n in known})
        return results if len(self.outputs) > 1 else (results,)

    @cached_property
    def _algorithm(self) -> Any:
        return pkgutil.resolve_name(f"gridgen.dynamics.{self.method.algorithm}")

    @cached_property
    def _parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self._algorithm).parameters)

    def kernel(
        self,
        tree: KinematicTree,
        key: KernelKey | None = None,
        source: str | None = None,
        team: TeamLaunch | None = None,
    ) -> Kernel:
        """Return the record of a robot's kernel that computes this.

        Args:
            tree:   the robot.
            key:    which kernel; by default that of the thread schedule.
            source: where its way to compute it is described, if elsewhere.
            team:   how it is launched, if with a team of threads for a state.
        """
        return Kernel(
            key=key or self.key,
            same=self.key,
            title=self.title,
            source=source or self.source,
            inputs={name: array_shape(name, tree) for name in self.inputs},
            outputs={name: array_shape(name, tree) for name in self.outputs},
            team=team,
        )


def _base(x: Inputs) -> BaseMotion:
    gx, gy, gz = x["gravity"]
    velocity, acceleration = x.get("base_velocity"), x.get("base_acceleration")
    return BaseMotion(
        (gx, gy, gz),
        None if velocity is None else tuple(velocity),
        None if acceleration is None else tuple(acceleration),
    )


def _plain() -> Iterator[Computation]:
    for name in GENERATED:
        row = FUNCTIONS[name]
        for method, algorithm in row.methods.items():
            if algorithm.algorithm and not row.of_frame:
                yield Computation(KernelKey(name, method), row, algorithm)
    for name, step in STEPS.items():
        key = KernelKey(step.function, step.method, step=name)
        yield Computation(key, step, step.algorithm)


def input_sets(
    optional: Sequence[str], choices: Sequence[str] | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the sets of optional inputs that variants read: none, and all that are chosen.

    Args:
        optional: those that a function can read.
        choices:  of ``OPTIONAL_INPUTS``; by default all.
    """
    yield ()
    chosen = tuple(name for name in optional if choices is None or name in choices)
    if chosen:
        yield chosen


def with_inputs(computation: Computation, inputs: Sequence[str]) -> Computation:
    """Return the variant of a computation that reads some optional inputs."""
    return replace(computation, key=replace(computation.key, inputs=tuple(inputs)))


#: What every robot may have, by name; without optional inputs, and with all.
COMPUTATIONS = {
    variant.name: variant
    for plain in _plain()
    for inputs in input_sets(plain.optional_inputs)
    for variant in [with_inputs(plain, inputs)]
}
_EVERY = {
    variant.name: variant
    for plain in _plain()
    for count in range(len(plain.optional_inputs) + 1)
    for inputs in combinations(plain.optional_inputs, count)
    for variant in [with_inputs(plain, inputs)]
}


def computation_of(tree: KinematicTree, name: str) -> Computation:
    """Return a computation of a robot by its name: that of a kernel of the thread schedule."""
    return _EVERY[name] if name in _EVERY else frame_computations(tree)[name]


def frame_computations(
    tree: KinematicTree, chosen: Sequence[str] | None = None
) -> dict[str, Computation]:
    """Return the computations of a robot's frames by name.

    Args:
        tree:   the robot.
        chosen: names of frames; by default all.
    """
    found: dict[str, Computation] = {}
    idents = frame_idents(tree)
    for frame in tree.frame_names if chosen is None else chosen:
        frames.find_frame(tree, frame)
        for reference in REFERENCES:
            for row in (FUNCTIONS[name] for name in GENERATED if FUNCTIONS[name].of_frame):
                key = KernelKey(row.name, frame=idents[frame], reference=reference)
                found[key.name] = Computation(key, row, row.methods[""], frame)
    return found


def frame_idents(tree: KinematicTree) -> dict[str, str]:
    """Return the identifier of every frame, by its name."""
    # The Jacobian of a frame "dot_qd_x" shall not be called as the drift of a frame "x" is.
    names = [f"n {name}" if ident(name).startswith("dot_qd") else name for name in tree.frame_names]
    return dict(zip(tree.frame_names, unique(names), strict=True))


def refusal(tree: KinematicTree, name: str) -> str | None:
    """Return why a robot cannot have a computation, by name, with the remedy, or ``None``."""
    return computation_of(tree, name).refusal(tree)
