"""Many updates as native code: parts of them merged by themselves, rows of them cut into columns.

In: updates that meet often, with nan and places that are nowhere. Out: what one update after
another makes, and the same bits on any number of threads.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.target import PROCESSOR
from tests.support import natively

natively.need_compiler()

N, PLACES = 200_003, 501


def drawn(kind: str, shape: tuple[int, ...], rng) -> np.ndarray:
    dtype = np.dtype(dtypes.as_dtype(kind))
    if dtypes.kind_of(dtype) in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 1e-4] = np.nan
    return x


def one_after_another(start, places, x, merge):
    inside = (places >= 0) & (places < len(start))
    found = start.copy()
    with np.errstate(invalid="ignore"):
        merge.at(found, places[inside], x[inside])
    return found


def run(function, *operands) -> np.ndarray:
    """The same bits for every number of threads."""
    program = natively.written(ga.jit(function).lower(*operands).jaxpr)
    assert not program.writer.by_host
    natively.compile_all([program])
    found, before = [], ga.config.read("num_threads")
    try:
        for threads in (1, 2, 7):
            ga.config.update("num_threads", threads)
            found.append(program(*operands)[0])
    finally:
        ga.config.update("num_threads", before)
    assert len({x.tobytes() for x in found}) == 1
    return found[0]


def assert_sums(found, start, places, x) -> None:
    """Sums in another order: compared with sums of wider numbers."""
    wanted = one_after_another(start.astype(np.float64), places, x.astype(np.float64), np.add)
    amounts = one_after_another(abs(start), places, abs(x), np.add)
    off = abs(found - wanted) > 8 * np.finfo(found.dtype).eps * amounts
    assert not off.any() and (np.isnan(found) == np.isnan(wanted)).all()


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int32", "uint8", "int64"])
@pytest.mark.parametrize("name", ["max", "min", "add"])
def test_parts(name, kind, rng):
    """Sums of integers wrap; sums of 16 bits are not cut into parts, since their order shows."""
    merge = {"max": np.maximum, "min": np.minimum, "add": np.add}[name]
    x, start = drawn(kind, (N,), rng), drawn(kind, (PLACES,), rng)
    places = rng.integers(-2, PLACES + 2, N).astype(np.int32)
    places[places < 0] = PLACES + 5
    with ga.enable_x64(True):
        function = lambda s, i, x: getattr(s.at[i], name)(x)
        graph = ga.jit(function).lower(start, places, x).jaxpr
        text = natively.written(graph).kernels[0].text
        assert ("merged in order" in text) == (name != "add" or kind != "float16")
        if kind == "float16" and name == "add":
            return  # NumPy rounds each sum as we do, but takes a second for it
        found = run(function, start, places, x)
    if name == "add" and np.dtype(kind).kind == "f":
        return assert_sums(found, start, places, x)
    np.testing.assert_array_equal(found, one_after_another(start, places, x, merge))


@pytest.mark.parametrize("width", [1, 16])
def test_what_nothing_is_added_to_stays(width, rng):
    """-0.0 too, and parts of floats begin as what adds nothing."""
    x = rng.standard_normal((40_000, width)).astype(np.float32)
    start = np.full((20, width), -0.0, np.float32)
    places = rng.integers(0, 10, len(x)).astype(np.int32)
    if width == 1:
        x, start = np.repeat(x[:, 0], 4), start[:, 0]
        places = np.repeat(places, 4)
    function = lambda s, i, x: s.at[i].add(x)
    text = natively.written(ga.jit(function).lower(start, places, x).jaxpr).kernels[0].text
    assert "merged in order" in text
    found = run(function, start, places, x)
    assert np.signbit(found[10:]).all() and not found[10:].any()
    assert_sums(found, start, places, x)


@pytest.mark.parametrize("n", [N, 8 * PROCESSOR.block, 2 * PROCESSOR.piece + 1])
def test_places_that_are_searched(n, rng):
    """Blocks of places are found side by side before; what is outside, or nan, is dropped."""
    edges = np.sort(drawn("float32", (98,), rng))
    edges = np.concatenate([edges[~np.isnan(edges)], [9.0, np.inf]]).astype(np.float32)
    x, amounts = drawn("float32", (n,), rng), drawn("int32", (n,), rng)

    def function(edges, x, amounts):
        at = gnp.searchsorted(edges, x, side="right") - 1
        start = gnp.zeros(len(edges), "int32")
        return start.at[at].add(amounts * 3, mode="drop")

    text = "".join(
        k.text for k in natively.written(ga.jit(function).lower(edges, x, amounts).jaxpr).kernels
    )
    assert "ga_search_each" in text
    at = np.searchsorted(edges, x, side="right") - 1
    at[at < 0] += len(edges)
    wanted = np.zeros(len(edges), np.int32)
    np.add.at(wanted, at, amounts * 3)
    np.testing.assert_array_equal(run(function, edges, x, amounts), wanted)


def test_parts_of_rows(rng):
    """Extremes of short rows, at places in order: parts take turns."""
    x, start = drawn("float32", (N, 3), rng), drawn("float32", (PLACES, 3), rng)
    places = np.sort(rng.integers(0, PLACES + 2, N).astype(np.int32))
    found = run(lambda s, i, x: s.at[i].max(x), start, places, x)
    np.testing.assert_array_equal(found, one_after_another(start, places, x, np.maximum))


@pytest.mark.parametrize("width", [2, 63, 64, 100, 520])
@pytest.mark.parametrize("targets", [PLACES, 9000])
def test_rows(width, targets, rng):
    """Sums of floats, row by row: in parts where results are small, else in columns, which are
    summed in the order of the rows.
    """
    rows = 300_000 // width
    x, start = drawn("float32", (rows, width), rng), np.zeros((targets, width), np.float32)
    places = rng.integers(0, targets, rows).astype(np.int32)
    function = lambda s, i, x: s.at[i].add(x * 2)
    graph = ga.jit(function).lower(start, places, x).jaxpr
    text = natively.written(graph).kernels[0].text
    parts = 16 * targets * width <= rows * width
    assert ("merged in order" in text) == parts
    assert ("columns" in text) == (width >= 64 and not parts)
    # Each row's place is looked up once.
    assert text.index("ga_find(") < text.index("for (ga_index i1")
    found = run(function, start, places, x)
    if parts:
        return assert_sums(found, start, places, x * 2)
    np.testing.assert_array_equal(found, one_after_another(start, places, x * 2, np.add))


def test_windows_that_overlap(rng):
    """Along the last axis too: columns are not apart there."""
    x = rng.standard_normal((2000, 100)).astype(np.float32)
    places = rng.integers(0, 50, 2000).astype(np.int32)
    found = run(
        lambda s, i, x: s.at[i[:, None] + gnp.arange(100)].add(x),
        np.zeros(150, np.float32), places, x,
    )  # fmt: skip
    wanted = np.zeros(150)
    np.add.at(wanted, places[:, None] + np.arange(100), x.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
