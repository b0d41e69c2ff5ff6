"""The fake under CuPy's names."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from fake_gpu import arrays, errors, kernels, routines, streams, transfers
from fake_gpu.machine import machine

_NUMBERS = ("nan", "inf", "pi", "newaxis", "float32", "float64", "int32", "int64", "bool_", "dtype")


def modules() -> dict[str, ModuleType]:
    """Return the modules that replace CuPy, by name in ``sys.modules``."""
    runtime = _module(
        "cupy.cuda.runtime",
        CUDARuntimeError=errors.CUDARuntimeError,
        driverGetVersion=lambda: 1000 * machine().driver[0] + 10 * machine().driver[1],
        getDeviceProperties=lambda number: {"name": f"fake GPU {number}".encode()},
        memGetInfo=lambda: machine().device.pool.info,
        deviceSynchronize=lambda: streams.synchronize(machine().device),
        getDevice=lambda: machine().current.device,
        getDeviceCount=lambda: len(machine().devices),
        pointerGetAttributes=transfers.attributes,
        setDevice=lambda number: arrays.DeviceContext(number).use(),
    )
    driver = _module(
        "cupy.cuda.driver",
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=kernels.MAX_DYNAMIC_SHARED_SIZE_BYTES,
        CUDADriverError=errors.CUDADriverError,
        funcSetAttribute=kernels.set_attribute,
        launchKernel=kernels.launch,
    )
    function = _module("cupy.cuda.function", Function=kernels.Function, Module=kernels.Module)
    memory = _module("cupy.cuda.memory", OutOfMemoryError=errors.OutOfMemoryError)
    cuda = _module(
        "cupy.cuda",
        Device=arrays.DeviceContext,
        Event=streams.Event,
        MemoryPointer=transfers.MemoryPointer,
        Stream=streams.Stream,
        driver=driver,
        function=function,
        get_current_stream=streams.get_current_stream,
        get_elapsed_time=streams.get_elapsed_time,
        memory=memory,
        runtime=runtime,
    )
    testing = _module(
        "cupy.testing",
        assert_allclose=routines.assert_allclose,
        assert_array_equal=routines.assert_array_equal,
    )
    cupy = _module(
        "cupy",
        cuda=cuda,
        __version__="14.0.0",
        ndarray=arrays.ndarray,
        empty=arrays.empty,
        testing=testing,
        **{name: getattr(np, name) for name in _NUMBERS},
        **{name: getattr(routines, name) for name in _ROUTINES},
    )
    cupyx = _module("cupyx", empty_pinned=transfers.empty_pinned)
    return {
        module.__name__: module
        for module in (cupy, cupyx, cuda, driver, function, memory, runtime, testing)
    }


_ROUTINES = (
    *("arange", "array", "asarray", "ascontiguousarray", "asnumpy", "broadcast_to", "full"),
    *("isnan", "moveaxis", "ones", "tile", "zeros", "zeros_like"),
)


def _module(name: str, **members: Any) -> ModuleType:
    module = ModuleType(name, "Fake of CuPy's module.")
    vars(module).update(members)
    return module
