"""What is counted of machine code, and how runs are compared."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from disassembly import Counts, counted, executable_bytes
from programs import FIGURES, mean_ratio, ratio, ratios, tables

# A function with a frame and a path behind its return, a part without, and one that is not counted.
DISASSEMBLY = """
kernel.so:     file format elf64-x86-64

Disassembly of section .text:

0000000000001000 <void arm::f<float __vector(16), Out<float, &arm::t> >(float __vector(16)*)>:
    1000:\t55                   \tpush   %rbp
    1001:\t48 89 e5             \tmov    %rsp,%rbp
    1004:\t62 f1 7c 48 28 07    \tvmovaps (%rdi),%zmm0
    100a:\t62 f1 7d 48 7f ad 10 f9 ff ff \tvmovdqa32 %zmm5,-0x6f0(%rbp)
    1014:\t62 f2 7d 48 18 15 07 2d 00 00 \tvbroadcastss 0x2d07(%rip),%zmm2        # 3d28 <x(%rsp)>
    101e:\t62 f1 7c 49 29 44 24 01 \tvmovaps %zmm0,0x40(%rsp){%k1}
    1026:\t62 f1 7c 48 28 4c 24 01 \tvmovaps 0x40(%rsp,%rax,4),%zmm1
    102e:\t62 f2 7d 48 b8 4d fe \tvfmadd231ps -0x80(%rbp),%zmm0,%zmm1
    1035:\t62 f2 7d 58 bc 4d fe \tvfnmadd231ps -0x80(%rbp){1to16},%zmm0,%zmm1
    103c:\tc3                   \tret
    103d:\t62 f1 7c 48 29 95 d0 fe ff ff \tvmovaps %zmm2,-0x130(%rbp)
    1047:\teb bb                \tjmp    1004 <void arm::f<float>(float*)+0x4>

0000000000001050 <void arm::f_part_1<float __vector(16)>(float __vector(16)*)>:
    1050:\tc5 f8 29 45 00       \tvmovaps %xmm0,0x0(%rbp)
    1055:\tc5 f8 29 04 24       \tvmovaps %xmm0,(%rsp)
    105a:\tc3                   \tret
    105b:\t0f 1f 44 00 00       \tnopl   0x0(%rax,%rax,1)

0000000000001060 <gridgen::Result<float, 7, &arm::simd::f_tau, 7>::store(gridgen::Array const&)>:
    1060:\tc5 f8 29 04 24       \tvmovaps %xmm0,(%rsp)
    1065:\tc3                   \tret
"""


def test_machine_code_is_counted():
    assert counted(DISASSEMBLY, "arm") == Counts(
        code_bytes=73 + 11,
        vector=8 + 2,
        fused=2,
        stack_stores=2 + 1,
        stack_loads=1,
        stack_operands=2,
    )
    assert counted(DISASSEMBLY, "ar") == Counts()


def test_executable_sections_are_measured():
    """The header of an ELF64 file, then three headers of sections, one of them of code."""
    table = b"".join(
        struct.pack("<IIQQQQ24x", 0, 1, flags, 0, 0, size)
        for flags, size in ((0, 5), (2 | 4, 0x14400), (2, 7))
    )
    image = struct.pack("<40xQ10xHH2x", 64, 64, 3) + table
    assert executable_bytes(image) == 0x14400


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        (3, 4, "0.75"),
        (4, 4, "="),
        (1200, 0, "0 to 1,200"),
        (4, None, ""),
        (None, 4, ""),
        (0, 0, "="),
    ],
)
def test_a_figure_is_compared(new, old, text):
    assert ratio(new, old) == text


def test_means_are_geometric():
    assert mean_ratio([(2, 1), (1, 2), (0, 3), (None, 1)]) == "1.000"
    assert mean_ratio([(0, 0)]) == ""


def test_tables_show_what_was_measured():
    key = {"function": "f", "dtype": "float32"}
    rows = [
        {"robot": "a", **key, "instructions": 1000, "ns": 12.34},
        {"robot": "b", **key, "ns": 5.0},
    ]
    first, second = tables(rows)
    assert first.headings == ("", FIGURES["instructions"], FIGURES["ns"])
    assert first.lines == (("f", "1,000", "12.3"),)
    assert second.lines == (("f", "5.0"),)
    (compared,) = ratios(rows, [{"robot": "a", **key, "ns": 24.68}])
    assert compared.lines == (("f", "0.50"), ("geometric mean", "0.500"))
