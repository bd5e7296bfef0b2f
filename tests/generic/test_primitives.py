"""Laws that hold for every primitive, whatever it computes, on every sample.

The result is what the shape rule said. The NumPy rule reads operands in any layout and leaves them
as they were. Evaluated at once, recorded, jitted, and with fusion off, the bits are the same, and a
second call does not trace. A traced graph is lawful, prints, and evaluates to the same bits.
"""

import numpy as np

import gpuarray as ga
from gpuarray.config import config
from gpuarray.core import dtypes
from gpuarray.core.graph import evaluate, storage_dtype, verify
from gpuarray.core.primitive import Kind, registry
from gpuarray.core.value import Array
from gpuarray.pytree.tree import flatten
from tests.samples import Sample, samples, values
from tests.support.nearness import assert_near
from tests.support.sampled import each_sample

#: Results that are not a function of the operands.
RANDOM = {"empty", "rng_uniform"}

ALL = samples()
FIXED = [s for s in ALL if s.primitive.name not in RANDOM]


def arrays(sample: Sample) -> list[Array]:
    return [as_array(x, a.dtype) for x, a in zip(values(sample), sample.avals, strict=True)]


def as_array(x: np.ndarray, dtype) -> Array:
    if not isinstance(dtype, dtypes.KeyDtype):
        return registry["copy"].bind(x)
    impl = dtype.impl
    words = np.ascontiguousarray(x).reshape(-1).view(np.uint32)
    return registry["random_wrap"].bind(words.reshape(*x.shape, *impl.key_shape), impl=impl)


def bind(sample: Sample, xs) -> list[Array]:
    out = sample.primitive.bind(*xs, **sample.params)
    return list(out) if sample.primitive.multiple_results else [out]


def stored(x) -> np.ndarray:
    """What an array holds, random keys as words."""
    if isinstance(x, Array):
        if isinstance(x.dtype, dtypes.KeyDtype):
            x = registry["random_unwrap"].bind(x)
        return np.asarray(x)
    return np.asarray(x)


def assert_same_bits(found, expected, what: str) -> None:
    assert len(found) == len(expected)
    for f, e in zip(map(stored, found), map(stored, expected), strict=True):
        assert (f.shape, f.dtype) == (e.shape, e.dtype), what
        if config.native != "off" and dtypes.kind_of(e.dtype) in "fc":
            # Values computed at once are NumPy's, whose functions are others.
            assert_near(f, e, what, 1 << 13)
        elif not bits_agree(f, e):
            raise AssertionError(f"{what}: got\n{f!r}\nexpected\n{e!r}")


def bits_agree(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, any nan being equal to any other."""
    kind = dtypes.kind_of(a.dtype)
    if kind == "c":
        return bits_agree(a.real, b.real) and bits_agree(a.imag, b.imag)
    if kind != "f":
        return np.array_equal(a, b)
    same = np.signbit(a) == np.signbit(b)
    return bool((np.isnan(a) & np.isnan(b) | ((a == b) & same)).all())


# ---- shapes and dtypes ----


@each_sample(ALL)
def test_result_is_what_the_rule_says(sample):
    expected = sample.primitive.out_avals(sample.avals, sample.params)
    found = bind(sample, arrays(sample))
    assert [(x.shape, x.dtype, x.weak_type) for x in found] == [
        (a.shape, a.dtype, a.weak_type) for a in expected
    ]
    for x, a in zip(found, expected, strict=True):
        assert x._buffer().shape == a.shape
        assert x._buffer().dtype == storage_dtype(a)


# ---- the NumPy rule ----


# Calls have no rule: they are made of their Graphs' equations.
@each_sample(s for s in FIXED if s.primitive.kind is not Kind.CALL)
def test_numpy_rule_reads_any_layout(sample):
    xs = values(sample)
    rule = sample.primitive.numpy_function(sample.avals, sample.params)
    with np.errstate(all="ignore"):
        expected = listed(sample, rule(*xs))
        for layout in (by_columns, backwards, read_only, scalars):
            turned = [layout(x) for x in xs]
            found = listed(sample, rule(*turned))
            what = f"operands made {layout.__name__}"
            if order_may_change(sample):
                for f, e in zip(found, expected, strict=True):
                    assert_near(f, e, what)
            else:
                assert_same_bits(found, expected, what)
            assert_same_bits(turned, xs, "the rule wrote into an operand")


def order_may_change(sample: Sample) -> bool:
    """Whether NumPy may add in another order, or contract complex products, in another layout."""
    kinds = {dtypes.kind_of(d) for a in sample.avals if not hasattr(d := a.dtype, "impl")}
    folds = sample.primitive.kind in (Kind.REDUCTION, Kind.SCAN, Kind.LIBRARY)
    return folds or "c" in kinds


def by_columns(x: np.ndarray) -> np.ndarray:
    return x.copy(order="F")


def backwards(x: np.ndarray) -> np.ndarray:
    """The same values, in memory from last to first and with gaps."""
    memory = np.empty([2 * n for n in x.shape], x.dtype)
    view = memory[(..., *(slice(None, None, -2) for _ in x.shape))]
    view[...] = x
    return view


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def scalars(x: np.ndarray):
    """Arrays without axes as NumPy scalars, which buffers may be too."""
    return x[()] if x.ndim == 0 else x


def listed(sample: Sample, out) -> list:
    return list(out) if sample.primitive.multiple_results else [out]


@each_sample(s for s in FIXED if s.primitive.inplace)
def test_inplace_rule_agrees(sample):
    """Overwriting the first operand gives what the pure rule gives."""
    xs = values(sample)
    pure = sample.primitive.numpy_function(sample.avals, sample.params)
    quick = sample.primitive.inplace(sample.avals, **sample.params)
    with np.errstate(all="ignore"):
        expected = listed(sample, pure(*xs))
        found = listed(sample, quick(xs[0].copy(), *xs[1:]))
    assert_same_bits(found, expected, "in place")


# ---- ways of running ----


@each_sample(FIXED)
def test_every_way_of_running_agrees(sample):
    xs = arrays(sample)
    config.update("lazy_threshold", 1 << 30)
    expected = bind(sample, xs)
    config.update("lazy_threshold", 0)
    assert_same_bits(bind(sample, xs), expected, "recorded")
    traced = 0

    @ga.jit
    def f(*ys):
        nonlocal traced
        traced += 1
        return bind(sample, ys)

    assert_same_bits(f(*xs), expected, "jitted")
    assert_same_bits(f(*xs), expected, "jitted, called again")
    assert traced == 1, "the second call traced"
    with ga.fusion(False):
        assert_same_bits(f(*xs), expected, "jitted without fusion")


@each_sample(FIXED)
def test_fused_with_neighbours(sample):
    """Between other operations, with another reader of its result, it computes the same bits."""
    copy, spread = registry["copy"], registry["broadcast_in_dim"]
    xs = arrays(sample)

    @ga.jit
    def f(*ys):
        plain = bind(sample, [copy.bind(y) for y in ys])
        turned = [
            copy.bind(
                spread.bind(
                    y,
                    shape=(2, *y.shape),
                    broadcast_dimensions=tuple(range(1, y.ndim + 1)),
                    sharding=None,
                )
            )
            for y in plain
        ]
        return [copy.bind(y) for y in plain], turned

    expected = bind(sample, xs)
    plain, turned = f(*xs)
    assert_same_bits(plain, expected, "fused")
    for y, e in zip(turned, expected, strict=True):
        e = stored(e)
        assert_same_bits([y], [np.broadcast_to(e, (2, *e.shape))], "fused, with a view after it")


# ---- graphs ----


@each_sample(FIXED)
def test_traced_graph_is_lawful(sample):
    xs = arrays(sample)
    graph = ga.make_jaxpr(lambda *ys: bind(sample, ys))(*xs)
    verify(graph)
    if sample.primitive.kind is not Kind.CALL:
        assert [e.primitive for e in graph.eqns] == [sample.primitive]
        assert graph.eqns[0].params.keys() == sample.params.keys()
    assert graph.in_avals == sample.avals
    assert graph.out_avals == sample.primitive.out_avals(sample.avals, sample.params)
    assert sample.primitive.name in str(graph)
    assert_same_bits(evaluate(graph, *xs), bind(sample, xs), "the graph evaluated")
    again = ga.make_jaxpr(lambda *ys: bind(sample, ys))(*xs)
    assert again == graph
    assert hash(again) == hash(graph)
    assert str(again) == str(graph)


# ---- large arrays ----

LARGE = 70_001  # one more tile than there are whole ones


def _enlarged(sample: Sample) -> Sample | None:
    """The sample with its one axis made long, where every operand has just one."""
    shapes = {shape for shape, _ in sample.operands}
    if sample.primitive.kind is not Kind.POINTWISE or shapes != {(1,)}:
        return None
    if sample.primitive.weight > 100 or sample.primitive.name == "bitcast_convert_type":
        return None
    return sample._replace(operands=[((LARGE,), d) for _, d in sample.operands])


@each_sample(s for s in map(_enlarged, FIXED) if s)
def test_tiles_agree_with_the_whole(sample):
    """Cut into tiles on several threads, a pointwise result does not change."""
    xs = arrays(sample)
    pure = sample.primitive.numpy_function(sample.avals, sample.params)
    with np.errstate(all="ignore"):
        expected = listed(sample, pure(*values(sample)))
    assert_same_bits(bind(sample, xs), expected, "in tiles")
    assert_same_bits(flatten(ga.jit(lambda *ys: bind(sample, ys))(*xs))[0], expected, "jitted")
