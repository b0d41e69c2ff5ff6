"""The tables of the manual that show data, made from benchmarks/results/tables by `make golden`.

python docs/results_tables.py
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

PAGES = Path(__file__).parent
TABLES = PAGES.parent / "benchmarks" / "results" / "tables"
PLACE = re.compile(r"(<!-- Data: (\w+) -->\n).*?(<!-- End of the data\. -->\n)", flags=re.DOTALL)


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


def with_tables(text: str) -> str:
    """Return a page with its tables made anew."""
    return PLACE.sub(lambda match: f"{match[1]}\n{table(match[2])}\n{match[3]}", text)


if __name__ == "__main__":
    for path in sorted(PAGES.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if text != with_tables(text):
            path.write_text(with_tables(text), encoding="utf-8")
