"""``robot.compile``: what a call needs is there before the first one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen.errors import ModelError, OptionError
from gridgen.robot import open_module
from gridgen.runtime.calls.compiled import CompiledKernels


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compiled, or brought from the cache, from now on."""
    names: list[str] = []
    compile_ = CompiledKernels._compile

    def noted(self, record, q, target, batch):
        names.append(f"{record.name} {q.dtype} {target.name}")
        return compile_(self, record, q, target, batch)

    monkeypatch.setattr(CompiledKernels, "_compile", noted)
    return names


def test_calls_find_what_they_need(urdf: Path, compiled: list[str]) -> None:
    robot, steps = gridgen.load(urdf), []
    robot.compile(["inverse_dynamics", "mass_matrix"], dtype="float32", progress=steps.append)
    assert sorted(compiled) == ["inverse_dynamics float32 cpu", "mass_matrix float32 cpu"]
    assert steps == [
        "compiling 1 of 2: inverse_dynamics (float32)",
        "compiling 2 of 2: mass_matrix (float32)",
    ]
    q = np.zeros((3, 2), np.float32)
    robot.inverse_dynamics(q, q, q)
    robot.mass_matrix(q)
    assert len(compiled) == 2


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that would be compiled."""
    names: list[str] = []
    note = lambda evaluator, expected, *_: names.extend(kernel.name for kernel, _ in expected)  # noqa: E731
    monkeypatch.setattr("gridgen.robot.warm_up", note)
    return names


def test_methods_integrators_and_links_are_those_of_a_call(
    urdf: Path, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, called = gridgen.load(urdf), []
    note = lambda resolved: called.append(resolved.kernel.name)  # noqa: E731
    monkeypatch.setattr(robot, "_evaluations", defaultdict(lambda: note))
    q = np.zeros((3, 2))
    for compile_, call in (
        ({}, lambda: robot.forward_dynamics(q, q, q)),
        ({"method": "crba"}, lambda: robot.forward_dynamics(q, q, q, method="crba")),
    ):
        robot.compile("forward_dynamics", dtype="float64", **compile_)
        call()
    robot.compile("step", dtype="float64")
    robot.step(q, q, q, 0.1)
    robot.compile("step", dtype="float64", method="rk4")
    robot.step(q, q, q, 0.1, integrator="rk4")
    robot.compile("jacobian", dtype="float64", frame="tip", reference="world")
    robot.jacobian(q, "tip", "world")
    robot.compile("forward_kinematics", dtype="float64", frame=["tip"])
    robot.forward_kinematics(q, ["tip"])
    assert named == called
    assert len(set(named)) == 6


def test_all_functions_that_are_generated_by_default(urdf: Path, named: list[str]) -> None:
    gridgen.load(urdf).compile(dtype="float32")
    assert {"inverse_dynamics", "forward_dynamics_aba", "center_of_mass"} < set(named)
    assert {"step_semi_implicit", "rollout_semi_implicit"} < set(named)
    assert not any(name.startswith(("jacobian", "step_gradient")) for name in named)


def test_both_forms_of_a_gpus_kernel_are_made(urdf: Path) -> None:
    robot = gridgen.load(urdf, backend="emulated")
    robot.compile("mass_matrix", dtype="float64", batch=100)
    (compiled,) = robot._evaluator.compiled._found.values()
    assert compiled.kernel._made.keys() == {False, True}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"functions": "mass"}, OptionError),
        ({"functions": ["mass_matrix", 3]}, OptionError),
        ({"functions": "mass_matrix", "dtype": "float16"}, OptionError),
        ({"functions": "mass_matrix", "batch": 0}, OptionError),
        ({"functions": "mass_matrix", "backend": "gpu"}, OptionError),
        ({"functions": "jacobian"}, OptionError),
        ({"functions": "jacobian", "frame": "tipp"}, OptionError),
        ({"functions": "step", "method": "rk5"}, OptionError),
    ],
)
def test_what_is_not_offered_is_refused(urdf: Path, arguments, error) -> None:
    with pytest.raises(error):
        gridgen.load(urdf).compile(**arguments)


def test_a_module_says_what_it_was_generated_without(tmp_path: Path, urdf: Path) -> None:
    options = gridgen.GenerateOptions(output=tmp_path, functions=("mass_matrix",))
    robot = open_module(str(gridgen.generate(urdf, options).folder / "__init__.py"))
    with pytest.raises(ModelError, match="generated without"):
        robot.compile("inverse_dynamics")
    robot.compile(dtype="float32")
