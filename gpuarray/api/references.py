"""Mutable references to arrays: state that functions read and write in place.

Floor 6. In: arrays. Out: Refs (`transforms/references.py`), which jit and the functions of `lax`
take along.

A Ref can be made and used anywhere; a function that is jitted, or given to scan, while_loop,
fori_loop, map, cond or switch, may use Refs from outside, and jitted functions take them as
arguments. Memory is not written in place: a Ref is a name for the newest of several arrays.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core.avals import aval_of
from gpuarray.lax.creation import full
from gpuarray.lax.scans import as_array
from gpuarray.transforms.references import AbstractRef as AbstractRef
from gpuarray.transforms.references import Ref as Ref
from gpuarray.transforms.references import RefView

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]


def _one_memory(name: str, *spaces: Any) -> None:
    if any(space is not None for space in spaces):
        raise NotImplementedError(
            f"{name} keeps references in the memory of their device and nowhere else: leave out "
            "memory_space."
        )


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A mutable reference that holds an array (or a number) at first.

    Parameters
    ----------
    memory_space :
        Only None: there is one memory on a device.
    kind :
        "no_grad_no_remat" does not differentiate written values.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> total = ga.new_ref(gnp.zeros(3))
    >>> total[0] = 5.0
    >>> ga.jit(lambda x: ga.ref.addupdate(total, ..., x))(gnp.ones(3))
    >>> total
    Ref([6., 1., 1.], dtype=float32)
    """
    _one_memory("new_ref", memory_space)
    if kind not in (None, "no_grad_no_remat"):
        raise ValueError(f"new_ref: `kind` must be None or 'no_grad_no_remat', got {kind!r}")
    if isinstance(init_val, Ref):
        raise TypeError("new_ref takes an array, got a Ref. Copy one with new_ref(ref[...]).")
    try:
        aval_of(init_val)
    except TypeError:
        # A pytree, most likely.
        raise TypeError(
            "Error interpreting argument to new_ref as a JAX value. The problematic value is of "
            f"type {type(init_val)}: expected an array or a number. Make one Ref for each leaf."
        ) from None
    return Ref(as_array(init_val), kind)


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A mutable reference of a shape and dtype (a ShapeDtypeStruct), whose first value is zeros.

    >>> import gpuarray as ga
    >>> ga.empty_ref(ga.ShapeDtypeStruct((2,), "float32")).shape
    (2,)
    """
    _one_memory("empty_ref", memory_space)
    # Zeros, so that a program's result does not depend on previous contents of memory.
    return Ref(full(ty.shape, 0, ty.dtype))


def freeze(ref: Ref) -> Any:
    """The last value of a reference that is not written any more.

    >>> import gpuarray as ga
    >>> ga.freeze(ga.new_ref(3))
    Array(3, dtype=int32, weak_type=True)
    """
    return ref.get() if isinstance(ref, Ref) else ref


def free_ref(ref: Ref) -> None:
    """Give up the array of a reference, which cannot be read or written any more.

    >>> import gpuarray as ga
    >>> ga.ref.free_ref(ga.new_ref(3))
    """
    _ref("free_ref", ref).free()


def get(ref: Ref, idx: Any = None) -> Any:
    """`ref[idx]`; all of it without an index.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.ref.get(ga.new_ref(gnp.arange(3)), 1)
    Array(1, dtype=int32)
    """
    return _ref("ref_get", ref)[... if idx is None else idx]


def set(ref: Ref, idx: Any, value: Any) -> None:
    """`ref[idx] = value`; the whole array if the index is None.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> x = ga.new_ref(gnp.arange(3))
    >>> ga.ref.set(x, 1, 7)
    >>> x
    Ref([0, 7, 2], dtype=int32)
    """
    _ref("ref_set", ref)[... if idx is None else idx] = value


def swap(ref: Ref, idx: Any, value: Any) -> Any:
    """Write `ref[idx]` and return the old value.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> x = ga.new_ref(gnp.arange(3))
    >>> ga.ref.swap(x, 1, 7), x
    (Array(1, dtype=int32), Ref([0, 7, 2], dtype=int32))
    """
    old = get(ref, idx)
    set(ref, idx, value)
    return old


def addupdate(ref: Ref, idx: Any, x: Any) -> None:
    """Add to `ref[idx]`; repeated indices accumulate.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> x = ga.new_ref(gnp.zeros(3))
    >>> ga.ref.addupdate(x, gnp.array([1, 1]), gnp.ones(2))
    >>> x
    Ref([0., 2., 0.], dtype=float32)
    """
    _ref("ref_addupdate", ref).write("addupdate", ... if idx is None else idx, x)


def _ref(what: str, ref: Any) -> Any:
    # A part of a reference can be read and written, but not freed.
    if not isinstance(ref, Ref) and not (isinstance(ref, RefView) and what != "free_ref"):
        raise ValueError(f"Can only call `{what}` on a `Ref`: {ref}. Make one with new_ref(array).")
    return ref
