"""The pipeline has an order: a stage imports only earlier ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from gridgen.backends import TARGETS
from gridgen.wheel import RUN_TIME

PACKAGE = Path(__file__).parents[1] / "codegen" / "gridgen"
STAGES = (
    "version",
    "errors",
    "reserved",
    "naming",
    "progress",
    "collector",
    "kernel",
    "functions",
    "option_values",
    "options",
    "template_root",
    "user_cache",
    "symbolic",
    "model",
    "dynamics",
    "rendering",
    "backends",
    "source_cache",
    "cost",
    "schedules",
    "emit",
    "runtime",
    "frameworks",
    "robot",
    "identification",
    "control",
    "dask",
    "check",
    "report",
    "modules",
    "compiler",
    "batch",
    "envs",
    "wheel",
    "commands",
    "__main__",
    "papers",
)
GENERATOR_LIBRARIES = {"jinja2", "lxml", "mpmath", "rich", "sympy"}

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def stage_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of every import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: import by the full name"
            if node.module == "gridgen":
                yield from ((node.lineno, f"gridgen.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module or ""


def imported_stages(path: Path) -> Iterator[tuple[int, str]]:
    for line, name in imported(path):
        package, *rest = name.split(".")
        if package == "gridgen":
            yield line, rest[0] if rest else "the package's root"


def test_every_module_belongs_to_a_stage():
    assert {stage_of(path) for path in MODULES} <= set(STAGES)


def test_a_stage_imports_only_earlier_ones():
    for path in MODULES:
        rank = STAGES.index(stage_of(path))
        for line, stage in imported_stages(path):
            assert stage in STAGES, f"{path}:{line}: gridgen.{stage} is no stage"
            assert STAGES.index(stage) <= rank, f"{path}:{line}: {STAGES[rank]} imports {stage}"


def test_nothing_imports_the_experiments_of_the_papers():
    for path in (path for path in MODULES if stage_of(path) != "papers"):
        assert "papers" not in dict(map(reversed, imported_stages(path))), path


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_modules_import_each_other_in_no_circle():
    names = {name_of(path) for path in MODULES}
    imports = {
        name_of(path): {
            name if name in names else name.rpartition(".")[0] for _, name in names_in(path)
        }
        & names - {name_of(path)}
        for path in MODULES
    }
    TopologicalSorter(imports).prepare()  # raises CycleError


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything imported, modules and what is in them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def test_every_backend_has_files_of_the_same_names():
    folders = [PACKAGE / "backends" / name for name in TARGETS]
    for name in ("__init__", "backend", "compiler"):
        assert all((folder / f"{name}.py").is_file() for folder in folders), name
    for target in TARGETS.values():
        assert target.backend.startswith(f"gridgen.backends.{target.name}.backend:")


@pytest.mark.parametrize("stage", RUN_TIME)
def test_what_runs_needs_nothing_of_what_generates(stage):
    for path in (path for path in MODULES if stage_of(path) == stage):
        for line, name in imported(path):
            is_optional = stage == "progress" and name.startswith("rich.")
            known = name.split(".")[0] not in GENERATOR_LIBRARIES
            assert known or is_optional, f"{path}:{line}: {name}"
        for line, other in imported_stages(path):
            assert other in RUN_TIME, f"{path}:{line}: {stage} imports {other}"
