"""Python's numbers in derivatives: what an operation gives is an array, whatever it does to it."""

import math

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

#: Operations that leave a number as it is.
SAME = {
    "asarray": gnp.asarray,
    "array": lambda x: gnp.array(x, copy=False),
    "reshape": lambda x: gnp.reshape(x, ()),
    "method": lambda x: x.reshape(()),
    "lax.reshape": lambda x: lax.reshape(x, ()),
    "squeeze": gnp.squeeze,
    "expand_dims": lambda x: gnp.expand_dims(x, ()),
    "moveaxis": lambda x: gnp.moveaxis(x, (), ()),
    "transpose": gnp.transpose,
    "real": gnp.real,
    "conj": gnp.conj,
    "property": lambda x: x.real,
    "positive": lambda x: +x,
    "device_put": ga.device_put,
}


@pytest.mark.parametrize("f", SAME.values(), ids=SAME)
def test_results_are_arrays(f):
    results = [*ga.jvp(f, (1.0,), (2.0,)), ga.linearize(f, 1.0)[0], ga.vjp(f, 1.0)[0]]
    results.append(ga.value_and_grad(f)(1.0)[0])
    results += ga.jvp(lambda x: ga.jvp(f, (x,), (1.0,))[0], (1.0,), (2.0,))
    assert all(isinstance(x, ga.Array) and x.weak_type and x.shape == () for x in results)
    assert [float(x) for x in results] == [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0]


def test_what_no_operation_touches_is_passed_on():
    assert ga.jvp(lambda x: x, (1.0,), (2.0,)) == (1.0, 2.0)
    assert type(ga.jvp(lambda x: x, (1.0,), (2.0,))[0]) is float


def test_numbers_keep_their_width():
    def wide(x):
        with ga.enable_x64(True):
            return gnp.sin(x)

    for result in (*ga.jvp(wide, (0.5,), (1.0,)), ga.grad(wide)(0.5), ga.jit(wide)(0.5)):
        assert result.dtype == "float32"
    assert float(ga.grad(wide)(0.5)) == pytest.approx(math.cos(0.5), rel=1e-6)
