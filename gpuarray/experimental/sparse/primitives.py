"""JAX's primitives of sparse arrays, which take the arrays that a format consists of.

Floor 6. In: those arrays, and their static properties (`spinfo`: anything with a `shape`). Out:
arrays. Programs here contain the operations that these are made of, so none of them appears in a
printed program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray.core.value import Array
from gpuarray.experimental.sparse.bcsr import (
    BCSR,
    bcsr_dot_general,
    bcsr_extract,
    bcsr_fromdense,
)
from gpuarray.experimental.sparse.coordinates import (
    BCOO,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_transpose,
)
from gpuarray.experimental.sparse.creation import todense
from gpuarray.experimental.sparse.matrices import (
    COO,
    CSR,
    coo_fromdense,
    coo_matmat,
    coo_matvec,
    csr_fromdense,
    csr_matmat,
    csr_matvec,
)
from gpuarray.experimental.sparse.patterns import extract
from gpuarray.experimental.sparse.products import bcoo_dot_general, bcoo_dot_general_sampled
from gpuarray.lax.elsewhere import Elsewhere
from gpuarray.pytree import tree


def _bcoo(data: Any, indices: Any, info: Any) -> BCOO:
    known = {name: getattr(info, name, False) for name in ("indices_sorted", "unique_indices")}
    return BCOO((data, indices), shape=info.shape, **known)


def _todense(*parts: Any, tree: Any) -> Array:
    return todense(_unflatten(tree, parts))


_unflatten = tree.tree_unflatten


def _bcoo_fromdense(mat: Any, **params: Any) -> tuple[Array, ...]:
    made = bcoo_fromdense(mat, **params)
    return made.data, made.indices


def _bcoo_extract(indices: Any, arr: Any, *, assume_unique: bool) -> Array:
    return extract(indices, arr, assume_unique=assume_unique)


def _bcoo_transpose(
    data: Any, indices: Any, *, permutation: Sequence[int], spinfo: Any
) -> tuple[Array, ...]:
    made = bcoo_transpose(_bcoo(data, indices, spinfo), permutation=permutation)
    return made.data, made.indices


def _bcoo_sort_indices(data: Any, indices: Any, *, spinfo: Any) -> tuple[Array, ...]:
    made = bcoo_sort_indices(_bcoo(data, indices, spinfo))
    return made.data, made.indices


def _bcoo_sum_duplicates(
    data: Any, indices: Any, *, spinfo: Any, nse: int | None
) -> tuple[Array, ...]:
    made = bcoo_sum_duplicates(_bcoo(data, indices, spinfo), nse)
    return made.data, made.indices


def _bcoo_dot_general(data: Any, indices: Any, rhs: Any, *, lhs_spinfo: Any, **params: Any) -> Any:
    return bcoo_dot_general(_bcoo(data, indices, lhs_spinfo), rhs, **params)


def _bcoo_spdot_general(
    lhs_data: Any,
    lhs_indices: Any,
    rhs_data: Any,
    rhs_indices: Any,
    *,
    lhs_spinfo: Any,
    rhs_spinfo: Any,
    **params: Any,
) -> tuple[Array, ...]:
    lhs, rhs = _bcoo(lhs_data, lhs_indices, lhs_spinfo), _bcoo(rhs_data, rhs_indices, rhs_spinfo)
    made: Any = bcoo_dot_general(lhs, rhs, **params)
    return made.data, made.indices


def _bcsr_todense(data: Any, indices: Any, indptr: Any, *, spinfo: Any) -> Array:
    return BCSR((data, indices, indptr), shape=spinfo.shape).todense()


def _bcsr_fromdense(mat: Any, **params: Any) -> tuple[Array, ...]:
    made = bcsr_fromdense(mat, **params)
    return made.data, made.indices, made.indptr


def _bcsr_dot_general(
    data: Any, indices: Any, indptr: Any, rhs: Any, *, lhs_spinfo: Any, **params: Any
) -> Array:
    return bcsr_dot_general(BCSR((data, indices, indptr), shape=lhs_spinfo.shape), rhs, **params)


def _coo_fromdense(mat: Any, **params: Any) -> list[Array]:
    made = coo_fromdense(mat, **params)
    return [made.data, made.row, made.col]


def _coo_todense(data: Any, row: Any, col: Any, *, spinfo: Any) -> Array:
    return COO((data, row, col), shape=spinfo.shape).todense()


def _coo_matvec(data: Any, row: Any, col: Any, v: Any, *, spinfo: Any, transpose: bool) -> Array:
    return coo_matvec(COO((data, row, col), shape=spinfo.shape), v, transpose)


def _coo_matmat(data: Any, row: Any, col: Any, B: Any, *, spinfo: Any, transpose: bool) -> Array:
    return coo_matmat(COO((data, row, col), shape=spinfo.shape), B, transpose=transpose)


def _csr_fromdense(mat: Any, **params: Any) -> list[Array]:
    made = csr_fromdense(mat, **params)
    return [made.data, made.indices, made.indptr]


def _csr_todense(data: Any, indices: Any, indptr: Any, *, shape: Sequence[int]) -> Array:
    return CSR((data, indices, indptr), shape=shape).todense()


def _csr_matvec(
    data: Any, indices: Any, indptr: Any, v: Any, *, shape: Sequence[int], transpose: bool
) -> Array:
    return csr_matvec(CSR((data, indices, indptr), shape=shape), v, transpose)


def _csr_matmat(
    data: Any, indices: Any, indptr: Any, B: Any, *, shape: Sequence[int], transpose: bool
) -> Array:
    return csr_matmat(CSR((data, indices, indptr), shape=shape), B, transpose=transpose)


def _todense_of(data: Any, indices: Any, *, spinfo: Any) -> Array:
    return _bcoo(data, indices, spinfo).todense()


bcoo_dot_general_p = Elsewhere("bcoo_dot_general", _bcoo_dot_general)
bcoo_dot_general_sampled_p = Elsewhere("bcoo_dot_general_sampled", bcoo_dot_general_sampled)
bcoo_extract_p = Elsewhere("bcoo_extract", _bcoo_extract)
bcoo_fromdense_p = Elsewhere("bcoo_fromdense", _bcoo_fromdense, True)
bcoo_sort_indices_p = Elsewhere("bcoo_sort_indices", _bcoo_sort_indices, True)
bcoo_spdot_general_p = Elsewhere("bcoo_spdot_general", _bcoo_spdot_general, True)
bcoo_sum_duplicates_p = Elsewhere("bcoo_sum_duplicates", _bcoo_sum_duplicates, True)
bcoo_todense_p = Elsewhere("bcoo_todense", _todense_of)
bcoo_transpose_p = Elsewhere("bcoo_transpose", _bcoo_transpose, True)
bcsr_dot_general_p = Elsewhere("bcsr_dot_general", _bcsr_dot_general)
bcsr_extract_p = Elsewhere("bcsr_extract", bcsr_extract)
bcsr_fromdense_p = Elsewhere("bcsr_fromdense", _bcsr_fromdense, True)
bcsr_todense_p = Elsewhere("bcsr_todense", _bcsr_todense)
coo_fromdense_p = Elsewhere("coo_fromdense", _coo_fromdense, True)
coo_matmat_p = Elsewhere("coo_matmat", _coo_matmat)
coo_matvec_p = Elsewhere("coo_matvec", _coo_matvec)
coo_todense_p = Elsewhere("coo_todense", _coo_todense)
csr_fromdense_p = Elsewhere("csr_fromdense", _csr_fromdense, True)
csr_matmat_p = Elsewhere("csr_matmat", _csr_matmat)
csr_matvec_p = Elsewhere("csr_matvec", _csr_matvec)
csr_todense_p = Elsewhere("csr_todense", _csr_todense)
todense_p = Elsewhere("todense", _todense)
