"""Names: every text becomes a safe identifier, comment or message."""

from __future__ import annotations

import ast
import keyword
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gridgen.naming import (
    MAX_COMMENT,
    MAX_IDENT,
    MAX_SHOWN,
    comment,
    ident,
    robot_ident,
    show,
    similar,
    unique,
)

FRAGMENT = re.compile("[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")

HOSTILE = [
    "",
    " ",
    "_",
    "__init__",
    "__global__",
    "a__b",
    "_Upper",
    "1st",
    "42",
    "for",
    "None",
    "match",
    "int",
    "double",
    "template",
    "threadIdx",
    "std",
    "sin",
    "NULL",
    "con",
    "COM1",
    "left arm",
    "left-arm",
    "left/arm",
    "../../etc/passwd",
    "\u5de6\u8155",
    "caf\u00e9",
    "\u0430rm",
    "\u2163",
    "\ufb01nger",
    "a\nb",
    'x"); system("id"); //',
    "x */ int y; /*",
    "ends with a backslash\\",
    "??/",
    "????/",
    "?" * 50,
    "*/" * 50,
    "/*/" * 30,
    "/*/*/",
    "coding: nonsense",
    "coding=nonsense",
    "{{ robot }}",
    "%s%n{0}${HOME}`id`",
    '"""',
    "'''",
    "\0",
    "\x1b[31m",
    "\u202egnp",
    "\u2028",
    "\ud800",
    "x" * 100_000,
    "-" * 100_000,
    "\u00e9" * 1000,
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_an_identifier_is_one_in_both_languages(name: str) -> None:
    fragment = ident(name)
    assert FRAGMENT.fullmatch(fragment)
    assert len(fragment) <= MAX_IDENT + 2
    assert not keyword.iskeyword(fragment)
    assert not keyword.issoftkeyword(fragment)
    assert ident(fragment) == fragment


def test_an_identifier_resembles_its_name() -> None:
    expected = {
        "panda_link4": "panda_link4",
        "left arm": "left_arm",
        "Left--Arm.": "Left_Arm",
        "caf\u00e9": "cafe",
        "\ufb01nger": "finger",
        "for": "n_for",
        "1st": "n_1st",
        "std": "n_std",
        "Con": "n_Con",
        "\u5de6\u8155": "unnamed",
    }
    assert {name: ident(name) for name in expected} == expected


def test_a_robot_is_called_as_no_header_calls_anything() -> None:
    expected = {
        "arm7": "arm7",
        "UR5": "UR5",
        "go2": "go2",
        "T": "T",
        "simd": "simd",
        "for": "n_for",
        "link": "n_link",
        "cosf": "n_cosf",
        "clock_gettime": "n_clock_gettime",
        "int32_t": "n_int32_t",
        "float4": "n_float4",
        "cudaError": "n_cudaError",
        "atomicAdd": "n_atomicAdd",
        "gridgen_math": "n_gridgen_math",
        "GRIDGEN_DEVICE": "n_GRIDGEN_DEVICE",
        "Spatial": "n_Spatial",
    }
    assert {name: robot_ident(name) for name in expected} == expected
    assert ident("link") == "link"  # inside a longer symbol


@pytest.mark.parametrize("name", [*HOSTILE, "time", "dim3", "gridgen"], ids=ascii)
def test_a_robots_identifier_is_its_own(name: str) -> None:
    assert robot_ident(robot_ident(name)) == robot_ident(name)


def test_unique_identifiers_are_distinct_and_in_order() -> None:
    names = ["a b", "a-b", "a_b", "a.b", "a_b_2", "a_b", "c"]
    assert unique(names) == ("a_b_3", "a_b_4", "a_b", "a_b_5", "a_b_2", "a_b_6", "c")


def test_unique_identifiers_of_hostile_names() -> None:
    fragments = unique(HOSTILE * 2)
    assert len(set(fragments)) == len(HOSTILE) * 2
    assert all(FRAGMENT.fullmatch(fragment) for fragment in fragments)
    assert all(len(fragment) <= MAX_IDENT + 8 for fragment in fragments)
    assert unique(HOSTILE * 2) == fragments
    assert unique([]) == ()


def test_many_clashing_names_are_numbered_in_linear_time() -> None:
    fragments = unique(["\u5de6" * (1 + index) for index in range(20_000)])
    assert len(set(fragments)) == 20_000
    assert fragments[-1] == "unnamed_20000"


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_comment_is_one_line_of_inert_ascii(name: str) -> None:
    text = comment(name)
    assert len(text) <= MAX_COMMENT
    assert re.fullmatch("[ -~]*", text)
    for forbidden in ("\\", "*/", "/*", "??", '"', "coding:", "coding="):
        assert forbidden not in text


def random_texts(count: int) -> list[str]:
    generator = random.Random(7)
    alphabet = "?*/\\\"'\n a:=#{%-><\u00e9\x85\u2028"
    words = ["coding", "??/", "*/", "//", "/*", "\\\n", '"""']
    return [
        "".join(generator.choice([*alphabet, *words]) for _ in range(generator.randrange(1, 60)))
        for _ in range(count)
    ]


def test_no_text_makes_an_unsafe_comment() -> None:
    for name in random_texts(3000):
        text = comment(name)
        assert re.fullmatch("[ -~]*", text)
        assert not re.search(r'\\|\*/|/\*|\?\?|"|coding[:=]', text)


def test_a_comment_shows_ordinary_text_unchanged() -> None:
    assert comment("panda_link4 (left), 50% / 2 * 3 = ?") == "panda_link4 (left), 50% / 2 * 3 = ?"
    assert comment("\u0430\\") == "<U+0430><U+005C>"
    assert comment("x" * 200, 20) == "x" * 17 + "..."
    assert comment("x" * 20, 20) == "x" * 20


def test_comments_are_comments_to_python(tmp_path: Path) -> None:
    lines = [f"# {comment(name)}" for name in [*HOSTILE, *random_texts(200)]]
    for line in lines:
        assert ast.dump(ast.parse(f"{line}\nx = 1\n".encode())) == ast.dump(ast.parse("x = 1"))
    docstrings = "\n".join(f'"""{line[2:]}"""' for line in lines)
    assert len(ast.parse(docstrings).body) == len(lines)


def test_comments_and_identifiers_are_accepted_by_a_compiler(tmp_path: Path) -> None:
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    names = [*HOSTILE, *random_texts(200)]
    lines = [
        f"/* {comment(name)} */ int {fragment} = {index}; // {comment(name)}"
        for index, (name, fragment) in enumerate(zip(names, unique(names), strict=True))
    ]
    source = tmp_path / "names.cpp"
    source.write_text(
        "#include <cmath>\n#include <cstdio>\nnamespace robot {\n"
        + "\n".join(lines)
        + f"\nint sum() {{ return {' + '.join(unique(names))}; }}\n}}\n"
    )
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-trigraphs"]
    result = subprocess.run(
        [*command, "-fsyntax-only", str(source)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_identifiers_name_python_modules(tmp_path: Path) -> None:
    names = unique(HOSTILE)
    for name in names:
        (tmp_path / f"{name}.py").write_text("value = 1\n")
    assert len(list(tmp_path.iterdir())) == len(names)
    script = "\n".join(f"import {name}; assert {name}.value == 1" for name in names)
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_shown_name_is_printable_and_short(name: str) -> None:
    text = show(name)
    assert text.isprintable()
    assert text.startswith('"')
    assert len(text) <= 12 * MAX_SHOWN


def test_a_shown_name_is_the_name() -> None:
    assert show("panda_link4") == '"panda_link4"'
    assert show("\u5de6\u8155") == '"\u5de6\u8155"'
    assert show('a"b\\c\nd\u202e') == '"a\\"b\\\\c\\nd\\u202e"'
    assert show("x" * 1000) == f'"{"x" * 40}..." (1000 characters)'


def test_similar_names() -> None:
    names = ["panda_link1", "panda_link2", "gripper", "Wrist"]
    assert similar("pandalink1", names)[0] == "panda_link1"
    assert similar("wrist", names) == ("Wrist",)
    assert similar("xyz", names) == ()
    assert similar("panda_link1", []) == ()
    assert len(similar("link", [f"link{index}" for index in range(10)])) == 3


def test_similar_names_cost_little_for_long_ones() -> None:
    similar("x" * 1_000_000, ["y" * 1_000_000 for _ in range(100)])
