"""Carries of loops and results of branches that lie in several ways over an Explicit mesh."""

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax
from gpuarray.memory import Space
from gpuarray.sharding import PartitionSpec as P
from gpuarray.sharding import reshard

pytestmark = pytest.mark.devices

VALUES = np.arange(64, dtype="float32").reshape(8, 8)


@pytest.fixture(autouse=True)
def mesh():
    with ga.set_mesh(ga.make_mesh((4, 2), ("x", "y"))):
        yield


def turned(c):
    return reshard(c, P("y", None))


LOOPS = {
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "while_loop": lambda f: lambda x: lax.while_loop(lambda c: c.sum() < 0, f, x),
    "fori_loop": lambda f: lambda x: lax.fori_loop(0, 2, lambda i, c: f(c), x),
}
BRANCHES = {
    "cond": lambda f: lambda x: lax.cond(True, f, lambda c: c, x),
    "switch": lambda f: lambda x: lax.switch(1, [f, lambda c: c], x),
}


@pytest.mark.parametrize("name", [*LOOPS, *BRANCHES])
def test_cut_otherwise(name):
    """A TypeError that names both types, as in JAX."""
    x = ga.device_put(VALUES, P("x", None))
    message = (
        "(?s)must have equal types.*type float32.8@x,8. but the .* type float32.8@y,8."
        if name in LOOPS
        else "(?s)branches must have equal output types.*float32.8@y,8. but the .*float32.8@x,8."
    )
    f = (LOOPS | BRANCHES)[name](turned)
    for call in (f, ga.jit(f), ga.grad(lambda x: f(x).sum())):
        with pytest.raises(TypeError, match=message):
            call(x)


@pytest.mark.parametrize("name", [*LOOPS, *BRANCHES])
def test_in_another_memory(name):
    f = (LOOPS | BRANCHES)[name](lambda c: ga.device_put(c, Space.Host))
    with pytest.raises(TypeError, match="(?s)must have equal .*types.*float32<host>.8@x,8."):
        f(ga.device_put(VALUES, P("x", None)))


@pytest.mark.parametrize("name", [*LOOPS, *BRANCHES])
def test_one_that_is_whole_is_cut_as_the_other(name):
    f = (LOOPS | BRANCHES)[name](lambda c: reshard(c, P("x", None)))
    made = f(ga.device_put(VALUES, P(None, None)))
    assert made.sharding.spec == P("x", None)
    np.testing.assert_array_equal(made, VALUES)
