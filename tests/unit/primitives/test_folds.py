"""Reductions, running folds, sorting and windows: values from definitions, and errors."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax
from gpuarray.core.fold import extreme
from gpuarray.core.primitive import registry
from gpuarray.lax.shapes import as_array
from gpuarray.primitives.elementwise.arithmetic import ge_p, le_p
from gpuarray.primitives.order.sort import approx_length
from tests.samples import dtype_named, samples, values

NAN, INF = np.nan, np.inf
X = np.arange(12, dtype=np.float32).reshape(3, 4)
I = X.astype(np.int32)
V = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.float32)
BF16 = dtype_named("bfloat16")


def arr(*xs, dtype=np.float32):
    return np.array(xs, dtype)


#: A call, and its result.
VALUES = {
    "sum": (lambda: lax.reduce_sum(X, (0,)), X.sum(0)),
    "sum of int8 wraps": (lambda: lax.reduce_sum(arr(100, 100, 100, dtype=np.int8), (0,)), 44),
    "sum of float16 in float32": (lambda: lax.reduce_sum(np.ones(4097, np.float16), (0,)), 4096),
    "sum of float16 returns": (
        lambda: lax.reduce_sum(arr(6e4, 6e4, -6e4, dtype=np.float16), (0,)),
        np.float16(6e4),
    ),
    "sum of bfloat16 in float32": (lambda: lax.reduce_sum(np.ones(4097, BF16), (0,)), 4096),
    "sum of float16 columns": (
        lambda: lax.reduce_sum(np.ones((4097, 1), np.float16), (0,)),
        [4096],
    ),
    "sum of nothing": (lambda: lax.reduce_sum(X[:0], (0,)), np.zeros(4)),
    "prod": (lambda: lax.reduce_prod(X[:, 1:], (1,)), X[:, 1:].prod(1)),
    "max": (lambda: lax.reduce_max(I, (0, 1)), 11),
    "max meets nan": (lambda: lax.reduce_max(arr(1, NAN, 3), (0,)), NAN),
    "min meets nan": (lambda: lax.reduce_min(arr(NAN, 1, 3), (0,)), NAN),
    "max of nothing": (lambda: lax.reduce_max(X[:0], (0,)), np.full(4, -INF)),
    "min of nothing": (lambda: lax.reduce_min(I[:0], (0,)), np.full(4, 2**31 - 1)),
    "max of no float8": (
        lambda: lax.reduce_max(np.zeros(0, dtype_named("float8_e4m3fn")), (0,)),
        -448,
    ),
    "max of bools": (lambda: lax.reduce_max(X > 10, (1,)), [False, False, True]),
    "and": (lambda: lax.reduce_and(arr(6, 3, dtype=np.int32), (0,)), 2),
    "and of nothing": (lambda: lax.reduce_and(I[:0, 0], (0,)), -1),
    "or": (lambda: lax.reduce_or(X > 10, (0,)), [False, False, False, True]),
    "xor": (lambda: lax.reduce_xor(arr(6, 3, 1, dtype=np.uint8), (0,)), 4),
    "argmax": (lambda: lax.argmax(arr(1, 5, 5), 0, np.int32), 1),
    "argmax finds nan": (lambda: lax.argmax(arr(1, NAN, 3, NAN), 0, np.int32), 1),
    "argmin finds nan": (lambda: lax.argmin(arr(1, NAN, 3, NAN, dtype=BF16), 0, np.int32), 1),
    "argmax of zeros": (lambda: lax.argmax(arr(-0.0, 0.0), 0, np.int32), 0),
    "argmin of columns": (lambda: lax.argmin(-X, 0, np.int8), [2, 2, 2, 2]),
    "cumsum": (lambda: lax.cumsum(X, 1), X.cumsum(1)),
    "cumsum reversed": (lambda: lax.cumsum(X, 0, reverse=True), X[::-1].cumsum(0)[::-1]),
    "cumsum of float16": (
        lambda: lax.cumsum(np.ones(4097, np.float16))[-1],
        4096,
    ),
    "cumprod": (lambda: lax.cumprod(arr(1, 2, 3)), [1, 2, 6]),
    "cummax meets nan": (lambda: lax.cummax(arr(1, NAN, 3)), [1, NAN, NAN]),
    "cummin reversed": (lambda: lax.cummin(arr(1, 3, 2), reverse=True), [1, 2, 2]),
    "cumlogsumexp": (
        lambda: lax.cumlogsumexp(arr(-INF, -INF, 0, INF)),
        [-INF, -INF, 0, INF],
    ),
    "cumlogsumexp far out": (lambda: lax.cumlogsumexp(arr(1000, 1000)), [1000, 1000 + math.log(2)]),
    "cumlogsumexp complex": (
        lambda: lax.cumlogsumexp(arr(1 + 5j, 1 + 5j, dtype=np.complex64)),
        [1 + 5j - 2j * math.pi, 1 + math.log(2) + 5j - 2j * math.pi],
    ),
    "sort": (lambda: lax.sort(arr(NAN, 1, -INF, INF, 0)), [-INF, 0, 1, INF, NAN]),
    "sort columns": (lambda: lax.sort(-X, 0), -X[::-1]),
    "sort complex": (
        lambda: lax.sort(arr(2, 1 + 1j, 1 - 1j, complex(1, NAN), dtype=np.complex64))[:3],
        [1 - 1j, 1 + 1j, complex(1, NAN)],
    ),
    "sort uint8": (lambda: lax.sort(arr(200, 3, 100, dtype=np.uint8)), [3, 100, 200]),
    "sort by one key": (
        lambda: lax.sort((arr(1, 0, 1, 0), arr(4, 3, 2, 1)))[1],
        [3, 1, 4, 2],
    ),
    "sort by two keys": (
        lambda: lax.sort((arr(1, 0, 1, 0), arr(4, 3, 2, 1)), num_keys=2)[1],
        [1, 3, 2, 4],
    ),
    "sort_key_val": (lambda: lax.sort_key_val(arr(3, 1, 2), I[0, :3])[1], [1, 2, 0]),
    "top_k": (lambda: lax.top_k(V, 3)[0], [9, 6, 5]),
    "top_k places": (lambda: lax.top_k(arr(1, 3, 3, 2), 3)[1], [1, 2, 3]),
    "top_k puts nan first": (lambda: lax.top_k(arr(1, NAN, INF), 2)[0], [NAN, INF]),
    "top_k along columns": (lambda: lax.top_k(X, 1, axis=0)[0], X[2:]),
    "top_k of uint8": (lambda: lax.top_k(arr(3, 200, 5, dtype=np.uint8), 2)[0], [200, 5]),
    "top_k of lowest int": (
        lambda: lax.top_k(arr(-(2**31), 0, dtype=np.int32), 2)[0],
        [0, -(2**31)],
    ),
    "approx_max_k": (lambda: lax.approx_max_k(V, 2)[1], [5, 7]),
    "approx_min_k": (lambda: lax.approx_min_k(V, 3)[1], [1, 3, 6]),
    "approx_min_k in rows": (
        lambda: lax.approx_min_k(-X, 2, reduction_dimension=1)[1],
        [[3, 2]] * 3,
    ),
    "reduce by add": (lambda: lax.reduce(X, 0.0, lax.add, (0,)), X.sum(0)),
    "reduce by add from 5": (lambda: lax.reduce(X, 5.0, lax.add, (0, 1)), 71),
    "reduce nothing": (lambda: lax.reduce(X[:0], 5.0, lax.add, (0,)), [5] * 4),
    "reduce in order": (
        lambda: lax.reduce(X, 1.0, lambda a, b: lax.add(a, lax.mul(b, 2.0)), (0,)),
        [25, 31, 37, 43],
    ),
    "reduce to a constant": (lambda: lax.reduce(X, 0.0, lambda a, b: 4.0, (0,)), [4] * 4),
    "reduce many to a constant": (
        lambda: lax.reduce(np.ones((5001, 2), np.float32), 0.0, lambda a, b: np.float32(4), (0,)),
        [4] * 2,
    ),
    "windows to a constant": (
        lambda: lax.reduce_window(X, 0.0, lambda a, b: 4.0, (1, 2), (1, 2), "VALID"),
        np.full((3, 2), 4.0),
    ),
    "reduce many": (lambda: lax.reduce(np.ones(5001, np.float32), 1.0, lax.add, (0,)), 5002),
    "reduce pairs": (
        lambda: lax.reduce(
            (V, V), (0.0, 1.0), lambda a, b: (lax.add(a[0], b[0]), lax.mul(a[1], b[1])), (0,)
        )[1],
        V.prod(),
    ),
    "window sum": (lambda: lax.reduce_window(V, 0.0, lax.add, (2,), (2,)), [4, 5, 14, 8]),
    "window max SAME": (
        lambda: lax.reduce_window(V, -INF, lax.max, (3,), (1,), "SAME"),
        [3, 4, 4, 5, 9, 9, 9, 6],
    ),
    "window min dilated": (
        lambda: lax.reduce_window(V, INF, lax.min, (2,), (1,), "VALID", None, (3,)),
        [1, 1, 4, 1, 5],
    ),
    "window of holes": (
        lambda: lax.reduce_window(arr(1, 2), 0.0, lax.add, (2,), (1,), "VALID", (3,)),
        [1, 0, 2],
    ),
    "window larger than all": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (5, 5)),
        np.zeros((0, 0)),
    ),
    "window product": (lambda: lax.reduce_window(V, 1.0, lax.mul, (3,), (3,)), [12, 45]),
    "window sum of float16": (
        lambda: lax.reduce_window(np.ones(4097, np.float16), np.float16(0), lax.add, (4097,)),
        [4096],
    ),
    "window or": (
        lambda: lax.reduce_window(V > 5, False, lax.bitwise_or, (4,), (4,)),
        [False, True],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_value(name):
    call, expected = VALUES[name]
    got = np.asarray(call())
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), expected.astype(wide), rtol=1e-6)


ERRORS = {
    "sum of bools": (
        lambda: lax.reduce_sum(X > 1, (0,)),
        TypeError,
        "reduce_sum does not accept dtype bool",
    ),
    "sum beyond": (lambda: lax.reduce_sum(X, (2,)), ValueError, "axis 2"),
    "sum twice": (lambda: lax.reduce_sum(X, (0, 0)), ValueError, "duplicate value in 'axes'"),
    "sum of a list": (lambda: lax.reduce_sum([1.0], (0,)), TypeError, "argument to reduce_sum"),
    "and of floats": (
        lambda: lax.reduce_and(X, (0,)),
        TypeError,
        "logical reduction requires operand dtype bool or int, got float32",
    ),
    "argmax of nothing": (
        lambda: lax.argmax(X[:0], 0, np.int32),
        ValueError,
        "require non-empty reduced dimension",
    ),
    "argmax beyond": (
        lambda: lax.argmax(X, 2, np.int32),
        ValueError,
        r"Invalid axis 2 for operand shape \(3, 4\)",
    ),
    "argmax float index": (
        lambda: lax.argmax(X, 0, np.float32),
        TypeError,
        "index_dtype must be an integer type",
    ),
    "cumsum beyond": (lambda: lax.cumsum(X, 2), ValueError, "axis 2 is out of bounds"),
    "cumsum negative": (lambda: lax.cumsum(X, -1), ValueError, "do not allow negative axes"),
    "cumsum of bools": (lambda: lax.cumsum(X > 1), TypeError, "cumsum does not accept dtype bool"),
    "cumlogsumexp of ints": (
        lambda: lax.cumlogsumexp(I),
        TypeError,
        "cumlogsumexp does not accept",
    ),
    "sort nothing": (lambda: lax.sort(()), TypeError, "Sort requires at least one operand"),
    "sort shapes": (lambda: lax.sort((X, V)), TypeError, "must have equal shapes"),
    "sort keys": (lambda: lax.sort((X, I), num_keys=3), ValueError, "num_keys=3 must be between"),
    "sort beyond": (lambda: lax.sort(X, 2), ValueError, "axis 2 is out of bounds"),
    "top_k negative": (lambda: lax.top_k(X, -1), ValueError, "must be nonnegative"),
    "top_k many": (lambda: lax.top_k(X, 5), ValueError, "no larger than size along axis; got k=5"),
    "top_k complex": (lambda: lax.top_k(X * 1j, 1), ValueError, "not compatible with complex"),
    "approx ints": (lambda: lax.approx_max_k(I, 1), ValueError, "must be a floating type"),
    "approx none": (lambda: lax.approx_max_k(X, 0), ValueError, "k must be positive"),
    "approx many": (lambda: lax.approx_max_k(X, 5), ValueError, "smaller than the size"),
    "approx recall": (
        lambda: lax.approx_max_k(X, 2, recall_target=2.0),
        ValueError,
        "recall_target out of range",
    ),
    "reduce vector": (
        lambda: lax.reduce(X, V, lax.add, (0,)),
        ValueError,
        "non-scalar initial value",
    ),
    "reduce structure": (
        lambda: lax.reduce(X, (0.0, 0.0), lax.add, (0,)),
        ValueError,
        "same tree structure as init_values",
    ),
    "reduce dtype": (
        lambda: lax.reduce(I, 0.5, lambda a, b: a, (0,)),
        TypeError,
        "operand dtypes should match",
    ),
    "reduce result": (
        lambda: lax.reduce(X, 0.5, lambda a, b: lax.gt(a, b), (0,)),
        ValueError,
        "must return one scalar for each operand",
    ),
    "window rank": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2,)),
        TypeError,
        "wrong number of window_dimensions",
    ),
    "window strides": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1,)),
        TypeError,
        "inconsistent window_strides",
    ),
    "window zero stride": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (0, 1)),
        TypeError,
        "window_strides must have every element be strictly positive",
    ),
    "window zero dilation": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), None, "VALID", (0, 1)),
        TypeError,
        "All dilations must be positive",
    ),
    "window padding": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), None, "FOO"),
        RuntimeError,
        "Unrecognized padding type",
    ),
    "window initial": (
        lambda: lax.reduce_window(X, V, lax.add, (2, 2)),
        TypeError,
        "expected init_values to be scalars",
    ),
    "window of bools": (
        lambda: lax.reduce_window(X > 1, False, lax.add, (2, 2)),
        TypeError,
        "reduce_window_sum must have a number dtype, got bool",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    call, kind, words = ERRORS[name]
    with pytest.raises(kind, match=words):
        call()


def test_index_dtypes_and_weak_types():
    weak = lax.full((3,), 1.0)
    assert lax.reduce_sum(weak, (0,)).weak_type and lax.cumsum(weak).weak_type
    assert not lax.argmax(weak, 0, np.int32).weak_type
    assert lax.argmax(weak, 0, np.int8).dtype == np.int8
    assert lax.sort((weak, as_array(V[:3])))[0].weak_type
    assert lax.top_k(V, 1)[1].dtype == np.int32


def test_known_folds_become_their_own_primitives():
    def names(computation, start, x=X):
        graph = ga.make_jaxpr(lambda v: lax.reduce(v, start, computation, (0,)))(x)
        return [e.primitive.name for e in graph.eqns]

    assert names(lax.add, 0.0) == ["reduce_sum"]
    assert names(lax.add, 1.0) == ["reduce"]
    assert names(lax.mul, 1) == ["reduce_prod"]
    assert names(lax.max, -INF) == ["reduce_max"]
    assert names(lax.min, 2**31 - 1, I) == ["reduce_min"]
    assert names(lax.bitwise_and, -1, I) == ["reduce_and"]
    assert names(lax.bitwise_xor, False, X > 1) == ["reduce_xor"]
    assert names(lambda a, b: lax.add(a, b), 0.0) == ["reduce"]


# ---- sorting, against Python's own ----


def total_order(x):
    """The place of a float among all of its dtype: -nan, -inf, ..., -0, 0, ..., inf, nan."""
    (bits,) = np.array([x], np.float32).view(np.int32)
    return int(bits) if bits >= 0 else int(bits ^ 0x7FFFFFFF)


SPECIAL = np.array([NAN, -NAN, 0.0, -0.0, INF, -INF, 1, -1, 1, 1e-40, -1e-40, 2], np.float32)


@pytest.mark.parametrize("n", [1, 12, 400, 6000])
@pytest.mark.parametrize("seed", [0, 1])
def test_sort_is_stable(n, seed):
    x = np.random.default_rng(seed).choice(SPECIAL, n)
    order = sorted(range(n), key=lambda i: (math.isnan(x[i]), x[i] if x[i] == x[i] else 0))
    one = np.asarray(lax.sort(x))
    np.testing.assert_array_equal(np.isnan(one), np.isnan(x[order]))
    same = ~np.isnan(one)
    assert one[same].tobytes() == x[order][same].tobytes()  # -0.0 and 0.0 stay in order
    _, places = lax.sort((x, np.arange(n, dtype=np.int32)))
    np.testing.assert_array_equal(places, order)


@pytest.mark.parametrize("n", [1, 12, 400, 6000])
@pytest.mark.parametrize("k", [0, 1, 5, 12])
def test_top_k_is_by_total_order(n, k):
    k = min(k, n)
    x = np.random.default_rng(n).choice(SPECIAL, n)
    order = sorted(range(n), key=lambda i: -total_order(x[i]))[:k]
    got, places = lax.top_k(x, k)
    np.testing.assert_array_equal(places, order)
    assert np.asarray(got).tobytes() == x[order].tobytes()


@pytest.mark.parametrize(
    ("rank", "n", "k", "recall", "expected"),
    [
        (1, 1000, 10, 0.95, 1000),
        (1, 2000, 1, 0.5, 1024),
        (1, 4000, 100, 0.99, 4000),
        (1, 5000, 10, 0.95, 2048),
        (1, 10000, 100, 0.95, 3072),
        (1, 100000, 100, 0.95, 4096),
        (1, 100000, 100, 0.99, 13312),
        (2, 5000, 1, 0.95, 128),
        (2, 5000, 10, 0.95, 384),
        (2, 5000, 100, 0.95, 2560),
        (2, 5000, 100, 1.0, 5000),
    ],
)
def test_approx_length(rank, n, k, recall, expected):
    assert approx_length(rank, n, k, recall, -1, False) == expected
    assert approx_length(rank, n, k, recall, -1, True) == k


# ---- windows, element by element ----


def windows(x, p, fill):
    """Every window of `x` as a list of (element, its index in x or None where it is padding)."""
    rank = x.ndim
    base = p.get("base_dilation", (1,) * rank)
    inner = p.get("window_dilation", (1,) * rank)
    lows = [low for low, _ in p["padding"]]
    spans = [
        (n - 1) * d + 1 + sum(pad) if n else sum(pad)
        for n, d, pad in zip(x.shape, base, p["padding"], strict=True)
    ]
    counts = [
        max((span - (w - 1) * d - 1) // s + 1, 0) if span >= (w - 1) * d + 1 else 0
        for span, w, d, s in zip(
            spans, p["window_dimensions"], inner, p["window_strides"], strict=True
        )
    ]
    out = np.empty(counts, object)
    for at in itertools.product(*map(range, counts)):
        members = []
        for k in itertools.product(*map(range, p["window_dimensions"])):
            where = []
            for d in range(rank):
                place = at[d] * p["window_strides"][d] + k[d] * inner[d] - lows[d]
                real = place % base[d] == 0 and 0 <= place // base[d] < x.shape[d]
                where.append(place // base[d] if real else None)
            if None in where:
                members.append((fill, None))
            else:
                members.append((x[tuple(where)], tuple(where)))
        out[at] = members
    return out


FOLDS = {
    "reduce_window_sum": (np.add, 0),
    "reduce_window_max": (np.maximum, None),
    "reduce_window_min": (np.minimum, None),
}


@pytest.mark.parametrize("sample", samples(lambda p: p.name in FOLDS), ids=str)
def test_windowed_folds_by_definition(sample):
    (x,) = values(sample)
    ufunc, fill = FOLDS[sample.primitive.name]
    if fill is None:
        fill = extreme(x.dtype, ufunc is np.minimum)
    got = np.asarray(sample.primitive.numpy_function(sample.avals, sample.params)(x))
    members = windows(x, sample.params, x.dtype.type(fill))
    wide = np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if x.dtype.kind in "iu":
        wide = x.dtype
    expected = np.empty(members.shape, wide)
    with np.errstate(all="ignore"):
        for at in np.ndindex(members.shape):
            expected[at] = functools.reduce(ufunc, [wide.type(e) for e, _ in members[at]])
    narrow = x.dtype.itemsize < 4 and x.dtype.kind not in "iu"
    assert got.shape == expected.shape and got.dtype == x.dtype
    np.testing.assert_allclose(got.astype(wide), expected, rtol=1e-2 if narrow else 1e-5)


def chosen(members, select):
    """Of a window, the member that wins when each is compared with the best before it."""
    best = members[0]
    for member in members[1:]:
        keep = best[0] >= member[0] if select is ge_p else best[0] <= member[0]
        best = best if keep else member
    return best


@pytest.mark.parametrize("sample", samples(lambda p: p.name.startswith("select_and_")), ids=str)
def test_selection_by_definition(sample):
    given, x = values(sample)
    p = sample.params
    select = p["select_prim"]
    assert select in (ge_p, le_p)
    members = windows(x, p, extreme(x.dtype, select is le_p))
    got = np.asarray(sample.primitive.numpy_function(sample.avals, p)(given, x))
    if sample.primitive.name == "select_and_gather_add":
        expected = np.zeros(members.shape, x.dtype)
        for at in np.ndindex(members.shape):
            _, where = chosen(members[at], select)
            expected[at] = 0 if where is None else given[where]
    else:
        expected = np.zeros(x.shape, x.dtype)
        for at in np.ndindex(members.shape):
            _, where = chosen(members[at], select)
            if where is not None:
                expected[where] += given[at]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_ties_go_to_the_first_and_padding_can_win():
    scatter_add = registry["select_and_scatter_add"]
    params = {
        "select_prim": ge_p,
        "window_dimensions": (3,),
        "window_strides": (1,),
        "padding": ((1, 1),),
    }
    source = as_array(np.arange(1, 9, dtype=np.float32))
    flat = scatter_add.bind(source, as_array(V * 0), **params)
    np.testing.assert_array_equal(flat, [3, 3, 4, 5, 6, 7, 8, 0])
    lowest = scatter_add.bind(source, as_array(V * 0 - INF), **params)
    np.testing.assert_array_equal(lowest, [2, 3, 4, 5, 6, 7, 8, 0])


@pytest.mark.parametrize("transform", [ga.jit, ga.vmap, ga.jacobian])
def test_functions_that_fold_use_no_traced_value_from_outside(transform):
    """JAX refuses them as well."""
    for fold in (
        lambda k: lax.reduce(X, 0.0, lambda a, b: a + b * k.sum(), (0,)),
        lambda k: lax.reduce_window(X, 0.0, lambda a, b: a + b * k.sum(), (1, 2), (1, 2)),
        lambda k: ga.numpy.asarray(X).at[0].apply(lambda a: a + k.sum()),
    ):
        with pytest.raises(NotImplementedError, match="value from outside that is traced"):
            transform(fold)(V)
