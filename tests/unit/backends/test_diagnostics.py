from __future__ import annotations

from pathlib import Path

import pytest

from gridgen.backends.process import compile_error, numbered_lines

FILES = {"toy.cuh": "one\ntwo\nthree\nfour\n", "toy.cu": "alpha\nbeta\n"}


def message(log: str, status: int = 1) -> str:
    return str(
        compile_error(
            robot="toy",
            function="evaluate (float32)",
            compiler="c++",
            log=log,
            files=FILES,
            keep=lambda files: Path("/kept/here"),
            status=status,
        )
    )


@pytest.mark.parametrize(
    "log",
    [
        "In file included from unit.cpp:1:\n/tmp/x/toy.cuh:3:14: error: 'y' was not declared\n",
        "toy.cuh(3): error: 'y' was not declared\n",
        "toy.cuh(3): error #20-D: 'y' was not declared\nother.cuh(9): error: next\n",
        "/tmp/x/toy.cuh:3:14: fatal error: 'y' was not declared\n",
        "toy.cuh(3): catastrophic error: 'y' was not declared\n",
    ],
)
def test_the_first_error_is_shown_with_its_source(log):
    assert message(log) == (
        'robot "toy", function evaluate (float32): c++ rejected the generated code: '
        "toy.cuh:3: 'y' was not declared\n"
        "      2 | two\n"
        ">     3 | three\n"
        "      4 | four\n"
        "The source is saved in /kept/here. This is a bug in gridgen, please report it."
    )


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("/usr/bin/ld: note\nld: error: no symbol f\n", "code: ld: error: no symbol f\n"),
        ("", "code: no reason given\n"),
        ("elsewhere.h:7:1: error: odd\n", "code: elsewhere.h:7: odd\nThe source"),
    ],
)
def test_an_error_without_a_known_place_is_still_shown(log, shown):
    assert shown in message(log)


@pytest.mark.parametrize(
    ("log", "status"),
    [
        ("", -9),
        ("", 137),
        ("\n  killed \n", 1),
        ("c++: fatal error: Killed signal terminated program cc1plus\n", 1),
        ("clang: error: unable to execute command: Killed\n", -9),
        ("cc1plus: out of memory allocating 65536 bytes\n", 1),
        ("LLVM ERROR: out of memory\n", -6),
    ],
)
def test_a_compiler_without_memory_is_no_bug(log, status):
    said = message(log, status)
    assert "c++ ended because memory ran out (" in said
    assert "smaller longest_program" in said
    assert "bug" not in said


def test_the_signal_of_a_compiler_that_crashed_is_named():
    assert "c++ ended by signal SIGSEGV" in message("", -11)


def test_numbered_lines_at_the_ends_of_a_text():
    assert numbered_lines("a\nb\nc", 1) == ">     1 | a\n      2 | b\n"
    assert numbered_lines("a\nb\nc", 3) == "      2 | b\n>     3 | c\n"
    assert numbered_lines("a\nb\nc", 4) == ""
