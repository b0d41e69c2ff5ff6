"""A robot's functions over Dask arrays, chunk by chunk: batches beyond one machine's memory.

    from gridgen.dask import map_states
    qdd = map_states(robot, "forward_dynamics", q, qd, tau)  # Dask arrays (N, n), computed later

Dask schedules the chunks, with as many threads in each process as it runs tasks there. Each worker
receives the robot once, by pickle; workers of one machine share compiled functions. See
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
from gridgen.functions.arrays import ARRAYS, TIME_FIRST, closed, extents_of, shape_of
from gridgen.functions.types import Integrator
from gridgen.naming import check_choice, one_line
from gridgen.robot import Robot

try:
    import dask
    import dask.array as da
except ImportError as error:
    raise GridGenError(
        f"gridgen.dask needs Dask ({one_line(error)}): pip install 'grid-gen[dask]'"
    ) from error

# Robots that a process caches, each with its compiled functions.
_ROBOTS = 16


def map_states(robot: Robot, function: FunctionName, *arguments: Any, **options: Any) -> Any:
    """Return a function's results for Dask arrays of states, computed lazily.

    Args:
        robot:     the robot, of ``gridgen.load`` or of a generated module; workers must find the
                   files of a generated module at the same path.
        function:  name of the function, such as ``forward_dynamics``.
        arguments: arguments of the function, a Dask array first. Dask arrays have the batch as
                   their first axis, (N, ...), in chunks of any size; every chunk uses the other
                   arguments whole.
        options:   keyword arguments of the function, likewise.

    Returns:
        a Dask array (N, ...) with the chunks of the arguments, or a tuple of arrays for a function
        with several results.

    Raises:
        OptionError: the function does not exist; the first argument is not a Dask array.
        ShapeError, DtypeError: an argument has the wrong shape or type; nothing was computed.
        ModelError:  the robot does not support the function.
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
    """Integrate the dynamics for Dask arrays, as ``Robot.rollout`` does.

    Args:
        robot:      the robot.
        q0:         initial joint positions, a Dask array (N, nq).
        qd0:        initial joint velocities (N, nv).
        tau:        joint torques (N, T, nv), or (T, nv) for all states.
        dt:         duration of a step, a number or (N,).
        integrator: integration method.
        options:    keyword arguments of ``Robot.rollout``.

    Returns:
        q_path (N, T + 1, nq), qd_path (N, T + 1, nv): Dask arrays.

    Raises: as ``map_states``.
    """
    return map_states(robot, "rollout", q0, qd0, tau, dt, integrator=integrator, **options)


class _Call:
    """A call of a function on Dask arrays, chunk by chunk.

    Args:
        function: name of the function.
        values:   all arguments by name.
    """

    def __init__(self, function: str, values: Mapping[str, Any]) -> None:
        self._function = function
        self._shared = {n: None if _is_chunked(v) else v for n, v in values.items()}
        self.chunked = [(n, _in_rows(v)) for n, v in values.items() if _is_chunked(v)]

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the arrays: each call receives their chunks."""
        return {**vars(self), "chunked": [(name, None) for name, _ in self.chunked]}

    def __call__(self, robot: Robot, values: Mapping[str, Any]) -> Any:
        """Return the results for some states."""
        return getattr(robot, self._function)(**{**self._shared, **values})

    def of_chunk(self, *chunks: Any, carried: bytes) -> Any:
        """Return the results for a chunk, on the process that Dask selects."""
        robot = _arrived(carried)
        values = {n: _whole(chunk) for (n, _), chunk in zip(self.chunked, chunks, strict=True)}
        if "backend" not in self._shared and _has_own_gpu():
            values["backend"] = "cuda"
        # Dask runs as many tasks in parallel as the process has threads.
        with limited_threads(1):
            return self(robot, values)


def _over_chunks(call: _Call, robot: Robot, found: Any) -> Any:
    """Return a call's results as Dask arrays.

    Args:
        call:  the call with its arguments.
        robot: the robot.
        found: the results for zero states.
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
    return type(found)(
        *(
            da.blockwise(
                operator.getitem, (0, *new), together, (0,), place, None, new_axes=new, meta=like
            )
            for place, (new, like) in enumerate(zip(axes, results, strict=True))
        )
    )


def _check(robot: Robot, arrays: Mapping[str, Any]) -> None:
    """Raise unless Dask arrays have one batch, state axes and supported element types."""
    batch = next(iter(arrays.values())).shape[:1]
    extents = extents_of(robot)
    for name, array in arrays.items():
        if name in ARRAYS:
            state = closed(shape_of(name, extents), array.shape)
            if array.shape[max(array.ndim - len(state), 0) :] != state:
                expected = ", ".join(map(str, ("N", *state)))
                raise ShapeError(f"{name} has shape {array.shape}; {robot.name} needs ({expected})")
        if array.dtype not in (np.float32, np.float64):
            raise DtypeError(f"{name} is of {array.dtype}; give float32 or float64")
        is_same = array.ndim and (array.shape[0] == batch[0] or _unknown(array, *batch))
        if not is_same:
            raise ShapeError(
                f"{name} has shape {array.shape}; Dask arrays have the batch of the first "
                f"argument, {batch[0] if batch else 'which has none'}"
            )


def _check_shared(function: str, values: Mapping[str, Any]) -> None:
    """Raise for states in an array that is not a Dask array: every chunk would use all of them."""
    for name, value in values.items():
        if name not in ARRAYS or _is_chunked(value) or not hasattr(value, "shape"):
            continue
        times = 1 if function == "rollout" and name in TIME_FIRST else 0
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
    """Return a chunk that Dask wraps in a list for each axis with a single chunk."""
    while isinstance(chunk, list):
        (chunk,) = chunk
    return chunk


def _empty(value: Any) -> Any:
    """Return an argument for zero states, which is validated but needs no compiler."""
    return np.empty((0, *value.shape[1:]), value.dtype) if _is_chunked(value) else value


@lru_cache(_ROBOTS)
def _arrived(carried: bytes) -> Robot:
    """Return an unpickled robot, one for all calls of a process."""
    robot: Robot = pickle.loads(carried)
    return robot


@lru_cache(1)
def _has_own_gpu() -> bool:
    """Return whether dask-cuda assigned a usable GPU to this worker."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES"):
        return False
    try:
        from dask.distributed import get_worker

        from gridgen.backends.cuda.backend import require_device

        get_worker()
        require_device()
    except (ImportError, ValueError, DeviceError):  # not in a worker, or no GPU
        return False
    return True
