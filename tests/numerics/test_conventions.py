"""MuJoCo's coordinates of a floating base and a ball joint, against MuJoCo itself."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gridgen
from gridgen.check import random_states
from gridgen.compiler import read_tree
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import ModelError, OptionError, QuaternionError
from gridgen.functions import FUNCTIONS
from gridgen.functions.arrays import ARRAYS
from gridgen.kernel import KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.options import CONVENTIONS, RobotOptions
from helpers.robots import OWN

mujoco: Any = pytest.importorskip("mujoco")
Rotation: Any = pytest.importorskip("scipy.spatial.transform").Rotation
COUNT = 3
MODEL = """
<mujoco>
  <compiler autolimits="true" angle="radian"/>
  <option><flag contact="disable"/></option>
  <worldbody>
    <body name="trunk" pos="0 0 1"><freejoint/>
      <inertial pos="0.1 -0.05 0.02" mass="4" fullinertia="0.3 0.4 0.5 0.01 0.02 -0.03"/>
      <body name="arm" pos="0.2 0.1 0" quat="0.9 0.1 0.3 0.2">
        <joint name="a" axis="1 2 3"/>
        <inertial pos="0.1 0 0.3" mass="1.5" diaginertia="0.03 0.02 0.04"/>
        <body name="hand" pos="0 0.1 0.4"><joint name="b" type="slide" axis="0 1 1"/>
          <inertial pos="0 0.1 0" mass="0.7" diaginertia="0.01 0.02 0.015"/></body>
      </body>
      <body name="leg" pos="-0.2 0 -0.1"><joint name="c" type="ball"/>
        <inertial pos="0 0.02 -0.2" mass="1" diaginertia="0.02 0.02 0.01"/></body>
    </body>
  </worldbody>
</mujoco>
"""


#: First coordinates of the quaternions.
QUATERNIONS = (3, 9)


def natural(q: np.ndarray) -> np.ndarray:
    """Return positions with quaternions x y z w."""
    q = q.copy()
    for start in QUATERNIONS:
        q[:, start : start + 4] = np.roll(q[:, start : start + 4], -1, axis=1)
    return q


class Peer:
    """MuJoCo's model in random states."""

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string(MODEL)
        self.data, nv = mujoco.MjData(self.model), self.model.nv
        rng = np.random.default_rng(7)
        self.q = rng.normal(size=(COUNT, self.model.nq))
        for start in QUATERNIONS:
            turn = self.q[:, start : start + 4]
            turn /= np.linalg.norm(turn, axis=1, keepdims=True)
        self.qd, self.qdd, self.tau = rng.normal(size=(3, COUNT, nv))
        self.gravity = self.model.opt.gravity[:] = np.array([0.3, -0.2, -9.81])

    def each(self, compute: Any) -> np.ndarray:
        """Return a function's results in each state."""
        found = []
        for k in range(COUNT):
            data = self.data
            data.qpos, data.qvel, data.qacc = self.q[k], self.qd[k], self.qdd[k]
            data.qfrc_applied = self.tau[k]
            found.append(np.array(compute(self.model, data)))
        return np.array(found)

    def torques(self, model: Any, data: Any) -> Any:
        mujoco.mj_inverse(model, data)
        return data.qfrc_inverse.copy()

    def accelerations(self, model: Any, data: Any) -> Any:
        mujoco.mj_forward(model, data)
        return data.qacc.copy()

    def mass_matrix(self, model: Any, data: Any) -> Any:
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        return M

    def jacobian(self, model: Any, data: Any) -> Any:
        mujoco.mj_forward(model, data)
        J = np.zeros((6, model.nv))
        mujoco.mj_jacBody(model, data, J[:3], J[3:], model.body("hand").id)
        return J

    def moved(self, model: Any, data: Any) -> Any:
        q = data.qpos.copy()
        mujoco.mj_integratePos(model, q, data.qvel, 1.0)
        return q

    def inverse_gradient(self, model: Any, data: Any) -> Any:
        nv, found = model.nv, [np.zeros((model.nv, model.nv)) for _ in range(2)]
        mujoco.mjd_inverseFD(model, data, 1e-6, 0, *found, None, None, None, None, None)
        return [matrix.T.reshape(nv, nv) for matrix in found]

    def forward_gradient(self, model: Any, data: Any) -> Any:
        q, qd, step, by_q, by_qd = data.qpos.copy(), data.qvel.copy(), 1e-6, [], []
        for axis in np.eye(model.nv):
            pair = []
            for sign in (1.0, -1.0):
                data.qpos = q
                mujoco.mj_integratePos(model, data.qpos, sign * axis, step)
                pair.append(self.accelerations(model, data))
            data.qpos = q
            by_q.append((pair[0] - pair[1]) / (2 * step))
            pair = []
            for sign in (1.0, -1.0):
                data.qvel = qd + sign * step * axis
                pair.append(self.accelerations(model, data))
            data.qvel = qd
            by_qd.append((pair[0] - pair[1]) / (2 * step))
        return [np.array(by_q).T, np.array(by_qd).T]


@pytest.fixture(scope="module")
def peer() -> Peer:
    return Peer()


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> gridgen.Robot:
    path: Path = tmp_path_factory.mktemp("mujoco") / "robot.xml"
    path.write_text(MODEL)
    return gridgen.load(path, convention="mujoco")


def test_dynamics_is_that_of_mujoco(robot: gridgen.Robot, peer: Peer) -> None:
    q, qd, qdd, tau, gravity = peer.q, peer.qd, peer.qdd, peer.tau, {"gravity": peer.gravity}
    tau_of_qdd = peer.each(peer.torques)
    assert_allclose(robot.inverse_dynamics(q, qd, qdd, **gravity), tau_of_qdd, atol=1e-10)
    found = peer.each(peer.accelerations)
    assert_allclose(robot.forward_dynamics(q, qd, tau, **gravity), found, atol=1e-9)
    crba = robot.forward_dynamics(q, qd, tau, method="crba", **gravity)
    assert_allclose(crba, found, atol=1e-9)
    bias = peer.each(lambda model, data: [mujoco.mj_forward(model, data), data.qfrc_bias.copy()][1])
    assert_allclose(robot.bias_forces(q, qd, **gravity), bias, atol=1e-10)
    M = peer.each(peer.mass_matrix)
    assert_allclose(robot.mass_matrix(q), M, atol=1e-11)
    assert_allclose(robot.mass_matrix_inverse(q), np.linalg.inv(M), atol=1e-8)
    energy = 0.5 * np.einsum("bi,bij,bj->b", qd, M, qd)
    assert_allclose(robot.kinetic_energy(q, qd), energy, rtol=1e-12)


def test_jacobians_and_steps_are_those_of_mujoco(robot: gridgen.Robot, peer: Peer) -> None:
    J = robot.jacobian(peer.q, "hand", reference="local_world_aligned")
    assert_allclose(J, peer.each(peer.jacobian), atol=1e-12)
    momentum = robot.centroidal_momentum_matrix(peer.q) @ peer.qd[..., None]
    assert_allclose(momentum[..., 0], robot.centroidal_momentum(peer.q, peer.qd), atol=1e-12)
    end = robot.integrate(peer.q, peer.qd)
    assert_allclose(end, peer.each(peer.moved), atol=1e-12)
    velocity = np.zeros(peer.model.nv)
    mujoco.mj_differentiatePos(peer.model, velocity, 1.0, peer.q[0], end[0])
    assert_allclose(robot.difference(peer.q, end)[0], velocity, atol=1e-12)
    middle = robot.interpolate(peer.q, end, 0.25)
    assert_allclose(middle, robot.integrate(peer.q, 0.25 * robot.difference(peer.q, end)), 1e-10)


def test_gradients_are_those_of_mujoco(robot: gridgen.Robot, peer: Peer) -> None:
    q, qd, gravity = peer.q, peer.qd, {"gravity": peer.gravity}
    found = robot.inverse_dynamics_gradient(q, qd, peer.qdd, **gravity)
    expected = peer.each(peer.inverse_gradient)
    for k in range(2):
        assert_allclose(found[k], expected[:, k], atol=1e-3)
    by_q, by_qd, by_tau = robot.forward_dynamics_gradient(q, qd, peer.tau, **gravity)
    expected = peer.each(peer.forward_gradient)
    assert_allclose(by_q, expected[:, 0], atol=1e-5 * np.abs(by_q).max())
    assert_allclose(by_qd, expected[:, 1], atol=1e-5 * np.abs(by_qd).max())
    assert_allclose(by_tau, robot.mass_matrix_inverse(q), atol=1e-9)


@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics"])
def test_products_agree_with_gradients(robot: gridgen.Robot, peer: Peer, function: str) -> None:
    given = peer.qdd if function == "inverse_dynamics" else peer.tau
    arrays, rng = (peer.q, peer.qd, given), np.random.default_rng(3)
    bar = rng.normal(size=given.shape)
    _, by_qd, *_ = getattr(robot, f"{function}_gradient")(*arrays)
    found = robot.vjp(function, bar, *arrays)
    assert_allclose(found[1], np.einsum("bi,bij->bj", bar, by_qd), atol=1e-9)
    value, step = getattr(robot, function), 1e-6
    for place in range(7, QUATERNIONS[1]):
        ahead, back = (peer.q + s * step * np.eye(robot.nq)[place] for s in (1.0, -1.0))
        slope = (value(ahead, *arrays[1:]) - value(back, *arrays[1:])) / (2 * step)
        assert_allclose(found[0][:, place], np.sum(bar * slope, axis=1), rtol=1e-4, atol=1e-5)


def test_fused_functions_and_pushforwards_are_converted(robot: gridgen.Robot, peer: Peer) -> None:
    q, qd, qdd = peer.q, peer.qd, peer.qdd
    found = robot.compute(("mass_matrix", "bias_forces"), q, qd)
    assert_allclose(found[0], robot.mass_matrix(q), atol=1e-12)
    assert_allclose(found[1], robot.bias_forces(q, qd), atol=1e-10)
    torques = robot.inverse_dynamics(q, qd, qdd)
    _, moved = robot.jvp("inverse_dynamics", (None, None, qdd), q, qd, qdd)
    assert_allclose(moved, np.einsum("bij,bj->bi", robot.mass_matrix(q), qdd), atol=1e-9)
    assert_allclose(torques - robot.bias_forces(q, qd), moved, atol=1e-9)


def test_other_functions_are_those_of_pinocchio_with_axes_turned(
    peer: Peer, tmp_path: Path
) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(MODEL)
    constraints = [{"kind": "point", "link": "hand"}]
    plain, own = (
        read_tree(path, RobotOptions(convention=one, constraints=constraints))
        for one in CONVENTIONS
    )
    q, T = natural(peer.q), np.tile(np.eye(own.nv), (COUNT, 1, 1))
    for k in range(COUNT):
        T[k, :3, :3] = Rotation.from_quat(q[k, 3:7]).as_matrix().T
    qd = np.einsum("bij,bj->bi", T, peer.qd)
    qdd = np.einsum("bij,bj->bi", T, peer.qdd)
    qdd[:, :3] -= np.cross(qd[:, 3:6], qd[:, :3])
    gravity = {"gravity": np.tile(peer.gravity, (COUNT, 1))}
    known = {"q": q, "qd": qd, "qdd": qdd, **gravity}
    given = {"q": peer.q, "qd": peer.qd, "qdd": peer.qdd, **gravity}
    names = ("center_of_mass", "center_of_mass_jacobian", "centroidal_momentum_matrix")
    names += ("centroidal_momentum", "centroidal_inertia", "gravity_forces", "potential_energy")
    names += ("potential_energy_regressor", "kinetic_energy_regressor", "joint_torque_regressor")
    keys = [KernelKey(name) for name in (*names, "delassus", "forward_kinematics")]
    links = ("operational_space_inertia", "point_inertia", "dynamically_consistent_inverse")
    keys += [KernelKey(name, frame="hand", reference="local") for name in (*links, "jacobian")]
    for key in keys:
        computation = computation_of(own, key)
        (found,) = evaluate_reference(own, key, given)
        (expected,) = evaluate_reference(plain, key, known)
        for axis, extent in enumerate(ARRAYS[computation.outputs[0]].shape, start=1):
            if extent == "nv":
                moved = np.moveaxis(expected, axis, -1)
                moved = np.einsum("bji,b...j->b...i", T, moved)
                expected = np.moveaxis(moved, -1, axis)
        assert_allclose(found, expected, atol=1e-9 * (1 + np.abs(expected).max()), err_msg=str(key))


def test_steps_and_rollouts_are_those_of_mujoco(robot: gridgen.Robot, peer: Peer) -> None:
    dt = peer.model.opt.timestep = 0.01

    def path(model: Any, data: Any) -> Any:
        found = [np.concatenate([data.qpos, data.qvel])]
        for _ in range(3):
            mujoco.mj_step(model, data)
            found.append(np.concatenate([data.qpos, data.qvel]))
        return found

    expected, nq = peer.each(path), robot.nq
    found = robot.step(peer.q, peer.qd, peer.tau, dt, gravity=peer.gravity)
    assert_allclose(np.concatenate(found, axis=1), expected[:, 1], atol=1e-12)
    tau = np.repeat(peer.tau[:, None], 3, axis=1)
    q, qd = robot.rollout(peer.q, peer.qd, tau, dt, gravity=peer.gravity)
    assert_allclose(q, expected[..., :nq], atol=1e-12)
    assert_allclose(qd, expected[..., nq:], atol=1e-12)
    gains = np.zeros((robot.nv, 2 * robot.nv))
    gains[:, : robot.nv] = np.eye(robot.nv)
    feedback = gains, peer.q[0], np.zeros(robot.nv)
    _, _, efforts = robot.rollout(
        peer.q, peer.qd, tau, dt, feedback=feedback, return_efforts=True, gravity=peer.gravity
    )
    error = robot.difference(peer.q, np.tile(peer.q[0], (COUNT, 1)))
    assert_allclose(efforts[:, 0], peer.tau + error, atol=1e-12)


def moved(tree: KinematicTree, x: Any, change: np.ndarray) -> Any:
    """Return a state after a change of q, qd and tau in MuJoCo's coordinates."""
    dq, dqd, dtau = (np.tile(part, (COUNT, 1)) for part in np.split(change, 3))
    (q,) = evaluate_reference(tree, "integrate", {"q": x["q"], "v": dq})
    return {**x, "q": q, "qd": x["qd"] + dqd, "tau": x["tau"] + dtau}


def differences(tree: KinematicTree, x: Any, function: Any) -> np.ndarray:
    """Return the derivatives of a function of the state by central differences."""
    columns, step = [], 1e-6
    for axis in step * np.eye(3 * tree.nv):
        ahead, back = (function(moved(tree, x, sign * axis)) for sign in (1.0, -1.0))
        ways = [end - start for start, end in zip(back, ahead, strict=True)]
        if ways[0].shape[1] == tree.nq:
            (ways[0],) = evaluate_reference(tree, "difference", {"q0": back[0], "q1": ahead[0]})
        columns.append(np.concatenate(ways, axis=1) / (2 * step))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("integrator", FUNCTIONS["step_gradient"].methods)
def test_step_gradients_are_differences_of_steps(
    integrator: str, peer: Peer, tmp_path: Path
) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(MODEL)
    tree = read_tree(path, RobotOptions(convention="mujoco"))
    x = {"q": peer.q, "qd": peer.qd, "tau": peer.tau, "dt": np.full(COUNT, 0.01)}
    x["gravity"] = np.tile(peer.gravity, (COUNT, 1))
    found = evaluate_reference(tree, f"step_gradient_{integrator}", x)
    expected = differences(tree, x, partial(evaluate_reference, tree, f"step_{integrator}"))
    assert_allclose(np.concatenate(found, axis=2), expected, atol=1e-8)


SECOND_ORDER = {
    "inverse_dynamics_second_order": ("inverse_dynamics_gradient", "mass_matrix"),
    "forward_dynamics_second_order": ("forward_dynamics_gradient",),
    "forward_dynamics_hessian": ("forward_dynamics_gradient",),
    **{
        f"step_hessian_{name}": (f"step_gradient_{name}",)
        for name in FUNCTIONS["step_hessian"].methods
    },
}


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] * ("step" in name and "rk4" not in name))
        for name in SECOND_ORDER
    ],
)
def test_second_derivatives_are_differences_of_the_first(
    function: str, peer: Peer, tmp_path: Path
) -> None:
    """Differences along MuJoCo's directions of gradients, which are compared with MuJoCo above."""
    path = tmp_path / "robot.xml"
    path.write_text(MODEL)
    tree, nv = read_tree(path, RobotOptions(convention="mujoco")), peer.model.nv
    rng = np.random.default_rng(0)
    x = {"q": peer.q, "qd": peer.qd, "qdd": peer.qdd, "tau": peer.tau, "dt": np.full(COUNT, 0.1)}
    x |= {"gravity": np.tile(peer.gravity, (COUNT, 1))}
    x |= {"multipliers": rng.normal(size=(COUNT, nv)), "costate": rng.normal(size=(COUNT, 2 * nv))}

    def value(name: str, x: Any) -> list[np.ndarray]:
        inputs = computation_of(tree, name).inputs
        return evaluate_reference(tree, name, {one: x[one] for one in inputs})

    def slopes(name: str) -> list[list[np.ndarray]]:
        """Return the derivatives of each result by q, qd and tau."""
        columns, step = [], 1e-6
        for axis in step * np.eye(3 * nv):
            ahead, back = (value(name, moved(tree, x, sign * axis)) for sign in (1.0, -1.0))
            columns.append([(a - b) / (2 * step) for a, b in zip(ahead, back, strict=True)])
        each = [np.stack(column, axis=-1) for column in zip(*columns, strict=True)]
        return [np.split(one, 3, axis=-1) for one in each]

    found = value(function, x)
    first = [one for name in SECOND_ORDER[function] for one in slopes(name)]
    if function.endswith("second_order"):  # qq, vv, qv, then dM or by torques
        expected = [first[0][0], first[1][1], first[0][1]]
        expected.append(first[2][0] if function.startswith("inverse") else first[0][2])
    else:
        weights = x["costate" if "step" in function else "multipliers"]
        ways = np.concatenate([np.concatenate(one, axis=-1) for one in first], axis=2)
        product = np.einsum("bi,bijk->bjk", weights, ways)
        expected = [(product + product.transpose(0, 2, 1)) / 2]
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, atol=1e-7 * np.abs(other).max())


def test_constraints_are_converted(peer: Peer, tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(MODEL)
    held = [{"kind": "frame", "link": "hand", "stabilization": (0.0, 2.0)}]
    plain, tree = (
        read_tree(path, RobotOptions(convention=one, constraints=held)) for one in CONVENTIONS
    )
    rng = np.random.default_rng(1)
    given = random_states(tree, COUNT, rng)
    given |= {"active": np.ones((COUNT, 1)), "proximal": np.full((COUNT, 1), 2.0**-26)}
    given |= {"q": peer.q, "qd": peer.qd, "qdd": peer.qdd, "tau": peer.tau}
    R = Rotation.from_quat(np.roll(peer.q[:, 3:7], -1, axis=1)).as_matrix()

    def turned(v: np.ndarray, R: np.ndarray) -> np.ndarray:
        return np.concatenate([np.einsum("bij,bj->bi", R, v[:, :3]), v[:, 3:]], axis=1)

    back = R.transpose(0, 2, 1)
    own = {**given, "q": natural(peer.q)}
    own |= {name: turned(given[name], back) for name in ("qd", "tau", "qdd")}
    drift = np.cross(own["qd"][:, 3:6], own["qd"][:, :3])
    own["qdd"][:, :3] -= drift
    qdd, forces = evaluate_reference(plain, "constrained_forward_dynamics", own)
    qdd[:, :3] += drift
    found = evaluate_reference(tree, "constrained_forward_dynamics", given)
    assert_allclose(found[0], turned(qdd, R), atol=1e-9 * np.abs(qdd).max())
    assert_allclose(found[1], forces, atol=1e-9 * np.abs(forces).max())
    for function in ("impulse_dynamics", "constrained_inverse_dynamics"):
        pair = [evaluate_reference(one, function, x) for one, x in ((tree, given), (plain, own))]
        assert_allclose(pair[0][0], turned(pair[1][0], R), atol=1e-8 * np.abs(pair[1][0]).max())
        assert_allclose(pair[0][1], pair[1][1], atol=1e-8 * np.abs(pair[1][1]).max())
    found = evaluate_reference(tree, "constrained_forward_dynamics_gradient", given)
    value = partial(evaluate_reference, tree, "constrained_forward_dynamics")
    expected, nv = differences(tree, given, value), tree.nv
    for place, matrix in enumerate(found):
        rows = slice(0, nv) if place < 3 else slice(nv, None)
        reference = expected[:, rows, place % 3 * nv : (place % 3 + 1) * nv]
        assert_allclose(matrix, reference, atol=1e-6 * np.abs(expected).max())


def test_contacts_and_actuators_are_converted() -> None:
    options = {
        "floating_base": True,
        "ground": [{"link": f"{leg}_foot", "radius": 0.02} for leg in ("FL", "RR")],
        "actuators": [{"joint": "FL_calf_joint", "kind": "position", "kp": 9, "kv": 1}],
    }
    plain, tree = (
        read_tree(OWN / "quadruped.urdf", RobotOptions(convention=one, **options))
        for one in CONVENTIONS
    )
    own = random_states(plain, COUNT, np.random.default_rng(1))
    own["q"][:, 2] = 0.2
    R = Rotation.from_quat(own["q"][:, 3:7]).as_matrix()
    given = {**own, "q": own["q"].copy(), "qd": own["qd"].copy(), "tau": own["tau"].copy()}
    given["q"][:, 3:7] = np.roll(own["q"][:, 3:7], 1, axis=1)
    for name in ("qd", "tau"):
        given[name][:, :3] = np.einsum("bij,bj->bi", R, own[name][:, :3])
    states = (plain, own), (tree, given)
    torques = [evaluate_reference(one, "actuator_torques", x)[0] for one, x in states]
    assert np.abs(torques[0]).max() > 1.0
    assert_allclose(*torques, atol=1e-12)
    q, qd = evaluate_reference(plain, "step_implicit", own)
    end = evaluate_reference(tree, "step_implicit", given)
    assert_allclose(end[0][:, 3:7], np.roll(q[:, 3:7], 1, axis=1), atol=1e-12)
    assert_allclose(end[1][:, 3:], qd[:, 3:], atol=1e-10 * np.abs(qd).max())
    R = Rotation.from_quat(q[:, 3:7]).as_matrix()
    linear = np.einsum("bij,bj->bi", R, qd[:, :3])
    assert_allclose(end[1][:, :3], linear, atol=1e-10 * np.abs(qd).max())


def test_quaternions_begin_with_w(robot: gridgen.Robot) -> None:
    assert robot.neutral()[3:7].tolist() == [1.0, 0.0, 0.0, 0.0]
    with pytest.raises(QuaternionError, match=r"\(w, x, y, z\)"):
        robot.mass_matrix(np.zeros((1, robot.nq)))


def test_what_is_not_converted_is_refused(robot: gridgen.Robot, peer: Peer) -> None:
    with pytest.raises(ModelError, match="momentum_regressor of a robot with a free or ball"):
        robot.momentum_regressor(peer.q, peer.qd)
    with pytest.raises(ModelError, match="no jacobian_gradient of a robot with a free or ball"):
        robot.jacobian_gradient(peer.q, robot.frame_names[-1])
    x, motion = (peer.q, peer.qd, peer.tau), np.ones(6)
    for function in ("inverse_dynamics_gradient", "forward_dynamics_second_order"):
        with pytest.raises(ModelError, match=f"no {function} on a moving base: omit its motion"):
            getattr(robot, function)(*x, base_velocity=motion)
    with pytest.raises(ModelError, match="no step_hessian on a moving base"):
        robot.step_hessian(*x, 0.01, np.ones(2 * robot.nv), base_velocity=motion)
    with pytest.raises(
        OptionError, match=r"convention is .drake.; choose one of pinocchio, mujoco"
    ):
        gridgen.load(OWN / "arm6.urdf", convention="drake")
    with pytest.raises(OptionError, match="without armature, on the base"):
        gridgen.load(
            OWN / "arm6.urdf", floating_base=True, convention="mujoco", armature=[0.1] * 12
        )
    with pytest.raises(OptionError, match=r"does not support .damping. in parameters"):
        gridgen.load(
            OWN / "arm6.urdf", floating_base=True, convention="mujoco", parameters="damping"
        )
