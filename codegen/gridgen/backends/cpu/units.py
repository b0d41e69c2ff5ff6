"""Translation units and compiler flags of the cpu backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from gridgen.backends.interface import SCALARS, only
from gridgen.functions.types import Dtype

# Generated code has no common subexpressions left: -O3 makes it 5 to 10 % faster and takes up to
# twice as long to compile. -fpeel-loops unrolls the short loops between batch and packs: twice as
# fast, since packs stay in registers. Clang unrolls them by default and ignores the flag.
LIBRARY_FLAGS = (
    "-O1",
    "-fpeel-loops",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility=hidden",
)
FLAGS = ("-std=c++17", *LIBRARY_FLAGS)

# Batches are divided at multiples of this number of states: whole SIMD packs and cache lines.
BLOCK = 64
#: The states that code is for: one, in scalar registers, or many, in SIMD packs. The results have
#: the same bits.
States: TypeAlias = Literal["one", "many"]
#: Symbol prefix of a unit with one function.
PREFIX = "gridgen"
#: Suffixes of C functions.
SUFFIXES: Mapping[Dtype, str] = {"float32": "f32", "float64": "f64"}


def symbol(robot: str, function: str, dtype: Dtype) -> str:
    """Return the symbol of a function in a robot's library."""
    return f"{robot}_{function}_{SUFFIXES[dtype]}"


def library_unit(robot: str, function: str, dtype: Dtype, *, is_over_time: bool) -> str:
    """Return the translation unit of one function in a robot's library, for C and Python.

    Args:
        robot:        identifier of the robot.
        function:     name of the function.
        dtype:        element type.
        is_over_time: whether the function is a rollout, which has no C interface.
    """
    unit = translation_unit(robot, function, dtype, None, symbol(robot, function, dtype))
    if is_over_time:
        return unit
    return f'{unit}\n#define GRIDGEN_ONLY_{SUFFIXES[dtype].upper()}\n#include "{robot}.cpp"\n'


def plain_unit(robot: str, function: str, dtype: Dtype) -> str:
    """Return the translation unit of a function of one state, ``gridgen_entry``, with no caller."""
    first, second = only(function)
    scalar = SCALARS[dtype]
    return f"""\
#define {first}
#define {second}
#include "{robot}_simd.h"

extern "C" __attribute__((visibility("default")))
bool {PREFIX}_entry(const gridgen::Array* arrays) {{
    return ::{robot}::simd::{function}<{scalar}, {scalar}>(arrays, 0, 1, 1);
}}
"""


def translation_unit(
    robot: str, function: str, dtype: Dtype, states: States | None, prefix: str = PREFIX
) -> str:
    """Return the translation unit that instantiates one function of a module.

    ``states`` is ``None`` for both codes: the number of states selects one.
    """
    kernel, scalar = f"::{robot}::simd::{function}", SCALARS[dtype]
    entry = f"{kernel}<{scalar}{f', {scalar}' * (states == 'one')}>(arrays, begin, end, batch)"
    if states is None:
        one = f"{kernel}<{scalar}, {scalar}>(arrays, begin, end, batch)"
        entry = f"(end - begin == 1 ? {one} : {entry})"
    traits = f"::{robot}::{function}_traits"
    first, second = only(function)
    return f"""\
#define {first}
#define {second}
#include "{robot}_simd.h"

#define GRIDGEN_EXPORT extern "C" __attribute__((visibility("default")))

GRIDGEN_EXPORT gridgen::Interpreter {prefix}_interpreter;
gridgen::Interpreter {prefix}_interpreter;

GRIDGEN_EXPORT void {prefix}_entry(const gridgen::Array* arrays, long long begin, long long end,
                                 long long batch) {{
    if (!{entry}) __builtin_trap();  // no memory
}}

GRIDGEN_EXPORT void {prefix}_take_parts(const gridgen::Array* arrays, gridgen::Share* share,
                                      long long batch) {{
    gridgen::take_parts(*share, [=](gridgen::int64 begin, gridgen::int64 end) {{
        {prefix}_entry(arrays, begin, end, batch);
    }});
}}

GRIDGEN_EXPORT void {prefix}_close(gridgen::Share* share) {{ gridgen::close(*share); }}

GRIDGEN_EXPORT int {prefix}_has_unit_quaternions(const gridgen::Array* arrays, long long begin,
                                                long long end) {{
    for (int i = 0; i < {traits}::configurations; ++i)
        if (!gridgen::has_unit_quaternions<{scalar}>(arrays[i], {traits}::quaternions, begin, end))
            return false;
    return true;
}}

GRIDGEN_EXPORT void {prefix}_check_parts(const gridgen::Array* arrays, gridgen::Share* share) {{
    gridgen::take_parts(*share, [=](gridgen::int64 begin, gridgen::int64 end) {{
        if (!{prefix}_has_unit_quaternions(arrays, begin, end))
            __atomic_store_n(&share->off, 1, __ATOMIC_RELAXED);
    }});
}}

GRIDGEN_EXPORT int* {prefix}_not_converged() {{ return &gridgen::not_converged; }}

GRIDGEN_EXPORT void* {prefix}_call(void*, void* const* objects, long long given) {{
    return gridgen::call<{scalar}, {traits}>(
        {prefix}_interpreter, {BLOCK}, objects, given);
}}
"""
