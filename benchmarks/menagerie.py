"""Compare the scenes of a folder of MJCF files with MuJoCo, along steps of MuJoCo.

    python benchmarks/menagerie.py FOLDER [--scenes "*/scene*.xml"] [--steps 100] [--csv FILE]

Each scene is loaded with its contacts, constraints and actuators. MuJoCo steps from the first
keyframe or the initial configuration with random controls. In each of its states, the accelerations
of the NumPy reference are compared with those of MuJoCo, whose solver iterates to the end. What
gridgen leaves out, and says so, MuJoCo leaves out too; states in which shapes touch that gridgen
does not cover, or in which MuJoCo's solver does not converge, do not count.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenError
from gridgen.model.diagnostics import noted
from gridgen.model.readers.mujoco import from_model
from gridgen.model.readers.mujoco_contacts import uncovered_pairs
from gridgen.model.readers.mujoco_fields import joints_of
from gridgen.model.tree import build_tree
from gridgen.options import RobotOptions

HEADINGS = ("scene", "velocities", "left out", "states", "largest error")
#: A list of names in a warning, and how many more there are.
NAMES = re.compile(r'\("[^()]*"(?: and (\d+) more)?\)')
#: Options by what a scene has; the first ones that the scene supports are chosen.
CHOICES: tuple[dict[str, Any], ...] = (
    {"contact": True, "actuators": True},
    {"actuators": True},
)


@dataclass(frozen=True)
class Scene:
    """How gridgen loads a scene: the options, and what the reader leaves out."""

    options: RobotOptions
    left_out: tuple[str, ...]


def loaded(model: Any) -> Scene:
    """Load a model with as much of it as gridgen supports.

    Raises:
        GridGenError: it is refused without contacts too.
    """
    refused: list[str] = []
    for options in CHOICES:
        with noted() as said:
            description = from_model(model)
            chosen = RobotOptions(joint_dynamics=True, convention="mujoco", **options)
            try:
                build_tree(description, chosen)
            except GridGenError as error:
                if len(options) == 1:
                    raise
                refused.append(str(error).partition("; ")[0].partition(": ")[2])
                continue
        left = [one for one in said if not one.startswith("contact:")]
        left += refused
        if "contact" not in options:
            left.append("limits, dry friction and equalities as soft constraints")
        return Scene(chosen, tuple(dict.fromkeys(map(short, left))))
    raise AssertionError


def short(text: str) -> str:
    """Return a warning without its advice, with the number of names in place of the names."""
    text = re.sub(r"; .*|, which gridgen.*|^the model: (has |its )?", "", text)
    return NAMES.sub(lambda m: f"({m[0].count(', ') + 1 + int(m[1] or 0)})", text)


def reduced(model: Any, options: RobotOptions) -> None:
    """Remove from a model what gridgen says that it ignores; let the solver iterate to the end."""
    option, disable = model.opt, mujoco.mjtDisableBit
    if not options.contact:
        option.disableflags |= disable.mjDSBL_CONSTRAINT
    spatial = [index for index in range(model.ntendon) if not joints_of(model, index)]
    for name in ("stiffness", "damping", "frictionloss", "limited"):
        getattr(model, f"tendon_{name}")[spatial] = 0
    option.density, option.viscosity = 0.0, 0.0
    option.noslip_iterations, option.tolerance, option.iterations = 0, 0.0, 100
    option.enableflags = 0
    if option.integrator == mujoco.mjtIntegrator.mjINT_DISCRETE:
        option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for index in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
        at = slice(model.jnt_dofadr[index], model.jnt_dofadr[index] + 6)
        model.dof_damping[at], model.dof_frictionloss[at] = 0.0, 0.0
    for index in set(range(model.nu)) - set(controls_of(model, options)):
        model.actuator_gaintype[index] = model.actuator_biastype[index] = 0
        model.actuator_gainprm[index] = model.actuator_biasprm[index] = 0.0
    ours = (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD, mujoco.mjtEq.mjEQ_JOINT)
    model.eq_active0[~np.isin(model.eq_type, ours)] = 0


def controls_of(model: Any, options: RobotOptions) -> list[int]:
    """Return the index in MuJoCo of each actuator of the robot."""
    names = [model.actuator(k).name or f"actuator{k}" for k in range(model.nu)]
    return [names.index(one.name) for one in build_tree(from_model(model), options).actuators]


def has_converged(model: Any, data: Any) -> bool:
    """Return whether the constraint forces of MuJoCo's accelerations are in equilibrium."""
    if not data.nefc:
        return True
    M, J = np.zeros((model.nv, model.nv)), np.zeros((data.nefc, model.nv))
    mujoco.mj_fullM(model, data, M)
    if mujoco.mj_isSparse(model):
        mujoco.mju_sparse2dense(
            J, data.efc_J, data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind
        )
    else:
        J[:] = data.efc_J.reshape(J.shape)
    mujoco.mj_constraintUpdate(model, data, J @ data.qacc - data.efc_aref, None, 0)
    rest = M @ (data.qacc - data.qacc_smooth) - data.qfrc_constraint
    return bool(np.abs(rest).max() < 1e-8 * max(1.0, np.abs(data.qfrc_constraint).max()))


def states(model: Any, steps: int) -> dict[str, np.ndarray]:
    """Return states along steps of MuJoCo that count, with MuJoCo's accelerations."""
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    data.qvel[:] += 0.1 * rng.normal(size=model.nv)
    center = data.ctrl.copy()
    other = {tuple(sorted((a, b))) for a, b, _ in uncovered_pairs(model, mujoco)}
    rows: dict[str, list[Any]] = {name: [] for name in ("q", "qd", "ctrl", "qdd")}
    for _ in range(steps):
        data.ctrl[:] = center + 0.1 * rng.normal(size=model.nu)
        mujoco.mj_forward(model, data)
        touching = {tuple(sorted(pair)) for pair in data.contact.geom.tolist()}
        if not touching & other and has_converged(model, data):
            for name, array in zip(rows, (data.qpos, data.qvel, data.ctrl, data.qacc), strict=True):
                rows[name].append(array.copy())
        mujoco.mj_step(model, data)
    return {name: np.array(values) for name, values in rows.items()}


def compared(model: Any, steps: int) -> tuple[str, str, str]:
    """Return what is left out, the number of states that count, and the largest error.

    Raises:
        GridGenError: gridgen refuses the model.
    """
    scene = loaded(model)
    reduced(model, scene.options)
    x = states(model, steps)
    left_out = ", ".join(scene.left_out)
    if not len(x["q"]):
        return left_out, "0", ""
    expected = x.pop("qdd")
    x |= {"tau": np.zeros_like(expected), "gravity": np.array(model.opt.gravity)}
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
        x["gravity"] = np.zeros(3)
    tree = build_tree(from_model(model), scene.options)
    x["ctrl"] = x["ctrl"][:, controls_of(model, scene.options)]
    x["dt"] = np.full(len(expected), model.opt.timestep)
    with np.errstate(all="ignore"):
        _, ends = evaluate_reference(tree, "step_semi_implicit", x)
    found = (ends - x["qd"]) / model.opt.timestep
    scale = np.maximum(np.abs(expected).max(axis=1), 1.0)
    error = float((np.abs(found - expected).max(axis=1) / scale).max())
    return left_out, str(len(expected)), f"{error:.0e}"


def main() -> None:
    """Print a table of all scenes; write it as CSV too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", default="*/scene*.xml")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda text: None)
    lines: list[tuple[str, ...]] = []
    for path in sorted(options.folder.glob(options.scenes)):
        name = path.relative_to(options.folder).with_suffix("").as_posix()
        try:
            model = mujoco.MjModel.from_xml_path(str(path))
        except ValueError as error:
            print(f"{name}: MuJoCo cannot compile it: {error}", file=sys.stderr)
            continue
        try:
            line = compared(model, options.steps)
        except GridGenError as error:
            line = (f"refused: {short(str(error).partition(': ')[2])}", "", "")
        lines.append((name, str(model.nv), *line))
        print(*lines[-1], sep=" | ", flush=True)
    if options.csv is not None:
        with options.csv.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows((HEADINGS, *lines))


if __name__ == "__main__":
    main()
