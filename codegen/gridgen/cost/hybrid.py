"""Predict the time of the hybrid schedule: CPU, GPU and the copies between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gridgen.cost.demand import demand_of
from gridgen.cost.devices import Device
from gridgen.cost.gpu import predicted
from gridgen.cost.host import Host, predicted_on
from gridgen.kernel import Kernel, Work

#: States per chunk, whose inertias are copied together; bounds their memory.
STATES = 1024
#: From the request of a copy until the waiting processor continues [s]. A guess.
_HANDOVER = 10e-6


@dataclass(frozen=True)
class Halves:
    """The kernels of the hybrid schedule, each with its work per state."""

    inertias: tuple[Kernel, Work]  #: kernel on the CPU.
    bias: tuple[Kernel, Work]  #: kernel on the GPU at the same time.
    accelerations: tuple[Kernel, Work]  #: kernel on the GPU after both.


def predicted_hybrid(
    halves: Halves, host: Host, device: Device, itemsize: int, batch: int
) -> dict[str, float]:
    """Return the time of each part of a call [s]: ``cpu``, ``copies``, ``gpu``.

    Chunks of ``STATES`` states run in sequence. GPU time that overlaps with CPU time is not
    counted.
    """
    total = dict.fromkeys(("cpu", "copies", "gpu"), 0.0)
    for states in {STATES, batch % STATES} - {0}:
        parts = batch // STATES if states == STATES else 1
        inertias, work = halves.inertias
        on_host = predicted_on(host, inertias, work, itemsize, states).seconds
        bias, rest = (
            predicted(demand_of(kernel, work, itemsize, batch=states), device, states).seconds
            for kernel, work in (halves.bias, halves.accelerations)
        )
        shapes = (*inertias.inputs.values(), *inertias.outputs.values())
        moved = states * itemsize * sum(map(math.prod, shapes))
        total["cpu"] += parts * on_host
        total["copies"] += parts * (2 * _HANDOVER + moved / device.link)
        total["gpu"] += parts * (max(0.0, bias - on_host) + rest)
    return total
