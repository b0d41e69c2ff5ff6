"""NVRTC takes every scan kernel; robots of up to 32 bodies keep everything in registers."""

from __future__ import annotations

import pytest

from gridgen.schedules.scan import plan_scan
from robots_for_tests import exhaustive, skip_if_refused
from scan_for_tests import EACH_KERNEL, render_scan, tree_of

pytest.importorskip("cupy")

SECOND = "inverse_dynamics_second_order_scan_ext"
LOSSY = {"floating_base": True, "joint_dynamics": True, "armature": 0.1}
ARCHS = ("sm_75", "sm_120", *exhaustive("sm_80", "sm_90"))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("function", EACH_KERNEL)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("gripper", LOSSY, marks=pytest.mark.exhaustive),
        ("humanoid", LOSSY),
        pytest.param("chain 32", {}, marks=pytest.mark.exhaustive),
    ],
)
def test_no_kernel_of_up_to_32_bodies_spills(name, options, function, arch):
    from gridgen.backends.nvrtc import compile_kernel

    if function == SECOND:
        options = options | {"floating_base": False}
    tree = tree_of(name, **options)
    skip_if_refused(tree, function)
    module = render_scan(plan_scan(tree), [function], observed=False)
    for dtype in ("float32", "float64"):
        resources = compile_kernel(module.sources, function, dtype, arch).resources
        assert (resources.spill_stores, resources.spill_loads) == (0, 0)


@pytest.mark.parametrize("function", EACH_KERNEL)
@pytest.mark.parametrize("name", [*exhaustive("chain 200"), "tree 300"])
def test_kernels_of_large_robots_compile(name, function):
    from gridgen.backends.nvrtc import compile_kernel

    module = render_scan(plan_scan(tree_of(name)), [function], observed=False)
    for dtype in ("float32", "float64"):
        compile_kernel(module.sources, function, dtype, "sm_90")
