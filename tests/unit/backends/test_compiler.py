from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import sys

import pytest

from gridgen.backends.cache import FOLDER_VARIABLE
from gridgen.backends.cpu import compiler, processor
from gridgen.backends.cpu.compiler import COMPILER_VARIABLE, host_compiler
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
    with pytest.raises(CompileError, match=r"no C\+\+ compiler.*pip install ziglang"):
        host_compiler()


@pytest.mark.parametrize("named", ["no-such-compiler -O3", "/bin/false", "/bin/true"])
def test_a_compiler_variable_that_does_not_work_is_not_passed_over(monkeypatch, named):
    monkeypatch.setenv(COMPILER_VARIABLE, named)
    with pytest.raises(CompileError) as caught:
        host_compiler()
    assert f'$CXX is "{named}"' in str(caught.value)


def test_a_compiler_variable_that_is_no_command_is_explained(monkeypatch):
    monkeypatch.setenv(COMPILER_VARIABLE, 'g++ "')
    with pytest.raises(CompileError, match=r"""\$CXX is 'g\+\+ "', which is not a command"""):
        host_compiler()


def test_the_compiler_variable_may_hold_flags(counter, monkeypatch):
    monkeypatch.setenv(COMPILER_VARIABLE, f"{counter.script} -DX=1")
    assert host_compiler().command == (str(counter.script), "-DX=1")


def test_a_broken_compiler_on_the_path_is_passed_over(empty_path):
    script(empty_path / "c++", "exit 1")
    script(empty_path / "g++", 'echo "#define __cplusplus 1"')
    assert host_compiler().command == (str(empty_path / "g++"),)


@pytest.mark.parametrize(("refused", "native"), [("no", ("-march=native",)), ("-march=native", ())])
def test_a_compiler_without_flags_for_this_processor_gets_none(empty_path, refused, native):
    """GCC for RISC-V rejects ``-march=native``."""
    tries = f'for word; do [ "$word" = {refused} ] && exit 1; done; echo "#define __cplusplus 1"'
    script(empty_path / "g++", tries)
    assert host_compiler().native == native


def test_the_zig_wheel_is_the_last_resort(empty_path, monkeypatch):
    script(empty_path / "zig", 'echo "#define __cplusplus 1"')
    wheel = importlib.machinery.ModuleSpec("ziglang", None, origin=str(empty_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: wheel)
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


@pytest.fixture
def asked(empty_path, monkeypatch):
    """Put programs on the path that stand for compilers; return the commands that were asked."""
    for name in ("c++", "ccache"):
        shutil.copy(sys.executable, empty_path / name)  # no script
    commands = []

    def probe(command):
        commands.append(command)
        return f"identity {len(commands)}"

    monkeypatch.setattr(compiler, "_probe", probe)
    return commands


def identities(count: int) -> list[str]:
    """Return what as many processes find."""
    found = []
    for _ in range(count):
        compiler._find_compiler.cache_clear()
        found.append(host_compiler().identity)
    return found


def test_a_compiler_is_asked_once_for_all_processes(asked):
    assert identities(3) == ["identity 1"] * 3
    assert len(asked) == 1


def test_a_replaced_compiler_is_asked_again(asked, empty_path):
    file = empty_path / "c++"
    identities(1)
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert identities(2) == ["identity 2"] * 2
    with file.open("ab") as stream:
        stream.write(b"x")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert identities(2) == ["identity 3"] * 2
    shutil.copy(file, empty_path / "another")
    file.unlink()
    file.symlink_to(empty_path / "another")
    assert identities(2) == ["identity 4"] * 2


def test_another_processor_with_the_same_home_asks_again(asked, tmp_path, monkeypatch):
    processors = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "PROCESSORS", processors)
    for flags, expected in (("fpu avx2", 1), ("fpu avx2", 1), ("fpu", 2), ("fpu avx2", 1)):
        processors.write_text(f"cpu MHz\t: {len(asked)}\nflags\t: {flags}\n\nflags\t: other\n")
        assert identities(1) == [f"identity {expected}"]


@pytest.mark.parametrize("text", [None, "", "processor : 0\n\n"])
def test_where_the_system_tells_no_processor_every_process_asks(asked, tmp_path, monkeypatch, text):
    monkeypatch.setattr(processor, "PROCESSORS", tmp_path / "cpuinfo")
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    assert len(set(identities(3))) == 3


@pytest.mark.parametrize("named", ["ccache", "c++ other", "script"])
def test_what_starts_another_compiler_is_asked_by_every_process(
    asked, empty_path, monkeypatch, named
):
    script(empty_path / "script", "exec c++ $*")
    monkeypatch.setenv(COMPILER_VARIABLE, named)
    assert len(set(identities(2))) == 2


def test_flags_beside_the_compiler_are_part_of_what_is_kept(asked, monkeypatch):
    found = []
    for named in ("c++ -m32", "c++ -m32", "c++"):
        monkeypatch.setenv(COMPILER_VARIABLE, named)
        found += identities(1)
    assert found == ["identity 1", "identity 1", "identity 2"]


def test_a_cache_that_cannot_be_used_costs_only_the_question(asked, tmp_path, monkeypatch):
    folder = tmp_path / "a file"
    folder.write_text("")
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    assert identities(2) == ["identity 1", "identity 2"]
