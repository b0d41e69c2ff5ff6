"""Hooks of the site: formulas become MathML, links out of the manual become text."""

from __future__ import annotations

import html
import re
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
# A line that names a program of examples/: the site shows its text.
_PROGRAM = re.compile(r"^The program: \[(examples/[\w/.]+)\]\(.*\)(: .*)?$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".cpp": "cpp"}
_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links out of the manual by their text, and those to programs by the programs."""
    folder = (_PAGES / page.file.src_uri).parent

    def inside(match: re.Match[str]) -> str:
        return match[0 if (folder / match[2]).resolve().is_relative_to(_PAGES) else 1]

    return _UPWARD.sub(inside, _PROGRAM.sub(_shown, markdown))


def _shown(match: re.Match[str]) -> str:
    """Return the text of a program, folded."""
    path, words = match.groups(default="")
    text = (_PAGES.parent / path).read_text(encoding="utf-8")
    lines = [f"``` {_LANGUAGES[Path(path).suffix]}", *text.splitlines(), "```"]
    return "\n".join([f'??? example "{path}{words}"', "", *(f"    {line}" for line in lines)])


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
