r"""Conversion of names from a URDF to identifiers, comments and error messages.

A link may be called ``for``, ``left arm``, ``左腕`` or ``x\``, or have a malicious name.
``ident`` and ``unique`` make identifiers, ``comment`` makes text for a one-line comment, and
``show`` makes text for a message. No other text of a file reaches generated code.
"""

from __future__ import annotations

import csv
import keyword
import re
import reprlib
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from gridgen.errors import OptionError, printable
from gridgen.reserved import is_declared

MAX_IDENT = 48
"""Longest identifier fragment; ``unique`` adds a counter of a few digits to it where needed."""

MAX_COMMENT = 80
MAX_SHOWN = 60
#: Most choices that a message lists; of more, the nearest.
MAX_LISTED = 12

# Reserved words of C++, CUDA and operating systems, besides Python's keywords. A fragment usually
# is part of a longer symbol (v_<fragment>_wx); a robot's name is a symbol of its own: a namespace,
# a folder and a Python package.
_RESERVED = frozenset(
    (
        *keyword.kwlist,
        *keyword.softkwlist,
        *"""
        alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor
        bool break case catch char char8_t char16_t char32_t class compl concept const consteval
        constexpr constinit const_cast continue contract_assert co_await co_return co_yield decltype
        default delete do double dynamic_cast else enum explicit export extern false float for
        friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or
        or_eq private protected public reflexpr register reinterpret_cast requires restrict return
        short signed sizeof static static_assert static_cast struct switch synchronized template
        this thread_local throw true try typedef typeid typename typeof union unsigned using virtual
        void volatile wchar_t while xor xor_eq
        """.split(),
        *"""
        blockDim blockIdx gridDim threadIdx warpSize cuda cudart nvcuda cub thrust half
        std abi main std_main unix linux assert errno NULL EOF NAN INFINITY
        abs acos asin atan atan2 ceil cos cosh exp fabs floor fma fmod hypot log max min pow rint
        round signbit sin sincos sinh sqrt tan tanh trunc
        gridgen generated numpy self
        """.split(),
        *"aux con nul prn".split(),
        *(f"{port}{number}" for port in ("com", "lpt") for number in range(10)),
    )
)


def ident(name: str) -> str:
    """Return an identifier fragment that resembles ``name``, valid in C++ and in Python.

    The result matches ``[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*``: fragments joined by single
    underscores never contain a reserved ``__``. Different names may give the same fragment;
    ``unique`` makes them distinct.
    """
    # The limit bounds the cost of very long names; NFKD shortens no letter to nothing.
    plain = unicodedata.normalize("NFKD", name[: 4 * MAX_IDENT])
    plain = plain.encode("ascii", "ignore").decode("ascii")
    words = re.findall("[A-Za-z0-9]+", plain)
    text = "_".join(words)[:MAX_IDENT].rstrip("_")
    if not text:
        return "unnamed"
    if text[0].isdigit() or text in _RESERVED or text.lower() in _RESERVED:
        return f"n_{text}"
    return text


def robot_ident(name: str) -> str:
    """Return the identifier of a robot: a namespace in C++, a package in Python, a folder.

    No header declares the identifier outside all namespaces.
    """
    text = ident(name)
    return f"n_{text}" if is_declared(text, _RESERVED) else text


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Return one identifier fragment per name, all distinct, in the order of ``names``.

    A name that is a valid fragment is not changed; the others are numbered where they clash.
    """
    result = [ident(name) for name in names]
    taken: set[str] = set()
    clashing: list[int] = []
    for index, (name, fragment) in enumerate(zip(names, result, strict=True)):
        if fragment == name and fragment not in taken:
            taken.add(fragment)
        else:
            clashing.append(index)
    next_number: dict[str, int] = {}
    for index in clashing:
        fragment = candidate = result[index]
        while candidate in taken:
            number = next_number.get(fragment, 2)
            next_number[fragment] = number + 1
            candidate = f"{fragment}_{number}"
        taken.add(candidate)
        result[index] = candidate
    return tuple(result)


class Names:
    """Unique names in one scope."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def fresh(self, stem: str, endings: Sequence[str] = ("",)) -> str:
        """Return ``stem``, numbered if it is taken with or without one of the endings."""
        number = self._numbers.get(stem, 1)
        while True:
            name = stem if number == 1 else f"{stem}_{number}"
            number += 1
            if not any(name + ending in self._taken for ending in endings):
                break
        self._numbers[stem] = number
        self._taken.update(name + ending for ending in endings)
        return name


def comment(text: str, limit: int = MAX_COMMENT) -> str:
    """Return ``text`` for a one-line comment in C++ or Python: ASCII, on one line, inert.

    Rewrites characters that could end or continue the comment (line ends, backslashes, trigraphs,
    ``*/``), nest in it (``/*``), end a docstring (``"``) or declare an encoding (``coding:``).
    """
    shown = "".join(_comment_character(character) for character in text[: limit + 1])
    # "?*/" must not reappear once "??" or "/*" is broken up, hence a gap inside each pair.
    shown = re.sub(r"\?(?=\?)|\*(?=/)|/(?=\*)", r"\g<0> ", shown)
    shown = re.sub("coding(?=[:=])", "coding ", shown)
    if len(text) > limit or len(shown) > limit:
        shown = shown[: limit - 3].rstrip() + "..."
    return shown


def _comment_character(character: str) -> str:
    """Return one character of a comment, or its code point if it is unsafe."""
    if character == '"':
        return "'"
    if character == "\\" or not " " <= character <= "~":
        return f"<U+{ord(character):04X}>"
    return character


def string_literal(text: str) -> str:
    """Return ``text`` as a C++ string literal in UTF-8."""
    # Escapes of three octal digits need no terminator.
    plain = "".join(map(chr, range(0x20, 0x7F)))
    data = text.encode("utf-8", "surrogatepass")
    escaped = (
        chr(byte) if chr(byte) in plain and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in data
    )
    return f'"{"".join(escaped)}"'


def number_literal(value: float) -> str:
    """Return the shortest decimal number of C++ that reads back as ``value``.

    A number without a point or an exponent is a C++ integer that float represents exactly.
    """
    digits, _, exponent = repr(float(value)).partition("e")
    is_small_integer = digits.endswith(".0") and abs(value) < 1 << 24 and digits != "-0.0"
    if exponent:
        return f"{digits.removesuffix('.0')}e{int(exponent)}"
    return digits.removesuffix(".0") if is_small_integer else digits


def show(text: str, limit: int = MAX_SHOWN) -> str:
    """Return ``text`` in double quotes for a message: one printable line of bounded length."""
    head = text if len(text) <= limit else text[: limit - 20]
    escaped = printable(head.replace("\\", "\\\\")).replace('"', '\\"')
    return f'"{escaped}"' if head is text else f'"{escaped}..." ({len(text)} characters)'


def show_value(value: object) -> str:
    """Return the repr of a value for a message: one line of bounded length."""
    try:
        return " ".join(reprlib.repr(value).split())
    except Exception:  # an integer of more digits than Python prints, or an object's own error
        return f"<{type(value).__name__}>"


def one_line(error: BaseException) -> str:
    """Return another library's error message as one line."""
    return " ".join(str(error).split())


def similar(name: str, names: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Return up to ``count`` of ``names`` that resemble ``name``, best match first."""
    import difflib  # only for messages

    short = name[:MAX_SHOWN]
    folded: dict[str, str] = {}
    for candidate in names:
        if abs(len(candidate) - len(name)) <= len(short):
            folded.setdefault(candidate[:MAX_SHOWN].lower(), candidate)
    matches = difflib.get_close_matches(short.lower(), folded, n=count, cutoff=0.6)
    return tuple(folded[match] for match in matches)


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless an option has one of the valid values."""
    if not isinstance(value, str) or value not in choices:
        given = show(value) if isinstance(value, str) else show_value(value)
        near = similar(value, choices) if isinstance(value, str) else ()
        nearest = f" (the nearest is {near[0]})" if near else ""
        if near and len(choices) > MAX_LISTED:
            begun = tuple(choice for choice in choices if choice.startswith(value))
            choices, nearest = begun[:3] or near, " (the nearest)"
        raise OptionError(f"{option} is {given}; choose one of {', '.join(choices)}{nearest}")


# Our names, by short names and by names of options elsewhere.
_WORDS = {
    "com": "center_of_mass",
    "fd": "forward_dynamics",
    "fk": "forward_kinematics",
    "id": "inverse_dynamics",
    "ik": "inverse_kinematics",
    "decimation": "substeps",
    "fix_base": "floating_base",
    "fixed_base": "floating_base",
    "free_flyer": "floating_base",
    "freeflyer": "floating_base",
    "nstep": "substeps",
    "nsteps": "substeps",
    "package_dirs": "mappings",
    "root_joint": "floating_base",
    "timestep": "dt",
    "use_fixed_base": "floating_base",
}


def equivalents() -> list[list[str]]:
    """Return rows of our names, and those of other libraries, in Markdown; the headings first."""
    with (Path(__file__).parent / "equivalents.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@cache
def _ours() -> dict[str, str]:
    """Return our function for each name of another library, in lower case."""
    found: dict[str, str] = {}
    for own, *others in equivalents()[1:]:
        function = re.findall(r"`([\w.]+)", own)[0]
        for name in re.findall(r"`([\w.]+)`", " ".join(others)):
            found.setdefault(name.lower(), function)
    return _WORDS | found


def hint(name: str, names: Iterable[str]) -> str:
    """Return what may be meant by an unknown name, as the end of a message, or nothing.

    Args:
        name:  the unknown name.
        names: the valid names.
    """
    valid = tuple(names)
    own = _ours().get(name.lower())
    near = (own,) if own in valid else similar(name, valid)
    return f"did you mean {' or '.join(near)}?" if near else ""


def unknown_keyword(function: str, name: str, names: Iterable[str]) -> TypeError:
    """Return the error for a keyword argument that a function does not have."""
    near = hint(name, names)
    return TypeError(
        f"{function}() got an unexpected keyword argument {name!r}{'; ' if near else ''}{near}"
    )
