"""Gamma-distributed numbers from keys, by rejection sampling with a key for every element.

Floor 2. In: keys, and shape parameters alpha. Out: the `random_gamma` primitive. A sample depends
on its key alone, so the loop below runs over all elements that are not accepted yet, in any order.

Method: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.factors import leading
from gpuarray.core.linear import Zero, is_zero
from gpuarray.core.primitive import NOT_LINEAR, Kind, Primitive
from gpuarray.primitives.define import FLOATING, check_dtype, do
from gpuarray.primitives.elementwise.error_functions import erf_inv_p
from gpuarray.primitives.linalg.matrices import stack_in_front
from gpuarray.primitives.linear import full_like
from gpuarray.primitives.random.elements import GAMMA
from gpuarray.primitives.random.ops import check_keys, hide_stream, key_words


def _aval(keys: ShapedArray, alpha: ShapedArray, *, log_space: bool, **_: Any) -> ShapedArray:
    check_keys("random_gamma", keys)
    check_dtype("random_gamma", alpha.dtype, FLOATING, 1)
    if alpha.shape[: keys.ndim] != keys.shape:
        raise TypeError(
            "random_gamma needs alpha to have the leading axes of its keys, got shapes "
            f"{keys.shape} and {alpha.shape}."
        )
    return ShapedArray(alpha.shape, alpha.dtype)


class _Draws:
    """Uniform and normal numbers, one for each of many keys."""

    def __init__(self, impl, dtype, partitionable: bool):
        self.impl, self.dtype, self.partitionable = impl, dtype, partitionable
        info = dtypes.finfo(dtype)
        # Bits of the mantissa, the unsigned integer of the same width, and how many bits are drawn.
        self.fraction, self.unsigned = info.nmant, np.dtype(f"uint{info.bits}")
        self.drawn = 8 if self.fraction < 8 else info.bits

    def split(self, keys: np.ndarray, n: int) -> list[np.ndarray]:
        """Return n new keys for every key, as n arrays of keys."""
        # Keys of one element each, split in one call.
        new = self.impl.split(keys, (n,), self.partitionable)
        return [new[:, i] for i in range(n)]

    def uniform(self, keys: np.ndarray, low: Any = 0, high: Any = 1) -> np.ndarray:
        """Return uniform numbers: random bits are the mantissa of a number in [1, 2), less 1."""
        number = self.dtype.type
        bits = self.impl.bits(keys, self.drawn, (), self.partitionable).astype(self.unsigned)
        one = np.ones((), self.dtype)
        shift = self.unsigned.type(self.drawn - self.fraction)
        unit = (bits >> shift | one.view(self.unsigned)).view(self.dtype) - one
        low, high = number(low), number(high)
        # Rounding may fall below `low`.
        return np.maximum(low, unit * (high - low) + low)

    def normal(self, keys: np.ndarray) -> np.ndarray:
        # -1 itself is excluded: its inverse error function is infinite.
        low = np.nextafter(self.dtype.type(-1), self.dtype.type(0))
        inverse = erf_inv_p.numpy_function([ShapedArray(keys.shape[:1], self.dtype)], {})
        return self.dtype.type(np.sqrt(2)) * inverse(self.uniform(keys, low))


def _normals(draws: _Draws, keys: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for every key, the first normal x of its sequence with 1 + c x > 0, and 1 + c x."""
    x, v = np.zeros_like(c), np.full_like(c, -1)
    todo = np.arange(c.size)
    while todo.size:
        keys[todo], fresh = draws.split(keys[todo], 2)
        x[todo] = draws.normal(fresh)
        v[todo] = c.dtype.type(1) + x[todo] * c[todo]
        todo = todo[~(v[todo] > 0)]
    return x, v


def _samples(impl, keys: np.ndarray, alpha: np.ndarray, log_space: bool, partitionable: bool):
    """Return one sample for every key: uint32[n, words], float[n] -> float[n]."""
    # The names are those of the paper: d = alpha - 1/3, c = 1 / (3 sqrt(alpha - 1/3)).
    draws = _Draws(impl, alpha.dtype, partitionable)
    number = alpha.dtype.type
    one = number(1)
    # nan, and negative alpha, which no gamma distribution has.
    bad = ~(alpha >= 0)
    alpha = np.where(bad, one, alpha)
    # Below 1, sample at alpha + 1 and multiply by u ** (1 / alpha) ("boost").
    large = alpha >= 1
    raised = np.where(large, alpha, alpha + one)
    third = one / number(3)
    d = raised - third
    c = third / np.sqrt(d)

    # Each loop redraws only the elements that were rejected.
    keys, boost_keys = draws.split(keys, 2)
    accepted = np.ones_like(alpha)
    todo = np.arange(alpha.size)
    # A copy: keys of rejected elements are replaced during the loop.
    keys = np.array(keys)
    while todo.size:
        keys[todo], x_keys, u_keys = draws.split(keys[todo], 3)
        x, v = _normals(draws, np.array(x_keys), c[todo])
        # The paper's squeeze test first, the exact one for elements that it does not accept.
        square, cube = x * x, v * v * v
        u = draws.uniform(u_keys)
        here = d[todo]
        again = (u >= one - number(0.0331) * (square * square)) & (
            np.log(u) >= square * number(0.5) + here * (one - cube + np.log(cube))
        )
        # Accepted elements keep this value; those drawn again overwrite it.
        accepted[todo] = cube
        todo = todo[again]
    # Logarithms do not underflow where the boost does.
    if log_space:
        exponential = -np.log1p(-draws.uniform(boost_keys))
        boost = np.where(large | (exponential == 0), number(0), -exponential / alpha)
        out = np.log(d) + np.log(accepted) + boost
    else:
        unit = one - draws.uniform(boost_keys)
        out = d * accepted * np.where(large, one, np.power(unit, one / alpha))
    return np.where(bad, number(np.nan), out)


def _numpy(avals, *, log_space: bool, partitionable: bool = False):
    keys_aval, alpha_aval = avals
    dtype = keys_aval.dtype
    impl = dtype.impl
    # Axes of alpha after those of the keys: elements that share a key.
    inner = alpha_aval.shape[keys_aval.ndim :]

    def sample(keys, alpha):
        words = key_words(keys, dtype)
        # A key for each element, split from the key of its leading axes.
        flat = impl.split(words, inner or (1,), partitionable).reshape(-1, *impl.key_shape)
        out = _samples(impl, flat, np.asarray(alpha).reshape(-1), log_space, partitionable)
        return out.reshape(alpha_aval.shape)

    return sample


def _jvp(primals, tangents, *, log_space: bool, **params):
    """Implicit reparametrisation: the sample's rank among all samples stays the same."""
    (keys, alpha), (_, t) = primals, tangents
    out = do.random_gamma(keys, alpha, log_space=log_space, **params)
    if is_zero(t):
        return out, Zero(aval_of(out))
    sample = out
    # The slope is needed at the sample itself, which may have underflowed to 0.
    if log_space:
        sample = do.exp(out)
        smallest = full_like(sample, float(dtypes.finfo(aval_of(alpha).dtype).tiny))
        sample = do.select_n(do.eq(sample, full_like(sample, 0)), sample, smallest)
    slope = do.random_gamma_grad(alpha, sample)
    return out, do.mul(t, do.div(slope, sample) if log_space else slope)


#: Samples of gamma(alpha), or their logarithms.
random_gamma_p = Primitive(
    "random_gamma",
    Kind.LIBRARY,
    element=GAMMA,
    aval=_aval,
    numpy_pick=_numpy,
    jvp=_jvp,
    transpose=NOT_LINEAR,
    batch=stack_in_front("random_gamma"),
    factors=leading(0),
    show=hide_stream,
    weight=500.0,
)
