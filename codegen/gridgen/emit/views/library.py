"""What the templates of a robot's library see: its functions as C and C++ have them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from gridgen.functions.arrays import ARRAYS, DEFAULTED, PROXIMAL, STANDARD_GRAVITY
from gridgen.kernel import Kernel, Shape
from gridgen.model.tree import KinematicTree
from gridgen.naming import string_literal
from gridgen.schedules.thread.view import ThreadFunctionView
from gridgen.schedules.views import ArrayView

# Columns of a line.
_WIDTH = 95


@dataclass(frozen=True)
class TypeView:
    """An element type.

    Attributes:
        suffix: of the names of C functions: ``f32``.
        scalar: its name in C.
        macro:  what a unit defines that has no other.
        other:  what a unit defines that lacks it.
    """

    suffix: str
    scalar: str
    macro: str
    other: str


#: What a function returns, as gridgen.h numbers it.
STATUSES = (
    ("gridgen_done", 0),
    ("gridgen_no_array", 1),
    ("gridgen_bad_count", 2),
    ("gridgen_no_rotation", 3),
    ("gridgen_bad_size", 4),
)
TYPES = (TypeView("f32", "float", "F32", "F64"), TypeView("f64", "double", "F64", "F32"))


@dataclass(frozen=True)
class TypedView(TypeView):
    """A function for one element type: parameter lists, in lines.

    Attributes:
        parameters: of the C function.
        of_one:     of the C++ function of one state.
        of_ranges:  the same for containers and matrices.
        of_batch:   of the C++ function of a batch, but for the number of threads.
    """

    parameters: tuple[str, ...]
    of_one: tuple[str, ...]
    of_ranges: tuple[str, ...]
    of_batch: tuple[str, ...]


@dataclass(frozen=True)
class ParameterView:
    """One parameter of a C function.

    Attributes:
        name:        ``q``.
        kind:        its type: ``const S*`` where S is the element type.
        size:        numbers of one state.
        extents:     the rows and columns of a matrix; else its size alone.
        default:     initializer of what stands in for NULL, in lines; none where NULL is refused.
        of_one:      what it is in a call for one state.
        of_part:     what it is in a call for states [begin, end).
    """

    name: str
    kind: str
    size: int = 0
    extents: Shape = ()
    default: tuple[str, ...] = ()
    of_one: str = ""
    of_part: str = ""

    def declared(self, scalar: str, null: str = "") -> str:
        """Return it as a declaration.

        Args:
            scalar: the element type.
            null:   what stands for no array where there is a default; nothing where none may.
        """
        end = f" = {null}" if null and self.default else ""
        return f"{self.kind.replace('S', scalar)} {self.name}{end}"

    def as_range(self, scalar: str) -> str:
        """Return it as a declaration that also takes containers and matrices."""
        if not self.extents:
            return self.declared(scalar)
        face = "Out" if self.is_result else "In"
        end = " = nullptr" if self.default else ""
        return f"gridgen::{face}<{', '.join((scalar, *map(str, self.extents)))}> {self.name}{end}"

    @property
    def rust(self) -> dict[str, str]:
        """Its type in Rust, for each element type's suffix, which is Rust's name of it."""
        kinds = {"S": "{}", "S*": "*mut {}", "const S*": "*const {}"}
        kind = kinds.get(self.kind, "::std::os::raw::c_longlong")
        return {type_.suffix: kind.format(type_.suffix) for type_ in TYPES}

    @property
    def is_result(self) -> bool:
        """Whether it is written."""
        return self.kind == "S*"


@dataclass(frozen=True)
class LibraryArrayView:
    """One array of a function, as the SIMD function takes it.

    Attributes:
        name:      ``q``.
        size:      its elements for one state.
        use:       ``read`` or ``written``.
        text:      what it holds, and how it is given.
        as_array:  expression of its ``gridgen_array``.
        is_result: whether it is written.
    """

    name: str
    size: int
    use: str
    text: str
    as_array: str
    is_result: bool


@dataclass(frozen=True)
class LibraryFunctionView:
    """One function of the library.

    Attributes:
        name:           ``inverse_dynamics``.
        called:         its names in C++: that of its algorithm; where this is the first one that
                        the robot has, that of the function alone.
        title:          what it computes, lines.
        arrays:         what it reads and writes, in the order of the SIMD function.
        parameters:     of the C function: what must be given, results, ``n``, what has a default.
        count:          number of arrays.
        configurations: how many of them, the first ones, are configurations.
        room:           the number of values that loops keep.
        is_own:         whether it is a CPU's alone, in the namespace ``straight``.
        instructions:   of its program.
    """

    name: str
    called: tuple[str, ...]
    title: tuple[str, ...]
    arrays: tuple[LibraryArrayView, ...]
    parameters: tuple[ParameterView, ...]
    count: int
    configurations: int
    room: int
    is_own: bool
    instructions: int

    @property
    def generic(self) -> tuple[str, ...]:
        """The parameters for any element type S, in lines."""
        return _lines(parameter.declared("S") for parameter in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments, handed on, in lines."""
        return _lines(parameter.name for parameter in self.parameters)

    @property
    def names_of_one(self) -> tuple[str, ...]:
        """The arguments for one state, in lines."""
        return _lines(parameter.of_one for parameter in self.parameters)

    @property
    def names_of_ranges(self) -> tuple[str, ...]:
        """The arguments for one state as pointers, where they may be containers, in lines."""
        words = (f"{p.name}.data()" if p.extents else p.name for p in self.parameters)
        return _lines(word for word in words if word != "n")

    @property
    def names_of_part(self) -> tuple[str, ...]:
        """The arguments for a part of a batch, in lines."""
        return _lines(parameter.of_part for parameter in self.parameters)

    @property
    def types(self) -> tuple[TypedView, ...]:
        """The function for each element type."""
        return tuple(self._typed(type_) for type_ in TYPES)

    def _typed(self, type_: TypeView) -> TypedView:
        every, scalar = self.parameters, type_.scalar
        return TypedView(
            **vars(type_),
            parameters=_lines(p.declared(scalar) for p in every),
            of_one=_lines(p.declared(scalar, "nullptr") for p in every if p.name != "n"),
            of_ranges=_lines(p.as_range(scalar) for p in every if p.name != "n"),
            of_batch=_lines(p.declared(scalar, "nullptr") for p in every),
        )


def _lines(words: Iterable[str]) -> tuple[str, ...]:
    """Return a list as lines that end between words, which may have blanks."""
    whole = ", ".join(word.replace(" ", "\0") for word in words)
    lines = wrap(whole, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return tuple(line.replace("\0", " ") for line in lines)


@dataclass(frozen=True)
class LimitsView:
    """Limits of a robot: their name, their number, their initializer in lines."""

    name: str
    extent: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class FactsView:
    """What is known of a robot, as initializers in lines."""

    total_mass: str
    frames: int
    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    frame_names: tuple[str, ...]
    parents: tuple[str, ...]
    limits: tuple[LimitsView, ...]


def library_view(
    tree: KinematicTree,
    kernel: Kernel,
    called: tuple[str, ...],
    function: ThreadFunctionView,
    instructions: int,
) -> LibraryFunctionView:
    """Describe one function of the library.

    Args:
        tree:         the robot.
        kernel:       the function.
        called:       its names in C++.
        function:     as the CPU computes it.
        instructions: of its program.
    """
    read = [(array, kernel.kind(array.name)) for array in function.inputs]
    shapes = {**kernel.inputs, **kernel.outputs}
    given = [
        _parameter(array, shapes[array.name], kind) for array, kind in read if kind not in DEFAULTED
    ]
    defaulted = [
        _parameter(array, shapes[array.name], kind, _default(tree, array, kind))
        for array, kind in read
        if kind in DEFAULTED
    ]
    results = [
        _parameter(array, shapes[array.name], "", is_result=True) for array in function.outputs
    ]
    count = ParameterView("n", "long long", of_one="1", of_part="end - begin")
    return LibraryFunctionView(
        name=function.name,
        called=called,
        title=function.title,
        arrays=(
            *(_array(function.name, array, kind) for array, kind in read),
            *(_array(function.name, array, "") for array in function.outputs),
        ),
        parameters=(*given, *results, count, *defaulted),
        count=len(function.arrays),
        configurations=function.configurations,
        room=function.room,
        is_own=function.is_own,
        instructions=instructions,
    )


def _is_number(kind: str) -> bool:
    """Tell whether an input is handed over by value: one number for all states."""
    return bool(kind) and ARRAYS[kind].shared and not ARRAYS[kind].shape


def _is_shared(kind: str) -> bool:
    return bool(kind) and ARRAYS[kind].shared


def _parameter(
    array: ArrayView,
    shape: Shape,
    kind: str,
    default: tuple[str, ...] = (),
    *,
    is_result: bool = False,
) -> ParameterView:
    name, size = array.name, array.size
    if _is_number(kind):
        return ParameterView(name, "S", of_one=name, of_part=name)
    part = name if _is_shared(kind) else f"gridgen::skip({name}, {size} * begin)"
    extents = shape if len(shape) == 2 else (size,)
    return ParameterView(
        name, "S*" if is_result else "const S*", size, extents, default, name, part
    )


def _array(function: str, array: ArrayView, kind: str) -> LibraryArrayView:
    """Describe an array; a result has no kind here."""
    name, text = array.name, f"{array.text} [{array.unit}]" if array.unit else array.text
    rows = f"gridgen::in_rows({name}, {array.size})"
    if kind in DEFAULTED:
        one = f"{function}_{name}<S>"
        as_array = f"{name} ? {rows} : gridgen::for_all({one})"
        if ARRAYS[kind].shared:
            as_array = f"gridgen::for_all({name} ? {name} : {one})"
    elif _is_shared(kind):
        as_array = f"gridgen::for_all({'&' if _is_number(kind) else ''}{name})"
    else:
        as_array = rows
    how = "; one for all states" if _is_shared(kind) else ""
    how += ", or NULL" if kind in DEFAULTED else ""
    return LibraryArrayView(
        name, array.size, "read" if kind else "written", text + how, as_array, not kind
    )


def _default(tree: KinematicTree, array: ArrayView, kind: str) -> tuple[str, ...]:
    """Return the initializer of what an input is that is not given."""
    if kind == "gravity":
        return _numbers(STANDARD_GRAVITY)
    if kind == "proximal":
        single, double = (f"S({PROXIMAL[name]!r})" for name in ("float32", "float64"))
        return (", ".join([f"sizeof(S) == 4 ? {single} : {double}"] * array.size),)
    return _numbers(_flat(tree.parameters.get(kind, (0.0,) * array.size)))


def _flat(values: Iterable[object]) -> list[float]:
    found: list[float] = []
    for value in values:
        found += _flat(value) if isinstance(value, (tuple, list)) else [float(value)]  # type: ignore[arg-type]
    return found


def _numbers(values: Iterable[float]) -> tuple[str, ...]:
    return tuple(wrap(", ".join(f"S({value!r})" for value in values), _WIDTH))


def facts_view(tree: KinematicTree) -> FactsView:
    """Describe what is known of a robot."""
    limits = (
        ("lower_limits", "nq", tree.lower_limits),
        ("upper_limits", "nq", tree.upper_limits),
        ("effort_limits", "nv", tree.effort_limits),
        ("velocity_limits", "nv", tree.velocity_limits),
    )
    return FactsView(
        total_mass=repr(tree.total_mass),
        frames=len(tree.frame_names),
        joint_names=_strings(tree.joint_names),
        body_names=_strings(tree.body_names),
        frame_names=_strings(tree.frame_names),
        parents=tuple(wrap(", ".join(map(str, tree.parents)), _WIDTH)),
        limits=tuple(
            LimitsView(name, extent, tuple(wrap(", ".join(map(_limit, values)), _WIDTH)))
            for name, extent, values in limits
        ),
    )


def _strings(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{string_literal(name)}," for name in names)


def _limit(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"{'-' if value < 0 else ''}unlimited"
