"""Errors of CUDA and its libraries: how to recognise them, their meaning, and remedies.

Floor 4. In: an exception. Out: yes or no, or a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Errors of CuPy, CUDA and its libraries, with each one's number for "out of memory". By name,
#: since a library that is not installed has no classes.
FAILURES = {
    "OutOfMemoryError": None,
    "MemoryError": None,  # raised by CuPy for it in Thrust, which sorts
    "CUDARuntimeError": 2,
    "CUDADriverError": 2,
    "CUBLASError": 3,
    "CUSOLVERError": 2,
    "CuFFTError": 2,
    "NcclError": -1,  # it has no number for that
}


def is_failure(error: BaseException) -> bool:
    """Whether CUDA or one of its libraries raised an error."""
    # Thrust's message contains CUDA's error.
    by_thrust = type(error) is RuntimeError and "cudaError" in str(error)
    return by_thrust or type(error).__name__ in FAILURES


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a GPU has no memory left."""
    number = getattr(error, "status", getattr(error, "result", None))
    # Equal only for the error that means it; -1 is no status.
    return number == FAILURES.get(type(error).__name__, -1)


#: CUDA's status for unfinished work: not an error.
NOT_READY = 600
#: Errors of work that ran, after which CUDA fails every call of this process: ECC, NVLink, illegal
#: accesses and instructions, asserts, timeouts, and unknown errors.
STICKY = frozenset((214, 220, 226, 700, 702, 709, 710, *range(714, 720), 721, 999))
#: Remedies for errors of a call that was refused.
_HINTS = {
    1: "An argument is not what the call takes: please report it, with the output of "
    "`python -m gpuarray doctor`.",
    209: "The code is for other GPUs: empty the kernel cache (`python -m gpuarray doctor` says "
    "where it is).",
    222: "The driver is older than the compiler: update it, or install CuPy for an older CUDA "
    "(the extra `cuda12`).",
    701: "A kernel asks for more registers or shared memory than a multiprocessor has: try it in "
    "parts (`with gpuarray.fusion(False):`), and please report it.",
}


def explained(error: BaseException, launched: Iterable[str]) -> str:
    """Return an explanation of an error.

    Parameters
    ----------
    launched :
        Descriptions of the last launches: an error of running work is noticed later.
    """
    status = getattr(error, "status", getattr(error, "result", None))
    known = type(error).__name__ in ("CUDARuntimeError", "CUDADriverError")
    if known and status not in STICKY:
        hint = f" {_HINTS[status]}" if status in _HINTS else ""
        return (
            "The call was refused, and nothing of it ran: the GPU and all other values can be used "
            f"as before.{hint}"
        )
    last = "".join(f"\n    {note}" for note in launched) or " nothing"
    return (
        "Kernels run after their launch has returned, so the fault lies in one of the last:"
        f"{last}\nWith CUDA_LAUNCH_BLOCKING=1 in the environment the error names the operation. A "
        "GPU that failed stays unusable for this process: start a new one."
    )
