"""Calls of the kernels of this package, for a robot of ``gridgen.load``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gridgen.backends import Target, target_for
from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import OPTIONAL_INPUTS
from gridgen.functions.types import Array
from gridgen.kernel import Kernel, KernelKey
from gridgen.modules import TracedModule
from gridgen.papers.schedules import PaperModule
from gridgen.robot import Robot
from gridgen.runtime.arrays.libraries import memory_of
from gridgen.runtime.calls.evaluation import Evaluator


class PaperCalls:
    """A robot whose calls use kernels of this package.

    Args:
        robot: a robot of ``gridgen.load``.

    Attributes:
        name:      its name.
        description: its record.
        kernels:   its kernels, including those of this package.
        evaluator: evaluates them.

    Raises:
        OptionError: the robot is another object, or that of a generated module.
    """

    def __init__(self, robot: Robot) -> None:
        known = robot._module if isinstance(robot, Robot) else None
        if not isinstance(known, TracedModule):
            raise OptionError(f"the robot is {robot!r}; give a robot of gridgen.load()")
        module = PaperModule(known.tree)
        self.name, self._backend = robot.name, robot._backend
        self.description, self.kernels = module.description, module.kernels
        self.evaluator = Evaluator(module, robot._backend)

    def arguments(
        self, key: KernelKey, arrays: Mapping[str, Any], options: Mapping[str, Any]
    ) -> tuple[Kernel, dict[str, Any]]:
        """Return the kernel of a call and its inputs by name."""
        given = {name: value for name, value in options.items() if value is not None}
        found = tuple(name for name, one in OPTIONAL_INPUTS.items() if given.keys() & {*one.arrays})
        kernel = self.kernels.find(replace(key, inputs=found))
        for name in options:
            if name not in FUNCTIONS[key.function].options or name in given.keys() - kernel.inputs:
                raise OptionError(f"{self.name}: {kernel.name} has no input {name}")
        return kernel, kernel.nothing | {**arrays, **given}

    def target(self, q: Array) -> Target:
        """Return the target of kernels of teams for arrays like ``q``."""
        if self._backend == "auto":
            return target_for(memory_of(q), teams=True)
        return self.evaluator.compiled.target(q, None)
