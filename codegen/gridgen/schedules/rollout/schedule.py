"""Rollouts: one thread integrates a state, in registers, over all time steps; backward passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gridgen.dynamics.computation import array_shape
from gridgen.dynamics.functions import computation_of, input_sets
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import (
    BEGINNING_AND_TORQUES,
    FEEDBACK,
    OPTIONAL_INPUTS,
    cotangent,
)
from gridgen.functions.record import EXCESS, EXCESS_APART
from gridgen.kernel import SEVERAL, WITH_EFFORTS, Kernel, KernelKey, Work
from gridgen.schedules.interface import KernelSelection, is_rollout
from gridgen.schedules.team.schedule import Teams
from gridgen.schedules.thread.schedule import ThreadSchedule

_ROW = FUNCTIONS["rollout"]
_DIFFERENCE = KernelKey("difference")
_BEHIND = _DIFFERENCE.product("vjp", ("q0",))
# The inputs of every pullback of a step: the state, and the torques that include feedback.
_STATE_AND_EFFORTS = {"q0": "q", "qd0": "qd", "tau": "tau"}


class RolloutSchedule:
    """The rollouts of one robot, one for each integrator."""

    name = "rollout"

    def __init__(self, teams: Teams) -> None:
        self.tree = teams.tree
        self._thread = ThreadSchedule(teams)

    def keys(self, selection: KernelSelection) -> Iterator[KernelKey]:
        """Yield the requested kernels; see ``Schedule``."""
        for plain in filter(selection.has, (KernelKey(_ROW.name, own) for own in _ROW.methods)):
            for inputs in input_sets(_ROW.optional_inputs, selection.inputs):
                yield (key := replace(plain, inputs=inputs))
                if selection.variants:
                    yield replace(key, variant=WITH_EFFORTS)
                    yield replace(key, parts=(EXCESS,))
                if "vjp" in selection.products:
                    yield key.product("vjp", BEGINNING_AND_TORQUES)

    def has(self, key: KernelKey) -> bool:
        """Return whether a kernel belongs to this schedule; see ``Schedule``."""
        return is_rollout(key)

    def refusal(self, key: KernelKey) -> str | None:
        """Return why the robot does not support a kernel; see ``Schedule``."""
        if key.wrt:
            return self._thread.refusal(step_back(key))
        reasons = (computation_of(self.tree, one).refusal(self.tree) for one in calls_of(key))
        return next(filter(None, reasons), None)

    def work(self, key: KernelKey) -> Work:
        """Return the work of a kernel per step; see ``Schedule``."""
        return self._thread.work(repeated(key))

    def kernel(self, key: KernelKey) -> Kernel:
        """Return the record of a kernel; see ``Schedule``.

        A backward pass reads checkpoints of the forward pass instead of the initial state, and
        derivatives by the path. It calls the programs of the forward pass, then their pullbacks.
        """
        optional = (array for name in key.inputs for array in OPTIONAL_INPUTS[name].arrays)
        parameters = (name for name in _ROW.parameters if name in self.tree.parameters)
        inputs = (*_ROW.inputs, *parameters, *optional, *FEEDBACK)
        outputs = _ROW.results
        title = _ROW.methods[key.method].titled(_ROW.title)
        calls = calls_of(key)
        step = computation_of(self.tree, calls[0])
        seen = step.outputs[len(_ROW.results) :]
        if key.variant:
            outputs, title = (*outputs, "tau_path"), f"{title},\nand the applied joint torques"
        if excess := excess_of(key):
            inputs = (*inputs, *computation_of(self.tree, excess).inputs[1:])
            outputs, title = (*outputs, "ends"), f"{title},\nwhich end beyond bounds"
        if seen:
            outputs, title = (*outputs, *seen), f"{title},\nand {', '.join(seen)} in each step"
        if key.wrt:
            inputs = (*_ROW.results, *inputs[2:], *map(cotangent, _ROW.results))
            outputs = tuple(map(cotangent, key.wrt))
            title = f"Vector-Jacobian product by {', '.join(key.wrt)}:\n{title}"
        if key.inputs:
            title += ",\nwith " + " and ".join(OPTIONAL_INPUTS[name].text for name in key.inputs)
        return Kernel(
            key=key,
            same=key,
            title=title,
            source=_ROW.methods[key.method].source,
            inputs={name: array_shape(name, self.tree) for name in inputs},
            outputs={name: array_shape(step.kinds.get(name, name), self.tree) for name in outputs},
            calls=calls,
            kinds={name: kind for name, kind in step.kinds.items() if name in seen},
        )


def step_of(key: KernelKey) -> KernelKey:
    """Return the kernel whose program computes a step of a rollout, and what is observed."""
    step = replace(key.primal, function="step", variant="", parts=())
    observed = tuple(part for part in key.parts if part not in (EXCESS, EXCESS_APART))
    if not observed:
        return step
    return KernelKey(SEVERAL, inputs=key.inputs, parts=(step.plain, *observed))


def excess_of(key: KernelKey) -> KernelKey | None:
    """Return the kernel whose program tests whether a state has ended, if there is one."""
    return next((part for part in key.parts if part in (EXCESS, EXCESS_APART)), None)


def calls_of(key: KernelKey) -> tuple[KernelKey, ...]:
    """Return the kernels whose programs a rollout calls."""
    back = (step_back(key), _BEHIND) if key.wrt else ()
    excess = excess_of(key)
    return (step_of(key), _DIFFERENCE, *back, *([excess] if excess else []))


def step_back(key: KernelKey) -> KernelKey:
    """Return the kernel whose program computes the backward pass of a step."""
    others = (name for name in key.wrt if name not in _STATE_AND_EFFORTS)
    return step_of(key).product("vjp", (*_STATE_AND_EFFORTS.values(), *others))


def repeated(key: KernelKey) -> KernelKey:
    """Return the kernel whose program dominates the time of a rollout."""
    return step_back(key) if key.wrt else step_of(key)
