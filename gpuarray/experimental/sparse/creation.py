"""Creating sparse arrays, and converting them to dense ones.

Floor 6. In: shapes and formats, or an array. Out: sparse arrays, dense ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import numpy as gnp
from gpuarray import random, util
from gpuarray.control.checkpoint import same_graph
from gpuarray.core import dtypes
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.experimental.sparse import patterns
from gpuarray.experimental.sparse.base import JAXSparse
from gpuarray.experimental.sparse.bcsr import BCSR
from gpuarray.experimental.sparse.coordinates import BCOO
from gpuarray.experimental.sparse.matrices import COO, CSC, CSR
from gpuarray.functions.vmap import vmap

#: A marker for `sparsify`, which converts its operand to dense. Otherwise the identity.
todense_p = Primitive(
    "todense",
    Kind.CALL,
    aval=lambda x: x,
    jvp=lambda primals, tangents: (todense_p.bind(*primals), *tangents),
    transpose=lambda ct, x: (ct,),
    batch=lambda axis, args, dims: (todense_p.bind(*args), *dims),
    decompose=lambda x: x,
    inline=same_graph,
    register=False,
)


def todense(arr: Any) -> Array:
    """The array with all its elements, if it is sparse; itself, if it is dense.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    return todense_p.bind(arr) if isinstance(arr, Tracer) else gnp.asarray(arr)


_FORMATS: dict[str, Any] = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str, known: dict[str, Any]) -> Any:
    if not util.known(name, known):
        raise ValueError(f"sparse_format={name!r} not recognized; must be one of {list(known)}")
    return known[name]


def _integers(dtype: Any) -> np.dtype:
    """Return the dtype of indices; TypeError if it is not an integer type."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is None or kind.kind not in "iu":
        raise util.wrong_type(dtype, "a dtype of integers")
    return kind


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse array of zeros, without stored elements.

    Parameters
    ----------
    sparse_format :
        "bcoo", "bcsr", "coo", "csr" or "csc".
    kwds :
        `n_batch`, `n_dense` and `nse` (the room for elements) of the batched formats.

    Examples
    --------

    >>> from gpuarray.experimental import sparse
    >>> sparse.empty((2, 3), sparse_format="csr")
    CSR(float32[2, 3], nse=0)
    """
    make = _format(sparse_format, _FORMATS)._empty
    _integers(index_dtype)
    return make(util.indices(shape, "a shape"), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """The N by M matrix with ones along its k-th diagonal.

    >>> from gpuarray.experimental import sparse
    >>> sparse.eye(3, k=1).todense()
    Array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    """
    known = {name: kind for name, kind in _FORMATS.items() if name != "bcsr"}
    N = util.index(N, "a number of rows")
    M = N if M is None else util.index(M, "a number of columns")
    make = _format(sparse_format, known)._eye
    _integers(index_dtype)
    return make(N, M, util.index(k, "a diagonal"), dtype=dtype, index_dtype=index_dtype, **kwds)


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = float,
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """A BCOO array with random elements at random places.

    Parameters
    ----------
    nse :
        How many elements there are, or if it is less than 1, which part of the places has one.
    generator :
        A function of (key, shape, dtype) that gives the elements.

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import sparse
    >>> sparse.random_bcoo(ga.random.key(0), (4, 5), nse=6)
    BCOO(float32[4, 5], nse=6)
    """
    shape = util.indices(shape, "a shape")
    n_batch = util.index(n_batch, "a number of axes")
    n_dense = util.index(n_dense, "a number of axes")
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ValueError(f"Invalid {n_batch=}, {n_dense=} for {shape=}")
    batch, sparse, dense = patterns.split(shape, n_batch, n_sparse)
    size = math.prod(sparse)
    nse = util.number(nse, "a number of stored elements, or a part of all places")
    util.function(generator, "a function of (key, shape, dtype)")
    if not 0 <= nse < size:
        raise ValueError(f"got {nse=}, expected to be between 0 and {size}")
    # A part of all places: at least one element.
    if 0 < nse < 1:
        nse = math.ceil(nse * size)
    nse = util.index(int(nse) if nse == int(nse) else nse, "a number of stored elements")
    kind = dtypes.default_int() if indices_dtype is None else _integers(indices_dtype)
    # Positions are drawn as flat indices.
    if size > np.iinfo(kind).max:
        raise ValueError(
            f"indices_dtype={kind} does not have enough range to generate sparse indices of size "
            f"{size}."
        )

    def places(key: Array) -> Array:
        # No sparse axis: an element has no index.
        if not sparse:
            return gnp.zeros((nse, 0), kind)
        flat = random.choice(key, size, shape=(nse,), replace=not unique_indices)
        return gnp.stack(gnp.unravel_index(flat.astype(kind), sparse), axis=-1)

    # One key for the elements, and one for the places of each element of the batch.
    keys = random.split(key, math.prod(batch) + 1)
    data = generator(keys[0], shape=(*batch, nse, *dense), dtype=dtype, **kwds)
    indices = vmap(places)(keys[1:]).reshape(*batch, nse, n_sparse).astype(kind)
    found = BCOO((data, indices), shape=shape)
    return found.sort_indices() if sorted_indices else found
