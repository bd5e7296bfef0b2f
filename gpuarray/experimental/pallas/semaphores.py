"""Semaphores: counters with which programs wait for one another.

Floor 6. In: references of the type `pl.ANY(shape, pl.semaphore)`. Out: their counts. Programs run
one after another, so that a program can only wait for earlier ones: if the signal has not come by
then it never will, which is an error.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from gpuarray.core.extended import extended
from gpuarray.core.value import Array
from gpuarray.experimental.checkify import errors
from gpuarray.numpy.construct import asarray
from gpuarray.transforms.references import Ref, RefView
from gpuarray.util import wrong_type


class semaphore(extended):
    """The dtype of semaphores, for `scratch_shapes` and `run_scoped`; they begin at 0.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import pallas as pl
    >>> def kernel(out_ref, sem):
    ...     pl.semaphore_signal(sem, 3)
    ...     pl.semaphore_wait(sem, 2)
    ...     out_ref[...] = pl.semaphore_read(sem)
    >>> scratch = [pl.ANY((), pl.semaphore)]
    >>> pl.pallas_call(kernel, ga.ShapeDtypeStruct((), "int32"), scratch_shapes=scratch)()
    Array(1, dtype=int32)
    """


class DeviceIdType(enum.Enum):
    """How `semaphore_signal` would identify another device.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.DeviceIdType("mesh")
    <DeviceIdType.MESH: 'mesh'>
    """

    MESH = "mesh"
    LOGICAL = "logical"


def semaphore_read(sem_or_view: Ref | RefView) -> Array:
    """The count of a semaphore.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.run_scoped(pl.semaphore_read, pl.ANY((), pl.semaphore))
    Array(0, dtype=int32)
    """
    count = sem_or_view[...]
    if count.shape or count.dtype != np.int32:
        raise ValueError(
            f"a semaphore is a reference of pl.ANY((), pl.semaphore), or an element of several, "
            f"such as sems.at[0]; got {sem_or_view!r}."
        )
    return count


def semaphore_signal(
    sem_or_view: Ref | RefView,
    inc: Any = 1,
    *,
    device_id: Any = None,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
    core_index: Any = None,
) -> None:
    """Add to the count of a semaphore.

    Parameters
    ----------
    device_id, device_id_type, core_index :
        Only the defaults: a semaphore is of one kernel on one device.

    Examples
    --------

    >>> from gpuarray.experimental import pallas as pl
    >>> def count(sem):
    ...     pl.semaphore_signal(sem, 2)
    ...     return pl.semaphore_read(sem)
    >>> pl.run_scoped(count, pl.ANY((), pl.semaphore))
    Array(2, dtype=int32)
    """
    if not isinstance(device_id_type, DeviceIdType):
        raise wrong_type(device_id_type, "a pl.DeviceIdType")
    if device_id is not None or core_index is not None:
        raise NotImplementedError(
            f"semaphore_signal with {device_id=}, {core_index=}: a semaphore is of one kernel on "
            "one device. Exchange values between devices by lax.psend, or collectives of shard_map."
        )
    sem_or_view[...] = semaphore_read(sem_or_view) + asarray(inc, np.int32)


def semaphore_wait(sem_or_view: Ref | RefView, value: Any = 1, *, decrement: bool = True) -> None:
    """Wait until the count of a semaphore is `value` or more, and take this off it.

    As programs run one after another, a count that is less is an error.

    Parameters
    ----------
    decrement :
        Whether the value is taken off.

    Examples
    --------

    >>> from gpuarray.experimental import pallas as pl
    >>> def wait(sem):
    ...     pl.semaphore_signal(sem, 5)
    ...     pl.semaphore_wait(sem, 2)
    ...     return pl.semaphore_read(sem)
    >>> pl.run_scoped(wait, pl.ANY((), pl.semaphore))
    Array(3, dtype=int32)
    """
    count, value = semaphore_read(sem_or_view), asarray(value, np.int32)
    errors.check(
        count >= value,
        "semaphore_wait waits for {}, the semaphore is at {}, and programs run one after another: "
        "nobody is left to signal it.",
        value,
        count,
    )
    if decrement:
        sem_or_view[...] = count - value
