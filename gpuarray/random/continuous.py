"""Continuous distributions that are a formula of uniform or normal numbers.

Floor 6. In: a key, parameters that broadcast, a shape, a dtype. Out: arrays of samples.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gpuarray import config, lax
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.lax.args import canonicalize_shape, shape_of
from gpuarray.lax.ranks import check_ranks
from gpuarray.random.arguments import (
    check_safe,
    float_dtype,
    one_key,
    placed,
    ranked,
    sample_shape,
    spread,
)
from gpuarray.random.basic import (
    _normal,
    _rademacher,
    _uniform,
    as_,
    keys_from,
    pick_all,
    raw_bits,
    sampler,
)


def _plain(name: str, traced, key, shape, dtype, out_sharding, **static) -> Any:
    """A sampler without parameters, from its traced function."""
    key, _ = one_key(name, key)
    dtype = float_dtype(name, dtype)
    out = traced(key, shape=canonicalize_shape(shape), dtype=dtype, **static)
    return placed(name, out, out_sharding)


def _with(name: str, traced, key, parameters, shape, dtype, out_sharding=None, safe=False) -> Any:
    """Call a traced sampler with parameters; None as a shape means the broadcast parameters' shape.

    With `safe` the dtype must hold the parameters, which JAX requires of some samplers.
    """
    key, _ = one_key(name, key)
    dtype = float_dtype(name, dtype)
    if safe:
        check_safe(name, dtype, *parameters)
    shape = None if shape is None else canonicalize_shape(shape)
    return placed(name, traced(key, *parameters, shape=shape, dtype=dtype), out_sharding)


# ---- without parameters ----


@sampler
def _exponential(key, *, shape, dtype):
    # -log(1 - u): u may be 0, but never 1.
    u = _uniform(key, 0.0, 1.0, shape=shape, dtype=dtype)
    return lax.neg(lax.log1p(lax.neg(u)))


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Exponential numbers of rate 1: density e^-x for x ≥ 0.

    >>> from gpuarray import random
    >>> bool((random.exponential(random.key(0), (10,)) >= 0).all())
    True
    """
    return _plain("exponential", _exponential, key, shape, dtype, out_sharding)


@functools.partial(jit, static_argnames=("shape", "dtype", "mode"))
def _gumbel(key, *, shape, dtype, mode):
    info = dtypes.finfo(dtype)
    tiny = float(info.tiny)
    # -log(-log(u)), u > 0.
    if mode == "low":
        u = _uniform(key, minval=dtype.type(tiny), maxval=1.0, shape=shape, dtype=dtype)
        return lax.neg(lax.log(lax.neg(lax.log(u))))
    if mode == "highest" and dtype == np.float32:
        return _finest_gumbel(key, shape)
    # Two numbers make one of higher resolution near 0, where the first has few.
    pair = _uniform(key, minval=0.0, maxval=1.0, shape=(2, *shape), dtype=dtype)
    first, second = pick_all(pair, 2)
    fine = lax.add(lax.add(first, lax.mul(dtype.type(info.eps), second)), dtype.type(tiny))
    u = _where(lax.ge(first, dtype.type(0.5)), first, fine)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(u)))))


def _finest_gumbel(key, shape):
    """Gumbel numbers of float32 from 64 bits each, exact in both tails."""
    u32 = np.dtype(np.uint32).type
    high, low = pick_all(raw_bits(key, 32, (2, *shape)), 2)
    # Of u and 1 - u, as fractions of 2**64, the smaller one: it has the more digits.
    small = lax.lt(high, u32(1 << 31))
    flipped = lax.bitwise_not(low)
    carry = lax.convert_element_type(lax.eq(flipped, u32(0xFFFFFFFF)), np.uint32)
    high = _where(small, high, lax.add(lax.bitwise_not(high), carry))
    low = _where(small, low, lax.add(flipped, u32(1)))
    # Its first 24 binary digits, and the number of zeros before them.
    short = lax.eq(high, u32(0))
    skipped = lax.mul(lax.convert_element_type(short, np.uint32), u32(32))
    zeros = lax.add(lax.clz(_where(short, low, high)), skipped)
    inside = lax.bitwise_and(zeros, u32(31))
    left = lax.sub(u32(31), inside)
    behind = lax.shift_right_logical(lax.shift_right_logical(low, u32(1)), left)
    top = _where(
        short, lax.shift_left(low, inside), lax.bitwise_or(lax.shift_left(high, inside), behind)
    )
    digits = lax.bitwise_or(lax.shift_right_logical(top, u32(8)), u32(1 << 23))
    exponent = lax.shift_left(lax.sub(u32(127 - 24), zeros), u32(23))
    scale = lax.bitcast_convert_type(exponent, np.float32)
    x = lax.mul(lax.convert_element_type(digits, np.float32), scale)
    logs = _where(small, lax.log1p(lax.neg(x)), lax.log(x))
    return lax.neg(lax.log(lax.neg(logs)))


@jit
def _where(condition, x, y):
    return lax.select_n(condition, y, x)


def gumbel_mode(mode: str | None) -> str:
    """Check the `mode=` argument of gumbel and the functions built on it."""
    if mode is None:
        return "high" if config.state.high_dynamic_range_gumbel else "low"
    if mode not in ("highest", "high", "low"):
        raise ValueError(
            f"Must provide valid mode for gumbel got: {mode}; use 'highest', 'high' or 'low'"
        )
    return mode


def gumbel(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Gumbel numbers: -log(-log(u)) for uniform u. `mode='high'` resolves the tail better, and
    'highest', for float32, draws 64 bits for each and resolves both.

    >>> from gpuarray import random
    >>> random.gumbel(random.key(0), (2,)).shape
    (2,)
    """
    key, _ = one_key("gumbel", key)
    dtype = float_dtype("gumbel", dtype)
    out = _gumbel(key, shape=canonicalize_shape(shape), dtype=dtype, mode=gumbel_mode(mode))
    return placed("gumbel", out, out_sharding)


@sampler
def _laplace(key, *, shape, dtype):
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)[()]
    u = _uniform(key, low, 1.0, shape=shape, dtype=dtype)
    # A sign, and an exponential variate.
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Laplace numbers: density e^-|x| / 2.

    >>> from gpuarray import random
    >>> random.laplace(random.key(0), (2,)).shape
    (2,)
    """
    return _plain("laplace", _laplace, key, shape, dtype, out_sharding)


@sampler
def _logistic(key, *, shape, dtype):
    tiny = dtype.type(float(dtypes.finfo(dtype).tiny))
    u = _uniform(key, tiny, 1.0, shape=shape, dtype=dtype)
    # The logit of a uniform number.
    return lax.sub(lax.log(u), lax.log1p(lax.neg(u)))


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Logistic numbers: log(u / (1 - u)) for uniform u.

    >>> from gpuarray import random
    >>> random.logistic(random.key(0), (2,)).shape
    (2,)
    """
    return _plain("logistic", _logistic, key, shape, dtype, out_sharding)


@sampler
def _cauchy(key, *, shape, dtype):
    eps = dtype.type(float(dtypes.finfo(dtype).eps))
    u = _uniform(key, eps, 1.0, shape=shape, dtype=dtype)
    # The quantile function, tan(pi (u - 1/2)).
    centred = lax.sub(u, dtype.type(0.5))
    return lax.tan(lax.mul(dtype.type(np.pi), centred))


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Cauchy numbers: density 1 / (π (1 + x²)).

    >>> from gpuarray import random
    >>> random.cauchy(random.key(0), (2,)).shape
    (2,)
    """
    return _plain("cauchy", _cauchy, key, shape, dtype, out_sharding)


@jit
def _length(x):
    last = len(shape_of(x)) - 1
    return lax.sqrt(lax.reduce_sum(lax.mul(x, x), (last,)))


_length.__name__ = "norm"


@sampler
def _maxwell(key, *, shape, dtype):
    # The length of a normal vector in space.
    return _length(_normal(key, shape=(*shape, 3), dtype=dtype))


def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Maxwell numbers: lengths of three-dimensional standard normal vectors.

    >>> from gpuarray import random
    >>> bool((random.maxwell(random.key(0), (10,)) > 0).all())
    True
    """
    return _plain("maxwell", _maxwell, key, shape, dtype, out_sharding)


# ---- with parameters ----


@sampler
def _double_sided_maxwell(key, loc, scale, *, shape, dtype):
    own = lax.broadcast_shapes(shape_of(loc), shape_of(scale))
    # JAX's shape, with the parameters' axes appended again.
    shape = (shape or own) + own
    first, second = keys_from(key)
    length = _maxwell(first, shape=shape, dtype=dtype)
    sign = _rademacher(second, shape=shape, dtype=dtype)
    scaled = lax.mul(lax.mul(sign, length), ranked(as_(scale, dtype), len(shape)))
    return lax.add(scaled, ranked(as_(loc, dtype), len(shape)))


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Maxwell numbers with a random sign, times `scale`, plus `loc`.

    The result has the axes of `shape` and then those the parameters broadcast to.

    >>> from gpuarray import random
    >>> random.double_sided_maxwell(random.key(0), 0., 1., (2,)).shape
    (2,)
    """
    return _with("double_sided_maxwell", _double_sided_maxwell, key, (loc, scale), shape, dtype)


@sampler
def _pareto(key, b, *, shape, dtype):
    b = as_(b, dtype)
    shape = sample_shape("pareto", shape, shape_of(b))
    # u ** (-1 / b), with u = exp(-e).
    e = _exponential(key, shape=shape, dtype=dtype)
    return lax.exp(lax.div(e, ranked(b, len(shape))))


@check_ranks("b", "shape")
def pareto(
    key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Pareto numbers: density b / x^(b + 1) for x ≥ 1.

    >>> from gpuarray import random
    >>> bool((random.pareto(random.key(0), 2., (10,)) >= 1).all())
    True
    """
    return _with("pareto", _pareto, key, (b,), shape, dtype, out_sharding, safe=True)


@sampler
def _rayleigh(key, scale, *, shape, dtype):
    shape = sample_shape("rayleigh", shape, shape_of(scale))
    u = _uniform(key, 0.0, 1.0, shape=shape, dtype=dtype)
    scale = spread(as_(scale, dtype), shape)
    # scale sqrt(-2 log u).
    root = lax.sqrt(lax.mul(lax.log(u), dtype.type(-2)))
    return lax.mul(scale, root)


def rayleigh(
    key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Rayleigh numbers: lengths of two-dimensional normal vectors of standard deviation `scale`.

    >>> from gpuarray import random
    >>> bool((random.rayleigh(random.key(0), 2., (10,)) > 0).all())
    True
    """
    return _with("rayleigh", _rayleigh, key, (scale,), shape, dtype, out_sharding, safe=True)


@sampler
def _weibull_min(key, scale, concentration, *, shape, dtype):
    u = _uniform(key, 0, 1, shape=shape, dtype=dtype)
    e = lax.neg(lax.log1p(lax.neg(u)))
    # scale (-log(1 - u)) ** (1 / concentration).
    power = as_(1 / concentration, dtype)
    return _combined(lax.mul, _combined(lax.pow, e, power), as_(scale, dtype))


def _combined(function, x: Any, y: Any) -> Any:
    """A binary function of arrays that broadcast."""
    shape = lax.broadcast_shapes(shape_of(x), shape_of(y))
    return function(ranked(x, len(shape)), ranked(y, len(shape)))


@check_ranks("scale", "concentration", "shape")
def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Weibull numbers: scale * e^(1 / concentration) for exponential e; parameters broadcast.

    >>> from gpuarray import random
    >>> bool((random.weibull_min(random.key(0), 1., 2., (10,)) >= 0).all())
    True
    """
    parameters = (scale, concentration)
    return _with("weibull_min", _weibull_min, key, parameters, shape, dtype)


_ONE = np.float32(1.0)


@check_ranks("sigma", "shape")
def lognormal(
    key: Any,
    sigma: Any = _ONE,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """e^(sigma x) for standard normal x.

    >>> from gpuarray import random
    >>> bool((random.lognormal(random.key(0), shape=(10,)) > 0).all())
    True
    """
    key, _ = one_key("lognormal", key)
    dtype = float_dtype("lognormal", dtype, complex_too=True)
    shape = sample_shape("lognormal", shape, shape_of(sigma))
    check_safe("lognormal", dtype, sigma)
    x = _normal(key, shape=shape, dtype=dtype)
    out = lax.exp(lax.mul(x, ranked(as_(sigma, dtype), len(shape))))
    return placed("lognormal", out, out_sharding)


def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Triangular numbers between `left` and `right`, most likely at `mode`.

    >>> from gpuarray import random
    >>> x = random.triangular(random.key(0), 0., 1., 3., (100,))
    >>> bool(((x >= 0) & (x <= 3)).all())
    True
    """
    key, _ = one_key("triangular", key)
    dtype = float_dtype("triangular", dtype)
    shape = sample_shape("triangular", shape, *(shape_of(v) for v in (left, mode, right)))
    check_safe("triangular", dtype, left, mode, right)
    low, high, peak = (spread(as_(v, dtype), shape) for v in (left, right, mode))
    # The quantile function, in two pieces that meet at the peak. The peak's relative position is
    # the probability of the rising piece.
    share = lax.div(lax.sub(peak, low), lax.sub(high, low))
    u = _uniform(key, 0.0, 1.0, shape=shape, dtype=dtype)
    rising = lax.mul(lax.mul(u, lax.sub(high, low)), lax.sub(peak, low))
    below = lax.add(low, lax.sqrt(rising))
    falling = lax.mul(lax.mul(lax.sub(dtype.type(1), u), lax.sub(high, low)), lax.sub(high, peak))
    above = lax.sub(high, lax.sqrt(falling))
    return placed("triangular", lax.select_n(lax.lt(u, share), above, below), out_sharding)


@sampler
def _wald(key, mean, *, shape, dtype):
    shape = sample_shape("wald", shape, shape_of(mean))
    first, second = keys_from(key)
    mean = spread(as_(mean, dtype), shape)
    v = _normal(first, shape=shape, dtype=dtype)
    z = _uniform(second, 0.0, 1.0, shape=shape, dtype=dtype)
    # The smaller root of a quadratic equation, or its reciprocal, each with its share.
    # Michael, Schucany and Haas, "Generating random variates using transformations with multiple
    # roots" (1976).
    y = lax.integer_pow(v, 2)
    y2, m2 = lax.integer_pow(y, 2), lax.integer_pow(mean, 2)
    number = dtype.type
    linear = lax.mul(lax.mul(number(4), mean), y)
    root = lax.sqrt(lax.add(linear, lax.mul(m2, y2)))
    middle = lax.add(mean, lax.div(lax.mul(m2, y), number(2)))
    x = lax.sub(middle, lax.mul(lax.div(mean, number(2)), root))
    smaller = lax.le(z, lax.div(mean, lax.add(mean, x)))
    return lax.select_n(smaller, lax.div(m2, x), x)


def wald(
    key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Wald (inverse Gaussian) numbers of the given mean and scale 1.

    >>> from gpuarray import random
    >>> bool((random.wald(random.key(0), 2., (10,)) > 0).all())
    True
    """
    return _with("wald", _wald, key, (mean,), shape, dtype, out_sharding, safe=True)
