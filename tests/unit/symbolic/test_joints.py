"""Joint transforms are exponentials of twists, and their subspaces the twists."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridgen.errors import InternalError
from gridgen.symbolic.joints import JOINT_TYPES, JointType, joint_form
from gridgen.symbolic.scalars import FloatScalars

TWISTS = {
    "revolute": (0, 0, 0, 0, 0, 1),
    "prismatic": (0, 0, 1, 0, 0, 0),
    "helical": (0, 0, JOINT_TYPES["helical"].pitch, 0, 0, 1),
}


def hat(twist: np.ndarray) -> np.ndarray:
    """Return the 4x4 matrix of a twist (v, w)."""
    (vx, vy, vz), (wx, wy, wz) = twist[:3], twist[3:]
    return np.array([[0, -wz, wy, vx], [wz, 0, -wx, vy], [-wy, wx, 0, vz], [0, 0, 0, 0]])


def exponential(matrix: np.ndarray) -> np.ndarray:
    """Sum the series: of a matrix of size 2 or less, 30 terms are exact."""
    result = term = np.eye(4)
    for order in range(1, 31):
        term = term @ matrix / order
        result = result + term
    return result


def transform(kind: str, q: complex) -> np.ndarray:
    values = {"s": np.sin(q), "c": np.cos(q), "q": q, "p": JOINT_TYPES[kind].pitch}
    symbols = [values[name] for name in JOINT_TYPES[kind].symbols]
    rotation, translation = joint_form(kind).evaluate(symbols, FloatScalars())
    result = np.eye(4, dtype=complex)
    result[:3, :3], result[:3, 3] = rotation, translation
    return result


@pytest.mark.parametrize("q", [0.0, 0.3, -1.7, 2.0])
@pytest.mark.parametrize("kind", TWISTS)
def test_a_joint_moves_along_its_screw(kind: str, q: float) -> None:
    expected = exponential(q * hat(np.array(TWISTS[kind], float)))
    np.testing.assert_allclose(transform(kind, q), expected, atol=1e-15)


@pytest.mark.parametrize("kind", TWISTS)
def test_the_subspace_is_the_velocity_of_the_motion(kind: str) -> None:
    q, step = 0.8, 1e-30
    derivative = transform(kind, q + 1j * step).imag / step
    twist = np.linalg.inv(transform(kind, q).real) @ derivative
    ((slide, spin),) = JOINT_TYPES[kind].subspace(FloatScalars())
    np.testing.assert_allclose(twist, hat(np.array([*slide, *spin], float)), atol=1e-15)
    assert (*slide, *spin) == TWISTS[kind]


def test_a_free_joint_turns_by_its_quaternion() -> None:
    form = joint_form("free")
    axis, angle = np.array([0.6, -0.48, 0.64]), 1.1
    quaternion = (*(axis * math.sin(angle / 2)), math.cos(angle / 2))
    rotation, translation = form.evaluate((1.0, 2.0, 3.0, *quaternion), FloatScalars())
    expected = exponential(angle * hat(np.array([0, 0, 0, *axis])))
    np.testing.assert_allclose(rotation, expected[:3, :3], atol=1e-15)
    assert translation == (1.0, 2.0, 3.0)
    columns = [(*slide, *spin) for slide, spin in JOINT_TYPES["free"].subspace(FloatScalars())]
    np.testing.assert_array_equal(columns, np.eye(6))


each_type = pytest.mark.parametrize("joint", JOINT_TYPES.values(), ids=JOINT_TYPES)


def drawn(*sizes: int) -> list[np.ndarray]:
    """Return random vectors."""
    rng = np.random.default_rng(8)
    return [rng.normal(size=size) for size in sizes]


@each_type
def test_projections_are_products_with_the_subspace(joint: JointType) -> None:
    wrench, motion, rate = drawn(6, 6, joint.nv)
    S = np.array([(*slide, *spin) for slide, spin in joint.subspace(FloatScalars())]).T
    assert S.shape == (6, joint.nv)
    assert (joint.slides, joint.turns) == (S[:3].any(), S[3:].any())
    np.testing.assert_array_equal(joint.projected((wrench[:3], wrench[3:])), S.T @ wrench)
    np.testing.assert_array_equal(np.concatenate(joint.motion(rate, FloatScalars())), S @ rate)
    total = np.concatenate(joint.added((motion[:3], motion[3:]), rate))
    np.testing.assert_array_equal(total, motion + S @ rate)


@each_type
def test_motions_are_propagated_as_by_the_general_formula(joint: JointType) -> None:
    w, wd, a, rate, change = drawn(3, 3, 3, joint.nv, joint.nv)
    arguments = (w, wd, a), rate, change, FloatScalars()
    expected = JointType.propagated(joint, *arguments)
    np.testing.assert_allclose(joint.propagated(*arguments), expected, rtol=1e-14)


@each_type
def test_a_step_is_the_exponential_of_its_twist(joint: JointType) -> None:
    position, rate = drawn(joint.nq, joint.nv)
    if (k := joint.quaternion) is not None:
        position[k : k + 4] /= np.linalg.norm(position[k : k + 4])
    scalars = FloatScalars()
    end = joint.integrated(position, rate, scalars)
    before, after = np.eye(4), np.eye(4)
    before[:3, :3], before[:3, 3] = joint.transform(0, position, scalars)
    after[:3, :3], after[:3, 3] = joint.transform(0, end, scalars)
    step = exponential(hat(np.concatenate(joint.motion(rate, scalars))))
    np.testing.assert_allclose(after, before @ step, atol=1e-12)
    np.testing.assert_allclose(joint.difference(position, end, scalars), rate, atol=1e-12)


def test_a_joint_form_is_derived_once() -> None:
    assert joint_form("revolute") is joint_form("revolute")


def test_an_unknown_kind_is_our_bug() -> None:
    with pytest.raises(InternalError, match="'universal'"):
        joint_form("universal")


@pytest.mark.parametrize("kind", JOINT_TYPES)
def test_what_was_derived_is_remembered(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path))
    joint_form.cache_clear()
    derived = joint_form(kind)
    (memory,) = (tmp_path / "joints").iterdir()
    joint_form.cache_clear()
    monkeypatch.setattr("gridgen.symbolic.joints._form", None)
    assert joint_form(kind) == derived

    memory.write_text(memory.read_text()[:-9])  # damaged: derived anew, and repaired
    joint_form.cache_clear()
    monkeypatch.undo()
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path))
    assert joint_form(kind) == derived
    joint_form.cache_clear()
    monkeypatch.setattr("gridgen.symbolic.joints._form", None)
    assert joint_form(kind) == derived


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path / "file"))
    joint_form.cache_clear()
    assert joint_form("prismatic").translation


def test_a_full_disk_leaves_no_half_written_file(tmp_path, monkeypatch):
    def full(fields, file):
        file.write("{")
        raise OSError("No space left on device")

    monkeypatch.setenv("GRIDGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("gridgen.symbolic.joints.json.dump", full)
    joint_form.cache_clear()
    assert joint_form("prismatic").translation
    assert list((tmp_path / "joints").iterdir()) == []
    joint_form.cache_clear()
