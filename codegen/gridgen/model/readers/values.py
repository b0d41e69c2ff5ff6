"""Text and numbers of a URDF element's attributes, with located errors."""

from __future__ import annotations

import math
import re

from lxml import etree

from gridgen.model.description import xacro_hint
from gridgen.model.pose import Vector3
from gridgen.model.readers.document import BLANKS, Document
from gridgen.naming import show

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


class Values:
    """Parser of attributes in one document."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def attribute(self, element: etree._Element, name: str, where: str) -> str:
        """Return a required attribute."""
        value = element.get(name)
        if value is None:
            raise self.document.error(f'{where} has no attribute {name}; add {name}="..."', element)
        return value

    def number(self, element: etree._Element, name: str, what: str) -> float:
        """Return one required number."""
        self.attribute(element, name, what)
        return self.numbers(element, name, what, 1)[0]

    def optional(
        self,
        element: etree._Element | None,
        name: str,
        what: str,
        default: float,
        infinite: bool = False,
    ) -> float:
        """Return one number, or the default where the attribute is absent."""
        if element is None or name not in element.attrib:
            return default
        return self.numbers(element, name, what, 1, infinite)[0]

    def triple(self, element: etree._Element, name: str, what: str, default: Vector3) -> Vector3:
        """Return three numbers, or the default where the attribute is absent."""
        if name not in element.attrib:
            return default
        x, y, z = self.numbers(element, name, f"{what} {name}", 3)
        return (x, y, z)

    def numbers(
        self, element: etree._Element, name: str, what: str, count: int, infinite: bool = False
    ) -> list[float]:
        """Return the numbers of an attribute: exactly ``count``, finite, in plain ASCII."""
        text = self.attribute(element, name, what)
        if len(text) > 1000:
            raise self.document.error(
                f"{what} is {show(text)}; write {_plural(count)} with fewer digits", element
            )
        words = re.findall(f"[^{BLANKS}]+", text)
        values = []
        for word in words:
            if infinite and _INFINITE.fullmatch(word):
                values.append(-math.inf if word.startswith("-") else math.inf)
                continue
            if not _NUMBER.fullmatch(word):
                raise self.document.error(
                    f"{what} is {show(text)}: {show(word)} is not a number"
                    f"{xacro_hint(text) or '; write it like 1.5 or -2e-3'}",
                    element,
                )
            value = float(word)
            if not math.isfinite(value):
                raise self.document.error(
                    f"{what} is {show(text)}: {show(word)} is not finite in float64", element
                )
            values.append(value + 0.0)  # no negative zeros: they would print as -0.0
        if len(values) != count:
            raise self.document.error(
                f"{what} is {show(text)}: expected {_plural(count)}, got {len(values)}", element
            )
        return values


def _plural(count: int) -> str:
    return "one number" if count == 1 else f"{count} numbers"
