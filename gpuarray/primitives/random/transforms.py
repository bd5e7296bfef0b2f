"""How random operations behave under transformations: they have no derivatives, and batch rules.

Floor 2. In: operands with a batch axis. Out: results with one.

Keys of a hash, such as Threefry's, are independent: a batch of them is one more axis of the
operation. A stateful generator continues from one number to the next, and as in JAX the first of a
batch of states makes the numbers of all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, NOT_LINEAR
from gpuarray.primitives.axes import add_axis, move_axis, set_rank
from gpuarray.primitives.define import do

#: Rows of four words that `unsafe_rbg` draws to mix a key with data; it uses the last one.
_DRAWN = 10


def discrete(batch: Callable[..., Any]) -> dict[str, Any]:
    """Rules of a primitive without derivatives."""
    return {"jvp": NOT_DIFFERENTIABLE, "transpose": NOT_LINEAR, "batch": batch}


def in_place(name: str) -> Callable[..., Any]:
    """Return the batch rule of a primitive on any leading axes: the batch axis is one of them."""

    def batch(axis, args, dims, **params):
        # Leading key axes are kept, so the batch axis may be any of them.
        return getattr(do, name)(*args, **params), dims[0]

    return batch


def wrap_batch(axis, args, dims, *, impl):
    """Words of keys to keys: the batch axis in front."""
    (words,), (dim,) = args, dims
    return do.random_wrap(move_axis(words, dim, 0), impl=impl), 0


def _name(keys: Any) -> str:
    return aval_of(keys).dtype.impl.name


def _first(x: Any) -> Any:
    """The first element along the first axis."""
    shape = aval_of(x).shape
    one = do.slice(x, start_indices=(0,) * len(shape), limit_indices=(1, *shape[1:]), strides=None)
    return do.squeeze(one, dimensions=(0,))


def _drawn_by(*names: str) -> Callable[..., Any]:
    """Return whether the first key of a batch draws for all of it, by the generator's name."""
    return lambda axis, keys: axis.size > 0 and _name(keys) in names


_draws_bits = _drawn_by("rbg", "unsafe_rbg")
_draws_keys = _drawn_by("unsafe_rbg")


def _leading(name: str, by_first: Callable[..., Any]) -> Callable[..., Any]:
    """Return the batch rule of a primitive that makes an array of `shape` for each key."""

    def batch(axis, args, dims, *, shape, **params):
        (keys,), (dim,) = args, dims
        make = getattr(do, name)
        if not by_first(axis, keys):
            return make(keys, shape=shape, **params), dim
        first = _first(move_axis(keys, dim, 0))
        return make(first, shape=(axis.size, *shape), **params), aval_of(first).ndim

    return batch


bits_batch = _leading("random_bits", _draws_bits)
split_batch = _leading("random_split", _draws_keys)


def fold_in_batch(axis, args, dims):
    """Broadcast as pointwise operations do: the batch axis in front, scalars unchanged."""
    # The rank of one element's operands, with the batch axis.
    rank = max(aval_of(x).ndim - (d is not None) for x, d in zip(args, dims, strict=True)) + 1

    def placed(x, d):
        if d is not None:
            return set_rank(move_axis(x, d, 0), rank, keep_first=True)
        return add_axis(x, 0) if aval_of(x).ndim else x

    keys, data = map(placed, args, dims)
    if dims[1] is not None and _draws_keys(axis, keys):
        return _mixed_by_first(axis.size, keys, data), 0
    return do.random_fold_in(keys, data), 0


def _mixed_by_first(size: int, keys: Any, data: Any) -> Any:
    """`unsafe_rbg` keys mixed with a batch of data: numbers of the first seed for all."""
    impl = aval_of(keys).dtype.impl
    seeded = do.random_seed(_first(data), impl=impl)
    drawn = do.random_bits(seeded, bit_width=32, shape=(size, _DRAWN, 4), partitionable=False)
    # Key axes before the batch axis move after it.
    drawn = move_axis(drawn, aval_of(seeded).ndim, 0)
    shape = aval_of(drawn).shape
    last = do.slice(
        drawn,
        start_indices=(*(0 for _ in shape[:-2]), _DRAWN - 1, 0),
        limit_indices=shape,
        strides=None,
    )
    mask = do.squeeze(last, dimensions=(len(shape) - 2,))
    words = do.random_unwrap(keys)
    wide = np.broadcast_shapes(aval_of(words).shape, aval_of(mask).shape)
    return do.random_wrap(do.xor(_spread(words, wide), _spread(mask, wide)), impl=impl)


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast to a shape as NumPy does."""
    own = aval_of(x).shape
    axes = tuple(range(len(shape) - len(own), len(shape)))
    if own == shape:
        return x
    return do.broadcast_in_dim(x, shape=shape, broadcast_dimensions=axes, sharding=None)


def generator_batch(axis, args, dims, *, shape, **params):
    """The first of a batch of states makes the bits of all, and is the only one that moves on."""
    (state,), (dim,) = args, dims
    state = move_axis(state, dim, 0)
    if not axis.size:
        return do.rng_bit_generator(state, shape=(0, *shape), **params), [0, 0]
    first = _first(state)
    lead = aval_of(first).ndim - 1  # states of outer batches come before the bits
    inner = (*shape[:lead], axis.size, *shape[lead:])
    after, bits = do.rng_bit_generator(first, shape=inner, **params)
    own = aval_of(state).shape
    rest = do.slice(
        state, start_indices=(1, *(0 for _ in own[1:])), limit_indices=own, strides=None
    )
    states = do.concatenate(add_axis(after, 0), rest, dimension=0)
    return [states, bits], [0, lead]
