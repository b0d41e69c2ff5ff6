"""Costs against differences, the backward pass against dense algebra, minima of iLQR."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gridgen
from gridgen import Cost
from gridgen.control.compiled import Array, Called, backward
from gridgen.errors import OptionError, ShapeError
from helpers.robots import OWN

#: Central differences with steps of 1e-6, relative.
DIFFERENCES = 1e-6
ROBOTS = [
    ("two_link", False, "forearm"),
    pytest.param("quadruped", True, "FL_foot", marks=pytest.mark.exhaustive),
]


def cases(robot: gridgen.Robot, frame: str, rng: np.random.Generator) -> list[Cost]:
    q = robot.random_configuration(rng, 1)[0]
    pose = robot.forward_kinematics(q, frame)
    return [
        Cost("q", 0.3, 2.0, q),
        Cost("qd", 0.3, 2.0, loss="huber", width=0.7),
        Cost("tau", 0.3, loss="pseudo_huber"),
        Cost("position", [1.0, 2.0, 3.0], 2.0, pose[:3, 3], frame),
        Cost("orientation", 1.0, 2.0, pose[:3, :3], frame),
        Cost("center_of_mass", 1.0, 2.0, [0.1, 0.2, 0.3]),
        Cost("momentum", 1.0, 2.0),
        Cost("lower_limits", 1.0, 2.0),
        Cost("upper_limits", 1.0, 2.0, width=0.5),
    ]


@pytest.mark.parametrize(("name", "floating", "frame"), ROBOTS)
def test_gradients_of_costs(name: str, floating: bool, frame: str) -> None:
    robot = gridgen.load(OWN / f"{name}.urdf", floating_base=floating)
    rng = np.random.default_rng(0)
    frame = frame if frame in robot.frame_names else robot.frame_names[-1]
    B, T, nv = 2, 3, robot.nv
    q = robot.random_configuration(rng, B * (T + 1)).reshape(B, T + 1, -1)
    qd, tau = rng.normal(size=(B, T + 1, nv)), rng.normal(size=(B, T, nv))
    dx, du = rng.normal(size=(B, T + 1, 2 * nv)), rng.normal(size=tau.shape)
    terms = cases(robot, frame, rng)

    def at(step: float) -> np.ndarray:
        moved = robot.integrate(q, step * dx[..., :nv]), qd + step * dx[..., nv:], tau + step * du
        return gridgen.trajectory_cost(robot, terms, *moved, derivatives=False).cost

    found = gridgen.trajectory_cost(robot, terms, q, qd, tau)
    np.testing.assert_allclose(found.cost, at(0.0), rtol=1e-12)
    slope = (found.l_x * dx).sum((1, 2)) + (found.l_u * du).sum((1, 2))
    expected = (at(1e-6) - at(-1e-6)) / 2e-6
    np.testing.assert_allclose(slope, expected, rtol=DIFFERENCES)
    np.testing.assert_allclose(found.l_xx, np.swapaxes(found.l_xx, -1, -2))
    assert np.linalg.eigvalsh(found.l_xx).min() > -1e-9 * np.abs(found.l_xx).max()
    for b in range(B):  # a target of its own for each problem and time
        goals = [Cost("q", 1.0, 2.0, q[b : b + 1]), Cost("tau", 1.0, 0.0, tau)]
        own = gridgen.trajectory_cost(robot, goals, q, qd, tau)
        np.testing.assert_allclose(own.cost[b], 0.0, atol=1e-12)
        assert own.cost[1 - b] > 0.1


def known(*arrays: Array) -> Called:
    """Return the call of a function with known results (B, T, ...)."""
    return Called(None, [(array, array.shape[2:]) for array in arrays], arrays[0].shape[:2])


def quadratic(l_x: Array, l_u: Array, l_xx: Array, l_uu: Array) -> Called:
    """Return derivatives with a part of the Hessian as a diagonal."""
    n = l_x.shape[-1]
    dense = (l_xx - 0.2 * np.eye(n)).reshape(*l_x.shape[:2], -1)
    hessian = np.concatenate([np.full(l_x.shape, 0.2), dense], axis=-1)
    return known(np.zeros((*l_x.shape[:2], 1)), l_x, l_u, l_uu, hessian)


@pytest.mark.parametrize(("fixed", "derived"), [(0, 0), (1, 2)])
def test_the_backward_pass_minimizes_the_model(fixed: int, derived: int) -> None:
    """Without limits, against the minimum of the condensed quadratic program."""
    rng, batch, T, n, m, dt = np.random.default_rng(1), 11, 4, 6, 2, 0.3
    A, B = rng.normal(size=(batch, T, n, n)), rng.normal(size=(batch, T, n, m))
    first = n // 2 - derived
    for matrix in (A, B):
        matrix[:, :, first : n // 2] = dt * matrix[:, :, n - derived :]
    A[:, :, first : n // 2, first : n // 2] += np.eye(derived)
    half = rng.normal(size=(batch, T + 1, n, n))
    l_x, l_u = rng.normal(size=(batch, T + 1, n)), rng.normal(size=(batch, T, m))
    l_xx, l_uu = half @ np.swapaxes(half, -1, -2), rng.uniform(0.5, 1.0, size=(batch, T, m))
    read = A.copy()
    read[:, :, first : n // 2] = np.nan if derived else read[:, :, first : n // 2]
    out = k, K, expected = np.zeros((batch, T, m)), np.zeros((batch, T, m, n)), np.zeros((batch, 2))
    model, rows = quadratic(l_x, l_u, l_xx, l_uu), rng.permutation(batch)
    words = {"coupled": n, "fixed": fixed, "derived": derived, "dt": dt}
    none = np.zeros((batch, T, m)), np.full(m, 1e9), np.zeros(batch)
    backward(known(read, B), model, *none, out, rows, **words)
    k, K, expected = (array[rows] for array in out)
    for b in range(batch):
        maps = np.zeros((T + 1, n, T, m))
        for t in range(T):
            maps[t + 1] = np.tensordot(A[b, t], maps[t], 1)
            maps[t + 1, :, t, fixed:] += B[b, t, :, fixed:]
        J = maps[:, :, :, fixed:].reshape(T + 1, n, -1)
        H = np.diag(l_uu[b, :, fixed:].ravel()) + sum(
            J[t].T @ l_xx[b, t] @ J[t] for t in range(T + 1)
        )
        g = l_u[b, :, fixed:].ravel() + sum(J[t].T @ l_x[b, t] for t in range(T + 1))
        u = -np.linalg.solve(H, g)
        x, found = np.zeros(n), np.zeros((T, m))
        for t in range(T):
            found[t] = k[b, t] - K[b, t] @ x
            x = A[b, t] @ x + B[b, t] @ found[t]
        assert not found[:, :fixed].any()
        np.testing.assert_allclose(found[:, fixed:].ravel(), u, atol=1e-8 * np.abs(u).max())
        np.testing.assert_allclose(expected[b].sum(), 0.5 * g @ u, rtol=1e-8)


@pytest.mark.parametrize("near", [0.0, 0.5])
def test_the_backward_pass_holds_limits(near: float) -> None:
    """One step: the conditions of Karush, Kuhn and Tucker; held controls have no gains."""
    rng, batch, n, m = np.random.default_rng(2), 50, 4, 3
    A, B = rng.normal(size=(batch, 1, n, n)), rng.normal(size=(batch, 1, n, m))
    V = np.broadcast_to(np.eye(n), (batch, 2, n, n))
    v, r = rng.normal(size=(batch, 2, n)), rng.normal(size=(batch, 1, m))
    R = np.full((batch, 1, m), 0.3)
    limit, efforts = np.array([0.2, 0.4, 0.0]), np.zeros((batch, 1, m))
    k, K, expected = np.zeros((batch, 1, m)), np.zeros((batch, 1, m, n)), np.zeros((batch, 2))
    given = known(A, B), quadratic(v, r, V, R), efforts, limit, np.full(batch, near)
    backward(*given, (k, K, expected), np.arange(batch), coupled=n)
    u, Bt = k[:, 0], np.swapaxes(B[:, 0], -1, -2)
    push = v[:, 1] + (1.0 + near) * (B[:, 0] @ u[..., None])[..., 0]
    g = r[:, 0] + 0.3 * u + (Bt @ push[..., None])[..., 0]
    assert (np.abs(u) <= limit).all()
    inside = np.abs(u) < limit
    assert inside[:, :2].any()
    assert not inside[:, :2].all()
    assert np.abs(g[inside]).max() < 1e-9
    assert (g * u)[:, :2][~inside[:, :2]].max() <= 1e-9
    assert not K[:, 0][~inside].any()
    for b in range(batch):
        free = B[b, 0][:, inside[b]]
        Quu = (1.0 + near) * free.T @ free + 0.3 * np.eye(free.shape[1])
        gains = np.linalg.solve(Quu, (1.0 + near) * free.T @ A[b, 0])
        np.testing.assert_allclose(K[b, 0][inside[b]], gains, atol=1e-10)


def slopes(
    robot: gridgen.Robot, costs: list[Cost], found: gridgen.IlqrResult, dt: float
) -> tuple[Array, float]:
    """Return the slopes of the cost by the torques, and the size of their terms."""
    x = found.q, found.qd, found.tau
    A, B = robot.rollout_gradient(*x, dt)
    model = gridgen.trajectory_cost(robot, costs, *x)
    np.testing.assert_allclose(model.cost, found.cost, rtol=1e-12)
    adjoint, slope = model.l_x[:, -1], np.empty(found.tau.shape)
    for t in reversed(range(slope.shape[1])):
        slope[:, t] = model.l_u[:, t] + np.einsum("bij,bi->bj", B[:, t], adjoint)
        adjoint = model.l_x[:, t] + np.einsum("bij,bi->bj", A[:, t], adjoint)
    return slope, float(np.abs(model.l_u).max())


def test_ilqr_reaches_a_minimum_within_limits() -> None:
    robot, rng = gridgen.load(OWN / "two_link.urdf"), np.random.default_rng(3)
    T, dt, batch = 30, 0.02, 5
    costs = [Cost("q", 0.02, 30.0, [0.6, -0.3]), Cost("qd", 0.02, 1.0), Cost("tau", 1e-3)]
    q0, qd0 = rng.uniform(-0.5, 0.5, (batch, 2)), np.zeros((batch, 2))
    words = {"T": T, "dt": dt, "tolerance": 1e-10}
    free = gridgen.ilqr(robot, costs, q0, qd0, effort_limits=False, **words)
    assert free.converged.all()
    fast = gridgen.ilqr(robot, costs, q0, qd0, effort_limits=False, dtype="float32", **words)
    np.testing.assert_allclose(fast.cost, free.cost, rtol=1e-6)
    slope, scale = slopes(robot, costs, free, dt)
    assert np.abs(slope).max() < 1e-4 * scale
    feedback = free.gains, free.q[:, :-1], free.qd[:, :-1]
    q, _ = robot.rollout(q0, qd0, free.tau, dt, feedback=feedback)
    np.testing.assert_allclose(q, free.q, atol=1e-9)

    weak = (OWN / "two_link.urdf").read_text()
    strongest = np.abs(free.tau).max()
    weak = re.sub(r'effort="[^"]*"', f'effort="{0.5 * strongest}"', weak)
    held = gridgen.ilqr(gridgen.load(weak), costs, q0, qd0, **words)
    assert np.abs(held.tau).max() <= 0.5 * strongest
    assert (held.cost >= free.cost * (1.0 - 1e-6)).all()
    one = gridgen.ilqr(robot, costs, q0[0], qd0[0], effort_limits=False, **words)
    np.testing.assert_allclose(one.cost, free.cost[:1], rtol=1e-6)


def test_free_joints_have_no_torques_wherever_they_are() -> None:
    """A free joint of the file, between the others in ``order``: a minimum over the others."""
    mass = '<mass value="3"/><inertia ixx=".1" ixy="0" ixz="0" iyy=".2" iyz="0" izz=".2"/>'
    root = '<link name="outside"/><joint name="free" type="floating"><parent link="outside"/>'
    root += f'<child link="base"/></joint><link name="base"><inertial>{mass}</inertial></link>'
    text = (OWN / "two_link.urdf").read_text().replace('<link name="base"/>', root)
    robot = gridgen.load(text, order=["elbow", "free", "shoulder"])
    assert robot.floating_base
    assert repr(robot) == "<Robot 'two_link': 3 bodies, floating base, nv = 8>"
    rng = np.random.default_rng(5)
    x0 = robot.random_configuration(rng, 2), rng.normal(size=(2, 8))
    costs = [Cost("q", 0.1, 9.0, robot.random_configuration(rng, 1)[0])]
    costs += [Cost("qd", 0.1, 1.0), Cost("tau", 1e-2)]
    found = gridgen.ilqr(robot, costs, *x0, T=6, dt=0.02, tolerance=1e-12)
    assert not found.tau[..., 1:7].any()
    slope, scale = slopes(robot, costs, found, 0.02)
    assert np.abs(slope[..., [0, 7]]).max() < 1e-4 * scale
    assert np.abs(slope[..., 1:7]).max() > 1e-2 * scale


def test_parts_of_a_batch_are_solved_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each problem has a target of its own, and the result of a batch of one."""
    monkeypatch.setattr("gridgen.control.ilqr.thread_count", lambda: 2)
    robot, rng, batch, T = gridgen.load(OWN / "two_link.urdf"), np.random.default_rng(4), 37, 10
    goals = rng.uniform(-0.5, 0.5, (batch, 1, 2))
    q0, rest = rng.uniform(-0.5, 0.5, (batch, 2)), np.zeros(2)

    def solve(rows: slice) -> gridgen.IlqrResult:
        costs = [Cost("q", 0.02, 30.0, goals[rows]), Cost("qd", 0.02, 1.0), Cost("tau", 1e-3)]
        return gridgen.ilqr(robot, costs, q0[rows], rest, T=T, dt=0.02)

    found = solve(slice(None))
    assert len(set(found.iterations)) > 1
    for i in (0, 20, 36):
        one = solve(slice(i, i + 1))
        np.testing.assert_allclose(found.cost[i], one.cost[0], rtol=1e-12)
        np.testing.assert_allclose(found.gains[i], one.gains[0], atol=1e-8)


def test_refused_costs() -> None:
    robot = gridgen.load(OWN / "two_link.urdf")
    for words in ({"residual": "a"}, {"residual": "q", "loss": "a"}, {"residual": "position"}):
        with pytest.raises(OptionError):
            Cost(**words)
    for words in ({"weights": -1.0}, {"terminal": np.nan}, {"width": 0.0}, {"frame": "a"}):
        with pytest.raises(OptionError):
            Cost("q", **words)
    zero = np.zeros((1, 3, 2))
    with pytest.raises(ShapeError, match=r"\(B, T \+ 1, 2\)"):
        gridgen.trajectory_cost(robot, [], zero, zero, zero)
    for cost in (Cost("q", target=np.zeros(3)), Cost("qd", weights=np.ones(3))):
        with pytest.raises(ShapeError):
            gridgen.trajectory_cost(robot, [cost], zero, zero, zero[:, 1:])
    with pytest.raises(OptionError, match=r"gridgen\.Cost"):
        gridgen.trajectory_cost(robot, ["q"], zero, zero, zero[:, 1:])
    with pytest.raises(OptionError, match="T is 0"):
        gridgen.ilqr(robot, [], [0.0, 0.0], [0.0, 0.0], T=0, dt=0.1)
    with pytest.raises(OptionError, match="dtype"):
        gridgen.ilqr(robot, [], [0.0, 0.0], [0.0, 0.0], T=1, dt=0.1, dtype="float16")
    with pytest.raises(OptionError, match="regularization is -1"):
        gridgen.ilqr(robot, [], [0.0, 0.0], [0.0, 0.0], T=1, dt=0.1, regularization=-1.0)
    with pytest.raises(OptionError, match="dt"):
        gridgen.ilqr(robot, [], [0.0, 0.0], [0.0, 0.0], T=1, dt=-0.1)
    for words in ({"target": [np.nan, 0.0]}, {"target": "a"}, {"weights": "a"}):
        with pytest.raises(OptionError, match=r"finite|numbers"):
            Cost("q", **words)
    with pytest.raises(OptionError, match=r"q0 is not finite at \[1\]"):
        gridgen.ilqr(robot, [Cost("q")], [0.0, np.nan], [0.0, 0.0], T=1, dt=0.1)
    for costs in ([], Cost("q")):
        with pytest.raises(OptionError, match="costs is"):
            gridgen.ilqr(robot, costs, [0.0, 0.0], [0.0, 0.0], T=1, dt=0.1)
    with pytest.raises(OptionError, match="no frame"):
        gridgen.ilqr(robot, [Cost("position", frame="a")], [0.0, 0.0], [0.0, 0.0], T=1, dt=0.1)
    with pytest.raises(ShapeError, match="q0"):
        gridgen.ilqr(robot, [], [0.0], [0.0, 0.0], T=1, dt=0.1)
