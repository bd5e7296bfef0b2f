"""The exceptions of CuPy that a caller can meet, with CuPy's own words and fields.

In: a status. Out: an exception with `.status`, whose text begins with CUDA's name of it.
"""

from __future__ import annotations

_RUNTIME = {
    1: ("cudaErrorInvalidValue", "invalid argument"),
    2: ("cudaErrorMemoryAllocation", "out of memory"),
    100: ("cudaErrorNoDevice", "no CUDA-capable device is detected"),
    101: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    400: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    600: ("cudaErrorNotReady", "device not ready"),
    700: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
    719: ("cudaErrorLaunchFailure", "unspecified launch failure"),
    900: (
        "cudaErrorStreamCaptureUnsupported",
        "operation not permitted when stream is capturing",
    ),
    901: (
        "cudaErrorStreamCaptureInvalidated",
        "operation failed due to a previous error during capture",
    ),
    905: (
        "cudaErrorStreamCaptureIsolation",
        "dependency created on uncaptured work in another stream",
    ),
    999: ("cudaErrorUnknown", "unknown error"),
}
_DRIVER = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    200: ("CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"),
    301: ("CUDA_ERROR_FILE_NOT_FOUND", "file not found"),
    400: ("CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    701: ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
}


class CUDARuntimeError(RuntimeError):
    """A call of CUDA's runtime failed."""

    def __init__(self, status: int):
        self.status = status
        super().__init__("{}: {}".format(*_RUNTIME[status]))


class CUDADriverError(RuntimeError):
    """A call of CUDA's driver failed."""

    def __init__(self, status: int):
        self.status = status
        super().__init__("{}: {}".format(*_DRIVER[status]))


class CUBLASError(RuntimeError):
    """A call of cuBLAS failed."""

    def __init__(self, status: int):
        self.status = status
        names = {1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 13: "EXECUTION_FAILED"}
        super().__init__(f"CUBLAS_STATUS_{names[status]}")


class CUSOLVERError(RuntimeError):
    """A call of cuSOLVER failed."""

    def __init__(self, status: int):
        self.status = status
        names = {1: "NOT_INITIALIZED", 2: "ALLOC_FAILED", 6: "EXECUTION_FAILED"}
        super().__init__(f"CUSOLVER_STATUS_{names[status]}")


class CuFFTError(RuntimeError):
    """A call of cuFFT failed; its number has another name than those of the others."""

    def __init__(self, result: int):
        self.result = result
        names = {2: "CUFFT_ALLOC_FAILED", 6: "CUFFT_EXEC_FAILED"}
        super().__init__(names[result])


class NcclError(RuntimeError):
    """A call of NCCL failed."""

    def __init__(self, status: int):
        self.status = status
        names = {1: "UNHANDLED_CUDA_ERROR", 3: "INTERNAL_ERROR", 4: "INVALID_ARGUMENT"}
        names[5] = "INVALID_USAGE"
        super().__init__(f"NCCL_ERROR_{names[status]}: see the log")


class NVRTCError(RuntimeError):
    """The compiler failed; its log says why."""

    def __init__(self, status: int):
        self.status = status
        super().__init__(f"NVRTC_ERROR_COMPILATION ({status})")


class OutOfMemoryError(MemoryError):
    """A device has no memory left."""

    def __init__(self, size: int, total: int, limit: int = 0):
        self._size, self._total, self._limit = size, total, limit
        so_far = f"allocated so far: {total:,} bytes"
        bound = f", limit set to: {limit:,} bytes" if limit else ""
        super().__init__(f"Out of memory allocating {size:,} bytes ({so_far}{bound}).")
