"""The record of one public function, and the decorator that notes it where it is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from gridgen.functions.arrays import ARRAYS, OPTIONAL_INPUTS, PARAMETERS


@dataclass(frozen=True)
class Algorithm:
    """One algorithm behind a function.

    Attributes:
        algorithm: file and function in ``gridgen.dynamics``, ``"rnea.inverse_dynamics"``. Named,
                   not imported: what runs needs none. Its parameters are named as the arrays that
                   it reads; ``""`` where no straight-line program computes it.
        source:    where it is described.
        schedules: how its states may be laid over threads, the first unasked.
        refusals:  what a robot may lack for it, functions in ``gridgen.dynamics.refusals``.
        title:      its name in generated text, where a function has several.
        is_backward_stable: whether slightly other inputs would explain its rounding errors.
        in_loops:  whether a long program may have loops over bodies.
    """

    algorithm: str = ""
    source: str = ""
    schedules: tuple[str, ...] = ("thread",)
    refusals: tuple[str, ...] = ()
    is_backward_stable: bool = True
    in_loops: bool = True
    title: str = ""

    def titled(self, title: str) -> str:
        """Return the title of a function with the name of the algorithm."""
        return f"{title},\n{self.title}" if self.title else title


@dataclass(frozen=True)
class Function:
    """One function that users call.

    Attributes:
        name:         ``inverse_dynamics``.
        group:        what it is listed under.
        title:        what it computes, as generated text says it; that of a function of a frame
                      goes on with the frame's name.
        summary:      the first line of its documentation.
        arguments:    arrays that it reads, in order.
        words:        arguments that are no arrays, ``frame`` for one.
        options:      keyword arguments.
        results:      arrays that it returns.
        methods:      algorithms by name; ``""`` where there is one. The first is what ``auto``
                      means for a robot that can have it.
        is_default:   whether it is generated unasked.
        solves:       whether it solves linear equations with M.
        cancels:      whether it sums products of velocities that nearly cancel.
        in_time:      whether its results have an axis of time, one for each step.
    """

    name: str
    group: str
    title: str
    summary: str
    arguments: tuple[str, ...]
    words: tuple[str, ...]
    options: tuple[str, ...]
    results: tuple[str, ...]
    methods: dict[str, Algorithm] = field(hash=False)
    is_default: bool
    solves: bool
    cancels: bool
    in_time: bool = False

    @property
    def of_frame(self) -> bool:
        """Whether there is one for each frame and reference."""
        return "frame" in self.words

    @property
    def method_word(self) -> str:
        """The keyword argument that chooses among its methods."""
        return "integrator" if "integrator" in self.options else "method"

    @property
    def has_frames(self) -> bool:
        """Whether it is about all frames, or some."""
        return "frames" in self.words

    @property
    def is_generated(self) -> bool:
        """Whether generated code computes it."""
        return bool(self.methods)

    @cached_property
    def has_team_kernels(self) -> bool:
        """Whether kernels that give a state a team of threads serve it as well."""
        return any("scan" in one.schedules for one in self.methods.values())

    @property
    def inputs(self) -> tuple[str, ...]:
        """Arrays that its kernels read whatever the variant and the robot."""
        return self.arguments + tuple(name for name in self.options if name == "gravity")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Numbers of the robot that it depends on and that may be inputs, of ``PARAMETERS``."""
        return tuple(name for name in PARAMETERS if name in self.options)

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """Inputs that some variants of its kernels read, of ``OPTIONAL_INPUTS``."""
        return tuple(
            name
            for name, optional in OPTIONAL_INPUTS.items()
            if set(optional.arrays) <= set(self.options)
        )


Declared = TypeVar("Declared", bound=Callable[..., Any])

_RECORD = "__gridgen_function__"


def function(
    title: str = "",
    results: Sequence[str] = (),
    methods: Algorithm | dict[str, Algorithm] | None = None,
    *,
    is_default: bool = True,
    solves: bool = False,
    cancels: bool = False,
    in_time: bool = False,
) -> Callable[[Declared], Declared]:
    """Note a public function; its signature tells the arguments.

    Positional arguments that are no arrays have another type than ``ArrayLike``. The keyword
    arguments that functions share are those of a ``TypedDict`` (PEP 692); whoever looks at the
    signature finds them written out.

    Args: as the attributes of ``Function``; ``methods`` alone where there is one.
    """
    by_name = {"": methods} if isinstance(methods, Algorithm) else (methods or {})

    def record(declared: Declared) -> Declared:
        declared.__signature__ = signature = _written_out(declared)  # type: ignore[attr-defined]
        declared.__qualname__ = f"Robot.{declared.__name__}"
        _, *parameters = signature.parameters.values()
        keywords = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        positional = [p.name for p in parameters if p.name not in keywords]
        assert declared.__doc__ is not None
        noted = Function(
            name=declared.__name__,
            group="",
            title=title,
            summary=declared.__doc__.strip().splitlines()[0],
            arguments=tuple(name for name in positional if name in ARRAYS),
            words=tuple(name for name in positional if name not in ARRAYS),
            options=tuple(keywords),
            results=tuple(results),
            methods=by_name,
            is_default=is_default,
            solves=solves,
            cancels=cancels,
            in_time=in_time,
        )
        setattr(declared, _RECORD, noted)
        return declared

    return record


def _written_out(declared: Callable[..., Any]) -> inspect.Signature:
    """Return a signature with the shared keyword arguments one by one."""
    signature = inspect.signature(declared)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters.append(parameter)
            continue
        # Not get_type_hints: it would evaluate every annotation, at each start of a module.
        keywords = eval(parameter.annotation, declared.__globals__)
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=annotation.__forward_arg__,
            )
            for name, annotation in keywords.__annotations__.items()
        ]
    return signature.replace(parameters=parameters)


def functions_of(*owners: type) -> Iterator[Function]:
    """Yield the records of the functions that classes declare, in their order, each a group."""
    for owner in owners:
        assert owner.__doc__ is not None
        group = owner.__doc__.splitlines()[0].removesuffix(".")
        for declared in vars(owner).values():
            if (noted := getattr(declared, _RECORD, None)) is not None:
                yield replace(noted, group=group)
