"""Classes that `vmap` maps as a whole, with axes that a library names in its own way."""

import contextlib
from dataclasses import dataclass

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.interpreters.batching import register_vmappable, unregister_vmappable


class Named:
    """An array whose axes have names; no pytree, and of no shape that vmap could read."""

    def __init__(self, names, data):
        self.names, self.data = list(names), data


@dataclass(frozen=True)
class Along:
    name: str
    axis: int


@contextlib.contextmanager
def named_arrays(scale=1):
    """`scale` is an operation on what comes in and goes out."""

    def element(part, _, x, along):
        names = [n for n in x.names if n != along.name]
        return Named(names, part(scale * x.data, x.names.index(along.name)))

    def whole(part, size, x, along):
        names = [*x.names[: along.axis], along.name, *x.names[along.axis :]]
        return Named(names, part(size, scale * x.data, along.axis))

    register_vmappable(Named, Along, int, element, whole, None)
    try:
        yield
    finally:
        unregister_vmappable(Named)


X = np.arange(6.0, dtype="f").reshape(2, 3)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("scale", [1, 2])
def test_axes_are_what_the_class_says(jit, scale):
    def call(x, y):
        rows = ga.vmap(
            lambda row, c: (Named(row.names, row.data * c), row.data.sum()),
            (Along("i", 0), 0),
            (Along("i", 1), 0),
            axis_size=2,
        )
        out, sums = rows(Named("ij", x), y)
        assert out.names == ["j", "i"]
        return out.data, sums

    y = np.array([1.0, 10.0], "f")
    with named_arrays(scale):
        out, sums = (ga.jit(call) if jit else call)(X, y)
    np.testing.assert_array_equal(out, scale**2 * (X * y[:, None]).T)
    np.testing.assert_array_equal(sums, scale * X.sum(1))


def test_two_classes_may_share_the_class_of_their_axes():
    with named_arrays():
        other = type("Other", (), {})
        register_vmappable(other, Along, int, None, None, None)  # pyright: ignore
        unregister_vmappable(other)
        out = ga.vmap(lambda x: x, Along("j", 0), Along("j", 0), axis_size=3)(Named("ij", X))
    assert out.names == ["j", "i"]
    np.testing.assert_array_equal(out.data, X.T)


def test_errors():
    with named_arrays():
        with pytest.raises(ValueError, match="needs axis_size"):
            ga.vmap(lambda x: x, Along("i", 0), Along("i", 0))(Named("ij", X))
        with pytest.raises(TypeError, match=r"Along.* for the axis of float32\[2,3\]"):
            ga.vmap(lambda x: x, Along("i", 0))(gnp.asarray(X))
        with pytest.raises(TypeError, match=r"Along.* for the axis of float32\[2,3\]"):
            ga.vmap(lambda x: x, 0, Along("i", 0))(gnp.asarray(X))
        with pytest.raises(ValueError, match="mapped output"):
            ga.vmap(lambda x: x.data, Along("i", 0), None, axis_size=2)(Named("ij", X))
    # Nobody knows the class any more.
    with pytest.raises(TypeError, match="vmap in_axes must be an int"):
        ga.vmap(lambda x: x, Along("i", 0))(Named("ij", X))
