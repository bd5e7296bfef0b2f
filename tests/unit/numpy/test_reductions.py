"""Reductions, statistics and running sums of the numpy namespace, with NumPy as the oracle.

In: arrays of many shapes (without elements, without axes), axes, masks. Out: values, dtypes and
errors.
"""

import functools
import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
I = RNG.integers(-5, 6, (2, 3, 4)).astype(np.int32)
C = (X + 1j * X[::-1]).astype(np.complex64)
N = np.where(X > 0.8, np.nan, X).astype(np.float32)
MASK = X > -0.5
AXES = [None, 0, -1, (0, 2), (1, 0, 2), ()]


def same(got, want, rtol=1e-5, atol=1e-6):
    want = np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype.kind == want.dtype.kind
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", "sum prod max min mean var std any all ptp".split())
def test_axes(name, axis, keepdims):
    reference = getattr(np, name)
    if name == "ptp":  # NumPy's takes no empty tuple
        reference = lambda x, **options: x.max(**options) - x.min(**options)
    for x in (X, I, C) if name in ("sum", "prod", "mean", "var", "std") else (X, I):
        want = reference(x, axis=axis, keepdims=keepdims)
        same(getattr(gnp, name)(gnp.asarray(x), axis=axis, keepdims=keepdims), want)
        same(getattr(gnp, name)(gnp.asarray(x), axis=axis, keepdims=keepdims), want)  # kept plan
        if name != "ptp":
            same(getattr(gnp.asarray(x), name)(axis=axis, keepdims=keepdims), want)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 0), (1, 1)], ids=str)
def test_small_and_empty(shape):
    x = np.ones(shape, np.float32)
    for name in ("sum", "prod", "any", "all", "count_nonzero"):
        same(getattr(gnp, name)(gnp.asarray(x)), getattr(np, name)(x))
    if x.size:
        for name in ("max", "min", "mean", "var", "median"):
            same(getattr(gnp, name)(gnp.asarray(x)), getattr(np, name)(x))
    else:
        assert np.isnan(gnp.mean(gnp.asarray(x)))
        for function in (gnp.max, gnp.min):
            with pytest.raises(ValueError, match="zero-size array to reduction operation"):
                function(gnp.asarray(x))
        assert gnp.max(gnp.asarray(x), initial=3) == 3


@pytest.mark.parametrize(
    "given, dtype, result",
    [
        ("int8", None, "int32"),
        ("uint8", None, "uint32"),
        ("bool", None, "int32"),
        ("int32", None, "int32"),
        ("float16", None, "float16"),
        ("bfloat16", None, "bfloat16"),
        ("float32", "float16", "float16"),
        ("int32", float, "float32"),
        ("float32", int, "int32"),
    ],
)
def test_dtypes_of_sums(given, dtype, result):
    x = gnp.ones(5, given)
    for function in (gnp.sum, gnp.prod):
        assert function(x, dtype=dtype).dtype == np.dtype(
            gnp.dtype(result) if result != "bfloat16" else gnp.bfloat16
        )
    assert gnp.sum(gnp.ones(2, "int8"), promote_integers=False).dtype == np.int8
    assert gnp.sum(gnp.asarray(3)).weak_type is False
    assert gnp.max(gnp.asarray(3.0)).weak_type is False


def test_half_precision_accumulates_in_float32():
    x = gnp.full((8192,), 16, "float16")
    assert gnp.sum(x).tolist() == np.inf and gnp.mean(x) == 16  # 131072 itself is out of reach
    assert gnp.sum(gnp.ones(4096, "bfloat16")) == 4096
    assert gnp.mean(gnp.array([60000.0, 60000.0], "float16")) == 60000
    assert gnp.var(gnp.array([250.0, -250.0] * 9, "float16")) == 62500  # the sum would overflow


@pytest.mark.parametrize("name", "sum prod mean var std any all".split())
def test_where(name):
    for axis in (None, 1, (0, 2)):
        want = getattr(np, name)(X, axis=axis, where=MASK)
        same(getattr(gnp, name)(gnp.asarray(X), axis=axis, where=gnp.asarray(MASK)), want)
    row = MASK[0, 0]  # broadcasts
    want = getattr(np, name)(X, axis=0, where=row)
    same(getattr(gnp, name)(gnp.asarray(X), axis=0, where=gnp.asarray(row)), want)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "int4"])
def test_extremes_of_types_without_infinities(dtype):
    x = gnp.asarray(np.float32([[1, -2, 3]])).astype(dtype)
    start = gnp.asarray(1).astype(dtype)
    assert gnp.min(x, axis=1, where=x > 1, initial=start).astype(float).tolist() == [1]
    assert gnp.max(x, axis=1, where=x < -3, initial=start).astype(float).tolist() == [1]
    if dtype != "int4":
        with_nan = gnp.asarray(np.float32([np.nan, -2, 3])).astype(dtype)
        assert float(gnp.nanmin(with_nan)) == -2 and float(gnp.nanmax(with_nan)) == 3
        assert int(gnp.nanargmin(with_nan)) == 1 and int(gnp.nanargmax(with_nan)) == 2


def test_initial_and_where_of_extremes():
    x, mask = gnp.asarray(X), gnp.asarray(MASK)
    same(gnp.max(x, axis=1, where=mask, initial=-1), X.max(axis=1, where=MASK, initial=-1))
    same(gnp.min(x, initial=-9.5), X.min(initial=-9.5))
    same(gnp.sum(x, initial=2.5), X.sum(initial=2.5))
    same(gnp.prod(gnp.asarray(I), initial=3, axis=0), I.prod(initial=3, axis=0))
    assert gnp.max(gnp.asarray(I), initial=-np.inf) == I.max()
    with pytest.raises(ValueError, match="does not have an identity"):
        gnp.max(x, where=mask)
    with pytest.raises(ValueError, match="initial value must be a scalar"):
        gnp.sum(x, initial=gnp.ones(2))
    with pytest.raises(ValueError, match="where must be None or a boolean array"):
        gnp.sum(x, where=x)


def test_nan_goes_through_extremes():
    for position in (0, 5, 11):
        x = np.arange(12, dtype=np.float32)
        x[position] = np.nan
        assert np.isnan(gnp.max(gnp.asarray(x))) and np.isnan(gnp.min(gnp.asarray(x)))
        assert gnp.argmax(gnp.asarray(x)) == position == gnp.argmin(gnp.asarray(x))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes(name):
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            want = getattr(np, name)(I, axis=axis, keepdims=keepdims)
            same(getattr(gnp, name)(gnp.asarray(I), axis=axis, keepdims=keepdims), want)
    with pytest.raises(ValueError, match=f"attempt to get {name} of an empty sequence"):
        getattr(gnp, name)(gnp.zeros((0, 3)), axis=0)


NANS = "nansum nanprod nanmax nanmin nanmean nanvar nanstd nanmedian".split()


@pytest.mark.parametrize("name", NANS)
def test_without_nans(name):
    for axis in (None, 0, (1, 2)):
        for keepdims in (False, True):
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                want = getattr(np, name)(N, axis=axis, keepdims=keepdims)
            same(getattr(gnp, name)(gnp.asarray(N), axis=axis, keepdims=keepdims), want)
    same(getattr(gnp, name)(gnp.asarray(I)), getattr(np, name)(I))
    nothing = getattr(gnp, name)(gnp.full((2, 2), np.nan), axis=0)
    assert (
        nothing.tolist() == {"nansum": [0, 0], "nanprod": [1, 1]}.get(name)
        or np.isnan(nothing).all()
    )


def test_positions_and_running_sums_without_nans():
    for name in ("nanargmax", "nanargmin"):
        same(getattr(gnp, name)(gnp.asarray(N)), getattr(np, name)(N))
        assert getattr(gnp, name)(gnp.full(3, np.nan)) == -1
    for name in ("nancumsum", "nancumprod"):
        for axis in (None, 1):
            same(getattr(gnp, name)(gnp.asarray(N), axis=axis), getattr(np, name)(N, axis=axis))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running(name):
    for axis in (None, 0, 1, -1):
        for x in (X, I, C):
            same(getattr(gnp, name)(gnp.asarray(x), axis=axis), getattr(np, name)(x, axis=axis))
    assert getattr(gnp, name)(gnp.ones(3, "uint8")).dtype == np.uint8
    assert getattr(gnp, name)(gnp.ones(3, bool)).dtype == np.int32
    assert getattr(gnp, name)(gnp.ones(3), dtype=int).dtype == np.int32


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_cumulative(name):
    for include in (False, True):
        want = getattr(np, name)(I, axis=1, include_initial=include)
        same(getattr(gnp, name)(gnp.asarray(I), axis=1, include_initial=include), want)
    assert getattr(gnp, name)(gnp.ones(3, "uint8")).dtype == np.uint32
    with pytest.raises(ValueError, match="axis was not set"):
        getattr(gnp, name)(gnp.ones((2, 2)))
    with pytest.raises(ValueError, match="must be non-scalar"):
        getattr(gnp, name)(1)


def test_average():
    w = np.abs(X)
    same(gnp.average(gnp.asarray(X)), np.average(X))
    for axis in (None, 1, (0, 2)):
        same(gnp.average(gnp.asarray(X), axis, gnp.asarray(w)), np.average(X, axis, w))
    got = gnp.average(gnp.asarray(X), 1, gnp.asarray(w[0, :, 0]), returned=True)
    for ours, theirs in zip(got, np.average(X, 1, w[0, :, 0], returned=True), strict=True):
        same(ours, theirs)
    transposed = w[0].T  # shape of the axes in the order given
    same(
        gnp.average(gnp.asarray(X), (2, 1), gnp.asarray(transposed)),
        np.average(X, (2, 1), transposed),
    )
    with pytest.raises(ValueError, match="Axis must be specified"):
        gnp.average(gnp.asarray(X), weights=gnp.ones(4))
    with pytest.raises(ValueError, match="Shape of weights must be consistent"):
        gnp.average(gnp.asarray(X), axis=0, weights=gnp.ones(4))


def test_variance_with_its_options():
    x = gnp.asarray(X)
    same(gnp.var(x, ddof=1), X.var(ddof=1))
    same(gnp.std(x, axis=1, correction=1), X.std(axis=1, ddof=1))
    known = X.mean(axis=1, keepdims=True)
    same(gnp.var(x, axis=1, mean=gnp.asarray(known)), X.var(axis=1))
    assert np.isnan(gnp.var(gnp.ones(2), ddof=2))
    with pytest.raises(ValueError, match="can't be provided simultaneously"):
        gnp.var(x, ddof=1, correction=1)
    with pytest.raises(ValueError, match="does not yet support real dtype"):
        gnp.var(gnp.asarray(C), dtype="float32")


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint"])
def test_quantiles(method):
    q = np.array([0.0, 0.1, 0.5, 0.77, 1.0], np.float32)
    for axis in (None, 1, (0, 2)):
        for keepdims in (False, True):
            options = {"axis": axis, "method": method, "keepdims": keepdims}
            want = np.quantile(X.astype(float), q, **options).astype(np.float32)
            same(gnp.quantile(gnp.asarray(X), gnp.asarray(q), **options), want)
            want = np.percentile(X.astype(float), 30, **options).astype(np.float32)
            same(gnp.percentile(gnp.asarray(X), 30, **options), want)
    with warnings.catch_warnings(action="ignore"):
        want = np.nanquantile(N.astype(float), q, axis=1, method=method).astype(np.float32)
    same(gnp.nanquantile(gnp.asarray(N), gnp.asarray(q), axis=1, method=method), want)


def test_more_of_quantiles():
    x = gnp.array([3.0, 1.0, 2.0, 4.0])
    assert gnp.quantile(x, 0.5, method="inverted_cdf") == 2
    weights = gnp.array([0.1, 0.1, 0.1, 5.0])
    assert gnp.quantile(x, 0.5, method="inverted_cdf", weights=weights) == 4
    assert gnp.quantile(x, 0.4, method="nearest") == 2
    assert np.isnan(gnp.quantile(gnp.array([1.0, np.nan]), 0.5))
    assert np.isnan(gnp.quantile(x, np.nan)) and gnp.quantile(x, 1.5) == 4
    assert gnp.quantile(gnp.array([1.0, np.inf, np.inf]), 0.5) == np.inf
    assert gnp.median(gnp.arange(4)) == 1.5 and gnp.median(gnp.array([2, 9, 4])) == 4
    many = gnp.arange(5001).astype("bfloat16")  # more elements than bfloat16 counts
    assert gnp.median(many) == np.asarray(many)[2500]
    for bad, message in (
        ({"method": "hazen"}, "method can only be"),
        ({"overwrite_input": True}, "does not support overwrite_input"),
        ({"q": gnp.ones((1, 1))}, "q must be have rank <= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            gnp.quantile(x, **({"q": 0.5} | bad))
    with pytest.raises(NotImplementedError, match="doesn't support weights"):
        gnp.quantile(x, 0.5, weights=x)


@pytest.mark.parametrize(
    "function, error, message",
    [
        (
            lambda x: gnp.sum(x, axis=3),
            ValueError,
            "axis 3 is out of bounds for array of dimension 3",
        ),
        (lambda x: gnp.sum(x, axis=(0, 0)), ValueError, "duplicate value in 'axis'"),
        (lambda x: gnp.sum(x, out=x), NotImplementedError, "'out' argument to jnp.sum"),
        (lambda x: gnp.mean(x, out=x), NotImplementedError, "'out' argument to jnp.mean"),
        (lambda x: gnp.cumsum(x, axis=5), ValueError, "axis 5 is out of bounds"),
        (lambda x: gnp.argmax(x, axis=(0, 1)), TypeError, "must be an int"),
        (lambda x: gnp.sum(x, dtype="no"), TypeError, "no"),
    ],
)
def test_errors(function, error, message):
    with pytest.raises(error, match=message):
        function(gnp.asarray(X))


def test_axes_given_in_other_ways():
    x = gnp.asarray(X)
    for axis in ([0, 1], np.int64(1), gnp.array(1)):
        plain = tuple(axis) if isinstance(axis, list) else int(axis)
        same(gnp.sum(x, axis=axis), X.sum(axis=plain))
        same(gnp.std(x, axis=axis), X.std(axis=plain))


def test_traced_text():
    x = gnp.ones((2, 3))
    assert str(ga.make_jaxpr(lambda x: x.sum(axis=1, keepdims=True))(x)) == (
        "{ lambda ; a:f32[2,3]. let\n"
        "    b:f32[2] = reduce_sum[axes=(1,) out_sharding=None] a\n"
        "    c:f32[2,1] = broadcast_in_dim[broadcast_dimensions=(0,)] b\n"
        "  in (c,) }"
    )
    assert "div b 6.0:f32[]" in str(ga.make_jaxpr(gnp.mean)(x))


def test_sums_asked_for_in_booleans():
    x = gnp.array([0, 256, 0])
    assert gnp.sum(x, dtype=bool).dtype == bool
    assert (bool(gnp.sum(x, dtype=bool)), bool(gnp.prod(x, dtype=bool))) == (True, False)
    assert not gnp.sum(x, dtype=bool, where=x == 0)
    assert gnp.sum(x, dtype=bool, where=x == 0, initial=5)
    assert gnp.cumsum(x, dtype=bool).tolist() == [False, True, True]
    assert gnp.cumprod(x[1:], dtype=bool).tolist() == [True, False]
    assert gnp.linalg.trace(gnp.eye(2), dtype=bool).dtype == bool
    for mean in (gnp.mean, gnp.nanmean, gnp.var):
        with pytest.raises(TypeError, match="no division of booleans"):
            mean(x, dtype=bool)


def test_booleans_have_no_differences():
    with pytest.raises(TypeError):
        gnp.ediff1d(gnp.array([True, False]))


def test_covariances_are_no_integers():
    for function in (gnp.cov, gnp.corrcoef):
        with pytest.raises(ValueError, match="float or complex"):
            function(gnp.ones((2, 3)), dtype="int32")


@pytest.mark.parametrize("axis", ["i", ("i",), ("i", 0), (-1, "i")])
@pytest.mark.parametrize(
    "name", ["sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "ptp", "nanmax"]
)
def test_along_a_named_axis(name, axis):
    """An axis of a vmap by its name is axis 0 of the whole."""
    numbers = tuple(0 if a == "i" else a % 2 + 1 for a in (axis if axis != "i" else (axis,)))
    whole = (np.asarray(X) > 0 if name in ("any", "all") else X) * 1
    want = getattr(gnp, name)(gnp.asarray(whole), axis=numbers)
    for options in ({}, {"keepdims": True}):
        reduce = functools.partial(getattr(gnp, name), axis=axis, **options)
        found = ga.vmap(lambda x, f=reduce: f(x), axis_name="i", out_axes=None)(whole)
        same(found.reshape(want.shape), want)


def test_along_a_named_axis_with_masks_and_derivatives():
    along = lambda f: ga.vmap(f, axis_name="i")
    some = along(lambda x: gnp.mean(x, axis="i", where=x > -9))(X)
    same(some[1], np.mean(X, 0))
    same(along(lambda x: gnp.sum(x, axis="i", where=x > 0))(X)[0], np.sum(X, 0, where=X > 0))
    first = along(lambda x: gnp.max(x, axis="i", initial=0.5))(X)
    same(first[0], np.max(X, 0, initial=0.5))
    same(along(lambda x: ga.nn.softmax(x, axis="i"))(X), ga.nn.softmax(X, axis=0))
    same(along(lambda x: ga.nn.logsumexp(x, axis=("i", 0)))(X)[0], ga.nn.logsumexp(X, axis=(0, 1)))
    slope = along(ga.grad(lambda x: gnp.sum(gnp.sum(x**2, axis="i"))))(X)
    same(slope, 4 * X)
    same(ga.jit(along(lambda x: x.sum("i")))(X)[0], X.sum(0))
    with pytest.raises(NameError, match="unbound axis name: j"):
        along(lambda x: gnp.sum(x, axis="j"))(X)


# ---- running sums of many elements ----


@pytest.mark.on_cpu("it adds in double precision; kernels add in blocks")
@pytest.mark.parametrize("shape, axis", [((300_000,), 0), ((2, 5000, 3), 1), ((3000, 700), 0)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_running_sums_are_rounded_once_an_element(shape, axis, reverse, dtype):
    """One by one in single precision, 300,000 tenths are 0.3 % apart from 30,000."""
    x = np.random.default_rng(0).uniform(0.05, 0.15, shape).astype(dtype)
    flip = (slice(None),) * axis + (slice(None, None, -1),)
    for name, ufunc in (("cumsum", np.add), ("cumlogsumexp", np.logaddexp)):
        if name == "cumlogsumexp" and dtype == "complex64":
            continue
        given = x[flip] if reverse else x
        wanted = ufunc.accumulate(given.astype(np.result_type(dtype, "d")), axis)
        found = np.asarray(getattr(ga.lax, name)(x, axis, reverse))
        np.testing.assert_allclose(found, wanted[flip] if reverse else wanted, rtol=2e-7)


@pytest.mark.parametrize("function", [gnp.cumsum, gnp.cumprod, gnp.nancumsum, gnp.nancumprod])
def test_running_results_of_a_scalar_have_no_axis(function):
    assert function(gnp.float32(2)).tolist() == [2.0]
    with pytest.raises(ValueError, match="out of bounds"):
        function(gnp.float32(2), axis=0)
