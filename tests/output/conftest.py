"""Running grid-gen as its users do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODEGEN = Path(__file__).parents[2] / "codegen"


@pytest.fixture
def python():
    """Run this Python in a process of its own: an argument list, or ``-c`` and a program."""

    def run(*arguments, cwd=None, **environment):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(CODEGEN), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def grid_gen(python):
    """Run grid-gen in a process of its own."""

    def run(*arguments, cwd=None, **environment):
        return python("-m", "gridgen", *arguments, cwd=cwd, **environment)

    return run
