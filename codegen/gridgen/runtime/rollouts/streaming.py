"""Rollouts of NumPy arrays on a GPU: a part of the states at a time, each from begin to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from gridgen.functions.types import Array
from gridgen.runtime.arrays.staging import Operand, operand
from gridgen.runtime.arrays.streaming import run_streamed

if TYPE_CHECKING:
    from gridgen.runtime.rollouts.arguments import Argument
    from gridgen.runtime.rollouts.call import RolloutCall

#: Bytes of the copies of a part: many, for those of a state are of all its steps.
PART_BYTES = 1 << 27

_Adjust: TypeAlias = Callable[[Array], None]


def run_rollout_streamed(
    call: RolloutCall,
    adjustment: Callable[[Argument], _Adjust | None],
    run: Callable[[RolloutCall], None],
) -> None:
    """Compute a rollout on the current GPU, of which arrays lie on the host; see ``run_streamed``.

    Args:
        call:       the rollout.
        adjustment: returns what changes a copy of an argument before the kernel reads it.
        run:        enqueues a rollout whose arrays lie on the GPU.
    """
    # What is not read has the place of the positions.
    sources = [i if item.is_read else 0 for i, item in enumerate(call.inputs)]
    brought = sorted(set(sources))

    def run_part(there: list[Operand], states: int) -> None:
        given = dict(zip(brought, there, strict=False))
        inputs = (given[i].array for i in sources)
        outputs = (item.array for item in there[len(brought) :])
        part = replace(
            call,
            inputs=_with_arrays(call.inputs, inputs),
            outputs=_with_arrays(call.outputs, outputs),
            lead=(states,) if call.lead else (),
        )
        run(part)

    inputs = [_operand(call.inputs[i], adjustment(call.inputs[i])) for i in brought]
    outputs = [_operand(item, None) for item in call.outputs]
    names = [call.inputs[i].name for i in brought]
    run_streamed(run_part, names, inputs, outputs, call.states, PART_BYTES)


def _operand(item: Argument, adjust: _Adjust | None) -> Operand:
    """Return an array as one that is divided by states."""
    axes = item.array.ndim - (item.batch is not None)
    return operand(item.array, axes)._replace(adjust=adjust)


def _with_arrays(items: tuple[Argument, ...], arrays: Iterable[Array]) -> tuple[Argument, ...]:
    pairs = zip(items, arrays, strict=True)
    return tuple(replace(item, array=array) for item, array in pairs)
