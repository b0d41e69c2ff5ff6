"""gridgen_bodies.cuh computes what gridgen.dynamics does, in no more instructions than it did."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest

from gridgen.schedules.team.bodies import BODIES_FILE, bodies_text, operator_view
from gridgen.schedules.team.operators import OPERATORS, Operator, build, flat

#: Instructions of each: who needs more has a reason.
MAX_INSTRUCTIONS = {
    "dot(Vector, Vector)": 3,
    "dot(Spatial, Spatial)": 6,
    "turn_add(Matrix, Vector, Vector)": 9,
    "rotated_back(Matrix, Spatial)": 18,
    "ad_add(Spatial, Spatial, Spatial)": 18,
    "compose(Placement, Placement)": 36,
    "spun(Placement, T, T)": 12,
    "slid(Placement, T)": 3,
    "freed(Placement, Vector, Vector, T)": 54,
    "to_body(Placement, Spatial)": 24,
    "to_ancestor(Placement, Spatial)": 24,
    "wrench(Mass, Spatial)": 24,
    "motion_wrench(Mass, Spatial, Spatial)": 66,
    "to_ancestor(Placement, Mass)": 72,
    "accelerate(Mobility, Spatial)": 24,
    "mobility(Mass)": 35,
    "articulated(Mass)": 0,
    "to_ancestor(Placement, Articulated)": 186,
    "across_joint(Articulated, Spatial, Spatial)": 21,
    "let_go(Articulated, Spatial)": 258,
    "solve(Articulated, Spatial, Spatial)": 98,
    "lever(Placement)": 18,
    "origin_drift(Placement, Vector, Vector)": 21,
    "change_by_velocity(Spatial, Spatial)": 15,
    "change_by_position(Spatial, Spatial, Spatial)": 47,
    "answer(EffortRow, MotionChange)": 9,
    "rotated_wrench(Spatial, Spatial)": 18,
    "moving(Mass, Vector)": 35,
    "to_ancestor(Placement, Vector, MovingMass)": 156,
    "wrench(MovingMass, MotionChange)": 42,
    "effort_row(MovingMass, Spatial)": 42,
    "by_position(TurnedMass)": 9,
    "wrench_by_velocity(TurnedMass, Vector)": 21,
    "to_body(Placement, Vector, FromAbove)": 102,
    "from_below(FromAbove, MovingMass, Spatial, Vector)": 278,
    "to_ancestor(Placement, Vector, FromBelow)": 243,
    "turned_row(Spatial, Vector, FromBelow)": 57,
    "quadratic_row(Spatial, FromBelow)": 21,
}
# Whether a compiler may contract a product and a sum must make no difference.
BUILDS = {
    "contracted": ["-O3", "-march=native", "-ffp-contract=fast"],
    "uncontracted": ["-O2", "-march=native", "-ffp-contract=off"],
}


def signature(operator: Operator) -> str:
    return f"{operator.name}({', '.join(operator.operands.values())})"


def entry_point(number: int, operator: Operator) -> Iterator[str]:
    """Yield the lines of a function that takes operands and result as arrays."""
    yield f'extern "C" void call_{number}(const double* from, double* to) {{'
    for name, kind in operator.operands.items():
        yield f"    {kind.replace('T', 'double') if kind == 'T' else kind + '<double>'} {name};"
        yield f"    __builtin_memcpy(&{name}, from, sizeof {name});"
        yield f"    from += sizeof {name} / sizeof(double);"
    yield f"    const auto result = {operator.name}({', '.join(operator.operands)});"
    yield "    __builtin_memcpy(to, &result, sizeof result);"
    yield "}"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory, headers, compiler) -> dict[str, ctypes.CDLL]:
    """Every operator, compiled for the host by each of the builds."""
    folder = tmp_path_factory.mktemp("bodies")
    (folder / BODIES_FILE).write_text(bodies_text())
    lines = [f'#include "{BODIES_FILE}"', "using namespace gridgen::scan;"]
    for number, operator in enumerate(OPERATORS):
        lines += entry_point(number, operator)
    (folder / "driver.cpp").write_text("\n".join(lines) + "\n")
    loaded = {}
    for name, flags in BUILDS.items():
        library = folder / f"{name}.so"
        command = [*compiler(name), "-std=c++17", "-Wall", "-Wextra", "-Werror", *flags]
        command += ["-fPIC", "-shared", "-I", str(headers), "-I", str(folder)]
        command += [str(folder / "driver.cpp"), "-o", str(library)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        loaded[name] = ctypes.CDLL(str(library))
    return loaded


def drawn(operator: Operator) -> tuple[np.ndarray, list[object]]:
    """Return random operands, as an array and as gridgen.dynamics takes them."""
    rng = np.random.default_rng(len(operator.name))
    numbers: list[float] = []

    def number(_path: str) -> float:
        numbers.append(float(rng.uniform(0.5, 1.5) * rng.choice([-1.0, 1.0])))
        return numbers[-1]

    operands = [build(kind, name, number) for name, kind in operator.operands.items()]
    return np.array(numbers), operands


def called(library: ctypes.CDLL, operator: Operator, numbers: np.ndarray, size: int) -> np.ndarray:
    result = np.full(size, np.nan)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (numbers, result)]
    library[f"call_{OPERATORS.index(operator)}"](*pointers)
    return result


@pytest.mark.parametrize("operator", OPERATORS, ids=signature)
def test_an_operator_computes_what_the_algorithms_do(
    libraries: dict[str, ctypes.CDLL], operator: Operator
) -> None:
    numbers, operands = drawn(operator)
    expected = np.array([value for _, value in flat(operator.result, operator.function(*operands))])
    results = [called(library, operator, numbers, expected.size) for library in libraries.values()]
    np.testing.assert_allclose(results[0], expected, rtol=1e-12, atol=1e-12 * abs(expected).max())
    np.testing.assert_array_equal(results[0], results[1])


def test_no_operator_has_become_dearer() -> None:
    assert {signature(o): operator_view(o).instructions for o in OPERATORS} == MAX_INSTRUCTIONS
