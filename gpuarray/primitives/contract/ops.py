"""Sums of products: dot_general, and the matrix product that convolutions use too.

Floor 2. In: arrays, and which of their axes are summed (contracting) or paired (batch). Out:
primitives whose NumPy rules bring both operands into the form [batch, rows, sum] x [batch, sum,
columns] and call BLAS. Half types are multiplied and summed in float32; integers wrap as machine
integers do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.contract.factors import dot_factors
from gpuarray.primitives.contract.precision import rounded_types, rounding_of
from gpuarray.primitives.contract.rewrites import PRODUCT, rounded_operands
from gpuarray.primitives.contract.transforms import dot_rules
from gpuarray.primitives.define import ANY, check_dtype, hide_defaults
from gpuarray.primitives.elementwise.convert import float_to_int

# ((lhs contracting, rhs contracting), (lhs batch, rhs batch))
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]

_EXACT = 2**53  # integers up to here are exact in float64
_QUICK = 1 << 14  # multiplications below which NumPy's own integer loops are quickest


# ---- types ----


def _rank(dtype) -> tuple:
    """Sort key of dtypes by their range: kind, then width or largest value, then signedness."""
    kind = dtypes.kind_of(dtype)
    if kind == "b":
        return (0,)
    if kind in "iu":
        return (1, dtypes.iinfo(dtype).bits, kind == "i")
    # Floats are ordered by range: bfloat16 is wider than float16.
    width = dtypes.finfo(dtype).max if kind == "f" else dtype.itemsize
    return (2 if kind == "f" else 3, float(width))


def joined_dtype(op: str, lhs, rhs):
    """Return the wider of two operand dtypes (contractions accept different ones)."""
    if lhs == rhs:
        return lhs
    left, right = _rank(lhs), _rank(rhs)
    if left == right:
        raise TypeError(
            f"lax.{op} argument type error: {lhs.name}, {rhs.name}: neither type holds the other's "
            "values. Convert one of them with .astype(...)."
        )
    return lhs if left > right else rhs


def check_preferred(joined, preferred) -> None:
    """Raise TypeError if the result of integers or complex numbers is narrower than they are: sums
    would be lost.
    """
    if dtypes.kind_of(joined) != "f" and _bits(preferred) < _bits(joined):
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"preferred_element_type of {preferred.name} for result type of {joined.name}."
        )


def _bits(dtype) -> int:
    """The width of a number, for a complex one that of a part; a bool counts as one bit."""
    kind = dtypes.kind_of(dtype)
    if kind == "b":
        return 1
    return (dtypes.iinfo if kind in "iu" else dtypes.finfo)(dtype).bits


def working_dtype(joined, out, accumulate=None):
    """Return the dtype to form and sum products in: at least float32 if anything is a float."""
    kinds = dtypes.kind_of(joined) + dtypes.kind_of(out)
    # Integers and booleans only: no floats anywhere.
    if not set(kinds) - set("biu"):
        return out
    wide = {joined, out} | ({accumulate} if accumulate is not None else set())
    double = any(d in (dtypes.float64, dtypes.complex128) for d in wide)
    if "c" in kinds:
        return dtypes.complex128 if double else dtypes.complex64
    return dtypes.float64 if double else dtypes.float32


# ---- matrix products ----


def matrix_product(working, out) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function [..., m, k] x [..., k, n] -> [..., m, n] with sums in `working`."""
    kind = dtypes.kind_of(working)
    if kind == "b":
        # Products of 1s: a float count, for which BLAS is fast, is 0 exactly if there is none.
        return lambda a, b: np.matmul(a.astype(np.float32), b.astype(np.float32)) != 0
    if kind in "iu":
        return lambda a, b: integer_product(a, b, working).astype(out, copy=False)

    def product(a, b):
        full = np.matmul(a.astype(working, copy=False), b.astype(working, copy=False))
        return full if working == out else narrow(full, out)

    return product


def narrow(x: np.ndarray, out) -> np.ndarray:
    """Convert sums to the result dtype: complex to real drops a part, float to int saturates."""
    kind = dtypes.kind_of(out)
    if np.iscomplexobj(x) and kind != "c":
        x = np.real(x)
    if kind in "iu" and dtypes.kind_of(x.dtype) == "f":
        return float_to_int(x, out)
    return x.astype(out, copy=False)


# The largest absolute value, as a Python int: abs of the lowest int64 would overflow.
def _bound(x: np.ndarray) -> int:
    return max(abs(int(x.max(initial=0))), abs(int(x.min(initial=0))))


def integer_product(a: np.ndarray, b: np.ndarray, out) -> np.ndarray:
    """[..., m, k] x [..., k, n] of integers modulo 2**bits, by float64 BLAS where that is exact.

    NumPy has no fast integer product. Small values fit into doubles. Integers of 32 bits are split
    into halves of 16, of which three products matter: lo*lo + 2**16 * (hi*lo + lo*hi); the fourth
    is a multiple of 2**32.
    """
    plain = dtypes.int64 if out.itemsize > 4 else out
    if dtypes.kind_of(out) in "iu" and out.name.endswith(("int4", "int2", "int1")):
        plain = dtypes.int32  # NumPy has no arithmetic on sub-byte types
    depth = a.shape[-1]
    # Multiplications: rows times summed length times columns.
    if a.size * b.shape[-1] <= _QUICK:
        # Setting up the float products takes longer than this.
        return _wrapping_matmul(a, b, plain, out)
    a, b = (x if x.dtype.kind in "biu" else x.astype(np.int32) for x in (a, b))
    # No partial sum can leave the integers that doubles hold.
    if depth * _bound(a) * _bound(b) < _EXACT:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(out)
    # 64-bit products do not fit; nor do sums of this many halves (2**16 * 2**16 * 2**20 < 2**53).
    if out.itemsize > 4 or depth >= 1 << 20:
        return _wrapping_matmul(a, b, plain, out)
    (alo, ahi), (blo, bhi) = (_halves(x) for x in (a, b))
    low = np.matmul(alo, blo).astype(np.int64)
    cross = np.matmul(ahi, blo).astype(np.int64) + np.matmul(alo, bhi).astype(np.int64)
    return (low + (cross << 16)).astype(out)


def _wrapping_matmul(a, b, plain, out) -> np.ndarray:
    return np.matmul(a.astype(plain), b.astype(plain)).astype(out, copy=False)


# The low half unsigned, the high half signed: x = lo + 2**16 * hi.
def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide = x.astype(np.int64)
    return (wide & 0xFFFF).astype(np.float64), (wide >> 16).astype(np.float64)


# ---- dot_general ----


def _check_dot(lhs: ShapedArray, rhs: ShapedArray, dimension_numbers) -> None:
    (lc, rc), (lb, rb) = dimension_numbers
    for side, a, batch, contract in (("lhs", lhs, lb, lc), ("rhs", rhs, rb, rc)):
        if not all(0 <= d < a.ndim for d in (*batch, *contract)):
            raise TypeError(
                f"dot_general requires {side} dimension numbers to be nonnegative and less than "
                f"the number of axes of the {side} value, got {side}_batch of {batch} and "
                f"{side}_contracting of {contract} for {side} of rank {a.ndim}"
            )
    for what, left, right in (("batch", lb, rb), ("contracting", lc, rc)):
        for side, dims in (("lhs", left), ("rhs", right)):
            if len(set(dims)) != len(dims):
                raise TypeError(
                    f"dot_general requires {side} {what} dimensions to be distinct, got "
                    f"{side}_{what} {dims}."
                )
    for side, batch, contract in (("lhs", lb, lc), ("rhs", rb, rc)):
        if set(batch) & set(contract):
            raise TypeError(
                f"dot_general requires {side} batch dimensions to be disjoint from contracting "
                f"dimensions, got {side}_batch {batch} and {side}_contracting {contract}."
            )
    if len(lb) != len(rb):
        raise TypeError(
            "dot_general requires equal numbers of lhs_batch and rhs_batch dimensions, got "
            f"lhs_batch {lb} and rhs_batch {rb}."
        )
    pairs = (("lhs batch dimensions and rhs batch", lb, rb), ("contracting", lc, rc))
    for what, left, right in pairs:
        lengths = tuple(lhs.shape[d] for d in left), tuple(rhs.shape[d] for d in right)
        if lengths[0] != lengths[1]:
            raise TypeError(
                f"dot_general requires {what} dimensions to have the same shape, got {lengths[0]} "
                f"and {lengths[1]}. The operands have the shapes {lhs.shape} and {rhs.shape}: "
                "transpose one of them, or say which axes meet (tensordot, einsum)."
            )


def free_axes(ndim: int, *used: Sequence[int]) -> tuple[int, ...]:
    """Return the axes in none of the given groups, in order."""
    taken = {d for group in used for d in group}
    return tuple(d for d in range(ndim) if d not in taken)


def dot_aval(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers,
    precision=None,
    preferred_element_type=None,
    out_sharding=None,
) -> ShapedArray:
    check_dtype("dot_general", lhs.dtype, ANY, 0)
    check_dtype("dot_general", rhs.dtype, ANY, 1)
    _check_dot(lhs, rhs, dimension_numbers)
    (lc, rc), (lb, rb) = dimension_numbers
    # Batch axes, then the free axes of each side.
    shape = (
        *(lhs.shape[d] for d in lb),
        *(lhs.shape[d] for d in free_axes(lhs.ndim, lb, lc)),
        *(rhs.shape[d] for d in free_axes(rhs.ndim, rb, rc)),
    )
    dtype = joined_dtype("dot_general", lhs.dtype, rhs.dtype)
    if preferred_element_type is not None:
        check_preferred(dtype, preferred_element_type)
        dtype = preferred_element_type
    return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type, out_sharding)


class _Side(NamedTuple):
    """How to view one operand as a stack of matrices: transpose, reshape, swap to save a copy."""

    permutation: tuple[int, ...]
    shape: tuple[int, int, int]
    swap: bool

    def __call__(self, x: np.ndarray) -> np.ndarray:
        matrices = x.transpose(self.permutation).reshape(self.shape)
        return matrices.swapaxes(1, 2) if self.swap else matrices


def _side(shape, batch, contract, sum_last: bool) -> _Side:
    free = free_axes(len(shape), batch, contract)
    # BLAS reads a transposed matrix in place, so axes stay in memory order where they can.
    contract_first = bool(contract) and bool(free) and max(contract) < min(free)
    inner = (*contract, *free) if contract_first else (*free, *contract)
    # Each group of axes becomes one axis of the stack of matrices.
    sizes = [math.prod(shape[d] for d in group) for group in (batch, free, contract)]
    b, f, c = sizes
    matrices = (b, c, f) if contract_first else (b, f, c)
    return _Side((*batch, *inner), matrices, contract_first == sum_last)


def _is_matmul(lhs: ShapedArray, rhs: ShapedArray, dimension_numbers) -> bool:
    """Whether np.matmul computes this product directly on the operands."""
    (lc, rc), (lb, rb) = dimension_numbers
    batch = tuple(range(len(lb)))
    if tuple(lb) != batch or tuple(rb) != batch or len(lc) != 1:
        return False
    n = len(batch)
    lfree, rfree = lhs.ndim - n - 1, rhs.ndim - n - 1
    # With batch axes matmul needs one free axis on each side; without, vectors will do.
    plain = lfree == rfree == 1 if n else lfree <= 1 and rfree <= 1
    return plain and lc[0] == lhs.ndim - 1 and rc[0] == n


def _dot_numpy(
    avals,
    *,
    dimension_numbers,
    precision=None,
    preferred_element_type=None,
    out_sharding=None,
) -> Callable[..., Any]:
    lhs, rhs = avals
    aval = dot_aval(
        lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        preferred_element_type=preferred_element_type,
    )
    # Decide once, from dtypes and shapes, which of NumPy's ways to take.
    rounded, accumulate = rounded_types(precision, lhs.dtype, rhs.dtype), rounding_of(precision)[2]
    joined = joined_dtype("dot_general", lhs.dtype, rhs.dtype)
    working = working_dtype(joined, aval.dtype, accumulate)
    direct = _is_matmul(lhs, rhs, dimension_numbers)
    # Floats of one dtype that is also that of the sums: NumPy's matmul directly.
    same = lhs.dtype == rhs.dtype == working == aval.dtype and dtypes.kind_of(working) in "fc"
    plain = same and rounded == [None, None]
    small = plain and _is_many_small(lhs, rhs, dimension_numbers)
    if direct and plain and not small:
        return np.matmul
    product = _small_products if small else matrix_product(working, aval.dtype)
    if not plain and dtypes.kind_of(working) in "fc":
        product = _rounding(product, *rounded)
    # Broadcasting of matmul would treat vectors as something else.
    if direct and not small and lhs.ndim > 1 and rhs.ndim > 1:
        return product
    (lc, rc), (lb, rb) = dimension_numbers
    left, right = _side(lhs.shape, lb, lc, True), _side(rhs.shape, rb, rc, False)
    shape = aval.shape

    def dot(a, b):
        return product(left(np.asarray(a)), right(np.asarray(b))).reshape(shape)

    return dot


#: Stacks of at least this many matrices, with products of at most this many multiplications, are
#: computed without BLAS, whose calls cost more than such a product.
_MANY, _SMALL = 128, 32
#: Matrices multiplied at a time, so that intermediate results stay in cache.
_AT_ONCE = 8192


def _is_many_small(lhs: ShapedArray, rhs: ShapedArray, dimension_numbers) -> bool:
    (lc, rc), (lb, rb) = dimension_numbers
    # Matrices in the stack, columns of each product, terms of each sum.
    count = math.prod(lhs.shape[d] for d in lb)
    columns = math.prod(rhs.shape[d] for d in free_axes(rhs.ndim, rb, rc))
    steps = math.prod(lhs.shape[d] for d in lc)
    return count >= _MANY and steps <= 4 and 0 < lhs.size // count * columns <= _SMALL


def _small_products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply stacks of small matrices with the stack last, so that each step runs along it."""
    count, rows, steps = a.shape
    out = np.empty((count, rows, b.shape[2]), a.dtype)
    for start in range(0, count, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        x, y = (np.ascontiguousarray(m[some].transpose(1, 2, 0)) for m in (a, b))
        # The first term starts the sum; others are added in place.
        total = x[:, 0, None] * y[None, 0]
        term = np.empty_like(total)
        for k in range(1, steps):
            np.multiply(x[:, k, None], y[None, k], out=term)
            np.add(total, term, out=total)
        out[some] = total.transpose(2, 0, 1)
    return out


def _rounding(product, to_left, to_right):
    """Round operands first, where a dtype for them is given."""
    if to_left is None and to_right is None:
        return product

    def rounded(a, b):
        a = a if to_left is None else a.astype(to_left)
        return product(a, b if to_right is None else b.astype(to_right))

    return rounded


def _show_dot(params: dict) -> dict:
    # Lists instead of tuples, as JAX prints them.
    shown = _hide_dot(params)
    contract, batch = shown["dimension_numbers"]
    lists = tuple(tuple(list(dims) for dims in group) for group in (contract, batch))
    return shown | {"dimension_numbers": lists}


_hide_dot = hide_defaults({"precision": None, "preferred_element_type": None, "out_sharding": None})


def _dot_work(avals, *, dimension_numbers, **_) -> float:
    """Count multiply-adds: the result's size times the length of the sum."""
    (_, summed), (_, carried) = dimension_numbers
    x, y = avals
    rest = math.prod(n for d, n in enumerate(y.shape) if d not in (*summed, *carried))
    return float(x.size * rest)


#: out[b, i, j] = sum_k lhs[b, i, k] * rhs[b, k, j]
dot_general_p = Primitive(
    "dot_general",
    Kind.LIBRARY,
    aval=dot_aval,
    numpy_pick=_dot_numpy,
    show=_show_dot,
    work=_dot_work,
    rewrite=Rewrite(product=PRODUCT, written_out=rounded_operands),
    factors=dot_factors,
    **dot_rules(lambda x, y, **params: dot_general_p.bind(x, y, **params)),
)
