"""The thread schedule: one state per GPU thread or SIMD lane, straight-line code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from gridgen.dynamics.computation import Computation, FunctionComputation
from gridgen.dynamics.functions import (
    COMPUTATIONS,
    computation_of,
    frame_computations,
    input_sets,
    with_inputs,
)
from gridgen.functions import FUNCTIONS
from gridgen.functions.motion import MULTI_STAGE
from gridgen.kernel import Kernel, KernelKey, Work
from gridgen.model.tree import KinematicTree
from gridgen.options import MAX_PROGRAM, MAX_WITHOUT_LOOPS
from gridgen.schedules.interface import KernelSelection, is_rollout, is_search
from gridgen.schedules.team.schedule import Teams
from gridgen.schedules.thread.plan import is_longer, is_never_in_loops, jacobian_key, thread_work

_NOT_TWICE = (
    "its program would have loops over bodies, for which the jvp of a vjp is not available: use "
    "the vjp of the jvp, or of the vjp"
)


class ThreadSchedule:
    """The thread schedule of one robot."""

    name = "thread"

    def __init__(self, teams: Teams) -> None:
        self.tree = teams.tree

    def keys(self, selection: KernelSelection) -> Iterator[KernelKey]:
        """Yield the requested kernels; see ``Schedule``."""
        plain = [c for c in COMPUTATIONS.values() if not c.key.inputs]
        for key in selection.fused:
            for inputs in input_sets(
                computation_of(self.tree, key).optional_inputs, selection.inputs
            ):
                yield (several := replace(key, inputs=inputs))
                if selection.jacobians and self.refusal(several) is None:
                    yield jacobian_key(self.kernel(several))
        for key in selection.searches if selection.products else ():
            yield (correction := replace(key, variant="correction"))
            yield from (correction.product(kind, ("targets",)) for kind in selection.products)
        of_frames = self._of_frames
        if selection.frames is not None:
            of_frames = frame_computations(self.tree, selection.frames)
        for computation in (*plain, *of_frames.values()):
            if selection.has(computation.key) and (selection.variants or computation.is_called):
                for inputs in input_sets(computation.optional_inputs, selection.inputs):
                    key = with_inputs(computation, inputs).key
                    yield key
                    if not key.step:
                        by = FUNCTIONS[key.function].differentiable
                        products = [key.product(kind, by) for kind in selection.products]
                        if selection.jacobians and self.refusal(key) is None:
                            products.append(jacobian_key(self.kernel(key)))
                        yield from dict.fromkeys(products)

    def has(self, key: KernelKey) -> bool:
        """Return whether a kernel belongs to this schedule; see ``Schedule``."""
        return key.schedule == self.name and not (is_rollout(key) or is_search(key))

    def refusal(self, key: KernelKey) -> str | None:
        """Return why the robot does not support a kernel; see ``Schedule``."""
        computation = self._computation(key)
        if (reason := computation.refusal(self.tree)) is not None:
            return reason
        # Those of frames are many, and about as long as the mass matrix.
        measured = KernelKey("mass_matrix") if key.frame else key
        is_twice = len(key.products) == 2
        longest = MAX_PROGRAM if is_twice else MAX_WITHOUT_LOOPS
        if key.function == "step_gradient" and key.method == "variational":
            # Columns on dual numbers, which share their values: as measured.
            measured, longest = replace(key, function="step"), longest // (2 + self.tree.nv // 6)
        if key.function == "step_hessian" and key.method in MULTI_STAGE:
            # Hessians of all stages, each but the first multiplied by dense changes of its state.
            stages = MULTI_STAGE[key.method]
            measured = replace(key, method="semi_implicit")
            longest = (longest - 27 * self.tree.nv**3 * (stages - 1)) // stages
        if is_never_in_loops(self.tree, key) and is_longer(self.tree, measured, longest):
            return _NOT_TWICE if is_twice else self._too_long(key)
        return None

    def _too_long(self, key: KernelKey) -> str:
        """Return that a program is too long, and what makes it shorter."""
        return (
            f"its program would have more than {MAX_WITHOUT_LOOPS} operations, and it has none "
            f"with loops over bodies: {remedies(self.tree, key)}"
        )

    def kernel(self, key: KernelKey) -> Kernel:
        """Return the record of a kernel; see ``Schedule``."""
        return self._computation(key).kernel(self.tree)

    def _computation(self, key: KernelKey) -> Computation:
        if key.name in self._of_frames:
            return self._of_frames[key.name]
        return computation_of(self.tree, key)

    @cached_property
    def _of_frames(self) -> Mapping[str, FunctionComputation]:
        return frame_computations(self.tree)

    def work(self, key: KernelKey) -> Work:
        """Return the work of a kernel per state; see ``Schedule``."""
        return thread_work(self.tree, key)


def remedies(tree: KinematicTree, key: KernelKey) -> str:
    """Return what makes the program of a kernel shorter."""
    model = tree.contact_model
    shorter = {
        "load the robot with fewer constraints": tree.constraints,
        "load it with fewer pairs of links": model.contacts,
        'limit those that act at a time, contact={"max_pairs": 4}': any(
            len(contact.solids) == 2 for contact in model.contacts
        )
        and not model.max_pairs,
        "load it without convention=": tree.options.convention != "pinocchio",
        "choose another integrator": key.method in MULTI_STAGE,
        "take vjp or jvp of step": key.function == "step_gradient",
    }
    return ", or ".join(["lock joints", *(way for way, applies in shorter.items() if applies)])
