from __future__ import annotations

import importlib.util
import os
import sys

import pytest

from gridgen.backends import compiler
from gridgen.backends.compiler import COMPILER_VARIABLE, host_compiler
from gridgen.errors import CompileError


@pytest.fixture(autouse=True)
def forget():
    compiler._find_compiler.cache_clear()
    yield
    compiler._find_compiler.cache_clear()


@pytest.fixture
def empty_path(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.delenv(COMPILER_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def script(path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_without_any_compiler_the_error_says_what_to_install(empty_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match=r"no C\+\+ compiler.*'grid-gen\[zig\]'"):
        host_compiler()


@pytest.mark.parametrize("named", ["no-such-compiler -O3", "/bin/false", "/bin/true"])
def test_a_compiler_variable_that_does_not_work_is_not_passed_over(monkeypatch, named):
    monkeypatch.setenv(COMPILER_VARIABLE, named)
    with pytest.raises(CompileError) as caught:
        host_compiler()
    assert f'$CXX is "{named}"' in str(caught.value)


def test_the_compiler_variable_may_hold_flags(counter, monkeypatch):
    monkeypatch.setenv(COMPILER_VARIABLE, f"{counter.script} -DX=1")
    assert host_compiler().command == (str(counter.script), "-DX=1")


def test_a_broken_compiler_on_the_path_is_passed_over(empty_path):
    script(empty_path / "c++", "exit 1")
    script(empty_path / "g++", 'echo "#define __cplusplus 1"')
    assert host_compiler().command == (str(empty_path / "g++"),)


def test_the_zig_wheel_is_the_last_resort(empty_path, monkeypatch):
    script(empty_path / "zig", 'echo "#define __cplusplus 1"')
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(sys, "executable", str(empty_path / "zig"))
    found = host_compiler()
    assert found.command[1:] == ("-m", "ziglang", "c++")
    assert "-nostdlib++" in found.flags


def test_the_identity_names_version_and_processor(empty_path):
    identities = set()
    for i, macro in enumerate(['__VERSION__ "1"', '__VERSION__ "2"', "__AVX512F__ 1"]):
        script(empty_path / "c++", f"echo '#define __cplusplus 1'; echo '#define {macro}'")
        os.environ["PATH"] += os.pathsep + str(i)  # asked anew when the environment changes
        identities.add(host_compiler().identity)
    assert len(identities) == 3
