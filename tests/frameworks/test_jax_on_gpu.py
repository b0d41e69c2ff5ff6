"""What XLA launches on a GPU, on a driver that runs NVRTC's PTX on the host.

JAX's CPU calls the handler that is made for GPUs. Shown is everything up to the driver: which
kernel, how it is launched, its parameters, the stream; the driver's functions are those of this
file.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.interpreters import mlir

import gridgen
from fake_gpu.ptx.executable import PtxLibrary
from frameworks.jax_for_tests import SUBJECTS, case
from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import shared_library
from gridgen.backends.interface import Sources
from gridgen.frameworks.jax import cpu, cuda, operations, primitive
from gridgen.robot import open_module
from gridgen.runtime.calls import compiled
from numerics.robots import load_robot, urdf_path

pytest.importorskip("cupy", reason="NVRTC comes with it")

STREAM = 0x5
_WORD = ctypes.sizeof(ctypes.c_void_p)
_OUT = ctypes.POINTER(ctypes.c_void_p)
_FAILED = 700


class Driver:
    """The functions of the driver that the handler calls, and what it has called them with."""

    def __init__(self) -> None:
        self.context = 1
        self.fails: set[str] = set()
        self.loads: list[int] = []
        self.launches: list[tuple[int, ...]] = []
        self._libraries: list[PtxLibrary] = []
        self._names: dict[int, tuple[PtxLibrary, str]] = {}
        pointer, number, text = ctypes.c_void_p, ctypes.c_uint, ctypes.c_char_p
        kinds: list[tuple[Any, ...]] = [
            (self.get_context, _OUT),
            (self.load, _OUT, text),
            (self.find, _OUT, pointer, text),
            (self.set_attribute, pointer, ctypes.c_int, ctypes.c_int),
            (self.launch, pointer, *7 * (number,), pointer, pointer, pointer),
            (self.name, ctypes.c_int, ctypes.POINTER(text)),
        ]
        self._kept = [ctypes.CFUNCTYPE(ctypes.c_int, *types)(one) for one, *types in kinds]
        found = [ctypes.cast(function, pointer).value for function in self._kept]
        self.addresses = (pointer * len(found))(*found)

    def get_context(self, out: Any) -> int:
        out[0] = self.context
        return 0

    def load(self, out: Any, image: bytes) -> int:
        if "load" in self.fails:
            return _FAILED
        self.loads.append(self.context)
        self._libraries.append(PtxLibrary(image.decode()))
        out[0] = len(self._libraries)
        return 0

    def find(self, out: Any, module: int, entry: bytes) -> int:
        out[0] = function = 100 + len(self._names)
        self._names[function] = self._libraries[module - 1], entry.decode()
        return 0

    def set_attribute(self, function: int, attribute: int, value: int) -> int:
        return 0

    def launch(self, function: int, *given: Any) -> int:
        x, y, z, threads, *ones, shared, stream, parameters, extra = given
        assert (y, z, *ones, parameters) == (1, 1, 1, 1, None)
        words = (ctypes.c_void_p * 5).from_address(extra)
        assert (words[0], words[2], words[4]) == (1, 2, None)
        size = ctypes.c_size_t.from_address(words[3]).value
        packed = ctypes.string_at(words[1], size)
        arrays = [packed[at : at + 3 * _WORD] for at in range(0, size - _WORD, 3 * _WORD)]
        self.launches.append((x, threads, shared, stream))
        library, entry = self._names[function]
        library.launch(entry, x, threads, shared, [*arrays, packed[-_WORD:]])
        return 0

    def name(self, status: int, out: Any) -> int:
        out[0] = b"CUDA_ERROR_ILLEGAL_ADDRESS"
        return 0


def stand_in(folder: Path) -> ctypes.CDLL:
    """Return the handler that says which stream a call is on."""
    unit = Path(__file__).with_name("xla_stream.cpp").read_text()
    interface = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text()
    files = Sources("gridgen", {"xla_ffi_c_api.h": interface})
    path = shared_library(files, "a handler", unit, ("-std=c++17",), BuildCache())
    return ctypes.CDLL(shutil.copy(path, folder / "stream.so"))


@pytest.fixture(params=["compute_75", "compute_90"])
def driver(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Driver]:
    """JAX's CPU as a GPU with this driver, for which kernels park values or not."""
    pretended = Driver()
    there = operations.handler("gridgen_copied", cuda._HANDLER[1], "cpu")._name
    own = ctypes.CDLL(shutil.copy(there, tmp_path / "cuda.so"))
    between = stand_in(tmp_path)
    ctypes.c_void_p.in_dll(between, "handler").value = ctypes.cast(
        own.gridgen_call, ctypes.c_void_p
    ).value
    ctypes.c_void_p.in_dll(between, "stream").value = STREAM
    name = f"gridgen_cuda_{id(pretended)}"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(between.on_stream), platform="cpu")
    monkeypatch.setattr(cuda, "_architecture", lambda: request.param)
    monkeypatch.setattr(cuda, "_driver", lambda: pretended.addresses)
    monkeypatch.setattr(cuda, "handler", lambda *_: own)
    monkeypatch.setattr(cuda, "_COMPILED", {})
    lowered = primitive._lowering(cuda.TARGET._replace(name=name))
    jax.clear_caches()
    mlir.register_lowering(primitive.call_p, lowered, platform="cpu")
    yield pretended
    mlir.register_lowering(primitive.call_p, primitive._lowering(cpu.TARGET), platform="cpu")
    jax.clear_caches()
    _LASTING.append((pretended, own, between))


# XLA never forgets a handler.
_LASTING: list[Any] = []


@pytest.mark.parametrize("states", [1, 33, 200])
def test_kernels_are_launched_as_the_cuda_backend_does(driver: Driver, states: int) -> None:
    """In rows, and with arguments that all states share, for which there are strides."""
    chosen = case(SUBJECTS["arm6"], "inverse_dynamics", states)
    q, qd, qdd, gravity, *_ = (x.astype("float32") for x in chosen.arguments)
    robot = SUBJECTS["arm6"].robot

    def call(*x: Any) -> Any:
        return robot.inverse_dynamics(*x[:3], gravity=x[3])

    for shared in (gravity, gravity[0]):
        plain = call(*map(np.asarray, (q, qd, qdd, shared)))
        np.testing.assert_array_equal(jax.jit(call)(q, qd, qdd, shared), plain)
    mapped = jax.vmap(robot.inverse_dynamics, in_axes=(None, 0, 0))
    spread = [np.asarray(x) for x in (np.tile(q[0], (states, 1)), qd, qdd)]
    np.testing.assert_array_equal(jax.jit(mapped)(q[0], qd, qdd), robot.inverse_dynamics(*spread))
    assert {launch[3] for launch in driver.launches} == {STREAM}
    assert all(blocks == -(-states // threads) for blocks, threads, *_ in driver.launches)
    assert len({launch[2] for launch in driver.launches}) == 2  # rows take shared memory


def test_gradients_are_launched_too(driver: Driver) -> None:
    robot = SUBJECTS["arm6"].robot
    q, qd, tau = (
        x.astype("float32") for x in case(SUBJECTS["arm6"], "forward_dynamics").arguments[:3]
    )
    found = jax.jit(jax.grad(lambda *x: robot.forward_dynamics(*x).sum(), (0, 1, 2)))(q, qd, tau)
    expected = robot.vjp("forward_dynamics", np.ones_like(qd), *map(np.asarray, (q, qd, tau)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)
    assert len(driver.launches) == 2


def test_parked_values_are_given_shared_memory(driver: Driver) -> None:
    """In rows, and where states share a position, where parked values alone take it."""
    call = load_robot(urdf_path("arm7"), parameters=("all",)).forward_dynamics_gradient
    q, qd, tau = np.random.default_rng(2).normal(size=(3, 40, 7)).astype("float32")
    shared = np.tile(q[0], (len(q), 1))
    mapped = jax.vmap(call, in_axes=(None, 0, 0))(q[0], qd, tau)
    for found, given in ((jax.jit(call)(q, qd, tau), q), (mapped, shared)):
        for array, expected in zip(found, call(given, qd, tau), strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-3)
    assert len({launch[2] for launch in driver.launches}) == 2


@pytest.mark.parametrize("filling", [1 << 20, 32])
def test_memory_of_loops_is_an_array_of_the_call(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filling: int
) -> None:
    """Launches share it, of as many states as fill the GPU."""
    monkeypatch.setattr(cuda, "_filling", lambda: filling)
    monkeypatch.setattr(compiled, "_SCRATCH_BYTES", 0)
    options = gridgen.GenerateOptions(
        output=tmp_path, functions=("inverse_dynamics",), longest_gpu_program=50
    )
    module = gridgen.generate(urdf_path("arm6"), options)
    robot = open_module(str(module.folder / "__init__.py"))
    assert robot._module.sources(robot.kernels["inverse_dynamics"]).scratch["inverse_dynamics"]
    q, qd, qdd = (
        x.astype("float32") for x in case(SUBJECTS["arm6"], "inverse_dynamics", 40).arguments[:3]
    )
    found = jax.jit(robot.inverse_dynamics)(q, qd, qdd)
    assert len(driver.launches) == (1 if filling > 40 else 2)
    plain = robot.inverse_dynamics(*map(np.asarray, (q, qd, qdd)))
    np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-3)


def test_a_kernel_is_loaded_once_for_a_context(driver: Driver) -> None:
    robot, q = SUBJECTS["arm6"].robot, jax.numpy.zeros((2, 6))
    call = jax.jit(robot.gravity_forces)
    for context in (1, 1, 2, 1):
        driver.context = context
        call(q).block_until_ready()
    assert driver.loads == [1, 2]
    assert len(driver.launches) == 4


def test_what_the_driver_refuses_is_told_and_tried_again(driver: Driver) -> None:
    robot, q = SUBJECTS["arm6"].robot, jax.numpy.zeros((2, 6))
    call = jax.jit(robot.gravity_forces)
    driver.fails.add("load")
    with pytest.raises(Exception, match="cannot load the kernel: CUDA_ERROR_ILLEGAL_ADDRESS"):
        call(q).block_until_ready()
    driver.fails.clear()
    assert np.isfinite(call(q)).all()
