"""CasADi's ``external`` evaluates and differentiates a module's functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest

import gridgen
from gridgen.commands.main import main
from gridgen.robot import open_module
from helpers.oracle import pinocchio_model
from helpers.robots import CONSTRAINTS, OWN

casadi = pytest.importorskip("casadi")

#: Rounding, relative; the compiled code is the same.
EXACT = 1e-12
#: Central differences with steps of 1e-6.
DIFFERENCES = 1e-7


class Library:
    """A module's compiled functions, in CasADi and in Python."""

    def __init__(self, folder: Path, urdf: str, *words: str) -> None:
        words = (*words, "--casadi", "--compile", "cpu", "--dtype", "float64", "--quiet")
        assert main([str(OWN / f"{urdf}.urdf"), "-o", str(folder), *words]) == 0
        self.name, self.folder = urdf, folder / urdf
        self.robot = open_module(str(self.folder / "__init__.py"))

    def external(self, function: str) -> Any:
        path = self.folder / f"lib{self.name}-native.so"
        return casadi.external(f"{self.name}_{function}", str(path))


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Library:
    functions = "forward_dynamics,jacobian,forward_kinematics"
    folder = tmp_path_factory.mktemp("casadi")
    return Library(folder, "arm6", "--functions", functions, "--frame", "tool0")


@pytest.fixture(scope="module")
def legs(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A floating base, branches, optional inputs and parameters."""
    words = ["--functions", "inverse_dynamics,mass_matrix", "--floating-base"]
    words += ["--inputs", "f_ext", "--parameters", "trunk"]
    return Library(tmp_path_factory.mktemp("casadi"), "quadruped", *words)


def compare(function: Any, expected: Callable[..., Any], arguments: list[np.ndarray]) -> None:
    """Compare values with Python's, and the Jacobian with differences of them."""
    results = function(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    reference = expected(*arguments)
    reference = reference if isinstance(reference, tuple) else (reference,)
    for result, value in zip(results, reference, strict=True):
        found = np.array(casadi.DM(result))
        value = np.reshape(value, found.shape)
        assert np.abs(found - value).max() <= EXACT * max(1.0, np.abs(value).max())

    blocks = function.jacobian()(*arguments, *results)
    blocks = blocks if isinstance(blocks, tuple) else (blocks,)
    wide = [(output, given) for output in range(len(results)) for given in range(len(arguments))]
    for (output, given), block in zip(wide, blocks, strict=True):
        differences = differentiated(function, arguments, given, output)
        scale = max(1.0, np.abs(differences).max())
        found = np.array(casadi.DM(block))
        assert np.abs(found - differences).max() < DIFFERENCES * scale, (output, given)


def differentiated(
    function: Any, arguments: list[np.ndarray], given: int, output: int
) -> np.ndarray:
    """Return central differences, elements along columns on both sides, as CasADi has them."""
    columns, step = [], 1e-6
    flat = np.asarray(arguments[given], float).reshape(-1, order="F")
    for index in range(len(flat)):
        ends = []
        for sign in (1.0, -1.0):
            moved = flat.copy()
            moved[index] += sign * step
            shaped = moved.reshape(np.shape(arguments[given]), order="F")
            results = function(*arguments[:given], shaped, *arguments[given + 1 :])
            results = results if isinstance(results, tuple) else (results,)
            ends.append(np.array(casadi.DM(results[output])).reshape(-1, order="F"))
        columns.append((ends[0] - ends[1]) / (2 * step))
    return np.array(columns).T


def test_an_arm(arm: Library) -> None:
    rng, robot = np.random.default_rng(0), arm.robot
    q, qd, tau = rng.normal(size=(3, robot.nv))
    compare(arm.external("forward_dynamics"), robot.forward_dynamics, [q, qd, tau])
    compare(arm.external("jacobian_tool0_local"), lambda q: robot.jacobian(q, "tool0"), [q])
    compare(arm.external("forward_kinematics"), robot.forward_kinematics, [q])


def test_a_number_by_value(tmp_path: Path) -> None:
    library = Library(tmp_path, "pendulum", "--functions", "step")
    arguments = [np.array([0.3]), np.array([0.7]), np.array([0.2]), np.array(1e-2)]
    compare(library.external("step"), lambda *x: library.robot.step(*x[:3], 1e-2), arguments)


def test_a_floating_base_with_more_inputs(legs: Library) -> None:
    """Quaternions count as normalized; wrenches and masses are inputs, with derivatives."""
    rng, robot = np.random.default_rng(1), legs.robot
    q = robot.random_configuration(rng, 1)[0]
    qd, qdd = rng.normal(size=(2, robot.nv))
    params = robot.parameters()
    loads = rng.normal(size=(len(robot.body_names), 6))

    def expected(q: np.ndarray, *others: np.ndarray) -> Any:
        q = q.copy()
        q[3:7] /= np.linalg.norm(q[3:7])
        qd, qdd, params, *wrenches = others
        words = {"f_ext": wrenches[0]} if wrenches else {}
        return robot.inverse_dynamics(q, qd, qdd, params=params, **words)

    q[3:7] *= 1.2
    plain, loaded = legs.external("inverse_dynamics"), legs.external("inverse_dynamics_f_ext")
    assert [plain.name_in(i) for i in range(4)] == ["q", "qd", "qdd", "params"]
    compare(plain, expected, [q, qd, qdd, params])
    compare(loaded, expected, [q, qd, qdd, params, loads])


def test_sparsity_is_that_of_the_robot(legs: Library) -> None:
    """No entry for two legs, in M and in derivatives; of the trunk, none for two translations."""
    mass = legs.external("mass_matrix")
    robot, nv = legs.robot, legs.robot.nv
    M = robot.mass_matrix(robot.random_configuration(np.random.default_rng(2), 1))[0]
    found = np.zeros((nv, nv), bool)
    found[mass.sparsity_out(0).get_triplet()] = True
    np.testing.assert_array_equal(found, M != 0.0)
    legs_of = (np.arange(6, nv) - 6) // 3
    np.testing.assert_array_equal(found[6:, 6:], legs_of[:, None] == legs_of)
    by_qdd = np.zeros((nv, nv), bool)
    by_qdd[legs.external("inverse_dynamics").jacobian().sparsity_out(2).get_triplet()] = True
    np.testing.assert_array_equal(by_qdd[6:, 6:], legs_of[:, None] == legs_of)
    M = np.array(casadi.DM(mass(robot.neutral(), robot.parameters())))
    np.testing.assert_allclose(M, robot.mass_matrix(robot.neutral()), atol=1e-13)


def test_a_solver_takes_it(arm: Library) -> None:
    """Inverse kinematics by IPOPT, which approximates Hessians."""
    robot, opti = arm.robot, casadi.Opti()
    place = arm.external("forward_kinematics")
    index = robot.frame_names.index("tool0")
    target = robot.forward_kinematics(np.full(robot.nq, 0.4), "tool0")[:3, 3]
    q = opti.variable(robot.nq)
    opti.subject_to(place(q)[4 * index : 4 * index + 3, 3] == target)
    opti.minimize(casadi.sumsqr(q - 0.3))
    opti.set_initial(q, 0.3)
    words = {"hessian_approximation": "limited-memory", "print_level": 0, "sb": "yes"}
    opti.solver("ipopt", {"print_time": False}, words)
    found = opti.solve().value(q)
    reached = robot.forward_kinematics(found, "tool0")[:3, 3]
    np.testing.assert_allclose(reached, target, atol=1e-6)


def test_float64_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--casadi", "--compile", "cpu", "--dtype", "float32", "-o", str(tmp_path / "out")]
    assert main([str(OWN / "pendulum.urdf"), *words]) == 2
    assert "--casadi is compiled for float64" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "floating"), [("arm6", False), ("quadruped", True)])
def test_expressions_are_pinocchios(name: str, floating: bool) -> None:
    """Results and Jacobians of SX functions, quaternions of any norm."""
    robot, rng = (
        gridgen.load(OWN / f"{name}.urdf", floating_base=floating),
        np.random.default_rng(3),
    )
    model = pinocchio_model(OWN / f"{name}.urdf", floating)
    model.armature[:] = 0.0
    data = model.createData()
    q, (qd, u) = robot.random_configuration(rng, 1)[0], rng.normal(size=(2, robot.nv))
    unnormalized = q.copy()
    if floating:
        unnormalized[3:7] *= 1.3

    def evaluated(oracle: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        return lambda q, qd, u: np.array(oracle(model, data, pinocchio.normalize(model, q), qd, u))

    for function, oracle in (
        ("inverse_dynamics", pinocchio.rnea),
        ("forward_dynamics", pinocchio.aba),
    ):
        found = robot.casadi(function)
        compare(found, evaluated(oracle), [unnormalized, qd, u])
        symbols = [casadi.SX.sym(found.name_in(i), *found.size_in(i)) for i in range(3)]
        own = casadi.jacobian(found(*symbols), casadi.vertcat(*symbols))
        differentiated_by_casadi = casadi.Function("own", symbols, [own])
        own_length = differentiated_by_casadi.n_instructions()
        own = differentiated_by_casadi(unnormalized, qd, u)
        blocks = casadi.horzcat(*found.jacobian()(unnormalized, qd, u, 0))
        scale = np.abs(own.full()).max()
        np.testing.assert_allclose(blocks.full(), own.full(), atol=EXACT * scale)
        x = casadi.MX.sym("x", robot.nq)
        by_q = casadi.Function("by_q", [x], [casadi.jacobian(found(x, qd, u), x)])
        assert found.jacobian().n_instructions() < 0.8 * own_length
        np.testing.assert_allclose(
            by_q(unnormalized).full(), own[:, : robot.nq].full(), atol=EXACT * scale
        )


def test_expressions_with_constraints() -> None:
    """Parameters of constraints are constants, or inputs if listed."""
    robot = gridgen.load(
        OWN / "quadruped.urdf", floating_base=True, constraints=CONSTRAINTS["quadruped"]
    )
    rng = np.random.default_rng(4)
    q, (qd, tau) = robot.random_configuration(rng, 1)[0], rng.normal(size=(2, robot.nv))
    function = robot.casadi("constrained_forward_dynamics", inputs=["active"])
    assert function.name_in() == ["q", "qd", "tau", "active"]
    for active in (robot.parameters("active"), np.arange(len(robot.constraint_names)) % 2.0):
        expected = robot.constrained_forward_dynamics(q, qd, tau, active=active)
        for found, value in zip(function(q, qd, tau, active), expected, strict=True):
            scale = max(1.0, np.abs(value).max())
            np.testing.assert_allclose(found.full().ravel(), value, atol=1e-9 * scale)
    assert robot.casadi("constrained_forward_dynamics").n_in() == 3
