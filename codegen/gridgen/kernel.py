"""Records of a robot's kernels: their keys, arrays, launches and work.

Names are never parsed.
"""

from __future__ import annotations

import copyreg
import hashlib
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

Shape = tuple[int, ...]

#: The function name of fused kernels.
SEVERAL = "compute"
#: The variant of a rollout that also writes the joint torques.
WITH_EFFORTS = "with_efforts"
#: Functions whose parts are not computed side by side.
UNFUSED = ("inverse_kinematics", "rollout", "trajectory_cost")
# Characters of the longest name that consists of the names of fused functions.
_MAX_NAME = 120

#: Threads of a GPU that execute in lockstep.
WARP = 32
#: Numbers of a state that may be in shared memory at once. A warp with doubles then uses the 48 kB
#: that every device grants a block; a device with 228 kB runs nine such warps with floats, as many
#: as it runs with 255 registers.
MAX_STAGED = 192
#: Instructions of the longest program that a thread runs for two states at once: a pair of values
#: takes two registers. arm7's forward dynamics takes 166, the quadruped's inverse dynamics 255.
MAX_PAIRED = 1000


class Product(NamedTuple):
    """A derivative product (VJP or JVP) of a kernel's function."""

    #: ``vjp``, from the cotangents of results to those of inputs; or ``jvp``, from the tangents of
    #: inputs to the results and theirs.
    kind: str
    wrt: tuple[str, ...]  #: the inputs to differentiate by.


@dataclass(frozen=True)
class KernelKey:
    """One kernel of a robot, for any element type.

    Attributes:
        function:  name of the function, as users write it: ``forward_dynamics``.
        method:    the algorithm, for a function with several: ``aba``.
        schedule:  distribution of a state over threads, as users write it: ``thread``, ``scan``
                   or ``warp``.
        variant:   difference from the default kernel: ``with_efforts``.
        step:      intermediate result that it computes: ``articulated_inertias``.
        frame:     identifier of its frame.
        reference: the axes of its result: ``local``.
        inputs:    the optional inputs that it reads, in the order of ``OPTIONAL_INPUTS``.
        parts:     the kernels that it fuses: those of any functions where ``function`` is
                   ``SEVERAL``; else those of one function for several frames, in one array. Of a
                   rollout, those that it calls in addition to ``step``. They read no optional
                   inputs.
        label:     the user's name for it, if it has parts.
        products:  the derivative products, each of the one before; the last is what the kernel
                   computes. Empty for a kernel that computes the function.
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
            *(part.name for part in self.parts if self.function == "rollout"),
            *self.inputs,
            *(word for kind, wrt in self.products for word in (kind, *wrt)),
        )
        return "_".join(word for word in words if word)

    @property
    def _name_of_parts(self) -> str:
        """The names of its parts, or a digest of them if they are long."""
        if self.function == SEVERAL:
            name = "_with_".join(part.name for part in self.parts)
        else:
            frames = (filter(None, (part.frame, part.reference)) for part in self.parts)
            of = "_and_".join(map("_".join, frames))
            name = f"{self.function}_of_{of}" if of else ""
        if len(name) <= _MAX_NAME:
            return name
        digest = hashlib.blake2s(name.encode(), digest_size=6).hexdigest()
        return f"{self.function}_of_{len(self.parts)}_{digest}"

    @property
    def is_fused(self) -> bool:
        """Whether it computes its parts side by side; others are one problem."""
        return bool(self.parts) and self.function not in UNFUSED

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
        """The kernel that computes the function, without derivative products."""
        return replace(self, products=())

    def product(self, kind: str, wrt: Iterable[str]) -> KernelKey:
        """Return the kernel of a derivative product of this one."""
        return replace(self, products=(*self.products, Product(kind, tuple(wrt))))


@dataclass(frozen=True)
class TeamLaunch:
    """Launch configuration of a kernel with a team of threads per state.

    Attributes:
        threads_per_block: threads of a block.
        states_per_block:  states of a block.
        shared_numbers:    numbers in the dynamic shared memory of a block.
        workspace_numbers: numbers of scratch memory per state of a launch; 0 where shared memory
                           holds them, ``None`` for a kernel without scratch memory.
    """

    threads_per_block: int
    states_per_block: int
    shared_numbers: int
    workspace_numbers: int | None = None


@dataclass(frozen=True)
class Work:
    """Work of a kernel per state; a fused multiply-add counts as one operation.

    Attributes:
        operations: operations of all lanes; with one lane, those of a CPU's program.
        lane:       operations of the busiest lane, including the access to matrix entries; with one
                    lane, all operations of a GPU's program.
        steps:      number of synchronizations between lanes: rounds of scans, levels, eliminated
                    velocities, and phases in which bodies are independent.
        has_loops:  whether a GPU's program, with one lane, has loops over bodies.
    """

    operations: int
    lane: int
    steps: int
    has_loops: bool = False

    def __add__(self, other: Work) -> Work:
        """Return the work of both in sequence."""
        return Work(
            self.operations + other.operations,
            self.lane + other.lane,
            self.steps + other.steps,
            self.has_loops or other.has_loops,
        )


@dataclass(frozen=True)
class Kernel:
    """One kernel of one robot: created once, passed from stage to stage.

    Attributes:
        key:     key of the kernel.
        same:    the kernel of the thread schedule with the same result; itself in that schedule.
        title:   description, lines of at most 90 columns.
        source:  reference of the algorithm.
        inputs:  shapes of the arrays that it reads, for one state, by name, in order.
        outputs: the same for the arrays that it writes.
        team:    launch configuration, for a team of threads per state.
        calls:   the kernels of the thread schedule that it calls in each step of a rollout or a
                 search; empty for a kernel that computes each state once.
        kinds:   the registry's array of each result that has another name.
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
        """The inputs that are a scalar per state."""
        return tuple(name for name, shape in self.inputs.items() if not shape)

    @cached_property
    def nothing(self) -> dict[str, Any]:
        """Its inputs with all values ``None``: a template to copy."""
        return dict.fromkeys(self.inputs)

    @property
    def is_over_time(self) -> bool:
        """Whether its arrays may have a time axis."""
        return self.key.function == "rollout"

    @cached_property
    def first(self) -> str:
        """The first array that it reads, a configuration, which determines library and device."""
        return next(iter(self.inputs))

    def answer(self, arrays: Sequence[Any]) -> Any:
        """Return the arrays that it wrote as the result of a call; see ``answer_of``."""
        return answer_of(self.result_type, arrays)

    @cached_property
    def result_type(self) -> Any:
        """The type of its results, a named tuple."""
        return result_type(tuple(self.outputs))

    def kind(self, name: str) -> str:
        """Return the registry's array for one of its arrays."""
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


@cache
def result_type(names: tuple[str, ...]) -> Any:
    """Return the type of several results with these names, a named tuple."""
    return _pickled_by_names(namedtuple("Results", names))


def answer_of(kind: Any, arrays: Sequence[Any]) -> Any:
    """Return one array as itself, several as a named tuple of a type."""
    # As _make, without its count.
    return arrays[0] if len(arrays) == 1 else tuple.__new__(kind, arrays)


def _pickled_by_names(kind: Any) -> Any:
    """Register pickling of a named tuple that is in no module, and return it."""
    copyreg.pickle(kind, lambda results: (_results, (kind._fields, tuple(results))))
    return kind


def _results(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Return unpickled results."""
    return result_type(names)._make(values)


def _short(key: KernelKey) -> dict[str, Any]:
    default = asdict(KernelKey(""))
    data = {name: value for name, value in asdict(key).items() if value != default[name]}
    return {**data, "parts": [_short(part) for part in key.parts]} if key.parts else data


def _key(data: Mapping[str, Any]) -> KernelKey:
    parts = tuple(map(_key, data.get("parts", ())))
    products = tuple(Product(kind, tuple(wrt)) for kind, wrt in data.get("products", ()))
    inputs = tuple(data.get("inputs", ()))
    return KernelKey(**{**data, "inputs": inputs, "parts": parts, "products": products})
