"""Values folded by group: the public functions of `gpuarray.ops`.

Floor 6. In: values, and for each the number of its segment. Out: one value for each segment, by one
scatter; by two steps of fewer values each where a bucket size is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import errors, lax, util
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.dims import Dim
from gpuarray.core.layout import out_given
from gpuarray.core.memories import Space
from gpuarray.core.primitive import Primitive
from gpuarray.core.trace import Tracer, full_width
from gpuarray.core.value import Array
from gpuarray.functions.explicit import as_program, makes_terms
from gpuarray.lax.lengths import typed
from gpuarray.primitives.define import do
from gpuarray.primitives.indexing.ops import (
    GatherScatterMode,
    ScatterDimensionNumbers,
    machine_integers,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
)
from gpuarray.primitives.indexing.ops import (
    update_graph as _update_graph,
)
from gpuarray.primitives.memory import in_memory
from gpuarray.primitives.reduce.ops import (
    reduce_max_p,
    reduce_min_p,
    reduce_prod_p,
    reduce_sum_p,
)
from gpuarray.runtime.transfer import placed

# The scatter that folds values into their segments, and the reduction that folds the buckets.
_FOLDS: dict[str, tuple[Primitive, Primitive]] = {
    "segment_sum": (scatter_add_p, reduce_sum_p),
    "segment_prod": (scatter_mul_p, reduce_prod_p),
    "segment_max": (scatter_max_p, reduce_max_p),
    "segment_min": (scatter_min_p, reduce_min_p),
}


def _operand(name: str, x: Any, position: int) -> Any:
    if isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex)):
        return x
    raise TypeError(
        f"{name} requires ndarray or scalar arguments, got {type(x)} at position {position}. "
        "Convert it with gpuarray.numpy.asarray(...)."
    )


def _count(name: str, ids: Any, num_segments: Any) -> int:
    # One more than the largest number, which has to be known: it is a length.
    if num_segments is None:
        # Under jit the ids have no values, and so no largest one.
        if isinstance(ids, Tracer):
            raise errors.ConcretizationTypeError(
                ids,
                f"{name}() `num_segments` argument: how many segments there are decides a shape. "
                "Pass num_segments.",
            )
        num_segments = machine_integers(np.asarray(ids)).max(initial=-1) + 1
    count = util.index(num_segments)
    if count < 0:
        raise ValueError(f"num_segments must be non-negative, got {count}.")
    return count


def _segments(
    name: str,
    data: Any,
    segment_ids: Any,
    num_segments: int | None,
    indices_are_sorted: bool,
    unique_indices: bool,
    bucket_size: int | None,
    mode: Any,
    out_sharding: Any,
) -> Any:
    if out_sharding is not None:
        spec = getattr(out_sharding, "spec", out_sharding)
        if name != "segment_sum" and getattr(spec, "unreduced", ()):
            raise NotImplementedError(
                f"{name} cannot be unreduced: its parts are not terms of a sum. Got {out_sharding}"
            )
        options = num_segments, indices_are_sorted, unique_indices, bucket_size, mode
        if makes_terms(out_sharding):
            options = _count(name, segment_ids, num_segments), *options[1:]
            return as_program(_segments, name, data, segment_ids, *options, out_sharding)
        with out_given(out_sharding):
            out = _segments(name, data, segment_ids, *options, None)
        return placed(name, out, out_sharding)
    scatter, reduce = _FOLDS[name]
    assert reduce.fold is not None
    data, ids = _operand(name, data, 0), _operand(name, segment_ids, 1)
    # How numbers without a segment are treated.
    where = GatherScatterMode.from_any(mode)
    if dtypes.kind_of(aval_of(ids).dtype) not in "iu":
        raise TypeError(
            "Only integer scalar arrays can be converted to a scalar index: segment_ids are "
            f"{aval_of(ids).dtype}"
        )
    count = _count(name, ids, num_segments)
    aval, batch = aval_of(data), aval_of(ids).shape
    rank = len(batch)
    if aval.shape[:rank] != batch:
        # One value for all ids, or one along an axis of theirs.
        whole = (*batch, *aval.shape[rank:])
        lengths = zip(reversed(aval.shape), reversed(whole), strict=False)
        if aval.ndim > len(whole) or any(n not in (1, m) for n, m in lengths):
            raise ValueError(
                f"Incompatible types for broadcasting: {name} got data of shape {aval.shape} and "
                f"segment_ids of shape {batch}; the latter must be the former's first axes."
            )
        last = tuple(range(len(whole) - aval.ndim, len(whole)))
        data = do.broadcast_in_dim(data, shape=whole, broadcast_dimensions=last, sharding=None)
        aval = aval_of(data)
    # Sums and products of booleans are ambiguous: counts, or truth values.
    if aval.dtype == np.bool_ and reduce in (reduce_sum_p, reduce_prod_p):
        raise TypeError(
            f"{name} does not accept dtype bool: convert the data to integers, or take segment_max "
            "(any) or segment_min (all)."
        )
    # The ids name the leading axes; all others are carried along.
    rest = aval.shape[rank:]
    bucketed = bucket_size is not None and rank > 0
    places = do.broadcast_in_dim(
        ids, shape=(*batch, 1), broadcast_dimensions=tuple(range(rank)), sharding=None
    )
    lead: tuple[int, ...] = (count,)
    if bucketed:
        # A second index, the bucket: many short sums, then one over the buckets.
        size = util.index(bucket_size)  # pyright: ignore[reportArgumentType]
        # Rounded up: the last bucket may be smaller.
        lead = (-(-batch[0] // size), count)
        # The places are one array, so both numbers have the dtype of the ids.
        kind = aval_of(ids).dtype
        if Dim in (type(batch[0]), type(size)):
            bucket: Any = lax.div(lax.iota(kind, batch[0]), typed(size, kind))
            bucket = lax.broadcast_in_dim(bucket, (*batch, 1), (0,))
        else:
            bucket = np.arange(batch[0]).reshape(-1, *(1,) * rank) // size
            bucket = np.broadcast_to(bucket, (*batch, 1)).astype(kind)
        places = do.concatenate(bucket, places, dimension=rank)
    # Segments without a value keep the identity.
    start = do.broadcast_in_dim(
        full_width(reduce.fold.of_nothing(aval.dtype)),
        shape=(*lead, *rest),
        broadcast_dimensions=(),
        sharding=None,
    )
    # One scatter: each index names a slice with all the axes that are carried along.
    out = scatter.bind(
        start,
        places,
        in_memory(data, Space.Device),
        dimension_numbers=ScatterDimensionNumbers(
            update_window_dims=tuple(range(rank, rank + len(rest))),
            inserted_window_dims=tuple(range(len(lead))),
            scatter_dims_to_operand_dims=tuple(range(len(lead))),
        ),
        indices_are_sorted=bool(indices_are_sorted) and not bucketed,
        unique_indices=bool(unique_indices),
        mode=where,
        update_jaxpr=_update_graph(scatter, aval.dtype),
        update_consts=(),
    )
    if bucketed:
        # The second step.
        out = reduce.bind(out, axes=(0,), out_sharding=None)
    return out


_ARGUMENTS = """

    data: (*batch, ...); segment_ids: integers (*batch), each the number of a segment; numbers
    outside 0 ... num_segments - 1 are left out (mode "clip" moves them inside). The result is
    (num_segments, ...); num_segments is one more than the largest number when not given, which
    cannot be known under jit. bucket_size: fold groups of so many values first, for accuracy.
    indices_are_sorted, unique_indices: what is known of the numbers.
"""


def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of the values of each segment.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.ops.segment_sum(gnp.array([1., 2., 4.]), gnp.array([0, 1, 0]))
    Array([5., 2.], dtype=float32)
    """
    return _segments(
        "segment_sum", data, segment_ids, num_segments, indices_are_sorted, unique_indices,
        bucket_size, mode, out_sharding,
    )  # fmt: skip


def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The product of the values of each segment.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.ops.segment_prod(gnp.array([3., 2., 4.]), gnp.array([0, 1, 0]))
    Array([12.,  2.], dtype=float32)
    """
    return _segments(
        "segment_prod", data, segment_ids, num_segments, indices_are_sorted, unique_indices,
        bucket_size, mode, out_sharding,
    )  # fmt: skip


def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The largest of the values of each segment; the smallest there is for an empty one.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.ops.segment_max(gnp.array([1., 2., 4.]), gnp.array([0, 1, 0]))
    Array([4., 2.], dtype=float32)
    """
    return _segments(
        "segment_max", data, segment_ids, num_segments, indices_are_sorted, unique_indices,
        bucket_size, mode, out_sharding,
    )  # fmt: skip


def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The smallest of the values of each segment; the largest there is for an empty one.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.ops.segment_min(gnp.array([1., 2., 4.]), gnp.array([0, 1, 0]))
    Array([1., 2.], dtype=float32)
    """
    return _segments(
        "segment_min", data, segment_ids, num_segments, indices_are_sorted, unique_indices,
        bucket_size, mode, out_sharding,
    )  # fmt: skip


for _function in (segment_sum, segment_prod, segment_max, segment_min):
    if _function.__doc__:  # not under python -OO
        # The four share the description of their arguments: it goes between summary and example.
        _first, _, _example = _function.__doc__.partition("\n\n")
        _function.__doc__ = _first + _ARGUMENTS + "\n" + _example
