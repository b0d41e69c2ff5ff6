"""Kernels of the warp schedule on the emulated backend, against the reference and Pinocchio."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from helpers.robots import example_urdf, exhaustive
from helpers.scan import (
    EACH_WARP_KERNEL,
    module_of,
    random_inputs,
    references,
    relative_error,
    run_all,
    tree_of,
    tree_of_text,
)

EXACT = {"float64": 1e-12, "float32": 2e-5}
GRADIENT = "inverse_dynamics_gradient_warp_f_ext_base_motion"
ALL = {"joint_dynamics": True, "armature": 0.1}
FLOATING = {"floating_base": True}


def check(tree, function, *, dtype="float64", batch=2):
    """Compare a kernel with the reference; return its outputs."""
    inputs = random_inputs(tree, function, batch, dtype)
    outputs, _ = run_all(module_of(tree, function, observed=False), function, inputs, dtype)
    for output, expected in zip(outputs, references(tree, function, inputs), strict=True):
        assert relative_error(output, expected) <= EXACT[dtype], function
    return outputs


@pytest.mark.parametrize(
    ("name", "options", "function"),
    [
        (name, options, function)
        for name, options in (("gripper", ALL | FLOATING), ("screws", ALL))
        for function in EACH_WARP_KERNEL
    ],
)
def test_our_robots(name, options, function):
    check(tree_of(name, **options), function)
