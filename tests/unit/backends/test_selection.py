from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gridgen import backends
from gridgen.backends import TARGETS, available_backends, backend, target_for
from gridgen.backends.cpu.backend import CpuBackend
from gridgen.backends.cpu.compiler import COMPILER_VARIABLE
from gridgen.backends.cuda import backend as cuda_module
from gridgen.backends.cuda.backend import CudaBackend
from gridgen.errors import DeviceError, OptionError


@pytest.fixture(autouse=True)
def forget():
    backends._create.cache_clear()
    yield
    backends._create.cache_clear()


@pytest.fixture
def no_gpu(monkeypatch):
    def refuse():
        raise DeviceError("no GPU here")

    monkeypatch.setattr(cuda_module, "require_device", refuse)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(cuda_module, "require_device", lambda: None)


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv(COMPILER_VARIABLE, "no-such-compiler")


def test_auto_prefers_the_gpu(gpu):
    assert isinstance(backend(), CudaBackend)


def test_auto_is_the_cpu_without_a_gpu(no_gpu):
    assert isinstance(backend("auto"), CpuBackend)
    assert backend("cpu") is backend("auto")


def test_the_gpu_asked_for_by_name_must_be_there(no_gpu):
    with pytest.raises(DeviceError, match="no GPU here"):
        backend("cuda")


def test_an_unknown_name_is_refused():
    with pytest.raises(OptionError, match='backend is "gpu"; choose one of auto, cuda, cpu'):
        backend("gpu")


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_a_backend(name, gpu):
    kind = type(backend(name))
    assert f"{kind.__module__}:{kind.__name__}" == TARGETS[name].backend


def test_the_first_target_for_arrays():
    assert target_for("device") is target_for("device", teams=True) is TARGETS["cuda"]
    assert target_for("host") is TARGETS["cpu"]
    assert target_for("host", teams=True) is TARGETS["emulated"]


def test_what_is_available(gpu):
    assert available_backends() == ("cuda", "cpu", "emulated")


def test_what_is_available_without_a_gpu(no_gpu):
    assert available_backends() == ("cpu", "emulated")


def test_what_is_available_without_anything(no_gpu, no_compiler):
    assert available_backends() == ()


SILENT = """
import sys
sys.modules["cupy"] = None
import gridgen.backends.cpu.backend, gridgen.backends.cuda.backend
import gridgen.backends.cuda.compiler
for heavy in ("sympy", "lxml", "jinja2", "cupy_backends"):
    assert heavy not in sys.modules, heavy
"""


def test_importing_needs_neither_cupy_nor_a_compiler_and_prints_nothing():
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", SILENT],
        env={**os.environ, "PATH": "", "CXX": ""},
        capture_output=True,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
