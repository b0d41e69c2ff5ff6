"""Every name of CuPy's that is used, looked up in the CuPy that is installed."""

from __future__ import annotations

import ast
import contextlib
import inspect
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gridgen.runtime.arrays.libraries import _Handle

cupy: Any = pytest.importorskip("cupy")

ROOT = Path(__file__).parents[3]
FILES = sorted(
    path
    for folder in ("codegen", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if not path.name.endswith("_driver.py") and "cupy" in path.read_text(encoding="utf-8")
)
#: What calls return whose results have attributes that are used; of other classes no instance.
RETURNED = {
    "Stream": cupy.cuda.Stream.null,
    "from_external": cupy.cuda.Stream.null,
    "get_current_stream": cupy.cuda.Stream.null,
    "end_capture": cupy.cuda.Graph,
}
UNKNOWN = object()


class Names(ast.NodeVisitor):
    """Looks up attributes of CuPy in one function or module after another.

    Attributes:
        missing: those that CuPy lacks.
        found:   how many it has.
    """

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.found = 0
        self._aliases: dict[str, Any] = {"cupy": cupy}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before = self._aliases
        given = {argument.arg for argument in node.args.args} - {"cupy"}
        self._aliases = {name: one for name, one in before.items() if name not in given}
        self.generic_visit(node)
        self._aliases = before

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = [*zip(target.elts, node.value.elts, strict=True)]
            for one, value in pairs:
                self._aliases[ast.unparse(one)] = self._resolved(value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        owner = self._resolved(node.value)
        if not isinstance(owner, (ModuleType, type, cupy.cuda.Stream)):
            return
        if hasattr(owner, node.attr):
            self.found += 1
        else:
            self.missing.append(f"line {node.lineno}: {ast.unparse(node)}")

    def _resolved(self, node: ast.expr) -> Any:
        """Return the object of CuPy that an expression has; of one that it makes, its class."""
        text = ast.unparse(node)
        if text in self._aliases:
            return self._aliases[text]
        if text == "sys.modules['cupy']" or text.endswith("._cupy"):
            return cupy
        if isinstance(node, ast.Attribute):
            return getattr(self._resolved(node.value), node.attr, UNKNOWN)
        if isinstance(node, ast.Call):
            made = self._resolved(node.func)
            otherwise = made if inspect.isclass(made) else UNKNOWN
            return RETURNED.get(getattr(made, "__name__", ""), otherwise)
        return UNKNOWN


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_cupy_has_every_name(path: Path) -> None:
    names = Names()
    names.visit(ast.parse(path.read_text(encoding="utf-8")))
    assert not names.missing


def test_a_name_that_cupy_lacks_is_found() -> None:
    names = Names()
    names.visit(ast.parse("def f(self):\n cuda = self._cupy.cuda\n cuda.Stream().is_capturin()"))
    assert (names.missing, names.found) == (["line 3: cuda.Stream().is_capturin"], 2)


#: How the package makes objects of CuPy's classes.
MADE = (
    lambda: cupy.cuda.Stream.from_external(_Handle(7)),
    lambda: cupy.cuda.Event(),
    lambda: cupy.cuda.Device(0),
    lambda: cupy.cuda.function.Module(),
)


@pytest.mark.parametrize("make", MADE)
def test_cupy_deprecates_nothing_that_is_made(make: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(cupy.cuda.runtime.CUDARuntimeError):  # without a GPU
            make()
