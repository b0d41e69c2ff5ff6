"""The same array in several places of a call: what a call computes for copies of it.

Programs are run in Python, in the place of compiled kernels: it is the calls that are tried.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.compiler import read_tree
from gridgen.dynamics.computation import array_shape
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import ACTUATOR_INPUTS, ARRAYS, CONTACT_INPUTS
from gridgen.functions.record import Function
from gridgen.kernel import Kernel
from gridgen.options import RobotOptions
from gridgen.runtime.calls.compiled import CompiledKernels
from gridgen.schedules.thread.plan import plan_lines
from helpers.program_interpreter import run
from helpers.robots import CONSTRAINTS, TESTED_APART
from numerics.robots import urdf_path

#: As many states as velocities would let a state be taken for a batch.
STATES = {"two_link": 3, "arm6": 7}
#: All but rollouts, whose kernels are no programs (see test_rollout_pullbacks.py), inertias of
#: links, for which two joints are too few, and what the robots lack.
ROWS = [
    row
    for row in FUNCTIONS.values()
    if row.is_generated and not (row.of_frame and row.solves)
    if row.name not in ("rollout", *TESTED_APART)
]


class Interpreted:
    """A kernel whose program Python runs, on arrays of any strides.

    Args:
        tree:   the robot.
        record: what the kernel computes.
    """

    def __init__(self, tree: Any, record: Kernel) -> None:
        self._shapes = {**record.inputs, **record.outputs}
        self._inputs = len(record.inputs)
        self._program = plan_lines(tree, record.key)

    def __call__(self, arguments: Any, batch: int) -> None:
        numbers = np.array(arguments).reshape(-1, 3).tolist()
        columns = [
            self._columns(*place, batch, math.prod(shape))
            for place, shape in zip(numbers, self._shapes.values(), strict=True)
        ]
        given = dict(zip(self._shapes, columns, strict=True))
        inputs = {array.name: list(given[array.name].copy()) for array in self._program.inputs}
        with np.errstate(all="ignore"):  # the distance to itself has no derivative
            found = run(self._program, inputs)
        for name, elements in found.items():
            for column, element in zip(given[name], elements, strict=True):
                column[...] = element

    def prepare(self, arguments: Any, batch: int) -> Any:
        return lambda: self(arguments, batch)

    @staticmethod
    def _columns(address: int, state: int, component: int, batch: int, size: int) -> np.ndarray:
        """Return the numbers that lie at an address, those of all states side by side."""
        memory = np.array(ctypes.c_double.from_address(address), copy=False)
        strides = (8 * component, 8 * state)
        return np.lib.stride_tricks.as_strided(memory, (size, batch), strides, subok=True)


class Case:
    """A robot, and arrays for calls of its functions: those of one shape are one array.

    Attributes:
        robot: the robot, which takes numbers of its own as inputs.
    """

    def __init__(self, name: str) -> None:
        options = {"floating_base": False, "joint_dynamics": True, "armature": 0.1}
        options["parameters"] = "armature", "damping", "joint_friction"
        options["constraints"] = CONSTRAINTS[name]
        self._tree = read_tree(urdf_path(name), RobotOptions(**options))
        self.robot = gridgen.load(urdf_path(name), **options)
        self._states, self._rng = STATES[name], np.random.default_rng(1)
        self._kernels: dict[str, Interpreted] = {}
        self._made: dict[tuple[int, ...], np.ndarray] = {}

    def kernel(self, record: Kernel) -> Interpreted:
        """Return a kernel."""
        if record.name not in self._kernels:
            self._kernels[record.name] = Interpreted(self._tree, record)
        return self._kernels[record.name]

    def array(self, name: str) -> np.ndarray:
        """Return an array with a number of each state, positive as masses and times are."""
        shape = (self._states, *array_shape(name, self._tree))
        if name == "active":
            return np.ones(shape)
        if name == "offset":
            return np.tile(np.eye(4), (self._states, 1, 1))
        if shape not in self._made:
            self._made[shape] = self._rng.uniform(0.1, 1.0, shape)
        return self._made[shape]

    def call(self, row: Function) -> tuple[list[Any], dict[str, Any]]:
        """Return all that a function takes."""
        words = {"frame": self.robot.frame_names[-1], "reference": "local", "frames": None}
        positional = [self.array(name) for name in row.arguments]
        options = {name: words[name] for name in row.words}
        not_taken = ("params", "offsets", *CONTACT_INPUTS, *ACTUATOR_INPUTS)
        taken = (name for name in row.options if name in ARRAYS and name not in not_taken)
        return positional, options | {name: self.array(name) for name in taken}


@pytest.fixture(
    scope="module", params=["two_link", pytest.param("arm6", marks=pytest.mark.exhaustive)]
)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledKernels, "_compile", lambda self, record, *_: case.kernel(record))
        yield case


def copied(value: Any) -> Any:
    """Return what a call is given with a copy in the place of each array."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {name: copied(one) for name, one in value.items()}
    return type(value)(map(copied, value)) if isinstance(value, (list, tuple)) else value


def check(call: Callable[..., Any], positional: list[Any], options: dict[str, Any]) -> None:
    """Compare a call with one with copies, and see that it has left its arrays as they were."""
    before = copied((positional, options))
    expected = results_of(call(*copied(positional), **copied(options)))
    found = results_of(call(*positional, **options))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_equal((positional, options), before)


def results_of(found: Any) -> list[np.ndarray]:
    """Return the arrays of an answer."""
    if isinstance(found, (tuple, list)):
        return [array for one in found for array in results_of(one)]
    return [np.array(found)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_functions(case: Case, row: Function) -> None:
    robot, (positional, options) = case.robot, case.call(row)
    check(getattr(robot, row.name), positional, options)
    check(lambda *given, **named: robot.bind(row.name, *given, **named)(), positional, options)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_products(case: Case, row: Function) -> None:
    """Derivatives by results, and changes of arguments, lie where arguments do, too."""
    robot, (positional, options) = case.robot, case.call(row)
    bars = tuple(case.array(name) for name in row.results)
    check(partial(robot.vjp, row.name), [alone(bars), *positional], options)
    changes = tuple(case.array(name) for name in row.arguments)
    check(partial(robot.jvp, row.name), [alone(changes), *positional], options)


def alone(arrays: tuple[Any, ...]) -> Any:
    """Return several arrays as they are, one as itself."""
    return arrays if len(arrays) > 1 else arrays[0]


def test_steps_that_follow_each_other(case: Case) -> None:
    check(case.robot.rollout_gradient, *case.call(FUNCTIONS["rollout_gradient"]))


def test_several_functions_at_once(case: Case) -> None:
    names = ("inverse_dynamics", "mass_matrix", "bias_forces")
    check(partial(case.robot.compute, names), *case.call(FUNCTIONS["inverse_dynamics"]))
