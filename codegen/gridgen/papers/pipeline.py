"""Inverse dynamics of trajectories by two chains of warps (Iannello, Siciliano)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridgen.errors import ShapeError
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.types import Array, ArrayLike
from gridgen.papers.calls import PaperCalls
from gridgen.papers.schedules import PIPELINE_ROW
from gridgen.runtime.arrays.arguments import checked_call, leading_axes, results_given
from gridgen.runtime.arrays.staging import Operand, numbers_of
from gridgen.runtime.arrays.streams import first_adopted
from gridgen.runtime.calls.compiled import arguments_of


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
