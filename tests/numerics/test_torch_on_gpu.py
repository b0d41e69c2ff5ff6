"""PyTorch's tensors on this machine's GPU: work goes to PyTorch's current stream, and into graphs.

Skipped without a GPU or without PyTorch; `make gpu-test` runs it where both are there. On a machine
without a GPU, `test_fake_gpu.py` runs it with the fake one and a CPU build of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.backends.cuda.backend import require_device
from gridgen.compiler import read_tree
from gridgen.errors import DeviceError
from gridgen.modules import TracedModule
from gridgen.options import RobotOptions

torch: Any = pytest.importorskip("torch")
try:
    require_device()
except DeviceError as error:
    pytest.skip(f"no CUDA device: {error}", allow_module_level=True)
if not torch.cuda.is_available():
    pytest.skip("this PyTorch has no CUDA", allow_module_level=True)

URDF = Path(__file__).resolve().parents[2] / "robots" / "two_link.urdf"
STATES = 1000
#: Cycles for which a stream is kept busy, some tenths of a second: whoever does not wait is early.
BUSY = 500_000_000


@pytest.fixture(scope="module")
def robot() -> gridgen.Robot:
    return gridgen.load(URDF)


def states(seed: int) -> list[Any]:
    """Return q, qd, qdd on the GPU."""
    drawn = np.random.default_rng(seed).uniform(-2, 2, (3, STATES, 2)).astype(np.float32)
    return [torch.from_numpy(x).cuda() for x in drawn]


def expected(robot: gridgen.Robot, tensors: list[Any]) -> Any:
    """Return what the function computes, with everything done before and after."""
    torch.cuda.synchronize()
    tau = robot.inverse_dynamics(*tensors)
    torch.cuda.synchronize()
    return tau


@pytest.mark.parametrize("bound", [False, True])
def test_work_waits_for_what_the_stream_was_told_and_is_waited_for(
    robot: gridgen.Robot, bound: bool
) -> None:
    tensors, later = states(0), states(1)
    reference, out = expected(robot, later), torch.zeros(STATES, 2, device="cuda")
    if bound:
        call = robot.bind("inverse_dynamics", *tensors, out=out)
    else:
        call = lambda: robot.inverse_dynamics(*tensors, out=out)  # noqa: E731
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(BUSY)
        for tensor, value in zip(tensors, later, strict=True):
            tensor.copy_(value)
        assert call() is out
        copy = out.clone()
    stream.synchronize()
    torch.testing.assert_close(copy, reference, rtol=0, atol=0)


def test_results_that_are_made_are_those_of_the_stream(robot: gridgen.Robot) -> None:
    tensors, later = states(0), states(1)
    reference = expected(robot, later)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(BUSY)
        for tensor, value in zip(tensors, later, strict=True):
            tensor.copy_(value)
        copy = robot.inverse_dynamics(*tensors).clone()
    stream.synchronize()
    torch.testing.assert_close(copy, reference, rtol=0, atol=0)


@pytest.mark.parametrize("bound", [False, True])
def test_calls_are_captured_in_a_graph_of_pytorch(robot: gridgen.Robot, bound: bool) -> None:
    tensors, later = states(0), states(1)
    reference, out = expected(robot, later), torch.zeros(STATES, 2, device="cuda")
    if bound:
        call = robot.bind("inverse_dynamics", *tensors, out=out)
    else:
        call = lambda: robot.inverse_dynamics(*tensors, out=out)  # noqa: E731
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    for tensor, value in zip(tensors, later, strict=True):
        tensor.copy_(value)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(out, reference, rtol=0, atol=0)


def gradients(robot: gridgen.Robot, tensors: list[Any]) -> list[Any]:
    """Return the derivatives of a number that takes functions of several kinds."""
    q, qd, third = (tensor.detach().requires_grad_() for tensor in tensors)
    path = robot.rollout(0.1 * q, 0.1 * qd, 0.1 * third[:, None].expand(-1, 8, -1), 0.01)
    results = (robot.inverse_dynamics(q, qd, third), robot.mass_matrix(q), *path)
    number = sum(result.square().sum() for result in results)
    return list(torch.autograd.grad(number, (q, qd, third)))


def test_derivatives_are_those_of_the_cpu(robot: gridgen.Robot) -> None:
    tensors = states(2)
    found = gradients(robot, tensors)
    expected = gradients(robot, [tensor.cpu() for tensor in tensors])
    for one, other in zip(found, expected, strict=True):
        assert one.is_cuda
        torch.testing.assert_close(
            one.cpu(), other, rtol=1e-3, atol=1e-3 * float(other.abs().max())
        )


def test_derivatives_wait_for_what_the_stream_was_told(robot: gridgen.Robot) -> None:
    tensors, later = states(3), states(4)
    expected = gradients(robot, later)
    gradients(robot, tensors)  # compiled before
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(BUSY)
        for tensor, value in zip(tensors, later, strict=True):
            tensor.copy_(value)
        found = gradients(robot, tensors)
    stream.synchronize()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_step_of_training_is_captured_in_a_graph(robot: gridgen.Robot) -> None:
    """Forward and backward, as PyTorch's notes on graphs of whole networks have it."""
    q, qd, qdd = states(5)
    weights = torch.zeros_like(q, requires_grad=True)

    def trained() -> None:
        weights.grad = None
        robot.inverse_dynamics(q, qd, qdd + weights).square().sum().backward()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            trained()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        trained()
    held = weights.grad
    for tensor, value in zip((q, qd, qdd), states(6), strict=True):
        tensor.copy_(value)
    graph.replay()
    torch.cuda.synchronize()
    found = held.clone()
    trained()
    torch.testing.assert_close(found, weights.grad, rtol=0, atol=0)


def with_steps(x: Any) -> Any:
    """Return joint torques of some time steps."""
    return 0.1 * x[:, None].repeat(1, 6, 1)


#: Calls that make results, and some also intermediate arrays or scratch memory.
CALLS: dict[str, Callable[..., Any]] = {
    "plain": lambda robot, q, qd, x: robot.inverse_dynamics(q, qd, x),
    "number": lambda robot, q, qd, x: robot.step(q, qd, x, 0.01),
    "fused": lambda robot, q, qd, x: robot.compute(("mass_matrix", "bias_forces"), q, qd),
    "frames": lambda robot, q, qd, x: robot.forward_kinematics(q, frames=["tip", "base"]),
    "rollout": lambda robot, q, qd, x: robot.rollout(q, qd, with_steps(x), 0.01),
    "backward": lambda robot, q, qd, x: robot.vjp(
        "rollout", (with_steps(x)[:, :4], None), q, qd, with_steps(x)[:, :3], 0.01
    ),
    "tangents": lambda robot, q, qd, x: robot.jvp("forward_dynamics", (qd, None, x), q, qd, x),
}


@pytest.mark.parametrize(
    ("name", "in_loops"), [*((name, False) for name in CALLS), ("plain", True), ("backward", True)]
)
def test_a_graph_owns_what_a_call_allocates(
    robot: gridgen.Robot, name: str, in_loops: bool
) -> None:
    """Without ``out``: neither later calls nor CuPy change the memory of a graph."""
    tensors = states(7)
    if in_loops:  # with scratch memory
        robot = gridgen.Robot(TracedModule(read_tree(URDF, RobotOptions()), longest_on_gpu=0))
    call = partial(CALLS[name], robot, *tensors)
    call()  # compiled, and numbers are on the device
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = flat(call())
    for tensor, value in zip(tensors, states(8), strict=True):
        tensor.copy_(value)
    expected = [one.clone() for one in flat(call())]
    require_device().ones((STATES, 64), np.float32)
    graph.replay()
    torch.cuda.synchronize()
    for one, other in zip(results, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def flat(results: Any) -> list[Any]:
    """Return the tensors of a result."""
    return [results] if torch.is_tensor(results) else [x for one in results for x in flat(one)]
