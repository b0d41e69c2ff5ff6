"""The constraint-force algorithm on NumPy numbers."""

from __future__ import annotations

import numpy as np
import pytest

from gridgen.dynamics import cfa
from gridgen.dynamics.cfa import forward_dynamics_cfa, refusal, unknowns
from gridgen.dynamics.mobility import constant_mobility
from gridgen.dynamics.reference import evaluate_reference
from gridgen.dynamics.rnea import inverse_dynamics
from gridgen.dynamics.state import State
from gridgen.errors import ModelError
from gridgen.schedules.cfa.plan import plan_elimination
from gridgen.symbolic.scalars import CountingScalars, FloatScalars
from helpers.dynamics import state_at
from helpers.robots import example_urdf, exhaustive, joint_text, link_text, robot_text
from helpers.scan import random_inputs, relative_error, tree_of, tree_of_text

# Rounding of the transmitted wrenches, each multiplied by the inverse of a small inertia.
TOLERANCE = 1e-11
#: Chains lose more with every link: the error grows with the square of their number.
LONG = {100: 5e-11, 200: 2e-10, 1000: 2e-8}


def accelerations(tree, inputs, *, order=None, scalars=None):
    state, rows = state_at(tree, inputs, scalars)
    qdd = forward_dynamics_cfa(state, rows["tau"], order)
    return np.stack(np.broadcast_arrays(*qdd), axis=1)


def check(tree, tolerance, *, batch=3):
    """Compare with articulated bodies, leaves first and in the rounds of the kernels."""
    inputs = random_inputs(tree, "forward_dynamics_aba_scan_f_ext_base_motion", batch)
    (expected,) = evaluate_reference(tree, "forward_dynamics_aba_f_ext_base_motion", inputs)
    plan = plan_elimination(tree.parents, [bool(unknowns(body)) for body in tree.bodies])
    for order in (None, plan.order):
        assert relative_error(accelerations(tree, inputs, order=order), expected) <= tolerance


@pytest.mark.parametrize("floating_base", [False, *exhaustive(True)])
@pytest.mark.parametrize(
    "name",
    [
        *("allegro_left_hand", "tiago"),
        *exhaustive("ur5_robot", "xarm7", "z1", "go2", "solo12", "hyq_no_sensors"),
        *exhaustive("g1_29dof_rev_1_0", "talos_reduced"),
    ],
)
def test_robots_that_no_one_here_wrote(name, floating_base):
    """Of small ones, ``test_random_robots.py`` has more."""
    check(tree_of_text(example_urdf(name), floating_base=floating_base), TOLERANCE)


@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize("bodies", [1, 31, 33, *exhaustive(2, 3, 32, 100, 200)])
def test_chains(bodies, floating_base):
    tolerance = LONG.get(bodies, TOLERANCE)
    check(tree_of(f"chain {bodies}", floating_base=floating_base), tolerance, batch=2)


@pytest.mark.exhaustive
def test_a_chain_of_a_thousand_bodies():
    check(tree_of("chain 1000"), LONG[1000], batch=1)


@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize("bodies", [50, *exhaustive(300)])
def test_trees(bodies, floating_base):
    check(tree_of(f"tree {bodies}", floating_base=floating_base), TOLERANCE, batch=2)


@pytest.mark.parametrize("name", ["arm7", "quadruped", "cart_pole"])
def test_joint_dynamics_and_armatures(name):
    floating_base = name == "quadruped"
    tree = tree_of(name, floating_base=floating_base, joint_dynamics=True, armature=0.1)
    assert {len(unknowns(body)) for body in tree.bodies if body.kind != "free"} == {6}
    check(tree, TOLERANCE)


def test_armatures_of_some_joints_only():
    tree = tree_of("arm6", armature=(0.0, 0.2, 0.0, 1e-6, 0.0, 0.3))
    assert [len(unknowns(body)) for body in tree.bodies] == [5, 6, 5, 6, 5, 6]
    check(tree, TOLERANCE)


def test_an_armature_on_some_axes_of_a_free_joint():
    armature = (0.0, 0.5, 0.0, 0.0, 0.0, 0.2, *(0.1,) * 6, *(0.0,) * 6)
    tree = tree_of("quadruped", floating_base=True, armature=armature)
    assert [row.axis for row in unknowns(tree.bodies[0])] == [1, 5]
    check(tree, TOLERANCE)


@pytest.mark.parametrize("armature", [0.0, 0.1])
@pytest.mark.parametrize("name", ["quadruped", "tree 50"])
def test_constraint_forces_are_those_that_inverse_dynamics_transmits(name, armature):
    """F over the bias motion is RNEA's transmitted wrench less that of the bias motion."""
    tree = tree_of(name, floating_base=True, armature=armature)
    inputs = random_inputs(tree, "forward_dynamics_aba_scan_f_ext_base_motion", 2)
    found, motion, bias = FloatScalars(), FloatScalars(), FloatScalars()
    qdd = accelerations(tree, inputs, scalars=found)

    for rates, scalars in ((list(qdd.T), motion), (None, bias)):
        inverse_dynamics(state_at(tree, inputs, scalars)[0], rates)
    for body in range(len(tree.bodies)):
        expected = [
            after - before
            for part in "fn"
            for after, before in zip(motion.named[part, body], bias.named[part, body], strict=True)
        ]
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            np.broadcast_arrays(*found.named["F", body], expected[0])[:6],
            expected,
            rtol=0,
            atol=TOLERANCE * scale,
        )


def test_a_free_joint_has_no_unknowns_and_a_revolute_one_five():
    tree = tree_of("quadruped", floating_base=True)
    assert unknowns(tree.bodies[0]) == ()
    assert [row.axis for row in unknowns(tree.bodies[1])] == [0, 1, 2, 3, 4]


def test_a_body_that_floats_alone():
    tree = tree_of_text(robot_text(link_text("a")), floating_base=True)
    check(tree, TOLERANCE)


def test_mobility_is_the_inverse_of_the_spatial_inertia():
    for body in tree_of("arm7").bodies:
        h = np.array(body.first_moment)
        skew = np.array([[0.0, -h[2], h[1]], [h[2], 0.0, -h[0]], [-h[1], h[0], 0.0]])
        inertia = np.block([[body.mass * np.eye(3), -skew], [skew, np.array(body.inertia)]])
        columns = []
        for axis in range(6):
            f, n = tuple(np.eye(6)[axis][:3]), tuple(np.eye(6)[axis][3:])
            v, w = constant_mobility(body).acceleration((f, n))
            columns.append([*v, *w])
        np.testing.assert_allclose(inertia @ np.array(columns).T, np.eye(6), atol=1e-10)


def test_refinement_pays(monkeypatch):
    tree = tree_of("chain 100")
    inputs = random_inputs(tree, "forward_dynamics_aba_scan", 4)
    (expected,) = evaluate_reference(tree, "forward_dynamics_aba", inputs)
    refined = relative_error(accelerations(tree, inputs), expected)
    monkeypatch.setattr(cfa, "PASSES", 1)
    assert refined < 0.7 * relative_error(accelerations(tree, inputs), expected)


def test_the_algorithm_runs_over_any_scalar():
    """Its cost grows with the number of bodies, not with a power of it."""

    def operations(bodies):
        tree, scalars = tree_of(f"chain {bodies}"), CountingScalars()
        q, qd, tau = (scalars.inputs(bodies) for _ in range(3))
        forward_dynamics_cfa(State(tree, scalars, q, qd, tuple(scalars.inputs(3))), tau)
        return scalars.operations

    assert operations(30) - operations(20) == pytest.approx(operations(20) - operations(10), 0.2)


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (
            link_text("hand", mass="0", inertia="0 0 0 0 0 0"),
            'link "hand": mass is 0; the constraint-force algorithm',
        ),
        (
            link_text("hand", com="0 0.3 0", inertia="0 0 0 0 0 0"),
            'link "hand": inertia about the center of mass is singular',
        ),
        (
            link_text("hand", com="0 0.3 0", inertia="0.1 0 0 0 0 0.1"),
            'link "hand": inertia about the center of mass is singular',
        ),
    ],
)
def test_links_that_cannot_be_inverted_are_refused_by_name(link, message):
    """No mass; a point; a thin rod."""
    text = robot_text(link_text("base"), link, joint_text("wrist", "base", "hand"))
    tree = tree_of_text(text, armature=0.1)
    reason = refusal(tree)
    assert reason is not None
    assert reason.startswith(message)
    assert 'use method="aba"' in reason
    with pytest.raises(ModelError, match='link "hand"'):
        forward_dynamics_cfa(State(tree, FloatScalars(), [0.0], [0.0]), [0.0])


def test_mimic_joints_are_refused():
    reason = refusal(tree_of("gripper"))
    assert reason is not None
    assert 'use method="crba"' in reason


def test_an_ordinary_robot_is_not_refused():
    assert refusal(tree_of("humanoid", floating_base=True)) is None
