"""NVRTC takes every scan kernel; robots of up to 32 bodies keep everything in registers."""

from __future__ import annotations

import pytest

from gridgen.schedules.team.schedule import Teams
from helpers.robots import refused, refused_kernel, spread
from helpers.scan import EACH_KERNEL, KERNELS, render_scan, tree_of

pytest.importorskip("cupy")

SECOND = "inverse_dynamics_second_order_scan_f_ext_base_motion"
#: Bytes that one kernel spills of 1 kB of registers, in its step over joints of all kinds.
SPILLED = {("humanoid", "forward_dynamics_jsiia_scan_f_ext_base_motion", "float64", "sm_90"): 8}
LOSSY = {"floating_base": True, "joint_dynamics": True, "armature": 0.1}
ARCHITECTURES = [("sm_75",), ("sm_80",), ("sm_90",), ("sm_120",)]


def cases():
    """Return two kernels of a humanoid, each for one architecture; others when asked for."""
    robots = [("humanoid", LOSSY), ("gripper", LOSSY), ("chain 32", {})]
    return [
        pytest.param(
            *robot,
            *param.values,
            marks=pytest.mark.exhaustive if robot != robots[0] or place % 2 else param.marks,
        )
        for place, one in enumerate(ARCHITECTURES)
        for param in spread([one], EACH_KERNEL[2 * place :] + EACH_KERNEL[: 2 * place], 1)
        for robot in robots
    ]


def tree_with(name, options, function):
    """Return a tree; second derivatives are for joints of one velocity."""
    return tree_of(name, **options | ({"floating_base": False} if function == SECOND else {}))


@refused(
    lambda name, options, function: refused_kernel(
        tree_with(name, options, function), KERNELS[function].key
    )
)
@pytest.mark.parametrize(("name", "options", "arch", "function"), cases())
def test_no_kernel_of_up_to_32_bodies_spills(name, options, arch, function):
    from gridgen.backends.cuda.compiler import compile_kernel

    module = render_scan(Teams(tree_with(name, options, function)), [function], observed=False)
    for dtype in ("float32", "float64"):
        resources = compile_kernel(module.sources, function, dtype, arch).resources
        allowed = SPILLED.get((name, function, dtype, arch), 0)
        assert max(resources.spill_stores, resources.spill_loads) <= allowed


@pytest.mark.parametrize(
    ("name", "function"),
    spread([("tree 300",)], EACH_KERNEL, 1) + spread([("chain 200",)], EACH_KERNEL, 0),
)
def test_kernels_of_large_robots_compile(name, function):
    from gridgen.backends.cuda.compiler import compile_kernel

    module = render_scan(Teams(tree_of(name)), [function], observed=False)
    for dtype in ("float32", "float64"):
        compile_kernel(module.sources, function, dtype, "sm_90")
