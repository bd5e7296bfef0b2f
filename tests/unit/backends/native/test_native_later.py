"""Native code is compared with NumPy before it takes over: one call runs both ways.

In: compiled functions that are right, wrong, or raise. Out: NumPy's answer in the call that
compares, and from then on the code that is right.
"""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.native import background, compared, later
from gpuarray.backends.native import program as native
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.util import function_of_text
from tests.support import natively

natively.need_compiler()

X = np.arange(12, dtype=np.float32)


@pytest.fixture
def at_once(monkeypatch):
    """Programs are compiled at their second call, before it returns."""
    monkeypatch.setattr(background, "submit", lambda job: job())
    ga.config.update("native_after", 0)


def built(f, *arrays, donated=()):
    return later.build_later(plan_graph(ga.make_jaxpr(f)(*arrays).jaxpr), [], frozenset(donated))


def wrong(monkeypatch, change):
    """Let the compiler make a function whose results are changed."""
    right = native.compile_behind

    def compile_behind(plan, consts, donated, space):
        made: Any = right(plan, consts, donated, space)
        made.__dict__["kernels"] = ["wrong"]
        # Its names are those of the function that it may replace.
        space |= {"changed": change, "made": made}
        text = "def plan(*buffers): return changed(made(*buffers))"
        results: Any = function_of_text(text, "<plan>", space)
        results.__dict__.update(made.__dict__)
        return results

    monkeypatch.setattr(native, "compile_behind", compile_behind)


def test_code_that_is_right_takes_over(at_once):
    f = built(lambda x: (gnp.sin(x) * 2, x > 3), X)
    for call in range(5):
        found, flags = f(X)
        np.testing.assert_allclose(found, np.sin(X) * 2, rtol=1e-6)
        np.testing.assert_array_equal(flags, X > 3)
        # The third call ran both ways.
        assert hasattr(f, "kernels") == (call >= 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda out: [out[0] + 1, *out[1:]],
        lambda out: [np.where(np.arange(12) < 6, out[0], 0), *out[1:]],
        lambda out: [out[0], ~out[1]],
        lambda out: [out[0][:3], *out[1:]],
        lambda out: [out[0] * np.nan, *out[1:]],
        lambda out: 1 // 0,
    ],
)
def test_code_that_is_wrong_does_not(at_once, monkeypatch, caplog, change):
    wrong(monkeypatch, change)
    f = built(lambda x: (gnp.cos(x) + 1, x > 3), X)
    with caplog.at_level("INFO", logger="gpuarray"):
        for _ in range(5):
            found, flags = f(X)
            np.testing.assert_allclose(found, np.cos(X) + 1, rtol=1e-6)
            np.testing.assert_array_equal(flags, X > 3)
    assert not hasattr(f, "kernels")
    (said,) = [r.message for r in caplog.records]
    assert said.endswith("NumPy goes on")
    assert "raised ZeroDivisionError" in said or "computes something else" in said


@pytest.mark.parametrize("error", [MemoryError("no room"), ValueError("no numbers")])
def test_results_that_cannot_be_compared_are_numpys(at_once, monkeypatch, caplog, error):
    def agree(*_):
        raise error

    monkeypatch.setattr(compared, "agree", agree)
    f = built(lambda x: gnp.sin(x) * 2, X)
    with caplog.at_level("INFO", logger="gpuarray"):
        for _ in range(4):
            np.testing.assert_allclose(f(X)[0], np.sin(X) * 2, rtol=1e-6)
    assert not hasattr(f, "kernels")
    assert "could not be compared" in caplog.text


def test_derivatives_of_integers_are_compared(at_once, caplog):
    ga.config.update("native", "auto")
    f = ga.jit(ga.grad(lambda x, n: gnp.sum(gnp.sin(x) * n), argnums=(0, 1), allow_int=True))
    n = np.arange(X.size)
    with caplog.at_level("INFO", logger="gpuarray"):
        for _ in range(4):
            slopes, nothing = f(X, n)
            np.testing.assert_allclose(slopes, np.cos(X) * n, rtol=1e-5)
            assert nothing.dtype == ga.dtypes.float0 and nothing.shape == n.shape
    assert not caplog.records


def test_a_donated_input_is_given_once(at_once):
    f = built(lambda x: x.at[3].add(2.0) * 3, X, donated=(0,))
    for _ in range(5):
        (found,) = f(X.copy(), frozenset((0,)))
        np.testing.assert_array_equal(found, (X + 2 * (np.arange(12) == 3)) * 3)


@pytest.mark.devices
@pytest.mark.parametrize(("setting", "from_call"), [("auto", 2), ("wait", 0), ("off", 9)])
def test_what_collectives_compute_is_compiled(at_once, monkeypatch, setting, from_call):
    made = []
    for module in (later, native):
        compile_graph = module.compile_graph

        def noted(graph, compile_graph=compile_graph):
            made.append(compile_graph(graph))
            return made[-1]

        monkeypatch.setattr(module, "compile_graph", noted)
    x = np.arange(8 << 13, dtype=np.float32).reshape(8, -1)
    mesh = ga.make_mesh((8,), ("x",), axis_types=(ga.sharding.AxisType.Auto,))
    ga.config.update("native", setting)
    total = lambda v: ga.lax.psum(v, "x")
    f = ga.jit(ga.shard_map(total, mesh=mesh, in_specs=ga.P("x"), out_specs=ga.P()))
    for call in range(5):
        np.testing.assert_allclose(f(x), x.sum(0, keepdims=True), rtol=1e-6)
        assert any(hasattr(g, "kernels") for g in made) == (call >= from_call)


def test_what_prints_is_left_to_numpy(at_once, capsys):
    def f(x):
        ga.debug.print("{}", x[0])
        return gnp.sin(x) * 2

    run = built(f, X)
    for _ in range(5):
        run(X)
    assert capsys.readouterr().out == "0.0\n" * 5
    assert not hasattr(run, "kernels")


def test_what_is_the_same():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1000).astype(np.float32)
    agree = lambda a, b, exact=False: compared.agree([a], [b], [x], exact)
    assert agree(x, x * np.float32(1 + 1e-6))
    assert agree(x - x, x * np.float32(1e-7))  # cancelled sums
    assert not agree(x, np.where(x > 1.5, 0, x).astype(np.float32))
    assert not agree(x, -x)
    few = x.copy()
    few[:9] += 5
    assert agree(few, x)
    assert not agree(few, x, exact=True)
    assert agree(np.array([np.nan, np.inf, 1]), np.array([np.nan, np.inf, 1]))
    assert not agree(np.array([np.nan, np.inf, 1]), np.array([1, np.inf, 1]))
    assert not agree(np.array([1, 2, 3]), np.array([1, 2, 4]), exact=True)
    assert not agree(x, x.astype(np.float64))


def unsteady(x):
    """The logistic map, which is chaotic: after 60 turns the last digit of x decides."""
    return lax.fori_loop(0, 60, lambda i, x: 4 * x * (1 - x), x)


@pytest.mark.parametrize(
    "change, takes_over",
    [
        (lambda out: [np.flip(out[0])], True),  # other results of the same kind
        (lambda out: [out[0] * 100], False),
        (lambda out: [out[0] * np.nan], False),
        (lambda out: [out[0][:3]], False),
    ],
)
def test_results_that_last_digits_decide(at_once, monkeypatch, change, takes_over):
    wrong(monkeypatch, change)
    x = np.linspace(0.1, 0.4, 64, dtype=np.float32)
    f = built(lambda x: [unsteady(x)], x)
    for _ in range(4):
        f(x)
    assert hasattr(f, "kernels") == takes_over


def test_integers_have_no_last_digits(at_once, monkeypatch):
    wrong(monkeypatch, lambda out: [out[0] + 1])
    f = built(lambda x: [lax.fori_loop(0, 9, lambda i, x: x * 3 + 1, x)], np.arange(5))
    for _ in range(4):
        f(np.arange(5))
    assert not hasattr(f, "kernels")
