"""Second derivatives of inverse and forward dynamics, and of time steps.

Pinocchio's are not part of its Python interface, so the oracle is the complex step of first
derivatives, which are compared with Pinocchio's elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from gridgen.dynamics import hessians, linearization
from gridgen.dynamics.crba import mass_matrix
from gridgen.dynamics.derivatives import forward_dynamics_gradient, inverse_dynamics_gradient
from gridgen.dynamics.hessians import forward_dynamics_hessian
from gridgen.dynamics.second_order import (
    forward_dynamics_second_order,
    inverse_dynamics_second_order,
)
from gridgen.dynamics.state import State
from gridgen.functions import FUNCTIONS
from gridgen.functions.motion import MULTI_STAGE
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.schedules.scan.schedule import ScanSchedule
from gridgen.schedules.team.schedule import Teams
from gridgen.symbolic.scalars import CountingScalars
from helpers.dynamics import (
    GRAVITY,
    Array,
    assert_close,
    columns,
    complex_step,
    load_tree,
    numbers,
    operations,
    position_steps,
    random_loads,
    random_states,
    state_of,
    trace,
    velocity_steps,
)
from helpers.robots import spread

STATES = 3

TOLERANCE = 1e-12
"""A few hundred roundings of float64, relative to the largest entry."""

NAMES = ("d2tau_dqdq", "d2tau_dqddqd", "d2tau_dqdqd", "dM_dq")
SOLVED = ("d2qdd_dqdq", "d2qdd_dqddqd", "d2qdd_dqdqd", "d2qdd_dqdtau")


#: Robots of every run, each with loads or without, in turn, and further ones.
ROBOTS = [
    *(("gripper", False), ("screws", False), ("arm6", False)),
    *(("cart_pole", True), ("gripper", True), ("screws", True)),
]
FURTHER = [
    *((name, False) for name in ("arm7", "quadruped", "humanoid", "panda", "ur10_robot")),
    ("quadruped", True),
]
CASES = spread(ROBOTS, [False, True], 1) + spread(FURTHER, [False, True], 0)


@dataclass(frozen=True)
class Case:
    """A robot in some states, with or without wrenches and a moving base."""

    tree: KinematicTree
    arrays: dict[str, Array]
    loads: dict[str, Any]

    def steps(self, name: str) -> list[Any]:
        """Return an array with imaginary steps along each velocity."""
        steps = partial(position_steps, self.tree) if name == "q" else velocity_steps
        return steps(self.arrays[name])

    def evaluate(self, algorithm: Callable[..., Any], names: Sequence[str], **moved: Any) -> Any:
        arrays = {**self.arrays, **moved}
        state = state_of(self.tree, arrays["q"], arrays["qd"], **self.loads)
        return algorithm(state, *(columns(arrays[name]) for name in names[2:]))

    def derivative(
        self, algorithm: Callable[..., Any], names: Sequence[str], which: int, by: str
    ) -> Array:
        """Return the derivative of one result by complex steps of an input, in the last axis."""
        others = [name for name in names if name != by]

        def result(moved: Any, *rest: Any) -> Any:
            arrays = dict(zip(others, rest, strict=True))
            return self.evaluate(algorithm, names, **{by: moved}, **arrays)[which]

        return complex_step(result, self.steps(by), *(self.arrays[name] for name in others))

    def check(self, found: Any, expected: Sequence[Array], names: Sequence[str]) -> None:
        for what, mine, theirs in zip(names, found, expected, strict=True):
            assert_close(numbers(mine, STATES), theirs, TOLERANCE, what)


def case_of(name: str, floating: bool, loaded: bool) -> Case:
    width = 0.3 if loaded else 0.0
    tree = load_tree(name, floating, joint_dynamics=True, armature=0.1, friction_width=width)
    arrays = dict(zip(("q", "qd", "qdd", "tau"), random_states(tree, STATES), strict=True))
    arrays["dt"] = np.full((STATES, 1), 0.3)
    arrays["multipliers"] = np.random.default_rng(1).normal(size=(STATES, tree.nv))
    arrays["costate"] = np.random.default_rng(2).normal(size=(STATES, 2 * tree.nv))
    return Case(tree, arrays, random_loads(tree) if loaded else {"gravity": GRAVITY})


@pytest.mark.parametrize(("name", "floating", "loaded"), CASES)
def test_second_derivatives_are_the_complex_steps_of_the_first(name, floating, loaded):
    case = case_of(name, floating, loaded)
    given = ("q", "qd", "qdd")
    by = partial(case.derivative, inverse_dynamics_gradient, given)
    q = case.arrays["q"]
    dM = complex_step(lambda q: mass_matrix(state_of(case.tree, q)), position_steps(case.tree, q))
    expected = (by(0, "q"), by(1, "qd"), by(0, "qd"), dM)
    case.check(case.evaluate(inverse_dynamics_second_order, given), expected, NAMES)


@pytest.mark.parametrize(("name", "floating", "loaded"), CASES)
def test_those_of_forward_dynamics_are_too(name, floating, loaded):
    """And the Hessian of a weighted sum is the symmetric part of their sum."""
    case = case_of(name, floating, loaded)
    given = ("q", "qd", "tau")
    by = partial(case.derivative, forward_dynamics_gradient, given)
    qq, vv, qv, qt = reference = by(0, "q"), by(1, "qd"), by(0, "qd"), by(0, "tau")
    case.check(case.evaluate(forward_dynamics_second_order, given), reference, SOLVED)
    qq, vv, qv, qt = (np.einsum("bi,bijk->bjk", case.arrays["multipliers"], x) for x in reference)
    qq, none = (qq + qq.transpose(0, 2, 1)) / 2, np.zeros_like(vv)
    turned = [x.transpose(0, 2, 1) for x in (qv, qt)]
    expected = np.block([[qq, qv, qt], [turned[0], vv, none], [turned[1], none, none]])
    H = case.evaluate(forward_dynamics_hessian, (*given, "multipliers"))
    case.check([H], [expected], ["H"])


@pytest.mark.parametrize(
    ("name", "floating", "integrator", "loaded"),
    [
        pytest.param(*robot, name, loaded, marks=marks)
        for k, robot in enumerate([*ROBOTS[:2], *ROBOTS[3:], ("quadruped", True)])
        for m, name in enumerate(FUNCTIONS["step_hessian"].methods)
        for loaded in (False, True)
        for is_further in [(name in MULTI_STAGE and k > 2) or (k + m + loaded) % 4]
        for marks in [pytest.mark.exhaustive if is_further else ()]
    ],
)
def test_the_hessian_of_a_step_is_the_complex_step_of_its_gradient(
    name, floating, integrator, loaded
):
    case = case_of(name, floating, loaded)
    given = ("q", "qd", "tau", "dt")
    slope = partial(case.derivative, getattr(linearization, integrator), given)
    expected = [
        np.concatenate([slope(which, by) for by in ("q", "qd", "tau")], axis=-1) for which in (0, 1)
    ]
    expected = np.concatenate(expected, axis=2)
    expected = np.einsum("bi,bijk->bjk", case.arrays["costate"], expected)
    H = case.evaluate(getattr(hessians, integrator), (*given, "costate"))
    case.check([H], [(expected + expected.transpose(0, 2, 1)) / 2], ["H"])


def test_positions_of_a_free_joint_do_not_commute():
    """The difference of both orders is the gradient along the commutator."""
    case = case_of("quadruped", True, False)
    given = ("q", "qd", "qdd")
    qq, *_ = case.evaluate(inverse_dynamics_second_order, given)
    slope, _ = case.evaluate(inverse_dynamics_gradient, given)
    qq, slope = numbers(qq, STATES)[..., :6, :6], numbers(slope, STATES)
    free = case.tree.bodies[0].joint_type
    unit = np.eye(6)
    brackets = np.array([[free.commutator(unit[k], unit[j]) for k in range(6)] for j in range(6)])
    expected = np.einsum("bic,jkc->bijk", slope[..., :6], brackets)
    assert np.abs(expected).max() > 1.0
    assert_close(qq - qq.swapaxes(-1, -2), expected, TOLERANCE, "commutator")


def test_structure():
    """Zero between branches; symmetric where derivatives commute, to the last bit."""
    tree = load_tree("quadruped")
    cubes, scalars = trace(tree, inverse_dynamics_second_order, "q", "qd", "qdd")
    order = {body.v_index: index for index, body in enumerate(tree.bodies)}
    on_a_path = np.array(
        [
            [i == j or i in tree.ancestors(j) or j in tree.ancestors(i) for j in order.values()]
            for i in order.values()
        ]
    )
    for i, j, k in np.ndindex(tree.nv, tree.nv, tree.nv):
        if not (on_a_path[i, j] and on_a_path[j, k] and on_a_path[i, k]):
            assert all(cube[i][j][k] is scalars.graph.zero for cube in cubes)
        by_positions, by_velocities, _, inertia = cubes
        assert by_positions[i][j][k] is by_positions[i][k][j]
        assert by_velocities[i][j][k] is by_velocities[i][k][j]
        assert inertia[i][j][k] is inertia[j][i][k]


def test_operations_of_a_seven_joint_arm():
    assert (
        operations(*trace(load_tree("arm7"), inverse_dynamics_second_order, "q", "qd", "qdd"))
        <= 11000
    )


def test_counters_pass_through():
    tree, scalars = load_tree("arm7"), CountingScalars()
    q = scalars.inputs(tree.nq)
    inverse_dynamics_second_order(State(tree, scalars, q, q, tuple(q[:3])), q)
    assert scalars.operations > 11000


def test_a_team_of_threads_supports_no_free_joint():
    tree = load_tree("quadruped", floating=True)
    key = KernelKey("inverse_dynamics_second_order", schedule="scan")
    reason = ScanSchedule(Teams(tree)).refusal(key)
    assert reason.startswith('joint "root_joint" is free')
