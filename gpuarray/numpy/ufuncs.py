"""The functions that are ufuncs: `add`, `multiply`, `maximum` and the others, with their fast ways.

Floor 6. In: functions of this namespace, and the reductions, scans and updates that do the work of
their methods. Out: the ufuncs that the public namespace shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.tracebacks import clean
from gpuarray.core.value import Array
from gpuarray.numpy import (
    arithmetic,
    comparison,
    floats,
    functions,
    reductions,
    smooth,
    statistics,
    updates,
)
from gpuarray.numpy.comparison import truth
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.promotion import select, zero_of
from gpuarray.numpy.reductions import Reduction, fold_axes
from gpuarray.numpy.ufunc import typed_as, ufunc
from gpuarray.util import canonical_axes


class _Builtin(ufunc):
    """A ufunc of this module: its function checks its own arguments."""

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        try:
            if out is None and where is None:
                return self.function(*args)
            return super().__call__(*args, out=out, where=where)
        except Exception as error:
            # Tracebacks end at the caller's line: see core.tracebacks.
            clean(error)
            raise

    # Pickled by name: the functions inside are closures.
    def __reduce__(self):
        return _by_name, (self.__name__,)


class _Logical(_Builtin):
    """A ufunc that folds truth values."""

    def _elements(self, name: str, a: Array, dtype: Any) -> Array:
        return truth(a)

    def _result(self, a: Array, dtype: Any) -> Any:
        return dtypes.bool_ if dtype is None else super()._result(a, dtype)


def _by_name(name: str) -> ufunc:
    return UFUNCS[name]


# ---- how they fold, accumulate and update ----


def _folding(fold: Reduction) -> Callable[..., Array]:
    def reduce(a, *, axis, dtype, keepdims, initial, where):
        wanted = None if dtype is None else dtypes.check_user_dtype(dtype, fold.name)
        return fold_axes(fold, a, axis, wanted, None, keepdims, initial, where)

    return reduce


def _extreme(fold: Reduction) -> Callable[..., Array]:
    # An extreme has the dtype of its elements, so dtype= converts them.
    def reduce(a, *, axis, dtype, keepdims, initial, where):
        return fold_axes(
            fold, typed_as(fold.name, a, dtype), axis, None, None, keepdims, initial, where
        )

    return reduce


def _logical(
    name: str, run: Callable[..., Array], join: Callable[..., Array], identity: bool
) -> Callable[..., Array]:
    fold = Reduction(name, run, lambda d: np.bool_(identity), join)

    def reduce(a, *, axis, dtype, keepdims, initial, where):
        initial = None if initial is None else truth(asarray(initial))
        out = fold_axes(fold, truth(a), axis, None, None, keepdims, initial, where)
        return typed_as(name, out, dtype)

    return reduce


def _running(run: Callable[..., Array]) -> Callable[..., Array]:
    def accumulate(a, *, axis, dtype):
        a = typed_as("accumulate", as_type(a, a.dtype), dtype)
        # There is no running extreme primitive for booleans.
        if a.dtype == np.bool_:
            return as_type(run(as_type(a, dtypes.int32), axis), dtypes.bool_)
        return run(a, axis)

    return accumulate


def _running_logsumexp(a, *, axis, dtype):
    a = typed_as("accumulate", a, dtype)
    return lax.cumlogsumexp(as_type(a, _inexact(a.dtype)), axis)


def _inexact(dtype: Any) -> Any:
    return dtypes.to_inexact_dtype(dtype)


def _running_truth(run: Callable[..., Array]) -> Callable[..., Array]:
    def accumulate(a, *, axis, dtype):
        # As 0 and 1: the running "and" is a minimum, the running "or" a maximum.
        out = as_type(run(as_type(truth(a), dtypes.int32), axis), dtypes.bool_)
        return typed_as("accumulate", out, dtype)

    return accumulate


def _updating(method: str) -> Callable[..., Array]:
    def at(a, indices, b):
        return getattr(updates.at(a)[indices], method)(b)

    return at


def _logsumexp(a, *, axis, dtype, keepdims, initial, where):
    """The fold of logaddexp: log(sum(exp(x))), scaled by the maximum to avoid overflow."""
    a = typed_as("logaddexp", a, dtype)
    a = as_type(a, _inexact(a.dtype))
    start = -np.inf if initial is None else initial
    # Where the largest is infinite, the sum decides.
    top = reductions.max(a, axis, keepdims=True, initial=start, where=where)
    top = select(floats.isfinite(top), top, zero_of(top))
    total = reductions.sum(lax.exp(lax.sub(a, top)), axis, keepdims=True, where=where)
    # The initial value is one element more.
    total = arithmetic.add(total, functions.exp(arithmetic.subtract(start, top)))
    out = lax.add(lax.log(total), top)
    return out if keepdims else lax.squeeze(out, canonical_axes(axis, a.ndim))


def _bits(name: str, run, join, identity: int) -> Callable[..., Array]:
    # By astype: -1 becomes all bits set in unsigned dtypes, too.
    fold = _folding(Reduction(name, run, lambda d: np.array(identity).astype(d)[()], join))

    def reduce(a, *, axis, dtype, keepdims, initial, where):
        if dtypes.kind_of(a.dtype) not in "biu":
            raise ValueError(
                f"integer argument required; got dtype={a.dtype}. Compare first to fold truth "
                f"values, as in {name}.reduce(x != 0)."
            )
        return fold(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    return reduce


# ---- the functions ----

_C = comparison
add = _Builtin(
    arithmetic.add,
    2,
    1,
    identity=0,
    reduce=_folding(reductions.SUM),
    accumulate=lambda a, *, axis, dtype: statistics.cumsum(a, axis, dtype),
    at=_updating("add"),
)
multiply = _Builtin(
    arithmetic.multiply,
    2,
    1,
    identity=1,
    reduce=_folding(reductions.PROD),
    accumulate=lambda a, *, axis, dtype: statistics.cumprod(a, axis, dtype),
    at=_updating("multiply"),
)
subtract = _Builtin(arithmetic.subtract, 2, 1, at=_updating("subtract"))
negative = _Builtin(arithmetic.negative, 1, 1)
maximum = _Builtin(
    arithmetic.maximum,
    2,
    1,
    reduce=_extreme(reductions.MAX),
    accumulate=_running(lax.cummax),
    at=_updating("max"),
)
minimum = _Builtin(
    arithmetic.minimum,
    2,
    1,
    reduce=_extreme(reductions.MIN),
    accumulate=_running(lax.cummin),
    at=_updating("min"),
)
logical_and = _Logical(
    _C.logical_and,
    2,
    1,
    identity=True,
    reduce=_logical("logical_and", lax.reduce_and, lax.bitwise_and, True),
    accumulate=_running_truth(lax.cummin),
)
logical_or = _Logical(
    _C.logical_or,
    2,
    1,
    identity=False,
    reduce=_logical("logical_or", lax.reduce_or, lax.bitwise_or, False),
    accumulate=_running_truth(lax.cummax),
)
logical_xor = _Logical(
    _C.logical_xor,
    2,
    1,
    identity=False,
    reduce=_logical("logical_xor", lax.reduce_xor, lax.bitwise_xor, False),
)
bitwise_and = _Builtin(
    _C.bitwise_and,
    2,
    1,
    identity=-1,
    reduce=_bits("bitwise_and", lax.reduce_and, lax.bitwise_and, -1),
)
bitwise_or = _Builtin(
    _C.bitwise_or, 2, 1, identity=0, reduce=_bits("bitwise_or", lax.reduce_or, lax.bitwise_or, 0)
)
bitwise_xor = _Builtin(
    _C.bitwise_xor,
    2,
    1,
    identity=0,
    reduce=_bits("bitwise_xor", lax.reduce_xor, lax.bitwise_xor, 0),
)
logaddexp = _Builtin(
    smooth.logaddexp,
    2,
    1,
    identity=-np.inf,
    reduce=_logsumexp,
    accumulate=_running_logsumexp,
)
logaddexp2 = _Builtin(smooth.logaddexp2, 2, 1, identity=-np.inf)

#: All of them by name, for pickle.
UFUNCS: dict[str, ufunc] = {
    f.__name__: f
    for f in (
        *(add, multiply, subtract, negative, maximum, minimum, logical_and, logical_or),
        *(logical_xor, bitwise_and, bitwise_or, bitwise_xor, logaddexp, logaddexp2),
    )
}
