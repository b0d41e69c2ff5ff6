"""A function's bits are the same from every compiler, for every width of SIMD, on every backend.

Each rounding of a program is written down: nothing is left to compilers that they could fuse, or
not. Sine and cosine are of the same kind (test_gridgen_math.py), and far angles are among the
states.
"""

from __future__ import annotations

import itertools
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest

import gridgen
from fake_gpu.ptx.backend import PAIRING, PTX_TARGETS
from gridgen.backends import TARGETS
from gridgen.backends.cpu import backend as cpu
from gridgen.backends.cpu.compiler import COMPILER_VARIABLE, host_compiler
from gridgen.check import random_states
from helpers.robots import exhaustive, needs
from numerics.robots import load_tree, urdf_path

#: Whole packs of every width and a part of one.
STATES = 71
FUNCTIONS = ("inverse_dynamics", "forward_dynamics_aba", "inverse_dynamics_gradient")
CLANG = shlex.join((sys.executable, "-m", "ziglang", "c++"))
_NARROW = ("-mno-avx512f",) if platform.machine() == "x86_64" else ()
TARGETS_OF_PTX = PTX_TARGETS | dict([PAIRING])
#: Compiler, flags and backend of every way but the host's.
WAYS = {
    "clang": (CLANG, (), "cpu"),
    "narrow, optimized": (None, (*_NARROW, "-O3"), "cpu"),
    "emulated": (None, (), "emulated"),
} | {arch: (None, (), "emulated") for arch in TARGETS_OF_PTX}
CHOSEN = [
    ("two_link", False, "float32", "inverse_dynamics_gradient"),
    ("arm6", False, "float64", "forward_dynamics_aba"),
]
OTHERS = [
    case
    for case in itertools.product(
        ("arm7", "quadruped"), (False, True), ("float32", "float64"), FUNCTIONS
    )
    if case not in CHOSEN
]


@pytest.fixture(scope="module", autouse=True)
def _fuses() -> None:
    command = (*host_compiler().command, "-march=native", "-E", "-dM", "-x", "c++", "/dev/null")
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "__FMA__" not in macros and "__ARM_FEATURE_FMA" not in macros:
        pytest.skip("this processor has no fused multiply-add")


def states(robot: str, floating_base: bool, dtype: str) -> Mapping[str, np.ndarray]:
    """Return random states; in some of them every joint's angle is far."""
    x = random_states(load_tree(urdf_path(robot), floating_base), STATES, np.random.default_rng(5))
    x["q"][::3, 7 * floating_base :] *= 1e5
    return {name: array.astype(dtype) for name, array in x.items()}


def result(
    robot: str, floating_base: bool, function: str, x: Mapping[str, np.ndarray], backend: str
) -> np.ndarray | tuple[np.ndarray, ...]:
    loaded = gridgen.load(urdf_path(robot), floating_base=floating_base, backend=backend)
    return loaded.evaluate(function, x)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("clang", marks=needs("ziglang")),
        *(way for way in WAYS if way not in ("clang", "compute_90", "compute_100")),
        *exhaustive("compute_90", "compute_100"),
    ],
)
@pytest.mark.parametrize(
    "case", [*CHOSEN, *exhaustive(*OTHERS)], ids=lambda c: "-".join(map(str, c))
)
def test_every_compiler_width_and_backend_computes_the_same_bits(
    case: tuple[str, bool, str, str], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, floating_base, dtype, function = case
    x = states(robot, floating_base, dtype)
    expected = result(robot, floating_base, function, x, "cpu")
    compiler, flags, backend = WAYS[way]
    if way in TARGETS_OF_PTX:
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        monkeypatch.setitem(TARGETS, "emulated", TARGETS_OF_PTX[way])
    if compiler is not None:
        monkeypatch.setenv(COMPILER_VARIABLE, compiler)
    monkeypatch.setattr(cpu, "FLAGS", (*cpu.FLAGS, *flags))
    found = result(robot, floating_base, function, x, backend)
    np.testing.assert_array_equal(found, expected)
