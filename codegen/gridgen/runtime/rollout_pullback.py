"""Backpropagation through rollouts: states are computed anew from checkpoints, then steps reversed.

A trajectory of T steps is kept at about sqrt(T) places; the steps between two of them are made
again when their turn comes. Memory grows with sqrt(T), and every step is made three times: twice on
the way there, once in its pullback.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gridgen.errors import OptionError, ShapeError
from gridgen.functions.arrays import ARRAYS
from gridgen.functions.types import Array
from gridgen.naming import show_value
from gridgen.runtime.arrays import on_device
from gridgen.runtime.description import Description
from gridgen.runtime.libraries import adopt, namespace, restored
from gridgen.runtime.streams import caller_streams


class Steps(NamedTuple):
    """What a robot does from state to state, with an integrator chosen.

    Attributes:
        rollout: (q0, qd0, tau, dt, keep=, ...) -> (q, qd).
        reverse: (cotangents, q, qd, tau, dt, ...) -> cotangents of q, qd and tau.
    """

    rollout: Callable[..., tuple[Array, Array]]
    reverse: Callable[..., tuple[Array, Array, Array]]


def rollout_vjp(
    robot: Description,
    steps: Steps,
    state: tuple[Any, Any],
    tau: Any,
    dt: Any,
    cotangents: Any,
    options: Mapping[str, Any],
) -> tuple[Array, Array, Array]:
    """Return the cotangents of the beginning and of the efforts; see ``Robot.rollout_vjp``."""
    if not isinstance(cotangents, (tuple, list)) or len(cotangents) != 2:
        raise OptionError(
            f"cotangents is {show_value(cotangents)}; give two arrays, for q_path and qd_path"
        )
    given = {name: value for name, value in options.items() if value is not None}
    everything = (*state, tau, *cotangents, *given.values())
    with caller_streams(everything)():
        q = adopt(state[0], "q0")
        with on_device(q):
            xp, alone = namespace(q), q.ndim == 1
            qd, tau = adopt(state[1], "qd0", q), adopt(tau, "tau", q)
            bars = [
                adopt(value, f"cotangents[{place}]", q) for place, value in enumerate(cotangents)
            ]
            given = {name: adopt(value, name, q) for name, value in given.items()}
            if alone:
                q, qd, tau, *bars = (array[None] for array in (q, qd, tau, *bars))
            _check(robot, q, qd, tau, bars, given)
            reverse = _Reverse(steps, dt if isinstance(dt, float) else adopt(dt, "dt", q), given)
            results = reverse(xp, q, qd, tau, bars)
            for joint in robot.space.free:  # the beginning is normalised before it is kept
                turn, bar = q[:, joint.quaternion], results[0][:, joint.quaternion]
                bar -= turn * (turn * bar).sum(axis=1, keepdims=True)
            return tuple(restored(array[0] if alone else array, state[0]) for array in results)


def _check(
    robot: Description,
    q: Array,
    qd: Array,
    tau: Array,
    bars: list[Array],
    given: Mapping[str, Array],
) -> None:
    batch, times = len(q), tau.shape[-2] if tau.ndim == 3 else 0
    wanted = {
        "qd0": (qd, (batch, robot.nv)),
        "tau": (tau, (batch, times, robot.nv)),
        "cotangents[0]": (bars[0], (batch, times + 1, robot.nq)),
        "cotangents[1]": (bars[1], (batch, times + 1, robot.nv)),
    }
    for name, (array, shape) in wanted.items():
        if array.shape != shape or not times:
            needed = shape if times else f"({batch}, T, {robot.nv}), with T steps, one or more"
            raise ShapeError(f"{name} has shape {array.shape}; with q0 as given it needs {needed}")
    for name, array in given.items():
        if array.ndim > len(ARRAYS[name].shape) + 1:
            raise ShapeError(
                f"{name} has shape {array.shape}: here it is the same in all steps, without T"
            )


class _Reverse:
    """The way back along a batch of rollouts.

    Args:
        steps: the robot's.
        dt:    time of a step.
        given: what else steps are given, the same in all of them.
    """

    def __init__(self, steps: Steps, dt: Any, given: Mapping[str, Array]) -> None:
        self._steps, self._dt, self._given = steps, dt, given

    def __call__(
        self, xp: Any, q: Array, qd: Array, tau: Array, bars: list[Array]
    ) -> tuple[Array, Array, Array]:
        """Return the cotangents of ``q``, ``qd`` and ``tau``."""
        times = tau.shape[1]
        length = math.isqrt(times - 1) + 1
        begins = range(0, times, length)
        kept = [(q, qd)]
        for begin in begins[:-1]:
            efforts = tau[:, begin : begin + length]
            rollout = self._steps.rollout
            kept.append(rollout(*kept[-1], efforts, self._dt, keep="last", **self._given))
        tau_bar = xp.empty_like(tau)
        found = bars[0][:, -1], bars[1][:, -1]
        for begin, start in zip(reversed(begins), reversed(kept), strict=True):
            found = self._through(start, tau, begin, begin + length, bars, found, tau_bar)
        return (*found, tau_bar)

    def _through(
        self,
        start: tuple[Array, Array],
        tau: Array,
        begin: int,
        end: int,
        bars: list[Array],
        found: tuple[Array, Array],
        tau_bar: Array,
    ) -> tuple[Array, Array]:
        """Go back from the end of some steps to their beginning."""
        efforts = tau[:, begin:end]
        q, qd = self._steps.rollout(*start, efforts, self._dt, **self._given)
        for k in reversed(range(efforts.shape[1])):
            q_bar, qd_bar, effort_bar = self._steps.reverse(
                found, q[:, k], qd[:, k], efforts[:, k], self._dt, **self._given
            )
            tau_bar[:, begin + k] = effort_bar
            found = q_bar + bars[0][:, begin + k], qd_bar + bars[1][:, begin + k]
        return found
