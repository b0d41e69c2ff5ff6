"""What tells the kernels of a robot apart, and what is known of each.

No name is ever taken apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

Shape = tuple[int, ...]

#: The function of kernels that compute several.
SEVERAL = "compute"
#: The variant of a rollout that writes the efforts, too.
WITH_EFFORTS = "with_efforts"
# Characters of the longest name that is made of the names of parts.
_LONGEST = 120

#: Threads of a GPU that compute in step.
WARP = 32
#: Numbers of a state that may lie in shared memory at once. A warp with doubles then takes the
#: 48 kB that every device grants a block, and a device with 228 kB holds nine with floats: no fewer
#: than it holds with 255 registers.
MOST_STAGED = 192


class Product(NamedTuple):
    """A product with the derivative of what a kernel computes.

    Attributes:
        kind: ``vjp``, from the cotangents of results to those of inputs; or ``jvp``, from the
              tangents of inputs to the results and theirs.
        wrt:  the inputs to differentiate by.
    """

    kind: str
    wrt: tuple[str, ...]


@dataclass(frozen=True)
class KernelKey:
    """One kernel of a robot, whatever the element type.

    Attributes:
        function:  what it computes, as users name it: ``forward_dynamics``.
        method:    the algorithm, where a function has several: ``aba``.
        schedule:  how a state is laid over threads, in the word that users choose: ``thread``,
                   ``scan``, ``hybrid`` or ``pipeline``.
        variant:   how it differs from the kernel that serves unasked: ``unmerged``.
        step:      what it computes on the way to the function: ``articulated_inertias``.
        frame:     identifier of the frame that it is about.
        reference: the axes that this frame is seen in: ``local``.
        inputs:    the optional inputs that it reads, in the order of ``OPTIONAL_INPUTS``.
        parts:     the kernels whose results it computes in one: those of any functions, side by
                   side, where ``function`` is ``SEVERAL``; else those of one function for several
                   frames, in one array. They read none of the optional inputs.
        label:     what a user calls it, if it has parts.
        products:  none of a kernel that computes the function; else of which derivative it computes
                   a product, the last being of that which the others lead to.
        bodies:    the first of the bodies that a stage of a chain is about, and the one after the
                   last; none of a kernel that is about all.
    """

    function: str
    method: str = ""
    schedule: str = "thread"
    variant: str = ""
    step: str = ""
    frame: str = ""
    reference: str = ""
    inputs: tuple[str, ...] = ()
    parts: tuple[KernelKey, ...] = ()
    label: str = ""
    products: tuple[Product, ...] = ()
    bodies: tuple[int, ...] = ()

    @cached_property
    def name(self) -> str:
        """Its name in C++."""
        words = (
            self.label or self._name_of_parts or self.step or self.function,
            "" if self.step else self.method,
            self.frame,
            self.reference,
            "" if self.schedule == "thread" else self.schedule,
            self.variant,
            *self.inputs,
            *(word for kind, wrt in self.products for word in (kind, *wrt)),
            *(("bodies", *map(str, self.bodies)) if self.bodies else ()),
        )
        return "_".join(word for word in words if word)

    @property
    def _name_of_parts(self) -> str:
        """The names of its parts, or where these are many, a digest of them."""
        if self.function == SEVERAL:
            name = "_with_".join(part.name for part in self.parts)
        else:
            frames = (filter(None, (part.frame, part.reference)) for part in self.parts)
            of = "_and_".join(map("_".join, frames))
            name = f"{self.function}_of_{of}" if of else ""
        if len(name) <= _LONGEST:
            return name
        digest = hashlib.blake2s(name.encode(), digest_size=6).hexdigest()
        return f"{self.function}_of_{len(self.parts)}_{digest}"

    @property
    def plain(self) -> KernelKey:
        """The kernel that reads no optional inputs."""
        return replace(self, inputs=())

    @property
    def wrt(self) -> tuple[str, ...]:
        """Of a product, the inputs to differentiate by."""
        return self.products[-1].wrt if self.products else ()

    @property
    def primal(self) -> KernelKey:
        """The kernel that computes the function, whatever this one computes of its derivatives."""
        return replace(self, products=())

    def product(self, kind: str, wrt: Iterable[str]) -> KernelKey:
        """Return the kernel of a product with the derivative of what this one computes."""
        return replace(self, products=(*self.products, Product(kind, tuple(wrt))))


@dataclass(frozen=True)
class TeamLaunch:
    """How a kernel that gives each state a team of threads is launched.

    Attributes:
        threads_per_block: threads of a block.
        states_per_block:  states of a block.
        shared_numbers:    numbers in the dynamic shared memory of a block.
        workspace_numbers: numbers of scratch memory that each state of a launch takes; 0 where
                           shared memory holds them, ``None`` for a kernel that takes none.
        along:             whether a block goes along a trajectory. A launch then counts these, and
                           the last argument tells how many samples one has, and all.
    """

    threads_per_block: int
    states_per_block: int
    shared_numbers: int
    workspace_numbers: int | None = None
    along: bool = False


@dataclass(frozen=True)
class Work:
    """What one state costs a kernel, counted; a fused multiply-add is one operation.

    Attributes:
        operations: of all lanes; where there is one, those of a CPU's program.
        lane:       those of the lane that has most to do, and what it takes to reach the entries of
                    matrices; where there is one, all operations of a GPU's program.
        steps:      how often lanes wait for each other: rounds of scans, levels, eliminated
                    velocities, and phases in which every body works by itself.
        has_loops:  whether a GPU's program, where there is one lane, has loops over bodies.
    """

    operations: int
    lane: int
    steps: int
    has_loops: bool = False

    def __add__(self, other: Work) -> Work:
        """Return the work of one after the other."""
        return Work(
            self.operations + other.operations,
            self.lane + other.lane,
            self.steps + other.steps,
            self.has_loops or other.has_loops,
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
        kinds:   which of the registry's arrays a result is, where it goes by another name.
    """

    key: KernelKey
    same: KernelKey
    title: str
    source: str
    inputs: Mapping[str, Shape] = field(hash=False)
    outputs: Mapping[str, Shape] = field(hash=False)
    team: TeamLaunch | None = None
    calls: tuple[KernelKey, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict, hash=False)

    @cached_property
    def name(self) -> str:
        """Its name in C++."""
        return self.key.name

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The inputs that are one number for a state."""
        return tuple(name for name, shape in self.inputs.items() if not shape)

    @cached_property
    def nothing(self) -> dict[str, Any]:
        """Its inputs, none of which is given: to be copied, which is faster than made."""
        return dict.fromkeys(self.inputs)

    @cached_property
    def first(self) -> str:
        """The first array that it reads, a configuration: results are like it."""
        return next(iter(self.inputs))

    def kind(self, name: str) -> str:
        """Return which of the registry's arrays one of its arrays is."""
        return self.kinds.get(name, name)

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
            **({"calls": [_short(key) for key in self.calls]} if self.calls else {}),
            **({"kinds": dict(self.kinds)} if self.kinds else {}),
        }

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
            kinds=data.get("kinds", {}),
        )


def _short(key: KernelKey) -> dict[str, Any]:
    default = asdict(KernelKey(""))
    data = {name: value for name, value in asdict(key).items() if value != default[name]}
    return {**data, "parts": [_short(part) for part in key.parts]} if key.parts else data


def _key(data: Mapping[str, Any]) -> KernelKey:
    parts = tuple(map(_key, data.get("parts", ())))
    listed = {field: tuple(data.get(field, ())) for field in ("inputs", "bodies")}
    products = tuple(Product(kind, tuple(wrt)) for kind, wrt in data.get("products", ()))
    return KernelKey(**{**data, **listed, "parts": parts, "products": products})
