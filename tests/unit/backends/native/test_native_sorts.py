"""Sorts and selections of the largest as native code, against NumPy's stable sorts of keys.

In: rows with equal elements, zeros of both signs, nan and infinities, along any axis, short and
long. Out: which element is where, to the bit; alone, in routines, and in loops.
"""

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.target import PROCESSOR
from tests.support import natively

natively.need_compiler()

TYPES = ["float32", "float64", "float16", "bfloat16", "float8_e5m2", "int8", "uint16", "int32"]
TYPES += ["int64", "bool"]
SHORT, MIDDLE = PROCESSOR.ranked_row, PROCESSOR.sorted_row
#: Shapes, and the axis that is put in order.
ROWS = [((1,), 0), ((5,), 0), ((3, SHORT), 1), ((2, SHORT + 1, 3), 1), ((2, MIDDLE), 1)]
LONG = [((MIDDLE + 1, 2), 0), ((PROCESSOR.sorted_in_memory + 5,), 0)]


def drawn(kind: str, shape: tuple[int, ...], rng) -> np.ndarray:
    """Numbers of all sizes, some of them often."""
    dtype = np.dtype(dtypes.as_dtype(kind))
    if dtypes.kind_of(dtype) in "biu":
        wide = rng.integers(-(2**62), 2**62, shape)
        return np.where(rng.random(shape) < 0.5, wide % 5, wide).astype(dtype)
    x = rng.standard_normal(shape) * 100
    few = [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -2.0]
    return np.where(rng.random(shape) < 0.5, rng.choice(few, shape), x).astype(dtype)


def by_value(x: np.ndarray) -> list[np.ndarray]:
    """Columns that NumPy sorts as we promise: -0.0 equals 0.0, nan is last."""
    if x.dtype.kind == "c":
        return [*by_value(x.real), *by_value(x.imag)]
    return [x.astype(np.float32) if x.dtype.isbuiltin == 2 else x]


def order(keys: list[np.ndarray], axis: int) -> np.ndarray:
    """The order by several keys, the first the main one."""
    return np.lexsort([c for k in keys for c in by_value(k)][::-1], axis)


def largest(x: np.ndarray, k: int, axis: int) -> np.ndarray:
    """Where the k largest in total order are: -0.0 below 0.0, nan above all, -nan below all."""
    if dtypes.kind_of(x.dtype) == "f":
        bits = x.view(f"i{x.dtype.itemsize}")
        # Integers that order alike: the larger the magnitude of a negative one, the smaller it is.
        x = np.where(bits < 0, np.iinfo(bits.dtype).max ^ bits, bits)
    found = np.argsort(np.invert(x), axis, kind="stable")
    return np.take(found, np.arange(k), axis)


def check(function, operands, expected, reached: str) -> None:
    graph = ga.jit(function).lower(*operands).jaxpr
    program = natively.written(graph)
    assert any(reached in k.text for k in program.kernels)
    natively.compile_all([program])
    for found, wanted in zip(program(*operands), expected, strict=True):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


def positions(shape, axis) -> np.ndarray:
    at = np.arange(shape[axis], dtype=np.int32)
    return np.broadcast_to(np.expand_dims(at, [a for a in range(len(shape)) if a != axis]), shape)


@pytest.mark.parametrize("kind", [*TYPES, "complex64"])
def test_rows_by_one_key(kind, rng):
    """All shapes are one program: compiled together."""
    cases = [(drawn(kind, shape, rng), axis) for shape, axis in ROWS + LONG]
    with ga.enable_x64(True):
        axes = [axis for _, axis in cases]
        xs = [x for x, _ in cases]
        where = [np.ascontiguousarray(positions(x.shape, axis)) for x, axis in cases]

        def function(*given):
            half = len(given) // 2
            return [
                out
                for x, w, axis in zip(given[:half], given[half:], axes, strict=True)
                for out in lax.sort((x, w), dimension=axis, num_keys=1)
            ]

        orders = [order([x], axis) for x, axis in cases]
        expected = [
            np.take_along_axis(v, o, axis)
            for x, w, o, axis in zip(xs, where, orders, axes, strict=True)
            for v in (x, w)
        ]
        check(function, [*xs, *where], expected, "ga_put_in_order")


@pytest.mark.parametrize("shape, axis", [((7,), 0), ((3, SHORT + 20), 1), ((2, MIDDLE + 9), 1)])
def test_several_keys(shape, axis, rng):
    first, second = rng.integers(0, 3, shape).astype(np.int8), drawn("float64", shape, rng)
    third = drawn("float16", shape, rng)
    where = np.ascontiguousarray(positions(shape, axis))
    with ga.enable_x64(True):
        o = order([first, second, third], axis)
        given = [first, second, third, where]
        expected = [np.take_along_axis(x, o, axis) for x in given]
        function = lambda *xs: lax.sort(xs, dimension=axis, num_keys=3)
        check(function, given, expected, "ga_ordinal<false>")


@pytest.mark.parametrize("kind", TYPES)
def test_largest(kind, rng):
    """Few in order, more as a heap, most by a sort of all; whole rows and pieces of them."""
    shapes = [((40,), 0, 10), ((3, 200), 1, 1), ((2, 100, 3), 1, 20), ((9, 70), 1, 70)]
    shapes += [((2, 4 * PROCESSOR.piece + 7), 1, 5), ((3 * PROCESSOR.piece,), 0, 300)]
    xs = [drawn(kind, shape, rng) for shape, _, _ in shapes]
    with ga.enable_x64(True):

        def function(*xs):
            of = zip(xs, shapes, strict=True)
            return [out for x, (_, axis, k) in of for out in lax.top_k(x, k, axis=axis)]

        expected = []
        for x, (_, axis, k) in zip(xs, shapes, strict=True):
            at = largest(x, k, axis)
            expected += [np.take_along_axis(x, at, axis), at.astype(np.int32)]
        check(function, xs, expected, "ga_top_merge")


@pytest.mark.parametrize("k", [1, 3, 16, 17, 50])
@pytest.mark.parametrize("order_of", ["rising", "falling", "equal"])
def test_largest_of_rows_in_order(k, order_of):
    """Each element is larger than all before it, or none is."""
    x = {"rising": np.arange(300.0), "falling": -np.arange(300.0), "equal": np.ones(300)}[order_of]
    x = x.astype(np.float32)
    at = largest(x, k, 0)
    check(lambda x: lax.top_k(x, k), [x], [x[at], at.astype(np.int32)], "ga_top<")


def test_in_a_loop(rng):
    """A search over a few candidates: no turn calls Python."""
    score = rng.standard_normal((30, 50)).astype(np.float32)

    def step(best, row):
        found, at = lax.top_k((best[:, None] + row).reshape(-1), 4)
        return found, (gnp.sort(row)[:3], gnp.argsort(row)[:3], at)

    function = lambda s: lax.scan(step, gnp.zeros(4, "float32"), s)
    graph = ga.jit(function).lower(score).jaxpr
    program = natively.written(graph)
    assert [k.loops for k in program.kernels] == [True] and not program.writer.by_host
    natively.compile_all([program])
    best, lines = np.zeros(4, np.float32), []
    for row in score:
        each = (best[:, None] + row).reshape(-1)
        at = np.argsort(-each, kind="stable")[:4]
        best = each[at]
        lines.append((np.sort(row)[:3], np.argsort(row, kind="stable")[:3], at))
    for found, wanted in zip(program(score), [best, *zip(*lines)], strict=True):
        np.testing.assert_array_equal(found, np.stack(wanted) if wanted is not best else best)


def test_the_number_of_threads_changes_nothing(rng):
    x = drawn("float32", (5 * PROCESSOR.piece + 3,), rng)
    graph = ga.jit(lambda x: [gnp.argsort(x), *lax.top_k(x, 40)]).lower(x).jaxpr
    program = natively.written(graph)
    natively.compile_all([program])
    found = []
    before = ga.config.read("num_threads")
    try:
        for threads in (1, 2, 7):
            ga.config.update("num_threads", threads)
            found.append([a.tobytes() for a in program(x)])
    finally:
        ga.config.update("num_threads", before)
    assert all(a == b for a, b in itertools.pairwise(found))


def test_what_numpy_does(rng):
    """Many values alone, outside of loops."""
    x = rng.standard_normal(PROCESSOR.sorted_alone + 1).astype(np.float32)
    program = natively.written(ga.jit(gnp.sort).lower(x).jaxpr)
    (why,) = program.writer.by_host.values()
    assert not program.kernels and "vector instructions" in why


def test_random_keys_go_along():
    """Elements of several words, in an order that others decide."""
    keys = ga.random.split(ga.random.key(0), 5)
    order_of = np.array([3, 1, 2, 5, 4])
    function = lambda o, k: lax.sort((o, k), num_keys=1)[1]
    assert "native code: 1 call" in ga.explain(function, platform="native")(order_of, keys).remarks
    ga.config.update("native", "wait")
    try:
        found = ga.jit(function)(order_of, keys)
    finally:
        ga.config.update("native", "off")
    assert (ga.random.key_data(found) == ga.random.key_data(keys)[np.argsort(order_of)]).all()
