"""Loops split where tests of positions change: rolls, pads and joins give what NumPy gives.

In: random rolls, pads and joins of arrays with one to three axes, some of them in tasks and some
stored past the cache. Out: NumPy's bits; and the pieces that a loop is split into.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.compiler.native.emit import emit
from tests.support import natively

natively.need_compiler()

SHAPES = [(9,), (64,), (100_003,), (12, 3), (31, 40), (3, 17, 8), (16, 16, 16), (70, 700)]
DTYPES = ["float32", "int8", "bool", "float64", "complex64"]


def moved(m, x, draw):
    """A roll, a pad of a part, or a join of two parts, of the shape of x."""
    axis = int(draw.integers(x.ndim))
    n = x.shape[axis]
    k = int(draw.integers(1, n))
    way = draw.integers(4)
    if way == 0:
        return m.roll(x, int(draw.integers(-n, n)), axis)
    part = x[(slice(None),) * axis + (slice(k, None),)]
    if way == 1:
        widths = [(0, 0)] * x.ndim
        before = int(draw.integers(0, k + 1))
        widths[axis] = (before, k - before)
        return m.pad(part, widths)
    rest = x[(slice(None),) * axis + (slice(0, k),)]
    if way == 2:
        return m.concatenate([part, m.flip(rest, axis)], axis)
    return m.roll(m.roll(x, k, axis), 1, -1)


def program(m, seed, x):
    draw = np.random.default_rng(seed)
    made = x
    for _ in range(3):
        other = moved(m, x, draw)
        made = made ^ other if x.dtype == np.bool_ else made + other
    return made


def values(shape, dtype):
    rng = np.random.default_rng(1)
    x = rng.integers(-60, 60, shape)
    return (x > 0) if dtype == "bool" else (x * 0.25 if dtype[0] in "fc" else x).astype(dtype)


CASES = [
    (s, d, seed) for s in SHAPES for d in DTYPES for seed in range(3) if d == "float32" or not seed
]


@pytest.fixture(scope="module")
def compiled():
    found = {}
    for shape, dtype, seed in CASES:
        with ga.enable_x64(True):
            given = ga.ShapeDtypeStruct(shape, dtype)
            graph = ga.jit(lambda x, seed=seed: program(gnp, seed, x)).lower(given).jaxpr
        found[shape, dtype, seed] = natively.written(graph)
    natively.compile_all(list(found.values()))
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_rolls_pads_and_joins(compiled, dtype):
    for (shape, kind, seed), native in compiled.items():
        if kind == dtype:
            x = values(shape, dtype)
            (found,) = native(x)
            expected = program(np, seed, x)
            assert found.tobytes() == expected.tobytes(), (shape, seed)


def text_of(function, *shapes) -> str:
    given = [ga.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    (step,) = ga.jit(function).lower(*given).plan.on_native.steps
    return emit(step).text


def test_results_past_the_cache_are_split_too():
    shape = (1 << 12, 1 << 10)
    graph = ga.jit(lambda x: gnp.roll(x, 1, 1) + gnp.roll(x, -1, 0))
    assert "ga_stream(" in text_of(graph, shape)
    native = natively.written(graph.lower(ga.ShapeDtypeStruct(shape, "float32")).jaxpr)
    natively.compile_all([native])
    x = values(shape, "float32")
    assert native(x)[0].tobytes() == (np.roll(x, 1, 1) + np.roll(x, -1, 0)).tobytes()


def test_both_axes_of_a_stencil():
    below = lambda x: gnp.pad(x, ((1, 0), (0, 0)))[:-1]
    text = text_of(lambda x: below(x) + gnp.roll(x, 1, 1), (200, 300))
    assert "at_i1(0);\n" in text
    assert "for (ga_index i1 = 1; i1 < 300; ++i1) at_i1(i1);" in text
    assert "for (ga_index i0 = ga_most(first, 1); i0 < last; ++i0) at_i0(i0);" in text


def test_rows_of_one_array_are_read_from_a_chosen_place():
    text = text_of(lambda x: gnp.roll(x, 1, 0) + gnp.roll(x, 1, 1), (200, 300))
    assert "const ga_index row0 = i0 < 1 ? " in text
    assert "in0[i1 + row0]" in text
    assert "at_i0" not in text and "at_i1(0);" in text


def test_what_has_no_long_piece_stays_one_loop():
    text = text_of(lambda x: gnp.roll(x, 3, 1), (200, 6))
    assert "at_i1" not in text


def test_many_pieces_of_a_long_body_stay_one_loop():
    def many(x):
        return sum(gnp.roll(x, k + 1) for k in range(60))

    assert "at_i0" not in text_of(many, (1000,))


def folded(m, x):
    around = m.roll(x, 1, 0) + m.pad(x, ((0, 0), (0, 1)))[:, 1:]
    return m.max(around), m.sum(m.abs(around), 1), m.any(around > 50)


def test_folds():
    text = text_of(lambda x: folded(gnp, x)[0], (60, 100))
    assert "ga_lanes<" in text and "at_i1);" in text
    x = values((60, 100), "int8").astype("int32")
    graph = ga.jit(lambda x: folded(gnp, x)).lower(x).jaxpr
    native = natively.written(graph)
    natively.compile_all([native])
    for found, expected in zip(native(x), folded(np, x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_heavy_values_of_a_row_are_made_before_all_rows():
    def drawn(data):
        keys = ga.random.split(ga.random.wrap_key_data(data), 20)
        return ga.vmap(lambda key: ga.random.randint(key, (300,), 0, 500))(keys)

    data = np.array([3, 7], np.uint32)
    lowered = ga.jit(drawn).lower(data)
    kernels = [s for s in lowered.plan.on_native.steps if "split" in emit(s).text]
    assert kernels
    assert not any(300 in s.group.axes for s in kernels)
    native = natively.written(lowered.jaxpr)
    natively.compile_all([native])
    # As they are drawn one after another.
    keys = ga.random.split(ga.random.wrap_key_data(gnp.asarray(data)), 20)
    expected = [np.asarray(ga.random.randint(key, (300,), 0, 500)) for key in keys]
    np.testing.assert_array_equal(native(data)[0], expected)


def test_several_passes_over_rows_that_are_split(rng):
    """Each pass is split where conditions change, in one scope."""

    def stencil(m, u):
        p = m.pad(u, 1)
        return 4 * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]

    def step(m, u):
        v = stencil(m, u)
        rest = u - v / m.sum(u * v)
        return rest * m.sum(rest * rest), stencil(m, u) + m.sum(rest)

    u = rng.standard_normal((64, 64)).astype(np.float32)
    program = natively.written(ga.jit(lambda u: step(gnp, u)).lower(u).jaxpr)
    natively.compile_all([program])
    (kernel,) = program.kernels
    assert kernel.text.count("const auto at_i0") >= 2
    for found, wanted in zip(program(u), step(np, u.astype(np.float64)), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)
