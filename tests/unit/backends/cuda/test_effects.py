"""Effects and failures of eager work on a GPU, on the stand-in for CuPy.

In: callbacks with and without results, in and outside transformations, some of which fail. Out:
each effect happens once, in order, when it is asked for; a failure reaches what needs it.
"""

import os

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.errors import DeviceError, JaxRuntimeError
from gpuarray.experimental import io_callback
from tests.fake_cupy import installed
from tests.support import simulated

simulated.need_compiler()


@pytest.fixture(scope="module")
def gpu():
    """One GPU for all tests here; at the end nothing may be wrong, nor memory be taken."""
    with installed(seed=3) as world:
        yield world


SHAPE = ga.ShapeDtypeStruct((4,), np.float32)


def test_effects_without_results_happen_at_once(gpu, capsys):
    seen = []
    x = gnp.arange(4.0) + 1.0
    io_callback(lambda v: seen.append(float(v.sum())), None, x)
    ga.debug.callback(lambda v: seen.append(float(v[0])), x * 2.0)
    ga.debug.print("x[1] = {}", x[1])
    assert seen == [10, 2]
    assert capsys.readouterr().out == "x[1] = 2.0\n"


def test_effects_happen_once_and_in_order(gpu):
    seen = []
    x = gnp.arange(4.0)
    for k in range(5):
        x = io_callback(lambda v, k=k: (seen.append(k), np.asarray(v) + 1)[1], SHAPE, x)
    np.testing.assert_array_equal(x, np.arange(4.0) + 5)
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
def test_effects_under_transformations(gpu, capsys, wrap):
    def f(x):
        ga.debug.print("at {}", x)
        return x * x

    assert float(wrap(ga.grad(f))(3.0)) == 6
    assert capsys.readouterr().out == "at 3.0\n"
    np.testing.assert_array_equal(wrap(ga.vmap(f))(gnp.arange(2.0)), [0, 1])
    assert capsys.readouterr().out == "at 0.0\nat 1.0\n"
    primal, tangent = ga.jvp(wrap(f), (2.0,), (1.0,))
    assert (float(primal), float(tangent)) == (4, 4)
    assert capsys.readouterr().out == "at 2.0\n"


def test_effects_inside_control_flow(gpu):
    seen = []
    note = lambda v: io_callback(lambda w: seen.append(int(w)), None, v)

    def step(carry, i):
        note(i)
        return carry + i, None

    lax.scan(step, gnp.int32(0), gnp.arange(3))
    lax.cond(True, note, lambda v: None, gnp.int32(7))
    assert seen == [0, 1, 2, 7]


def test_a_failed_effect_raises_at_once_and_touches_nothing_else(gpu):
    def boom(*_):
        raise ValueError("on purpose")

    x = gnp.arange(4.0) + 1.0
    w = x * 3.0
    with pytest.raises(JaxRuntimeError, match="on purpose"):
        io_callback(boom, None, x)
    y = ga.pure_callback(boom, SHAPE, x)
    z = w + 1.0
    with pytest.raises(JaxRuntimeError, match="on purpose"):
        np.asarray(y + z)
    np.testing.assert_array_equal(z, np.arange(4.0) * 3 + 4)
    np.testing.assert_array_equal(w + x, np.arange(4.0) * 4 + 4)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_says_that_it_has_no_gpu(gpu):
    x = gnp.arange(4.0).block_until_ready()
    child = os.fork()
    if child == 0:
        good = False
        try:
            with ga.default_device(ga.devices("cpu")[0]):
                good = float(gnp.ones(3).sum()) == 3.0
            for use in (
                lambda: np.asarray(x + 1.0),
                lambda: np.asarray(x),
                lambda: repr(gnp.ones(5)),
            ):
                try:
                    use()
                    good = False
                except DeviceError as error:
                    good &= "forked" in str(error) and "spawn" in str(error)
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(x, np.arange(4.0))
