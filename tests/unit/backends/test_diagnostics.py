from __future__ import annotations

from pathlib import Path

import pytest

from gridgen.backends.diagnostics import compile_error, numbered_lines

FILES = {"toy.cuh": "one\ntwo\nthree\nfour\n", "toy.cu": "alpha\nbeta\n"}


def message(log: str) -> str:
    return str(
        compile_error(
            robot="toy",
            function="evaluate (float32)",
            compiler="c++",
            log=log,
            files=FILES,
            keep=lambda files: Path("/kept/here"),
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
        ("\n  killed \n", "code: killed\n"),
        ("", "code: no reason given\n"),
        ("elsewhere.h:7:1: error: odd\n", "code: elsewhere.h:7: odd\nThe source"),
    ],
)
def test_an_error_without_a_known_place_is_still_shown(log, shown):
    assert shown in message(log)


def test_numbered_lines_at_the_ends_of_a_text():
    assert numbered_lines("a\nb\nc", 1) == ">     1 | a\n      2 | b\n"
    assert numbered_lines("a\nb\nc", 3) == "      2 | b\n>     3 | c\n"
    assert numbered_lines("a\nb\nc", 4) == ""
