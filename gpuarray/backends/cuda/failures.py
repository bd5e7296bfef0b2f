"""Which errors are those of CUDA and its libraries, and which of them say that memory is out.

Floor 4. In: an exception. Out: yes or no.
"""

from __future__ import annotations

#: Errors of CuPy, CUDA and its libraries, with each one's number for "out of memory". By name,
#: since a library that is not installed has no classes.
FAILURES = {
    "OutOfMemoryError": None,
    "CUDARuntimeError": 2,
    "CUDADriverError": 2,
    "CUBLASError": 3,
    "CUSOLVERError": 2,
    "CuFFTError": 2,
    "NcclError": -1,  # it has no number for that
}


def is_failure(error: BaseException) -> bool:
    """Whether CUDA or one of its libraries raised an error."""
    return type(error).__name__ in FAILURES


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a GPU has no memory left."""
    number = getattr(error, "status", getattr(error, "result", None))
    # Equal only for the error that means it; -1 is no status.
    return number == FAILURES.get(type(error).__name__, -1)
