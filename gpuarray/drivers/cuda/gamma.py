"""Gamma-distributed numbers on a GPU: the rejection of ops/gamma.py as one loop for each element.

Floor 4. In: keys and shape parameters. Out: the same keys, draws and decisions as the NumPy rule's,
in terms of pointwise operations: a kernel in which every thread goes on until its own sample is
accepted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.drivers.cuda.loops import repeat
from gpuarray.drivers.cuda.products import cast, shaped
from gpuarray.ops.define import do
from gpuarray.ops.linear import full_like
from gpuarray.util import prod


# ---- what every element does with its key ----
def _new_key_text(avals, *, number: int, count: int, partitionable: bool) -> str:
    name = avals[0].dtype.impl.name
    if name == "unsafe_rbg":
        return f"ga_unsafe_split({{0}}, {number}ull)"
    if partitionable:
        return f"ga_split({{0}}, {number}ull)"
    return f"ga_old_split<{count}u>({{0}}, {number}ull)"


#: Key `number` of the `count` that every key is split into.
new_key_p = Primitive(
    "new_key",
    Kind.POINTWISE,
    aval=lambda keys, **_: keys,
    cuda=_new_key_text,
    weight=80.0,
    register=False,
)


def _bits_text(avals, *, width: int, partitionable: bool) -> str:
    if avals[0].dtype.impl.name != "threefry2x32":
        return "ga_philox_bits<{T}>({0}, 0ull)"
    if partitionable:
        return "ga_random_bits<{T}>({0}, 0ull)"
    return "ga_random_old_bits<{T}, 1>({0}, 0u)"


#: One number of so many random bits from every key.
key_bits_p = Primitive(
    "key_bits",
    Kind.POINTWISE,
    aval=lambda keys, *, width, **_: ShapedArray(keys.shape, np.dtype(f"uint{width}")),
    cuda=_bits_text,
    weight=80.0,
    register=False,
)


class _Draws:
    """Uniform and normal numbers, one for each of many keys."""

    def __init__(self, dtype: Any, partitionable: bool):
        self.dtype, self.partitionable = dtype, partitionable
        info = dtypes.finfo(dtype)
        self.fraction, self.unsigned = info.nmant, np.dtype(f"uint{info.bits}")
        self.drawn = 8 if self.fraction < 8 else info.bits

    def split(self, keys: Any, count: int) -> list[Any]:
        params = {"count": count, "partitionable": self.partitionable}
        return [new_key_p.bind(keys, number=i, **params) for i in range(count)]

    def uniform(self, keys: Any, low: Any = None) -> Any:
        """Bits become the fraction of a number in [1, 2); from 0, or from `low`, to 1."""
        bits = key_bits_p.bind(keys, width=self.drawn, partitionable=self.partitionable)
        bits = cast(bits, self.unsigned)
        one = np.ones((), self.dtype)
        shifted = do.shift_right_logical(bits, full_like(bits, self.drawn - self.fraction))
        filled = do.or_(shifted, full_like(bits, int(one.view(self.unsigned))))
        unit = do.sub(do.bitcast_convert_type(filled, new_dtype=self.dtype), one[()])
        if low is None:
            return unit
        return do.max(do.add(do.mul(unit, one[()] - low), low), low)

    def normal(self, keys: Any) -> Any:
        low = np.nextafter(self.dtype.type(-1), self.dtype.type(0))
        return do.mul(do.erf_inv(self.uniform(keys, low)), self.dtype.type(np.sqrt(2)))


def random_gamma_parts(keys, alpha, *, log_space: bool, partitionable: bool = False):
    """`random_gamma`: an element of its own key each."""
    key_aval, aval = aval_of(keys), aval_of(alpha)
    if aval.size == 0:
        return alpha
    inner = aval.shape[key_aval.ndim :] or (1,)
    keys = do.random_split(keys, shape=inner, partitionable=partitionable)
    count = prod(aval.shape)
    draws = _Draws(aval.dtype, partitionable)
    out = _samples(draws, shaped(keys, (count,)), shaped(alpha, (count,)), log_space)
    return shaped(out, aval.shape)


def _samples(draws: _Draws, keys: Any, alpha: Any, log_space: bool) -> Any:
    """One sample for every key; see ops/gamma.py for why."""
    number = draws.dtype.type
    one = number(1)
    bad = do.not_(do.ge(alpha, number(0)))  # nan, and what no gamma distribution has
    alpha = do.select_n(bad, alpha, full_like(alpha, 1))
    large = do.ge(alpha, one)
    third = one / number(3)
    d = do.sub(do.select_n(large, do.add(alpha, one), alpha), third)
    c = do.div(full_like(d, third), do.sqrt(d))

    def normals(keys, c):
        """For every key the first normal x of its sequence with 1 + c x > 0, and that number."""

        def again(c, keys, x, v):
            keys, fresh = draws.split(keys, 2)
            x = draws.normal(fresh)
            return keys, x, do.add(do.mul(x, c), one)

        start = keys, full_like(c, 0), full_like(c, -1)
        return repeat(lambda keys, x, v: do.not_(do.gt(v, number(0))), again, start, consts=[c])[1:]

    def attempt(c, d, keys, accepted, going):
        keys, x_keys, u_keys = draws.split(keys, 3)
        x, v = normals(x_keys, c)
        square, cube = do.mul(x, x), do.mul(do.mul(v, v), v)
        u = draws.uniform(u_keys)
        outside = do.ge(u, do.sub(one, do.mul(do.mul(square, square), number(0.0331))))
        bound = do.add(
            do.mul(square, number(0.5)), do.mul(d, do.add(do.sub(one, cube), do.log(cube)))
        )
        return keys, cube, do.and_(outside, do.ge(do.log(u), bound))

    keys, boost_keys = draws.split(keys, 2)
    start = keys, full_like(alpha, 1), full_like(bad, True)
    accepted = repeat(lambda keys, accepted, going: going, attempt, start, consts=[c, d])[1]
    unit = draws.uniform(boost_keys)
    if log_space:
        exponential = do.neg(do.log1p(do.neg(unit)))
        none = do.or_(large, do.eq(exponential, number(0)))
        boost = do.select_n(none, do.div(do.neg(exponential), alpha), full_like(alpha, 0))
        out = do.add(do.add(do.log(d), do.log(accepted)), boost)
    else:
        power = do.pow(do.sub(one, unit), do.div(full_like(alpha, 1), alpha))
        out = do.mul(do.mul(d, accepted), do.select_n(large, power, full_like(alpha, 1)))
    return do.select_n(bad, out, full_like(out, np.nan))
