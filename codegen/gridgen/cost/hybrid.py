"""The time of the hybrid schedule, predicted: two processors, and the way between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gridgen.cost.demand import demand_of
from gridgen.cost.devices import Device
from gridgen.cost.gpu import predicted
from gridgen.cost.host import Host, predicted_on
from gridgen.kernel import Kernel, Work

#: States whose inertias are on their way at once, which bounds the memory that they take.
STATES = 1024
#: From the request of a copy until the processor that waits for it goes on [s]. A guess.
_HANDOVER = 10e-6


@dataclass(frozen=True)
class Halves:
    """The kernels of the hybrid schedule, each with what a state costs it.

    Attributes:
        inertias:      the CPU's.
        bias:          the GPU's beside it.
        accelerations: the GPU's when both are done.
    """

    inertias: tuple[Kernel, Work]
    bias: tuple[Kernel, Work]
    accelerations: tuple[Kernel, Work]


def predicted_hybrid(
    halves: Halves, host: Host, device: Device, itemsize: int, batch: int
) -> dict[str, float]:
    """Return what each part of a call takes [s]: ``cpu``, ``copies``, ``gpu``.

    Parts of ``STATES`` states follow one another. Of the GPU's time that counts which the CPU's
    does not hide.
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
