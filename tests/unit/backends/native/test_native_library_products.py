"""Products by BLAS inside native code: roles, threads, what stays with loops.

In: matrices, in loops and beside other steps. Out: NumPy's values; the same bits for any number of
threads; BLAS with as many threads as before.
"""

import ctypes
import threading

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.native import library
from gpuarray.config import config
from tests.support import natively

natively.need_compiler()

#: einsum's letters, and the lengths of i, j, k and of a batch b.
PRODUCTS = [
    ("ik,kj->ij", (70, 90, 65, 1)),
    ("ki,kj->ij", (70, 90, 65, 1)),
    ("ik,jk->ij", (40, 33, 64, 1)),
    ("ki,jk->ij", (200, 130, 200, 1)),
    ("ik,k->i", (200, 1, 170, 1)),
    ("ki,k->i", (200, 1, 170, 1)),
    ("k,kj->j", (1, 1030, 300, 1)),
    ("k,jk->j", (1, 301, 70, 1)),
    ("bik,bkj->bij", (40, 37, 50, 3)),
    ("bik,bjk->bij", (1, 37, 256, 3)),
    ("ik,kj->ij", (300, 260, 200, 1)),
    # Axes that are not one in memory.
    ("ik,bkj->ibj", (70, 36, 60, 3)),
    ("kbj,ik->bji", (70, 36, 60, 3)),
    ("ibk,jbk->bij", (40, 33, 64, 5)),
    ("ibk,kbj->bij", (1, 1030, 300, 3)),
    ("kbi,kj->bij", (35, 32, 60, 4)),
    # Sums over axes that are not one, and rows that lie in groups of a few.
    ("kib,kjb->ij", (70, 36, 60, 3)),
    ("ikb,bkj->ij", (40, 33, 20, 16)),
    ("bkj,ki->bji", (70, 3, 60, 30)),
    ("ik,bkj->ibj", (70, 3, 60, 30)),
]


def operands(words: str, lengths, kind: str, rng) -> list[np.ndarray]:
    size = dict(zip("ijkb", lengths, strict=True))
    names = words.partition("->")[0].split(",")
    # Small integers: every sum is exact, in any order.
    found = [rng.integers(-3, 4, [size[c] for c in n]).astype(kind) for n in names]
    return [x * (1 + 2j) if np.dtype(kind).kind == "c" else x for x in found]


def program(words: str, xs):
    # Steps before and after, so that the product is inside a native call.
    f = lambda x, y: gnp.einsum(words, x * 2, y + 1) - 1
    return natively.written(ga.jit(f).lower(*xs).jaxpr)


@pytest.mark.parametrize("kind", ["float32", "float64", "complex64", "complex128"])
def test_any_roles(kind, rng):
    with ga.enable_x64(True):
        cases = [(w, operands(w, n, kind, rng)) for w, n in PRODUCTS]
        programs = [program(w, xs) for w, xs in cases]
    assert all(any("ga_gemm<" in k.text for k in p.kernels) for p in programs)
    natively.compile_all(programs)
    for (words, (x, y)), p in zip(cases, programs, strict=True):
        wanted = np.einsum(words, x * 2, y + 1) - 1
        np.testing.assert_array_equal(p(x, y)[0], wanted, words)


def test_small_even_products_are_loops(rng):
    xs = operands("ik,kj->ij", (16, 16, 16, 1), "float32", rng)
    (kernel,) = program("ik,kj->ij", xs).kernels
    assert "ga_matmul<" in kernel.text
    assert "ga_gemm<" not in kernel.text


@pytest.fixture
def threads():
    before = config.num_threads
    yield lambda n: config.update("num_threads", n)
    config.update("num_threads", before)


def test_the_same_bits_for_any_number_of_threads(threads, rng):
    w, h = (rng.standard_normal(s).astype(np.float32) for s in ((200, 200), (90, 200)))
    f = lambda w, h: lax.fori_loop(0, 5, lambda _, h: gnp.tanh(h @ w), h)
    p = natively.written(ga.jit(f).lower(w, h).jaxpr)
    assert "ga_gemm<" in p.kernels[0].text
    natively.compile_all([p])
    found = []
    for n in (1, 2, 7):
        threads(n)
        found.append(p(w, h)[0])
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    wanted = h.astype(float)
    for _ in range(5):
        wanted = np.tanh(wanted @ w)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-2, atol=1e-3)


def test_blas_has_its_threads_afterwards(rng):
    pool = library._pool_with_blas()
    count = library.blas_threads_of(pool)
    if count is None:
        pytest.skip("the number of threads of this BLAS is not known")
    xs = operands("ik,kj->ij", (200, 130, 200, 1), "float32", rng)
    p = program("ik,kj->ij", xs)
    natively.compile_all([p])
    p(*xs)
    assert library.blas_threads_of(pool) == count


def test_a_blas_that_cannot_be_told_is_called_by_turns(threads, rng):
    """Not on all threads at once, each of which would start threads of its own."""
    pool = library._pool_with_blas()
    xs = operands("ik,kj->ij", (300, 260, 200, 1), "float32", rng)
    p = program("ik,kj->ij", xs)
    natively.compile_all([p])
    use = ctypes.c_void_p.in_dll(pool, "ga_blas_use")
    before, use.value = use.value, None
    try:
        threads(4)
        for _ in range(5):
            np.testing.assert_array_equal(p(*xs)[0], (xs[0] * 2) @ (xs[1] + 1) - 1)
        # Whoever comes while one is in it waits.
        pool.ga_blas_alone(True)
        inside = threading.Event()

        def another():
            pool.ga_blas_alone(True)
            inside.set()
            pool.ga_blas_alone(False)

        waits = threading.Thread(target=another)
        waits.start()
        assert not inside.wait(0.05)
        pool.ga_blas_alone(False)
        waits.join(60)
        assert inside.is_set()
    finally:
        use.value = before


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_halves_are_multiplied_as_floats_and_rounded_once(kind, rng):
    x, y = (gnp.asarray(rng.standard_normal(n), kind) for n in ((70, 40), (40, 90)))
    f = lambda x, y: (x @ y, gnp.matmul(x, y, preferred_element_type="float32"))
    p = natively.written(ga.jit(f).lower(x, y).jaxpr)
    assert not p.writer.by_host
    natively.compile_all([p])
    narrow, wide = p(np.asarray(x), np.asarray(y))
    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    np.testing.assert_allclose(wide, exact, 1e-5, 1e-5)
    np.testing.assert_array_equal(narrow, np.asarray(wide).astype(narrow.dtype))


@pytest.mark.parametrize(
    "left, right, out, steps",
    [("int8", "int8", "int32", 300), ("uint8", "int8", "int32", 3000), ("int16", "int8", None, 9)],
)
def test_narrow_integers_are_exact(left, right, out, steps, rng):
    ends = [(np.iinfo(d).min, np.iinfo(d).max) for d in (left, right)]
    x = rng.choice(ends[0], (40, steps)).astype(left)
    y = rng.choice(ends[1], (steps, 50)).astype(right)
    x[0], y[:, 0] = ends[0][0], ends[1][0]  # the largest sum
    f = lambda x, y: gnp.matmul(x, y, preferred_element_type=out)
    with ga.enable_x64(True):
        p = natively.written(ga.jit(f).lower(x, y).jaxpr)
    assert not p.writer.by_host
    natively.compile_all([p])
    wanted = x.astype(np.int64) @ y.astype(np.int64)
    found = p(x, y)[0]
    np.testing.assert_array_equal(found, wanted.astype(found.dtype))


@pytest.mark.parametrize("words,alone", [("bik,bkj->bij", False), ("ik,kj->ij", True)])
def test_a_batch_is_for_our_threads_and_one_product_for_those_of_the_library(words, alone, rng):
    """A library divides each product of a batch among its threads, and on a busy machine waits for
    them as often.
    """
    xs = operands(words, (64, 64, 64, 3), "float32", rng)
    made = natively.written(ga.jit(lambda x, y: gnp.einsum(words, x, y)).lower(*xs).jaxpr)
    assert len(made.kernels) == (not alone)
    natively.compile_all([made])
    np.testing.assert_array_equal(made(*xs)[0], np.einsum(words, *xs))


def _rows(m, q, k):
    """Scores and what a softmax does to them, but exact."""
    s = _scores(m, q, k)
    return s - m.max(s, -1, keepdims=True)


def _scores(m, q, k):
    return m.einsum("...qd,...kd->...qk", q, k)


def _mixed(m, s, v):
    return m.einsum("...qk,...kd->...qd", s, v)


def _turned(m, s, q):
    return m.einsum("...qk,...qd->...kd", s, q)


#: What is made of products of a batch, and whether each batch goes through it by itself.
CHAINS = {
    "mixed": (lambda m, q, k, v: _mixed(m, _rows(m, q, k), v), True),
    "turned": (lambda m, q, k, v: _turned(m, _rows(m, q, k), q), True),
    "folds": (lambda m, q, k, v: m.sum(_rows(m, q, k), -1), True),
    "masks": (lambda m, q, k, v: _mixed(m, m.where(m.tri(33) > 0, _rows(m, q, k), 0), v), True),
    "several results": (
        lambda m, q, k, v: (s := _rows(m, q, k), _mixed(m, s, v) + 1, _turned(m, s, q)), True
    ),
    "a sum over batches": (lambda m, q, k, v: m.sum(_rows(m, q, k), 0), True),
    "the last first": (lambda m, q, k, v: _mixed(m, _rows(m, q, k)[::-1], v), True),
    "rows of other batches": (
        lambda m, q, k, v: (s := _scores(m, q, k)) - m.max(s[::-1], -1, keepdims=True), False
    ),
    "columns": (
        lambda m, q, k, v: m.max(s := _scores(m, q, k), -2) - m.min(s, -2), False
    ),
}  # fmt: skip


def test_batches_go_through_what_is_made_of_them(threads, rng):
    """Each by itself where nothing reads another; with the bits of NumPy, whose sums are exact."""
    shapes = [(9, 33, 20), (4, 2, 33, 20)]
    made, wanted, given = {}, {}, {}
    for name, (f, _) in CHAINS.items():
        for shape in shapes:
            xs = given[name, shape] = [
                rng.integers(-3, 4, shape).astype(np.float32) for _ in range(3)
            ]
            graph = ga.jit(lambda *xs, f=f: f(gnp, *xs)).lower(*xs).jaxpr
            made[name, shape], wanted[name, shape] = natively.written(graph), f(np, *xs)
    natively.compile_all([*made.values()])
    for (name, shape), program in made.items():
        want = wanted[name, shape]
        want = want if isinstance(want, tuple) else (want,)
        for n in (1, 2, 7):
            threads(n)
            for found, w in zip(program(*given[name, shape]), want, strict=True):
                np.testing.assert_array_equal(found, w, err_msg=f"{name}, {shape}")
        chained = any("ga_blocks" in source.text for source in program.kernels)
        assert chained == CHAINS[name][1], name
