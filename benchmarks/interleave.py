"""Timing several callables in turn, so that whatever else the machine does falls on all alike."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter

Call = Callable[[], object]
#: Tells seconds: of the clock on the wall, or of the processor (``time.thread_time``), which a busy
#: machine disturbs less.
Clock = Callable[[], float]

#: A sample is at least this long, so that neither the clock nor the loop shows [s].
_SAMPLE = 1e-3
_MAX_ROUNDS = 101
_FEWEST_ROUNDS = 5


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: least, quartiles, and the number of samples."""

    least: float
    median: float
    lower: float
    upper: float
    samples: int


def interleaved(
    calls: Mapping[str, Call], budget: float, clock: Clock = perf_counter
) -> dict[str, Timing]:
    """Time every call, one sample each in every round, in an order drawn anew.

    Args:
        calls:  what to time; each has been called before.
        budget: seconds to spend, exceeded where five rounds take longer.
        clock:  what tells the seconds of a call.
    """
    numbers = {name: _calls_per_sample(call, clock) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    shuffle = random.Random(0).shuffle
    begin = perf_counter()
    for done in range(_MAX_ROUNDS):
        if done >= _FEWEST_ROUNDS and perf_counter() - begin > budget:
            break
        shuffle(order)
        for name in order:
            samples[name].append(sample(calls[name], numbers[name], clock))
    return {name: summary(values) for name, values in samples.items()}


def sample(call: Call, number: int, clock: Clock = perf_counter) -> float:
    """Return the seconds of one call, the mean of ``number`` calls."""
    start = clock()
    for _ in repeat(None, number):
        call()
    return (clock() - start) / number


def summary(values: list[float]) -> Timing:
    """Return least and quartiles."""
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return Timing(min(values), median, lower, upper, len(values))


def _calls_per_sample(call: Call, clock: Clock) -> int:
    number = 1
    while (seconds := sample(call, number, clock)) * number < _SAMPLE:
        number = max(2 * number, min(100 * number, int(_SAMPLE / seconds)))
    return number
