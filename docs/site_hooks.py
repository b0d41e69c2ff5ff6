"""What the manual's pages need beside Markdown: formulas as MathML, links that stay inside."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

# A link to a file of the checkout, which is no page: its words are left.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!docs/)[^)]*\)")
# What the converter knows by another name, or sets without the space around a function.
_OTHER_NAMES = {"{aligned}": "{align*}", r"\log": r"\operatorname{log}"}
# Columns that meet at a relation. Browsers read the styles, not all of them the attributes.
_ALIGNED = {
    'columnalign="right"': 'style="text-align: right; padding-right: 0"',
    'columnalign="left"': 'style="text-align: left; padding-left: 0"',
}
_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let words stand where a link would leave the manual."""
    return _OUTSIDE.sub(r"\1", markdown)


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
    if kind == "span":
        return convert(formula.strip())
    set_alone = convert(formula.strip(), display="block")
    for attribute, style in _ALIGNED.items():
        set_alone = set_alone.replace(attribute, style)
    return f"<p>{set_alone}</p>"
