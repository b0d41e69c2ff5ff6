"""Arrays of other libraries: what they bring along is kept, or refused."""

from __future__ import annotations

import ctypes
import sys
import types
from array import array

import numpy as np
import pytest

import gridgen
from gridgen.errors import DeviceError, DtypeError, GridGenError, OptionError, ShapeError
from gridgen.runtime.arrays.layout import check_like, result_arrays
from helpers.robots import needs

STATES = np.random.default_rng(3).uniform(-2, 2, (5, 2))
ARGUMENTS = ("q", "qd", "qdd", "gravity", "f_ext", "base_velocity", "out")


def arguments() -> dict[str, np.ndarray]:
    """Return arguments of inverse dynamics that fit."""
    q, qd, qdd = STATES.copy(), STATES.copy(), STATES.copy()
    loads = {"f_ext": np.zeros((5, 2, 6)), "base_velocity": np.zeros(6)}
    return {"q": q, "qd": qd, "qdd": qdd, "gravity": np.zeros(3), **loads, "out": np.zeros((5, 2))}


# -- PyTorch --------------------------------------------------------------------------------------


@pytest.fixture
def torch() -> types.ModuleType:
    return pytest.importorskip("torch")


@needs("torch")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_gradient_that_would_get_lost_is_refused(
    two_link: gridgen.Robot, torch: types.ModuleType, name: str
) -> None:
    given = {key: torch.from_numpy(value) for key, value in arguments().items()}
    given[name].requires_grad_()
    if name != "out":
        with pytest.raises(OptionError, match=r"inverse_dynamics: .* has no out="):
            two_link.inverse_dynamics(**given)
    else:
        with pytest.raises(DtypeError, match=r"out requires a gradient"):
            two_link.inverse_dynamics(**given)
    if name not in ("q", "out"):
        beside = {**arguments(), name: given[name]}
        del beside["out"]
        with pytest.raises(GridGenError, match=rf"{name} requires a gradient.*{name}\.detach\(\)"):
            two_link.inverse_dynamics(**beside)


def test_a_gradient_is_refused_where_numbers_are_asked_for(
    two_link: gridgen.Robot, torch: types.ModuleType
) -> None:
    q = torch.from_numpy(STATES)
    asking = q.clone().requires_grad_()
    for call in (
        lambda: two_link.mass_matrix([asking[0, 0], 0.0]),
        lambda: two_link.evaluate("mass_matrix", {"q": asking}),
        lambda: two_link.bind("mass_matrix", asking),
    ):
        with pytest.raises(DtypeError, match="requires a gradient"):
            call()


def test_what_a_tensor_says_of_its_memory_is_heeded(
    two_link: gridgen.Robot, torch: types.ModuleType
) -> None:
    q = torch.from_numpy(STATES)
    pairs = torch.view_as_complex(torch.stack([q, q], -1))
    with pytest.raises(DtypeError, match=r"negated numbers; give q\.resolve_neg\(\)"):
        two_link.mass_matrix(torch.conj(pairs).imag)
    with pytest.raises(DeviceError, match='q lies on device "meta"'):
        two_link.mass_matrix(q.to("meta"))
    with pytest.raises(DtypeError, match=r"q \(Tensor of torch.bfloat16\) cannot be read"):
        two_link.mass_matrix(q.bfloat16())
    with pytest.raises(DtypeError, match="Sparse layout"):
        two_link.mass_matrix(q.to_sparse())
    with pytest.raises(ShapeError, match="out has elements that share memory"):
        two_link.inverse_dynamics(
            q, q, q, out=torch.zeros((1, 2), dtype=torch.float64).expand(5, 2)
        )


def test_results_are_written_into_tensors(two_link: gridgen.Robot, torch: types.ModuleType) -> None:
    q = torch.from_numpy(STATES)
    out = torch.empty((5, 2), dtype=torch.float64)
    assert two_link.inverse_dynamics(q, q, q, out=out) is out
    expected = two_link.inverse_dynamics(STATES, STATES, STATES)
    np.testing.assert_array_equal(out.numpy(), expected)


def test_a_tensor_of_a_class_of_ones_own_is_a_tensor(
    two_link: gridgen.Robot, torch: types.ModuleType
) -> None:
    class Angles(torch.Tensor):
        pass

    angles = torch.from_numpy(STATES).as_subclass(Angles)
    assert isinstance(two_link.inverse_dynamics(angles, angles, angles), torch.Tensor)


# -- JAX ------------------------------------------------------------------------------------------


@pytest.fixture
def jax() -> types.ModuleType:
    return pytest.importorskip("jax")


def test_jax_arrays_come_and_go(two_link: gridgen.Robot, jax: types.ModuleType) -> None:
    x = STATES.astype("float32")
    q = jax.numpy.asarray(x)
    result = two_link.inverse_dynamics(q, x, q)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(np.asarray(result), two_link.inverse_dynamics(x, x, x))


def test_a_trace_is_refused_where_a_call_cannot_be_part_of_it(
    two_link: gridgen.Robot, jax: types.ModuleType
) -> None:
    for call in (
        lambda x: two_link.mass_matrix([x[0, 0], x[0, 1]]),
        lambda x: two_link.bind("mass_matrix", x),
        lambda x: two_link.mass_matrix(STATES, out=x),
    ):
        with pytest.raises(DtypeError, match=r"is traced by JAX|is a JAX array"):
            jax.jit(call)(STATES)


def test_a_jax_array_is_no_place_for_results(
    two_link: gridgen.Robot, jax: types.ModuleType
) -> None:
    q = jax.numpy.zeros((5, 2), "float32")
    for given in (q, np.asarray(q)):
        with pytest.raises(DtypeError, match="out is a JAX array, which cannot be changed"):
            two_link.inverse_dynamics(given, given, given, out=jax.numpy.zeros((5, 2), "float32"))
    with pytest.raises(DtypeError, match=r"q \(ArrayImpl of bfloat16\) cannot be read"):
        two_link.mass_matrix(q.astype("bfloat16"))


# -- releases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "kind", "old", "oldest"),
    [("torch", "Tensor", "1.13.1+cpu", "2.3"), ("jax", "Array", "0.4.30", "0.4.31")],
)
def test_an_old_release_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
    two_link: gridgen.Robot,
    library: str,
    kind: str,
    old: str,
    oldest: str,
) -> None:
    module = types.ModuleType(library)
    array = type(kind, (), {"__dlpack__": lambda self: None})
    module.__dict__.update({"__version__": old, kind: array})
    monkeypatch.setitem(sys.modules, library, module)
    with pytest.raises(DeviceError) as caught:
        two_link.mass_matrix(array())
    assert f"{library} {old} is too old" in str(caught.value)
    assert f"{library} >= {oldest}" in str(caught.value)


# -- DLPack ---------------------------------------------------------------------------------------


class Tensor(ctypes.Structure):
    """DLTensor, and what DLManagedTensor adds."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("axes", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class Exporter:
    """An array of a library of its own: memory of a device, elements of a type."""

    def __init__(self, array: np.ndarray, device: int, code: int) -> None:
        self._device = device
        self._array = array
        self._shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        bits = 8 * array.itemsize
        data = array.ctypes.data
        shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))
        self._tensor = Tensor(data, device, 0, array.ndim, code, bits, 1, shape)

    def __dlpack__(self, **_: object) -> object:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(ctypes.addressof(self._tensor), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0


FLOAT, BFLOAT, HOST, PINNED = 2, 4, 1, 3


@pytest.mark.parametrize("device", [HOST, PINNED])
def test_memory_of_the_host_is_read_also_if_pinned(two_link: gridgen.Robot, device: int) -> None:
    q = Exporter(STATES.copy(), device, FLOAT)
    result = two_link.inverse_dynamics(q, STATES, STATES)
    np.testing.assert_array_equal(result, two_link.inverse_dynamics(STATES, STATES, STATES))


@pytest.mark.parametrize("code", [BFLOAT, 10])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_element_type_that_numpy_does_not_know_is_refused(
    two_link: gridgen.Robot, name: str, code: int
) -> None:
    given = arguments()
    strange = Exporter(given[name].astype(np.uint16 if code == BFLOAT else np.uint8), HOST, code)
    with pytest.raises(DtypeError, match=rf"{name} \(Exporter of unknown type\) cannot be read"):
        two_link.inverse_dynamics(**{**given, name: strange})


class Recorded(Exporter):
    """An array that a framework wants to differentiate by."""

    requires_grad = True


@pytest.mark.parametrize("name", ARGUMENTS)
def test_any_array_that_requires_a_gradient_is_refused(two_link: gridgen.Robot, name: str) -> None:
    given = arguments()
    with pytest.raises(DtypeError, match=rf"{name} requires a gradient.*{name}\.detach\(\)"):
        two_link.inverse_dynamics(**{**given, name: Recorded(given[name], HOST, FLOAT)})


# -- tables ---------------------------------------------------------------------------------------


class Column:
    """A column of a table: it has a type of its own, and makes an array of itself."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return self._array if dtype is None else self._array.astype(dtype)


def test_memory_of_typed_elements_keeps_their_type(two_link: gridgen.Robot) -> None:
    states = STATES[0].astype("float32")
    expected = two_link.integrate(states, states)
    for typed in (memoryview(states), array("f", states), (ctypes.c_float * 2)(*states)):
        result = two_link.integrate(typed, states)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, expected)
    with pytest.raises(DtypeError, match="q has dtype uint8"):
        two_link.mass_matrix(bytearray(2))


def test_columns_of_a_table_keep_their_type(two_link: gridgen.Robot) -> None:
    x = STATES.astype("float32")
    expected = two_link.inverse_dynamics(x, x, x)
    for given in ((x, Column(x), Column(x)), (Column(x), x, Column(x))):
        result = two_link.inverse_dynamics(*given)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, expected)
    with pytest.raises(DtypeError, match="qd has dtype float64, q has float32"):
        two_link.inverse_dynamics(x, Column(STATES), x)


# -- GPUs -----------------------------------------------------------------------------------------


def test_arrays_on_different_devices_are_told_apart() -> None:
    """CuPy's own arrays over borrowed memory: nothing is read, so it takes no GPU."""
    cupy = pytest.importorskip("cupy")
    room = np.zeros(20)

    def on(gpu: int, first: int = 0) -> object:
        memory = cupy.cuda.UnownedMemory(room.ctypes.data, room.nbytes, room, device_id=gpu)
        pointer = cupy.cuda.MemoryPointer(memory, 8 * first)
        return cupy.ndarray((5, 2), np.float64, memptr=pointer)

    host, shape = np.zeros((5, 2)), {"tau": (5, 2)}
    for q, out, message in (
        (on(0), on(1), "out is on GPU 1, q on GPU 0: move one"),
        (host, on(1), "out is on GPU 1, q on the CPU: move one"),
    ):
        with pytest.raises(DeviceError, match=message):
            result_arrays(out, shape, q)
        with pytest.raises(DeviceError, match=message.replace("out", "qd")):
            check_like(out, "qd", q)
    q = on(0)
    with pytest.raises(DeviceError, match="qd is on the CPU, q on GPU 0: move one"):
        check_like(host, "qd", q)
    for out in (q, host):
        assert result_arrays(out, shape, q) == [out]
    halves = (on(0)[:, :1], on(0)[:, 1:])
    two = {"a": (5, 1), "b": (5, 1)}
    assert len(result_arrays(halves, two, q)) == 2
    with pytest.raises(ShapeError, match=r"out\[0\] and out\[1\] share memory"):
        result_arrays((halves[0], on(0)[:, :1]), two, q)
