"""Arrays of other libraries: adoption of arguments, conversion of results.

NumPy and CuPy arrays are used without a copy. PyTorch tensors, JAX arrays and other arrays with
DLPack share their memory. Gradients, traces and masks would be lost: they raise an error.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from numbers import Real
from typing import Any

import numpy as np

from gridgen.backends import Memory
from gridgen.errors import DeviceError, DtypeError, GridGenError
from gridgen.functions.types import Array
from gridgen.naming import one_line, show_value

#: The oldest releases with zero-copy exchange of arrays under NumPy 1 and 2.
OLDEST = {"torch": (2, 3), "jax": (0, 4, 31)}
_PER_THREAD = "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"
# Device types of DLPack: host memory, pinned host memory; GPU memory, managed memory.
_HOST, _CUDA = (1, 3), (2, 13)
# Possible errors of reading an argument; a RecursionError is a RuntimeError.
_UNREADABLE = (AttributeError, BufferError, OverflowError, RuntimeError, TypeError, ValueError)


def adopt(value: Array, name: str, like: Array | None = None) -> Array:
    """Return an argument as a NumPy or CuPy array that shares its memory.

    Other numbers (sequences, NumPy scalars) become a new array.

    Args:
        value: the argument.
        name:  its name, for errors.
        like:  an adopted array that determines type and device of new arrays; float64 on the CPU
               by default.

    Raises:
        DtypeError:  it is not numeric, or has a gradient, a trace or a mask.
        DeviceError: its device is not accessible to NumPy and CuPy.
    """
    if is_native(value):
        return value
    try:
        array = _shared(value, name)
    except GridGenError:
        raise
    except _UNREADABLE as error:
        kind = f"{type(value).__name__} of {getattr(value, 'dtype', 'unknown type')}"
        raise DtypeError(
            f"{name} ({kind}) cannot be read: {one_line(error)}; give a plain array of float32 "
            "or float64, outside of what transforms or traces the call"
        ) from error
    return _converted(value, name, like) if array is None else array


def target(value: Array, name: str) -> Array:
    """Return the caller's output array, adopted as by ``adopt``.

    Raises:
        DtypeError:  it is not writable.
        DeviceError: its device is not accessible to NumPy and CuPy.
    """
    if is_immutable(value):
        raise DtypeError(f"{name} is a JAX array, which cannot be changed; use the result instead")
    is_array = hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")
    if not is_array or isinstance(value, np.ma.MaskedArray):
        raise DtypeError(
            f"{name} is of type {type(value).__name__}; give an array that can be written"
        )
    array = adopt(value, name)
    if not on_gpu(array) and not array.flags.writeable:
        raise DtypeError(f"{name} is read-only; give an array that can be written")
    return array


def restored(result: Array, like: Array) -> Array:
    """Return a result, on the device of ``like``, as an array of its library."""
    if is_native(like):
        return result
    if _is_a("torch", "Tensor", like):
        return sys.modules["torch"].from_dlpack(result)
    if is_immutable(like):
        jax: Any = sys.modules["jax"]
        array = jax.numpy.from_dlpack(result)
        devices = like.devices()
        return array if array.devices() == devices else jax.device_put(array, *devices)
    return result


def is_immutable(value: Any) -> bool:
    """Return whether a value is an immutable array: one of JAX."""
    return _is_a("jax", "Array", value)


def is_torch_generator(value: Any) -> bool:
    """Return whether a value is a random generator of PyTorch."""
    return _is_a("torch", "Generator", value)


def is_traced(value: Any) -> bool:
    """Return whether a value is a tracer of JAX."""
    core = getattr(sys.modules.get("jax"), "core", None)
    return core is not None and isinstance(value, core.Tracer)


def is_wrapped(value: Any) -> bool:
    """Return whether a value is a tensor that a transform of ``torch.func`` wraps."""
    is_tensor = _is_a("torch", "Tensor", value)
    return is_tensor and sys.modules["torch"]._C._functorch.is_functorch_wrapped_tensor(value)


def has_own_stream(value: Any) -> bool:
    """Return whether a value is a GPU array of a library with a current stream, except CuPy."""
    return _is_a("torch", "Tensor", value) and bool(getattr(value, "is_cuda", False))


def is_on_stream(value: Any) -> bool:
    """Return whether a value is a GPU array of a library with a current stream."""
    return _is_a("cupy", "ndarray", value) or has_own_stream(value)


class _Handle(int):
    """A stream handle, for CUDA's stream protocol."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, int(self)


@functools.cache
def _is_default_stream_of_a_thread() -> bool:
    """Return whether CuPy's default stream is per thread; CuPy reads this at its start."""
    return int(os.environ.get(_PER_THREAD) or 0) != 0


def current_stream(value: Any) -> Any:
    """Return the current stream of a GPU array's library, as a CuPy stream.

    ``None`` for an array on the host, or of a library with its own ordering.
    """
    if has_own_stream(value):
        return sys.modules["cupy"].cuda.Stream.from_external(_Handle(current_handle(value)))
    if is_on_stream(value):
        return sys.modules["cupy"].cuda.get_current_stream()
    return None


def current_handle(value: Any) -> int:
    """Return the handle of the current stream of a CuPy array or GPU tensor.

    Raises:
        DeviceError: PyTorch's and CuPy's streams are not ordered.
    """
    if has_own_stream(value):
        handle = int(sys.modules["torch"].cuda.current_stream(value.device).cuda_stream)
        if handle == 0 and _is_default_stream_of_a_thread():
            raise DeviceError(
                "PyTorch works on the legacy default stream and CuPy on one for each thread, which "
                f"are in no order: unset {_PER_THREAD}, or use a stream of PyTorch's own "
                "(with torch.cuda.stream(torch.cuda.Stream()): ...)"
            )
        return handle
    return int(sys.modules["cupy"].cuda.get_current_stream().ptr)


def check_no_capture(array: Array, refusal: str) -> None:
    """Raise if the current stream of an adopted array's GPU is being captured.

    Raises:
        DeviceError: the stream is being captured.
    """
    if on_gpu(array) and namespace(array).cuda.get_current_stream().is_capturing():
        raise DeviceError(f"a stream is being captured: {refusal}")


def on_gpu(array: Array) -> bool:
    """Return whether an adopted array is in GPU memory."""
    return not isinstance(array, np.ndarray)


def gpu_of(value: Any) -> int | None:
    """Return the GPU index of a caller's array, if it reports one."""
    device = getattr(value, "device", None)
    number = getattr(device, "id", getattr(device, "index", None))
    return number if isinstance(number, int) else None


def memory_of(array: Array) -> Memory:
    """Return the memory of an adopted array."""
    return "device" if on_gpu(array) else "host"


def namespace(array: Array) -> Any:
    """Return the library of an adopted array: NumPy or CuPy."""
    return sys.modules["cupy"] if on_gpu(array) else np


def empty(shape: tuple[int, ...], like: Any) -> Any:
    """Return new memory of the library, the type and the device of an array, in its own library.

    Memory for tensors comes from PyTorch, whose graphs own what is allocated during their capture.

    Args:
        shape: extents.
        like:  an array of NumPy or CuPy, or a tensor.

    Raises:
        MemoryError: there is not enough memory.
    """
    if not has_own_stream(like):
        return namespace(like).empty(shape, dtype=like.dtype)
    try:
        return like.new_empty(shape)
    except sys.modules["torch"].OutOfMemoryError as error:
        raise MemoryError(str(error)) from error


def library_of(value: Any, name: str) -> tuple[Any, Any]:
    """Return the library of an argument, and the argument as an array of this library.

    Args:
        value: the argument; PyTorch and JAX still transform theirs.
        name:  its name, for errors.

    Raises:
        DtypeError, DeviceError: as ``adopt``.
    """
    if _is_a("torch", "Tensor", value):
        return sys.modules["torch"], value
    if is_immutable(value):
        return sys.modules["jax"].numpy, value
    array = adopt(value, name)
    return namespace(array), array


def _shared(value: Array, name: str) -> Array | None:
    """Return an array that shares the memory of ``value``, or ``None`` without such memory."""
    if isinstance(value, np.ma.MaskedArray):
        raise DtypeError(
            f"{name} is a masked array, and its mask would be lost; give {name}.filled(number), or "
            "omit the masked elements"
        )
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, np.generic):
        return None
    if _is_a("torch.fx", "Proxy", value):
        raise DtypeError(
            f"{name} is a proxy of torch.fx, which does not look into this call: trace with "
            "torch.export or make_fx, which do"
        )
    if getattr(value, "requires_grad", False):
        torch: Any = sys.modules.get("torch")
        if torch is None or torch.is_grad_enabled():
            raise _gradient(name)
        value = value.detach()
    if _is_a("torch", "Tensor", value):
        return _from_torch(value, name)
    if is_immutable(value):
        jax: Any = sys.modules["jax"]
        _check_version("jax", jax.__version__)
        if is_traced(value):
            raise DtypeError(
                f"{name} is traced by JAX, which this call cannot be part of: make it outside of "
                "jit, vmap, grad and scan, with arrays"
            )
    if hasattr(value, "__dlpack__"):
        kind = int(value.__dlpack_device__()[0])
        if kind in _HOST:
            return np.from_dlpack(value)
        if kind in _CUDA:
            return require_cupy().from_dlpack(value)
        raise DeviceError(f"{name} lies on a device of DLPack type {kind}; use the CPU or CUDA")
    if hasattr(value, "__cuda_array_interface__"):
        return require_cupy().asarray(value)
    return np.asarray(value) if hasattr(value, "__array__") or _has_buffer(value) else None


def _has_buffer(value: Any) -> bool:
    """Return whether a value has a typed buffer: ``memoryview``, ``array.array``."""
    try:
        memoryview(value)
    except TypeError:
        return False
    return not isinstance(value, bytes)


def _from_torch(tensor: Array, name: str) -> Array:
    """Return a tensor's memory; DLPack would drop negation and forward gradients."""
    torch: Any = sys.modules["torch"]
    _check_version("torch", torch.__version__)
    if torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
        raise _gradient(name)
    if tensor.is_neg():
        raise DtypeError(f"{name} is a view of negated numbers; give {name}.resolve_neg()")
    if tensor.device.type == "cpu":
        return tensor.numpy()
    if tensor.device.type == "cuda":
        return require_cupy().from_dlpack(tensor)
    raise DeviceError(f'{name} lies on device "{tensor.device}"; use the CPU or CUDA')


def _gradient(name: str) -> DtypeError:
    return DtypeError(
        f"{name} requires a gradient, which flows through plain calls whose first argument is a "
        f"tensor too; give {name}.detach() for no gradient, or call under "
        "torch.no_grad()"
    )


def _converted(value: Any, name: str, like: Array | None) -> Array:
    """Return numbers as a new array."""
    try:
        _check_numbers(value, name)
        array = np.asarray(value, dtype=np.float64)
    except GridGenError:
        raise
    except _UNREADABLE as error:
        raise DtypeError(f"{name} is not an array of numbers: {one_line(error)}") from error
    if like is None:
        return array
    check_no_capture(like, f"{name} cannot be copied to the GPU; give an array on the GPU")
    return namespace(like).asarray(array, dtype=like.dtype)


def _check_numbers(value: Any, name: str) -> None:
    """Raise for sequence elements that are not numbers: NumPy would convert "1", None and masks."""
    if isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            if type(item) is not float and type(item) is not int:
                _check_numbers(item, f"{name}[{i}]")
    elif not isinstance(value, Real) or isinstance(value, bool):
        array = _shared(value, name)
        if (np.asarray(value) if array is None else array).dtype.kind not in "fiu":
            raise DtypeError(f"{name} is {show_value(value)}; give numbers")


def is_native(value: Any) -> bool:
    """Return whether a value is an array of NumPy or CuPy."""
    return type(value) is np.ndarray or _is_a("cupy", "ndarray", value)


def _is_a(library: str, name: str, value: Any) -> bool:
    """Return whether a value has a library's type, without importing the library."""
    return isinstance(value, getattr(sys.modules.get(library), name, ()))


def require_cupy() -> Any:
    """Return CuPy, if usable.

    Raises:
        DeviceError: it is not installed, or no GPU is available.
    """
    from gridgen.backends.cuda.backend import require_device

    return require_device()


@functools.cache
def _check_version(library: str, version: str) -> None:
    """Raise for a library older than the oldest supported release."""
    oldest = OLDEST[library]
    if tuple(int(number) for number in re.findall(r"\d+", version)[: len(oldest)]) < oldest:
        needed = ".".join(map(str, oldest))
        raise DeviceError(
            f"{library} {version} is too old for its arrays to be used in place; grid-gen supports "
            f"{library} >= {needed}: pip install '{library}>={needed}'"
        )
