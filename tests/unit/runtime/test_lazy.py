"""Lazy eager evaluation: what is recorded, when it runs, and what it costs in kernels."""

import gc
import threading
import weakref

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.runtime import cache

BIG = 1 << 18


@pytest.fixture
def big():
    x = gnp.full((BIG,), 0.5)
    return x.block_until_ready()


@pytest.fixture(autouse=True)
def no_history():
    """The list keeps the latest programs only: when it is full it does not get longer."""
    cache.history.clear()


def programs():
    return [row for row in cache.history if row.kind == "eager"]


def test_large_work_is_recorded_and_small_work_runs(big):
    assert gnp.sin(big)._work is not None
    assert gnp.sin(gnp.ones(3)).is_ready()


def test_chain_is_one_program_and_dead_values_are_never_made(big):
    before = len(programs())
    y = gnp.sin(big) * 2.0 + big
    z = gnp.exp(y)
    del y
    z.block_until_ready()
    assert len(programs()) == before + 1
    executable = max(cache._executables.values(), key=lambda e: len(e.graph.eqns))
    np.testing.assert_allclose(np.asarray(z)[:3], np.exp(np.sin(0.5) * 2 + 0.5), rtol=1e-6)
    assert executable is not None


def test_same_structure_compiles_once(big):
    def work(scale):
        return (gnp.cos(big) * scale + 1.0).block_until_ready()

    work(1.0)
    before = len(programs())
    for k in range(5):
        out = work(float(k))
    assert len(programs()) == before
    np.testing.assert_allclose(np.asarray(out)[0], np.cos(0.5) * 4 + 1, rtol=1e-6)


def test_block_until_ready_returns_the_array(big):
    y = big + 1
    assert y.block_until_ready() is y
    assert y.is_ready()


def test_is_ready_becomes_true_without_asking_for_the_value(big):
    y = gnp.tanh(big)
    for _ in range(10_000):
        if y.is_ready():
            break
        threading.Event().wait(0.001)
    assert y.is_ready()


@pytest.mark.parametrize(
    "ask", [repr, str, np.asarray, lambda y: y.tolist(), lambda y: y[0].item()]
)
def test_asking_for_the_value_flushes(big, ask):
    ask(big * 3.0)


def test_shape_errors_come_at_once(big):
    with pytest.raises(TypeError, match="incompatible shapes"):
        big + gnp.ones(3)


def test_fusion_off_runs_one_kernel_an_operation(big):
    with ga.fusion(False):
        y = gnp.sin(big) * 2.0
        np.testing.assert_allclose(np.asarray(y)[0], np.sin(0.5) * 2, rtol=1e-6)
    f = ga.jit(lambda x: gnp.sin(x) * 2.0 + 1.0)
    with ga.fusion(False):
        assert len(f.lower(big).plan.groups) == 3
    assert len(f.lower(big).plan.groups) == 1


def test_arrays_cross_threads(big):
    y = gnp.sin(big)
    out = []
    t = threading.Thread(target=lambda: out.append(float((y + 1.0)[0])))
    t.start()
    t.join()
    np.testing.assert_allclose(out[0], np.sin(0.5) + 1, rtol=1e-6)


def test_memory_goes_back(big):
    y = (big * 2.0).block_until_ready()
    ref = weakref.ref(y)
    del y
    gc.collect()
    assert ref() is None


def test_deleting_an_input_of_recorded_work_is_safe(big):
    x = (big + 0.0).block_until_ready()
    y = x * 2.0
    x.delete()
    assert float(y[0]) == 1.0


def test_donating_an_input_of_recorded_work_is_safe(big):
    x = (big + 0.0).block_until_ready()
    y = x * 2.0
    ga.jit(lambda a: a.at[0].set(9.0), donate_argnums=0)(x)
    assert float(y[0]) == 1.0


def test_many_operations_flush_by_themselves(big):
    x = big
    for _ in range(600):
        x = x + 1.0
    np.testing.assert_allclose(np.asarray(x)[0], 600.5)


def test_debug_nans_names_operation_and_index():
    with ga.debug_nans(True), pytest.raises(FloatingPointError, match=r"log.*index \(1,\)"):
        gnp.log(gnp.array([1.0, -1.0]))


@pytest.mark.parametrize("wrap", [ga.grad, ga.value_and_grad, ga.vmap, ga.checkpoint])
def test_debug_nans_sees_what_is_jitted_under_a_transformation(wrap):
    x = gnp.full(2, -1.0) if wrap is ga.vmap else -1.0
    with ga.debug_nans(True), pytest.raises(FloatingPointError, match=r"sqrt.*test_lazy.py:\d+"):
        wrap(ga.jit(gnp.sqrt))(x)


def test_debug_nans_sees_loops():
    step = lambda c, x: (c, gnp.log(x))
    with ga.debug_nans(True), pytest.raises(FloatingPointError, match=r"scan.*index \(1,\)"):
        ga.lax.scan(step, 0.0, gnp.array([1.0, -1.0]))
    with ga.debug_infs(True), pytest.raises(FloatingPointError, match="inf"):
        ga.grad(ga.jit(gnp.sqrt))(0.0)


def test_an_integer_that_does_not_fit_raises_at_the_call(big):
    numbers = big.astype(int)
    with pytest.raises(OverflowError, match="1099511627776 too large to convert to int32"):
        _ = numbers + 2**40
    assert int((numbers + 2**20)[0]) == 2**20 + int(numbers[0])


def test_no_numpy_warnings(big, recwarn):
    np.asarray(gnp.log(big * 0.0 - 1.0))
    np.asarray(gnp.log(gnp.zeros(3)) / 0.0)
    assert not recwarn.list
