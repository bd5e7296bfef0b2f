"""The samplers that others are made of: bits, uniform, normal, integers, coin flips.

Floor 6. In: a key, a shape, a dtype. Out: arrays that depend only on the key. The functions with an
underscore are traced once for each kind of call, and fuse with consumers of their numbers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of, machine_int
from gpuarray.core.trace import full_width
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.lax.args import canonicalize_shape, shape_of
from gpuarray.lax.ranks import check_ranks
from gpuarray.primitives.movement.ops import reshape_p, slice_p, squeeze_p
from gpuarray.primitives.random.ops import random_bits_p, random_split_p, stream_params
from gpuarray.random.arguments import (
    float_dtype,
    one_key,
    placed,
    ranked,
    sample_shape,
    spread,
)

# The recorded program is JAX's, step by step, and so the numbers are equal bit for bit
# (docs/interop.md). That is why samplers bind primitives in a fixed order, and helpers are jitted
# under JAX's names.
sampler = functools.partial(jit, static_argnames=("shape", "dtype"))


# ---- pieces ----


def keys_from(key: Any, n: int = 2) -> list[Any]:
    """n new keys, one by one."""
    new = random_split_p.bind(key, shape=(n,), **stream_params())
    return pick_all(new, n)


def pick_all(x: Any, n: int) -> list[Any]:
    """x[0], ..., x[n - 1]."""
    rest = shape_of(x)[1:]
    parts = []
    for i in range(n):
        part = slice_p.bind(
            x,
            start_indices=(i, *(0 for _ in rest)),
            limit_indices=(i + 1, *rest),
            strides=(1,) * (1 + len(rest)),
        )
        parts.append(squeeze_p.bind(part, dimensions=(0,)))
    return parts


def raw_bits(key: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    """Random bits as unsigned integers of a width."""
    return random_bits_p.bind(key, bit_width=bit_width, shape=shape, **stream_params())


def as_(x: Any, dtype: Any) -> Any:
    """`x` as `dtype`, not weakly typed; a Python number becomes a constant of the program."""
    if isinstance(x, (bool, int, float, np.generic)):
        # A Python int keeps its own width up to here: one that is too large is an error.
        value = np.array(machine_int(x), dtype) if isinstance(x, int) else np.asarray(x)
        return full_width(value.astype(dtype)[()])
    return lax.convert_element_type(x, dtype)


@jit
def clip(x, lower, upper):
    """`x` limited to [lower, upper], which broadcast to its shape."""
    dtype, rank = aval_of(x).dtype, len(shape_of(x))
    lower, upper = (v if aval_of(v).dtype == dtype else as_(v, dtype) for v in (lower, upper))
    x = lax.max(ranked(lower, rank), x)
    return lax.min(ranked(upper, rank), x)


# ---- bits and uniform numbers ----


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Random bits as unsigned integers, uint32 (uint64 with x64) unless `dtype` says otherwise.

    >>> from gpuarray import random
    >>> random.bits(random.key(0), (2,), "uint8").dtype
    dtype('uint8')
    """
    key, _ = one_key("bits", key)
    found = dtypes.check_user_dtype(dtypes.default_uint() if dtype is None else dtype, "bits")
    if dtypes.kind_of(found) != "u":
        raise ValueError(
            "dtype argument to `bits` must be an unsigned int dtype, got "
            f"{getattr(found, 'name', found)}"
        )
    # At least 8 bits are drawn; narrower types keep the low ones.
    out = raw_bits(key, max(8, dtypes.itemsize_bits(found)), canonicalize_shape(shape))
    return placed("bits", as_(out, found), out_sharding)


@sampler
def _uniform(key, minval, maxval, *, shape, dtype):
    minval, maxval = as_(minval, dtype), as_(maxval, dtype)
    minval, maxval = spread_rank(minval, len(shape)), spread_rank(maxval, len(shape))
    info = dtypes.finfo(dtype)
    width, fraction = info.bits, info.nmant
    # Few bits of fraction need few random bits.
    # JAX's rule, and so its numbers.
    drawn = 8 if fraction < 8 else width
    numbers = raw_bits(key, drawn, shape)
    unsigned = np.dtype(f"uint{width}")
    if drawn != width:
        numbers = as_(numbers, unsigned)
    # The bits of 1.0: its exponent, and a fraction of zeros.
    one = np.ones((), dtype).view(unsigned)[()]
    # A random fraction under the exponent of 1 is a number in [1, 2).
    numbers = lax.bitwise_or(lax.shift_right_logical(numbers, unsigned.type(drawn - fraction)), one)
    unit = lax.sub(lax.bitcast_convert_type(numbers, dtype), np.ones((), dtype)[()])
    numbers = lax.add(lax.mul(unit, lax.sub(maxval, minval)), minval)
    if not shape:
        numbers = reshape_p.bind(numbers, new_sizes=(), dimensions=None, sharding=None)
    return lax.max(minval, numbers)  # rounding could reach below minval


def spread_rank(x: Any, rank: int) -> Any:
    """`x` with as many axes as the result, the new ones of length 1."""
    own = shape_of(x)
    lead = rank - len(own)
    return x if lead <= 0 else lax.broadcast_in_dim(x, (1,) * lead + own, tuple(range(lead, rank)))


def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Numbers drawn uniformly from [minval, maxval), which broadcast to `shape`.

    >>> from gpuarray import random
    >>> x = random.uniform(random.key(0), (1000,), minval=2., maxval=3.)
    >>> bool((x >= 2).all() & (x < 3).all())
    True
    """
    key, _ = one_key("uniform", key)
    dtype = float_dtype("uniform", dtype)
    shape = canonicalize_shape(shape)
    return placed("uniform", _uniform(key, minval, maxval, shape=shape, dtype=dtype), out_sharding)


# ---- normal numbers ----


@sampler
def _normal_real(key, *, shape, dtype):
    # Open at -1, where erf_inv is infinite; u is uniform in (-1, 1), sqrt(2) erf_inv(u) normal.
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    high = np.array(1.0, dtype)
    u = _uniform(key, low[()], high[()], shape=shape, dtype=dtype)
    return lax.mul(np.array(np.sqrt(2), dtype)[()], lax.erf_inv(u))


@sampler
def _normal(key, *, shape, dtype):
    if dtypes.kind_of(dtype) != "c":
        return _normal_real(key, shape=shape, dtype=dtype)
    real = np.zeros((), dtype).real.dtype
    # Two parts of variance 1/2 each.
    first, second = keys_from(key)
    x = as_(_normal_real(first, shape=shape, dtype=real), dtype)
    y = as_(_normal_real(second, shape=shape, dtype=real), dtype)
    total = lax.add(x, lax.mul(dtype.type(1j), y))
    return lax.div(total, dtype.type(np.array(np.sqrt(2), real)))


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Sample the standard normal distribution; complex numbers have total variance 1.

    >>> from gpuarray import random
    >>> random.normal(random.key(0), (3, 2)).shape
    (3, 2)
    """
    key, _ = one_key("normal", key)
    dtype = float_dtype("normal", dtype, complex_too=True)
    out = _normal(key, shape=canonicalize_shape(shape), dtype=dtype)
    return placed("normal", out, out_sharding)


@sampler
def _truncated_normal(key, lower, upper, *, shape, dtype):
    lower, upper = as_(lower, dtype), as_(upper, dtype)
    shape = sample_shape("truncated_normal", shape, shape_of(lower), shape_of(upper))
    sqrt2 = np.array(np.sqrt(2), dtype)[()]
    # Uniform between the bounds' shares, mapped back by the inverse.
    a, b = (lax.erf(lax.div(v, sqrt2)) for v in (lower, upper))
    u = _uniform(key, a, b, shape=shape, dtype=dtype)
    out = lax.mul(sqrt2, lax.erf_inv(u))
    # Rounding may step on a bound or over it.
    inside = dtype.type(np.inf)
    return clip(
        out,
        lax.nextafter(lax.stop_gradient(lower), inside),
        lax.nextafter(lax.stop_gradient(upper), -inside),
    )


@check_ranks("lower", "upper", "shape")
def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Normal numbers conditioned to be in (lower, upper).

    >>> from gpuarray import random
    >>> x = random.truncated_normal(random.key(0), -1., 1., (100,))
    >>> bool((abs(x) < 1).all())
    True
    """
    key, _ = one_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    shape = None if shape is None else canonicalize_shape(shape)
    out = _truncated_normal(key, lower, upper, shape=shape, dtype=dtype)
    return placed("truncated_normal", out, out_sharding)


# ---- coins ----


@functools.partial(jit, static_argnames=("shape", "mode"))
def _bernoulli(key, p, *, shape, mode):
    shape = sample_shape("bernoulli", shape, shape_of(p))
    dtype = aval_of(p).dtype
    # One number of the dtype's resolution: JAX's default.
    if mode == "low":
        u = _uniform(key, 0.0, 1.0, shape=shape, dtype=dtype)
        return lax.lt(u, ranked(p, len(shape)))
    # A second number refines the first below the resolution of one.
    pair = _uniform(key, 0.0, 1.0, shape=(2, *shape), dtype=dtype)
    first, second = pick_all(pair, 2)
    fine = lax.mul(second, dtype.type(dtypes.finfo(dtype).eps))
    # first + fine < p, arranged so that a small `fine` is not rounded away.
    return lax.lt(fine, lax.sub(ranked(p, len(shape)), first))


@check_ranks("p", "shape")
def bernoulli(
    key: Any,
    p: Any = 0.5,
    shape: Any = None,
    mode: str = "low",
    *,
    out_sharding: Any = None,
) -> Array:
    """True with probability p: bool of `shape`, or of p's shape; 'high' resolves small p better.

    >>> from gpuarray import random
    >>> random.bernoulli(random.key(0), 1.0, (3,))
    Array([ True,  True,  True], dtype=bool)
    """
    if mode not in ("high", "low"):
        raise ValueError(f"got mode={mode!r}, expected 'high' or 'low'")
    dtype = dtypes.dtype(p)
    key, _ = one_key("bernoulli", key)
    if dtypes.kind_of(dtype) != "f":
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtype}.")
    shape = None if shape is None else canonicalize_shape(shape)
    return placed("bernoulli", _bernoulli(key, as_(p, dtype), shape=shape, mode=mode), out_sharding)


@sampler
def _rademacher(key, *, shape, dtype):
    coins = _bernoulli(key, 0.5, shape=shape, mode="low")
    # Booleans cannot hold -1: they are computed as integers, and both become True.
    number = dtype if dtypes.kind_of(dtype) != "b" else dtypes.default_int()
    twice = lax.mul(np.array(2, number)[()], as_(coins, number))
    return as_(lax.sub(twice, np.array(1, number)[()]), dtype)


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """-1 or 1, each with probability 1/2.

    >>> from gpuarray import random
    >>> abs(random.rademacher(random.key(0), (3,)))
    Array([1, 1, 1], dtype=int32)
    """
    key, _ = one_key("rademacher", key)
    dtype = dtypes.check_user_dtype(int if dtype is None else dtype, "rademacher")
    out = _rademacher(key, shape=canonicalize_shape(shape), dtype=dtype)
    return placed("rademacher", out, out_sharding)


# ---- integers ----


@sampler
def _randint(key, minval, maxval, *, shape, dtype):
    shape = sample_shape("randint", shape, shape_of(minval), shape_of(maxval))
    minval, maxval = _whole(minval), _whole(maxval)
    # One past the largest value can only be requested by a number that does not fit.
    top = min(int(dtypes.iinfo(x).max) for x in (dtype, aval_of(maxval).dtype))
    beyond = lax.gt(maxval, aval_of(maxval).dtype.type(top))
    # Bounds are limited to what the dtype can hold.
    minval, maxval = _within(minval, dtype), _within(maxval, dtype)
    rank = len(shape)
    minval, maxval = spread_rank(minval, rank), spread_rank(maxval, rank)

    width = dtypes.itemsize_bits(dtype)
    unsigned = np.dtype(f"uint{width}")
    # Twice the bits, so that the modulo is nearly fair.
    first, second = keys_from(key)
    high_bits, low_bits = raw_bits(first, width, shape), raw_bits(second, width, shape)
    span = as_(lax.sub(maxval, minval), unsigned)
    # An empty range gives minval, as in JAX.
    empty = lax.le(maxval, minval)
    one = full_width(unsigned.type(1))
    span = lax.select_n(empty, span, spread(one, shape_of(span)))
    # maxval one past the largest value: the span wraps around to 0, which means all.
    wider = lax.bitwise_and(ranked(beyond, rank), lax.gt(maxval, minval))
    span = lax.select_n(wider, span, lax.add(span, one))
    # (high * 2**width + low) mod span, without numbers of twice the width.
    half = lax.rem(full_width(unsigned.type(2 ** (width // 2))), span)
    factor = lax.rem(lax.mul(half, half), span)
    offset = lax.add(lax.mul(lax.rem(high_bits, span), factor), lax.rem(low_bits, span))
    return lax.add(minval, as_(lax.rem(offset, span), dtype))


def randint(
    key: Any,
    shape: Any,
    minval: Any,
    maxval: Any,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Integers drawn uniformly from minval to maxval - 1, which broadcast to `shape`.

    >>> from gpuarray import random
    >>> x = random.randint(random.key(0), (100,), 0, 10)
    >>> int(x.min()) >= 0, int(x.max()) <= 9
    (True, True)
    """
    key, _ = one_key("randint", key)
    found = dtypes.check_user_dtype(int if dtype is None else dtype, "randint")
    if dtypes.kind_of(found) not in "iu":
        raise TypeError(f"randint only accepts integer dtypes, got {found}")
    shape = canonicalize_shape(shape)
    for bound in (minval, maxval):
        if type(bound) is int:
            # A Python int that does not fit is an error, not a wrap.
            np.array(bound, dtypes.default_int())  # raises OverflowError
    if dtypes.itemsize_bits(found) >= 32:
        out = _randint(key, minval, maxval, shape=shape, dtype=found)
        return placed("randint", out, out_sharding)
    # Narrow integers are drawn as 32-bit ones within their range; one past the largest value is a
    # fair bound.
    info, wide = dtypes.iinfo(found), np.dtype(np.int32)
    minval = _limited(as_(minval, wide), max=int(info.max), min=int(info.min))
    maxval = _limited(as_(maxval, wide), max=int(info.max) + 1, min=int(info.min))
    out = as_(_randint(key, minval, maxval, shape=shape, dtype=wide), found)
    return placed("randint", out, out_sharding)


def _within(x: Any, dtype: Any) -> Any:
    """A bound of randint as `dtype`, clamped to its range."""
    # Also clamp to the limits of its own dtype: other limits would wrap in it.
    own = aval_of(x).dtype
    limits = dtypes.iinfo(dtype), dtypes.iinfo(own)
    least, most = max(int(i.min) for i in limits), min(int(i.max) for i in limits)
    return as_(clip(x, own.type(least), own.type(most)), dtype)


def _whole(x: Any) -> Any:
    """A bound of randint as an integer."""
    return as_(x, dtypes.default_int()) if dtypes.kind_of(dtypes.dtype(x)) == "f" else x


@jit
def _limited(x, *, min, max):
    dtype = aval_of(x).dtype
    x = lax.max(as_(min, dtype), x)
    return lax.min(as_(max, dtype), x)


_limited.__name__ = "clip"
