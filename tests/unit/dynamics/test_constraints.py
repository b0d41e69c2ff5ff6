"""Dynamics with constraints against Pinocchio's, and what they are the equations of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose

import gridgen
from gridgen.check import compare_function, random_changes, random_states
from gridgen.dynamics.constraints import Constraints, turning_rows
from gridgen.dynamics.functions import computation_of, refusal
from gridgen.dynamics.kinematics import all_motions, base_motion
from gridgen.dynamics.reference import evaluate_reference
from gridgen.dynamics.state import State
from gridgen.errors import ModelError, OptionError, ParameterError
from gridgen.functions.arrays import PROXIMAL
from gridgen.model.pose import matrix3, vector3
from gridgen.model.tree import KinematicTree
from gridgen.schedules.thread import schedule
from gridgen.schedules.thread.plan import plan_lines
from gridgen.symbolic.scalars import FloatScalars
from helpers.dynamics import COMPLEX_STEP, load_tree, robot_path, tangent_steps
from helpers.oracle import Oracle
from helpers.program_interpreter import run
from helpers.robots import CONSTRAINTS, exhaustive_cases, needs

GRADIENT = "constrained_forward_dynamics_gradient"
FEET = {
    "solo12": [{"kind": "point", "link": f"{leg}_FOOT"} for leg in ("FL", "FR", "HL", "HR")],
    "talos_reduced": [{"kind": "frame", "link": f"leg_{side}_6_link"} for side in ("left", "right")]
    + [
        {"kind": "frame", "link": "arm_left_7_link", "offset": [0.1, 0.0, 0.2], "rpy": [1, 2, 3]},
        {"kind": "point", "link": "arm_right_7_link", "offset": [0.1, 0.2, 0.3]},
    ],
}
FIXED = {
    "xarm7": [{"kind": "frame", "link": "link7", "offset": [0.0, 0.1, 0.2]}],
    "ur5_robot": [{"kind": "point", "link": "tool0"}],
    "z1": [{"kind": "point", "link": "link06", "offset": [0.1, 0.0, 0.0]}],
}
CONTACTS = [(name, True, given) for name, given in FEET.items()] + [
    (name, False, given) for name, given in FIXED.items()
]


def rigid(x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return states with constraints that neither give way nor pull back, as Pinocchio's."""
    x["stabilization"][:], x["compliance"][:] = 0.0, 0.0
    x["proximal"][:] = PROXIMAL["float64"]
    return x


class Peer:
    """Pinocchio's constrained dynamics of a robot whose constraints are of links."""

    def __init__(self, tree: KinematicTree, urdf: Any) -> None:
        self.tree, self.model = tree, Oracle(tree, urdf).model
        self.data = self.model.createData()

    def placed(self, frame: Any) -> tuple[int, pinocchio.SE3]:
        """Return the joint of a frame, and where it is there."""
        at = pinocchio.SE3(np.array(frame.rotation), np.array(frame.translation))
        if frame.body < 0:
            return 0, at
        return int(self.model.getJointId(self.tree.bodies[frame.body].joint)), at

    def models(self, active: np.ndarray) -> tuple[Any, Any]:
        """Return Pinocchio's models of the constraints that hold, and their data."""
        models = pinocchio.StdVec_RigidConstraintModel()
        data = pinocchio.StdVec_RigidConstraintData()
        for one, holds in zip(self.tree.constraints, active, strict=True):
            if holds:
                link, to = self.placed(one.link), self.placed(one.to)
                kind = pinocchio.ContactType.CONTACT_3D
                if one.kind == "frame":
                    kind = pinocchio.ContactType.CONTACT_6D
                if to[0]:
                    seen, ends = pinocchio.ReferenceFrame.LOCAL, (*link, *to)
                else:
                    seen, ends = pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED, link
                models.append(pinocchio.RigidConstraintModel(kind, self.model, *ends, seen))
                data.append(models[-1].createData())
        return models, data

    def in_axes_of_to(self, forces: np.ndarray) -> np.ndarray:
        """Return the forces of loops, which Pinocchio has in the axes of ``link``."""
        found, start = forces.copy(), 0
        for one in self.tree.constraints:
            link, to = self.placed(one.link), self.placed(one.to)
            if to[0]:
                turn = (self.data.oMi[to[0]] * to[1]).actInv(self.data.oMi[link[0]] * link[1])
                for at in range(start, start + one.rows, 3):
                    found[at : at + 3] = turn.rotation @ forces[at : at + 3]
            start += one.rows
        return found

    def impact(self, x: dict[str, np.ndarray], i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return velocities after an impact whose restitution is that of the first constraint."""
        models, data = self.models(np.ones(len(self.tree.constraints)))
        pinocchio.initConstraintDynamics(self.model, self.data, models, data)
        settings = pinocchio.ProximalSettings(1e-14, 1e-14, 1e-12, 20)
        share = float(x["restitution"][i, 0])
        arguments = (self.model, self.data, x["q"][i], x["qd"][i], models, data, share, settings)
        after = pinocchio.impulseDynamics(*arguments).copy()
        return after, np.array(self.data.impulse_c)

    def solved(self, x: dict[str, np.ndarray], i: int) -> tuple[Any, Any, Any]:
        """Compute the dynamics of a state; return the arguments of the derivatives."""
        models, data = self.models(x["active"][i])
        pinocchio.initConstraintDynamics(self.model, self.data, models, data)
        settings = pinocchio.ProximalSettings(1e-14, 1e-14, 1e-12, 20)
        q, qd, tau = x["q"][i], x["qd"][i], x["tau"][i]
        pinocchio.constraintDynamics(self.model, self.data, q, qd, tau, models, data, settings)
        return models, data, settings

    def gradients(self, x: dict[str, np.ndarray], i: int) -> list[np.ndarray]:
        """Return the derivatives of accelerations and forces."""
        arguments = (self.model, self.data, *self.solved(x, i))
        return [one.copy() for one in pinocchio.computeConstraintDynamicsDerivatives(*arguments)]

    def dynamics(self, x: dict[str, np.ndarray], i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return accelerations and forces, zero where a constraint is not active."""
        self.solved(x, i)
        qdd = self.data.ddq.copy()
        forces = np.zeros(sum(one.rows for one in self.tree.constraints))
        holds = np.repeat(x["active"][i], [one.rows for one in self.tree.constraints]) > 0
        forces[holds] = self.data.lambda_c
        return qdd, self.in_axes_of_to(forces)


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert_allclose(actual, expected, rtol=0.0, atol=tolerance * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize(("name", "floating", "given"), CONTACTS)
def test_contacts_with_the_world_are_pinocchios(name: str, floating: bool, given: list) -> None:
    tree = load_tree(name, floating, constraints=given)
    peer = Peer(tree, robot_path(name))
    x = rigid(random_states(tree, 4, np.random.default_rng(len(name))))
    x["active"][0] = 1.0
    if any(one.kind == "frame" for one in tree.constraints):
        # Of frames that move Pinocchio has another acceleration, that of twist coordinates.
        for i in range(4):
            keep_still(tree, x, i)
    qdd, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    for i in range(4):
        expected = peer.dynamics(x, i)
        close(qdd[i], expected[0], 1e-9)
        close(forces[i], expected[1], 1e-9)


@pytest.mark.parametrize(("name", "floating", "given"), CONTACTS)
def test_the_delassus_matrix_is_pinocchios(name: str, floating: bool, given: list) -> None:
    tree = load_tree(name, floating, constraints=given)
    peer = Peer(tree, robot_path(name))
    x = random_states(tree, 2, np.random.default_rng(7))
    (A,) = evaluate_reference(tree, "delassus", x)
    for i in range(2):
        models, data = peer.models(np.ones(len(given)))
        own = pinocchio.computeDelassusMatrix(peer.model, peer.data, x["q"][i], models, data)
        own = np.tril(own) + np.tril(own, -1).T
        # Pinocchio's rows are in the axes of the links.
        turn, at = np.zeros(A[i].shape), 0
        for one in tree.constraints:
            joint, placed = peer.placed(one.link)
            for start in range(at, at + one.rows, 3):
                place = slice(start, start + 3)
                turn[place, place] = (peer.data.oMi[joint] * placed).rotation
            at += one.rows
        close(A[i], turn @ own @ turn.T, 1e-10)


@pytest.mark.parametrize(("name", "floating", "given"), CONTACTS)
def test_impacts_are_pinocchios(name: str, floating: bool, given: list) -> None:
    tree = load_tree(name, floating, constraints=given)
    peer = Peer(tree, robot_path(name))
    x = rigid(random_states(tree, 3, np.random.default_rng(len(name))))
    x["active"][:] = 1.0
    x["restitution"][:] = x["restitution"][:, :1]
    after, impulses = evaluate_reference(tree, "impulse_dynamics", x)
    for i in range(3):
        expected = peer.impact(x, i)
        close(after[i], expected[0], 1e-9)
        close(impulses[i], expected[1], 1e-9)
        J = jacobian(tree, x, i)
        share = x["restitution"][i, 0]
        close(J @ after[i], -share * (J @ x["qd"][i]), 1e-9)


@pytest.mark.parametrize("name", FEET)
def test_forces_that_carry_a_robot_have_least_norm(name: str) -> None:
    tree = load_tree(name, True, constraints=FEET[name])
    x = rigid(random_states(tree, 3, np.random.default_rng(9)))
    x["active"][:, 1:] = 1.0
    tau, forces = evaluate_reference(tree, "constrained_inverse_dynamics", x)
    (total,) = evaluate_reference(tree, "inverse_dynamics", x)
    rows = [one.rows for one in tree.constraints]
    for i in range(3):
        here, *_ = rows_at(tree, {key: value[i : i + 1] for key, value in x.items()})
        J = np.array(turned_rows(here))[:, :, 0] * np.repeat(x["active"][i], rows)[:, None]
        root = np.repeat(x["weights"][i], rows) ** 0.5
        expected = np.linalg.pinv((J[:, :6] / root[:, None]).T) @ total[i, :6] / root
        close(forces[i], expected, 1e-9)
        close(tau[i], total[i] - J.T @ expected, 1e-9)
        close(tau[i, :6], np.zeros(6), 1e-9)


def test_forward_dynamics_answers_inverse_dynamics() -> None:
    """Of accelerations that the constraints allow; a robot on a fixed base needs no forces."""
    tree = load_tree("solo12", True, constraints=FEET["solo12"])
    x = rigid(random_states(tree, 2, np.random.default_rng(10)))
    x["active"][:] = 1.0
    x["qdd"], _ = evaluate_reference(tree, "constrained_forward_dynamics", x)
    x["tau"], _ = evaluate_reference(tree, "constrained_inverse_dynamics", x)
    qdd, _ = evaluate_reference(tree, "constrained_forward_dynamics", x)
    close(qdd, x["qdd"], 1e-8)
    tree = load_tree("arm6", constraints=CONSTRAINTS["arm6"])
    x = random_states(tree, 2, np.random.default_rng(10))
    tau, forces = evaluate_reference(tree, "constrained_inverse_dynamics", x)
    (expected,) = evaluate_reference(tree, "inverse_dynamics", x)
    close(tau, expected, 1e-13)
    assert not forces.any()


@pytest.mark.parametrize(
    "function",
    [
        *("constrained_forward_dynamics", "constrained_inverse_dynamics"),
        *("impulse_dynamics", "delassus"),
    ],
)
@pytest.mark.parametrize(("name", "kind"), [("arm6", "vjp"), ("gripper", "jvp"), ("arm6", "jvp")])
def test_products_with_derivatives_are_those_of_complex_steps(
    name: str, function: str, kind: str
) -> None:
    """The program of a product, by all its inputs, and the reference steps through the function."""
    tree = load_tree(name, constraints=CONSTRAINTS[name])
    inputs = computation_of(tree, function).inputs
    check_product(tree, function, kind, [n for n in inputs if n not in ("active", "gravity")])


def check_product(tree: KinematicTree, function: str, kind: str, wrt: Sequence[str]) -> None:
    """Compare the program of a product with the reference."""
    key = computation_of(tree, function).key.product(kind, tuple(wrt))
    kernel = computation_of(tree, key).kernel(tree)
    rng = np.random.default_rng(4)
    x = random_states(tree, 3, rng) | random_changes([kernel], 3, rng)
    x["active"][:] = 1.0
    found = run(plan_lines(tree, key), {n: list(x[n].reshape(3, -1).T) for n in kernel.inputs})
    for result, expected in zip(found.values(), evaluate_reference(tree, key, x), strict=True):
        numbers = np.stack([np.broadcast_to(entry, 3) for entry in result], axis=1)
        close(numbers.reshape(expected.shape), expected, 1e-9)


LOOPS = [
    ("talos_reduced", True, "point", "arm_left_7_link", "arm_right_7_link"),
    ("talos_reduced", False, "frame", "arm_left_7_link", "leg_right_6_link"),
    ("allegro_left_hand", False, "point", "link_3.0", "link_7.0"),
    ("solo12", True, "frame", "FL_FOOT", "HR_FOOT"),
]


@pytest.mark.parametrize(("name", "floating", "kind", "link", "to"), LOOPS)
def test_loops_are_pinocchios_where_they_are_closed(
    name: str, floating: bool, kind: str, link: str, to: str
) -> None:
    rng = np.random.default_rng(len(name))
    entry = {"kind": kind, "link": link, "to": to, "offset": [0.05, 0.02, 0.1]}
    open_tree = load_tree(name, floating, constraints=[entry])
    x = rigid(random_states(open_tree, 1, rng))
    x["active"][:] = 1.0
    # Where the frame is held at the random state is where it is there.
    peer = Peer(open_tree, robot_path(name))
    pinocchio.forwardKinematics(peer.model, peer.data, x["q"][0])
    (first, second) = (
        peer.placed(getattr(open_tree.constraints[0], end)) for end in ("link", "to")
    )
    at = (peer.data.oMi[second[0]] * second[1]).actInv(peer.data.oMi[first[0]] * first[1])
    entry["to_offset"] = at.translation.tolist()
    entry["to_rpy"] = pinocchio.rpy.matrixToRpy(at.rotation).tolist()
    tree = load_tree(name, floating, constraints=[entry])
    keep_still(tree, x, 0)
    qdd, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    peer = Peer(tree, robot_path(name))
    expected = peer.dynamics(x, 0)
    close(qdd[0], expected[0], 1e-8)
    close(forces[0], expected[1], 1e-8)
    # Changes of the state that leave the loop closed: J dq = 0 and J dqd + dJ qd = 0.
    own, other = evaluate_reference(tree, GRADIENT, x), peer.gradients(x, 0)
    moved = [tangent_steps(tree, x["q"], j) for j in range(tree.nv)]
    turning = [np.array(turned_rows(rows_at(tree, x, q)[0]))[:, :, 0].imag for q in moved]
    bend = np.stack([rows @ x["qd"][0] for rows in turning], axis=1) / COMPLEX_STEP
    J = np.array(turned_rows(rows_at(tree, x)[0]))[:, :, 0]
    both = np.block([[J, np.zeros_like(J)], [bend, J]])
    _, sizes, directions = np.linalg.svd(both)
    free = directions[np.sum(sizes > 1e-9 * sizes[0]) :].T
    found, theirs = np.hstack((own[0][0], own[1][0])) @ free, np.hstack(other[:2]) @ free
    close(own[2][0], other[2], 1e-7)
    if name == "allegro_left_hand":  # their gradient is not that of their accelerations
        steps = 1e-7 * np.vstack((free.T, -free.T))
        many = {key: np.repeat(value, len(steps), axis=0) for key, value in x.items()}
        many["q"] += steps[:, : tree.nv]
        many["qd"] += steps[:, tree.nv :]
        every = np.array([peer.dynamics(many, i)[0] for i in range(len(steps))])
        ahead, behind = np.split(every, 2)
        theirs = (ahead - behind).T / 2e-7
    close(found, theirs, 1e-7)


def jacobian(tree: KinematicTree, x: dict[str, np.ndarray], i: int) -> np.ndarray:
    """Return the Jacobian of all constraints in one state."""
    here, *_ = rows_at(tree, {name: value[i : i + 1] for name, value in x.items()})
    return np.array([[float(np.squeeze(entry)) for entry in row] for row in here.rows])


def keep_still(tree: KinematicTree, x: dict[str, np.ndarray], i: int, rcond: float = 1e-15) -> None:
    """Remove from the velocities of a state those that move what active constraints hold."""
    rows = [one.rows for one in tree.constraints]
    J = jacobian(tree, x, i)[np.repeat(x["active"][i] > 0, rows)]
    x["qd"][i] -= np.linalg.pinv(J, rcond=rcond) @ J @ x["qd"][i]


def rows_at(tree: KinematicTree, x: dict[str, np.ndarray], q: Any = None) -> tuple[Any, State]:
    """Return the constraints of a state, and the state."""
    read = {name: value for name, value in x.items() if name != "offset"}  # of poses
    columns = {name: list(np.moveaxis(np.atleast_2d(v), 0, -1)) for name, v in read.items()}
    if q is not None:
        columns["q"] = list(q.T)
    names = ("active", "stabilization", "compliance", "proximal")
    given = {name: [*x[name].reshape(len(x[name]), -1).T] for name in names}
    state = State.of(tree, FloatScalars(), {**columns, **given}, given)
    return Constraints(state), state


MIXED = [
    (
        "gripper",
        False,
        [
            {"kind": "frame", "link": "left_pad", "to": "right_pad"},
            {"kind": "joint", "joint": "wrist_roll", "to": "right_slide", "multiplier": 0.3},
            {"kind": "joint", "joint": "thumb_base", "offset": 0.2},
        ],
    ),
    ("gripper", False, [{"kind": "point", "link": "right_pad", "to_offset": [0.1, 0.2, 0.3]}]),
    ("talos_reduced", True, [{"kind": "frame", "link": "arm_left_7_link", "to": "head_2_link"}]),
    ("quadruped", True, [{"kind": "frame", "link": "RL_foot", "to_offset": [0.0, 0.0, 0.3]}]),
]


@pytest.mark.parametrize(("name", "floating", "given"), MIXED)
def test_positions_velocities_and_accelerations_are_derivatives_of_each_other(
    name: str, floating: bool, given: list
) -> None:
    """Away from what the constraints want: mimic joints, sliders, loops that stand open."""
    tree = load_tree(
        name, floating, constraints=[{"name": str(i), **g} for i, g in enumerate(given)]
    )
    x = rigid(random_states(tree, 3, np.random.default_rng(3)))
    steps = [tangent_steps(tree, x["q"], velocity) for velocity in range(tree.nv)]
    moved = x["q"] + sum(1j * np.imag(step) * x["qd"][:, [k]] for k, step in enumerate(steps))
    here, state = rows_at(tree, x)
    there, _ = rows_at(tree, x, moved)
    drift = here.rest(all_motions(state))
    rates = [held_rates(held, state.qd) for held in here.held]
    later = [held_rates(held, state.qd) for held in there.held]
    x["active"][:] = 1.0
    qdd, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    (M,), (h,) = (evaluate_reference(tree, f, x) for f in ("mass_matrix", "bias_forces"))
    J = np.array(turned_rows(here)).transpose(2, 0, 1)
    lost = np.einsum("bij,bj->bi", M, qdd) + h - x["tau"]
    # Constraints that contradict each other have forces of 1e8 N, which cancel.
    rounding = max(1e-9, 1e-16 * np.abs(forces).max())
    close(lost - np.einsum("bri,br->bi", J, forces), np.zeros_like(lost), rounding)
    g = np.array(here.turned(drift)).T
    g += np.einsum("bri,bi->br", J, qdd)
    # What remains is what no motion can fulfill, in units of the proximal terms.
    (A,) = evaluate_reference(tree, "delassus", x)
    same = np.equal.outer(turning_rows(tree), turning_rows(tree))
    mu = np.einsum("brr,rs->bs", A, same / same.sum(axis=0))
    rest = np.einsum("brs,bs->br", A, g / mu * mu.min())
    assert_allclose(rest, 0.0, atol=1e-12 * np.abs(A).max() * max(1e3, np.abs(forces).max()))
    start = 0
    for now, then, rate, change in zip(here.held, there.held, rates, later, strict=True):
        # Seen from ``to``, whose axes turn: what is computed in other axes is turned first.
        slope = np.imag(np.array(then.turned(change))) / 1e-30
        g = now.turned(drift[start : start + len(rate)])
        start += len(rate)
        assert_allclose(slope, np.array(g), atol=1e-10)
        if now.constraint.has_target:
            errors = np.array(then.turned(there.errors(then)))[:3]
            assert_allclose(np.imag(errors) / 1e-30, np.array(now.turned(rate))[:3], atol=1e-10)


@pytest.mark.parametrize(("name", "floating", "given"), MIXED[-2:])
def test_accelerations_pull_back_and_give_way(name: str, floating: bool, given: list) -> None:
    """J qdd + dJ/dt qd + kd J qd + kp (c - target) + R f = 0."""
    tree = load_tree(name, floating, constraints=given)
    x = random_states(tree, 3, np.random.default_rng(6))
    x["active"][:], x["proximal"][:] = 1.0, PROXIMAL["float64"]
    x["stabilization"] += 10.0
    here, state = rows_at(tree, x)
    motions, root = all_motions(state), base_motion(state)
    qdd, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    J = np.array(turned_rows(here)).transpose(2, 0, 1)
    (held,) = here.held
    rates = held_rates(held, state.qd)
    parts = here._drift(held, rates, motions, root), rates, here.errors(held)
    drift, rate, error = (np.array(here.turned(part)).T for part in parts)
    kp, kd = x["stabilization"][:, 0].T[:, :, None]
    rest = np.einsum("bri,bi->br", J, qdd) + drift + kd * rate + kp * error
    close(rest + x["compliance"] * forces, np.zeros_like(rest), 1e-7)
    assert np.abs(x["compliance"] * forces).max() > 1e-5


def turned_rows(here: Constraints) -> list[list[Any]]:
    """Return the rows of the Jacobian in the axes of ``to``."""
    columns = [here.turned(column) for column in zip(*here.rows, strict=True)]
    shape = np.shape(here.state.q[0])
    return [[np.broadcast_to(e, shape) for e in row] for row in zip(*columns, strict=True)]


def held_rates(held: Any, qd: Any) -> list[Any]:
    return [sum(a * b for a, b in zip(row, qd, strict=True)) for row in held.rows]


def test_a_turn_has_the_sine_of_its_angle_as_error() -> None:
    given = [{"kind": "frame", "link": "hand", "to_rpy": [0.0, 0.0, 0.4]}]
    tree = load_tree(
        '<robot name="r"><link name="base"/><link name="hand"><inertial><mass value="1"/>'
        '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>'
        '<joint name="j" type="continuous"><parent link="base"/><child link="hand"/>'
        '<axis xyz="0 0 1"/></joint></robot>',
        constraints=given,
    )
    x = random_states(tree, 1, np.random.default_rng(0))
    here, *_ = rows_at(tree, x)
    error = here.errors(here.held[0])
    assert_allclose(np.squeeze(error[5]), np.sin(x["q"][0, 0] - 0.4), atol=1e-14)


@pytest.mark.parametrize("name", ["solo12", "gripper"])
def test_redundant_constraints_have_forces_of_least_norm(name: str) -> None:
    link = {"solo12": "FL_FOOT", "gripper": "right_pad"}[name]
    corners = [(a, b, 0.0) for a in (-0.1, 0.1) for b in (-0.05, 0.05)]
    given = [
        {"kind": "point", "link": link, "offset": corner, "name": str(i)}
        for i, corner in enumerate(corners)
    ]
    tree = load_tree(name, name == "solo12", constraints=given)
    x = rigid(random_states(tree, 3, np.random.default_rng(5)))
    x["active"][:] = 1.0
    for i in range(3):  # points of one body, held at other velocities, would contradict each other
        keep_still(tree, x, i, 1e-9)
    qdd, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    (A,) = evaluate_reference(tree, "delassus", x)
    (free,) = evaluate_reference(tree, "forward_dynamics_crba", x)
    (M,) = evaluate_reference(tree, "mass_matrix", x)
    for i in range(3):
        assert np.linalg.matrix_rank(A[i], 1e-9) <= 6
        part = np.linalg.pinv(A[i], rcond=1e-9, hermitian=True) @ A[i] @ forces[i]
        close(forces[i], part, 1e-6)
        # What the forces do is what they are to do.
        one = {key: value[i : i + 1] for key, value in x.items()}
        here, state = rows_at(tree, one)
        J = jacobian(tree, x, i)
        g = np.squeeze(np.array(here.rest(all_motions(state))))
        close(J @ qdd[i] + g, np.zeros(len(g)), 1e-9)
        assert np.abs(M[i] @ (qdd[i] - free[i])).max() > 1e-3


def test_forces_and_moments_have_proximal_terms_of_their_own() -> None:
    """A mean over both would hide forces: entries of moments are larger by orders of magnitude."""
    tree = load_tree("humanoid", True, constraints=CONSTRAINTS["humanoid"])
    x = rigid(random_states(tree, 20, np.random.default_rng(2)))
    x["active"][:] = 1.0
    _, expected = evaluate_reference(tree, "constrained_forward_dynamics", x)
    x["proximal"][:] = PROXIMAL["float32"]
    _, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    off = np.abs(forces - expected).max(axis=1) / np.abs(expected).max(axis=1)
    assert np.median(off) < 1e-4


def test_what_is_not_active_has_no_force() -> None:
    tree = load_tree("solo12", True, constraints=FEET["solo12"])
    x = rigid(random_states(tree, 2, np.random.default_rng(1)))
    x["active"][:] = 0.0
    qdd, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    (free,) = evaluate_reference(tree, "forward_dynamics_crba", x)
    assert not forces.any()
    close(qdd, free, 1e-13)


#: A link that turns about a skew axis, with a tip on the axis, and one that slides.
SKEW = """<robot name="skew">
  <link name="base"/><link name="tip"/>
  <link name="arm"><inertial><mass value="2"/><origin xyz="0.1 0.2 0.3"/>
    <inertia ixx="0.1" iyy="0.2" izz="0.15" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="slide"><inertial><mass value="1"/><origin xyz="0 0.2 0"/>
    <inertia ixx="0.1" iyy="0.2" izz="0.15" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="turn" type="revolute"><parent link="base"/><child link="arm"/>
    <axis xyz="0.3 0.7 -0.2"/><origin rpy="0.3 0.4 0.5" xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="end" type="fixed"><parent link="arm"/><child link="tip"/>
    <origin xyz="0.51 1.19 -0.34"/></joint>
  <joint name="push" type="prismatic"><parent link="base"/><child link="slide"/>
    <axis xyz="0.3 0.5 1"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>"""


@pytest.mark.parametrize(
    ("name", "link", "still"),
    [(SKEW, "tip", slice(3)), (SKEW, "slide", slice(3, 6)), ("xarm7", "link1", slice(3))],
)
def test_rows_that_no_joint_moves_have_no_force(name: str, link: str, still: slice) -> None:
    tree = load_tree(name, constraints=[{"kind": "frame", "link": link}])
    x = rigid(random_states(tree, 3, np.random.default_rng(1)))
    x["active"][:] = 1.0
    qdd, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    peer = Peer(tree, name if name == SKEW else robot_path(name))
    for i in range(3):
        expected, theirs = peer.dynamics(x, i)
        close(qdd[i], expected, 1e-7)
        close(forces[i], theirs, 1e-3)
    assert not forces[:, still].any()
    for gradient in evaluate_reference(tree, GRADIENT, x):
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() < 1e5
    # Without a proximal term, nothing but the rows that hold is regular.
    x["active"][:], x["proximal"][:] = 0.0, 0.0
    qdd, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    (free,) = evaluate_reference(tree, "forward_dynamics_crba", x)
    close(qdd, free, 1e-13)
    assert not forces.any()


def test_a_point_on_the_axis_of_its_joint_is_refused_by_name() -> None:
    robot = gridgen.load(SKEW, constraints=[{"kind": "point", "link": "tip"}], backend="cpu")
    with pytest.raises(ModelError, match='constraint "tip" holds what does not move'):
        robot.constrained_forward_dynamics(*np.zeros((3, 1, 2)))


def test_a_point_that_an_offset_puts_on_an_axis_has_no_force() -> None:
    given = [{"kind": "point", "link": "arm", "offset": [0.5, 0.0, 0.0]}]
    tree = load_tree(SKEW, constraints=given, parameters="offsets")
    x = rigid(random_states(tree, 3, np.random.default_rng(1)))
    x["active"][:], x["offsets"][:] = 1.0, np.eye(4)
    qdd, forces = evaluate_reference(tree, "constrained_forward_dynamics", x)
    (free,) = evaluate_reference(tree, "forward_dynamics_crba", x)
    close(qdd, free, 1e-9)
    assert np.abs(forces).max() < 1e-2


def test_joints_do_not_carry_a_robot() -> None:
    """No force of a joint's constraint acts on a free joint."""
    held = [{"kind": "joint", "joint": "FL_KFE"}]
    tree = load_tree("solo12", True, constraints=held)
    x = random_states(tree, 2, np.random.default_rng(1))
    x["proximal"][:] = 0.0
    tau, forces = evaluate_reference(tree, "constrained_inverse_dynamics", x)
    (plain,) = evaluate_reference(tree, "inverse_dynamics", x)
    close(tau, plain, 1e-12)
    assert not forces.any()


RANGES = [
    ("constrained_forward_dynamics", "compliance", -1.0, "finite numbers, 0 or more"),
    ("constrained_forward_dynamics", "proximal", np.nan, "finite numbers, 0 or more"),
    ("constrained_forward_dynamics", "stabilization", np.inf, "finite numbers, 0 or more"),
    ("impulse_dynamics", "restitution", 1.5, "numbers from 0 to 1"),
    ("constrained_inverse_dynamics", "weights", 0.0, "positive finite numbers"),
]


@pytest.mark.parametrize(("function", "name", "value", "message"), RANGES)
def test_numbers_out_of_range_are_refused_in_every_call(
    function: str, name: str, value: float, message: str
) -> None:
    """Calls that are cached after a valid one, too."""
    constraints = [{"kind": "joint", "joint": "elbow"}]
    robot = gridgen.load(robot_path("two_link"), constraints=constraints, backend="cpu")
    states = np.zeros((2 if function == "impulse_dynamics" else 3, 2, 2))
    good = np.ones((1, 2) if name == "stabilization" else 1)
    for _ in range(2):
        getattr(robot, function)(*states, **{name: good})
        with pytest.raises(ParameterError, match=f"{name} has {value}; give {message}"):
            getattr(robot, function)(*states, **{name: value * good})


def test_compiled_code_keeps_to_the_reference() -> None:
    given = [{**foot, "stabilization": [0.0, 5.0]} for foot in FEET["solo12"]]
    robot = gridgen.load(robot_path("solo12"), floating_base=True, constraints=given, backend="cpu")
    tree = load_tree("solo12", True, constraints=given)
    states = random_states(tree, 5, np.random.default_rng(2))
    for dtype in ("float64", "float32"):
        x = {name: value.astype(dtype) for name, value in states.items()}
        q, qd, tau = x["q"], x["qd"], x["tau"]
        names = ("active", "stabilization", "compliance", "proximal")
        results = robot.constrained_forward_dynamics(q, qd, tau, **{n: x[n] for n in names})
        exact = {name: value.astype(float) for name, value in x.items()}
        function = "constrained_forward_dynamics"
        assert compare_function(tree, function, dtype, exact, results).passed
        own = robot.constrained_forward_dynamics(q, qd, tau, active=x["active"] > 0)
        for name in names[1:]:
            exact[name] = np.broadcast_to(robot.parameters(name), exact[name].shape)
        exact["proximal"] = np.full_like(exact["proximal"], PROXIMAL[dtype])
        assert compare_function(tree, function, dtype, exact, own).passed
    with pytest.raises(ParameterError, match=r"active has 0\.5; give 1 for a constraint"):
        robot.constrained_forward_dynamics(q, qd, tau, active=[1, 0.5, 0, 0])
    with pytest.raises(ParameterError, match=r"active has 2\.0; give 1 for a constraint"):
        robot.constrained_forward_dynamics(q, qd, tau, active=np.full(4, 2.0, np.float32))
    with pytest.raises(ModelError, match="the robot has no constraints: load it with"):
        gridgen.load(robot_path("solo12")).delassus(q[:, :12])


@pytest.mark.parametrize(
    "constraint",
    [
        {"kind": "joint", "joint": "FL_HFE", "to": "FR_HFE"},
        {"kind": "point", "link": "FL_FOOT", "to": "FR_FOOT"},
        {"kind": "frame", "link": "base_link", "to": "HL_FOOT"},
    ],
)
def test_loops_hold_no_free_joint(constraint: dict[str, Any]) -> None:
    """Its force is none of theirs: a robot has all functions except that one."""
    name, held = "constrained_inverse_dynamics", {"kind": "point", "link": "HR_FOOT"}
    reason = refusal(load_tree("solo12", True, constraints=[constraint]), name)
    assert 'no constraint holds the free joint "root_joint", which has no motor' in str(reason)
    assert refusal(load_tree("solo12", True, constraints=[constraint, held]), name) is None
    assert refusal(load_tree("solo12", False, constraints=[constraint]), name) is None


def test_a_program_that_is_too_long_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MAX_WITHOUT_LOOPS", 500)
    robot = gridgen.load(robot_path("arm6"), constraints=CONSTRAINTS["arm6"])
    with pytest.raises(
        ModelError,
        match=r"none with loops over bodies: lock joints, or load .* fewer constraints$",
    ):
        robot.delassus(np.zeros((1, 6)))


REFUSED = [
    ({"kind": "plane"}, "kind 'plane': choose one of point, frame, joint"),
    ({"kind": "point", "link": "FL_FOO"}, 'link "FL_FOO": no link; did you mean'),
    ({"kind": "point"}, "link None: give the name of a link"),
    ({"kind": "point", "link": "base_link"}, '"base_link", which is fixed to the base'),
    ({"kind": "frame", "link": "FL_FOOT", "to": "FL_LOWER_LEG"}, "which do not move apart"),
    ({"kind": "point", "link": "FL_FOOT", "rpy": [0, 0, 0]}, '"rpy": a point has active, comp'),
    ({"kind": "point", "link": "FL_FOOT", "offset": [0, 0]}, "offset [0, 0]; give 3 numbers"),
    ({"kind": "point", "link": "FL_FOOT", "compliance": -1}, "give a number, 0 or more"),
    ({"kind": "point", "link": "FL_FOOT", "compliance": np.nan}, "give a number, 0 or more"),
    ({"kind": "point", "link": "FL_FOOT", "stabilization": [1, 1]}, "no target in the world"),
    ({"kind": "joint", "joint": "FL_HFE", "to": "FL_HFE"}, "which move as one: name two joints"),
    ({"kind": "joint", "joint": "FL_HF"}, 'joint "FL_HF": no joint with one velocity'),
    ("feet", "constraints: feet is no file of .json, .yaml, .yml"),
    (3, "constraints is 3; give a list of dictionaries"),
]


@pytest.mark.parametrize(("entry", "message"), REFUSED)
def test_what_constrains_nothing_is_refused_by_name(
    entry: Any, message: str, tmp_path: Path
) -> None:
    given = [entry] if isinstance(entry, dict) else entry
    if isinstance(given, str):
        given = tmp_path / given
        given.write_text("[]")
        message = message.replace("feet", str(given))
    with pytest.raises(OptionError) as error:
        load_tree("solo12", constraints=given)
    assert message in str(error.value)


def test_files_say_what_dictionaries_say(tmp_path: Path) -> None:
    given = [FEET["solo12"][0], {"kind": "joint", "joint": "FR_HFE", "to": "FR_KFE", "offset": 0.1}]
    (tmp_path / "held.json").write_text(json.dumps(given))
    read = load_tree("solo12", constraints=tmp_path / "held.json")
    assert read.constraints == load_tree("solo12", constraints=given).constraints
    (tmp_path / "held.json").write_text("[{]")
    with pytest.raises(OptionError, match=r"constraints: .*held\.json: Expecting property name"):
        load_tree("solo12", constraints=tmp_path / "held.json")


@needs("yaml")
def test_files_may_be_yaml(tmp_path: Path) -> None:
    (tmp_path / "held.yml").write_text(
        "- {kind: point, link: FL_FOOT}\n- kind: joint\n  joint: FR_HFE"
    )
    read = load_tree("solo12", constraints=str(tmp_path / "held.yml"))
    assert [one.name for one in read.constraints] == ["FL_FOOT", "FR_HFE"]
    (tmp_path / "held.yml").write_text("- {")
    with pytest.raises(OptionError, match=r"constraints: .*held\.yml: "):
        load_tree("solo12", constraints=tmp_path / "held.yml")


def test_two_constraints_of_one_name_are_refused() -> None:
    with pytest.raises(OptionError, match='has "FL_FOOT" twice: give each constraint a "name"'):
        load_tree("solo12", constraints=[FEET["solo12"][0]] * 2)


STEPPED = [
    *MIXED[:2],
    pytest.param(*MIXED[2], marks=pytest.mark.exhaustive),
    MIXED[3],
    ("arm6", False, [{"kind": "frame", "link": "tool0", "to_rpy": [1, 2, 3]}]),
    ("quadruped", True, [{"kind": "point", "link": "FL_foot", "to": "FR_foot"}]),
]


@pytest.mark.parametrize(("name", "floating", "given"), STEPPED)
def test_gradients_are_those_of_complex_steps(name: str, floating: bool, given: list) -> None:
    """A compliance makes unique the forces of constraints that contradict each other."""
    tree = load_tree(name, floating, constraints=given)
    x = random_states(tree, 2, np.random.default_rng(11))
    x["active"][0], x["proximal"][:] = 1.0, PROXIMAL["float64"]
    x["stabilization"] += 5.0
    x["compliance"] += 0.1
    for matrix, expected in stepped(tree, x):
        close(matrix, expected, 1e-7)


def stepped(tree: KinematicTree, x: dict[str, np.ndarray]) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield each result of the gradient, and the same by complex steps."""
    found = evaluate_reference(tree, GRADIENT, x)
    steps = np.eye(tree.nv) * 1j * COMPLEX_STEP
    moved = {
        "q": [tangent_steps(tree, x["q"], j) for j in range(tree.nv)],
        "qd": [x["qd"] + step for step in steps],
        "tau": [x["tau"] + step for step in steps],
    }
    for place, (argument, states) in enumerate(moved.items()):
        results = [
            evaluate_reference(tree, "constrained_forward_dynamics", {**x, argument: one})
            for one in states
        ]
        for matrix, columns in zip(found[place::3], zip(*results, strict=True), strict=True):
            yield matrix, np.stack([np.imag(one) / COMPLEX_STEP for one in columns], axis=-1)


def test_gradients_of_redundant_constraints() -> None:
    """Those of accelerations, which are unique."""
    corners = [(a, b, 0.0) for a in (-0.1, 0.1) for b in (-0.05, 0.05)]
    given = [
        {"kind": "point", "link": "FL_FOOT", "offset": corner, "name": str(corner)}
        for corner in corners
    ]
    tree = load_tree("solo12", True, constraints=given)
    x = rigid(random_states(tree, 1, np.random.default_rng(13)))
    x["active"][:] = 1.0
    keep_still(tree, x, 0, 1e-9)
    for matrix, expected in stepped(tree, x):
        if matrix.shape[1] == tree.nv:
            close(matrix, expected, 1e-6)


@pytest.mark.parametrize(("name", "floating", "given"), CONTACTS)
def test_gradients_are_pinocchios(name: str, floating: bool, given: list) -> None:
    tree = load_tree(name, floating, constraints=given)
    peer = Peer(tree, robot_path(name))
    x = rigid(random_states(tree, 2, np.random.default_rng(12)))
    x["active"][0] = 1.0
    rows = [one.rows for one in tree.constraints]
    for i in range(2):
        keep_still(tree, x, i)
    found = evaluate_reference(tree, GRADIENT, x)
    for i in range(2):
        expected = peer.gradients(x, i)
        holds = np.repeat(x["active"][i], rows) > 0
        for place, (own, other) in enumerate(zip(found, expected, strict=True)):
            if place > 2:
                assert not own[i][~holds].any()
            if holds.any() or place < 3:
                close(own[i][holds] if place > 2 else own[i], other, 1e-7)


def placed_at(tree: KinematicTree, offsets: np.ndarray) -> KinematicTree:
    """Return a robot whose constraints are where some offsets place them in their links."""
    constraints = []
    for one, pose in zip(tree.constraints, offsets, strict=True):
        link = tree.frame_of[one.link.name]
        R, p = np.array(link.rotation), np.array(link.translation)
        turn, at = R @ pose[:3, :3], p + R @ pose[:3, 3]
        end = replace(one.link, rotation=matrix3(turn.flat), translation=vector3(at))
        constraints.append(replace(one, link=end))
    others = {name: own for name, own in tree.parameters.items() if name != "offsets"}
    return replace(tree, constraints=tuple(constraints), parameters=others)


@pytest.mark.parametrize(("name", "floating", "given"), CONTACTS)
def test_offsets_in_a_call_are_pinocchios_placements(
    name: str, floating: bool, given: list
) -> None:
    tree = load_tree(name, floating, constraints=given, parameters="offsets")
    x = rigid(random_states(tree, 3, np.random.default_rng(len(name))))
    x["active"][:] = 1.0
    x["restitution"][:] = x["restitution"][:, :1]
    every = [placed_at(tree, offsets) for offsets in x["offsets"]]
    for i, here in enumerate(every):
        keep_still(here, x, i)
    impact = evaluate_reference(tree, "impulse_dynamics", x)
    gradients = evaluate_reference(tree, GRADIENT, x)
    dynamics = evaluate_reference(tree, "constrained_forward_dynamics", x)
    (A,) = evaluate_reference(tree, "delassus", x)
    for i, here in enumerate(every):
        peer = Peer(here, robot_path(name))
        for found, expected in (
            *zip(dynamics, peer.dynamics(x, i), strict=True),
            *zip(impact, peer.impact(x, i), strict=True),
        ):
            close(found[i], expected, 1e-9)
        for found, expected in zip(gradients, peer.gradients(x, i), strict=True):
            close(found[i], expected, 1e-7)
        (expected,) = evaluate_reference(here, "delassus", {"q": x["q"][i : i + 1]})
        close(A[i], expected[0], 1e-12)


def test_soft_constraints_are_at_their_offsets() -> None:
    given = [{"kind": "frame", "link": "FL_foot", "to_offset": [0.0, 0.0, 0.3]}]
    ground = [{"link": "RR_foot", "radius": 0.3}]
    options: dict[str, Any] = {"constraints": given, "ground": ground, "parameters": "offsets"}
    tree = load_tree("quadruped", True, **options)
    x = random_states(tree, 2, np.random.default_rng(0))
    x["active"][:] = 1.0
    (found,) = evaluate_reference(tree, "contact_forward_dynamics", x)[:1]
    for i in range(2):
        one = {name: value[i : i + 1] for name, value in x.items()}
        here = placed_at(tree, x["offsets"][i])
        close(found[i], evaluate_reference(here, "contact_forward_dynamics", one)[0][0], 1e-9)


def test_offsets_default_to_the_places_of_the_options() -> None:
    given = FEET["talos_reduced"]
    tree = load_tree("talos_reduced", True, constraints=given, parameters=["offsets", "armature"])
    plain = load_tree("talos_reduced", True, constraints=given)
    x = rigid(random_states(tree, 2, np.random.default_rng(1)))
    del x["offsets"]
    for function in ("constrained_forward_dynamics", "constrained_inverse_dynamics"):
        x["armature"] = np.zeros((2, tree.nv))
        results = (evaluate_reference(one, function, x) for one in (tree, plain))
        for own, expected in zip(*results, strict=True):
            close(own, expected, 1e-11)


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("arm6", "constrained_forward_dynamics"),
        *exhaustive_cases(("humanoid", "impulse_dynamics"), ("arm6", "step_semi_implicit")),
    ],
)
def test_products_by_offsets_are_those_of_complex_steps(
    name: str, function: str, kind: str
) -> None:
    tree = load_tree(name, constraints=CONSTRAINTS[name], parameters="offsets")
    check_product(tree, function, kind, ("q", "offsets"))


def test_compiled_code_reads_offsets() -> None:
    """One call for tools of different lengths; poses, names and robots are validated."""
    given = CONSTRAINTS["arm6"]
    robot = gridgen.load(robot_path("arm6"), constraints=given, parameters="offsets")
    tree = load_tree("arm6", constraints=given, parameters="offsets")
    x = random_states(tree, 3, np.random.default_rng(2))
    x["active"][:] = 1.0
    (expected,) = evaluate_reference(tree, "delassus", x)
    assert_allclose(robot.delassus(x["q"], offsets=x["offsets"]), expected, rtol=1e-9)
    default = robot.parameters("offsets")
    assert_allclose(default, np.eye(4)[None])
    assert_allclose(robot.delassus(x["q"]), robot.delassus(x["q"], offsets=default))
    with pytest.raises(ParameterError, match=r"offsets is no pose: give a homogeneous"):
        robot.delassus(x["q"], offsets=2.0 * default)
    with pytest.raises(ParameterError, match=r"offsets\[1\] is no pose"):
        robot.delassus(x["q"], offsets=x["offsets"] * np.array([1, -1, 1])[:, None, None, None])
    plain = gridgen.load(robot_path("arm6"), constraints=given)
    with pytest.raises(OptionError, match="has offsets as constants: load it with offsets in par"):
        plain.delassus(x["q"], offsets=default)
    with pytest.raises(OptionError, match="parameters has offsets, and no constraint holds a link"):
        load_tree("arm6", parameters="offsets")


@pytest.mark.exhaustive
def test_rollouts_and_their_derivatives_read_offsets() -> None:
    robot = gridgen.load(
        robot_path("arm6"), constraints=CONSTRAINTS["arm6"], parameters="offsets", backend="cpu"
    )
    tree = load_tree("arm6", constraints=CONSTRAINTS["arm6"], parameters="offsets")
    x = random_states(tree, 2, np.random.default_rng(2))
    q, qd, dt, tau = x["q"], x["qd"], 1e-3, np.stack([x["tau"]] * 3, axis=1)
    offsets = x["offsets"]
    path, rates = robot.rollout(q, qd, tau, dt, offsets=offsets)
    for k in range(3):
        found = robot.step(path[:, k], rates[:, k], tau[:, k], dt, offsets=offsets)
        assert_allclose(found[0], path[:, k + 1], rtol=0.0, atol=1e-15)
    rng = np.random.default_rng(5)
    bars, change = rng.normal(size=(2, *path.shape)), rng.normal(size=offsets.shape)
    change[..., :3, :3] = change[..., 3, :] = 0.0
    by = robot.rollout_vjp(q, qd, tau, dt, tuple(bars), offsets=offsets, wrt=("offsets",))
    step = 1e-6
    ahead, behind = (
        robot.rollout(q, qd, tau, dt, offsets=offsets + sign * step * change)
        for sign in (1.0, -1.0)
    )
    slope = sum(
        ((a - b) * bar).sum(axis=(1, 2)) for a, b, bar in zip(ahead, behind, bars, strict=True)
    ) / (2 * step)
    assert_allclose((by * change).sum(axis=(1, 2, 3)), slope, rtol=1e-6)
