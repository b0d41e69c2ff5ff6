"""Many simulations of one model, with the names of ``mujoco.batch``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from gridgen.compiler import load
from gridgen.errors import OptionError, ShapeError
from gridgen.model.readers.packages import library
from gridgen.naming import show, show_value, similar
from gridgen.robot import Robot
from gridgen.runtime.parameters import inertia

Array = NDArray[Any]
#: State fields, and the size of the model that each has.
_STATE = {"qpos": "nq", "qvel": "nv", "ctrl": "nu", "qfrc_applied": "nv"}
#: Words of ``parameters`` that each field of the model is an input by.
_FIELDS: Mapping[str, Sequence[str]] = {
    "actuator_gainprm": ("actuator_gains",),
    "actuator_biasprm": ("actuator_gains",),
    "actuator_gear": ("gear",),
    "dof_armature": ("armature",),
    "dof_damping": ("damping",),
    "dof_frictionloss": ("joint_friction",),
    "body_mass": ("params",),
    "body_ipos": ("params",),
    "body_inertia": ("params",),
    "opt.gravity": (),
}


class Batch:
    """``nsim`` simulations of a MuJoCo model; programs of ``mujoco.batch`` run on it.

    Arrays stay where they are: ``batch.qpos`` is a live (nsim, nq) array, and ``batch.step()``
    changes its numbers. Steps are MuJoCo's with a converged solver (docs/howto/from_mujoco.md).

    Args:
        model:   an ``MjModel``, or the path of an MJCF file.
        nsim:    number of simulations.
        nthread: for programs of ``mujoco.batch``; calls use the CPUs of the process, and results
                 do not depend on their number.
        dtype:   of the arrays, ``float64`` or ``float32``.
        options: as of ``load``; by default ``contact``, ``joint_dynamics`` and ``actuators`` are
                 True, and so are ``sensors`` of a model that has some.

    Attributes:
        model: the ``MjModel``.
        robot: the robot that computes, in MuJoCo's coordinates.
        integrator: that of the model, by gridgen's name.
        time:  of each simulation (nsim,) [s].
        qpos, qvel, ctrl, qfrc_applied: state and inputs, (nsim, nq), (nsim, nv), (nsim, nu) and
               (nsim, nv), in the order of the model.

    Raises:
        OptionError: the integrator of the model is one that gridgen does not have, or ``nsim`` is
            not positive.
        Also the errors of ``load``.
    """

    def __init__(
        self,
        model: Any,
        nsim: int,
        nthread: int = 0,
        *,
        dtype: DTypeLike = np.float64,
        **options: Any,
    ) -> None:
        mujoco = library("mujoco", "Batch", "a model is read by")
        if isinstance(model, (str, os.PathLike)):
            model = mujoco.MjModel.from_xml_path(os.fspath(model))
        if not isinstance(model, mujoco.MjModel):
            raise OptionError(f"model is {show_value(model)}; give an MjModel, or a file's path")
        if not isinstance(nsim, int) or nsim < 1:
            raise OptionError(f"nsim is {show_value(nsim)}; give a number of simulations")
        kind, disabled = mujoco.mjtIntegrator, mujoco.mjtDisableBit
        is_explicit = model.opt.disableflags & disabled.mjDSBL_EULERDAMP
        self.integrator = {
            int(kind.mjINT_EULER): "semi_implicit" if is_explicit else "implicit",
            int(kind.mjINT_IMPLICITFAST): "implicit",
            int(kind.mjINT_RK4): "rk4",
        }.get(int(model.opt.integrator), "")
        if not self.integrator:
            raise OptionError(
                f"the model's integrator is number {int(model.opt.integrator)}, which gridgen does "
                "not have; set Euler, implicitfast or RK4"
            )
        defaults = {"contact": True, "joint_dynamics": True, "actuators": True}
        defaults["sensors"] = model.nsensor > 0
        self.model, self.nsim, self.nthread = model, nsim, nthread
        begins = {int(mujoco.mjtJoint.mjJNT_FREE): 3, int(mujoco.mjtJoint.mjJNT_BALL): 0}
        self._quaternions = [
            slice(adr + begins[kind], adr + begins[kind] + 4)
            for kind, adr in zip(model.jnt_type.tolist(), model.jnt_qposadr.tolist(), strict=True)
            if kind in begins
        ]
        self._options = {**defaults, "convention": "mujoco", **options}
        self._mujoco, self._dtype = mujoco, np.dtype(dtype)
        self._expanded: dict[str, Array] = {}
        self._observed: dict[str, Array] = {}
        self._load()
        self.time = np.zeros(nsim, self._dtype)
        self._arrays = {
            name: np.zeros((nsim, getattr(model, size)), self._dtype)
            for name, size in _STATE.items()
        }
        self.reset()

    def _load(self) -> None:
        words = dict.fromkeys(w for name in self._expanded for w in _FIELDS[name])
        bodies = [self.model.body(k).name or f"body{k}" for k in self._bodies]
        parameters = [w for w in words if w != "params"] + bodies * ("params" in words)
        self.robot: Robot = load(self.model, **{**self._options, "parameters": parameters})
        numbered = {self.model.actuator(k).name or f"actuator{k}": k for k in range(self.model.nu)}
        self._driven = [numbered[name] for name in self.robot.actuator_names]

    @property
    def _bodies(self) -> list[int]:
        """The bodies that move."""
        fixed = self.model.body_weldid
        return [k for k in range(1, self.model.nbody) if fixed[k]]

    def __getattr__(self, name: str) -> Array:
        if name.startswith("_") or name not in (*_STATE, "sensordata"):
            raise AttributeError(f"Batch has no {show(name)}; bind() has {', '.join(_STATE)}")
        return self.bind(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _STATE:
            self._arrays[name][...] = value
        else:
            object.__setattr__(self, name, value)

    def bind(self, name: str) -> Array:
        """Return a live array: a state field, ``time``, or ``sensordata`` (nsim, n).

        ``sensordata`` has the numbers at the start of the last substep, as MuJoCo's. It is
        computed from the call on that binds it.

        Raises:
            OptionError: there is no such field.
        """
        if name == "time":
            return self.time
        if name in _STATE:
            return self._arrays[name]
        if name != "sensordata" or not self.robot.sensor_names:
            hint = "; the robot has no sensors" if name == "sensordata" else ""
            raise OptionError(
                f"no field {show_value(name)} to bind{hint}; there are time, sensordata, "
                f"{', '.join(_STATE)}, and functions of batch.robot for all others"
            )
        if name not in self._observed:
            size = max(one.stop for one in self.robot.sensor_slices.values())
            self._observed[name] = np.zeros((self.nsim, size), self._dtype)
        return self._observed[name]

    def expand(self, name: str) -> Array:
        """Give a field of the model values for each simulation; return them, (nsim, ...), live.

        Constants that MuJoCo derives, such as the weights of soft constraints, remain those of the
        model, as without ``set_const``. The robot is compiled anew.

        Args:
            name: ``actuator_gainprm``, ``actuator_biasprm`` (three terms act),
                  ``actuator_gear``, ``body_mass``, ``body_ipos``, ``body_inertia``,
                  ``opt.gravity``; without a floating base also ``dof_armature``, ``dof_damping``
                  and ``dof_frictionloss``.

        Raises:
            OptionError: the field cannot vary.
        """
        if name not in _FIELDS:
            near = similar(name, _FIELDS) or tuple(_FIELDS)
            raise OptionError(f"{show_value(name)} cannot vary; the nearest are {', '.join(near)}")
        kinds = self.model.actuator_trntype[self._driven]
        if name == "actuator_gear" and (kinds == self._mujoco.mjtTrn.mjTRN_SITE).any():
            raise OptionError(f"{name} cannot vary: an actuator at a site has six gears")
        if name not in self._expanded:
            own = self.model.opt.gravity if name == "opt.gravity" else getattr(self.model, name)
            before = dict(self._expanded)
            self._expanded[name] = np.repeat(np.array(own)[None], self.nsim, axis=0)
            try:
                self._load()
            except BaseException:
                self._expanded = before
                raise
        return self._expanded[name]

    def inputs(self, ids: ArrayLike | None = None) -> tuple[Array, Array, Array, dict[str, Any]]:
        """Return the arguments of functions of ``robot`` for the present states.

        Args:
            ids: as in ``step``.

        Returns:
            q, qd, tau: (B, nq) with unit quaternions, (B, nv), (B, nv).
            options:    ``ctrl`` (B, nu), and the inputs of expanded fields.
        """
        rows = self._rows(ids)
        q, qd, tau, ctrl = (
            self._arrays[name][rows] for name in ("qpos", "qvel", "qfrc_applied", "ctrl")
        )
        for place in self._quaternions:  # MuJoCo takes those of any length
            length = np.linalg.norm(q[:, place], axis=1, keepdims=True)
            if (np.abs(length - 1.0) > 100.0 * np.finfo(q.dtype).eps).any():
                q = q.copy()
                q[:, place] /= length
        options: dict[str, Any] = self._inputs(rows)
        if self._driven:
            options["ctrl"] = ctrl[:, self._driven]
        return q, qd, tau, options

    def step(self, ids: ArrayLike | None = None, nstep: int = 1) -> None:
        """Advance simulations by substeps of the model's time step, with constant controls.

        Args:
            ids:   simulations, numbers or a mask (nsim,); all by default.
            nstep: number of substeps.

        Raises:
            ShapeError, OptionError: ``ids`` or ``nstep`` is invalid.
        """
        rows, dt = self._rows(ids), float(self.model.opt.timestep)
        q, qd, tau, options = self.inputs(ids)
        sees = "sensordata" in self._observed
        over = {"tau": tau, **{name: options.pop(name) for name in ("ctrl",) if name in options}}
        # With sensors each substep is a step, which records its start.
        times = nstep if sees else 1
        over = {name: np.repeat(array[:, None], times, axis=1) for name, array in over.items()}
        options |= {"integrator": self.integrator, "store_every": "last"}
        if sees:
            options["record"] = ("sensors",)
        else:
            options["substeps"], dt = nstep, dt * nstep
        q, qd, *seen = self.robot.rollout(q, qd, over.pop("tau"), dt, **over, **options)
        self._arrays["qpos"][rows], self._arrays["qvel"][rows] = q, qd
        self.time[rows] += nstep * float(self.model.opt.timestep)
        if sees:
            self._observed["sensordata"][rows] = seen[0][:, -1]

    def forward(self, ids: ArrayLike | None = None) -> None:
        """Compute ``sensordata`` of the present states, if it is bound."""
        if "sensordata" not in self._observed:
            return
        q, qd, tau, options = self.inputs(ids)
        self._observed["sensordata"][self._rows(ids)] = self.robot.sensors(q, qd, tau, **options)

    def reset(self, ids: ArrayLike | None = None, keyframe: ArrayLike = -1) -> None:
        """Reset simulations to the model's initial state, or to keyframes.

        Args:
            ids:      as in ``step``.
            keyframe: a number for all, or one for each; -1 for the initial state.

        Raises:
            ShapeError, OptionError: ``ids`` or ``keyframe`` is invalid.
        """
        rows, model = self._rows(ids), self.model
        keys = np.broadcast_to(np.asarray(keyframe), self.time[rows].shape)
        if keys.dtype.kind != "i" or ((keys < -1) | (keys >= model.nkey)).any():
            raise OptionError(
                f"keyframe is {show_value(keyframe)}; give numbers from -1 to {model.nkey - 1}"
            )
        for name, array in self._arrays.items():
            begin = model.qpos0 if name == "qpos" else np.zeros(array.shape[1])
            stored = getattr(model, f"key_{name}", np.repeat(begin[None], model.nkey, axis=0))
            array[rows] = np.vstack([*stored, begin])[keys]
        self.time[rows] = np.append(model.key_time, 0.0)[keys]
        self.forward(ids)

    def joint(self, key: int | str) -> View:
        """Return the arrays of a joint: ``qpos``, ``qvel`` and ``qfrc_applied``."""
        model, one = self.model, self.model.joint(key).id
        ends = [
            (a[one], a[one + 1] if one + 1 < model.njnt else n)
            for a, n in ((model.jnt_qposadr, model.nq), (model.jnt_dofadr, model.nv))
        ]
        places = dict(zip(("qpos", "qvel", "qfrc_applied"), (*ends, ends[1]), strict=True))
        return View({name: self.bind(name)[:, i:j] for name, (i, j) in places.items()})

    def actuator(self, key: int | str) -> View:
        """Return the arrays of an actuator: ``ctrl``."""
        one = self.model.actuator(key).id
        return View({"ctrl": self.bind("ctrl")[:, one : one + 1]})

    def sensor(self, key: int | str) -> View:
        """Return the arrays of a sensor: ``data``."""
        one = self.model.sensor(key)
        name = one.name or f"sensor{one.id}"
        return View({"data": self.bind("sensordata")[:, self.robot.sensor_slices[name]]})

    def _rows(self, ids: ArrayLike | None) -> Any:
        if ids is None:
            return slice(None)
        rows = np.asarray(ids)
        if rows.ndim != 1 or (rows.dtype == bool and len(rows) != self.nsim):
            raise ShapeError(f"ids has shape {rows.shape}; give numbers, or a mask ({self.nsim},)")
        if rows.dtype != bool and rows.dtype.kind not in "iu":
            raise OptionError(f"ids has type {rows.dtype}; give numbers, or a mask")
        if rows.dtype == bool:
            return np.flatnonzero(rows)
        if rows.size and (rows.min() < 0 or rows.max() >= self.nsim):
            raise OptionError(f"ids has {rows.min()} to {rows.max()}; give 0 to {self.nsim - 1}")
        if len(np.unique(rows)) < len(rows):
            raise OptionError("ids has a simulation twice; leave one out")
        return rows

    def _inputs(self, rows: Any) -> dict[str, Array]:
        """Return the inputs of expanded fields."""
        own, inputs = self._expanded, {}
        words = {word for name in own for word in _FIELDS[name]}
        is_off = self.model.opt.disableflags & self._mujoco.mjtDisableBit.mjDSBL_GRAVITY
        if "opt.gravity" in own and not is_off:
            inputs["gravity"] = own["opt.gravity"][rows]

        def read(name: str) -> Array:
            found: Array = own[name][rows] if name in own else getattr(self.model, name)[None]
            return found

        if "actuator_gains" in words:
            gains = (read(f"actuator_{one}prm")[:, self._driven, :3] for one in ("gain", "bias"))
            inputs["actuator_gains"] = _joined(*gains)
        if "gear" in words:
            inputs["gear"] = read("actuator_gear")[:, self._driven, 0]
        for word, name in (
            ("armature", "dof_armature"),
            ("damping", "dof_damping"),
            ("joint_friction", "dof_frictionloss"),
        ):
            if word in words:
                # The robot's have those of actuators in addition.
                values = read(name)
                inputs[word] = values + (self.robot.parameters(word) - getattr(self.model, name))
        if "params" in words:
            inputs["params"] = self._rows_of_bodies(read)
        return {name: np.ascontiguousarray(x, self._dtype) for name, x in inputs.items()}

    def _rows_of_bodies(self, read: Callable[[str], Array]) -> Array:
        chosen = self._bodies
        turns = np.empty((self.model.nbody, 9))
        for turn, quaternion in zip(turns, self.model.body_iquat, strict=True):
            self._mujoco.mju_quat2Mat(turn, quaternion)
        R = turns.reshape(-1, 3, 3)[chosen]
        moments = np.einsum("bij,nbj,bkj->nbik", R, read("body_inertia")[:, chosen], R)
        moments = (moments + np.swapaxes(moments, 2, 3)) / 2.0  # exactly symmetric
        return inertia(read("body_mass")[:, chosen], read("body_ipos")[:, chosen], moments)


class View:
    """Live arrays of one object of the model."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        object.__setattr__(self, "_arrays", dict(arrays))

    def __getattr__(self, name: str) -> Array:
        if name not in self._arrays:
            raise AttributeError(f"no array {show(name)}; there are {', '.join(self._arrays)}")
        found: Array = self._arrays[name]
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)[...] = value


def _joined(*arrays: Array) -> Array:
    lead = max(len(one) for one in arrays)
    return np.concatenate([np.broadcast_to(x, (lead, *x.shape[1:])) for x in arrays], axis=2)
