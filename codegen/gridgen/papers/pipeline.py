"""Inverse dynamics of trajectories by two chains of warps (Iannello, Siciliano)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gridgen.backends import Target, target_for
from gridgen.errors import OptionError, ShapeError
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import ARRAYS, OPTIONAL_INPUTS
from gridgen.functions.types import Array, ArrayLike
from gridgen.kernel import Kernel, KernelKey
from gridgen.modules import TracedModule
from gridgen.papers.schedules import PIPELINE_ROW, PaperModule
from gridgen.robot import Robot
from gridgen.runtime.arrays.arguments import checked_call, leading_axes, results_given
from gridgen.runtime.arrays.libraries import memory_of
from gridgen.runtime.arrays.staging import Operand, numbers_of
from gridgen.runtime.arrays.streams import first_adopted
from gridgen.runtime.calls.compiled import arguments_of
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


class Pipeline(PaperCalls):
    """Inverse dynamics of a robot's trajectories, one block of GPU threads each.

    Args:
        robot: a robot of ``gridgen.load``. Without a GPU the emulated backend computes.

    Raises:
        OptionError: the robot is that of a generated module.
    """

    def inverse_dynamics(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *, out: Any = None, **options: Any
    ) -> Array:
        """Return the joint torques of trajectories; some warps compute a sample ahead of others.

        Args:
            q:       joint positions (B, T, nq) or (T, nq) [rad or m].
            qd:      joint velocities (B, T, nv) or (T, nv) [rad/s or m/s].
            qdd:     joint accelerations (B, T, nv) or (T, nv) [rad/s^2 or m/s^2].
            out:     array for the result.
            options: optional inputs of ``Robot.inverse_dynamics``. Those with one value for all
                     samples may have one per trajectory, (B, ...).

        Returns:
            tau: joint torques (B, T, nv) or (T, nv) [N m or N].

        Raises:
            ShapeError: the arrays lack the axis of samples.
            ModelError: the robot has more bodies than a warp has lanes.
            others as of ``Robot.inverse_dynamics``.
        """
        kernel, inputs = self.arguments(PIPELINE_ROW.key, {"q": q, "qd": qd, "qdd": qdd}, options)
        paths = {
            name: shape
            for name, shape in kernel.inputs.items()
            if not ARRAYS[name].shared and inputs[name] is not None
        }
        given = {
            n: inputs[n] if hasattr(inputs[n], "shape") else np.array(inputs[n]) for n in paths
        }
        lead = leading_axes(self.name, paths, given)
        if not lead:
            (nq,) = kernel.inputs["q"]
            raise ShapeError(
                f"q has shape {given['q'].shape}; {self.name} needs a row for every sample, "
                f"(B, T, {nq}) or (T, {nq})"
            )
        for name, own in kernel.inputs.items():
            value = inputs[name]
            if len(lead) > 1 and ARRAYS[name].shared and np.shape(value) == (*lead[:-1], *own):
                array = value if hasattr(value, "reshape") else np.array(value, given["q"].dtype)
                inputs[name] = array.reshape(*lead[:-1], 1, *own)
        with first_adopted(q, "q", (*inputs.values(), *results_given(out))) as first:
            call = checked_call(self.description, kernel, inputs, first, out)
            target = self.target(first)

            def run(operands: list[Operand], states: int) -> None:
                compiled = self.evaluator.compiled.find(kernel, operands[0].array, target.name)
                # A launch counts trajectories; its last argument is the samples of one and of all.
                numbers = [*numbers_of(operands), 0, call.lead[-1], states]
                compiled.kernel(arguments_of(numbers), -(-states // call.lead[-1]))

            return self.evaluator.computed(call, target, run)
