"""Gather and scatter against their definition, written as loops over single elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.core.avals import ShapedArray
from gpuarray.lax.shapes import as_array
from gpuarray.primitives.indexing.ops import default_fill, gather_p, scatter_max_p, update_graph
from tests.samples import Sample, dtype_named, samples, values

G, S, Mode = lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers, lax.GatherScatterMode


def places(rank, indices, numbers, sizes, shape):
    """For each element of the windows: its window's start, its place in it, its batching axes."""
    offset, collapsed, mapped, batching, index_batching = numbers
    kept = [d for d in range(len(sizes)) if d not in collapsed and d not in batching]

    def batch_of(at):
        return tuple(at[a] for a in range(rank) if a not in offset)

    # Window by window: where windows overlap, the later one writes last.
    for at in sorted(itertools.product(*map(range, shape)), key=batch_of):
        batch = batch_of(at)
        start = [0] * len(sizes)
        for component, d in enumerate(mapped):
            start[d] = int(indices[(*batch, component)])
        inner = [0] * len(sizes)
        for a, d in zip(offset, kept, strict=True):
            inner[d] = at[a]
        own = dict(zip(batching, (batch[i] for i in index_batching), strict=True))
        yield at, start, inner, own


def element(start, inner, own, limits, clip):
    """The operand index of an element; None where the window sticks out."""
    if clip:
        start = [min(max(s, 0), limit) for s, limit in zip(start, limits, strict=True)]
    elif any(not 0 <= s <= limit for s, limit in zip(start, limits, strict=True)):
        return None
    return tuple(own.get(d, s + i) for d, (s, i) in enumerate(zip(start, inner, strict=True)))


def expected_gather(x, indices, shape, fill, numbers, sizes, mode):
    out = np.empty(shape, x.dtype)
    limits = [n - k for n, k in zip(x.shape, sizes, strict=True)]
    clip = mode is not Mode.FILL_OR_DROP
    for at, start, inner, own in places(len(shape), indices, numbers, sizes, shape):
        where = element(start, inner, own, limits, clip)
        out[at] = fill if where is None else x[where]
    return out


MERGE = {
    "scatter": lambda a, b: b,
    "scatter-add": np.add,
    "scatter-sub": np.subtract,
    "scatter-mul": np.multiply,
    "scatter-min": np.minimum,
    "scatter-max": np.maximum,
}


def expected_scatter(merge, x, indices, updates, numbers, mode):
    window, inserted, _, batching, _ = numbers
    lengths = iter(updates.shape[d] for d in window)
    removed = {*inserted, *batching}
    sizes = [1 if d in removed else next(lengths) for d in range(x.ndim)]
    limits = [n - k for n, k in zip(x.shape, sizes, strict=True)]
    out = x.copy()
    for at, start, inner, own in places(updates.ndim, indices, numbers, sizes, updates.shape):
        where = element(start, inner, own, limits, mode is Mode.CLIP)
        if where is not None:
            out[where] = merge(out[where], updates[at])
    return out


def run(sample: Sample, given):
    rule = sample.primitive.numpy_function(sample.avals, sample.params)
    with np.errstate(all="ignore"):
        return np.asarray(rule(*given))


@pytest.mark.parametrize("sample", samples(lambda p: p is gather_p), ids=str)
def test_gather_by_definition(sample):
    x, indices = values(sample)
    p = sample.params
    (aval,) = sample.primitive.out_avals(sample.avals, p)
    fill = p["fill_value"]
    if sample.operands[0][1].startswith("key"):
        fill = 0xFFFFFFFFFFFFFFFF
    numbers, sizes, mode = p["dimension_numbers"], p["slice_sizes"], p["mode"]
    expected = expected_gather(x, indices, aval.shape, fill, numbers, sizes, mode)
    got = run(sample, [x, indices])
    if got.dtype.kind == "V":  # NumPy's comparison does not know the NaNs of ml_dtypes
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("sample", samples(lambda p: p.name in MERGE), ids=str)
def test_scatter_by_definition(sample):
    x, indices, updates = values(sample)
    p = sample.params
    merge = MERGE[sample.primitive.name]
    if sample.primitive.name == "scatter" and p["update_jaxpr"] is not None:
        merge = np.multiply  # the body of the sample with a body
    with np.errstate(all="ignore"):
        expected = expected_scatter(merge, x, indices, updates, p["dimension_numbers"], p["mode"])
    got = run(sample, [x, indices, updates])
    if got.dtype.kind == "b" or "key" in sample.operands[0][1]:
        np.testing.assert_array_equal(got, expected)
    else:
        wide = np.complex128
        np.testing.assert_allclose(got.astype(wide), expected.astype(wide), rtol=1e-5)


def random_case(seed: int):
    """An operand, indices and dimension numbers that fit together, all axes shuffled."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, rng.integers(1, 4)).tolist())
    axes = rng.permutation(len(shape)).tolist()
    batched = int(rng.integers(0, 2)) if len(shape) > 1 else 0
    batching, rest = sorted(axes[:batched]), axes[batched:]
    mapped = tuple(rest[: int(rng.integers(0, len(rest) + 1))])
    sizes = [1 if d in batching else int(rng.integers(1, n + 1)) for d, n in enumerate(shape)]
    collapsed = tuple(
        d for d, n in enumerate(sizes) if n == 1 and d not in batching and rng.random() < 0.6
    )
    batch = rng.integers(1, 4, rng.integers(0, 3)).tolist()
    index_batching: list[int] = []
    for d in batching:
        at = int(rng.integers(len(batch) + 1))
        batch.insert(at, shape[d])
        index_batching = [at]
    indices = rng.integers(-2, 6, (*batch, len(mapped))).astype(np.int32)
    windows = len(shape) - len(collapsed) - len(batching)
    rank = windows + len(batch)
    offset = tuple(sorted(rng.choice(rank, windows, replace=False).tolist()))
    x = rng.normal(size=shape).astype(np.float32)
    numbers = G(offset, collapsed, mapped, tuple(batching), tuple(index_batching))
    return rng, x, indices, numbers, tuple(sizes)


@pytest.mark.parametrize("seed", range(150))
def test_random_dimension_numbers(seed):
    rng, x, indices, numbers, sizes = random_case(seed)
    mode = list(Mode)[seed % 3]
    got = np.asarray(lax.gather(x, indices, numbers, sizes, mode=mode, fill_value=7.0))
    expected = expected_gather(x, indices, got.shape, 7.0, numbers, sizes, mode)
    np.testing.assert_array_equal(got, expected)
    updates = rng.normal(size=got.shape).astype(np.float32)
    for name, merge in MERGE.items():
        function = getattr(lax, name.replace("-", "_"))
        given = [x, indices, updates, S(*numbers)]
        expected = expected_scatter(merge, x, indices, updates, numbers, mode)
        np.testing.assert_allclose(function(*given, mode=mode), expected, rtol=1e-4, atol=1e-5)


ROWS = G((1,), (0,), (0,))
X = np.arange(12, dtype=np.float32).reshape(3, 4)
AT = np.array([[1], [2]])


@pytest.mark.parametrize(
    ("indices", "numbers", "sizes", "kind", "words"),
    [
        (AT, ROWS, (1,), TypeError, "one slice size for every input dimension"),
        (AT, ROWS, (1, 5), TypeError, "Slice size at index 1 in gather op is out of range"),
        (AT, ROWS, (2, 4), TypeError, "can only collapse slice dims with bound 1"),
        (AT, G((1, 0), (), (0,)), (1, 4), TypeError, "offset_dims in gather op must be sorted"),
        (AT, G((1, 1), (), (0,)), (1, 4), TypeError, "offset_dims in gather op must not repeat"),
        (AT, G((5,), (0,), (0,)), (1, 4), TypeError, "Offset dimension 0 in gather op is out of"),
        (AT, G((1,), (), (0,)), (1, 4), TypeError, "All components of the offset index"),
        (AT, G((1,), (0,), (0, 1)), (1, 4), TypeError, "has 2 elements in start_index_map"),
        (AT, G((1,), (0,), (2,)), (1, 4), TypeError, "Invalid start_index_map"),
        (AT, G((1,), (2,), (0,)), (1, 4), TypeError, "Invalid collapsed_slice_dims"),
        (AT, G((), (0, 1), (0,), (0,), (0,)), (1, 1), TypeError, "must be disjoint"),
        (AT, G((), (1,), (1,), (0,), (0,)), (1, 1), TypeError, "to have the same shape"),
        (AT * 1.0, ROWS, (1, 4), ValueError, "must have an integer type"),
        (np.int32(1), ROWS, (1, 4), TypeError, "Gather index leaf dimension"),
        ([[1]], ROWS, (1, 4), TypeError, "passed to gather at position 1"),
    ],
)
def test_gather_errors(indices, numbers, sizes, kind, words):
    with pytest.raises(kind, match=words):
        lax.gather(X, indices, numbers, sizes)


@pytest.mark.parametrize(
    ("updates", "numbers", "words"),
    [
        (X, S((1,), (0,), (0,)), "Bounds of the scatter dimensions"),
        (X[0], S((1,), (0,), (0,)), "Updates tensor must be of rank 2"),
        (X[:2].astype(np.int32), S((1,), (0,), (0,)), "same dtypes, got float32, int32"),
        (np.ones((2, 5), np.float32), S((1,), (0,), (0,)), "Bounds of the window dimensions"),
        (X[:2], S((1,), (), (0,)), "window of size 1; doesn't match operand of rank 2"),
        (X[:2], S((1,), (0,), (0, 1)), "has 2 elements in scatter_dims_to_operand_dims"),
        (X[:2], S((2,), (0,), (0,)), "Invalid update_window_dims"),
        (X[:2], S((1,), (3,), (0,)), "Invalid inserted_window_dims"),
        (X[:2], S((1,), (0,), (5,)), "Invalid scatter_dims_to_operand_dims"),
    ],
)
def test_scatter_errors(updates, numbers, words):
    with pytest.raises(TypeError, match=words):
        lax.scatter_add(X, AT, updates, numbers)


def test_modes_by_name():
    assert Mode.from_any("drop") is Mode.from_any("fill") is Mode.FILL_OR_DROP
    assert Mode.from_any(None) is Mode.FILL_OR_DROP and Mode.from_any(Mode.CLIP) is Mode.CLIP
    with pytest.raises(ValueError, match='Unknown gather mode "wrap"'):
        lax.gather(X, AT, ROWS, (1, 4), mode="wrap")


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("int8", -128), ("uint8", 255), ("bool", True), ("int32", -(2**31)), ("uint32", 2**32 - 1)],
)
def test_default_fill(dtype, fill):
    got = lax.gather(np.zeros(3, dtype), np.array([[9]]), G((), (0,), (0,)), (1,), mode="fill")
    assert np.asarray(got)[0] == fill
    assert default_fill(np.dtype(dtype)) == fill


def test_fill_of_floats_and_keys():
    point = G((), (0,), (0,))
    for dtype in ("float16", "bfloat16", "complex64"):
        x = as_array(np.zeros(3, dtype_named(dtype)))
        got = np.asarray(lax.gather(x, np.array([[-1]]), point, (1,), mode="fill"))
        assert np.isnan(got.astype(np.complex64).real).all()


def test_scatter_is_not_for_bools_that_add():
    with pytest.raises(TypeError, match="add does not accept dtype bool"):
        lax.scatter_add(X > 3, AT, X[:2] > 3, S((1,), (0,), (0,)))


@pytest.mark.on_cpu("kernels keep sums of halves in float32")
def test_scatter_add_rounds_every_step():
    zeros, ones = np.zeros(1, np.float16), np.ones(4097, np.float16)
    got = lax.scatter_add(zeros, np.zeros((4097, 1), np.int32), ones, S((), (0,), (0,)))
    assert float(got[0]) == 2048


def test_scatter_apply_goes_once_for_each_time():
    at = np.array([[1], [1], [7], [0]])
    got = lax.scatter_apply(
        np.ones(3, np.float32),
        at,
        lambda v: lax.mul(v, v) + 2,
        S((), (0,), (0,)),
        update_shape=(4,),
    )
    np.testing.assert_array_equal(got, [3, 11, 1])
    with pytest.raises(TypeError, match="scatter_apply needs a function"):
        lax.scatter_apply(X, AT, lambda v: v > 1, S((1,), (0,), (0,)), update_shape=(2, 4))


def test_update_graph_names_the_merge():
    assert update_graph(gather_p, np.dtype(np.float32)) is None
    graph = update_graph(scatter_max_p, np.dtype(np.float32))
    assert [e.primitive.name for e in graph.eqns] == ["max"]
    assert graph.in_avals == [ShapedArray((), np.float32)] * 2


@pytest.mark.parametrize("how", ["add", "subtract", "multiply", "max", "min", "set"])
def test_an_operand_written_over_may_lie_in_any_order(how):
    # The operand is dead behind the scatter, and its memory is in the order of a transpose.
    def f(x):
        c = x.sum(2).T
        places = gnp.argsort((c * 2).ravel())[:8] % 8
        update = getattr((c * 2 + 1).at[places], how)
        return c, places, update(1.5) * 2

    x = np.random.default_rng(0).normal(size=(3, 4, 8, 4)).astype(np.float32)
    ufunc = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}.get(how)
    ufunc = ufunc or {"max": np.maximum, "min": np.minimum, "set": lambda a, b: a * 0 + b}[how]
    sums, places, found = ga.jit(ga.vmap(f))(x)
    for c, at, got in zip(np.asarray(sums), np.asarray(places), np.asarray(found), strict=True):
        want = c * 2 + 1
        for row in at:
            want[row] = ufunc(want[row], np.float32(1.5))
        np.testing.assert_allclose(got, want * 2, rtol=1e-5)
