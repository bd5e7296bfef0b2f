"""Integers of 8 bits: what is made of them is what is made of the same values as int32.

In: functions whose results are floats, or elements of a long array. Out: the same from narrow and
from wide integers. A difference, a square, a length or a position may not fit 8 bits.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn, random
from gpuarray.scipy import special, stats

I8 = np.array([-128, 127, -100, 100, 3, 0, 126, -1], np.int8)
U8 = np.array([0, 255, 200, 3, 254, 100, 1, 128], np.uint8)
LONG = gnp.arange(300.0)
KEY = random.key(0)

#: Of all integers.
FLOATS = {
    "softmax": nn.softmax,
    "softmax of some": lambda x: nn.softmax(x, where=np.asarray(x) > 0),
    "log_softmax": nn.log_softmax,
    "logsumexp": nn.logsumexp,
    "standardize": nn.standardize,
    "soft_sign": nn.soft_sign,
    "log_sigmoid": nn.log_sigmoid,
    "gelu": nn.gelu,
    "hard_swish": nn.hard_swish,
    "one_hot": lambda x: nn.one_hot(x, 300),
    "median": gnp.median,
    "quantile": lambda x: gnp.quantile(x, 0.3),
    "mean, var": lambda x: (gnp.mean(x), gnp.var(x)),
    "cov": lambda x: gnp.cov(x.reshape(2, 4)),
    "gradient": gnp.gradient,
    "trapezoid": gnp.trapezoid,
    "isclose": lambda x: gnp.isclose(x, x[::-1], atol=3),
    "interp": lambda x: gnp.interp(x, np.sort(x), x),
    "histogram": lambda x: gnp.histogram(x, bins=5),
    "linspace": lambda x: gnp.linspace(x[0], x[1], 5),
    "logaddexp": lambda x: gnp.logaddexp(x, x[::-1]),
    "divide": lambda x: gnp.true_divide(x, x[3]),
    "norm": gnp.linalg.norm,
    "norm.logpdf": lambda x: stats.norm.logpdf(x, x[::-1], 100),
    "uniform.pdf": lambda x: stats.uniform.pdf(x, x[0], x[3]),
    "betaln": lambda x: special.betaln(abs(x // 2) + 1, abs(x // 2) + 1),
    "uniform": lambda x: random.uniform(KEY, (3,), minval=x[0], maxval=x[1]),
    "triangular": lambda x: random.triangular(KEY, x[0], x[5], x[1], (3,)),
}
#: Of positions.
ELEMENTS = {
    "x[i]": lambda i: LONG[i],
    "take": lambda i: gnp.take(LONG, i),
    "take, wrap": lambda i: gnp.take(LONG, i, mode="wrap"),
    "take, clip": lambda i: gnp.take(LONG, i, mode="clip"),
    "take_along_axis": lambda i: gnp.take_along_axis(LONG, i, 0),
    "put": lambda i: gnp.put(LONG, i, 5.0, inplace=False),
    "put, wrap": lambda i: gnp.put(LONG, i, 5.0, mode="wrap", inplace=False),
    "choose, wrap": lambda i: gnp.choose(i, list(range(200)), mode="wrap"),
    "choose, clip": lambda i: gnp.choose(i, list(range(200)), mode="clip"),
    "unravel_index": lambda i: gnp.unravel_index(i, (30, 10)),
    "ravel_multi_index, wrap": lambda i: gnp.ravel_multi_index(
        (i, i), (150, 300), mode="wrap", dtype="int32"
    ),
    "index_take": lambda i: lax.index_take(LONG, (i,), (0,)),
    "dynamic_slice": lambda i: lax.dynamic_slice(LONG, (i[7],), (3,)),
    "dynamic_slice_in_dim": lambda i: lax.dynamic_slice_in_dim(LONG, i[2], 3),
    "dynamic_update_slice": lambda i: lax.dynamic_update_slice(LONG, gnp.ones(3), (i[7],)),
    "dynamic_slice, mapped": ga.vmap(lambda i: lax.dynamic_slice(LONG, (i,), (3,))),
    "roll": lambda i: gnp.roll(LONG, i[2]),
    "roll by several": lambda i: gnp.roll(LONG, i[1:4:2], (0, 0)),
    "segment_sum": lambda i: ga.ops.segment_sum(gnp.ones(8), i, 300),
    "bincount": lambda i: gnp.bincount(abs(i // 2), length=200),
    "searchsorted": lambda i: gnp.searchsorted(LONG, i),
    "switch": lambda i: lax.switch(i[2], [lambda: 1, lambda: 2, lambda: 3]),
    "fori_loop": lambda i: lax.fori_loop(i[0] // 2, i[1] // 2, lambda _, c: c + 1, 0),
}


@pytest.mark.parametrize("name", [*FLOATS, *ELEMENTS])
@pytest.mark.parametrize("narrow", [I8, U8], ids=["int8", "uint8"])
def test_as_of_wide_integers(narrow, name):
    function = FLOATS.get(name) or ELEMENTS[name]
    found, wanted = (ga.tree.leaves(function(gnp.asarray(narrow, t))) for t in (None, "int32"))
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(f), np.asarray(w), rtol=1e-5, atol=1e-6)
        assert f.dtype == w.dtype or "index" in name


def test_offsets_of_diagonals():
    square = np.arange(300 * 300, dtype=np.float32).reshape(300, 300)
    for offset in (np.int8(-100), np.uint8(200)):
        wanted = np.diagonal(square, int(offset))
        np.testing.assert_array_equal(np.asarray(gnp.diagonal(square, offset)), wanted)
