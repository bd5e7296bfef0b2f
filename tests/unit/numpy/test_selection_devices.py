"""Results whose shapes depend on values lie on the device of the values, as in JAX 0.10.2."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.errors import ShardingTypeError

pytestmark = pytest.mark.devices

X = np.array([3, 0, 1, 3, 2, 0])
Y = np.array([1, 1, 2])
MASK = X > 1

CASES = {
    "nonzero": lambda x, y, m: gnp.nonzero(x),
    "flatnonzero": lambda x, y, m: gnp.flatnonzero(x),
    "argwhere": lambda x, y, m: gnp.argwhere(x),
    "where": lambda x, y, m: gnp.where(x),
    "compress": lambda x, y, m: gnp.compress(m, x),
    "extract": lambda x, y, m: gnp.extract(m, x),
    "unique": lambda x, y, m: gnp.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    ),
    "union1d": lambda x, y, m: gnp.union1d(x, y),
    "setdiff1d": lambda x, y, m: gnp.setdiff1d(x, y),
    "intersect1d": lambda x, y, m: gnp.intersect1d(x, y, return_indices=True),
    "setxor1d": lambda x, y, m: gnp.setxor1d(x, y),
    "bincount": lambda x, y, m: gnp.bincount(x),
    "histogram": lambda x, y, m: gnp.histogram(x, bins=3),
    "repeat": lambda x, y, m: gnp.repeat(x, x),
    "trim_zeros": lambda x, y, m: gnp.trim_zeros(x),
    "delete": lambda x, y, m: (gnp.delete(x, y), gnp.delete(x, m)),
    "mask": lambda x, y, m: x[m],
    "no element by a mask": lambda x, y, m: x[gnp.zeros(6, bool)],
    "no element by indices": lambda x, y, m: (x[np.array([], int)], gnp.take(x, y[:0])),
    "no element by a slice": lambda x, y, m: (x[6:], gnp.tile(x, 0)),
    "a row that is empty": lambda x, y, m: x.reshape(2, 3)[:, 3:][0],
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_where_the_values_are(name):
    device = ga.devices()[1]
    given = [ga.device_put(v, device) for v in (X, Y, MASK)]
    found = ga.tree.leaves(CASES[name](*given))
    for x, expected in zip(found, ga.tree.leaves(CASES[name](*map(gnp.asarray, (X, Y, MASK))))):
        assert x.devices() == {device} and x.committed
        np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("how", [lambda f: f, ga.jit])
@pytest.mark.parametrize("name", ["nonzero", "flatnonzero", "argwhere", "where", "unique"])
def test_positions_of_a_cut_array_are_refused_jitted_or_not(name, how):
    """Along Explicit axes what needs its operand whole is an error, as in JAX 0.10.2."""
    with ga.set_mesh(ga.make_mesh((8,), ("x",))):
        x = ga.device_put(np.arange(16) % 3, ga.P("x"))
        with pytest.raises(ShardingTypeError):
            how(lambda v: getattr(gnp, name)(v, size=16))(x)
        whole = ga.sharding.reshard(x, ga.P())
        found = ga.tree.leaves(how(lambda v: getattr(gnp, name)(v, size=16))(whole))
    for a, want in zip(found, ga.tree.leaves(getattr(gnp, name)(np.arange(16) % 3, size=16))):
        np.testing.assert_array_equal(a, want)
