"""Rollouts: a thread takes its state from step to step, which it keeps in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gridgen.dynamics.arrays import array_shape
from gridgen.dynamics.functions import computation_of, input_sets
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import FEEDBACK, OPTIONAL_INPUTS
from gridgen.kernel import Kernel, KernelKey
from gridgen.schedules.interface import Wanted
from gridgen.schedules.team import Teams

_ROW = FUNCTIONS["rollout"]
_DIFFERENCE = KernelKey("difference")


def is_rollout(key: KernelKey) -> bool:
    """Tell whether a kernel takes states from step to step."""
    return key.function == _ROW.name


class RolloutSchedule:
    """The rollouts of one robot, one for each integrator.

    Args:
        teams: of the robot, which it does without.
    """

    name = "rollout"

    def __init__(self, teams: Teams) -> None:
        self.tree = teams.tree

    def keys(self, wanted: Wanted) -> Iterator[KernelKey]:
        """Yield the kernels asked for; see ``Schedule``."""
        if _ROW.name in wanted.functions:
            for integrator in _ROW.methods:
                for inputs in input_sets(_ROW.optional_inputs, wanted.inputs):
                    yield KernelKey(_ROW.name, integrator, inputs=inputs)

    def has(self, key: KernelKey) -> bool:
        """Tell whether a kernel is one of this schedule; see ``Schedule``."""
        return is_rollout(key)

    def refusal(self, key: KernelKey) -> str | None:
        """Return why the robot cannot have a kernel; see ``Schedule``."""
        return computation_of(self.tree, step_of(key).name).refusal(self.tree)

    def kernel(self, key: KernelKey) -> Kernel:
        """Return the record of a kernel; see ``Schedule``."""
        optional = (array for name in key.inputs for array in OPTIONAL_INPUTS[name].arrays)
        parameters = (name for name in _ROW.parameters if name in self.tree.parameters)
        inputs = (*_ROW.inputs, *parameters, *optional, *FEEDBACK)
        title = _ROW.title
        if key.inputs:
            title += ",\nwith " + " and ".join(OPTIONAL_INPUTS[name].text for name in key.inputs)
        return Kernel(
            key=key,
            same=key,
            title=title,
            source=_ROW.methods[key.method].source,
            inputs={name: array_shape(name, self.tree) for name in inputs},
            outputs={name: array_shape(name, self.tree) for name in _ROW.results},
            calls=(step_of(key), _DIFFERENCE),
        )


def step_of(key: KernelKey) -> KernelKey:
    """Return the kernel whose program takes a step of a rollout."""
    return replace(key, function="step")
