"""What the templates see of rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gridgen.emit.views.function import ArrayView, array_view
from gridgen.functions.arrays import CONSTANT_IN_TIME, FEEDBACK, PARAMETERS
from gridgen.kernel import Kernel
from gridgen.model.tree import KinematicTree
from gridgen.schedules.thread import Programs

# The types of results in a template.
_PATHS = {"q_path": "Positions", "qd_path": "Velocities"}


@dataclass(frozen=True)
class RolloutArrayView(ArrayView):
    """One argument of a rollout.

    Attributes:
        index:     its place among the arguments, each of three words.
        kind:      type of the parameter.
        is_now:    whether the program of a step reads what it holds at that time.
        is_parameter: whether it reads what it holds at all times.
        known:     how that is declared: efforts are changed on the way.
        parameter: of a kernel.
        of_state:  what a thread of a GPU has of it.
        of_packs:  what a pack of states has of it.
    """

    index: int
    kind: str
    is_now: bool
    is_parameter: bool
    known: str
    parameter: str
    of_state: str
    of_packs: str


@dataclass(frozen=True)
class RolloutView:
    """One rollout and its entry points.

    Attributes:
        name:    ``rollout_rk4``.
        title:   what it computes, lines.
        source:  where the algorithm is described.
        step:    name of the program of a step.
        difference: name of the program of the way to the reference.
        scopes:  for step and difference each, the namespace to call it in.
        is_own:  whether it is a CPU's alone, in the namespace ``straight``.
        inputs:  arrays read.
        outputs: arrays written.
        course:  the arguments that tell how far it goes, as the CPU's entry point sees them.
        nq:      number of positions.
        nv:      number of velocities.
        room:    numbers that the loops of the programs keep of a state.
        of_loops: for step and difference each, the last argument of a program with loops.
        limits:  the velocities whose efforts are limited, and the limits.
    """

    name: str
    title: tuple[str, ...]
    source: str
    step: str
    difference: str
    inputs: tuple[RolloutArrayView, ...]
    outputs: tuple[RolloutArrayView, ...]
    course: str
    nq: int
    nv: int
    room: int
    of_loops: tuple[str, str]
    scopes: tuple[str, str]
    is_own: bool
    limits: tuple[tuple[int, str], ...]

    @property
    def arrays(self) -> tuple[RolloutArrayView, ...]:
        """All, in the order in which they are handed over."""
        return self.inputs + self.outputs

    @property
    def of_step(self) -> tuple[str, ...]:
        """What the program of a step is given, after positions and velocities."""
        known = ("dt", *PARAMETERS)
        step = [array.name for array in self.inputs if array.is_now or array.name in known]
        return tuple("step" if name == "dt" else f"{name}_now" for name in step)


def rollout_view(
    tree: KinematicTree, kernel: Kernel, programs: Mapping[str, Programs], on_cpu: str = ""
) -> RolloutView:
    """Describe a rollout of a robot.

    Args:
        tree:     the robot.
        kernel:   the rollout.
        programs: those that it calls, by name.
        on_cpu:   the robot's namespace, for the rollout as a CPU computes it.
    """
    arrays = list(_array_views(kernel))
    count = len(kernel.inputs)
    words = sum(1 if name in CONSTANT_IN_TIME else 2 for name in (*kernel.inputs, *kernel.outputs))
    step, difference = kernel.calls
    called = [programs[key.name] for key in kernel.calls]
    rooms = [both.cpu.room if on_cpu else both.gpu.room for both in called]
    is_own = bool(on_cpu) and not all(both.are_one for both in called)
    step_scope, difference_scope = (
        f"::{on_cpu}::{'' if both.are_one else 'simd::straight::'}" if is_own else ""
        for both in called
    )
    return RolloutView(
        name=kernel.name,
        title=tuple(f"{kernel.title}.".splitlines()),
        source=kernel.source,
        step=step.name,
        difference=difference.name,
        inputs=tuple(arrays[:count]),
        outputs=tuple(arrays[count:]),
        course=f"gridgen::pair(arrays[{words}]), gridgen::pair(arrays[{words + 1}])",
        nq=tree.nq,
        nv=tree.nv,
        room=max(rooms),
        of_loops=(", room" if rooms[0] else "", ", room" if rooms[1] else ""),
        scopes=(step_scope, difference_scope),
        is_own=is_own,
        limits=tuple(
            (j, repr(limit)) for j, limit in enumerate(tree.effort_limits) if limit != float("inf")
        ),
    )


def _array_views(kernel: Kernel) -> Iterator[RolloutArrayView]:
    index = 0
    for number, (name, shape) in enumerate({**kernel.inputs, **kernel.outputs}.items()):
        in_time = name not in CONSTANT_IN_TIME
        is_input = number < len(kernel.inputs)
        constness = "const " if is_input else ""
        yield RolloutArrayView(
            **vars(array_view(name, shape)),
            index=index,
            kind="const Input&" if is_input else f"{_PATHS[name]}&&",
            is_parameter=name in PARAMETERS,
            is_now=is_input and in_time and name not in FEEDBACK,
            known="auto" if name == "tau" else "const auto",
            parameter=f"gridgen::Strided<{constness}T> {name}"
            + f", gridgen::Pair {name}_time" * in_time,
            of_state=f"gridgen::in_time({name}[i]" + f", {name}_time" * in_time + ")",
            of_packs=f"gridgen::PacksInTime<S>(arrays + {index}, {str(in_time).lower()}, i, count)"
            if is_input
            else name,
        )
        index += 1 + in_time
