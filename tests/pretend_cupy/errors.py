"""CUDA's errors under CuPy's names, and what CUDA would not tell."""

from __future__ import annotations

#: What CUDA says, by the name of the error.
_MEANINGS = {
    "cudaErrorInvalidValue": "invalid argument",
    "cudaErrorInvalidDevice": "invalid device ordinal",
    "cudaErrorIllegalAddress": "an illegal memory access was encountered",
    "cudaErrorCapturedEvent": "operation not permitted on an event last recorded in a capturing "
    "stream",
    "cudaErrorIllegalState": "the operation cannot be performed in the present state",
    "cudaErrorStreamCaptureImplicit": "operation would make the legacy stream depend on a "
    "capturing blocking stream",
    "cudaErrorStreamCaptureInvalidated": "operation failed due to a previous error during capture",
    "cudaErrorStreamCaptureIsolation": "dependency created on uncaptured work in another stream",
    "cudaErrorStreamCaptureUnjoined": "capturing stream has unjoined work",
    "cudaErrorStreamCaptureUnsupported": "operation not permitted when stream is capturing",
    "CUDA_ERROR_INVALID_IMAGE": "device kernel image is invalid",
    "CUDA_ERROR_INVALID_VALUE": "invalid argument",
    "CUDA_ERROR_NOT_FOUND": "named symbol not found",
}


class _CudaError(RuntimeError):
    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}: {_MEANINGS[name]}" + (f" ({detail})" if detail else ""))


class CUDARuntimeError(_CudaError):
    """An error of CUDA's runtime."""


class CUDADriverError(_CudaError):
    """An error of CUDA's driver."""


class OutOfMemoryError(MemoryError):
    """A device has no room for an array."""


class MisuseError(AssertionError):
    """What a GPU would do wrong without a word: an omitted ordering, memory that is not one's own.

    It is no ``RuntimeError``, so that nobody who handles CUDA's errors swallows it.
    """
