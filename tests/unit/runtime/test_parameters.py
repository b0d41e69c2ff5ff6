"""Rows of ``params``: how they are made, and which are refused."""

from __future__ import annotations

import pickle
import runpy

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gridgen
from gridgen.errors import DtypeError, OptionError, ParameterError, ShapeError
from gridgen.robot import open_module
from gridgen.runtime.parameters import impossible
from helpers.robots import OWN

BRICK = np.diag([0.02, 0.03, 0.04])
FLOAT64 = float(np.finfo(np.float64).eps)


@pytest.fixture(scope="module")
def robot():
    return gridgen.load(OWN / "arm7.urdf", parameters=["hand", "link4"])


def states(robot, *lead):
    return np.random.default_rng(0).normal(size=(3, *lead, robot.nv))


def turned(rng):
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return turn @ BRICK @ turn.T


def test_rows_are_those_of_pinocchio():
    rng = np.random.default_rng(1)
    mass, com = rng.uniform(0.1, 3.0, (4, 1)), rng.normal(size=(4, 5, 3))
    inertia = np.array([turned(rng) for _ in range(5)])
    rows = gridgen.inertia(mass=mass, com=com, inertia=inertia)
    assert rows.shape == (4, 5, 10)
    for i, j in np.ndindex(4, 5):
        body = pinocchio.Inertia(mass[i, 0], com[i, j], inertia[j])
        assert_allclose(rows[i, j], body.toDynamicParameters(), rtol=1e-12, atol=1e-15)


def test_a_point_needs_a_mass_alone():
    assert_array_equal(gridgen.inertia(2.0), [2.0] + [0.0] * 9)
    m, x = 0.5, 0.2
    row = gridgen.inertia(m, (x, 0.0, 0.0))
    assert_allclose(row, [m, m * x, 0, 0, 0, 0, m * x**2, 0, 0, m * x**2])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (dict(mass=-1.0), ParameterError, "mass is -1; it must be >= 0"),
        (dict(mass=[1.0, -2.0]), ParameterError, "body 1: mass is -2"),
        (dict(mass=np.nan), ParameterError, "not finite"),
        (dict(mass=1.0, com=[np.inf, 0.0, 0.0]), ParameterError, "com is .inf.* not finite"),
        (dict(mass=1.0, com=[1e200, 0.0, 0.0]), ParameterError, "not finite"),
        (dict(mass=10**400), DtypeError, "mass cannot be read as numbers"),
        (dict(mass=1.0, inertia=np.diag([1.0, 1.0, 3.0])), ParameterError, "sum of the others"),
        (dict(mass=1.0, inertia=np.diag([1.0, 1.0, -1e-3])), ParameterError, "is negative"),
        (dict(mass=1.0, inertia=[[1, 1, 0], [0, 1, 0], [0, 0, 1]]), ParameterError, "symmetric"),
        (dict(mass=1.0, com=[0.0, 1.0]), ShapeError, r"com has shape \(2,\)"),
        (dict(mass=1.0, inertia=[1.0, 1.0, 1.0]), ShapeError, r"inertia has shape \(3,\)"),
        (dict(mass=[1.0, 2.0], com=np.zeros((3, 3))), ShapeError, "do not broadcast"),
        (dict(mass="heavy"), DtypeError, "mass cannot be read as numbers"),
    ],
)
def test_what_no_body_has_is_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        gridgen.inertia(**arguments)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_no_reason(dtype):
    """Rods, discs and points far from the frame, on the edge of what is possible."""
    rng = np.random.default_rng(2)
    com = rng.normal(size=(3, 100, 3))
    rod, disc = np.diag([0.1, 0.1, 0.0]), np.diag([0.1, 0.1, 0.2])
    rows = [gridgen.inertia(1.0, com[k], edge) for k, edge in enumerate((rod, disc, 0.0))]
    rounded = np.concatenate(rows).astype(dtype)
    assert not impossible(rounded.astype(np.float64), float(np.finfo(dtype).eps)).any()
    assert not impossible(np.zeros((1, 10)), FLOAT64).any()
    points = rounded[200:].astype(np.float64)
    points[:, 0] *= 0.99
    assert impossible(points, float(np.finfo(dtype).eps)).all()


def test_random_rows_are_told_apart_as_by_eigenvalues():
    rng = np.random.default_rng(3)
    rows = rng.normal([1, 0, 0, 0, 2, 0, 2, 0, 0, 2], size=(2000, 10))
    found = impossible(rows, FLOAT64)
    for row, bad in zip(rows, found, strict=True):
        m, h, (xx, xy, yy, xz, yz, zz) = row[0], row[1:4], row[4:]
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        pseudo = np.zeros((4, 4))
        pseudo[:3, :3] = np.trace(inertia) / 2 * np.eye(3) - inertia
        pseudo[3, :3] = pseudo[:3, 3] = h
        pseudo[3, 3] = m
        assert bad == (np.linalg.eigvalsh(pseudo)[0] < 0.0)
    assert 0.1 < found.mean() < 0.99


def test_a_call_says_which_row_no_body_has(robot):
    q, qd, qdd = states(robot, 5)
    params = np.tile(robot.parameters(), (5, 1, 1))
    before = robot.inverse_dynamics(q, qd, qdd, params=params)
    params[3, 1, 0] = -1.0
    for _ in range(2):
        with pytest.raises(ParameterError, match=r'params\[3, 1\] \(link "link4" of arm7\): mass'):
            robot.inverse_dynamics(q, qd, qdd, params=params)
    with pytest.raises(ParameterError, match=r"params\[3, 1\]"):
        robot.bind("inverse_dynamics", q, qd, qdd, params=params)
    with pytest.raises(ParameterError, match=r"params\[3, 1\]"):
        robot.check_parameters(params)
    with pytest.raises(ParameterError, match=r'params\[1\] \(link "link4"'):
        robot.mass_matrix(q[0], params=params[3])
    params[3, 1, 0] = 2.0 * robot.parameters()[1, 0]
    assert_array_equal(robot.inverse_dynamics(q, qd, qdd, params=params)[:3], before[:3])


def test_a_frozen_array_that_is_written_into_is_looked_at_again(robot):
    q, qd, qdd = states(robot, 2)
    params = robot.parameters()
    view = params[:]
    params.flags.writeable = False
    robot.inverse_dynamics(q, qd, qdd, params=params)
    robot.inverse_dynamics(q, qd, qdd, params=params)
    view[0, 0] = -1.0
    with pytest.raises(ParameterError, match=r"params\[0\]"):
        robot.inverse_dynamics(q, qd, qdd, params=params)


def test_what_the_file_has_is_never_refused():
    before, name, after = (OWN / "arm7.urdf").read_text(encoding="utf-8").partition('"link1"')
    text = before + name + after.replace('izz="', 'izz="9', 1)
    with pytest.warns(gridgen.GridGenWarning, match="triangle"):
        robot = gridgen.load(text, parameters="all")
    q, qd, qdd = states(robot, 2)
    params = np.tile(robot.parameters(), (2, 1, 1))
    params[:, -1] = gridgen.inertia(3.0)
    robot.inverse_dynamics(q, qd, qdd, params=params)
    params[:, 0] *= 1.5
    with pytest.raises(ParameterError, match="link1"):
        robot.inverse_dynamics(q, qd, qdd, params=params)


def test_the_check_may_be_left_out(robot, tmp_path):
    """Of loaded robots and of modules; dynamics are linear in rows whatever these are."""
    choice = {"parameters": ("hand", "link4"), "check_parameters": False}
    options = gridgen.GenerateOptions(output=tmp_path, functions=("inverse_dynamics",), **choice)
    gridgen.generate(OWN / "arm7.urdf", options)
    unchecked = gridgen.load(OWN / "arm7.urdf", **choice)
    module = open_module(str(tmp_path / "arm7" / "__init__.py"))
    q, qd, qdd = states(robot, 3)
    rows = robot.parameters()
    sums = robot.inverse_dynamics(q, qd, qdd, params=0.0 * rows)
    expected = 2.0 * sums - robot.inverse_dynamics(q, qd, qdd, params=rows)
    for one in (unchecked, pickle.loads(pickle.dumps(unchecked)), module):
        for params in (-rows, np.tile(-rows, (3, 1, 1))):
            for _ in range(2):
                found = one.inverse_dynamics(q, qd, qdd, params=params)
                assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
            assert_allclose(one.bind("inverse_dynamics", q, qd, qdd, params=params)(), found)
        with pytest.raises(ParameterError, match=r"params\[0\]"):
            one.check_parameters(-rows)
        with pytest.raises(ShapeError, match="params"):
            one.inverse_dynamics(q, qd, qdd, params=np.zeros((2, 9)))
    with pytest.raises(OptionError, match=r"check_parameters is False, and \"arm7\" takes no"):
        gridgen.load(OWN / "arm7.urdf", parameters="damping", check_parameters=False)
    with pytest.raises(OptionError, match="check_parameters is 'no'; give True or False"):
        gridgen.load(OWN / "arm7.urdf", parameters="all", check_parameters="no")


def test_shapes_and_types_are_checked(robot):
    q, qd, qdd = states(robot, 5)
    for wrong in (np.zeros((5, 1, 10)), np.zeros((4, 2, 10)), np.zeros((2, 9)), np.zeros(10)):
        with pytest.raises(ShapeError, match="params"):
            robot.inverse_dynamics(q, qd, qdd, params=wrong)
    with pytest.raises(DtypeError, match="params"):
        robot.inverse_dynamics(q, qd, qdd, params=np.zeros((2, 10), np.float32))
    robot.check_parameters(np.tile(robot.parameters(), (3, 2, 1, 1)))
    for wrong in (np.zeros((3, 10)), np.zeros((1, 1, 3, 10))):
        with pytest.raises(
            ShapeError, match=r"params has shape .* needs \(2, 10\) or \(B, 2, 10\)"
        ):
            robot.check_parameters(wrong)
    for dtype in (int, complex, np.float16):
        with pytest.raises(DtypeError, match="params has dtype"):
            robot.check_parameters(robot.parameters().astype(dtype))


def test_numbers_that_are_constants_are_refused(robot):
    q, qd, qdd = states(robot, 2)
    with pytest.raises(OptionError, match=r"arm7 has armature as constants: load it with armature"):
        robot.inverse_dynamics(q, qd, qdd, armature=np.zeros(7))
    with pytest.raises(OptionError, match="armature"):
        robot.parameters("armature")
    with pytest.raises(OptionError, match="choose params, armature, damping"):
        robot.parameters("masses")
    with pytest.raises(TypeError, match="damping"):
        robot.mass_matrix(q, damping=np.zeros(7))
    plain = gridgen.load(OWN / "arm7.urdf")
    for call in (plain.parameters, lambda: plain.check_parameters(robot.parameters())):
        with pytest.raises(OptionError, match="params"):
            call()
    assert plain.parameter_names == ()


def test_a_copy_has_the_same_inputs(robot):
    q, qd, qdd = states(robot, 2)
    copy = pickle.loads(pickle.dumps(robot))
    assert copy.parameter_names == ("hand", "link4")
    assert_array_equal(copy.parameters(), robot.parameters())
    heavy = 2.0 * robot.parameters()
    expected = robot.inverse_dynamics(q, qd, qdd, params=heavy)
    assert_array_equal(copy.inverse_dynamics(q, qd, qdd, params=heavy), expected)


def test_the_example(capsys):
    example = runpy.run_path(str(OWN.parent / "examples" / "randomized_payloads.py"))
    example["main"](["--arms", "64", "--steps", "500"])
    table = [line.split() for line in capsys.readouterr().out.splitlines()[-4:]]
    means = [float(row[-2]) for row in table]
    assert sum(int(row[-3]) for row in table) == 64
    assert means == sorted(means)
    assert means[0] < 6.0 < 15.0 < means[-1] < 30.0


def test_the_example_of_the_page(monkeypatch):
    root = OWN.parent
    monkeypatch.chdir(root)
    page = (root / "docs" / "parameters.md").read_text(encoding="utf-8")
    _, _, after = page.partition("```python\n")
    names = {}
    exec(compile(after.partition("```")[0], "parameters.md", "exec"), names)
    plain = gridgen.load(root / "robots" / "arm7.urdf")
    own = plain.forward_dynamics(names["q"], names["qd"], names["tau"])
    assert names["qdd"].shape == own.shape
    assert np.abs(names["qdd"] - own).max() > 0.1
