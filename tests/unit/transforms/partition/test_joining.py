"""Values joined along a cut axis: nothing is gathered, and the result stays cut."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as jnp
from gpuarray.sharding import NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.support.devices import mesh_of
from tests.unit.transforms.partition.test_split import normal, sent, split

pytestmark = pytest.mark.devices

CASES = {
    # Along axis 0, cut 4 times: how each is cut, and how many exchanges there are at most.
    "two": ([normal(8, 4), normal(8, 4)], [P("x")] * 2, 4),
    "three": ([normal(4, 4)] * 3, [P("x")] * 3, 9),
    "of other lengths": ([normal(16, 4), normal(8, 4)], [P("x"), P("x")], 9),
    "cut along both axes": ([normal(8, 4), normal(8, 4)], [P("x", "y")] * 2, 4),
    "cut along two axes of the mesh": ([normal(8, 4), normal(16, 4)], [P(("x", "y"))] * 2, 9),
    "one is whole": ([normal(8, 4), normal(16, 4)], [P("x"), P()], 3),
    "the first is whole": ([normal(8, 4), normal(8, 4)], [P(), P("x")], 2),
    "one is empty": ([normal(8, 4), normal(0, 4)], [P("x"), P("x")], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_pieces_change_devices(name):
    values, specs, most = CASES[name]
    fun = lambda *xs: jnp.concatenate(xs)
    found = sent(fun, values, specs)
    assert set(found) <= {"ppermute"} and sum(found.values()) <= most, found
    cut = next(s for s in specs if s.partitions)
    assert split(fun, values, specs)[0].outs[0][0] == tuple(np.atleast_1d(cut[0]))


def test_every_bit_stays():
    x = np.array([0.0, -0.0, np.inf, np.nan, -np.inf, 1.5, -0.0, 0.0], np.float32)
    laid = NamedSharding(mesh_of((4, 2)), P("x"))
    for value in (x, np.arange(8, dtype=np.int8), x > 0, x.astype(np.complex64)):
        found = jnp.concatenate([ga.device_put(value, laid), ga.device_put(value[::-1], laid)])
        assert found.sharding.spec == P("x")
        assert np.asarray(found).tobytes() == np.concatenate([value, value[::-1]]).tobytes()


def test_joined_values_have_derivatives():
    weights = normal(16)
    loss = lambda a, b: (jnp.concatenate([a, b]) * weights).sum()
    sent(ga.grad(loss, (0, 1)), [normal(8), normal(8)], [P("x")] * 2)


def test_what_is_rolled_outside_of_a_program_stays_cut():
    u = normal(16, 8)
    x = ga.device_put(u, NamedSharding(mesh_of((4, 2)), P("x", "y")))
    for shift, axis in ((3, 0), ((1, -2), (0, 1)), (-5, 1)):
        found = jnp.roll(x, shift, axis)
        assert found.sharding.spec == P("x", "y")
        np.testing.assert_array_equal(found, np.roll(u, shift, axis))
