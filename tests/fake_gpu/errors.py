"""CUDA's errors under CuPy's names, and errors that CUDA does not detect."""

from __future__ import annotations

#: CUDA's messages by name of the error.
_MEANINGS = {
    "cudaErrorContextIsDestroyed": "context is destroyed",
    "cudaErrorECCUncorrectable": "uncorrectable ECC error encountered",
    "cudaErrorInvalidResourceHandle": "invalid resource handle",
    "cudaErrorInvalidValue": "invalid argument",
    "cudaErrorLaunchFailure": "unspecified launch failure",
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
    "CUDA_ERROR_INVALID_HANDLE": "invalid resource handle",
    "CUDA_ERROR_INVALID_VALUE": "invalid argument",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "operation not permitted when stream is capturing",
    "CUDA_ERROR_NOT_FOUND": "named symbol not found",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the provided PTX was compiled with an unsupported "
    "toolchain.",
}
#: Numbers of errors that callers check.
_NUMBERS = {
    "CUDA_ERROR_INVALID_HANDLE": 400,
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": 900,
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": 222,
    "cudaErrorStreamCaptureUnsupported": 900,
    "cudaErrorContextIsDestroyed": 709,
    "cudaErrorECCUncorrectable": 214,
    "cudaErrorIllegalAddress": 700,
    "cudaErrorInvalidResourceHandle": 400,
    "cudaErrorLaunchFailure": 719,
}
_INVALID_VALUE = 1


class _CudaError(RuntimeError):
    def __init__(self, name: str, detail: str = "") -> None:
        self.status = _NUMBERS.get(name, _INVALID_VALUE)
        super().__init__(f"{name}: {_MEANINGS[name]}" + (f" ({detail})" if detail else ""))


class CUDARuntimeError(_CudaError):
    """An error of CUDA's runtime."""


class CUDADriverError(_CudaError):
    """An error of CUDA's driver."""


class OutOfMemoryError(MemoryError):
    """A device has too little memory for an array."""


class MisuseError(AssertionError):
    """An error that a GPU does not detect: missing synchronization, invalid memory.

    Not a ``RuntimeError``, so that handlers of CUDA's errors do not catch it.
    """
