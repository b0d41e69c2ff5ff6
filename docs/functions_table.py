"""The table of functions in functions.md, made from the registry: `make golden` writes it anew.

python docs/functions_table.py docs/functions.md
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from gridgen.functions import FUNCTIONS, Declared, Function
from gridgen.functions.arrays import ARRAYS, OPTIONAL_INPUTS
from gridgen.options import LEFT_OUT

BEGIN = "<!-- The table is made from codegen/gridgen/functions by `make golden`. -->\n"
END = "<!-- End of the table. -->\n"


def table() -> str:
    """Return a row for each function: call, results with their shapes, summary, keywords."""
    rows = ["| function | result | | also takes |", "|---|---|---|---|"]
    group = ""
    for row in FUNCTIONS.values():
        if row.group != group:
            group = row.group
            rows.append(f"| **{group}** | | | |")
        times = ("T",) * row.in_time
        results = ", ".join(f"{name} {_shape(name, times)}" for name in row.results)
        summary = row.summary.removeprefix("Return ").replace("``", "`").removesuffix(".")
        call = f"`{row.name}({_arguments(row)})`{' †' * (row.name in LEFT_OUT)}"
        rows.append(f"| {call} | {results} | {summary} | {_keywords(row)} |")
    return "\n".join(rows) + "\n"


def _arguments(row: Function) -> str:
    """Return the positional arguments, and after a star the method where there are several."""
    signature = inspect.signature(getattr(Declared, row.name))
    shown = []
    for name, parameter in list(signature.parameters.items())[1:]:
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD or name == row.method_word:
            has_default = parameter.default is not parameter.empty
            default = str(parameter.default)
            quoted = f'"{default}"' if isinstance(parameter.default, str) else default
            if parameter.kind is parameter.KEYWORD_ONLY:
                shown.append("*")
            shown.append(f"{name}={quoted}" if has_default else name)
    return ", ".join(shown)


def _keywords(row: Function) -> str:
    """Return the keyword arguments of some functions; all optional inputs are ``loads``."""
    loads = [array for one in OPTIONAL_INPUTS.values() for array in one.arrays if array != "offset"]
    has_all = set(loads) <= set(row.options)
    named = ("schedule", "gravity", "offset", *(() if has_all else loads))
    shown = [f"`{name}`" for name in row.options if name in named]
    return ", ".join([*shown, "loads"] if has_all else shown)


def _shape(name: str, times: tuple[str, ...]) -> str:
    shape = ("B", *times, *("T + 1",) * ARRAYS[name].path, *ARRAYS[name].shape)
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def with_table(text: str) -> str:
    """Return a text with its table made anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"the text has no place for the table: {BEGIN.strip()}"
    return f"{before}{begin}\n{table()}\n{end}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
