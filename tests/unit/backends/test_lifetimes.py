"""Whose memory values are in: nothing is written over that somebody still reads.

In: programs whose steps pass operands on (branches, loops without turns, barriers, keys and their
words) before an update that could be in place. Out: NumPy's values on every driver, and arguments
as they were.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.numpy import program as driver
from gpuarray.core.primitive import Kind
from tests.samples import Sample, samples, values

#: (True, x) -> x
PASSED_ON = {
    "branch": lambda p, x: lax.cond(p, lambda x: x, lambda x: x + 1, x),
    "loop without a turn": lambda p, x: lax.while_loop(lambda _: ~p, lambda x: x + 1, x),
    "barrier": lambda p, x: lax.optimization_barrier(x),
    "barrier of two": lambda p, x: lax.optimization_barrier((x * 2, x))[1],
    "branch of a view": lambda p, x: lax.cond(p, lambda y: y, lambda y: y + 1, x[::-1])[::-1],
    "branch of a barrier": lambda p, x: lax.cond(
        p, lambda x: x, lambda x: x + 1, lax.optimization_barrier(x)
    ),
}


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """NumPy, and the CUDA driver on the stand-in for CuPy."""
    if request.param == "cpu":
        yield ga.devices("cpu")[0]
        return
    request.getfixturevalue("fake_gpu")
    yield ga.devices("cuda")[0]


@pytest.mark.parametrize("donate", [(), (1,)], ids=["kept", "donated"])
@pytest.mark.parametrize("made", ["the plan", "the caller"])
@pytest.mark.parametrize("way", PASSED_ON)
def test_what_was_passed_on_is_not_written_over(way, made, donate, device):
    def f(p, x):
        if made == "the plan":
            x = gnp.cumsum(x)
        passed = PASSED_ON[way](p, x)
        updated = x.at[0].set(100.0)
        return gnp.cumsum(passed), updated

    x = np.arange(5, dtype="f") + 1
    with ga.default_device(device):
        given = gnp.asarray(x)
        first, second = ga.jit(f, donate_argnums=donate)(True, given)
        if made == "the plan":
            x = np.cumsum(x, dtype="f")
        np.testing.assert_array_equal(first, np.cumsum(x))
        np.testing.assert_array_equal(second, [100, *x[1:]])


@pytest.mark.parametrize("way", PASSED_ON)
def test_an_argument_that_was_passed_on_stays_as_it_was(way, device):
    x = np.arange(5, dtype="f")
    with ga.default_device(device):
        given = gnp.asarray(x)
        out = ga.jit(lambda p, x: PASSED_ON[way](p, x).at[0].set(100.0))(True, given)
        np.testing.assert_array_equal(out, [100, *x[1:]])
        # Twice, since results may be given up to what follows.
        again = ga.jit(PASSED_ON[way])(True, given).at[0].set(50.0)
        np.testing.assert_array_equal(again, [50, *x[1:]])
        np.testing.assert_array_equal(given, x)


def test_an_update_of_a_keys_words_leaves_the_key(device):
    with ga.default_device(device):
        key = ga.random.key(3)
        before = np.asarray(ga.random.key_data(key)).copy()
        words = ga.jit(lambda k: ga.random.key_data(k).at[0].set(7))(key)
        assert np.asarray(words).tolist() == [7, 3]
        np.testing.assert_array_equal(ga.random.key_data(key), before)


def _passes_on(sample: Sample) -> bool:
    """Whether a result of NumPy's rule is in the memory of an operand or of another result."""
    ins = values(sample)
    out = driver.local.run(driver.function_of(sample.primitive, sample.avals, sample.params), *ins)
    outs = list(out) if sample.primitive.multiple_results else [out]
    outs = [o for o in outs if isinstance(o, np.ndarray)]
    pairs = [(o, i) for o in outs for i in ins if isinstance(i, np.ndarray)]
    pairs += [(outs[i], outs[k]) for i in range(len(outs)) for k in range(i)]
    return any(a.size and np.shares_memory(a, b) for a, b in pairs)


def test_only_what_says_so_passes_operands_on():
    """`Kind` and `same_bytes` say which results may be written over; NumPy's rules keep to it."""
    said = lambda p: p.kind is Kind.VIEW or p.same_bytes
    unsaid = (Kind.CALL, Kind.COLLECTIVE)  # what they may pass on depends on their Graphs
    chosen = [s for s in samples(lambda p: p.kind not in unsaid) if not said(s.primitive)]
    assert len(chosen) > 1000
    with ga.enable_x64():
        assert [str(s) for s in chosen if _passes_on(s)] == []
