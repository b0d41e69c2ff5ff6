"""Data of the templates of rollouts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gridgen.functions.arrays import (
    BOUNDS,
    CONSTANT_IN_TIME,
    CONSTANT_PARAMETERS,
    FEEDBACK,
    OPEN,
    cotangent,
)
from gridgen.kernel import MAX_STAGED, Kernel, KernelKey, Shape
from gridgen.model.tree import KinematicTree
from gridgen.naming import number_literal
from gridgen.schedules.rollout.schedule import excess_of
from gridgen.schedules.thread.plan import Programs
from gridgen.schedules.views import ArrayView, array_view, braces, definition, wrapped
from gridgen.symbolic.program import Program

# Names that templates use for arrays of programs, where they differ: the arrays of a step, of the
# difference from a reference, and of their backward passes.
_OF_STEP = {
    "q": "state.now().q",
    "qd": "state.now().qd",
    "dt": "step.x",
    "q_next": "state.next().q",
    "qd_next": "state.next().qd",
    "q_next_bar": "bar.now().q",
    "qd_next_bar": "bar.now().qd",
    "q_bar": "bar.next().q",
    "qd_bar": "bar.next().qd",
    "excess": "&beyond",
}
_DIFFERENCE = "difference"
_OF_DIFFERENCE = {
    "q0": "state.now().q",
    "q1": "reference.x",
    "v": "way.x",
    "v_bar": "way_bar.x",
    "q0_bar": "q_part",
}
#: Arguments with the options of a rollout, the words of ``RolloutWords`` in pairs.
_OPTIONS = ("steps_substeps", "every_begins", "follows_limits", "between")
# Least numbers of a result that a warp writes at once for each state: adjacent ones, so that most
# sectors of 32 bytes are written whole.
_TOGETHER = 12
# The additional outputs of a backward pass.
_ENDS = {"q0_bar": "bar.now().q", "qd0_bar": "bar.now().qd"}


@dataclass(frozen=True)
class RolloutArrayView(ArrayView):
    """One argument of a rollout."""

    shape: Shape  #: for one state and one time.
    kind: str  #: type of the parameter.
    result: str  #: type of a result in a template.
    is_input: bool  #: whether it is read.
    over_time: bool  #: whether it has a time axis.
    is_now: bool  #: whether the program of a step reads its value at that time.
    is_parameter: bool  #: whether it is a parameter of the robot, constant in time.
    is_bound: bool  #: whether it is a bound at which states end.
    known: str  #: declaration of that value; joint torques are modified before use.

    @property
    def is_open(self) -> bool:
        """Whether it has no fixed length."""
        return OPEN in self.shape


@dataclass(frozen=True)
class CallView:
    """A call of a program: the function with its namespace, and its arguments."""

    function: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class SumView:
    """Derivatives by an input of the steps: the sum over all steps."""

    name: str  #: of the input: ``gravity``.
    size: int  #: of the input.
    result: str  #: the sum: ``gravity_bar``.
    is_of_efforts: bool  #: whether the input is the joint torques.
    is_written: bool  #: whether the sum is a result.
    may_move: bool  #: whether it has one value per time if its input has a time axis.


@dataclass(frozen=True)
class EndView:
    """A result that is known at the end of a backward pass."""

    result: str
    size: int
    value: str


@dataclass(frozen=True)
class RolloutView:
    """One rollout or backward pass, and its entry points."""

    name: str  #: ``rollout_rk4``.
    title: tuple[str, ...]  #: what it computes, lines.
    source: str  #: where the algorithm is described.
    template: str  #: path of its template.
    called: tuple[str, ...]  #: names of the programs that it calls.
    step: CallView  #: the program of a step.
    difference: CallView  #: the program of the difference from the reference.
    step_back: CallView | None  #: the pullback of a step, in a backward pass.
    difference_back: CallView | None  #: the pullback of the difference from the reference.
    excess: CallView | None  #: the excess of a state over its bounds, where states may end.
    inputs: tuple[RolloutArrayView, ...]  #: arrays read.
    outputs: tuple[RolloutArrayView, ...]  #: arrays written.
    traits: tuple[str, ...]  #: definitions of its ``gridgen::RolloutTraits``, in lines.
    nq: int  #: number of positions.
    nv: int  #: number of velocities.
    scratch: int  #: numbers of scratch memory per state for the loops of the programs.
    has_efforts: bool  #: whether to write the applied joint torques.
    seen: tuple[RolloutArrayView, ...]  #: what else each step computes, to write.
    trail: int  #: numbers of scratch memory per state and substep of a backward pass.
    is_own: bool  #: whether it is for CPUs only, in the namespace ``straight``.
    #: the velocities with limited joint torques, and the limits.
    limits: tuple[tuple[int, str], ...]
    sums: tuple[SumView, ...]  #: sums over the steps of a backward pass.
    ends: tuple[EndView, ...]  #: the other results of a backward pass.
    quaternions: tuple[int, ...]  #: offsets in q of the quaternions to normalize before use.

    @property
    def arrays(self) -> tuple[RolloutArrayView, ...]:
        """All arrays, in the order of the arguments."""
        return self.inputs + self.outputs

    @property
    def scope(self) -> str:
        """Its namespace, relative to the robot's."""
        return "simd::straight::" if self.is_own else ""

    @property
    def _scratch(self) -> list[str]:
        return ["scratch"] * bool(self.scratch or self.trail)

    @property
    def parameters(self) -> Sequence[str]:
        """The parameters of a kernel, in lines."""
        arrays = (
            f"gridgen::{'Input' if array.is_input else 'Output'}<T> {array.name}"
            + f", gridgen::Pair {array.name}_time" * array.over_time
            for array in self.arrays
        )
        options = (f"gridgen::Pair {pair}" for pair in _OPTIONS)
        scratch = (f"gridgen::Output<T> {name}" for name in self._scratch)
        return wrapped([*arrays, *options, *scratch, "long long n)"])

    @property
    def arguments(self) -> Sequence[str]:
        """The arguments that a kernel passes on, in lines."""
        arrays = (
            f"over_time({array.name}{f', {array.name}_time' * array.over_time})"
            for array in self.arrays
        )
        *words, last = ("n", f"{{{', '.join(_OPTIONS)}}}", *arrays, *self._scratch)
        return wrapped([*words, f"{last});"], 92)


class PathStaging(NamedTuple):
    """Shared memory for results over time; see ``gridgen::RowsOverTime``."""

    steps: tuple[int, ...]  #: steps of each result that a warp writes at once; 0 without staging.
    numbers: int  #: elements per state.


def plan_paths(kernel: Kernel) -> PathStaging:
    """Plan the shared memory of a rollout for its results over time."""
    together, numbers = [], 0
    for name, shape in kernel.outputs.items():
        size, steps = math.prod(shape), 1
        while steps * size < _TOGETHER:
            steps *= 2
        pitch = steps * size | 1
        is_staged = name not in CONSTANT_IN_TIME and numbers + pitch <= MAX_STAGED
        together.append(steps * is_staged)
        numbers += pitch * is_staged
    return PathStaging(tuple(together), numbers)


def rollout_view(
    tree: KinematicTree, kernel: Kernel, programs: Mapping[str, Programs], on_cpu: str = ""
) -> RolloutView:
    """Describe a rollout of a robot."""
    arrays = list(_array_views(kernel))
    count = len(kernel.inputs)
    called = [programs[key.name] for key in kernel.calls]
    is_own = bool(on_cpu) and not all(both.are_one for both in called)
    step, difference, *rest = (
        _call_view(kernel, key, programs[key.name], on_cpu, is_own) for key in kernel.calls
    )
    excess = rest.pop() if excess_of(kernel.key) else None
    scratch = max((both.cpu if on_cpu else both.gpu).scratch for both in called)
    trail = tree.nq + tree.nv if rest else 0
    return RolloutView(
        name=kernel.name,
        title=tuple(f"{kernel.title}.".splitlines()),
        source=kernel.source,
        template=f"rollout/{'back' if rest else 'device'}.jinja",
        called=tuple(key.name for key in kernel.calls),
        step=step,
        difference=difference,
        step_back=rest[0] if rest else None,
        difference_back=rest[1] if rest else None,
        excess=excess,
        inputs=tuple(arrays[:count]),
        outputs=tuple(arrays[count:]),
        traits=tuple(_traits(arrays, count, scratch, trail, plan_paths(kernel))),
        nq=tree.nq,
        nv=tree.nv,
        scratch=scratch,
        has_efforts="tau_path" in kernel.outputs,
        seen=tuple(array for array in arrays[count:] if array.name in _seen(kernel)),
        trail=trail,
        is_own=is_own,
        limits=tuple(
            (j, number_literal(limit))
            for j, limit in enumerate(tree.effort_limits)
            if limit != float("inf")
        ),
        sums=tuple(_sum_views(kernel, called[2].cpu)) if rest else (),
        ends=tuple(_end_views(kernel, arrays[count:])) if rest else (),
        quaternions=tree.quaternions,
    )


def _seen(kernel: Kernel) -> list[str]:
    """Return the outputs of a step other than the next state."""
    own = ("q_path", "qd_path", "tau_path", "ends")
    return [name for name in kernel.outputs if name not in own and not kernel.key.wrt]


def _call_view(
    kernel: Kernel, key: KernelKey, both: Programs, on_cpu: str, is_own: bool
) -> CallView:
    """Describe the call of a program on a CPU or a GPU."""
    program = both.cpu if on_cpu else both.gpu
    scope = f"::{on_cpu}::{'' if both.are_one else 'simd::straight::'}" if is_own else ""
    arrays = (*program.inputs, *program.outputs)
    if key.function == _DIFFERENCE:
        known = _OF_DIFFERENCE
    else:
        others = {array.name: f"{array.name}_now.x" for array in program.inputs}
        others |= {name: f"{name}.row()" for name, shape in kernel.inputs.items() if OPEN in shape}
        others |= {cotangent(name): f"{name}_part" for name in key.wrt}
        others |= {name: f"{name}_seen.x" for name in _seen(kernel)}
        known = others | _OF_STEP
    scratch = ("scratch",) * bool(program.scratch)
    return CallView(f"{scope}{key.name}", (*(known[array.name] for array in arrays), *scratch))


def _traits(
    arrays: Sequence[RolloutArrayView], inputs: int, scratch: int, trail: int, staged: PathStaging
) -> Iterator[str]:
    """Yield definitions that entry points read."""
    numbers = {"inputs": inputs, "configurations": 1}
    more = {"scratch": scratch, "trail": trail, "staged": staged.numbers}
    numbers |= {name: size for name, size in more.items() if size}
    words = ", ".join(f"{name} = {value}" for name, value in numbers.items())
    words += f", together[] = {braces(staged.steps)}"
    over_time = braces(str(array.over_time).lower() for array in arrays)
    yield from definition(f"gridgen::Axes axes[] = {braces(braces(a.shape) for a in arrays)}")
    yield from definition(f"int {words}")
    yield from definition(f"bool over_time[] = {over_time}{', is_backward = true' * bool(trail)}")


def _sum_views(kernel: Kernel, step_back: Program) -> Iterator[SumView]:
    """Yield the sums over the steps of a backward pass, except derivatives by the state."""
    of_efforts = cotangent("tau")
    inputs = {cotangent(array.name): array.name for array in step_back.inputs}
    for array in step_back.outputs:
        name = inputs[array.name]
        if name not in ("q", "qd"):
            yield SumView(
                name,
                array.size,
                array.name,
                array.name == of_efforts,
                array.name in kernel.outputs,
                array.name not in (of_efforts, *CONSTANT_IN_TIME),
            )


def _end_views(kernel: Kernel, outputs: Sequence[RolloutArrayView]) -> Iterator[EndView]:
    sums = {cotangent(name): f"{name}_sum.x" for name in CONSTANT_PARAMETERS}
    of_time = {cotangent("dt"): "gridgen::Substep<T>(dt_sum, options).x"}
    known = _ENDS | sums | of_time
    for array in outputs:
        if array.name in known:
            yield EndView(array.name, array.size, known[array.name])


def _array_views(kernel: Kernel) -> Iterator[RolloutArrayView]:
    checkpoints = ("q_path", "qd_path") if kernel.key.wrt else ()
    for number, (name, shape) in enumerate({**kernel.inputs, **kernel.outputs}.items()):
        over_time = name not in CONSTANT_IN_TIME
        is_input = number < len(kernel.inputs)
        result = f"Out{number - len(kernel.inputs) + 1}"
        yield RolloutArrayView(
            **vars(array_view(name, shape, kernel.kind(name))),
            shape=shape,
            kind="const Input&" if is_input else f"{result}&&",
            result=result,
            is_input=is_input,
            over_time=over_time,
            is_parameter=name in CONSTANT_PARAMETERS,
            is_bound=is_input and name in BOUNDS,
            is_now=is_input and over_time and _is_read_by_steps(name, checkpoints),
            known="auto" if name == "tau" else "const auto",
        )


def _is_read_by_steps(name: str, checkpoints: Sequence[str]) -> bool:
    """Return whether a step reads the current value of an array with a time axis."""
    apart = (*checkpoints, *map(cotangent, checkpoints), *FEEDBACK)
    return name not in apart
