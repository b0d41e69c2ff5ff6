"""gridgen_math.cuh: accuracy, special values, equal bits everywhere, and what NVRTC makes of it."""

from __future__ import annotations

import subprocess

import mpmath
import numpy as np
import pytest

DTYPES = [np.float32, np.float64]
LIMIT = 1e4  # where the fast reduction ends
# Half an ulp each from rounding r and the result, the rest from u = r^2 and the polynomials. All
# floats of [2^-15, 1e4] were tried once: 1.54 at most.
MAX_ULP = 1.6
# Half an ulp each from the quotient, its divisor, the last sum and its part of pi: 2.1 were seen.
MAX_ANGLE_ULP = 2.4
MAX_POWER_ULP = 1.0  # 0.87 was seen

# The numbers of their type nearest to a multiple of pi/2 in proportion to their size.
NEAREST = {
    np.float32: np.float32(16367173 * 2.0**72),
    np.float64: np.float64(6381956970095103 * 2.0**797),
}


def random_bits(dtype: type, count: int, low: float, high: float) -> np.ndarray:
    """Numbers of both signs whose magnitudes spread evenly over the exponents of [low, high]."""
    rng = np.random.default_rng(3)
    exponents = rng.uniform(np.log2(low), np.log2(high), count)
    return (rng.choice([-1.0, 1.0], count) * np.exp2(exponents)).astype(dtype)


def near_multiples(dtype: type, largest: int) -> np.ndarray:
    """The numbers around multiples of pi/2, up to the given multiple."""
    multiples = np.random.default_rng(4).integers(-largest, largest, 1000, endpoint=True)
    with mpmath.workprec(200):
        exact = [int(k) * mpmath.pi / 2 for k in (*multiples, -2, -1, 1, 2)]
        nearest = np.array([float(value) for value in exact]).astype(dtype)
    above, below = np.nextafter(nearest, dtype(np.inf)), np.nextafter(nearest, dtype(-np.inf))
    return np.concatenate([nearest, above, below])


def samples(name: str, dtype: type) -> np.ndarray:
    largest = np.finfo(dtype).max
    if name == "uniform":
        return np.random.default_rng(1).uniform(-LIMIT, LIMIT, 6000).astype(dtype)
    if name == "small":
        return random_bits(dtype, 6000, 1e-12, 10)
    if name == "near multiples of pi/2":
        return near_multiples(dtype, int(LIMIT * 2 / np.pi))
    if name == "around the limit":
        return dtype(LIMIT) * np.linspace(0.999, 1.001, 2001).astype(dtype)
    if name == "huge":
        extreme = [largest, -largest, NEAREST[dtype], -NEAREST[dtype]]
        spread = random_bits(dtype, 4000, LIMIT, largest)
        return np.concatenate([spread, near_multiples(dtype, 10**6), np.array(extreme, dtype)])
    raise ValueError(name)


def ulps(got: np.ndarray, exact: list[mpmath.mpf]) -> np.ndarray:
    """The distances of got from the exact values, in units of the last place of the latter."""
    units = np.spacing(np.abs(np.array([float(value) for value in exact]).astype(got.dtype)))
    return np.array(
        [
            float(abs(mpmath.mpf(float(value)) - reference) / mpmath.mpf(float(unit)))
            for value, reference, unit in zip(got, exact, units, strict=True)
        ]
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", ["uniform", "small", "near multiples of pi/2", "around the limit", "huge"]
)
def test_sine_and_cosine_are_accurate(build_driver, name, dtype):
    x = samples(name, dtype)
    sine, cosine, _ = build_driver("fast").evaluate(x)
    with mpmath.workprec(160):
        exact = [mpmath.cos_sin(mpmath.mpf(float(value))) for value in x]
        for got, column in ((cosine, 0), (sine, 1)):
            errors = ulps(got, [pair[column] for pair in exact])
            worst = errors.argmax()
            assert errors[worst] <= MAX_ULP, f"{errors[worst]} ulp at {float(x[worst]).hex()}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_builds_without_fused_multiply_add_are_as_accurate(build_driver, dtype):
    x = np.concatenate([samples(name, dtype)[:1500] for name in ("uniform", "huge")])
    x = np.concatenate([x, samples("near multiples of pi/2", dtype)])
    sine, cosine, _ = build_driver("baseline").evaluate(x)
    with mpmath.workprec(160):
        exact = [mpmath.cos_sin(mpmath.mpf(float(value))) for value in x]
        assert ulps(cosine, [pair[0] for pair in exact]).max() <= MAX_ULP
        assert ulps(sine, [pair[1] for pair in exact]).max() <= MAX_ULP


def test_all_binades_of_float32_are_accurate(build_driver):
    # float64 of NumPy is exact enough a reference for float32, and fast enough for many numbers.
    bits = np.random.default_rng(5).integers(0x30000000, 0x461C4000, 1_000_000, dtype=np.uint32)
    x = bits.view(np.float32)
    sine, cosine, _ = build_driver("fast").evaluate(x)
    for got, exact in ((sine, np.sin(x.astype(float))), (cosine, np.cos(x.astype(float)))):
        unit = np.spacing(np.abs(exact).astype(np.float32))
        assert (np.abs(got - exact) / unit).max() <= MAX_ULP


@pytest.mark.parametrize("kind", ["scalar", "pack"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(driver, dtype, kind):
    info = np.finfo(dtype)
    tiny = np.array([0.0, info.smallest_subnormal, info.tiny / 3, info.tiny], dtype)
    x = np.concatenate([tiny, -tiny])
    sine, cosine, sign = driver.evaluate(x, kind)
    assert sine.tobytes() == x.tobytes()  # the sign of zero included
    assert cosine.tobytes() == np.ones_like(x).tobytes()
    expected = np.where(x == 0, x, np.copysign(dtype(1), x))
    assert sign.tobytes() == expected.tobytes()

    x = np.array([np.nan, np.inf, -np.inf, 2, -3], dtype)
    sine, cosine, sign = driver.evaluate(x, kind)
    assert np.isnan(sine).tolist() == np.isnan(cosine).tolist() == [True] * 3 + [False] * 2
    np.testing.assert_array_equal(sign, [np.nan, 1, -1, 1, -1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_the_build_or_the_pack(driver, build_driver, dtype):
    names = ("uniform", "small", "near multiples of pi/2", "around the limit", "huge")
    x = np.concatenate([samples(name, dtype) for name in names])
    packed = driver.evaluate(x)
    for one, other in zip(packed, driver.evaluate(x, "scalar"), strict=True):
        assert one.tobytes() == other.tobytes()
    reference = build_driver("uncontracted")
    if driver.fuses and reference.fuses:
        for one, other in zip(packed, reference.evaluate(x), strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("intruder", [np.nan, np.inf, 3e38, -2e4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_lanes_are_independent(driver, dtype, intruder):
    width = driver.width(dtype)
    x = np.random.default_rng(6).uniform(-20, 20, width).astype(dtype)
    undisturbed = np.array(driver.evaluate(x))
    for lane in range(width):
        disturbed = x.copy()
        disturbed[lane] = intruder
        results = np.array(driver.evaluate(disturbed))
        others = np.arange(width) != lane
        assert results[:, others].tobytes() == undisturbed[:, others].tobytes()
        alone = np.array(driver.evaluate(np.array([intruder], dtype), "scalar"))[:, 0]
        np.testing.assert_array_equal(results[:, lane], alone)


def vectors(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of all directions and lengths, and those where the way to the angle changes."""
    rng = np.random.default_rng(7)
    angles = [*rng.uniform(-np.pi, np.pi, 3000), *np.linspace(-np.pi, np.pi, 33)]
    angles += [k * np.pi / 8 + side for k in range(-8, 9) for side in (-1e-7, 1e-7)]
    angles += [*random_bits(dtype, 980, 1e-9, 1)]
    angles = np.array(angles[:4000])
    length = np.abs(random_bits(dtype, len(angles), 1e-15, 1e15)).astype(float)
    return (length * np.cos(angles)).astype(dtype), (length * np.sin(angles)).astype(dtype)


@pytest.mark.parametrize("build", ["fast", "baseline"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_roots_and_angles_are_accurate(build_driver, dtype, build):
    x, y = vectors(dtype)
    root, angle, chosen = build_driver(build).choose(x, y)
    np.testing.assert_array_equal(root, np.sqrt(np.abs(x)))
    np.testing.assert_array_equal(chosen, np.where(y < 0, x, dtype(2)))
    with mpmath.workprec(160):
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        exact = [mpmath.atan2(mpmath.mpf(b), mpmath.mpf(a)) for a, b in pairs]
        errors = ulps(angle, exact)
    worst = errors.argmax()
    assert errors[worst] <= MAX_ANGLE_ULP, f"{errors[worst]} ulp at {x[worst]}, {y[worst]}"


@pytest.mark.parametrize("kind", ["scalar", "pack"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_angles_of_special_vectors(driver, dtype, kind):
    x = np.array([0.0, -0.0, 0.0, -0.0, 1, -1, -1, 0, 0, np.nan, 1, 3, 3, 3, 3, 3], dtype)
    y = np.array([0.0, 0.0, -0.0, -0.0, 0, 0, -0.0, 2, -2, 0, np.nan, 4, 4, 4, 4, 4], dtype)
    with np.errstate(invalid="ignore"):
        expected = np.arctan2(y, x)
    _, angle, chosen = driver.choose(x, y, kind)
    np.testing.assert_allclose(angle, expected, rtol=2 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.signbit(angle)[:9], np.signbit(expected)[:9])
    assert chosen[10] == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_roots_and_angles_have_the_same_bits_everywhere(driver, build_driver, dtype):
    x, y = vectors(dtype)
    packed = driver.choose(x, y)
    others = [driver.choose(x, y, "scalar")]
    if driver.fuses and build_driver("uncontracted").fuses:
        others.append(build_driver("uncontracted").choose(x, y))
    for other in others:
        for one, results in zip(packed, other, strict=True):
            assert one.tobytes() == results.tobytes()


def powers(dtype: type) -> np.ndarray:
    """Numbers of all sizes, those whose power is not normal, and those with logarithms near 0."""
    rng, lowest = np.random.default_rng(8), 150 if dtype == np.float32 else 1100
    info = np.finfo(dtype)
    sizes = np.abs(random_bits(dtype, 2000, info.smallest_subnormal, info.max)).astype(dtype)
    exponents = np.log(2.0) * rng.uniform(-lowest, 128, 3000)
    near_one = 1.0 + random_bits(dtype, 1000, info.eps, 0.5)
    return np.concatenate([sizes, exponents, near_one]).astype(dtype)


@pytest.mark.parametrize("build", ["fast", "baseline"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_and_logarithms_are_accurate(build_driver, dtype, build):
    x = powers(dtype)
    power, logarithm = build_driver(build).power(x)
    for got, function, where in (
        (power, mpmath.exp, np.abs(x) < np.log(np.finfo(dtype).max)),
        (power, mpmath.exp, (x > -1000) & (x < -80)),
        (logarithm, mpmath.log, x > 0),
    ):
        with mpmath.workprec(160):
            errors = ulps(got[where], [function(mpmath.mpf(float(b))) for b in x[where]])
        worst = errors.argmax()
        assert errors[worst] <= MAX_POWER_ULP, f"{errors[worst]} ulp at {x[where][worst]}"


@pytest.mark.parametrize("kind", ["scalar", "pack"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_and_logarithms_of_special_numbers(driver, dtype, kind):
    largest = np.finfo(dtype).max
    x = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, largest, -largest, 89.0, -105.0, 711, -800]
    x = np.array([*x, np.e, 4, 5], dtype)
    power, logarithm = driver.power(x, kind)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(power, np.exp(x), rtol=2 * np.finfo(dtype).eps)
        np.testing.assert_allclose(logarithm, np.log(x), rtol=2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_and_logarithms_have_the_same_bits_everywhere(driver, build_driver, dtype):
    x = powers(dtype)
    found = [driver.power(x), driver.power(x, "scalar")]
    if driver.fuses and build_driver("uncontracted").fuses:
        found.append(build_driver("uncontracted").power(x))
    assert len({np.array(results).tobytes() for results in found}) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_reach_every_lane(driver, dtype):
    expected = np.repeat(np.array([[-0.0], [0.75]], dtype), driver.width(dtype), axis=1)
    assert driver.constants(dtype).tobytes() == expected.tobytes()


@pytest.mark.parametrize("build", ["fast", "clang"])
def test_no_header_of_the_host_is_needed(compiler, headers, build, tmp_path):
    source = tmp_path / "alone.cpp"
    source.write_text('#include "gridgen_simd.h"\n')
    command = [*compiler(build), "-std=c++17", "-nostdinc", "-nostdinc++", "-I", str(headers)]
    command += ["-c", str(source), "-o", str(tmp_path / "alone.o")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


KERNEL = """
#include "gridgen_math.cuh"
using T = SCALAR;
extern "C" __global__ void kernel(gridgen::Strided<const T> q, gridgen::Strided<T> out, int size) {
    const int state = blockIdx.x * blockDim.x + threadIdx.x;
    if (state >= size) return;
    T sine[7], cosine[7];
    for (int j = 0; j < 7; ++j) gridgen::sincos(q[state][j], sine[j], cosine[j]);
    for (int j = 0; j < 7; ++j)
        out[state][j] = sine[j] * cosine[(j + 1) % 7] + gridgen::sign(sine[(j + 2) % 7]);
}
"""


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("scalar", ["float", "double"])
def test_nvrtc_keeps_seven_joints_in_registers(headers, scalar, architecture):
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="NVRTC comes with CuPy")
    header = (headers / "gridgen_math.cuh").read_bytes()
    program = nvrtc.createProgram(KERNEL, "kernel.cu", [header], [b"gridgen_math.cuh"])
    options = ["--std=c++17", f"-DSCALAR={scalar}", f"--gpu-architecture={architecture}"]
    try:
        nvrtc.compileProgram(program, [*options, "--ptxas-options=-v"])
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    log = nvrtc.getProgramLog(program)
    assert "warning" not in log
    usage = [line for line in log.splitlines() if "stack frame" in line]
    assert len(usage) == 2, log  # the kernel and the reduction of large angles
    for line in usage:
        assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in line
