"""Loops and branches as native code: one call of a compiled function, with NumPy's values.

In: programs with scans, whiles, branches, products inside. Out: what the NumPy driver makes of the
same Graph, and the same bits for any number of threads; a signal ends a loop that would not end.
"""

from __future__ import annotations

import signal

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends.numpy import program as host
from gpuarray.core.target import PROCESSOR
from tests.support import natively

natively.need_compiler()

LONG = 2 * PROCESSOR.block + 7
_rng = np.random.default_rng(0)
CASES: dict = {}


def floats(*shape, dtype: type = np.float32):
    return _rng.standard_normal(shape).astype(dtype)


def case(*operands):
    """Add a function of these operands to the table."""

    def add(function):
        CASES[function.__name__.strip("_")] = function, operands
        return function

    return add


# ---- scans ----


@case(floats(3, 5), floats(7, 3, 5))
def backwards(c, xs):
    return lax.scan(lambda c, x: (c * 0.5 + x, gnp.sum(c, 0)), c, xs, reverse=True)


@case(floats(400), floats(6, 400))
def large_carry(c, xs):
    return lax.scan(lambda c, x: (c * 0.5 + x, c.max()), c, xs)


@case(floats(400), floats(7, 400))
def large_carry_odd(c, xs):
    return lax.scan(lambda c, x: (c * 0.5 + x, c), c, xs)


@case(floats(400), floats(400))
def exchanged(a, b):
    return lax.fori_loop(0, 7, lambda i, s: (s[1], s[0]), (a, b))


@case(floats(8, 31), floats(6, 8, 31), np.arange(8 * 31).reshape(8, 31) % 3 == 0)
def recursion_of_ctc(c, xs, skip):
    """Much work on what is padded, and its derivative."""

    def loss(c):
        def step(c, x):
            one = gnp.pad(c, ((0, 0), (1, 0)), constant_values=-5)[:, :-1]
            two = gnp.where(skip, gnp.pad(c, ((0, 0), (2, 0)), constant_values=-5)[:, :-2], -5.0)
            return gnp.logaddexp(gnp.logaddexp(c, one), two) + x, None

        return lax.scan(step, c, xs)[0].sum()

    return ga.grad(loss)(c)


@case(floats(4), np.array([0, 3, -1, 9], np.int32), floats(30, 70))
def rows_that_are_looked_up(scores, words, table):
    """The place of a row is the same for all of its elements."""

    def step(s, _):
        scores, words = s
        each = scores[:, None] + nn.log_softmax(table[words])
        words = gnp.argmax(each, 1) % 30
        return (each.max(1), words), (words, gnp.exp(table[:, words % 70]).sum())

    return lax.scan(step, (scores, words), None, length=5)


@case(floats(40), np.array([[3, 39, -1], [0, 7, 40]], np.int32))
def looked_up_exponentials(c, places):
    step = lambda c, at: (c * 0.9, gnp.exp(c[at]) * gnp.tanh(c[at] + 1))
    return lax.scan(step, c, places)


@case(floats(3), floats(3))
def exchanged_short(a, b):
    return lax.fori_loop(0, 7, lambda i, s: (s[1], s[0] + 1), (a, b))


@case(floats(6))
def constants_and_rows_as_results(a):
    return lax.scan(lambda c, x: (c, (1.0, x, gnp.ones(3))), gnp.float32(1.5), a)


@case(np.arange(6, dtype=np.int32))
def integers(a):
    return lax.scan(lambda c, x: (c * 31 + x, (c ^ x) & 7), gnp.int32(7), a)


@case(floats(6, dtype=np.float16))
def halves(a):
    return lax.scan(lambda c, x: (c * 0.5 + x, c + 1), gnp.float16(1.5), a)


@case((floats(5) + 1j * floats(5)).astype(np.complex64))
def complex_numbers(a):
    return lax.fori_loop(0, 9, lambda i, s: s * a + 1, a)


@case(floats(3, 4))
def random_bits(a):
    def body(key, x):
        key, other = ga.random.split(key)
        return key, x + ga.random.normal(other, (4,))

    return lax.scan(body, ga.random.key(0), a)[1]


@case(floats(30), floats(6))
def slices_at_the_turn(a, b):
    return lax.fori_loop(0, 20, lambda i, s: s + lax.dynamic_slice(a, (i,), (6,)), b)


@case(floats(4, 3))
def no_step(a):
    return lax.scan(lambda c, x: (c + x, c), a[0], a[:0])


@case(floats(5), floats(4, 6, 5))
def nested(c, xs):
    def outer(c, x):
        c, y = lax.scan(lambda c, x: (gnp.tanh(c + x), c.sum()), c, x)
        return c, (y, c)

    return lax.scan(outer, c, xs)


@case(3 + floats(4, 4), floats(4), floats(9, 2))
def derivative(w, h, xs):
    def loss(w):
        step = lambda h, x: (gnp.tanh(w @ h) + x.sum(), h[0] * x)
        return gnp.sum(lax.scan(step, h, xs)[1])

    return ga.value_and_grad(loss)(w)


# ---- whiles ----


@case(floats(4), np.int32(9))
def known_when_called(a, n):
    return lax.fori_loop(0, n, lambda i, s: s * 1.1 + i, a)


@case(floats(4), np.int32(0))
def no_turn(a, n):
    return lax.fori_loop(0, n, lambda i, s: s * 1.1 + i, a), a + 1


@case(floats(400), np.int32(0))
def no_turn_large(a, n):
    return lax.fori_loop(0, n, lambda i, s: s * 1.1 + gnp.sum(s) + i, a)


@case(floats(400), np.int32(5))
def large_while(a, n):
    return lax.fori_loop(0, n, lambda i, s: s * 1.1 + gnp.sum(s) + i, a)


def _grown(x):
    return lax.while_loop(lambda s: s[0].sum() < 10, lambda s: (s[0] * 1.7, s[1] + 1), (x, 0))


@case(np.abs(floats(50)))
def stops_of_their_own(a):
    return ga.vmap(_grown)(a)


@case(np.abs(floats(50, 3)))
def stops_of_rows(a):
    return ga.vmap(_grown)(a)


# ---- independent elements, block by block ----


@case(np.abs(floats(LONG)))
def blocks_that_stop(a):
    return ga.vmap(_grown)(a)


@case(floats(LONG), np.int32(5))
def blocks_of_a_while(a, n):
    return lax.fori_loop(0, n, lambda i, s: s * 1.1 + i, a)


@case(floats(LONG), floats(6, LONG), floats(LONG))
def blocks_of_a_scan(c, xs, b):
    return lax.scan(lambda c, x: (gnp.sin(c[::-1][::-1]) * b[::-1] + x, c), c, xs, reverse=True)


@case(floats(2, 3 * PROCESSOR.block), floats(2, 3 * PROCESSOR.block))
def blocks_between_looks(a, b):
    """So many turns that the loop looks for signals after some of the blocks."""
    return lax.fori_loop(0, 60_000, lambda i, s: s * 0.5 + b, a)


@case(floats(LONG))
def neighbours(a):
    return lax.fori_loop(0, 5, lambda i, s: s + gnp.roll(s, 1) * 0.5, a)


@case(floats(LONG), np.zeros(LONG, bool))
def flags(a, b):
    step = lambda s: (gnp.where(s[1], s[0], s[0] * 2), s[1] | (s[0] > 4), s[2] + 1)
    return lax.while_loop(lambda s: s[2] < 9, step, (a, b, 0))


# ---- updates ----


@case(floats(400), np.int32(50))
def one_after_another(a, n):
    return lax.fori_loop(0, n, lambda i, s: s.at[i].set(s[i - 1] * 0.5 + 1), a)


@case(floats(300, 5), floats(50, 5))
def rows_added(a, b):
    return lax.fori_loop(0, 50, lambda i, s: s.at[3 * i].add(b[i]).at[2].multiply(0.5), a)


@case(floats(64, 64))
def table(a):
    step = lambda i, t: t.at[i + 1].set(gnp.minimum(t[i], gnp.roll(t[i], 1)) + a[i])
    return lax.fori_loop(0, 63, step, gnp.zeros((64, 64)))


@case(floats(400), floats(10))
def read_after_it_changed(a, b):
    """The carry before an update is needed beside the one after it: it must not be overwritten."""

    def step(c, x):
        new = c.at[3].set(x)
        return new, c[3] + new.sum()

    return lax.scan(step, a, b)


@case(floats(50, 40), floats(40))
def rows_written(a, b):
    step = lambda c, i: (lax.dynamic_update_slice(c, (b * i)[None], (i, 0)), c[i].sum())
    return lax.scan(step, a, gnp.arange(50))


@case(floats(300, 5), np.arange(100, dtype=np.int32) % 7, floats(100, 5))
def updates_that_meet(a, i, b):
    """Out of a loop, where each is its own kernel."""
    zeros = gnp.zeros(9)
    return a.at[i].add(b), a.at[i].max(b), a.at[i].set(b), zeros.at[i + 3].add(b[:, 0])


# ---- branches ----


@case(floats(50), np.int32(7))
def branches(a, k):
    zeros = lambda x: (gnp.zeros_like(x), x.sum() + x)
    return lax.switch(k, [lambda x: (x + 1, x), lambda x: (x * 2, x - 1), zeros], a)


@case(floats(5), floats(20, 5))
def branches_in_a_scan(c, xs):
    yes, no = lambda c, x: (c + x, c[0]), lambda c, x: (c * 0.5, x[1])
    return lax.scan(lambda c, x: lax.cond(x[0] > 0, yes, no, c, x), c, xs)


# ---- products ----


@case(0.2 * floats(40, 40), floats(6, 33, 40))
def recurrent(w, xs):
    return lax.scan(lambda h, x: (gnp.tanh(h @ w.T + x), h[0]), gnp.zeros((33, 40)), xs)


@case(0.1 * floats(70, 70), floats(40, 70), floats(3, 40, 70))
def product_by_all_threads(w, h, xs):
    return lax.scan(lambda h, x: (gnp.tanh(h @ w + x), h[0]), h, xs)


@case(floats(64, 64))
def power_iteration(a):
    return lax.fori_loop(0, 5, lambda i, s: (a @ s) / gnp.sqrt(gnp.sum((a @ s) ** 2)), gnp.ones(64))


@case(floats(10, 4, 4), floats(10, 4, 5), floats(10, 5, 4))
def products_of_stacks(a, b, c):
    def step(s, _):
        s = gnp.einsum("nij,njk->nik", a, s) * 0.1
        return s, gnp.einsum("nij,nji->n", s, c) + gnp.einsum("nij,nkj->nik", s, s).sum()

    return lax.scan(step, b, None, length=4)


@case(np.arange(12, dtype=np.int32).reshape(3, 4), np.arange(3, dtype=np.int32))
def products_of_integers(a, x):
    return lax.fori_loop(0, 3, lambda i, x: a @ (a.T @ x), x)


# ---- as many elements as before, but no elements that are independent ----


@case(floats(LONG))
def sorted_in_each_turn(x):
    return lax.fori_loop(0, 3, lambda i, x: gnp.sort(x) * gnp.float32(-0.5), x)


@case((floats(16, 128) + 1j * floats(16, 128)).astype(np.complex64))
def transformed_in_each_turn(x):
    return lax.fori_loop(0, 3, lambda i, x: gnp.fft.fft(x), x)


_small = _rng.integers(-5, 5, (32, 32), np.int32)


@case(floats(50 * LONG), _rng.integers(-5, 5, (31, 32), np.int32))
def beside_a_product_of_integers(x, y):
    """Its copies of the operands are in memory that threads would share."""

    def step(i, s):
        return s[0] * gnp.float32(0.5) + s[1].max().astype(s[0].dtype), s[1] @ _small

    return lax.fori_loop(0, 20, step, (x, y))


# ---- stretches without loops ----


@case(floats(300, 20), floats(20))
def several_kernels(a, b):
    y = gnp.exp(a - a.max(0))
    z = y / y.sum(1, keepdims=True)
    w = (z - z.min(0)) * b
    return w, w.T, w.reshape(-1)[:50], gnp.sum(w, (0, 1)), gnp.cumsum(w, 0)


@pytest.fixture(scope="module")
def programs():
    """All cases, compiled together."""
    found = {}
    for name, (f, xs) in CASES.items():
        avals = [ga.ShapeDtypeStruct(x.shape, x.dtype) for x in xs]
        graph = ga.jit(f).lower(*avals).jaxpr
        found[name] = natively.written(graph), graph, xs
    natively.compile_all([w for w, _, _ in found.values()])
    return found


def test_each_is_one_call(programs):
    """No step of a loop is left to Python."""
    for name, (written, _, _) in programs.items():
        calls = [k.form for k in written.kernels]
        assert calls.count("routine") == 1, (name, calls)
        assert not written.writer.holders, name


@pytest.mark.parametrize("name", CASES)
def test_values(name, programs):
    written, graph, xs = programs[name]
    expected = host.local.run(host.compile_graph(graph), *xs)
    found = written(*xs)
    for f, e in zip(found, map(np.asarray, expected), strict=True):
        assert (f.shape, f.dtype) == (e.shape, e.dtype)
        if f.dtype.kind in "fc":
            tolerance = 2e-3 if f.dtype == np.float16 else 2e-5
            scale = np.abs(e).max(initial=1)
            assert np.abs(f - e).max(initial=0) <= tolerance * scale
        else:
            assert np.array_equal(f, e)


def test_bits_do_not_depend_on_threads(programs):
    found = {}
    try:
        for threads in (1, 2, 7):
            ga.config.update("num_threads", threads)
            found[threads] = {
                n: [x.tobytes() for x in w(*xs)] for n, (w, _, xs) in programs.items()
            }
    finally:
        ga.config.update("num_threads", 0)
    assert found[1] == found[2] == found[7]


class _Stopped(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
@pytest.mark.parametrize("length", [1, LONG])
def test_a_signal_ends_a_loop(length):
    """A loop without an end looks for signals, whichever way it goes over its elements."""

    def forever(x):
        return lax.while_loop(lambda s: s[1] >= 0, lambda s: (s[0] + 1, s[1] & 1), (x, 0))

    graph = ga.jit(forever).lower(ga.ShapeDtypeStruct((length,), np.float32)).jaxpr
    written = natively.written(graph)
    natively.compile_all([written])
    x = np.zeros(length, np.float32)

    def stop(*_):
        raise _Stopped

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(_Stopped):
            written(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
