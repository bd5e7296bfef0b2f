"""Short loops are lines of the program that holds them: they compute what Python's loops do."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.numpy import loops, program


@pytest.fixture
def sources(monkeypatch):
    """The programs written in a test."""
    written = []
    real = program.NumpyProgramWriter.function

    def noted(self):
        function = real(self)
        written.append(function.source)
        return function

    monkeypatch.setattr(program.NumpyProgramWriter, "function", noted)
    return written


def newton(a):
    """500 steps at most, for a scalar."""

    def going(s):
        return (abs(s[0] * s[0] - a) > 1e-6) & (s[1] < 500)

    return lax.while_loop(going, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), (a, 0))


def test_a_while_loop_is_written_out(sources):
    root, count = ga.jit(newton)(np.float32(2.0))
    assert "while True:" in sources[-1] and len(sources) == 1
    x, n = np.float32(2.0), 0
    while abs(x * x - np.float32(2)) > np.float32(1e-6) and n < 500:
        x, n = np.float32(0.5) * (x + np.float32(2) / x), n + 1
    assert root == x and count == n


def rows_of(length, *shape):
    return np.random.default_rng(length).standard_normal((length, *shape)).astype(np.float32)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 7])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
@pytest.mark.parametrize("kind", ["both", "carry", "stacked", "counted"])
def test_a_scan_is_that_of_python(sources, kind, shape, length, reverse):
    xs, start = rows_of(length, *shape), np.full(shape, 0.5, np.float32)

    def body(carry, x):
        x = 1.0 if x is None else x
        new = carry * np.float32(0.5) + x
        return (None if kind == "stacked" else new), (None if kind == "carry" else new - 1)

    def plain(carry, x):
        x = np.float32(1) if x is None else x
        new = (start if kind == "stacked" else carry) * np.float32(0.5) + x
        return new, new - np.float32(1)

    if kind == "stacked":

        def step(carry, x):
            return None, body(start, x)[1]

    else:
        step = body
    given = None if kind == "counted" else xs
    first = None if kind == "stacked" else start
    last, ys = ga.jit(lambda c, x: lax.scan(step, c, x, length, reverse))(first, given)
    assert any("for " in text for text in sources)
    order = range(length - 1, -1, -1) if reverse else range(length)
    carry, want = start, np.zeros((length, *shape), np.float32)
    for i in order:
        carry, want[i] = plain(carry, None if given is None else xs[i])
    if kind != "stacked":
        np.testing.assert_array_equal(np.asarray(last), carry)
    if kind != "carry":
        np.testing.assert_array_equal(np.asarray(ys), want)


def nested(x):
    """Loops in loops, with what is the same in every turn of both."""
    table = gnp.arange(4.0) * 2

    def inner(_, v):
        return v * 0.5 + gnp.sum(table * x) / (1 + gnp.arange(3.0))

    def outer(v, row):
        v = lax.fori_loop(0, 3, inner, v) + row
        low = lax.while_loop(lambda s: gnp.sum(s) > 1, lambda s: s * 0.25, v)
        return v, lax.cond(low[0] > 0.1, lambda: low, lambda: -low)

    return lax.scan(outer, gnp.ones(3), rows_of(5, 3))


def test_nested_loops_are_those_of_python(sources):
    x = np.arange(4, dtype=np.float32)
    carry, ys = ga.jit(nested)(x)
    text = sources[-1]
    assert text.count("for ") == 2 and text.count("while ") == 1
    # What is the same in every turn is computed before the loop.
    assert text.index("iota") < text.index("for ")
    assert text.rindex("iota") < text.index("for _ in range(3)")
    with ga.disable_jit():  # loops of Python
        want = nested(gnp.asarray(x))
    np.testing.assert_allclose(np.asarray(carry), np.asarray(want[0]), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(ys), np.asarray(want[1]), rtol=1e-6)


def test_an_effect_happens_in_every_turn():
    seen = []

    def step(_, x):
        ga.debug.callback(lambda: seen.append(1), ordered=True)
        return x + 1

    ga.block_until_ready(ga.jit(lambda x: lax.fori_loop(0, 6, step, x))(np.float32(0)))
    ga.effects_barrier()
    assert len(seen) == 6


def test_what_is_given_is_not_written_to():
    x = np.arange(5, dtype=np.float32)
    given = gnp.asarray(x)
    step = lambda i, v: v.at[i].add(1.0)
    out = ga.jit(lambda v: lax.fori_loop(0, 5, step, v))(given)
    np.testing.assert_array_equal(np.asarray(given), x)
    np.testing.assert_array_equal(np.asarray(out), x + 1)


def test_long_turns_are_functions(sources):
    large = np.zeros(loops.SHORT, np.float32)
    out = ga.jit(lambda v: lax.fori_loop(0, 3, lambda _, v: v * 0.5 + 1, v))(large)
    assert not any("for _ in range(3)" in text for text in sources)
    np.testing.assert_array_equal(np.asarray(out), np.full(loops.SHORT, 1.75, np.float32))


def test_loops_deeper_than_python_allows():
    def deep(level, x):
        if level == 0:
            return x + 1
        return lax.fori_loop(0, 1, lambda _, v: deep(level - 1, v), x)

    assert ga.jit(lambda x: deep(25, x))(np.float32(1)) == 2


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int32", "float16", "float32"])
def test_scalars_are_computed_as_arrays(dtype):
    """Python's operators on NumPy's scalars: wrapped, rounded and typed as ufuncs do."""
    values = [0, 1, 3] if dtype != "bool" else [False, True]
    values += [-7, 127, -128] if dtype == "int8" else []
    values += [2**31 - 1, -(2**31)] if dtype == "int32" else []
    values += [np.inf, np.nan, -0.0, 60000.0] if dtype.startswith("float") else []
    names = ["equal", "not_equal", "less", "greater_equal", "maximum"]
    names += ["logical_and"] if dtype == "bool" else ["add", "subtract", "multiply"]
    names += ["bitwise_xor", "bitwise_and"] if not dtype.startswith("float") else ["divide"]
    for name in names:
        function = ga.jit(getattr(gnp, name))
        for a in values:
            for b in values:
                x, y = (np.array(v).astype(dtype) for v in (a, b))
                with np.errstate(all="ignore"):
                    want = getattr(np, name)(x.reshape(1), y.reshape(1))
                got = np.asarray(function(x, y))
                assert got.dtype == want.dtype, name
                np.testing.assert_array_equal(got, want[0], err_msg=f"{name} {a} {b}")
