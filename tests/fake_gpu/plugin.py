"""Pytest plugin that runs tests for a GPU on the fake.

python -m pytest -p fake_gpu.plugin tests/numerics/test_cuda.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import ModuleType

import pytest

from fake_gpu.installation import installed
from fake_gpu.machine import machine
from fake_gpu.schedules import schedule


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--schedule",
        default="late",
        help="order of operations of the fake GPU: late, early, or the seed of a shuffled schedule",
    )
    parser.addoption(
        "--capability",
        type=int,
        default=91,
        help="compute capability of the fake GPU: 91 for PTX 9.0, 76 for PTX 7.5",
    )
    parser.addoption(
        "--torch", action="store_true", help="let a CPU build of PyTorch use the fake GPU too"
    )
    parser.addoption(
        "--functions",
        metavar="NAMES",
        help="test only these functions of robots, separated by commas",
    )


def pytest_configure(config: pytest.Config) -> None:
    stack = ExitStack()
    chosen = schedule(config.getoption("schedule")), config.getoption("capability")
    stack.enter_context(installed(*chosen))
    if config.getoption("torch"):
        import cupy

        from fake_gpu import tensors

        stack.enter_context(tensors.installed(cupy))
    config.add_cleanup(stack.close)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Restrict the functions of every test to the selected ones."""
    if names := config.getoption("functions"):
        for module in {item.getparent(pytest.Module).obj for item in items}:
            _restrict(module, set(names.split(",")))


@pytest.fixture(autouse=True)
def _settled() -> Iterator[None]:
    """Fail a test whose pending work misuses the device."""
    yield
    machine().settle()


def _restrict(module: ModuleType, names: set[str]) -> None:
    every = module.functions_of

    def functions_of(robot: object) -> list[str]:
        return [name for name in every(robot) if name in names]

    module.functions_of = functions_of
