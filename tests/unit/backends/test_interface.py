"""What a backend takes of a module's text."""

from __future__ import annotations

from gridgen.backends.interface import Sources

FILES = {
    "arm.cu": '#include "arm.cuh"\n',
    "arm.cuh": '#pragma once\n#include <cmath>\n#ifdef A\n  #  include "math.cuh"\n#endif\n',
    "arm_simd.h": '#include "call.h"\n#include "arm.cuh"\n',
    "call.h": '#\tinclude"math.cuh"\n',
    "math.cuh": '#include "arm.cuh"\n',  # a circle ends
    "model.json": '{"#include": "arm.cu"}',
}


def test_a_unit_takes_what_it_includes_and_nothing_else():
    sources = Sources("arm", FILES)
    gpu = sources.included_by('#include "elsewhere.h"\n#include "arm.cu"\n')
    assert sorted(gpu.files) == ["arm.cu", "arm.cuh", "math.cuh"]
    cpu = sources.included_by('#define X\n#include "arm_simd.h"\nint x;\n')
    assert sorted(cpu.files) == ["arm.cuh", "arm_simd.h", "call.h", "math.cuh"]
    assert cpu.files.items() <= FILES.items()
    assert sources.included_by("int x;").files == {}


def test_the_digest_of_a_unit_follows_its_files_alone():
    def digest(unit: str, **changes: str) -> str:
        files = FILES | {name.replace("__", "."): text for name, text in changes.items()}
        return Sources("arm", files).included_by(f'#include "{unit}"').digest

    assert digest("arm.cu") == digest("arm.cu", call__h="changed", arm_simd__h="changed")
    assert digest("arm.cu") != digest("arm.cu", math__cuh="changed")
    assert digest("arm_simd.h") != digest("arm_simd.h", call__h="changed")
    assert digest("arm.cu") != digest("arm_simd.h")


def test_units_with_the_same_includes_share_one_digest():
    sources = Sources("arm", FILES)
    first, second = (sources.included_by(f'#include "arm.cu"\nint x{i};') for i in range(2))
    assert first is second
