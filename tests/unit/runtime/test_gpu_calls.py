"""What calls ask of the driver: the caller's stream, its device, no memory, nothing in a capture.

a fake driver notes it (``helpers/gpu.py``).
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fake_driver import Stream

import gridgen
from gridgen.errors import DeviceError, DtypeError
from gridgen.runtime.arrays import libraries
from gridgen.runtime.calls.compiled import Compiled
from gridgen.runtime.calls.evaluation import Evaluator
from helpers.gpu import Gpu, expected, on_host

LAUNCH = "launch inverse_dynamics_rows float64"


def told(gpu: Gpu, call: Any) -> list[tuple[str, int]]:
    """Return what a call asks of the driver."""
    gpu.driver.told.clear()
    call()
    return gpu.driver.told.copy()


# -- streams --------------------------------------------------------------------------------------


def test_a_bound_call_launches_on_the_current_stream_and_does_nothing_else(
    gpu: Gpu, two_link: gridgen.Robot
) -> None:
    *x, out = gpu.arrays(4)
    bound = gpu.robot.bind("inverse_dynamics", *x, out=out)
    assert gpu.launches == []
    taken = gpu.driver.taken
    for pointer in (5, 6):
        with Stream(gpu.driver, pointer):
            assert told(gpu, bound) == [(LAUNCH, pointer)]
    assert told(gpu, bound) == [(LAUNCH, 0)]
    assert gpu.driver.taken == taken
    on_host(x[1])[...] = 3.0
    assert bound() is out
    np.testing.assert_array_equal(on_host(out), expected(two_link, x))


def test_gradients_are_bound_too(gpu: Gpu, two_link: gridgen.Robot) -> None:
    x = gpu.arrays()
    bound = gpu.robot.bind("inverse_dynamics_gradient", *x)
    taken, found = gpu.driver.taken, bound()
    assert gpu.driver.taken == taken
    for result, reference in zip(
        found, two_link.inverse_dynamics_gradient(*map(on_host, x)), strict=True
    ):
        np.testing.assert_array_equal(on_host(result), reference)


def test_plain_calls_launch_on_the_current_stream(gpu: Gpu, two_link: gridgen.Robot) -> None:
    x = gpu.arrays()
    gpu.robot.inverse_dynamics(*x)
    with Stream(gpu.driver, 9):
        assert told(gpu, lambda: gpu.robot.inverse_dynamics(*x)) == [(LAUNCH, 9)]
        found = gpu.robot.inverse_dynamics(*x)
    np.testing.assert_array_equal(on_host(found), expected(two_link, x))


class Device(NamedTuple):
    """A device of PyTorch."""

    type: str
    index: int


class Tensor:
    """A tensor of PyTorch on a fake GPU."""

    requires_grad = False
    layout = "strided"

    def __init__(self, array: Any, is_cuda: bool = True) -> None:
        self.array, self.is_cuda = array, is_cuda
        self.shape, self.dtype = array.shape, array.dtype
        self.device = Device("cuda", array.device.id)

    def is_neg(self) -> bool:
        return False

    def dim(self) -> int:
        return len(self.shape)

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.dtype.itemsize for step in self.array.strides)

    def data_ptr(self) -> int:
        return int(self.array.data.ptr)

    def new_empty(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(sys.modules["cupy"].empty(shape, self.dtype))

    def __dlpack__(self) -> None:
        raise AssertionError("is asked by the driver in its own way")


@pytest.fixture
def torch(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> Any:
    """PyTorch, as far as it is asked; its current stream is ``torch.now``."""
    torch: Any = types.ModuleType("torch")
    torch.__version__, torch.Tensor, torch.now = "2.5.1", Tensor, 31
    dual = types.SimpleNamespace(tangent=None)
    forward_ad = types.SimpleNamespace(unpack_dual=lambda tensor: dual, _current_level=-1)
    torch.strided = Tensor.layout
    torch.autograd = types.SimpleNamespace(forward_ad=forward_ad)
    stream = lambda device: types.SimpleNamespace(cuda_stream=torch.now)  # noqa: E731
    torch.cuda = types.SimpleNamespace(current_stream=stream)
    torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
    torch._C = types.SimpleNamespace(
        _are_functorch_transforms_active=lambda: False,
        _len_torch_dispatch_stack=lambda: 0,
        _get_tracing_state=lambda: None,
        _is_any_autocast_enabled=lambda: False,
    )
    torch.from_dlpack = Tensor
    monkeypatch.setitem(sys.modules, "torch", torch)
    seen = sys.modules["cupy"]
    torch.adopted = []

    def from_dlpack(tensor: Tensor) -> Any:
        torch.adopted.append(gpu.driver.entered[-1].ptr)
        return tensor.array

    monkeypatch.setattr(seen, "from_dlpack", from_dlpack, raising=False)
    return torch


def test_a_stream_of_each_thread_is_in_no_order_with_pytorch(
    gpu: Gpu, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "1")
    libraries._is_default_stream_of_a_thread.cache_clear()
    tensors = [Tensor(array) for array in gpu.arrays(count=2)]
    gpu.robot.bias_forces(*tensors)
    torch.now = 0
    with pytest.raises(gridgen.DeviceError, match="unset CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"):
        gpu.robot.bias_forces(*tensors)
    monkeypatch.undo()
    libraries._is_default_stream_of_a_thread.cache_clear()


def test_tensors_are_worked_on_in_the_stream_of_pytorch(
    gpu: Gpu, torch: Any, two_link: gridgen.Robot
) -> None:
    x, out = gpu.arrays(), Tensor(gpu.arrays(1)[0])
    tensors = [Tensor(array) for array in x]
    gpu.robot.inverse_dynamics(*tensors)
    bound = gpu.robot.bind("inverse_dynamics", *tensors, out=out)
    for torch.now in (32, 33):
        assert told(gpu, bound) == [(LAUNCH, torch.now)]
        torch.adopted.clear()
        # Of other strides each time, so that they are looked at.
        other = Tensor(gpu.driver.asarray(np.zeros((200, torch.now))[:, :2]))
        plain = lambda: gpu.robot.inverse_dynamics(*tensors, out=other)  # noqa: B023, E731
        assert told(gpu, plain)[0][1] == torch.now
        assert set(torch.adopted) == {torch.now}
    assert bound() is out
    np.testing.assert_array_equal(on_host(out.array), expected(two_link, x))
    made = gpu.robot.inverse_dynamics(*tensors)
    assert isinstance(made, Tensor)
    np.testing.assert_array_equal(on_host(made.array), expected(two_link, x))


def test_tensors_like_earlier_ones_are_not_adopted_again(
    gpu: Gpu, torch: Any, two_link: gridgen.Robot
) -> None:
    tensors, others = ([Tensor(array) for array in gpu.arrays(seed=seed)] for seed in (0, 1))
    out = Tensor(gpu.arrays(1)[0])
    gpu.robot.inverse_dynamics(*tensors)
    gpu.robot.inverse_dynamics(*tensors, out=out)
    torch.adopted.clear()
    for torch.now in (32, 33):
        made: list[Any] = []
        plain = lambda: made.append(gpu.robot.inverse_dynamics(*others))  # noqa: B023, E731
        assert told(gpu, plain) == [(LAUNCH, torch.now)]
        assert told(gpu, lambda: gpu.robot.inverse_dynamics(*others, out=out)) == [
            (LAUNCH, torch.now)
        ]
        reference = expected(two_link, [tensor.array for tensor in others])
        for result in (out, made[0]):
            np.testing.assert_array_equal(on_host(result.array), reference)
    assert not torch.adopted
    assert isinstance(made[0], Tensor)


@pytest.mark.parametrize("changed", ["is_neg", "layout", "_current_level", "ptr"])
def test_tensors_that_are_more_than_numbers_are_looked_at(
    gpu: Gpu, torch: Any, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """A sign, another layout, within forward differentiation, without memory."""
    tensors = [Tensor(array) for array in gpu.arrays()]
    gpu.robot.inverse_dynamics(*tensors)
    torch.adopted.clear()
    if changed == "_current_level":
        monkeypatch.setattr(torch.autograd.forward_ad, changed, 0)
    elif changed == "layout":
        monkeypatch.setattr(tensors[1], changed, "sparse", raising=False)
    elif changed == "ptr":

        def none() -> int:
            raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

        monkeypatch.setattr(tensors[1], "data_ptr", none, raising=False)
    else:
        monkeypatch.setattr(tensors[1], changed, lambda: True, raising=False)
        with pytest.raises(DtypeError):
            gpu.robot.inverse_dynamics(*tensors)
        return
    gpu.robot.inverse_dynamics(*tensors)
    assert len(torch.adopted) == 4  # the result too


def test_the_streams_of_two_libraries_wait_for_each_other(gpu: Gpu, torch: Any) -> None:
    """What either was told comes before the launch; what it is told next comes after."""
    q, qd, qdd, out = gpu.arrays(4)
    gpu.robot.inverse_dynamics(q, qd, qdd)
    with Stream(gpu.driver, 8):
        for first, others, result, launch in (
            (Tensor(q), (qd, qdd), out, 31),
            (Tensor(q), (Tensor(qd), Tensor(qdd)), out, 31),
            (q, (qd, qdd), Tensor(out), 8),
            (q, (Tensor(qd), qdd), out, 8),
        ):
            other = 39 - launch
            expected = [
                (f"wait for {other}", launch),
                (LAUNCH, launch),
                (f"wait for {launch}", other),
            ]
            bound = gpu.robot.bind("inverse_dynamics", first, *others, out=result)
            assert told(gpu, bound) == expected
            plain = lambda: gpu.robot.inverse_dynamics(first, *others, out=result)  # noqa: B023, E731
            assert told(gpu, plain) == expected


def test_the_streams_of_two_libraries_wait_for_an_interrupted_call_too(
    gpu: Gpu, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, qd, qdd, out = gpu.arrays(4)
    gpu.robot.inverse_dynamics(q, qd, qdd)
    compute = Evaluator.evaluate_checked

    def interrupted(*given: Any) -> None:
        compute(*given)
        raise InterruptedError

    monkeypatch.setattr(Evaluator, "evaluate_checked", interrupted)

    def plain() -> None:
        with pytest.raises(InterruptedError):
            gpu.robot.inverse_dynamics(q, qd, qdd, out=Tensor(out))

    with Stream(gpu.driver, 8):
        assert told(gpu, plain) == [("wait for 31", 8), (LAUNCH, 8), ("wait for 8", 31)]


def test_one_stream_of_two_libraries_needs_no_waiting(gpu: Gpu, torch: Any) -> None:
    q, qd, qdd, out = gpu.arrays(4)
    gpu.robot.inverse_dynamics(q, qd, qdd)
    with Stream(gpu.driver, torch.now):
        bound = gpu.robot.bind("inverse_dynamics", Tensor(q), qd, qdd, out=out)
        assert told(gpu, bound) == [(LAUNCH, torch.now)]


@pytest.mark.parametrize("mixed", [False, True])
def test_the_stream_is_one_of_the_tensors_device(gpu: Gpu, torch: Any, mixed: bool) -> None:
    """Also if that is not the current one, on which CuPy would take it for another's."""
    *x, out = gpu.arrays(4, device=1)
    tensors = [*map(Tensor, x[:2]), x[2] if mixed else Tensor(x[2])]
    bound = gpu.robot.bind("inverse_dynamics", *tensors, out=Tensor(out))
    for current in (0, 1):
        gpu.driver.device = current
        for call in (bound, lambda: gpu.robot.inverse_dynamics(*tensors, out=Tensor(out))):
            call()
            assert gpu.launches[-1].device == 1
            assert gpu.launches[-1].stream == torch.now
            assert set(gpu.driver.entered_on) == {1}
            assert gpu.driver.device == current


def test_tensors_on_a_gpu_need_cupy(gpu: Gpu, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [*map(Tensor, gpu.arrays())]
    monkeypatch.setitem(sys.modules, "cupy", None)
    for call in (gpu.robot.inverse_dynamics, lambda *x: gpu.robot.bind("inverse_dynamics", *x)):
        with pytest.raises(DeviceError, match='backend "cuda" needs CuPy'):
            call(*tensors)


# -- captures -------------------------------------------------------------------------------------


def test_a_capture_takes_bound_calls_and_plain_ones_into_arrays_at_hand(gpu: Gpu) -> None:
    *x, out = gpu.arrays(4)
    bound = gpu.robot.bind("inverse_dynamics", *x, out=out)
    with Stream(gpu.driver, 7):
        gpu.driver.captured.add(7)
        taken = gpu.driver.taken
        assert told(gpu, bound) == [(LAUNCH, 7)]
        plain = lambda: gpu.robot.inverse_dynamics(*x, out=out)  # noqa: E731
        for _ in range(2):
            assert told(gpu, plain) == [(LAUNCH, 7)]
        assert gpu.driver.taken == taken


def test_nothing_is_brought_to_the_gpu_while_a_stream_is_captured(gpu: Gpu) -> None:
    *x, out = gpu.arrays(4)
    inverse_dynamics = gpu.robot.inverse_dynamics
    with Stream(gpu.driver, 7):
        gpu.driver.captured.add(7)
        with pytest.raises(DeviceError, match="captured: the numbers of gravity cannot be copied"):
            inverse_dynamics(*x, out=out)
        with pytest.raises(DeviceError, match="captured: gravity cannot be copied to the GPU"):
            inverse_dynamics(*x, out=out, gravity=[0.0, 0.0, -1.0])
        with pytest.raises(DeviceError, match="captured: bind would wait for it; bind before"):
            gpu.robot.bind("mass_matrix", x[0])
        gpu.driver.captured.clear()
        inverse_dynamics(*x, out=out)  # the refusals have left nothing behind
    assert len(gpu.launches) == 1


def test_what_a_graph_would_not_keep_is_not_captured(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies and scratch memory are gone when the call returns; another call may have them then."""
    *x, out = gpu.arrays(4)
    gpu.robot.inverse_dynamics(*x, out=out)
    gpu.launches.clear()
    with Stream(gpu.driver, 7):
        gpu.driver.captured.add(7)
        with pytest.raises(DeviceError, match="captured: an array takes a copy, which a graph"):
            gpu.robot.inverse_dynamics(*x, out=x[2])
        monkeypatch.setattr(Compiled, "takes_scratch", True)
        monkeypatch.setattr(Compiled, "takes_memory", True)
        with pytest.raises(DeviceError, match=r"inverse_dynamics takes memory that .*; bind the"):
            gpu.robot.inverse_dynamics(*x, out=out, gravity=gpu.driver.asarray(np.zeros(3)))
    assert gpu.launches == []


def test_defaults_are_there_before_any_stream_reads_them(gpu: Gpu, urdf: Path) -> None:
    """Brought once for all robots, on a stream of its own that is awaited."""
    x = gpu.arrays()
    (waited, beside), launch = told(gpu, lambda: gpu.robot.inverse_dynamics(*x))
    assert waited == "synchronize"
    assert beside != 0
    assert launch == (LAUNCH, 0)
    other = gridgen.load(urdf)
    assert told(gpu, lambda: other.inverse_dynamics(*x)) == [(LAUNCH, 0)]


def test_bind_waits_for_what_it_has_made(gpu: Gpu) -> None:
    """Room for results may have been another stream's a moment before."""
    x = gpu.arrays()
    gpu.robot.inverse_dynamics(*x)
    with Stream(gpu.driver, 7):
        asked = told(gpu, lambda: gpu.robot.bind("inverse_dynamics", *x))
    assert asked == [("synchronize", 7)]


# -- devices --------------------------------------------------------------------------------------


def test_work_is_done_where_the_arrays_lie(gpu: Gpu, two_link: gridgen.Robot) -> None:
    x = gpu.arrays(device=1)
    bound = gpu.robot.bind("inverse_dynamics", *x)
    for call in (bound, lambda: gpu.robot.inverse_dynamics(*x)):
        for current in (0, 1, 0):
            gpu.driver.device = current
            found = call()
            assert found.device.id == 1
            assert gpu.launches.pop().device == 1
            assert gpu.driver.device == current
            np.testing.assert_array_equal(on_host(found), expected(two_link, x))
