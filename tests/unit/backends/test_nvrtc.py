from __future__ import annotations

import struct
import sys
from dataclasses import replace

import pytest

from gridgen.backends.cuda import compiler as nvrtc
from gridgen.backends.cuda.compiler import compile_kernel, parse_resources, resource_report
from gridgen.errors import CompileError, GridGenWarning, InternalError, OptionError

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_resources_of_every_architecture(cupy, toy, arch):
    report = resource_report(toy, ["evaluate", "shuffle"], ["float32", "float64"], arch)
    assert [kernel.kernel for kernel in report] == [
        "toy::evaluate_kernel<float>",
        "toy::evaluate_kernel<double>",
        "toy::shuffle_kernel<float>",
        "toy::shuffle_kernel<double>",
    ]
    small, _, single, double = report
    assert {kernel.arch for kernel in report} == {arch}
    assert 8 <= small.registers <= 40
    assert (small.stack, small.shared_memory, small.spill_stores, small.spill_loads) == (0,) * 4
    assert (single.stack, single.shared_memory) == (160, 256)
    assert (double.stack, double.shared_memory) == (320, 512)


def test_an_image_holds_the_kernel_it_names(cupy, toy):
    compiled = compile_kernel(toy, "evaluate", "float32", "sm_90")
    assert compiled.image.startswith(b"\x7fELF")
    assert compiled.entry.encode() in compiled.image
    assert "evaluate_kernel" in compiled.entry


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_an_image_is_a_whole_file(cupy, toy, arch):
    image = compile_kernel(toy, "evaluate", "float32", arch).image
    programs, sections = struct.unpack_from("<QQ", image, 32)
    size, number, section_size, section_number = struct.unpack_from("<HHHH", image, 54)
    for place, each, count in ((programs, size, number), (sections, section_size, section_number)):
        assert count > 0
        assert place + each * count <= len(image)
    for i in range(section_number):
        kind, _, _, begin, length = struct.unpack_from("<IQQQQ", image, sections + i * 64 + 4)
        assert kind == 8 or begin + length <= len(image)  # 8: takes no room in the file
    for i in range(number):
        begin, _, _, length = struct.unpack_from("<QQQQ", image, programs + i * 56 + 8)
        assert begin + length <= len(image)
        (alignment,) = struct.unpack_from("<Q", image, programs + i * 56 + 48)
        assert alignment in (1, 4, 8, 16)


def test_an_image_that_is_whole_stays_as_it_is(cupy, toy):
    image = compile_kernel(toy, "evaluate", "float32", "sm_80").image
    assert nvrtc._complete(image) == image
    assert nvrtc._complete(image[:-1]) == image


def test_text_for_newer_devices(cupy, toy):
    compiled = compile_kernel(toy, "evaluate", "float32", "compute_90")
    assert b".target sm_90" in compiled.image
    assert f".entry {compiled.entry}(".encode() in compiled.image
    assert compiled.resources is None


def test_a_second_request_does_not_compile(cupy, toy, monkeypatch):
    first = compile_kernel(toy, "evaluate", "float32", "sm_80")
    monkeypatch.setattr(nvrtc, "_compile", None)
    assert compile_kernel(toy, "evaluate", "float32", "sm_80") == first


def test_a_cached_kernel_needs_no_compiler(cupy, toy, monkeypatch):
    first = compile_kernel(toy, "evaluate", "float32", "sm_80")

    def missing():
        raise CompileError("NVRTC is not usable")

    monkeypatch.setattr(nvrtc, "_nvrtc", missing)
    assert compile_kernel(toy, "evaluate", "float32", "sm_80") == first
    for dtype, arch in (("float64", "sm_80"), ("float32", "sm_90")):
        with pytest.raises(CompileError, match="not usable"):
            compile_kernel(toy, "evaluate", dtype, arch)


def test_a_refused_text_is_reported_with_its_source(cupy, toy, cache_folder):
    text = toy.files["toy.cu"].replace("if (i < n)", "if (i < m)")
    with pytest.raises(CompileError) as caught:
        compile_kernel(
            replace(toy, files={**toy.files, "toy.cu": text}), "evaluate", "float64", "sm_80"
        )
    first, *excerpt, last = str(caught.value).splitlines()
    assert first.startswith('robot "toy", function evaluate (float64, sm_80): NVRTC rejected')
    assert 'toy.cu:8: identifier "m" is undefined' in first
    assert excerpt[1] == ">     8 |     if (i < m) {"
    (kept,) = (cache_folder / "failed").iterdir()
    assert str(kept) in last


def test_an_absent_kernel_is_reported(cupy, toy):
    with pytest.raises(CompileError, match='"toy" has no member "nothing_kernel"'):
        compile_kernel(toy, "nothing", "float64", "sm_80")


def test_warnings_are_not_hidden(cupy, toy):
    text = toy.files["toy.cu"].replace("if (i < n)", "int unused;\n    if (i < n)")
    with pytest.warns(GridGenWarning, match='"unused" was declared but never referenced'):
        compile_kernel(
            replace(toy, files={**toy.files, "toy.cu": text}), "evaluate", "float64", "sm_80"
        )


@pytest.mark.parametrize("arch", ["90", "sm_", "sm_999", "sm_90; rm", ""])
def test_an_unknown_architecture_is_refused(cupy, toy, arch):
    with pytest.raises(OptionError, match=r"this NVRTC compiles for .*sm_90"):
        compile_kernel(toy, "evaluate", "float32", arch)


def test_resources_of_text_for_newer_devices_are_unknown(toy):
    with pytest.raises(OptionError, match="compute_90"):
        resource_report(toy, ["evaluate"], ["float32"], "compute_90")


def test_without_cupy_the_error_says_what_to_install(toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(CompileError, match=r"pip install 'cupy-cuda12x>=14' "):
        compile_kernel(toy, "evaluate", "float32", "sm_90")


# The two layouts met: one line for each function with the program's name, or indented below it.
PREFIXED = """\
ptxas info    : 0 bytes gmem, 24 bytes cmem[3]
ptxas info    : Compiling entry function 'kernel_name' for 'sm_80'
ptxas info    : Function properties for kernel_name
ptxas         .     160 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 160 bytes cumulative stack size, \
256 bytes smem, 408 bytes cmem[0]
ptxas info    : Compile time = 30.438 ms
"""
INDENTED = """\
ptxas info    : 0 bytes gmem, 24 bytes cmem[3]
ptxas info    : Compiling entry function 'kernel_name' for 'sm_80'
ptxas info    : Function properties for kernel_name
    160 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for slow_path
    40 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 64 registers, 256 bytes smem, 408 bytes cmem[0]
"""


@pytest.mark.parametrize("log", [PREFIXED, INDENTED])
def test_layouts_of_the_assemblers_log(log):
    found = parse_resources(log, "toy::k<float>", "kernel_name", "sm_80")
    assert found == nvrtc.KernelResources("toy::k<float>", "sm_80", 64, 12, 16, 160, 256, 432)


@pytest.mark.parametrize("log", ["", PREFIXED.replace("kernel_name", "x"), PREFIXED * 2])
def test_a_log_that_does_not_report_the_kernel_is_an_error(log):
    with pytest.raises(InternalError, match="does not report the kernel toy::k<float>"):
        parse_resources(log, "toy::k<float>", "kernel_name", "sm_80")
