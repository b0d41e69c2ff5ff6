"""The numbers of a report: of the robot, its code and this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gridgen.backends.cuda.compiler import KernelResources, resource_report
from gridgen.check import Comparison, compare, random_states
from gridgen.cost.devices import Device, device_of
from gridgen.cost.gpu import demand_of, predicted, roofline_bound
from gridgen.errors import CompileError
from gridgen.functions import FUNCTIONS
from gridgen.kernel import Kernel, KernelKey
from gridgen.model.kinematic_tree import KinematicTree
from gridgen.robot import Robot
from gridgen.runtime.module.description import Module
from gridgen.runtime.planning.clocks import HostClock, least
from gridgen.schedules.thread.plan import Programs
from gridgen.symbolic.iterations import work_per_state
from gridgen.version import __version__

#: The functions in a report: those that users call most.
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
#: The functions that are timed, and the numbers of states per call.
TIMED = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "inverse_dynamics_gradient",
    "forward_dynamics_gradient",
)
BATCHES = (1, 16, 256, 4096, 65536)
#: States of the launch whose time is predicted: enough to fill any GPU.
GPU_BATCH = 1 << 20


@dataclass(frozen=True)
class Cost:
    """CPU cost of one function, for one state."""

    function: str  #: its name in C++.
    operations: int  #: floating-point operations of the specialized program, over all iterations.
    dense: int  #: operations of the same program without the robot's constants; 0 for loops.
    instructions: int  #: operations when multiplications and additions are fused.

    @property
    def removed(self) -> float:
        """The share of operations that specialization removes."""
        return 1.0 - self.operations / self.dense if self.dense else 0.0


@dataclass(frozen=True)
class GpuCost:
    """GPU cost of one function in float32."""

    function: str  #: its name in C++.
    arch: str  #: the architecture.
    device: str  #: the product whose published figures the prediction uses.
    bytes: float  #: bytes read and written per state.
    seconds: float  #: predicted time per state in a full launch.
    bound: str  #: the limiting resource of the prediction.
    #: predicted speed relative to the roofline bound, which memory or arithmetic sets.
    share: float
    #: registers and spills if NVRTC is installed; the variant for rows comes last.
    compiled: tuple[KernelResources, ...]


@dataclass(frozen=True)
class Speed:
    """Seconds of bound float32 calls on this machine's CPU, by the number of states."""

    function: str
    seconds: Mapping[int, float]


@dataclass(frozen=True)
class Facts:
    """All numbers of a report."""

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

    Raises:
        OptionError: an architecture is unknown.
    """
    devices = [device_of(arch) for arch in archs]
    by_name = module.kernels.by_name
    kernels = [by_name[key.name] for key in REPORTED if key.name in by_name]
    costs = []
    for kernel in kernels:
        progress(f"tracing {kernel.name}")
        program = programs(kernel.name).cpu
        dense = 0 if program.loops is not None else program.dense_operations
        operations, instructions = work_per_state(program)
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
    """Return the GPU cost of kernels, and why they were not compiled, if so."""
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
            demand = demand_of(kernel, work, 4, batch=GPU_BATCH)
            found = predicted(demand, device, GPU_BATCH)
            share = roofline_bound(demand, device, GPU_BATCH) / found.seconds
            costs.append(
                GpuCost(
                    kernel.name,
                    device.arch,
                    device.title,
                    demand.bytes,
                    found.seconds / GPU_BATCH,
                    found.bound,
                    share,
                    tuple(compiled),
                )
            )
    return costs, without


def _timed(kernels: Sequence[Kernel]) -> list[str]:
    functions = {kernel.key.function for kernel in kernels}
    return [name for name in TIMED if name in functions]


def _speed(
    tree: KinematicTree, robot: Robot, function: str, progress: Callable[[str], None]
) -> Speed:
    """Return the shortest times of calls, measured alternately."""
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
