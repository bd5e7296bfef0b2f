"""Counts: Poisson, binomial and multinomial numbers, drawn by rejection in a loop.

Floor 6. In: a key, parameters that broadcast, a shape, a dtype. Out: arrays of counts. A loop draws
for all elements together, until every one of them has accepted a number.

Methods: Knuth's product of uniform numbers for a small Poisson mean; Hörmann, "The transformed
rejection method for generating Poisson random variables" (1993) and "The generation of binomial
random variates" (1993) for large ones; for few expected successes, sums of waiting times.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core import dtypes, promotion
from gpuarray.core.avals import aval_of
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.lax.args import ArrayLike, canonicalize_shape, shape_of
from gpuarray.lax.loops import while_loop
from gpuarray.lax.scans import scan
from gpuarray.primitives.random.ops import random_split_p, stream_params
from gpuarray.random.arguments import (
    float_dtype,
    int_dtype,
    one_key,
    placed,
    sample_shape,
    spread,
)
from gpuarray.random.basic import _uniform, as_, keys_from, sampler

# log(k!) less its approximation by Stirling's formula, for k < 10.
_STIRLING_ERRORS = [
    math.lgamma(k + 1) - (0.5 * math.log(2 * math.pi) + (k + 0.5) * math.log(k + 1) - (k + 1))
    for k in range(10)
]


def _any(x: Any) -> Any:
    return lax.reduce_or(x, tuple(range(len(shape_of(x)))))


# ---- Poisson ----


@functools.partial(jit, static_argnames=("shape", "dtype", "max_iters"))
def _poisson_knuth(key, lam, *, shape, dtype, max_iters):
    """How many uniform numbers one can multiply before their product falls below e^-lam."""
    number = aval_of(lam).dtype

    def go_on(carry):
        # Uniform numbers are multiplied until their product is below exp(-lam); one less than it
        # took is the count.
        i, _, _, log_product = carry
        # The number of rounds is limited, as in JAX.
        return _any(log_product > -lam) & (i < dtypes.default_int().type(max_iters))

    def step(carry):
        i, count, key, log_product = carry
        key, subkey = keys_from(key)
        # Elements that are done keep their count, while others continue.
        count = lax.select(log_product > -lam, count + 1, count)
        u = _uniform(subkey, 0.0, 1.0, shape=shape, dtype=number)
        return i + 1, count, key, log_product + lax.log(u)

    start = (0, lax.full(shape, 0, dtype), key, lax.full(shape, 0, number))
    return while_loop(go_on, step, start)[1] - 1


@functools.partial(jit, static_argnames=("shape", "dtype", "max_iters"))
def _poisson_rejection(key, lam, *, shape, dtype, max_iters):
    """Transformed rejection with squeeze (PTRS)."""
    number = aval_of(lam).dtype
    log_lam = lax.log(lam)
    # Hörmann's PTRS: constants of the paper, good from lam = 10 on.
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_low = 0.9277 - 3.6224 / (b - 2)

    def go_on(carry):
        i, _, accepted, _ = carry
        return _any(~accepted) & (i < dtypes.default_int().type(max_iters))

    def step(carry):
        i, chosen, accepted, key = carry
        key, first, second = keys_from(key, 3)
        u = _uniform(first, 0.0, 1.0, shape=shape, dtype=number) - 0.5
        v = _uniform(second, 0.0, 1.0, shape=shape, dtype=number)
        inner = 0.5 - abs(u)
        # The proposal, by Hörmann's transformation of u; s and t are the sides of the test below.
        k = lax.floor((2 * a / inner + b) * u + lam + 0.43)
        s = lax.log(v * inverse_alpha / (a / (inner * inner) + b))
        t = -lam + k * log_lam - lax.lgamma(k + 1)
        # Most are accepted by the squeeze, without a logarithm of the density.
        squeezed = (inner >= 0.07) & (v <= v_low)
        refused = (k < 0) | ((inner < 0.013) & (v > inner))
        within = s <= t
        accept = squeezed | (~refused & within)
        chosen, accepted = lax.select(accept, k, chosen), accepted | accept
        return i + 1, chosen, accepted, key

    start = (0, lax.full(shape, -1, number), lax.full(shape, False, np.bool_), key)
    return as_(while_loop(go_on, step, start)[1], dtype)


@sampler
def _poisson(key, lam, *, shape, dtype):
    # No more rounds than can be counted, whatever the counts are.
    most = min(int(dtypes.iinfo(t).max) for t in (dtype, dtypes.default_int()))
    limits = {"shape": shape, "dtype": dtype, "max_iters": most}
    # Each method gets a harmless mean where the other one's result counts.
    small = lax.ne(lam, lam) | (lam < 10)
    low = lax.select(small, lam, lax.full_like(lam, 0.0))
    high = lax.select(small, lax.full_like(lam, 1e5), lam)
    few = _poisson_knuth(key, low, **limits)
    many = _poisson_rejection(key, high, **limits)
    out = lax.select(small, few, many)
    # A mean of 0 always gives 0.
    return lax.select(lam == 0, lax.full_like(out, 0), out)


def poisson(
    key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Poisson counts of mean lam; -1 where lam is negative or NaN.

    >>> from gpuarray import random
    >>> bool((random.poisson(random.key(0), 4.0, (100,)) >= 0).all())
    True
    """
    key, _ = one_key("poisson", key)
    dtype = int_dtype("poisson", dtype)
    shape = sample_shape("poisson", shape, shape_of(lam))
    # As JAX does, whatever the dtype of lam.
    lam = as_(spread(lam, shape), np.dtype(np.float32))
    return placed("poisson", _poisson(key, lam, shape=shape, dtype=dtype), out_sharding)


# ---- binomial ----


def _correction(k: Any, table: Any) -> Any:
    """How far Stirling's formula is off at k: from a table where k is small, else a series."""
    known = k <= 9
    # The table is read at a place that exists; the series is used elsewhere.
    k = lax.clamp(dtypes.dtype(k).type(0), k, dtypes.dtype(k).type(9))
    square = (k + 1) * (k + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    return lax.select(known, table[as_(lax.floor(k), np.dtype(np.int32))], series)


def _by_waiting_times(key: Any, count: Any, p: Any, shape, dtype, most: float) -> Any:
    """Successes in `count` trials: waiting times are added up until they exceed the trials."""
    log_failure = lax.log1p(-p)

    def go_on(carry):
        i, _, trials, _ = carry
        return _any(trials <= count) & (i < most)

    def step(carry):
        i, successes, trials, key = carry
        subkey, key = keys_from(key)
        successes = lax.select(trials <= count, successes + 1, successes)
        u = _uniform(subkey, 0.0, 1.0, shape=shape, dtype=dtype)
        # A geometric variate: the trials until the next success.
        wait = lax.ceil(lax.log(u) / log_failure)
        return i + 1, successes, trials + wait, key

    # One success more than fits: the loop ends with the wait that exceeds the trials.
    start = (0, lax.full_like(p, 0, dtype, shape), lax.full_like(p, 0, dtype, shape), key)
    return while_loop(go_on, step, start)[1] - 1


def _by_rejection(key: Any, count: Any, p: Any, shape, dtype, most: float) -> Any:
    """Transformed rejection (BTRS), for p up to 1/2 and count * p of at least 10."""
    # Hörmann's BTRS: constants of the paper, good where both outcomes are expected ten times or
    # more.
    table = gnp.asarray(_STIRLING_ERRORS, dtype)
    deviation = lax.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = count * p + 0.5
    v_low = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = lax.floor((count + 1) * p)

    def go_on(carry):
        i, _, accepted, _ = carry
        return _any(~accepted) & (i < most)

    def step(carry):
        i, chosen, accepted, key = carry
        key, first, second = keys_from(key, 3)
        u = _uniform(first, 0.0, 1.0, shape=shape, dtype=dtype)
        v = _uniform(second, 0.0, 1.0, shape=shape, dtype=dtype)
        u = u - 0.5
        inner = 0.5 - abs(u)
        squeezed = (inner >= 0.07) & (v <= v_low)
        # The proposal, by the paper's transformation of u. A draw that passes the squeeze is
        # accepted whatever its density is.
        k = lax.floor((2 * a / inner + b) * u + centre)
        refused = (k < 0) | (k > count)
        v = lax.log(v * alpha / (a / (inner * inner) + b))
        # log(f(k) / f(mode)), the factorials by Stirling's formula with its correction.
        bound = (
            (mode + 0.5) * lax.log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * lax.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * lax.log(odds * (count - k + 1) / (k + 1))
            + _correction(mode, table)
            + _correction(count - mode, table)
            - _correction(k, table)
            - _correction(count - k, table)
        )
        within = v <= bound
        accept = squeezed | (~refused & within)
        chosen, accepted = lax.select(accept, k, chosen), accepted | accept
        return i + 1, chosen, accepted, key

    start = (0, lax.full_like(p, -1, dtype, shape), lax.full_like(p, False, np.bool_, shape), key)
    return while_loop(go_on, step, start)[1]


def _binomial(key: Any, count: Any, p: Any, shape: tuple[int, ...], dtype: Any, most: float) -> Any:
    """One binomial number for every element; parameters have the full shape and dtype."""
    flipped = p < 0.5
    q = lax.select(flipped, p, 1.0 - p)  # the rarer outcome is counted
    count_bad = lax.ne(count, count) | (count < 0)
    endless = gnp.isinf(count)
    q_nan, q_negative = lax.ne(q, q), q < 0
    q_bad = q_nan | q_negative
    # Harmless numbers in the loops, which would not end with nan; the result is replaced below.
    q = lax.select(q_bad, lax.full_like(q, 0.01), q)
    # Waiting times cost one step for each success, rejection the same for any mean.
    rare = count_bad | (count * q <= 10)
    whole = lax.floor(count)
    # Each method gets harmless parameters where the other one's result counts.
    few = _by_waiting_times(
        key, lax.select(rare, whole, lax.full_like(whole, 0.0)), q, shape, dtype, most
    )
    many = _by_rejection(
        key,
        lax.select(rare, lax.full_like(whole, 1e4), whole),
        lax.select(rare, lax.full_like(q, 0.5), q),
        shape,
        dtype,
        most,
    )
    out = lax.select(rare, few, many)
    invalid = q_negative | q_nan | count_bad
    out = lax.select(invalid, lax.full_like(out, np.nan), out)
    out = lax.select(endless & ~invalid, lax.full_like(out, np.inf), out)
    counted = flipped | count_bad | q_nan | endless
    # The rarer outcome was counted: turn it back.
    return lax.select(counted, out, whole - out)


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Successes in n trials of probability p, as floats; NaN for parameters that make no sense.

    >>> from gpuarray import random
    >>> x = random.binomial(random.key(0), 10.0, 0.5, (100,))
    >>> bool(((x >= 0) & (x <= 10)).all())
    True
    """
    key, _ = one_key("binomial", key)
    for position, x in enumerate((n, p)):
        if not (isinstance(x, ArrayLike) or hasattr(x, "__jax_array__")):
            raise TypeError(
                f"binomial requires ndarray or scalar arguments, got {type(x)} at position "
                f"{position}. Convert it first with gpuarray.numpy.asarray(...)."
            )
    dtype = float_dtype("binomial", dtype)
    shape = sample_shape("binomial", shape, shape_of(n), shape_of(p))
    # As in JAX, the dtype of p is that of the random numbers.
    number = dtypes.to_inexact_dtype(promotion.lattice_result_type(p)[0])
    count, chance = spread(as_(n, number), shape), spread(as_(p, number), shape)
    most = float(dtypes.finfo(dtype).max)
    return as_(_binomial(key, count, chance, shape, number, most), dtype)


def multinomial(
    key: Any,
    n: Any,
    p: Any,
    *,
    shape: Any = None,
    dtype: Any = None,
    unroll: int | bool = 1,
) -> Array:
    """How n trials fall into categories of probabilities p: [..., k] -> [*shape], summing to n.

    `shape` includes the axis of the categories, which is the last. Categories are drawn one after
    another, each binomially from the remaining trials.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> x = random.multinomial(random.key(0), 20.0, gnp.array([0.2, 0.3, 0.5]))
    >>> float(x.sum())
    20.0
    """
    key, _ = one_key("multinomial", key)
    result = dtypes.check_user_dtype(float if dtype is None else dtype, "multinomial")
    number = dtypes.to_inexact_dtype(gnp.result_type(n, p))
    own = shape_of(p)
    if not own:
        raise ValueError("multinomial needs p with an axis of categories, got a scalar.")
    shape = own if shape is None else canonicalize_shape(shape)
    batch = shape[:-1]
    sample_shape("multinomial", shape, own)
    sample_shape("multinomial", batch, shape_of(n))
    p = spread(as_(p, number), shape)
    # One binomial for each class: its share of the probability that remains after earlier classes.
    left = lax.cumsum(p, len(shape) - 1, reverse=True)
    ratios = p / gnp.where(left == 0, 1, left)
    keys = random_split_p.bind(key, shape=shape[-1:], **stream_params())

    def draw(remaining, step):
        ratio, key = step
        # Rounding may carry a share just beyond 1.
        ratio = gnp.clip(ratio, 0, 1)
        count = _binomial(key, remaining, ratio, batch, number, most)
        return remaining - count, count

    most = float(dtypes.finfo(number).max)
    start = spread(as_(n, number), batch)
    # The number of trials left is carried along.
    _, counts = scan(draw, start, (gnp.moveaxis(ratios, -1, 0), keys), unroll=unroll)
    return as_(gnp.moveaxis(counts, 0, -1), result)
