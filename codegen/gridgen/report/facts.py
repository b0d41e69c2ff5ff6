"""What a report tells: numbers of the robot, of its code, and of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gridgen.backends.nvrtc import KernelResources, resource_report
from gridgen.check import Comparison, compare, random_states
from gridgen.cost.demand import ITEM_BYTES, demand_of
from gridgen.cost.devices import Device, device_of
from gridgen.cost.gpu import ceiling, predicted
from gridgen.errors import CompileError
from gridgen.functions import FUNCTIONS
from gridgen.kernel import Kernel, KernelKey
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.robot import Robot
from gridgen.runtime.module.description import Module
from gridgen.runtime.planning.clocks import HostClock, least
from gridgen.schedules.thread.plan import Programs
from gridgen.symbolic.turns import work_of_a_state
from gridgen.version import __version__

#: What is told of: the functions that users ask for first.
REPORTED = (
    KernelKey("inverse_dynamics"),
    KernelKey("bias_forces"),
    KernelKey("forward_dynamics", "aba"),
    KernelKey("forward_dynamics", "crba"),
    KernelKey("mass_matrix"),
    KernelKey("mass_matrix_inverse"),
    KernelKey("inverse_dynamics_gradient"),
    KernelKey("forward_dynamics_gradient"),
    KernelKey("forward_kinematics"),
    KernelKey("center_of_mass"),
    KernelKey("centroidal_momentum_matrix"),
)
#: Of those, what is timed, and for how many states at once.
TIMED = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "inverse_dynamics_gradient",
    "forward_dynamics_gradient",
)
BATCHES = (1, 16, 256, 4096, 65536)
#: States of a launch whose time on a GPU is predicted: enough to fill any.
GPU_BATCH = 1 << 20


@dataclass(frozen=True)
class Cost:
    """What one function takes of a CPU: numbers of a state.

    Attributes:
        function:     its name in C++.
        operations:   of the specialized program, of all turns of its loops.
        dense:        of the same program if no number of the robot were known; 0 for loops.
        instructions: when sums take products in.
    """

    function: str
    operations: int
    dense: int
    instructions: int

    @property
    def removed(self) -> float:
        """The share of the operations that specialization has removed."""
        return 1.0 - self.operations / self.dense if self.dense else 0.0


@dataclass(frozen=True)
class GpuCost:
    """What one function takes of a GPU, float32.

    Attributes:
        function: its name in C++.
        arch:     the architecture.
        device:   the product whose figures were taken.
        bytes:    read and written of a state.
        seconds:  predicted, of a state in a full launch.
        bound:    what the prediction says binds it.
        share:    of the rate that memory or arithmetic alone would allow, predicted.
        compiled: registers and spills, where NVRTC is at hand; of the form for arrays in rows last.
    """

    function: str
    arch: str
    device: str
    bytes: float
    seconds: float
    bound: str
    share: float
    compiled: tuple[KernelResources, ...]


@dataclass(frozen=True)
class Speed:
    """Seconds of calls on this machine's CPU, float32, arguments bound, by the number of states."""

    function: str
    seconds: Mapping[int, float]


@dataclass(frozen=True)
class Facts:
    """All that a report tells."""

    tree: KinematicTree
    version: str
    costs: tuple[Cost, ...]
    refused: Mapping[str, str]
    gpu: tuple[GpuCost, ...]
    without_nvrtc: str
    comparisons: tuple[Comparison, ...]
    speeds: tuple[Speed, ...]


def gather(
    tree: KinematicTree,
    module: Module,
    robot: Robot,
    programs: Callable[[str], Programs],
    archs: Sequence[str],
    measure: bool,
    progress: Callable[[str], None],
) -> Facts:
    """Return all facts.

    Args:
        tree:     the robot.
        module:   its description, kernels and text.
        robot:    its functions, on the ``cpu`` backend.
        programs: the programs of a kernel, by its name.
        archs:    GPUs whose times are predicted.
        measure:  whether functions are compared with the reference, and timed.
        progress: called with a word for each step before it begins.

    Raises:
        OptionError: nothing is known of a GPU.
    """
    devices = [device_of(arch) for arch in archs]
    there = module.kernels.by_name
    kernels = [there[key.name] for key in REPORTED if key.name in there]
    costs = []
    for kernel in kernels:
        progress(f"tracing {kernel.name}")
        program = programs(kernel.name).cpu
        dense = 0 if program.loops is not None else program.dense_operations
        operations, instructions = work_of_a_state(program)
        costs.append(Cost(kernel.name, operations, dense, instructions))
    refused = module.kernels.refusals
    gpu, without_nvrtc = _gpu_costs(module, kernels, devices, progress)
    names = {kernel.name for kernel in kernels}
    comparisons: Sequence[Comparison] = ()
    speeds: Sequence[Speed] = ()
    if measure:
        types = ("float32", "float64")
        comparisons = compare(tree, robot, types, "cpu", functions=names, progress=progress)
        speeds = [_speed(tree, robot, name, progress) for name in _timed(kernels)]
    return Facts(
        tree,
        __version__,
        tuple(costs),
        {key.name: refused[key.name] for key in REPORTED if key.name in refused},
        tuple(gpu),
        without_nvrtc,
        tuple(comparisons),
        tuple(speeds),
    )


def _gpu_costs(
    module: Module,
    kernels: Sequence[Kernel],
    devices: Sequence[Device],
    progress: Callable[[str], None],
) -> tuple[list[GpuCost], str]:
    """Return what kernels take of GPUs, and why they were not compiled, if so."""
    costs: list[GpuCost] = []
    without = ""
    for device in devices:
        for kernel in kernels:
            compiled: list[KernelResources] = []
            if not without:
                progress(f"compiling {kernel.name} for {device.arch}")
                try:
                    compiled = resource_report(
                        module.sources(kernel), [kernel.name], ["float32"], device.arch
                    )
                except CompileError as error:
                    without = str(error)
            work = module.work(kernel)
            demand = demand_of(kernel, work, ITEM_BYTES["float32"], batch=GPU_BATCH)
            found = predicted(demand, device, GPU_BATCH)
            share = ceiling(demand, device, GPU_BATCH) / found.seconds
            costs.append(
                GpuCost(
                    kernel.name,
                    device.arch,
                    device.title,
                    demand.traffic.bytes,
                    found.seconds / GPU_BATCH,
                    found.bound,
                    share,
                    tuple(compiled),
                )
            )
    return costs, without


def _timed(kernels: Sequence[Kernel]) -> list[str]:
    there = {kernel.key.function for kernel in kernels}
    return [name for name in TIMED if name in there]


def _speed(
    tree: KinematicTree, robot: Robot, function: str, progress: Callable[[str], None]
) -> Speed:
    """Return the least times of calls, which take turns."""
    progress(f"timing {function}")
    states = random_states(tree, min(max(BATCHES), 256), np.random.default_rng(0))
    calls = {}
    for batch in BATCHES:
        arguments = [
            np.resize(states[name], (batch, *states[name].shape[1:])).astype(np.float32)
            for name in FUNCTIONS[function].arguments
        ]
        calls[batch] = robot.bind(function, *arguments)  # type: ignore[arg-type]
    return Speed(function, least(HostClock(), calls))
