"""CUDA's arithmetic and atomics as the emulated backend has them, beside Python's."""

import itertools
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gridgen.backends.cache import BuildCache
from gridgen.backends.interface import Launch
from helpers.emulated import call, sources


def away_from_zero(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


# Functions of the components of a state, which have as many digits as a float.
STATES = np.array(
    list(
        itertools.product(
            (-1.0, -0.859375, -0.5, -0.0, 0.015625, 0.5, 0.96875, 1.0),  # a
            (0.0625, 0.75, 1.0, 2.5, 6.0),  # b
            (-7.0, -2.5, -1.5, -0.5, 0.0, 0.375, 0.5, 1.5, 2.5, 4.75),  # c
        )
    )
)
FUNCTIONS: dict[str, tuple[str, Callable[..., float]]] = {
    "acos": ("a", math.acos),
    "asin": ("a", math.asin),
    "atan": ("c", math.atan),
    "ceil": ("c", math.ceil),
    "cos": ("c", math.cos),
    "exp": ("c", math.exp),
    "fabs": ("c", math.fabs),
    "floor": ("c", math.floor),
    "log": ("b", math.log),
    "rint": ("c", round),
    "round": ("c", away_from_zero),
    "rsqrt": ("b", lambda b: b**-0.5),
    "sin": ("c", math.sin),
    "sqrt": ("b", math.sqrt),
    "tan": ("c", math.tan),
    "trunc": ("c", math.trunc),
    "atan2": ("ac", math.atan2),
    "copysign": ("ba", math.copysign),
    "fmax": ("ac", max),
    "fmin": ("ac", min),
    "fmod": ("cb", math.fmod),
    "hypot": ("ac", math.hypot),
    "pow": ("bc", math.pow),
}


def bits(number: float, of: str, to: str) -> float:
    return float(struct.unpack(to, struct.pack(of, number))[0])


# Statements of one thread in their order, and their values. What a compiler shall not compute
# beforehand has a zero in it that it does not know.
BEFORE = """\
    const int zero = int(n - 1);
    const T tiny = T(sizeof(T) == 4 ? 0x1p-23 : 0x1p-52) + T(zero);
    const T infinite = T(1) / T(zero);
    const T undefined = infinite - infinite;
    __shared__ int number;
    __shared__ float single;
    __shared__ T term;
    number = 5;
    single = 0.5f;
    term = T(0.5);
"""
STATEMENTS: tuple[tuple[str, float], ...] = (
    ("fma(T(1) + tiny, T(1) - tiny, T(-1)) / (tiny * tiny)", -1.0),
    ("fmaf(1.0f + 0x1p-23f, 1.0f - 0x1p-23f, zero - 1.0f) * 0x1p46f", -1.0),
    ("fmax(undefined, T(2)) + fmin(T(3), undefined)", 5.0),
    ("max(undefined, T(2)) + max(T(3), undefined)", 5.0),
    ("min(undefined, T(2)) + min(T(3), undefined)", 5.0),
    ("max(zero - 3, 2) + 10 * min(zero - 3, 2)", -28.0),
    ("max(zero - 1, 2u)", 2.0**32 - 1.0),
    ("min(zero + 3u, 2u) + 10 * max(zero + 3ll, 4ll)", 42.0),
    ("max(1.5f, zero + 2.25) - min(0.5, zero + 0.75f)", 1.75),
    ("isnan(undefined) + 2 * isnan(infinite) + 4 * isnan(tiny)", 1.0),
    ("isinf(undefined) + 2 * isinf(-infinite) + 4 * isinf(tiny)", 2.0),
    ("isfinite(undefined) + 2 * isfinite(infinite) + 4 * isfinite(tiny)", 4.0),
    ("__popc(zero) + 100 * __popc(zero + 0xf0f00001u)", 900.0),
    ("__clz(zero) + 100 * __clz(zero + 1) + 10000 * __clz(zero - 1)", 3132.0),
    ("__ffs(zero) + 100 * __ffs(zero + 1) + 10000 * __ffs(zero + 0x50)", 50100.0),
    ("__float_as_int(zero - 2.5f)", bits(-2.5, "f", "i")),
    ("__float_as_uint(zero - 2.5f)", bits(-2.5, "f", "I")),
    ("__int_as_float(zero + 0x40490fdb)", bits(0x40490FDB, "i", "f")),
    ("__uint_as_float(zero + 0xc0200000u)", -2.5),
    ("__double_as_longlong(zero - 2.5)", bits(-2.5, "d", "q")),
    ("__longlong_as_double(zero + 0x4004000000000000ll)", 2.5),
    ("atomicCAS(&number, 5, 7)", 5.0),
    ("atomicCAS(&number, 5, 9)", 7.0),
    ("atomicExch(&number, 3)", 7.0),
    ("atomicAdd(&number, -5)", 3.0),
    ("number", -2.0),
    ("atomicExch(&single, 2.5f)", 0.5),
    ("atomicAdd(&single, 1.5f)", 2.5),
    ("single", 4.0),
    ("atomicAdd(&term, T(1))", 0.5),
    ("__ldg(&x.data[0]) + term", 2.0),
)


def kernel(name: str, before: str, expressions: Iterable[str]) -> str:
    """Return a kernel of one state in each thread, whose results are the expressions."""
    lines = (f"    y[state][{k}] = T({text});\n" for k, text in enumerate(expressions))
    return f"""\
template <class T>
__global__ void {name}_kernel(Strided<T> x, Strided<T> y, long long n) {{
    const long long state = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (state >= n) return;
{before}{"".join(lines)}}}
"""


def calls(suffix: str) -> list[str]:
    return [f"{name}{suffix}({', '.join(given)})" for name, (given, _) in FUNCTIONS.items()]


STATE = "    const T a = x[state][0], b = x[state][1], c = x[state][2];\n"
TEXT = f"""\
#include "gridgen_math.cuh"

namespace toy {{

using gridgen::Strided;

{kernel("functions", STATE, calls(""))}
{kernel("single_functions", STATE, calls("f"))}
{kernel("statements", BEFORE, (text for text, _ in STATEMENTS))}
}}  // namespace toy
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", ["functions", "single_functions"])
def test_functions_are_those_of_python(
    cache: BuildCache, function: str, dtype: type[np.floating[Any]]
) -> None:
    x = STATES.astype(dtype)
    y = np.zeros((len(x), len(FUNCTIONS)), dtype)
    call(cache, function, [x, y], Launch(128, 128), text=TEXT)
    precision = np.finfo(np.float32 if function == "single_functions" else dtype).eps
    for name, (given, expected), results in zip(FUNCTIONS, FUNCTIONS.values(), y.T, strict=True):
        columns = STATES[:, ["abc".index(letter) for letter in given]]
        values = [expected(*map(float, row)) for row in columns]
        assert_allclose(results, values, rtol=4 * precision, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_statements_have_the_values_they_have_on_a_gpu(
    cache: BuildCache, dtype: type[np.floating[Any]]
) -> None:
    x, y = np.full((1, 1), 0.5, dtype), np.zeros((1, len(STATEMENTS)), dtype)
    call(cache, "statements", [x, y], Launch(1, 1), text=TEXT)
    for (text, expected), result in zip(STATEMENTS, y[0], strict=True):
        assert result == dtype(expected), text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", ["functions", "single_functions", "statements"])
def test_nvrtc_takes_the_same_text(cache: BuildCache, function: str, dtype: Any) -> None:
    pytest.importorskip("cupy")
    from gridgen.backends.cuda.compiler import compile_kernel

    compile_kernel(sources(TEXT), function, dtype, "sm_90", cache)
