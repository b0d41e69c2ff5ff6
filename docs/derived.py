"""The parts of the manual that are derived: `make golden` writes them, a test compares them.

A place in a page begins with a comment of a kind and a name, and ends with another comment::

* ``<!-- Data: name -->``: a table of benchmarks/results/tables
* ``<!-- Registry: functions -->``: a row for each function
* ``<!-- Runs: ilqr -->``: a run of benchmarks/ilqr.py
* ``<!-- Libraries: all or short -->``: what libraries have, by libraries.csv
* ``<!-- File: name -->``: a page of benchmarks/results, without its title
* ``<!-- Options: record -->``: the options of the command line that a record has
* ``<!-- API: name -->``: the docstring of a class or function, with those of its members
* ``<!-- Functions: group -->``: the docstrings of a group of functions, or of methods of Robot
* ``<!-- Names: heading -->``: our names, and those of other libraries

python docs/derived.py
"""

from __future__ import annotations

import csv
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import gridgen.options
from gridgen.commands.options import flags_of, help_of
from gridgen.functions import FUNCTIONS, Declared, Function
from gridgen.functions.arrays import ARRAYS, OPTIONAL_INPUTS
from gridgen.naming import equivalents
from gridgen.options import LEFT_OUT, rows
from gridgen.robot import Robot

PAGES = Path(__file__).parent
RESULTS = PAGES.parent / "benchmarks" / "results"
TABLES = RESULTS / "tables"
PLACE = re.compile(
    r"(<!-- (Data|Registry|Libraries|Runs|File|Options|API|Functions|Names): (.+?) -->\n)"
    r".*?(<!-- End of the \w+\. -->\n)",
    flags=re.DOTALL,
)
# Methods of Robot that are no functions of the registry; the others describe the model.
_TASKS = {
    "Fused and bound calls": ("compute", "bind", "evaluate"),
    "Products with derivatives": ("vjp", "jvp", "rollout_vjp"),
    "Selection and compilation of kernels": ("plan", "tune", "compile", "kernels", "functions"),
    "Parameters as inputs": ("parameters", "parameter_names", "check_parameters"),
    "Inspection": ("report", "plot_tree", "plot_sparsity"),
}
_MODEL = "The model"
_ENTRY = re.compile(r"^([\w*][\w*., ]*):(?: +(.*))?$")


def rows_of(name: str) -> list[list[str]]:
    """Return a table's rows, the headings first."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def table(name: str) -> str:
    """Return a table in Markdown, columns of numbers set to the right."""
    headings, *rows = rows_of(name)
    columns = zip(*rows, strict=True)
    rules = ["---:" if all(re.match(r"[\d<.-]|$", x) for x in one) else "---" for one in columns]
    return "".join(f"| {' | '.join(row)} |\n" for row in (headings, rules, *rows))


def runs(name: str) -> str:
    """Return rates of a run of benchmarks/ilqr.py."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    lines = ["| problem | `dtype` | `ilqr` | Crocoddyl | ratio | same minimum |"]
    lines.append("|---|---|---:|---:|---:|---|")
    for row in found:
        keys = ("problems_per_core_s", "crocoddyl_problems_per_core_s", "ratio")
        rates = " | ".join(f"{float(row[key]):,.0f}" for key in keys)
        minima = f"{row['same_minimum']} of {row['compared']}"
        lines.append(f"| {row['case']} | {row['dtype']} | {rates} | {minima} |")
    return "\n".join(lines)


def libraries(name: str) -> str:
    """Return what libraries have: all rows, or those of README.md for the first columns."""
    with (PAGES / "libraries.csv").open(encoding="utf-8", newline="") as file:
        (_, *headings), *found = csv.reader(file)
    is_short = name == "short"
    shown = [row for is_first, *row in found if is_first or not is_short]
    lines = [headings, ["---"] * len(headings), *shown]
    end = headings.index("BARD") if is_short else None
    text = "".join(f"| {' | '.join(row[:end])} |\n" for row in lines)
    return text if is_short else text.replace("](docs/", "](")


def result(name: str) -> str:
    """Return a page of results without its title."""
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    return re.sub(r"\A# .*\n+", "", text)


def options(name: str) -> str:
    """Return a table of the options of the command line that a record declares itself."""
    lines = ["| option | effect |", "|---|---|"]
    for one, default, row in rows(getattr(gridgen.options, name)):
        flags = ", ".join(f"`{flag}`" for flag in flags_of(one, row))
        value = f" `{row.metavar}`" if row.metavar else ""
        text = help_of(default, row, is_markdown=True).replace("|", r"\|")
        text = re.sub(r"docs/((?:\w+/)?(\w+))\.md", r"[\2](\1.md)", text)
        lines.append(f"| {flags}{value} | {text} |")
    return "\n".join(lines)


def names(library: str) -> str:
    """Return the table of names in other libraries; ``library`` is the heading of ours."""
    head, *rows = equivalents()
    assert head[0] == library
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(cells)} |".replace("  |", " |") for cells in lines)


def groups() -> dict[str, list[str]]:
    """Return the methods of Robot by group; every public one is in a group."""
    found: dict[str, list[str]] = {}
    for row in FUNCTIONS.values():
        found.setdefault(row.group.partition(":")[0], []).append(row.name)
    found |= {title: list(names) for title, names in _TASKS.items()}
    listed = {name for names in found.values() for name in names}
    others = [name for name in dir(Robot) if not name.startswith("_") and name not in listed]
    return found | {_MODEL: others}


def functions(group: str) -> str:
    """Return the reference of the methods of a group."""
    return "\n".join(described(name, getattr(Robot, name)) for name in groups()[group])


def registry(_: str) -> str:
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


def reference(name: str) -> str:
    """Return the reference of a function, a class with its members, or of what a module defines."""
    path, _, attribute = name.rpartition(".")
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError:
        found = getattr(importlib.import_module(path), attribute)
    if inspect.ismodule(found):
        own = [one for one in vars(found).values() if getattr(one, "__module__", "") == name]
        public = [one for one in own if not one.__name__.startswith("_")]
        return "\n".join(described(one.__name__, one) for one in public)
    parts = [described(attribute, found)]
    if inspect.isclass(found) and found is not Robot:
        members = {key: one for key, one in vars(found).items() if not key.startswith("_")}
        public = (inspect.isfunction, lambda one: isinstance(one, (property, classmethod)))
        for key, one in members.items():
            if any(is_kind(one) for is_kind in public) and inspect.getdoc(one):
                parts.append(described(key, one, level=4))
    return "\n".join(parts)


def described(name: str, found: Any, level: int = 3) -> str:
    """Return the signature and the docstring of an object in Markdown."""
    found = getattr(found, "__func__", found)
    lines = [f"{'#' * level} {name}", ""]
    # Users make objects of records alone.
    if is_called := is_dataclass(found) or (callable(found) and not inspect.isclass(found)):
        lines += ["```py", f"{name}{_signature(found)}", "```", ""]
    text = "\n".join([*lines, *_docstring(inspect.getdoc(found) or "", is_called=is_called)])
    return re.sub("(?<!`)``(?!`)", "`", text)


def _signature(found: Callable[..., Any]) -> str:
    """Return the parameters, in lines of at most 90 characters; types are in the docstring."""
    signature = inspect.signature(found)
    shown = [
        one.replace(annotation=inspect.Parameter.empty)
        for key, one in signature.parameters.items()
        if key not in ("self", "cls")
    ]
    words = str(signature.replace(parameters=shown, return_annotation=inspect.Parameter.empty))
    # Double quotes: those of the formatter, which also reads the pages.
    lines, rest = [], re.sub(r"<(?:factory|[^<]* at 0x\w+)>", "...", words).replace("'", '"')
    while len(rest) > 90 and (cut := rest.rfind(", ", 0, 88)) > 0:
        lines.append(rest[: cut + 1])
        rest = " " * 4 + rest[cut + 2 :]
    return "\n".join([*lines, rest])


def _docstring(text: str, *, is_called: bool) -> Iterator[str]:
    """Yield the lines of a docstring; entries of a section become rows of a table."""
    for number, part in enumerate(re.split(r"\n(?=(?:Args|Returns|Raises|Attributes):\n)", text)):
        head, _, body = part.partition("\n")
        if number == 0 and not head.endswith(":"):
            yield part.rstrip() + "\n"
            continue
        # A section ends with the first line that is not indented.
        inside, after = re.fullmatch(r"((?: [^\n]*\n?|\n)*)((?s:.*))", body).groups()
        if is_called or head != "Args:":
            yield f"| {head.removesuffix(':').lower()} | |\n|---|---|"
            yield from (f"| {key} | {words} |" for key, words in _entries(dedent(inside)))
        yield f"\n{after.rstrip()}\n" if after.strip() else ""


def _entries(text: str) -> list[tuple[str, str]]:
    """Return the names and descriptions of a section; indented lines continue an entry."""
    found: list[list[str]] = []
    for line in text.splitlines():
        match = None if line.startswith(" ") else _ENTRY.match(line)
        if match:
            found.append([f"`{match[1]}`", match[2] or ""])
        elif line.strip():
            if not found or line.startswith(("Also ", "then ")):
                found.append(["", line])
            else:
                found[-1][1] += f" {line}"
    return [(key, " ".join(words.split()).replace("|", r"\|")) for key, words in found]


_WRITERS: dict[str, Callable[[str], str]] = {
    "Data": table,
    "Registry": registry,
    "Libraries": libraries,
    "Runs": runs,
    "File": result,
    "Options": options,
    "API": reference,
    "Functions": functions,
    "Names": names,
}


def with_derived(text: str) -> str:
    """Return a page with its derived parts made anew."""
    return PLACE.sub(lambda m: f"{m[1]}\n{_WRITERS[m[2]](m[3]).strip()}\n\n{m[4]}", text)


def pages() -> list[Path]:
    """Return the files that have derived parts."""
    return [PAGES.parent / "README.md", *sorted(PAGES.rglob("*.md"))]


if __name__ == "__main__":
    for path in pages():
        text = path.read_text(encoding="utf-8")
        if text != with_derived(text):
            path.write_text(with_derived(text), encoding="utf-8")
