"""MuJoCo's quantities of bodies for a batch: ``xpos``, ``cinert``, ``cvel``, ``cfrc_ext``."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridgen.batch import Array, Batch
from gridgen.errors import OptionError
from gridgen.model.readers.mujoco_fields import joints_of

#: Sensors of a body, at its center of mass, in the order of their numbers.
_KINDS = (
    *("framepos", "framequat", "framelinvel", "frameangvel", "framelinacc", "frameangacc"),
    *("force", "torque"),
)
#: Places of a symmetric matrix in MuJoCo's order.
_ROWS, _COLUMNS = (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)


class Bodies:
    """MuJoCo's quantities of the bodies of a model of one tree, as of ``mj_rnePostConstraint``.

    Args:
        model: an ``MjModel``, whose bodies all move.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        names = [model.body(k).name or f"body{k}" for k in range(1, model.nbody)]
        self.sensors = [
            {"kind": kind, "link": name, "offset": tuple(ipos), "name": f"{name} {kind}"}
            for name, ipos in zip(names, model.body_ipos[1:], strict=True)
            for kind in _KINDS
        ]

        joints = model.jnt_type > 1  # of one position
        self._positions, self._velocities = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        kinds = zip(model.jnt_type.tolist(), model.jnt_dofadr.tolist(), strict=True)
        self._rotations = [k + 3 * (kind == 0) for kind, k in kinds if kind < 2]
        self._tendons = np.zeros((model.ntendon, model.njnt))
        for t in range(model.ntendon):
            if not (factors := joints_of(model, t)):
                raise OptionError(f"tendon {t} is not fixed; leave it out of the model")
            for joint, factor in factors.items():
                self._tendons[t, joint] = factor
        self._tendons = self._tendons[:, joints]

    def forward(self, batch: Batch, rows: Array | None) -> dict[str, Array]:
        """Return the quantities of the present states of simulations, (B, ...) by name."""
        q, qd, tau, options = batch.inputs(rows)
        return self._named(batch, q, qd, batch.robot.sensors(q, qd, tau, **options), options)

    def step(self, batch: Batch, rows: Array | None) -> dict[str, Array]:
        """Take a substep of simulations, and return the quantities of its last evaluation.

        MuJoCo has them from there: with RK4 this is the fourth stage, else the start.
        """
        if batch.integrator != "rk4":
            found = self.forward(batch, rows)
            batch.step(rows)
            return found
        robot, h = batch.robot, float(self.model.opt.timestep)
        q, qd, tau, options = batch.inputs(rows)
        at, rate, rates, slopes = q, qd, [qd], []
        for part in (0.5 * h, 0.5 * h, h):
            slopes.append(robot.contact_forward_dynamics(at, rate, tau, **options)[0])
            along = part * rates[-1]
            at, rate = robot.integrate(q, along), qd + part * slopes[-1]
            rates.append(self._of_paths(along, rate))
        # The last stage shares the solution of the contacts with the sensors.
        (slope, _), numbers = robot.compute(
            ("contact_forward_dynamics", "sensors"), at, rate, tau, **options
        )
        mean, slope = (
            h / 6.0 * (x[0] + 2.0 * (x[1] + x[2]) + x[3]) for x in (rates, [*slopes, slope])
        )
        moved = slice(None) if rows is None else rows
        batch.qpos[moved], batch.qvel[moved] = robot.integrate(q, mean), qd + slope
        batch.time[moved] += h
        return self._named(batch, at, rate, numbers, options)

    def _of_paths(self, along: Array, rate: Array) -> Array:
        """Return velocities with the rates of the joints' rotation vectors after a path."""
        rates = rate.copy()
        for k in self._rotations:
            u, w = along[:, k : k + 3], rate[:, k : k + 3]
            once, square = np.cross(u, w), np.square(u).sum(axis=1, keepdims=True)
            factor = 1 / 12 + square * (1 / 720 + square * (1 / 30240 + square / 1209600))
            rates[:, k : k + 3] += 0.5 * once + factor * np.cross(u, once)
        return rates

    def _named(
        self, batch: Batch, q: Array, qd: Array, numbers: Array, options: dict[str, Any]
    ) -> dict[str, Array]:
        tendons = {"ten_length": q[:, self._positions] @ self._tendons.T}
        tendons["ten_velocity"] = qd[:, self._velocities] @ self._tendons.T
        torques = batch.robot.actuator_torques(q, qd, **options)[:, 6:]
        found = self.quantities(numbers)
        forces = found.pop("cfrc_ext")  # the order is that of observations
        return found | {"qfrc_actuator": torques, "cfrc_ext": forces, **tendons}

    def quantities(self, numbers: Array) -> dict[str, Array]:
        """Return the quantities of all bodies but the world, (B, nbody - 1, ...), by name.

        Args:
            numbers: of ``sensors``, (B, n).

        Source: MuJoCo's documentation, chapter Computation; ``mj_comPos``, ``mj_comVel``,
        ``mj_rnePostConstraint``.
        """
        model, count = self.model, self.model.nbody - 1
        table = numbers.reshape(len(numbers), count, -1)
        x, quaternion, v, w, a, alpha, force, torque = np.split(
            table, np.cumsum((3, 4, 3, 3, 3, 3, 3)), axis=2
        )
        mass, R = model.body_mass[1:], _matrices(quaternion)
        com = (mass[:, None] * x).sum(axis=1, keepdims=True) / mass.sum()
        axes = R @ _matrices(model.body_iquat[1:])
        inertia = (axes * model.body_inertia[1:, None]) @ np.swapaxes(axes, 2, 3)
        arm = x - com
        square = np.square(arm).sum(axis=2)[..., None, None] * np.eye(3)
        about_com = inertia + mass[:, None, None] * (square - arm[..., None] * arm[..., None, :])
        rest = np.broadcast_to(mass[None, :, None], (*arm.shape[:2], 1))
        cinert = np.concatenate([about_com[..., _ROWS, _COLUMNS], mass[:, None] * arm, rest], 2)
        # What the joint above a body transmits, less what the joints below it do, and the contacts.
        momentum = np.einsum("bnij,bnj->bni", inertia, alpha)
        momentum += np.cross(w, np.einsum("bnij,bnj->bni", inertia, w))
        f = np.einsum("bnij,bnj->bni", R, force)
        moment = np.einsum("bnij,bnj->bni", R, torque) + np.cross(arm, f)
        outer = mass[:, None] * a - f
        outer_moment = momentum + np.cross(arm, mass[:, None] * a) - moment
        for child, parent in enumerate(model.body_parentid[1:] - 1):
            if parent >= 0:
                outer[:, parent] += f[:, child]
                outer_moment[:, parent] += moment[:, child]
        return {
            "xpos": x - np.einsum("bnij,nj->bni", R, model.body_ipos[1:]),
            "subtree_com": com[:, 0],
            "cinert": cinert,
            "cvel": np.concatenate([w, v - np.cross(w, arm)], axis=2),
            "cfrc_ext": np.concatenate([outer_moment, outer], axis=2),
        }


def _matrices(quaternions: Array) -> Array:
    """Return rotation matrices (..., 3, 3) of unit quaternions w x y z (..., 4)."""
    w, v = quaternions[..., :1, None], quaternions[..., 1:]
    x, y, z = np.moveaxis(v, -1, 0)
    none = np.zeros_like(x)
    cross = np.stack([none, -z, y, z, none, -x, -y, x, none], -1).reshape(*x.shape, 3, 3)
    turn: Array = np.eye(3) + 2.0 * (w * cross + cross @ cross)
    return turn
