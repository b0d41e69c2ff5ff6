"""What a call costs before anything is computed: checking arguments, making room, launching.

    python benchmarks/calls.py
    python benchmarks/calls.py --robot robots/quadruped.urdf --floating-base --functions mass_matrix

For the ``cpu`` backend a batch of one, whose states are computed too: what remains is mostly the
call. For the ``cuda`` backend a driver that launches nothing (``fake_driver.py``), so that no
GPU is needed: CuPy's arrays are real, but what the driver and CuPy's calls of it take is not in the
figures. So it is with PyTorch's tensors, where it is installed: they lie on the host and say that
they do not, and PyTorch's answer for its current stream is not in the figures. Least times of
rounds in turn, in microseconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from fake_driver import FakeDriver
from interleave import interleaved

import gridgen
from gridgen.functions import FUNCTIONS

ROBOT = Path(__file__).parents[1] / "robots" / "arm7.urdf"
FUNCTIONS_SHOWN = ("inverse_dynamics", "forward_dynamics", "inverse_dynamics_gradient")
BATCH = 4096  # of the calls that launch nothing

Calls = dict[str, Callable[[], object]]


def main() -> None:
    """Measure both backends, and print a row for each function."""
    arguments = parsed(sys.argv[1:])
    rows = [("cpu", name, calls) for name, calls in on_cpu(arguments)]
    rows += on_pretended_gpu(arguments)
    shown = [title for title in rows[0][2]]
    print("least time of a call [us]".ljust(44) + "".join(title.rjust(16) for title in shown))
    for backend, name, calls in rows:
        times = interleaved(calls, arguments.seconds)
        figures = "".join(f"{times[title].least * 1e6:16.2f}" for title in shown)
        print(f"{backend:13}{name:31}{figures}")


def parsed(words: list[str]) -> argparse.Namespace:
    """Return the options of a run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", type=Path, default=ROBOT)
    parser.add_argument("--floating-base", action="store_true")
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=FUNCTIONS_SHOWN)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each row")
    return parser.parse_args(words)


def on_cpu(arguments: argparse.Namespace) -> list[tuple[str, Calls]]:
    """Return the calls of each function for one state on the CPU."""
    robot = gridgen.load(arguments.robot, floating_base=arguments.floating_base, backend="cpu")
    return [(name, calls_of(robot, name, 1, np.asarray)) for name in arguments.functions]


def on_pretended_gpu(arguments: argparse.Namespace) -> list[tuple[str, str, Calls]]:
    """Return the calls of each function for many states on a GPU that computes nothing."""
    import cupy

    driver = FakeDriver(cupy)
    sys.modules["cupy"] = driver.module()
    places = {"cuda": driver.asarray, "cuda, torch": tensors(driver)}
    robot = gridgen.load(arguments.robot, floating_base=arguments.floating_base, backend="cuda")
    return [
        (backend, name, calls_of(robot, name, BATCH, place))
        for backend, place in places.items()
        if place is not None
        for name in arguments.functions
    ]


def tensors(driver: FakeDriver) -> Callable[[Any], Any] | None:
    """Return what makes tensors that say they are on a GPU, or ``None`` without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    there, stream = torch.device("cuda", 0), SimpleNamespace(cuda_stream=1)
    torch.Tensor.is_cuda, torch.Tensor.device = True, there
    torch.cuda.current_stream = lambda device: stream
    torch.from_dlpack = lambda array: torch.empty(array.shape)
    sys.modules["cupy"].from_dlpack = lambda tensor: driver.asarray(tensor.numpy())
    return torch.from_numpy


def calls_of(robot: gridgen.Robot, name: str, batch: int, place: Callable[[Any], Any]) -> Calls:
    """Return a plain and a bound call of a function, with room for the results at hand.

    Args:
        robot: whose function it is.
        name:  of the function.
        batch: number of states.
        place: brings an array to where it is computed.
    """
    rng = np.random.default_rng(0)
    widths = {"q": robot.nq}
    states = {
        argument: rng.normal(size=(batch, widths.get(argument, robot.nv))).astype(np.float32)
        for argument in FUNCTIONS[name].arguments
    }
    if robot.floating_base:
        states["q"][:, 3:7] = [0.0, 0.0, 0.0, 1.0]
    given = [place(array) for array in states.values()]
    function, bound = getattr(robot, name), robot.bind(name, *given)
    out = bound()
    return {"plain, out=": lambda: function(*given, out=out), "bound": bound}


if __name__ == "__main__":
    main()
