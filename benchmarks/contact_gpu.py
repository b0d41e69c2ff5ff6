"""Resources and predicted time of GPU rollouts with contacts: no GPU is needed.

    python benchmarks/contact_gpu.py [--models quadruped] [--arch sm_120] [--batch 8192]

NVRTC compiles the kernel of ``rollout`` by the method ``implicit`` in float32. Its machine code has
one iteration of Newton's method and one evaluation of the line search. A warp repeats them until
all of its states have converged. These repetitions are counted on the CPU, in states on the ground.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from contact_statistics import row
from contacts import model_of, own, states
from sass import kernel_of
from static_gpu import known_demand

from gridgen.backends.cuda.compiler import compile_kernel
from gridgen.backends.interface import launch_of
from gridgen.cost.devices import _DEVICES, Device
from gridgen.cost.gpu import demand_of, predicted
from gridgen.dynamics.functions import computation_of
from gridgen.kernel import WARP
from gridgen.model.readers.mujoco import from_model
from gridgen.model.tree import KinematicTree, build_tree
from gridgen.modules import TracedModule
from gridgen.options import RobotOptions
from gridgen.symbolic.scalars import CountingScalars, FloatScalars, Iteration

HEADS = ("registers", "spilled bytes", "shared bytes", "code [kB]", "Newton", "searches")
STEP = "step_implicit"


class Repeated(FloatScalars):
    """Numbers that count how often a warp executes each loop."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[str, float] = {}

    def iterate(  # type: ignore[override]
        self,
        symbol: str,
        most: int,
        start: Sequence[Any],
        step: Iteration,
        test: Any = -1.0,
        **_: Any,
    ) -> list[Any]:
        """Iterate, and add the executions of a warp, in the mean."""

        def counted(values: list[Any]) -> tuple[Sequence[Any], Any]:
            nonlocal test
            after, new = step(values)
            if np.ndim(test):
                warps = (test < 0.0)[: len(test) // WARP * WARP].reshape(-1, WARP)
                share = float(warps.any(axis=1).mean())
            else:
                share = 1.0
            self.times[symbol] = self.times.get(symbol, 0.0) + share
            test = np.where(test < 0.0, new, test)
            return after, new

        return super().iterate(symbol, most, start, counted, test)


class Weighted(CountingScalars):
    """Counters that count loops as often as they are executed."""

    def __init__(self, times: dict[str, float]) -> None:
        super().__init__()
        self.times = times

    def iterate(self, symbol: str, *arguments: Any, **options: Any) -> list[Any]:
        """Count the iterations."""
        before = self.operations
        found = super().iterate(symbol, *arguments, **options)
        more = self.times.get(symbol, 1.0) - 1.0
        self.counts[0] += round(more * (self.operations - before))
        return found


def repetitions(tree: KinematicTree, model: Any) -> dict[str, float]:
    """Return how often a warp executes the loops: Newton's, and the search of each iteration."""
    rng = np.random.default_rng(0)
    q, qd = own(model, states(model, rng, 256)[0])
    tau = rng.normal(size=qd.shape)
    tau[:, : 6 * (model.jnt_type[0] == 0)] = 0.0
    given = {"q": q, "qd": qd, "tau": tau, "gravity": np.tile(model.opt.gravity, (len(q), 1))}
    given |= {
        name: np.tile(values, (len(q), 1)).reshape(len(q), -1)
        for name, values in tree.parameters.items()
    }
    given["tolerance"] = np.full((len(q), 1), 1e-4)  # of float32
    spec, scalars = computation_of(tree, "contact_forward_dynamics"), Repeated()
    with np.errstate(all="ignore"):
        spec.algorithm(tree, {name: [*given[name].T] for name in spec.inputs}, scalars)
    newton = scalars.times["newton"]
    return {"newton": newton, "length": scalars.times.get("length", 0.0) / newton}


def executed(tree: KinematicTree, times: dict[str, float]) -> float:
    """Return the operations of a step relative to those with every loop once."""
    counts = []
    for scalars in (Weighted({}), Weighted(times)):
        spec = computation_of(tree, STEP)
        columns = {
            name: [scalars.constant(0.0)] * int(np.prod(spec.shape(name, tree)))
            for name in spec.inputs
        }
        spec.algorithm(tree, columns, scalars)
        counts.append(scalars.operations)
    return counts[1] / counts[0]


def measure(name: str, arch: str, device: Device, batch: int) -> str:
    """Return a row of the table."""
    model = model_of(name)
    tree = build_tree(from_model(model), RobotOptions(joint_dynamics=True, contact=True))
    times = repetitions(tree, model)
    factor = executed(tree, times)
    module = TracedModule(tree)
    kernel = module.kernels.named("rollout_implicit")
    sources = module.sources(kernel)
    has_rows = True in sources.forms(kernel.name)
    compiled = compile_kernel(sources, kernel.name, "float32", arch, rows=has_rows)
    taken = compiled.resources
    assert taken is not None
    code = kernel_of(compiled.image)
    launch = launch_of(sources, kernel.name, "float32", rows=has_rows, arch=arch)
    demand = demand_of(kernel, module.work(kernel), 4, batch=batch)
    demand = replace(demand, **asdict(launch.of(batch)))
    demand = known_demand(demand, taken, code, has_loops=False)
    demand = replace(
        demand,
        instructions=factor * code.instructions,
        pipes={pipe: factor * count for pipe, count in code.pipes.items()},
        local_moves=factor * code.local,
    )
    found = predicted(demand, device, batch)
    spilled = taken.spill_stores + taken.spill_loads
    seconds = found.seconds - device.launch
    points = sum(contact.count for contact in tree.contact_model.contacts)
    cells: list[object] = [name, model.nv, points, taken.registers, spilled]
    cells += [demand.shared_bytes, round(code.code_bytes / 1024)]
    cells += [f"{times['newton']:.1f}", f"{times['length']:.1f}"]
    cells += [f"{demand.instructions:,.0f}", f"{1e9 * seconds / batch:.2g}", found.bound]
    return row(*cells, f"{batch / seconds / 1e6:.1f}")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    models = ("hopper", "half_cheetah", "ant", "hand", "quadruped elliptic", "quadruped pyramidal")
    parser.add_argument("--models", nargs="*", default=[*models, "go2", "humanoid"])
    parser.add_argument("--arch", default="sm_120")
    parser.add_argument("--batch", type=int, default=8192)
    options = parser.parse_args()
    device = next(one for one in _DEVICES if one.arch == options.arch)
    print(f"{device.title}, {options.batch:,} states: predictions\n")
    rest = ("instructions", "predicted ns", "bound", "million steps a second")
    print(row("model", "nv", "points", *HEADS, *rest), row(*["---"] * 13), sep="\n", flush=True)
    for name in options.models:
        print(measure(name, options.arch, device, options.batch), flush=True)


if __name__ == "__main__":
    main()
