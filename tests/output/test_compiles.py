"""Every generated file compiles without a warning: by the host's compiler, and by NVRTC.

NVRTC compiles for a named architecture without a GPU. What the kernels take of each is recorded in
the test report (``pytest -rP`` shows it).
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import gridgen
from gridgen.backends import SCALARS
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.cpu.units import FLAGS
from gridgen.backends.cuda.compiler import resource_report, supported_capabilities
from helpers.robots import CONSTRAINTS, GROUND, exhaustive, spread

ROBOTS = Path(__file__).parents[2] / "robots"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")
# Limits of the hardware.
MAX_REGISTERS = 255
MAX_SHARED_MEMORY = 48 * 1024

ALL = [(path.stem, False) for path in sorted(ROBOTS.glob("*.urdf"))]
FLOATING = [("cart_pole", True), ("quadruped", True), ("humanoid", True)]
# A slide and a free joint: every run compiles it.
QUICK = ("cart_pole", True)
ON_HOST = [
    pytest.param(case, marks=() if case == QUICK else pytest.mark.exhaustive)
    for case in ALL + FLOATING
]
COMPILED_BY_NVRTC = [
    (case,)
    for case in (
        *(("two_link", False), ("arm7", False), ("gripper", False), ("cart_pole", False)),
        ("quadruped", True),
    )
]
# Functions of so many statements that NVRTC takes minutes for those of a robot with many joints,
# and that live on spilled registers.
LONG = re.compile("gradient|second_order|hessian|coriolis")


def generated(case, folder: Path) -> gridgen.GeneratedModule:
    name, floating_base = case
    options = gridgen.GenerateOptions(output=folder, floating_base=floating_base, variants=True)
    return gridgen.generate(ROBOTS / f"{name}.urdf", options)


def compile_on_host(text: str, folder: Path, *flags: str) -> None:
    (folder / "unit.cpp").write_text(text)
    compiler = host_compiler()
    words = (*compiler.command, *compiler.flags, *FLAGS)
    # Clang says which flags mean nothing to it.
    command = (*words, *"-Wall -Wextra -Werror -Wno-ignored-optimization-argument".split(), *flags)
    result = subprocess.run(
        [*command, "-c", "unit.cpp", "-o", "unit.o"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[:4000]
    assert result.stderr == ""


@pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning")  # a base without inertia
@pytest.mark.parametrize("case", ON_HOST)
def test_the_host_compiler_has_nothing_to_say(case, tmp_path, request):
    module = generated(case, tmp_path)
    robot = module.folder.name
    entry = "(const gridgen::Array*, gridgen::int64, gridgen::int64, gridgen::int64)"
    instances = [
        f"template bool {robot}::simd::{function}<{scalar}>{entry};"
        for function in module.programs
        for scalar in SCALARS.values()
    ]
    # The later stages of a compiler find more to warn of, and take their time.
    bodies = len(module.tree.bodies)
    flags = (
        () if bodies <= 2 else ("-O0",) if bodies <= 7 else request.getfixturevalue("syntax_only")
    )
    text = "\n".join([f'#include "{robot}_simd.h"', *instances, ""])
    compile_on_host(text, module.folder, *flags)


@pytest.mark.parametrize("name", ["two_link", *exhaustive("gripper")])
def test_the_header_alone_serves_plain_numbers(name, tmp_path):
    module = generated((name, False), tmp_path)
    calls = []
    for function, kernel in module.kernels.by_name.items():
        if kernel.team is not None or kernel.calls:  # rollouts take views
            continue
        for scalar in SCALARS.values():
            inputs = [f"const {scalar}* {array}" for array in kernel.inputs]
            outputs = [f"{scalar}* {array}" for array in kernel.outputs]
            arguments = ", ".join((*kernel.inputs, *kernel.outputs))
            calls.append(
                f"void call_{function}({', '.join(inputs + outputs)})\n"
                f"{{ {name}::{function}<{scalar}>({arguments}); }}\n"
            )
    compile_on_host("\n".join([f'#include "{name}.cuh"', *calls]), module.folder)


def architectures():
    """Return a small robot with one architecture; others, and others of it, when asked for."""
    return [
        param
        if param.values[0] == ("two_link", False)
        else pytest.param(*param.values, marks=pytest.mark.exhaustive)
        for param in spread(COMPILED_BY_NVRTC, ARCHITECTURES, 1)
    ]


def strided(report):
    """Return the number of kernels for any strides; those for rows have another form."""
    return sum("_rows_kernel" not in one.kernel for one in report)


@pytest.mark.parametrize("every", [False, *exhaustive(True)])
@pytest.mark.parametrize(("case", "arch"), architectures())
def test_nvrtc_has_nothing_to_say(case, arch, every, tmp_path):
    """Every kernel in every type, or in one of them in turn."""
    pytest.importorskip("cupy")
    if int(arch.removeprefix("sm_")) not in supported_capabilities():
        pytest.skip(f"the installed NVRTC does not know {arch}")
    module = generated(case, tmp_path)
    sources = module.sources(next(iter(module.kernels.by_name.values())))
    # A warning of NVRTC's is a Python warning, and those are errors here.
    small = len(module.tree.bodies) <= 8
    functions = [name for name in module.programs if small or not LONG.search(name)]
    chosen = {
        dtype: [name for k, name in enumerate(functions) if every or k % len(SCALARS) == place]
        for place, dtype in enumerate(SCALARS)
    }
    report = [
        one
        for dtype, names in chosen.items()
        for one in resource_report(sources, names, [dtype], arch)
    ]
    assert strided(report) == sum(map(len, chosen.values()))
    for kernel in report:
        print(
            f"{kernel.kernel} {kernel.arch}: {kernel.registers} registers, "
            f"{kernel.spill_stores + kernel.spill_loads} bytes spilled, {kernel.stack} of stack, "
            f"{kernel.shared_memory} shared"
        )
        assert 0 < kernel.registers <= MAX_REGISTERS
        assert kernel.shared_memory <= MAX_SHARED_MEMORY
        if "<float>" in kernel.kernel and not LONG.search(kernel.kernel):
            assert kernel.spill_stores == kernel.spill_loads == kernel.stack == 0, kernel


CONSTRAINED = ("delassus", "constrained_forward_dynamics", "impulse_dynamics")
FURTHER = ("constrained_inverse_dynamics", "constrained_forward_dynamics_gradient", "rollout")
TOUCHING = (
    "contact_forward_dynamics",
    "contact_residual",
    "actuator_torques",
    "sensors",
    "rollout",
)
OF_LINKS = ("operational_space_inertia", "point_inertia", "operational_space_bias")


@pytest.mark.parametrize(
    ("name", "functions", "frames"),
    [
        ("two_link", CONSTRAINED, ()),
        ("arm7", ("self_distance", "collision_free"), ()),
        ("two_link", TOUCHING, ()),
        pytest.param(
            "arm6",
            (*CONSTRAINED, *FURTHER, *OF_LINKS),
            ("tool0",),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_functions_of_constraints_links_and_collisions_compile(name, functions, frames, tmp_path):
    options = gridgen.GenerateOptions(
        output=tmp_path,
        functions=functions,
        frames=frames,
        constraints=() if (touches := functions == TOUCHING) else CONSTRAINTS[name],
        ground=GROUND[name] if touches else (),
        actuators=touches and [{"joint": "elbow", "kind": "position", "forcerange": (-1, 2)}],
        sensors=touches and [{"kind": "imu", "link": "tip"}],
        spheres={"link0": [(0.0, 0.0, 0.0, 0.2)], "tool": [(0.0, 0.0, 0.0, 0.2)] * 2}
        if name == "arm7"
        else {},
    )
    module = gridgen.generate(ROBOTS / f"{name}.urdf", options)
    instances = [
        f"template bool {name}::simd::{function}<{scalar}>"
        "(const gridgen::Array*, gridgen::int64, gridgen::int64, gridgen::int64);"
        for function in module.programs
        for scalar in SCALARS.values()
    ]
    compile_on_host("\n".join([f'#include "{name}_simd.h"', *instances, ""]), module.folder, "-O0")
    pytest.importorskip("cupy")
    sources = module.sources(next(iter(module.kernels.by_name.values())))
    scalars = [*SCALARS] if frames else ["float32"]
    report = resource_report(sources, [*module.programs], scalars, "sm_90")
    expected = len(module.programs) * len(scalars)  # outside: a failed assertion prints programs
    assert strided(report) == expected
