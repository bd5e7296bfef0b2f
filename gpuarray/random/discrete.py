"""Choosing and ordering: permutations, samples of an array, categories, waiting times.

Floor 6. In: a key, the values to choose from, a shape. Out: arrays of choices.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.lax.args import ArrayLike, canonicalize_shape, shape_of
from gpuarray.numpy.operands import static_int
from gpuarray.random.arguments import int_dtype, one_key, placed, ranked, sample_shape, spread
from gpuarray.random.basic import _uniform, as_, keys_from, randint, raw_bits
from gpuarray.random.continuous import _gumbel, gumbel_mode
from gpuarray.util import canonical_axis, prod


def _check_array(name: str, x: Any) -> None:
    if not (isinstance(x, ArrayLike) or hasattr(x, "__jax_array__")):
        raise TypeError(
            f"{name} requires ndarray or scalar arguments, got {type(x)} at position 0. Convert it "
            "first with gpuarray.numpy.asarray(...)."
        )


def _is_integer(x: Any) -> bool:
    return dtypes.kind_of(dtypes.dtype(x)) in "iu"


@functools.partial(jit, static_argnames=("axis",))
def _shuffle(key, x, *, axis):
    # Sorting by random 32-bit numbers once is fair enough up to some size; more rounds make up for
    # ties beyond.
    size = prod(shape_of(x))
    if isinstance(size, util.Symbolic):
        return _shuffle_any(key, x, size, axis)
    rounds = math.ceil(3 * math.log(max(1, size)) / math.log(np.iinfo(np.uint32).max))
    for _ in range(rounds):
        key, subkey = keys_from(key)
        order = raw_bits(subkey, 32, shape_of(x))
        _, x = lax.sort_key_val(order, x, axis)
    return x


def _shuffle_any(key, x, size, axis: int):
    # As many rounds as the formula above gives for the size that it will be: one more from 2 on,
    # and beyond the cube roots of the largest number and of its square.
    n = as_(size, np.int32)
    rounds = sum(as_(n > least, np.int32) for least in (1, 1625, 2642245))

    def turn(_, state):
        key, x = state
        key, subkey = keys_from(key)
        _, x = lax.sort_key_val(raw_bits(subkey, 32, shape_of(x)), x, axis)
        return key, x

    return lax.fori_loop(0, rounds, turn, (key, x))[1]


def permutation(
    key: Any,
    x: int | Any,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """`x` in random order along an axis, or the numbers 0, ..., x - 1 in random order.

    Slices move as wholes, unless `independent` shuffles every line of the axis separately.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> gnp.sort(random.permutation(random.key(0), 4))
    Array([0, 1, 2, 3], dtype=int32)
    """
    key, _ = one_key("permutation", key)
    _check_array("permutation", x)
    rank = len(shape_of(x))
    axis = canonical_axis(axis, rank or 1)
    # A number means the permutation of 0 ... n - 1.
    if not rank:
        if not _is_integer(x):
            raise TypeError("x must be an integer or at least 1-dimensional")
        n = max(0, static_int(x, "argument x of jax.random.permutation()"))
        return placed(
            "permutation", _shuffle(key, lax.iota(dtypes.dtype(x), n), axis=0), out_sharding
        )
    # Every lane shuffled for itself; otherwise whole slices move together.
    if independent or rank == 1:
        return placed("permutation", _shuffle(key, x, axis=axis), out_sharding)
    # Positions are shuffled rather than slices: less has to move.
    order = _shuffle(key, lax.iota(dtypes.default_int(), shape_of(x)[axis]), axis=0)
    return placed("permutation", gnp.take(x, order, axis, unique_indices=True), out_sharding)


def choice(
    key: Any,
    a: int | Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Random entries of `a` along an axis (or numbers below a), with equal or given probabilities.

    The result has `shape` in place of the axis. Without `replace` no entry is chosen twice.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> gnp.sort(random.choice(random.key(0), 3, (3,), replace=False))
    Array([0, 1, 2], dtype=int32)
    """
    # Integers and permutations are drawn by samplers that use the key up themselves.
    key, _ = one_key("choice", key, consume=p is not None)
    if not hasattr(shape, "__iter__"):
        raise TypeError(f"shape argument of random.choice must be a sequence, got {shape}")
    shape = canonicalize_shape(shape)
    _check_array("choice", a)
    own = shape_of(a)
    whole = not own
    if whole:
        n = static_int(a, "argument a of jax.random.choice()") if _is_integer(a) else int(a)
    else:
        axis = canonical_axis(axis, len(own))
        n = own[axis]
    draws = prod(shape)
    # Then an empty population is not an error.
    if draws == 0:
        full = shape if whole else own[:axis] + shape + own[axis + 1 :]
        return lax.full(full, 0, dtypes.default_int() if whole else dtypes.dtype(a))
    if n <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and draws > n:
        raise ValueError(
            f"Cannot take a larger sample (size {draws}) than population (size {n}) when "
            "'replace=False'"
        )
    # Equal probabilities: integers, or the front of a permutation.
    if p is None:
        if replace:
            index = randint(key, shape, 0, n)
            return index if whole else gnp.take(a, index, axis)
        if whole:
            return _front(permutation(key, n, 0), draws, 0).reshape(shape)
        chosen = _front(permutation(key, a, axis), draws, axis)
        return chosen.reshape(own[:axis] + shape + own[axis + 1 :])
    _check_array("choice", p)
    if shape_of(p) != (n,):
        raise ValueError(
            "p must be None or a 1D vector with the same size as a.shape[axis]. p has shape "
            f"{shape_of(p)} and a.shape[axis] is {n}."
        )
    p = p if dtypes.kind_of(dtypes.dtype(p)) == "f" else as_(p, dtypes.default_float())
    dtype = dtypes.dtype(p)
    if replace:
        # The inverse of the running sum; p need not add up to 1.
        total = gnp.cumsum(p)
        last = lax.index_in_dim(total, n - 1, 0, False)
        u = _uniform(key, 0.0, 1.0, shape=shape, dtype=dtype)
        # 1 - u is in (0, 1]: an entry of probability 0 at the front is never chosen.
        index = gnp.searchsorted(total, lax.mul(last, lax.sub(dtype.type(1), u)))
        index = as_(index, dtypes.default_int())
    else:
        # Gumbel noise on log p: the k largest are k draws without replacement.
        noise = _gumbel(key, shape=(n,), dtype=dtype, mode=gumbel_mode(mode))
        _, index = lax.top_k(lax.add(noise, lax.log(p)), draws)
        index = as_(index, dtypes.default_int()).reshape(shape)
    return index if whole else gnp.take(a, index, axis)


def _front(x: Any, n: int, axis: int) -> Any:
    return x if shape_of(x)[axis] == n else lax.slice_in_dim(x, 0, n, axis=axis)


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Random indices along an axis, with probabilities softmax(logits).

    The result has the shape of `logits` without the axis; `shape` may add axes in front. Without
    `replace` the samples of one distribution are distinct.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> random.categorical(random.key(0), gnp.array([[0., -gnp.inf], [-gnp.inf, 0.]]))
    Array([0, 1], dtype=int32)
    """
    key, _ = one_key("categorical", key)
    _check_array("categorical", logits)
    own = shape_of(logits)
    if not -len(own) <= util.index(axis) < len(own):
        raise IndexError(f"index {axis} is out of bounds for axis 0 with size {len(own)}")
    # From the end, since axes are added in front.
    axis = axis if axis < 0 else axis - len(own)
    mode = gumbel_mode(mode)
    dtype = dtypes.dtype(logits)
    if dtypes.kind_of(dtype) != "f":
        raise ValueError(f"dtype argument to `gumbel` must be a float dtype, got {dtype}")
    # The axes of the distributions, without the axis of the categories.
    batch = own[: len(own) + axis] + (own[axis + 1 :] if axis < -1 else ())
    shape = batch if shape is None else sample_shape("categorical", shape, batch)
    front, place = shape[: len(shape) - len(batch)], len(shape) + 1 + axis
    if replace:
        # The Gumbel-max trick: argmax(logits + noise) has the probabilities softmax(logits).
        full = (*shape[:place], own[axis], *shape[place:])
        noise = _gumbel(key, shape=full, dtype=dtype, mode=mode)
        scores = lax.add(noise, ranked(logits, len(full)))
        return placed("categorical", gnp.argmax(scores, axis), out_sharding)
    noise = _gumbel(key, shape=own, dtype=dtype, mode=mode)
    draws = prod(front)
    if draws > own[axis]:
        raise ValueError(
            f"Number of samples without replacement ({draws}) cannot exceed number of categories "
            f"({own[axis]})."
        )
    last = len(own) - 1
    scores = lax.add(logits, noise)
    if axis != -1:
        scores = gnp.moveaxis(scores, axis, -1)
    # As in `choice`: the largest scores are draws without replacement.
    _, index = lax.top_k(scores, draws)
    # The draws come first in the result.
    order = (last, *range(last))
    return placed("categorical", lax.reshape(index, shape, dimensions=order), out_sharding)


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _geometric(key, p, *, shape, dtype):
    shape = sample_shape("geometric", shape, shape_of(p))
    number = dtypes.dtype(p)
    if dtypes.kind_of(number) != "f":
        p, number = as_(p, dtypes.default_float()), dtypes.default_float()
    u = _uniform(key, 0.0, 1.0, shape=shape, dtype=number)
    # log(0) would be infinite steps; 1 gives one step.
    u = _where(lax.eq(u, number.type(0)), 1, u)
    above = lax.log(u)
    below = spread(lax.log1p(lax.neg(p)), shape)
    # The quantile function: the number of trials is log(u) / log(1 - p), rounded up.
    steps = lax.add(lax.floor(lax.div(above, below)), number.type(1))
    return as_(steps, dtype)


@jit
def _where(condition, x, y):
    x = spread(as_(x, dtypes.dtype(y)), shape_of(y))
    return lax.select_n(condition, y, x)


def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """How many trials of success probability p it takes to succeed: integers from 1 on.

    >>> from gpuarray import random
    >>> random.geometric(random.key(0), 1.0, (3,))
    Array([1, 1, 1], dtype=int32)
    """
    key, _ = one_key("geometric", key)
    dtype = int_dtype("geometric", dtype)
    shape = None if shape is None else canonicalize_shape(shape)
    return placed("geometric", _geometric(key, p, shape=shape, dtype=dtype), out_sharding)
