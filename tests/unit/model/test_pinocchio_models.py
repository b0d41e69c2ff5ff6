"""Robots that were built with Pinocchio, not read from a file, have its dynamics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio
import pytest

from gridgen.compiler import load
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenWarning, ModelError, UrdfError
from gridgen.model.readers.pinocchio import from_model
from gridgen.model.tree import build_tree
from gridgen.options import RobotOptions

TOLERANCE = 1e-12
"""Both sides compute in float64, a few hundred operations from the same numbers."""


def built() -> pinocchio.Model:
    """Return a robot of joints that no URDF has, on branches whose names are out of order."""
    model = pinocchio.Model()
    rng = np.random.default_rng(0)
    skew = np.array([0.6, 0.0, 0.8])
    joints = [
        ("z", 0, pinocchio.JointModelFreeFlyer()),
        ("y", 1, pinocchio.JointModelTranslation()),
        ("x", 2, pinocchio.JointModelSphericalZYX()),
        ("b", 1, pinocchio.JointModelRevoluteUnaligned(skew)),
        ("a", 4, pinocchio.JointModelPrismaticUnaligned(skew)),
        ("c", 4, pinocchio.JointModelHelicalUnaligned(skew, -0.3)),
        ("d", 6, pinocchio.JointModelHY(0.2)),
    ]
    for name, parent, joint in joints:
        index = model.addJoint(parent, joint, pinocchio.SE3.Random(), name)
        inertia = pinocchio.Inertia.FromEllipsoid(2.0, *rng.uniform(0.1, 0.3, 3))
        model.appendBodyToJoint(index, inertia, pinocchio.SE3.Random())
    tool = pinocchio.Frame("tool", 6, 0, pinocchio.SE3.Random(), pinocchio.FrameType.OP_FRAME)
    model.addFrame(tool)
    model.armature = rng.uniform(0.0, 0.5, model.nv)
    return model


def state(model: pinocchio.Model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    q = pinocchio.integrate(model, pinocchio.neutral(model), rng.normal(size=model.nv))
    return {"q": q, "qd": rng.normal(size=model.nv), "qdd": rng.normal(size=model.nv)}


def test_dynamics_are_the_models() -> None:
    model = built()
    data, x = model.createData(), state(model)
    tree = build_tree(from_model(model))
    assert (tree.nq, tree.nv) == (model.nq, model.nv)
    given = {name: value[None] for name, value in x.items()} | {"gravity": [0.0, 0.0, -9.81]}
    (M,) = evaluate_reference(tree, "mass_matrix", given)
    np.testing.assert_allclose(M[0], full(pinocchio.crba(model, data, x["q"])), atol=TOLERANCE)
    tau = pinocchio.rnea(model, data, x["q"], x["qd"], x["qdd"])
    (ours,) = evaluate_reference(tree, "inverse_dynamics", given)
    np.testing.assert_allclose(ours[0], tau, atol=TOLERANCE * np.abs(tau).max())
    (poses,) = evaluate_reference(tree, "forward_kinematics", given)
    pinocchio.framesForwardKinematics(model, data, x["q"])
    place = data.oMf[model.getFrameId("tool")].homogeneous
    np.testing.assert_allclose(poses[0][tree.frame_names.index("tool")], place, atol=TOLERANCE)


def with_mimic(first: Any, second: Any) -> pinocchio.Model:
    """Return a robot of two joints, of which the second mimics the first."""
    model = pinocchio.Model()
    inertia, place = pinocchio.Inertia.FromEllipsoid(2.0, 0.1, 0.2, 0.3), pinocchio.SE3.Random()
    for parent, joint in enumerate((first, second)):
        index = model.addJoint(parent, joint, place, f"joint{parent}")
        model.appendBodyToJoint(index, inertia, place)
    return pinocchio.transformJointIntoMimic(model, 1, 2, -1.5, 0.3)


def test_a_helical_joint_is_mimicked_as_in_the_model() -> None:
    model = with_mimic(pinocchio.JointModelHX(0.2), pinocchio.JointModelRY())
    tree, x = build_tree(from_model(model)), state(model)
    given = {name: value[None] for name, value in x.items()} | {"gravity": [0.0, 0.0, -9.81]}
    (ours,) = evaluate_reference(tree, "inverse_dynamics", given)
    tau = pinocchio.rnea(model, model.createData(), x["q"], x["qd"], x["qdd"])
    np.testing.assert_allclose(ours[0], tau, rtol=TOLERANCE)


@pytest.mark.parametrize("axis", [None, np.array([0.6, 0.0, 0.8])], ids=["x", "skew"])
def test_a_helical_joint_that_mimics_is_refused_by_name(axis: Any) -> None:
    """Pinocchio's own efforts are not those of the joint, or it crashes."""
    screw = pinocchio.JointModelHX(0.2)
    if axis is not None:
        screw = pinocchio.JointModelHelicalUnaligned(axis, 0.2)
    with pytest.raises(ModelError, match='joint "joint1": is a helical mimic joint'):
        from_model(with_mimic(pinocchio.JointModelRY(), screw))


def full(upper: np.ndarray) -> np.ndarray:
    return np.triu(upper) + np.triu(upper, 1).T


def test_the_gravity_of_the_model_is_the_default() -> None:
    model = built()
    model.gravity.linear = np.array([0.5, 0.0, -1.62])
    robot = load(model, backend="cpu")
    q = robot.neutral()
    expected = robot.gravity_forces(q, gravity=(0.5, 0.0, -1.62))
    np.testing.assert_array_equal(robot.gravity_forces(q), expected)
    assert np.abs(expected).max() > 0.0
    symbols = robot.sympy("gravity_forces")
    assert build_tree(from_model(model)).gravity == (0.5, 0.0, -1.62)
    found = np.array(symbols["tau"].subs(dict(zip(symbols["q"], q, strict=True))), float)
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-12)


@pytest.mark.parametrize("joint", [pinocchio.JointModelFreeFlyer(), pinocchio.JointModelPlanar()])
@pytest.mark.parametrize("what", ["damping", "friction"])
def test_losses_that_a_joint_cannot_have_here_are_told(joint: Any, what: str) -> None:
    model = pinocchio.Model()
    model.addJoint(0, joint, pinocchio.SE3.Identity(), "ship")
    inertia = pinocchio.Inertia.FromSphere(2.0, 0.1)
    model.appendBodyToJoint(1, inertia, pinocchio.SE3.Identity())
    setattr(model, what, np.linspace(0.0, 1.0, model.nv))
    with pytest.warns(GridGenWarning, match=r'joint "ship": is \w+ and has damping or friction'):
        from_model(model)


def test_options_of_load_are_heeded() -> None:
    model = pinocchio.buildSampleModelManipulator()
    tree = build_tree(from_model(model), RobotOptions(armature=0.25))
    np.testing.assert_array_equal(tree.armature, model.armature + 0.25)


def test_a_joint_of_another_kind_is_refused_by_name() -> None:
    model, joint = pinocchio.Model(), pinocchio.JointModelComposite(pinocchio.JointModelRX())
    model.addJoint(0, joint, pinocchio.SE3.Identity(), "wrist")
    with pytest.raises(ModelError, match=r'joint "wrist": is a JointModel'):
        load(model)


def test_a_ball_joint_has_the_same_damping_about_all_axes() -> None:
    model = pinocchio.Model()
    model.addJoint(0, pinocchio.JointModelSpherical(), pinocchio.SE3.Identity(), "wrist")
    model.damping = np.array([0.1, 0.1, 0.2])
    with pytest.raises(ModelError, match=r'joint "wrist": is a ball joint with different'):
        load(model)


@pytest.mark.parametrize("what", ["mass", "placement", "pitch", "armature"])
def test_what_is_no_number_is_refused_by_name(what: str) -> None:
    model = built()
    joint = model.getJointId("b")
    if what == "mass":
        model.inertias[joint] = pinocchio.Inertia(np.nan, np.zeros(3), np.eye(3))
    elif what == "placement":
        place = pinocchio.SE3(np.eye(3), np.array([np.inf, 0.0, 0.0]))
        model.jointPlacements[joint] = place
    elif what == "pitch":
        screw = pinocchio.JointModelHX(np.nan)
        model.addJoint(joint, screw, pinocchio.SE3.Identity(), "screw")
    else:
        model.armature = np.full(model.nv, np.nan)
    with pytest.raises(UrdfError, match=rf"{what} contains (nan|inf); it must be finite"):
        from_model(model)
