"""Machine code stores what PTX says, and planted faults that the comparison must name."""

from __future__ import annotations

import re
from functools import cache

import pytest

pytest.importorskip("cupy", reason="NVRTC comes with CuPy")


import gridgen
from helpers.robots import exhaustive
from numerics.robots import urdf_path
from prove.machine import PARAMETERS
from prove.machine_code import Code, Unavailable, compare, disassembler

try:
    disassembler()
except Unavailable as reason:
    pytest.skip(str(reason), allow_module_level=True)

#: Robots with kernels of one thread for each state, without loops.
KERNELS = {
    "two_link": (
        "mass_matrix",
        "inverse_dynamics",
        "forward_dynamics_aba",
        "forward_dynamics_gradient",
        "forward_dynamics_hessian",
        "forward_kinematics",
        "jacobian_tip_world",
        "joint_torque_regressor",
        "centroidal_dynamics_gradient",
        "step_rk4",
        "step_variational",
    ),
    "gripper": ("inverse_dynamics_gradient_f_ext_base_motion", "mass_matrix_inverse"),
    "quadruped": ("difference", "integrate_gradient", "excess"),
}
CASES = [
    (robot, function, dtype)
    for robot, functions in KERNELS.items()
    for function in functions
    for dtype in ("float32", "float64")
]
FEW = [("two_link", "mass_matrix", "float32"), ("two_link", "forward_dynamics_aba", "float64")]


@cache
def sources_of(robot: str, function: str):
    loaded = gridgen.load(urdf_path(robot), floating_base=robot == "quadruped")
    return loaded._module.sources(loaded._module.kernels.by_name[function])


@pytest.mark.parametrize("case", [*FEW, *exhaustive(*(c for c in CASES if c not in FEW))], ids=str)
@pytest.mark.parametrize("arch", PARAMETERS)
def test_all_words_are_equal_expressions(case, arch):
    robot, function, dtype = case
    report = compare(sources_of(robot, function), function, dtype, arch)
    assert not report.faults, report.faults[:3]
    assert not report.differing, report.differing[:3]
    assert report.equal == report.words > 0
    # The code of a reciprocal decides whether its operand is extreme.
    assert not report.own


FAULTS = {
    "constant": (r"(FFMA .*,)-?0\.\d+$", r"\g<1>0.3"),
    "operands": (r"(FFMA R\d+,R\d+),(R\d+),(R\d+)$", r"\1,\3,\2"),
    "negation": (r"(FFMA R\d+,R\d+,)-(R\d+,)", r"\1\2"),
    "address": (r"STG\.E (.*)\[(R\d+)\.64\]", r"STG.E \1[\2.64+0x40]"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault):
    places: list[str] = []

    def change(code: Code) -> Code:
        for i, one in enumerate(code):
            text = f"{one['opcode']} {one.get('operands', '')}"
            if not places and (changed := re.sub(*FAULTS[fault], text)) != text:
                opcode, _, operands = changed.partition(" ")
                code[i] = {**one, "opcode": opcode, "operands": operands}
                places.append(f"{16 * i:#06x} {changed}: ")
        return code

    sources = sources_of("two_link", "mass_matrix")
    report = compare(sources, "mass_matrix", "float32", "sm_90", change=change)
    assert any(text.startswith(places[0]) for text in report.faults), report.faults
