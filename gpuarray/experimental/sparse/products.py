"""Products of BCOO arrays with dense ones and with each other.

Floor 6. In: BCOO and dense arrays. Out: dense arrays where one operand is dense, BCOO arrays where
both are sparse. A stored element takes the row of the other operand that its index names, and its
product is added where its other indices say: a gather and a scatter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.avals import ShapedArray
from gpuarray.core.value import Array
from gpuarray.experimental.sparse import patterns
from gpuarray.experimental.sparse.coordinates import BCOO
from gpuarray.experimental.sparse.layouts import bcoo_update_layout
from gpuarray.functions.inspect import eval_shape
from gpuarray.functions.stages import struct_of
from gpuarray.functions.vmap import vmap
from gpuarray.runtime.transfer import placed

Numbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def dot_result(lhs: Any, rhs: Any, numbers: Numbers, dtype: Any) -> Any:
    """Shape and dtype of a product of dense arrays; an error if it is invalid."""
    structs = [struct_of(ShapedArray(x.shape, x.dtype)) for x in (lhs, rhs)]
    return eval_shape(
        lambda a, b: lax.dot_general(a, b, numbers, preferred_element_type=dtype), *structs
    )


def _axes(given: Any) -> tuple[int, ...]:
    return tuple(int(a) for a in np.atleast_1d(np.asarray(given, int)))


def _without(n: int, *taken: Sequence[int]) -> list[int]:
    gone = {int(a) for axes in taken for a in axes}
    return [i for i in range(n) if i not in gone]


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Numbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """A product over some axes: `lax.dot_general`, of sparse and dense arrays.

    The result is dense unless both operands are sparse. Paired axes must be batch axes of a sparse
    operand, summed axes batch or sparse ones.

    Parameters
    ----------
    precision :
        Elements of sparse operands are multiplied in full.
    out_sharding :
        The sharding of a dense result; refused for a sparse one.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> numbers = ([1], [0]), ([], [])
    >>> sparse.bcoo_dot_general(sparse.eye(2), gnp.ones(2), dimension_numbers=numbers)
    Array([1., 1.], dtype=float32)
    """
    kind = preferred_element_type
    name = "bcoo_dot_general"
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        _in_one_place(name, out_sharding)
        return _sparse_dot(lhs, rhs, dimension_numbers, kind)
    if isinstance(lhs, BCOO):
        out = _dot(lhs, gnp.asarray(rhs), dimension_numbers, kind)
        return placed(name, out, out_sharding)
    if not isinstance(rhs, BCOO):
        return lax.dot_general(
            lhs, rhs, dimension_numbers, precision, kind, out_sharding=out_sharding
        )
    # The other way round, and the axes of the result put in order.
    (contract, batch) = dimension_numbers
    out = _dot(rhs, gnp.asarray(lhs), (contract[::-1], batch[::-1]), kind)  # pyright: ignore[reportArgumentType]
    n_batch = len(batch[0])
    n_swap = rhs.ndim - len(contract[0])
    order = *range(n_batch), *range(n_swap, out.ndim), *range(n_batch, n_swap)
    return placed(name, lax.transpose(out, order), out_sharding)


def _in_one_place(name: str, out_sharding: Any) -> None:
    if out_sharding is not None:
        raise NotImplementedError(
            f"{name} with out_sharding={out_sharding!r}: a sparse result lies in one place. Use "
            "device_put for its data and indices."
        )


def _dot(lhs: BCOO, rhs: Array, numbers: Numbers, dtype: Any) -> Array:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    out = dot_result(lhs, rhs, numbers, dtype)
    n_batch, n_sparse, _, nse = lhs.properties
    if any(d >= n_batch for d in lhs_batch):
        raise NotImplementedError(
            "bcoo_dot_general batch dimensions must be among the batch dimensions in the sparse "
            f"representation.\ngot {lhs_batch=}, {n_batch=}"
        )
    if any(d >= n_batch + n_sparse for d in lhs_contract):
        raise NotImplementedError("bcoo_dot_general: contracting over dense dimensions.")
    # Axes that are summed over are batch axes or sparse axes of the sparse operand, which go
    # different ways.
    pairs = list(zip(lhs_contract, rhs_contract, strict=True))
    in_batch = [p for p in pairs if p[0] < n_batch]
    in_sparse = [p for p in pairs if p[0] >= n_batch]
    free = _without(n_batch, lhs_batch, lhs_contract)
    # The order of batch axes: paired axes, those of the result, summed ones.
    order = [*lhs_batch, *free, *(a for a, _ in in_batch)]
    full = lhs.shape[:n_batch]
    data = patterns.spread(lhs.data, full)
    indices = patterns.spread(lhs.indices, full)
    data = lax.transpose(data, (*order, *range(n_batch, data.ndim))).astype(out.dtype)
    indices = lax.transpose(indices, (*order, n_batch, n_batch + 1))
    # The summed axes become one list of elements, each with its position in the batch.
    lead = [full[a] for a in order[: len(lhs_batch) + len(free)]]
    summed = math.prod(full[a] for a, _ in in_batch)
    data = data.reshape(*lead, summed * nse, *data.shape[n_batch + 1 :])
    indices = indices.reshape(*lead, summed * nse, n_sparse)
    place = np.repeat(np.arange(summed, dtype=np.int32), nse)
    # The dense operand in the same order: paired axes, those summed over in the batch and in
    # the indices, the rest.
    rest = _without(rhs.ndim, rhs_batch, rhs_contract)
    rhs = lax.transpose(
        rhs, (*rhs_batch, *(b for _, b in in_batch), *(b for _, b in in_sparse), *rest)
    ).astype(out.dtype)
    n_paired = len(lhs_batch)
    rhs = rhs.reshape(*rhs.shape[:n_paired], summed, *rhs.shape[n_paired + len(in_batch) :])
    columns = [a - n_batch for a, _ in in_sparse]
    kept = _without(n_sparse, columns)
    sizes = [lhs.shape[n_batch + i] for i in kept]

    def product(data: Array, indices: Array, rhs: Array) -> Array:
        at = (place, *(indices[:, i] for i in columns))
        if not columns and summed == 1:
            # Nothing is summed: every stored element is multiplied with all of the other operand.
            rows = gnp.broadcast_to(rhs, (data.shape[0], *rhs.shape[1:]))
        else:
            # Indices beyond the shape name no row.
            rows = rhs.at[at].get(mode="fill", fill_value=0)
        if not kept:
            # All elements are added up: one product of matrices.
            contract = (([0], [0]), ([], []))
            return lax.dot_general(data, rows, contract, precision=lax.Precision.HIGHEST)
        terms = _outer(data, rows)
        room = gnp.zeros((*sizes, *terms.shape[1:]), terms.dtype)
        return room.at[tuple(indices[:, i] for i in kept)].add(terms, mode="drop")

    # Axes that only the sparse operand has: the other one is the same for all.
    for _ in free:
        product = vmap(product, in_axes=(0, 0, None))
    return patterns.over_batch(product, n_paired)(data, indices, rhs)


def _outer(data: Array, rows: Array) -> Array:
    """For each stored element its block times its row: (nse, *dense, *row)."""
    n_block, n_row = data.ndim - 1, rows.ndim - 1
    block = lax.expand_dims(data, range(data.ndim, data.ndim + n_row))
    return block * lax.expand_dims(rows, range(1, 1 + n_block))


# ---- both sparse ----


def _sparse_dot(lhs: BCOO, rhs: BCOO, numbers: Numbers, dtype: Any) -> BCOO:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    out = dot_result(lhs, rhs, numbers, dtype)
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError("bcoo_spdot_general with dense dimensions.")
    for x, batch, contract in ((lhs, lhs_batch, lhs_contract), (rhs, rhs_batch, rhs_contract)):
        if any(d >= x.n_batch for d in batch):
            raise NotImplementedError(
                "bcoo_spdot_general: batch_dims must correspond to batch dimensions of the sparse "
                "representation."
            )
        if any(d < x.n_batch for d in contract):
            raise NotImplementedError(
                "bcoo_spdot_general only supports contraction of sparse indices."
            )
    # How many elements the result may have is known from the shapes, since under jit it must
    # be.
    lhs_left = lhs.n_sparse - len(lhs_contract)
    rhs_left = rhs.n_sparse - len(rhs_contract)
    if rhs.n_batch > len(rhs_batch) and lhs_left:
        raise ValueError(
            "bcoo_spdot_general: cannot have unused batch dims on rhs with unused sparse dims on "
            "lhs."
        )
    n_out = lhs.n_batch + rhs.n_batch - len(lhs_batch)
    nse = (lhs.nse if lhs_left else 1) * (rhs.nse if rhs_left else 1)
    nse = min(nse, math.prod(out.shape[n_out:]))

    def in_front(x: BCOO, batch: Sequence[int]) -> tuple[Array, Array]:
        order = (*batch, *_without(x.n_batch, batch))
        full = patterns.joint_batch(x.data, x.indices)
        data, indices = patterns.spread(x.data, full), patterns.spread(x.indices, full)
        n = x.n_batch
        return lax.transpose(data, (*order, n)), lax.transpose(indices, (*order, n, n + 1))

    lhs_columns = [d - lhs.n_batch for d in lhs_contract]
    rhs_columns = [d - rhs.n_batch for d in rhs_contract]
    lhs_kept = _without(lhs.n_sparse, lhs_columns)
    rhs_kept = _without(rhs.n_sparse, rhs_columns)
    lhs_limit, rhs_limit = (patterns.limits(x.shape, x.properties, np.int32) for x in (lhs, rhs))
    index_dtype = gnp.result_type(lhs.indices, rhs.indices)

    def product(a: Array, i: Array, b: Array, j: Array) -> tuple[Array, Array]:
        # Every pair of elements whose summed indices agree.
        meets = patterns.inside(i, lhs_limit)[:, None] & patterns.inside(j, rhs_limit)[None, :]
        for x, y in zip(lhs_columns, rhs_columns, strict=True):
            meets &= i[:, x][:, None] == j[:, y][None, :]
        terms = a.astype(out.dtype)[:, None] * b.astype(out.dtype)[None, :]
        terms = patterns.masked(terms, meets).ravel()
        pairs = (a.shape[0], b.shape[0])
        # Indices of each pair's term: the remaining columns of one, then those of the other. Terms
        # of pairs that do not match are 0.
        columns = [gnp.broadcast_to(i[:, x][:, None], pairs) for x in lhs_kept]
        columns += [gnp.broadcast_to(j[:, y][None, :], pairs) for y in rhs_kept]
        found = [c.ravel().astype(index_dtype) for c in columns]
        indices = gnp.stack(found, -1) if found else gnp.zeros((terms.size, 0), index_dtype)
        return patterns.sum_duplicates(terms, indices, out.shape[n_out:], nse)

    # Batch axes of only one operand. The lhs's come first in the result, so they are mapped last.
    for _ in range(rhs.n_batch - len(rhs_batch)):
        product = vmap(product, in_axes=(None, None, 0, 0))
    for _ in range(lhs.n_batch - len(lhs_batch)):
        product = vmap(product, in_axes=(0, 0, None, None))
    operands = (*in_front(lhs, lhs_batch), *in_front(rhs, rhs_batch))
    # A batch axis of length 1 on one side is repeated to match the other.
    n = len(lhs_batch)
    lead = [out.shape[k] for k in range(n)]
    operands = [patterns.spread(x, (*lead, *x.shape[n:])) if n else x for x in operands]
    return BCOO(patterns.over_batch(product, n)(*operands), shape=out.shape)


# ---- at given places ----


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Numbers) -> Array:
    """The elements of a product of dense arrays at some indices: the `data` of a BCOO array.

    Where all axes of the product are in the indices, only these elements are computed.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> a, b = gnp.arange(3.), gnp.ones(4)
    >>> where = gnp.array([[2, 0], [1, 3]])
    >>> sparse.bcoo_dot_general_sampled(a, b, where, dimension_numbers=(([], []), ([], [])))
    Array([2., 1.], dtype=float32)
    """
    A, B, indices = gnp.asarray(A), gnp.asarray(B), gnp.asarray(indices)
    (left, right), (left_paired, right_paired) = dimension_numbers
    contract = _axes(left), _axes(right)
    batch = _axes(left_paired), _axes(right_paired)
    out = dot_result(A, B, (contract, batch), None)
    n_paired = len(batch[0])
    if indices.ndim != 2 or indices.shape[-1] != len(out.shape):
        full = lax.dot_general(A, B, (contract, batch), precision=lax.Precision.HIGHEST)
        return patterns.extract(indices, full)
    # The row of A and the row of B for each index, and the sum of their product.
    free_a = _without(A.ndim, contract[0], batch[0])
    free_b = _without(B.ndim, contract[1], batch[1])
    A = lax.transpose(A, (*batch[0], *free_a, *contract[0]))
    B = lax.transpose(B, (*batch[1], *free_b, *contract[1]))
    columns = [indices[:, i] for i in range(indices.shape[1])]
    paired, rest = columns[:n_paired], columns[n_paired:]
    rows_a = A.at[(*paired, *rest[: len(free_a)])].get(mode="fill", fill_value=0)
    rows_b = B.at[(*paired, *rest[len(free_a) :])].get(mode="fill", fill_value=0)
    shape = (indices.shape[0], *A.shape[A.ndim - len(contract[0]) :])
    products = gnp.broadcast_to(rows_a, shape) * gnp.broadcast_to(rows_b, shape)
    return products.sum(tuple(range(1, products.ndim))).astype(out.dtype)


# ---- element by element ----


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """Two sparse arrays multiplied element by element.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_multiply_sparse(sparse.eye(2), sparse.eye(2, k=0) * 3.).todense()
    Array([[3., 0.],
           [0., 3.]], dtype=float32)
    """
    if lhs.ndim != rhs.ndim:
        raise TypeError(
            "bcoo_multiply_sparse: arrays must have same number of dimensions, "
            f"got {lhs.shape}, {rhs.shape}"
        )
    if lhs.n_dense != rhs.n_dense:
        raise NotImplementedError(
            f"bcoo_multiply_sparse: arrays with differing numbers of dense dimensions: {lhs}, {rhs}"
        )
    shape = np.broadcast_shapes(lhs.shape, rhs.shape)
    n = min(lhs.n_batch, rhs.n_batch)
    lhs, rhs = bcoo_update_layout(lhs, n_batch=n), bcoo_update_layout(rhs, n_batch=n)
    n_sparse = lhs.n_sparse
    left, right = lhs.shape[n : n + n_sparse], rhs.shape[n : n + n_sparse]
    both = [i for i in range(n_sparse) if left[i] != 1 and right[i] != 1]
    limit = np.array(shape[n : n + n_sparse], lhs.indices.dtype)
    # Every pair of stored elements; those at one place are the product's.
    first = lambda x: lax.expand_dims(x, (n + 1,))
    second = lambda x: lax.expand_dims(x, (n,))
    i, j = first(lhs.indices), second(rhs.indices)
    meets = gnp.all(i < np.array(left, i.dtype), -1) & gnp.all(j < np.array(right, j.dtype), -1)
    for column in both:
        meets &= i[..., column] == j[..., column]
    data = first(lhs.data) * second(rhs.data)
    data = patterns.masked(data, meets)
    # Along an axis of length 1 the index is 0, so the larger one is the other operand's. Pairs that
    # do not match get indices past the end: no elements.
    indices = gnp.where(meets[..., None], gnp.maximum(i, j), limit)
    nse = lhs.nse * rhs.nse
    data = data.reshape(*data.shape[:n], nse, *data.shape[n + 2 :])
    return BCOO((data, indices.reshape(*indices.shape[:n], nse, n_sparse)), shape=shape)


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Array:
    """A sparse array times a dense one that broadcasts to its shape: the data of the product.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_multiply_dense(sparse.eye(2), gnp.array([2., 3.]))
    Array([2., 3.], dtype=float32)
    """
    v = gnp.asarray(v)
    shape, data, indices = sp_mat.shape, sp_mat.data, sp_mat.indices
    if not v.ndim:
        return data * v
    if v.ndim > len(shape) or np.broadcast_shapes(v.shape, shape) != shape:
        raise NotImplementedError(
            "multiplication between sparse and dense is only implemented for cases where the "
            f"output shape matches the sparse matrix shape. Got {shape=}, {v.shape=}"
        )
    v = lax.expand_dims(v, range(len(shape) - v.ndim))
    n_batch, n_sparse, _, _ = sp_mat.properties
    # Along an axis of length 1 of the dense operand there is one element for all.
    at = []
    for axis in range(n_batch):
        size = 1 if v.shape[axis] == 1 else shape[axis]
        at.append(np.arange(size, dtype=np.int32).reshape([-1, *(1,) * (n_batch - axis)]))
    for i in range(n_sparse):
        column = indices[..., i]
        at.append(gnp.zeros_like(column) if v.shape[n_batch + i] == 1 else column)
    if n_sparse:
        factors = v.at[tuple(at)].get(mode="fill", fill_value=0)
    else:
        factors = lax.expand_dims(v, (n_batch,))
    return data * factors


# ---- convolution ----


def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO:
    """A convolution along one axis of one channel, of stride 1 and without dilation.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCOO.fromdense(gnp.array([[[0., 1., 0., 2.]]]))
    >>> w = gnp.array([[[1., 10.]]])
    >>> sparse.bcoo_conv_general_dilated(x, w, window_strides=(1,), padding="VALID").todense()
    Array([[[10.,  1., 20.]]], dtype=float32)
    """
    del precision  # elements are multiplied in full
    _in_one_place("bcoo_conv_general_dilated", out_sharding)
    structs = [struct_of(ShapedArray(x.shape, x.dtype)) for x in (lhs, rhs)]
    out = eval_shape(
        lambda a, b: lax.conv_general_dilated(
            a, b, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
            feature_group_count, batch_group_count, preferred_element_type=preferred_element_type,
        ),
        *structs,
    )  # fmt: skip
    ones = (1,) * (lhs.ndim - 2)
    for name, given in (
        ("lhs_dilation", lhs_dilation),
        ("rhs_dilation", rhs_dilation),
        ("window_strides", window_strides),
    ):
        if given is not None and tuple(given) != ones:
            raise NotImplementedError(f"bcoo convolution with {name} other than 1.")
    if feature_group_count != 1 or batch_group_count != 1:
        raise NotImplementedError("bcoo convolution with non-unit group counts.")
    if lhs.ndim != 3 or lhs.shape[:2] != (1, 1) or rhs.shape[:2] != (1, 1):
        raise NotImplementedError(
            "bcoo convolution with leading dimensions other than (1, 1), or more than one axis"
        )
    if isinstance(padding, str):
        ((before, _),) = lax.padtype_to_pads(lhs.shape[2:], rhs.shape[2:], ones, padding)
    else:
        ((before, _),) = padding
    a, i = _elements(lhs)
    b, j = _elements(rhs)
    # Elements i of the signal and j of the window contribute to i - j, shifted by the padding.
    data = (a[:, None] * b[None, :]).ravel().astype(out.dtype)
    at = (i[:, None] - j[None, :] + int(before)).ravel()
    inside = at >= 0
    data = patterns.masked(data, inside)
    at = gnp.where(inside, at, 0)
    return BCOO((data[None, None], at[None, None, :, None]), shape=out.shape)


def _elements(x: Any) -> tuple[Array, Array]:
    """Values and indices along the last axis of an array of shape (1, 1, n)."""
    if not isinstance(x, BCOO):
        return gnp.asarray(x)[0, 0], gnp.arange(x.shape[-1], dtype=np.int32)
    flat = bcoo_update_layout(x, n_batch=0, n_dense=0)
    there = patterns.inside(flat.indices, np.array(flat.shape, flat.indices.dtype))
    return patterns.masked(flat.data, there), flat.indices[:, 2]
