"""Shared code of all factorisations: LAPACK's routines, applied to stacks of matrices.

Floor 2. In: the function of one matrix. Out: a primitive on stacks of them. If the function fails
on a matrix, all its results are nan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import leading
from gpuarray.core.primitive import NOT_LINEAR, Kind, Primitive
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.define import COMPLEX, FLOATING, check_dtype
from gpuarray.primitives.linalg import host as stacks
from gpuarray.primitives.linalg.matrices import stack_in_front
from gpuarray.util import lazy_module

_lapack = lazy_module("scipy.linalg.lapack")

# First letter of a LAPACK routine's name, by dtype.
_LETTER = {
    dtypes.float32: "s",
    dtypes.float64: "d",
    dtypes.complex64: "c",
    dtypes.complex128: "z",
}
# The real and the complex dtypes of each precision.
REAL_OF = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}
COMPLEX_OF = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
INT32 = np.dtype(np.int32)


def routine(name: str, dtype, complex_name: str | None = None) -> Callable[..., Any]:
    """Return LAPACK's routine for a dtype; `complex_name` is its name for complex matrices."""
    # None for bfloat16 and float16.
    letter = _LETTER.get(dtype)
    if letter is None:
        raise NotImplementedError(
            f"Unsupported dtype {dtype.name}: LAPACK has routines for float32, float64, complex64 "
            "and complex128. Convert the matrix first, for example with .astype('float32')."
        )
    return getattr(_lapack, letter + (complex_name or name if letter in "cz" else name))


def best_workspace(function, *args) -> int:
    """Query LAPACK for its best workspace, whose size decides whether it works in blocks."""
    return int(function(*args, lwork=-1)[-2][0].real)


def real_dtype(dtype):
    """Return the dtype of the real part of a number."""
    return REAL_OF.get(dtype, dtype)


def check_matrix(op: str, x: ShapedArray, position: int = 0, rank: int = 2) -> None:
    """Raise TypeError unless `x` is a stack of floating-point matrices."""
    check_dtype(op, x.dtype, FLOATING | COMPLEX, position)
    if x.ndim < rank:
        raise TypeError(
            f"Input {position} to {op} must have rank at least {rank}, but got shape={x.shape}"
        )


def check_square(op: str, x: ShapedArray, what: str = "") -> None:
    """Raise unless `x` is a stack of square floating-point matrices."""
    check_matrix(op, x)
    if x.shape[-1] != x.shape[-2]:
        if what:
            raise ValueError(f"Argument to {what} must have shape [..., n, n], got shape {x.shape}")
        raise ValueError(f"The input to {op} must be a square matrix. Got shape {x.shape}.")


def stacked(
    function: Callable[..., Any], arrays: Sequence[np.ndarray], ranks: Sequence[int], avals
) -> list[np.ndarray]:
    """Apply `function` to every matrix of a stack; None from it gives nan in all its results."""
    first = arrays[0]
    if first.ndim == ranks[0]:  # one matrix
        outs = function(*arrays)
        if outs is None:
            outs = [np.full(a.shape, np.nan if a.dtype.kind in "fc" else 0) for a in avals]
        return [np.asarray(x, a.dtype, order="C") for x, a in zip(outs, avals)]
    results = [np.zeros(a.shape, a.dtype) for a in avals]
    # Every array has the same leading axes; `ranks` says how many of the last ones are one operand.
    for index in np.ndindex(first.shape[: first.ndim - ranks[0]]):
        outs = function(*(x[index] for x in arrays))
        # None: nan in all floats; integers (pivots) have no nan and stay 0.
        for i, result in enumerate(results):
            if outs is not None:
                result[index] = outs[i]
            elif result.dtype.kind in "fc":
                result[index] = np.nan
    return results


def matrices_of(out: Sequence[tuple[tuple[int, ...], Any]], x: ShapedArray) -> list[ShapedArray]:
    """Return avals with the leading axes of `x` and the given trailing shapes and dtypes."""
    return [ShapedArray((*x.shape[:-2], *shape), dtype) for shape, dtype in out]


def factorisation(
    name: str, aval, build, *, single: bool = False, jvp, many=None, small=None, entries=None
) -> Primitive:
    """Define a primitive on a stack of matrices.

    Parameters
    ----------
    aval :
        Function of (aval, **params) that returns the avals of the results (one if `single`).
    build :
        Function of (dtype, shape, **params) that returns the function of one matrix.
    many :
        Function of (**params) that returns the function of a stack of small matrices, or None.
    small :
        Function of an equation that returns its loops as native code, or None.
    entries :
        Rule of core/rewrite.py.
    """

    def pick(avals, **params):
        (x,) = avals
        outs = [aval(x, **params)] if single else aval(x, **params)
        # LAPACK takes no matrices without elements.
        if x.size == 0:
            return lambda a: _of_empty(a, outs, single)
        # Once for each shape and dtype: the routine, its workspace, and which way is quicker.
        function = build(x.dtype, x.shape[-2:], **params)
        at_once = many(**params) if many is not None and stacks.is_many_small(x.shape) else None

        def run(a):
            if at_once is None:
                results = stacked(function, [a], [2], outs)
            else:
                results = stacks.on_stacks(at_once)(a)
            return results[0] if single else results

        return run

    return Primitive(
        name,
        Kind.LIBRARY,
        aval=aval,
        numpy_pick=pick,
        multiple_results=not single,
        weight=100.0,
        jvp=jvp,
        transpose=NOT_LINEAR,
        batch=stack_in_front(name),
        factors=leading(2),
        rewrite=Rewrite(loops=small, entries=entries),
    )


def _of_empty(a: np.ndarray, outs, single: bool):
    """Return results for matrices without elements: factors are identities, all else is empty."""
    results = []
    for o in outs:
        square = len(o.shape) >= 2 and o.shape[-1] == o.shape[-2] and o.dtype.kind in "fc"
        # Square factors of an empty matrix are identities, so that products with them are right.
        full = np.zeros(o.shape, o.dtype)
        if square:
            full[...] = np.eye(o.shape[-1], dtype=o.dtype)
        # Integer results are permutations: the identity.
        elif o.dtype == INT32 and len(o.shape) >= 1:
            full[...] = np.arange(o.shape[-1], dtype=o.dtype)
        results.append(full)
    return results[0] if single else results


def of_finite(function):
    """Skip matrices with nan or inf, on which LAPACK's iterations may not end."""
    return lambda a: function(a) if np.isfinite(a).all() else None
