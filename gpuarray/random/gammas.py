"""Distributions built on gamma numbers: beta, Dirichlet, chi-square, F, Student's t, the ball.

Floor 6. In: a key, parameters that broadcast, a shape, a dtype. Out: arrays of samples.
"""

from __future__ import annotations

import functools
from typing import Any

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.lax.args import canonicalize_shape, shape_of
from gpuarray.lax.ranks import check_ranks
from gpuarray.primitives.random.gamma import random_gamma_p
from gpuarray.primitives.random.ops import random_split_p, stream_params
from gpuarray.random.arguments import float_dtype, one_key, placed, ranked, sample_shape, spread
from gpuarray.random.basic import _normal, _rademacher, as_, keys_from, sampler
from gpuarray.random.continuous import _combined, _exponential, _with


@functools.partial(jit, static_argnames=("shape", "dtype", "log_space"))
def _gamma(key, a, *, shape, dtype, log_space):
    shape = sample_shape("gamma", shape, shape_of(a))
    a = spread(as_(a, dtype), shape)
    return random_gamma_p.bind(key, a, log_space=log_space, **stream_params())


def gamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Gamma numbers of shape parameter a: density x^(a - 1) e^-x / Γ(a).

    For small a many samples are 0 in floating point: `loggamma` gives their logarithms.

    >>> from gpuarray import random
    >>> bool((random.gamma(random.key(0), 3., (10,)) > 0).all())
    True
    """
    traced = functools.partial(_gamma, log_space=False)
    return _with("gamma", traced, key, (a,), shape, dtype, out_sharding)


def loggamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Logarithms of gamma numbers, exact where the numbers themselves would be 0.

    >>> from gpuarray import random
    >>> bool((random.loggamma(random.key(0), 1e-3, (10,)) < 0).any())
    True
    """
    traced = functools.partial(_gamma, log_space=True)
    return _with("loggamma", traced, key, (a,), shape, dtype, out_sharding)


@sampler
def _beta(key, a, b, *, shape, dtype):
    shape = sample_shape("beta", shape, shape_of(a), shape_of(b))
    a, b = as_(a, dtype), as_(b, dtype)
    # Logarithms, since small shapes give numbers that underflow.
    first, second = keys_from(key)
    a, b = spread(a, shape), spread(b, shape)
    x = _gamma(first, a, shape=shape, dtype=dtype, log_space=True)
    y = _gamma(second, b, shape=shape, dtype=dtype, log_space=True)
    # x / (x + y) from logarithms, the larger one factored out.
    most = lax.max(x, y)
    x, y = lax.exp(lax.sub(x, most)), lax.exp(lax.sub(y, most))
    return lax.div(x, lax.add(x, y))


def beta(
    key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Beta numbers in [0, 1]: density proportional to x^(a - 1) (1 - x)^(b - 1).

    >>> from gpuarray import random
    >>> x = random.beta(random.key(0), 2., 3., (10,))
    >>> bool(((x >= 0) & (x <= 1)).all())
    True
    """
    return _with("beta", _beta, key, (a, b), shape, dtype, out_sharding, safe=True)


@sampler
def _dirichlet(key, alpha, *, shape, dtype):
    own = shape_of(alpha)
    # The result has the parameters' last axis, and the given shape in front of it.
    shape = sample_shape("dirichlet", shape, own[:-1])
    alpha = as_(alpha, dtype)
    x = _gamma(key, alpha, shape=(*shape, own[-1]), dtype=dtype, log_space=True)
    last = len(shape_of(x)) - 1

    def kept(reduced):
        return lax.broadcast_in_dim(
            reduced, (*shape_of(reduced), 1), tuple(range(len(shape_of(reduced))))
        )

    # A softmax of the logarithms.
    # The maximum cancels in the quotient: it needs no derivative.
    most = lax.max(dtype.type("-inf"), lax.reduce_max(x, (last,)))
    weights = lax.exp(lax.sub(x, lax.stop_gradient(kept(most))))
    return lax.div(weights, kept(lax.reduce_sum(weights, (last,))))


def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Points of the simplex, Dirichlet distributed: [..., n] -> [*shape, n], each summing to 1.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> random.dirichlet(random.key(0), gnp.ones(4), (3,)).shape
    (3, 4)
    """
    key, _ = one_key("dirichlet", key)
    dtype = float_dtype("dirichlet", dtype)
    rank = len(shape_of(alpha))
    if rank < 1:
        raise ValueError(f"dirichlet requires alpha.ndim >= 1, got alpha.ndim == {rank}")
    shape = None if shape is None else canonicalize_shape(shape)
    out = _dirichlet(key, alpha, shape=shape, dtype=dtype)
    return placed("dirichlet", out, out_sharding)


@sampler
def _chisquare(key, df, *, shape, dtype):
    df = as_(df, dtype)
    shape = sample_shape("chisquare", shape, shape_of(df))
    # Chi-square with df degrees is twice a gamma of df / 2.
    half = lax.div(df, dtype.type(2))
    # Through the logarithm, which keeps small variates from becoming 0.
    x = _gamma(key, half, shape=shape, dtype=dtype, log_space=True)
    return lax.mul(lax.exp(x), dtype.type(2))


def chisquare(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Chi-square numbers: sums of df squared standard normal numbers.

    >>> from gpuarray import random
    >>> bool((random.chisquare(random.key(0), 2., (10,)) > 0).all())
    True
    """
    return _with("chisquare", _chisquare, key, (df,), shape, dtype, out_sharding, safe=True)


@sampler
def _f(key, dfnum, dfden, *, shape, dtype):
    shape = sample_shape("f", shape, shape_of(dfden), shape_of(dfnum))
    dfden, dfnum = as_(dfden, dtype), as_(dfnum, dtype)
    first, second = keys_from(key)
    # The ratio of two chi-squares, each over its degrees. The first key is the denominator's, as in
    # JAX.
    above = _chisquare(second, dfnum, shape=shape, dtype=dtype)
    below = _chisquare(first, dfden, shape=shape, dtype=dtype)
    above = lax.div(above, ranked(dfnum, len(shape)))
    return lax.div(above, lax.div(below, ranked(dfden, len(shape))))


def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """F-distributed numbers: ratios of two chi-square numbers over their degrees of freedom.

    >>> from gpuarray import random
    >>> bool((random.f(random.key(0), 2., 3., (10,)) > 0).all())
    True
    """
    return _with("f", _f, key, (dfnum, dfden), shape, dtype, out_sharding, safe=True)


@sampler
def _t(key, df, *, shape, dtype):
    shape = sample_shape("t", shape, shape_of(df))
    df = as_(df, dtype)
    first, second = keys_from(key)
    # A normal over the root of a chi-square per degree.
    n = _normal(first, shape=shape, dtype=dtype)
    # A gamma variate of df / 2 is half a chi-square; the factor cancels in the quotient.
    half = lax.div(df, dtype.type(2))
    g = _gamma(second, half, shape=shape, dtype=dtype, log_space=False)
    return lax.mul(n, lax.sqrt(lax.div(ranked(half, len(shape)), g)))


@check_ranks("df", "shape")
def t(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Student's t numbers with df degrees of freedom.

    >>> from gpuarray import random
    >>> random.t(random.key(0), 3., (2,)).shape
    (2,)
    """
    return _with("t", _t, key, (df,), shape, dtype, out_sharding, safe=True)


@sampler
def _generalized_normal(key, p, *, shape, dtype):
    keys = random_split_p.bind(key, shape=(2,), **stream_params())
    g = _gamma(keys[0], 1 / p, shape=shape, dtype=dtype, log_space=False)
    # |x| ** p is gamma distributed with shape 1 / p.
    sign = _rademacher(keys[1], shape=shape, dtype=dtype)
    return lax.mul(sign, _combined(lax.pow, g, as_(1 / p, dtype)))


def generalized_normal(
    key: Any, p: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers of density proportional to exp(-|x|^p): p = 2 is normal, p = 1 Laplace.

    >>> from gpuarray import random
    >>> random.generalized_normal(random.key(0), 3., (2,)).shape
    (2,)
    """
    key, _ = one_key("generalized_normal", key)
    dtype = float_dtype("gamma", dtype)
    out = _generalized_normal(key, p, shape=canonicalize_shape(shape), dtype=dtype)
    return placed("generalized_normal", out, out_sharding)


@functools.partial(jit, static_argnames=("d", "shape", "dtype"))
def _ball(key, p, *, d, shape, dtype):
    first, second = keys_from(key)
    g = _generalized_normal(first, p, shape=(*shape, d), dtype=dtype)
    # Barthe et al., "A probabilistic approach to the geometry of the l_p^n-ball" (2005): the
    # exponential fills the inside.
    e = _exponential(second, shape=shape, dtype=dtype)
    size = lax.abs(g)
    # An integer exponent stays one: powers of it are products.
    power = as_(p, dtype) if dtypes.kind_of(dtypes.dtype(p)) == "f" else p
    total = lax.add(lax.reduce_sum(_combined(lax.pow, size, power), (len(shape),)), e)
    length = _combined(lax.pow, total, as_(1 / p, dtype))
    return lax.div(g, lax.broadcast_in_dim(length, (*shape, 1), tuple(range(len(shape)))))


def ball(
    key: Any,
    d: int,
    p: float = 2,
    shape: Any = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Points drawn uniformly from the unit ball of the L^p norm in d dimensions: [*shape, d].

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> x = random.ball(random.key(0), 3, shape=(10,))
    >>> bool((gnp.sum(x * x, axis=1) <= 1).all())
    True
    """
    key, _ = one_key("ball", key)
    dtype = float_dtype("gamma", dtype)
    d = util.index(d)
    if d < 0:
        raise TypeError(f"ball needs a non-negative number of dimensions, got shape ({d},).")
    out = _ball(key, p, d=d, shape=canonicalize_shape(shape), dtype=dtype)
    return placed("ball", out, out_sharding)
