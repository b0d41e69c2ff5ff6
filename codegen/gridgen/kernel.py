"""What tells the kernels of a robot apart, and what is known of each.

No name is ever taken apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

Shape = tuple[int, ...]

#: Threads of a GPU that compute in step.
WARP = 32
#: Numbers of a state that may lie in shared memory at once. A warp with doubles then takes the
#: 48 kB that every device grants a block, and a device with 228 kB holds nine with floats: no fewer
#: than it holds with 255 registers.
MOST_STAGED = 192


@dataclass(frozen=True)
class KernelKey:
    """One kernel of a robot, whatever the element type.

    Attributes:
        function:  what it computes, as users name it: ``forward_dynamics``.
        method:    the algorithm, where a function has several: ``aba``.
        schedule:  how a state is laid over threads, in the word that users choose: ``thread``,
                   ``scan`` or ``hybrid``.
        variant:   how it differs from the kernel that serves unasked: ``unmerged``.
        step:      what it computes on the way to the function: ``articulated_inertias``.
        frame:     identifier of the frame that it is about.
        reference: the axes that this frame is seen in: ``local``.
        inputs:    the optional inputs that it reads, in the order of ``OPTIONAL_INPUTS``.
    """

    function: str
    method: str = ""
    schedule: str = "thread"
    variant: str = ""
    step: str = ""
    frame: str = ""
    reference: str = ""
    inputs: tuple[str, ...] = ()

    @cached_property
    def name(self) -> str:
        """Its name in C++."""
        words = (
            self.step or self.function,
            "" if self.step else self.method,
            self.frame,
            self.reference,
            "" if self.schedule == "thread" else self.schedule,
            self.variant,
            *self.inputs,
        )
        return "_".join(word for word in words if word)

    @property
    def plain(self) -> KernelKey:
        """The kernel without optional inputs."""
        return replace(self, inputs=())


@dataclass(frozen=True)
class TeamLaunch:
    """How a kernel that gives each state a team of threads is launched.

    Attributes:
        threads_per_block: threads of a block.
        states_per_block:  states of a block.
        shared_numbers:    numbers in the dynamic shared memory of a block.
        workspace_numbers: numbers of scratch memory that each state of a launch takes; 0 where
                           shared memory holds them, ``None`` for a kernel that takes none.
    """

    threads_per_block: int
    states_per_block: int
    shared_numbers: int
    workspace_numbers: int | None = None


@dataclass(frozen=True)
class Work:
    """What one state costs a kernel, counted; a fused multiply-add is one operation.

    Attributes:
        operations: of all lanes; where there is one, those of a CPU's program.
        lane:       those of the lane that has most to do, and what it takes to reach the entries of
                    matrices; where there is one, all operations of a GPU's program.
        steps:      how often lanes wait for each other: rounds of scans, levels, eliminated
                    velocities, and phases in which every body works by itself.
    """

    operations: int
    lane: int
    steps: int

    def __add__(self, other: Work) -> Work:
        """Return the work of one after the other."""
        return Work(
            self.operations + other.operations, self.lane + other.lane, self.steps + other.steps
        )


@dataclass(frozen=True)
class Kernel:
    """One kernel of one robot: made once, and handed from stage to stage.

    Attributes:
        key:     which one it is.
        same:    the kernel of the thread schedule that computes the same; itself in that schedule.
        title:   what it computes, lines of at most 90 columns.
        source:  where the algorithm is described.
        inputs:  shapes of the arrays that it reads, for one state, by name, in order.
        outputs: the same of those that it writes.
        team:    how it is launched, where a state has a team of threads.
        calls:   the kernels of the thread schedule whose programs it calls, from step to step of a
                 rollout; none for one that computes each state once.
    """

    key: KernelKey
    same: KernelKey
    title: str
    source: str
    inputs: Mapping[str, Shape] = field(hash=False)
    outputs: Mapping[str, Shape] = field(hash=False)
    team: TeamLaunch | None = None
    calls: tuple[KernelKey, ...] = ()

    @cached_property
    def name(self) -> str:
        """Its name in C++."""
        return self.key.name

    @cached_property
    def first(self) -> str:
        """The first array that it reads, a configuration: results are like it."""
        return next(iter(self.inputs))

    def as_data(self) -> dict[str, Any]:
        """Return the record as JSON data; keys without the fields that have their default."""
        return {
            "key": _short(self.key),
            "same": _short(self.same),
            "title": self.title,
            "source": self.source,
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "team": None if self.team is None else asdict(self.team),
        } | ({"calls": [_short(key) for key in self.calls]} if self.calls else {})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Kernel:
        """Return the record that ``as_data`` described."""
        return cls(
            key=_key(data["key"]),
            same=_key(data["same"]),
            title=data["title"],
            source=data["source"],
            inputs={name: tuple(shape) for name, shape in data["inputs"].items()},
            outputs={name: tuple(shape) for name, shape in data["outputs"].items()},
            team=None if data["team"] is None else TeamLaunch(**data["team"]),
            calls=tuple(map(_key, data.get("calls", ()))),
        )


def _short(key: KernelKey) -> dict[str, Any]:
    default = asdict(KernelKey(""))
    return {name: value for name, value in asdict(key).items() if value != default[name]}


def _key(data: Mapping[str, Any]) -> KernelKey:
    return KernelKey(**{**data, "inputs": tuple(data.get("inputs", ()))})
