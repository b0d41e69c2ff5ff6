"""What the manual's pages need beside Markdown: formulas as MathML, links that stay inside."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring, tostring

from latex2mathml.converter import convert

_PAGES = Path(__file__).parent
# A link to a folder above, whose text remains if its target is not a page.
_UPWARD = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#]*)[^)]*\)")
# What the converter knows by another name, or sets without the space around a function.
_OTHER_NAMES = {"{aligned}": "{align*}", r"\log": r"\operatorname{log}"}
_PRIMES = {"\N{PRIME}", "\N{DOUBLE PRIME}"}
# The place of the methods in reference/robot.md, and the tasks of those that are no function.
_METHODS = "<!-- The methods of Robot, grouped by task: docs/site_hooks.py writes them here. -->"
_TASKS = {
    "Fused and bound calls": ("compute", "bind", "evaluate"),
    "Products with derivatives": ("vjp", "jvp", "rollout_vjp"),
    "Selection and compilation of kernels": ("plan", "tune", "compile", "kernels", "functions"),
    "Parameters as inputs": ("parameters", "parameter_names", "check_parameters"),
    "Inspection": ("report", "plot_tree", "plot_sparsity"),
}
_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_pre_build(config: Any) -> None:
    """Draw the figures that are missing: benchmarks/figures.py makes them from tables."""
    benchmarks = Path(__file__).parents[1] / "benchmarks"
    sys.path.insert(0, str(benchmarks))
    try:
        import figures
    finally:
        sys.path.remove(str(benchmarks))
    figures.write(n for n in figures.FIGURES if not (figures.FOLDER / f"{n}.svg").is_file())


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links out of the manual by their text, and list the methods of a robot by task."""
    folder = (_PAGES / page.file.src_uri).parent

    def inside(match: re.Match[str]) -> str:
        return match[0 if (folder / match[2]).resolve().is_relative_to(_PAGES) else 1]

    if _METHODS in markdown:
        markdown = markdown.replace(_METHODS, _methods())
    return _UPWARD.sub(inside, markdown)


def _methods() -> str:
    """Return a section for each task with the methods of a robot; no method is left out."""
    from gridgen.functions import FUNCTIONS
    from gridgen.robot import Robot

    groups: dict[str, list[str]] = {}
    for row in FUNCTIONS.values():
        groups.setdefault(row.group.partition(":")[0], []).append(row.name)
    groups |= {title: list(names) for title, names in _TASKS.items()}
    listed = {name for names in groups.values() for name in names}
    others = [name for name in dir(Robot) if not name.startswith("_") and name not in listed]
    lines = []
    for title, names in (groups | {"The model": others}).items():
        lines += [f"## {title}", ""]
        lines += [f"::: gridgen.robot.Robot.{name}\n" for name in names if hasattr(Robot, name)]
    return "\n".join(lines)


def on_page_content(content: str, **_: Any) -> str:
    """Set formulas: browsers draw MathML by themselves, without scripts from elsewhere."""
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    kind, text = match.groups()
    formula = html.unescape(text).strip()
    formula = formula.removeprefix("\\(").removesuffix("\\)")
    formula = formula.removeprefix("\\[").removesuffix("\\]")
    for ours, its in _OTHER_NAMES.items():
        formula = formula.replace(ours, its)
    # HTML knows MathML without its namespace.
    math = fromstring(convert(formula.strip(), "", "block" if kind == "div" else "inline"))
    _align(math)
    _raise_primes(math)
    _fit_bars(math)
    found = tostring(math, encoding="unicode")
    return f"<p>{found}</p>" if kind == "div" else found


def _align(math: Element) -> None:
    """Let columns meet at a relation: of sides, not all browsers read the attributes."""
    for cell in math.iter("mtd"):
        if side := cell.get("columnalign"):
            cell.set("style", f"text-align: {side}; padding-{side}: 0")


def _raise_primes(math: Element) -> None:
    """Set primes as signs behind: raised by themselves, they are tiny where they are scripts."""
    for script in [*math.iter("msup"), *math.iter("msubsup")]:
        *base, prime = script
        if prime.text not in _PRIMES:
            continue
        if script.tag == "msubsup":
            inner = Element("msub")
            inner.extend(base)
            base = [inner]
        prime.tag = "mo"
        script.tag = "mrow"
        script[:] = [*base, prime]


def _fit_bars(math: Element) -> None:
    """Make bars as wide as what they are over; the converter's is a dash."""
    for over in math.iter("mover"):
        if over[-1].text == "\N{HORIZONTAL BAR}":
            over.set("accent", "true")
            over[-1].set("stretchy", "true")
            over[-1].text = "\N{OVERLINE}"
