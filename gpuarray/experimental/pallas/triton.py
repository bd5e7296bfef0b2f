"""Masked and atomic accesses of kernels, under JAX's names for Triton's.

Floor 6. In: references and parts of them (`ref.at[index]`). Out: their values, and new values for
them. Programs whose blocks overlap run one after another, so an atomic update is a read and a
write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes, promotion
from gpuarray.core.avals import aval_of
from gpuarray.core.value import Array
from gpuarray.experimental.pallas import hints
from gpuarray.experimental.pallas.specs import uninitialised
from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy.construct import asarray
from gpuarray.numpy.selection import where
from gpuarray.primitives.slices import Slice
from gpuarray.transforms.references import Ref, RefView
from gpuarray.util import Struct, index

__all__ = [
    "CompilerParams",
    "approx_tanh",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "debug_barrier",
    "dot",
    "load",
    "max_contiguous",
    "store",
]

__getattr__ = _explain_names(__name__)


class CompilerParams(Struct, hints.CompilerParams):
    """The numbers of warps and stages for Triton.

    >>> from gpuarray.experimental.pallas import triton
    >>> triton.CompilerParams(num_warps=4, num_stages=2)
    CompilerParams(num_warps=4, num_stages=2)
    """

    num_warps: int | None = None
    num_stages: int | None = None


def load(
    ref: Ref | RefView,
    *,
    mask: Any = None,
    other: Any = None,
    cache_modifier: str | None = None,
    eviction_policy: str | None = None,
    volatile: bool = False,
) -> Array:
    """The elements of a reference, or of a part of one; `other` where the mask is False.

    Elements of a part beyond the end of the array are NaN (or the least integer, or False).

    Parameters
    ----------
    cache_modifier, eviction_policy, volatile :
        Only their defaults: the compiler chooses how to read.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import pallas as pl
    >>> from gpuarray.experimental.pallas import triton
    >>> def kernel(x_ref, out_ref):
    ...     at = pl.program_id(0) * 4
    ...     mask = at + gnp.arange(4) < 6
    ...     part = triton.load(x_ref.at[pl.ds(at, 4)], mask=mask, other=0.0)
    ...     out_ref[pl.program_id(0)] = part.sum()
    >>> pl.pallas_call(kernel, ga.ShapeDtypeStruct((2,), "float32"), grid=(2,))(gnp.ones(6))
    Array([4., 2.], dtype=float32)
    """
    _defaults("load", cache_modifier=cache_modifier, eviction_policy=eviction_policy)
    if volatile:
        raise NotImplementedError("load: volatile has no meaning here. Leave it out.")
    found = _read(ref)
    if mask is None:
        return found
    mask = _fitting(mask, found)
    return found if other is None else where(mask, found, asarray(other, found.dtype))


def store(ref: Ref | RefView, val: Any, *, mask: Any = None, eviction_policy: Any = None) -> None:
    """Write the elements of a reference, or of a part of one, where the mask is True.

    Elements of a part beyond the end of the array are dropped.

    Parameters
    ----------
    eviction_policy :
        Only None: the compiler chooses how to write.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> x = ga.new_ref(gnp.zeros(3))
    >>> triton.store(x, gnp.ones(3), mask=gnp.array([True, False, True]))
    >>> x
    Ref([1., 0., 1.], dtype=float32)
    """
    _defaults("store", eviction_policy=eviction_policy)
    if mask is not None:
        old = _read(ref)
        val = where(_fitting(mask, old), val, old)
    _write(ref, val)


def _defaults(name: str, **options: Any) -> None:
    for option, value in options.items():
        if value is not None:
            raise NotImplementedError(
                f"{name}: {option}={value!r} is for Triton; caches are used as the compiler "
                "chooses. Leave it out."
            )


def _fitting(mask: Any, found: Array) -> Array:
    mask = asarray(mask)
    try:
        fits = np.broadcast_shapes(mask.shape, found.shape) == found.shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"Cannot broadcast mask shape {mask.shape} to load shape {found.shape}")
    return mask


class _Window:
    """A part of a reference at an index of numbers and slices, which may reach over the end."""

    def __init__(self, ref: Ref, index: tuple):
        # One entry for each axis: those that the index leaves out are whole.
        entries = [*index, *[slice(None)] * (len(ref.shape) - len(index))]
        if any(e is Ellipsis for e in entries):
            at = next(i for i, e in enumerate(index) if e is Ellipsis)
            rest = [slice(None)] * (len(ref.shape) - len(index) + 1)
            entries = [*index[:at], *rest, *index[at + 1 :]]
        pieces = [
            e if not isinstance(e, slice) else Slice.from_slice(e, n)
            for e, n in zip(entries, ref.shape, strict=True)
        ]
        self.ref = ref
        self.starts = [p.start if isinstance(p, Slice) else p for p in pieces]
        self.sizes = [p.size if isinstance(p, Slice) else 1 for p in pieces]
        self.dropped = tuple(i for i, p in enumerate(pieces) if not isinstance(p, Slice))
        self.strided = any(isinstance(p, Slice) and p.stride != 1 for p in pieces)

    def padded(self) -> Array:
        # Padded so that no window has to be moved inside.
        x = self.ref.get()
        return lax.pad(x, uninitialised((), x.dtype), [(0, n, 0) for n in self.sizes])

    def read(self) -> Array:
        out = lax.dynamic_slice(self.padded(), self.starts, self.sizes)
        return lax.squeeze(out, self.dropped)

    def write(self, value: Any) -> None:
        x, value = self.ref.get(), asarray(value)
        expected = tuple(n for i, n in enumerate(self.sizes) if i not in self.dropped)
        if value.shape != expected or value.dtype != x.dtype:
            raise ValueError(
                f"Invalid value for `store`: expected {x.dtype.name}{list(expected)}, got "
                f"{aval_of(value)}."
            )
        value = lax.expand_dims(value, self.dropped)
        # Elements beyond the end go to the padding, which is cut off again.
        new = lax.dynamic_update_slice(self.padded(), value, self.starts)
        self.ref.put(lax.slice(new, [0] * x.ndim, x.shape))


def _window(ref: Ref | RefView) -> _Window | None:
    """The window of a part, if its start is traced: known ones are checked when written."""
    if not isinstance(ref, (Ref, RefView)):
        raise ValueError(f"Expected a reference or a part of one (`ref.at[index]`), got {ref!r}.")
    if not isinstance(ref, RefView) or not isinstance(ref.whole, Ref):
        return None
    index = ref.index if isinstance(ref.index, tuple) else (ref.index,)
    moving = [isinstance(e, Slice) or (isinstance(e, Array) and e.ndim == 0) for e in index]
    plain = [e is Ellipsis or isinstance(e, (int, slice)) for e in index]
    # Arrays of indices and known positions are the reference's own affair.
    if not any(moving) or not all(m or p for m, p in zip(moving, plain, strict=True)):
        return None
    found = _Window(ref.whole, index)
    return None if found.strided else found


def _read(ref: Ref | RefView) -> Array:
    found = _window(ref)
    return ref[...] if found is None else found.read()


def _write(ref: Ref | RefView, value: Any) -> None:
    found = _window(ref)
    if found is None:
        ref[...] = value
    else:
        found.write(value)


def _updated(ref: Ref | RefView, val: Any, mask: Any, combine: Callable[[Any, Any], Any]) -> Array:
    """Combine a reference with a value, and return its previous contents."""
    old = _read(ref)
    new = combine(old, asarray(val, old.dtype))
    _write(ref, new if mask is None else where(_fitting(mask, old), new, old))
    return old


def atomic_add(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Array:
    """Add to the elements of a reference; return their previous values.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import pallas as pl
    >>> from gpuarray.experimental.pallas import triton
    >>> def kernel(x_ref, out_ref):
    ...     triton.atomic_add(out_ref, ..., x_ref[pl.program_id(0)])
    >>> x, zero = gnp.arange(5), gnp.array(0)
    >>> whole = lambda x_ref, _, out_ref: kernel(x_ref, out_ref)
    >>> pl.pallas_call(whole, zero, grid=(5,), input_output_aliases={1: 0})(x, zero)
    Array(10, dtype=int32)
    """
    return _updated(x_ref_or_view.at[idx], val, mask, lax.add)


def atomic_max(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Array:
    """Set the elements of a reference to the larger of two; return their previous values.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> x = ga.new_ref(gnp.array([1, 5]))
    >>> triton.atomic_max(x, ..., gnp.array([3, 3])), x
    (Array([1, 5], dtype=int32), Ref([3, 5], dtype=int32))
    """
    return _updated(x_ref_or_view.at[idx], val, mask, lax.max)


def atomic_min(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Array:
    """Set the elements of a reference to the smaller of two; return their previous values.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> x = ga.new_ref(gnp.array([1, 5]))
    >>> triton.atomic_min(x, ..., gnp.array([3, 3])), x
    (Array([1, 5], dtype=int32), Ref([1, 3], dtype=int32))
    """
    return _updated(x_ref_or_view.at[idx], val, mask, lax.min)


def atomic_and(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Array:
    """Set the elements of a reference to the bitwise and; return their previous values.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> x = ga.new_ref(gnp.int32(6))
    >>> triton.atomic_and(x, ..., gnp.array(3)), x
    (Array(6, dtype=int32), Ref(2, dtype=int32))
    """
    return _updated(x_ref_or_view.at[idx], val, mask, lax.bitwise_and)


def atomic_or(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Array:
    """Set the elements of a reference to the bitwise or; return their previous values.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> x = ga.new_ref(gnp.int32(6))
    >>> triton.atomic_or(x, ..., gnp.array(3)), x
    (Array(6, dtype=int32), Ref(7, dtype=int32))
    """
    return _updated(x_ref_or_view.at[idx], val, mask, lax.bitwise_or)


def atomic_xor(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Array:
    """Set the elements of a reference to the bitwise xor; return their previous values.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> x = ga.new_ref(gnp.int32(6))
    >>> triton.atomic_xor(x, ..., gnp.array(3)), x
    (Array(6, dtype=int32), Ref(5, dtype=int32))
    """
    return _updated(x_ref_or_view.at[idx], val, mask, lax.bitwise_xor)


def atomic_xchg(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Array:
    """Set the elements of a reference; return their previous values.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> x = ga.new_ref(gnp.int32(6))
    >>> triton.atomic_xchg(x, ..., gnp.array(3)), x
    (Array(6, dtype=int32), Ref(3, dtype=int32))
    """
    return _updated(x_ref_or_view.at[idx], val, mask, lambda old, new: new)


def atomic_cas(ref: Any, cmp: Any, val: Any) -> Array:
    """Set a reference to a scalar if it equals `cmp`; return its previous value.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> x = ga.new_ref(gnp.int32(6))
    >>> triton.atomic_cas(x, gnp.array(6), gnp.array(1)), x
    (Array(6, dtype=int32), Ref(1, dtype=int32))
    """
    return _updated(ref, val, None, lambda old, new: where(old == cmp, new, old))


def max_contiguous(x: Any, values: Any) -> Any:
    """Return `x`, declared to have runs of that many contiguous elements: not used here.

    >>> from gpuarray.experimental.pallas import triton
    >>> triton.max_contiguous(24, 8)
    24
    """
    for n in values if isinstance(values, (tuple, list)) else (values,):
        index(n)
    return x


def approx_tanh(x: Any) -> Array:
    """The hyperbolic tangent, as exact as `numpy.tanh`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> triton.approx_tanh(gnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    return lax.tanh(x)


def debug_barrier() -> None:
    """No effect: within a program everything happens in program order.

    >>> from gpuarray.experimental.pallas import triton
    >>> triton.debug_barrier()
    """


def dot(
    a: Any,
    b: Any,
    trans_a: bool = False,
    trans_b: bool = False,
    allow_tf32: bool | None = None,
    precision: Any = None,
) -> Array:
    """The product of two matrices, either of them transposed first; sums are in float32 or int32.

    Parameters
    ----------
    allow_tf32 :
        Whether precision is HIGH or HIGHEST.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental.pallas import triton
    >>> triton.dot(gnp.ones((2, 3), "bfloat16"), gnp.ones((2, 3), "bfloat16"), trans_b=True)
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    a, b = asarray(a), asarray(b)
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"`a` and `b` must be 2D arrays, got {aval_of(a)} and {aval_of(b)}.")
    if allow_tf32 is not None:
        if precision is not None:
            raise ValueError("Only one of allow_tf32 and precision can be specified")
        precision = lax.Precision.HIGH if allow_tf32 else lax.Precision.HIGHEST
    # As in Triton: narrow operands are summed in 32 bits.
    dtype, _ = promotion.promote2(a.dtype, False, b.dtype, False)
    whole = dtypes.kind_of(dtype) in "iu"
    wanted = "int32" if whole else "float64" if dtype == np.float64 else "float32"
    axes = (((0 if trans_a else 1,), (1 if trans_b else 0,)), ((), ()))
    return lax.dot_general(a, b, axes, precision=precision, preferred_element_type=wanted)
