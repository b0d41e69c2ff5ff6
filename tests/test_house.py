"""The rules of the house that a program can check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

ROOT = Path(__file__).parents[1]
TEMPLATES = sorted((ROOT / "templates").rglob("*.jinja"))
STATIC = sorted((ROOT / "templates" / "static").iterdir())
SOURCES = sorted(
    path
    for folder in ("codegen", "templates", "robots", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".jinja", ".h", ".cuh", ".cu", ".cpp", ".urdf"}
    and "__pycache__" not in path.parts
)

# What an expression of a template may do beyond naming a field: choose, and set text in place. A
# template shows structure, its view has computed it.
LOGIC = (nodes.And, nodes.Or, nodes.Not)
MEMBERSHIP = {"in", "notin"}
TESTS = {"defined"}
FILTERS = {"format", "indent", "join", "trim"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def computes(node: nodes.Expr, macros: set[str]) -> bool:
    """Tell whether an expression finds out something that its view has not said."""
    match node:
        case nodes.BinExpr() | nodes.UnaryExpr():
            return not isinstance(node, LOGIC)
        case nodes.Compare():
            return any(operand.op not in MEMBERSHIP for operand in node.ops)
        case nodes.Test():
            return node.name not in TESTS
        case nodes.Filter():
            return node.name not in FILTERS
        case nodes.Call():
            return not (isinstance(node.node, nodes.Name) and node.node.name in macros)
    return isinstance(node, (nodes.Concat, nodes.Slice))


def computed(text: str) -> Iterator[nodes.Expr]:
    """Yield the expressions of a template that compute."""
    tree = Environment().parse(text)
    macros = {macro.name for macro in tree.find_all(nodes.Macro)}
    macros.update(name for known in tree.find_all(nodes.FromImport) for name in known.names)
    return (node for node in tree.find_all(nodes.Expr) if computes(node, macros))


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_a_template_says_what_it_is_for(path):
    header, end, _ = path.read_text(encoding="utf-8").partition("#}")
    assert header.startswith("{#"), "a template begins with a comment: purpose, then its view"
    assert end
    assert len(header.split()) >= 4


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_a_template_computes_nothing(path):
    assert not [(node.lineno, node) for node in computed(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "text",
    [
        "{{ a + b }}",
        "{% if a < b %}{% endif %}",
        "{{ a.b()|join }}",
        "{% for x in a|sort %}{% endfor %}",
        "{% if a is string %}{% endif %}",
        "{{ -a }}",
        "{{ a ~ b }}",
        "{{ a[1:] }}",
    ],
)
def test_a_template_that_computes_is_found(text):
    assert list(computed(text))


@pytest.mark.parametrize("path", STATIC, ids=name)
def test_constant_text_is_plain(path):
    data = path.read_bytes()
    assert data.isascii()
    assert b"\r" not in data
    assert data.endswith(b"\n")


def test_sources_have_plain_lines_and_name_limits_alike():
    for path in SOURCES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert "\t" not in line, f"{path}:{number}: tab"
            assert line == line.rstrip(" "), f"{path}:{number}: blanks at the end"
            limit = re.search(r"\b_?(MOST|LEAST|LONGEST)_[A-Z]", line)
            assert not limit, f"{path}:{number}: name limits MAX_ and MIN_"


def test_every_page_is_in_the_navigation():
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    listed = re.findall(r": ([\w/]+\.md)$", (ROOT / ".mkdocs.yml").read_text(), re.MULTILINE)
    assert pages == set(listed)


# Methods by which a text is taken apart, and the places where that text is no name of a kernel.
TAKES_APART = {"endswith", "partition", "removeprefix", "removesuffix", "rpartition", "rsplit"}
TAKES_APART |= {"replace", "split", "startswith"}
NO_NAMES = {
    "commands/options.py:flags_of": "the name of an option",
    "commands/options.py:help_of": "a description",
    "functions/parts.py:_read": "a result as users name it",
    "functions/parts.py:_frame": "a link and a reference as users name them",
    "functions/calls.py:_in_numbers": "the name of a type",
    "functions/worlds.py:_library": "the library of an array",
    "functions/record.py:_written_out": "a signature",
    "functions/record.py:functions_of": "a sentence",
    "dynamics/functions.py:_unambiguous": "names of links",
    "dynamics/inverse_kinematics.py:shape": "names of arrays",
    "schedules/team/bodies.py:_names": "paths of a record's numbers",
    "rendering.py:render": "names of templates",
    "emit/render.py:render_library": "names of files",
    "runtime/module/files.py:_flat": "names of files",
    "runtime/module/files.py:is_shared": "names of files",
    "runtime/module/files.py:placed": "names of files",
    "schedules/thread/constants.py:_with_names": "statements",
    "schedules/thread/plan.py:_counted": "two numbers",
    "emit/views/library.py:_lines": "blanks of a line",
    "emit/views/library.py:declared": "a type",
    "modules.py:record_of": "the path of the URDF",
    "functions/record.py:_completed": "a docstring",
    "schedules/team/operators.py:_operator": "a signature of C++",
    "emit/writer.py:_is_bytecode": "names of files",
    "emit/writer.py:_is_sealed": "the end of a file",
    "emit/writer.py:write_file": "moves a file",
    "runtime/module/files.py:is_source": "names of files",
    "runtime/calls/products.py:_read": "a product as users name it",
    "runtime/planning/devices.py:_processor": "a system's description of its processor",
    "symbolic/joints.py:_save": "moves a file",
    "symbolic/iterations.py:_whole": "an index in C++",
}
STAGES_WITH_KERNELS = (
    *(
        "functions",
        "dynamics",
        "symbolic",
        "schedules",
        "emit",
        "runtime",
        "compiler",
        "modules",
        "check",
    ),
    *("commands", "rendering"),
)


def calls_on_texts(path: Path) -> Iterator[str]:
    """Yield file and function of every call that may take a text apart."""
    package = ROOT / "codegen" / "gridgen"
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                if is_call and node.func.attr in TAKES_APART:
                    yield f"{path.relative_to(package).as_posix()}:{function.name}"


def test_no_name_of_a_kernel_is_taken_apart():
    """KernelKey makes names; whoever wants to know something of a kernel asks its key."""
    files = [
        path
        for stage in STAGES_WITH_KERNELS
        for path in sorted((ROOT / "codegen" / "gridgen").glob(f"{stage}*/**/*.py"))
        + sorted((ROOT / "codegen" / "gridgen").glob(f"{stage}.py"))
    ]
    assert files
    assert {place for path in files for place in calls_on_texts(path)} == set(NO_NAMES)


# Words of no one's field, which names do not contain; the prose is checked by ``plain_words.py``.
STRANGE_ANYWHERE = {"hopeless", "unasked", "wanted"}
STRANGE = {"asked", "beside", "course", "living", "oddity", "oddities", "room", "told"}
STRANGE |= STRANGE_ANYWHERE


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything that a module names."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


@pytest.mark.parametrize(
    ("folder", "strange"),
    [("codegen", STRANGE), ("benchmarks", STRANGE_ANYWHERE), ("tests", STRANGE_ANYWHERE)],
)
def test_names_are_words_of_the_field(folder, strange):
    for path in sorted((ROOT / folder).rglob("*.py")):
        for line, found in names_in(ast.parse(path.read_text(encoding="utf-8"))):
            words = set(re.split(r"_|(?<=[a-z])(?=[A-Z])", found)) | {found.lower()}
            assert not strange & {word.lower() for word in words}, f"{path}:{line}: {found}"
