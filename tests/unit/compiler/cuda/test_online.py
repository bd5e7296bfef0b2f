"""Sums that follow another fold in the same pass: what is read once, and what comes out.

In: softmax and variances over columns, long rows and whole arrays, with infinities, nans and large
offsets in awkward places. Out: texts with one loop, and NumPy's values in float64, from the
simulator with its checks in three orders of threads.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.compiler.cuda.emit import emit
from tests import golden
from tests.support import simulated
from tests.support.targets import plan_for

simulated.need_compiler()


def emitted(function, *avals) -> list[str]:
    return [emit(g).text for g in ga.jit(function).lower(*avals).plan.on_device.groups]


def loops(text: str) -> int:
    """Loops over the data, but not those over the elements of a turn."""
    return sum("for (unsigned j" in x or "for (unsigned k" in x for x in text.splitlines())


COLUMNS, LONG = golden.shape("float32", 16384, 4096), golden.shape("bfloat16", 1024, 262144)


@pytest.mark.parametrize(
    ("function", "aval", "passes"),
    [
        (lambda x: gnp.var(x, 0), COLUMNS, 1),
        (lambda x: (x.mean(0), x.std(0)), COLUMNS, 1),
        (lambda x: gnp.mean((x - x.mean(0)) ** 2, 0), COLUMNS, 1),
        (lambda x: nn.logsumexp(x, 0), COLUMNS, 1),
        (lambda x: nn.softmax(x, 0), COLUMNS, 2),
        (lambda x: nn.softmax(x, 1), LONG, 2),
        (lambda x: nn.logsumexp(x, 1), LONG, 1),
        (lambda x: gnp.exp(x - x.max(0)).sum(0) + gnp.exp(x.max(0) - x).sum(0), COLUMNS, 2),
        # What does not follow: absolute differences, a mean of something else, a rounded one.
        (lambda x: gnp.abs(x - x.mean(0)).sum(0), COLUMNS, 2),
        (lambda x: ((x - gnp.abs(x).mean(0)) ** 2).sum(0), COLUMNS, 2),
        (lambda x: ((x - x.sum(0) / 1000) ** 2).sum(0), COLUMNS, 2),
        (lambda x: gnp.exp(x - x.min(0)).sum(0), COLUMNS, 2),
        (lambda x: (x - lax.reduce_precision(x.mean(0), 8, 7)).var(0), COLUMNS, 2),
    ],
)
def test_how_often_the_data_is_gone_over(function, aval, passes, monkeypatch):
    plan_for(monkeypatch, launch_bytes=1 << 40)  # one kernel, whatever it costs
    (text,) = emitted(function, aval)
    assert loops(text) == passes, text


def values(shape, seed=0, dtype="f4") -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.dtype(dtype))


def odd(shape) -> np.ndarray:
    """Columns (or rows, turned) with what is no ordinary number here and there."""
    x = values(shape)
    x[:-1, 0] = -np.inf  # one element, in the end
    x[:, 1] = -np.inf  # none
    x[5, 2] = np.inf
    x[7, 3] = np.nan
    x[: shape[0] // 2, 4] = -np.inf
    x[:, 5] = -1000 + x[:, 5]
    x[:, 6] = np.linspace(-300, 300, shape[0])
    x[:, 7] = np.linspace(300, -300, shape[0])
    x[3, 8] = 1e30
    return x


def softmax(x, axis):
    return nn.softmax(x, axis), nn.logsumexp(x, axis), nn.log_softmax(x, axis)


def reference(x, axis):
    """In float64, term by term."""
    x = x.astype("f8")
    with np.errstate(all="ignore"):
        top = x.max(axis, keepdims=True)
        e = np.exp(x - top)
        fixed = np.where(np.isfinite(top), top, 0)
        log = np.log(np.exp(x - fixed).sum(axis)) + fixed.squeeze(axis)
        return e / e.sum(axis, keepdims=True), log, x - top - np.log(e.sum(axis, keepdims=True))


def simulate(function, inputs) -> list[np.ndarray]:
    """The same bits in three orders of threads, without a complaint."""
    made = simulated.built(ga.jit(function).lower(*inputs).jaxpr)
    first = simulated.run(made, inputs)
    for seed in (2, 3):
        again = simulated.run(made, inputs, seed)
        assert [x.tobytes() for x in again] == [x.tobytes() for x in first]
    return first


@pytest.mark.parametrize("launch", [0, 1 << 40])  # two kernels, and one
@pytest.mark.parametrize("shape", [(40, 64), (700, 33), (1, 9), (5000, 9)])
def test_softmax_of_columns(shape, launch, monkeypatch):
    plan_for(monkeypatch, launch_bytes=launch)
    x = odd(shape) if shape[0] > 10 else values(shape)
    for found, want in zip(simulate(lambda x: softmax(x, 0), (x,)), reference(x, 0), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("shape", [(3, 50_000), (9, 40_001)])
def test_softmax_of_long_rows(shape, monkeypatch):
    plan_for(monkeypatch, row_vectors=1, row_shared_bytes=1 << 10, launch_bytes=1 << 40)
    x = odd((shape[1], 9)).T[: shape[0]].copy()
    for found, want in zip(simulate(lambda x: softmax(x, 1), (x,)), reference(x, 1), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("shape", [(4096, 12), (3001, 40), (70_000, 9)])
def test_blocks_that_share_columns(shape):
    """Their results refer to the largest element of each."""
    x = odd(shape)
    (found,) = simulate(lambda x: nn.logsumexp(x, 0), (x,))
    np.testing.assert_allclose(found, reference(x, 0)[1], rtol=2e-5, atol=2e-6)
    (found,) = simulate(lambda x: gnp.exp(x - x.max(0)).sum(0), (x,))
    with np.errstate(all="ignore"):
        want = np.exp(x.astype("f8") - x.astype("f8").max(0)).sum(0)
    np.testing.assert_allclose(found, want, rtol=2e-5)


@pytest.mark.parametrize("rows", [1, 3])
def test_blocks_that_share_rows(rows):
    x = odd((60_001, 9)).T[[0, 4, 6]][:rows].copy()
    (found,) = simulate(lambda x: nn.logsumexp(x, 1), (x,))
    np.testing.assert_allclose(found, reference(x, 1)[1], rtol=2e-5)
    x = values((rows, 60_000)) + 100
    (found,) = simulate(lambda x: gnp.var(x, 1), (x,))
    np.testing.assert_allclose(found, x.astype("f8").var(1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(40, 64), (700, 33), (4096, 12), (70_000, 3), (1, 5)])
@pytest.mark.parametrize("offset", [0, 1e4])
def test_variances_of_columns(shape, offset):
    """As exact as two passes are, however far from 0 the elements lie, and in whatever order."""
    x = values(shape) + np.float32(offset)
    if shape[0] > 1:
        x[0] = 0 if offset else 1e4  # what a thread sees first lies far from the rest
        x[:, 0] = np.sort(x[:, 0])
    mean, var = simulate(lambda x: (x.mean(0), x.var(0)), (x,))
    exact = x.astype("f8")
    np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(var, exact.var(0), rtol=2e-5)


@pytest.mark.parametrize("shape", [(700, 40), (96, 160)])
def test_passes_one_after_another(shape):
    """The second refers to what the first gives: each has variables of its own."""
    x = values(shape)

    def function(x):
        y = (x - x.mean(0)) / (x.std(0) + 1) + x
        return y.std(0), nn.logsumexp(y - y.max(0) / 2, 0)

    (text,) = emitted(function, x)
    assert text.count("what sums refer to so far") > 1
    simulated.compare([(function, (x,))], 20)


def test_variances_of_what_is_no_number():
    x = values((3000, 5))
    x[7, 0], x[9, 1], x[2000:, 2] = np.inf, np.nan, 1e30
    (var,) = simulate(lambda x: gnp.var(x, 0), (x,))
    assert np.isnan(var[:2]).all() and not np.isfinite(var[2])
    np.testing.assert_allclose(var[3:], x[:, 3:].astype("f8").var(0), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_floats(dtype):
    with ga.enable_x64(dtype == "float64"):
        x = values((3000, 20), dtype=dtype)
        tolerance = 1e-12 if dtype == "float64" else 2e-2
        exact = x.astype("f8")
        (found,) = simulate(lambda x: nn.softmax(x, 0), (x,))
        np.testing.assert_allclose(
            found.astype("f8"), reference(exact, 0)[0], rtol=2 * tolerance, atol=1e-3 * tolerance
        )
        (found,) = simulate(lambda x: gnp.std(x, 0), (x,))
        np.testing.assert_allclose(found.astype("f8"), exact.std(0), rtol=tolerance)


def test_what_is_computed_before_is_kept(monkeypatch):
    """A turn computes it once: it is dear, and both folds need it."""
    plan_for(monkeypatch, launch_bytes=1 << 40)
    function = lambda x: nn.softmax(gnp.tanh(x) * 3, 0)
    (text,) = emitted(function, COLUMNS)
    assert text.count("ga_tanh(") == 2  # in the turns, and where results are written
    x = values((900, 20))
    (found,) = simulate(function, (x,))
    np.testing.assert_allclose(found, reference(np.tanh(x.astype("f8")) * 3, 0)[0], rtol=1e-5)
