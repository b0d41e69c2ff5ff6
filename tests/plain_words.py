"""Checks the words of the manual and of the package by the rules of plain English.

    python tests/plain_words.py                          # the manual
    python tests/plain_words.py codegen/gridgen/robot.py # docstrings and messages of a module too

Prints file, line, rule and text of each finding. The tests check the docstrings and messages of all
``MODULES``, and their names, and the comments of ``COMMENTED``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(ROOT / folder / "README.md" for folder in ("benchmarks", "generated", "robots")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: Modules whose docstrings and messages the tests check.
MODULES = sorted(
    path
    for folder in ("codegen/gridgen", "docs", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
#: Files whose comments the tests check, for words alone.
COMMENTED = sorted(
    [
        *MODULES,
        *(ROOT / name for name in ("Makefile", "pyproject.toml", ".mkdocs.yml", ".ci/run")),
        *(path for path in (ROOT / "templates").rglob("*") if path.is_file()),
        *(ROOT / "examples").rglob("*.cpp"),
    ]
)

#: Parts of a page that are written by a command.
DERIVED = re.compile(r"<!-- (?:The table|\w+:).*?<!-- End.*?-->", flags=re.DOTALL)

MAX_WORDS = 35
MAX_PASSIVES = 3

#: What the project does not say, and what it says instead.
BANNED = {
    r"if need be": "when necessary",
    r"but for": "except",
    r"beside": "next to, in addition to",
    r"anyhow|anyway": "strike it",
    r"whatever|whoever|whichever": "name the thing",
    r"so many": "a number",
    r"of which": "two sentences",
    r"as told": "strike it",
    r"unasked": "by default",
    r"that there (?:is|are)": "strike it",
    r"shall": "must, will",
    r"efforts?(?! limits?)": "joint torque, generalized force",
    r"(?<!manipulator )loads(?= (?:and|or|are|is)\b|[,.;:)])": "external wrenches and base motion",
    r"rooms?|house": "memory, workspace; package, module",
    r"tells?|told": "report, return, specify",
    r"asks?|asked": "request, require",
    r"wanted": "desired, requested",
    r"feels?": "name the force",
    r"keeps?|kept": "store, cache, retain",
    r"look(?:s|ed)? at": "validate, check, inspect",
    r"familiar": "prepared calls",
    r"ways": "trajectories, methods",
    r"in turns?|tak(?:e|es|ing) turns|by turns": "alternate, in sequence",
    r"pretended": "fake",
    r"at hand": "available",
    r"read in place": "used without a copy",
    r"ceilings?": "roofline bound",
    r"the course": "options",
    r"nobody|somebody": "name the actor",
    r"goes about|gets at": "use one verb",
}
#: Parts of names that have other words in the field.
NAMES = "wanted asked unasked told tells hopeless oddity oddities kept keeps beside whatever nobody"
_PARTS = "|".join(NAMES.split())
_TITLES = "|".join(NAMES.title().split())
NAMES_PATTERN = re.compile(rf"\w*((?<![A-Za-z])(?:{_PARTS})|(?:{_TITLES}))(?![a-z])\w*")
BANNED_PATTERN = re.compile(rf"\b(?:{'|'.join(f'({one})' for one in BANNED)})\b", re.IGNORECASE)
#: Clauses as subjects, such as "What is missing is compiled": begin with the actor.
CLAUSE = re.compile(r"^(?:What|Who) (?!.*\?$)")

#: British spellings: stems, and what follows them.
STEMS = "normal optim linear special initial discret minim maxim organ recogn synchron parallel"
STEMS += " random factor orthogonal vector general serial summar visual util real stabil"
STEMS += " character priorit penal custom local global symbol quant regular"
BRITISH = re.compile(
    rf"\b(?:\w*(?:{'|'.join(STEMS.split())})(?:is(?:e[sdr]?|ers|ing|ations?))"
    r"|(?:centi|milli|kilo)?met(?:re)s?|cent(?:re)[sd]?|colou(?:r)s?|behaviou(?:r)s?|neighbou(?:r)\w*"
    r"|favou(?:r)\w*|licen(?:ce)s?|catalog(?:ue)s?|analy(?:se)[sd]?|gr(?:ey)|modell(?:ed|ing)"
    r"|labell(?:ed|ing)|cancell(?:ed|ing)|travell\w+|programm(?:e)s?|artef(?:act)s?)\b",
    re.IGNORECASE,
)
IRREGULAR = "made found taken given written built known read run held left sent shown done cut"
PASSIVE = re.compile(
    r"\b(?:is|are|was|were|be|been|being)\s+(?:not\s+|\w+ly\s+)?"
    rf"(?:\w+ed|{'|'.join(IRREGULAR.split())})\b"
)


class Finding(NamedTuple):
    """A place that breaks a rule: file, line, the rule and the text."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        """Return the finding as a compiler prints one."""
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.rule}: {self.text}"


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs, list items and cells of a page, each with the line where it begins."""
    text = DERIVED.sub(_blank, text)
    text = re.sub(r"^( *)```.*?^\1```$", _blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|^\$\$.*?^\$\$$", _blank, text, flags=re.DOTALL | re.MULTILINE)
    first, lines = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        begins = re.match(r"\s*(?:[*-] |\d+\. |:   |#|\|)", line)
        if (begins or not line.strip()) and lines:
            yield first, "\n".join(lines)
            lines = []
        if line.lstrip().startswith("|"):
            yield from ((number, cell) for cell in line.strip(" |").split("|"))
        elif line.strip():
            first = first if lines else number
            lines.append(re.sub(r"^\s*(?:[*-] |\d+\. |:   |#+ )", "", line))


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a paragraph, code and formulas as one word, with their lines."""
    text = re.sub(r"`[^`]*`|\$[^$]*\$", lambda match: "code" + _blank(match), text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+|\w+/\w+\.(?:py|md)", "file", text)
    start = 0
    for end in [*re.finditer(r"[.!?:]\)?(?=\s+[A-Z*\"(\[]|\s+code\b|\s*$)", text), None]:
        stop = end.end() if end else len(text)
        if sentence := text[start:stop].strip():
            begin = start + len(text[start:stop]) - len(text[start:stop].lstrip())
            yield text.count("\n", 0, begin), " ".join(sentence.split())
        start = stop


#: Comments on fields: after one, or in lines above it.
_FIELD = re.compile(r"^ *#: .*(?:\n *#: .*)*|#: .*$", re.MULTILINE)


def judge(sentence: str) -> Iterator[str]:
    """Yield the rules that a sentence breaks."""
    words = re.findall(r"[\w'/-]*\w[\w'/-]*", sentence)
    if len(words) > MAX_WORDS:
        yield f"{len(words)} words in a sentence, at most {MAX_WORDS}"
    if len(PASSIVE.findall(sentence)) > MAX_PASSIVES:
        yield f"more than {MAX_PASSIVES} passives in a sentence"
    for match in BANNED_PATTERN.finditer(sentence):
        yield f'"{match[0]}": {list(BANNED.values())[match.lastindex - 1]}'
    for match in BRITISH.finditer(sentence):
        yield f'"{match[0]}": American spelling'
    if CLAUSE.match(sentence):
        yield "a clause as the subject: begin with the actor"


def check_page(path: Path) -> Iterator[Finding]:
    """Yield what a page says against the rules."""
    yield from _check(path, blocks(path.read_text(encoding="utf-8")))


def check_module(path: Path) -> Iterator[Finding]:
    """Yield what docstrings, messages and comments on fields say against the rules."""
    source = path.read_text(encoding="utf-8")
    for found in _FIELD.finditer(source):
        text = re.sub(r"\s*#: ?", " ", found[0]).replace("``", "`").strip()
        yield from _check(path, blocks_at(text, source.count("\n", 0, found.start()) + 1))
    for line, text in texts(ast.parse(source)):
        items = re.sub(r"^( +)([*\w, ]+): ", r"\1* `\2` ", text, flags=re.MULTILINE)  # of Args
        items = re.sub(r"^(\w+:)$", r"# \1", items.replace("``", "`"), flags=re.MULTILINE)
        yield from _check(path, blocks_at(items, line))


def check_comments(path: Path) -> Iterator[Finding]:
    """Yield the words of comments that the project does not say."""
    for line, text in comments(path):
        text = re.sub(r"`[^`]*`", "", text)
        for pattern in (BANNED_PATTERN, BRITISH):
            for match in pattern.finditer(text):
                yield Finding(path, line, f'"{match[0]}"', text.strip())


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments of a file: of C++ and templates, or those with a number sign."""
    text = path.read_text(encoding="utf-8")
    is_c = path.suffix in {".jinja", ".h", ".hpp", ".cpp", ".cuh", ".cu"}
    pattern = r"\{#.*?#\}|(?<![:\"])//[^\n]*" if is_c else r"(?:^|(?<=\s))#[#:]?\s[^\n]*"
    for match in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 1, match[0]


def check_names(path: Path) -> Iterator[Finding]:
    """Yield the names in a module whose words the field does not have."""
    text = path.read_text(encoding="utf-8")
    for match in NAMES_PATTERN.finditer(text):
        yield Finding(path, text.count("\n", 0, match.start()) + 1, f'"{match[1]}"', match[0])


def blocks_at(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Yield the blocks of a text that begins at a line of its file."""
    return ((line + above - 1, block) for above, block in blocks(text))


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield docstrings, and the texts that are raised, warned of or shown as help."""
    shown = ("Error", "Warning", "warn", "add_argument", "add_parser", "ArgumentParser")
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            if ast.get_docstring(node):
                yield node.body[0].lineno, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name.endswith(shown):
                for part in [*node.args, *(one.value for one in node.keywords)]:
                    if message := _constant(part):
                        yield part.lineno, message


def _constant(node: ast.AST) -> str:
    """Return the text of a string, a name for each value that is formatted into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_constant(part) or "`value`" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _check(path: Path, paragraphs: Iterator[tuple[int, str]]) -> Iterator[Finding]:
    for line, block in paragraphs:
        for below, sentence in sentences(block):
            for rule in judge(sentence):
                yield Finding(path, line + below, rule, sentence)


def main(names: list[str]) -> int:
    """Print the findings in the manual and in the modules that are named."""
    found = [finding for page in PAGES for finding in check_page(page)]
    for name in names:
        found += check_module(Path(name).resolve())
    print("\n".join(map(str, found)) or "nothing found")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
