"""Functions as expressions, evaluated on numbers, against the algorithms on the same numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy

import gridgen
from gridgen.check import random_states
from gridgen.compiler import read_tree
from gridgen.dynamics.functions import computation_of, refusal
from gridgen.emit import expressions
from gridgen.errors import ModelError, OptionError
from gridgen.functions import FUNCTIONS, GENERATED
from gridgen.kernel import KernelKey
from gridgen.options import RobotOptions
from gridgen.schedules.thread.plan import plan_lines
from gridgen.symbolic.scalars import FloatScalars
from helpers.robots import CONSTRAINTS, OWN

WORDS = {
    "const": float,
    "sin": math.sin,
    "cos": math.cos,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "sign": np.sign,
    "atan2": math.atan2,
    "select": lambda test, a, b: a if test < 0.0 else b,
}
PLAIN = [
    KernelKey(name, method)
    for name in GENERATED
    for method, algorithm in FUNCTIONS[name].methods.items()
    if algorithm.algorithm and not FUNCTIONS[name].of_frame
]


@pytest.mark.parametrize("key", PLAIN, ids=lambda key: key.name)
@pytest.mark.parametrize(
    ("name", "floating"),
    [("two_link", False), pytest.param("quadruped", True, marks=pytest.mark.exhaustive)],
)
def test_a_program_evaluates_to_the_algorithm(name: str, floating: bool, key: KernelKey) -> None:
    options = RobotOptions(floating_base=floating, constraints=CONSTRAINTS[name])
    tree = read_tree(OWN / f"{name}.urdf", options)
    if refusal(tree, key):
        return
    states = random_states(tree, 1, np.random.default_rng(5))
    spec, program = computation_of(tree, key), plan_lines(tree, key)
    x = {name: states[name][0].ravel().tolist() for name in spec.inputs}
    found, expected = (
        expressions.evaluate(program, x, WORDS),
        spec.algorithm(tree, x, FloatScalars()),
    )
    for name, value in zip(spec.outputs, expected, strict=True):
        scale = max(1.0, np.abs(value).max())
        np.testing.assert_allclose(found[name], value, atol=1e-9 * scale, err_msg=name)


def test_sympy_expressions() -> None:
    robot = gridgen.load(OWN / "two_link.urdf")
    rng = np.random.default_rng(6)
    for function, arrays in (
        ("mass_matrix", "q"),
        ("inverse_dynamics", "q qd qdd"),
        ("forward_dynamics", "q qd tau"),
    ):
        found = robot.sympy(function)
        *inputs, result = found
        assert inputs == arrays.split()
        x = {name: rng.normal(size=found[name].shape) for name in inputs}
        given = {
            symbol: number
            for name in inputs
            for symbol, number in zip(sympy.flatten(found[name]), x[name].ravel(), strict=True)
        }
        value = np.array(found[result].subs(given), dtype=float)
        np.testing.assert_allclose(value, getattr(robot, function)(*x.values()), rtol=1e-10)
    M = robot.sympy("mass_matrix")["M"]
    assert M[0, 1] == M[1, 0]
    assert M[0, 0].diff(sympy.Symbol("q_1", real=True)) != 0
    up = robot.sympy("gravity_forces", gravity=[0, 0, 9.81])["tau"]
    down = robot.sympy("gravity_forces")["tau"]
    assert all(sympy.simplify(a + b) == 0 for a, b in zip(up, down, strict=True))


def test_controls_are_constants_or_inputs_of_expressions() -> None:
    servo = {"joint": "elbow", "kind": "position", "kp": 3, "forcerange": (-1, 1)}
    robot = gridgen.load(OWN / "two_link.urdf", actuators=[servo])
    found = robot.sympy("actuator_torques", inputs=("ctrl",))
    for target, torque in ((0.1, 0.3), (2.0, 1.0)):
        values = {symbol: 0.0 for symbol in sympy.flatten(found["q"])}
        values[found["ctrl"][0]] = target
        np.testing.assert_allclose(np.array(found["tau"].subs(values), float), [0.0, torque])
    still = robot.sympy("actuator_torques")
    assert "ctrl" not in still
    assert "ctrl" not in gridgen.load(OWN / "two_link.urdf").sympy("step")


def test_refused_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = gridgen.load(OWN / "arm6.urdf")
    monkeypatch.setattr(expressions, "MAX_FOR_SYMPY", 100)
    with pytest.raises(ModelError, match=r"operations, more than 100; use casadi"):
        robot.sympy("mass_matrix")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"function": "nonsense"}, "function"),
        ({"function": "rollout"}, "step"),
        ({"function": "jacobian", "frame": "nonsense"}, "no frame"),
        ({"function": "inverse_dynamics", "inputs": "f_ext"}, "inputs"),
        ({"function": "inverse_dynamics", "inputs": ["f"]}, "f_ext"),
        ({"function": "inverse_dynamics", "gravity": [0, 1]}, "gravity"),
    ]
    for words, told in cases:
        with pytest.raises(OptionError, match=told):
            robot.sympy(**words)
