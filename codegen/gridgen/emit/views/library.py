"""Data of the templates of a robot's library: its functions in C and C++."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from textwrap import wrap

from gridgen.functions import Declared
from gridgen.functions.arrays import ARRAYS, DEFAULTED, PROXIMAL
from gridgen.kernel import Kernel, Shape
from gridgen.model.tree import KinematicTree
from gridgen.naming import number_literal, string_literal
from gridgen.schedules.search.view import SearchView, neutral_within_limits
from gridgen.schedules.thread.view import ThreadFunctionView
from gridgen.schedules.views import ArrayView

# Columns of a line.
_WIDTH = 95
_SEARCH = signature(Declared.inverse_kinematics).parameters
#: Tolerances of inverse kinematics, most iterations and most starts.
_SETTINGS = (
    *_SEARCH["tolerance"].default,
    *(_SEARCH[n].default for n in ("iterations", "num_starts")),
)
# Defaults of arrays of inverse kinematics.
_SEARCH_DEFAULTS = {"pose_weights": (1.0,), "settings": _SETTINGS}
# Whether the first two arrays of inverse kinematics are given.
_GIVEN = ("q0 != nullptr", "rest != nullptr")


@dataclass(frozen=True)
class TypeView:
    """An element type."""

    suffix: str  #: of the names of C functions: ``f32``.
    scalar: str  #: its name in C.
    macro: str  #: macro of a translation unit that defines this element type only.
    other: str  #: macro of a translation unit that does not define this element type.


#: Status codes of functions, as in gridgen.h.
STATUSES = (
    ("gridgen_done", 0),
    ("gridgen_no_array", 1),
    ("gridgen_bad_count", 2),
    ("gridgen_no_rotation", 3),
    ("gridgen_bad_size", 4),
    ("gridgen_no_memory", 5),
)
TYPES = (TypeView("f32", "float", "F32", "F64"), TypeView("f64", "double", "F64", "F32"))


@dataclass(frozen=True)
class TypedView(TypeView):
    """A function for one element type, in lines."""

    parameters: tuple[str, ...]  #: of the C function.
    of_one: tuple[str, ...]  #: of the C++ function of one state.
    #: arguments that the C function passes on: the number of states, and its arrays.
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class ParameterView:
    """One parameter of a C function."""

    name: str  #: ``q``.
    kind: str  #: its type: ``const S*`` where S is the element type.
    size: int = 0  #: numbers of one state.
    extents: Shape = ()  #: the rows and columns of a matrix; else its size alone.
    has_default: bool = False  #: whether NULL selects its default.
    is_shared: bool = False  #: whether all states share it.

    def declared(self, scalar: str) -> str:
        """Return its declaration in C."""
        return f"{self.kind.replace('S', scalar)} {self.name}"

    def as_range(self, scalar: str) -> str:
        """Return its declaration for pointers, containers and matrices."""
        if not self.extents:
            return self.declared(scalar)
        face = "Out" if self.is_result else "In"
        end = " = nullptr" if self.has_default else ""
        return f"gridgen::{face}<{', '.join((scalar, *map(str, self.extents)))}> {self.name}{end}"

    @property
    def of_batch(self) -> str:
        """Its declaration in a template; arrays without a default decide the element type S."""
        if self.has_default:
            return f"gridgen::Given<{self.kind}> {self.name} = nullptr"
        return self.declared("gridgen::Given<S>" if self.kind == "S" else "S")

    @property
    def size_in_batch(self) -> str:
        """Its size for ``gridgen::call_batch``."""
        if self.name == "n":
            return "gridgen::states"
        return "0" if self.is_shared else str(self.size)

    @property
    def rust(self) -> dict[str, str]:
        """Its type in Rust, by element type suffix, which is Rust's name of the type."""
        kinds = {"S": "{}", "S*": "*mut {}", "const S*": "*const {}"}
        kind = kinds.get(self.kind, "::std::os::raw::c_longlong")
        return {type_.suffix: kind.format(type_.suffix) for type_ in TYPES}

    @property
    def is_result(self) -> bool:
        """Whether it is written."""
        return self.kind == "S*"


@dataclass(frozen=True)
class LibraryArrayView(ArrayView):
    """One array argument of a SIMD function; its text includes unit and layout."""

    use: str  #: ``read`` or ``written``.
    is_result: bool  #: whether it is written.
    has_default: bool  #: whether it may be NULL.
    is_shared: bool  #: whether all states share it.
    is_number: bool  #: whether it is a number passed by value.
    fallback: str  #: the name of its default.

    def argument(self, scalar: str, namespace: str) -> str:
        """Return its argument expression for ``gridgen::compute``."""
        if not (self.is_shared or self.has_default):
            return self.name
        layout = "for_all" if self.is_shared else "in_rows"
        end = f", {namespace}::library::{self.fallback}<{scalar}>" if self.has_default else ""
        return f"gridgen::{layout}({'&' if self.is_number else ''}{self.name}{end})"


@dataclass(frozen=True)
class DefaultView:
    """The default of an array: its name, its numbers in lines."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class LibraryFunctionView:
    """One function of the library."""

    name: str  #: ``inverse_dynamics``.
    robot: str  #: the robot's identifier.
    #: its names in C++: the name of its algorithm and, if it is the robot's first algorithm of the
    #: function, the name of the function.
    called: tuple[str, ...]
    title: tuple[str, ...]  #: what it computes, lines.
    arrays: tuple[LibraryArrayView, ...]  #: its arrays, in the order of the SIMD function.
    #: of the C function: required inputs, results, ``n``, inputs with a default.
    parameters: tuple[ParameterView, ...]
    traits: str  #: its traits in the robot's namespace, as a CPU computes it.
    instructions: int  #: of its program.
    worst_case: str  #: instructions of any state, in words; empty for a search.
    is_search: bool = False  #: whether it searches; see ``gridgen::search``.
    scratch: int = 0  #: numbers of scratch memory for one state.

    @property
    def names_of_one(self) -> tuple[str, ...]:
        """The arguments for one state, in lines."""
        return _lines("1" if p.name == "n" else p.name for p in self.parameters)

    @property
    def of_batch(self) -> tuple[str, ...]:
        """Parameters of the C++ function of a batch, in lines."""
        return _lines((*(p.of_batch for p in self.parameters), "int threads = 0"))

    @property
    def names_of_batch(self) -> tuple[str, ...]:
        """The arguments for a batch, in lines."""
        names = (parameter.name for parameter in self.parameters)
        return _lines((str(self.instructions), "threads", "n", *names))

    @property
    def sizes(self) -> str:
        """The size of each argument per state."""
        return ", ".join(parameter.size_in_batch for parameter in self.parameters)

    @property
    def types(self) -> tuple[TypedView, ...]:
        """The function for each element type."""
        return tuple(self._typed(type_) for type_ in TYPES)

    def _typed(self, type_: TypeView) -> TypedView:
        every, scalar = self.parameters, type_.scalar
        arrays = (array.argument(scalar, self.robot) for array in self.arrays)
        return TypedView(
            **vars(type_),
            parameters=_lines(p.declared(scalar) for p in every),
            of_one=_lines(p.as_range(scalar) for p in every if p.name != "n"),
            arrays=_lines(("n", *_GIVEN * self.is_search, *arrays)),
        )


def _lines(words: Iterable[str]) -> tuple[str, ...]:
    """Return a comma-separated list as lines; words may contain blanks."""
    whole = ", ".join(word.replace(" ", "\0") for word in words)
    lines = wrap(whole, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return tuple(line.replace("\0", " ") for line in lines)


@dataclass(frozen=True)
class LimitsView:
    """Limits of a robot: their name, number, and initializer in lines."""

    name: str
    extent: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class FactsView:
    """Constants of a robot, as initializers in lines."""

    total_mass: str
    frames: int
    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    frame_names: tuple[str, ...]
    parents: tuple[str, ...]
    limits: tuple[LimitsView, ...]


def library_view(
    kernel: Kernel,
    robot: str,
    called: tuple[str, ...],
    function: ThreadFunctionView | SearchView,
    instructions: int,
    worst_case: str,
) -> LibraryFunctionView:
    """Describe one function of the library."""
    shapes = {**kernel.inputs, **kernel.outputs}
    read = [_array(array, kernel.kind(array.name)) for array in function.inputs]
    if isinstance(function, SearchView):
        shapes["settings"] = (len(_SETTINGS),)
        read = [_of_search(array) for array in read]
    written = [_array(array, "") for array in function.outputs]
    order = (
        *(_parameter(array, shapes[array.name]) for array in read if not array.has_default),
        *(_parameter(array, shapes[array.name]) for array in written),
        ParameterView("n", "long long"),
        *(_parameter(array, shapes[array.name]) for array in read if array.has_default),
    )
    return LibraryFunctionView(
        name=function.name,
        robot=robot,
        called=called,
        title=function.title,
        arrays=(*read, *written),
        parameters=order,
        traits=f"{function.scope}{function.name}_traits",
        instructions=instructions,
        worst_case=worst_case,
        is_search=isinstance(function, SearchView),
        scratch=getattr(function, "scratch", 0),
    )


def _parameter(array: LibraryArrayView, shape: Shape) -> ParameterView:
    if array.is_number:
        return ParameterView(array.name, "S", is_shared=True)
    return ParameterView(
        array.name,
        "S*" if array.is_result else "const S*",
        array.size,
        shape[-2:] if len(shape) > 1 and math.prod(shape[:-2]) == 1 else (array.size,),
        array.has_default,
        array.is_shared,
    )


def _array(array: ArrayView, kind: str) -> LibraryArrayView:
    """Describe an array; a result has an empty kind."""
    text = f"{array.text} [{array.unit}]" if array.unit else array.text
    is_shared, has_default = bool(kind) and ARRAYS[kind].shared, kind in DEFAULTED
    how = "; one for all states" if is_shared else ""
    return LibraryArrayView(
        name=array.name,
        size=array.size,
        text=text + how + (", or NULL" if has_default else ""),
        unit=array.unit,
        use="read" if kind else "written",
        is_result=not kind,
        has_default=has_default,
        is_shared=is_shared,
        is_number=is_shared and not ARRAYS[kind].shape,
        fallback=kind,
    )


def _of_search(array: LibraryArrayView) -> LibraryArrayView:
    """Return an input of inverse kinematics: all but the targets have defaults."""
    if array.name == "targets":
        return array
    text = f"{array.text}, or NULL"
    if array.name != "settings":
        return replace(array, has_default=True, text=text)
    text = "tolerances [m, rad], most iterations and starts; for all states, or NULL"
    return replace(array, has_default=True, text=text, size=len(_SETTINGS))


def default_views(
    tree: KinematicTree, functions: Iterable[LibraryFunctionView]
) -> list[DefaultView]:
    """Describe the defaults of inputs, each once."""
    sizes: dict[str, int] = {}
    for array in (array for view in functions for array in view.arrays if array.has_default):
        sizes[array.fallback] = max(array.size, sizes.get(array.fallback, 0))
    return [DefaultView(kind, _default(tree, kind, size)) for kind, size in sizes.items()]


def _default(tree: KinematicTree, kind: str, size: int) -> tuple[str, ...]:
    if kind == "gravity":
        return _numbers(tree.gravity)
    if kind in ("q0", "rest"):
        return _numbers(neutral_within_limits(tree).tolist())
    if kind in _SEARCH_DEFAULTS:
        return _numbers(_SEARCH_DEFAULTS[kind] * (size // len(_SEARCH_DEFAULTS[kind])))
    if kind == "proximal":
        single, double = (f"S({PROXIMAL[name]!r})" for name in ("float32", "float64"))
        return (", ".join([f"sizeof(S) == 4 ? {single} : {double}"] * size),)
    return _numbers(_flat(tree.parameters.get(kind, (0.0,) * size)))


def _flat(values: Iterable[object]) -> list[float]:
    found: list[float] = []
    for value in values:
        found += _flat(value) if isinstance(value, (tuple, list)) else [float(value)]  # type: ignore[arg-type]
    return found


def _numbers(values: Iterable[float]) -> tuple[str, ...]:
    return tuple(wrap(", ".join(f"S({number_literal(value)})" for value in values), _WIDTH))


def facts_view(tree: KinematicTree) -> FactsView:
    """Describe the constants of a robot."""
    limits = (
        ("lower_limits", "nq", tree.lower_limits),
        ("upper_limits", "nq", tree.upper_limits),
        ("effort_limits", "nv", tree.effort_limits),
        ("velocity_limits", "nv", tree.velocity_limits),
    )
    return FactsView(
        total_mass=number_literal(tree.total_mass),
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
    return number_literal(value) if math.isfinite(value) else f"{'-' if value < 0 else ''}unlimited"
