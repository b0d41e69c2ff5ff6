"""The files of a module, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gridgen.dynamics.arrays import SHARED, array_shape
from gridgen.dynamics.functions import (
    FUNCTIONS,
    Function,
    frame_idents,
    refusal,
)
from gridgen.emit.environment import render
from gridgen.emit.views.cfa import cfa_template_view
from gridgen.emit.views.robot import robot_view
from gridgen.emit.views.scan import scan_template_view
from gridgen.emit.views.thread import function_view
from gridgen.kernel import LOADS, KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.schedules.cfa import CFA_FUNCTIONS, plan_cfa
from gridgen.schedules.scan import plan_scan
from gridgen.schedules.scan_functions import SCAN_FUNCTIONS
from gridgen.symbolic.program import Program
from gridgen.template_root import static_text

#: Headers that the rendered files include: the same in every module.
STATIC_FILES = ("gridgen_math.cuh", "gridgen_simd.h", "gridgen_share.h", "gridgen_call.h")
SCAN_STATIC_FILES = (
    "gridgen_shared.cuh",
    "gridgen_scan.cuh",
    "gridgen_articulated.cuh",
    "gridgen_columns.cuh",
    "gridgen_branches.cuh",
    "gridgen_blocks.cuh",
    "gridgen_changes.cuh",
    "gridgen_second_order.cuh",
)
MODEL_FILE = "model.json"


def render_sources(
    tree: KinematicTree,
    ident: str,
    version: str,
    programs: Mapping[str, Program],
    scans: Sequence[str] = (),
) -> dict[str, str]:
    """Return the C++ and CUDA files of a module.

    Args:
        tree:     the robot.
        ident:    its identifier: namespace and stem of the file names.
        version:  of the generator.
        programs: the traced functions by name.
        scans:    names of the kernels of the scan schedule.

    Returns:
        text by file name.
    """
    robot = robot_view(tree, ident, version)
    cfa = [name for name in scans if name in CFA_FUNCTIONS]
    view = {
        "robot": robot,
        "has_scans": bool(scans),
        "has_cfa": bool(cfa),
        "functions": [function_view(tree, name, program) for name, program in programs.items()],
    }
    files = {
        f"{ident}.cuh": render("thread/robot.cuh.jinja", view),
        f"{ident}.cu": render("thread/robot.cu.jinja", view),
        f"{ident}_simd.h": render("thread/robot_simd.h.jinja", view),
    }
    static = list(STATIC_FILES)
    if scans:
        own = [name for name in scans if name in SCAN_FUNCTIONS]
        scan = scan_template_view(plan_scan(tree), robot, own)
        files[f"{ident}_scan.cuh"] = render("scan/robot_scan.cuh.jinja", scan)
        static += SCAN_STATIC_FILES
    if cfa:
        scan = cfa_template_view(plan_cfa(tree), robot, cfa)
        files[f"{ident}_cfa.cuh"] = render("cfa/robot_cfa.cuh.jinja", scan)
    return files | {name: static_text(name) for name in static}


def render_module(
    tree: KinematicTree,
    ident: str,
    version: str,
    choices: Sequence[str],
    kernels: Sequence[KernelKey],
    model: str,
) -> dict[str, str]:
    """Return the Python file of a module and its description.

    Args:
        tree:      the robot.
        ident:     its identifier.
        version:   of the generator.
        choices:   the functions that the Python file offers, as users name them.
        kernels:   what the C++ files define, kernels of all schedules.
        model:     text of the description.
    """
    methods = [
        kernel.method
        for kernel in kernels
        if kernel.function == "forward_dynamics" and not kernel.step
    ]
    view = {
        "robot": robot_view(tree, ident, version),
        "functions": choices,
        "methods": ", ".join(f"``{name}``" for name in dict.fromkeys(("auto", *methods))),
    }
    return {"__init__.py": render("module/__init__.py.jinja", view), MODEL_FILE: model}


def describe(
    tree: KinematicTree,
    ident: str,
    versions: Mapping[str, str],
    functions: Mapping[str, Function],
    scans: Sequence[str] = (),
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return everything a module needs to know of its robot at run time.

    Infinite limits are ``null``: JSON has no infinity.

    Args:
        tree:      the robot.
        ident:     its identifier.
        versions:  of the generator and of the libraries that shape its output.
        functions: the functions that the module has, by name.
        scans:     names of its kernels of the scan schedule.
        left_out:  why it does not have others, by name.
    """

    def finite(values: tuple[float, ...]) -> list[float | None]:
        return [value if abs(value) != float("inf") else None for value in values]

    return {
        "name": tree.name,
        "ident": ident,
        "source": tree.source.replace("\\", "/").rsplit("/", 1)[-1],
        "sha256": tree.digest,
        "versions": dict(versions),
        "floating_base": tree.floating_base,
        "joint_dynamics": tree.joint_dynamics,
        "armature": list(tree.armature),
        "nq": tree.nq,
        "nv": tree.nv,
        "joint_names": list(tree.joint_names),
        "joint_kinds": [body.kind for body in tree.bodies],
        "body_names": list(tree.body_names),
        "frame_names": list(tree.frame_names),
        "frame_idents": list(frame_idents(tree).values()),
        "parents": list(tree.parents),
        "levels": [list(level) for level in tree.levels],
        "q_indices": [body.q_index for body in tree.bodies],
        "v_indices": [body.v_index for body in tree.bodies],
        "mimics": [body.mimics for body in tree.bodies],
        "lower_limits": finite(tree.lower_limits),
        "upper_limits": finite(tree.upper_limits),
        "effort_limits": finite(tree.effort_limits),
        "velocity_limits": finite(tree.velocity_limits),
        "masses": [body.mass for body in tree.bodies],
        "total_mass": tree.total_mass,
        "singular_joint": tree.singular_joint,
        "shared_inputs": list(SHARED),
        "loads": list(LOADS),
        "functions": {name: _shapes(tree, function) for name, function in functions.items()}
        | _scan_shapes(tree, scans),
        "refusals": dict(left_out)
        | {name: why for name in FUNCTIONS if (why := refusal(tree, name)) is not None},
    }


def _shapes(tree: KinematicTree, function: Function) -> dict[str, Any]:
    return {
        "inputs": {array: array_shape(array, tree) for array in function.inputs},
        "outputs": {array: array_shape(array, tree) for array in function.outputs},
    }


def _scan_shapes(tree: KinematicTree, scans: Sequence[str]) -> dict[str, Any]:
    """Describe kernels of the scan schedule: also what they compute and how they are launched."""
    shapes = {}
    for name in scans:
        workspace: int | None
        if name in CFA_FUNCTIONS:
            cfa = plan_cfa(tree)
            computes, threads = CFA_FUNCTIONS[name].computes, cfa.threads
            states, shared = cfa.states_per_block, cfa.shared_numbers()
            workspace = 0 if cfa.in_shared_memory() else cfa.numbers
        else:
            plan = plan_scan(tree)
            computes, threads = SCAN_FUNCTIONS[name].computes, plan.threads_of(name)
            states, shared = plan.states_of(name), plan.shared_numbers(name)
            workspace = plan.workspace_numbers(name)
        shapes[name] = _shapes(tree, FUNCTIONS[computes]) | {
            "computes": computes,
            "threads_per_block": threads,
            "states_per_block": states,
            "shared_numbers": shared,
            "workspace_numbers": workspace,
        }
    return shapes


def model_text(model: Mapping[str, Any]) -> str:
    """Return the description as JSON, one field a line where it is short."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in model.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"
