"""Names of fused results, such as ``mass_matrix`` and ``jacobian:hand``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.functions.arrays import ARRAYS, OPTIONAL_INPUTS
from gridgen.functions.record import Function
from gridgen.functions.types import REFERENCES
from gridgen.kernel import SEVERAL, KernelKey
from gridgen.naming import hint, show, show_value, similar

#: Functions that can be fused: those whose arguments are a state, accelerations, joint torques, a
#: time step and velocities.
FUSED = tuple(
    name
    for name in GENERATED
    if set(FUNCTIONS[name].arguments) <= {"q", "qd", "qdd", "tau", "dt", "v"}
    and not any(ARRAYS[result].path for result in FUNCTIONS[name].results)
)


@dataclass(frozen=True)
class FusedPart:
    """One result of a fused function.

    Attributes:
        key:  kernel that computes it alone, under the thread schedule.
        name: name of the result: ``jacobian_hand``.
        row:  record of the function.
    """

    key: KernelKey
    name: str
    row: Function


def read_parts(
    names: object, frames: Mapping[str, str], method_of: Callable[[Function], str]
) -> tuple[FusedPart, ...]:
    """Return the parts that names specify.

    Args:
        names:     ``function``, ``function:method``, ``function:link`` or
                   ``function:link:reference`` each.
        frames:    identifiers of the robot's frames by name.
        method_of: returns the default method of a function for the robot.

    Raises:
        OptionError: a name is invalid or repeated, or two results have the same name.
    """
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence) or not names:
        raise OptionError(
            f"functions is {show_value(names)}; give a tuple of names, such as "
            '("mass_matrix", "jacobian:hand")'
        )
    found: dict[KernelKey, str] = {}
    parts: list[FusedPart] = []
    for name in names:
        part = _read(name, frames, method_of)
        if part.key in found:
            same = "" if found[part.key] == name else f" (equal to {show(found[part.key])})"
            raise OptionError(f"{show(name)}{same} is requested twice; name each result once")
        for other in parts:
            if other.name == part.name:
                raise OptionError(
                    f"{show(found[other.key])} and {show(name)} would both be named {part.name}; "
                    "request them in two calls"
                )
        found[part.key] = name
        parts.append(part)
    return tuple(parts)


def _read(
    name: object, frames: Mapping[str, str], method_of: Callable[[Function], str]
) -> FusedPart:
    if not isinstance(name, str):
        raise OptionError(
            f"functions contains {show_value(name)}; give names, such as jacobian:hand"
        )
    function, _, rest = name.partition(":")
    if function not in FUSED:
        near = hint(function, FUSED) or "the manual's page of functions lists those that can be"
        if function in FUNCTIONS:
            near = "call it separately"
        raise OptionError(f"function {show(function)} cannot be fused; {near}")
    row = FUNCTIONS[function]
    if row.of_frame or (row.has_frames and rest):
        frame, reference = _frame(name, rest, row, frames)
        words = (frames[frame], "" if reference == REFERENCES[0] else reference)
        key = KernelKey(function, frame=frames[frame], reference=reference)
        return FusedPart(key, "_".join(filter(None, (function, *words))), row)
    methods = [method for method, one in row.methods.items() if method and one.algorithm]
    if rest and rest not in methods:
        choices = f"one of {', '.join(methods)}" if methods else "nothing"
        raise OptionError(f"{show(name)}: after the colon {function} takes {choices}")
    key = KernelKey(function, rest or method_of(row))
    return FusedPart(key, "_".join(filter(None, (function, rest))), row)


def _frame(name: str, rest: str, row: Function, frames: Mapping[str, str]) -> tuple[str, str]:
    """Return the frame and the reference after the colon."""
    default = REFERENCES[0] if row.of_frame else ""
    if rest in frames:
        return rest, default
    frame, colon, reference = rest.rpartition(":")
    if colon and frame in frames:
        if row.of_frame and reference in REFERENCES:
            return frame, reference
        choices = f"one of {', '.join(REFERENCES)}" if row.of_frame else "nothing"
        raise OptionError(f"{show(name)}: after the link {row.name} takes {choices}")
    near = similar(rest, frames) or tuple(frames)[:3]
    what = f"no frame {show(rest)}" if rest else f"{row.name} requires a link"
    hint = " or ".join(f"{row.name}:{frame}" for frame in near)
    raise OptionError(f"{show(name)}: {what}; give {hint} (all: frame_names)")


def search_key(frames: Sequence[str]) -> KernelKey:
    """Return the key of the inverse kinematics of frames, by their identifiers.

    Without frames, it is that of the projection onto the constraints.
    """
    parts = tuple(KernelKey("inverse_kinematics", frame=ident) for ident in frames)
    return KernelKey("inverse_kinematics", parts=parts)


def arguments_of(parts: Sequence[FusedPart]) -> tuple[str, ...]:
    """Return the arguments of the parts, each once, in the order of the registry."""
    needed = {array for part in parts for array in part.row.arguments}
    return tuple(name for name in ARRAYS if name in needed)


def optional_inputs_of(parts: Sequence[FusedPart]) -> tuple[str, ...]:
    """Return the optional inputs that some of the parts support."""
    read = {name for part in parts for name in part.row.optional_inputs}
    return tuple(name for name in OPTIONAL_INPUTS if name in read)


def key_of(parts: Sequence[FusedPart], inputs: tuple[str, ...] = (), label: str = "") -> KernelKey:
    """Return the key of the kernel that computes the parts.

    Args:
        parts:  parts; for a single part without label, the key is the function's own.
        inputs: optional inputs that the kernel reads.
        label:  name of the fused function.
    """
    if len(parts) == 1 and not label:
        return replace(parts[0].key, inputs=inputs)
    return KernelKey(SEVERAL, inputs=inputs, parts=tuple(part.key for part in parts), label=label)
