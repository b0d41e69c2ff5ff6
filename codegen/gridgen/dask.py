"""A robot's functions over Dask arrays, chunk by chunk: batches beyond one machine's memory.

    from gridgen.dask import map_states
    qdd = map_states(robot, "forward_dynamics", q, qd, tau)  # Dask arrays (N, n), computed later

Chunks are computed where Dask has them computed, by as many threads as it has tasks there. A robot
travels by pickle, once to each worker; workers of one machine share what is compiled. More is in
docs/dask.md.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import os
import pickle
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from gridgen.backends.cpu.backend import limited_threads
from gridgen.errors import DeviceError, DtypeError, GridGenError, OptionError, ShapeError
from gridgen.functions import GENERATED, FunctionName
from gridgen.functions.arrays import ARRAYS, shape_of
from gridgen.functions.types import Integrator
from gridgen.naming import one_line
from gridgen.robot import Robot
from gridgen.runtime.calls.evaluation import check_choice

try:
    import dask
    import dask.array as da
except ImportError as error:
    raise GridGenError(
        f"gridgen.dask needs Dask ({one_line(error)}): pip install 'grid-gen[dask]'"
    ) from error

# Robots that a process keeps, each with its compiled functions.
_ROBOTS = 16


def map_states(robot: Robot, function: FunctionName, *arguments: Any, **options: Any) -> Any:
    """Return a function's results for Dask arrays of states, computed when they are asked for.

    Args:
        robot:     the robot, of ``gridgen.load`` or a generated module; the same files must lie
                   where workers look for a generated module's.
        function:  the name of the function: ``forward_dynamics``.
        arguments: those of the function, the first of which is a Dask array. Dask arrays have the
                   batch first, (N, ...), in chunks of any sizes; other arguments go to every chunk.
        options:   its keyword arguments, likewise.

    Returns:
        a Dask array (N, ...) in chunks like those of the arguments, or a tuple of them where the
        function has several results.

    Raises:
        OptionError: there is no such function; the first argument is no Dask array.
        ShapeError, DtypeError: an argument does not fit; nothing was computed.
        ModelError:  the robot cannot have the function.
    """
    if not isinstance(robot, Robot):
        raise OptionError(
            f"robot is of type {type(robot).__name__}; give one of gridgen.load, or the robot of a "
            "generated module (arm7.robot)"
        )
    check_choice("function", function, GENERATED)
    if not arguments or not isinstance(arguments[0], da.Array):
        given = f"of type {type(arguments[0]).__name__}" if arguments else "missing"
        raise OptionError(
            f"the first argument of {function} is {given}; give a Dask array "
            "(dask.array.from_array, from_zarr, from_npy_stack)"
        )
    if "out" in options:
        raise OptionError("out: results are Dask arrays; store them (to_zarr, to_npy_stack)")
    signature = inspect.signature(getattr(robot, function))
    values = signature.bind(*arguments, **options).arguments
    _check(robot, {n: value for n, value in values.items() if isinstance(value, da.Array)})
    _check_shared(function, values)
    call = _Call(function, values)
    found = call(robot, {name: _empty(value) for name, value in values.items()})
    return _over_chunks(call, robot, found)


def rollout(
    robot: Robot,
    q0: Any,
    qd0: Any,
    tau: Any,
    dt: Any,
    integrator: Integrator = "semi_implicit",
    **options: Any,
) -> Any:
    """Return the states that efforts lead to, as ``Robot.rollout`` does, for Dask arrays.

    Args:
        robot:      the robot.
        q0:         positions at the beginning, a Dask array (N, nq).
        qd0:        velocities at the beginning (N, nv).
        tau:        efforts (N, T, nv), or (T, nv) for all.
        dt:         length of a step, a number or (N,).
        integrator: how a step is made.
        options:    keyword arguments of ``Robot.rollout``.

    Returns:
        q_path (N, T + 1, nq), qd_path (N, T + 1, nv): Dask arrays.

    Raises: as ``map_states``.
    """
    return map_states(robot, "rollout", q0, qd0, tau, dt, integrator=integrator, **options)


class _Call:
    """A call of a function, whose Dask arrays are given chunk by chunk.

    Args:
        function: its name.
        values:   all arguments by name.
    """

    def __init__(self, function: str, values: Mapping[str, Any]) -> None:
        self._function = function
        self._shared = {n: None if _is_chunked(v) else v for n, v in values.items()}
        self.chunked = [(n, _in_rows(v)) for n, v in values.items() if _is_chunked(v)]

    def __getstate__(self) -> dict[str, Any]:
        """Travel without the arrays: their chunks are given in each call."""
        return {**vars(self), "chunked": [(name, None) for name, _ in self.chunked]}

    def __call__(self, robot: Robot, values: Mapping[str, Any]) -> Any:
        """Return the results for some states."""
        return getattr(robot, self._function)(**{**self._shared, **values})

    def of_chunk(self, *chunks: Any, carried: bytes) -> Any:
        """Return the results for a chunk, on whatever has it computed."""
        robot = _arrived(carried)
        values = {n: _whole(chunk) for (n, _), chunk in zip(self.chunked, chunks, strict=True)}
        if "backend" not in self._shared and _has_own_gpu():
            values["backend"] = "cuda"
        # Dask has as many tasks at a time as the process shall have threads.
        with limited_threads(1):
            return self(robot, values)


def _over_chunks(call: _Call, robot: Robot, found: Any) -> Any:
    """Return a call's results as Dask arrays.

    Args:
        call:  has the arguments.
        robot: the robot.
        found: the results for no states.
    """
    arrays: list[Any] = []
    label = itertools.count(1)
    for _, array in call.chunked:
        arrays += [array, (0, *itertools.islice(label, array.ndim - 1))]
    carried = dask.delayed(pickle.dumps(robot), pure=True)
    several = isinstance(found, tuple)
    results = found if several else (found,)
    axes = [{next(label): extent for extent in like.shape[1:]} for like in results]
    if not several:
        return da.blockwise(
            call.of_chunk,
            (0, *axes[0]),
            *arrays,
            carried=carried,
            new_axes=axes[0],
            meta=found,
        )
    together = da.blockwise(call.of_chunk, (0,), *arrays, carried=carried, meta=np.empty(0, object))
    return tuple(
        da.blockwise(
            operator.getitem, (0, *new), together, (0,), place, None, new_axes=new, meta=like
        )
        for place, (new, like) in enumerate(zip(axes, results, strict=True))
    )


def _check(robot: Robot, arrays: Mapping[str, Any]) -> None:
    """Raise unless Dask arrays have one batch, axes of states, and types that are computed with."""
    batch = next(iter(arrays.values())).shape[:1]
    extents = {"nq": robot.nq, "nv": robot.nv, "bodies": len(robot.body_names)}
    extents["rows"] = len(robot.parameter_names)
    extents["constraints"] = len(robot.constraint_names)
    for name, array in arrays.items():
        if name in ARRAYS:
            state = shape_of(name, extents)
            if array.shape[max(array.ndim - len(state), 0) :] != state:
                wanted = ", ".join(map(str, ("N", *state)))
                raise ShapeError(f"{name} has shape {array.shape}; {robot.name} needs ({wanted})")
        if array.dtype not in (np.float32, np.float64):
            raise DtypeError(f"{name} is of {array.dtype}; give float32 or float64")
        is_same = array.ndim and (array.shape[0] == batch[0] or _unknown(array, *batch))
        if not is_same:
            raise ShapeError(
                f"{name} has shape {array.shape}; Dask arrays have the batch of the first "
                f"argument, {batch[0] if batch else 'which has none'}"
            )


def _check_shared(function: str, values: Mapping[str, Any]) -> None:
    """Raise for states in an array that is no Dask array: every chunk would get all of them."""
    for name, value in values.items():
        if name not in ARRAYS or _is_chunked(value) or not hasattr(value, "shape"):
            continue
        times = 1 if function == "rollout" and name == "tau" else 0
        own = value.shape[: max(len(value.shape) - len(ARRAYS[name].shape) - times, 0)]
        if any(extent != 1 for extent in own):
            raise ShapeError(
                f"{name} has shape {tuple(value.shape)} and is no Dask array, so that it goes to "
                f"every chunk: give {name} of one state, or a Dask array of {own[0]} states"
            )


def _unknown(array: Any, batch: float) -> bool:
    return bool(np.isnan(array.shape[0]) or np.isnan(batch))


def _is_chunked(value: Any) -> bool:
    return isinstance(value, da.Array)


def _in_rows(array: Any) -> Any:
    """Return a Dask array with chunks along the batch alone."""
    return array.rechunk(dict.fromkeys(range(1, array.ndim), -1))


def _whole(chunk: Any) -> Any:
    """Return a chunk that Dask hands over in a list for each axis along which it has one alone."""
    while isinstance(chunk, list):
        (chunk,) = chunk
    return chunk


def _empty(value: Any) -> Any:
    """Return an argument for no states at all, which is checked as any, and takes no compiler."""
    return np.empty((0, *value.shape[1:]), value.dtype) if _is_chunked(value) else value


@lru_cache(_ROBOTS)
def _arrived(carried: bytes) -> Robot:
    """Return a robot that has come by pickle: one for all calls of a process."""
    robot: Robot = pickle.loads(carried)
    return robot


@lru_cache(1)
def _has_own_gpu() -> bool:
    """Tell whether a GPU was assigned to this worker, as dask-cuda does, and can be used."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES"):
        return False
    try:
        from dask.distributed import get_worker

        from gridgen.backends.cuda.backend import require_device

        get_worker()
        require_device()
    except (ImportError, ValueError, DeviceError):  # not in a worker; without a GPU
        return False
    return True
