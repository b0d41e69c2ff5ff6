"""Configurations that fulfill constraints: residuals, Jacobians, projections, solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose

import gridgen
from gridgen.check import compare, random_states
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenError, ModelError, OptionError
from helpers.dynamics import load_tree, robot_path
from helpers.oracle import pinocchio_model
from helpers.robots import needs

LINK = """<link name="{0}"><inertial><mass value="1"/><origin xyz="{1} 0 0"/>
  <inertia ixx="0.01" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/>
  <origin xyz="{3} 0 0"/><axis xyz="0 0 1"/>
  <limit lower="-2.5" upper="2.5" effort="1" velocity="1"/></joint>"""
#: A four-bar linkage, open at the end of the coupler; and a slide apart from it.
FOUR_BAR = f"""<robot name="four_bar"><link name="base"/><link name="tool"/>
  {LINK.format("crank", 0.15)}{LINK.format("coupler", 0.25)}{LINK.format("rocker", 0.2)}
  {LINK.format("slide", 0)}
  {JOINT.format("a", "base", "crank", 0)}{JOINT.format("b", "crank", "coupler", 0.3)}
  {JOINT.format("c", "base", "rocker", 0.5)}
  <joint name="d" type="prismatic"><parent link="base"/><child link="slide"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="end" type="fixed"><parent link="coupler"/><child link="tool"/>
    <origin xyz="0.25 0.1 0"/></joint>
</robot>"""
LOOP = [
    {
        **{"kind": "point", "link": "coupler", "offset": [0.5, 0.0, 0.0]},
        **{"to": "rocker", "to_offset": [0.4, 0.0, 0.0]},
    }
]
#: Constraints of a quadruped of every kind, with targets.
HELD: list[dict[str, Any]] = [
    {"kind": "point", "link": "FL_foot", "to_offset": [0.2, 0.1, 0.0]},
    {"kind": "point", "link": "FR_foot", "to": "RL_calf", "to_offset": [0.3, -0.2, 0.1]},
    {"kind": "frame", "link": "RR_foot", "to_offset": [-0.2, -0.1, 0.0], "to_rpy": [0.1, 0.2, 0.3]},
    {"kind": "joint", "joint": "FL_calf_joint", "to": "RR_calf_joint", "offset": 0.1},
]


def open_states(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.uniform(-1.5, 1.5, (count, 4)).clip(-1.0, 1.0)


def test_the_jacobian_is_the_derivative_of_the_residual() -> None:
    """Of open constraints, too, by all rotations of a free joint."""
    tree = load_tree("quadruped", True, constraints=HELD)
    x = random_states(tree, 4, np.random.default_rng(0))
    (J,) = evaluate_reference(tree, "constraint_jacobian", x)

    def moved(by: float) -> np.ndarray:
        (q,) = evaluate_reference(tree, "integrate", {"q": x["q"], "v": by * x["qd"]})
        (c,) = evaluate_reference(tree, "constraint_residual", {"q": q})
        return c

    slopes = (moved(1e-5) - moved(-1e-5)) / 2e-5
    assert np.abs(slopes).max() > 1.0
    assert_allclose(np.einsum("bij,bj->bi", J, x["qd"]), slopes, atol=1e-7)


def test_jacobians_are_pinocchios() -> None:
    """Of a loop where it is closed, in the axes of ``to``; of a frame without a target."""
    robot = gridgen.load(FOUR_BAR, constraints=LOOP, backend="cpu")
    q, success, _ = robot.project(open_states(np.random.default_rng(0), 5))
    assert success.all()
    model = pinocchio_model(FOUR_BAR, False, False)
    data = model.createData()
    link, to = (int(model.getJointId(name)) for name in ("b", "c"))
    first, second = (pinocchio.SE3(np.eye(3), np.array([x, 0.0, 0.0])) for x in (0.5, 0.4))
    point = pinocchio.ContactType.CONTACT_3D
    held = pinocchio.RigidConstraintModel(point, model, link, first, to, second)
    own = held.createData()
    J = robot.constraint_jacobian(q)
    for i in range(5):
        pinocchio.computeJointJacobians(model, data, q[i])
        held.calc(model, data, own)
        theirs = pinocchio.getConstraintJacobian(model, data, held, own)
        turn = data.oMi[to].rotation.T @ data.oMi[link].rotation
        assert_allclose(J[i], turn @ theirs, atol=1e-7)
    tree = load_tree("quadruped", True, constraints=[{"kind": "frame", "link": "RR_foot"}])
    x = random_states(tree, 3, np.random.default_rng(0))
    (J,) = evaluate_reference(tree, "constraint_jacobian", x)
    (M,) = evaluate_reference(tree, "mass_matrix", x)
    (G,) = evaluate_reference(tree, "delassus", x)
    (c,) = evaluate_reference(tree, "constraint_residual", x)
    assert_allclose(J @ np.linalg.solve(M, np.swapaxes(J, 1, 2)), G, rtol=1e-9, atol=1e-9)
    assert not c.any()


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("float64", 1e-7)])
def test_projections_are_nearest(dtype: str, tolerance: float) -> None:
    robot = gridgen.load(FOUR_BAR, constraints=LOOP, backend="cpu")
    start = open_states(np.random.default_rng(1), 40).astype(dtype)
    q, success, residual = robot.project(start)
    assert success.all()
    assert residual.max() < tolerance
    assert np.abs(robot.constraint_residual(q)).max() < tolerance
    assert np.abs(robot.constraint_residual(start)).max() > 0.3
    assert np.array_equal(robot.project(q).q, q)
    assert np.array_equal(q[:, 3], start[:, 3])  # the slide changes no constraint
    inside = (np.abs(q[:, :3]) < 2.499).all(axis=1)
    assert inside.sum() > 20
    for J, way in zip(robot.constraint_jacobian(q)[inside], (start - q)[inside], strict=True):
        _, sizes, directions = np.linalg.svd(J.astype(float))
        admitted = directions[(sizes > 1e-5).sum() :]
        assert np.abs(admitted @ way).max() < tolerance


def test_a_free_joint_moves_to_fulfill_constraints() -> None:
    robot = gridgen.load(
        robot_path("quadruped"), floating_base=True, constraints=HELD[:1] + HELD[2:]
    )
    rng = np.random.default_rng(2)
    middle = robot.neutral()
    middle[7:] = np.tile((0.0, 0.8, -1.5), 4)
    start = robot.integrate(middle[None], 0.3 * rng.normal(size=(20, robot.nv)))
    q, success, _ = robot.project(start)
    assert success.mean() > 0.9
    assert np.abs(robot.constraint_residual(q[success])).max() < 1e-7
    inside = success & (np.abs(q - start)[:, 7:].max(axis=1) < 0.6)
    way = robot.difference(q, start)
    limits = np.array([robot.lower_limits, robot.upper_limits])[:, 7:]
    inside &= ((q[:, 7:] - limits[0]).min(axis=1) > 1e-3) & (
        (limits[1] - q[:, 7:]).min(axis=1) > 1e-3
    )
    assert inside.any()
    for J, v in zip(robot.constraint_jacobian(q)[inside], way[inside], strict=True):
        _, sizes, directions = np.linalg.svd(J)
        assert np.abs(directions[(sizes > 1e-5).sum() :] @ v).max() < 1e-6


def test_inverse_kinematics_closes_loops() -> None:
    robot = gridgen.load(FOUR_BAR, constraints=LOOP, backend="cpu")
    closed = robot.project(open_states(np.random.default_rng(3), 20)).q
    targets = robot.forward_kinematics(closed, "tool")
    found = robot.inverse_kinematics(targets, "tool", pose_weights=(1.0, 0.0))
    assert found.success.all()
    assert np.abs(robot.constraint_residual(found.q)).max() < 1e-4
    assert_allclose(
        robot.forward_kinematics(found.q, "tool")[:, :3, 3], targets[:, :3, 3], atol=1e-4
    )
    # Without the loop the tool reaches a point behind the crank.
    targets[:, :3, 3] = -0.3, 0.4, 0.0
    there = {"targets": targets[:1], "frames": "tool", "pose_weights": (1.0, 0.0)}
    assert not robot.inverse_kinematics(**there).success.any()
    assert gridgen.load(FOUR_BAR, backend="cpu").inverse_kinematics(**there).success.all()


def test_what_has_no_projection_is_refused() -> None:
    q = np.zeros((1, 4))
    robot = gridgen.load(FOUR_BAR, constraints=LOOP, backend="cpu")
    assert not robot.project(np.full((1, 4), np.nan)).success.any()
    for options in ({"tolerance": (0.0, 1.0)}, {"tolerance": (np.nan, 1.0)}, {"iterations": 0}):
        with pytest.raises(OptionError, match=r"tolerance|iterations"):
            robot.project(q, **options)
    for constraints in ((), [{"kind": "point", "link": "coupler"}], [{**LOOP[0], "active": False}]):
        plain = gridgen.load(FOUR_BAR, constraints=constraints, backend="cpu")
        with pytest.raises(ModelError, match="no active constraint with a target"):
            plain.project(q)
    with pytest.raises(ModelError, match="no constraints"):
        gridgen.load(FOUR_BAR).constraint_residual(q)


@needs("torch")
def test_pytorch_maps_projections_and_differentiates_residuals() -> None:
    import torch

    robot = gridgen.load(FOUR_BAR, constraints=LOOP, backend="cpu")
    start = torch.tensor(open_states(np.random.default_rng(4), 3))
    expected = robot.project(start.numpy()).q
    assert np.array_equal(torch.vmap(robot.project)(start).q.numpy(), expected)
    start.requires_grad_(True)
    (slope,) = torch.autograd.grad(robot.constraint_residual(start).sum(), start)
    J = robot.constraint_jacobian(start.detach().numpy())
    assert_allclose(slope.numpy(), J.sum(axis=1), atol=1e-12)
    with pytest.raises(OptionError, match="project has no derivatives"):
        robot.project(start).q.sum().backward()


@needs("jax")
def test_jax_maps_projections() -> None:
    import jax

    robot = gridgen.load(FOUR_BAR, constraints=LOOP, backend="cpu")
    start = open_states(np.random.default_rng(4), 3).astype(np.float32)
    found = jax.jit(jax.vmap(lambda q: robot.project(q).q))(start)
    assert np.array_equal(np.asarray(found), robot.project(start).q)
    with pytest.raises(GridGenError, match="project has no derivatives"):
        jax.grad(lambda q: robot.project(q).q.sum())(start)


@pytest.mark.exhaustive
def test_the_check_of_a_module_closes_loops(tmp_path: Path) -> None:
    options = gridgen.GenerateOptions(
        output=tmp_path,
        functions=("constraint_residual",),
        inverse_kinematics=("tool",),
        constraints=LOOP,
    )
    module = gridgen.generate(FOUR_BAR, options)
    robot = gridgen.robot.Robot(module, "cpu")
    for comparison in compare(module.tree, robot, ["float64"], "cpu"):
        assert comparison.passed, comparison
