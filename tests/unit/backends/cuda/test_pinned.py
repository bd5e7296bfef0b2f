"""Arrays in pinned memory of the host: kernels read it, results and kept values go there."""

import gc
from functools import partial

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.cuda.pinned import is_pinned
from gpuarray.memory import Space
from gpuarray.sharding import SingleDeviceSharding


def _pinned_sharding() -> SingleDeviceSharding:
    return SingleDeviceSharding(ga.devices("gpu")[0], memory_kind="pinned_host")


def _values(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def test_arrays_go_there_and_back(fake_gpu):
    values = _values(1000)
    x = ga.device_put(values, _pinned_sharding())
    assert is_pinned(x._buffer())
    back = ga.device_put(x, Space.Device)
    assert not is_pinned(back._buffer())
    again = ga.device_put(back, Space.Host)
    assert is_pinned(again._buffer())
    for made in (x, back, again):
        np.testing.assert_array_equal(np.asarray(made), values)


def test_what_is_computed_of_it_is_there_too(fake_gpu):
    values = _values(1000)
    y = ga.device_put(values, _pinned_sharding()) * 2 + 1
    assert y.sharding == _pinned_sharding() and is_pinned(y._buffer())
    np.testing.assert_allclose(np.asarray(y), values * 2 + 1, rtol=1e-6)


def test_programs_move_values(fake_gpu):
    values = _values(1000)
    x = ga.device_put(values, _pinned_sharding())
    total = ga.jit(lambda a: ga.device_put(a, Space.Device).sum())(x)
    assert not is_pinned(total._buffer())
    np.testing.assert_allclose(np.asarray(total), values.sum(), rtol=1e-3)
    there = ga.jit(lambda a: ga.device_put(a * 3, Space.Host))(ga.device_put(x, Space.Device))
    assert is_pinned(there._buffer())
    np.testing.assert_allclose(np.asarray(there), values * 3, rtol=1e-6)


def test_out_shardings_say_it(fake_gpu):
    f = ga.jit(lambda a: a + 1, out_shardings=_pinned_sharding())
    for _ in range(2):  # the second call may take a shorter way
        made = f(ga.device_put(_values(10), ga.devices("gpu")[0]))
        assert made.sharding == _pinned_sharding() and is_pinned(made._buffer())


def test_values_that_checkpoint_keeps(fake_gpu):
    keep = ga.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")

    def loss(f, w, v):
        return f(w, v).sum()

    def model(w, v):
        return gnp.sin(gnp.sin(v @ w) @ w)

    w = ga.device_put(_values(32, 32) / 9, ga.devices("gpu")[0])
    want = ga.grad(partial(loss, model))(w, w)
    kept = ga.grad(partial(loss, partial(ga.checkpoint, policy=keep)(model)))
    for grad in (kept, ga.jit(kept)):
        np.testing.assert_allclose(np.asarray(grad(w, w)), np.asarray(want), rtol=1e-4, atol=1e-5)


class Circle:
    """Garbage that refers to itself: its finalisers run in no order."""

    def __init__(self, *things):
        self.things, self.me = things, self


def test_pinned_memory_of_circular_garbage_waits_for_what_is_launched(fake_gpu):
    """CuPy gives pinned memory back to its pool as soon as garbage is finalised."""
    values = _values(1000)
    fake_gpu.eager = 0.0  # nothing runs until somebody waits
    x = ga.device_put(values, _pinned_sharding())
    copied = ga.device_put(values, ga.devices("gpu")[0]) - 1
    y = ga.device_put(x, Space.Device) + 1
    y._buffer()
    copied.copy_to_host_async()
    Circle(x), Circle(copied)
    del x, copied
    gc.collect()
    # Had it been given back, it would serve these, and a fault be noted.
    others = [ga.device_put(_values(1000) * k, _pinned_sharding()) for k in range(3)]
    np.testing.assert_allclose(np.asarray(y), values + 1, rtol=1e-6)
    assert fake_gpu.faults == [] and len(others) == 3
