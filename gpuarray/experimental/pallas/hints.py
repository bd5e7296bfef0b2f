"""Hints in kernels for the machines that they were tuned for, and optional checks.

Floor 6. Hints are accepted, so that such kernels run here, and have no effect: the compiler chooses
threads and memories.
"""

from __future__ import annotations

import contextlib
import enum
import time
from typing import Any

from gpuarray.api import callbacks
from gpuarray.config import state
from gpuarray.core.user_context import UserContext
from gpuarray.core.value import Array
from gpuarray.experimental.checkify import errors
from gpuarray.util import Struct, wrong_type


class CompilerParams:
    """Base of the classes whose objects `pallas_call` takes as `compiler_params`.

    >>> from gpuarray.experimental import pallas as pl
    >>> from gpuarray.experimental.pallas import triton
    >>> isinstance(triton.CompilerParams(num_warps=4), pl.CompilerParams)
    True
    """

    __slots__ = ()


class RevisitMode(enum.Enum):
    """When programs may come back to a block of an output: here whenever they do.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.RevisitMode("any")
    <RevisitMode.ANY: 'any'>
    """

    IMMEDIATE = "immediate"
    ANY = "any"


class Buffered(Struct):
    """How many blocks are copied ahead of the programs, as a BlockSpec's `pipeline_mode`.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.BlockSpec((8,), lambda i: (i,), pipeline_mode=pl.Buffered(2)).block_shape
    (Blocked(block_size=8),)
    """

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode | None = None


class Switch(UserContext):
    """A switch: `with switch(True):` turns it on.

    >>> from gpuarray.experimental import pallas as pl
    >>> with pl.enable_debug_checks(True):
    ...     pl.enable_debug_checks.value
    True
    """

    def __call__(self, new_val: bool) -> contextlib.AbstractContextManager[None]:
        if not isinstance(new_val, bool):
            raise wrong_type(new_val, "True or False")
        return super().__call__(new_val)


#: Whether `debug_check` checks; `with enable_debug_checks(True):` lets it.
enable_debug_checks = Switch(False)
#: Accepted for portable programs: uninitialised memory always reads as NaN, the least integer or
#: False.
enable_poison_buffers = Switch(False)


def debug_check(condition: Any, message: str) -> None:
    """Raise an error where a condition does not hold, while `enable_debug_checks` is on, or the
    setting `pallas_enable_debug_checks`.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.debug_check(1 > 2, "never seen here")
    >>> with pl.enable_debug_checks(True):
    ...     pl.debug_check(1 > 2, "one is less")
    Traceback (most recent call last):
        ...
    gpuarray.experimental.checkify.errors.JaxRuntimeError: one is less (`check` failed)
    """
    on = enable_debug_checks.value or state.pallas_enable_debug_checks
    check = errors.check if on else errors.debug_check
    check(condition, message)


def delay(nanos: int | Array) -> None:
    """Let the program wait for this number of nanoseconds.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.delay(1000)
    """
    callbacks.debug_callback(lambda n: time.sleep(int(n) * 1e-9), nanos)
